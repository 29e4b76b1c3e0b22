// Package queuetest is the suite that every queue passes.
//
// A queue delivers at least once, so the suite never asserts that a message does
// not come twice, unless nobody but the suite can have made it visible. Cases are
// named after the bug log where they come from it. What an implementation can not
// offer (a clock that moves, entries refused on demand) it leaves nil in its bed,
// and the suite says which cases were not run.
package queuetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/queue"
)

// Bed is one set of empty queues under test.
type Bed struct {
	Sender    queue.Sender
	Receiver  queue.Receiver
	Letterbox queue.Letterbox
	Inspector queue.Inspector
	// Settings are those of the queues. MaxReceives is at least 3, LetterRetention
	// the longer retention, and Visibility long enough that no case outlasts it.
	Settings queue.Settings

	// Advance moves the queues' clock. Nil: it can not be moved.
	Advance func(time.Duration)
	// Refuse makes the queue refuse entries with these ids from now on. Nil: it can
	// not be had on demand.
	Refuse func(ids ...string)
}

// suite is a bed in use by one case.
type suite struct {
	*testing.T
	Bed
}

type testCase struct {
	name string
	// offered reports whether the bed has what the case needs; nil is always.
	offered func(Bed) bool
	run     func(suite)
}

func hasClock(b Bed) bool  { return b.Advance != nil }
func hasRefuse(b Bed) bool { return b.Refuse != nil }

// Exercise runs the suite. open is called once for each case.
func Exercise(t *testing.T, open func(t *testing.T) Bed) {
	t.Helper()
	for _, c := range slices.Concat(sendCases(), receiveCases(), letterCases()) {
		bed := open(t)
		if c.offered != nil && !c.offered(bed) {
			t.Logf("not offered, not run: %s", c.name)
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(suite{t, bed}) })
	}
}

// tries is how many empty answers in a row mean that nothing is there. A standard
// queue may answer with nothing although something is.
const tries = 3

func messages(n int) []job.Message {
	msgs := make([]job.Message, n)
	for i := range msgs {
		msgs[i] = job.Message{ID: fmt.Sprintf("page-%03d", i), Group: "school-4", Body: fmt.Appendf(nil, `{"page":%d}`, i)}
	}
	return msgs
}

func ids(msgs []job.Message) (all []string) {
	for _, m := range msgs {
		all = append(all, m.ID)
	}
	return all
}

func bodies(msgs []job.Message) (all []string) {
	for _, m := range msgs {
		all = append(all, string(m.Body))
	}
	slices.Sort(all)
	return all
}

func (s suite) send(mode job.Mode, msgs ...job.Message) {
	s.Helper()
	accepted, err := s.Sender.Send(context.Background(), mode, msgs)
	s.ok(err)
	same(s, "accepted", accepted, ids(msgs)...)
}

// receive returns what is visible, up to n deliveries.
func (s suite) receive(mode job.Mode, n int) (got []job.Delivery) {
	s.Helper()
	for empty := 0; len(got) < n && empty < tries; {
		part, err := s.Receiver.Receive(context.Background(), mode, n-len(got))
		s.ok(err)
		if len(part) == 0 {
			empty++
		}
		got = append(got, part...)
	}
	return got
}

// one returns the one visible delivery.
func (s suite) one(mode job.Mode) job.Delivery {
	s.Helper()
	got := s.receive(mode, 1)
	if len(got) != 1 {
		s.Fatal("nothing is visible")
	}
	return got[0]
}

func (s suite) none(mode job.Mode) {
	s.Helper()
	if got := s.receive(mode, 1); len(got) > 0 {
		s.Fatalf("%s is visible", got[0].MessageID)
	}
}

// letters returns the visible dead letters, up to n.
func (s suite) letters(n int) (got []job.DeadLetter) {
	s.Helper()
	for empty := 0; len(got) < n && empty < tries; {
		part, err := s.Letterbox.Letters(context.Background(), n-len(got))
		s.ok(err)
		if len(part) == 0 {
			empty++
		}
		got = append(got, part...)
	}
	return got
}

func (s suite) letter() job.DeadLetter {
	s.Helper()
	got := s.letters(1)
	if len(got) != 1 {
		s.Fatal("no dead letter is visible")
	}
	return got[0]
}

func (s suite) noLetter() {
	s.Helper()
	if got := s.letters(1); len(got) > 0 {
		s.Fatalf("dead letter %s is visible", got[0].MessageID)
	}
}

func (s suite) delay(d job.Delivery, wait time.Duration) {
	s.Helper()
	s.ok(s.Receiver.Delay(context.Background(), d, wait))
}

func (s suite) ack(mode job.Mode, d job.Delivery) {
	s.Helper()
	s.ok(s.Receiver.Ack(context.Background(), mode, d))
}

func (s suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s suite) class(what string, err error, want failure.Class) {
	s.Helper()
	if failure.Of(err) != want {
		s.Errorf("%s: got %v, want %q", what, err, want)
	}
}

func same[T comparable](s suite, what string, got []T, want ...T) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Errorf("%s: got %.300s, want %.300s", what, fmt.Sprint(got), fmt.Sprint(want))
	}
}
