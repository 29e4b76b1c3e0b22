package hold_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// F19: a hold over 10,000 open pages, a thousand of them in flight, answers in one
// invocation in which every call takes 50 milliseconds, and asks three times for a
// hundred pages at most.
func TestF19_AHoldOverTenThousandOpenPages(t *testing.T) {
	const runs, pages = 10, 1000
	w := newScripted(t)
	for n := range runs {
		run := w.open(n + 1)
		last := ""
		for i := range pages {
			p := w.record(&run, acme, last, fmt.Sprintf("k%04d", i), 1000)
			if last = p.Through; i%10 == 5 {
				p.State, p.Intent, p.QuietAt = job.Intended, job.Intent{Plan: "any", Fence: 1, Deletes: 1}, noon.Add(10*time.Minute)
				p.Rev++
				sure(w.ledger.SwapPage(t.Context(), p))
			}
		}
		w.release(&run)
	}
	calls := 0
	w.meet = func(_ *process, _ string, apply func() error) error {
		calls++
		w.now = w.now.Add(50 * time.Millisecond)
		return apply()
	}
	for _, c := range []struct {
		scope hold.Scope
		value string
		want  hold.Counts
		calls int
	}{
		{hold.Tenant, "", hold.Counts{Held: runs*pages*9/10 + 1, InFlight: runs * pages / 10}, 3 * runs * pages / 100},
		{hold.Prefix, root + "k01", hold.Counts{Held: runs*91 + 1, InFlight: runs * 10}, 3 * runs * pages / 100},
		{hold.Item, root + "k0100", hold.Counts{Held: runs + 1}, 4 + 2*(runs+1)},
	} {
		calls, w.now = 0, noon
		s := w.place(t, string(c.scope), c.scope, c.value)
		took := w.now.Sub(noon)
		t.Logf("%s: %d calls, %v", c.scope, calls, took)
		if s.Pages != c.want || !s.Complete || len(s.Listed)+s.More != c.want.InFlight {
			t.Errorf("%s: %+v, complete %v, %d listed; want %+v", c.scope, s.Pages, s.Complete, len(s.Listed), c.want)
		}
		if calls > c.calls || took > w.set.FunctionTimeout-w.set.TakeMargin {
			t.Errorf("%s: %d calls in %v, at most %d", c.scope, calls, took, c.calls)
		}
	}
}
