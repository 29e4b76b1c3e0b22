package sqs

import (
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

type deleteMessageInput struct {
	QueueURL      string `json:"QueueUrl"`
	ReceiptHandle string
}

type deleteMessageBatchInput struct {
	QueueURL string `json:"QueueUrl"`
	Entries  []deleteEntry
}

type deleteEntry struct {
	ID            string `json:"Id"`
	ReceiptHandle string
}

// done is the answer about an entry of which there is no more to say.
type done struct {
	ID string `json:"Id"`
}

func (c *call) deleteMessage(in *deleteMessageInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, now time.Time) (any, *wire.Error) {
		return nothing{}, c.remove(q, in.ReceiptHandle, now)
	})
}

func (c *call) deleteMessageBatch(in *deleteMessageBatchInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, now time.Time) (any, *wire.Error) {
		return batch(c, in.Entries, func(e *deleteEntry) (string, func() (any, *wire.Error)) {
			return e.ID, func() (any, *wire.Error) { return done{e.ID}, c.remove(q, e.ReceiptHandle, now) }
		})
	})
}

func (c *call) remove(q *queue, handle string, now time.Time) *wire.Error {
	m, err := q.remove(handle)
	if m != nil {
		c.deleted = append(c.deleted, c.region.deletion(q, m, now))
	}
	return err
}

func (g *region) deletion(q *queue, m *message, now time.Time) Deletion {
	return Deletion{Region: g.name, Queue: q.name, ID: m.id, Body: m.body, At: now}
}

type changeMessageVisibilityInput struct {
	QueueURL          string `json:"QueueUrl"`
	ReceiptHandle     string
	VisibilityTimeout *int
}

type changeMessageVisibilityBatchInput struct {
	QueueURL string `json:"QueueUrl"`
	Entries  []changeEntry
}

type changeEntry struct {
	ID                string `json:"Id"`
	ReceiptHandle     string
	VisibilityTimeout *int
}

func (c *call) changeMessageVisibility(in *changeMessageVisibilityInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, now time.Time) (any, *wire.Error) {
		return nothing{}, hide(q, in.ReceiptHandle, in.VisibilityTimeout, now)
	})
}

func (c *call) changeMessageVisibilityBatch(in *changeMessageVisibilityBatchInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, now time.Time) (any, *wire.Error) {
		return batch(c, in.Entries, func(e *changeEntry) (string, func() (any, *wire.Error)) {
			return e.ID, func() (any, *wire.Error) { return done{e.ID}, hide(q, e.ReceiptHandle, e.VisibilityTimeout, now) }
		})
	})
}

func hide(q *queue, handle string, timeout *int, now time.Time) *wire.Error {
	if timeout == nil {
		return missing(attrVisibility)
	}
	return q.hide(handle, time.Duration(*timeout)*time.Second, now)
}
