// Package cloudformation is the embedded AWS's CloudFormation: stacks that are there, with their outputs, and never deployed.
//
// A tool finds a deployment by its stack: the outputs name the table, the queues
// and the functions. A local environment makes those from Go and declares the
// stack that would have made them, so that the tool has one way of finding both
// and needs no switch for the local one. Templates are not read and nothing can
// be changed: everything but DescribeStacks is refused.
package cloudformation

import (
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const namespace = "http://cloudformation.amazonaws.com/doc/2010-05-15/"

// Stack is a stack that was deployed, as far as one can see.
type Stack struct {
	Region, Name, Description string
	// Status is one of CloudFormation's, such as UPDATE_ROLLBACK_COMPLETE; "" is
	// CREATE_COMPLETE. One that is gone has none here.
	Status        string
	Outputs, Tags map[string]string
}

// stack is a stack with its times; updated is zero until it is declared again.
type stack struct {
	Stack
	created, updated time.Time
}

func (s *stack) id() string {
	return "arn:aws:cloudformation:" + s.Region + ":" + wire.Account + ":stack/" + s.Name + "/" + wire.StableID(s.Region+"/"+s.Name)
}

// Service is CloudFormation in every region. It is safe for concurrent use.
type Service struct {
	clock wire.Clock

	mu     sync.Mutex
	stacks map[string]*stack // by region and name
}

var _ wire.Service = (*Service)(nil)

// New returns a CloudFormation without stacks.
func New(clock wire.Clock) *Service { return &Service{clock: clock, stacks: map[string]*stack{}} }

// What names and statuses are made of:
// https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_Stack.html
var (
	stackName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`)
	outputKey = regexp.MustCompile(`^[A-Za-z0-9]{1,255}$`)
	status    = regexp.MustCompile(`^((CREATE|ROLLBACK|UPDATE|UPDATE_ROLLBACK|IMPORT|IMPORT_ROLLBACK)_(IN_PROGRESS|COMPLETE|FAILED)` +
		`|DELETE_(IN_PROGRESS|FAILED)|(UPDATE|UPDATE_ROLLBACK)_COMPLETE_CLEANUP_IN_PROGRESS|REVIEW_IN_PROGRESS)$`)
)

// Declare adds a stack, or gives one that is there another form, as an update does.
func (s *Service) Declare(d Stack) error {
	if d.Status == "" {
		d.Status = "CREATE_COMPLETE"
	}
	switch {
	case d.Region == "":
		return errors.New("cloudformation: a stack is in a region")
	case !stackName.MatchString(d.Name):
		return errors.New("cloudformation: no stack can be called " + strconv.Quote(d.Name))
	case !status.MatchString(d.Status):
		return errors.New("cloudformation: no stack that is there has the status " + strconv.Quote(d.Status))
	}
	for key, value := range d.Outputs {
		if !outputKey.MatchString(key) || value == "" {
			return errors.New("cloudformation: an output has letters and digits for its key, and a value: " + strconv.Quote(key))
		}
	}
	d.Outputs, d.Tags = maps.Clone(d.Outputs), maps.Clone(d.Tags)
	s.mu.Lock()
	defer s.mu.Unlock()
	key, now := d.Region+"/"+d.Name, s.clock.Now()
	if old := s.stacks[key]; old != nil {
		s.stacks[key] = &stack{Stack: d, created: old.created, updated: now}
	} else {
		s.stacks[key] = &stack{Stack: d, created: now}
	}
	return nil
}

// Scope is the service's name in a credential scope.
func (s *Service) Scope() string { return "cloudformation" }

// Operation names the operation of a request.
func (s *Service) Operation(r *http.Request) string { return wire.Action(r) }

// Serve answers a request.
func (s *Service) Serve(w http.ResponseWriter, r *wire.Request) {
	result, err := s.answer(r)
	wire.WriteQuery(w, r, namespace, result, err)
}

func (s *Service) answer(r *wire.Request) (string, *wire.Error) {
	if injected := wire.FateOf(r.Context()).Error; injected != nil {
		return "", injected
	}
	if r.Operation != "DescribeStacks" {
		return "", wire.Unsupported("the CloudFormation operation " + strconv.Quote(r.Operation))
	}
	form, err := wire.Form(r, "StackName")
	if err != nil {
		return "", err
	}
	return s.describeStacks(r.Region, form.Get("StackName"))
}

// describeStacks shows the stack with the name or the id, or all of the region when
// none is named. There are never enough of them for a second page.
func (s *Service) describeStacks(region, name string) (string, *wire.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s.stacks)) {
		if x := s.stacks[key]; x.Region == region && (name == "" || name == x.Name || name == x.id()) {
			b.WriteString("<member>" + x.describe() + "</member>")
		}
	}
	if b.Len() == 0 && name != "" {
		return "", wire.Bad("ValidationError", "Stack with id "+name+" does not exist")
	}
	return "<Stacks>" + b.String() + "</Stacks>", nil
}

func (s *stack) describe() string {
	text := wire.Element("StackId", s.id()) + wire.Element("StackName", s.Name) + wire.Element("StackStatus", s.Status) +
		wire.Element("CreationTime", instant(s.created))
	if !s.updated.IsZero() {
		text += wire.Element("LastUpdatedTime", instant(s.updated))
	}
	if s.Description != "" {
		text += wire.Element("Description", s.Description)
	}
	return text + "<Outputs>" + pairs(s.Outputs, "OutputKey", "OutputValue") + "</Outputs><Tags>" + pairs(s.Tags, "Key", "Value") + "</Tags>"
}

// pairs writes a map as a list, in the order of its keys.
func pairs(all map[string]string, key, value string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		b.WriteString("<member>" + wire.Element(key, k) + wire.Element(value, all[k]) + "</member>")
	}
	return b.String()
}

// instant writes a time as the query protocol has it.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
