package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// Result is what an invocation answered.
type Result struct {
	RequestID string
	// Payload is the function's answer, or the description of its error.
	Payload []byte
	// FunctionError is "Unhandled" when the function failed, and else empty. Lambda
	// itself has done its part in both cases.
	FunctionError string
}

// maxPayload is what Lambda takes and gives in a synchronous invocation.
const maxPayload = 6 << 20

// Invoke runs a function and returns its answer. An error says that it did not
// run: a throttle, an unknown function, or a service that is closed. When ctx ends
// first the caller is answered, but the invocation goes on, as on AWS.
func (s *Service) Invoke(ctx context.Context, region, name string, payload []byte) (Result, error) {
	f, err := s.function(region, name)
	if err != nil {
		return Result{}, err
	}
	r, err := s.run(ctx, f, newInvocation(payload, traceOf(ctx).hop(f)))
	if err != nil {
		return Result{}, err // not inline: a nil *wire.Error is no nil error
	}
	return r, nil
}

// invocation is one run of a function.
type invocation struct {
	id      string
	trace   string
	payload []byte
	taken   chan struct{} // closed when an environment has it
	result  chan Result   // takes one result; later ones find it full and are dropped
}

func newInvocation(payload []byte, t trace) *invocation {
	if len(payload) == 0 {
		payload = []byte("{}") // what a function sees when Invoke carries no payload
	}
	return &invocation{
		id: newID(), trace: t.String(), payload: payload,
		taken: make(chan struct{}), result: make(chan Result, 1),
	}
}

// answer gives the invocation its result, unless it has one.
func (i *invocation) answer(r Result) {
	r.RequestID = i.id
	select {
	case i.result <- r:
	default:
	}
}

// failed is the result of a function that did not answer.
func (i *invocation) failed(kind, message string) Result {
	return Result{RequestID: i.id, FunctionError: unhandled, Payload: describe(kind, "RequestId: "+i.id+" Error: "+message)}
}

// timedOut is the result of a function that overran.
func (i *invocation) timedOut(after time.Duration) Result {
	return i.failed("Sandbox.Timedout", fmt.Sprintf("Task timed out after %.2f seconds", after.Seconds()))
}

// unhandled is the FunctionError of every function error.
const unhandled = "Unhandled"

// describe is the payload of a function error.
func describe(kind, message string) []byte {
	body, _ := json.Marshal(map[string]string{"errorType": kind, "errorMessage": message}) // strings always marshal
	return body
}

// run carries an invocation out under the function's concurrency and counts it.
// It is the caller who stops waiting with ctx, not the function.
func (s *Service) run(ctx context.Context, f *function, i *invocation) (Result, *wire.Error) {
	if !f.enter() {
		return Result{}, &wire.Error{
			Status: http.StatusTooManyRequests, Code: "TooManyRequestsException", Message: "Rate Exceeded.",
			Fields: map[string]any{"Reason": "ReservedFunctionConcurrentInvocationLimitExceeded"},
		}
	}
	ended := make(chan Result, 1)
	began := s.begin(func() {
		ended <- s.carryOut(f, i)
	})
	if !began {
		f.leave()
		return Result{}, serviceFault(errClosed.Error())
	}
	select {
	case r := <-ended:
		return r, nil
	case <-ctx.Done():
		return Result{}, serviceFault("the caller went away: " + ctx.Err().Error())
	case <-s.base.Done():
		return Result{}, serviceFault(errClosed.Error())
	}
}

// carryOut runs the invocation to its result, whoever still waits for it.
func (s *Service) carryOut(f *function, i *invocation) Result {
	defer f.leave()
	var r Result
	if f.Handler != nil {
		r = s.handle(f, i)
	} else {
		r = f.pool.run(i)
	}
	r.RequestID = i.id
	if len(r.Payload) > maxPayload {
		r.FunctionError = unhandled
		r.Payload = describe("Function.ResponseSizeTooLarge", "Response payload size exceeded maximum allowed payload size (6291556 bytes).")
	}
	if r.FunctionError != "" {
		f.count(func(m *Metrics) { m.Errors++ })
	}
	return r
}

// serviceFault is the error of an invocation that Lambda could not carry out.
func serviceFault(message string) *wire.Error {
	return &wire.Error{Status: http.StatusInternalServerError, Code: "ServiceException", Message: message}
}

// handle runs a handler of this process. An overrun is reported at the deadline;
// the handler keeps its context, which is over.
func (s *Service) handle(f *function, i *invocation) Result {
	ctx := s.handlerContext(f, i)
	s.running.Go(func() { call(ctx, f.Handler, i) }) // under the goroutine that Close waits for already
	<-ctx.Done()
	select {
	case r := <-i.result:
		return r
	default:
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) { // Close was faster
		return i.failed("Runtime.ExitError", "Runtime exited with error: signal: killed")
	}
	f.count(func(m *Metrics) { m.Timeouts++ })
	return i.timedOut(f.Timeout)
}

// call calls a handler and answers for it in whatever way it ends, unless the
// invocation was over before.
func call(ctx *deadlineContext, handler func(context.Context, []byte) ([]byte, error), i *invocation) {
	// A handler that ends its goroutine, as t.FailNow does, neither returns nor panics.
	r := i.failed("Runtime.ExitError", "Runtime exited without providing a reason")
	defer func() {
		if v := recover(); v != nil {
			r = Result{FunctionError: unhandled, Payload: describe(typeName(v), fmt.Sprint(v))}
		}
		ctx.finish(context.Canceled, func() { i.answer(r) })
	}()
	payload, err := handler(ctx, i.payload)
	if err != nil {
		r = Result{FunctionError: unhandled, Payload: describe(typeName(err), err.Error())}
		return
	}
	r = Result{Payload: payload}
}

// typeName names an error or a panic's value as aws-lambda-go does.
func typeName(v any) string {
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// handlerContext is what aws-lambda-go gives a handler, on the emulated clock.
func (s *Service) handlerContext(f *function, i *invocation) *deadlineContext {
	parent := lambdacontext.NewContext(s.base, &lambdacontext.LambdaContext{
		AwsRequestID: i.id, InvokedFunctionArn: f.arn(),
	})
	parent = withTrace(parent, i.trace)
	ctx := &deadlineContext{
		Context: parent, deadline: s.clock.Now().Add(f.Timeout), done: make(chan struct{}),
	}
	over := s.clock.After(f.Timeout)
	s.running.Go(func() { // ends with the handler at the latest
		select {
		case <-over:
			ctx.finish(context.DeadlineExceeded, nil)
		case <-parent.Done():
			ctx.finish(parent.Err(), nil)
		case <-ctx.done:
		}
	})
	return ctx
}

// deadlineContext ends when the emulated clock says so. The standard library's
// contexts know only the machine's clock.
type deadlineContext struct {
	context.Context // for its values
	deadline        time.Time
	done            chan struct{}

	mu  sync.Mutex
	err error
}

// Deadline is when the invocation ends, on the emulated clock.
func (c *deadlineContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done is closed when the invocation is over.
func (c *deadlineContext) Done() <-chan struct{} { return c.done }

// Err says why.
func (c *deadlineContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// finish ends the context, once. Whoever ends it does last what it has to do.
func (c *deadlineContext) finish(err error, last func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if last != nil {
		last()
	}
	close(c.done)
}
