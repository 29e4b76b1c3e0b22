package queuetest

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/queue"
)

func sendCases() []testCase {
	return []testCase{
		{"Send/nothing", nil, func(s suite) {
			s.send(job.Enforce)
			s.none(job.Enforce)
		}},
		{"Send/the same bytes arrive", nil, func(s suite) {
			body := []byte("{\"a\": 1,\t\"b\":\"<\u20ac&\U00010000\" }\r\n ")
			s.send(job.Enforce, job.Message{ID: "a", Group: "school-4", Body: body})
			d := s.one(job.Enforce)
			if !bytes.Equal(d.Body, body) || d.MessageID == "" || d.Handle == "" || d.SentAt.IsZero() || d.Receives != 1 {
				s.Errorf("delivered %+v", d)
			}
		}},
		{"Send/each mode has its queue", nil, func(s suite) {
			msgs := messages(2)
			s.send(job.ReportOnly, msgs[0])
			s.none(job.Enforce)
			s.send(job.Enforce, msgs[1])
			same(s, "to report on", []string{string(s.one(job.ReportOnly).Body)}, string(msgs[0].Body))
			s.none(job.ReportOnly)
			same(s, "to enforce", []string{string(s.one(job.Enforce).Body)}, string(msgs[1].Body))
			_, err := s.Sender.Send(context.Background(), "", msgs)
			s.class("no mode", err, failure.Invalid)
		}},
		{"Send/more than a batch", nil, func(s suite) {
			msgs := messages(2*queue.MaxBatch + 3)
			s.send(job.Enforce, msgs...)
			s.arrive(msgs)
		}},
		{"Send/two messages of one page", nil, func(s suite) {
			msg := messages(1)[0]
			s.send(job.Enforce, msg, msg)
			if got := s.receive(job.Enforce, 2); len(got) != 2 || got[0].MessageID == got[1].MessageID {
				s.Errorf("got %+v", got)
			}
		}},
		{"Send/entries above a batch in sum SQ-17", nil, func(s suite) {
			msgs := messages(5)
			for i := range msgs {
				msgs[i].Body = bytes.Repeat([]byte{'a' + byte(i)}, queue.MaxBytes/2-i%2)
			}
			msgs[4].Body = bytes.Repeat([]byte{'e'}, queue.MaxBytes)
			s.send(job.Enforce, msgs...)
			s.arrive(msgs)
		}},
		{"Send/a message no queue takes SQ-17", nil, unsendable},
		{"Send/entries refused in a good answer SQ-16", hasRefuse, func(s suite) {
			msgs := messages(queue.MaxBatch + 2)
			s.Refuse(msgs[3].ID, msgs[7].ID, msgs[10].ID)
			accepted, err := s.Sender.Send(context.Background(), job.Enforce, msgs)
			s.ok(err)
			for _, at := range []int{10, 7, 3} {
				msgs = slices.Delete(msgs, at, at+1)
			}
			same(s, "accepted", accepted, ids(msgs)...)
			s.arrive(msgs)
		}},
		{"Send/cancelled", nil, func(s suite) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			accepted, err := s.Sender.Send(ctx, job.Enforce, messages(1))
			if len(accepted) > 0 || !failure.Of(err).Ambiguous() {
				s.Errorf("got %v, %v", accepted, err)
			}
		}},
	}
}

// arrive asserts that exactly these messages are visible.
func (s suite) arrive(msgs []job.Message) {
	s.Helper()
	var got []string
	for _, d := range s.receive(job.Enforce, len(msgs)+1) {
		got = append(got, string(d.Body))
	}
	slices.Sort(got)
	same(s, "arrived", got, bodies(msgs)...)
}

func unsendable(s suite) {
	good := messages(2)
	for name, msg := range map[string]job.Message{
		"too long":          {ID: "x", Body: bytes.Repeat([]byte("x"), queue.MaxBytes+1)},
		"empty":             {ID: "x"},
		"no id":             {Body: []byte("x")},
		"group too long":    {ID: "x", Group: strings.Repeat("g", 129), Body: []byte("x")},
		"not UTF-8":         {ID: "x", Body: []byte("\xff")},
		"control character": {ID: "x", Body: []byte("a\x01")},
		"no character":      {ID: "x", Body: []byte("a\ufffe")},
	} {
		accepted, err := s.Sender.Send(context.Background(), job.Enforce, []job.Message{good[0], msg, good[1]})
		s.class(name, err, failure.Invalid)
		same(s, name+": accepted", accepted, ids(good)...)
		s.arrive(good)
	}
}
