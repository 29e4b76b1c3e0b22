package worker

import (
	"slices"
	"sync"
	"testing"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

func TestAPageIsSettledAndItsEvidenceVerifies(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	w.store1(job.Item{Key: root + "young", ETag: "e", Modified: young})
	w.store1(job.Item{Key: root + "at-cutoff", ETag: "e", Modified: w.run.Cutoff})
	w.store1(job.Item{Key: "exports/acme2/old", ETag: "e", Modified: expired})
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "deleted answered", "b": "deleted answered"})
	w.wantLeft("at-cutoff", "young", "exports/acme2/old")
	if p := w.row(); p.Counts[job.Deleted] != 2 || p.Bytes != 20 || p.Attempts != 1 || w.acked != 1 {
		t.Errorf("%+v, %d acknowledged", p, w.acked)
	}
	steps := []string{"run", "page", "policy", "page:claimed", "epoch", "holds", "list", "put:plan", "brakes", "intend", "delete", "put:receipt", "complete"}
	if !slices.Equal(w.calls, steps) {
		t.Errorf("steps %v", w.calls)
	}
}

// TestHP01_AHoldPlacedBeforeTheIntentAlwaysWins places a hold at every point
// before the commit: somebody is told HELD there, so nothing may go.
func TestHP01_AHoldPlacedBeforeTheIntentAlwaysWins(t *testing.T) {
	for _, at := range []string{"run", "page", "policy", "brakes", "page:claimed", "epoch", "holds", "list", "put:plan"} {
		t.Run("after "+at, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}})
			w.on(at, after(func() { w.hold("h", hold.Tenant, "") }))
			w.invoke()
			w.want(job.Completed, map[string]string{"a": "held"})
			w.wantSent()
			if p := w.row(); p.Attempts != 1 {
				t.Errorf("%d attempts", p.Attempts)
			}
		})
	}
	t.Run("while queued", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a", "b"}})
		w.hold("h", hold.Item, root+"a")
		w.invoke()
		w.want(job.Completed, map[string]string{"a": "held", "b": "deleted answered"})
		line := w.document(receipt.Receipt, w.row(), w.row().Receipt).Lines[0]
		if line.HoldID != "h" || line.Reason != "held" {
			t.Errorf("%+v names no hold", line)
		}
	})
	t.Run("and released again", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.hold("h", hold.Tenant, "")
		w.unhold("h")
		w.invoke()
		w.want(job.Completed, map[string]string{"a": "deleted answered"})
	})
}

// TestF2_TheEpochIsReadBeforeTheHolds places a hold between the two reads,
// whichever comes first.
func TestF2_TheEpochIsReadBeforeTheHolds(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	var once sync.Once
	place := after(func() { once.Do(func() { w.hold("h", hold.Item, root+"a") }) })
	w.on("epoch", place)
	w.on("holds", place)
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "held"})
	w.wantLeft("a")
}

// TestF2_AFirstHoldIsSeen: the holds of a tenant that never had one are not read,
// and a first one that is placed after the epoch was read fails the intent.
func TestF2_AFirstHoldIsSeen(t *testing.T) {
	for _, at := range []string{"epoch", "list", "put:plan"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a", "b"}, neverHeld: true})
			w.on(at, after(func() { w.hold("h", hold.Item, root+"a") }))
			w.invoke()
			w.want(job.Completed, map[string]string{"a": "held", "b": "deleted answered"})
			if n := w.count("holds"); n != 1 {
				t.Errorf("holds were read %d times, want once: after the first intent failed", n)
			}
		})
	}
}

func TestF2_TheIntentChecksTheEpochOfThePlan(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}, neverHeld: true})
	w.on("put:plan", after(func() { w.hold("h", hold.Item, root+"a") }))
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "held", "b": "deleted answered"})
	p := w.row()
	if doc := w.document(receipt.Plan, p, p.Intent.Plan); doc.Header.HoldEpoch != 1 || p.Intent.Epoch != 1 {
		t.Errorf("the plan was made under epoch %d, the intent under %d", doc.Header.HoldEpoch, p.Intent.Epoch)
	}
}

// TestF3_ThePlanOfADeadAttemptIsNoAuthority: attempt 1 writes a plan and dies,
// a hold arrives, and attempt 2 must neither adopt that plan nor stumble over it.
func TestF3_ThePlanOfADeadAttemptIsNoAuthority(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	w.on("put:plan", dieAfter)
	if w.invoke() {
		t.Fatal("the process lived")
	}
	w.hold("h", hold.Item, root+"a")
	w.drain()
	w.want(job.Completed, map[string]string{"a": "held", "b": "deleted answered"})
	if p := w.row(); p.Attempts != 2 || p.Intent.Fence != 2 {
		t.Errorf("attempts %d, fence %d", p.Attempts, p.Intent.Fence)
	}
}

// TestF3_APlanNamesItsClaimAndItsEpoch: equal decisions of two claims, or of one
// claim under two epochs, are two plans.
func TestF3_APlanNamesItsClaimAndItsEpoch(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}, neverHeld: true})
	w.on("put:plan", dieAfter, after(func() { w.hold("h", hold.Item, root+"other") }))
	w.invoke()
	w.drain()
	names, err := w.evidence.List(t.Context(), "plan/", "", 10)
	w.must(err)
	var seen [][2]int64
	for _, name := range names {
		data, err := w.evidence.Get(t.Context(), name)
		w.must(err)
		doc, err := receipt.Verify(name, data)
		w.must(err)
		seen = append(seen, [2]int64{doc.Header.Fence, doc.Header.HoldEpoch})
	}
	slices.SortFunc(seen, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	if !slices.Equal(seen, [][2]int64{{1, 0}, {2, 0}, {2, 1}}) {
		t.Errorf("plans of (fence, epoch) %v", seen)
	}
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
}

// TestEvidenceFirst: without a durable plan nothing is deleted, without a durable
// receipt nothing is completed or acknowledged.
func TestEvidenceFirst(t *testing.T) {
	for _, c := range []failure.Class{failure.Network, failure.Forbidden} {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.each("put:plan", failing(class(c)))
		w.invoke()
		w.wantSent()
		if p := w.row(); p.State != job.Retrying || p.LastClass != c || p.Intent != (job.Intent{}) || w.acked != 0 {
			t.Errorf("plan %s: %+v", c, p)
		}
		w = newWorld(t, setup{keys: []string{"a"}})
		w.on("put:receipt", failing(class(c)))
		w.invoke()
		if p := w.row(); p.State != job.Retrying || p.Receipt != "" || w.acked != 0 {
			t.Errorf("receipt %s: %+v", c, p)
		}
		w.drain()
		w.want(job.Completed, map[string]string{"a": "deleted inferred"})
	}
}

// TestF14_NeverMoreThanTheRecordedCandidates: what has become a candidate since
// the scan waits for the next run, and held ones count.
func TestF14_NeverMoreThanTheRecordedCandidates(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b", "c", "d"}, candidates: 3})
	w.hold("h", hold.Item, root+"a")
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "held", "b": "deleted answered", "c": "deleted answered"})
	w.wantLeft("a", "d")
}

// TestF15_APageOfManyListings walks a sparse range, and one key with more
// versions than a page holds.
func TestF15_APageOfManyListings(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "m", "z"}})
	for _, name := range []string{"b", "c", "d", "n", "o"} {
		w.store1(job.Item{Key: root + name, ETag: "e", Modified: young})
	}
	w.store.PageSize = 2
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "deleted answered", "m": "deleted answered", "z": "deleted answered"})

	w = newWorld(t, setup{versions: "all", versioned: true, candidates: 3})
	for range 5 {
		w.put("deep")
	}
	w.store.PageSize = 2
	w.invoke()
	if p := w.row(); p.State != job.Completed || p.Counts[job.Deleted] != 3 {
		t.Errorf("%s, %v", p.State, p.Counts)
	}
}

// TestAPageIsItsRange: what lies before its start or after its end is not its own.
func TestAPageIsItsRange(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}, unreleased: true})
	w.put("b")
	w.put("c")
	w.put("d")
	second := w.record(acme, "b", "c", 2)
	w.release()
	p, err := w.ledger.Page(t.Context(), w.run.ID, acme, second)
	w.must(err)
	w.post(job.NewMessage(w.run, p))
	w.batch(w.worker(), w.receive(10)[1:]...)
	w.wantSent([]string{"c"})
}

// TestF18_ARunStaysWithItsVersion: a later version changes nothing for a run that
// pinned the earlier one, and a brake on that version stops it.
func TestF18_ARunStaysWithItsVersion(t *testing.T) {
	longer := `name: exports
version: 2
region: eu-west-1
bucket: other-bucket
keys: exports/{tenant}/
retention_days: 400
mode: enforce
schedule: {every: daily, at: "02:30", zone: UTC}
`
	w := newWorld(t, setup{keys: []string{"a"}})
	w.publish(longer)
	w.must(w.ledger.SetBrake(t.Context(), job.Brake{Policy: "exports", Version: 2}))
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})

	w = newWorld(t, setup{keys: []string{"a"}})
	w.publish(longer)
	w.must(w.ledger.SetBrake(t.Context(), job.Brake{Policy: "exports", Version: 1}))
	w.invoke()
	w.want(job.Planned, nil)
}

// TestF20_AnIntentWhoseAnswerIsLostIsReadAgain, in each way an answer can hide it.
func TestF20_AnIntentWhoseAnswerIsLostIsReadAgain(t *testing.T) {
	hidden := func(c failure.Class) handler {
		return func(apply func() error) error { _ = apply(); return class(c) }
	}
	for name, h := range map[string]handler{
		"no answer": hidden(failure.Network), "condition failed after our own success": hidden(failure.Conflict), "unknown": hidden(failure.Bug),
	} {
		t.Run("committed, "+name, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}})
			w.on("intend", h)
			w.invoke()
			w.want(job.Completed, map[string]string{"a": "deleted answered"})
			if w.count("intend") != 1 || w.row().Attempts != 1 {
				t.Errorf("%d intents in %d attempts", w.count("intend"), w.row().Attempts)
			}
		})
	}
	t.Run("not committed", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.on("intend", failing(class(failure.Network)))
		w.invoke()
		w.wantSent()
		if p := w.row(); p.State != job.Retrying || p.Attempts != 1 || p.LastClass != failure.Network {
			t.Errorf("%+v", p)
		}
		w.drain()
		w.want(job.Completed, map[string]string{"a": "deleted answered"})
	})
	t.Run("and neither can be read", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a"}})
		w.on("intend", lost)
		w.on("page", before(func() {}), failing(class(failure.Network)))
		w.invoke()
		w.wantSent()
		w.drain()
		w.want(job.Completed, map[string]string{"a": "deleted answered"})
	})
}

// TestF20_ContentionOnTheEpochIsNoAttempt: however often the tenant's holds move
// under it, a page loses no attempt.
func TestF20_ContentionOnTheEpochIsNoAttempt(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.each("intend", failing(class(failure.Conflict)))
	for range 8 {
		w.invoke()
		if at, ok := w.queue.NextVisible(w.run.Mode); ok {
			w.clock.reach(at)
		}
	}
	if p := w.row(); p.State != job.Retrying || p.Attempts != 0 || w.acked != 0 {
		t.Fatalf("%s after %d attempts, %d acknowledged", p.State, p.Attempts, w.acked)
	}
	w.each("intend", nil)
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
}

// TestF20_AGhostIntentDiesOnTheFence: an intent that reaches the ledger after its
// claim was taken over is refused there.
func TestF20_AGhostIntentDiesOnTheFence(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	var ghost func() error
	w.on("intend", func(apply func() error) error { ghost = apply; return dieBefore(apply) })
	w.invoke()
	w.on("page:claimed", after(func() {
		if err := ghost(); !failure.Is(err, failure.Conflict) {
			t.Errorf("the ghost's intent: %v", err)
		}
	}))
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
	if p := w.row(); p.Intent.Fence != 2 {
		t.Errorf("the intent is of fence %d", p.Intent.Fence)
	}
}

func TestReportOnlyDeletesNothing(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}, mode: job.ReportOnly})
	w.hold("h", hold.Item, root+"b")
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "would_delete", "b": "held"})
	w.wantSent()
	if p := w.row(); p.Intent != (job.Intent{}) || p.Bytes != 10 {
		t.Errorf("%+v", p)
	}
}

// TestHoldsThatWereCutShortAreNone: the epoch says that there is a hold, and the
// read of the holds lost it on the way.
func TestHoldsThatWereCutShortAreNone(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	w.hold("h", hold.Item, root+"a")
	w.on("holds", func(func() error) error { return nil })
	w.invoke()
	w.wantSent()
	w.drain()
	w.want(job.Completed, map[string]string{"a": "held", "b": "deleted answered"})
}
