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
	born   int
	steps  int
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
	// ends is when the platform ends it, wherever it stands. A process that was thawed
	// has none: it goes on after its time.
	ends   time.Duration
	dying  bool // it is ended at its next event
	dead   bool
	over   bool // its body has returned or was unwound
	yield  func(time.Duration) bool
	next   func() (time.Duration, bool)
	stop   func()
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
	p := &process{k: k, id: k.born, name: name, ends: forever, onDead: onDead}
	if limit > 0 {
		p.ends = k.now + limit
	}
	p.next, p.stop = iter.Pull(func(yield func(time.Duration) bool) {
		p.yield = yield
		defer func() {
			p.over = true
			if r := recover(); r != nil && r != any(killed{}) {
				panic(r)
			}
		}()
		body(p)
	})
	k.live = append(k.live, p)
	k.push(event{at: k.now, proc: p})
	return p
}

// resume lets the process run to its next stop.
func (p *process) resume() {
	if p.over || p.dead {
		return
	}
	if p.dying {
		p.kill()
		return
	}
	wait, more := p.next()
	switch {
	case p.dead: // it ended itself
		p.k.forget(p)
		p.onDead()
	case !more:
		p.k.forget(p)
	default:
		at := p.k.now + max(wait, 0)
		if at >= p.ends {
			at, p.dying = max(p.ends, p.k.now), true
		}
		p.k.push(event{at: at, proc: p})
	}
}

// wait stops the process for a while. A dead one never comes back from it.
func (p *process) wait(d time.Duration) {
	if p.dead || !p.yield(d) {
		p.dead = true
		panic(killed{})
	}
}

// crash ends the running process where it stands.
func (p *process) crash() {
	p.dead = true
	panic(killed{})
}

// kill ends a process that is stopped.
func (p *process) kill() {
	if p.over || p.dead {
		return
	}
	p.unwind()
	p.k.forget(p)
	p.onDead()
}

func (p *process) unwind() {
	p.dead = true
	if !p.over {
		p.stop()
	}
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
