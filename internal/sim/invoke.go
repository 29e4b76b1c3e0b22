package sim

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/reconcile"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/worker"
)

// code is the version that the steps write into evidence.
const code = "sim"

// steps are the product's own, on one instance. Only what its function needs is made.
type steps struct {
	enqueue   *enqueue.Enqueuer
	worker    *worker.Worker
	redrive   *redrive.Redriver
	reconcile *reconcile.Reconciler
	hold      *hold.Keeper
}

// The parts of a step's configuration that a mutant may put others in place of. They
// are what the packages of the functions wire.

func (i *instance) worker(mode job.Mode) *worker.Worker {
	l := ledgerView{i}
	c := worker.Config{
		Records: ledger.Pin(l), Writes: l, Holds: l, Artifacts: storeView{i}, Evidence: evidenceView{i}, Letters: queueView{i}, Audit: i.counted(contract.ServiceWorker), Clock: i,
		Settings: i.settings, Region: region, Mode: mode, Code: code, NewOwner: i.newOwner, Jitter: i.jitter,
	}
	if i.mutant != nil && i.mutant.Worker != nil {
		i.mutant.Worker(&c, i)
	}
	w, err := worker.New(c)
	sure(err)
	return w
}

func (i *instance) enqueuer() *enqueue.Enqueuer {
	l := ledgerView{i}
	c := enqueue.Config{
		Runs: l, Pages: l, Policies: l, Approvals: l, Lister: storeView{i}, Sender: queueView{i}, Audit: i.counted(contract.ServiceEnqueue), Clock: i, Settings: i.settings,
		Region: region, Deployed: i.deployed(), Code: code,
	}
	if i.mutant != nil && i.mutant.Enqueue != nil {
		i.mutant.Enqueue(&c, i)
	}
	e, err := enqueue.New(c)
	sure(err)
	return e
}

func (i *instance) redriver() *redrive.Redriver {
	l, q := ledgerView{i}, queueView{i}
	c := redrive.Config{
		Pages: l, Runs: l, Policies: l, Approvals: l, Holds: l, Brakes: l, Orders: l, Plans: l, Schedule: l, Letters: q, Sender: q,
		Evidence: evidenceView{i}, Audit: i.counted(contract.ServiceRedrive), Clock: i, Settings: i.settings, Region: region, Code: code,
	}
	if i.mutant != nil && i.mutant.Redrive != nil {
		i.mutant.Redrive(&c, i)
	}
	r, err := redrive.New(c)
	sure(err)
	return r
}

func (i *instance) reconciler() *reconcile.Reconciler {
	l := ledgerView{i}
	c := reconcile.Config{
		Index: l, Rows: l, Runs: l, Watches: l, Plans: l, Scans: resumeScans{starts{i}}, Redrives: resumeRedrives{starts{i}},
		Evidence: evidenceView{i}, Queue: queueView{i}, Audit: i.counted(contract.ServiceReconcile), Gauges: i, Clock: i, Settings: i.settings, Region: region,
		Deployed: i.deployed(), Code: code,
	}
	if i.mutant != nil && i.mutant.Reconcile != nil {
		i.mutant.Reconcile(&c, i)
	}
	r, err := reconcile.New(c)
	sure(err)
	return r
}

func (i *instance) keeper() *hold.Keeper {
	l := ledgerView{i}
	c := hold.Config{
		Holds: l, Entries: l, Runs: l, Pages: l, Prefixes: l, Evidence: evidenceView{i}, Lister: storeView{i}, Audit: i.counted(contract.ServiceHold), Clock: i,
		Settings: i.settings, Region: region, Code: code,
	}
	if i.mutant != nil && i.mutant.Hold != nil {
		i.mutant.Hold(&c, i)
	}
	k, err := hold.New(c)
	sure(err)
	return k
}

// counted is the log of the instance, which measures what it counts.
func (i *instance) counted(service string) audit.Sink { return audit.Counted(i, i, service) }

// deployed is the policies that ship with the instance's release.
func (i *instance) deployed() map[string]policy.Policy {
	all := map[string]policy.Policy{policyName: i.current}
	if i.old {
		all[policyName] = i.policy
	}
	if i.second != nil {
		all[secondName] = i.second.policy
	}
	return all
}

// instanceOf returns an instance of the function that serves nobody, or a new one.
func (w *world) instanceOf(function string) (*instance, *steps) {
	if idle := w.idle[function]; len(idle) > 0 && !w.chance.one(6) {
		last := len(idle) - 1
		i := idle[last]
		w.idle[function] = idle[:last]
		return i, i.steps
	}
	i := &instance{world: w, function: function, steps: &steps{}}
	if w.strikes(SkewedClock) {
		i.skew = w.chance.within(0, 40*time.Second) - 20*time.Second
	}
	i.old = w.released && w.strikes(OldCode)
	// A step may ask for nothing while it is made.
	i.p = &process{k: &w.kernel}
	switch function {
	case "enqueue":
		i.steps.enqueue = i.enqueuer()
	case "redrive":
		i.steps.redrive = i.redriver()
	case "reconcile":
		i.steps.reconcile = i.reconciler()
	case "hold":
		i.steps.hold = i.keeper()
	default:
		i.steps.worker = i.worker(job.Mode(function))
	}
	return i, i.steps
}

// serve starts an invocation. limit is how long it may take; after is told how it
// ended, whether it died or returned.
func (w *world) serve(function string, limit time.Duration, handle func(i *instance, s *steps, deadline time.Time), after func(died bool)) {
	i, s := w.instanceOf(function)
	i.owner, i.began = "", w.clock()
	i.p = w.spawn(function, limit, func(*process) {
		// Lambda says when the invocation ends, by the clock of the machine.
		handle(i, s, i.Now().Add(limit))
		if !i.p.dead {
			w.idle[function] = append(w.idle[function], i)
			after(false)
		}
	}, func() {
		if i.p.dying {
			w.hit(TimedOut)
			w.log(i.p, "limit", "ended by the platform")
		}
		after(true)
	})
}

// again is how often Lambda tries an asynchronous invocation that failed.
const again = 2

// invoke starts a function asynchronously: it is tried again when it fails or dies.
func (w *world) invoke(function string, payload []byte) { w.attempt(function, payload, again) }

func (w *world) attempt(function string, payload []byte, left int) {
	limit, failed := w.limitOf(function), false
	w.serve(function, limit, func(i *instance, s *steps, deadline time.Time) {
		failed = i.handle(function, s, deadline, payload) != nil
	}, func(died bool) {
		if (died || failed) && left > 0 {
			w.hit(InvokeAgain)
			w.waiting++
			w.at(w.chance.within(time.Minute, 2*time.Minute), func() {
				w.waiting--
				w.attempt(function, payload, left-1)
			})
		}
	})
}

// handle gives a payload to the step of a function.
func (i *instance) handle(function string, s *steps, deadline time.Time, payload []byte) error {
	ctx := context.Background()
	var err error
	switch function {
	case "enqueue":
		_, err = s.enqueue.Handle(ctx, deadline, i.reads(function, payload))
	case "redrive":
		_, err = s.redrive.Handle(ctx, deadline, i.reads(function, payload))
	case "reconcile":
		if _, failed := s.reconcile.Pass(ctx, deadline); failed == nil { // else its schedule asks again soon
			i.tell(moment{kind: passEnded, by: i})
		}
	}
	i.log(i.p, "returns", outcome(err))
	return err
}

// reads returns what a function makes of a request.
func (i *instance) reads(function string, request []byte) []byte {
	if i.mutant != nil && i.mutant.Request != nil {
		return i.mutant.Request(function, request)
	}
	return request
}

func (w *world) limitOf(function string) time.Duration {
	switch function {
	case "enqueue":
		return w.settings.ScanTimeout
	case "reconcile":
		return w.settings.ReconcileTimeout
	default:
		return w.settings.FunctionTimeout
	}
}

// payload encodes a request.
func payload(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	sure(err)
	return b
}

// tick is what the schedule sends.
func tick(policy string, at time.Time) []byte {
	return payload(map[string]string{"policy": policy, "scheduled": at.UTC().Format(time.RFC3339)})
}
