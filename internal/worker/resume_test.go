package worker

import (
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// interrupted is a world whose first claim committed its intent and then died
// without a delete, so that the next one resumes.
func interrupted(t *testing.T, s setup) *world {
	t.Helper()
	w := newWorld(t, s)
	w.on("delete", dieBefore)
	if w.invoke() {
		t.Fatal("the process lived")
	}
	w.sent, w.calls = nil, nil
	return w
}

func TestF4_AResumeNarrowsBeforeItDeletes(t *testing.T) {
	w := interrupted(t, setup{keys: []string{"a", "b"}})
	old := w.row().Intent
	w.hold("h", hold.Item, root+"a")
	w.clock.reach(w.row().LeaseEnd)
	w.drainUntil(job.Retrying)
	p := w.row()
	wide, narrow := w.document(receipt.Plan, p, old.Plan), w.document(receipt.Plan, p, p.Intent.Plan)
	if narrow.Header.Narrows != old.Plan || narrow.Deletes() != 1 || p.Intent.Deletes != 1 || !receipt.Subset(narrow, wide) {
		t.Errorf("the second intent names %d items and narrows %q", narrow.Deletes(), narrow.Header.Narrows)
	}
	w.wantSent([]string{"b"})
	w.drain()
	w.want(job.Completed, map[string]string{"a": "held", "b": "deleted answered"})
}

// drainUntil polls until the page has the state.
func (w *world) drainUntil(state job.PageState) {
	w.t.Helper()
	for range 20 {
		at, ok := w.queue.NextVisible(w.run.Mode)
		if !ok {
			break
		}
		w.clock.reach(at)
		w.invoke()
		if w.row().State == state {
			return
		}
	}
	w.t.Fatalf("the page is %s, not %s", w.row().State, state)
}

// TestF4_AVetoWaitsForTheQuietTime covers a hold in force and one that was
// released again before anybody looked (S18): someone was told HELD either way.
func TestF4_AVetoWaitsForTheQuietTime(t *testing.T) {
	for name, after := range map[string]func(*world){
		"in force":      func(*world) {},
		"released, S18": func(w *world) { w.unhold("h") },
	} {
		t.Run(name, func(t *testing.T) {
			w := interrupted(t, setup{keys: []string{"a"}})
			quiet := w.row().QuietAt
			if want := w.row().LeaseEnd.Add(w.config.Settings.RequestLifetime); !quiet.Equal(want) {
				t.Fatalf("quiet at %v, want %v", quiet, want)
			}
			w.hold("h", hold.Prefix, root)
			after(w)
			w.clock.reach(w.row().LeaseEnd)
			w.drainUntil(job.Retrying)
			if p := w.row(); !p.RetryAt.Equal(quiet) || p.Attempts != 1 || w.wrote(p)["a"] != "" {
				t.Errorf("retry at %v, %d attempts, %v", p.RetryAt, p.Attempts, w.wrote(p))
			}
			w.drain()
			w.want(job.Completed, map[string]string{"a": "held"})
			w.wantSent()
			if p := w.row(); w.clock.Now().Before(quiet) || p.Attempts != 2 {
				t.Errorf("settled at %v in %d attempts", w.clock.Now(), p.Attempts)
			}
		})
	}
}

// TestF4_AGhostThatLandsAfterTheVetoIsADeletion: the first claim's request was
// signed and lands in the last second in which it can.
func TestF4_AGhostThatLandsAfterTheVetoIsADeletion(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	var ghost func() error
	w.store.Hook = func(op string, apply func() error) error {
		if op == "delete" && ghost == nil {
			ghost = apply
			return dieBefore(apply)
		}
		return apply()
	}
	w.invoke()
	w.hold("h", hold.Tenant, "")
	w.clock.reach(w.row().LeaseEnd)
	w.drainUntil(job.Retrying)
	w.clock.reach(w.row().QuietAt.Add(-time.Second))
	w.must(ghost())
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted inferred"})
}

// TestF10_AnswersOutliveAnEndThatCouldNotBeWritten: the row names them, and the next
// attempt does not infer what the store has said.
func TestF10_AnswersOutliveAnEndThatCouldNotBeWritten(t *testing.T) {
	for _, c := range []failure.Class{failure.Conflict, failure.Throttled} {
		w := newWorld(t, setup{keys: []string{"a", "b"}})
		w.on("intend", after(func() { w.remove("a") }))
		w.on("complete", failing(class(c)))
		w.invoke()
		outcomes := map[string]string{"a": "already_absent", "b": "deleted answered"}
		w.want(job.Retrying, outcomes)
		w.drain()
		w.want(job.Completed, outcomes)
		if w.wantSent([]string{"a", "b"}); w.row().Attempts != 2 {
			t.Errorf("%d attempts", w.row().Attempts)
		}
	}
}

// TestF10_WhatWasNeverCommittedIsDecidedAnew: a hold that is released before the next
// attempt keeps nothing, also when that attempt dies behind its delete.
func TestF10_WhatWasNeverCommittedIsDecidedAnew(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.hold("h", hold.Tenant, "")
	w.on("complete", failing(class(failure.Conflict)))
	w.invoke()
	w.want(job.Retrying, map[string]string{})
	w.unhold("h")
	w.on("delete", dieAfter)
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted inferred"})
}

// TestF4_EachVetoKeepsItsOwnQuietTime: later crashes do not stretch the wait of
// an item that was vetoed before them.
func TestF4_EachVetoKeepsItsOwnQuietTime(t *testing.T) {
	w := interrupted(t, setup{keys: []string{"a", "b", "c"}})
	first := w.row().QuietAt
	w.hold("h1", hold.Item, root+"a")
	w.on("delete", dieBefore)
	w.clock.reach(w.row().LeaseEnd)
	w.drainUntil(job.Intended)
	second := w.row().QuietAt
	w.hold("h2", hold.Item, root+"b")
	w.on("delete", dieBefore)
	w.clock.reach(w.row().LeaseEnd)
	w.drainUntil(job.Intended)
	p := w.row()
	lines := w.document(receipt.Plan, p, p.Intent.Plan).Lines
	if !second.After(first) || !lines[0].SettleAt.Equal(first) || !lines[1].SettleAt.Equal(second) {
		t.Errorf("a settles at %v, want %v; b at %v, want %v", lines[0].SettleAt, first, lines[1].SettleAt, second)
	}
	w.drain()
	w.want(job.Completed, map[string]string{"a": "held", "b": "held", "c": "deleted answered"})
}

// TestF4_AResumeNeverAdds: what has become a candidate since is not the page's.
func TestF4_AResumeNeverAdds(t *testing.T) {
	w := interrupted(t, setup{keys: []string{"a", "c"}, candidates: 9})
	w.put("b")
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered", "c": "deleted answered"})
	w.wantLeft("b")
}

// TestF2_AResumeChecksTheEpochToo: a hold between its reads and its intent.
func TestF2_AResumeChecksTheEpochToo(t *testing.T) {
	for _, at := range []string{"epoch", "holds", "list", "put:plan"} {
		w := interrupted(t, setup{keys: []string{"a"}})
		w.on(at, after(func() { w.hold("h", hold.Tenant, "") }))
		w.drain()
		w.want(job.Completed, map[string]string{"a": "held"})
		w.wantSent()
	}
}

// TestHP01_AHoldDuringTheRetries: after the intent, in the wait for a retry, and
// while the page is dead and before it is redriven.
func TestHP01_AHoldDuringTheRetries(t *testing.T) {
	t.Run("in retry", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.each("delete", failing(class(failure.Throttled)))
		w.invoke()
		w.each("delete", nil)
		w.hold("h", hold.Tenant, "")
		w.sent = nil
		w.drain()
		w.want(job.Completed, map[string]string{"a": "held"})
		w.wantSent()
	})
	t.Run("dead, then redriven", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.each("delete", failing(class(failure.Throttled)))
		w.drain()
		w.each("delete", nil)
		w.hold("h", hold.Tenant, "")
		w.sent = nil
		w.redrive()
		w.drain()
		w.want(job.Completed, map[string]string{"a": "held"})
		w.wantSent()
	})
	t.Run("after the intent it may be too late", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.on("intend", after(func() { w.hold("h", hold.Tenant, "") }))
		w.invoke()
		w.want(job.Completed, map[string]string{"a": "deleted answered"}) // IN_FLIGHT until the quiet time, never HELD
	})
}

// redrive moves the dead page back as an operator does.
func (w *world) redrive() {
	w.t.Helper()
	if p := w.row(); p.State != job.Dead {
		w.t.Fatalf("the page is %s, not dead", p.State)
	}
	next, err := w.row().Redrive("plan", w.clock.Now(), w.clock.Now().Add(w.config.Settings.Overdue()))
	w.must(err)
	w.must(w.ledger.SwapPage(w.t.Context(), next))
	w.post(job.NewMessage(w.run, next))
}

// TestF5_AnotherObjectUnderTheNameStays: each of the three facts tells the object
// that was planned from the one that stands there now.
func TestF5_AnotherObjectUnderTheNameStays(t *testing.T) {
	for name, change := range map[string]func(*job.Item){
		"ETag":                     func(i *job.Item) { i.ETag = "other" },
		"Size":                     func(i *job.Item) { i.Size++ },
		"LastModified":             func(i *job.Item) { i.Modified = i.Modified.Add(time.Second) },
		"the same bytes, uploaded": func(i *job.Item) { i.Modified = noon.Add(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			w := interrupted(t, setup{keys: []string{"a", "b"}})
			item := job.Item{Key: root + "a", ETag: "e-a", Size: 10, Modified: expired}
			change(&item)
			w.store1(item)
			w.drain()
			w.want(job.Completed, map[string]string{"a": "superseded", "b": "deleted answered"})
			w.wantLeft("a")
			w.wantSent([]string{"b"})
			if p := w.row(); p.Intent.Deletes != 1 {
				t.Errorf("the intent in force names %d items", p.Intent.Deletes)
			}
		})
	}
}

// TestF10_AnsweredFactsAreCarried: what one claim was answered is no inference of
// the next, and the row names the receipt that counts.
func TestF10_AnsweredFactsAreCarried(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b", "c"}})
	w.slow("b", 99)
	w.on("list", after(func() { w.remove("c") }))
	w.invoke()
	w.want(job.Retrying, map[string]string{"a": "deleted answered", "b": "", "c": "already_absent"})
	first := w.row().Receipt
	w.slow("b", 0)
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered", "b": "deleted answered", "c": "already_absent"})
	if w.row().Receipt == first {
		t.Error("the row still names the first receipt")
	}
	names, err := w.evidence.List(t.Context(), "receipt/", "", 10)
	w.must(err)
	if len(names) != 2 {
		t.Errorf("%d receipts, want both", len(names))
	}
}

// slow lets the store answer the item with SlowDown n times.
func (w *world) slow(name string, n int) {
	w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
		if item.Key == root+name && n > 0 {
			n--
			return job.Slow, false
		}
		return job.NoAnswer, false
	}
}

// TestF10_AnAnswerOutlivesTheName: an object that the store said is gone stays
// `deleted`, whatever is uploaded there or held afterwards.
func TestF10_AnAnswerOutlivesTheName(t *testing.T) {
	for name, after := range map[string]func(*world){
		"uploaded again": func(w *world) { w.store1(job.Item{Key: root + "a", ETag: "new", Modified: w.clock.Now()}) },
		"held since":     func(w *world) { w.hold("h", hold.Item, root+"a") },
		"both": func(w *world) {
			w.hold("h", hold.Item, root+"a")
			w.store1(job.Item{Key: root + "a", ETag: "new", Modified: w.clock.Now()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a", "b"}})
			w.slow("b", 99)
			w.invoke()
			w.slow("b", 0)
			after(w)
			w.drain()
			w.want(job.Completed, map[string]string{"a": "deleted answered", "b": "deleted answered"})
			if p := w.row(); p.Counts[job.Deleted] != 2 || p.Bytes != 20 {
				t.Errorf("%v, %d bytes", p.Counts, p.Bytes)
			}
		})
	}
}

// TestF10_AReceiptOfADeadAttemptDoesNotCount: it was written, but no row names it.
func TestF10_AReceiptOfADeadAttemptDoesNotCount(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
		return map[bool]job.Answer{true: job.Unsure}[item.Key == root+"b"], false
	}
	w.on("complete", dieBefore) // the receipt says that b became a page of its own
	w.invoke()
	w.store.KeyFault = nil
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted inferred", "b": "deleted answered"})
	if len(w.children()) != 0 {
		t.Error("an item was split off by an attempt that died")
	}
}

// TestF11_WhoTookIt is the attribution of an item that is not there any more, or
// is another: by the store's answer, by our own intent, or nobody's of ours.
func TestF11_WhoTookIt(t *testing.T) {
	replace := func(w *world) { w.store1(job.Item{Key: root + "a", ETag: "new", Modified: w.clock.Now()}) }
	remove := func(w *world) { w.remove("a") }
	for _, c := range []struct {
		name string
		play func(*world)
		want map[string]string
	}{
		{"gone before the intent", func(w *world) { w.on("list", after(func() { remove(w) })) }, map[string]string{"a": "already_absent"}},
		{"another before the intent", func(w *world) { w.on("list", after(func() { replace(w) })) }, map[string]string{"a": "changed"}},
		{"gone before the listing", func(w *world) { remove(w) }, map[string]string{}},
		{"our answer was lost", func(w *world) { w.on("delete", lost) }, map[string]string{"a": "deleted inferred"}},
		{"our answer was lost, and uploaded since", func(w *world) {
			w.on("delete", func(apply func() error) error { err := lost(apply); replace(w); return err })
		}, map[string]string{"a": "superseded"}},
		{"an unsure answer, it happened", func(w *world) { w.unsure(true) }, map[string]string{"a": "deleted inferred"}},
		{"an unsure answer, it did not", func(w *world) { w.unsure(false) }, map[string]string{"a": "deleted inferred"}},
		{"we died after the delete", func(w *world) { w.on("delete", dieAfter) }, map[string]string{"a": "deleted inferred"}},
		{"we died before it", func(w *world) { w.on("delete", dieBefore) }, map[string]string{"a": "deleted answered"}},
		{"we died before it, and somebody else took it", func(w *world) {
			w.on("delete", func(apply func() error) error { remove(w); return dieBefore(apply) })
		}, map[string]string{"a": "deleted inferred"}},
		{"gone between the look and the delete of a resume", func(w *world) {
			w.on("delete", dieBefore, before(func() { remove(w) }))
		}, map[string]string{"a": "deleted inferred"}},
		{"another between the look and the delete of a resume", func(w *world) {
			w.on("delete", dieBefore, before(func() { replace(w) }))
		}, map[string]string{"a": "superseded"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}})
			c.play(w)
			w.drain()
			w.want(job.Completed, c.want)
		})
	}
}

// unsure lets the store answer once with an error that says nothing.
func (w *world) unsure(applied bool) {
	n := 0
	w.store.KeyFault = func(job.Item) (job.Answer, bool) {
		if n++; n == 1 {
			return job.Unsure, applied
		}
		return job.NoAnswer, false
	}
}
