package queuetest

import (
	"context"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

func receiveCases() []testCase {
	return []testCase{
		{"Receive/hidden while in flight SQ-15", nil, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			s.one(job.Enforce)
			s.none(job.Enforce)
		}},
		{"Receive/again after the visibility timeout", hasClock, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			first := s.one(job.Enforce)
			s.Advance(s.Settings.Visibility - time.Millisecond)
			s.none(job.Enforce)
			s.Advance(time.Millisecond)
			again := s.one(job.Enforce)
			if again.MessageID != first.MessageID || !again.SentAt.Equal(first.SentAt) || again.Receives != 2 || again.Handle == first.Handle {
				s.Errorf("first %+v\nagain %+v", first, again)
			}
		}},
		{"Receive/unknown mode", nil, func(s suite) {
			_, err := s.Receiver.Receive(context.Background(), "delete-everything", 1)
			s.class("receive", err, failure.Invalid)
			s.class("ack", s.Receiver.Ack(context.Background(), "", job.Delivery{}), failure.Invalid)
		}},
		{"Receive/by many at once", nil, many},
		{"Ack/deletes for good", nil, func(s suite) {
			s.send(job.Enforce, messages(2)...)
			first := s.one(job.Enforce)
			s.ack(job.Enforce, first)
			s.ack(job.Enforce, first) // once more is no error
			second := s.one(job.Enforce)
			s.delay(second, 0)
			if got := s.one(job.Enforce); got.MessageID != second.MessageID {
				s.Errorf("got %s, want %s", got.MessageID, second.MessageID)
			}
			s.class("delay", s.Receiver.Delay(context.Background(), first, 0), failure.Absent)
		}},
		{"Ack/after the visibility timeout", hasClock, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			d := s.one(job.Enforce)
			s.Advance(s.Settings.Visibility)
			s.ack(job.Enforce, d) // nobody else has it
			s.none(job.Enforce)
		}},
		{"Ack/with an old handle", nil, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			old := s.one(job.Enforce)
			s.delay(old, 0)
			d := s.one(job.Enforce)
			s.ack(job.Enforce, old) // succeeds, whether or not it deletes
			s.ack(job.Enforce, d)
			s.none(job.Enforce)
		}},
		{"Ack/with no handle of ours", nil, func(s suite) {
			for _, handle := range []string{"", "handle"} {
				d := job.Delivery{MessageID: "message", Handle: handle}
				s.class("ack", s.Receiver.Ack(context.Background(), job.Enforce, d), failure.Invalid)
				s.class("delay", s.Receiver.Delay(context.Background(), d, 0), failure.Invalid)
			}
		}},
		{"Delay/not at all", nil, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			for receives := 1; receives < 3; receives++ {
				d := s.one(job.Enforce)
				if d.Receives != receives {
					s.Errorf("receive count %d, want %d", d.Receives, receives)
				}
				s.delay(d, -time.Second)
			}
		}},
		{"Delay/rounds up to whole seconds", hasClock, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			s.delay(s.one(job.Enforce), 1100*time.Millisecond)
			s.Advance(1999 * time.Millisecond)
			s.none(job.Enforce)
			s.Advance(time.Millisecond)
			s.one(job.Enforce)
		}},
		{"Delay/longer than the visibility timeout", hasClock, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			s.delay(s.one(job.Enforce), s.Settings.Visibility+time.Minute)
			s.Advance(s.Settings.Visibility + 59*time.Second)
			s.none(job.Enforce)
			s.Advance(time.Second)
			s.one(job.Enforce)
		}},
		{"Delay/more than the service allows", nil, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			s.delay(s.one(job.Enforce), 36*time.Hour)
			s.none(job.Enforce)
		}},
		{"Delay/when it is visible again", hasClock, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			d := s.one(job.Enforce)
			s.Advance(s.Settings.Visibility)
			s.class("delay", s.Receiver.Delay(context.Background(), d, time.Hour), failure.Absent)
			s.one(job.Enforce)
		}},
		{"Retention/ends", hasClock, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			s.Advance(s.Settings.Retention - time.Second)
			d := s.one(job.Enforce)
			s.delay(d, 0)
			s.Advance(time.Second)
			s.none(job.Enforce)
			s.ack(job.Enforce, d)
		}},
	}
}

// many receives from eight sides; in flight, a message is in one hand.
func many(s suite) {
	msgs := messages(40)
	s.send(job.Enforce, msgs...)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range 8 {
		wg.Go(func() {
			for empty := 0; empty < tries; {
				got, err := s.Receiver.Receive(context.Background(), job.Enforce, 3)
				if err != nil {
					s.Errorf("receive: %v", err)
					return
				}
				if len(got) == 0 {
					empty++
				}
				for _, d := range got {
					mu.Lock()
					seen[string(d.Body)]++
					mu.Unlock()
					if err := s.Receiver.Ack(context.Background(), job.Enforce, d); err != nil {
						s.Errorf("ack: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, m := range msgs {
		if seen[string(m.Body)] != 1 {
			s.Errorf("%s: delivered %d times", m.ID, seen[string(m.Body)])
		}
	}
	s.none(job.Enforce)
}
