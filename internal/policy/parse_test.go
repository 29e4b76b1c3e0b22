package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
)

// refusal is a change to the base file that must be refused. An empty old text
// stands for the whole file.
type refusal struct{ name, old, replacement string }

var refusals = []refusal{
	// The file as a whole.
	{"S10 empty file", "", ""},
	{"S10 only comments", "", "# nothing\n"},
	{"S10 only a document start", "", "---\n"},
	{"empty table", "", "{}\n"},
	{"a list", "", "- name: exports\n"},
	{"a word", "", "exports\n"},
	{"second document", "versions: current\n", "versions: current\n---\nname: other\n"},
	{"second document after an end", "versions: current\n", "versions: current\n...\nname: other\n"},
	{"empty second document", "versions: current\n", "versions: current\n---\n"},
	{"directive", "name: exports", "%YAML 1.1\n---\nname: exports"},
	{"not UTF-8", "acme-exports", "acme-\xff"},
	{"UTF-16", "", "\xff\xfen\x00a\x00m\x00e\x00"},
	{"NUL", "acme-exports", "acme\x00"},
	{"lone carriage return", "version: 3\n", "version: 3\r"},
	{"text direction mark", "name: exports", "name: exports # \u202ereversed"},
	{"byte order mark inside", "name: exports", "name: exports # \ufeff"},
	{"line separator", "name: exports", "name: exports # a\u2028version: 4"},
	{"huge", "", strings.Repeat("# policy\n", MaxFileBytes)},
	{"one byte too many", "", base + "#" + strings.Repeat("x", MaxFileBytes-len(base))},
	{"deep flow", "", "name: " + strings.Repeat("[", 9)},
	{"deep table", "", "name: " + strings.Repeat("{a: ", 9)},
	{"unclosed", "exports/{tenant}/csv/", "[exports"},
	{"unclosed quote", `"04:15"`, `"04:15`},
	{"tab as indent", "  every", "\tevery"},
	{"wrong indent", "version: 3", " version: 3"},
	{"two values", "name: exports", "name: 'a' 'b'"},

	// Keys.
	{"unknown key", "retention_days: 30", "retention_days: 30\nretention: 7"},
	{"unknown nested key", "max_rate: 1000", "max_rate: 1000\n  max_size: 3"},
	{"key in another case", "mode:", "Mode:"},
	{"key with a blank", "mode:", `"mode ":`},
	{"empty key", "mode:", `"":`},
	{"number as key", "mode: enforce", "mode: enforce\n7: x"},
	{"explicit key", "mode: enforce", "? mode\n: enforce"},
	{"repeated key", "mode: enforce", "mode: report-only\nmode: enforce"},
	{"repeated key with the same value", "retention_days: 30", "retention_days: 30\nretention_days: 30"},
	{"repeated nested key", `at: "04:15"`, "at: \"04:15\"\n  at: \"05:15\""},
	{"repeated key in quotes", "mode: enforce", "mode: report-only\n\"mode\": enforce"},
	{"merge key", "limits:\n", "limits:\n  <<: {max_share: 1}\n"},
	{"merge key of an alias", "schedule:\n", "schedule: &s\n  <<: *s\n"},
	{"anchor", "name: exports", "name: &n exports"},
	{"alias", "name: exports", "name: *n"},
	{"anchor on a key", "name: exports", "&n name: exports"},
	{"anchored table", "limits:\n", "limits: &l\n"},
	{"tag", "retention_days: 30", "retention_days: !!int 30"},
	{"tagged table", "limits:\n", "limits: !!map\n"},
	{"text block", "name: exports", "name: |\n  exports"},

	// HP-04 and the other values of retention.
	{"HP-04 zero", "retention_days: 30", "retention_days: 0"},
	{"HP-04 minus one", "retention_days: 30", "retention_days: -1"},
	{"HP-04 minus zero", "retention_days: 30", "retention_days: -0"},
	{"HP-04 null", "retention_days: 30", "retention_days: null"},
	{"HP-04 tilde", "retention_days: 30", "retention_days: ~"},
	{"HP-04 blank", "retention_days: 30", "retention_days:"},
	{"HP-04 absent", "retention_days: 30\n", ""},
	{"HP-04 text", "retention_days: 30", `retention_days: "30"`},
	{"HP-04 text in single quotes", "retention_days: 30", "retention_days: '30'"},
	{"HP-04 fraction", "retention_days: 30", "retention_days: 1.5"},
	{"HP-04 whole fraction", "retention_days: 30", "retention_days: 30.0"},
	{"HP-04 exponent", "retention_days: 30", "retention_days: 1e12"},
	{"HP-04 small exponent", "retention_days: 30", "retention_days: 3e1"},
	{"HP-04 over the ceiling", "retention_days: 30", "retention_days: 36501"},
	{"HP-04 over 64 bits", "retention_days: 30", "retention_days: 99999999999999999999"},
	{"HP-04 octal", "retention_days: 30", "retention_days: 030"},
	{"HP-04 hexadecimal", "retention_days: 30", "retention_days: 0x1e"},
	{"HP-04 underscore", "retention_days: 30", "retention_days: 3_0"},
	{"HP-04 plus", "retention_days: 30", "retention_days: +30"},
	{"HP-04 infinite", "retention_days: 30", "retention_days: .inf"},
	{"HP-04 true", "retention_days: 30", "retention_days: true"},
	{"HP-04 a list", "retention_days: 30", "retention_days: [30]"},
	{"HP-04 a table", "retention_days: 30", "retention_days: {days: 30}"},
	{"HP-04 with a unit", "retention_days: 30", "retention_days: 30d"},
	{"HP-08 no default retention, mode or schedule", "", "name: a\nversion: 1\nregion: eu-west-1\nbucket: abc\nkeys: a/{tenant}/\n"},

	// Names and places.
	{"name missing", "name: exports\n", ""},
	{"name empty", "name: exports", `name: ""`},
	{"name in capitals", "name: exports", "name: Exports"},
	{"name starts with a digit", "name: exports", "name: 1exports"},
	{"name ends with a hyphen", "name: exports", "name: exports-"},
	{"name too long", "name: exports", "name: " + strings.Repeat("a", 49)},
	{"name is a number", "name: exports", "name: 12"},
	{"name is a truth value", "name: exports", "name: true"},
	{"name with an escape", "name: exports", `name: "exports\n"`},
	{"version zero", "version: 3", "version: 0"},
	{"version minus one", "version: 3", "version: -1"},
	{"version text", "version: 3", "version: v3"},
	{"version over the ceiling", "version: 3", "version: 1000001"},
	{"region is no code", "region: eu-central-1", "region: eu"},
	{"region with a zone letter", "region: eu-central-1", "region: eu-central-1a"},
	{"region in capitals", "region: eu-central-1", "region: EU-central-1"},
	{"region too long", "region: eu-central-1", "region: eu-" + strings.Repeat("c", 28) + "-1"},
	{"bucket too short", "acme-exports", "ab"},
	{"bucket too long", "acme-exports", strings.Repeat("a", 64)},
	{"bucket in capitals", "acme-exports", "Acme"},
	{"bucket underscore", "acme-exports", "acme_exports"},
	{"bucket two dots", "acme-exports", "acme..exports"},
	{"bucket ends with a dot", "acme-exports", "acme."},
	{"bucket is an ARN", "acme-exports", "arn:aws:s3:::acme"},
	{"bucket is an address", "acme-exports", "192.168.5.4"},
	{"bucket reserved prefix", "acme-exports", "xn--acme"},
	{"bucket is a documentation name", "acme-exports", "amzn-s3-demo-bucket"},
	{"bucket is a directory bucket", "acme-exports", "acme--use1-az4--x-s3"},
	{"bucket is an access point alias", "acme-exports", "acme-s3alias"},

	// Key templates.
	{"S10 empty keys", "exports/{tenant}/csv/", `""`},
	{"S10 root", "exports/{tenant}/csv/", "/"},
	{"S10 only the tenant", "exports/{tenant}/csv/", `"{tenant}/"`},
	{"S10 keys missing", "keys: exports/{tenant}/csv/\n", ""},
	{"keys leading slash", "exports/{tenant}/csv/", "/exports/{tenant}/"},
	{"S3-10 no trailing slash", "keys: exports/{tenant}/csv/\ntenant_pattern: school-[0-9]+", "keys: exports/school-4\ntenant: school-4"},
	{"S3-10 no separator after the tenant", "exports/{tenant}/csv/", "exports/{tenant}"},
	{"S3-10 text after the tenant", "exports/{tenant}/csv/", "exports/{tenant}-csv/"},
	{"keys text before the tenant", "exports/{tenant}/csv/", "exports/t-{tenant}/"},
	{"keys tenant twice", "exports/{tenant}/csv/", "exports/{tenant}/{tenant}/"},
	{"keys tenant twice in a segment", "exports/{tenant}/csv/", "exports/{tenant}{tenant}/"},
	{"keys another placeholder", "exports/{tenant}/csv/", "exports/{tenant}/{date}/"},
	{"keys placeholder in capitals", "exports/{tenant}/csv/", "exports/{Tenant}/"},
	{"keys open brace", "exports/{tenant}/csv/", "exports/{tenant/"},
	{"keys empty segment", "exports/{tenant}/csv/", "exports//{tenant}/"},
	{"keys empty last segment", "exports/{tenant}/csv/", "exports/{tenant}//"},
	{"keys dot", "exports/{tenant}/csv/", "exports/./{tenant}/"},
	{"keys dots", "exports/{tenant}/csv/", "exports/{tenant}/../"},
	{"keys star", "exports/{tenant}/csv/", "exports*/{tenant}/"},
	{"keys question mark", "exports/{tenant}/csv/", "export?/{tenant}/"},
	{"keys IAM variable", "exports/{tenant}/csv/", "exports$/{tenant}/"},
	{"keys bracket", "exports/{tenant}/csv/", "exports[a]/{tenant}/"},
	{"keys backslash", "exports/{tenant}/csv/", `exports\/{tenant}/`},
	{"keys blank", "exports/{tenant}/csv/", "old exports/{tenant}/"},
	{"keys control character", "exports/{tenant}/csv/", `"exports\u0001/{tenant}/"`},
	{"S3-12 keys beyond ASCII", "exports/{tenant}/csv/", "caf\u00e9/{tenant}/"},
	{"keys too long", "exports/{tenant}/csv/", strings.Repeat("a", 503) + "/{tenant}/"},
	{"keys a table", "exports/{tenant}/csv/", "{tenant: x}"},
	{"keys a bucket address", "exports/{tenant}/csv/", "s3://acme/exports/{tenant}/"},

	// Tenants.
	{"S5 fixed tenant beside the placeholder", "tenant_pattern: school-[0-9]+", "tenant: school-4"},
	{"S5 neither tenant nor placeholder", "exports/{tenant}/csv/", "exports/csv/"},
	{"S5 tenant dot", "keys: exports/{tenant}/csv/\ntenant_pattern: school-[0-9]+", "keys: exports/\ntenant: ."},
	{"S5 tenant dots", "keys: exports/{tenant}/csv/\ntenant_pattern: school-[0-9]+", "keys: exports/\ntenant: .."},
	{"S5 tenant with a slash", "keys: exports/{tenant}/csv/\ntenant_pattern: school-[0-9]+", "keys: exports/\ntenant: -/"},
	{"S5 tenant empty", "keys: exports/{tenant}/csv/\ntenant_pattern: school-[0-9]+", "keys: exports/\ntenant: ''"},
	{"S5 tenant too long", "keys: exports/{tenant}/csv/\ntenant_pattern: school-[0-9]+", "keys: exports/\ntenant: " + strings.Repeat("a", 129)},
	{"S5 tenant beyond ASCII", "keys: exports/{tenant}/csv/\ntenant_pattern: school-[0-9]+", "keys: exports/\ntenant: \u00e9cole"},
	{"pattern does not compile", "school-[0-9]+", "school-["},
	{"pattern closes a group it did not open", "school-[0-9]+", "a)|(b"},
	{"pattern that would swallow the end", "school-[0-9]+", `\Qschool`},
	{"pattern empty", "school-[0-9]+", `""`},
	{"pattern too long", "school-[0-9]+", strings.Repeat("a", 257)},
	{"pattern beyond ASCII", "school-[0-9]+", "\u00e9cole-.*"},
	{"pattern with a hidden mark", "school-[0-9]+", `"\u202eschool"`},
	{"pattern with a look-ahead", "school-[0-9]+", `"(?!school).*"`},

	// Mode, versions, urgent, objective.
	{"mode missing", "mode: enforce\n", ""},
	{"mode unknown", "mode: enforce", "mode: delete"},
	{"mode in capitals", "mode: enforce", "mode: Enforce"},
	{"mode blank", "mode: enforce", "mode:"},
	{"R137 dates zero", "mode: enforce", "mode: enforce\nreport_only_dates: 0"},
	{"R137 dates minus zero", "mode: enforce", "mode: enforce\nreport_only_dates: -0"},
	{"R137 dates minus one", "mode: enforce", "mode: enforce\nreport_only_dates: -1"},
	{"R137 dates over the ceiling", "mode: enforce", "mode: enforce\nreport_only_dates: 31"},
	{"R137 dates blank", "mode: enforce", "mode: enforce\nreport_only_dates:"},
	{"R137 dates false", "mode: enforce", "mode: enforce\nreport_only_dates: false"},
	{"R137 dates text", "mode: enforce", "mode: enforce\nreport_only_dates: none"},
	{"R137 dates fraction", "mode: enforce", "mode: enforce\nreport_only_dates: 2.5"},
	{"R137 dates twice", "mode: enforce", "mode: enforce\nreport_only_dates: 3\nreport_only_dates: 1"},
	{"versions unknown", "versions: current", "versions: noncurrent"},
	{"versions a truth value", "versions: current", "versions: true"},
	{"urgent yes", "urgent: true", "urgent: yes"},
	{"urgent text", "urgent: true", `urgent: "true"`},
	{"urgent blank", "urgent: true", "urgent:"},
	{"objective number", "objective: 1h30m", "objective: 90"},
	{"objective zero", "objective: 1h30m", "objective: 0s"},
	{"objective below a minute", "objective: 1h30m", "objective: 59s"},
	{"objective over a week", "objective: 1h30m", "objective: 168h1s"},
	{"objective in days", "objective: 1h30m", "objective: 2d"},
	{"objective fraction", "objective: 1h30m", "objective: 1.5h"},
	{"objective milliseconds", "objective: 1h30m", "objective: 90000ms"},
	{"objective negative", "objective: 1h30m", "objective: -15m"},
	{"objective out of order", "objective: 1h30m", "objective: 30m1h"},
	{"objective empty", "objective: 1h30m", "objective: ''"},

	// Schedules.
	{"schedule missing", "schedule:\n  every: daily\n  at: \"04:15\"\n  zone: Europe/Berlin\n", ""},
	{"schedule is a cron expression", "schedule:\n  every: daily\n  at: \"04:15\"\n  zone: Europe/Berlin\n", "schedule: cron(15 4 * * ? *)\n"},
	{"schedule empty", "schedule:\n  every: daily\n  at: \"04:15\"\n  zone: Europe/Berlin\n", "schedule: {}\n"},
	{"schedule hourly", "every: daily", "every: hourly"},
	{"schedule weekly without a day", "every: daily", "every: weekly"},
	{"schedule weekly on no day", "every: daily", "every: weekly\n  weekday: Monday"},
	{"schedule daily with a day", "every: daily", "every: daily\n  weekday: monday"},
	{"schedule hour 24", `"04:15"`, `"24:00"`},
	{"schedule minute 60", `"04:15"`, `"04:60"`},
	{"schedule one digit", `"04:15"`, `"4:15"`},
	{"schedule with seconds", `"04:15"`, `"04:15:00"`},
	{"schedule a number", `"04:15"`, "415"},
	{"schedule a point", `"04:15"`, "04.15"},
	{"schedule letters", `"04:15"`, `"ab:cd"`},
	{"HP-06 zone of the host", "Europe/Berlin", "Local"},
	{"HP-06 zone empty", "Europe/Berlin", `""`},
	{"HP-06 zone in another case", "Europe/Berlin", "europe/berlin"},
	{"HP-06 zone unknown", "Europe/Berlin", "Europe/Atlantis"},
	{"HP-06 zone folder", "Europe/Berlin", "Europe/"},
	{"HP-06 zone path", "Europe/Berlin", "../Europe/Berlin"},
	{"HP-06 zone missing", "  zone: Europe/Berlin\n", ""},

	{"HP-10 catch_up blank", "every: daily", "every: daily\n  catch_up:"},
	{"HP-10 catch_up yes", "every: daily", "every: daily\n  catch_up: yes"},
	{"HP-10 catch_up a number", "every: daily", "every: daily\n  catch_up: 1"},
	{"HP-10 catch_up beside the schedule", "mode: enforce", "mode: enforce\ncatch_up: true"},

	// Limits.
	{"S9 limits blank", "limits:\n  max_objects: 18240\n  max_share: 0.25\n  max_growth: 2.5\n  max_rate: 1000\n", "limits:\n"},
	{"S9 limits a number", "limits:\n  max_objects: 18240\n  max_share: 0.25\n  max_growth: 2.5\n  max_rate: 1000\n", "limits: 5\n"},
	{"S9 objects zero", "18240", "0"},
	{"S9 objects over the ceiling", "18240", "50000001"},
	{"S9 objects minus one", "18240", "-1"},
	{"S9 objects text", "18240", "unlimited"},
	{"S9 objects blank", "18240", ""},
	{"S9 share zero", "0.25", "0"},
	{"S9 share over one", "0.25", "1.0001"},
	{"S9 share percent", "0.25", "25%"},
	{"S9 share five decimals", "0.25", "0.25001"},
	{"S9 share negative", "0.25", "-0.25"},
	{"S9 share not a number", "0.25", ".nan"},
	{"S9 share infinite", "0.25", ".inf"},
	{"S9 share without a zero", "0.25", ".25"},
	{"S9 share text", "0.25", `"0.25"`},
	{"S9 growth below one", "2.5", "0.99"},
	{"S9 growth over the ceiling", "2.5", "100.01"},
	{"S9 growth three decimals", "2.5", "2.505"},
	{"S9 growth exponent", "2.5", "1e9"},
	{"S9 growth out of range", "2.5", strings.Repeat("9", 400)},
	{"S9 rate zero", "1000", "0"},
	{"S9 rate over the ceiling", "1000", "50001"},

	// All at once, in the order of the file.
	{"many problems", "", "version: \"1\"\nname: A\nretention_days: 0\nlimits: {max_share: 7, max_rate: x}\n" +
		"schedule:\n  zone: Local\n  every: weekly\nkeys: exports/{tenant}\nmood: enforce\nretention_days: 30\n"},
	{"columns count characters", "", "{name: \"\u00e9\u00e9\", version: x}\n"},
}

func TestParseRefusesWithPlaceAndReason(t *testing.T) {
	var b strings.Builder
	for _, r := range refusals {
		text := r.replacement
		if r.old != "" {
			text = with(t, r.old, r.replacement)
		}
		p, err := Parse("exports.yaml", []byte(text))
		b.WriteString("## " + r.name + "\n")
		if err == nil {
			t.Errorf("%s: accepted as %s", r.name, p.Canonical())
			continue
		}
		b.WriteString(err.Error() + "\n")
		if !p.Equal(Policy{}) {
			t.Errorf("%s: a refused file still gave a policy", r.name)
		}
		if !failure.Is(err, failure.Invalid) {
			t.Errorf("%s: class %q", r.name, failure.Of(err))
		}
		list, ok := errors.AsType[*Error](err)
		if !ok || list.File != "exports.yaml" || len(list.Problems) == 0 {
			t.Fatalf("%s: no list of problems: %#v", r.name, err)
		}
		for _, problem := range list.Problems {
			if problem.Line < 1 || problem.Column < 1 || !strings.Contains(problem.Text, "allowed") && !strings.HasPrefix(problem.Text, "not YAML") {
				t.Errorf("%s: a problem without its place or what is allowed: %+v", r.name, problem)
			}
		}
	}
	golden(t, "refusals.golden", b.String())
}

func TestParseReadsEveryKey(t *testing.T) {
	p := valid(t, base)
	want := Policy{
		Name: "exports", Version: 3, Region: "eu-central-1", Bucket: "acme-exports",
		Keys: "exports/{tenant}/csv/", TenantPattern: "school-[0-9]+",
		RetentionDays: 30, Mode: "enforce",
		Schedule:  Schedule{Every: Daily, At: "04:15", Zone: "Europe/Berlin"},
		Limits:    Limits{MaxObjects: 18240, MaxShare: 0.25, MaxGrowth: 2.5, MaxRate: 1000},
		Objective: 90 * time.Minute, Urgent: true, Versions: CurrentVersions,
	}
	if !p.Equal(want) {
		t.Errorf("got  %s\nwant %s", p.Canonical(), want.Canonical())
	}
	p = valid(t, with(t, "mode: enforce\nschedule:", "mode: enforce\nreport_only_dates: 5\nschedule:\n  catch_up: true"))
	want.ReportOnlyDates, want.Schedule.CatchUp = 5, true
	if !p.Equal(want) {
		t.Errorf("got  %s\nwant %s", p.Canonical(), want.Canonical())
	}
}

func TestR137ReportOnlyDatesNeeded(t *testing.T) {
	for text, want := range map[string]int{
		"":                       DefaultReportOnlyDates,
		"report_only_dates: 1":   1,
		"report_only_dates: 3":   3,
		"report_only_dates: 30":  MaxReportOnlyDates,
		"report_only_dates: 12 ": 12,
	} {
		if got := valid(t, base+text).ReportOnlyDatesNeeded(); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
	if got := (Policy{}).ReportOnlyDatesNeeded(); got != 3 {
		t.Errorf("a policy that says nothing needs %d", got)
	}
}

func TestParseFillsInDefaults(t *testing.T) {
	p := valid(t, `
name: exports
version: 1
region: us-gov-west-1
bucket: acme.exports
keys: exports/
tenant: acme-eu
retention_days: 1
mode: report-only
schedule: {every: weekly, weekday: sunday, at: 23:59, zone: UTC}
limits: {}
`)
	want := Policy{
		Name: "exports", Version: 1, Region: "us-gov-west-1", Bucket: "acme.exports",
		Keys: "exports/", Tenant: "acme-eu", RetentionDays: 1, Mode: "report-only",
		Schedule:  Schedule{Every: Weekly, Weekday: "sunday", At: "23:59", Zone: "UTC"},
		Limits:    Limits{MaxObjects: 100_000, MaxShare: 0.5, MaxGrowth: 3, MaxRate: 3_000},
		Objective: 15 * time.Minute, Versions: CurrentVersions,
	}
	if !p.Equal(want) {
		t.Errorf("got  %s\nwant %s", p.Canonical(), want.Canonical())
	}
}

// accepted are changes to the base file at the very edge of what is allowed.
var accepted = []refusal{
	{"as it is", "version: 3", "version: 3"},
	{"retention floor", "retention_days: 30", "retention_days: 1"},
	{"retention ceiling", "retention_days: 30", "retention_days: 36500"},
	{"shortest name", "name: exports", "name: e"},
	{"longest name", "name: exports", "name: " + strings.Repeat("e", 48)},
	{"name with digits", "name: exports", "name: e-2-3"},
	{"first version", "version: 3", "version: 1"},
	{"last version", "version: 3", "version: 1000000"},
	{"sovereign region", "eu-central-1", "eusc-de-east-1"},
	{"longest region", "eu-central-1", "eu-" + strings.Repeat("c", 27) + "-1"},
	{"longest bucket", "acme-exports", strings.Repeat("a", 63)},
	{"shortest bucket", "acme-exports", "a-1"},
	{"tenant last", "exports/{tenant}/csv/", "exports/{tenant}/"},
	{"every symbol", "exports/{tenant}/csv/", `"a!-_.'()&@=;:+,z/{tenant}/"`},
	{"hidden folder", "exports/{tenant}/csv/", ".tmp/..a/{tenant}/..." + "/"},
	{"longest keys", "exports/{tenant}/csv/", strings.Repeat("a", 502) + "/{tenant}/"},
	{"longest pattern", "school-[0-9]+", strings.Repeat("a", 256)},
	{"no pattern", "tenant_pattern: school-[0-9]+\n", ""},
	{"objects floor", "18240", "1"},
	{"objects ceiling", "18240", "50000000"},
	{"share floor", "0.25", "0.0001"},
	{"share ceiling", "0.25", "1"},
	{"share that binary can not hold", "0.25", "0.2901"},
	{"growth floor", "2.5", "1"},
	{"growth ceiling", "2.5", "100"},
	{"growth decimals", "2.5", "1.01"},
	{"rate floor", "1000", "1"},
	{"rate ceiling", "1000", "50000"},
	{"objective floor", "objective: 1h30m", "objective: 1m"},
	{"objective ceiling", "objective: 1h30m", "objective: 168h0m0s"},
	{"objective in seconds", "objective: 1h30m", "objective: 61s"},
	{"midnight", `"04:15"`, `"00:00"`},
	{"last minute", `"04:15"`, "23:59"},
	{"weekly", "every: daily", "every: weekly\n  weekday: wednesday"},
	{"all versions", "versions: current", "versions: all"},
	{"not urgent", "urgent: true", "urgent: false"},
	{"report-only", "mode: enforce", "mode: report-only"},
	{"one date of reports", "mode: enforce", "mode: enforce\nreport_only_dates: 1"},
	{"the usual dates of reports", "mode: enforce", "mode: enforce\nreport_only_dates: 3"},
	{"most dates of reports", "mode: enforce", "mode: enforce\nreport_only_dates: 30"},
	{"catch up", "every: daily", "every: daily\n  catch_up: true"},
	{"no catch up", "every: daily", "every: daily\n  catch_up: false"},
	{"single quotes", "name: exports", "'name': 'exports'"},
	{"document start and end", "name: exports", "---\nname: exports"},
	{"three-part zone", "Europe/Berlin", "America/Argentina/Buenos_Aires"},
	{"fixed tenant", "keys: exports/{tenant}/csv/", "keys: exports/csv/\ntenant: school-4"},
}

func TestParseAcceptsTheEdges(t *testing.T) {
	for _, c := range accepted {
		if _, err := Parse("exports.yaml", []byte(with(t, c.old, c.replacement))); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestParseReadsWhatEditorsWrite(t *testing.T) {
	want := valid(t, base)
	for name, text := range map[string]string{
		"byte order mark": "\ufeff" + base,
		"CRLF":            strings.ReplaceAll(base, "\n", "\r\n"),
		"both":            "\ufeff" + strings.ReplaceAll(base, "\n", "\r\n"),
		"no last newline": strings.TrimSuffix(base, "\n"),
		"document end":    base + "...\n",
		"blank lines":     "\n\n" + base + "\n\n",
		"as large as may": base + "#" + strings.Repeat("x", MaxFileBytes-len(base)-1),
	} {
		if p, err := Parse("x.yaml", []byte(text)); err != nil || !p.Equal(want) {
			t.Errorf("%s: %v %v", name, p, err)
		}
	}
}

func TestParseKeepsThePlaceUnderCRLF(t *testing.T) {
	text := strings.ReplaceAll(with(t, "retention_days: 30", "retention_days: 0"), "\n", "\r\n")
	_, err := Parse("x.yaml", []byte("\ufeff"+text))
	if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:7:17: retention_days: is 0") {
		t.Error(err)
	}
}

// A file that makes the YAML parser slow must not slow down a function's start.
func TestParseIsQuickOnHostileFiles(t *testing.T) {
	for _, piece := range []string{strings.Repeat("]", 5000) + strings.Repeat("[", 5000), "[", "{a: ", "- ", "? ", "&a ", "*a ", "!x ", "a:\n", "{", "'", "\"\\", "|\n ", "a: b\n", ": ", "]"} {
		text := []byte(strings.Repeat(piece, MaxFileBytes/len(piece)))
		start := time.Now()
		if _, err := Parse("x.yaml", text); err == nil {
			t.Errorf("%q repeated: accepted", piece)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q repeated took %v", piece, took)
		}
	}
}

func TestShippedPoliciesAreValidAndOnlyReport(t *testing.T) {
	files, err := filepath.Glob("../../infra/policies/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var all []Policy
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(file, data)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(file), ".yaml"); p.Name != want {
			t.Errorf("%s: name %q, want that of the file", file, p.Name)
		}
		if p.Mode != "report-only" {
			t.Errorf("%s: mode %s: what is copied first must not delete", file, p.Mode)
		}
		if found := Lint(p, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)); len(found) > 0 {
			t.Errorf("%s: %v", file, found)
		}
		all = append(all, p)
	}
	if found := LintAll(all); len(found) > 0 {
		t.Error(found)
	}
}
