package sim

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/queue"
)

// The names of every world.
const (
	region     = "eu-west-1"
	bucketName = "bucket"
	policyName = "files"
	root       = "files/"
)

// world is one region in which the real steps work on simulated services, while things
// go wrong.
type world struct {
	kernel
	setup
	mutant *Mutant
	epoch  time.Time // the instant at which it begins

	// What is there, past every fault: kernel, people and oracles look here.
	ledger   *ledger.Memory
	queue    queues
	store    buckets
	evidence *evidence.Memory
	// What the steps ask.
	rows  *ledgers
	mail  mail
	wares wares
	far   *adapters // nil for none

	// idle are the instances of each function that serve nobody.
	idle map[string][]*instance
	// working is how many workers of each mode are at work, polling when its queue is
	// looked at next.
	working map[job.Mode]int
	polling map[job.Mode]time.Duration
	answers int            // the most pages in an answer of an index, 0 for as many as are asked for
	waiting int            // invocations that are to be tried again
	owners  int            // claims so far
	held    int            // holds that were ordered
	cleared int            // how often people have cleared up
	refused []string       // the entries that the queue does not take from the batch under way
	denied  map[string]int // for how many more tries a key may not be deleted
	// barred is the service that no role may use before the instant.
	barred      *service
	barredUntil time.Duration
	// lostFrom and lostUntil are when the policies are lost from the ledger.
	lostFrom, lostUntil time.Duration
	// behindhand: nobody has looked at the schedule for two days.
	behindhand bool
	landing    *flight   // the delete that is taking effect
	ghosts     []*flight // deletes on their way whose senders do not wait for them
	nobody     bool      // what takes effect is nobody's any more
	listedKey  string    // of an object that was just listed
	// current is the policy version that is deployed; released: it is the next release's.
	current  policy.Policy
	released bool

	// faulty: the safety phase, in which things go wrong.
	faulty bool
	// calm is since when nothing goes wrong any more, zero before.
	calm   time.Time
	hits   Hits
	script []Strike
	calls  int
	struck int
	// asked and could are the faults that could happen after the last of the script.
	asked    map[Strike]bool
	could    []Strike
	oracles  *judges
	deaf     []string // oracles that find nothing
	told     moment   // the last
	truth    *truth
	rewrites int // writes of rows that changed them
	broken   *Violation

	hash  uint64
	trace io.Writer
}

// hashStart and hashPrime are those of FNV-1a.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

func newWorld(seed uint64, lib *library, o Options) *world {
	w := &world{
		kernel: kernel{chance: newChance(seed), threads: &lib.threads}, mutant: o.Mutant, script: o.Script, trace: o.Trace, hash: hashStart, faulty: true,
		idle: map[string][]*instance{}, working: map[job.Mode]int{}, polling: map[job.Mode]time.Duration{}, denied: map[string]int{},
		oracles: lib.oracles, deaf: o.deaf,
	}
	w.chance.flat, w.asked = o.Script != nil, map[Strike]bool{}
	w.setup = drawSetup(seed, &w.chance, lib, o.Script != nil)
	w.epoch, w.current = w.begins, w.policy
	if o.Script == nil && seed%4 == 1 {
		w.answers = 2
	}
	w.behindhand = o.Script == nil && seed%8 == 3
	w.truth = newTruth(w)
	w.ledger, w.evidence = ledger.NewMemory(), &evidence.Memory{}
	w.rows = ledgersOf(w.ledger)
	if o.adapters == nil {
		w.build()
	} else {
		w.far = o.adapters(w)
		w.queue, w.store = w.far.queue, w.far.store
	}
	w.furnish()
	return w
}

// build makes the fakes of the queues and of the store.
func (w *world) build() {
	q := queue.NewMemory(w.clock, queue.Settings{
		Visibility: w.settings.Visibility(), Retention: w.settings.SourceRetention, LetterRetention: w.settings.DeadLetterRetention,
		MaxReceives: w.settings.MaxReceives,
	})
	q.Reject = w.refusesEntry
	w.queue, w.mail = queues{q, q, q}, mail{q, q}
	s := artifact.NewMemory(w.clock)
	s.PageSize, s.KeyFault, s.OnEffect = w.listed, w.keyFault, w.effect
	w.store, w.wares = buckets{s, s}, wares{s, s}
}

// furnish puts what is there before anything happens.
func (w *world) furnish() {
	ctx := context.Background()
	sure(w.store.CreateBucket(bucketName, w.versioned))
	for _, o := range w.objects {
		_, err := w.store.Put(bucketName, o)
		sure(err)
	}
	w.record(ctx, w.rows)
	if w.far != nil {
		w.record(ctx, w.far.ledger)
	}
}

// record writes what the ledger says before anything happens.
func (w *world) record(ctx context.Context, l *ledgers) {
	w.furnishPolicy(ctx, l, w.policy, w.watched, w.approved)
	w.furnishRare(ctx, l)
}

// sure panics on an error that a world can not have.
func sure(err error) {
	if err != nil {
		panic("sim: " + err.Error())
	}
}

// clock is the true time.
func (w *world) clock() time.Time { return w.epoch.Add(w.now) }

// strikes says whether a kind of fault happens here and now.
func (w *world) strikes(f Fault) bool {
	if f == faults || !w.faulty {
		return false
	}
	if w.script != nil {
		return w.scripted(f)
	}
	if rate := w.rates[f]; rate == 0 || w.chance.n(1024) >= rate {
		return false
	}
	w.hit(f)
	return true
}

// scripted says whether the script has this kind here, and notes what could be added to
// its end.
func (w *world) scripted(f Fault) bool {
	here := Strike{w.calls, f}
	if w.struck == len(w.script) {
		if scriptable[f] && !w.asked[here] {
			w.asked[here] = true
			w.could = append(w.could, here)
		}
		return false
	}
	if w.script[w.struck] != here {
		return false
	}
	w.struck++
	w.hit(f)
	return true
}

// hit counts a kind that happened.
func (w *world) hit(f Fault) {
	w.hits[f]++
	w.mix(faultNames[f], 0)
}

// mix adds something that happened to the hash of the trace.
func (w *world) mix(what string, by int) {
	h := (w.hash ^ uint64(w.now)) * hashPrime //nolint:gosec // any bits do
	h = (h ^ uint64(by)) * hashPrime          //nolint:gosec // any bits do
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * hashPrime
	}
	w.hash = h
}

// log writes a line of the trace, and adds it to the hash.
func (w *world) log(p *process, op, what string) {
	w.mix(what, len(op))
	if w.trace == nil {
		return
	}
	who := "-"
	if p != nil {
		who = fmt.Sprintf("%s#%d", p.name, p.id)
	}
	_, _ = fmt.Fprintf(w.trace, "%s %-14s %-20s %s\n", w.clock().Format("15:04:05.000"), who, op, what) // a trace that can not be written is not worth a failure
}
