package local

import (
	"fmt"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// TestWritesPerPage counts what one tenant of 20,000 expired objects costs on the
// clean path. Every write is counted for a page or for a run; none for an object.
func TestWritesPerPage(t *testing.T) {
	const pages = 20
	s := &script{}
	p := parse(t, exportsYAML)
	w := newWorld(t, p)
	for i := range pages * 1000 {
		w.put(t, p.Bucket, fmt.Sprintf("exports/acme/%05d.csv", i), 31*day)
	}
	w.Ledger.Hook, w.Queue.Hook, w.Store.Hook = s.hook("ledger"), s.hook("queue"), s.hook("store")
	play(t, w)
	got := map[string]int{}
	for _, write := range s.writes {
		got[write]++
	}
	want := map[string]int{
		"ledger publish-policy": 2, // by enqueue, and with the first watch
		"ledger open-run":       1, "ledger run:released": 1, "ledger run:closed": 1, "ledger watch": 1,
		"ledger record": pages, "ledger pages:sent": 1, "ledger page:claimed": pages, "ledger intend": pages, "ledger complete": pages,
		"store delete": pages, "queue send": pages / 10, "queue ack": pages,
	}
	for write, n := range want {
		if got[write] != n {
			t.Errorf("%s: %d, want %d", write, got[write], n)
		}
		delete(got, write)
	}
	if len(got) > 0 {
		t.Errorf("writes nobody counted on: %v", got)
	}
	if n := w.Ledger.Runs()[0].Totals.Counts[job.Deleted]; n != pages*1000 {
		t.Errorf("%d deleted", n)
	}
}

// BenchmarkPage measures a page of 1,000 expired objects from the tick to the
// acknowledgement, everything in memory.
func BenchmarkPage(b *testing.B) {
	p := parse(b, exportsYAML)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b, p)
		for i := range 1000 {
			w.put(b, p.Bucket, fmt.Sprintf("exports/acme/%05d.csv", i), 31*day)
		}
		b.StartTimer()
		if _, err := w.Tick(b.Context(), "exports", noon); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Deliver(b.Context(), job.Enforce); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPaceKeepsTheRate deletes 5,000 keys at 5,000 a second for all workers
// together: one of five has a share of 1,000 a second, so its fifth page starts
// four seconds after its first.
func TestPaceKeepsTheRate(t *testing.T) {
	p := parse(t, exportsYAML)
	p.Limits.MaxRate = 5000
	w := newWorld(t, p)
	for i := range 5000 {
		w.put(t, p.Bucket, fmt.Sprintf("exports/acme/%05d.csv", i), 31*day)
	}
	play(t, w)
	effects := w.Store.Effects()
	took := effects[len(effects)-1].At.Sub(effects[0].At)
	if took < 4*time.Second {
		t.Errorf("5,000 keys in %v", took)
	}
}
