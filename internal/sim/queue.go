package sim

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/queue"
)

// queueView is the queues as an invocation sees them.
type queueView struct{ *instance }

// Send sends messages. The next release writes another schema number, which only a
// worker of that release reads.
func (v queueView) Send(ctx context.Context, mode job.Mode, messages []job.Message) (accepted []string, err error) {
	send := func(ctx context.Context, by mail) (err error) {
		v.refused = v.refused[:0]
		if v.strikes(SendRefused) {
			v.refused = append(v.refused, v.entry(messages))
		}
		for _, m := range messages {
			v.tell(moment{kind: messageSent, mode: mode, message: m, by: v.instance})
		}
		accepted, err = by.Send(ctx, mode, v.inSchema(messages))
		if v.wake(mode); v.far != nil && err == nil {
			v.tally(exchangeOf(ctx), len(messages), len(accepted))
		}
		return err
	}
	if v.far != nil {
		err = v.write(ctx, &sendCalls, "send", func() error { v.wake(mode); return nil }, func(ctx context.Context) error { return send(ctx, v.far.mail(v.instance)) })
	} else {
		err = v.write(ctx, &sendCalls, "send", func() error { return send(ctx, v.mail) }, nil)
	}
	return accepted, err
}

// entry returns the name under which a message is refused: its own for the fake, and its
// place in its batch for the client.
func (v queueView) entry(messages []job.Message) string {
	n := v.chance.n(len(messages))
	if v.far != nil {
		return strconv.Itoa(n % queue.MaxBatch)
	}
	return messages[n].ID
}

// post is a write to the queues. effect is told of it once it was taken.
func (v queueView) post(ctx context.Context, s *service, op string, send func(context.Context, mail) error, effect func() error) error {
	if v.far != nil {
		return v.write(ctx, s, op, effect, func(ctx context.Context) error { return send(ctx, v.far.mail(v.instance)) })
	}
	return v.write(ctx, s, op, func() error {
		if err := send(ctx, v.mail); err != nil {
			return err
		}
		return effect()
	}, nil)
}

// inSchema returns the messages as the sender's release writes them.
func (v queueView) inSchema(messages []job.Message) []job.Message {
	if !v.released || v.old || !v.strikes(NewerSchema) {
		return messages
	}
	newer := make([]job.Message, len(messages))
	for i, m := range messages {
		newer[i] = m
		newer[i].Body = bytes.Replace(m.Body, schemaNow, schemaNext, 1)
	}
	return newer
}

// The number of a command's schema as it is written, by this release and the next.
var (
	schemaNow  = []byte(`"schema":1,`)
	schemaNext = []byte(`"schema":2,`)
)

// readNext returns a body of the next schema in the form that this code reads.
func readNext(body []byte) []byte { return bytes.Replace(body, schemaNext, schemaNow, 1) }

// DeadLetter writes a letter.
func (v queueView) DeadLetter(ctx context.Context, l job.Letter) error {
	return v.post(ctx, &letterCalls, "dead-letter", func(ctx context.Context, m mail) error { return m.DeadLetter(ctx, l) }, func() error {
		v.tell(moment{kind: letterWritten, letter: l, by: v.instance})
		return nil
	})
}

// Delay gives a message back for later.
func (v queueView) Delay(ctx context.Context, d job.Delivery, wait time.Duration) error {
	return v.post(ctx, &delayCalls, "delay", func(ctx context.Context, m mail) error {
		err := m.Delay(ctx, d, wait)
		v.wake(job.Enforce)
		v.wake(job.ReportOnly)
		return err
	}, func() error { return nil })
}

// Letters receives dead letters.
func (v queueView) Letters(ctx context.Context, limit int) ([]job.DeadLetter, error) {
	got, err := read(ctx, v.instance, &letterCalls, "letters", func() ([]job.DeadLetter, error) { return v.mail.Letters(ctx, limit) },
		func(ctx context.Context) ([]job.DeadLetter, error) { return v.far.mail(v.instance).Letters(ctx, limit) })
	for _, d := range got {
		v.truth.hands[d.MessageID] = hand{v.instance, v.clock()}
	}
	return got, err
}

// Peek looks at dead letters.
func (v queueView) Peek(ctx context.Context, limit int) ([]job.DeadLetter, error) {
	return read(ctx, v.instance, &letterCalls, "peek", func() ([]job.DeadLetter, error) { return v.mail.Peek(ctx, limit) },
		func(ctx context.Context) ([]job.DeadLetter, error) { return v.far.mail(v.instance).Peek(ctx, limit) })
}

// Remove removes a dead letter.
func (v queueView) Remove(ctx context.Context, d job.DeadLetter) error {
	had := 0
	return v.post(ctx, &letterCalls, "remove", func(ctx context.Context, m mail) error {
		had = len(v.queue.PeekLetters())
		return m.Remove(ctx, d)
	}, func() error {
		if left := len(v.queue.PeekLetters()); left < had {
			had = left
			v.tell(moment{kind: letterRemoved, removed: d, by: v.instance})
		}
		return nil
	})
}

// PutBack shows a dead letter again.
func (v queueView) PutBack(ctx context.Context, d job.DeadLetter) error {
	return v.post(ctx, &letterCalls, "put-back", func(ctx context.Context, m mail) error { return m.PutBack(ctx, d) }, func() error { return nil })
}

// evidenceView is the evidence as an invocation sees it.
type evidenceView struct{ *instance }

// Put keeps a document.
func (v evidenceView) Put(ctx context.Context, name string, data []byte) error {
	return v.write(ctx, &proofCalls, "keep", func() error {
		err := v.evidence.Put(ctx, name, data)
		if err == nil {
			v.tell(moment{kind: documentKept, name: name, data: data, by: v.instance})
		}
		return err
	}, func(ctx context.Context) error { return v.far.evidence.Put(ctx, name, data) })
}

// Get reads a document.
func (v evidenceView) Get(ctx context.Context, name string) ([]byte, error) {
	return read(ctx, v.instance, &proofCalls, "document", func() ([]byte, error) { return v.evidence.Get(ctx, name) },
		func(ctx context.Context) ([]byte, error) { return v.far.evidence.Get(ctx, name) })
}

// starts asks other functions to begin, as package wiring does it through Lambda: the
// answer says that the invocation is taken, and nothing of what becomes of it.
type starts struct{ *instance }

// Start asks enqueue for the run of a scheduled instant.
func (s starts) Start(_ context.Context, _ time.Time, policy string, scheduled time.Time) error {
	err := s.async("start-scan", "enqueue", tick(policy, scheduled))
	if err == nil {
		s.tell(moment{kind: startAsked, name: policy, scheduled: scheduled, by: s.instance})
	}
	return err
}

// resumeScans and resumeRedrives are the two things that reconcile asks others to go
// on with; they differ in nothing but the method's parameter.
type (
	resumeScans    struct{ starts }
	resumeRedrives struct{ starts }
)

// Resume asks enqueue to go on with a scan.
func (s resumeScans) Resume(_ context.Context, _ time.Time, id job.RunID) error {
	return s.async("resume-scan", "enqueue", payload(map[string]string{"resume": string(id)}))
}

// Resume asks redrive to go on with a plan.
func (s resumeRedrives) Resume(_ context.Context, _ time.Time, id job.RedriveID) error {
	return s.async("resume-redrive", "redrive", payload(map[string]string{"op": "resume", "redrive_id": string(id)}))
}

// async hands a payload to a function.
func (s starts) async(op, function string, payload []byte) error {
	return s.write(context.Background(), &asyncCalls, op, func() error {
		switch {
		case s.strikes(InvokeLost): // the service takes it and forgets it
			return nil
		case s.strikes(InvokeTwice):
			s.invoke(function, payload)
		}
		s.invoke(function, payload)
		return nil
	}, nil)
}

// refusesEntry is asked by the queue about every entry of a batch.
func (w *world) refusesEntry(id string) bool {
	for _, r := range w.refused {
		if r == id {
			return true
		}
	}
	return false
}

func network(op string) error { return failure.New(failure.Network, op, "no answer") }
