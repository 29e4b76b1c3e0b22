package worker

import (
	"fmt"
	"testing"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// names returns n names in byte order.
func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%04d", i)
	}
	return all
}

// faulty lets the store answer these items, as often as they are sent, with the
// answer and without effect.
func (w *world) faulty(a job.Answer, items ...string) {
	bad := map[string]bool{}
	for _, name := range items {
		bad[root+name] = true
	}
	w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
		if bad[item.Key] {
			return a, false
		}
		return job.NoAnswer, false
	}
}

// TestF9_ChildrenAreBornInTheCompletingTransaction: before it there is none, and
// whichever way it ends, parent and child never both owe the item.
func TestF9_ChildrenAreBornInTheCompletingTransaction(t *testing.T) {
	for name, h := range map[string]handler{
		"refused": failing(class(failure.Network)), "died before": dieBefore, "died after": dieAfter, "answer lost": lost,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a", "b"}})
			w.faulty(job.Unsure, "b")
			w.on("complete", func(apply func() error) error {
				if n := len(w.children()); n != 0 {
					t.Errorf("%d children before the transaction", n)
				}
				return h(apply)
			})
			w.invoke()
			w.drain()
			if p := w.row(); p.State != job.Completed || p.Moved != 1 || p.Counts.Sum() != 1 || len(w.children()) != 1 {
				t.Fatalf("%+v with %d children", p, len(w.children()))
			}
			w.faulty(job.NoAnswer)
			w.send()
			w.drain()
			child := w.children()[0]
			if got := w.wrote(child); child.State != job.Completed || got["b"] != "deleted answered" {
				t.Errorf("child %s %v", child.State, got)
			}
		})
	}
}

// TestF9_AChildIsBornWithItsHistory: its plan entry is its open intent, and it
// inherits the quiet time. Finding nothing then means that we did it.
func TestF9_AChildIsBornWithItsHistory(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	w.faulty(job.Unsure, "b")
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "deleted answered", "b": ""})
	parent, child := w.row(), w.children()[0]
	plan := w.document(receipt.Plan, child, child.Intent.Plan)
	wide := w.document(receipt.Plan, parent, parent.Intent.Plan)
	if child.State != job.Planned || child.Intent.Deletes != 1 || child.Candidates != 1 || child.Parent != parent.ID ||
		child.Intent.Epoch != parent.Intent.Epoch || child.Intent.Fence != parent.Fence || !child.QuietAt.Equal(parent.QuietAt) || child.QuietAt.IsZero() {
		t.Errorf("born %+v of %+v", child, parent)
	}
	if len(plan.Lines) != 1 || plan.Header.Narrows != parent.Intent.Plan || !receipt.Subset(plan, wide) {
		t.Errorf("its plan is %+v", plan)
	}
	w.remove("b") // the unsure request lands after all
	w.send()
	w.drain()
	if got := w.wrote(w.children()[0]); got["b"] != "deleted inferred" {
		t.Errorf("child %v", got)
	}
}

// TestF9_AHoldBetweenParentAndChild vetoes the child until the parent's request
// can not land any more.
func TestF9_AHoldBetweenParentAndChild(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	w.faulty(job.Unsure, "b")
	w.invoke()
	w.faulty(job.NoAnswer)
	w.hold("h", hold.Item, root+"b")
	w.unhold("h")
	w.send()
	w.invoke()
	child := w.children()[0]
	if child.State != job.Retrying || !child.RetryAt.Equal(w.row().QuietAt) || child.Attempts != 0 {
		t.Errorf("%+v", child)
	}
	w.drain()
	if got := w.wrote(w.children()[0]); got["b"] != "held" || w.clock.Now().Before(w.row().QuietAt) {
		t.Errorf("child %v at %v", got, w.clock.Now())
	}
	w.wantLeft("b")
}

// TestF9_ASingleItemDoesNotSplit: it fails as the page it is.
func TestF9_ASingleItemDoesNotSplit(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}, settings: attempts(2)})
	w.faulty(job.Unsure, "b")
	w.invoke()
	w.send()
	w.drain()
	if all := w.children(); len(all) != 1 || all[0].State != job.Dead || w.wrote(all[0])["b"] != "failed" {
		t.Errorf("%d children, the first %s %v", len(all), all[0].State, w.wrote(all[0]))
	}
	w.wantLetters(job.ReasonAttempts)
}

// TestF9_TooManyFailuresAreThePagesOwn: 25 are split off, 26 are not.
func TestF9_TooManyFailuresAreThePagesOwn(t *testing.T) {
	for _, n := range []int{1, 25, 26} {
		w := newWorld(t, setup{keys: names(40)})
		w.faulty(job.Unsure, names(n)...)
		w.invoke()
		p, born := w.row(), len(w.children())
		if n <= 25 && (p.State != job.Completed || p.Moved != n || born != n || p.Counts[job.Deleted] != 40-n) {
			t.Errorf("%d failing: %s, %d moved, %d born", n, p.State, p.Moved, born)
		}
		if n > 25 && (p.State != job.Retrying || p.Moved != 0 || born != 0) {
			t.Errorf("%d failing: %s, %d moved, %d born", n, p.State, p.Moved, born)
		}
	}
}

// TestF9_AReasonThatIsThePagesDoesNotSplit: rate, time, a call without an answer,
// and every item alike.
func TestF9_AReasonThatIsThePagesDoesNotSplit(t *testing.T) {
	for name, play := range map[string]func(*world){
		"slow down":        func(w *world) { w.faulty(job.Slow, "b") },
		"no answer":        func(w *world) { w.each("delete", failing(class(failure.Network))) },
		"every item alike": func(w *world) { w.faulty(job.Unsure, "a", "b") },
		"time ran out":     func(w *world) { w.faulty(job.Unsure, "b"); w.on("delete", after(func() { w.clock.advance(57e9) })) },
		"standing is mute": func(w *world) { w.on("delete", lost); w.each("standing", failing(class(failure.Network))) },
		"no plan for child": func(w *world) {
			w.faulty(job.Unsure, "b")
			w.on("put:plan", before(func() {}), failing(class(failure.Network)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a", "b"}})
			play(w)
			w.invoke()
			if p := w.row(); p.State != job.Retrying || len(w.children()) != 0 || p.Attempts != 1 {
				t.Errorf("%s with %d children after %d attempts", p.State, len(w.children()), p.Attempts)
			}
		})
	}
}

// TestR68_499Of500: one denial does not send its 499 neighbours round again.
func TestR68_499Of500(t *testing.T) {
	w := newWorld(t, setup{keys: names(500)})
	w.must(w.store.DenyKey(bucket, root+"0137"))
	w.invoke()
	p := w.row()
	if p.State != job.Completed || p.Counts[job.Deleted] != 499 || p.Moved != 1 || p.Bytes != 4990 {
		t.Fatalf("%s %v, %d moved", p.State, p.Counts, p.Moved)
	}
	w.wantLetters()
	w.send()
	w.drain()
	w.wantLetters(job.ReasonForbidden)
	child := w.children()[0]
	if child.State != job.Dead || child.Attempts != 1 || w.wrote(child)["0137"] != "refused" {
		t.Errorf("child %s after %d attempts: %v", child.State, child.Attempts, w.wrote(child))
	}
	if len(w.sent) != 2 || len(w.sent[0]) != 500 || len(w.sent[1]) != 1 {
		t.Errorf("%d delete calls", len(w.sent))
	}
	if len(w.store.Effects()) != 499 {
		t.Errorf("%d effects", len(w.store.Effects()))
	}
	var sum job.Totals
	for _, p := range w.ledger.AllPages(w.run.ID) {
		sum = sum.Plus(p.Totals())
	}
	if sum.Candidates != 500 || sum.Counts.Sum() != 500 {
		t.Errorf("%d candidates, %d outcomes", sum.Candidates, sum.Counts.Sum())
	}
}

// TestR128_AForcedPermissionRejection of the whole page is the page's, at once.
func TestR128_AForcedPermissionRejection(t *testing.T) {
	for name, deny := range map[string]func(*world){
		"item by item": func(w *world) { w.must(w.store.Deny(bucket, root)) },
		"as a call":    func(w *world) { w.each("delete", failing(class(failure.Forbidden))) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{keys: names(3)})
			deny(w)
			w.drain()
			w.wantLetters(job.ReasonForbidden)
			if p := w.row(); p.State != job.Dead || p.Attempts != 1 || p.Counts[job.Refused] != 3 || len(w.children()) != 0 || len(w.sent) != 1 {
				t.Errorf("%+v after %d calls", p, len(w.sent))
			}
		})
	}
}
