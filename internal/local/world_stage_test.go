package local

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// Seed stores the objects of a batch, as old as it says.
func (w *World) Seed(b batch) error { return w.Store.Load(b.bucket, b.items(w.Clock.Now())) }

// Deny makes the store refuse to delete a key.
func (w *World) Deny(bucket, key string) error { return w.Store.DenyKey(bucket, key) }

// Hold places a legal hold now.
func (w *World) Hold(ctx context.Context, h hold.Hold) error {
	h.PlacedAt = w.Clock.Now()
	_, err := w.Ledger.PlaceHold(ctx, h)
	return err
}

// Duplicate makes the queue hand the next n messages out twice.
func (w *World) Duplicate(n int) { w.Queue.Duplicate(n) }

// KillAfterDelete lets the process die right after the store has carried out its
// n-th delete call, before it could read the answer.
func (w *World) KillAfterDelete(n int64, say func(string)) {
	var calls atomic.Int64
	w.Store.Hook = func(op string, apply func() error) error {
		err := apply()
		if op == "delete" && calls.Add(1) == n {
			say("trouble: a worker dies right after its delete, before it could read the answer")
			runtime.Goexit()
		}
		return err
	}
}

// Fire lets the policy's schedule fire now.
func (w *World) Fire(ctx context.Context, policy string) (job.RunID, error) {
	r, err := w.Tick(ctx, policy, w.Clock.Now())
	return r.RunID, err
}

// Stray puts a copy of a message of the run into the queue, with its body changed.
func (w *World) Stray(ctx context.Context, id job.RunID, change func([]byte) []byte) error {
	run, err := w.Ledger.Run(ctx, id)
	if err != nil {
		return err
	}
	m := job.NewMessage(run, w.Ledger.AllPages(id)[0])
	m.ID, m.Body = "stray", change(m.Body)
	_, err = w.Queue.Send(ctx, run.Mode, []job.Message{m})
	return err
}
