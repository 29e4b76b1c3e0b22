package lambda_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/expunge-aws/expunge/internal/emulator/lambda"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

type badInput struct{}

func (*badInput) Error() string { return "bad input" }

// A handler's end is told to the caller as aws-lambda-go would tell it.
func TestHandlersEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler func(context.Context, []byte) ([]byte, error)
		payload string
		kind    string
		message string
	}{
		{name: "an answer", handler: answering(`{"ok":true}`, nil), payload: `{"ok":true}`},
		{name: "no answer", handler: answering("", nil)},
		{name: "an error", handler: answering("", errRefused), kind: "errorString", message: "refused"},
		{name: "an error of a type", handler: answering("", &badInput{}), kind: "badInput", message: "bad input"},
		{name: "SQ-14 a panic", handler: func(context.Context, []byte) ([]byte, error) { panic(errRefused) }, kind: "errorString", message: "refused"},
		{name: "a panic with a string", handler: func(context.Context, []byte) ([]byte, error) { panic("oh") }, kind: "string", message: "oh"},
		{name: "an end of the goroutine", handler: func(context.Context, []byte) ([]byte, error) { runtime.Goexit(); return nil, nil },
			kind: "Runtime.ExitError", message: "Runtime exited without providing a reason"},
		{name: "too long an answer", handler: answering(`"`+strings.Repeat("x", 6<<20)+`"`, nil), kind: "Function.ResponseSizeTooLarge", message: "exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, wire.NewManual(start))
			register(t, s, lambda.Function{Name: "f", Handler: c.handler})
			for range 2 { // the function goes on being there
				r, err := s.Invoke(t.Context(), region, "f", []byte("{}"))
				if err != nil {
					t.Fatal(err)
				}
				if c.kind == "" {
					if r.FunctionError != "" || string(r.Payload) != c.payload || r.RequestID == "" {
						t.Fatalf("got %+v", r)
					}
					continue
				}
				if p := problemOf(t, r); p.Type != c.kind || !strings.Contains(p.Message, c.message) {
					t.Fatalf("got %+v", p)
				}
			}
			want := lambda.Metrics{Invocations: 2}
			if c.kind != "" {
				want.Errors = 2
			}
			if got := s.Metrics(region, "f"); got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		})
	}
}

// An overrun is reported when the deadline comes on the emulated clock, in the
// words of Lambda, and the context of the handler is over.
func TestHandlerOverruns(t *testing.T) {
	clock := newWatched()
	s := newService(t, clock)
	over := make(chan error, 1)
	register(t, s, lambda.Function{Name: "f", Timeout: 2500 * time.Millisecond, Concurrency: 1,
		Handler: func(ctx context.Context, _ []byte) ([]byte, error) {
			deadline, ok := ctx.Deadline()
			if want := start.Add(2500 * time.Millisecond); !ok || !deadline.Equal(want) {
				t.Errorf("deadline %v, want %v", deadline, want)
			}
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			<-child.Done()
			over <- child.Err()
			return []byte(`"too late"`), nil
		}})
	go func() {
		clock.awaits(t, 2500*time.Millisecond)
		clock.Advance(2500 * time.Millisecond)
	}()
	r, err := s.Invoke(t.Context(), region, "f", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := problemOf(t, r)
	if p.Type != "Sandbox.Timedout" || !strings.HasSuffix(p.Message, "Task timed out after 2.50 seconds") {
		t.Fatalf("got %+v", p)
	}
	if err := <-over; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the handler's context ended with %v", err)
	}
	if got := s.Metrics(region, "f"); got != (lambda.Metrics{Invocations: 1, Errors: 1, Timeouts: 1}) {
		t.Fatalf("got %+v", got)
	}
}

// A handler finds in its context what aws-lambda-go puts there, and can talk to
// the network although the emulated clock shows another year.
func TestHandlerContext(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	s := newService(t, wire.NewManual(start.AddDate(-20, 0, 0)))
	register(t, s, lambda.Function{Name: "f", Handler: func(ctx context.Context, payload []byte) ([]byte, error) {
		lc, ok := lambdacontext.FromContext(ctx)
		if !ok || lc.InvokedFunctionArn != "arn:aws:lambda:eu-central-1:000000000000:function:f" {
			t.Errorf("got the Lambda context %+v", lc)
		}
		if string(payload) != "{}" {
			t.Errorf("got %q for no payload", payload)
		}
		if trace := lambda.Trace(ctx); !strings.HasPrefix(trace, "Root=1-") || !strings.HasSuffix(trace, ":1") {
			t.Errorf("got the trace %q", trace)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			return nil, err
		}
		response, err := server.Client().Do(request)
		if err != nil {
			return nil, err
		}
		response.Body.Close()
		return json.Marshal(lc.AwsRequestID)
	}})
	r, err := s.Invoke(t.Context(), region, "f", nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.FunctionError != "" || string(r.Payload) != `"`+r.RequestID+`"` {
		t.Fatalf("got %+v: %s", r, r.Payload)
	}
}

// What is over the reserved concurrency is throttled, and what has its place runs
// on when its caller goes away.
func TestConcurrency(t *testing.T) {
	s := newService(t, wire.NewManual(start))
	entered, release := make(chan struct{}), make(chan struct{})
	var ended atomic.Int32
	register(t, s, lambda.Function{Name: "f", Concurrency: 2, Handler: func(context.Context, []byte) ([]byte, error) {
		entered <- struct{}{}
		<-release
		ended.Add(1)
		return nil, nil
	}})
	ctx, leave := context.WithCancel(t.Context())
	callers := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := s.Invoke(ctx, region, "f", nil)
			callers <- err
		}()
		<-entered
	}
	_, err := s.Invoke(t.Context(), region, "f", nil)
	var refused *wire.Error
	if !errors.As(err, &refused) || refused.Code != "TooManyRequestsException" || refused.Status != http.StatusTooManyRequests {
		t.Fatalf("got %v", err)
	}
	leave()
	for range 2 {
		if err := <-callers; err == nil {
			t.Fatal("a caller that went away was answered")
		}
	}
	close(release)
	s.Close()
	if ended.Load() != 2 {
		t.Fatalf("%d of 2 invocations went on", ended.Load())
	}
	if got := s.Metrics(region, "f"); got.Invocations != 2 || got.Throttles != 1 {
		t.Fatalf("got %+v", got)
	}
}

// Close ends the context of handlers, waits for them, and refuses what comes after.
func TestClose(t *testing.T) {
	s := newService(t, wire.NewManual(start))
	entered, ended := make(chan struct{}), make(chan struct{})
	register(t, s, lambda.Function{Name: "f", Handler: func(ctx context.Context, _ []byte) ([]byte, error) {
		close(entered)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}})
	answered := make(chan error, 1)
	go func() {
		_, err := s.Invoke(t.Context(), region, "f", nil)
		answered <- err
	}()
	<-entered
	s.Close()
	select {
	case <-ended:
	default:
		t.Fatal("Close did not wait")
	}
	t.Log(<-answered) // an error or the end of the runtime, whichever was seen first
	if _, err := s.Invoke(t.Context(), region, "f", nil); err == nil {
		t.Fatal("a closed service ran a function")
	}
	if err := s.Register(lambda.Function{Name: "g", Region: region, Handler: answering("", nil)}); err == nil {
		t.Fatal("a closed service took a function")
	}
	s.Close() // once more is no harm
}

// Names and ARNs find a function in its own region only.
func TestNames(t *testing.T) {
	s := newService(t, wire.NewManual(start))
	register(t, s, lambda.Function{Name: "f", Handler: answering("1", nil)})
	const arn = "arn:aws:lambda:eu-central-1:000000000000:function:f"
	for name, found := range map[string]bool{
		"f": true, "f:$LATEST": true, arn: true, arn + ":$LATEST": true, "000000000000:function:f": true,
		"g": false, "f:PROD": false, arn + ":7": false, "": false,
		"arn:aws:lambda:us-east-1:000000000000:function:f": false,
	} {
		if _, err := s.Invoke(t.Context(), region, name, nil); (err == nil) != found {
			t.Errorf("%q: got %v, found should be %v", name, err, found)
		}
	}
	if _, err := s.Invoke(t.Context(), "us-east-1", "f", nil); err == nil {
		t.Error("a function was found in another region")
	}
	if _, err := s.Invoke(t.Context(), "", arn, nil); err != nil {
		t.Errorf("an ARN says the region: %v", err)
	}
}

// What can not be a function is refused.
func TestRegisterRefuses(t *testing.T) {
	good := lambda.Function{Name: "f", Region: region, Handler: answering("", nil)}
	for name, change := range map[string]func(*lambda.Function){
		"a name with a dot":      func(f *lambda.Function) { f.Name = "f.g" },
		"no name":                func(f *lambda.Function) { f.Name = "" },
		"no region":              func(f *lambda.Function) { f.Region = "" },
		"a long timeout":         func(f *lambda.Function) { f.Timeout = 901 * time.Second },
		"a negative timeout":     func(f *lambda.Function) { f.Timeout = -1 },
		"too much concurrency":   func(f *lambda.Function) { f.Concurrency = 1001 },
		"no code":                func(f *lambda.Function) { f.Handler = nil },
		"a handler and a binary": func(f *lambda.Function) { f.Binary = []string{"x"} },
	} {
		s := newService(t, wire.NewManual(start))
		f := good
		change(&f)
		if err := s.Register(f); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	s := newService(t, wire.NewManual(start))
	register(t, s, good)
	if err := s.Register(good); err == nil {
		t.Error("a function was registered twice")
	}
}

// An event is tried three times under one request id, after one minute and after
// two, and then goes to the destination. Throttles cost no attempt.
func TestEvents(t *testing.T) {
	clock := newWatched()
	s := newService(t, clock)
	ids := make(chan string, 8)
	given := make(chan []byte, 1)
	register(t, s, lambda.Function{Name: "f",
		Handler: func(ctx context.Context, _ []byte) ([]byte, error) {
			lc, _ := lambdacontext.FromContext(ctx)
			ids <- lc.AwsRequestID
			return nil, errRefused
		},
		OnFailure: func(record []byte) { given <- record },
	})
	if err := s.InvokeEvent(region, "f", []byte(`{"tick":1}`)); err != nil {
		t.Fatal(err)
	}
	id := <-ids
	for _, pause := range []time.Duration{time.Minute, 2 * time.Minute} {
		clock.awaits(t, pause)
		clock.Advance(pause)
		if again := <-ids; again != id {
			t.Fatalf("attempt with id %s, want %s", again, id)
		}
	}
	var record struct {
		RequestContext struct {
			RequestID string `json:"requestId"`
			Condition string `json:"condition"`
			Count     int    `json:"approximateInvokeCount"`
		} `json:"requestContext"`
		RequestPayload  json.RawMessage `json:"requestPayload"`
		ResponsePayload problem         `json:"responsePayload"`
	}
	if err := json.Unmarshal(<-given, &record); err != nil {
		t.Fatal(err)
	}
	rc := record.RequestContext
	if rc.RequestID != id || rc.Condition != "RetriesExhausted" || rc.Count != 3 ||
		string(record.RequestPayload) != `{"tick":1}` || record.ResponsePayload.Message != "refused" {
		t.Fatalf("got %+v", record)
	}
	if got := s.Metrics(region, "f"); got.Invocations != 3 {
		t.Fatalf("got %+v", got)
	}
}

// An event that finds no place waits for one.
func TestEventsThrottled(t *testing.T) {
	clock := newWatched()
	s := newService(t, clock)
	entered, release := make(chan struct{}, 2), make(chan struct{})
	register(t, s, lambda.Function{Name: "f", Concurrency: 1, Timeout: time.Minute, Handler: func(context.Context, []byte) ([]byte, error) {
		entered <- struct{}{}
		<-release
		return nil, nil
	}})
	for range 2 {
		if err := s.InvokeEvent(region, "f", nil); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	clock.awaits(t, time.Second) // the other one
	close(release)
	until(t, clock.Manual, 2*time.Second, func() bool { return s.Metrics(region, "f").Invocations == 2 })
	if got := s.Metrics(region, "f"); got.Throttles < 1 || got.Errors != 0 {
		t.Fatalf("got %+v", got)
	}
}
