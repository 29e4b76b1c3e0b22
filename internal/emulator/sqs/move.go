package sqs

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// The states of a move task. AWS shows CANCELLING too, for as long as it takes.
const (
	taskRunning   = "RUNNING"
	taskCompleted = "COMPLETED"
	taskCancelled = "CANCELLED"
	taskFailed    = "FAILED"
)

// fastest is the most messages a second that a task may move, and what it moves when
// nobody says: AWS then finds a rate by itself.
const fastest = 500

// moveTask is the queue's own redrive. What it moves is new where it arrives: new id,
// new times, a receive count from zero, which is why Expunge does not rely on any of
// them.
type moveTask struct {
	id          string
	source      *queue
	destination string // ARN, "" for where each message came from
	rate        *int
	started     time.Time
	next        time.Time // when it moves its next message
	status      string
	failure     string
	moved       int
	toMove      int
}

func (t *moveTask) end(status, failure string) { t.status, t.failure = status, failure }

// work moves what the task has had time for.
func (g *region) work(t *moveTask, now time.Time) {
	rate := fastest
	if t.rate != nil {
		rate = *t.rate
	}
	for t.status == taskRunning && !t.next.After(now) {
		g.moveOne(t, t.next)
		t.next = t.next.Add(time.Second / time.Duration(rate))
	}
}

// moveOne moves one message, at an instant that may be past.
func (g *region) moveOne(t *moveTask, at time.Time) {
	if g.queues[t.source.name] != t.source {
		t.end(taskFailed, ofQuery+"NonExistentQueue")
		return
	}
	t.source.settle(at)
	m := t.source.ready.first()
	if m == nil {
		t.end(taskCompleted, "")
		return
	}
	destination := t.destination
	if destination == "" {
		destination = m.source
	}
	if destination == "" { // somebody sent it here; it stays
		t.end(taskFailed, "CouldNotDetermineMessageSource")
		return
	}
	q := g.byARN(destination)
	if q == nil {
		t.end(taskFailed, ofQuery+"NonExistentQueue")
		return
	}
	t.source.drop(m)
	g.add(q, &message{body: m.body, attributes: m.attributes, group: m.group, trace: m.trace}, 0, at)
	t.moved++
}

func noResource(parameter string) *wire.Error {
	return notFound("The resource that you specified for the " + parameter + " parameter doesn't exist.")
}

type startMessageMoveTaskInput struct {
	SourceArn                    string
	DestinationArn               string
	MaxNumberOfMessagesPerSecond *int
}

func (c *call) startMessageMoveTask(in *startMessageMoveTaskInput) (any, *wire.Error) {
	g := c.region
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.settle()
	source := g.byARN(in.SourceArn)
	switch rate := in.MaxNumberOfMessagesPerSecond; {
	case in.SourceArn == "":
		return nil, missing("SourceArn")
	case source == nil:
		return nil, noResource("SourceArn")
	case in.DestinationArn != "" && g.byARN(in.DestinationArn) == nil:
		return nil, noResource("DestinationArn")
	case rate != nil && (*rate < 1 || *rate > fastest):
		return nil, badValue(*rate, "MaxNumberOfMessagesPerSecond", "Must be between 1 and 500, if provided.")
	case !g.keepsLetters(source):
		return nil, invalid("Source queue must be configured as a Dead Letter Queue.")
	}
	for _, t := range g.tasks {
		if t.source == source {
			return nil, invalid("There is already a task running. Only one active task is allowed for a source queue arn at a given time.")
		}
	}
	source.settle(now)
	t := &moveTask{
		id: newID(), source: source, destination: in.DestinationArn, rate: in.MaxNumberOfMessagesPerSecond,
		started: now, next: now.Add(time.Second / fastest), status: taskRunning, toMove: source.ready.Len(),
	}
	g.tasks = append(g.tasks, t)
	source.moves = append([]*moveTask{t}, source.moves...)
	for _, q := range g.queues { // a long poll has to count with what the task brings
		q.ring()
	}
	return struct{ TaskHandle string }{t.handle()}, nil
}

// keepsLetters reports whether some queue sends its dead letters to this one.
func (g *region) keepsLetters(letters *queue) bool {
	for _, q := range g.queues {
		if q.redrive.target == letters.arn {
			return true
		}
	}
	return false
}

// handle names the task and its queue.
func (t *moveTask) handle() string {
	return base64.StdEncoding.EncodeToString([]byte(t.source.arn + " " + t.id))
}

type listMessageMoveTasksInput struct {
	SourceArn  string
	MaxResults *int
}

type listedTask struct {
	TaskHandle     string `json:",omitempty"` // of a running task, which alone can be cancelled
	Status         string
	SourceArn      string
	DestinationArn string `json:",omitempty"`
	Rate           *int   `json:"MaxNumberOfMessagesPerSecond,omitempty"`
	Moved          int    `json:"ApproximateNumberOfMessagesMoved"`
	ToMove         int    `json:"ApproximateNumberOfMessagesToMove"`
	FailureReason  string `json:",omitempty"`
	Started        int64  `json:"StartedTimestamp"`
}

func (c *call) listMessageMoveTasks(in *listMessageMoveTasksInput) (any, *wire.Error) {
	limit := 1
	if in.MaxResults != nil {
		limit = *in.MaxResults
	}
	if limit < 1 || limit > 10 {
		return nil, badValue(limit, "MaxResults", "Must be between 1 and 10, if provided.")
	}
	g := c.region
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settle()
	source := g.byARN(in.SourceArn)
	if source == nil {
		return nil, noResource("SourceArn")
	}
	results := []listedTask{}
	for _, t := range source.moves[:min(limit, len(source.moves))] {
		listed := listedTask{
			Status: t.status, SourceArn: source.arn, DestinationArn: t.destination, Rate: t.rate,
			Moved: t.moved, ToMove: t.toMove, FailureReason: t.failure, Started: t.started.UnixMilli(),
		}
		if t.status == taskRunning {
			listed.TaskHandle = t.handle()
		}
		results = append(results, listed)
	}
	return struct{ Results []listedTask }{results}, nil
}

type cancelMessageMoveTaskInput struct {
	TaskHandle string
}

func (c *call) cancelMessageMoveTask(in *cancelMessageMoveTaskInput) (any, *wire.Error) {
	plain, notBase64 := base64.StdEncoding.DecodeString(in.TaskHandle)
	arn, id, ok := strings.Cut(string(plain), " ")
	if notBase64 != nil || !ok {
		return nil, invalid("Value for parameter TaskHandle is invalid.")
	}
	g := c.region
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settle()
	source := g.byARN(arn)
	if source == nil {
		return nil, noResource("SourceArn")
	}
	for _, t := range source.moves {
		if t.id != id {
			continue
		}
		if t.status != taskRunning {
			return nil, invalid("Only active tasks can be cancelled.")
		}
		t.end(taskCancelled, "")
		g.settle()
		return struct {
			Moved int `json:"ApproximateNumberOfMessagesMoved"`
		}{t.moved}, nil
	}
	return nil, notFound("Task does not exist.")
}
