package sim

import (
	"context"
	"io"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// Options say how a world is played.
type Options struct {
	// Mutant, when set, breaks a step on purpose.
	Mutant *Mutant
	// Script, when not nil, takes the place of chance: exactly these faults happen.
	Script []Strike
	// deaf are the oracles that find nothing, for those that they are always ahead of.
	deaf []string
	// Trace, when set, is told every call in words.
	Trace io.Writer

	// adapters, when set, puts the product's clients between the steps and the services.
	// Tests have them: what stands behind is the embedded AWS, which is theirs.
	adapters func(*world) *adapters
}

// Strike is a fault that happens at a call, counted from 1.
type Strike struct {
	Call  int
	Fault Fault
}

// Result is what became of a world.
type Result struct {
	Seed uint64
	// Hash stands for everything that happened: the same seed has the same.
	Hash      uint64
	Violation *Violation // nil for none
	Hits      Hits
	// Calls of the steps, Deletes that took effect, Resumes of an open intent, Answers
	// about holds, and Twins: deletes of equal bytes that were uploaded again (F5).
	Calls, Deletes, Resumes, Answers, Twins int
	// Could are the faults that could have happened after the last of the script.
	Could []Strike
}

// Player plays worlds one after the other. Two must not share one.
type Player struct{ lib *library }

// NewPlayer returns a player.
func NewPlayer() *Player { return &Player{newLibrary()} }

// Close ends what the player keeps between worlds.
func (p *Player) Close() { p.lib.threads.close() }

// Play plays the world of a seed to its end, or to its first violation.
func (p *Player) Play(seed uint64, o Options) Result {
	w := newWorld(seed, p.lib, o)
	defer w.close()
	w.begin()
	w.run(w.safety, w.isBroken)
	w.converge()
	if w.broken == nil {
		w.tell(moment{kind: worldEnded})
	}
	return Result{
		Seed: seed, Hash: w.hash, Violation: w.broken, Hits: w.hits, Calls: w.calls, Deletes: w.truth.deletes, Resumes: w.truth.resumes,
		Answers: w.truth.held, Twins: w.truth.twins, Could: w.could,
	}
}

func (w *world) isBroken() bool { return w.broken != nil }

// begin enters everything that is planned.
func (w *world) begin() {
	w.cycle()
	w.schedule()
	if w.script != nil {
		return
	}
	for range w.chance.n(10) {
		w.at(w.chance.within(0, w.safety), w.act)
	}
	for range w.chance.n(8) {
		w.at(w.chance.within(0, w.safety), w.order)
	}
	for at := 25 * time.Minute; at < w.safety; at += 25 * time.Minute {
		w.at(at, w.decide)
		if w.chance.one(2) {
			w.at(at, func() { w.redriveAll(false) })
		}
	}
	if w.releasing {
		w.at(w.chance.within(0, w.safety), w.newRelease)
	}
	w.beginRare()
}

// cycle lets reconcile pass, again and again.
func (w *world) cycle() {
	w.invoke("reconcile", nil)
	w.at(w.settings.ReconcileEvery, w.cycle)
}

// schedule fires the date, as the scheduler does it or fails to.
func (w *world) schedule() {
	at := w.scheduled.Sub(w.epoch)
	fire := func() { w.invoke("enqueue", tick(policyName, w.scheduled)) }
	switch {
	case w.skipped:
		w.hit(SkippedDate)
		return
	case w.strikes(TickNever):
		return
	case w.strikes(TickLate):
		at += w.chance.within(time.Minute, 30*time.Minute)
	}
	w.at(at, fire)
	if w.strikes(TickTwice) {
		w.at(at+w.chance.within(0, 2*time.Second), fire)
	}
}

// newRelease deploys the next release: it has another version of the policy, which
// reconcile and the next tick publish.
func (w *world) newRelease() {
	w.hit(Superseded)
	w.released, w.current = true, w.next
	clear(w.idle)
}

// The liveness phase: nothing goes wrong any more, and people clear up.
const (
	// clearEvery is how often somebody looks after what waits for a person.
	clearEvery = 20 * time.Minute
	// convergeWithin is how long it may take until every run has ended: an age ceiling of
	// a day, and what redrives and discards take after it.
	convergeWithin = 30 * time.Hour
)

// converge lets the world come to rest. Holds are asked about at last, for an answer
// must stay true.
func (w *world) converge() {
	w.faulty, w.calm = false, w.clock()
	for end := w.now + convergeWithin; w.now < end && w.broken == nil; {
		if w.rests() {
			w.askHolds()
			if w.run(w.now+time.Minute, w.isBroken); w.rests() {
				return
			}
		}
		w.clearUp()
		w.run(w.now+clearEvery, w.isBroken)
	}
}

// rests reports whether nobody waits for anything and the date was looked at.
func (w *world) rests() bool {
	if w.waiting > 0 {
		return false
	}
	for _, d := range w.dues() {
		_, ran := w.truth.runs[job.ScheduledRunID(region, d.policy, d.scheduled)]
		looked := max(w.safety, d.scheduled.Sub(w.epoch)+w.settings.MissedAfter) + 30*time.Minute // two passes after both
		if !ran && w.now < looked {
			return false
		}
	}
	for _, r := range w.truth.redrives {
		if r.Open() {
			return false
		}
	}
	for _, run := range w.truth.runs {
		if run.Open() || run.State == job.AwaitingApproval {
			return false
		}
	}
	return true
}

// clearUp is what people do once the trouble is over.
func (w *world) clearUp() {
	brakes, err := w.ledger.Brakes(context.Background())
	sure(err)
	for _, b := range brakes {
		w.release(b.Policy)
	}
	sure(w.store.Allow(bucketName))
	w.decide()
	w.wake(job.Enforce)
	w.wake(job.ReportOnly)
	w.cleared++
	if w.cleared%4 == 0 {
		w.discard()
	} else {
		w.redriveAll(true)
	}
}
