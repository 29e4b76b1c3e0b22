package reconcile

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
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
		for range 3 * openBatch {
			r.add(run, in(job.Sent))
		}
		sends := 0
		r.queue.Hook = func(_ string, apply func() error) error {
			if sends++; sends == openBatch/10+1 {
				r.clock.advance(50 * time.Second)
			}
			return apply()
		}
		if did := r.pass(); did != (Summary{Resent: 2 * openBatch}) {
			t.Errorf("%+v", did)
		}
		if did := r.pass(); did != (Summary{Resent: openBatch}) {
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

// A brake that cannot be read might be set: nothing is sent. What is open is
// measured all the same.
func TestBrakesThatCannotBeReadStopTheSending(t *testing.T) {
	r := newRegion(t, func(c *Config) { c.Rows = noBrakes{c.Rows} })
	p := r.add(r.open("exports", job.Released), in(job.Sent))
	if did, err := r.try(); err == nil || did != (Summary{}) {
		t.Errorf("%+v, %v", did, err)
	}
	r.untouched(p)
	r.wantMeasured(contract.OldestOpenPageAge, "exports", 2*3600)
}

type noBrakes struct{ rows }

func (noBrakes) Brakes(context.Context) ([]job.Brake, error) { return nil, errInjected }

func TestReconcilersInParallel(t *testing.T) {
	for range 20 {
		w := troubled(t)
		var wg sync.WaitGroup
		for range 4 {
			rec := w.another()
			wg.Go(func() {
				if _, err := rec.Pass(context.Background(), w.deadline()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		w.pass() // which closes the redrive that one of them let go on
		w.settled()
		if n := w.count(audit.RunClosed); n != 1 {
			t.Errorf("the run was closed %d times", n)
		}
	}
}

// One reconciler runs whole inside every single write of another.
func TestReconcilerInsideEveryWriteOfAnother(t *testing.T) {
	for at, nested := 0, true; nested; at++ {
		w := troubled(t)
		writes := 0
		nested = false
		h := func(_ string, apply func() error) error {
			if writes++; writes == at+1 && !nested {
				nested = true
				if _, err := w.another().Pass(context.Background(), w.deadline()); err != nil {
					t.Error(err)
				}
			}
			return apply()
		}
		w.hook(h)
		w.pass()
		w.pass()
		w.settled()
		if n := w.count(audit.RunClosed); n != 1 {
			t.Errorf("write %d: the run was closed %d times", at, n)
		}
		if !nested && at < 20 {
			t.Errorf("there are only %d writes", at)
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
