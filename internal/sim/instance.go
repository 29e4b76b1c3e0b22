package sim

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// instance is one copy of a function that serves one invocation after the other, as
// Lambda keeps them: what a step remembers in a process lives as long as it does. It
// is what a step is given in place of a clock, chance, a log and AWS.
type instance struct {
	*world
	function string
	// p is the invocation under way. Each call of the step stops it.
	p *process
	// skew is how far its clock is from the true one.
	skew time.Duration
	// old: it runs the code of before the release.
	old bool
	// began is when the invocation did, owner the name of its last claim.
	began time.Time
	owner string
	steps *steps
}

// alive panics where the invocation is dead: what a step still does while it unwinds
// has no effect.
func (i *instance) alive() {
	if i.p.dead {
		panic(killed{})
	}
}

// Now is the instance's own idea of the time.
func (i *instance) Now() time.Time {
	i.alive()
	return i.clock().Add(i.skew)
}

// Sleep stops the invocation for d.
func (i *instance) Sleep(_ context.Context, d time.Duration) error {
	i.alive()
	i.p.wait(d)
	return nil
}

// newOwner returns a name that no other claim has.
func (i *instance) newOwner() string {
	i.alive()
	i.owners++
	i.owner = "owner-" + strconv.Itoa(i.owners)
	return i.owner
}

// jitter returns a duration in [0, limit).
func (i *instance) jitter(limit time.Duration) time.Duration {
	i.alive()
	if limit < time.Millisecond {
		return 0
	}
	return time.Duration(i.chance.n(int(min(limit, time.Hour)/time.Millisecond))) * time.Millisecond
}

// Emit takes an event.
func (i *instance) Emit(e audit.Event) {
	i.alive()
	i.tell(moment{at: i.clock(), kind: emitted, event: e, by: i})
}

// Measure takes a measurement.
func (i *instance) Measure(m audit.Measurement) {
	i.alive()
	i.tell(moment{at: i.clock(), kind: measured, gauge: m, by: i})
}

// service is where a call goes, and what may become of it there.
type service struct {
	name string
	// The kinds that strike a call of this service; faults stands for none.
	throttled, lost, unsure, late, retried, busy, unread Fault
}

// What may become of the calls of each service.
var (
	ledgerCalls = service{"ledger", LedgerThrottled, LedgerLost, LedgerUnsure, LedgerLate, LedgerRetried, LedgerBusy, LedgerUnread}
	sendCalls   = service{"queue", faults, SendLost, SendUnsure, faults, faults, faults, faults}
	letterCalls = service{"letters", faults, LetterLost, LetterUnsure, faults, faults, faults, LettersUnread}
	delayCalls  = service{"delay", faults, DelayLost, faults, faults, faults, faults, faults}
	storeCalls  = service{"store", StoreThrottled, StoreLost, faults, faults, faults, faults, StoreLost}
	proofCalls  = service{"evidence", faults, EvidenceLost, EvidenceUnsure, faults, faults, faults, EvidenceUnread}
	asyncCalls  = service{"lambda", faults, InvokeLost, faults, faults, faults, faults, faults}
)

// clientTimeout is how long a caller waits for an answer that does not come.
const clientTimeout = 5 * time.Second

// begin is the way of every call to its service: it takes time, in which others act,
// and its sender may die.
func (i *instance) begin(op string, writes bool) {
	i.alive()
	if i.script == nil || i.function != "reconcile" { // whose passes would be most of a script's calls
		i.calls++
	}
	if i.script != nil {
		i.stage()
	} else {
		i.meddle()
	}
	i.p.wait(i.latency(writes))
	i.mix(op, i.p.id)
}

// meddle lets somebody act while the invocation is between two of its calls: most
// mistakes need a neighbour in just these milliseconds.
func (i *instance) meddle() {
	if !i.faulty || i.meddlers == 0 || i.function == "reconcile" || i.chance.n(1024) >= i.meddling {
		return
	}
	i.meddlers--
	switch i.chance.n(4) {
	case 0:
		i.at(i.chance.within(0, 100*time.Millisecond), i.act)
	case 1:
		i.at(i.chance.within(0, 40*time.Millisecond), i.order)
	case 2:
		i.at(i.chance.within(0, 40*time.Millisecond), i.placeHold)
	default:
		i.at(i.chance.within(0, 100*time.Millisecond), func() { i.change(pick(&i.chance, []Fault{Replaced, Twin, Removed, Locked})) })
	}
}

// stage lets the script's neighbours act beside a call of a worker.
func (i *instance) stage() {
	if i.function != string(job.Enforce) {
		return
	}
	for _, f := range []Fault{HoldPlaced, Replaced, Twin} {
		switch first := i.objects[0]; {
		case !i.strikes(f):
		case f == HoldPlaced:
			i.placeHold()
		case f == Replaced:
			i.upload(f, job.Item{Key: first.Key, ETag: "other", Size: 3})
		default:
			i.upload(f, job.Item{Key: first.Key, ETag: first.ETag, Size: first.Size})
		}
	}
}

// barredFrom reports whether the instance's role has lost its permission to a service.
func (w *world) barredFrom(s *service) bool {
	return w.faulty && w.barred != nil && w.barred == s && w.now < w.barredUntil
}

// latency is how long a call is on its way. A script lets a process stand still before
// its writes only: what it knows is oldest there.
func (i *instance) latency(writes bool) time.Duration {
	switch {
	case i.script != nil && !writes:
		return i.chance.within(time.Millisecond, 40*time.Millisecond)
	case i.p.ends != forever && i.strikes(Thawed):
		// The platform stopped it and starts it again: its time has passed, and it does not know.
		i.p.ends = forever
		return i.chance.within(30*time.Second, 20*time.Minute)
	case i.strikes(Stall):
		return i.chance.within(5*time.Second, 75*time.Second)
	default:
		return i.chance.within(time.Millisecond, 40*time.Millisecond)
	}
}

// write is a call that changes something. effect performs it and returns its natural
// answer; send asks the client for it, where there is one.
func (i *instance) write(ctx context.Context, s *service, op string, effect func() error, send func(context.Context) error) error {
	i.begin(op, true)
	if i.strikes(CrashBefore) {
		i.log(i.p, op, "dies before")
		i.p.crash()
	}
	if i.far != nil && send != nil {
		return i.dispatch(ctx, s, op, send, effect)
	}
	switch {
	case i.barredFrom(s):
		i.log(i.p, op, "forbidden")
		return failure.New(failure.Forbidden, op, "not allowed")
	case i.strikes(s.throttled):
		i.log(i.p, op, "throttled")
		return failure.New(failure.Throttled, op, "slow down")
	case i.strikes(s.busy):
		i.log(i.p, op, "conflicts")
		return failure.New(failure.Conflict, op, "another transaction is under way")
	case i.strikes(s.lost):
		i.log(i.p, op, "lost")
		i.p.wait(clientTimeout)
		return failure.New(failure.Network, op, "no answer")
	case i.strikes(s.late):
		i.log(i.p, op, "will land later")
		i.later(op, i.chance.within(0, 30*time.Second), effect)
		i.p.wait(clientTimeout)
		return failure.New(failure.Network, op, "no answer")
	}
	err := effect()
	switch {
	case i.strikes(CrashAfter):
		i.log(i.p, op, "dies after")
		i.p.crash()
	case i.strikes(s.unsure):
		i.log(i.p, op, "answer lost")
		i.p.wait(clientTimeout)
		return failure.New(failure.Network, op, "no answer")
	case i.strikes(s.retried):
		err = effect()
		i.log(i.p, op, "sent twice: "+outcome(err))
		return err
	}
	i.log(i.p, op, outcome(err))
	return err
}

// later lets a write land that its sender has given up.
func (w *world) later(op string, d time.Duration, effect func() error) {
	w.at(d, func() {
		w.nobody = true // whoever sent it may serve another invocation by now
		err := effect()
		w.nobody = false
		w.log(nil, op, "lands late: "+outcome(err))
	})
}

// read is a call that changes nothing. ask asks the client, where there is one.
func read[T any](ctx context.Context, i *instance, s *service, op string, get func() (T, error), ask func(context.Context) (T, error)) (answer T, err error) {
	i.begin(op, false)
	if i.script == nil && i.strikes(CrashBefore) { // a script ends it at the write that follows
		i.log(i.p, op, "dies before")
		i.p.crash()
	}
	if i.far != nil {
		if !s.mirrored() {
			get = nil
		}
		return inquire(ctx, i, s, op, &exchange{}, get, ask)
	}
	switch {
	case i.barredFrom(s):
		i.log(i.p, op, "forbidden")
		return answer, failure.New(failure.Forbidden, op, "not allowed")
	case i.strikes(s.unread):
		i.log(i.p, op, "unread")
		i.p.wait(clientTimeout)
		return answer, failure.New(failure.Network, op, "no answer")
	}
	answer, err = get()
	i.log(i.p, op, outcome(err))
	return answer, err
}

// outcome is the word for an answer in a trace.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return string(failure.Of(err))
}
