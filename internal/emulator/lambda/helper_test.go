package lambda_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/lambda"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const (
	region   = "eu-central-1"
	queueARN = "arn:aws:sqs:eu-central-1:000000000000:pages"
)

// start is some instant, and none that the machine's clock shows.
var start = time.Date(2026, 3, 8, 1, 0, 0, 0, time.UTC)

// newService returns a service that has to be clean after the test.
func newService(t *testing.T, clock wire.Clock) *lambda.Service {
	t.Helper()
	s := lambda.New(clock)
	t.Cleanup(func() {
		s.Close()
		wantNothingLeft(t)
	})
	return s
}

// wantNothingLeft looks for goroutines of the package. Those of the tests do not
// count, nor do those of other tests: none of them runs in parallel. One that has
// said that it is done may take a moment to be gone.
func wantNothingLeft(t *testing.T) {
	t.Helper()
	var left string
	for range 1000 {
		left = ""
		stacks := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, "emulator/lambda.(") && !strings.Contains(stack, "wantNothingLeft") {
				left += stack + "\n"
			}
		}
		if left == "" {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Errorf("left behind after Close:\n%s", left)
}

func register(t *testing.T, s *lambda.Service, f lambda.Function) {
	t.Helper()
	if f.Region == "" {
		f.Region = region
	}
	if err := s.Register(f); err != nil {
		t.Fatal(err)
	}
}

// watched is a manual clock that tells who begins to wait on it.
type watched struct {
	*wire.Manual
	asked chan time.Duration
}

func newWatched() *watched {
	return &watched{wire.NewManual(start), make(chan time.Duration, 10_000)}
}

func (w *watched) After(d time.Duration) <-chan time.Time {
	ring := w.Manual.After(d)
	w.asked <- d
	return ring
}

// awaits returns when somebody waits for exactly d.
func (w *watched) awaits(t *testing.T, d time.Duration) {
	t.Helper()
	for {
		select {
		case got := <-w.asked:
			if got == d {
				return
			}
		case <-time.After(time.Minute):
			t.Fatalf("nobody waits for %v", d)
		}
	}
}

// until moves the clock on by step, again and again, until done.
func until(t *testing.T, clock *wire.Manual, step time.Duration, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
		clock.Advance(step)
		<-time.After(time.Millisecond) // lets the others run; nothing is measured
	}
}

// memory is a queue as small as it can be.
type memory struct {
	clock      wire.Clock
	visibility time.Duration
	limit      int // receives before a message goes to the dead letters; 0 for ever

	mu      sync.Mutex
	changed chan struct{}
	queued  []*letter
	dead    []string
	deleted []string
	broken  error
	polls   int
}

type letter struct {
	lambda.Message
	visible  time.Time
	receives int
}

func newMemory(clock wire.Clock, visibility time.Duration) *memory {
	return &memory{clock: clock, visibility: visibility, changed: make(chan struct{})}
}

// send adds messages with these ids, and their attributes alternating name, value.
func (m *memory) send(id, body string, attributes ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &letter{Message: lambda.Message{ID: id, Body: body, BodyMD5: "md5-" + id, Attributes: map[string]string{
		"SentTimestamp": strconv.FormatInt(m.clock.Now().UnixMilli(), 10), "SenderId": "AIDA",
	}}}
	for n := 0; n+1 < len(attributes); n += 2 {
		l.Attributes[attributes[n]] = attributes[n+1]
	}
	m.queued = append(m.queued, l)
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memory) Receive(ctx context.Context, limit int, wait time.Duration) ([]lambda.Message, error) {
	end := m.clock.Now().Add(wait)
	for {
		got, changed, err := m.take(limit)
		rest := end.Sub(m.clock.Now())
		if err != nil || len(got) > 0 || rest <= 0 {
			return got, err
		}
		select {
		case <-changed:
		case <-m.clock.After(min(rest, m.nextVisible())):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (m *memory) take(limit int) ([]lambda.Message, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.polls++
	now := m.clock.Now()
	var got []lambda.Message
	kept := m.queued[:0:0]
	for _, l := range m.queued {
		switch {
		case len(got) == limit || l.visible.After(now) || m.broken != nil:
		case m.limit > 0 && l.receives == m.limit:
			m.dead = append(m.dead, l.ID)
			continue
		default:
			l.receives++
			l.visible = now.Add(m.visibility)
			out := l.Message
			out.Handle = l.ID + "#" + strconv.Itoa(l.receives)
			out.Attributes = map[string]string{"ApproximateReceiveCount": strconv.Itoa(l.receives)}
			for name, value := range l.Attributes {
				out.Attributes[name] = value
			}
			got = append(got, out)
		}
		kept = append(kept, l)
	}
	m.queued = kept
	return got, m.changed, m.broken
}

func (m *memory) nextVisible() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := time.Hour
	for _, l := range m.queued {
		next = min(next, max(l.visible.Sub(m.clock.Now()), time.Millisecond))
	}
	return next
}

func (m *memory) Delete(_ context.Context, handles []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range handles {
		id, _, _ := strings.Cut(h, "#")
		m.queued = slices.DeleteFunc(m.queued, func(l *letter) bool { return l.ID == id })
		m.deleted = append(m.deleted, id)
	}
	return nil
}

func (m *memory) DeadLetter(_ context.Context, message lambda.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queued = slices.DeleteFunc(m.queued, func(l *letter) bool { return l.ID == message.ID })
	m.dead = append(m.dead, message.ID)
	return nil
}

func (m *memory) Visibility() time.Duration { return m.visibility }

// state is what is queued with its receives, what was deleted, and what is dead.
func (m *memory) state() (queued map[string]int, deleted, dead []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	queued = map[string]int{}
	for _, l := range m.queued {
		queued[l.ID] = l.receives
	}
	return queued, slices.Sorted(slices.Values(m.deleted)), slices.Sorted(slices.Values(m.dead))
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

// answering returns a handler that always answers the same.
func answering(payload string, err error) func(context.Context, []byte) ([]byte, error) {
	return func(context.Context, []byte) ([]byte, error) { return []byte(payload), err }
}

var errRefused = errors.New("refused")

// problem is a function error's payload.
type problem struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

func problemOf(t *testing.T, r lambda.Result) problem {
	t.Helper()
	if r.FunctionError != "Unhandled" {
		t.Fatalf("no function error: %q, %s", r.FunctionError, r.Payload)
	}
	var p problem
	if err := json.Unmarshal(r.Payload, &p); err != nil {
		t.Fatalf("%v in %s", err, r.Payload)
	}
	return p
}
