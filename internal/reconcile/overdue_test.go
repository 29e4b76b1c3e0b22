package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
)

// F7: whatever state an open page is stuck in, it is sent again when it is due.
func TestF7EveryOpenStateIsResentWhenItIsDue(t *testing.T) {
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		for _, state := range openStates() {
			for _, early := range []time.Duration{0, time.Nanosecond, time.Hour} {
				r := newRegion(t)
				run := r.open("exports", job.Released, func(run *job.Run) { run.Mode = mode })
				p := in(state)
				p.NextDue = noon.Add(early)
				p = r.add(run, p)
				did := r.pass()
				if early > 0 {
					r.untouched(p)
					if did != (Summary{}) {
						t.Errorf("%s: %+v", state, did)
					}
					continue
				}
				stored := r.page(p)
				want := state
				if state == job.Planned {
					want = job.Sent
				}
				if r.messagesOf(p) != 1 || stored.State != want || !stored.NextDue.Equal(noon.Add(r.Settings.Overdue())) {
					t.Errorf("%s %s: %d messages, now %s, due %v", mode, state, r.messagesOf(p), stored.State, stored.NextDue)
				}
				if did != (Summary{Resent: 1}) || r.count(audit.Enqueued) != 1 {
					t.Errorf("%s: %+v", state, did)
				}
				// Nothing else of the row moves: an attempt is the worker's to count.
				stored.State, stored.NextDue, stored.Rev = p.State, p.NextDue, p.Rev
				if stored != p {
					t.Errorf("%s:\n got %+v\nwant %+v", state, stored, p)
				}
				if did := r.pass(); did != (Summary{}) {
					t.Errorf("%s: the next pass does %+v", state, did)
				}
			}
		}
	}
}

func TestSplitOffItemIsSentByReconcile(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released)
	child := r.add(run, job.Page{
		Kind: job.ItemPage, Parent: "p", State: job.Planned, FirstFailure: noon, NextDue: noon,
		Intent: job.Intent{Plan: "cd", Fence: 1, Deletes: 1},
	})
	if r.pass(); r.messagesOf(child) != 1 || r.page(child).State != job.Sent {
		t.Errorf("%+v", r.page(child))
	}
}

func TestLiveLeaseIsLeftAlone(t *testing.T) {
	for _, state := range []job.PageState{job.Claimed, job.Intended} {
		r := newRegion(t)
		run := r.open("exports", job.Released)
		p := in(state)
		p.LeaseEnd, p.Attempts = noon.Add(time.Nanosecond), 5 // and it is the last attempt: it may yet succeed
		p = r.add(run, p)
		r.pass()
		r.untouched(p)
	}
}

func TestBrakedPagesAreLeftAlone(t *testing.T) {
	for _, c := range []struct {
		brake  job.Brake
		covers bool
	}{
		{job.Brake{}, true},
		{job.Brake{Policy: "exports"}, true},
		{job.Brake{Policy: "exports", Version: 1}, true},
		{job.Brake{Policy: "exports", Version: 2}, false},
		{job.Brake{Policy: "uploads"}, false},
	} {
		r := newRegion(t)
		run := r.open("exports", job.Released)
		var pages []job.Page
		for _, state := range openStates() {
			p := in(state)
			pages = append(pages, r.add(run, p))
		}
		worn := in(job.Retrying)
		worn.Attempts = 5 // a brake is not a death sentence either
		pages = append(pages, r.add(run, worn))
		if err := r.ledger.SetBrake(t.Context(), c.brake); err != nil {
			t.Fatal(err)
		}
		did := r.pass()
		if c.covers {
			r.untouched(pages...)
		} else if did != (Summary{Resent: len(pages) - 1, Buried: 1, Letters: 1}) {
			t.Errorf("%+v: %+v", c.brake, did)
		}
		if err := r.ledger.ReleaseBrake(t.Context(), c.brake); err != nil {
			t.Fatal(err)
		}
		if did := r.pass(); c.covers && did.Resent != len(pages)-1 {
			t.Errorf("after the brake: %+v", did)
		}
	}
}

func TestPagesOfARunThatIsNotReleasedAreLeftAlone(t *testing.T) {
	for _, state := range job.RunStates() {
		if state == job.Released || state == job.Rejected {
			continue
		}
		r := newRegion(t)
		run := r.open("exports", state)
		p := r.add(run, in(job.Planned))
		r.pass()
		r.untouched(p)
	}
}

// Ignored rows are the oldest in every pass. However many there are, the walk
// goes past them, and does not read them one by one.
func TestWalkGoesPastIgnoredRows(t *testing.T) {
	rows := &faultyRows{}
	r := newRegion(t, func(c *Config) { rows.rows, c.Rows = c.Rows, rows })
	braked := r.open("uploads", job.Released)
	waiting := r.open("digests", job.AwaitingApproval)
	for i := range 2*openBatch + 7 {
		p := in(job.Planned)
		p.NextDue = noon.Add(-time.Duration(i+100) * time.Minute)
		r.add(braked, p)
		r.add(waiting, p)
	}
	run := r.open("exports", job.Released)
	p := in(job.Sent)
	p.NextDue = noon.Add(-time.Minute)
	p = r.add(run, p)
	if err := r.ledger.SetBrake(t.Context(), job.Brake{Policy: "uploads"}); err != nil {
		t.Fatal(err)
	}
	if did := r.pass(); did != (Summary{Resent: 1}) || r.messagesOf(p) != 1 {
		t.Errorf("%+v", did)
	}
	if rows.reads != 1 {
		t.Errorf("%d pages were read to send one", rows.reads)
	}
}

func TestMoreThanOneBatchIsResent(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released)
	n := 2*openBatch + 50
	for range n {
		r.add(run, in(job.Sent)) // all due at the same instant
	}
	if did := r.pass(); did != (Summary{Resent: n}) || len(r.queue.Waiting(job.Enforce)) != n {
		t.Errorf("%+v", did)
	}
}

// DB-12: the index is a hint. What it shows is read again, and what it hides is
// found in a later pass.
func TestDB12IndexThatIsBehind(t *testing.T) {
	t.Run("shows what is done", func(t *testing.T) {
		for _, state := range []job.PageState{job.Completed, job.Discarded, job.Dead} {
			index := &hints{}
			r := newRegion(t, func(c *Config) { index.index = c.Index; c.Index = index })
			run := r.open("exports", job.Released)
			now := in(state)
			now.Death.LetterAt = noon
			now = r.add(run, now)
			then := now
			then.State, then.Rev, then.LeaseEnd = job.Claimed, now.Rev-1, noon.Add(-time.Hour)
			index.pages = []job.Page{then}
			if did := r.pass(); did.Resent+did.Buried+did.Letters != 0 {
				t.Errorf("%s: %+v", state, did)
			}
			r.untouched(now)
		}
	})
	t.Run("shows an old due time or a lease that was taken since", func(t *testing.T) {
		index := &hints{}
		r := newRegion(t, func(c *Config) { index.index = c.Index; c.Index = index })
		run := r.open("exports", job.Released)
		later, taken := in(job.Retrying), in(job.Claimed)
		later.NextDue = noon.Add(time.Minute)
		taken.LeaseEnd = noon.Add(time.Minute)
		later, taken = r.add(run, later), r.add(run, taken)
		index.pages = []job.Page{later, taken}
		for i := range index.pages {
			index.pages[i].NextDue, index.pages[i].LeaseEnd = noon.Add(-time.Hour), noon.Add(-time.Hour)
		}
		r.pass()
		r.untouched(later, taken)
	})
	t.Run("shows a dead page as open", func(t *testing.T) {
		// The row counts: its letter is owed, and nothing is sent.
		index := &hints{}
		r := newRegion(t, func(c *Config) { index.index = c.Index; c.Index = index })
		run := r.open("exports", job.Released)
		p := r.add(run, in(job.Dead))
		index.pages = []job.Page{p}
		index.pages[0].State = job.Retrying
		if did := r.pass(); did != (Summary{Letters: 1}) || r.messagesOf(p) != 0 {
			t.Errorf("%+v", did)
		}
	})
	t.Run("hides a page for one pass", func(t *testing.T) {
		r := newRegion(t)
		run := r.open("exports", job.Released)
		p := r.add(run, in(job.Claimed))
		r.ledger.Lag = func(job.Page) bool { return true }
		r.pass()
		r.untouched(p)
		r.ledger.Lag = nil
		if r.pass(); r.messagesOf(p) != 1 {
			t.Error("it was not found in the next pass")
		}
	})
}

func TestRefusedEntriesAreSaidAndTriedAgain(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released)
	var pages []job.Page
	for range 10 {
		pages = append(pages, r.add(run, in(job.Sent)))
	}
	entry := 0
	r.queue.Reject = func(string) bool { entry++; return entry == 3 || entry == 7 }
	if did := r.pass(); did.Resent != 8 || r.count(audit.BatchEntriesRefused) != 1 || r.count(audit.Enqueued) != 8 {
		t.Errorf("%+v", did)
	}
	for _, e := range r.log.Events() {
		if e.Event == audit.BatchEntriesRefused && (e.Count != 2 || e.Region != "eu-west-1") {
			t.Errorf("%+v", e)
		}
	}
	if did := r.pass(); did.Resent != 2 {
		t.Errorf("%+v", did)
	}
	for _, p := range pages {
		if r.messagesOf(p) != 1 {
			t.Errorf("%d messages", r.messagesOf(p))
		}
	}
}

// A worker that claims between the send and its note was faster: good.
func TestWorkerThatWasFaster(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released)
	p := r.add(run, in(job.Sent))
	r.queue.Hook = func(_ string, apply func() error) error {
		err := apply()
		claimed, cerr := p.Claim("w", noon, noon.Add(time.Minute), noon.Add(time.Hour))
		if cerr == nil {
			cerr = r.ledger.SwapPage(context.Background(), claimed)
		}
		if cerr != nil {
			t.Error(cerr)
		}
		return err
	}
	if did := r.pass(); did.Resent != 1 || r.page(p).State != job.Claimed {
		t.Errorf("%+v", did)
	}
}
