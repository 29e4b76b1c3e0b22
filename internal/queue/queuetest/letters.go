package queuetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/queue"
)

func letterCases() []testCase {
	return []testCase{
		{"DeadLetter/everything comes back", nil, roundTrip},
		{"DeadLetter/each reason", nil, func(s suite) {
			want := map[job.Reason]bool{}
			for _, reason := range job.Reasons() {
				l := letter()
				l.Reason = reason
				want[reason] = true
				s.ok(s.Letterbox.DeadLetter(context.Background(), l))
			}
			for _, d := range s.letters(len(want) + 1) {
				delete(want, d.Letter.Reason)
			}
			if len(want) > 0 {
				s.Errorf("missing %v", want)
			}
		}},
		{"DeadLetter/refused", nil, func(s suite) {
			for name, spoil := range map[string]func(*job.Letter){
				"no reason":       func(l *job.Letter) { l.Reason = "" },
				"unknown reason":  func(l *job.Letter) { l.Reason = "because" },
				"no body":         func(l *job.Letter) { l.Body = nil },
				"no text":         func(l *job.Letter) { l.Body = []byte("\x00") },
				"with attributes": func(l *job.Letter) { l.Body = bytes.Repeat([]byte("x"), queue.MaxBytes) },
			} {
				l := letter()
				spoil(&l)
				s.class(name, s.Letterbox.DeadLetter(context.Background(), l), failure.Invalid)
			}
			s.noLetter()
		}},
		{"Letters/hidden, put back, removed", nil, func(s suite) {
			s.ok(s.Letterbox.DeadLetter(context.Background(), letter()))
			d := s.letter()
			s.noLetter()
			s.ok(s.Letterbox.PutBack(context.Background(), d))
			again := s.letter()
			if again.MessageID != d.MessageID {
				s.Errorf("got %s, want %s", again.MessageID, d.MessageID)
			}
			s.ok(s.Letterbox.Remove(context.Background(), again))
			s.ok(s.Letterbox.Remove(context.Background(), again)) // once more is no error
			s.class("put back", s.Letterbox.PutBack(context.Background(), again), failure.Absent)
			s.noLetter()
		}},
		{"Peek/hides nothing", nil, func(s suite) {
			want := map[string]bool{}
			for i := range 3 {
				l := letter()
				l.Body = fmt.Appendf(nil, `{"letter":%d}`, i)
				want[string(l.Body)] = true
				s.ok(s.Letterbox.DeadLetter(context.Background(), l))
			}
			for range 2 { // what was shown is shown again
				seen := map[string]bool{}
				for empty := 0; len(seen) < len(want) && empty < tries; {
					got, err := s.Inspector.Peek(context.Background(), queue.MaxBatch)
					s.ok(err)
					if len(got) == 0 {
						empty++
					}
					for _, d := range got {
						seen[string(d.Body)] = true
						same(s, "letter", []job.Reason{d.Letter.Reason}, letter().Reason)
					}
				}
				if !maps.Equal(seen, want) {
					s.Errorf("saw %v, want %v", seen, want)
				}
			}
			if got := s.letters(len(want)); len(got) != len(want) {
				s.Errorf("%d letters are visible after they were looked at, want %d", len(got), len(want))
			}
			s.noLetter()
			if got, err := s.Inspector.Peek(context.Background(), queue.MaxBatch); err != nil || len(got) > 0 {
				s.Errorf("of letters that somebody holds, %d were shown: %v", len(got), err)
			}
		}},
		{"Letters/again after the visibility timeout", hasClock, func(s suite) {
			s.ok(s.Letterbox.DeadLetter(context.Background(), letter()))
			s.letter()
			s.Advance(s.Settings.Visibility)
			s.letter()
		}},
		{"Letters/with no handle of ours", nil, func(s suite) {
			d := job.DeadLetter{Delivery: job.Delivery{Handle: "handle"}}
			s.class("remove", s.Letterbox.Remove(context.Background(), d), failure.Invalid)
			s.class("put back", s.Letterbox.PutBack(context.Background(), d), failure.Invalid)
		}},
		{"Letters/moved by the queue itself", nil, func(s suite) {
			for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
				sent := s.exhaust(mode)
				d := s.letter()
				if d.Origin != mode || d.Letter.Reason != "" || d.Damaged || !bytes.Equal(d.Body, sent.Body) ||
					!bytes.Equal(d.Letter.Body, sent.Body) || !d.SentAt.Equal(sent.SentAt) || d.Receives != s.Settings.MaxReceives+1 {
					s.Errorf("sent %+v\ndead %+v", sent, d)
				}
				s.ok(s.Letterbox.Remove(context.Background(), d))
			}
		}},
		{"Letters/retention counts from the first sending RD-01", hasClock, func(s suite) {
			s.send(job.Enforce, messages(1)...)
			spent := s.Settings.Retention * 7 / 8 // 3.5 of 4 days
			s.Advance(spent)
			s.receiveOut(job.Enforce)
			s.ok(s.Letterbox.PutBack(context.Background(), s.letter()))
			s.Advance(s.Settings.LetterRetention - spent - time.Second)
			s.ok(s.Letterbox.PutBack(context.Background(), s.letter()))
			s.Advance(time.Second)
			s.noLetter()
		}},
	}
}

func letter() job.Letter {
	at := time.Date(2026, 12, 1, 6, 0, 0, 123456789, time.UTC)
	return job.Letter{
		Body:   []byte(`{"schema":1}`),
		Reason: job.ReasonForbidden,
		RunID:  "00112233445566778899aabbccddeeff", PageID: "ffeeddccbbaa99887766554433221100",
		Policy: "exports", Version: 3, Region: "eu-central-1", Attempts: 5,
		FirstAt: at, FailedAt: at.Add(time.Hour),
	}
}

func roundTrip(s suite) {
	full := letter()
	full.Body = []byte("{\"a\": 1,\t\"b\":\"<\u20ac&\U00010000\" }\r\n ")
	for name, l := range map[string]job.Letter{
		"full":      full,
		"malformed": {Body: []byte(` {"run_id":`), Reason: job.ReasonMalformed, Region: "us-east-1", FailedAt: full.FailedAt},
	} {
		s.ok(s.Letterbox.DeadLetter(context.Background(), l))
		d := s.letter()
		got := d.Letter
		if !bytes.Equal(d.Body, l.Body) || !bytes.Equal(got.Body, l.Body) || d.Origin != "" || d.Damaged || d.SentAt.IsZero() {
			s.Errorf("%s: %+v", name, d)
		}
		same[any](s, name, []any{got.Reason, got.RunID, got.PageID, got.Policy, got.Version, got.Region, got.Attempts, got.FirstAt, got.FailedAt},
			l.Reason, l.RunID, l.PageID, l.Policy, l.Version, l.Region, l.Attempts, l.FirstAt, l.FailedAt)
		s.ok(s.Letterbox.Remove(context.Background(), d))
	}
}

// exhaust sends a message and receives it until the queue moves it away.
func (s suite) exhaust(mode job.Mode) job.Delivery {
	s.Helper()
	s.send(mode, messages(1)...)
	return s.receiveOut(mode)
}

func (s suite) receiveOut(mode job.Mode) (last job.Delivery) {
	s.Helper()
	for range s.Settings.MaxReceives {
		last = s.one(mode)
		s.delay(last, 0)
	}
	s.none(mode)
	return last
}
