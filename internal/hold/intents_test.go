package hold_test

import (
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// A claim that resumed under the hold does not put off what was named: each veto keeps
// the quiet time of its moment.
func TestAResumeUnderTheHoldDoesNotPutItOff(t *testing.T) {
	w := newScripted(t, "a", "b")
	quiet := w.interrupted().QuietAt
	w.reach(w.row(w.page).LeaseEnd)
	s := w.place(t, "h", hold.Item, root+"a")
	w.wantStatus(s, hold.InFlight, hold.Counts{InFlight: 1})
	w.on("delete", die)
	w.attempt()
	p := w.row(w.page)
	if p.Intent.Epoch != s.Hold.Epoch || !p.QuietAt.After(quiet) {
		t.Fatalf("the page is %+v", p)
	}
	again := w.ask(t, "h")
	w.wantStatus(again, hold.InFlight, hold.Counts{InFlight: 1})
	if !again.Until.Equal(s.Until) {
		t.Errorf("until %v, then %v", s.Until, again.Until)
	}
	w.reach(quiet)
	w.wantStatus(w.ask(t, "h"), hold.Held, hold.Counts{Held: 1})
	w.wantStatus(w.place(t, "b", hold.Item, root+"b"), hold.InFlight, hold.Counts{InFlight: 1}) // the second intent names it
}

// S4, F5: an answer for an item is no end of the waiting. The first request of the claim
// that had it is still on its way, and the same bytes were uploaded again.
func TestS4_AnAnsweredItemStaysInFlight(t *testing.T) {
	for _, scope := range []hold.Scope{hold.Tenant, hold.Prefix, hold.Item} {
		w := newScripted(t, "a", "b", "c")
		var late func() error
		w.store.Hook = func(op string, apply func() error) error {
			if op == "delete" && late == nil {
				late = apply // it was signed in time
				return class(failure.Network)
			}
			return apply()
		}
		w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
			return map[bool]job.Answer{true: job.Slow}[item.Key != root+"a"], false
		}
		w.attempt()
		w.want(job.Retrying)
		w.wantLeft("b", "c")
		w.store.KeyFault = nil
		_, err := w.store.Put(bucket, job.Item{Key: root + "a", ETag: "e-a", Size: 10})
		sure(err)
		w.reach(w.row(w.page).RetryAt)
		w.reach(w.row(w.page).LeaseEnd)
		first := w.row(w.page).QuietAt
		value := map[hold.Scope]string{hold.Prefix: root, hold.Item: root + "a"}[scope]
		w.wantStatus(w.place(t, "h", scope, value), hold.InFlight, hold.Counts{InFlight: 1})
		w.on("delete", die)
		w.attempt() // under the hold; it names a because it was answered
		p := w.row(w.page)
		if p.Intent.Epoch != 1 || p.Intent.Deletes == 0 || !p.QuietAt.After(first) {
			t.Fatalf("the page is %+v", p)
		}
		s := w.ask(t, "h")
		w.wantStatus(s, hold.InFlight, hold.Counts{InFlight: 1})
		if !s.Until.Equal(p.QuietAt) {
			t.Errorf("until %v, want %v", s.Until, p.QuietAt)
		}
		w.reach(first.Add(-1))
		sure(late())
		w.reach(p.QuietAt)
		s = w.ask(t, "h")
		w.wantStatus(s, hold.TooLate, hold.Counts{TooLate: 1})
		if l := w.only(s); l.Outcomes["deleted"] != 1 {
			t.Errorf("%+v", l)
		}
	}
}

// What was decided before the hold has an end that no later claim moves.
func TestWhatWasDecidedBeforeTheHoldHasAnEnd(t *testing.T) {
	for _, scope := range []hold.Scope{hold.Tenant, hold.Item} {
		w := newScripted(t, "a", "b")
		w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
			return map[bool]job.Answer{true: job.Slow}[item.Key != root+"a"], false
		}
		w.attempt()
		w.want(job.Retrying)
		w.store.KeyFault = nil
		s := w.place(t, "h", scope, map[hold.Scope]string{hold.Item: root + "a"}[scope])
		w.wantStatus(s, hold.InFlight, hold.Counts{InFlight: 1})
		end := s.Hold.PlacedAt.Add(2 * (w.set.FunctionTimeout + w.set.RequestLifetime))
		w.reach(w.row(w.page).LeaseEnd)
		w.on("delete", die)
		w.attempt()
		w.alter(func(p *job.Page) { p.QuietAt = end.Add(time.Hour) }) // as claim after claim would
		if p := w.row(w.page); p.Intent.Epoch != s.Hold.Epoch {
			t.Fatalf("the page is %+v", p)
		}
		s = w.ask(t, "h")
		w.wantStatus(s, hold.InFlight, hold.Counts{InFlight: 1})
		if !s.Until.Equal(end) {
			t.Errorf("until %v, want %v", s.Until, end)
		}
		w.reach(end.Add(-1))
		w.wantStatus(w.ask(t, "h"), hold.InFlight, hold.Counts{InFlight: 1})
		w.reach(end)
		w.wantStatus(w.ask(t, "h"), hold.TooLate, hold.Counts{TooLate: 1})
	}
}

// Where another object stands now, the planned one is gone, and nobody can prove by
// whom: too late is told by that word.
func TestASupersededItemIsTooLate(t *testing.T) {
	w := newScripted(t, "a", "b")
	w.interrupted()
	_, err := w.store.Put(bucket, job.Item{Key: root + "a", ETag: "other", Size: 10})
	sure(err)
	w.reach(w.row(w.page).LeaseEnd)
	w.attempt()
	w.want(job.Completed)
	w.reach(w.row(w.page).QuietAt)
	receipt := w.row(w.page).Receipt
	s := w.place(t, "t", hold.Tenant, "")
	w.wantStatus(s, hold.TooLate, hold.Counts{TooLate: 1})
	w.wantGone(w.only(s), receipt, "", map[string]int{"deleted": 1, "superseded": 1})
	s = w.place(t, "i", hold.Item, root+"a")
	w.wantStatus(s, hold.TooLate, hold.Counts{TooLate: 1})
	w.wantGone(w.only(s), receipt, job.Inferred, map[string]int{"superseded": 1})
}

// What the store refused may be there or not, also in a page that was given up: only a
// look tells.
func TestARefusedItemIsLookedAt(t *testing.T) {
	for _, state := range []job.PageState{job.Dead, job.Discarded} {
		w := newScripted(t, "a", "b")
		sure(w.store.Deny(bucket, root))
		w.attempt()
		w.want(job.Dead)
		if p := w.row(w.page); p.Counts[job.Refused] != 2 || p.Receipt == "" {
			t.Fatalf("the page is %+v", p)
		}
		w.alter(func(p *job.Page) { p.State = state })
		w.reach(w.row(w.page).QuietAt)
		w.wantStatus(w.place(t, "t", hold.Tenant, ""), hold.Held, hold.Counts{Held: 1})
		w.store.Remove(bucket, job.Ref{Key: root + "a"})
		s := w.ask(t, "t")
		w.wantStatus(s, hold.TooLate, hold.Counts{TooLate: 1})
		w.wantGone(w.only(s), w.row(w.page).Receipt, job.Inferred, map[string]int{"gone": 1})
	}
}

// What was kept for a reason of its own was never named by an intent.
func TestARetainedItemIsHeld(t *testing.T) {
	w := newScripted(t, "a")
	_, err := w.store.Put(bucket, job.Item{Key: root + "b", Modified: expired}) // no ETag, so the store can not check a condition
	sure(err)
	w.alter(func(p *job.Page) { p.Candidates = 2 })
	w.page = w.row(w.page)
	if p := w.interrupted(); p.Planned != 2 || p.Intent.Deletes != 1 {
		t.Fatalf("the page is %+v", p)
	}
	w.wantStatus(w.place(t, "b", hold.Item, root+"b"), hold.Held, hold.Counts{Held: 1})
	w.wantStatus(w.place(t, "a", hold.Item, root+"a"), hold.InFlight, hold.Counts{InFlight: 1})
}

// An intent that was committed under the hold leaves what it covers alone: what was
// HELD stays so while the page deletes its other items.
func TestAnIntentUnderTheHoldDoesNotTouchIt(t *testing.T) {
	w := newScripted(t, "a", "b")
	w.wantStatus(w.place(t, "h", hold.Item, root+"a"), hold.Held, hold.Counts{Held: 1})
	w.interrupted()
	w.wantStatus(w.ask(t, "h"), hold.Held, hold.Counts{Held: 1})
	w.reach(w.row(w.page).LeaseEnd)
	w.attempt()
	w.want(job.Completed)
	w.wantStatus(w.ask(t, "h"), hold.Held, hold.Counts{Held: 1})
	w.wantLeft("a")
}

// An intent of a page that names no item within the scope is none of the hold's.
func TestAnIntentThatDoesNotNameTheItem(t *testing.T) {
	w := newScripted(t, "a", "b")
	_, err := w.store.Put(bucket, job.Item{Key: root + "young", ETag: "y", Modified: noon})
	sure(err)
	w.interrupted()
	w.wantStatus(w.place(t, "h", hold.Item, root+"young"), hold.Held, hold.Counts{Held: 1})
	w.wantStatus(w.place(t, "p", hold.Prefix, root+"y"), hold.Held, hold.Counts{Held: 1})
	w.wantStatus(w.place(t, "q", hold.Prefix, root+"b"), hold.InFlight, hold.Counts{InFlight: 1})
	w.wantStatus(w.place(t, "r", hold.Prefix, root), hold.InFlight, hold.Counts{InFlight: 1})
}

// S18: what was decided before the hold stays dead when the hold is released.
func TestS18_AReleaseRevivesNothing(t *testing.T) {
	w := newScripted(t, "a")
	quiet := w.interrupted().QuietAt
	w.reach(quiet)
	w.wantStatus(w.place(t, "h", hold.Tenant, ""), hold.Held, hold.Counts{Held: 1})
	w.unhold(t, "h")
	for !w.attempt() {
		w.reach(w.row(w.page).RetryAt)
	}
	w.want(job.Completed)
	w.wantLeft("a")
}
