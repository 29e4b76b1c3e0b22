package queue

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Settings are the attributes of the queues.
type Settings struct {
	// Visibility is how long a received message stays hidden.
	Visibility time.Duration
	// Retention and LetterRetention are how long after its first sending a message
	// is kept in a pages queue and among the dead letters; 0 is for ever.
	Retention, LetterRetention time.Duration
	// MaxReceives is SQS's maxReceiveCount: a message that was received that often is
	// moved instead of being received once more. 0 never moves one.
	MaxReceives int
}

// Acked is a message that Ack deleted.
type Acked struct {
	Mode      job.Mode
	MessageID string
	Body      []byte
	At        time.Time
}

// Stats counts what a Memory has seen.
type Stats struct {
	Sent     int // messages taken in by Send
	Refused  int // entries refused by Reject
	Received int // deliveries from the pages queues
	Acked    int // messages deleted by Ack
	Letters  int // dead letters written by DeadLetter
	Moved    int // messages moved to the dead letters by MaxReceives
	Expired  int // messages forgotten at the end of their retention
}

// Memory is the queues of one region in memory: pages to enforce, pages to report
// on, and one queue of dead letters for both. It delivers at least once and in
// order of visibility, on the given clock. Set its fields before the first call.
// It is safe for concurrent use; the functions it calls may call it, but not the
// clock.
type Memory struct {
	// Hook decides the fate of the calls "send" (one batch), "dead-letter",
	// "visibility" (Delay, PutBack), "ack" and "remove".
	Hook failure.Hook
	// Reject refuses single entries of a batch by the message's id.
	Reject func(id string) bool
	// OnAck is told each deletion by Ack at its instant.
	OnAck func(Acked)

	now func() time.Time
	set Settings

	mu         sync.Mutex
	pages      map[job.Mode]*line
	letters    *line
	handles    map[string]*message // the newest handle of each received message
	issued     int                 // handles so far
	arrivals   uint64              // messages so far
	duplicates int                 // receives that shall leave their message visible
	stats      Stats
	acks       []Acked
}

var (
	_ Sender    = (*Memory)(nil)
	_ Receiver  = (*Memory)(nil)
	_ Letterbox = (*Memory)(nil)
	_ Inspector = (*Memory)(nil)
)

// NewMemory returns empty queues.
func NewMemory(now func() time.Time, set Settings) *Memory {
	m := &Memory{now: now, set: set, pages: map[job.Mode]*line{}, handles: map[string]*message{}}
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		m.pages[mode] = &line{mode: mode, retention: set.Retention, maxReceives: set.MaxReceives}
	}
	m.letters = &line{retention: set.LetterRetention}
	return m
}

// Duplicate makes the next n receives leave their message visible, so that it is
// delivered once more at once: to another worker, or in the same batch.
func (m *Memory) Duplicate(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.duplicates = n
}

// Send implements Sender.
func (m *Memory) Send(ctx context.Context, mode job.Mode, msgs []job.Message) ([]string, error) {
	return send(ctx, func(ctx context.Context, batch []job.Message) (accepted []int, err error) {
		if err := over(ctx, opSend); err != nil {
			return nil, err
		}
		err = m.Hook.Do("send", func() error {
			accepted = m.take(mode, batch)
			return nil
		})
		return accepted, err
	}, mode, msgs)
}

func (m *Memory) take(mode job.Mode, batch []job.Message) (accepted []int) {
	for i, msg := range batch {
		refused := m.Reject != nil && m.Reject(msg.ID)
		m.mu.Lock()
		if refused {
			m.stats.Refused++
		} else {
			m.stats.Sent++
			m.add(m.pages[mode], &message{group: msg.Group, body: bytes.Clone(msg.Body)})
			accepted = append(accepted, i)
		}
		m.mu.Unlock()
	}
	return accepted
}

// add takes a message in as a new one.
func (m *Memory) add(l *line, msg *message) {
	m.arrivals++
	msg.seq, msg.id = m.arrivals, "message-"+strconv.FormatUint(m.arrivals, 10)
	msg.sentAt = m.now().UTC().Truncate(time.Millisecond) // as SQS tells it
	msg.visibleAt = msg.sentAt
	l.add(msg)
}

// Receive implements Receiver.
func (m *Memory) Receive(ctx context.Context, mode job.Mode, limit int) (got []job.Delivery, err error) {
	const op = "receive messages"
	if err := cmp.Or(over(ctx, op), knownMode(op, mode)); err != nil {
		return nil, err
	}
	m.receive(m.pages[mode], limit, func(msg *message) {
		m.stats.Received++
		got = append(got, msg.delivery())
	})
	return got, nil
}

// Letters implements Letterbox.
func (m *Memory) Letters(ctx context.Context, limit int) (got []job.DeadLetter, err error) {
	if err := over(ctx, "read dead letters"); err != nil {
		return nil, err
	}
	m.receive(m.letters, limit, func(msg *message) { got = append(got, msg.dead()) })
	return got, nil
}

// Peek implements Inspector. What was shown stands behind the others afterwards, so
// that the next answers show those.
func (m *Memory) Peek(ctx context.Context, limit int) (got []job.DeadLetter, err error) {
	if err := over(ctx, "look at dead letters"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for range limit {
		msg := m.letters.next(now, m.forget)
		if msg == nil || msg.visibleAt.After(now) {
			break
		}
		msg.receives++
		m.arrivals++
		msg.seq = m.arrivals
		m.letters.show(msg, now)
		got = append(got, msg.dead())
	}
	return got, nil
}

// receive hands out at most limit messages, under the lock.
func (m *Memory) receive(l *line, limit int, hand func(*message)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for handed := 0; handed < limit; {
		msg := l.next(now, m.forget)
		if msg == nil || msg.visibleAt.After(now) {
			return
		}
		if l.maxReceives > 0 && msg.receives >= l.maxReceives {
			m.move(msg, now)
			continue
		}
		delete(m.handles, msg.handle)
		m.issued++
		msg.handle = "receipt-" + strconv.Itoa(m.issued)
		m.handles[msg.handle] = msg
		msg.receives++
		handed++
		if m.duplicates > 0 && l != m.letters {
			m.duplicates--
			l.show(msg, now)
		} else {
			l.show(msg, now.Add(m.set.Visibility))
		}
		hand(msg)
	}
}

// move is SQS's own way to the dead letters: body, first sending and receive count
// stay, and nobody writes a reason.
func (m *Memory) move(msg *message, now time.Time) {
	delete(m.handles, msg.handle)
	msg.line.remove(msg)
	msg.origin, msg.visibleAt = msg.line.mode, now
	m.letters.add(msg)
	m.stats.Moved++
}

func (m *Memory) forget(msg *message) {
	delete(m.handles, msg.handle)
	m.stats.Expired++
}

// held returns the message that is held under a handle of the queue, nil when
// the handle is not the newest one any more. A handle that was never issued is
// failure.Invalid.
func (m *Memory) held(op string, l *line, handle string) (*message, error) {
	number, ok := strings.CutPrefix(handle, "receipt-")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > m.issued {
		return nil, failure.New(failure.Invalid, op, "not a receipt handle")
	}
	msg := m.handles[handle]
	if msg == nil || msg.line.expired(msg, m.now()) {
		return nil, nil
	}
	if l != nil && msg.line != l {
		return nil, failure.New(failure.Invalid, op, "the handle is of another queue")
	}
	return msg, nil
}

// Ack implements Receiver.
func (m *Memory) Ack(ctx context.Context, mode job.Mode, d job.Delivery) error {
	const op = "acknowledge message"
	if err := cmp.Or(over(ctx, op), knownMode(op, mode)); err != nil {
		return err
	}
	return m.Hook.Do("ack", func() error {
		acked, err := m.ack(op, mode, d)
		if acked.MessageID != "" && m.OnAck != nil {
			m.OnAck(acked)
		}
		return err
	})
}

func (m *Memory) ack(op string, mode job.Mode, d job.Delivery) (Acked, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	msg, err := m.held(op, m.pages[mode], d.Handle)
	if msg == nil || err != nil {
		return Acked{}, err
	}
	m.drop(msg)
	m.stats.Acked++
	acked := Acked{Mode: mode, MessageID: msg.id, Body: msg.body, At: m.now()}
	m.acks = append(m.acks, acked)
	return acked, nil
}

func (m *Memory) drop(msg *message) {
	delete(m.handles, msg.handle)
	msg.line.remove(msg)
}

// Delay implements Receiver.
func (m *Memory) Delay(ctx context.Context, d job.Delivery, wait time.Duration) error {
	return m.change(ctx, "delay message", nil, d.Handle, wholeSeconds(wait))
}

// PutBack implements Letterbox.
func (m *Memory) PutBack(ctx context.Context, d job.DeadLetter) error {
	return m.change(ctx, "put dead letter back", m.letters, d.Handle, 0)
}

func (m *Memory) change(ctx context.Context, op string, l *line, handle string, wait time.Duration) error {
	if err := over(ctx, op); err != nil {
		return err
	}
	return m.Hook.Do("visibility", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		now := m.now()
		msg, err := m.held(op, l, handle)
		if err != nil {
			return err
		}
		if msg == nil || !msg.visibleAt.After(now) {
			return failure.New(failure.Absent, op, "not in flight under this handle")
		}
		msg.line.show(msg, now.Add(wait))
		return nil
	})
}

// DeadLetter implements Letterbox.
func (m *Memory) DeadLetter(ctx context.Context, l job.Letter) error {
	if err := over(ctx, "write dead letter"); err != nil {
		return err
	}
	attrs, err := letterAttributes(l)
	if err != nil {
		return err
	}
	return m.Hook.Do("dead-letter", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.stats.Letters++
		m.add(m.letters, &message{body: bytes.Clone(l.Body), attrs: attrs})
		return nil
	})
}

// Remove implements Letterbox.
func (m *Memory) Remove(ctx context.Context, d job.DeadLetter) error {
	const op = "remove dead letter"
	if err := over(ctx, op); err != nil {
		return err
	}
	return m.Hook.Do("remove", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		msg, err := m.held(op, m.letters, d.Handle)
		if msg != nil && err == nil {
			m.drop(msg)
		}
		return err
	})
}

// Stray puts a body among the dead letters without attributes, as somebody does who
// sends to that queue by hand (RD-05).
func (m *Memory) Stray(body []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(m.letters, &message{body: bytes.Clone(body)})
}

// NativeRedrive moves every visible dead letter to a pages queue as the console's
// "start DLQ redrive" does: same body, new message id, clock and count (RD-03).
func (m *Memory) NativeRedrive(mode job.Mode) (moved int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for {
		msg := m.letters.next(now, m.forget)
		if msg == nil || msg.visibleAt.After(now) {
			return moved
		}
		m.drop(msg)
		m.add(m.pages[mode], &message{group: msg.group, body: msg.body})
		moved++
	}
}

// NextVisible returns when the next message of the mode is visible, an instant in
// the past when one is already; ok is false when there is none.
func (m *Memory) NextVisible(mode job.Mode) (at time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.pages[mode]
	if l == nil {
		return time.Time{}, false // no such mode
	}
	msg := l.next(m.now(), m.forget)
	if msg == nil {
		return time.Time{}, false
	}
	return msg.visibleAt, true
}

// Waiting returns every message of the mode in order of arrival, hidden ones
// included, and receives none.
func (m *Memory) Waiting(mode job.Mode) (all []job.Delivery) {
	m.peek(m.pages[mode], func(msg *message) { all = append(all, msg.delivery()) })
	return all
}

// PeekLetters returns every dead letter in order of arrival, hidden ones included,
// and receives none.
func (m *Memory) PeekLetters() (all []job.DeadLetter) {
	m.peek(m.letters, func(msg *message) { all = append(all, msg.dead()) })
	return all
}

func (m *Memory) peek(l *line, show func(*message)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sorted := slices.SortedFunc(slices.Values(l.waiting), func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
	for _, msg := range sorted {
		if !l.expired(msg, m.now()) {
			show(msg)
		}
	}
}

// Stats returns the counters.
func (m *Memory) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats
}

// Acks returns every deletion by Ack, in order.
func (m *Memory) Acks() []Acked {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.acks)
}

func over(ctx context.Context, op string) error {
	return failure.Wrap(failure.Network, op, ctx.Err())
}
