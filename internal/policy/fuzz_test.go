package policy

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// FuzzParse: no file panics, and whatever parses keeps every promise of a policy.
func FuzzParse(f *testing.F) {
	f.Add([]byte(base))
	f.Add([]byte(base + "report_only_dates: 5\n"))
	f.Add([]byte(strings.Replace(base, "every: daily", "every: daily\n  catch_up: true", 1)))
	files, _ := filepath.Glob("../../infra/policies/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, r := range refusals {
		if len(r.replacement) < 1000 {
			text := r.replacement
			if r.old != "" {
				text = strings.Replace(base, r.old, r.replacement, 1)
			}
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("f.yaml", data)
		if err != nil {
			if !failure.Is(err, failure.Invalid) || err.Error() == "" || !p.Equal(Policy{}) {
				t.Fatalf("%v, %+v", err, p)
			}
			return
		}
		promises(t, p)
	})
}

// FuzzLoad: a row that loads is exactly what would be written.
func FuzzLoad(f *testing.F) {
	f.Add(valid(f, base).Canonical())
	f.Add([]byte(`{"name":"a"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Load(data)
		if err != nil {
			if !failure.Is(err, failure.Invalid) || !p.Equal(Policy{}) {
				t.Fatalf("%v, %+v", err, p)
			}
			return
		}
		if !bytes.Equal(p.Canonical(), data) {
			t.Fatalf("%s loads as %s", data, p.Canonical())
		}
		promises(t, p)
	})
}

// promises are what holds for every valid policy.
func promises(t *testing.T, p Policy) {
	p.validate(func(field, text string) { t.Fatalf("%s %s", field, text) })
	q, err := Load(p.Canonical())
	if err != nil || !q.Equal(p) || q.SHA256() != p.SHA256() {
		t.Fatalf("%s does not come back: %v", p.Canonical(), err)
	}
	prefix := p.Prefix()
	if len(prefix) < 2 || !strings.HasSuffix(prefix, "/") || strings.HasPrefix(prefix, "/") || strings.ContainsAny(prefix, "*?{}") {
		t.Fatalf("S10: prefix %q", prefix)
	}
	at := time.Date(2026, 11, 30, 4, 15, 0, 0, time.UTC)
	cutoff := p.Cutoff(at)
	if cutoff.IsZero() || cutoff.After(at.Add(-24*time.Hour)) || !p.Honours(at, cutoff) {
		t.Fatalf("S2: cutoff %s", cutoff)
	}
	if next := p.Schedule.Next(at); !next.After(at) || next.Sub(at) > 15*24*time.Hour {
		t.Fatalf("next %s", next)
	}
	if dates := p.ReportOnlyDatesNeeded(); dates < 1 || dates > MaxReportOnlyDates {
		t.Fatalf("R137: %d dates", dates)
	}
	if found := Differences(p, p); found != nil {
		t.Fatalf("differs from itself: %v", found)
	}
	if p.Sentence() == "" || p.Schedule.Cron() == "" {
		t.Fatal("no words")
	}
	Lint(p, at)
	for _, tenant := range []string{p.Tenant, "school-4", "a", "..", ""} {
		of := p.TenantPrefix(tenant)
		if of == "" {
			continue
		}
		if got, ok := p.TenantOf(of + "x"); !ok || got != tenant || !p.Contains(tenant, of+"x") || !job.ValidTenant(tenant) {
			t.Fatalf("S5: %sx is of %q, %v", of, got, ok)
		}
		if p.Contains(tenant, strings.TrimSuffix(of, "/")+"2/x") {
			t.Fatalf("S3-10: %q reaches its neighbour", of)
		}
		facts := Facts{Policy: &p, Tenant: tenant, Cutoff: cutoff, Item: job.Item{Key: of + "x", ETag: "1", Version: "1", Modified: cutoff}}
		if d := Decide(facts); d.Candidate {
			t.Fatalf("S1: %+v at the cutoff", d)
		}
		facts.Item.Modified = cutoff.Add(-1)
		if d := Decide(facts); !d.Delete {
			t.Fatalf("%+v just before the cutoff", d)
		}
	}
	if len(p.Guard(GuardFacts{Candidates: CeilingObjects + 1, Examined: CeilingObjects + 1})) == 0 {
		t.Fatal("S9: no ceiling")
	}
}
