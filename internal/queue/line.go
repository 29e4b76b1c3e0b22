package queue

import (
	"bytes"
	"container/heap"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// message is one message in one queue.
type message struct {
	id, group string
	body      []byte
	attrs     map[string]string
	origin    job.Mode
	sentAt    time.Time
	receives  int

	handle    string // the newest; "" before the first receive
	visibleAt time.Time
	seq       uint64 // arrival, for a stable order
	line      *line
	place     int // in the heap
}

func (m *message) delivery() job.Delivery {
	return job.Delivery{MessageID: m.id, Handle: m.handle, Body: bytes.Clone(m.body), SentAt: m.sentAt, Receives: m.receives}
}

func (m *message) dead() job.DeadLetter {
	d := job.DeadLetter{Delivery: m.delivery(), Origin: m.origin}
	letter, ok := readLetter(d.Body, m.attrs)
	d.Letter, d.Damaged = letter, !ok
	return d
}

// line is one queue: a heap by when a message becomes visible.
type line struct {
	mode        job.Mode // "" is the dead letters'
	retention   time.Duration
	maxReceives int
	waiting     []*message
}

var _ heap.Interface = (*line)(nil)

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (l *line) Len() int { return len(l.waiting) }

// Less orders by visibility, then by arrival.
func (l *line) Less(i, j int) bool {
	a, b := l.waiting[i], l.waiting[j]
	if c := a.visibleAt.Compare(b.visibleAt); c != 0 {
		return c < 0
	}
	return a.seq < b.seq
}

// Swap exchanges two messages.
func (l *line) Swap(i, j int) {
	l.waiting[i], l.waiting[j] = l.waiting[j], l.waiting[i]
	l.waiting[i].place, l.waiting[j].place = i, j
}

// Push appends a message.
func (l *line) Push(x any) {
	m, ok := x.(*message)
	if !ok {
		panic("queue: a line holds messages only")
	}
	m.line, m.place = l, len(l.waiting)
	l.waiting = append(l.waiting, m)
}

// Pop takes the last message.
func (l *line) Pop() any {
	last := len(l.waiting) - 1
	m := l.waiting[last]
	l.waiting[last] = nil
	l.waiting = l.waiting[:last]
	return m
}

func (l *line) add(m *message)    { heap.Push(l, m) }
func (l *line) remove(m *message) { heap.Remove(l, m.place) }

// show makes the message visible at the instant.
func (l *line) show(m *message, at time.Time) {
	m.visibleAt = at
	heap.Fix(l, m.place)
}

// expired reports whether the retention period is over. It counts from when the
// message was first sent, in a dead letter queue too.
func (l *line) expired(m *message, now time.Time) bool {
	return l.retention > 0 && !now.Before(m.sentAt.Add(l.retention))
}

// next returns the message that is or becomes visible first, nil for none. It
// forgets the expired ones before it.
func (l *line) next(now time.Time, forget func(*message)) *message {
	for len(l.waiting) > 0 {
		first := l.waiting[0]
		if !l.expired(first, now) {
			return first
		}
		l.remove(first)
		forget(first)
	}
	return nil
}
