package enqueue

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// TestEveryWriteFailsInEveryWay strikes each write of a run, one at a time: it did
// not happen, it happened but the answer is lost, the process dies before or after
// it. The tick comes again, as the scheduler sends it. In the end there is one
// released run with the pages of an undisturbed one, and every page either has a
// message or waits for reconcile.
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
	r, want := busy(t)
	h := hook(&clean, -1, strike{})
	r.ledger.Hook, r.queue.Hook = h, h
	r.start(tick)
	r.wantChain(want)
	for _, op := range []string{"publish-policy", "open-run", "record", "run:released", "send", "pages:sent"} {
		if !slices.Contains(clean, op) {
			t.Errorf("the run never writes %q", op)
		}
	}
	for at, op := range clean {
		for _, s := range strikes {
			t.Run(fmt.Sprintf("%02d %s: %s", at, op, s), func(t *testing.T) {
				r, want := busy(t)
				var writes []string
				h := hook(&writes, at, s)
				r.ledger.Hook, r.queue.Hook = h, h
				for range 3 {
					var err error
					if !process(func() { _, err = r.Start(context.Background(), r.deadline(), tick) }) && err == nil {
						break
					}
				}
				r.wantChain(want)
				r.wantSentOrPlanned()
			})
		}
	}
}

// wantSentOrPlanned checks that no page without a message is noted as sent, and
// that what is not noted is due, so that reconcile sends it.
func (r *region) wantSentOrPlanned() {
	r.t.Helper()
	messages := map[job.PageID]int{}
	for _, d := range r.queue.Waiting(job.Enforce) {
		c, err := job.Decode(d.Body)
		if err != nil {
			r.t.Error(err)
		}
		messages[c.PageID]++
	}
	for _, p := range r.chain(r.onlyRun()) {
		switch {
		case p.Candidates == 0 && (p.State != job.Completed || messages[p.ID] != 0):
			r.t.Errorf("a page without candidates is %s and has %d messages", p.State, messages[p.ID])
		case p.State == job.Sent && messages[p.ID] == 0:
			r.t.Errorf("the page %q of %s is noted as sent and has no message", p.After, p.Tenant)
		case p.State.Open() && (p.NextDue.IsZero() || p.NextDue.After(noon.Add(r.Settings.Overdue()))):
			r.t.Errorf("the page %q of %s is due at %v", p.After, p.Tenant, p.NextDue)
		}
	}
}

// The same for a run whose guard trips: whatever fails, nothing is sent, and it is said.
func TestTrippedRunSendsNothingWhateverFails(t *testing.T) {
	for at := range 8 {
		for _, s := range strikes {
			r := newRegion(t, parse(t, "max_share: 1", "max_objects: 9"), sized(3, 7))
			r.put(31*day, keys("exports/a/", 10)...)
			n := 0
			r.ledger.Hook = func(op string, apply func() error) error {
				if n++; n == at+1 {
					return s.hit(op, apply)
				}
				return apply()
			}
			for range 3 {
				var err error
				if !process(func() { _, err = r.Start(context.Background(), r.deadline(), tick) }) && err == nil {
					break
				}
			}
			if run := r.onlyRun(); run.State != job.AwaitingApproval || r.count(audit.GuardTripped) == 0 {
				t.Errorf("write %d, %s: %s, %d events", at, s, run.State, r.count(audit.GuardTripped))
			}
			r.messages(0)
		}
	}
}
