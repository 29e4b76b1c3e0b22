package worker

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// doomed is a world whose page is dead with an open intent: the only claim that it
// was allowed ended at its delete as fate says.
func doomed(t *testing.T, s setup, fate func(*world) handler) *world {
	t.Helper()
	s.settings = attempts(1)
	w := newWorld(t, s)
	w.on("delete", fate(w))
	w.drain()
	if p := w.row(); p.State != job.Dead || p.Intent == (job.Intent{}) {
		t.Fatalf("the page is %s with the intent %+v", p.State, p.Intent)
	}
	return w
}

// The ways a claim ends at its delete.
func undone(*world) handler { return dieBefore }
func done(*world) handler   { return dieAfter }

// only lets the delete reach the named items before the process dies.
func only(items ...string) func(*world) handler {
	return func(w *world) handler {
		return func(apply func() error) error {
			w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
				if slices.Contains(items, item.Key[len(root):]) {
					return job.NoAnswer, false
				}
				return job.Slow, false
			}
			_ = apply()
			w.store.KeyFault = nil
			return dieBefore(apply)
		}
	}
}

// abandon gives the dead page up, as an operator's discard does, and sends it once more.
func (w *world) abandon() {
	w.t.Helper()
	w.config.Settings.MaxAttempts = 5
	next, err := w.row().Abandon(w.clock.Now(), w.clock.Now().Add(w.config.Settings.Overdue()))
	w.must(err)
	w.must(w.ledger.SwapPage(w.t.Context(), next))
	w.post(job.NewMessage(w.run, next))
	w.calls, w.sent = nil, nil
	w.config.Artifacts = harmless{taps{w}}
}

// harmless is a store that must not be asked to delete.
type harmless struct{ taps }

func (h harmless) Delete(context.Context, job.Deletion) ([]job.Answer, error) {
	h.w.t.Error("F17: an abandoned page asked for a delete")
	panic("an abandoned page asked for a delete")
}

// wantDiscarded compares the outcomes, and checks what every abandoned page shows
// in the end.
func (w *world) wantDiscarded(outcomes map[string]string) {
	w.t.Helper()
	w.want(job.Discarded, outcomes)
	p := w.row()
	if p.State != job.Discarded {
		return
	}
	if n := w.count("intend"); n != 0 || p.Counts.Sum()+p.Moved != p.Planned || p.Planned != len(outcomes) {
		w.t.Errorf("%d intents, %d outcomes and %d moved of %d planned", n, p.Counts.Sum(), p.Moved, p.Planned)
	}
	if p.SettledAt.IsZero() || p.SettledAt.Before(p.QuietAt) {
		w.t.Errorf("settled at %v, quiet at %v", p.SettledAt, p.QuietAt)
	}
	if doc := w.document(receipt.Receipt, p, p.Receipt); doc.Header.Plan != p.Intent.Plan || doc.Totals().Counts != p.Counts {
		w.t.Error("the receipt does not answer the plan in force, or not as the row has it")
	}
	if t := p.Totals(); t.Candidates != t.Counts.Sum() || t.Candidates != len(outcomes) {
		w.t.Errorf("%d candidates, %d outcomes", t.Candidates, t.Counts.Sum())
	}
}

// TestF17_EveryItemIsSettledByALook: all that can have become of a planned item,
// and what is called its end.
func TestF17_EveryItemIsSettledByALook(t *testing.T) {
	again := job.Item{Key: root + "a", ETag: "e-a", Size: 10, Modified: noon.Add(time.Minute)} // equal bytes, later
	over := func(w *world) handler {
		return func(apply func() error) error { w.store1(again); return dieAfter(apply) }
	}
	erase := func(w *world) {
		for item := range w.store.Versions(bucket) {
			w.store.Remove(bucket, item.Ref())
		}
	}
	for _, c := range []struct {
		name  string
		setup setup
		fate  func(*world) handler
		after func(*world)
		want  string
		stays bool
	}{
		{name: "nothing went", fate: undone, want: "failed", stays: true},
		{name: "ours went", fate: done, want: "deleted inferred"},
		{name: "somebody took it", fate: undone, after: func(w *world) { w.remove("a") }, want: "deleted inferred"},
		{name: "another stands there", fate: undone, after: func(w *world) { w.store1(job.Item{Key: root + "a", ETag: "new"}) }, want: "superseded", stays: true},
		{name: "equal bytes stand there, F5", fate: undone, after: func(w *world) { w.store1(again) }, want: "superseded", stays: true},
		{name: "ours went and another came", fate: done, after: func(w *world) { w.store1(again) }, want: "superseded", stays: true},
		{name: "held", fate: undone, after: func(w *world) { w.hold("h", hold.Item, root+"a") }, want: "held", stays: true},
		{name: "held and released since, S18", fate: undone, after: func(w *world) { w.hold("h", hold.Tenant, ""); w.unhold("h") }, want: "held", stays: true},
		{name: "ours went and is held", fate: done, after: func(w *world) { w.hold("h", hold.Tenant, "") }, want: "deleted inferred"},
		{name: "held and another stands there", fate: undone, want: "superseded", stays: true,
			after: func(w *world) { w.hold("h", hold.Tenant, ""); w.store1(again) }},
		{name: "a marker was laid", setup: setup{versioned: true}, fate: done, want: "deleted_marker_only inferred"},
		{name: "no marker was laid", setup: setup{versioned: true}, fate: undone, want: "failed", stays: true},
		{name: "a marker lies over equal bytes, F5", setup: setup{versioned: true}, fate: over, want: "superseded", stays: true},
		{name: "every version is gone", setup: setup{versioned: true}, fate: done, after: erase, want: "deleted inferred"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.setup.keys = []string{"a"}
			w := doomed(t, c.setup, c.fate)
			if c.after != nil {
				c.after(w)
			}
			w.abandon()
			effects := len(w.store.Effects())
			w.drain()
			w.wantDiscarded(map[string]string{"a": c.want})
			if got := w.store.Has(bucket, root+"a"); got != c.stays {
				t.Errorf("stays %v, want %v", got, c.stays)
			}
			for _, e := range w.store.Effects()[effects:] {
				if !e.Restored {
					t.Error("F17: something was deleted for an abandoned page")
				}
			}
			if all := w.events(audit.Discarded); len(all) != 1 || all[0].Count != 1 || all[0].JobID != w.first || len(w.events(audit.Succeeded)) != 0 {
				t.Errorf("events %+v", all)
			}
		})
	}
}

// TestF17_TheReasonsAreOnRecord: a reader of the receipt sees why each item stayed.
func TestF17_TheReasonsAreOnRecord(t *testing.T) {
	w := doomed(t, setup{keys: []string{"a", "b", "c"}}, only("a"))
	w.hold("h", hold.Item, root+"b")
	w.abandon()
	w.drain()
	w.wantDiscarded(map[string]string{"a": "deleted inferred", "b": "held", "c": "failed"})
	lines := w.document(receipt.Receipt, w.row(), w.row().Receipt).Lines
	if lines[1].HoldID != "h" || lines[1].Decision != receipt.Veto || lines[2].Reason != reasonAbandoned || lines[2].Decision != receipt.Delete {
		t.Errorf("%+v", lines)
	}
}

// TestF17_ItWaitsForTheQuietTime, and that is no attempt: a signed request of the
// dead claim lands in the last second in which it can.
func TestF17_ItWaitsForTheQuietTime(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}, settings: attempts(1)})
	var ghost func() error
	w.store.Hook = func(op string, apply func() error) error {
		if op == "delete" {
			ghost = apply
			return dieBefore(apply)
		}
		return apply()
	}
	w.invoke()
	w.clock.reach(w.row().LeaseEnd)
	w.drain()
	w.store.Hook = nil
	w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
		return map[bool]job.Answer{true: job.Slow}[item.Key == root+"b"], false
	}
	attempts := w.row().Attempts
	w.abandon()
	w.drainUntil(job.Retrying)
	p := w.row()
	if !p.RetryAt.Equal(p.QuietAt) || p.QuietAt.Before(noon.Add(16*time.Minute)) || p.Attempts != attempts || p.Counts.Sum() != 0 || !p.Abandoned {
		t.Errorf("waiting: %+v", p)
	}
	if n := w.count("list"); n != 0 {
		t.Errorf("looked %d times before anything can be settled", n)
	}
	w.clock.reach(p.QuietAt.Add(-time.Second))
	w.must(ghost())
	w.drain()
	w.wantDiscarded(map[string]string{"a": "deleted inferred", "b": "failed"})
	if p := w.row(); p.Attempts != attempts+1 {
		t.Errorf("%d attempts after %d", p.Attempts, attempts)
	}
}

// TestF17_AnIntentWhoseClaimIsUnknown is quiet once every claim from before the
// operator's word is.
func TestF17_AnIntentWhoseClaimIsUnknown(t *testing.T) {
	w := doomed(t, setup{keys: []string{"a"}}, undone)
	w.abandon()
	early := w.row()
	early.QuietAt, early.Rev = time.Time{}, early.Rev+1 // an intent whose claim is not on record
	w.must(w.ledger.SwapPage(t.Context(), early))
	w.hold("h", hold.Tenant, "")
	w.drain()
	w.wantDiscarded(map[string]string{"a": "held"})
	set := w.config.Settings
	if at := early.RestartedAt.Add(set.FunctionTimeout + set.RequestLifetime); w.row().SettledAt.Before(at) {
		t.Errorf("settled at %v, before %v", w.row().SettledAt, at)
	}
}

// TestF17_EarlierAnswersAreKept, whatever stands there now (F10).
func TestF17_EarlierAnswersAreKept(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b", "c"}, settings: attempts(2)})
	w.on("list", after(func() { w.remove("c") }))
	w.slow("b", 9999)
	w.drain()
	w.want(job.Dead, map[string]string{"a": "deleted answered", "b": "failed", "c": "already_absent"})
	w.store1(job.Item{Key: root + "a", ETag: "new"})
	w.store1(job.Item{Key: root + "c", ETag: "new"})
	w.abandon()
	w.drain()
	w.wantDiscarded(map[string]string{"a": "deleted answered", "b": "failed", "c": "already_absent"})
	w.wantLeft("a", "b", "c")
	if p := w.row(); p.Bytes != 10 {
		t.Errorf("%d bytes", p.Bytes)
	}
}

// TestF17_WhatWasRefusedStaysRefused: by the page's reason, and by the receipt of a
// page that was redriven since and died of something else.
func TestF17_WhatWasRefusedStaysRefused(t *testing.T) {
	refused := func(t *testing.T) *world {
		w := newWorld(t, setup{keys: []string{"a", "b"}, settings: attempts(2)})
		w.must(w.store.Deny(bucket, root))
		w.drain()
		w.want(job.Dead, map[string]string{"a": "refused", "b": "refused"})
		return w
	}
	t.Run("item by item", func(t *testing.T) {
		w := refused(t)
		w.remove("b")
		w.abandon()
		w.drain()
		w.wantDiscarded(map[string]string{"a": "refused", "b": "deleted inferred"})
	})
	t.Run("in an earlier life", func(t *testing.T) {
		w := refused(t)
		w.each("list", failing(class(failure.Network)))
		w.redrive()
		w.drain()
		w.each("list", nil)
		w.abandon()
		w.drain()
		if w.row().Death.Reason != job.ReasonAttempts {
			t.Errorf("died of %s", w.row().Death.Reason)
		}
		w.wantDiscarded(map[string]string{"a": "refused", "b": "refused"})
	})
	t.Run("as a call", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.on("delete", dieBefore)
		w.invoke()
		w.on("list", failing(class(failure.Forbidden)))
		w.drain()
		w.want(job.Dead, nil)
		w.abandon()
		w.drain()
		w.wantDiscarded(map[string]string{"a": "refused"})
	})
}

// TestF17_AVersionIsSettledByItsId: what is not listed is gone, and nobody is asked.
func TestF17_AVersionIsSettledByItsId(t *testing.T) {
	w := newWorld(t, setup{versions: "all", versioned: true, candidates: 2, settings: attempts(1)})
	first, second := w.put("a"), w.put("a")
	w.on("delete", dieBefore)
	w.drain()
	w.store.Remove(bucket, first.Ref())
	w.abandon()
	w.drain()
	w.wantDiscarded(map[string]string{"a" + first.Version: "deleted inferred", "a" + second.Version: "failed"})
	if n := w.count("standing"); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

// TestF17_ASplitOffItemCanBeAbandoned.
func TestF17_ASplitOffItemCanBeAbandoned(t *testing.T) {
	for _, gone := range []bool{false, true} {
		w := newWorld(t, setup{keys: []string{"a", "b"}})
		w.must(w.store.DenyKey(bucket, root+"b"))
		w.invoke()
		w.send()
		w.drain()
		child := w.children()[0]
		want := "refused"
		if gone {
			w.remove("b")
			want = "deleted inferred"
		}
		w.first = child.ID
		w.abandon()
		w.drain()
		w.wantDiscarded(map[string]string{"b": want})
	}
}

// TestF17_WithoutALookNothingIsSettled: each read that fails gives the page back,
// and one that fails for good makes it the dead letter again. An operator may then
// redrive it after all, and it is resumed as ever.
func TestF17_WithoutALookNothingIsSettled(t *testing.T) {
	for _, at := range []string{"get:plan", "get:receipt", "epoch", "holds", "list", "standing", "put:receipt", "page:discarded"} {
		for _, c := range failure.Classes() {
			t.Run(at+" "+string(c), func(t *testing.T) {
				w := newWorld(t, setup{keys: []string{"a", "b"}, versioned: true, settings: attempts(1)})
				w.slow("b", 9999)
				w.drain()
				w.slow("b", 0)
				w.clock.reach(w.row().QuietAt)
				known := w.row().Settlement()
				w.abandon()
				w.each(at, failing(class(c)))
				w.invoke()
				refused := c == failure.Forbidden && (at == "list" || at == "standing")
				if p := w.row(); p.Settlement() != known || refused != (p.State == job.Dead) || !refused && p.State != job.Retrying {
					t.Errorf("%+v", p)
				}
				w.drain()
				if p := w.row(); p.State != job.Dead || !p.Abandoned || p.Settlement() != known {
					t.Fatalf("%+v", p)
				}
				w.each(at, nil)
				w.config.Artifacts = taps{w}
				w.redrive()
				w.drain()
				w.want(job.Completed, map[string]string{"a": "deleted_marker_only answered", "b": "deleted_marker_only answered"})
			})
		}
	}
}

// TestF17_AMuteStandingSettlesNothing: a store that answers without saying what
// remains leaves the item open.
func TestF17_AMuteStandingSettlesNothing(t *testing.T) {
	w := doomed(t, setup{keys: []string{"a"}, versioned: true}, done)
	w.clock.reach(w.row().QuietAt)
	w.abandon()
	w.config.Artifacts = mute{harmless{taps{w}}}
	w.invoke()
	if p := w.row(); p.State != job.Retrying || p.Receipt != "" || w.acked != 1 {
		t.Errorf("%+v, %d acknowledged", p, w.acked)
	}
	w.config.Artifacts = harmless{taps{w}}
	w.drain()
	w.wantDiscarded(map[string]string{"a": "deleted_marker_only inferred"})
}

// mute has no standing for anything.
type mute struct{ harmless }

func (mute) Standing(_ context.Context, _ string, items []job.Item) ([]job.Standing, error) {
	return make([]job.Standing, len(items)), nil
}

// TestF17_EveryFateOfEveryCall of the settling claim: it dies before or after the
// call, the call fails, or it fails and happened. The end is the same, nothing is
// deleted, and there is one receipt that counts (GO-03, B2).
func TestF17_EveryFateOfEveryCall(t *testing.T) {
	want := map[string]string{"a": "deleted_marker_only inferred", "b": "held", "c": "failed", "d": "superseded"}
	start := func(t *testing.T) *world {
		w := doomed(t, setup{keys: []string{"a", "b", "c", "d"}, versioned: true}, only("a"))
		w.hold("h", hold.Item, root+"b")
		w.store1(job.Item{Key: root + "d", ETag: "new"})
		w.abandon()
		return w
	}
	clean := start(t)
	clean.drain()
	clean.wantDiscarded(want)
	steps := slices.Compact(slices.Sorted(slices.Values(clean.calls)))
	for _, write := range []string{"page:claimed", "page:retrying", "put:receipt", "page:discarded"} {
		if !slices.Contains(steps, write) {
			t.Fatalf("no %s among %v", write, steps)
		}
	}
	effects := len(clean.store.Effects())
	for _, at := range steps {
		for name, fate := range map[string]handler{
			"dies before": dieBefore, "dies after": dieAfter, "fails": failing(class(failure.Network)), "fails, but it happened": lost,
			"is refused": failing(class(failure.Conflict)),
		} {
			for nth := range clean.count(at) {
				t.Run(at+" "+name, func(t *testing.T) {
					w := start(t)
					for range nth {
						w.on(at, before(func() {}))
					}
					w.on(at, fate)
					w.drain()
					w.wantDiscarded(want)
					if n := len(w.store.Effects()); n != effects {
						t.Errorf("%d effects, want %d", n, effects)
					}
				})
			}
		}
	}
}

// TestF17_OneSettlementForTwoDeliveries: a copy finds the page settled, or leased.
func TestF17_OneSettlementForTwoDeliveries(t *testing.T) {
	w := doomed(t, setup{keys: []string{"a"}}, done)
	w.clock.reach(w.row().QuietAt)
	w.abandon()
	w.queue.Duplicate(1)
	one, two := w.receive(1), w.receive(1)
	w.on("list", before(func() { w.batch(w.worker(), two...) }))
	w.batch(w.worker(), one...)
	w.drain()
	w.wantDiscarded(map[string]string{"a": "deleted inferred"})
	if len(w.events(audit.Discarded)) != 1 || len(w.events(audit.DuplicateObserved)) != 2 {
		t.Errorf("%+v", w.log.Events())
	}
}

// TestF17_ABrakeParksItToo: a settlement looks, and where it finds a wrong marker it
// takes it away, so it waits as every claim does.
func TestF17_ABrakeParksItToo(t *testing.T) {
	w := doomed(t, setup{keys: []string{"a"}}, done)
	w.abandon()
	w.must(w.ledger.SetBrake(t.Context(), job.Brake{Policy: w.policy.Name}))
	w.drain()
	if p := w.row(); p.State != job.Planned || !p.Abandoned || p.Receipt != "" {
		t.Errorf("%+v", p)
	}
	w.must(w.ledger.ReleaseBrake(t.Context(), job.Brake{Policy: w.policy.Name}))
	w.send()
	w.drain()
	w.wantDiscarded(map[string]string{"a": "deleted inferred"})
}
