package sim

import (
	"bytes"
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// queueView is the queues as an invocation sees them.
type queueView struct{ *instance }

// Send sends messages. The next release writes another schema number, which only a
// worker of that release reads.
func (v queueView) Send(ctx context.Context, mode job.Mode, messages []job.Message) (accepted []string, err error) {
	err = v.write(&sendCalls, "send", func() (err error) {
		v.refused = v.refused[:0]
		if v.strikes(SendRefused) {
			v.refused = append(v.refused, messages[v.chance.n(len(messages))].ID)
		}
		for _, m := range messages {
			v.tell(&moment{kind: messageSent, mode: mode, message: m, by: v.instance})
		}
		accepted, err = v.mail.Send(ctx, mode, v.inSchema(messages))
		v.wake(mode)
		return err
	})
	return accepted, err
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
	return v.write(&letterCalls, "dead-letter", func() error {
		err := v.mail.DeadLetter(ctx, l)
		if err == nil {
			v.tell(&moment{kind: letterWritten, letter: l, by: v.instance})
		}
		return err
	})
}

// Delay gives a message back for later.
func (v queueView) Delay(ctx context.Context, d job.Delivery, wait time.Duration) error {
	return v.write(&delayCalls, "delay", func() error {
		err := v.mail.Delay(ctx, d, wait)
		v.wake(job.Enforce)
		v.wake(job.ReportOnly)
		return err
	})
}

// Letters receives dead letters.
func (v queueView) Letters(ctx context.Context, limit int) ([]job.DeadLetter, error) {
	return read(v.instance, &letterCalls, "letters", func() ([]job.DeadLetter, error) { return v.mail.Letters(ctx, limit) })
}

// Peek looks at dead letters.
func (v queueView) Peek(ctx context.Context, limit int) ([]job.DeadLetter, error) {
	return read(v.instance, &letterCalls, "peek", func() ([]job.DeadLetter, error) { return v.mail.Peek(ctx, limit) })
}

// Remove removes a dead letter.
func (v queueView) Remove(ctx context.Context, d job.DeadLetter) error {
	return v.write(&letterCalls, "remove", func() error {
		had := len(v.queue.PeekLetters())
		err := v.mail.Remove(ctx, d)
		if err == nil && len(v.queue.PeekLetters()) < had {
			v.tell(&moment{kind: letterRemoved, removed: d, by: v.instance})
		}
		return err
	})
}

// PutBack shows a dead letter again.
func (v queueView) PutBack(ctx context.Context, d job.DeadLetter) error {
	return v.write(&letterCalls, "put-back", func() error { return v.mail.PutBack(ctx, d) })
}

// evidenceView is the evidence as an invocation sees it.
type evidenceView struct{ *instance }

// Put keeps a document.
func (v evidenceView) Put(ctx context.Context, name string, data []byte) error {
	return v.write(&proofCalls, "keep", func() error {
		err := v.evidence.Put(ctx, name, data)
		if err == nil {
			v.tell(&moment{kind: documentKept, name: name, data: data, by: v.instance})
		}
		return err
	})
}

// Get reads a document.
func (v evidenceView) Get(ctx context.Context, name string) ([]byte, error) {
	return read(v.instance, &proofCalls, "document", func() ([]byte, error) { return v.evidence.Get(ctx, name) })
}

// starts asks other functions to begin, as package wiring does it through Lambda: the
// answer says that the invocation is taken, and nothing of what becomes of it.
type starts struct{ *instance }

// Start asks enqueue for the run of a scheduled instant.
func (s starts) Start(_ context.Context, _ time.Time, policy string, scheduled time.Time) error {
	return s.async("start-scan", "enqueue", tick(policy, scheduled))
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
	return s.write(&asyncCalls, op, func() error {
		switch {
		case s.strikes(InvokeLost): // the service takes it and forgets it
			return nil
		case s.strikes(InvokeTwice):
			s.invoke(function, payload)
		}
		s.invoke(function, payload)
		return nil
	})
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
