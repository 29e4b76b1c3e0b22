package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/reconcile"
	"github.com/expunge-aws/expunge/internal/worker"
)

// codeVersion stands in evidence and events of a local run.
const codeVersion = "local"

// Evidence keeps plans and receipts and lists their names.
type Evidence interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	List(ctx context.Context, prefix, after string, limit int) ([]string, error)
}

// Lister lists artifacts, and can do nothing else to them.
type Lister interface {
	List(ctx context.Context, q job.Query) (job.Listing, error)
	Ready(ctx context.Context, q job.Query, region string) error
}

// Options say what a world starts from.
type Options struct {
	Region   string
	AsOf     time.Time
	Policies []policy.Policy
	Settings contract.Settings // the zero value means Production
	// ReportOnly opens every run report-only, whatever its policy says.
	ReportOnly bool
	// Approval is the reason for which the policies that enforce may delete from the
	// start; "" stands for the local environment's own.
	Approval string
	// Lister, when there is one, is read in place of the world's own store. Nothing
	// can be deleted there, so it needs ReportOnly.
	Lister Lister
	// Evidence keeps plans and receipts; nil keeps them in memory.
	Evidence Evidence
	// Audit is told every event besides the world's own log; nil for nobody.
	Audit audit.Sink
	// Seed makes back-off and owner names repeatable.
	Seed uint64
}

// World is one region on one machine.
type World struct {
	Region     string
	Clock      *Clock
	Settings   contract.Settings
	Ledger     *ledger.Memory
	Queue      *queue.Memory
	Store      *artifact.Memory
	Evidence   Evidence
	Log        *audit.Log
	Policies   []policy.Policy
	Enqueuer   *enqueue.Enqueuer
	Reconciler *reconcile.Reconciler
	// Workers reads one queue each; the report-only one has no way to delete.
	Workers map[job.Mode]*worker.Worker

	// Crashes counts processes that died.
	Crashes int

	rand   *rand.Rand
	randMu sync.Mutex
	tick   time.Time // when reconcile runs next
}

// New wires a world.
func New(o Options) (*World, error) {
	if o.Lister != nil && !o.ReportOnly {
		return nil, errors.New("local: what can only be listed can only be reported on")
	}
	if o.Settings == (contract.Settings{}) {
		o.Settings = contract.Production()
	}
	w := &World{
		Region: o.Region, Clock: NewClock(o.AsOf), Settings: o.Settings, Ledger: ledger.NewMemory(),
		Evidence: o.Evidence, Log: &audit.Log{}, Policies: o.Policies, Workers: map[job.Mode]*worker.Worker{},
		rand: rand.New(rand.NewPCG(o.Seed, 0)), //nolint:gosec // simulated chance must repeat by seed
	}
	if w.Evidence == nil {
		w.Evidence = &evidence.Memory{}
	}
	w.Store = artifact.NewMemory(w.Clock.Now)
	w.Queue = queue.NewMemory(w.Clock.Now, queue.Settings{
		Visibility: o.Settings.Visibility(), Retention: o.Settings.SourceRetention,
		LetterRetention: o.Settings.DeadLetterRetention, MaxReceives: o.Settings.MaxReceives,
	})
	w.tick = w.Clock.Now().Add(o.Settings.ReconcileEvery)
	if err := w.wire(o); err != nil {
		return nil, err
	}
	if o.ReportOnly {
		return w, nil
	}
	return w, approve(context.Background(), w.Ledger, o.Policies, w.Clock.Now(), o.Approval)
}

// wire builds the steps as the mains of a deployed region do.
func (w *World) wire(o Options) error {
	var sink audit.Sink = w.Log
	if o.Audit != nil {
		sink = audit.Both(w.Log, o.Audit)
	}
	deployed := map[string]policy.Policy{}
	for _, p := range o.Policies {
		deployed[p.Name] = p
		if err := w.Store.CreateBucket(p.Bucket, false); err != nil {
			return err
		}
	}
	var listed Lister = w.Store
	if o.Lister != nil {
		listed = o.Lister
	}
	var err error
	w.Enqueuer, err = enqueue.New(enqueue.Config{
		Runs: w.Ledger, Pages: w.Ledger, Policies: w.Ledger, Approvals: w.Ledger, Lister: listed, Sender: w.Queue, Audit: sink,
		Clock: w.Clock, Settings: o.Settings, Region: o.Region, Deployed: deployed, ReportOnly: o.ReportOnly, Code: codeVersion,
	})
	if err != nil {
		return err
	}
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		config := worker.Config{
			Records: w.Ledger, Writes: w.Ledger, Holds: w.Ledger, Artifacts: w.Store, Evidence: w.Evidence,
			Letters: w.Queue, Audit: sink, Clock: w.Clock, Settings: o.Settings, Region: o.Region, Mode: mode,
			Code: codeVersion, NewOwner: w.owner, Jitter: w.jitter,
		}
		if mode == job.ReportOnly || o.Lister != nil {
			config.Artifacts = readOnly{listed}
		}
		if w.Workers[mode], err = worker.New(config); err != nil {
			return err
		}
	}
	w.Reconciler, err = reconcile.New(reconcile.Config{
		Index: w.Ledger, Rows: w.Ledger, Runs: w.Ledger, Watches: w.Ledger, Plans: w.Ledger, Scans: scans{w.Enqueuer},
		Redrives: noRedrives{}, Evidence: w.Evidence, Queue: w.Queue, Audit: sink, Gauges: w.Log, Clock: w.Clock,
		Settings: o.Settings, Region: o.Region, Deployed: deployed, Code: codeVersion,
	})
	return err
}

// readOnly is the store as the report-only worker's role sees it.
type readOnly struct{ Lister }

// Delete can not happen: the report-only role has no such permission (S8).
func (readOnly) Delete(context.Context, job.Deletion) ([]job.Answer, error) {
	panic("local: a report-only worker asked to delete")
}

// Standing follows a delete, and may take a marker away: it can not happen either.
func (readOnly) Standing(context.Context, string, []job.Item) ([]job.Standing, error) {
	panic("local: a report-only worker asked what its deletes left")
}

// scans lets reconcile resume a scan in process.
type scans struct{ *enqueue.Enqueuer }

func (s scans) Resume(ctx context.Context, deadline time.Time, id job.RunID) error {
	_, err := s.Enqueuer.Resume(ctx, deadline, id)
	return err
}

// Start begins the run of a scheduled date.
func (s scans) Start(ctx context.Context, deadline time.Time, policy string, scheduled time.Time) error {
	_, err := s.Enqueuer.Start(ctx, deadline, enqueue.Input{Policy: policy, Scheduled: scheduled.UTC().Format(time.RFC3339Nano)})
	return err
}

// noRedrives: nobody applies a plan in this world.
type noRedrives struct{}

func (noRedrives) Resume(_ context.Context, _ time.Time, id job.RedriveID) error {
	return failure.New(failure.Forbidden, "go on with redrive "+string(id), "this world has no redrive")
}

func (w *World) owner() string {
	w.randMu.Lock()
	defer w.randMu.Unlock()
	return fmt.Sprintf("%016x", w.rand.Uint64())
}

func (w *World) jitter(limit time.Duration) time.Duration {
	w.randMu.Lock()
	defer w.randMu.Unlock()
	if limit <= 0 {
		return 0
	}
	return time.Duration(w.rand.Int64N(int64(limit)))
}

// Tick fires a policy's schedule for the instant, and again while the scan needs
// another invocation.
func (w *World) Tick(ctx context.Context, policyName string, scheduled time.Time) (enqueue.Receipt, error) {
	return w.Start(ctx, enqueue.Input{Policy: policyName, Scheduled: scheduled.UTC().Format(time.RFC3339Nano)})
}

// Start invokes enqueue with the input until its scan is complete.
func (w *World) Start(ctx context.Context, in enqueue.Input) (enqueue.Receipt, error) {
	for {
		var receipt enqueue.Receipt
		var err error
		died := w.process(func() {
			receipt, err = w.Enqueuer.Start(ctx, w.deadline(), in)
		})
		if died || err != nil || receipt.State != job.Scanning {
			return receipt, err
		}
	}
}

func (w *World) deadline() time.Time { return w.Clock.Now().Add(w.Settings.FunctionTimeout) }

// process runs f as a process of its own and reports whether it died.
func (w *World) process(f func()) (died bool) {
	done := make(chan bool)
	go func() {
		returned := false
		defer func() { done <- !returned }()
		f()
		returned = true
	}()
	if died = <-done; died {
		w.Crashes++
	}
	return died
}

// batchSize is how many messages one invocation gets.
const batchSize = 10

// Deliver plays one poll of a mode's queue: it receives a batch, invokes the
// worker, and acknowledges what the response does not name. It returns how many
// messages it handed over.
func (w *World) Deliver(ctx context.Context, mode job.Mode) (int, error) {
	deliveries, err := w.Queue.Receive(ctx, mode, batchSize)
	if err != nil || len(deliveries) == 0 {
		return 0, err
	}
	var response worker.Response
	if w.process(func() { response = w.Workers[mode].Batch(ctx, w.deadline(), deliveries) }) {
		return len(deliveries), nil // nothing was answered: everything comes back
	}
	for _, d := range deliveries {
		if slices.Contains(response.BatchItemFailures, worker.ItemFailure{ItemIdentifier: d.MessageID}) {
			continue
		}
		// An acknowledgement that fails is a message that comes back.
		w.process(func() { _ = w.Queue.Ack(ctx, mode, d) })
	}
	return len(deliveries), nil
}

// Reconcile runs one pass. Its error is the caller's to judge: the next pass
// tries again.
func (w *World) Reconcile(ctx context.Context) (reconcile.Summary, error) {
	var did reconcile.Summary
	var err error
	w.process(func() { did, err = w.Reconciler.Pass(ctx, w.deadline()) })
	return did, err
}

// patience bounds Drain: the redrive window is the longest that anything waits.
const patience = 20 * 24 * time.Hour

// Drain plays the region until it is quiet: queues are empty, and a pass of
// reconcile finds nothing to do. Time jumps to whatever comes next.
func (w *World) Drain(ctx context.Context) error {
	end := w.Clock.Now().Add(patience)
	for w.Clock.Now().Before(end) {
		n := 0
		for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
			handed, err := w.Deliver(ctx, mode)
			if err != nil {
				return err
			}
			n += handed
		}
		if n > 0 {
			continue
		}
		if w.Clock.Now().Before(w.tick) {
			w.Clock.Reach(w.next())
			continue
		}
		did, err := w.Reconcile(ctx)
		w.tick = w.Clock.Now().Add(w.Settings.ReconcileEvery)
		if err == nil && did == (reconcile.Summary{}) && w.quiet() {
			return nil
		}
	}
	return fmt.Errorf("local: not quiet after %v of simulated time", patience)
}

// next is when the next message shows or reconcile runs, whichever is first.
func (w *World) next() time.Time {
	at := w.tick
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		if visible, ok := w.Queue.NextVisible(mode); ok && visible.Before(at) {
			at = visible
		}
	}
	return at
}

// quiet reports whether nothing waits in a queue and no page is open in a
// released run that no brake covers.
func (w *World) quiet() bool {
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		if _, waiting := w.Queue.NextVisible(mode); waiting {
			return false
		}
	}
	brakes, _ := w.Ledger.Brakes(context.Background()) // the memory ledger answers always
	for _, r := range w.Ledger.Runs() {
		braked := slices.ContainsFunc(brakes, func(b job.Brake) bool { return b.Covers(r.Policy, r.Version) })
		if r.State == job.Scanning {
			return false
		}
		if r.State != job.Released || braked {
			continue
		}
		for _, p := range w.Ledger.AllPages(r.ID) {
			if p.State.Open() {
				return false
			}
		}
	}
	return true
}
