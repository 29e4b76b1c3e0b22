package lambda_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/lambda"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// SQ-08: more is fetched than a throttled function can take. What waits its turn
// has been received all the same; while the throttle lasts less than the
// visibility timeout nothing is received twice, and nothing dies.
func TestThrottledPollers(t *testing.T) {
	clock := newWatched()
	s := newService(t, clock)
	source := newMemory(clock.Manual, 6*time.Minute)
	source.limit = 5
	release := make(chan struct{})
	var mu sync.Mutex
	most, now := 0, 0
	register(t, s, lambda.Function{Name: "f", Timeout: 3 * time.Minute, Concurrency: 2,
		Handler: func(context.Context, []byte) ([]byte, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-release
			mu.Lock()
			now--
			mu.Unlock()
			return nil, nil
		}})
	for n := range 50 {
		source.send(fmt.Sprint(n), "body")
	}
	mapQueue(t, s, source, nil)
	received := func(times int) int {
		queued, _, _ := source.state()
		n := 0
		for _, receives := range queued {
			if receives >= times {
				n++
			}
		}
		return n
	}
	until(t, clock.Manual, 0, func() bool { return received(1) == 50 }) // five pollers, ten each
	for range 90 {
		clock.Advance(time.Second)
		<-time.After(time.Millisecond)
	}
	until(t, clock.Manual, 0, func() bool { return s.Metrics(region, "f").Throttles > 3 })
	if n := received(2); n != 0 {
		t.Fatalf("%d messages were received again while they waited", n)
	}
	close(release)
	until(t, clock.Manual, time.Second, func() bool { _, deleted, _ := source.state(); return len(deleted) == 50 })
	if _, _, dead := source.state(); len(dead) != 0 {
		t.Fatalf("died without having been tried: %v", dead)
	}
	if most != 2 {
		t.Fatalf("%d at once, want 2", most)
	}
}

// SQ-08: a throttle that outlasts the visibility timeout spends receives on
// messages that the function never saw, down to the dead letters.
func TestThrottledToDeath(t *testing.T) {
	clock := wire.NewManual(start)
	s := newService(t, clock)
	source := newMemory(clock, 30*time.Second)
	source.limit = 3
	entered, release := make(chan struct{}), make(chan struct{})
	register(t, s, lambda.Function{Name: "f", Concurrency: 1, Handler: func(context.Context, []byte) ([]byte, error) {
		entered <- struct{}{}
		<-release
		return nil, nil
	}})
	id := mapQueue(t, s, source, stepped)
	source.send("A", "body")
	for range 3 {
		left := make(chan error, 1)
		go func() { // has the only place
			_, err := s.Invoke(context.Background(), region, "f", nil)
			left <- err
		}()
		<-entered
		poll(t, s, id, 1)
		release <- struct{}{}
		if err := <-left; err != nil {
			t.Fatal(err)
		}
		clock.Advance(30 * time.Second)
	}
	poll(t, s, id, 0)
	if _, _, dead := source.state(); !slices.Equal(dead, []string{"A"}) {
		t.Fatalf("dead %v", dead)
	}
	if got := s.Metrics(region, "f"); got.Throttles != 3 || got.Invocations != 3 {
		t.Fatalf("got %+v", got)
	}
}

// SQ-08: a throttled batch is tried again until the queue shows its messages
// again, and not after: the copy that has become stale is never handed over.
func TestThrottledBatchIsDropped(t *testing.T) {
	clock := newWatched()
	s := newService(t, clock)
	source := newMemory(clock.Manual, 30*time.Second)
	source.limit = 1
	entered := make(chan struct{})
	var mu sync.Mutex
	seen := ""
	register(t, s, lambda.Function{Name: "f", Concurrency: 1, Timeout: 30 * time.Second,
		Handler: func(ctx context.Context, payload []byte) ([]byte, error) {
			if string(payload) == "{}" { // has the only place until its timeout
				close(entered)
				<-ctx.Done()
				return nil, nil
			}
			mu.Lock()
			defer mu.Unlock()
			seen += string(payload)
			return nil, nil
		}})
	go func() { _, _ = s.Invoke(context.Background(), region, "f", nil) }()
	<-entered
	source.send("stale", "body")
	mapQueue(t, s, source, nil)
	for _, pause := range []time.Duration{1, 2, 4, 8} {
		clock.awaits(t, pause*time.Second)
		clock.Advance(pause * time.Second)
	}
	until(t, clock.Manual, 0, func() bool { return s.Metrics(region, "f").Throttles == 5 })
	clock.Advance(15 * time.Second)
	until(t, clock.Manual, time.Second, func() bool { _, _, dead := source.state(); return len(dead) == 1 })
	source.send("fresh", "body")
	until(t, clock.Manual, time.Second, func() bool { _, deleted, _ := source.state(); return len(deleted) == 1 })
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(seen, `"stale"`) || !strings.Contains(seen, `"fresh"`) {
		t.Fatalf("the function saw %s", seen)
	}
}

// MaximumConcurrency keeps a mapping from fetching what the function can not take.
func TestMaximumConcurrency(t *testing.T) {
	clock := newWatched()
	s := newService(t, clock)
	source := newMemory(clock, time.Hour)
	entered, release := make(chan struct{}, 10), make(chan struct{})
	register(t, s, lambda.Function{Name: "f", Concurrency: 2, Handler: func(context.Context, []byte) ([]byte, error) {
		entered <- struct{}{}
		<-release
		return nil, nil
	}})
	for n := range 8 {
		source.send(fmt.Sprint(n), "body")
	}
	mapQueue(t, s, source, func(m *lambda.Mapping) { m.BatchSize, m.MaximumConcurrency = 1, 2 })
	<-entered
	<-entered
	queued, _, _ := source.state()
	received := 0
	for _, n := range queued {
		received += n
	}
	if received != 2 {
		t.Fatalf("%d messages were fetched for two places", received)
	}
	close(release)
	until(t, clock.Manual, 0, func() bool { _, deleted, _ := source.state(); return len(deleted) == 8 })
	if got := s.Metrics(region, "f"); got.Throttles != 0 {
		t.Fatalf("got %+v", got)
	}
}

// A poller rests after a function error, ever longer, unless failures are
// reported one by one.
func TestPollersSlowDown(t *testing.T) {
	clock := newWatched()
	s := newService(t, clock)
	source := newMemory(clock.Manual, time.Minute)
	register(t, s, lambda.Function{Name: "f", Handler: answering("", errRefused)})
	source.send("A", "body")
	source.send("B", "body")
	mapQueue(t, s, source, func(m *lambda.Mapping) { m.BatchSize = 1 })
	clock.awaits(t, time.Second)
	until(t, clock.Manual, 5*time.Second, func() bool { return s.Metrics(region, "f").Errors >= 12 })
	clock.awaits(t, 2*time.Second)
	s.Close()
}

// A queue that is out of reach is tried again.
func TestSourceFails(t *testing.T) {
	clock := newWatched()
	s := newService(t, clock)
	source := newMemory(clock.Manual, time.Minute)
	source.fail(errors.New("no route"))
	register(t, s, lambda.Function{Name: "f", Handler: answering("", nil)})
	mapQueue(t, s, source, nil)
	clock.awaits(t, time.Second)
	source.fail(nil)
	source.send("A", "body")
	until(t, clock.Manual, time.Second, func() bool { _, deleted, _ := source.state(); return len(deleted) == 1 })
}
