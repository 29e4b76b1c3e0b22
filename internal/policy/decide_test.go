package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// Each file of testdata/decide is a policy, a cutoff, holds and items; its last
// part says what becomes of each item, and why.
func TestDecideGivesEveryItemAReason(t *testing.T) {
	files, err := filepath.Glob("testdata/decide/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	seen := map[Reason]bool{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := map[string]string{}
		for _, f := range archive.Files {
			parts[f.Name] = string(f.Data)
		}
		p := valid(t, parts["policy"])
		facts := Facts{Policy: &p, Cutoff: moment(t, strings.TrimSpace(parts["cutoff"])), Holds: holds(t, parts["holds"])}
		var b strings.Builder
		for line := range strings.Lines(parts["items"]) {
			if strings.HasPrefix(line, "#") {
				b.WriteString(line)
				continue
			}
			facts.Tenant, facts.Item = item(t, line)
			d := Decide(facts)
			seen[d.Reason] = true
			check(t, facts, d)
			fmt.Fprintf(&b, "%s: %s\n", strings.TrimSpace(line), describe(d))
		}
		if *update {
			archive.Files = append(archive.Files[:4], txtar.File{Name: "decisions", Data: []byte(b.String())})
			if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if b.String() != parts["decisions"] {
			t.Errorf("%s differs; -update rewrites it\ngot:\n%s\nwant:\n%s", file, b.String(), parts["decisions"])
		}
	}
	for _, reason := range DecisionReasons() {
		if !seen[reason] && reason != NoPolicy {
			t.Errorf("no item shows the reason %s", reason)
		}
	}
}

func describe(d Decision) string {
	words := []string{"kept"}
	if d.Delete {
		words[0] = "deleted"
	}
	words = append(words, string(d.Reason))
	if d.HoldID != "" {
		words = append(words, d.HoldID)
	}
	if d.Candidate {
		words = append(words, "candidate")
	}
	if d.Outcome != job.NoOutcome {
		words = append(words, d.Outcome.String())
	}
	return strings.Join(words, " ")
}

// check holds a decision against what must be true of all of them.
func check(t interface{ Errorf(string, ...any) }, f Facts, d Decision) {
	fault := ""
	switch {
	case d.Reason == "":
		fault = "no reason"
	case d.Delete != (d.Reason == Expired):
		fault = "deletes for another reason than being expired"
	case d.Delete && (d.Outcome != job.NoOutcome || !d.Candidate):
		fault = "a delete has its outcome before the store answered, or is no candidate"
	case d.Candidate && !d.Delete && d.Outcome != job.Held && d.Outcome != job.Retained:
		fault = "a candidate that is kept has no outcome"
	case !d.Candidate && d.Outcome != job.NoOutcome:
		fault = "what is no candidate has an outcome"
	case (d.HoldID != "") != (d.Outcome == job.Held):
		fault = "a hold is named without being held, or the other way round"
	case d.Candidate && (f.Cutoff.IsZero() || f.Item.Modified.IsZero() || !f.Item.Modified.Before(f.Cutoff)):
		fault = "S1: a candidate is not older than the cutoff"
	case d.Candidate && !f.Policy.Contains(f.Tenant, f.Item.Key):
		fault = "S5: a candidate is outside its tenant"
	}
	if fault != "" {
		t.Errorf("%s: %+v of %+v", fault, d, f)
	}
}

func moment(t *testing.T, s string) time.Time {
	if s == "-" {
		return time.Time{}
	}
	return instant(t, s)
}

func holds(t *testing.T, text string) hold.Set {
	var set hold.Set
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		h := hold.Hold{ID: w[0], Tenant: w[1], Scope: hold.Scope(w[2])}
		if len(w) > 3 {
			h.Value = w[3]
		}
		if len(w) > 4 {
			h.ReleasedAt = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		}
		set = append(set, h)
	}
	return set
}

func item(t *testing.T, line string) (tenant string, i job.Item) {
	w := strings.Fields(line)
	if len(w) < 3 {
		t.Fatalf("malformed item %q", line)
	}
	if tenant = w[0]; tenant == "-" {
		tenant = ""
	}
	i = job.Item{Key: w[1], Modified: moment(t, w[2])}
	for _, word := range w[3:] {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "etag":
			i.ETag = value
		case "version":
			i.Version = value
		case "marker":
			i.Marker = true
		default:
			t.Fatalf("malformed item %q", line)
		}
	}
	return tenant, i
}

// S10: whatever the item, what is no policy deletes nothing.
func TestS10DecideWithoutAPolicyKeepsEverything(t *testing.T) {
	good := Policy{Keys: "e/{tenant}/", RetentionDays: 30}
	facts := Facts{Policy: &good, Tenant: "a", Cutoff: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		Item: job.Item{Key: "e/a/x", ETag: "1", Modified: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}}
	if d := Decide(facts); !d.Delete {
		t.Fatalf("the facts this test starts from: %+v", d)
	}
	for name, p := range map[string]*Policy{
		"no policy":              nil,
		"zero value":             {},
		"no keys":                {RetentionDays: 30},
		"keys without a slash":   {Keys: "e", Tenant: "a", RetentionDays: 30},
		"keys of no tenant":      {Keys: "e/", RetentionDays: 30},
		"root":                   {Keys: "{tenant}/", RetentionDays: 30},
		"HP-04 no retention":     {Keys: "e/{tenant}/"},
		"HP-04 minus one":        {Keys: "e/{tenant}/", RetentionDays: -1},
		"HP-04 over the ceiling": {Keys: "e/{tenant}/", RetentionDays: 36_501},
	} {
		f := facts
		f.Policy = p
		if d := Decide(f); d != (Decision{Reason: NoPolicy}) {
			t.Errorf("%s: %+v", name, d)
		}
	}
	for _, days := range []int{MinRetentionDays, MaxRetentionDays} {
		f := facts
		f.Policy = &Policy{Keys: "e/{tenant}/", RetentionDays: days}
		if d := Decide(f); !d.Delete {
			t.Errorf("%d days, an allowed retention: %+v", days, d)
		}
	}
	if d := Decide(Facts{}); d != (Decision{Reason: NoPolicy}) {
		t.Errorf("no facts: %+v", d)
	}
}

// The same facts give the same decision, and a hold only ever turns a delete
// into a retain (ruling C8).
func TestS1DecideIsPureAndHoldsOnlyProtect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := template(t)
		p.RetentionDays = rapid.IntRange(0, 2).Draw(t, "days")
		p.Versions = rapid.SampledFrom([]Versions{CurrentVersions, AllVersions}).Draw(t, "versions")
		base := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		owner := nastyTenant().Draw(t, "owner")
		f := Facts{
			Policy: &p,
			Tenant: rapid.OneOf(rapid.Just(owner), nastyTenant()).Draw(t, "tenant"),
			Cutoff: rapid.SampledFrom([]time.Time{{}, base}).Draw(t, "cutoff"),
			Item: job.Item{
				Key:      strings.Replace(p.Keys, placeholder, owner, 1) + nastyTenant().Draw(t, "rest"),
				Modified: rapid.SampledFrom([]time.Time{{}, base.Add(-1), base, base.Add(1)}).Draw(t, "modified"),
				ETag:     rapid.SampledFrom([]string{"", "1"}).Draw(t, "etag"),
				Version:  rapid.SampledFrom([]string{"", "v"}).Draw(t, "version"),
				Marker:   rapid.Bool().Draw(t, "marker"),
			},
		}
		free := Decide(f)
		if again := Decide(f); again != free {
			t.Fatalf("%+v, then %+v", free, again)
		}
		check(t, f, free)
		f.Holds = hold.Set{
			{ID: "old", Scope: hold.Tenant, ReleasedAt: base},
			{ID: "h", Scope: rapid.SampledFrom([]hold.Scope{hold.Tenant, hold.Prefix, hold.Item}).Draw(t, "scope"),
				Value: rapid.SampledFrom([]string{f.Item.Key, "exports/", "x"}).Draw(t, "value")},
		}
		held := Decide(f)
		check(t, f, held)
		if held.Candidate != free.Candidate || held.Delete && !free.Delete {
			t.Fatalf("without holds %+v, with them %+v", free, held)
		}
		if covered := f.Holds[1].Covers(f.Item.Key); free.Candidate && covered != (held.Reason == Covered && held.HoldID == "h") {
			t.Fatalf("covered %v, and %+v", covered, held)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	p := valid(b, base)
	f := Facts{Policy: &p, Tenant: "school-4", Cutoff: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		Item: job.Item{Key: "exports/school-4/csv/a.csv", ETag: "1", Modified: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}}
	b.ReportAllocs()
	for b.Loop() {
		if !Decide(f).Delete {
			b.Fatal("kept")
		}
	}
}
