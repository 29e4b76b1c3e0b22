package enqueue

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/queue"
)

const exports = `name: exports
version: 1
region: eu-west-1
bucket: acme-exports
keys: exports/{tenant}/
retention_days: 30
mode: enforce
schedule: {every: daily, at: "02:30", zone: Europe/Berlin}
limits: {max_share: 1}
`

const day = 24 * time.Hour

var noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

// tick is the input of the exports policy at noon.
var tick = Input{Policy: "exports", Scheduled: "2026-03-09T12:00:00Z"}

// parse reads the exports policy with pairs of texts replaced.
func parse(t testing.TB, replacements ...string) policy.Policy {
	t.Helper()
	text := exports
	for pair := range slices.Chunk(replacements, 2) {
		if strings.Count(text, pair[0]) != 1 {
			t.Fatalf("%q is not in the policy once", pair[0])
		}
		text = strings.Replace(text, pair[0], pair[1], 1)
	}
	p, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// testClock moves only when it is told to.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// region is one region's ledger, queue and bucket in memory, with one enqueuer.
type region struct {
	t      testing.TB
	clock  *testClock
	ledger *ledger.Memory
	queue  *queue.Memory
	store  *artifact.Memory
	log    *audit.Log
	config Config
	*Enqueuer
}

// newRegion builds a region for the policy, which is approved to delete. change may
// alter the enqueuer's parts.
func newRegion(t testing.TB, p policy.Policy, change ...func(*Config)) *region {
	t.Helper()
	r := unapproved(t, p, change...)
	approve(t, r.ledger, p)
	return r
}

// approve puts on record that a person lets exactly this version delete.
func approve(t testing.TB, l *ledger.Memory, p policy.Policy) {
	t.Helper()
	stands, err := l.Approval(t.Context(), p.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Approve(t.Context(), policy.Approval{
		Policy: p.Name, Rev: stands.Rev + 1, Version: p.Version, SHA256: p.SHA256(), RunID: "looked-at", By: "ana", Reason: "was looked at", At: noon,
	}); err != nil {
		t.Fatal(err)
	}
}

// unapproved builds a region in which nobody has approved anything.
func unapproved(t testing.TB, p policy.Policy, change ...func(*Config)) *region {
	t.Helper()
	r := &region{t: t, clock: &testClock{at: noon}, ledger: ledger.NewMemory(), log: &audit.Log{}}
	r.store = artifact.NewMemory(r.clock.Now)
	if err := r.store.CreateBucket(p.Bucket, p.Versions == policy.AllVersions); err != nil {
		t.Fatal(err)
	}
	r.queue = queue.NewMemory(r.clock.Now, queue.Settings{Visibility: 6 * time.Minute})
	r.config = Config{
		Runs: r.ledger, Pages: r.ledger, Policies: r.ledger, Approvals: r.ledger, Lister: r.store, Sender: r.queue,
		Audit: audit.Counted(r.log, r.log, contract.ServiceEnqueue), Clock: r.clock, Settings: contract.Production(), Region: p.Region,
		Deployed: map[string]policy.Policy{p.Name: p}, Code: "test",
	}
	for _, c := range change {
		c(&r.config)
	}
	r.Enqueuer = r.another()
	return r
}

// another returns a second enqueuer on the same parts.
func (r *region) another(change ...func(*Config)) *Enqueuer {
	r.t.Helper()
	c := r.config
	for _, f := range change {
		f(&c)
	}
	e, err := New(c)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// sized lowers the limits of a page.
func sized(items, listed int) func(*Config) {
	return func(c *Config) { c.Settings.PageItems, c.Settings.PageListed = items, listed }
}

// put stores objects of the age.
func (r *region) put(age time.Duration, keys ...string) {
	r.t.Helper()
	for _, key := range keys {
		if _, err := r.store.Put("acme-exports", job.Item{Key: key, ETag: "e", Size: 10, Modified: noon.Add(-age)}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// keys returns n keys under the prefix.
func keys(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%06d", prefix, i)
	}
	return all
}

func (r *region) deadline() time.Time { return r.clock.Now().Add(r.Settings.FunctionTimeout) }

// start invokes the enqueuer once, which must succeed, and returns the run.
func (r *region) start(in Input) job.Run {
	r.t.Helper()
	receipt, err := r.Start(context.Background(), r.deadline(), in)
	if err != nil {
		r.t.Fatal(err)
	}
	run := r.run(receipt.RunID)
	if run.State != receipt.State {
		r.t.Errorf("the answer says %s, the ledger %s", receipt.State, run.State)
	}
	return run
}

func (r *region) run(id job.RunID) job.Run {
	r.t.Helper()
	run, err := r.ledger.Run(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

// onlyRun returns the one run of the ledger.
func (r *region) onlyRun() job.Run {
	r.t.Helper()
	runs := r.ledger.Runs()
	if len(runs) != 1 {
		r.t.Fatalf("%d runs, want 1", len(runs))
	}
	return runs[0]
}

// noRun fails if anything was opened or sent.
func (r *region) noRun() {
	r.t.Helper()
	if runs := r.ledger.Runs(); len(runs) != 0 {
		r.t.Errorf("a run was opened: %+v", runs[0])
	}
	r.messages(0)
}

// messages fails unless n messages lie in the queues, and returns their bodies.
func (r *region) messages(n int) [][]byte {
	r.t.Helper()
	var bodies [][]byte
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		for _, d := range r.queue.Waiting(mode) {
			bodies = append(bodies, d.Body)
		}
	}
	if len(bodies) != n {
		r.t.Errorf("%d messages, want %d", len(bodies), n)
	}
	return bodies
}

// count returns how many events of the name were emitted.
func (r *region) count(name audit.Name) int {
	n := 0
	for _, e := range r.log.Events() {
		if e.Event == name {
			n++
		}
	}
	return n
}

// wantCounted fails unless the metric was counted so often.
func (r *region) wantCounted(m contract.Metric, want float64) {
	r.t.Helper()
	got := 0.0
	for _, one := range r.log.Measured() {
		if one.Service != "enqueue" || one.Policy != "" || one.Reason != "" || one.Time.IsZero() {
			r.t.Errorf("measured %+v", one)
		}
		if one.Metric == m {
			got += one.Value
		}
	}
	if got != want {
		r.t.Errorf("%s is %v, want %v", m, got, want)
	}
}

// process runs f as a process of its own and reports whether it died.
func process(f func()) (died bool) {
	done := make(chan bool)
	go func() {
		returned := false
		defer func() { done <- !returned }()
		f()
		returned = true
	}()
	return <-done
}

// refused fails unless err has the class and names every word, and nothing of the secret.
func refused(t testing.TB, err error, class failure.Class, words ...string) {
	t.Helper()
	if !failure.Is(err, class) {
		t.Fatalf("error %v, want class %s", err, class)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not name %q", err, w)
		}
	}
}

// lists wraps a lister: before and after are called around each listing.
type lists struct {
	lister
	before, after func()
}

func (l lists) List(ctx context.Context, q job.Query) (job.Listing, error) {
	if l.before != nil {
		l.before()
	}
	listing, err := l.lister.List(ctx, q)
	if l.after != nil {
		l.after()
	}
	return listing, err
}

// shape is what two scans of the same bucket must agree on about a page.
type shape struct {
	ID                   job.PageID
	Tenant               string
	After, Through       string
	Examined, Candidates int
}

func shapes(pages []job.Page) []shape {
	all := make([]shape, len(pages))
	for i, p := range pages {
		all[i] = shape{p.ID, p.Tenant, p.After, p.Through, p.Examined, p.Candidates}
	}
	return all
}

// chainFault says what is wrong with the pages of a run, "" for nothing: chains
// that are not contiguous from each tenant's start, or sums that the run does not record (F1, E5).
func chainFault(run job.Run, pages []job.Page) string {
	examined, candidates := run.Unmatched, 0
	through := map[string]string{}
	for _, p := range pages { // tenant by tenant, in order of the start
		switch last := through[p.Tenant]; {
		case p.After != last:
			return fmt.Sprintf("a page of %s starts after %q, the chain stands at %q", p.Tenant, p.After, last)
		case p.Through <= p.After:
			return fmt.Sprintf("a page of %s goes from %q back to %q", p.Tenant, p.After, p.Through)
		}
		through[p.Tenant] = p.Through
		examined += p.Examined
		candidates += p.Candidates
	}
	if run.Examined != examined || run.Candidates != candidates || run.Pages != len(pages) {
		return fmt.Sprintf("the run records %d examined, %d candidates, %d pages; its rows %d, %d, %d",
			run.Examined, run.Candidates, run.Pages, examined, candidates, len(pages))
	}
	return ""
}

// nameFault says which page is not named after where it starts.
func nameFault(run job.Run, pages []job.Page) string {
	for _, p := range pages {
		if p.Run != run.ID || p.ID != job.RangePageID(run.ID, p.Tenant, p.After) {
			return fmt.Sprintf("the page of %s after %q has another id", p.Tenant, p.After)
		}
	}
	return ""
}

// chain returns the pages of the run after checking them.
func (r *region) chain(run job.Run) []job.Page {
	r.t.Helper()
	pages := r.ledger.AllPages(run.ID)
	if fault := cmp.Or(chainFault(run, pages), nameFault(run, pages)); fault != "" {
		r.t.Error(fault)
	}
	return pages
}

// strike is what happens to one write: it may have happened, and its process may die.
type strike struct{ applied, crash bool }

func (s strike) String() string {
	return map[bool]string{false: "not applied", true: "applied"}[s.applied] + ", " +
		map[bool]string{false: "error", true: "crash"}[s.crash]
}

var strikes = []strike{{false, false}, {true, false}, {false, true}, {true, true}}

func (s strike) hit(op string, apply func() error) error {
	if s.applied {
		_ = apply() // it happened; the answer is lost
	}
	if s.crash {
		runtime.Goexit()
	}
	return failure.New(failure.Network, op, "injected")
}

// isReady stands in for a look at the bucket.
type isReady struct{}

func (isReady) Ready(context.Context, job.Query, string) error { return nil }
