package rehearse_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
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
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/rehearse"
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
mode: %s
schedule: {every: daily, at: "02:30", zone: UTC}
limits: {max_share: 1, max_rate: 50000}
versions: %s
`
)

var (
	noon    = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	expired = noon.Add(-40 * day)
)

// kind is the world that a page lives in.
type kind struct {
	mode       job.Mode
	versions   string
	versioned  bool
	unreleased bool
	keys       []string
}

// world is a real worker on the memory fakes. Everything real that a rehearsal may
// read is in it, and each call of the worker can be given another fate.
type world struct {
	t        testing.TB
	now      time.Time
	ledger   *ledger.Memory
	store    *artifact.Memory
	evidence *kept.Memory
	settings contract.Settings
	policy   policy.Policy
	run      job.Run
	page     job.PageID // the one that is delivered
	events   []audit.Event
	letters  []job.Letter
	wait     time.Duration
	owners   int
	denied   []string // names

	calls []string
	fate  fate
	at    int // which call has the fate, -1 for none
}

// fate is how one call ends.
type fate func(apply func() error) error

func network() error { return failure.New(failure.Network, "injected", "injected") }

// fates are the ways a call ends otherwise than well.
func fates() map[string]fate {
	return map[string]fate{
		"dies after":            func(apply func() error) error { _ = apply(); runtime.Goexit(); return nil },
		"fails":                 func(func() error) error { return network() },
		"fails, and it happens": func(apply func() error) error { _ = apply(); return network() },
	}
}

func newWorld(t testing.TB, policies map[string]policy.Policy, k kind) *world {
	t.Helper()
	w := &world{t: t, now: noon, ledger: ledger.NewMemory(), evidence: &kept.Memory{}, settings: contract.Production(), at: -1}
	w.store = artifact.NewMemory(w.Now)
	if k.mode == "" {
		k.mode = job.Enforce
	}
	if k.versions == "" {
		k.versions = "current"
	}
	yaml := fmt.Sprintf(policyYAML, k.mode, k.versions)
	if _, ok := policies[yaml]; !ok { // a policy takes longer to read than a page to settle
		p, err := policy.Parse("test.yaml", []byte(yaml))
		w.must(err)
		policies[yaml] = p
	}
	w.policy = policies[yaml]
	w.must(w.store.CreateBucket(bucket, k.versioned))
	for _, name := range k.keys {
		w.put(name, "e-"+name, expired)
	}
	w.put("young", "e", noon.Add(-20*day))
	w.run = job.Run{
		ID: job.ScheduledRunID(region, w.policy.Name, noon), Region: region, Policy: w.policy.Name, Version: 1,
		PolicySHA256: w.policy.SHA256(), Mode: k.mode, Scheduled: noon, Cutoff: noon.Add(-30 * day), State: job.Scanning, OpenedAt: noon,
	}
	_, _, err := w.ledger.OpenRun(t.Context(), w.run)
	w.must(err)
	w.hold("other", hold.Item, root+"other")
	p := job.Page{
		ID: job.RangePageID(w.run.ID, acme, ""), Run: w.run.ID, Tenant: acme, Kind: job.RangePage, Through: "~",
		Examined: len(k.keys), Candidates: len(k.keys), State: job.Planned, BornAt: noon, NextDue: noon,
	}
	w.page = p.ID
	next, err := w.run.Advance(job.Stretch{Through: "~", Examined: len(k.keys)}, &p)
	w.must(err)
	w.must(w.ledger.Record(t.Context(), next, &p))
	if w.run = next; !k.unreleased {
		next, err = w.run.Release(noon, nil, "", "")
		w.must(err)
		w.must(w.ledger.SwapRun(t.Context(), next))
		w.run = next
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put(name, etag string, at time.Time) job.Item {
	w.t.Helper()
	item, err := w.store.Put(bucket, job.Item{Key: root + name, ETag: etag, Size: 10, Modified: at})
	w.must(err)
	return item
}

func (w *world) hold(id string, scope hold.Scope, value string) {
	w.t.Helper()
	_, err := w.ledger.PlaceHold(w.t.Context(), hold.Hold{ID: id, Tenant: acme, Scope: scope, Value: value, PlacedAt: w.now})
	w.must(err)
}

func (w *world) deny(name string) {
	w.t.Helper()
	w.must(w.store.DenyKey(bucket, root+name))
	w.denied = append(w.denied, root+name)
}

func (w *world) reach(at time.Time) {
	if at.After(w.now) {
		w.now = at
	}
}

func (w *world) row() job.Page {
	w.t.Helper()
	p, err := w.ledger.Page(w.t.Context(), w.run.ID, acme, w.page)
	w.must(err)
	return p
}

// move writes the page as an operator does.
func (w *world) move(next job.Page, err error) {
	w.t.Helper()
	w.must(err)
	w.must(w.ledger.SwapPage(w.t.Context(), next))
}

func (w *world) lines(p job.Page) []receipt.Line {
	w.t.Helper()
	if p.Receipt == "" {
		return nil
	}
	name := receipt.Name(receipt.Receipt, p.Run, p.ID, p.Receipt)
	data, err := w.evidence.Get(w.t.Context(), name)
	w.must(err)
	doc, err := receipt.Verify(name, data)
	w.must(err)
	return doc.Lines
}

// deliver hands the page's message to a new process once, and reports whether it
// lived, and what the round was.
func (w *world) deliver(sent time.Time) (rehearse.Round, bool) {
	w.t.Helper()
	made, err := worker.New(worker.Config{
		Records: w, Writes: w, Holds: w, Artifacts: w, Evidence: w, Letters: w, Audit: w, Clock: w,
		Settings: w.settings, Region: region, Mode: w.run.Mode, Code: "test",
		NewOwner: func() string { w.owners++; return fmt.Sprintf("owner-%d", w.owners) },
		Jitter:   func(limit time.Duration) time.Duration { return limit },
	})
	w.must(err)
	at := w.now
	w.wait = 0
	d := job.Delivery{MessageID: "message", Body: job.NewMessage(w.run, w.row()).Body, SentAt: sent, Receives: 1}
	returned := make(chan *worker.Response, 1)
	go func() {
		var answer *worker.Response
		defer func() { returned <- answer }()
		r := made.Batch(w.t.Context(), at.Add(w.settings.FunctionTimeout), []job.Delivery{d})
		answer = &r
	}()
	answer := <-returned
	if answer == nil {
		return rehearse.Round{}, false
	}
	r := rehearse.Round{At: at, Ack: len(answer.BatchItemFailures) == 0, State: w.row().State}
	switch {
	case r.Ack:
	case w.wait > 0:
		r.Until = w.now.Add(w.wait)
	default:
		r.Until = at.Add(w.settings.Visibility())
	}
	return r, true
}

// drain delivers the message until it is acknowledged.
func (w *world) drain(sent time.Time) (rounds []rehearse.Round) {
	w.t.Helper()
	for range rehearse.MaxRounds {
		r, lived := w.deliver(sent)
		if !lived {
			w.t.Fatal("a process died that was given no fate")
		}
		if rounds = append(rounds, r); r.Ack {
			return rounds
		}
		w.reach(r.Until)
	}
	w.t.Fatal("the message is never acknowledged")
	return nil
}

// rehearsal is what an operator's tool makes of the world.
func (w *world) rehearsal() rehearse.Config {
	return rehearse.Config{
		Records: published{w.ledger, w.policy}, Holds: w.ledger, Artifacts: w.store, Evidence: w.evidence,
		Settings: w.settings, Region: region, Code: "test", Now: w.now,
	}
}

// published is the ledger with one policy in it, which takes longer to publish than
// a page to settle.
type published struct {
	*ledger.Memory
	policy policy.Policy
}

func (p published) Policy(context.Context, string, int) (policy.Policy, error) { return p.policy, nil }

// frozen fails the test when anything writes to the world while f runs.
func (w *world) frozen(f func()) {
	w.t.Helper()
	before := w.fingerprint()
	hook := func(op string, apply func() error) error {
		if op != "list" && op != "standing" {
			w.t.Errorf("a rehearsal made a real %q", op)
		}
		return apply()
	}
	w.ledger.Hook, w.evidence.Hook, w.store.Hook = hook, hook, hook
	f()
	w.ledger.Hook, w.evidence.Hook, w.store.Hook = nil, nil, nil
	if after := w.fingerprint(); after != before {
		w.t.Errorf("a rehearsal changed the world:\n%s\n%s", before, after)
	}
}

// fingerprint stands for everything that a worker or an operator has done.
func (w *world) fingerprint() string {
	var b strings.Builder
	fmt.Fprintln(&b, w.now, w.ledger.AllPages(w.run.ID), w.store.Effects())
	names, err := w.evidence.List(w.t.Context(), "", "", 1000)
	w.must(err)
	fmt.Fprintln(&b, names, slices.Collect(w.store.Versions(bucket)), len(w.letters))
	return b.String()
}

// call gives one call its fate.
func (w *world) call(op string, apply func() error) error {
	n := len(w.calls)
	w.calls = append(w.calls, op)
	if n == w.at {
		return w.fate(apply)
	}
	return apply()
}

func read[T any](w *world, op string, f func() (T, error)) (v T, err error) {
	err = w.call(op, func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

func (w *world) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	return read(w, "run", func() (job.Run, error) { return w.ledger.Run(ctx, id) })
}

func (w *world) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	return read(w, "policy", func() (policy.Policy, error) { return published{w.ledger, w.policy}.Policy(ctx, name, version) })
}

func (w *world) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (p job.Page, brakes []job.Brake, err error) {
	err = w.call("page", func() (err error) {
		p, brakes, err = w.ledger.Look(ctx, run, tenant, id)
		return err
	})
	return p, brakes, err
}

func (w *world) Brakes(ctx context.Context) ([]job.Brake, error) {
	return read(w, "brakes", func() ([]job.Brake, error) { return w.ledger.Brakes(ctx) })
}

func (w *world) Epoch(ctx context.Context, tenant string) (int64, error) {
	return read(w, "epoch", func() (int64, error) { return w.ledger.Epoch(ctx, tenant) })
}

func (w *world) Holds(ctx context.Context, tenant string) (hold.Set, error) {
	return read(w, "holds", func() (hold.Set, error) { return w.ledger.Holds(ctx, tenant) })
}

func (w *world) SwapPage(ctx context.Context, next job.Page) error {
	return w.call("page:"+string(next.State), func() error { return w.ledger.SwapPage(ctx, next) })
}

func (w *world) Intend(ctx context.Context, next job.Page, epoch int64) error {
	return w.call("intend", func() error { return w.ledger.Intend(ctx, next, epoch) })
}

func (w *world) Complete(ctx context.Context, next job.Page, children []job.Page) error {
	return w.call("complete", func() error { return w.ledger.Complete(ctx, next, children) })
}

func (w *world) List(ctx context.Context, q job.Query) (job.Listing, error) {
	return read(w, "list", func() (job.Listing, error) { return w.store.List(ctx, q) })
}

func (w *world) Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error) {
	return read(w, "delete", func() ([]job.Answer, error) { return w.store.Delete(ctx, d) })
}

func (w *world) Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	return read(w, "standing", func() ([]job.Standing, error) { return w.store.Standing(ctx, bucket, items) })
}

func (w *world) Put(ctx context.Context, name string, data []byte) error {
	return w.call("put", func() error { return w.evidence.Put(ctx, name, data) })
}

func (w *world) Get(ctx context.Context, name string) ([]byte, error) {
	return read(w, "get", func() ([]byte, error) { return w.evidence.Get(ctx, name) })
}

func (w *world) Delay(_ context.Context, _ job.Delivery, wait time.Duration) error {
	return w.call("delay", func() error { w.wait = wait; return nil })
}

func (w *world) DeadLetter(_ context.Context, l job.Letter) error {
	return w.call("dead-letter", func() error { w.letters = append(w.letters, l); return nil })
}

func (w *world) Emit(e audit.Event) { w.events = append(w.events, e) }

func (w *world) Now() time.Time { return w.now }

func (w *world) Sleep(ctx context.Context, d time.Duration) error {
	w.now = w.now.Add(max(d, 0))
	return ctx.Err()
}
