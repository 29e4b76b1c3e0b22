package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
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
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/receipt"
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
	noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	// expired is older than the cutoff, young is not.
	expired, young = noon.Add(-40 * day), noon.Add(-20 * day)
)

// setup says what a world starts from; the zero value is one empty page.
type setup struct {
	neverHeld  bool     // the tenant is at epoch 0
	pinned     string   // the content hash that the run pins, instead of the policy's own
	keys       []string // expired objects of acme, and the page's candidates
	candidates int      // instead of len(keys)
	mode       job.Mode
	versions   string
	versioned  bool // the bucket
	unreleased bool
	settings   func(*contract.Settings)
	config     func(*Config)
}

// world is a worker on the memory fakes, with every call between them in reach.
type world struct {
	t        testing.TB
	clock    *testClock
	ledger   *ledger.Memory
	queue    *queue.Memory
	store    *artifact.Memory
	evidence *kept.Memory
	standIn  []byte // what the evidence answers instead of what it holds
	log      *audit.Log
	policy   policy.Policy
	run      job.Run
	first    job.PageID
	config   Config

	mu       sync.Mutex
	next     map[string][]handler // for one call each
	always   map[string]handler
	calls    []string
	sent     [][]string // names of the items of each delete call
	intents  []job.Page // rows as they were when their intent was committed
	open     int        // calls that have not returned
	running  int        // handlers that have not returned
	owners   int
	acked    int
	response Response
}

// handler stands in for one call; it performs the call with apply, or does not.
type handler func(apply func() error) error

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	clock := &testClock{now: noon}
	set := contract.Production()
	if s.settings != nil {
		s.settings(&set)
	}
	w := &world{
		t: t, clock: clock, ledger: ledger.NewMemory(), store: artifact.NewMemory(clock.Now), evidence: &kept.Memory{},
		log: &audit.Log{}, next: map[string][]handler{}, always: map[string]handler{},
		queue: queue.NewMemory(clock.Now, queue.Settings{Visibility: set.Visibility(), MaxReceives: set.MaxReceives}),
	}
	mode := cmp.Or(s.mode, job.Enforce)
	w.policy = w.publish(fmt.Sprintf(policyYAML, mode, cmp.Or(s.versions, "current")))
	w.must(w.store.CreateBucket(bucket, s.versioned))
	for _, name := range s.keys {
		w.put(name)
	}
	w.run = job.Run{
		ID: job.ScheduledRunID(region, w.policy.Name, noon), Region: region, Policy: w.policy.Name, Version: 1,
		PolicySHA256: cmp.Or(s.pinned, w.policy.SHA256()), Mode: mode, Scheduled: noon, Cutoff: noon.Add(-30 * day), State: job.Scanning, OpenedAt: noon,
	}
	_, _, err := w.ledger.OpenRun(t.Context(), w.run)
	w.must(err)
	if !s.neverHeld {
		// A tenant that had a hold once is past epoch 0, and its holds are read.
		_, err = w.ledger.PlaceHold(t.Context(), hold.Hold{ID: "former", Tenant: acme, Scope: hold.Item, Value: root + "former"})
		w.must(err)
		w.must(w.ledger.ReleaseHold(t.Context(), acme, "former", noon))
	}
	w.first = w.record(acme, "", "~", cmp.Or(s.candidates, len(s.keys)))
	taps := taps{w}
	w.config = Config{
		Records: taps, Writes: taps, Holds: taps, Artifacts: taps, Evidence: taps, Letters: taps,
		Audit: audit.Counted(w.log, w.log, contract.ServiceWorker), Clock: clock, Settings: set, Region: region, Mode: mode, Code: "test",
		NewOwner: func() string {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.owners++
			return fmt.Sprintf("owner-%d", w.owners)
		},
		Jitter: func(limit time.Duration) time.Duration { return limit / 2 },
	}
	if s.config != nil {
		s.config(&w.config)
	}
	if !s.unreleased {
		w.release()
	}
	w.send()
	t.Cleanup(w.check)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) publish(yaml string) policy.Policy {
	w.t.Helper()
	p, err := policy.Parse("test.yaml", []byte(yaml))
	w.must(err)
	w.must(w.ledger.PublishPolicy(w.t.Context(), p))
	return p
}

// record puts a page of the scan.
func (w *world) record(tenant, after, through string, candidates int) job.PageID {
	w.t.Helper()
	p := job.Page{
		ID: job.RangePageID(w.run.ID, tenant, after), Run: w.run.ID, Tenant: tenant, Kind: job.RangePage, After: after, Through: through,
		Examined: candidates, Candidates: candidates, State: job.Planned, BornAt: noon, NextDue: noon,
	}
	next, err := w.run.Advance(job.Stretch{Through: through, Examined: candidates}, &p)
	w.must(err)
	w.must(w.ledger.Record(w.t.Context(), next, &p))
	w.run = next
	return p.ID
}

func (w *world) release() {
	w.t.Helper()
	next, err := w.run.Release(w.clock.Now(), nil, "", "")
	w.must(err)
	w.must(w.ledger.SwapRun(w.t.Context(), next))
	w.run = next
}

// send sends every page that is planned, as enqueue and reconcile do.
func (w *world) send() {
	w.t.Helper()
	for _, p := range w.ledger.AllPages(w.run.ID) {
		if p.State == job.Planned {
			w.post(job.NewMessage(w.run, p))
			if w.run.State == job.Released {
				next, err := p.Send(w.clock.Now().Add(w.config.Settings.Overdue()))
				w.must(err)
				w.must(w.ledger.SwapPage(w.t.Context(), next))
			}
		}
	}
}

func (w *world) post(m job.Message) {
	w.t.Helper()
	_, err := w.queue.Send(w.t.Context(), w.run.Mode, []job.Message{m})
	w.must(err)
}

// put stores an expired object of acme.
func (w *world) put(name string) job.Item {
	return w.store1(job.Item{Key: root + name, ETag: "e-" + name, Size: 10, Modified: expired})
}

func (w *world) store1(item job.Item) job.Item {
	w.t.Helper()
	stored, err := w.store.Put(bucket, item)
	w.must(err)
	return stored
}

// remove is somebody else's delete.
func (w *world) remove(name string) { w.store.Remove(bucket, job.Ref{Key: root + name}) }

func (w *world) hold(id string, scope hold.Scope, value string) {
	w.t.Helper()
	_, err := w.ledger.PlaceHold(context.Background(), hold.Hold{ID: id, Tenant: acme, Scope: scope, Value: value, PlacedAt: w.clock.Now()})
	w.must(err)
}

func (w *world) unhold(id string) {
	w.must(w.ledger.ReleaseHold(context.Background(), acme, id, w.clock.Now()))
}

// worker returns a worker as the next invocation makes it.
func (w *world) worker() *Worker {
	w.t.Helper()
	made, err := New(w.config)
	w.must(err)
	return made
}

// invoke plays one poll of the queue and reports whether the process lived.
func (w *world) invoke() bool {
	w.t.Helper()
	return w.batch(w.worker(), w.receive(10)...)
}

func (w *world) receive(limit int) []job.Delivery {
	w.t.Helper()
	deliveries, err := w.queue.Receive(w.t.Context(), w.run.Mode, limit)
	w.must(err)
	return deliveries
}

// batch runs one invocation as a process and acknowledges what its response does
// not name.
func (w *world) batch(by *Worker, deliveries ...job.Delivery) (lived bool) {
	w.t.Helper()
	var r Response
	w.handlers(1)
	lived = process(func() {
		defer w.handlers(-1)
		r = by.Batch(w.t.Context(), by.Clock.Now().Add(by.Settings.FunctionTimeout), deliveries)
	})
	if !lived {
		return false
	}
	for _, d := range deliveries {
		if !slices.Contains(r.BatchItemFailures, ItemFailure{d.MessageID}) {
			w.mayAck(d)
			w.must(w.queue.Ack(w.t.Context(), w.run.Mode, d))
			w.mu.Lock()
			w.acked++
			w.mu.Unlock()
		}
	}
	w.mu.Lock()
	w.response = r
	w.mu.Unlock()
	return true
}

// handlers counts running handlers; F6: none returns with a call open.
func (w *world) handlers(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running += n; w.running == 0 && w.open != 0 {
		w.t.Errorf("F6: the handler returned with %d calls open", w.open)
	}
}

// process runs f and reports whether it returned; runtime.Goexit is its death.
func process(f func()) bool {
	lived := make(chan bool, 1)
	go func() {
		ok := false
		defer func() { lived <- ok }()
		f()
		ok = true
	}()
	return <-lived
}

// drain plays polls until no message is left, each when the next one shows.
func (w *world) drain() {
	w.t.Helper()
	for range 100 {
		at, ok := w.queue.NextVisible(w.run.Mode)
		if !ok {
			return
		}
		w.clock.reach(at)
		w.invoke()
	}
	w.t.Fatal("the queue does not run dry")
}

// mayAck is invariant E1.
func (w *world) mayAck(d job.Delivery) {
	w.t.Helper()
	lettered, elsewhere := false, false
	for _, l := range w.queue.PeekLetters() {
		if string(l.Body) == string(d.Body) {
			lettered = true
			elsewhere = slices.Contains([]job.Reason{job.ReasonUnknownRun, job.ReasonUnknownPage, job.ReasonWrongQueue}, l.Letter.Reason)
		}
	}
	c, err := job.Decode(d.Body)
	if err != nil {
		c.TenantID = acme
	}
	p, err := w.ledger.Page(context.Background(), c.RunID, c.TenantID, c.PageID)
	own := err == nil && job.NewCommand(w.run, p) == c && !elsewhere
	switch {
	case own && p.State.Terminal() && p.Receipt != "":
	case own && p.State == job.Dead && !p.Death.LetterAt.IsZero() && lettered:
	case own && p.State == job.Planned:
	case !own && lettered:
	default:
		w.t.Errorf("E1: acknowledged with the page %q and no durable end", p.State)
	}
}

// check holds every world to the invariants that no test may break.
func (w *world) check() {
	w.t.Helper()
	named := map[job.Ref]bool{}
	last := map[job.PageID]receipt.Document{}
	for _, p := range w.intents {
		doc := w.document(receipt.Plan, p, p.Intent.Plan)
		if before, again := last[p.ID]; again && !receipt.Subset(doc, before) {
			w.t.Error("S19: an intent of a page grew")
		}
		last[p.ID] = doc
		for _, l := range doc.Lines {
			named[l.Ref()] = named[l.Ref()] || l.Decision == receipt.Delete
		}
	}
	for _, e := range w.store.Effects() {
		ref := e.Item.Ref()
		if w.policy.Versions != policy.AllVersions {
			ref.Version = ""
		}
		if !e.Restored && !named[ref] {
			w.t.Errorf("S3: %s went without a committed intent", ref.Key)
		}
		if !e.Restored && !e.Marker && !e.Item.Modified.Before(w.run.Cutoff) {
			w.t.Errorf("S1: %s was younger than the cutoff", ref.Key)
		}
	}
	for _, p := range w.ledger.AllPages(w.run.ID) {
		if p.Receipt != "" {
			w.document(receipt.Receipt, p, p.Receipt)
		}
	}
}

func (w *world) document(kind receipt.Kind, p job.Page, hash string) receipt.Document {
	w.t.Helper()
	name := receipt.Name(kind, p.Run, p.ID, hash)
	data, err := w.evidence.Get(context.Background(), name)
	w.must(err)
	doc, err := receipt.Verify(name, data)
	w.must(err)
	return doc
}

// row returns the page of the world.
func (w *world) row() job.Page {
	w.t.Helper()
	p, err := w.ledger.Page(context.Background(), w.run.ID, acme, w.first)
	w.must(err)
	return p
}

// children returns the split-off items.
func (w *world) children() (all []job.Page) {
	for _, p := range w.ledger.AllPages(w.run.ID) {
		if p.Kind == job.ItemPage {
			all = append(all, p)
		}
	}
	return all
}

// wrote returns what the page's receipt says about each item, "" for no outcome.
func (w *world) wrote(p job.Page) map[string]string {
	w.t.Helper()
	if p.Receipt == "" {
		return nil
	}
	words := map[string]string{}
	for _, l := range w.document(receipt.Receipt, p, p.Receipt).Lines {
		words[strings.TrimPrefix(l.Key, root)+l.Version] = strings.TrimSpace(l.Outcome.String() + " " + string(l.Proof))
	}
	return words
}

// want compares the page's state and receipt.
func (w *world) want(state job.PageState, outcomes map[string]string) {
	w.t.Helper()
	p := w.row()
	if got := w.wrote(p); p.State != state || !maps.Equal(got, outcomes) {
		w.t.Errorf("%s %v, want %s %v", p.State, got, state, outcomes)
	}
}

// wantLeft compares the names of acme's objects.
func (w *world) wantLeft(names ...string) {
	w.t.Helper()
	var left []string
	for item := range w.store.Objects(bucket) {
		left = append(left, strings.TrimPrefix(item.Key, root))
	}
	if !slices.Equal(left, names) {
		w.t.Errorf("left %v, want %v", left, names)
	}
}

// wantLetters compares the reasons of the dead letters.
func (w *world) wantLetters(reasons ...job.Reason) {
	w.t.Helper()
	var got []job.Reason
	for _, l := range w.queue.PeekLetters() {
		got = append(got, l.Letter.Reason)
		if l.Damaged {
			w.t.Error("a dead letter's body is not the one it was written with")
		}
	}
	if !slices.Equal(got, reasons) {
		w.t.Errorf("dead letters %v, want %v", got, reasons)
	}
}

// wantSent compares the delete calls, item by item.
func (w *world) wantSent(calls ...[]string) {
	w.t.Helper()
	if !slices.EqualFunc(w.sent, calls, slices.Equal) {
		w.t.Errorf("delete calls %v, want %v", w.sent, calls)
	}
}

func (w *world) count(op string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c == op {
			n++
		}
	}
	return n
}

func (w *world) events(name audit.Name) (all []audit.Event) {
	for _, e := range w.log.Events() {
		if e.Event == name {
			all = append(all, e)
		}
	}
	return all
}

func (w *world) bytes(r Response) string {
	w.t.Helper()
	b, err := json.Marshal(r)
	w.must(err)
	return string(b)
}

// testClock moves when it is told to, or when a step sleeps.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) Sleep(ctx context.Context, d time.Duration) error {
	c.advance(d)
	return ctx.Err()
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(max(d, 0))
}

func (c *testClock) reach(at time.Time) { c.advance(at.Sub(c.Now())) }

// skewed is another machine's clock.
type skewed struct {
	*testClock
	by time.Duration
}

func (s skewed) Now() time.Time { return s.testClock.Now().Add(s.by) }

// The ways a call ends; see failure.Hook.

func before(act func()) handler {
	return func(apply func() error) error { act(); return apply() }
}

func after(act func()) handler {
	return func(apply func() error) error { err := apply(); act(); return err }
}

func failing(err error) handler { return func(func() error) error { return err } }

func class(c failure.Class) error { return failure.New(c, "injected", "injected") }

// lost: it happened, and the answer says nothing.
func lost(apply func() error) error {
	_ = apply()
	return class(failure.Network)
}

func dieBefore(_ func() error) error { runtime.Goexit(); return nil }

func dieAfter(apply func() error) error { _ = apply(); runtime.Goexit(); return nil }

// attempts sets the limits on attempts and receives.
func attempts(n int) func(*contract.Settings) {
	return func(s *contract.Settings) { s.MaxAttempts, s.MaxReceives = n, max(2*n, 10) }
}
