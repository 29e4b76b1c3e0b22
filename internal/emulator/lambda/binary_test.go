package lambda_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/lambda"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// folder is where TestMain lets the tests build.
var folder string

// build builds the function of testdata once for all tests.
var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(folder, "bootstrap")
	out, err := exec.Command("go", "build", "-o", path, "./testdata/function").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "expunge-lambda-*")
	if err != nil {
		panic(err)
	}
	folder = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // it is a temporary folder
	os.Exit(code)
}

// binary registers the built function.
func binary(t *testing.T, s *lambda.Service, change func(*lambda.Function)) {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	f := lambda.Function{Name: "f", Timeout: time.Minute, Binary: []string{path}}
	if change != nil {
		change(&f)
	}
	register(t, s, f)
}

func invoke(t *testing.T, s *lambda.Service, payload string) lambda.Result {
	t.Helper()
	r, err := s.Invoke(t.Context(), region, "f", []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// told is what the function says of itself.
type told struct {
	PID       int    `json:"pid"`
	RequestID string `json:"request_id"`
	ARN       string `json:"arn"`
	Trace     string `json:"trace"`
	Remaining int64  `json:"remaining_ms"`
	Extra     string `json:"extra"`
	Secret    bool   `json:"secret"`
	Filler    string `json:"filler"`
}

func tell(t *testing.T, r lambda.Result) told {
	t.Helper()
	var a told
	if r.FunctionError != "" {
		t.Fatalf("%s: %s", r.FunctionError, r.Payload)
	}
	if err := json.Unmarshal(r.Payload, &a); err != nil {
		t.Fatalf("%v in %s", err, r.Payload)
	}
	return a
}

// A binary gets what Lambda gives one, keeps its process between invocations, and
// sees nothing of this process's environment.
func TestBinaryAnswers(t *testing.T) {
	t.Setenv("EXPUNGE_TEST_SECRET", "of the developer")
	s := newService(t, wire.Wall{})
	binary(t, s, func(f *lambda.Function) { f.Env = []string{"EXTRA=given"} })
	first := invoke(t, s, `{}`)
	a := tell(t, first)
	if a.RequestID != first.RequestID || a.ARN != "arn:aws:lambda:eu-central-1:000000000000:function:f" ||
		!strings.Contains(a.Trace, "Lineage=") || a.Extra != "given" || a.Secret {
		t.Fatalf("got %+v", a)
	}
	if a.Remaining <= 0 || a.Remaining > time.Minute.Milliseconds() {
		t.Fatalf("%d ms remain of a minute", a.Remaining)
	}
	for range 3 {
		if again := tell(t, invoke(t, s, `{}`)); again.PID != a.PID {
			t.Fatalf("process %d, then %d", a.PID, again.PID)
		}
	}
	if p := problemOf(t, invoke(t, s, `{"do":"error"}`)); p.Message != "refused by the function" {
		t.Fatalf("got %+v", p)
	}
	if again := tell(t, invoke(t, s, `{}`)); again.PID != a.PID {
		t.Fatal("an error cost the process")
	}
	if pids := s.Processes(region, "f"); !slices.Equal(pids, []int{a.PID}) {
		t.Fatalf("processes %v, want %d", pids, a.PID)
	}
}

// SQ-14: a panic is reported in its own words and costs the process; the next
// invocation has a new one.
func TestBinaryPanics(t *testing.T) {
	s := newService(t, wire.Wall{})
	binary(t, s, func(f *lambda.Function) { f.Concurrency = 1 })
	before := tell(t, invoke(t, s, `{}`))
	if p := problemOf(t, invoke(t, s, `{"do":"panic"}`)); p.Message != "the function panicked" || p.Type != "string" {
		t.Fatalf("got %+v", p)
	}
	if after := tell(t, invoke(t, s, `{}`)); after.PID == before.PID {
		t.Fatal("the process survived a panic")
	}
}

// A process that ends is reported at once, with what it ended with, however long
// the timeout still is.
func TestBinaryExits(t *testing.T) {
	s := newService(t, wire.Wall{})
	binary(t, s, nil)
	for payload, want := range map[string]string{
		`{"do":"exit","size":3}`: "Runtime exited with error: exit status 3",
		`{"do":"exit"}`:          "Runtime exited without providing a reason",
	} {
		p := problemOf(t, invoke(t, s, payload))
		if p.Type != "Runtime.ExitError" || !strings.HasSuffix(p.Message, want) {
			t.Fatalf("%s: got %+v", payload, p)
		}
		tell(t, invoke(t, s, `{}`))
	}
}

// GO-03: SIGKILL in the middle of an invocation.
func TestBinaryKilled(t *testing.T) {
	s := newService(t, wire.Wall{})
	printed := newLines()
	s.Output = printed
	binary(t, s, nil)
	answered := make(chan lambda.Result, 1)
	go func() {
		r, err := s.Invoke(t.Context(), region, "f", []byte(`{"do":"wait"}`))
		if err != nil {
			t.Error(err)
		}
		answered <- r
	}()
	printed.await(t, "waiting")
	pids := s.Processes(region, "f")
	if len(pids) != 1 {
		t.Fatalf("processes %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p := problemOf(t, <-answered)
	if p.Type != "Runtime.ExitError" || !strings.HasSuffix(p.Message, "Runtime exited with error: signal: killed") {
		t.Fatalf("got %+v", p)
	}
	if a := tell(t, invoke(t, s, `{}`)); a.PID == pids[0] {
		t.Fatal("the dead answered")
	}
}

// An overrun kills the process, and the place is free again.
func TestBinaryOverruns(t *testing.T) {
	s := newService(t, wire.Wall{})
	binary(t, s, func(f *lambda.Function) { f.Timeout, f.Concurrency = 3*time.Second, 1 })
	before := tell(t, invoke(t, s, `{}`))
	p := problemOf(t, invoke(t, s, `{"do":"overrun"}`))
	if p.Type != "Sandbox.Timedout" || !strings.HasSuffix(p.Message, "Task timed out after 3.00 seconds") {
		t.Fatalf("got %+v", p)
	}
	if after := tell(t, invoke(t, s, `{}`)); after.PID == before.PID {
		t.Fatal("the process survived its overrun")
	}
	if err := syscall.Kill(before.PID, 0); err == nil {
		t.Fatal("the process that overran is still there")
	}
	if got := s.Metrics(region, "f"); got.Timeouts != 1 || got.Errors != 1 {
		t.Fatalf("got %+v", got)
	}
}

// Invocations that overlap have a process each, up to the reserved concurrency.
func TestBinaryConcurrency(t *testing.T) {
	s := newService(t, wire.Wall{})
	printed := newLines()
	s.Output = printed
	binary(t, s, func(f *lambda.Function) { f.Concurrency = 2 })
	results := make(chan lambda.Result, 2)
	for range 2 {
		go func() {
			r, err := s.Invoke(t.Context(), region, "f", []byte(`{"do":"wait"}`))
			if err != nil {
				t.Error(err)
			}
			results <- r
		}()
	}
	printed.await(t, "waiting")
	printed.await(t, "waiting")
	if pids := s.Processes(region, "f"); len(pids) != 2 {
		t.Fatalf("processes %v", pids)
	}
	if _, err := s.Invoke(t.Context(), region, "f", nil); err == nil {
		t.Fatal("a third invocation found a place")
	}
	for _, pid := range s.Processes(region, "f") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	problemOf(t, <-results)
	problemOf(t, <-results)
}

// Close kills what runs.
func TestBinaryClosed(t *testing.T) {
	s := newService(t, wire.Wall{})
	printed := newLines()
	s.Output = printed
	binary(t, s, nil)
	answered := make(chan error, 1)
	go func() {
		_, err := s.Invoke(t.Context(), region, "f", []byte(`{"do":"wait"}`))
		answered <- err
	}()
	printed.await(t, "waiting")
	pids := s.Processes(region, "f")
	s.Close()
	t.Log(<-answered) // that it was answered is enough
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// GO-01: a binary that can not start fails the invocation and is not started for
// ever.
func TestBinaryDoesNotStart(t *testing.T) {
	text := filepath.Join(t.TempDir(), "bootstrap")
	if err := os.WriteFile(text, []byte("\x7fELF of another machine"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, kind, message string
		change              func(*lambda.Function)
	}{
		{"it is not there", "Runtime.InvalidEntrypoint", "no such file", func(f *lambda.Function) { f.Binary = []string{text + "-missing"} }},
		{"it is for another machine", "Runtime.InvalidEntrypoint", "exec format error", func(f *lambda.Function) { f.Binary = []string{text} }},
		{"it dies at its start", "Runtime.ExitError", "exit status 7", func(f *lambda.Function) { f.Env = []string{"BROKEN=1"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, wire.Wall{})
			binary(t, s, c.change)
			for range 2 {
				if p := problemOf(t, invoke(t, s, `{}`)); p.Type != c.kind || !strings.Contains(p.Message, c.message) {
					t.Fatalf("got %+v", p)
				}
			}
		})
	}
}

// What a process prints is always taken, also when nobody wants it or the writer
// fails; a long answer is refused without an end of the process.
func TestBinaryOutput(t *testing.T) {
	for name, w := range map[string]io.Writer{"nobody": nil, "broken": broken{}} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, wire.Wall{})
			s.Output = w
			binary(t, s, nil)
			a := tell(t, invoke(t, s, `{"do":"print","size":1000000}`))
			if p := problemOf(t, invoke(t, s, `{"do":"fill","size":6300000}`)); p.Type != "Function.ResponseSizeTooLarge" {
				t.Fatalf("got %+v", p)
			}
			if again := tell(t, invoke(t, s, `{"do":"print","size":1000000}`)); again.PID != a.PID && name == "broken" {
				t.Log("the runtime gave up after the refusal, as it may")
			}
		})
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// The Runtime API refuses who does not keep to it.
func TestRuntimeRefuses(t *testing.T) {
	s := newService(t, wire.NewManual(start))
	register(t, s, lambda.Function{Name: "f", Handler: answering("", nil)})
	for path, status := range map[string]int{
		"/_runtime/eu-central-1/f/guess/2018-06-01/runtime/invocation/next": http.StatusForbidden,
		"/_runtime/eu-central-1/f/guess/2017-06-01/runtime/invocation/next": http.StatusNotFound,
		"/2018-06-01/runtime/invocation/next":                               http.StatusNotFound,
	} {
		w := &recorder{header: http.Header{}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		s.RuntimeAPI().ServeHTTP(w, r)
		if w.status != status {
			t.Errorf("%s: %d, want %d", path, w.status, status)
		}
	}
}

type recorder struct {
	header http.Header
	status int
	bytes.Buffer
}

func (r *recorder) Header() http.Header    { return r.header }
func (r *recorder) WriteHeader(status int) { r.status = status }

// lines collects what processes print.
type lines struct {
	mu      sync.Mutex
	text    string
	changed chan struct{}
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	close(l.changed)
	l.changed = make(chan struct{})
	return len(b), nil
}

// await takes one occurrence of want out of what was printed.
func (l *lines) await(t *testing.T, want string) {
	t.Helper()
	for {
		l.mu.Lock()
		before, after, found := strings.Cut(l.text, want)
		changed := l.changed
		if found {
			l.text = before + after
		}
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatalf("%q was not printed", want)
		}
	}
}
