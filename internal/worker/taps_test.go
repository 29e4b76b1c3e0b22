package worker

import (
	"context"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// taps stands between the worker and its fakes. It logs every call by name and
// lets a test stand in for it:
//
//	run policy page brakes epoch holds            reads of the ledger; page brings the brakes
//	page:<state> page:lettered intend complete    writes of it
//	list delete standing                          the store
//	put:plan put:receipt get:plan get:receipt     evidence
//	delay dead-letter                             the queue
type taps struct{ w *world }

// on lets each handler stand in for one of the next calls of op, in order.
func (w *world) on(op string, hs ...handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next[op] = append(w.next[op], hs...)
}

// each lets the handler stand in for every call of op; nil takes it away.
func (w *world) each(op string, h handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.always[op] = h
}

func (w *world) call(op string, apply func() error) error {
	w.mu.Lock()
	w.calls = append(w.calls, op)
	h := w.always[op]
	if queued := w.next[op]; len(queued) > 0 {
		h, w.next[op] = queued[0], queued[1:]
	}
	w.open++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.open--
		w.mu.Unlock()
	}()
	if h == nil {
		return apply()
	}
	return h(apply)
}

func read[T any](w *world, op string, f func() (T, error)) (v T, err error) {
	err = w.call(op, func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

func (t taps) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	return read(t.w, "run", func() (job.Run, error) { return t.w.ledger.Run(ctx, id) })
}

func (t taps) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	return read(t.w, "policy", func() (policy.Policy, error) { return t.w.ledger.Policy(ctx, name, version) })
}

func (t taps) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (p job.Page, brakes []job.Brake, err error) {
	err = t.w.call("page", func() (err error) {
		p, brakes, err = t.w.ledger.Look(ctx, run, tenant, id)
		return err
	})
	return p, brakes, err
}

func (t taps) Brakes(ctx context.Context) ([]job.Brake, error) {
	return read(t.w, "brakes", func() ([]job.Brake, error) { return t.w.ledger.Brakes(ctx) })
}

func (t taps) Epoch(ctx context.Context, tenant string) (int64, error) {
	return read(t.w, "epoch", func() (int64, error) { return t.w.ledger.Epoch(ctx, tenant) })
}

func (t taps) Holds(ctx context.Context, tenant string) (hold.Set, error) {
	return read(t.w, "holds", func() (hold.Set, error) { return t.w.ledger.Holds(ctx, tenant) })
}

func (t taps) SwapPage(ctx context.Context, next job.Page) error {
	op := "page:" + string(next.State)
	if next.State == job.Dead && !next.Death.LetterAt.IsZero() {
		op = "page:lettered"
	}
	return t.w.call(op, func() error { return t.w.ledger.SwapPage(ctx, next) })
}

func (t taps) Intend(ctx context.Context, next job.Page, epoch int64) error {
	return t.w.call("intend", func() error {
		err := t.w.ledger.Intend(ctx, next, epoch)
		if err == nil {
			t.w.mu.Lock()
			defer t.w.mu.Unlock()
			t.w.intents = append(t.w.intents, next)
		}
		return err
	})
}

func (t taps) Complete(ctx context.Context, next job.Page, children []job.Page) error {
	return t.w.call("complete", func() error {
		err := t.w.ledger.Complete(ctx, next, children)
		if err == nil {
			t.w.mu.Lock()
			defer t.w.mu.Unlock()
			t.w.intents = append(t.w.intents, children...)
		}
		return err
	})
}

func (t taps) List(ctx context.Context, q job.Query) (job.Listing, error) {
	return read(t.w, "list", func() (job.Listing, error) { return t.w.store.List(ctx, q) })
}

// Delete also watches S20 and F6: what is asked to be signed, and until when.
func (t taps) Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error) {
	names := make([]string, len(d.Items))
	for i, item := range d.Items {
		names[i] = strings.TrimPrefix(item.Key, root)
	}
	t.w.mu.Lock()
	t.w.sent = append(t.w.sent, names)
	t.w.mu.Unlock()
	if !t.w.clock.Now().Before(d.NotAfter) {
		t.w.t.Error("F6: a delete was asked for after the claim's right to it had ended")
	}
	return read(t.w, "delete", func() ([]job.Answer, error) { return t.w.store.Delete(ctx, d) })
}

func (t taps) Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	return read(t.w, "standing", func() ([]job.Standing, error) { return t.w.store.Standing(ctx, bucket, items) })
}

func (t taps) Put(ctx context.Context, name string, data []byte) error {
	kind, _, _ := strings.Cut(name, "/")
	return t.w.call("put:"+kind, func() error { return t.w.evidence.Put(ctx, name, data) })
}

func (t taps) Get(ctx context.Context, name string) ([]byte, error) {
	kind, _, _ := strings.Cut(name, "/")
	return read(t.w, "get:"+kind, func() ([]byte, error) {
		if t.w.standIn != nil {
			return t.w.standIn, nil
		}
		return t.w.evidence.Get(ctx, name)
	})
}

func (t taps) Delay(ctx context.Context, d job.Delivery, wait time.Duration) error {
	return t.w.call("delay", func() error { return t.w.queue.Delay(ctx, d, wait) })
}

func (t taps) DeadLetter(ctx context.Context, l job.Letter) error {
	return t.w.call("dead-letter", func() error { return t.w.queue.DeadLetter(ctx, l) })
}
