package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
)

// F16: a run is closed when every page of it is completed or discarded, its
// split-off items included, whatever the index says. Dead is neither.
func TestF16RunClosesOnlyWhenEveryPageIsTerminal(t *testing.T) {
	for _, state := range job.PageStates() {
		for _, kind := range []job.Kind{job.RangePage, job.ItemPage} {
			r := newRegion(t)
			r.ledger.Lag = func(job.Page) bool { return true } // the index shows no page at all
			run := r.open("exports", job.Released)
			parent := done(10)
			if kind == job.ItemPage {
				parent.Counts[job.Deleted], parent.Moved = 9, 1
			}
			parent = r.add(run, parent)
			p := in(state)
			if p.Kind = kind; kind == job.ItemPage {
				p.Parent = parent.ID
			}
			p.Death.LetterAt = noon
			if state.Terminal() {
				p.Planned = 10
				p.Counts[job.Deleted] = 10
				if kind == job.ItemPage {
					p.Counts[job.Deleted] = 1
				}
			}
			r.add(run, p)
			did := r.pass()
			if want := state.Terminal(); (did.Closed == 1) != want || (r.run(run).State == job.Closed) != want {
				t.Errorf("%s %s: %+v, the run is %s", kind, state, did, r.run(run).State)
			}
		}
	}
}

func TestClosedRunHoldsTheSumOfItsRows(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released, func(run *job.Run) { run.Examined, run.Unmatched = 7, 7 })
	first := done(10)
	first.Counts[job.Deleted], first.Counts[job.Held], first.Counts[job.AlreadyAbsent], first.Moved = 6, 1, 1, 2
	parent := r.add(run, first)
	for _, outcome := range []job.Outcome{job.Deleted, job.Refused} {
		child := job.Page{Kind: job.ItemPage, Parent: parent.ID, State: job.Completed, Bytes: 1, NextDue: noon}
		child.Counts[outcome] = 1
		r.add(run, child)
	}
	other := done(4) // three of four were still there when the plan was made
	other.Tenant, other.Planned, other.Counts[job.Deleted] = "acme", 3, 3
	r.add(run, other)
	r.add(run, job.Page{Tenant: "acme", State: job.Completed, Candidates: 1, NextDue: noon}) // its item was gone
	if did := r.pass(); did != (Summary{Closed: 1}) {
		t.Fatalf("%+v", did)
	}
	closed := r.run(run)
	var want job.Totals
	want.Candidates, want.Bytes = 13, 100+2+40
	want.Counts[job.Deleted], want.Counts[job.Held], want.Counts[job.AlreadyAbsent], want.Counts[job.Refused] = 10, 1, 1, 1
	if closed.Totals != want || !closed.ClosedAt.Equal(noon) || !closed.WithFailures() {
		t.Errorf("totals\n got %+v\nwant %+v", closed.Totals, want)
	}
	if closed.Totals.Candidates != closed.Totals.Counts.Sum() {
		t.Error("candidates are not the sum of the outcomes")
	}
	if did := r.pass(); did != (Summary{}) || r.count(audit.RunClosed) != 1 {
		t.Errorf("the next pass: %+v", did)
	}
}

func TestRunWithoutPagesCloses(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released)
	if did := r.pass(); did != (Summary{Closed: 1}) || r.run(run).State != job.Closed {
		t.Errorf("%+v", did)
	}
}

func TestRunsThatAreNotReleasedAreNotClosed(t *testing.T) {
	for _, state := range []job.RunState{job.Scanning, job.AwaitingApproval, job.Rejected} {
		r := newRegion(t)
		run := r.open("exports", state)
		r.add(run, done(10))
		if did := r.pass(); did.Closed != 0 || r.run(run).State != state {
			t.Errorf("%s: %+v", state, did)
		}
	}
}

// E5: rows that do not say what the scan recorded keep the run open, and each
// pass says so.
func TestTotalsThatDoNotAddUpKeepTheRunOpen(t *testing.T) {
	for name, break_ := range map[string]func(run *job.Run){
		"a page is missing":          func(run *job.Run) { run.Pages++ },
		"a page too many":            func(run *job.Run) { run.Pages-- },
		"candidates are missing":     func(run *job.Run) { run.Candidates++ },
		"candidates too many":        func(run *job.Run) { run.Candidates-- },
		"examined keys are missing":  func(run *job.Run) { run.Examined++ },
		"unmatched keys are missing": func(run *job.Run) { run.Unmatched++ },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t)
			run := r.open("exports", job.Released)
			r.add(run, done(10))
			break_(run)
			run.Rev++
			if err := r.ledger.SwapRun(t.Context(), *run); err != nil {
				t.Fatal(err)
			}
			r.wantMismatch(run)
		})
	}
	for name, change := range map[string]func(p *job.Page){
		"an item without an outcome": func(p *job.Page) { p.Counts[job.Deleted]-- },
		"an outcome without an item": func(p *job.Page) { p.Counts[job.Held]++ },
		"a split-off item is lost":   func(p *job.Page) { p.Counts[job.Deleted]--; p.Moved++ },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t)
			run := r.open("exports", job.Released)
			p := done(10)
			change(&p)
			r.add(run, p)
			r.wantMismatch(run)
		})
	}
	t.Run("an item that nobody split off", func(t *testing.T) {
		r := newRegion(t)
		run := r.open("exports", job.Released)
		r.add(run, done(10))
		child := job.Page{Kind: job.ItemPage, Parent: "p", State: job.Completed, NextDue: noon}
		child.Counts[job.Deleted] = 1
		r.add(run, child)
		r.wantMismatch(run)
	})
}

func (r *region) wantMismatch(run *job.Run) {
	r.t.Helper()
	for pass := 1; pass <= 2; pass++ {
		if did := r.pass(); did != (Summary{}) || r.run(run).State != job.Released || r.count(audit.TotalsMismatch) != pass {
			r.t.Errorf("%+v, the run is %s, %d events", did, r.run(run).State, r.count(audit.TotalsMismatch))
		}
	}
	if e := r.log.Events()[0]; e.RunID != run.ID || e.Policy != "exports" {
		r.t.Errorf("%+v", e)
	}
}

func TestCloseReadsEveryBatch(t *testing.T) {
	for _, last := range []job.PageState{job.Completed, job.Sent} {
		r := newRegion(t)
		r.ledger.Lag = func(job.Page) bool { return true } // the rows say it, not the index
		run := r.open("exports", job.Released)
		for range 2*closeBatch + 3 {
			r.add(run, done(1))
		}
		p := done(1)
		p.State = last
		r.add(run, p)
		if did := r.pass(); (did.Closed == 1) != (last == job.Completed) {
			t.Errorf("last is %s: %+v", last, did)
		}
	}
}

// A page that is redriven or born between the sum and the write: the sum was of
// terminal pages, which do not change, so only the run's own row can have moved.
func TestCloseLosesToWhoeverMovedTheRun(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released)
	r.add(run, done(10))
	nested := false
	r.ledger.Hook = func(op string, apply func() error) error {
		if op == "run:closed" && !nested {
			nested = true
			if _, err := r.another().Pass(context.Background(), r.deadline()); err != nil {
				t.Error(err)
			}
		}
		return apply()
	}
	if did := r.pass(); did.Closed != 0 || r.run(run).State != job.Closed || r.count(audit.RunClosed) != 1 {
		t.Errorf("%+v, %s, %d events", did, r.run(run).State, r.count(audit.RunClosed))
	}
}

// Time that does not suffice to read every row says nothing about the run.
func TestCloseStopsAtTheDeadline(t *testing.T) {
	r := newRegion(t)
	slow := &slowRows{rows: r.config.Rows, clock: r.clock}
	r.config.Rows = slow
	run := r.open("exports", job.Released)
	for range 2 * closeBatch {
		r.add(run, done(1))
	}
	deadline := r.deadline()
	if did, err := r.another().Pass(t.Context(), deadline); err != nil || did != (Summary{}) || r.run(run).State != job.Released {
		t.Errorf("%+v, %v", did, err)
	}
	if r.clock.Now().After(deadline) || r.count(audit.TotalsMismatch) != 0 {
		t.Errorf("%v past the deadline", r.clock.Now().Sub(deadline))
	}
}

// slowRows takes 25 seconds for a batch of pages.
type slowRows struct {
	rows
	clock *testClock
}

func (s *slowRows) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	s.clock.advance(25 * time.Second)
	return s.rows.Pages(ctx, run, tenant, after, limit)
}
