package lambda

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// pool holds a binary's execution environments: processes that each run one
// invocation at a time and are used again.
//
//	starting --next--> idle --invocation--> busy --answer--> returning --next--> idle
//	    any of them --the process ends, or is killed--> gone
//
// An invocation waits in pending for an environment. A process is started when
// more invocations wait than environments are free or about to be.
type pool struct {
	function *function

	mu      sync.Mutex
	closed  bool
	pending []*invocation
	all     map[string]*environment
}

// state is what an environment does.
type state int

const (
	starting  state = iota // it has not asked for work yet
	idle                   // it waits for work
	busy                   // it has an invocation
	returning              // it has answered, and has not asked for more
)

// environment is one process.
type environment struct {
	pool    *pool
	token   string
	command *exec.Cmd
	gone    chan struct{} // closed when the process has ended

	// Guarded by the pool's lock.
	state   state
	current *invocation
	work    chan *invocation // hands an invocation to a waiting next
	initial []byte           // what it said of a failed start
}

// initLimit is how long Lambda lets an environment start.
const initLimit = 10 * time.Second

// run gives an invocation to an environment and waits for the result.
func (p *pool) run(i *invocation) Result {
	f := p.function
	if !p.submit(i) {
		return i.failed("Runtime.ExitError", "the service is closed")
	}
	// An environment that does not start in its time is started again under the
	// function's own timeout; here it is simply given both.
	limit := initLimit + f.Timeout
	select {
	case r := <-i.result:
		return r
	case <-i.taken:
		limit = f.Timeout
	case <-f.service.clock.After(limit):
		return p.overrun(i, limit)
	}
	select {
	case r := <-i.result:
		return r
	case <-f.service.clock.After(limit):
		return p.overrun(i, limit)
	}
}

// overrun kills the environment that has the invocation. A result that comes at
// the very last moment counts.
func (p *pool) overrun(i *invocation, after time.Duration) Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case r := <-i.result:
		return r
	default:
	}
	p.function.count(func(m *Metrics) { m.Timeouts++ })
	if n := slices.Index(p.pending, i); n >= 0 {
		p.pending = slices.Delete(p.pending, n, n+1)
	}
	for _, e := range p.all {
		if e.current == i {
			e.current = nil
			e.kill()
		}
	}
	return i.timedOut(after)
}

// submit finds an environment for an invocation, or lets it wait for one.
func (p *pool) submit(i *invocation) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	for _, e := range p.all {
		if e.state == idle {
			e.take(i)
			return true
		}
	}
	p.pending = append(p.pending, i)
	p.balance()
	return true
}

// take makes the invocation the environment's. The caller holds the lock.
func (e *environment) take(i *invocation) {
	e.state, e.current = busy, i
	e.work <- i // it holds one, and an environment that is not busy has none
	close(i.taken)
}

// balance starts the environments that the waiting invocations need. The caller
// holds the lock.
func (p *pool) balance() {
	free := 0
	for _, e := range p.all {
		if e.state != busy {
			free++
		}
	}
	for !p.closed && free < len(p.pending) && len(p.all) < p.function.Concurrency {
		if err := p.start(); err != nil {
			i := p.pending[0]
			p.pending = p.pending[1:]
			i.answer(i.failed("Runtime.InvalidEntrypoint", err.Error()))
			continue
		}
		free++
	}
}

// start starts a process. The caller holds the lock.
func (p *pool) start() error {
	f := p.function
	e := &environment{
		pool: p, token: random(16), gone: make(chan struct{}), work: make(chan *invocation, 1),
	}
	// The program is the one that was registered.
	e.command = exec.Command(f.Binary[0], f.Binary[1:]...) //nolint:gosec // G204: running it is the purpose
	e.command.Env = append(f.environ(e.token), f.Env...)
	e.command.Stdout, e.command.Stderr = f.service.printer(), f.service.printer()
	// A grandchild that keeps the pipes open must not keep the environment.
	e.command.WaitDelay = time.Second
	f.service.enlist(e)
	if err := e.command.Start(); err != nil {
		f.service.discharge(e)
		return err
	}
	p.all[e.token] = e
	f.service.running.Go(e.reap) // whoever starts it is waited for by Close as well
	return nil
}

// environ is what Lambda sets for a function's process. Keys and shared files of
// the machine's user are kept out of it: the credentials are made up.
func (f *function) environ(token string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"TMPDIR=" + os.TempDir(),
		"LANG=en_US.UTF-8",
		"TZ=:UTC",
		"AWS_LAMBDA_RUNTIME_API=" + f.service.runtime.address + "/_runtime/" + f.Region + "/" + f.Name + "/" + token,
		"AWS_LAMBDA_FUNCTION_NAME=" + f.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=" + latest,
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128",
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_REGION=" + f.Region,
		"AWS_DEFAULT_REGION=" + f.Region,
		"AWS_ACCESS_KEY_ID=embedded",
		"AWS_SECRET_ACCESS_KEY=embedded",
		"AWS_SESSION_TOKEN=embedded",
		"_HANDLER=bootstrap",
	}
}

// kill sends SIGKILL to the process, and to no other: the handle is the one that
// start gave, and it knows when the process has been waited for.
func (e *environment) kill() { _ = e.command.Process.Kill() } // an error says that it is dead already

// reap waits for the process to end and settles what it leaves behind.
func (e *environment) reap() {
	ended := e.command.Wait()
	e.pool.function.service.discharge(e)
	close(e.gone)
	p := e.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, e.token)
	i := e.current
	if i == nil && e.state == starting && len(p.pending) > 0 {
		// One that dies at its start takes an invocation with it; otherwise a broken
		// binary would be started for ever.
		i, p.pending = p.pending[0], p.pending[1:]
	}
	if i != nil {
		i.answer(e.epitaph(i, ended))
	}
	p.balance()
}

// epitaph is the result of an invocation whose process is gone.
func (e *environment) epitaph(i *invocation, ended error) Result {
	if e.initial != nil {
		return Result{FunctionError: unhandled, Payload: e.initial}
	}
	var status *exec.ExitError
	if errors.As(ended, &status) {
		return i.failed("Runtime.ExitError", "Runtime exited with error: "+status.ProcessState.String())
	}
	return i.failed("Runtime.ExitError", "Runtime exited without providing a reason")
}

// kill ends every process and starts no more.
func (p *pool) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, e := range p.all {
		e.kill()
	}
	for _, i := range p.pending {
		i.answer(i.failed("Runtime.ExitError", "the service is closed"))
	}
	p.pending = nil
}

// processes lists the live process ids.
func (p *pool) processes() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pids []int
	for _, e := range p.all {
		pids = append(pids, e.command.Process.Pid)
	}
	slices.Sort(pids)
	return pids
}

// next waits for work for the environment. The second result is false when it
// asks out of turn, and the invocation nil when there will be none.
func (e *environment) next(ctx context.Context) (*invocation, bool) {
	p := e.pool
	p.mu.Lock()
	if e.state == busy || e.state == idle {
		p.mu.Unlock()
		return nil, false
	}
	e.state = idle
	if len(p.pending) > 0 {
		i := p.pending[0]
		p.pending = p.pending[1:]
		e.take(i)
	}
	p.mu.Unlock()
	select {
	case i := <-e.work:
		return i, true
	case <-e.gone:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.state == idle {
		e.state = returning // nobody waits any more
	}
	return nil, true
}

// finish answers the environment's invocation, if it is the one that is named.
func (e *environment) finish(id string, r Result) bool {
	p := e.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.state != busy || e.current == nil || e.current.id != id {
		return false
	}
	e.current.answer(r)
	e.state, e.current = returning, nil
	return true
}

// enlist makes an environment known to the Runtime API.
func (s *Service) enlist(e *environment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.environments[e.token] = e
}

// discharge forgets it.
func (s *Service) discharge(e *environment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.environments, e.token)
}

// printer is where a process's output goes. All of it is always taken: an error
// or a short write would stop the copying, and then the process would block.
func (s *Service) printer() io.Writer {
	if s.Output == nil {
		return nil // os/exec discards it without a pipe
	}
	return &printer{service: s}
}

type printer struct{ service *Service }

func (p *printer) Write(b []byte) (int, error) {
	p.service.printing.Lock()
	defer p.service.printing.Unlock()
	_, _ = p.service.Output.Write(b) // what it does not take is lost
	return len(b), nil
}
