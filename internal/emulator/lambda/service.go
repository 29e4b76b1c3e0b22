package lambda

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// Function is what a Lambda function is made of: a Handler or a Binary.
type Function struct {
	Name, Region string
	// Timeout ends an invocation; 0 means Lambda's default of 3 s. AWS counts in
	// whole seconds, the local environment scales them down.
	Timeout time.Duration
	// Concurrency is the reserved concurrency; 0 reserves none, and the function
	// has the account's limit to itself.
	Concurrency int
	// Handler answers an invocation in this process. Its context carries the
	// deadline, the Lambda context of aws-lambda-go and the trace, and ends with the
	// deadline. A handler that ignores its context goes on running, as nothing in Go
	// can stop it, and Close waits for it.
	Handler func(ctx context.Context, payload []byte) ([]byte, error)
	// Binary is the command line of a program that calls lambda.Start.
	Binary []string
	// Env is what the binary sees beside what Lambda itself sets; nothing else of
	// this process's environment reaches it but PATH and TMPDIR.
	Env []string
	// OnFailure is the destination of events that were given up: it is handed the
	// record that AWS would send. Nil drops them.
	OnFailure func(record []byte)
	// AllowRecursion lets a function go on feeding itself; otherwise the chain is
	// cut after sixteen hops, as Lambda does by default.
	AllowRecursion bool
}

// Metrics counts what became of a function's invocations, as CloudWatch does.
type Metrics struct {
	// Invocations is how many were carried out.
	Invocations int
	// Errors is how many of them ended in a function error, overruns included.
	Errors int
	// Timeouts is how many overran.
	Timeouts int
	// Throttles is how many were refused for want of concurrency; they are no
	// invocations.
	Throttles int
	// RecursionDropped is how many messages the recursion guard kept from the
	// function.
	RecursionDropped int
}

// Service is Lambda in every region. It is safe for concurrent use.
type Service struct {
	// Output takes what the binaries print, one write at a time. What it does not
	// take is lost, so that no binary ever waits for it; nil discards. It is set
	// before the first function is registered.
	Output io.Writer

	clock wire.Clock
	// base ends with the service, and with it everything that runs on its own.
	base    context.Context
	end     context.CancelFunc
	running sync.WaitGroup
	// printing keeps the writes to Output apart.
	printing sync.Mutex

	mu           sync.Mutex
	closed       bool
	functions    map[string]*function // by region and name
	environments map[string]*environment
	mappings     map[string]*mapping
	runtime      *runtimeServer
}

// New returns a Lambda without functions. Close ends what it starts.
func New(clock wire.Clock) *Service {
	base, end := context.WithCancel(context.Background())
	return &Service{
		clock: clock, base: base, end: end,
		functions: map[string]*function{}, environments: map[string]*environment{}, mappings: map[string]*mapping{},
	}
}

// errClosed is what a service answers that has been closed.
var errClosed = errors.New("lambda: the service is closed")

const (
	defaultTimeout = 3 * time.Second
	maxTimeout     = 900 * time.Second
	// accountConcurrency is what an account may run at once where nothing is reserved.
	accountConcurrency = 1000
)

// function is a registered function.
type function struct {
	Function
	service  *Service
	modified time.Time
	pool     pool

	mu      sync.Mutex
	running int // invocations that hold a place in the concurrency
	metrics Metrics
}

// arn names the function, without a version.
func (f *function) arn() string {
	return "arn:aws:lambda:" + f.Region + ":" + wire.Account + ":function:" + f.Name
}

// count changes the metrics under their lock.
func (f *function) count(change func(*Metrics)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.metrics)
}

// enter takes a place in the concurrency, or reports that there is none.
func (f *function) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running >= f.Concurrency {
		f.metrics.Throttles++
		return false
	}
	f.running++
	f.metrics.Invocations++
	return true
}

// leave gives the place back.
func (f *function) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
}

var functionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Register adds a function, or says what is wrong with it.
func (s *Service) Register(f Function) error {
	if f.Timeout == 0 {
		f.Timeout = defaultTimeout
	}
	if f.Concurrency == 0 {
		f.Concurrency = accountConcurrency
	}
	switch {
	case !functionName.MatchString(f.Name):
		return errors.New("lambda: no function can be called " + strconv.Quote(f.Name))
	case f.Region == "":
		return errors.New("lambda: a function is in a region")
	case f.Timeout < 0 || f.Timeout > maxTimeout:
		return errors.New("lambda: a timeout is at most 900 s")
	case f.Concurrency < 0 || f.Concurrency > accountConcurrency:
		return errors.New("lambda: a reserved concurrency is at most 1000")
	case (f.Handler == nil) == (len(f.Binary) == 0):
		return errors.New("lambda: a function has a handler or a binary")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := f.Region + "/" + f.Name
	switch {
	case s.closed:
		return errClosed
	case s.functions[key] != nil:
		return errors.New("lambda: function already exists: " + f.Name)
	}
	if len(f.Binary) > 0 && s.runtime == nil {
		server, err := s.serveRuntime()
		if err != nil {
			return err
		}
		s.runtime = server
	}
	x := &function{Function: f, service: s, modified: s.clock.Now()}
	x.pool = pool{function: x, all: map[string]*environment{}}
	s.functions[key] = x
	return nil
}

// Metrics returns a function's counters; they are zero for one that is unknown.
func (s *Service) Metrics(region, name string) Metrics {
	f, err := s.function(region, name)
	if err != nil {
		return Metrics{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.metrics
}

// Processes returns the process ids of a binary's live environments, for whoever
// wants to kill one.
func (s *Service) Processes(region, name string) []int {
	f, err := s.function(region, name)
	if err != nil {
		return nil
	}
	return f.pool.processes()
}

// Close ends the mappings, kills the processes, ends the contexts of handlers,
// and waits until nothing that the service started is left.
func (s *Service) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	server := s.runtime
	functions := make([]*function, 0, len(s.functions))
	for _, f := range s.functions {
		functions = append(functions, f)
	}
	s.mu.Unlock()
	s.end()
	for _, f := range functions {
		f.pool.kill()
	}
	if first && server != nil {
		server.close()
	}
	s.running.Wait()
}

// begin starts a goroutine that Close waits for. Nothing begins after Close.
func (s *Service) begin(run func()) bool {
	if !s.hold() {
		return false
	}
	go func() {
		defer s.running.Done()
		run()
	}()
	return true
}

// hold makes Close wait until running.Done is called.
func (s *Service) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// sleep waits on the clock. It returns false when ctx ends first.
func (s *Service) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-s.clock.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// function finds a function by its name, its ARN or a partial ARN.
func (s *Service) function(region, name string) (*function, *wire.Error) {
	short, qualifier, in := parseName(region, name)
	s.mu.Lock()
	f := s.functions[in+"/"+short]
	s.mu.Unlock()
	if f == nil || region != "" && in != region || qualifier != "" && qualifier != latest {
		return nil, &wire.Error{
			Status: http.StatusNotFound, Code: "ResourceNotFoundException",
			Message: "Function not found: " + name,
		}
	}
	return f, nil
}

// latest is the only version that a function here has.
const latest = "$LATEST"

// parseName takes apart the forms in which Lambda lets a function be named:
// name, name:qualifier, account:function:name and the whole ARN, each of the last
// two with a qualifier or without.
func parseName(region, name string) (short, qualifier, in string) {
	in = region
	parts := strings.Split(name, ":")
	if len(parts) >= 7 && parts[0] == "arn" {
		in, parts = parts[3], parts[6:]
	} else if len(parts) >= 3 && parts[1] == "function" {
		parts = parts[2:]
	}
	short = parts[0]
	if len(parts) > 1 {
		qualifier = parts[1]
	}
	return short, qualifier, in
}

// runtimeServer serves the Runtime API on a listener of its own: its requests are
// not signed, so the front door of the embedded AWS could not tell whose they are.
type runtimeServer struct {
	address string
	server  *http.Server
	done    chan struct{} // closed when Serve has returned
}

// serveRuntime opens the listener, on loopback only.
func (s *Service) serveRuntime() (*runtimeServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &runtimeServer{
		address: listener.Addr().String(),
		server:  &http.Server{Handler: s.RuntimeAPI(), ReadHeaderTimeout: time.Minute},
		done:    make(chan struct{}),
	}
	go func() {
		defer close(r.done)
		_ = r.server.Serve(listener) // it returns when close is called
	}()
	return r, nil
}

// close ends every connection; the requests that are under way are counted by the
// service like everything else.
func (r *runtimeServer) close() {
	_ = r.server.Close() // nothing is left to be answered
	<-r.done
}
