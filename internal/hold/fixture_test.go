package hold_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	kept "github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/worker"
)

const (
	bucket = "acme-exports"
	region = "eu-west-1"
	acme   = "acme"
	root   = "exports/acme/"
	day    = 24 * time.Hour

	policyYAML = `name: exports
version: 1
region: eu-west-1
bucket: acme-exports
keys: exports/{tenant}/
retention_days: 30
mode: enforce
schedule: {every: daily, at: "02:30", zone: UTC}
limits: {max_share: 1, max_rate: 50000}
versions: %s
`
)

var (
	// noon is a later day than `now` of the rule's tests.
	noon    = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	expired = noon.Add(-40 * day)

	// policies are parsed once: a world is built thousands of times.
	policies = map[policy.Versions]policy.Policy{
		policy.CurrentVersions: parsed(policy.CurrentVersions), policy.AllVersions: parsed(policy.AllVersions),
	}
)

func parsed(v policy.Versions) policy.Policy {
	p, err := policy.Parse("test.yaml", fmt.Appendf(nil, policyYAML, v))
	if err != nil {
		panic(err)
	}
	return p
}

// world is a region in memory: the real worker and the real keeper on the fakes, with
// every call of theirs in reach. It is used by one goroutine at a time.
type world struct {
	now      time.Time
	ledger   *ledger.Memory
	store    *artifact.Memory
	evidence *kept.Memory
	log      *audit.Log
	policy   policy.Policy
	set      contract.Settings
	scanned  []job.Item // what stood in the bucket before anything happened
	letters  int
	owners   int
	// meet decides the fate of every call of a process.
	meet func(by *process, op string, apply func() error) error
	// change may put something else between the keeper and the fakes.
	change func(by *process, c *hold.Config)
}

// process is one invocation of a function.
type process struct {
	w        *world
	deadline time.Time
	// epoch is the one under which this claim committed its last intent, and deletion
	// what it asks the store for at the moment.
	epoch    int64
	deletion job.Deletion

	next   func() (string, bool)
	stop   func()
	yield  func(string) bool
	killed bool
}

func newWorld(versions policy.Versions, versioned bool) *world {
	w := &world{
		now: noon, ledger: ledger.NewMemory(), evidence: &kept.Memory{}, log: &audit.Log{}, policy: policies[versions],
		set: contract.Production(), meet: func(_ *process, _ string, apply func() error) error { return apply() },
	}
	w.store = artifact.NewMemory(func() time.Time { return w.now })
	sure(w.store.CreateBucket(bucket, versioned))
	return w
}

// sure is for what can not fail in a fake without a fault.
func sure(err error) {
	if err != nil {
		panic(err)
	}
}

// put stores an expired object.
func (w *world) put(name string) job.Item {
	item, err := w.store.Put(bucket, job.Item{Key: root + name, ETag: "e-" + name, Size: 10, Modified: expired})
	sure(err)
	return item
}

// open opens a run that was due the number of hours before noon.
func (w *world) open(hours int) job.Run {
	at := noon.Add(-time.Duration(hours) * time.Hour)
	run, _, err := w.ledger.OpenRun(context.Background(), job.Run{
		ID: job.ScheduledRunID(region, w.policy.Name, at), Region: region, Policy: w.policy.Name, Version: 1, PolicySHA256: w.policy.SHA256(),
		Mode: job.Enforce, Scheduled: at, Cutoff: at.Add(-30 * day), State: job.Scanning, OpenedAt: at,
	})
	sure(err)
	return run
}

// record puts a page of the scan, relative to the tenant's prefix.
func (w *world) record(run *job.Run, tenant, after, through string, candidates int) job.Page {
	p := job.Page{
		ID: job.RangePageID(run.ID, tenant, after), Run: run.ID, Tenant: tenant, Kind: job.RangePage, After: after, Through: through,
		Examined: candidates, Candidates: candidates, State: job.Planned, BornAt: w.now, NextDue: w.now,
	}
	next, err := run.Advance(job.Stretch{Through: through, Examined: candidates}, &p)
	sure(err)
	sure(w.ledger.Record(context.Background(), next, &p))
	*run = next
	return p
}

func (w *world) release(run *job.Run) {
	next, err := run.Release(w.now, nil, "", "")
	sure(err)
	sure(w.ledger.SwapRun(context.Background(), next))
	*run = next
}

// close closes a run.
func (w *world) close(run *job.Run) {
	next, err := run.Close(w.now, job.Totals{}, job.Seal{})
	sure(err)
	sure(w.ledger.SwapRun(context.Background(), next))
	*run = next
}

// row returns a page as it is now.
func (w *world) row(p job.Page) job.Page {
	p, err := w.ledger.Page(context.Background(), p.Run, p.Tenant, p.ID)
	sure(err)
	return p
}

// redrive moves a dead page back as an operator does.
func (w *world) redrive(p job.Page) {
	next, err := w.row(p).Redrive("plan", w.now, w.now.Add(w.set.Overdue()))
	sure(err)
	sure(w.ledger.SwapPage(context.Background(), next))
}

// work gives the page's command to a worker and reports whether it was acknowledged.
func (w *world) work(by *process, run job.Run, p job.Page) bool {
	t := taps{by}
	made, err := worker.New(worker.Config{
		Records: t, Writes: t, Holds: t, Artifacts: t, Evidence: t, Letters: t, Audit: w.log, Clock: t, Settings: w.set,
		Region: region, Mode: job.Enforce, Code: "test",
		NewOwner: func() string { w.owners++; return fmt.Sprint("owner-", w.owners) },
		Jitter:   func(limit time.Duration) time.Duration { return limit / 100 },
	})
	sure(err)
	m := job.NewMessage(run, p)
	return len(made.Batch(context.Background(), by.deadline, []job.Delivery{{MessageID: m.ID, Body: m.Body, SentAt: w.now}}).BatchItemFailures) == 0
}

// process begins an invocation.
func (w *world) process() *process { return &process{w: w, deadline: w.now.Add(w.set.FunctionTimeout)} }

// keeper returns a keeper as the next invocation makes it.
func (w *world) keeper(by *process) *hold.Keeper {
	t := taps{by}
	c := hold.Config{
		Holds: t, Entries: t, Runs: t, Pages: t, Prefixes: t, Evidence: t, Lister: t, Audit: w.log, Clock: t, Settings: w.set, Region: region, Code: "test",
	}
	if w.change != nil {
		w.change(by, &c)
	}
	k, err := hold.New(c)
	sure(err)
	return k
}

// handle gives the keeper a request and returns its answer.
func (w *world) handle(by *process, r hold.Request) (any, error) {
	payload, err := json.Marshal(r)
	sure(err)
	return w.keeper(by).Handle(context.Background(), by.deadline, payload)
}

var signed = audit.Signature{By: "counsel", Reason: "case 2291"}

// place places a hold and returns the answer.
func (w *world) place(t *testing.T, id string, scope hold.Scope, value string) hold.Status {
	t.Helper()
	return w.status(t, hold.Request{Place: &hold.Place{ID: id, Tenant: acme, Scope: scope, Value: value, Signature: signed}})
}

func (w *world) ask(t *testing.T, id string) hold.Status {
	t.Helper()
	return w.status(t, hold.Request{Ask: &hold.Ask{Tenant: acme, ID: id}})
}

func (w *world) status(t *testing.T, r hold.Request) hold.Status {
	t.Helper()
	answer, err := w.handle(w.process(), r)
	if err != nil {
		t.Fatal(err)
	}
	return as[hold.Status](answer)
}

// as is the answer in its own form.
func as[T any](answer any) T {
	v, ok := answer.(T)
	if !ok {
		panic(fmt.Sprintf("answered with a %T", answer))
	}
	return v
}

func (w *world) unhold(t *testing.T, id string) {
	t.Helper()
	_, err := w.handle(w.process(), hold.Request{Release: &hold.Release{Tenant: acme, ID: id, Signature: signed}})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) left() (names []string) {
	for item := range w.store.Objects(bucket) {
		names = append(names, strings.TrimPrefix(item.Key, root))
	}
	return names
}

// taps stands between a process and the fakes.
type taps struct{ *process }

func (t taps) do(op string, apply func() error) error { return t.w.meet(t.process, op, apply) }

func get[T any](t taps, op string, f func() (T, error)) (v T, err error) {
	err = t.do(op, func() (err error) {
		v, err = f()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

func (t taps) Now() time.Time { return t.w.now }

func (t taps) Sleep(_ context.Context, d time.Duration) error {
	return t.do("sleep", func() error { t.w.now = t.w.now.Add(max(d, 0)); return nil })
}

func (t taps) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	return get(t, "run", func() (job.Run, error) { return t.w.ledger.Run(ctx, id) })
}

func (t taps) RunsOf(ctx context.Context, tenant string) ([]job.RunID, error) {
	return get(t, "runs-of", func() ([]job.RunID, error) { return t.w.ledger.RunsOf(ctx, tenant) })
}

func (t taps) ReadRuns(ctx context.Context, ids []job.RunID) ([]job.Run, error) {
	return get(t, "runs", func() ([]job.Run, error) { return t.w.ledger.ReadRuns(ctx, ids) })
}

func (t taps) Policy(context.Context, string, int) (policy.Policy, error) { return t.w.policy, nil }

func (t taps) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (p job.Page, brakes []job.Brake, err error) {
	err = t.do("page", func() (err error) {
		p, brakes, err = t.w.ledger.Look(ctx, run, tenant, id)
		return err
	})
	return p, brakes, err
}

func (t taps) Brakes(ctx context.Context) ([]job.Brake, error) {
	return get(t, "brakes", func() ([]job.Brake, error) { return t.w.ledger.Brakes(ctx) })
}

func (t taps) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	return get(t, "page", func() (job.Page, error) { return t.w.ledger.Page(ctx, run, tenant, id) })
}

func (t taps) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	return get(t, "pages", func() ([]job.Page, error) { return t.w.ledger.Pages(ctx, run, tenant, after, limit) })
}

func (t taps) PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error) {
	return get(t, "page-at", func() (job.Page, error) { return t.w.ledger.PageAt(ctx, run, tenant, key) })
}

func (t taps) TenantPrefix(_ context.Context, _ job.Run, tenant string) (bucket, prefix string, err error) {
	err = t.do("prefix", func() error {
		bucket, prefix = t.w.policy.Bucket, t.w.policy.TenantPrefix(tenant)
		return nil
	})
	return bucket, prefix, err
}

func (t taps) Prefixes(_ context.Context, tenant string) ([]string, error) {
	return get(t, "prefixes", func() ([]string, error) { return []string{t.w.policy.TenantPrefix(tenant)}, nil })
}

func (t taps) Epoch(ctx context.Context, tenant string) (int64, error) {
	return get(t, "epoch", func() (int64, error) { return t.w.ledger.Epoch(ctx, tenant) })
}

func (t taps) Holds(ctx context.Context, tenant string) (hold.Set, error) {
	return get(t, "holds", func() (hold.Set, error) { return t.w.ledger.Holds(ctx, tenant) })
}

func (t taps) PlaceHold(ctx context.Context, h hold.Hold) (hold.Hold, error) {
	return get(t, "place", func() (hold.Hold, error) { return t.w.ledger.PlaceHold(ctx, h) })
}

func (t taps) ReleaseHold(ctx context.Context, tenant, id string, at time.Time) error {
	return t.do("release", func() error { return t.w.ledger.ReleaseHold(ctx, tenant, id, at) })
}

func (t taps) PutEntry(ctx context.Context, e audit.Entry) error {
	return t.do("entry", func() error { return t.w.ledger.PutEntry(ctx, e) })
}

func (t taps) SwapPage(ctx context.Context, next job.Page) error {
	return t.do("page:"+string(next.State), func() error { return t.w.ledger.SwapPage(ctx, next) })
}

func (t taps) Intend(ctx context.Context, next job.Page, epoch int64) error {
	return t.do("intend", func() error {
		err := t.w.ledger.Intend(ctx, next, epoch)
		if err == nil {
			t.epoch = epoch
		}
		return err
	})
}

func (t taps) Complete(ctx context.Context, next job.Page, children []job.Page) error {
	return t.do("complete", func() error { return t.w.ledger.Complete(ctx, next, children) })
}

func (t taps) List(ctx context.Context, q job.Query) (job.Listing, error) {
	return get(t, "list", func() (job.Listing, error) { return t.w.store.List(ctx, q) })
}

func (t taps) Delete(ctx context.Context, d job.Deletion) (answers []job.Answer, err error) {
	t.deletion = d
	err = t.do("delete", func() (err error) {
		answers, err = t.w.store.Delete(ctx, d)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (t taps) Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	return get(t, "standing", func() ([]job.Standing, error) { return t.w.store.Standing(ctx, bucket, items) })
}

func (t taps) Put(ctx context.Context, name string, data []byte) error {
	kind, _, _ := strings.Cut(name, "/")
	return t.do("put:"+kind, func() error { return t.w.evidence.Put(ctx, name, data) })
}

func (t taps) Get(ctx context.Context, name string) ([]byte, error) {
	kind, _, _ := strings.Cut(name, "/")
	return get(t, "get:"+kind, func() ([]byte, error) { return t.w.evidence.Get(ctx, name) })
}

func (t taps) Delay(context.Context, job.Delivery, time.Duration) error { return nil }

func (t taps) DeadLetter(context.Context, job.Letter) error {
	t.w.letters++
	return nil
}

func class(c failure.Class) error { return failure.New(c, "injected", "injected") }
