package queue_test

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
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/queue/queuetest"
)

// clock is a clock that moves when it is told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

const day = 24 * time.Hour

func settings() queue.Settings {
	return queue.Settings{Visibility: 6 * time.Minute, Retention: 4 * day, LetterRetention: 14 * day, MaxReceives: 3}
}

func open() (*queue.Memory, *clock) {
	c := &clock{at: time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)}
	return queue.NewMemory(c.now, settings()), c
}

func TestMemory(t *testing.T) {
	queuetest.Exercise(t, func(*testing.T) queuetest.Bed {
		m, c := open()
		refused := map[string]bool{}
		m.Reject = func(id string) bool { return refused[id] }
		return queuetest.Bed{
			Sender: m, Receiver: m, Letterbox: m, Inspector: m, Settings: settings(), Advance: c.advance,
			Refuse: func(ids ...string) {
				for _, id := range ids {
					refused[id] = true
				}
			},
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pages(ids ...string) (msgs []job.Message) {
	for _, id := range ids {
		msgs = append(msgs, job.Message{ID: id, Group: "school-4", Body: []byte("page " + id)})
	}
	return msgs
}

func send(t *testing.T, m *queue.Memory, ids ...string) {
	t.Helper()
	accepted, err := m.Send(context.Background(), job.Enforce, pages(ids...))
	must(t, err)
	if !slices.Equal(accepted, ids) {
		t.Fatalf("accepted %v, want %v", accepted, ids)
	}
}

func receive(t *testing.T, m *queue.Memory, limit int) []job.Delivery {
	t.Helper()
	got, err := m.Receive(context.Background(), job.Enforce, limit)
	must(t, err)
	return got
}

func letterOf(id string) job.Letter {
	return job.Letter{Body: []byte("page " + id), Reason: job.ReasonAttempts, PageID: job.PageID(id), Attempts: 5}
}

// TestEachCallInThreeFailures lets every call fail, fail after it happened, and
// take its process with it before and after.
func TestEachCallInThreeFailures(t *testing.T) {
	lost := failure.New(failure.Network, "test", "connection reset")
	faults := map[string]struct {
		hook    failure.Hook
		happens bool
		returns bool
	}{
		"failed":              {func(string, func() error) error { return lost }, false, true},
		"failed but happened": {func(_ string, apply func() error) error { return errors.Join(apply(), lost) }, true, true},
		"died before":         {func(string, func() error) error { runtime.Goexit(); return nil }, false, false},
		"died after":          {func(_ string, apply func() error) error { _ = apply(); runtime.Goexit(); return nil }, true, false},
	}
	ctx := context.Background()
	calls := map[string]struct {
		call     func(*queue.Memory, job.Delivery, job.DeadLetter) error
		happened func(*queue.Memory) bool
	}{
		"send": {
			func(m *queue.Memory, _ job.Delivery, _ job.DeadLetter) error {
				accepted, err := m.Send(ctx, job.Enforce, pages("new"))
				return errors.Join(err, acceptedNone(accepted))
			},
			func(m *queue.Memory) bool { return len(m.Waiting(job.Enforce)) == 2 },
		},
		"ack": {
			func(m *queue.Memory, d job.Delivery, _ job.DeadLetter) error { return m.Ack(ctx, job.Enforce, d) },
			func(m *queue.Memory) bool { return len(m.Waiting(job.Enforce)) == 0 && len(m.Acks()) == 1 },
		},
		"visibility": {
			func(m *queue.Memory, d job.Delivery, _ job.DeadLetter) error { return m.Delay(ctx, d, time.Hour) },
			func(m *queue.Memory) bool {
				at, _ := m.NextVisible(job.Enforce)
				return at.Equal(time.Date(2026, 12, 1, 7, 0, 0, 0, time.UTC))
			},
		},
		"dead-letter": {
			func(m *queue.Memory, _ job.Delivery, _ job.DeadLetter) error {
				return m.DeadLetter(ctx, letterOf("new"))
			},
			func(m *queue.Memory) bool { return len(m.PeekLetters()) == 2 },
		},
		"remove": {
			func(m *queue.Memory, _ job.Delivery, dead job.DeadLetter) error { return m.Remove(ctx, dead) },
			func(m *queue.Memory) bool { return len(m.PeekLetters()) == 0 },
		},
	}
	for op, call := range calls {
		for name, fault := range faults {
			m, _ := open()
			send(t, m, "old")
			must(t, m.DeadLetter(ctx, letterOf("old")))
			d := receive(t, m, 1)[0]
			dead, err := m.Letters(ctx, 1)
			must(t, err)
			hooked := 0
			m.Hook = func(got string, apply func() error) error {
				hooked++
				if got != op {
					t.Errorf("hook %q, want %q", got, op)
				}
				return fault.hook(got, apply)
			}
			returned := false
			var wg sync.WaitGroup
			wg.Go(func() {
				err = call.call(m, d, dead[0])
				returned = true
			})
			wg.Wait()
			if returned != fault.returns || hooked != 1 || returned && !failure.Is(err, failure.Network) {
				t.Errorf("%s %s: returned %v with %v, hook called %d times", op, name, returned, err, hooked)
			}
			if got := call.happened(m); got != fault.happens {
				t.Errorf("%s %s: happened %v", op, name, got)
			}
		}
	}
}

func acceptedNone(accepted []string) error {
	if len(accepted) > 0 {
		return errors.New("something was accepted")
	}
	return nil
}

func TestSendStopsAtAFailedBatch(t *testing.T) {
	m, _ := open()
	var ids []string
	for i := range 25 {
		ids = append(ids, string(rune('a'+i)))
	}
	batches := 0
	m.Hook = func(op string, apply func() error) error {
		if batches++; batches == 2 {
			return failure.New(failure.Throttled, op, "slow down")
		}
		return apply()
	}
	msgs := append(pages(ids...), job.Message{ID: "invalid"})
	accepted, err := m.Send(context.Background(), job.Enforce, msgs)
	if !failure.Is(err, failure.Throttled) || !slices.Equal(accepted, ids[:queue.MaxBatch]) || batches != 2 {
		t.Errorf("accepted %v in %d batches, %v", accepted, batches, err)
	}
}

func TestDuplicates(t *testing.T) {
	m, _ := open()
	send(t, m, "a", "b")
	m.Duplicate(1)
	first := receive(t, m, 1)
	second := receive(t, m, 1)
	if first[0].MessageID != second[0].MessageID || second[0].Receives != 2 {
		t.Fatalf("first %+v\nsecond %+v", first, second)
	}
	must(t, m.Ack(context.Background(), job.Enforce, first[0])) // too old to delete
	if len(m.Acks()) != 0 {
		t.Error("an old handle deleted")
	}
	must(t, m.Ack(context.Background(), job.Enforce, second[0]))
	if acks := m.Acks(); len(acks) != 1 || string(acks[0].Body) != "page a" || acks[0].MessageID != first[0].MessageID {
		t.Errorf("acks %+v", acks)
	}
	m.Duplicate(1)
	if batch := receive(t, m, 10); len(batch) != 2 || batch[0].MessageID != batch[1].MessageID {
		t.Errorf("in one batch: %+v", batch)
	}
}

func TestAckIsTold(t *testing.T) {
	m, c := open()
	send(t, m, "a")
	var told []queue.Acked
	m.OnAck = func(a queue.Acked) {
		if len(m.Waiting(job.Enforce)) != 0 {
			t.Error("told before it happened")
		}
		told = append(told, a)
	}
	d := receive(t, m, 1)[0]
	for range 2 {
		must(t, m.Ack(context.Background(), job.Enforce, d))
	}
	if len(told) != 1 || told[0].Mode != job.Enforce || !told[0].At.Equal(c.now()) || string(told[0].Body) != "page a" {
		t.Errorf("told %+v", told)
	}
}

func TestNextVisible(t *testing.T) {
	m, c := open()
	want := func(at time.Time) {
		t.Helper()
		if got, ok := m.NextVisible(job.Enforce); ok != !at.IsZero() || !got.Equal(at) {
			t.Errorf("next visible %v, %v; want %v", got, ok, at)
		}
	}
	want(time.Time{})
	sent := c.now()
	send(t, m, "a", "b")
	want(sent)
	c.advance(time.Minute)
	want(sent)
	got := receive(t, m, 2)
	want(c.now().Add(6 * time.Minute))
	must(t, m.Delay(context.Background(), got[1], time.Minute))
	want(c.now().Add(time.Minute))
	must(t, m.Ack(context.Background(), job.Enforce, got[1]))
	want(c.now().Add(6 * time.Minute))
	c.advance(4 * day)
	want(time.Time{})
	if s := m.Stats(); s != (queue.Stats{Sent: 2, Received: 2, Acked: 1, Expired: 1}) {
		t.Errorf("stats %+v", s)
	}
}

func TestReceiptOfAnotherQueue(t *testing.T) {
	m, _ := open()
	send(t, m, "a")
	d := receive(t, m, 1)[0]
	if err := m.Ack(context.Background(), job.ReportOnly, d); !failure.Is(err, failure.Invalid) {
		t.Errorf("ack: %v", err)
	}
	if err := m.Remove(context.Background(), job.DeadLetter{Delivery: d}); !failure.Is(err, failure.Invalid) {
		t.Errorf("remove: %v", err)
	}
	if len(m.Waiting(job.Enforce)) != 1 {
		t.Error("the message is gone")
	}
}

func TestCallersOwnTheirBytes(t *testing.T) {
	m, _ := open()
	msgs := pages("a")
	_, err := m.Send(context.Background(), job.Enforce, msgs)
	must(t, err)
	clear(msgs[0].Body)
	clear(receive(t, m, 1)[0].Body)
	if got := string(m.Waiting(job.Enforce)[0].Body); got != "page a" {
		t.Errorf("body %q", got)
	}
}

// A letter that nobody wrote and nobody moved has no origin (RD-05).
func TestStrayLetter(t *testing.T) {
	m, _ := open()
	m.Stray([]byte("page a"))
	got, err := m.Letters(context.Background(), 10)
	must(t, err)
	if len(got) != 1 || got[0].Origin != "" || got[0].Letter.Reason != "" || got[0].Damaged || string(got[0].Letter.Body) != "page a" {
		t.Errorf("got %+v", got)
	}
}

func TestNativeRedrive(t *testing.T) {
	m, c := open()
	for _, id := range []string{"a", "b"} {
		must(t, m.DeadLetter(context.Background(), letterOf(id)))
	}
	before, err := m.Letters(context.Background(), 1)
	must(t, err)
	c.advance(time.Minute)
	if moved := m.NativeRedrive(job.Enforce); moved != 1 || len(m.PeekLetters()) != 1 {
		t.Errorf("moved %d; the one in flight stays", moved)
	}
	d := receive(t, m, 10)
	if len(d) != 1 || string(d[0].Body) != "page b" || d[0].MessageID == before[0].MessageID || d[0].Receives != 1 || !d[0].SentAt.Equal(c.now()) {
		t.Errorf("got %+v", d)
	}
}

func TestConcurrentUse(t *testing.T) {
	m, c := open()
	m.OnAck = func(queue.Acked) { m.Stats() }
	ctx := context.Background()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				_, _ = m.Send(ctx, job.Enforce, pages("a", "b"))
				m.Duplicate(1)
				got, _ := m.Receive(ctx, job.Enforce, 3)
				for i, d := range got {
					if i%2 == 0 {
						_ = m.Ack(ctx, job.Enforce, d)
					} else {
						_ = m.Delay(ctx, d, 0)
					}
				}
				_ = m.DeadLetter(ctx, letterOf("a"))
				dead, _ := m.Letters(ctx, 2)
				for _, d := range dead {
					_ = m.PutBack(ctx, d)
				}
				_, _ = m.NextVisible(job.Enforce)
				c.advance(time.Second)
			}
		})
	}
	wg.Wait()
	s := m.Stats()
	if left := len(m.Waiting(job.Enforce)); s.Sent != s.Acked+s.Moved+left {
		t.Errorf("%+v and %d left: messages were lost", s, left)
	}
}
