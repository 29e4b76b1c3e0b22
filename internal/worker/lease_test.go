package worker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// TestF6_NoDeleteIsSignedAfterTheClaim lets time run out before each of the last
// steps. The taps fail any delete that is asked for at or after lease end minus
// the margin (S20).
func TestF6_NoDeleteIsSignedAfterTheClaim(t *testing.T) {
	for _, at := range []string{"page:claimed", "epoch", "holds", "list", "put:plan", "intend"} {
		t.Run("after "+at, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}})
			w.on(at, after(func() { w.clock.advance(w.config.Settings.FunctionTimeout - w.config.Settings.SigningMargin) }))
			w.invoke()
			w.wantSent()
			if p := w.row(); p.State != job.Retrying || p.LastClass != failure.Throttled {
				t.Errorf("%s, %s", p.State, p.LastClass)
			}
			w.drain()
			w.want(job.Completed, map[string]string{"a": "deleted answered"})
		})
	}
}

func TestF6_TheRightToDeleteEndsAMarginBeforeTheLease(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.config.Artifacts = watched{taps{w}, func(d job.Deletion) {
		if want := w.row().LeaseEnd.Add(-w.config.Settings.SigningMargin); !d.NotAfter.Equal(want) {
			t.Errorf("not after %v, want %v", d.NotAfter, want)
		}
	}}
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
}

// watched shows each deletion before it is sent.
type watched struct {
	taps
	see func(job.Deletion)
}

func (s watched) Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error) {
	s.see(d)
	return s.taps.Delete(ctx, d)
}

// TestF6_ABackoffDoesNotOutlastTheClaim: the store asks for longer than there is.
func TestF6_ABackoffDoesNotOutlastTheClaim(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.each("delete", failing(&failure.Error{Class: failure.Throttled, Op: "delete", RetryAfter: 58 * time.Second, Err: failure.New(failure.Throttled, "", "")}))
	w.invoke()
	w.wantSent([]string{"a"})
	if now := w.clock.Now(); !now.Before(w.row().LeaseEnd) {
		t.Errorf("the handler returned at %v, its lease ended at %v", now, w.row().LeaseEnd)
	}
}

// TestDB04_ALostClaimWritesNothing: A is held up for longer than its lease at
// each of its writes; B takes over and finishes; A goes on. S13: none of A's
// writes succeeds, and the outcome is B's.
func TestDB04_ALostClaimWritesNothing(t *testing.T) {
	for _, at := range []string{"epoch", "list", "put:plan", "intend", "delete", "put:receipt", "complete"} {
		t.Run("before "+at, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}})
			var ended job.Page
			w.on(at, before(func() {
				w.hold("h", hold.Tenant, "")
				w.clock.reach(w.row().LeaseEnd.Add(2 * w.config.Settings.RequestLifetime))
				w.drain()
				ended = w.row()
			}))
			w.invoke()
			if ended.State != job.Completed || w.row() != ended {
				t.Errorf("B left %+v, A made it %+v", ended, w.row())
			}
		})
	}
}

// TestS13_ALostClaimDoesNotEndTheOneThatFollows: B has taken over and is at work
// when A's write fails. A must leave B's row alone.
func TestS13_ALostClaimDoesNotEndTheOneThatFollows(t *testing.T) {
	for _, at := range []string{"epoch", "put:plan", "intend", "put:receipt", "complete"} {
		t.Run("before "+at, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}})
			var theirs job.Page
			w.on(at, before(func() {
				w.clock.reach(w.row().LeaseEnd)
				next, err := w.row().Claim("B", w.clock.Now(), w.clock.Now().Add(time.Minute), w.clock.Now().Add(time.Hour))
				w.must(err)
				w.must(w.ledger.SwapPage(t.Context(), next))
				theirs = next
			}))
			w.invoke()
			if w.row() != theirs || w.acked != 0 {
				t.Errorf("A made B's row %+v; %d acknowledged", w.row(), w.acked)
			}
		})
	}
}

// TestF21_AFastClockStealsALiveLease: B's clock is 90 s ahead. It may take over
// early; the fence keeps the outcome single.
func TestF21_AFastClockStealsALiveLease(t *testing.T) {
	for _, at := range []string{"intend", "delete", "complete"} {
		t.Run("before "+at, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a", "b"}})
			ahead := w.config
			ahead.Clock = skewed{w.clock, 90 * time.Second}
			b, err := New(ahead)
			w.must(err)
			w.queue.Duplicate(1)
			one, two := w.receive(1), w.receive(1)
			w.on(at, before(func() { w.batch(b, two...) }))
			w.batch(w.worker(), one...)
			w.drain()
			if p := w.row(); p.State != job.Completed || p.Counts[job.Deleted] != 2 || p.Fence != 2 {
				t.Errorf("%+v", p)
			}
			w.wantLeft()
		})
	}
}

// TestDB14_ASlowClockTakesOverLateButDoes: 20 s behind, it still sees a live lease.
func TestDB14_ASlowClockTakesOverLateButDoes(t *testing.T) {
	w := interrupted(t, setup{keys: []string{"a"}})
	end := w.row().LeaseEnd
	w.post(job.NewMessage(w.run, w.row()))
	w.config.Clock = skewed{w.clock, -20 * time.Second}
	w.clock.reach(end.Add(10 * time.Second))
	w.invoke()
	w.wantSent()
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
}

// TestDB01_OwnWritesAreRecognised loses the answer of each write of the ledger,
// and disguises it as a failed condition, as an SDK's own retry does.
func TestDB01_OwnWritesAreRecognised(t *testing.T) {
	disguised := func(apply func() error) error { _ = apply(); return class(failure.Conflict) }
	for _, at := range []string{"page:claimed", "intend", "complete"} {
		for name, h := range map[string]handler{"lost": lost, "disguised": disguised} {
			t.Run(at+" "+name, func(t *testing.T) {
				w := newWorld(t, setup{keys: []string{"a"}})
				w.on(at, h)
				w.invoke()
				w.want(job.Completed, map[string]string{"a": "deleted answered"})
				if p := w.row(); p.Attempts != 1 || p.Fence != 1 || w.acked != 1 || w.count(at) != 1 {
					t.Errorf("%+v, %d acknowledged, %d writes", p, w.acked, w.count(at))
				}
			})
		}
	}
	for _, at := range []string{"page:retrying", "page:dead", "page:lettered"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}, settings: attempts(2)})
			w.each("list", failing(class(failure.Network)))
			w.on(at, disguised)
			w.drain()
			if p := w.row(); p.State != job.Dead || p.Attempts != 2 || p.Death.LetterAt.IsZero() || w.acked != 1 {
				t.Errorf("%+v, %d acknowledged", p, w.acked)
			}
			w.wantLetters(job.ReasonAttempts)
		})
	}
}

// TestDB02_AClaimAfterAKill: a kill after the claim costs one attempt and one
// lease. Before the lease ends a delivery is put off until then, and costs nothing.
func TestDB02_AClaimAfterAKill(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.queue.Duplicate(1)
	one := w.receive(1)
	w.on("page:claimed", dieAfter)
	w.batch(w.worker(), one...)
	w.clock.advance(20 * time.Second)
	w.invoke()
	if p := w.row(); p.State != job.Claimed || p.Attempts != 1 || p.Fence != 1 || w.acked != 0 {
		t.Fatalf("%+v, %d acknowledged", p, w.acked)
	}
	at, _ := w.queue.NextVisible(w.run.Mode)
	if !at.Equal(w.row().LeaseEnd) {
		t.Errorf("visible at %v, the lease ends at %v", at, w.row().LeaseEnd)
	}
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
	if p := w.row(); p.Attempts != 2 || p.Fence != 2 {
		t.Errorf("%+v", p)
	}
}

// TestDB05_AnOldClaimIsJudgedByItsValue, not by its being there.
func TestDB05_AnOldClaimIsJudgedByItsValue(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.on("page:claimed", dieAfter)
	w.invoke()
	w.clock.advance(40 * time.Hour)
	w.drain()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
}

// TestGO03_AKillAtEveryPoint: before and after each call of a page's life, and the
// end is the same.
func TestGO03_AKillAtEveryPoint(t *testing.T) {
	for _, at := range []string{
		"run", "page", "policy", "brakes", "page:claimed", "epoch", "holds", "list", "put:plan", "intend", "delete", "put:receipt", "complete",
	} {
		for name, h := range map[string]handler{"before": dieBefore, "after": dieAfter} {
			t.Run(name+" "+at, func(t *testing.T) {
				w := newWorld(t, setup{keys: []string{"a", "b", "h"}})
				w.hold("h", hold.Item, root+"h")
				w.on(at, h)
				if w.invoke() {
					t.Fatal("the process lived")
				}
				w.drain()
				if p := w.row(); p.State != job.Completed || p.Counts[job.Deleted] != 2 || p.Counts[job.Held] != 1 || p.Bytes != 20 {
					t.Errorf("%+v", p)
				}
				w.wantLeft("h")
				w.wantLetters()
			})
		}
	}
}

// TestSQ15_OneMessageInTwoHands: two workers at once, one of them held between its
// claim and its delete until the other has answered.
func TestSQ15_OneMessageInTwoHands(t *testing.T) {
	for _, at := range []string{"page:claimed", "intend", "delete", "complete"} {
		t.Run("after "+at, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a", "b"}})
			w.queue.Duplicate(1)
			one, two := w.receive(1), w.receive(1)
			entered, leave := make(chan struct{}), make(chan struct{})
			w.on(at, after(func() { close(entered); <-leave }))
			var both sync.WaitGroup
			both.Go(func() { w.batch(w.worker(), one...) })
			<-entered
			both.Go(func() { w.batch(w.worker(), two...); close(leave) })
			both.Wait()
			w.drain()
			w.want(job.Completed, map[string]string{"a": "deleted answered", "b": "deleted answered"})
			w.wantSent([]string{"a", "b"})
			if n := len(w.events("cleanup_duplicate_observed")); n < 1 {
				t.Errorf("%d duplicates observed", n)
			}
		})
	}
	t.Run("without a barrier", func(t *testing.T) {
		w := newWorld(t, setup{keys: []string{"a", "b"}})
		w.queue.Duplicate(3)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { w.batch(w.worker(), w.receive(1)...) })
		}
		all.Wait()
		w.drain()
		if p := w.row(); p.State != job.Completed || p.Counts[job.Deleted] != 2 || p.Attempts != 1 {
			t.Errorf("%+v", p)
		}
		w.wantSent([]string{"a", "b"})
	})
}

// TestSQ15_TwiceInOneBatch: the second copy finds the page settled.
func TestSQ15_TwiceInOneBatch(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.post(job.NewMessage(w.run, w.row()))
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "deleted answered"})
	w.wantSent([]string{"a"})
	if w.acked != 2 || len(w.events("cleanup_duplicate_observed")) != 1 || len(w.events("cleanup_succeeded")) != 1 {
		t.Errorf("%d acknowledged, events %v", w.acked, w.log.Events())
	}
}
