// Package ledgertest is the promise of package ledger as a suite that every ledger runs.
//
// A fake earns trust by passing what the real ledger passes. Exercise asks for
// no hook and runs against anything, a table included; Faults walks each write
// of a ledger with a hook through "it failed" and "it failed, but it happened".
//
// Rows are read back whole. What comes from an index names its row; the index
// may lag, so a read of it is repeated before it counts as wrong. An answer of a
// paged read may hold fewer rows than its limit; an empty one is the end (DB-10).
package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// Ledger is what the suite exercises.
type Ledger interface {
	Policies
	Runs
	RunIndex
	Pages
	PageIndex
	PageWrites
	Finders
	Holds
	HoldWrites
	Brakes
	Approvals
	Watches
	Entries
	Redrives
	AutoRedrives
}

// Finders say where something is, strongly consistent.
type Finders interface {
	PolicyNames(ctx context.Context) ([]string, error)
	LatestPolicy(ctx context.Context, name string) (policy.Policy, error)
	RunsOf(ctx context.Context, tenant string) ([]job.RunID, error)
	ReadRuns(ctx context.Context, ids []job.RunID) ([]job.Run, error)
	PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error)
	PageByID(ctx context.Context, id job.PageID) (job.Page, error)
}

// Approvals keeps which version of a policy may delete.
type Approvals interface {
	Approval(ctx context.Context, name string) (policy.Approval, error)
	Approve(ctx context.Context, next policy.Approval) error
}

// Watches keeps how far a policy's schedule was looked at.
type Watches interface {
	Watch(ctx context.Context, name string) (job.Watch, error)
	SwapWatch(ctx context.Context, next job.Watch) error
}

// Entries keeps the orders of operators.
type Entries interface {
	PutEntry(ctx context.Context, e audit.Entry) error
	Entries(ctx context.Context, since, until time.Time, limit int) ([]audit.Entry, error)
}

// Redrives keeps redrive plans.
type Redrives interface {
	PutRedrive(ctx context.Context, r job.Redrive, pages []job.RedrivePage) error
	Redrive(ctx context.Context, id job.RedriveID) (job.Redrive, error)
	RedrivePages(ctx context.Context, id job.RedriveID) ([]job.RedrivePage, error)
	SwapRedrive(ctx context.Context, next job.Redrive) error
	OpenRedrives(ctx context.Context) ([]job.Redrive, error)
}

// AutoRedrives keeps whether a schedule may redrive.
type AutoRedrives interface {
	AutoRedrive(ctx context.Context) (job.AutoRedrive, error)
	SwapAutoRedrive(ctx context.Context, next job.AutoRedrive) error
}

// Policies keeps policy versions, each published once.
type Policies interface {
	PublishPolicy(ctx context.Context, p policy.Policy) error
	Policy(ctx context.Context, name string, version int) (policy.Policy, error)
}

// Runs opens, reads and moves runs.
type Runs interface {
	OpenRun(ctx context.Context, r job.Run) (stored job.Run, created bool, err error)
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	SwapRun(ctx context.Context, next job.Run) error
}

// RunIndex finds runs. It may lag.
type RunIndex interface {
	OpenRuns(ctx context.Context) ([]job.Run, error)
	AwaitingRuns(ctx context.Context) ([]job.Run, error)
	ClosedRuns(ctx context.Context, policy string, limit int) ([]job.Run, error)
	RecentRuns(ctx context.Context, policy string, limit int) ([]job.Run, error)
}

// Pages reads pages, strongly consistent.
type Pages interface {
	Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error)
	Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error)
	Tenants(ctx context.Context, run job.RunID) ([]string, error)
	Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error)
}

// PageIndex finds pages. It may lag.
type PageIndex interface {
	OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error)
	DeadPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error)
}

// PageWrites puts and moves pages.
type PageWrites interface {
	Record(ctx context.Context, next job.Run, page *job.Page) error
	SwapPage(ctx context.Context, next job.Page) error
	SwapPages(ctx context.Context, next []job.Page) error
	Intend(ctx context.Context, next job.Page, epoch int64) error
	Complete(ctx context.Context, next job.Page, children []job.Page) error
}

// Holds reads a tenant's holds, strongly consistent.
type Holds interface {
	Epoch(ctx context.Context, tenant string) (int64, error)
	Holds(ctx context.Context, tenant string) (hold.Set, error)
}

// HoldWrites places and releases holds.
type HoldWrites interface {
	PlaceHold(ctx context.Context, h hold.Hold) (hold.Hold, error)
	ReleaseHold(ctx context.Context, tenant, id string, at time.Time) error
}

// Brakes sets, releases and reads brakes.
type Brakes interface {
	Brakes(ctx context.Context) ([]job.Brake, error)
	SetBrake(ctx context.Context, b job.Brake) error
	ReleaseBrake(ctx context.Context, b job.Brake) error
}

// Exercise runs the suite. open returns an empty ledger that lives until its test
// ends.
func Exercise(t *testing.T, open func(t *testing.T) Ledger) {
	for _, part := range []map[string]func(*testing.T, Ledger){policyTests, runTests, recordTests, pageTests, orderTests, holdTests, orderlyTests} {
		for name, test := range part {
			t.Run(name, func(t *testing.T) { test(t, open(t)) })
		}
	}
}

// region, instant and the tenants are those of every fixture. school-42 begins
// with school-4: two tenants that a careless comparison takes for one (S3-10).
const (
	region    = "eu-central-1"
	tenant    = "school-42"
	neighbour = "school-4"
)

// instant has nanoseconds: what comes back is what was put, not almost.
var instant = time.Date(2026, 3, 8, 2, 30, 0, 123_456_789, time.UTC)

func after(d time.Duration) time.Time { return instant.Add(d) }

// runOf returns a run that was just planned.
func runOf(name string, scheduled time.Time) job.Run {
	return job.Run{
		ID: job.ScheduledRunID(region, name, scheduled), Rev: 1, Region: region, Policy: name, Version: 1,
		PolicySHA256: strings.Repeat("c", 64), Mode: job.Enforce, Scheduled: scheduled,
		Cutoff: scheduled.Add(-30 * 24 * time.Hour), State: job.Scanning, OpenedAt: scheduled,
	}
}

// pageOf returns the page of a run that starts at a key.
func pageOf(r job.Run, tenant, start string) job.Page {
	return job.Page{
		ID: job.RangePageID(r.ID, tenant, start), Run: r.ID, Tenant: tenant, Kind: job.RangePage, Rev: 1,
		After: start, Through: start + "z", Examined: 40, Candidates: 30, State: job.Planned,
		BornAt: instant, NextDue: after(12 * time.Minute),
	}
}

// itemOf returns the page of an item that splits off from a page.
func itemOf(parent job.Page, key string) job.Page {
	return job.Page{
		ID: job.ItemPageID(parent.Run, parent.Tenant, job.Ref{Key: key}), Run: parent.Run, Tenant: parent.Tenant,
		Kind: job.ItemPage, Parent: parent.ID, Rev: 0, Candidates: 1, Planned: 1, State: job.Planned,
		BornAt: instant, NextDue: instant, Intent: job.Intent{Plan: key, Epoch: 1, Fence: 1, Deletes: 1},
	}
}

// opened puts a run.
func opened(t *testing.T, l Ledger, r job.Run) job.Run {
	t.Helper()
	stored, created, err := l.OpenRun(t.Context(), r)
	if err != nil || !created {
		t.Fatalf("open run: created %v, %v", created, err)
	}
	return stored
}

// recorded records pages one after another and returns the run as it is then.
func recorded(t *testing.T, l Ledger, r job.Run, pages ...job.Page) job.Run {
	t.Helper()
	for i := range pages {
		r = advanced(t, r, &pages[i])
		ok(t, l.Record(t.Context(), r, &pages[i]))
	}
	return r
}

func advanced(t *testing.T, r job.Run, page *job.Page) job.Run {
	t.Helper()
	s := job.Stretch{Through: "none", Examined: 3, Unmatched: 3}
	if page != nil {
		s = job.Stretch{Through: page.Tenant + "/" + page.Through, Examined: page.Examined}
	}
	next, err := r.Advance(s, page)
	ok(t, err)
	return next
}

// one returns an open ledger's run and its only page.
func one(t *testing.T, l Ledger) (job.Run, job.Page) {
	t.Helper()
	r := opened(t, l, runOf("exports", instant))
	p := pageOf(r, tenant, "")
	return recorded(t, l, r, p), p
}

// claimed claims a page for a minute, under a name.
func claimed(t *testing.T, p job.Page, owner string, now time.Time) job.Page {
	t.Helper()
	next, err := p.Claim(owner, now, now.Add(time.Minute), now.Add(13*time.Minute))
	ok(t, err)
	return next
}

func intended(t *testing.T, p job.Page, epoch int64) job.Page {
	t.Helper()
	next, err := p.Intend("plan", epoch, 20, 30, 16*time.Minute)
	ok(t, err)
	return next
}

func completed(t *testing.T, p job.Page, moved int) job.Page {
	t.Helper()
	s := job.Settled{Receipt: "receipt", Planned: 30, Moved: moved}
	s.Counts[job.Deleted] = 30 - moved
	next, err := p.Complete(s)
	ok(t, err)
	return next
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantClass(t *testing.T, err error, class failure.Class) {
	t.Helper()
	if !failure.Is(err, class) {
		t.Errorf("error is %v, want class %s", err, class)
	}
}

func wantRun(t *testing.T, l Ledger, want job.Run) {
	t.Helper()
	got, err := l.Run(t.Context(), want.ID)
	ok(t, err)
	wantSame(t, got, want)
}

func wantPage(t *testing.T, l Ledger, want job.Page) {
	t.Helper()
	got, err := l.Page(t.Context(), want.Run, want.Tenant, want.ID)
	ok(t, err)
	wantSame(t, got, want)
	got, _, err = l.Look(t.Context(), want.Run, want.Tenant, want.ID)
	ok(t, err)
	wantSame(t, got, want)
	got, err = l.PageByID(t.Context(), want.ID)
	ok(t, err)
	wantSame(t, got, want)
}

func wantNoPage(t *testing.T, l Ledger, p job.Page) {
	t.Helper()
	_, err := l.Page(t.Context(), p.Run, p.Tenant, p.ID)
	wantClass(t, err, failure.Absent)
	_, _, err = l.Look(t.Context(), p.Run, p.Tenant, p.ID)
	wantClass(t, err, failure.Absent)
	if found, err := l.PageByID(t.Context(), p.ID); err == nil && found.Run == p.Run && found.Tenant == p.Tenant {
		t.Errorf("found by its id: %+v", found)
	}
}

// reads is how often an index is read before its answer counts: it may lag.
const reads = 100

// eventually reads an index until it answers as wanted.
func eventually(t *testing.T, want string, read func() (string, error)) {
	t.Helper()
	var got string
	for range reads {
		var err error
		got, err = read()
		ok(t, err)
		if got == want {
			return
		}
	}
	t.Errorf("the index answers\n%s\nwant\n%s", got, want)
}

// walk pages through a read until an empty answer.
func walk(t *testing.T, limit int, next func(after *job.Page, limit int) ([]job.Page, error)) []job.Page {
	t.Helper()
	var all []job.Page
	var last *job.Page
	for range 1000 {
		pages, err := next(last, limit)
		ok(t, err)
		if len(pages) > limit {
			t.Fatalf("%d rows in an answer of at most %d", len(pages), limit)
		}
		if len(pages) == 0 {
			return all
		}
		all = append(all, pages...)
		last = &pages[len(pages)-1]
	}
	t.Fatal("the walk does not end")
	return nil
}

func ids(pages []job.Page) string {
	var b strings.Builder
	for _, p := range pages {
		fmt.Fprintf(&b, "%s %s %s %.20q\n", p.Run, p.Tenant, p.ID, p.After)
	}
	return b.String()
}

const racers = 16

// race starts all racers at once and returns their errors.
func race(do func(i int) error) []error {
	errs := make([]error, racers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			<-start
			errs[i] = do(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// winner returns who won a race; everyone else must have lost with the class.
func winner(t *testing.T, errs []error, class failure.Class) int {
	t.Helper()
	won := slices.Index(errs, nil)
	if won < 0 {
		t.Fatalf("nobody won: %v", errs)
	}
	for i, err := range errs {
		switch {
		case i == won:
		case err == nil:
			t.Fatalf("racers %d and %d both won", won, i)
		default:
			wantClass(t, err, class)
		}
	}
	return won
}
