package hold_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// ended closes the scripted run and waits until nothing of it can land.
func (w *scripted) ended() {
	w.t.Helper()
	w.want(job.Completed)
	w.close(&w.run)
	w.reach(w.now.Add(w.set.FunctionTimeout + w.set.RequestLifetime))
}

// A run that has just ended may have a request on its way: it is read like an open one.
// What it deleted is answered ever after, because the hold was told that it is in flight;
// a hold that is placed later is told that a run is over.
func TestARunThatHasJustEndedIsNotHistory(t *testing.T) {
	for _, scope := range []hold.Scope{hold.Tenant, hold.Prefix, hold.Item} {
		w := newScripted(t, "a")
		w.attempt()
		w.close(&w.run)
		over := w.now.Add(w.set.FunctionTimeout + w.set.RequestLifetime)
		value := map[hold.Scope]string{hold.Prefix: root, hold.Item: root + "a"}[scope]
		s := w.place(t, "h", scope, value)
		w.wantStatus(s, hold.InFlight, hold.Counts{InFlight: 1})
		if s.EndedRuns != 0 {
			t.Errorf("%+v", s)
		}
		w.reach(over.Add(-1))
		w.wantStatus(w.ask(t, "h"), hold.InFlight, hold.Counts{InFlight: 1})
		w.reach(over)
		s = w.ask(t, "h")
		w.wantStatus(s, hold.TooLate, hold.Counts{TooLate: 1})
		if p := w.only(s); p.Receipt != w.row(w.page).Receipt || p.Outcomes["deleted"] != 1 {
			t.Errorf("%+v", p)
		}
		if s.EndedRuns != 1 {
			t.Errorf("%+v", s)
		}
		w.reach(over.Add(240 * time.Hour))
		w.wantStatus(w.ask(t, "h"), hold.TooLate, hold.Counts{TooLate: 1})
		if scope == hold.Item {
			continue
		}
		s = w.place(t, "late", scope, value)
		w.wantStatus(s, hold.Held, hold.Counts{})
		if s.EndedRuns != 1 || !strings.Contains(s.Text, "1 earlier run is over") {
			t.Errorf("%+v", s)
		}
	}
}

// The instant of a run and that of a placement are two clocks'. A run that only seems to
// have opened after the hold could act when it was placed, and is told all the same.
func TestAnAftermathByAnotherClock(t *testing.T) {
	w := newScripted(t, "a")
	ahead := w.run
	ahead.Rev++
	ahead.OpenedAt = w.now.Add(30 * time.Second)
	sure(w.ledger.SwapRun(t.Context(), ahead))
	w.run = ahead
	w.attempt()
	w.wantStatus(w.place(t, "h", hold.Tenant, ""), hold.InFlight, hold.Counts{InFlight: 1})
	w.ended()
	w.wantStatus(w.ask(t, "h"), hold.TooLate, hold.Counts{TooLate: 1})
}

// What became of a run that was in flight and can not be read any more takes nothing
// from the promise, and the answer says so.
func TestAnAftermathThatCanNotBeRead(t *testing.T) {
	for _, op := range []string{"pages", "get:receipt"} {
		w := newScripted(t, "a", "b")
		w.attempt()
		w.close(&w.run)
		over := w.now.Add(w.set.FunctionTimeout + w.set.RequestLifetime)
		w.place(t, "h", hold.Prefix, root+"b")
		w.reach(over)
		w.on(op, failing(failure.Network))
		s := w.ask(t, "h")
		w.wantStatus(s, hold.Held, hold.Counts{})
		if s.UnreadRuns != 1 || !strings.Contains(s.Text, "was not looked up in 1 run") {
			t.Errorf("%s: %+v", op, s)
		}
		w.wantStatus(w.ask(t, "h"), hold.TooLate, hold.Counts{TooLate: 1})
	}
}

// What an ended run did to an item is searched, newest first, up to the run that
// deleted it; a run that only looked at it is passed over.
func TestAnItemIsSearchedInEndedRuns(t *testing.T) {
	w := newScripted(t, "a")
	w.attempt()
	w.ended()
	deleted := w.run
	for i := range 5 { // later runs that found nothing, or kept what they found
		run := w.open(-24 * (i + 1))
		w.record(&run, acme, "", "~", 1)
		w.release(&run)
		w.close(&run)
	}
	rejected := w.open(-200)
	w.record(&rejected, acme, "", "~", 1)
	next, err := rejected.Await([]string{"too many"})
	sure(err)
	sure(w.ledger.SwapRun(t.Context(), next))
	next, err = next.Reject(w.now, "no", "me")
	sure(err)
	sure(w.ledger.SwapRun(t.Context(), next))
	older := w.open(24)
	w.record(&older, acme, "", "~", 1)
	w.release(&older)
	w.close(&older)
	w.reach(w.now.Add(time.Hour))
	w.calls = nil
	s := w.place(t, "h", hold.Item, root+"a")
	w.wantStatus(s, hold.TooLate, hold.Counts{TooLate: 1})
	if p := w.only(s); p.RunID != deleted.ID || s.EndedRuns != 8 || s.UnreadRuns != 0 {
		t.Errorf("%+v", s)
	}
	looked := 0
	for _, op := range w.calls {
		if op == "page-at" {
			looked++
		}
	}
	if looked != 7 { // not the older one
		t.Errorf("%d runs were searched", looked)
	}
	if s := w.place(t, "b", hold.Item, root+"b"); s.Answer != hold.Held || s.EndedRuns != 8 || len(s.Listed) != 0 {
		t.Errorf("%+v", s)
	}
}

// History that can not be read takes nothing from the promise, and the answer says so.
func TestHistoryThatCanNotBeRead(t *testing.T) {
	for _, op := range []string{"prefix", "page-at", "get:receipt"} {
		w := newScripted(t, "a")
		w.attempt()
		w.ended()
		w.on(op, failing(failure.Network))
		s := w.place(t, "h", hold.Item, root+"a")
		w.wantStatus(s, hold.Held, hold.Counts{})
		if s.UnreadRuns != 1 || !strings.Contains(s.Text, "was not looked up in 1 run") {
			t.Errorf("%s: %+v", op, s)
		}
	}
	w := newScripted(t, "a")
	w.attempt()
	w.ended()
	w.on("runs", after(func() { w.now = w.now.Add(50 * time.Second) }))
	if s := w.place(t, "h", hold.Item, root+"a"); s.UnreadRuns != 1 || !s.Complete {
		t.Errorf("%+v", s)
	}
}

// split lets the page split the item off and complete.
func (w *scripted) split(name string) (child job.Page) {
	w.t.Helper()
	w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
		if item.Key == root+name {
			return job.Unsure, false
		}
		return job.NoAnswer, false
	}
	w.attempt()
	w.want(job.Completed)
	w.store.KeyFault = nil
	for _, p := range w.ledger.AllPages(w.run.ID) {
		if p.Kind == job.ItemPage {
			child = p
		}
	}
	if child.Parent != w.page.ID || child.Intent == (job.Intent{}) {
		w.t.Fatalf("the child is %+v", child)
	}
	return child
}

// A split-off item is a page of its own, born with the intent of its parent.
func TestSplitOffItems(t *testing.T) {
	for _, v := range []policy.Versions{policy.CurrentVersions, policy.AllVersions} {
		w := newScriptedOf(t, v, v == policy.AllVersions, "a", "b", "c")
		child := w.split("b")
		for _, c := range []struct {
			scope         hold.Scope
			value         string
			before, later hold.Counts
		}{
			{hold.Tenant, "", hold.Counts{InFlight: 2}, hold.Counts{Held: 1, TooLate: 1}},
			{hold.Prefix, root, hold.Counts{InFlight: 2}, hold.Counts{Held: 1, TooLate: 1}},
			{hold.Prefix, root + "b", hold.Counts{Held: 1, InFlight: 1}, hold.Counts{Held: 2}},
			{hold.Prefix, root + "c", hold.Counts{Held: 1, InFlight: 1}, hold.Counts{Held: 1, TooLate: 1}},
			{hold.Item, root + "b", hold.Counts{Held: 1, InFlight: 1}, hold.Counts{Held: 2}},
			{hold.Item, root + "c", hold.Counts{InFlight: 1}, hold.Counts{TooLate: 1}},
		} {
			w.now = noon
			id := fmt.Sprint(c.scope, len(w.held()))
			s := w.place(t, id, c.scope, c.value)
			w.wantStatus(s, hold.InFlight, c.before)
			if !s.Until.Equal(child.QuietAt) {
				t.Errorf("%+v", s)
			}
			w.reach(child.QuietAt)
			answer := hold.Held
			if c.later.TooLate > 0 {
				answer = hold.TooLate
			}
			w.wantStatus(w.ask(t, id), answer, c.later)
		}
		w.wantStatus(w.place(t, "beyond", hold.Prefix, root+"\x7f"), hold.Held, hold.Counts{}) // neither the range nor its child
		// The item goes after all, by somebody's hand or a request that nobody knew of.
		ref := job.Ref{Key: root + "b"}
		if v == policy.AllVersions {
			ref = w.plan(child)
		}
		w.store.Remove(bucket, ref)
		s := w.place(t, "again", hold.Item, root+"b")
		w.wantStatus(s, hold.TooLate, hold.Counts{Held: 1, TooLate: 1})
		if p := w.only(s); p.PageID != child.ID {
			t.Errorf("%+v", s)
		}
	}
}

// A child of which the parent's receipt can not be read may be in flight.
func TestAChildThatCanNotBeFound(t *testing.T) {
	for _, op := range []string{"get:receipt", "page"} {
		w := newScripted(t, "a", "b")
		child := w.split("b")
		w.reach(child.QuietAt)
		w.on(op, failing(failure.Network))
		s := w.place(t, "h", hold.Item, root+"b")
		if s.Complete || s.Answer != hold.InFlight || !s.Until.Equal(w.now.Add(17*time.Minute)) {
			t.Errorf("%s: %+v", op, s)
		}
		w.wantStatus(w.ask(t, "h"), hold.Held, hold.Counts{Held: 2})
	}
}

// A page that splits an item off between the read of its row and that of its children
// was in flight as a whole.
func TestASplitWhileTheHoldIsPlaced(t *testing.T) {
	for _, scope := range []hold.Scope{hold.Tenant, hold.Prefix, hold.Item} {
		w := newScripted(t, "a", "b")
		value := map[hold.Scope]string{hold.Prefix: root + "b", hold.Item: root + "b"}[scope]
		var s hold.Status
		w.on("complete", func(apply func() error) error {
			read := "pages"
			if scope == hold.Item {
				read = "page-at"
			}
			w.on(read, after(func() { sure(apply()) }))
			s = w.place(t, "h", scope, value)
			return nil
		})
		child := w.split("b")
		w.wantStatus(s, hold.InFlight, hold.Counts{InFlight: 1})
		if !s.Until.Equal(child.QuietAt) {
			t.Errorf("%+v", s)
		}
	}
}

// plan returns the one item that the page's plan names.
func (w *scripted) plan(p job.Page) job.Ref {
	w.t.Helper()
	var refs []job.Ref
	for item := range w.store.Versions(bucket) {
		if job.ItemPageID(p.Run, p.Tenant, item.Ref()) == p.ID {
			refs = append(refs, item.Ref())
		}
	}
	if len(refs) != 1 {
		w.t.Fatalf("%v", refs)
	}
	return refs[0]
}
