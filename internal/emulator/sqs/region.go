package sqs

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// region is SQS in one region. Its lock is held while something is looked up or
// changed, never while a request is read, delayed, waiting or answered.
type region struct {
	clock wire.Clock
	name  string

	mu       sync.Mutex
	queues   map[string]*queue
	deleted  map[string]time.Time // when a queue of that name was
	tasks    []*moveTask          // those that run
	arrivals uint64
}

// on does something with a queue, under the lock and at one instant.
func (g *region) on(name string, do func(q *queue, now time.Time) (any, *wire.Error)) (any, *wire.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.settle()
	q := g.queues[name]
	if q == nil {
		return nil, noQueue()
	}
	q.settle(now)
	return do(q, now)
}

// settle lets the move tasks do what they have had time for, and returns the
// instant. The caller holds the lock, here and in all that follows.
func (g *region) settle() time.Time {
	now := g.clock.Now()
	var running []*moveTask
	for _, t := range g.tasks {
		if g.work(t, now); t.status == taskRunning {
			running = append(running, t)
		}
	}
	g.tasks = running
	return now
}

// arn returns the ARN of the queue of that name.
func (g *region) arn(name string) string {
	return "arn:aws:sqs:" + g.name + ":" + wire.Account + ":" + name
}

// byARN returns the region's queue with the ARN, nil for none.
func (g *region) byARN(arn string) *queue {
	q := g.queues[arn[strings.LastIndexByte(arn, ':')+1:]]
	if q == nil || q.arn != arn {
		return nil
	}
	return q
}

// nameOf returns the name of the queue with the URL. The host is not looked at: the
// credential scope says which region is meant.
func nameOf(queueURL string) (string, *wire.Error) {
	if queueURL == "" {
		return "", missing("QueueUrl")
	}
	u, err := url.Parse(queueURL)
	if err != nil || u.Host == "" {
		return "", &wire.Error{Status: http.StatusNotFound, Code: "InvalidAddress", Message: "The address " + queueURL + " is not valid for this endpoint."}
	}
	account, name, ok := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if !ok || account != wire.Account {
		return "", noQueue()
	}
	return name, nil
}

// add puts a new message into the queue.
func (g *region) add(q *queue, m *message, delay time.Duration, now time.Time) *message {
	m.id = newID()
	m.sent = now.Truncate(time.Millisecond) // consumers see no more of it
	m.visibleAt = now.Add(delay)
	g.enter(q, m, now)
	return m
}

// enter puts a message into the queue, a new one or one from another queue.
func (g *region) enter(q *queue, m *message, now time.Time) {
	g.arrivals++
	m.arrival, m.arrived, m.tries = g.arrivals, now, 0
	q.messages[m.id] = m
	q.byAge.add(m)
	if m.visibleAt.After(now) {
		q.enter(m, delayed)
	} else {
		q.enter(m, ready)
	}
	q.ring()
}

// take hands out what is visible, up to limit messages, and buries what was handed
// out too often.
func (g *region) take(q *queue, limit int, visibility time.Duration, now time.Time) (got []Message) {
	var shown []*message // received with no timeout: visible again, but not in this answer
	for len(got) < limit {
		m := q.ready.first()
		if m == nil {
			break
		}
		if g.bury(q, m, now) {
			continue
		}
		q.leave(m)
		m.receives++
		m.tries++
		m.serial++
		m.receivedAt = now
		if m.first.IsZero() {
			m.first = now.Truncate(time.Millisecond)
		}
		switch {
		case q.duplicates > 0:
			q.duplicates--
			m.visibleAt = now
			q.enter(m, ready)
		case visibility <= 0: // shown, not hidden: it stands behind those that nobody has looked at
			m.visibleAt = now
			shown = append(shown, m)
		default:
			m.visibleAt = now.Add(visibility)
			q.enter(m, inFlight)
		}
		got = append(got, m.view(receiptHandle(q.arn, m)))
	}
	for _, m := range shown {
		q.enter(m, ready)
	}
	return got
}

// bury moves a message to the dead letter queue once it was received as often as
// the redrive policy allows. Ids, times and the receive count stay, so its
// retention goes on. When the dead letter queue is gone the message stays.
func (g *region) bury(q *queue, m *message, now time.Time) bool {
	if q.redrive.maxReceives == 0 || m.tries < q.redrive.maxReceives {
		return false
	}
	letters := g.byARN(q.redrive.target)
	if letters == nil {
		return false
	}
	q.drop(m)
	m.source, m.visibleAt = q.arn, now
	g.enter(letters, m, now)
	return true
}
