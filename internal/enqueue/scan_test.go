package enqueue

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
	"weak"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// endless lists items that are made up while they are listed, and watches which
// of its answers are still held on to.
type endless struct {
	isReady
	total, perTenant int
	issued           []weak.Pointer[job.Item]
	mostHeld, heap   int
}

func (l *endless) List(_ context.Context, q job.Query) (job.Listing, error) {
	const size = 1000
	from, _ := strconv.Atoi(q.Token)
	items := make([]job.Item, 0, size)
	for i := from; i < min(from+size, l.total); i++ {
		items = append(items, job.Item{
			Key: fmt.Sprintf("exports/t%04d/%08d", i/l.perTenant, i), ETag: fmt.Sprint(i), Size: 1, Modified: noon.Add(-31 * day),
		})
	}
	l.issued = append(l.issued, weak.Make(&items[0]))
	if len(l.issued)%20 == 0 {
		l.look()
	}
	listing := job.Listing{Items: items}
	if from+size < l.total {
		listing.Token = strconv.Itoa(from + size)
	}
	return listing, nil
}

func (l *endless) look() {
	runtime.GC()
	held := 0
	for _, w := range l.issued {
		if w.Value() != nil {
			held++
		}
	}
	l.mostHeld = max(l.mostHeld, held)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.heap = max(l.heap, int(m.HeapAlloc))
}

// counted records a scan as two numbers.
type counted struct {
	pages
	run job.Run
}

func (c *counted) Record(_ context.Context, next job.Run, _ *job.Page) error {
	c.run = next
	return nil
}

// R45: a scan holds on to one answer of the lister, not to what it has listed.
func TestScanOf200000ItemsUsesConstantMemory(t *testing.T) {
	list := &endless{total: 200_000, perTenant: 7_300}
	record := &counted{}
	r := newRegion(t, parse(t), func(c *Config) { c.Lister, c.Pages = list, record })
	run, err := r.planRun(r.Deployed["exports"], tick)
	if err != nil {
		t.Fatal(err)
	}
	list.look()
	before := list.heap
	s := scan{Enqueuer: r.Enqueuer, policy: r.Deployed["exports"], deadline: r.deadline(), run: run}
	if done, err := s.all(t.Context()); !done || err != nil {
		t.Fatal(done, err)
	}
	if record.run.Candidates != list.total || record.run.Examined != list.total {
		t.Errorf("%+v", record.run)
	}
	// The answer being read, and the one before it, whose loop variables may still be on the stack.
	if list.mostHeld > 2 {
		t.Errorf("%d answers of the lister are held at once", list.mostHeld)
	}
	// 200,000 items are over 20 MB.
	if grown := list.heap - before; grown > 4<<20 {
		t.Errorf("the scan retains %d bytes", grown)
	}
}

// S3-25: pages go as soon as they are recorded, and the enqueuer dies after the
// first; the last key it recorded is gone when another one goes on after it.
func TestS325ScanGoesOnAfterAKeyThatIsGone(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, keys("exports/a/", 2500)...)
	var seen int
	r.ledger.Hook = func(op string, apply func() error) error {
		err := apply()
		if op == "record" {
			// What the page covers is deleted before anything else is listed.
			run := r.onlyRun()
			for item := range r.store.Objects("acme-exports") {
				if item.Key > run.Cursor {
					break
				}
				seen++
				r.store.Remove("acme-exports", item.Ref())
			}
			if run.Pages == 1 {
				runtime.Goexit()
			}
		}
		return err
	}
	if !process(func() { _, _ = r.Start(context.Background(), r.deadline(), tick) }) {
		t.Fatal("the first enqueuer did not die")
	}
	if r.store.Has("acme-exports", r.onlyRun().Cursor) {
		t.Fatal("the cursor's key is still there")
	}
	run := r.start(tick)
	if pages := r.chain(run); len(pages) != 3 || run.Candidates != 2500 || seen != 2500 {
		t.Errorf("%d pages, %d candidates, %d keys covered", len(pages), run.Candidates, seen)
	}
}

// S3-25: a token that the store has forgotten costs one listing and nothing else.
func TestS325StaleTokenFallsBackToTheCursor(t *testing.T) {
	var r *region
	calls := 0
	r = newRegion(t, parse(t), func(c *Config) {
		c.Lister = lists{c.Lister, func() {
			if calls++; calls%3 == 0 {
				r.store.ExpireTokens()
			}
		}, nil}
	})
	r.put(31*day, keys("exports/a/", 4500)...)
	run := r.start(tick)
	if pages := r.chain(run); len(pages) != 5 || run.Candidates != 4500 || run.State != job.Released {
		t.Errorf("%s: %d pages, %d candidates after %d listings", run.State, len(pages), run.Candidates, calls)
	}
}

// A query that the store never accepts is not asked for ever.
func TestListingThatIsRefusedIsAnError(t *testing.T) {
	for _, class := range []failure.Class{failure.Invalid, failure.Forbidden, failure.Throttled, failure.Absent, failure.Network, failure.Bug} {
		r := newRegion(t, parse(t))
		r.put(31*day, keys("exports/a/", 1500)...)
		calls := 0
		r.store.Hook = func(op string, apply func() error) error {
			if calls++; calls < 2 {
				return apply()
			}
			return failure.New(class, op, "injected")
		}
		_, err := r.Start(t.Context(), r.deadline(), tick)
		if err == nil || calls > 2*conflictTries+4 {
			t.Errorf("%s: %v after %d listings", class, err, calls)
		}
		if run := r.onlyRun(); run.State != job.Scanning {
			t.Errorf("%s: the run is %s", class, run.State)
		}
		r.messages(0)
	}
}

// R44, R80: near its deadline the scan stops with its cursor saved; Resume goes
// on from there, and no page is recorded twice.
func TestScanStopsAtItsDeadlineAndResumes(t *testing.T) {
	whole := newRegion(t, parse(t))
	whole.put(31*day, keys("exports/a/", 20_000)...)
	want := shapes(whole.chain(whole.start(tick)))

	var r *region
	r = newRegion(t, parse(t), func(c *Config) {
		c.Lister = lists{c.Lister, func() { r.clock.advance(10 * time.Second) }, nil}
	})
	r.put(31*day, keys("exports/a/", 20_000)...)
	began := r.clock.Now()
	run := r.start(tick)
	if took := r.clock.Now().Sub(began); took > r.Settings.FunctionTimeout-r.Settings.TakeMargin+10*time.Second {
		t.Errorf("it went on for %v", took)
	}
	invocations, last := 1, ""
	for run.State == job.Scanning {
		r.messages(0)
		if run.Cursor <= last {
			t.Fatalf("invocation %d made no progress", invocations)
		}
		last = run.Cursor
		if run.Cursor != "exports/a/"+lastOf(r.chain(run)).Through {
			t.Errorf("the cursor is not at the end of the last page: %q", run.Cursor)
		}
		receipt, err := r.Resume(t.Context(), r.deadline(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		run = r.run(receipt.RunID)
		invocations++
	}
	if invocations < 3 {
		t.Errorf("%d invocations", invocations)
	}
	if got := shapes(r.chain(run)); !slices.Equal(got, want) {
		t.Error("another chain than that of one invocation")
	}
}

// A long stretch without anything to record is left in time, too.
func TestScanStopsBetweenTheListingsOfOnePage(t *testing.T) {
	var r *region
	r = newRegion(t, parse(t), func(c *Config) {
		c.Lister = lists{c.Lister, func() { r.clock.advance(4 * time.Second) }, nil}
	})
	r.put(day, keys("exports/a/", 20_000)...)
	deadline := r.deadline()
	run := r.start(tick)
	if run.State != job.Scanning || run.Pages != 1 || r.clock.Now().After(deadline.Add(-r.Settings.TakeMargin+4*time.Second)) {
		t.Errorf("%s with %d pages, %v before the deadline", run.State, run.Pages, deadline.Sub(r.clock.Now()))
	}
}

// A lost answer costs one look at the run, not the invocation.
func TestLostAnswersDoNotEndTheScan(t *testing.T) {
	for _, applied := range []bool{false, true} {
		r := newRegion(t, parse(t), sized(1, 1))
		r.put(31*day, keys("exports/a/", 20)...)
		writes := 0
		r.ledger.Hook = func(op string, apply func() error) error {
			if writes++; op == "record" && writes%4 == 0 {
				return strike{applied: applied}.hit(op, apply)
			}
			return apply()
		}
		if run := r.start(tick); run.State != job.Released || len(r.chain(run)) != 20 {
			t.Errorf("applied %t: %+v", applied, run)
		}
	}
}

func lastOf(pages []job.Page) job.Page { return pages[len(pages)-1] }

// One answer of the lister can hold a thousand tenants, each with a page of its
// own to write: time is looked at before each.
func TestScanStopsBetweenThePagesOfOneListing(t *testing.T) {
	r := newRegion(t, parse(t))
	for i := range 1000 {
		r.put(31*day, fmt.Sprintf("exports/t%04d/x", i))
	}
	r.ledger.Hook = func(op string, apply func() error) error {
		if op == "record" {
			r.clock.advance(200 * time.Millisecond)
		}
		return apply()
	}
	deadline := r.deadline()
	run := r.start(tick)
	if run.State != job.Scanning || r.clock.Now().After(deadline.Add(-r.Settings.TakeMargin+200*time.Millisecond)) {
		t.Errorf("the run is %s, %v before the deadline", run.State, deadline.Sub(r.clock.Now()))
	}
	for invocation := 1; run.State == job.Scanning; invocation++ {
		if invocation > 10 {
			t.Fatal("it never ends")
		}
		run = r.start(tick)
	}
	if pages := r.chain(run); len(pages) != 1000 {
		t.Errorf("%d pages", len(pages))
	}
}

func TestInvocationWithoutTimeDoesNothing(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, "exports/a/1")
	receipt, err := r.Start(t.Context(), r.clock.Now().Add(r.Settings.TakeMargin-1), tick)
	if err != nil || receipt.State != job.Scanning || r.onlyRun().Cursor != "" {
		t.Errorf("%+v, %v", receipt, err)
	}
	// The exact margin is enough.
	if receipt, err = r.Start(t.Context(), r.clock.Now().Add(r.Settings.TakeMargin), tick); err != nil || receipt.State != job.Released {
		t.Errorf("%+v, %v", receipt, err)
	}
}

// A scan that keeps losing leaves the run to the one who keeps winning, and that
// is no failure: reconcile meets a running scan in every pass of a long one.
func TestScanThatKeepsLosingLeaves(t *testing.T) {
	var r *region
	r = newRegion(t, parse(t), sized(1, 1), func(c *Config) {
		list := c.Lister
		c.Lister = lists{list, nil, func() {
			// Another enqueuer records a stretch between each listing and its record.
			run := r.onlyRun()
			if run.Pages > 30 {
				return
			}
			rival := scan{Enqueuer: r.another(func(c *Config) { c.Lister = list }), policy: r.Deployed["exports"], deadline: r.deadline(), run: run}
			listing, err := list.List(context.Background(), job.Query{Bucket: "acme-exports", Prefix: "exports/", After: run.Cursor})
			if err != nil {
				t.Error(err)
			}
			st := &stretch{}
			if st, err = rival.take(context.Background(), st, listing.Items[0]); err == nil {
				_, err = rival.take(context.Background(), st, listing.Items[1])
			}
			if err != nil {
				t.Error(err)
			}
		}}
	})
	r.put(31*day, keys("exports/a/", 60)...)
	receipt, err := r.Start(t.Context(), r.deadline(), tick)
	if err != nil || receipt.State != job.Scanning {
		t.Fatalf("%+v, %v", receipt, err)
	}
	if run := r.onlyRun(); run.Pages != conflictTries+1 {
		t.Errorf("it left after %d pages of the other one", run.Pages)
	}
	r.chain(r.onlyRun())
}

// Policy edited mid-run: what is resumed is the pinned version, from the ledger.
func TestResumedScanUsesThePinnedVersion(t *testing.T) {
	r := newRegion(t, parse(t), sized(2, 10))
	r.put(31*day, keys("exports/a/", 6)...)
	r.put(10*day, keys("exports/b/", 6)...)
	r.ledger.Hook = func(op string, apply func() error) error {
		err := apply()
		if op == "record" {
			runtime.Goexit()
		}
		return err
	}
	process(func() { _, _ = r.Start(context.Background(), r.deadline(), tick) })
	r.ledger.Hook = nil
	before := r.onlyRun()
	// Version 2 keeps for 5 days only, lies elsewhere, and would enforce on b too.
	edited := parse(t, "version: 1", "version: 2", "retention_days: 30", "retention_days: 5", "keys: exports/", "keys: exports2/")
	second := r.another(func(c *Config) {
		c.Deployed = map[string]policy.Policy{"exports": edited}
		c.ReportOnly = true
	})
	if _, err := second.Start(t.Context(), r.deadline(), tick); err != nil {
		t.Fatal(err)
	}
	run := r.onlyRun()
	if run.Version != 1 || !run.Cutoff.Equal(before.Cutoff) || run.Mode != job.Enforce || run.PolicySHA256 != before.PolicySHA256 {
		t.Errorf("%+v", run)
	}
	if r.chain(run); run.Candidates != 6 || run.Examined != 12 {
		t.Errorf("%d candidates of %d", run.Candidates, run.Examined)
	}
	if _, err := r.ledger.Policy(t.Context(), "exports", 2); err != nil {
		t.Errorf("the edited version is not published for the next run: %v", err)
	}
}

func TestPinnedVersionThatIsNotThePublishedOneStopsTheScan(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, "exports/a/1")
	run, err := r.planRun(r.Deployed["exports"], tick)
	if err != nil {
		t.Fatal(err)
	}
	run.PolicySHA256 = "0000"
	if _, _, err := r.ledger.OpenRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resume(t.Context(), r.deadline(), run.ID); !failure.Is(err, failure.UnknownPolicy) {
		t.Errorf("nothing published: %v", err)
	}
	if err := r.ledger.PublishPolicy(t.Context(), r.Deployed["exports"]); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resume(t.Context(), r.deadline(), run.ID); !failure.Is(err, failure.UnknownPolicy) {
		t.Errorf("another content published: %v", err)
	}
	if r.onlyRun().State != job.Scanning || r.count(audit.RunReleased) != 0 {
		t.Error("the run was released")
	}
	r.messages(0)
}

func TestResumeOfARunThatIsNotScanningDoesNothing(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, "exports/a/1")
	run := r.start(tick)
	receipt, err := r.Resume(t.Context(), r.deadline(), run.ID)
	if err != nil || receipt.State != job.Released || r.onlyRun().Rev != run.Rev {
		t.Errorf("%+v, %v", receipt, err)
	}
	r.messages(1)
	if _, err := r.Resume(t.Context(), r.deadline(), "0123"); !failure.Is(err, failure.Absent) {
		t.Errorf("a run that is not there: %v", err)
	}
}
