package worker

import (
	"maps"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// counted sums what was measured, by metric, and by reason where it has one.
func (w *world) counted() map[string]float64 {
	w.t.Helper()
	sums := map[string]float64{}
	for _, m := range w.log.Measured() {
		if m.Service != contract.ServiceWorker || m.Policy != "" || m.Time.IsZero() || m.Value <= 0 {
			w.t.Errorf("measured %+v", m)
		}
		name := string(m.Metric)
		if m.Reason != "" {
			name += " " + string(m.Reason)
		}
		sums[name] += m.Value
	}
	return sums
}

func (w *world) wantCounted(want map[string]float64) {
	w.t.Helper()
	if got := w.counted(); !maps.Equal(got, want) {
		w.t.Errorf("counted %v, want %v", got, want)
	}
}

// TestWhatAWorkerCounts: a metric for each end of a page, an attempt and a message.
func TestWhatAWorkerCounts(t *testing.T) {
	network := class(failure.Network)
	recovered := func(w *world) float64 { return w.row().SettledAt.Sub(w.row().FirstFailure).Seconds() }
	for _, c := range []struct {
		name  string
		setup setup
		play  func(*world)
		want  map[string]float64
		// recovery, where the page recovered, is how long that took.
		recovery func(*world) float64
	}{
		{name: "a page", play: func(w *world) { w.hold("h", hold.Item, root+"b") },
			want: map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 2, "ItemsHeld": 1}},
		{name: "markers are deletions", setup: setup{versioned: true}, play: func(*world) {},
			want: map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 3}},
		{name: "what others took is none", play: func(w *world) { w.on("delete", before(func() { w.remove("a") })) },
			want: map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 2}},
		{name: "report-only", setup: setup{mode: job.ReportOnly}, play: func(w *world) { w.hold("h", hold.Item, root+"b") },
			want: map[string]float64{"PagesCompleted": 1, "ItemsHeld": 1}},
		{name: "a copy", play: func(w *world) { w.post(job.NewMessage(w.run, w.row())) },
			want: map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 3, "Duplicates": 1}},
		{name: "the plan can not be kept", play: func(w *world) { w.on("put:plan", failing(network), failing(network)) },
			want:     map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 3, "EvidenceFailures": 2, "PagesRetried": 2},
			recovery: recovered},
		{name: "nor the receipt", play: func(w *world) { w.on("put:receipt", failing(network)) },
			want:     map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 3, "EvidenceFailures": 1, "PagesRetried": 1},
			recovery: recovered},
		{name: "the page's end is written and the answer lost", play: func(w *world) { w.on("complete", lost) },
			want: map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 3}},
		{name: "we died right after it", play: func(w *world) { w.on("complete", dieAfter) },
			want: map[string]float64{"Duplicates": 1}},
		{name: "another version under the marker", setup: setup{versioned: true, candidates: 3}, play: func(w *world) {
			w.on("delete", before(func() { w.store1(job.Item{Key: root + "a", ETag: "e-a", Size: 10, Modified: w.clock.Now()}) }))
		}, want: map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 2, "MarkersUndone": 1}},
		{name: "a poison message", play: func(w *world) { w.post(job.Message{ID: "x", Body: []byte("{")}) },
			want: map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 3, "DeadLetters malformed": 1}},
		{name: "a dead page, moved around the gates", play: func(w *world) {
			w.on("list", failing(class(failure.Forbidden)))
			w.drain()
			w.clock.advance(day)
			w.queue.NativeRedrive(w.run.Mode)
		}, want: map[string]float64{"DeadLetters forbidden": 1}},
		{name: "a dead page, redriven", play: func(w *world) {
			w.on("list", failing(class(failure.Forbidden)))
			w.drain()
			w.clock.advance(day)
			w.redrive()
		}, want: map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 3, "DeadLetters forbidden": 1, "RedrivesCompleted": 1}, recovery: recovered},
		{name: "a dead page, given up", setup: setup{settings: attempts(1)}, play: func(w *world) {
			w.on("delete", only("a", "b")(w))
			w.drain()
			w.hold("h", hold.Item, root+"c")
			w.abandon()
		}, want: map[string]float64{"ItemsDeleted": 2, "ItemsHeld": 1, "DeadLetters attempts_exhausted": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.setup.keys = []string{"a", "b", "c"}
			w := newWorld(t, c.setup)
			c.play(w)
			w.drain()
			if c.recovery != nil {
				c.want["RecoveryTime"] = c.recovery(w)
			}
			w.wantCounted(c.want)
		})
	}
}

// TestR106_ASplitOffItemRecovers: the page completes without it, and it has failed
// before it was born.
func TestR106_ASplitOffItemRecovers(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	w.faulty(job.Unsure, "b")
	w.invoke()
	w.wantCounted(map[string]float64{"PagesCompleted": 1, "ItemsDeleted": 1})
	w.faulty(job.NoAnswer)
	w.clock.advance(time.Hour)
	w.send()
	w.drain()
	took := w.children()[0].SettledAt.Sub(w.children()[0].BornAt).Seconds()
	w.wantCounted(map[string]float64{"PagesCompleted": 2, "ItemsDeleted": 2, "RecoveryTime": took})
	if took < time.Hour.Seconds() {
		t.Errorf("it took %v s", took)
	}
}
