package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
)

var lintAsOf = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// lints are changes to the base file, and the codes they bring.
var lints = []struct {
	name, old, replacement string
	codes                  []Code
}{
	{"as it is", "version: 3", "version: 3", nil},

	{"pattern of no tenant", "school-[0-9]+", "school/.*", []Code{PatternMatchesNothing}},
	{"pattern of a hidden folder", "school-[0-9]+", `\..*`, []Code{PatternMatchesNothing}},
	{"pattern longer than a tenant", "school-[0-9]+", "a{129}", []Code{PatternMatchesNothing}},
	{"pattern as long as a tenant", "school-[0-9]+", "a{128}", nil},
	{"pattern of nothing", "school-[0-9]+", "$^", []Code{PatternMatchesNothing}},
	{"pattern of an end before the end", "school-[0-9]+", "a$b", []Code{PatternMatchesNothing}},
	{"pattern of a word boundary inside a word", "school-[0-9]+", `a\bb`, []Code{PatternMatchesNothing}},
	{"pattern of a word boundary", "school-[0-9]+", `a\b-b`, nil},
	{"pattern of every tenant", "school-[0-9]+", ".*", nil},
	{"tenant outside the pattern", "keys: exports/{tenant}/csv/", "keys: exports/csv/\ntenant: acme", []Code{TenantOutsidePattern}},
	{"tenant inside the pattern", "keys: exports/{tenant}/csv/", "keys: exports/csv/\ntenant: school-4", nil},
	{"older than S3", "retention_days: 30", "retention_days: 7567", []Code{OlderThanS3}},
	{"as old as S3", "retention_days: 30", "retention_days: 7566", nil},

	{"one-letter root", "exports/{tenant}/csv/", "e/{tenant}/", []Code{ShortRoot}},
	{"two-letter root", "exports/{tenant}/csv/", "ex/{tenant}/", nil},
	{"top-level folder of one tenant", "keys: exports/{tenant}/csv/", "keys: exports/\ntenant: school-4", []Code{WholeFirstLevel}},
	{"share off", "0.25", "1", []Code{ShareOff}},
	{"share nearly off", "0.25", "0.9999", nil},
	{"objects at the ceiling", "max_objects: 18240\n  max_share: 0.25\n  max_growth: 2.5\n  max_rate: 1000\nobjective: 1h30m",
		"max_objects: 50000000\n  max_share: 0.25\n  max_growth: 2.5\n  max_rate: 50000\nobjective: 1h30m", []Code{ObjectsCeiling}},
	{"growth at the ceiling", "2.5", "100", []Code{GrowthCeiling}},
	{"growth below the ceiling", "2.5", "99.99", nil},

	{"one date of reports", "mode: enforce", "mode: enforce\nreport_only_dates: 1", []Code{FewReports}},
	{"two dates of reports", "mode: enforce", "mode: enforce\nreport_only_dates: 2", []Code{FewReports}},
	{"three dates of reports", "mode: enforce", "mode: enforce\nreport_only_dates: 3", nil},

	{"HP-10 catch-up of a time in Berlin's gap", "at: \"04:15\"", "at: \"02:30\"\n  catch_up: true", []Code{AtDoubled}},
	{"catch-up of a weekly schedule", "every: daily", "every: weekly\n  weekday: monday\n  catch_up: true", nil},
	{"catch-up of a daily schedule without a gap", "every: daily", "every: daily\n  catch_up: true", []Code{CatchUpUnneeded}},
	{"a time in Berlin's gap", `"04:15"`, `"02:30"`, []Code{AtSkipped, AtDoubled}},
	{"just before the gap", `"04:15"`, `"01:59"`, nil},
	{"just after the gap", `"04:15"`, `"03:00"`, nil},
	{"weekly on the day of the gap", "every: daily\n  at: \"04:15\"", "every: weekly\n  weekday: sunday\n  at: \"02:30\"", []Code{AtSkipped, AtDoubled}},
	{"weekly on another day", "every: daily\n  at: \"04:15\"", "every: weekly\n  weekday: monday\n  at: \"02:30\"", nil},
	{"New York's overlap", "at: \"04:15\"\n  zone: Europe/Berlin", "at: \"01:30\"\n  zone: America/New_York", []Code{AtDoubled}},
	{"New York's gap", "at: \"04:15\"\n  zone: Europe/Berlin", "at: \"02:30\"\n  zone: America/New_York", []Code{AtSkipped}},
	{"a zone without clock changes", "at: \"04:15\"\n  zone: Europe/Berlin", "at: \"02:30\"\n  zone: UTC", nil},
	{"a zone whose clocks change at midnight", "at: \"04:15\"\n  zone: Europe/Berlin", "at: \"00:00\"\n  zone: America/Havana", []Code{AtSkipped, AtDoubled}},
	{"one day, daily", "retention_days: 30", "retention_days: 1", []Code{RetentionNearPeriod}},
	{"two days, daily", "retention_days: 30", "retention_days: 2", nil},
	{"seven days, weekly", "retention_days: 30\nmode: enforce\nschedule:\n  every: daily", "retention_days: 7\nmode: enforce\nschedule:\n  every: weekly\n  weekday: monday", []Code{RetentionNearPeriod}},
	{"eight days, weekly", "retention_days: 30\nmode: enforce\nschedule:\n  every: daily", "retention_days: 8\nmode: enforce\nschedule:\n  every: weekly\n  weekday: monday", nil},
	{"objective that the rate can not meet", "max_rate: 1000\nobjective: 1h30m", "max_rate: 60\nobjective: 303s", []Code{ObjectiveUnmeetable}},
	{"objective that the rate just meets", "max_rate: 1000\nobjective: 1h30m", "max_rate: 60\nobjective: 304s", nil},
	{"objective below a resend", "objective: 1h30m", "objective: 299s", []Code{ObjectiveShort}},
	{"objective of a resend", "objective: 1h30m", "objective: 300s", nil},
}

func TestLint(t *testing.T) {
	var b strings.Builder
	seen := map[Code]bool{SameName: true, Overlap: true} // these come from LintAll
	for _, c := range lints {
		found := Lint(valid(t, with(t, c.old, c.replacement)), lintAsOf)
		var codes []Code
		b.WriteString("## " + c.name + "\n")
		for _, f := range found {
			codes = append(codes, f.Code)
			seen[f.Code] = true
			fmt.Fprintf(&b, "%s %s: %s\n", f.Code, f.Field, f.Text)
		}
		if !slices.Equal(codes, c.codes) {
			t.Errorf("%s: %v, want %v", c.name, codes, c.codes)
		}
	}
	for _, code := range Codes() {
		if !seen[code] {
			t.Errorf("nothing brings %s", code)
		}
	}
	golden(t, "lint.golden", b.String())
}

func TestLintLooksFromTheGivenInstant(t *testing.T) {
	p := valid(t, with(t, `"04:15"`, `"02:30"`))
	if text := Lint(p, lintAsOf)[0].Text; !strings.Contains(text, "2027-03-28, 2028-03-26") || strings.Contains(text, "2026") {
		t.Error(text)
	}
	if text := Lint(p, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))[0].Text; !strings.Contains(text, "2030-03-31, 2031-03-30") {
		t.Error(text)
	}
}

func TestLintAll(t *testing.T) {
	policy := func(name, keys, tenant, pattern string, days int) Policy {
		return Policy{Name: name, Region: "eu-central-1", Bucket: "b", Keys: keys, Tenant: tenant, TenantPattern: pattern, RetentionDays: days}
	}
	all := policy("all", "exports/{tenant}/", "", "", 90)
	elsewhere := policy("csv", "exports/{tenant}/csv/", "", "", 30)
	elsewhere.Bucket = "c"
	abroad := policy("csv", "exports/{tenant}/csv/", "", "", 30)
	abroad.Region = "us-east-1"
	for _, c := range []struct {
		name string
		b    Policy
		want string
	}{
		{"same template", policy("csv", "exports/{tenant}/", "", "", 30), "overlap deleted by csv after 30 days"},
		{"deeper, shorter", policy("csv", "exports/{tenant}/csv/", "", "", 30), "overlap deleted by csv after 30 days"},
		{"deeper, longer", policy("csv", "exports/{tenant}/csv/", "", "", 91), "overlap deleted by all after 90 days"},
		{"fixed tenant inside", policy("csv", "exports/acme/", "acme", "", 30), "overlap deleted by csv after 30 days"},
		{"everything above", policy("csv", "exports/", "acme", "", 30), "overlap deleted by csv after 30 days"},
		{"no tenant's name", policy("csv", "exports/.tmp/", "acme", "", 30), ""},
		{"next to it", policy("csv", "exports2/{tenant}/", "", "", 30), ""},
		{"another bucket", elsewhere, ""},
		{"another region", abroad, ""},
		{"same name", policy("all", "other/{tenant}/", "", "", 30), "same-name"},
	} {
		checkAll(t, c.name, []Policy{all, c.b}, c.want)
		if c.want == "" || strings.HasPrefix(c.want, "overlap") {
			checkAll(t, c.name+", the other way round", []Policy{c.b, all}, c.want)
		}
	}
	checkAll(t, "patterns apart", []Policy{policy("a", "e/{tenant}/", "", "school-.*", 1), policy("b", "e/{tenant}/", "", "uni-.*", 2)}, "")
	checkAll(t, "patterns that meet", []Policy{policy("a", "e/{tenant}/", "", "s.*-4", 1), policy("b", "e/{tenant}/", "", "school-.*", 2)}, "overlap deleted by a after 1 day")
	checkAll(t, "fixed tenant outside the pattern", []Policy{policy("a", "e/{tenant}/", "", "school-.*", 1), policy("b", "e/acme/", "acme", "", 2)}, "")
}

func checkAll(t *testing.T, name string, policies []Policy, want string) {
	t.Helper()
	found := LintAll(policies)
	code, text, _ := strings.Cut(want, " ")
	if want == "" && len(found) == 0 {
		return
	}
	if len(found) != 1 || string(found[0].Code) != code || !strings.Contains(found[0].Text, text) {
		t.Errorf("%s: %v, want %q", name, found, want)
	}
}

// What the search over automata says is what matching tenants says.
func TestCommonTenantAgreesWithMatching(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"a", "b", "-", ".", `\.`, "[ab]", "a*", "(?:a|bb)", "^", "$", `\b`, `\B`, "b?", "[^a]", "_", "a{2}", "/"})
	var tenants []string
	for _, first := range "ab" {
		tenants = append(tenants, string(first))
		for _, x := range "ab-._" {
			tenants = append(tenants, string(first)+string(x))
			for _, y := range "ab-._" {
				tenants = append(tenants, string(first)+string(x)+string(y))
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := strings.Join(rapid.SliceOfN(pieces, 0, 4).Draw(t, "a"), "")
		b := strings.Join(rapid.SliceOfN(pieces, 0, 3).Draw(t, "b"), "")
		left, right := regexp.MustCompile(`\A(?:`+a+`)\z`), regexp.MustCompile(`\A(?:`+b+`)\z`)
		got := commonTenant(a, b)
		for _, tenant := range tenants {
			if (a == "" || left.MatchString(tenant)) && (b == "" || right.MatchString(tenant)) && job.ValidTenant(tenant) && !got {
				t.Fatalf("%q matches both %q and %q", tenant, a, b)
			}
		}
		if got != commonTenant(b, a) {
			t.Fatalf("%q and %q: not the same both ways", a, b)
		}
	})
}

func TestResendPeriodIsTheContracts(t *testing.T) {
	if want := contract.Production().ReconcileEvery; resendPeriod != want {
		t.Errorf("%v, and reconcile runs every %v", resendPeriod, want)
	}
}
