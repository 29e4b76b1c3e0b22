package ledger_test

import (
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/ledger/ledgertest"
)

func TestMemory(t *testing.T) {
	ledgertest.Exercise(t, func(*testing.T) ledgertest.Ledger { return ledger.NewMemory() })
	ledgertest.Faults(t, func(_ *testing.T, hook failure.Hook) ledgertest.Ledger {
		m := ledger.NewMemory()
		m.Hook = hook
		return m
	})
}

var instant = time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seed puts a released run with pages of two tenants, all overdue at the instant.
func seed(t *testing.T, m *ledger.Memory) (job.Run, []job.Page) {
	t.Helper()
	r := job.Run{ID: job.ScheduledRunID("eu-central-1", "exports", instant), Rev: 1, Policy: "exports", State: job.Scanning, Trips: []string{"one"}}
	_, _, err := m.OpenRun(t.Context(), r)
	check(t, err)
	var pages []job.Page
	for _, tenant := range []string{"school-42", "school-4"} {
		for _, start := range []string{"k", ""} {
			p := job.Page{
				ID: job.RangePageID(r.ID, tenant, start), Run: r.ID, Tenant: tenant, Kind: job.RangePage, Rev: 1,
				After: start, Candidates: 3, State: job.Planned, NextDue: instant,
			}
			next, err := r.Advance(job.Stretch{Through: tenant + start}, &p)
			check(t, err)
			check(t, m.Record(t.Context(), next, &p))
			r, pages = next, append(pages, p)
		}
	}
	return r, pages
}

func open(t *testing.T, m *ledger.Memory) map[job.PageID]bool {
	t.Helper()
	pages, err := m.OpenPages(t.Context(), nil, 100)
	check(t, err)
	found := map[job.PageID]bool{}
	for _, p := range pages {
		found[p.ID] = true
	}
	return found
}

// DB-12: the index hides a page for a while; what reads consistently does not,
// and a write does not depend on it.
func TestDB12ALaggingIndexHidesNothingElse(t *testing.T) {
	m := ledger.NewMemory()
	r, pages := seed(t, m)
	hidden := pages[1]
	m.Lag = func(p job.Page) bool { return p.ID == hidden.ID }
	if found := open(t, m); found[hidden.ID] || len(found) != len(pages)-1 {
		t.Errorf("the index shows %d pages, the hidden one %v", len(found), found[hidden.ID])
	}
	got, err := m.Page(t.Context(), hidden.Run, hidden.Tenant, hidden.ID)
	check(t, err)
	if got != hidden {
		t.Errorf("the row is %+v", got)
	}
	rows, err := m.Pages(t.Context(), r.ID, hidden.Tenant, nil, 10)
	check(t, err)
	if len(rows) != 2 {
		t.Errorf("%d rows", len(rows))
	}
	sent, err := hidden.Send(instant)
	check(t, err)
	check(t, m.SwapPage(t.Context(), sent))
	m.Lag = nil
	if found := open(t, m); !found[hidden.ID] || len(found) != len(pages) {
		t.Errorf("the next pass sees %d pages, the hidden one %v", len(found), found[hidden.ID])
	}
}

// What the index still shows and the row no longer is: the write computed from
// the hint fails.
func TestDB12AStaleHintWritesNothing(t *testing.T) {
	m := ledger.NewMemory()
	_, pages := seed(t, m)
	hint := pages[0]
	claimed, err := hint.Claim("worker", instant, instant.Add(time.Minute), instant.Add(time.Hour))
	check(t, err)
	check(t, m.SwapPage(t.Context(), claimed))
	dead, err := hint.Die("", job.ReasonAge, failure.Network, job.Settled{}, instant)
	check(t, err)
	if err := m.SwapPage(t.Context(), dead); !failure.Is(err, failure.Conflict) {
		t.Errorf("a page was buried on a stale hint: %v", err)
	}
}

func TestReportsSeeEveryRowInOrder(t *testing.T) {
	m := ledger.NewMemory()
	r, pages := seed(t, m)
	other := job.Run{ID: "other", Rev: 1, Policy: "digests", State: job.Scanning, OpenedAt: instant}
	_, _, err := m.OpenRun(t.Context(), other)
	check(t, err)
	runs := m.Runs()
	if len(runs) != 2 || runs[0].ID != r.ID || runs[1].ID != other.ID {
		t.Fatalf("runs are %+v", runs)
	}
	runs[0].Trips[0] = "spoiled"
	if again := m.Runs(); again[0].Trips[0] != "one" {
		t.Error("a report shares the ledger's memory")
	}
	got := m.AllPages(r.ID)
	want := []job.Page{pages[3], pages[2], pages[1], pages[0]} // school-4 first, each from its start
	if len(got) != len(want) {
		t.Fatalf("%d pages", len(got))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("page %d is %+v", i, got[i])
		}
	}
	if len(m.AllPages(other.ID)) != 0 {
		t.Error("pages of a run without any")
	}
}
