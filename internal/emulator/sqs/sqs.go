// Package sqs is the embedded AWS's SQS: standard queues with dead letters, long polls and move tasks in memory.
//
// Whether a page is lost, done twice or buried unseen turns on what SQS does in
// the corners: a receive count that goes on across queues, retention that a dead
// letter queue does not begin anew, an old handle whose delete succeeds and
// deletes nothing, a batch that fails entry by entry inside a good answer. This
// package does these as SQS documents them and refuses what SQS refuses.
//
// Why it is built the way it is: a request is read and decoded before any lock is
// taken; then the region's one lock covers what it does, and no waiting. Time comes
// only from the clock, so visibility, delay, retention and move tasks are worked
// out when somebody looks, and a test that moves the clock sees them at once. A
// long poll sleeps until the next instant at which something can become visible,
// and is woken by whatever makes it earlier. SQS is at least once and in no order;
// this one is in order and delivers twice when Queue.Duplicate asks for it.
//
// FIFO queues and permissions are refused. A queue's policy and its encryption
// settings are kept and returned; nothing here enforces or encrypts.
package sqs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// Service is SQS in every region. It is safe for concurrent use.
type Service struct {
	// OnDelete is told each message that a consumer deleted, before it gets its
	// answer; it may call the service. It is set before the first request.
	OnDelete func(Deletion)

	clock   wire.Clock
	mu      sync.Mutex // guards regions, not what is in them
	regions map[string]*region
}

var _ wire.Service = (*Service)(nil)

// New returns an SQS without queues.
func New(clock wire.Clock) *Service {
	return &Service{clock: clock, regions: map[string]*region{}}
}

// Scope is the service's name in a credential scope.
func (s *Service) Scope() string { return "sqs" }

// target is what the X-Amz-Target header of every operation begins with.
const target = "AmazonSQS."

// Operation names the operation of a request. The old query protocol carries it in
// the body, where only Serve looks.
func (s *Service) Operation(r *http.Request) string { return wire.Target(r, target) }

// Serve answers a request.
func (s *Service) Serve(w http.ResponseWriter, r *wire.Request) {
	c := &call{Request: r, fate: wire.FateOf(r.Context()), service: s, region: s.region(r.Region)}
	if isQuery(r) {
		c.serveQuery(w)
		return
	}
	result, failed := c.answer()
	wire.WriteJSON(w, result, inForm(failed))
}

func (s *Service) region(name string) *region {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.regions[name]
	if !ok {
		g = &region{clock: s.clock, name: name, queues: map[string]*queue{}, deleted: map[string]time.Time{}}
		s.regions[name] = g
	}
	return g
}

// tell passes deletions on. The caller holds no lock.
func (s *Service) tell(deletions []Deletion) {
	if s.OnDelete == nil {
		return
	}
	for _, d := range deletions {
		s.OnDelete(d)
	}
}

// call is one request on its way to an answer.
type call struct {
	*wire.Request
	fate    wire.Fate
	service *Service
	region  *region
	deleted []Deletion
}

// answer carries the request out.
func (c *call) answer() (any, *wire.Error) {
	if c.fate.Error != nil {
		return nil, c.fate.Error
	}
	result, failed := c.operate()
	c.service.tell(c.deleted)
	return result, failed
}

func (c *call) operate() (any, *wire.Error) {
	switch c.Operation {
	case "CreateQueue":
		return handle(c, c.createQueue)
	case "GetQueueUrl":
		return handle(c, c.getQueueURL)
	case "ListQueues":
		return handle(c, c.listQueues)
	case "DeleteQueue":
		return handle(c, c.deleteQueue)
	case "PurgeQueue":
		return handle(c, c.purgeQueue)
	case "GetQueueAttributes":
		return handle(c, c.getQueueAttributes)
	case "SetQueueAttributes":
		return handle(c, c.setQueueAttributes)
	case "TagQueue":
		return handle(c, c.tagQueue)
	case "UntagQueue":
		return handle(c, c.untagQueue)
	case "ListQueueTags":
		return handle(c, c.listQueueTags)
	case "ListDeadLetterSourceQueues":
		return handle(c, c.listDeadLetterSourceQueues)
	case "SendMessage":
		return handle(c, c.sendMessage)
	case "SendMessageBatch":
		return handle(c, c.sendMessageBatch)
	case "ReceiveMessage":
		return handle(c, c.receiveMessage)
	case "DeleteMessage":
		return handle(c, c.deleteMessage)
	case "DeleteMessageBatch":
		return handle(c, c.deleteMessageBatch)
	case "ChangeMessageVisibility":
		return handle(c, c.changeMessageVisibility)
	case "ChangeMessageVisibilityBatch":
		return handle(c, c.changeMessageVisibilityBatch)
	case "StartMessageMoveTask":
		return handle(c, c.startMessageMoveTask)
	case "ListMessageMoveTasks":
		return handle(c, c.listMessageMoveTasks)
	case "CancelMessageMoveTask":
		return handle(c, c.cancelMessageMoveTask)
	case "AddPermission", "RemovePermission":
		return nil, wire.Unsupported("the SQS operation " + c.Operation + ": there is no access control")
	}
	return nil, wire.Bad("UnknownOperationException", "the embedded AWS does not offer the SQS operation "+strconv.Quote(c.Operation))
}

// nothing is the answer that says no more than that it was done.
type nothing struct{}

// handle decodes the body for one operation and hands it over.
func handle[In any](c *call, operation func(*In) (any, *wire.Error)) (any, *wire.Error) {
	in := new(In)
	if err := decode(c.Operation, c.Body, in); err != nil {
		return nil, err
	}
	return operation(in)
}

// decode reads a body strictly. A parameter that this package does not know might
// change the result on AWS, so it is refused rather than ignored.
func decode(operation string, body []byte, in any) *wire.Error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	if err == nil {
		if _, trailing := d.Token(); trailing == io.EOF {
			return nil
		}
		err = errors.New("there is more than one document in the body")
	}
	if parameter, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return wire.Unsupported("the parameter " + parameter + " of " + operation)
	}
	return wire.Bad("SerializationException", err.Error())
}

// on does something with the queue of a URL, under the lock and at one instant.
func (c *call) on(url string, do func(q *queue, now time.Time) (any, *wire.Error)) (any, *wire.Error) {
	name, err := nameOf(url)
	if err != nil {
		return nil, err
	}
	return c.region.on(name, do)
}
