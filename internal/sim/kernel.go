package sim

import (
	"iter"
	"time"
)

// kernel is a discrete-event machine with a clock of its own. Every process is a
// coroutine: exactly one runs at a time, and only when the kernel resumes it, so
// the order in which events were entered and the seed fix the whole interleaving.
type kernel struct {
	now    time.Duration // since the world began
	chance chance
	heap   []event
	seq    uint64
	live   []*process
	// threads are the player's, and outlive the world.
	threads *threads
	born    int
	steps   int
}

// event is a process that goes on, or something that happens.
type event struct {
	at   time.Duration
	tie  uint32 // drawn, so that what falls on one instant comes in any order
	seq  uint64
	proc *process
	do   func()
}

func (e *event) before(o *event) bool {
	switch {
	case e.at != o.at:
		return e.at < o.at
	case e.tie != o.tie:
		return e.tie < o.tie
	default:
		return e.seq < o.seq
	}
}

// at lets something happen after d.
func (k *kernel) at(d time.Duration, do func()) {
	k.push(event{at: k.now + max(d, 0), do: do})
}

func (k *kernel) push(e event) {
	k.seq++
	e.seq, e.tie = k.seq, uint32(k.chance.n(4)) //nolint:gosec // below 4
	k.heap = append(k.heap, e)
	for i := len(k.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !k.heap[i].before(&k.heap[parent]) {
			return
		}
		k.heap[i], k.heap[parent] = k.heap[parent], k.heap[i]
		i = parent
	}
}

func (k *kernel) pop() event {
	first, last := k.heap[0], len(k.heap)-1
	k.heap[0], k.heap[last] = k.heap[last], event{}
	k.heap = k.heap[:last]
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			return first
		}
		if right := least + 1; right < last && k.heap[right].before(&k.heap[least]) {
			least = right
		}
		if !k.heap[least].before(&k.heap[i]) {
			return first
		}
		k.heap[i], k.heap[least] = k.heap[least], k.heap[i]
		i = least
	}
}

// run lets everything happen that is due until the instant, or until stop says so.
func (k *kernel) run(until time.Duration, stop func() bool) {
	for len(k.heap) > 0 && k.heap[0].at <= until && !stop() {
		e := k.pop()
		k.now = e.at
		k.steps++
		if e.do != nil {
			e.do()
		} else {
			e.proc.resume()
		}
	}
	if len(k.heap) == 0 || k.heap[0].at > until {
		k.now = max(k.now, until)
	}
}

// close ends every process, so that no coroutine outlives its world.
func (k *kernel) close() {
	for _, p := range k.live {
		p.unwind()
	}
	k.live, k.heap = nil, nil
}

// process is one invocation. It stops at each of its calls, and may be ended there.
type process struct {
	k    *kernel
	id   int
	name string
	on   *thread
	// ends is when the platform ends it, wherever it stands. A process that was thawed
	// has none: it goes on after its time.
	ends   time.Duration
	dying  bool // it is ended at its next event
	dead   bool
	over   bool // its body has returned or was unwound
	body   func(*process)
	onDead func()
}

// forever is the end of a process that has none.
const forever = time.Duration(1<<63 - 1)

// killed unwinds a process. Whatever its deferred calls still ask for panics again,
// so that they have no effect.
type killed struct{}

// spawn starts a process, which is ended after limit. onDead is told when it did not
// return.
func (k *kernel) spawn(name string, limit time.Duration, body func(p *process), onDead func()) *process {
	k.born++
	p := &process{k: k, id: k.born, name: name, ends: forever, body: body, onDead: onDead}
	if limit > 0 {
		p.ends = k.now + limit
	}
	k.live = append(k.live, p)
	k.push(event{at: k.now, proc: p})
	return p
}

// resume lets the process run to its next stop.
func (p *process) resume() {
	if p.over {
		return
	}
	if p.dying {
		p.dead = true
	}
	if p.on == nil {
		p.on = p.k.threads.take(p)
	}
	wait, _ := p.on.next()
	if !p.over {
		at := p.k.now + max(wait, 0)
		if at >= p.ends {
			at, p.dying = max(p.ends, p.k.now), true
		}
		p.k.push(event{at: at, proc: p})
		return
	}
	p.k.threads.give(p.on)
	p.k.forget(p)
	if p.dead {
		p.onDead()
	}
}

// wait stops the process for a while. A dead one never comes back from it.
func (p *process) wait(d time.Duration) {
	if !p.dead && p.on.yield(d) && !p.dead {
		return
	}
	p.crash()
}

// crash ends the running process where it stands.
func (p *process) crash() {
	p.dead = true
	panic(killed{})
}

// unwind ends a process that is stopped, and tells nobody.
func (p *process) unwind() {
	if p.dead = true; p.on != nil && !p.over {
		_, _ = p.on.next()
		p.k.threads.give(p.on)
	}
}

// run is the process on its thread. What it panics with, but for its own end, is told
// to whoever resumed it.
func (p *process) run() {
	defer func() {
		p.over = true
		if r := recover(); r != nil && r != any(killed{}) {
			panic(r)
		}
	}()
	p.body(p)
}

// threads are coroutines at rest. A process takes one and gives it back with the stack
// that it has grown.
type threads struct{ idle []*thread }

type thread struct {
	proc  *process
	next  func() (time.Duration, bool)
	stop  func()
	yield func(time.Duration) bool
}

func (t *threads) take(p *process) *thread {
	if last := len(t.idle) - 1; last >= 0 {
		on := t.idle[last]
		t.idle = t.idle[:last]
		on.proc = p
		return on
	}
	on := &thread{proc: p}
	on.next, on.stop = iter.Pull(func(yield func(time.Duration) bool) {
		on.yield = yield
		for on.proc.run(); yield(0); on.proc.run() {
		}
	})
	return on
}

func (t *threads) give(on *thread) {
	on.proc = nil
	t.idle = append(t.idle, on)
}

// close ends the coroutines.
func (t *threads) close() {
	for _, on := range t.idle {
		on.stop()
	}
	t.idle = nil
}

func (k *kernel) forget(p *process) {
	for i, o := range k.live {
		if o == p {
			last := len(k.live) - 1
			k.live[i], k.live[last] = k.live[last], nil
			k.live = k.live[:last]
			return
		}
	}
}
