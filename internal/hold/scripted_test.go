package hold_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// scripted is a world of one released run and one page of it, in which a test decides
// the fate of each call.
type scripted struct {
	*world
	t     *testing.T
	run   job.Run
	page  job.Page
	next  map[string][]fate // for one call each
	calls []string
}

// fate stands in for one call; it makes the call with apply, or does not.
type fate func(apply func() error) error

func failing(c failure.Class) fate { return func(func() error) error { return class(c) } }

// lost: it happened, and the answer says nothing.
func lost(apply func() error) error {
	_ = apply()
	return class(failure.Network)
}

// die ends the process before the call, dieAfter behind it.
func die(func() error) error { panic(errKilled) }

func dieAfter(apply func() error) error {
	_ = apply()
	panic(errKilled)
}

func after(act func()) fate {
	return func(apply func() error) error {
		err := apply()
		act()
		return err
	}
}

// times repeats a fate.
func times(n int, f fate) []fate { return slices.Repeat([]fate{f}, n) }

func newScripted(t *testing.T, names ...string) *scripted {
	t.Helper()
	return newScriptedOf(t, policy.CurrentVersions, false, names...)
}

func newScriptedOf(t *testing.T, v policy.Versions, versioned bool, names ...string) *scripted {
	t.Helper()
	w := &scripted{world: newWorld(v, versioned), t: t, next: map[string][]fate{}}
	w.meet = func(by *process, op string, apply func() error) error {
		if by.killed {
			panic(errKilled)
		}
		w.calls = append(w.calls, op)
		if queued := w.next[op]; len(queued) > 0 {
			w.next[op] = queued[1:]
			defer func() {
				if r := recover(); r != nil {
					by.killed = true
					panic(r)
				}
			}()
			return queued[0](apply)
		}
		return apply()
	}
	for _, name := range names {
		w.put(name)
	}
	w.run = w.open(0)
	w.page = w.record(&w.run, acme, "", "~", len(names))
	w.release(&w.run)
	return w
}

func (w *scripted) on(op string, fates ...fate) { w.next[op] = append(w.next[op], fates...) }

// attempt delivers the page's message and reports whether it may be acknowledged.
func (w *scripted) attempt() bool { return w.work(w.process(), w.run, w.page) }

// interrupted lets the first claim die with its intent committed.
func (w *scripted) interrupted() job.Page {
	w.t.Helper()
	w.on("delete", die)
	w.attempt()
	p := w.row(w.page)
	if p.State != job.Intended || p.QuietAt.IsZero() {
		w.t.Fatalf("the page is %+v", p)
	}
	return p
}

func (w *scripted) reach(at time.Time) {
	if at.After(w.now) {
		w.now = at
	}
}

func (w *scripted) want(state job.PageState) {
	w.t.Helper()
	if p := w.row(w.page); p.State != state {
		w.t.Errorf("the page is %s, want %s", p.State, state)
	}
}

func (w *scripted) wantLeft(names ...string) {
	w.t.Helper()
	if got := w.left(); !slices.Equal(got, names) {
		w.t.Errorf("left %v, want %v", got, names)
	}
}

// wantStatus compares the words and numbers of an answer.
func (w *scripted) wantStatus(s hold.Status, answer hold.Word, c hold.Counts) {
	w.t.Helper()
	if s.Answer != answer || s.Pages != c || !s.Complete {
		w.t.Errorf("%s %+v, complete %v: %s; want %s %+v", s.Answer, s.Pages, s.Complete, s.Text, answer, c)
	}
}

// receipt returns the lines of the page's receipt, which must say under which epoch
// the holds were read.
func (w *scripted) receipt(p job.Page) []receipt.Line {
	w.t.Helper()
	name := receipt.Name(receipt.Receipt, p.Run, p.ID, p.Receipt)
	data, err := w.evidence.Get(context.Background(), name)
	sure(err)
	doc, err := receipt.Verify(name, data)
	sure(err)
	if epoch, err := w.ledger.Epoch(context.Background(), p.Tenant); err != nil || doc.Header.HoldEpoch != epoch {
		w.t.Errorf("the receipt is of epoch %d, and the tenant at %d", doc.Header.HoldEpoch, epoch)
	}
	return doc.Lines
}
