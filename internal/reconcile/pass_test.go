package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

func TestUnfinishedScansAreResumed(t *testing.T) {
	r := newRegion(t)
	scanning := r.open("exports", job.Scanning)
	broken := r.open("uploads", job.Scanning)
	for _, state := range []job.RunState{job.AwaitingApproval, job.Rejected, job.Closed} {
		r.open(string(state[:3]), state)
	}
	r.scans.errs = map[job.RunID]error{broken.ID: failure.New(failure.Forbidden, "list items", "injected")}
	did, err := r.Pass(t.Context(), r.deadline())
	if !failure.Is(err, failure.Forbidden) || did != (Summary{Resumed: 1}) {
		t.Errorf("%+v, %v", did, err)
	}
	if len(r.scans.resumed) != 2 || !slices.Contains(r.scans.resumed, scanning.ID) || !slices.Contains(r.scans.resumed, broken.ID) {
		t.Errorf("resumed %v", r.scans.resumed)
	}
}

// A large scan takes all the time of every pass. What is overdue and what can be
// closed does not wait behind it.
func TestScansComeLast(t *testing.T) {
	r := newRegion(t)
	r.open("exports", job.Scanning)
	r.open("more", job.Scanning)
	finished := r.open("uploads", job.Released)
	r.add(finished, done(10))
	stuck := r.open("digests", job.Released)
	p := r.add(stuck, in(job.Sent))
	r.scans.during = func() { r.clock.advance(50 * time.Second) }
	if did := r.pass(); did != (Summary{Resumed: 1, Resent: 1, Closed: 1}) || r.messagesOf(p) != 1 {
		t.Errorf("%+v", did)
	}
}

func TestPassRespectsItsDeadline(t *testing.T) {
	t.Run("no time at all", func(t *testing.T) {
		r := newRegion(t)
		r.open("exports", job.Scanning)
		run := r.open("uploads", job.Released)
		p := r.add(run, in(job.Sent))
		r.add(r.open("digests", job.Released), done(10))
		did, err := r.Pass(t.Context(), r.clock.Now().Add(r.Settings.TakeMargin-1))
		if err != nil || did != (Summary{}) || len(r.scans.resumed) != 0 {
			t.Errorf("%+v, %v", did, err)
		}
		r.untouched(p)
	})
	t.Run("between two batches", func(t *testing.T) {
		r := newRegion(t)
		run := r.open("uploads", job.Released)
		for range 3 * overdueBatch {
			r.add(run, in(job.Sent))
		}
		sends := 0
		r.queue.Hook = func(_ string, apply func() error) error {
			if sends++; sends == overdueBatch/10+1 {
				r.clock.advance(50 * time.Second)
			}
			return apply()
		}
		if did := r.pass(); did != (Summary{Resent: 2 * overdueBatch}) {
			t.Errorf("%+v", did)
		}
		if did := r.pass(); did != (Summary{Resent: overdueBatch}) {
			t.Errorf("the next pass: %+v", did)
		}
	})
}

func TestOneRunsTroubleDoesNotStopTheOthers(t *testing.T) {
	rows := &faultyRows{}
	r := newRegion(t, func(c *Config) { rows.rows, c.Rows = c.Rows, rows })
	bad := r.open("bad", job.Released)
	rows.of = bad.ID
	unread := in(job.Sent)
	unread.NextDue = noon.Add(-9 * time.Hour) // the oldest, so it comes first
	unread = r.add(bad, unread)
	good := r.open("good", job.Released)
	p, dead := r.add(good, in(job.Sent)), r.add(good, in(job.Dead))
	finished := r.open("finished", job.Released)
	r.add(finished, done(10))
	r.open("scan", job.Scanning)
	did, err := r.Pass(t.Context(), r.deadline())
	if err == nil || did != (Summary{Resent: 1, Letters: 1, Closed: 1, Resumed: 1}) {
		t.Errorf("%+v, %v", did, err)
	}
	r.untouched(unread)
	if r.messagesOf(p) != 1 || len(r.lettersOf(dead)) != 1 {
		t.Error("the good run's pages were not treated")
	}
}

func TestIndexOfRunsThatFailsDoesNotStopTheWalk(t *testing.T) {
	r := newRegion(t, func(c *Config) { c.Index = brokenIndex{c.Index} })
	p := r.add(r.open("exports", job.Released), in(job.Sent))
	did, err := r.Pass(t.Context(), r.deadline())
	if err == nil || did != (Summary{Resent: 1}) || r.messagesOf(p) != 1 {
		t.Errorf("%+v, %v", did, err)
	}
}

// A brake that cannot be read might be set: nothing is sent.
func TestBrakesThatCannotBeReadStopTheWalk(t *testing.T) {
	r := newRegion(t, func(c *Config) { c.Rows = noBrakes{c.Rows} })
	p := r.add(r.open("exports", job.Released), in(job.Sent))
	if did, err := r.Pass(t.Context(), r.deadline()); err == nil || did != (Summary{}) {
		t.Errorf("%+v, %v", did, err)
	}
	r.untouched(p)
}

type noBrakes struct{ rows }

func (noBrakes) Brakes(context.Context) ([]job.Brake, error) { return nil, errInjected }

// troubled holds one of everything that a pass treats.
func troubled(t testing.TB) (r *region, open []job.Page, dead []job.Page, finished *job.Run) {
	r = newRegion(t)
	run := r.open("exports", job.Released)
	for _, state := range openStates() {
		open = append(open, r.add(run, in(state)))
	}
	worn, old := in(job.Claimed), in(job.Retrying)
	worn.Attempts, old.FirstFailure = 5, noon.Add(-25*time.Hour)
	dead = append(dead, r.add(run, worn), r.add(run, old), r.add(run, in(job.Dead)))
	finished = r.open("uploads", job.Released)
	r.add(finished, done(10))
	return r, open, dead, finished
}

// settled checks that everything was treated, however often it took.
func (r *region) settled(open, dead []job.Page, finished *job.Run) {
	r.t.Helper()
	for _, p := range open {
		if stored := r.page(p); r.messagesOf(p) == 0 || !stored.State.Open() || stored.NextDue.Before(noon) {
			r.t.Errorf("a %s page has %d messages and is %s, due %v", p.State, r.messagesOf(p), stored.State, stored.NextDue)
		}
	}
	for _, p := range dead {
		if stored := r.page(p); stored.State != job.Dead || stored.Death.LetterAt.IsZero() || len(r.lettersOf(p)) == 0 || r.messagesOf(p) != 0 {
			r.t.Errorf("a page that was %s is %s with %d letters and %d messages", p.State, stored.State, len(r.lettersOf(p)), r.messagesOf(p))
		}
	}
	if run := r.run(finished); run.State != job.Closed || run.Totals.Counts[job.Deleted] != 10 {
		r.t.Errorf("%+v", run)
	}
}

// TestEveryWriteFailsInEveryWay strikes each write of a pass, one at a time: it did
// not happen, it happened but the answer is lost, the process dies before or after.
func TestEveryWriteFailsInEveryWay(t *testing.T) {
	hook := func(writes *[]string, at int, s strike) failure.Hook {
		return func(op string, apply func() error) error {
			n := len(*writes)
			*writes = append(*writes, op)
			if n == at {
				return s.hit(op, apply)
			}
			return apply()
		}
	}
	var clean []string
	r, open, dead, finished := troubled(t)
	r.ledger.Hook, r.queue.Hook = hook(&clean, -1, strike{}), hook(&clean, -1, strike{})
	if did := r.pass(); did != (Summary{Resent: len(open), Buried: 2, Letters: 3, Closed: 1}) {
		t.Errorf("%+v", did)
	}
	r.settled(open, dead, finished)
	for _, op := range []string{"send", "page:sent", "page:retrying", "page:dead", "dead-letter", "run:closed"} {
		if !slices.Contains(clean, op) {
			t.Errorf("a pass never writes %q", op)
		}
	}
	for at, op := range clean {
		for _, s := range strikes {
			t.Run(fmt.Sprintf("%02d %s: %s", at, op, s), func(t *testing.T) {
				r, open, dead, finished := troubled(t)
				var writes []string
				h := hook(&writes, at, s)
				r.ledger.Hook, r.queue.Hook = h, h
				var err error
				died := process(func() { _, err = r.Pass(context.Background(), r.deadline()) })
				if died != s.crash || !s.crash && err == nil {
					t.Errorf("died %t, %v: a failure must be seen", died, err)
				}
				r.pass()
				r.settled(open, dead, finished)
				if did := r.pass(); did != (Summary{}) {
					t.Errorf("a third pass does %+v", did)
				}
			})
		}
	}
}

func TestReconcilersInParallel(t *testing.T) {
	for range 20 {
		r, open, dead, finished := troubled(t)
		var wg sync.WaitGroup
		for range 4 {
			rec := r.another()
			wg.Go(func() {
				if _, err := rec.Pass(context.Background(), r.deadline()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.settled(open, dead, finished)
		if n := r.count(audit.RunClosed); n != 1 {
			t.Errorf("the run was closed %d times", n)
		}
	}
}

// One reconciler runs whole inside every single write of another.
func TestReconcilerInsideEveryWriteOfAnother(t *testing.T) {
	for at := range 20 {
		r, open, dead, finished := troubled(t)
		writes, nested := 0, false
		h := func(_ string, apply func() error) error {
			if writes++; writes == at+1 && !nested {
				nested = true
				if _, err := r.another().Pass(context.Background(), r.deadline()); err != nil {
					t.Error(err)
				}
			}
			return apply()
		}
		r.ledger.Hook, r.queue.Hook = h, h
		r.pass()
		r.settled(open, dead, finished)
		if n := r.count(audit.RunClosed); n != 1 {
			t.Errorf("write %d: the run was closed %d times", at, n)
		}
	}
}

func TestSettingsThatDoNotHoldAreRefused(t *testing.T) {
	r := newRegion(t)
	c := r.config
	c.Settings.MaxAttempts = 0
	if _, err := New(c); err == nil {
		t.Error("accepted")
	}
}
