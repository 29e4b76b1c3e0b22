package sqs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// Queue is one queue for whoever stands beside the wire: the event source mapping,
// metrics, tests. Faults of the wire do not reach it. A queue that was deleted
// answers with an error, or with nothing where a method has none.
type Queue struct {
	service *Service
	region  *region
	name    string
}

// Queue returns the queue of that name.
func (s *Service) Queue(regionName, name string) (*Queue, error) {
	g := s.region(regionName)
	if _, err := g.on(name, func(*queue, time.Time) (any, *wire.Error) { return nil, nil }); err != nil {
		return nil, fmt.Errorf("sqs: %s in %s: %w", name, regionName, err)
	}
	return &Queue{service: s, region: g, name: name}, nil
}

// QueueAt returns the queue with the ARN.
func (s *Service) QueueAt(arn string) (*Queue, error) {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[2] != "sqs" || parts[4] != wire.Account {
		return nil, fmt.Errorf("sqs: %q is not the ARN of a queue of this account", arn)
	}
	return s.Queue(parts[3], parts[5])
}

// ARN returns the queue's ARN.
func (q *Queue) ARN() string { return q.region.arn(q.name) }

// Attribute returns one of the queue's attributes by the name it has in the API.
func (q *Queue) Attribute(name string) (value string) {
	q.on(func(inner *queue, _ time.Time) { value = inner.attributesOf()[name] })
	return value
}

// on does something with the queue, and says whether there is one.
func (q *Queue) on(do func(inner *queue, now time.Time)) bool {
	_, err := q.region.on(q.name, func(inner *queue, now time.Time) (any, *wire.Error) {
		do(inner, now)
		return nil, nil
	})
	return err == nil
}

// asError keeps a nil *wire.Error from becoming an error that is not nil.
func asError(err *wire.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// Send sends a message's Body with its Attributes, Group and Trace, checked as on
// the wire, and returns its id.
func (q *Queue) Send(m Message) (string, error) {
	s := sending{MessageBody: m.Body, MessageAttributes: map[string]sentAttribute{}}
	for name, a := range m.Attributes {
		s.MessageAttributes[name] = sentAttribute{DataType: a.DataType, StringValue: &a.StringValue, BinaryValue: a.BinaryValue}
	}
	if m.Group != "" {
		s.GroupID = &m.Group
	}
	var id string
	_, err := q.region.on(q.name, func(inner *queue, now time.Time) (any, *wire.Error) {
		made, delay, err := s.read(inner)
		if err == nil {
			made.trace = m.Trace
			id = q.region.add(inner, made, delay, now).id
		}
		return nil, err
	})
	return id, asError(err)
}

// Receive hands out up to limit messages, 1 to 10, hides them for the queue's
// visibility timeout, and waits for the first for at most wait, in whole seconds up
// to 20. It ends empty when the context does.
func (q *Queue) Receive(ctx context.Context, limit int, wait time.Duration) ([]Message, error) {
	whole := int(wait.Seconds())
	got, err := q.region.receive(ctx, q.name, poll{limit: limit, wait: &whole})
	return got, asError(err)
}

// Delete deletes a received message. With an old handle it does nothing, and that is
// no error.
func (q *Queue) Delete(handle string) error {
	var deleted []Deletion
	_, err := q.region.on(q.name, func(inner *queue, now time.Time) (any, *wire.Error) {
		m, err := inner.remove(handle)
		if m != nil {
			deleted = append(deleted, q.region.deletion(inner, m, now))
		}
		return nil, err
	})
	q.service.tell(deleted)
	return asError(err)
}

// SetVisibility hides a received message for wait from now; 0 shows it at once.
func (q *Queue) SetVisibility(handle string, wait time.Duration) error {
	_, err := q.region.on(q.name, func(inner *queue, now time.Time) (any, *wire.Error) {
		return nil, inner.hide(handle, wait, now)
	})
	return asError(err)
}

// Counts returns how many messages there are, exactly.
func (q *Queue) Counts() (counts Counts) {
	q.on(func(inner *queue, _ time.Time) { counts = inner.counts() })
	return counts
}

// maxPoison is how often a message may have been received to count for OldestAge.
const maxPoison = 3

// OldestAge is CloudWatch's ApproximateAgeOfOldestMessage: the longest time that a
// message has been in this queue, without those that were received more than three
// times; ok is false when there is none. In a dead letter queue it counts from the
// arrival there, unlike retention:
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
func (q *Queue) OldestAge() (age time.Duration, ok bool) {
	q.on(func(inner *queue, now time.Time) {
		for _, m := range inner.messages {
			if m.tries <= maxPoison {
				age, ok = max(age, now.Sub(m.arrived)), true
			}
		}
	})
	return age, ok
}

// NextVisible returns when the first message is visible, an instant in the past when
// one is already; ok is false when there is none. What a move task will bring is
// not known to it.
func (q *Queue) NextVisible() (at time.Time, ok bool) {
	q.on(func(inner *queue, _ time.Time) {
		if m := cmp.Or(inner.ready.first(), inner.hidden.first()); m != nil {
			at, ok = m.visibleAt, true
		}
	})
	return at, ok
}

// Duplicate makes the next n receives leave their message visible, so that it is
// delivered once more at once: to another consumer, or in the same batch.
func (q *Queue) Duplicate(n int) {
	q.on(func(inner *queue, _ time.Time) { inner.duplicates = n })
}

// Peek returns every message in order of arrival, hidden ones included, and receives
// none.
func (q *Queue) Peek() (all []Message) {
	q.on(func(inner *queue, _ time.Time) {
		sorted := make([]*message, 0, len(inner.messages))
		for _, m := range inner.messages {
			sorted = append(sorted, m)
		}
		slices.SortFunc(sorted, func(a, b *message) int { return cmp.Compare(a.arrival, b.arrival) })
		for _, m := range sorted {
			all = append(all, m.view(""))
		}
	})
	return all
}
