package worker

import (
	"testing"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// TestTake_EveryAnswer is the outcome of an item by what the store says, and by
// whether an earlier request of ours may have acted: of this claim, or another.
func TestTake_EveryAnswer(t *testing.T) {
	const unsure, resumed = 1, 2 // 0 is a first claim's first request
	type result struct {
		outcome job.Outcome
		proof   job.Proof
		mark    string // what is noted of a line that stays open
	}
	deleted := func(p job.Proof) result { return result{job.Deleted, p, ""} }
	open := func(mark string) [3]result { return [3]result{{mark: mark}, {mark: mark}, {mark: mark}} }
	want := map[job.Answer][3]result{
		job.Gone:          {deleted(job.Answered), deleted(job.Inferred), deleted(job.Answered)},
		job.GoneByVersion: {deleted(job.Inferred), deleted(job.Inferred), deleted(job.Inferred)},
		job.Marked: {{outcome: job.DeletedMarkerOnly, proof: job.Answered}, {outcome: job.DeletedMarkerOnly, proof: job.Inferred},
			{outcome: job.DeletedMarkerOnly, proof: job.Answered}},
		job.NotThere: {{outcome: job.AlreadyAbsent}, {mark: "absent"}, {mark: "absent"}},
		job.Differs:  {{outcome: job.Changed}, {outcome: job.Superseded}, {outcome: job.Superseded}},
		job.Locked:   {{outcome: job.Held}, {outcome: job.Held}, {outcome: job.Held}},
		job.Denied:   open("refused"),
		job.Slow:     open("slow"),
		job.Unsure:   open("unsure"),
		job.NoAnswer: open("unsure"),
	}
	if len(want) != int(job.Unsure)+1 {
		t.Fatalf("%d answers in the table, there are %d", len(want), job.Unsure+1)
	}
	for answer, cases := range want {
		for when, w := range cases {
			l := line{Line: receipt.Line{Decision: receipt.Delete}, target: true, unsure: when == unsure}
			l.take(answer, when == resumed)
			marks := map[string]bool{"": true, "absent": l.absent, "refused": l.refused, "slow": l.slow, "unsure": l.unsure}
			if l.Outcome != w.outcome || l.Proof != w.proof || !marks[w.mark] {
				t.Errorf("answer %d, case %d: %v %q, %+v; want %+v", answer, when, l.Outcome, l.Proof, marks, w)
			}
			again := w.mark == "slow" || w.mark == "unsure"
			if l.target != again {
				t.Errorf("answer %d, case %d: sent again %v, want %v", answer, when, l.target, again)
			}
			l.take(job.Gone, false)
			if w.outcome != job.NoOutcome && (l.Outcome != w.outcome || l.Proof != w.proof) {
				t.Errorf("answer %d, case %d: a later answer changed the outcome to %v", answer, when, l.Outcome)
			}
		}
	}
}

// TestE3_AMarkerIsNoErasure in a bucket that keeps versions (S3-15).
func TestE3_AMarkerIsNoErasure(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}, versioned: true})
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "deleted_marker_only answered", "b": "deleted_marker_only answered"})
	if p := w.row(); p.Bytes != 0 || w.count("standing") != 1 {
		t.Errorf("%d bytes, %d looks", p.Bytes, w.count("standing"))
	}
	w.wantLeft()
}

// TestE3_WhatLiesUnderTheMarker settles an item whose answer was lost, or whose
// marker covers what nobody decided about.
func TestE3_WhatLiesUnderTheMarker(t *testing.T) {
	twin := func(w *world) {
		w.store1(job.Item{Key: root + "a", ETag: "e-a", Size: 10, Modified: w.clock.Now()})
	}
	for _, c := range []struct {
		name   string
		play   func(*world)
		want   string
		undone int
		left   []string
	}{
		{"the answer was lost", func(w *world) { w.on("delete", lost) }, "deleted_marker_only inferred", 0, nil},
		{"we died after it", func(w *world) { w.on("delete", dieAfter) }, "deleted_marker_only inferred", 0, nil},
		{"equal bytes were uploaded in between", func(w *world) { w.on("delete", before(func() { twin(w) })) }, "superseded", 1, []string{"a"}},
		{"and then we died", func(w *world) {
			w.on("delete", func(apply func() error) error { twin(w); return dieAfter(apply) })
		}, "superseded", 1, []string{"a"}},
		{"somebody else's marker, before any intent", func(w *world) { w.on("list", after(func() { w.remove("a") })) }, "already_absent", 0, nil},
		{"the look failed once", func(w *world) { w.on("standing", failing(class(failure.Network))) }, "deleted_marker_only inferred", 0, nil},
		{"the version was destroyed since", func(w *world) {
			w.on("delete", func(apply func() error) error {
				_ = apply()
				for item := range w.store.Versions(bucket) {
					w.store.Remove(bucket, item.Ref())
				}
				return dieBefore(apply)
			})
		}, "deleted inferred", 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}, versioned: true})
			c.play(w)
			w.drain()
			w.want(job.Completed, map[string]string{"a": c.want})
			w.wantLeft(c.left...)
			if n := len(w.events(audit.MarkerUndone)); n != c.undone {
				t.Errorf("%d markers undone, want %d", n, c.undone)
			}
		})
	}
}

// TestVersionsAll deletes every old version by its id, markers too, and says
// inferred: the store answers the same for a version that is not there (F11).
func TestVersionsAll(t *testing.T) {
	for name, play := range map[string]func(*world){
		"at once":         func(*world) {},
		"answer lost":     func(w *world) { w.on("delete", lost) },
		"died after":      func(w *world) { w.on("delete", dieAfter) },
		"died before":     func(w *world) { w.on("delete", dieBefore) },
		"gone meanwhile":  func(w *world) { w.on("list", after(func() { w.destroy("b") })) },
		"gone in between": func(w *world) { w.on("delete", func(a func() error) error { w.destroy("b"); return dieBefore(a) }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{versions: "all", versioned: true, candidates: 9})
			w.put("a")
			w.put("a")
			w.store1(job.Item{Key: root + "a", Modified: expired, Marker: true})
			w.put("b")
			w.store1(job.Item{Key: root + "b", ETag: "new", Modified: young})
			play(w)
			w.drain()
			p := w.row()
			if p.State != job.Completed || p.Counts[job.Deleted] != 4 || p.Counts.Sum() != 4 || p.Bytes != 30 {
				t.Errorf("%s %v, %d bytes", p.State, p.Counts, p.Bytes)
			}
			for _, l := range w.document(receipt.Receipt, p, p.Receipt).Lines {
				if l.Proof != job.Inferred || l.Version == "" {
					t.Errorf("%q %v %s", l.Version, l.Outcome, l.Proof)
				}
			}
			w.wantLeft("b")
			if w.count("standing") != 0 {
				t.Error("a version listing where every delete is exact")
			}
		})
	}
}

// destroy removes the oldest version of the key: somebody else's act.
func (w *world) destroy(name string) {
	var oldest job.Item
	for item := range w.store.Versions(bucket) {
		if item.Key == root+name {
			oldest = item
		}
	}
	w.store.Remove(bucket, oldest.Ref())
}
