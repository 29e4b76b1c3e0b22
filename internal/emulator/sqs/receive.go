package sqs

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

type receiveMessageInput struct {
	QueueURL                    string `json:"QueueUrl"`
	MaxNumberOfMessages         *int
	VisibilityTimeout           *int
	WaitTimeSeconds             *int
	AttributeNames              []string // the older name of the next
	MessageSystemAttributeNames []string
	MessageAttributeNames       []string
	AttemptID                   *string `json:"ReceiveRequestAttemptId"`
}

// received is a message in the answer. Attributes are there when asked for.
type received struct {
	ID              string               `json:"MessageId"`
	Handle          string               `json:"ReceiptHandle"`
	MD5OfBody       string               `json:"MD5OfBody"`
	Body            string               `json:"Body"`
	System          map[string]string    `json:"Attributes,omitempty"`
	MD5OfAttributes string               `json:"MD5OfMessageAttributes,omitempty"`
	Attributes      map[string]Attribute `json:"MessageAttributes,omitempty"`
}

func (c *call) receiveMessage(in *receiveMessageInput) (any, *wire.Error) {
	if in.AttemptID != nil {
		return nil, wire.Unsupported("ReceiveRequestAttemptId, which belongs to FIFO queues")
	}
	name, err := nameOf(in.QueueURL)
	if err != nil {
		return nil, err
	}
	system := slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames)
	for _, asked := range system {
		if !isSystemAttribute(asked) {
			return nil, unknownAttribute(asked)
		}
	}
	p := poll{limit: 1, visibility: in.VisibilityTimeout, wait: in.WaitTimeSeconds}
	if in.MaxNumberOfMessages != nil {
		p.limit = *in.MaxNumberOfMessages
	}
	got, err := c.region.receive(c.Context(), name, p)
	if err != nil {
		return nil, err
	}
	messages := make([]received, 0, len(got))
	for _, m := range got {
		r := received{ID: m.ID, Handle: m.Handle, MD5OfBody: md5Of(m.Body), Body: m.Body}
		r.System = m.SystemAttributes()
		maps.DeleteFunc(r.System, func(name, _ string) bool { return !asksFor(system, name) })
		r.Attributes = maps.Clone(m.Attributes)
		maps.DeleteFunc(r.Attributes, func(name string, _ Attribute) bool { return !asksFor(in.MessageAttributeNames, name) })
		r.MD5OfAttributes = md5OfAttributes(r.Attributes)
		messages = append(messages, r)
	}
	return struct {
		Messages []received `json:",omitempty"`
	}{messages}, nil
}

func isSystemAttribute(name string) bool {
	switch name {
	case "All", "SenderId", "SentTimestamp", "ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp", "SequenceNumber",
		"MessageDeduplicationId", "MessageGroupId", traceHeader, "DeadLetterQueueSourceArn":
		return true
	}
	return false
}

// asksFor reports whether the names ask for an attribute: by its name, by what it
// begins with ("trace.*"), or by "All" or ".*" for every one.
func asksFor(names []string, attribute string) bool {
	for _, name := range names {
		prefix, all := strings.CutSuffix(name, ".*")
		if name == "All" || name == ".*" || name == attribute || all && strings.HasPrefix(attribute, prefix) {
			return true
		}
	}
	return false
}

// poll is what a receive asks for; nil is the queue's own setting.
type poll struct {
	limit            int
	visibility, wait *int // seconds
}

// receive hands out messages, waiting for them as long as the poll says.
func (g *region) receive(ctx context.Context, name string, p poll) ([]Message, *wire.Error) {
	if p.limit < 1 || p.limit > maxEntries {
		return nil, badValue(p.limit, "MaxNumberOfMessages", "Must be between 1 and 10, if provided.")
	}
	var deadline time.Time
	for ctx.Err() == nil { // when nobody waits for the answer, nothing may be handed out
		look, err := g.look(name, p)
		if err != nil || len(look.got) > 0 {
			return look.got, err
		}
		if deadline.IsZero() {
			deadline = look.now.Add(look.wait)
		}
		if !look.now.Before(deadline) {
			break
		}
		until := deadline
		if !look.next.IsZero() && look.next.Before(until) {
			until = look.next
		}
		ring := g.clock.After(until.Sub(look.now))
		if g.clock.Now().Sub(look.now) > time.Millisecond {
			continue // the clock was moved before it was set: it would ring late
		}
		select {
		case <-ctx.Done():
		case <-look.wake:
		case <-ring:
		}
	}
	return nil, nil
}

// look is what one look at a queue found.
type look struct {
	got  []Message
	now  time.Time
	wait time.Duration   // how long the poll may take in all
	next time.Time       // when something may become visible by itself, zero for never
	wake <-chan struct{} // closed when something does otherwise
}

func (g *region) look(name string, p poll) (found look, err *wire.Error) {
	_, err = g.on(name, func(q *queue, now time.Time) (any, *wire.Error) {
		visibility, err := seconds(attrVisibility, p.visibility, q.visibility, int(maxVisibility.Seconds()))
		if err != nil {
			return nil, err
		}
		wait, err := seconds("WaitTimeSeconds", p.wait, q.wait, 20)
		if err != nil {
			return nil, err
		}
		if q.inFlight >= maxInFlight {
			return nil, overLimit("OverLimit", "Too many messages are in flight.")
		}
		found = look{got: g.take(q, p.limit, visibility, now), now: now, wait: wait, next: g.next(q), wake: q.wake}
		return nil, nil
	})
	return found, err
}

// next returns when the queue may show something by itself: a hidden message, or
// one that a move task brings.
func (g *region) next(q *queue) (at time.Time) {
	if m := q.hidden.first(); m != nil {
		at = m.visibleAt
	}
	for _, t := range g.tasks {
		if at.IsZero() || t.next.Before(at) {
			at = t.next
		}
	}
	return at
}
