package reconcile

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	kept "github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	q "github.com/expunge-aws/expunge/internal/queue"
)

var noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

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

// scanner stands in for enqueue.
type scanner struct {
	hook    failure.Hook // knows "start"
	resumed []job.RunID
	errs    map[job.RunID]error
	during  func()
	begin   func(policy string, scheduled time.Time) error

	mu      sync.Mutex
	started []string // policy and instant
}

// Start begins the run of a date, once.
func (s *scanner) Start(_ context.Context, _ time.Time, policy string, scheduled time.Time) error {
	return s.hook.Do("start", func() error {
		s.mu.Lock()
		s.started = append(s.started, policy+" "+scheduled.Format(time.RFC3339))
		s.mu.Unlock()
		if s.begin == nil {
			return nil
		}
		return s.begin(policy, scheduled)
	})
}

func (s *scanner) Resume(_ context.Context, _ time.Time, id job.RunID) error {
	s.resumed = append(s.resumed, id)
	if s.during != nil {
		s.during()
	}
	return s.errs[id]
}

// mover stands in for redrive.
type mover struct {
	hook failure.Hook // knows "continue"
	move func(job.RedriveID) error

	mu      sync.Mutex
	resumed []job.RedriveID
}

func (m *mover) Resume(_ context.Context, _ time.Time, id job.RedriveID) error {
	return m.hook.Do("continue", func() error {
		m.mu.Lock()
		m.resumed = append(m.resumed, id)
		m.mu.Unlock()
		if m.move == nil {
			return nil
		}
		return m.move(id)
	})
}

// region is one region's ledger, queue and evidence in memory, with one reconciler.
type region struct {
	t        testing.TB
	clock    *testClock
	ledger   *ledger.Memory
	queue    *q.Memory
	evidence *kept.Memory
	scans    *scanner
	redrives *mover
	log      *audit.Log
	items    int // split-off items so far
	before   int // measurements before the last pass
	config   Config
	*Reconciler
}

func newRegion(t testing.TB, change ...func(*Config)) *region {
	t.Helper()
	r := &region{t: t, clock: &testClock{at: noon}, ledger: ledger.NewMemory(), evidence: &kept.Memory{},
		scans: &scanner{}, redrives: &mover{}, log: &audit.Log{}}
	r.queue = q.NewMemory(r.clock.Now, q.Settings{Visibility: 6 * time.Minute})
	r.config = Config{
		Index: r.ledger, Rows: r.ledger, Runs: r.ledger, Watches: r.ledger, Plans: r.ledger, Scans: r.scans, Redrives: r.redrives,
		Evidence: r.evidence, Queue: r.queue, Audit: audit.Counted(r.log, r.log, contract.ServiceReconcile), Gauges: r.log, Clock: r.clock,
		Settings: contract.Production(), Region: "eu-west-1", Code: "test",
	}
	for _, c := range change {
		c(&r.config)
	}
	r.Reconciler = r.another()
	return r
}

func (r *region) another() *Reconciler {
	r.t.Helper()
	rec, err := New(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	return rec
}

// open puts a run in the state; change may alter it.
func (r *region) open(name string, state job.RunState, change ...func(*job.Run)) *job.Run {
	r.t.Helper()
	run := job.Run{
		ID: job.ScheduledRunID("eu-west-1", name, noon), Rev: 1, Region: "eu-west-1", Policy: name, Version: 1, Mode: job.Enforce,
		PolicySHA256: strings.Repeat("ab", 32), Scheduled: noon.Add(-time.Hour), Cutoff: noon.Add(-31 * 24 * time.Hour), State: state,
	}
	for _, c := range change {
		c(&run)
	}
	if _, _, err := r.ledger.OpenRun(context.Background(), run); err != nil {
		r.t.Fatal(err)
	}
	return &run
}

// add puts a page into the run and counts it as the scan does. A page without a
// due time is overdue since an hour ago.
func (r *region) add(run *job.Run, p job.Page) job.Page {
	r.t.Helper()
	p.Run = run.ID
	if p.Tenant == "" {
		p.Tenant = "school-42"
	}
	if p.Kind == "" {
		p.Kind = job.RangePage
	}
	if p.Kind == job.RangePage {
		p.After = strconv.Itoa(10_000 + run.Pages)
		p.Through = strconv.Itoa(10_001 + run.Pages)
		p.ID = job.RangePageID(run.ID, p.Tenant, p.After)
		if p.Candidates == 0 {
			p.Candidates = 10
		}
		p.Examined = p.Candidates + 5
		run.Pages++
		run.Candidates += p.Candidates
		run.Examined += p.Examined
	} else {
		r.items++
		p.ID = job.ItemPageID(run.ID, p.Tenant, job.Ref{Key: strconv.Itoa(r.items)})
		p.Candidates, p.Planned = 1, 1
	}
	if p.NextDue.IsZero() {
		p.NextDue = noon.Add(-time.Hour)
	}
	if p.BornAt.IsZero() {
		p.BornAt = noon.Add(-2 * time.Hour)
	}
	run.Rev++
	if err := r.ledger.Record(context.Background(), *run, &p); err != nil {
		r.t.Fatal(err)
	}
	return p
}

// done is a completed page all of whose candidates were deleted.
func done(candidates int) job.Page {
	p := job.Page{State: job.Completed, Candidates: candidates, Planned: candidates, Bytes: int64(candidates) * 10, NextDue: noon.Add(time.Hour)}
	p.Counts[job.Deleted] = candidates
	return p
}

// in returns a page as it may stand in the state, its lease over.
func in(state job.PageState) job.Page {
	p := job.Page{State: state}
	switch state {
	case job.Claimed, job.Intended:
		p.Owner, p.Fence, p.Attempts, p.LeaseEnd = "w", 1, 1, noon
	case job.Retrying:
		p.Fence, p.Attempts, p.FirstFailure, p.RetryAt = 1, 1, noon.Add(-time.Hour), noon.Add(-time.Hour)
	case job.Redriven:
		p.Fence, p.Attempts, p.Spent, p.FirstFailure, p.RestartedAt = 5, 5, 5, noon.Add(-48*time.Hour), noon.Add(-time.Hour)
	default:
	}
	if state == job.Intended {
		p.Intent, p.Planned = job.Intent{Plan: "cd", Fence: 1, Deletes: 10}, 10
	}
	if state == job.Dead {
		p.Attempts, p.Death = 5, job.Death{Reason: job.ReasonAttempts, At: noon.Add(-time.Hour)}
		p.LastClass = failure.Network
	}
	return p
}

func openStates() (open []job.PageState) {
	for _, s := range job.PageStates() {
		if s.Open() {
			open = append(open, s)
		}
	}
	return open
}

func (r *region) deadline() time.Time { return r.clock.Now().Add(r.Settings.FunctionTimeout) }

// pass runs one pass, which must succeed.
func (r *region) pass() Summary {
	r.t.Helper()
	did, err := r.try()
	if err != nil {
		r.t.Error(err)
	}
	return did
}

// try runs one pass.
func (r *region) try() (Summary, error) {
	r.before = len(r.log.Measured())
	return r.Pass(context.Background(), r.deadline())
}

func (r *region) page(p job.Page) job.Page {
	r.t.Helper()
	stored, err := r.ledger.Page(context.Background(), p.Run, p.Tenant, p.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return stored
}

func (r *region) run(of *job.Run) job.Run {
	r.t.Helper()
	stored, err := r.ledger.Run(context.Background(), of.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return stored
}

// untouched fails if the row of the page or its queue was written.
func (r *region) untouched(pages ...job.Page) {
	r.t.Helper()
	for _, p := range pages {
		if stored := r.page(p); stored != p {
			r.t.Errorf("the row of a %s page was written:\n got %+v\nwant %+v", p.State, stored, p)
		}
		if n := r.messagesOf(p); n != 0 {
			r.t.Errorf("a %s page was sent %d times", p.State, n)
		}
	}
}

// messagesOf counts the page's messages in its mode's queue; each must be the
// recorded command, byte for byte.
func (r *region) messagesOf(p job.Page) int {
	r.t.Helper()
	run, err := r.ledger.Run(context.Background(), p.Run)
	if err != nil {
		r.t.Fatal(err)
	}
	want, n := job.NewCommand(run, p).Encode(), 0
	for _, d := range r.queue.Waiting(run.Mode) {
		c, err := job.Decode(d.Body)
		if err != nil {
			r.t.Error(err)
		}
		if c.PageID == p.ID {
			n++
			if !bytes.Equal(d.Body, want) {
				r.t.Errorf("message\n got %s\nwant %s", d.Body, want)
			}
		}
	}
	return n
}

func (r *region) lettersOf(p job.Page) (letters []job.Letter) {
	for _, d := range r.queue.PeekLetters() {
		if d.Letter.PageID == p.ID && !d.Damaged {
			letters = append(letters, d.Letter)
		}
	}
	return letters
}

func (r *region) count(name audit.Name) int {
	n := 0
	for _, e := range r.log.Events() {
		if e.Event == name {
			n++
		}
	}
	return n
}

// measured returns the value of a metric in the last pass; ok is false when it was
// not published, and a metric that is published twice is an error.
func (r *region) measured(m contract.Metric, policy string) (value float64, ok bool) {
	r.t.Helper()
	for _, got := range r.log.Measured()[r.before:] {
		if got.Metric != m || got.Policy != policy {
			continue
		}
		if ok {
			r.t.Errorf("%s of %q was published twice in a pass", m, policy)
		}
		if got.Service != "reconcile" || got.Time.IsZero() {
			r.t.Errorf("%+v", got)
		}
		value, ok = got.Value, true
	}
	return value, ok
}

// wantMeasured fails unless the last pass published the value. 0 is not published, but
// for the region's lag; there, below 0 is not at all.
func (r *region) wantMeasured(m contract.Metric, policy string, want float64) {
	r.t.Helper()
	published := want > 0 || want == 0 && m == contract.BusinessDateLag && policy == ""
	if got, ok := r.measured(m, policy); ok != published || ok && got != want {
		r.t.Errorf("%s of %q: %v, published %t, want %v", m, policy, got, ok, want)
	}
}

// wantCounted fails unless the last pass counted the metric so often, by reason.
func (r *region) wantCounted(m contract.Metric, reason job.Reason, want float64) {
	r.t.Helper()
	got := 0.0
	for _, one := range r.log.Measured()[r.before:] {
		if one.Metric == m && one.Reason == reason && one.Service == "reconcile" && one.Policy == "" && !one.Time.IsZero() {
			got += one.Value
		}
	}
	if got != want {
		r.t.Errorf("%s %s is %v, want %v", m, reason, got, want)
	}
}

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

var errInjected = failure.New(failure.Network, "read", "injected")

// faultyRows fails every read of one run, and counts the pages read one by one.
type faultyRows struct {
	rows
	of    job.RunID
	reads int
}

func (f *faultyRows) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	f.reads++
	if run == f.of {
		return job.Page{}, errInjected
	}
	return f.rows.Page(ctx, run, tenant, id)
}

func (f *faultyRows) Tenants(ctx context.Context, run job.RunID) ([]string, error) {
	if run == f.of {
		return nil, errInjected
	}
	return f.rows.Tenants(ctx, run)
}

// hints is an index that is behind: it shows pages as they once were.
type hints struct {
	index
	pages []job.Page
}

func (h hints) OpenPages(_ context.Context, after *job.Page, _ int) ([]job.Page, error) {
	if after != nil {
		return nil, nil
	}
	return slices.Clone(h.pages), nil
}

type brokenIndex struct{ index }

func (brokenIndex) OpenRuns(context.Context) ([]job.Run, error) { return nil, errors.New("injected") }
