package redrive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/local"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/redrive"
)

const (
	regionName = "eu-west-1"
	day        = 24 * time.Hour

	exportsYAML = `name: exports
version: 1
region: eu-west-1
bucket: acme-exports
keys: exports/{tenant}/
retention_days: 30
mode: enforce
schedule: {every: daily, at: "12:00", zone: UTC}
limits: {max_share: 1}
`
	uploadsYAML = `name: uploads
version: 1
region: eu-west-1
bucket: acme-uploads
keys: uploads/{tenant}/
retention_days: 30
mode: report-only
schedule: {every: daily, at: "12:00", zone: UTC}
limits: {max_share: 1}
`
)

var (
	noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	ana  = audit.Signature{By: "arn:aws:iam::1:user/ana", Reason: "the role is mended"}
)

// region is one region in memory with every step of the pipeline, and one redriver.
type region struct {
	t testing.TB
	*local.World
	config redrive.Config
	*redrive.Redriver
	// forbidden makes every listing of the store fail for good.
	forbidden bool
}

func newRegion(t testing.TB) *region {
	t.Helper()
	return newRegionOf(t, exportsYAML, uploadsYAML)
}

func newRegionOf(t testing.TB, policies ...string) *region {
	t.Helper()
	r := &region{t: t}
	o := local.Options{Region: regionName, AsOf: noon}
	for _, yaml := range policies {
		o.Policies = append(o.Policies, r.parse(yaml))
	}
	var err error
	r.World, err = local.New(o)
	must(t, err)
	r.Store.Hook = func(op string, apply func() error) error {
		if op == "list" && r.forbidden {
			return failure.New(failure.Forbidden, "list", "injected")
		}
		return apply()
	}
	for _, p := range r.Policies {
		must(t, r.Ledger.PublishPolicy(t.Context(), p))
	}
	r.config = redrive.Config{
		Pages: r.Ledger, Runs: r.Ledger, Policies: r.Ledger, Approvals: r.Ledger, Holds: r.Ledger, Brakes: r.Ledger, Orders: r.Ledger,
		Plans: r.Ledger, Schedule: r.Ledger, Letters: r.Queue, Sender: r.Queue, Evidence: r.Evidence, Audit: audit.Counted(r.Log, r.Log, contract.ServiceRedrive),
		Clock: r.Clock, Settings: r.Settings, Region: regionName, Code: "test",
	}
	r.Redriver = r.another()
	r.Reconciler.Redrives = following{r}
	return r
}

// following is what reconcile asks to go on with a plan: a redrive function of its own.
type following struct{ r *region }

func (f following) Resume(ctx context.Context, _ time.Time, id job.RedriveID) error {
	_, err := f.r.another().Resume(ctx, f.r.deadline(), id)
	return err
}

// tick lets the redriver's clock move by itself, as a machine's does.
func (r *region) tick() {
	r.t.Helper()
	r.config.Clock = ticking{r.Clock}
	r.Redriver = r.another()
}

// another returns a redriver as the next process makes it.
func (r *region) another(change ...func(*redrive.Config)) *redrive.Redriver {
	r.t.Helper()
	c := r.config
	for _, f := range change {
		f(&c)
	}
	made, err := redrive.New(c)
	must(r.t, err)
	return made
}

func (r *region) parse(yaml string) policy.Policy {
	r.t.Helper()
	p, err := policy.Parse("test.yaml", []byte(yaml))
	must(r.t, err)
	return p
}

// put stores expired objects of a tenant below the folder.
func (r *region) put(folder, tenant string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		_, err := r.Store.Put("acme-"+folder, job.Item{Key: folder + "/" + tenant + "/" + name, ETag: "e-" + name, Size: 10, Modified: noon.Add(-40 * day)})
		must(r.t, err)
	}
}

// die puts objects, fires the schedule and lets every page of the run die: of a
// delete that the store refuses, or of a listing.
func (r *region) die(name string, listing bool, tenants ...string) []job.Page {
	r.t.Helper()
	for _, tenant := range tenants {
		r.put(name, tenant, "a", "b")
	}
	if listing {
		_, err := r.Tick(r.t.Context(), name, r.Clock.Now())
		must(r.t, err)
		r.forbidden = true
	} else {
		must(r.t, r.Store.Deny("acme-"+name, ""))
		_, err := r.Tick(r.t.Context(), name, r.Clock.Now())
		must(r.t, err)
	}
	run := job.ScheduledRunID(regionName, name, r.Clock.Now())
	must(r.t, r.Drain(r.t.Context()))
	r.forbidden = false
	must(r.t, r.Store.Allow("acme-"+name))
	pages := r.Ledger.AllPages(run)
	if len(pages) != len(tenants) {
		r.t.Fatalf("%d pages, want %d", len(pages), len(tenants))
	}
	for _, p := range pages {
		if p.State != job.Dead || p.Death.LetterAt.IsZero() || (p.Intent == job.Intent{}) != listing {
			r.t.Fatalf("a page is %s with the intent %+v", p.State, p.Intent)
		}
	}
	return pages
}

// dead puts dead pages of one run into the ledger, with their letters, without
// asking anybody. Each has one object.
func (r *region) dead(name string, n int, change ...func(*job.Page)) (job.Run, []job.Page) {
	r.t.Helper()
	p, err := r.Ledger.Policy(r.t.Context(), name, 1)
	must(r.t, err)
	now := r.Clock.Now()
	run := job.Run{
		ID: job.ScheduledRunID(regionName, name, now), Rev: 1, Region: regionName, Policy: name, Version: 1, PolicySHA256: p.SHA256(), Mode: p.Mode,
		Scheduled: now, Cutoff: now.Add(-30 * day), State: job.Scanning, OpenedAt: now,
	}
	_, _, err = r.Ledger.OpenRun(r.t.Context(), run)
	must(r.t, err)
	var pages []job.Page
	for i := range n {
		tenant := fmt.Sprintf("tenant-%04d", i)
		r.put(name, tenant, "a")
		page := job.Page{
			ID: job.RangePageID(run.ID, tenant, ""), Run: run.ID, Tenant: tenant, Kind: job.RangePage, Through: "a", Examined: 1, Candidates: 1,
			State: job.Dead, BornAt: now, Attempts: 5, FirstFailure: now, LastClass: failure.Network,
			Death: job.Death{Reason: job.ReasonAttempts, At: now, LetterAt: now},
		}
		for _, f := range change {
			f(&page)
		}
		run, err = run.Advance(job.Stretch{Through: tenant, Examined: 1}, &page)
		must(r.t, err)
		must(r.t, r.Ledger.Record(r.t.Context(), run, &page))
		r.letter(run, page)
		pages = append(pages, page)
	}
	run, err = run.Release(now, nil, "", "")
	must(r.t, err)
	must(r.t, r.Ledger.SwapRun(r.t.Context(), run))
	return run, pages
}

// letter writes a page's dead letter, as a worker does.
func (r *region) letter(run job.Run, page job.Page) {
	r.t.Helper()
	must(r.t, r.Queue.DeadLetter(r.t.Context(), job.Letter{
		Body: job.NewCommand(run, page).Encode(), Reason: page.Death.Reason, RunID: run.ID, PageID: page.ID, Policy: run.Policy, Version: run.Version,
		Region: run.Region, Attempts: page.Attempts, FirstAt: page.BornAt, FailedAt: page.Death.At,
	}))
}

// wait lets the ages of the gates pass.
func (r *region) wait() { r.Clock.Advance(r.Settings.RedriveAfterFailure) }

func (r *region) deadline() time.Time { return r.Clock.Now().Add(r.Settings.FunctionTimeout) }

// ask hands a request over as bytes and decodes the answer as the operator's tool
// does. It returns the error beside the zero answer.
func ask[A any](r *region, by *redrive.Redriver, request any) (a A, err error) {
	r.t.Helper()
	payload, err := json.Marshal(request)
	must(r.t, err)
	got, err := by.Handle(r.t.Context(), r.deadline(), payload)
	if err != nil {
		if got != nil {
			r.t.Errorf("an answer beside an error: %+v", got)
		}
		return a, err
	}
	said, err := json.Marshal(got)
	must(r.t, err)
	d := json.NewDecoder(bytes.NewReader(said))
	d.DisallowUnknownFields()
	must(r.t, d.Decode(&a))
	if strings.Contains(string(said), "null") {
		r.t.Errorf("a list of the answer is null: %s", said)
	}
	return a, nil
}

func (r *region) inspected(q redrive.InspectRequest) redrive.Inspection {
	r.t.Helper()
	q.Op = redrive.OpInspect
	a, err := ask[redrive.Inspection](r, r.Redriver, q)
	must(r.t, err)
	return a
}

func (r *region) planned(q redrive.PlanRequest) redrive.Plan {
	r.t.Helper()
	a, err := ask[redrive.Plan](r, r.Redriver, q)
	must(r.t, err)
	return a
}

func apply(token string) redrive.ApplyRequest {
	return redrive.ApplyRequest{Op: redrive.OpApply, Token: token, Signature: ana}
}

func (r *region) applied(token string) redrive.Applied {
	r.t.Helper()
	a, err := ask[redrive.Applied](r, r.Redriver, apply(token))
	must(r.t, err)
	return a
}

func (r *region) status(id job.RedriveID) redrive.Status {
	r.t.Helper()
	a, err := ask[redrive.Status](r, r.Redriver, redrive.StatusRequest{Op: redrive.OpStatus, ID: id})
	must(r.t, err)
	return a
}

// page returns a page as its row is now.
func (r *region) page(p job.Page) job.Page {
	r.t.Helper()
	stored, err := r.Ledger.Page(r.t.Context(), p.Run, p.Tenant, p.ID)
	must(r.t, err)
	return stored
}

func (r *region) runOf(p job.Page) job.Run {
	r.t.Helper()
	run, err := r.Ledger.Run(r.t.Context(), p.Run)
	must(r.t, err)
	return run
}

// set changes a page's row.
func (r *region) set(p job.Page, change func(*job.Page)) job.Page {
	r.t.Helper()
	p = r.page(p)
	change(&p)
	p.Rev++
	must(r.t, r.Ledger.SwapPage(r.t.Context(), p))
	return p
}

// bodies returns the pages that the messages in a mode's queue name.
func (r *region) bodies(mode job.Mode) (ids []job.PageID) {
	r.t.Helper()
	for _, d := range r.Queue.Waiting(mode) {
		c, err := job.Decode(d.Body)
		must(r.t, err)
		ids = append(ids, c.PageID)
	}
	return ids
}

func (r *region) entries(act audit.Name) (all []audit.Entry) {
	r.t.Helper()
	entries, err := r.Ledger.Entries(r.t.Context(), noon.Add(-365*day), noon.Add(365*day), 100_000)
	must(r.t, err)
	for _, e := range entries {
		if e.Act == act {
			all = append(all, e)
		}
	}
	return all
}

func (r *region) events(name audit.Name) (all []audit.Event) {
	for _, e := range r.Log.Events() {
		if e.Event == name {
			all = append(all, e)
		}
	}
	return all
}

// wantCounted fails unless redrive counted the metric so often.
func (r *region) wantCounted(m contract.Metric, want float64) {
	r.t.Helper()
	got := 0.0
	for _, one := range r.Log.Measured() {
		if one.Metric == m && one.Service == "redrive" && one.Policy == "" && !one.Time.IsZero() {
			got += one.Value
		}
	}
	if got != want {
		r.t.Errorf("%s is %v, want %v", m, got, want)
	}
}

// holds checks every invariant of the region.
func (r *region) holds() {
	r.t.Helper()
	facts, err := r.Facts(r.t.Context())
	must(r.t, err)
	for _, result := range invariant.Check(facts) {
		if !result.Holds {
			r.t.Errorf("%s: %s", result.ID, result.Detail)
		}
	}
}

// deletedOnce checks that every object was deleted by exactly one effect.
func (r *region) deletedOnce(n int) {
	r.t.Helper()
	seen := map[string]int{}
	for _, e := range r.Store.Effects() {
		seen[e.Item.Key]++
	}
	for key, times := range seen {
		if times != 1 {
			r.t.Errorf("%s was deleted %d times", key, times)
		}
	}
	if len(seen) != n {
		r.t.Errorf("%d objects were deleted, want %d", len(seen), n)
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

// script counts every write of a region and strikes the chosen one; -1 strikes none.
type script struct {
	writes []string
	at     int
	strike strike
}

func (s *script) hook(op string, apply func() error) error {
	n := len(s.writes)
	s.writes = append(s.writes, op)
	if n == s.at {
		return s.strike.hit(op, apply)
	}
	return apply()
}

// under lets the script see every write of the ledger and the queues while f runs.
func (r *region) under(s *script, f func()) {
	r.Ledger.Hook, r.Queue.Hook = s.hook, s.hook
	defer func() { r.Ledger.Hook, r.Queue.Hook = nil, nil }()
	f()
}

// still fails if f writes anything but what is allowed.
func (r *region) still(f func(), allowed ...string) {
	r.t.Helper()
	s := &script{at: -1}
	r.under(s, f)
	if !slices.Equal(s.writes, allowed) {
		r.t.Errorf("wrote %q, want %q", s.writes, allowed)
	}
}

// refused fails unless err has the class and names every word.
func refused(t testing.TB, err error, class failure.Class, words ...string) {
	t.Helper()
	if !failure.Is(err, class) {
		t.Errorf("error %v, want class %s", err, class)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not name %q", err, w)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// slow is a ledger whose every page read takes a time.
type slow struct {
	*ledger.Memory
	clock *local.Clock
	takes time.Duration
}

func (s slow) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	s.clock.Advance(s.takes)
	return s.Memory.Page(ctx, run, tenant, id)
}

// noRuns is a ledger without runs.
type noRuns struct{ *ledger.Memory }

func (noRuns) Run(_ context.Context, id job.RunID) (job.Run, error) {
	return job.Run{}, failure.New(failure.Absent, "read run "+string(id), "no such run")
}

// hints is a ledger whose index is behind: it shows pages as they once were.
type hints struct {
	*ledger.Memory
	pages []job.Page
}

func (h hints) DeadPages(_ context.Context, after *job.Page, _ int) ([]job.Page, error) {
	if after != nil {
		return nil, nil
	}
	return slices.Clone(h.pages), nil
}

// otherPages is a ledger in which somebody has changed the pages of a plan.
type otherPages struct{ *ledger.Memory }

func (o otherPages) RedrivePages(ctx context.Context, id job.RedriveID) ([]job.RedrivePage, error) {
	pages, err := o.Memory.RedrivePages(ctx, id)
	pages[0].Tenant += "x"
	return pages, err
}

// unreadable is a ledger in which one page's row does not read.
type unreadable struct {
	*ledger.Memory
	page  job.PageID
	class failure.Class
}

func (u unreadable) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	if id == u.page {
		return job.Page{}, failure.New(u.class, "read page "+string(id), "injected")
	}
	return u.Memory.Page(ctx, run, tenant, id)
}

// timed notes when each message was sent.
type timed struct {
	sender interface {
		Send(ctx context.Context, mode job.Mode, messages []job.Message) ([]string, error)
	}
	clock *local.Clock
	at    []time.Time
}

func (s *timed) Send(ctx context.Context, mode job.Mode, messages []job.Message) ([]string, error) {
	for range messages {
		s.at = append(s.at, s.clock.Now())
	}
	return s.sender.Send(ctx, mode, messages)
}

// ticking is a clock that never shows the same instant twice, as a machine's.
type ticking struct{ *local.Clock }

func (c ticking) Now() time.Time {
	c.Advance(1)
	return c.Clock.Now()
}
