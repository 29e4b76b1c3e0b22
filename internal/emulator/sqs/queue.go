package sqs

import (
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const (
	maxVisibility = 12 * time.Hour
	// maxInFlight is the quota of a standard queue:
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html
	maxInFlight = 120_000
)

// queue is one queue. The region's lock guards it.
type queue struct {
	name, arn string
	settings
	tags              map[string]string
	created, modified time.Time
	purged            time.Time
	moves             []*moveTask // from this queue, the newest first

	messages map[string]*message // by id
	ready    *pile
	hidden   *pile // delayed or in flight
	byAge    *pile
	inFlight int

	wake       chan struct{} // closed when a long poll should look again
	duplicates int           // receives that shall leave their message visible
}

func newQueue(name, arn string, set settings, now time.Time) *queue {
	q := &queue{name: name, arn: arn, settings: set, tags: map[string]string{}, created: now, modified: now, wake: make(chan struct{})}
	q.clear()
	return q
}

// clear forgets every message.
func (q *queue) clear() {
	q.messages, q.ready, q.hidden, q.byAge, q.inFlight = map[string]*message{}, byVisibility(), byVisibility(), bySending(), 0
}

// ring wakes the long polls.
func (q *queue) ring() {
	close(q.wake)
	q.wake = make(chan struct{})
}

// settle forgets what is past its retention and shows what has become visible.
func (q *queue) settle(now time.Time) {
	for m := q.byAge.first(); m != nil && !now.Before(m.sent.Add(q.retention)); m = q.byAge.first() {
		q.drop(m)
	}
	for m := q.hidden.first(); m != nil && !m.visibleAt.After(now); m = q.hidden.first() {
		q.leave(m)
		q.enter(m, ready)
	}
}

// enter puts the message into the pile of a state, and leave takes it out again.
func (q *queue) enter(m *message, s state) {
	m.state = s
	switch s {
	case ready:
		q.ready.add(m)
	case inFlight:
		q.inFlight++
		q.hidden.add(m)
	case delayed:
		q.hidden.add(m)
	}
}

func (q *queue) leave(m *message) {
	switch m.state {
	case ready:
		q.ready.remove(m)
	case inFlight:
		q.inFlight--
		q.hidden.remove(m)
	case delayed:
		q.hidden.remove(m)
	}
}

// drop takes the message out of the queue for good.
func (q *queue) drop(m *message) {
	q.leave(m)
	q.byAge.remove(m)
	delete(q.messages, m.id)
}

// Counts are how many messages a queue holds.
type Counts struct {
	Visible, InFlight, Delayed int
}

func (q *queue) counts() Counts {
	return Counts{Visible: q.ready.Len(), InFlight: q.inFlight, Delayed: q.hidden.Len() - q.inFlight}
}

// held returns the message that is held under the handle, nil when the handle is
// not its newest one or the message has gone.
func (q *queue) held(handle string) (*message, *wire.Error) {
	id, serial, err := readHandle(handle, q.arn)
	if err != nil {
		return nil, err
	}
	if m := q.messages[id]; m != nil && m.serial == serial {
		return m, nil
	}
	return nil, nil
}

// remove deletes the message that is held under the handle. With an old handle
// there is none, and that is no error.
func (q *queue) remove(handle string) (*message, *wire.Error) {
	m, err := q.held(handle)
	if m != nil {
		q.drop(m)
	}
	return m, err
}

// hide changes for how long the message stays hidden.
func (q *queue) hide(handle string, wait time.Duration, now time.Time) *wire.Error {
	m, err := q.held(handle)
	switch {
	case err != nil:
		return err
	case wait < 0 || wait > maxVisibility:
		return badValue(int(wait.Seconds()), "VisibilityTimeout", "VisibilityTimeout must be an integer between 0 and 43200.")
	case m == nil:
		return badValue(handle, "ReceiptHandle", "Message does not exist or is not available for visibility timeout change.")
	case m.state != inFlight:
		return wire.Bad("MessageNotInflight", "The specified message isn't in flight.")
	case now.Add(wait).After(m.receivedAt.Add(maxVisibility)):
		return badValue(int(wait.Seconds()), "VisibilityTimeout", "Total VisibilityTimeout for the message is beyond the limit [43200 seconds].")
	}
	q.leave(m)
	m.visibleAt = now.Add(wait)
	if wait == 0 {
		q.enter(m, ready)
	} else {
		q.enter(m, inFlight)
	}
	q.ring()
	return nil
}
