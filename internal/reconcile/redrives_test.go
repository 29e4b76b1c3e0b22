package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
)

// plan records a plan about the pages, which nobody has applied.
func (r *region) plan(pages ...job.Page) job.Redrive {
	r.t.Helper()
	named := make([]job.RedrivePage, len(pages))
	for i, p := range pages {
		named[i] = job.RedrivePage{Run: p.Run, Tenant: p.Tenant, ID: p.ID, Hash: "ab"}
	}
	plan := job.NewRedrive("eu-west-1", noon.Add(-72*time.Hour), noon.Add(72*time.Hour), "", named)
	if err := r.ledger.PutRedrive(context.Background(), plan, named); err != nil {
		r.t.Fatal(err)
	}
	return plan
}

// apply records an operator's word on the plan.
func (r *region) apply(plan *job.Redrive, at time.Time) {
	r.t.Helper()
	next, err := plan.Apply(at, "operator", "the role was repaired")
	if err == nil {
		err = r.ledger.SwapRedrive(context.Background(), next)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	*plan = next
}

// moved records a plan that has moved the pages at the instant.
func (r *region) moved(at time.Time, pages ...job.Page) job.Redrive {
	r.t.Helper()
	plan := r.plan(pages...)
	r.apply(&plan, at.Add(-time.Minute))
	plan = plan.Moves(at)
	if err := r.ledger.SwapRedrive(context.Background(), plan); err != nil {
		r.t.Fatal(err)
	}
	for _, p := range pages {
		p = r.page(p)
		p.RedriveID = plan.ID
		p.Rev++
		if err := r.ledger.SwapPage(context.Background(), p); err != nil {
			r.t.Fatal(err)
		}
	}
	return plan
}

func (r *region) redrive(of job.Redrive) job.Redrive {
	r.t.Helper()
	stored, err := r.ledger.Redrive(context.Background(), of.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return stored
}

func (r *region) entries() []audit.Entry {
	r.t.Helper()
	entries, err := r.ledger.Entries(context.Background(), noon.AddDate(0, -2, 0), noon.AddDate(0, 2, 0), 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	return entries
}

// ended returns a page that ended in the state, and when.
func ended(state job.PageState, at time.Time) job.Page {
	p := in(state)
	p.Planned, p.SettledAt = 10, at
	p.Counts[job.Deleted] = 10
	if state == job.Dead {
		p.SettledAt, p.Death.At, p.Death.LetterAt = time.Time{}, at, at
	}
	return p
}

// A plan whose pages are not all moved has lost the function that moved them, once
// that has had its time.
func TestRedriveThatStoppedGoesOn(t *testing.T) {
	grace := newRegion(t).Settings.FunctionTimeout
	for _, c := range []struct {
		name      string
		applied   time.Duration // ago; below 0 is not applied
		continued int
	}{
		{"not applied", -1, 0},
		{"just now", 0, 0},
		{"its function may be at work", grace - 1, 0},
		{"its function has ended", grace, 1},
		{"yesterday", 24 * time.Hour, 1},
	} {
		r := newRegion(t)
		plan := r.plan(r.add(r.open("exports", job.Released), ended(job.Dead, noon)))
		if c.applied >= 0 {
			r.apply(&plan, noon.Add(-c.applied))
		}
		for range 2 {
			r.redrives.resumed = nil
			if did := r.pass(); did != (Summary{Continued: c.continued}) || len(r.redrives.resumed) != c.continued {
				t.Errorf("%s: %+v, %v", c.name, did, r.redrives.resumed)
			}
		}
		if r.redrive(plan) != plan || len(r.entries()) != 0 {
			t.Errorf("%s: %+v", c.name, r.redrive(plan))
		}
	}
}

// A redrive is followed until its last page has ended, whether the index shows that
// page or not.
func TestRedriveIsFollowedToItsEnd(t *testing.T) {
	for _, state := range job.PageStates() {
		for _, lag := range []bool{false, true} {
			r := newRegion(t)
			rows := &faultyRows{rows: r.config.Rows}
			r.config.Rows = rows
			r.Reconciler = r.another()
			run := r.open("exports", job.Released)
			p := ended(state, noon.Add(-time.Minute))
			p.NextDue = noon.Add(time.Hour)
			plan := r.moved(noon.Add(-time.Hour), r.add(run, p), r.add(run, ended(job.Dead, noon.Add(-3*time.Hour))))
			if lag {
				r.ledger.Lag = func(job.Page) bool { return true }
			}
			did := r.pass()
			stored := r.redrive(plan)
			if state.Open() {
				if did != (Summary{}) || stored != plan || len(r.entries()) != 0 || !lag && rows.reads != 0 {
					t.Errorf("%s: %+v, %+v, %d reads", state, did, stored, rows.reads)
				}
				continue
			}
			succeeded := 0
			if state == job.Completed {
				succeeded = 1
			}
			want := plan.Close(noon.Add(-time.Minute), 2, succeeded, 2-succeeded)
			if did != (Summary{Finished: 1}) || stored != want {
				t.Errorf("%s: %+v\n got %+v\nwant %+v", state, did, stored, want)
			}
			if did := r.pass(); did != (Summary{}) || len(r.entries()) != 1 || r.count(audit.RedriveClosed) != 1 {
				t.Errorf("%s: the next pass: %+v, %d entries", state, did, len(r.entries()))
			}
		}
	}
}

// E7: what became of a redrive is on record before it is closed.
func TestE7ClosingEntry(t *testing.T) {
	r := newRegion(t)
	plan := r.moved(noon.Add(-time.Hour), r.add(r.open("exports", job.Released), ended(job.Completed, noon.Add(-time.Minute))))
	r.ledger.Hook = func(op string, apply func() error) error {
		if op == "redrive" && len(r.entries()) != 1 {
			t.Error("it is closed before its entry is written")
		}
		return apply()
	}
	r.pass()
	want := audit.Entry{
		At: noon.Add(-time.Minute), Act: audit.RedriveClosed, Region: "eu-west-1", By: "reconcile", Reason: "every page that it moved has ended",
		RedriveID: plan.ID, Count: 1,
	}
	if got := r.entries(); len(got) != 1 || got[0] != want {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	if err := (audit.Signature{By: want.By, Reason: want.Reason}).Check("test"); err != nil {
		t.Error(err)
	}
	for _, e := range r.log.Events() {
		if e.Event == audit.RedriveClosed && (e.RedriveID != plan.ID || e.Count != 1 || !e.Time.Equal(noon) || e.CodeVersion != "test") {
			t.Errorf("%+v", e)
		}
	}
}

// Pages that a plan left where they were, and those that another plan has moved
// since, are not its own any more.
func TestRedriveCountsItsOwnPages(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released)
	mine, left, later := r.add(run, ended(job.Completed, noon.Add(-time.Minute))), r.add(run, ended(job.Dead, noon)), r.add(run, ended(job.Dead, noon))
	plan := r.moved(noon.Add(-2*time.Hour), mine, left, later)
	for p, id := range map[job.Page]job.RedriveID{left: "", later: "another"} {
		p = r.page(p)
		p.RedriveID, p.State, p.NextDue = id, job.Redriven, noon.Add(time.Hour) // an open page, even
		p.Rev++
		if err := r.ledger.SwapPage(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if did := r.pass(); did != (Summary{Finished: 1}) {
		t.Errorf("%+v", did)
	}
	if got := r.redrive(plan); got.Moved != 1 || got.Succeeded != 1 || got.DiedAgain != 0 {
		t.Errorf("%+v", got)
	}
}

func TestRedriveThatMovedNothingEndsWhenItWasDone(t *testing.T) {
	r := newRegion(t)
	plan := r.plan(r.add(r.open("exports", job.Released), ended(job.Dead, noon)))
	r.apply(&plan, noon.Add(-time.Hour))
	plan = plan.Moves(noon.Add(-30 * time.Minute))
	if err := r.ledger.SwapRedrive(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if did := r.pass(); did != (Summary{Finished: 1}) || r.redrive(plan) != plan.Close(plan.MovedAt, 0, 0, 0) {
		t.Errorf("%+v, %+v", did, r.redrive(plan))
	}
}

// One redrive's trouble does not stop the others.
func TestTroubleWithARedrive(t *testing.T) {
	rows := &faultyRows{}
	r := newRegion(t, func(c *Config) { rows.rows, c.Rows = c.Rows, rows })
	bad, good := r.open("bad", job.Released), r.open("good", job.Released)
	unread := r.moved(noon.Add(-3*time.Hour), r.add(bad, ended(job.Dead, noon)))
	stopped := r.plan(r.add(bad, ended(job.Dead, noon)))
	r.apply(&stopped, noon.Add(-2*time.Hour))
	r.redrives.hook = strike{}.hit
	fine := r.moved(noon.Add(-time.Hour), r.add(good, ended(job.Dead, noon)))
	rows.of = bad.ID
	did, err := r.try()
	if err == nil || did != (Summary{Finished: 1}) || r.redrive(fine).ClosedAt.IsZero() || !r.redrive(unread).ClosedAt.IsZero() {
		t.Errorf("%+v, %v", did, err)
	}
	rows.of, r.redrives.hook = "", nil
	if did := r.pass(); did != (Summary{Finished: 1, Continued: 1}) {
		t.Errorf("%+v", did)
	}
}

// DB-12: an index of redrives that is behind shows one that somebody has closed.
func TestDB12ClosedRedriveIsLeftAlone(t *testing.T) {
	index := &lateRedrives{}
	r := newRegion(t, func(c *Config) { index.index = c.Index; c.Index = index })
	plan := r.moved(noon.Add(-time.Hour), r.add(r.open("exports", job.Released), ended(job.Dead, noon)))
	index.open = []job.Redrive{plan}
	r.pass()
	closed := r.redrive(plan)
	if did := r.pass(); did != (Summary{}) || r.redrive(plan) != closed || len(r.entries()) != 1 {
		t.Errorf("%+v, %+v", did, r.redrive(plan))
	}
}

type lateRedrives struct {
	index
	open []job.Redrive
}

func (l *lateRedrives) OpenRedrives(context.Context) ([]job.Redrive, error) { return l.open, nil }
