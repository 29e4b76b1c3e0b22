package ledgertest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Faults walks every write through every way to fail. open returns an empty
// ledger that consults the hook on each write, under the name of its operation.
func Faults(t *testing.T, open func(t *testing.T, hook failure.Hook) Ledger) {
	broken := failure.New(failure.Network, "write ledger", "connection reset")
	fates := []fate{
		{"failed", func(func() error) error { return broken }, false, false},
		{"failed but it happened", func(apply func() error) error { return errors.Join(broken, apply()) }, true, false},
		{"died before", func(func() error) error { runtime.Goexit(); return nil }, false, true},
		{"died after", func(apply func() error) error { _ = apply(); runtime.Goexit(); return nil }, true, true},
	}
	for _, w := range writes() {
		for _, f := range fates {
			t.Run(w.op+w.what+" "+f.name, func(t *testing.T) {
				s := &script{}
				w.walk(t, open(t, s.do), s, f)
			})
		}
	}
}

// fate is what becomes of a write.
type fate struct {
	name    string
	apply   func(apply func() error) error
	happens bool
	dies    bool
}

// write is one write of the ledger.
type write struct {
	op   string
	what string // tells apart two writes of one operation
	// prepare stores what the write needs, and returns the write and a test of
	// whether it is stored; each row must be there whole or not at all.
	prepare func(t *testing.T, l Ledger) (do func(context.Context) error, stored func(t *testing.T) bool)
	// again is how a retry of a write that happened fails, "" when it does not. A
	// writer that meets it reads the row: its own revision, owner and fence there
	// mean that it was committed (DB-01).
	again failure.Class
}

func (w write) walk(t *testing.T, l Ledger, s *script, f fate) {
	do, stored := w.prepare(t, l)
	if stored(t) {
		t.Fatal("stored before it was written")
	}
	s.next(f.apply)
	returned, err := aside(t.Context(), do)
	if returned == f.dies {
		t.Fatalf("the writer returned: %v", returned)
	}
	if returned {
		wantClass(t, err, failure.Network)
	}
	if got := stored(t); got != f.happens {
		t.Fatalf("stored: %v, want %v", got, f.happens)
	}
	if ops := s.seen(); !slices.Equal(ops, []string{w.op}) {
		t.Errorf("the hook saw %q, want %s", ops, w.op)
	}
	err = do(t.Context())
	if f.happens && w.again != "" {
		wantClass(t, err, w.again)
	} else {
		ok(t, err)
	}
	if !stored(t) {
		t.Error("not stored after the retry")
	}
}

// aside writes in a goroutine of its own, which may die; returned is false then.
func aside(ctx context.Context, do func(context.Context) error) (returned bool, err error) {
	var wg sync.WaitGroup
	wg.Go(func() {
		err = do(ctx)
		returned = true
	})
	wg.Wait()
	return returned, err
}

// script gives the next write its fate, lets all others through, and remembers
// the operations from there on, but for retries.
type script struct {
	mu    sync.Mutex
	fate  func(apply func() error) error
	armed bool
	ops   []string
}

func (s *script) next(f func(apply func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fate, s.armed = f, true
}

func (s *script) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ops
}

func (s *script) do(op string, apply func() error) error {
	s.mu.Lock()
	f := s.fate
	s.fate = nil
	if s.armed {
		s.ops = append(s.ops, op)
	}
	s.mu.Unlock()
	if f == nil {
		return apply()
	}
	return f(apply)
}

func writes() []write {
	all := []write{
		{op: "publish-policy", prepare: publishing},
		{op: "open-run", prepare: opening},
		{op: "record", prepare: recording, again: failure.Conflict},
		{op: "record", what: " without a page", prepare: recordingNone, again: failure.Conflict},
		{op: "intend", prepare: intending, again: failure.Conflict},
		{op: "complete", prepare: completing, again: failure.Conflict},
		{op: "hold", what: " placed", prepare: placing},
		{op: "hold", what: " released", prepare: releasing, again: failure.Absent},
		{op: "brake", what: " set", prepare: setting},
		{op: "brake", what: " released", prepare: unsetting},
	}
	for _, state := range job.RunStates() {
		all = append(all, write{op: "run:" + string(state), prepare: movingRun(state), again: failure.Conflict})
	}
	for _, state := range job.PageStates() {
		all = append(all, write{op: "page:" + string(state), prepare: movingPage(state), again: failure.Conflict})
	}
	return all
}

func publishing(_ *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
	p := policyOf("exports", 1, 30)
	return func(ctx context.Context) error { return l.PublishPolicy(ctx, p) },
		func(t *testing.T) bool {
			got, err := l.Policy(t.Context(), p.Name, p.Version)
			if failure.Is(err, failure.UnknownPolicy) {
				return false
			}
			ok(t, err)
			return got.Equal(p)
		}
}

// storedRun reports whether the run is there as next; before is what else may be.
func storedRun(t *testing.T, l Ledger, before *job.Run, next job.Run) bool {
	t.Helper()
	got, err := l.Run(t.Context(), next.ID)
	if before == nil && failure.Is(err, failure.Absent) {
		return false
	}
	ok(t, err)
	if got.Rev == next.Rev {
		wantSame(t, got, next)
		return true
	}
	wantSame(t, got, *before)
	return false
}

// storedPage is storedRun for a page. The row that a writer reads again is told
// from a rival's by revision, owner and fence.
func storedPage(t *testing.T, l Ledger, before *job.Page, next job.Page) bool {
	t.Helper()
	got, err := l.Page(t.Context(), next.Run, next.Tenant, next.ID)
	if before == nil && failure.Is(err, failure.Absent) {
		return false
	}
	ok(t, err)
	if got.Rev == next.Rev && got.Owner == next.Owner && got.Fence == next.Fence {
		wantSame(t, got, next)
		return true
	}
	wantSame(t, got, *before)
	return false
}

func opening(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
	r := runOf("exports", instant)
	do := func(ctx context.Context) error {
		stored, _, err := l.OpenRun(ctx, r)
		if err == nil {
			wantSame(t, stored, r)
		}
		return err
	}
	return do, func(t *testing.T) bool { return storedRun(t, l, nil, r) }
}

func movingRun(state job.RunState) func(*testing.T, Ledger) (func(context.Context) error, func(*testing.T) bool) {
	return func(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
		r := opened(t, l, runOf("exports", instant))
		next := r
		next.State, next.Rev, next.Approval = state, 2, "reason"
		return func(ctx context.Context) error { return l.SwapRun(ctx, next) },
			func(t *testing.T) bool { return storedRun(t, l, &r, next) }
	}
}

func recording(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
	r := opened(t, l, runOf("exports", instant))
	p := pageOf(r, tenant, "")
	next := advanced(t, r, &p)
	return func(ctx context.Context) error { return l.Record(ctx, next, &p) },
		func(t *testing.T) bool {
			run, page := storedRun(t, l, &r, next), storedPage(t, l, nil, p)
			tenants, err := l.Tenants(t.Context(), r.ID)
			ok(t, err)
			if run != page || run != (len(tenants) == 1) {
				t.Errorf("half of a record: run %v, page %v, tenants %v", run, page, tenants)
			}
			return run
		}
}

func recordingNone(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
	r := opened(t, l, runOf("exports", instant))
	next := advanced(t, r, nil)
	return func(ctx context.Context) error { return l.Record(ctx, next, nil) },
		func(t *testing.T) bool { return storedRun(t, l, &r, next) }
}

func movingPage(state job.PageState) func(*testing.T, Ledger) (func(context.Context) error, func(*testing.T) bool) {
	return func(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
		_, p := one(t, l)
		next := claimed(t, p, "mine", instant)
		next.State = state
		return func(ctx context.Context) error { return l.SwapPage(ctx, next) },
			func(t *testing.T) bool { return storedPage(t, l, &p, next) }
	}
}

func intending(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
	_, p := ready(t, l, opened(t, l, runOf("exports", instant)), "")
	next := intended(t, p, 0)
	return func(ctx context.Context) error { return l.Intend(ctx, next, 0) },
		func(t *testing.T) bool { return storedPage(t, l, &p, next) }
}

func completing(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
	_, p := ready(t, l, opened(t, l, runOf("exports", instant)), "")
	next, items := completed(t, p, 25), children(p, 25)
	return func(ctx context.Context) error { return l.Complete(ctx, next, items) },
		func(t *testing.T) bool {
			parent := storedPage(t, l, &p, next)
			for i, c := range items {
				if storedPage(t, l, nil, c) != parent {
					t.Errorf("half of a completion: parent %v, item %d not alike", parent, i)
				}
			}
			return parent
		}
}

func placing(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
	first := place(t, l, tenant, "zero")
	h := holdOf(tenant, "one")
	do := func(ctx context.Context) error {
		placed, err := l.PlaceHold(ctx, h)
		if err == nil && placed.Epoch != 2 {
			t.Errorf("placed at epoch %d", placed.Epoch)
		}
		return err
	}
	return do, func(t *testing.T) bool {
		set, err := l.Holds(t.Context(), tenant)
		ok(t, err)
		if len(set) == 1 {
			wantEpoch(t, l, tenant, 1)
			wantSame(t, set[0], first)
			return false
		}
		wantEpoch(t, l, tenant, 2)
		placed := h
		placed.Epoch = 2
		wantHolds(t, l, tenant, first, placed)
		return true
	}
}

func releasing(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
	h := place(t, l, tenant, "one")
	return func(ctx context.Context) error { return l.ReleaseHold(ctx, tenant, "one", after(time.Hour)) },
		func(t *testing.T) bool {
			wantEpoch(t, l, tenant, 1)
			set, err := l.Holds(t.Context(), tenant)
			ok(t, err)
			if len(set) != 1 {
				t.Fatalf("%d holds", len(set))
			}
			want := h
			if !set[0].Active() {
				want.ReleasedAt = after(time.Hour)
			}
			wantSame(t, set[0], want)
			return !set[0].Active()
		}
}

func setting(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
	old := job.Brake{Policy: "exports", Reason: "old", By: "a", At: instant}
	ok(t, l.SetBrake(t.Context(), old))
	b := job.Brake{Policy: "exports", Reason: "new", By: "b", At: after(time.Hour)}
	return func(ctx context.Context) error { return l.SetBrake(ctx, b) },
		func(t *testing.T) bool {
			brakes, err := l.Brakes(t.Context())
			ok(t, err)
			if len(brakes) == 1 && brakes[0].Reason == "new" {
				wantSame(t, brakes[0], b)
				return true
			}
			wantBrakes(t, l, old)
			return false
		}
}

func unsetting(t *testing.T, l Ledger) (func(context.Context) error, func(*testing.T) bool) {
	b := job.Brake{Policy: "exports", Version: 2, Reason: "why", By: "a", At: instant}
	ok(t, l.SetBrake(t.Context(), b))
	return func(ctx context.Context) error { return l.ReleaseBrake(ctx, b) },
		func(t *testing.T) bool {
			brakes, err := l.Brakes(t.Context())
			ok(t, err)
			if len(brakes) > 0 {
				wantBrakes(t, l, b)
			}
			return len(brakes) == 0
		}
}
