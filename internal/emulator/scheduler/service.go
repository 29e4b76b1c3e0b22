package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// Service is EventBridge Scheduler in every region. It is safe for concurrent use.
type Service struct {
	// DeadLetter sends what a target did not take to the queue with this ARN, with
	// the message attributes of AWS, all of them strings. It is set before the first
	// request; without it a schedule with a dead-letter queue is refused.
	DeadLetter func(ctx context.Context, queue string, body []byte, attributes map[string]string) error
	// Flex chooses where in a flexible time window an invocation lies, from the start
	// of the window and less than its length. Nil chooses the start. It is set before
	// the first request.
	Flex func(window time.Duration) time.Duration

	clock  wire.Clock
	target func(ctx context.Context, arn string, input []byte) error
	// ticking lets one Tick run at a time. It is taken before mu.
	ticking sync.Mutex
	changed chan struct{} // holds one signal that there may be something due earlier

	mu         sync.Mutex
	schedules  map[key]*schedule
	groups     map[key]*group // name is empty
	executions []*execution
	metrics    Metrics
}

// Metrics counts deliveries, by the names that CloudWatch has for them.
type Metrics struct {
	InvocationAttempts                    int
	TargetErrors                          int
	InvocationsDropped                    int
	InvocationsSentToDeadLetter           int
	InvocationsFailedToBeSentToDeadLetter int
}

// key names a schedule, or with an empty name a group.
type key struct{ region, group, name string }

// group is a schedule group.
type group struct{ created time.Time }

// defaultGroup is in every region and can not be deleted.
const defaultGroup = "default"

// New returns a scheduler without schedules. It fires nothing by itself: Run does,
// or Tick. The target is handed what is due: the ARN of the schedule's target and
// the input with its attributes filled in. It should hand it on rather than work on
// it, as the scheduler of AWS invokes a function asynchronously, and what comes next
// waits for it. An error that is a *wire.Error gives its code to the dead letter.
func New(clock wire.Clock, target func(ctx context.Context, arn string, input []byte) error) *Service {
	return &Service{
		clock: clock, target: target, changed: make(chan struct{}, 1),
		schedules: map[key]*schedule{}, groups: map[key]*group{},
	}
}

// Metrics returns the counters.
func (s *Service) Metrics() Metrics {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.metrics
}

// Scope is the service's name in a credential scope.
func (s *Service) Scope() string { return "scheduler" }

// Operation names the operation of a request.
func (s *Service) Operation(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	kind := map[string]string{"schedules": "Schedule", "schedule-groups": "ScheduleGroup"}[parts[0]]
	switch {
	case kind == "":
		return ""
	case len(parts) == 1 && r.Method == http.MethodGet:
		return "List" + kind + "s"
	case len(parts) != 2:
		return ""
	case r.Method == http.MethodPost:
		return "Create" + kind
	case r.Method == http.MethodGet:
		return "Get" + kind
	case r.Method == http.MethodDelete:
		return "Delete" + kind
	case r.Method == http.MethodPut && kind == "Schedule":
		return "UpdateSchedule"
	}
	return ""
}

// Serve answers a request.
func (s *Service) Serve(w http.ResponseWriter, r *wire.Request) {
	if injected := wire.FateOf(r.Context()).Error; injected != nil {
		refuse(w, injected)
		return
	}
	operations := map[string]func(*wire.Request) (any, *wire.Error){
		"CreateSchedule": s.createSchedule, "UpdateSchedule": s.updateSchedule, "GetSchedule": s.getSchedule,
		"DeleteSchedule": s.deleteSchedule, "ListSchedules": s.listSchedules,
		"CreateScheduleGroup": s.createGroup, "GetScheduleGroup": s.getGroup,
		"DeleteScheduleGroup": s.deleteGroup, "ListScheduleGroups": s.listGroups,
	}
	operation, ok := operations[r.Operation]
	if !ok {
		refuse(w, wire.Unsupported("the Scheduler operation "+r.Method+" "+r.URL.Path))
		return
	}
	result, err := operation(r)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(result) // a client that has gone can not be told
}

// refuse answers with an error in the form of REST JSON.
func refuse(w http.ResponseWriter, err *wire.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-ErrorType", err.Code)
	w.WriteHeader(err.Status)
	_ = json.NewEncoder(w).Encode(map[string]string{"Message": err.Message}) // likewise
}

func invalid(message string) *wire.Error { return wire.Bad("ValidationException", message) }

func notFound(what string) *wire.Error {
	return &wire.Error{Status: http.StatusNotFound, Code: "ResourceNotFoundException", Message: what + " does not exist."}
}

func conflict(what string) *wire.Error {
	return &wire.Error{Status: http.StatusConflict, Code: "ConflictException", Message: what + " already exists."}
}

// pathName is the name at the end of the request's path.
func pathName(r *wire.Request) string {
	_, name, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	return name
}

// decode reads a body strictly: a parameter that is not known here would change
// what the schedule does on AWS.
func decode(r *wire.Request, in any) *wire.Error {
	d := json.NewDecoder(bytes.NewReader(r.Body))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	if err == nil {
		if _, trailing := d.Token(); trailing == io.EOF {
			return nil
		}
		err = errors.New("there is more than one document in the body")
	}
	if parameter, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return wire.Unsupported("the parameter " + parameter + " of " + r.Operation)
	}
	return invalid(err.Error())
}

// epoch is a time as REST JSON writes it.
func epoch(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
