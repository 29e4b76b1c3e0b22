package lambda

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// Source is a queue as a mapping sees it.
type Source interface {
	// Receive waits up to wait for messages and returns at most limit of them, each
	// of which then counts as received and is invisible for the queue's visibility
	// timeout. It returns early when ctx ends.
	Receive(ctx context.Context, limit int, wait time.Duration) ([]Message, error)
	// Delete removes messages by their receipt handles.
	Delete(ctx context.Context, handles []string) error
	// DeadLetter moves a message that was received to the queue's dead letters, or
	// drops it where there are none.
	DeadLetter(ctx context.Context, m Message) error
	// Visibility is the queue's visibility timeout.
	Visibility() time.Duration
}

// Message is a message as a source gives it.
type Message struct {
	ID, Handle, Body, BodyMD5 string
	// AttributesMD5 is empty where the message has no attributes.
	AttributesMD5 string
	// Attributes are the queue's own, by their names on AWS:
	// ApproximateReceiveCount, SentTimestamp, SenderId,
	// ApproximateFirstReceiveTimestamp, and where they apply MessageGroupId,
	// AWSTraceHeader, DeadLetterQueueSourceArn.
	Attributes map[string]string
	// MessageAttributes are the sender's.
	MessageAttributes map[string]MessageAttribute
}

// MessageAttribute is a value that the sender gave a message: Binary when the data
// type begins with that word, and Text otherwise.
type MessageAttribute struct {
	DataType, Text string
	Binary         []byte
}

// Mapping lets a queue invoke a function.
type Mapping struct {
	Region, Function string // the function by its name or ARN
	Queue            string // the queue's ARN
	Source           Source

	// BatchSize is how many messages an invocation gets at most; 0 means 10.
	BatchSize int
	// Window is how long a batch is collected, counted from its first message.
	Window time.Duration
	// MaximumConcurrency limits the batches that are under way at once, and with
	// them the messages that are fetched. 0 sets no limit: five pollers fetch
	// whether or not the function can take it.
	MaximumConcurrency int
	// ReportBatchItemFailures makes the function's answer count.
	ReportBatchItemFailures bool

	// Stepped mappings poll only when Poll is called.
	Stepped bool
}

const (
	defaultBatch = 10
	receiveLimit = 10 // what a queue gives at once
	longPoll     = 20 * time.Second
	// freePollers is how many batches Lambda begins with. It would go on to add
	// sixty pollers a minute up to a thousand; for what can be learned here five
	// are as good.
	freePollers = 5
)

// invalid is the answer to a mapping that Lambda would not create.
func invalid(format string, args ...any) *wire.Error {
	return wire.Bad("InvalidParameterValueException", fmt.Sprintf(format, args...))
}

// check refuses what CreateEventSourceMapping refuses.
func (m *Mapping) check(f *function) *wire.Error {
	switch visibility := m.Source.Visibility(); {
	case visibility < f.Timeout:
		return invalid("Queue visibility timeout: %v seconds is less than Function timeout: %v seconds",
			visibility.Seconds(), f.Timeout.Seconds())
	case m.BatchSize < 1 || m.BatchSize > 10_000:
		return invalid("Batch size must be between 1 and 10000")
	case m.Window < 0 || m.Window > 300*time.Second:
		return invalid("Maximum batch window must be between 0 and 300 seconds")
	case m.BatchSize > receiveLimit && m.Window == 0:
		return invalid("Maximum batch window in seconds must be greater than 0 if maximum batch size is greater than 10")
	case m.MaximumConcurrency != 0 && (m.MaximumConcurrency < 2 || m.MaximumConcurrency > 1000):
		return invalid("Value '%d' at 'scalingConfig.maximumConcurrency' failed to satisfy constraint: Member must have value between 2 and 1000", m.MaximumConcurrency)
	}
	return nil
}

// mapping is a mapping in being.
type mapping struct {
	Mapping
	id       string
	service  *Service
	function *function
	created  time.Time

	ctx     context.Context
	end     context.CancelFunc
	pollers sync.WaitGroup
	stepper *poller // what Poll moves
	step    sync.Mutex
}

// Map creates a mapping and, unless it is stepped, begins to poll. It returns the
// mapping's UUID, or the error that AWS would give.
func (s *Service) Map(m Mapping) (string, error) {
	f, unknown := s.function(m.Region, m.Function)
	if unknown != nil {
		return "", unknown
	}
	if m.BatchSize == 0 {
		m.BatchSize = defaultBatch
	}
	m.Region, m.Function = f.Region, f.Name
	if refused := m.check(f); refused != nil {
		return "", refused
	}
	ctx, end := context.WithCancel(s.base)
	x := &mapping{Mapping: m, id: newID(), service: s, function: f, created: s.clock.Now(), ctx: ctx, end: end}
	x.stepper = &poller{mapping: x}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		end()
		return "", errClosed
	}
	for _, other := range s.mappings {
		if other.Queue == m.Queue && other.function == f {
			end()
			return "", &wire.Error{
				Status: http.StatusConflict, Code: "ResourceConflictException",
				Message: "An event source mapping with SQS arn (\" " + m.Queue + " \") and function (\" " + f.Name + " \") already exists. Please update or delete the existing mapping with UUID " + other.id,
			}
		}
	}
	s.mappings[x.id] = x
	x.begin()
	return x.id, nil
}

// begin starts the pollers. The caller holds the service's lock.
func (m *mapping) begin() {
	if m.Stepped {
		return
	}
	pollers := m.MaximumConcurrency
	if pollers == 0 {
		pollers = freePollers
	}
	for range pollers {
		m.pollers.Add(1)
		m.service.running.Go(func() {
			defer m.pollers.Done()
			(&poller{mapping: m}).poll()
		})
	}
}

// Unmap removes a mapping. It returns when the mapping's last batch is settled;
// what it fetches until then is carried out.
func (s *Service) Unmap(id string) error {
	s.mu.Lock()
	m := s.mappings[id]
	delete(s.mappings, id)
	s.mu.Unlock()
	if m == nil {
		return errors.New("lambda: no mapping " + strconv.Quote(id))
	}
	m.end()
	m.pollers.Wait()
	return nil
}

// Poll takes the batch of a stepped mapping that is there now, without waiting,
// carries it through, and returns how many messages it was. A throttled batch is
// given up at once.
func (s *Service) Poll(ctx context.Context, id string) (int, error) {
	s.mu.Lock()
	m := s.mappings[id]
	s.mu.Unlock()
	if m == nil || !m.Stepped {
		return 0, errors.New("lambda: no stepped mapping " + strconv.Quote(id))
	}
	if !s.hold() {
		return 0, errClosed
	}
	defer s.running.Done()
	m.step.Lock()
	defer m.step.Unlock()
	return m.stepper.round(ctx)
}
