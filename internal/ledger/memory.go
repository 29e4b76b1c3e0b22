package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// Memory is the ledger in memory. It passes the same suite as the real one and
// is safe for concurrent use. The zero value is not usable; see NewMemory.
type Memory struct {
	// Hook decides the fate of every write. Its operations are "publish-policy",
	// "open-run", "run:<state>", "record", "page:<state>", "pages:<state>", "intend", "complete",
	// "hold", "brake", "approve", "watch", "entry", "redrive" and "auto-redrive"; the
	// state is the one written.
	Hook failure.Hook
	// Lag hides a page from the index of open pages, as an index that is behind does.
	Lag func(job.Page) bool

	mu       sync.Mutex
	policies map[policyKey]policyRow
	runs     map[job.RunID]job.Run
	pages    map[partition]map[job.PageID]job.Page
	tenants  map[job.RunID][]string
	holds    map[string]hold.Set
	epochs   map[string]int64
	brakes   []job.Brake

	approvals map[string]policy.Approval
	watches   map[string]job.Watch
	entries   map[string]audit.Entry
	redrives  map[job.RedriveID]redrive
	auto      job.AutoRedrive
}

type policyKey struct {
	name    string
	version int
}

// policyRow is a published version, read back from its canonical form once: it
// never changes.
type policyRow struct {
	sha    string
	policy policy.Policy
}

// partition holds the pages of one tenant in one run.
type partition struct {
	run    job.RunID
	tenant string
}

// NewMemory returns an empty ledger.
func NewMemory() *Memory {
	return &Memory{
		policies: map[policyKey]policyRow{},
		runs:     map[job.RunID]job.Run{},
		pages:    map[partition]map[job.PageID]job.Page{},
		tenants:  map[job.RunID][]string{},
		holds:    map[string]hold.Set{},
		epochs:   map[string]int64{},

		approvals: map[string]policy.Approval{},
		watches:   map[string]job.Watch{},
		entries:   map[string]audit.Entry{},
		redrives:  map[job.RedriveID]redrive{},
	}
}

// page returns the stored row of a page.
func (m *Memory) page(p job.Page) (job.Page, bool) {
	row, ok := m.pages[partition{p.Run, p.Tenant}][p.ID]
	return row, ok
}

func (m *Memory) put(p job.Page) {
	m.pages[partition{p.Run, p.Tenant}][p.ID] = p
}

// write runs apply under the lock, through the hook.
func (m *Memory) write(op string, apply func() error) error {
	return m.Hook.Do(op, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		return apply()
	})
}

// PublishPolicy records a policy version. The same version with the same content
// is accepted again; with other content it is failure.Invalid.
func (m *Memory) PublishPolicy(_ context.Context, p policy.Policy) error {
	return m.write("publish-policy", func() error {
		k, sha := policyKey{p.Name, p.Version}, p.SHA256()
		old, ok := m.policies[k]
		if ok && old.sha == sha {
			return nil
		}
		stored, err := policy.Load(p.Canonical())
		switch {
		case err != nil:
			return err
		case ok:
			return failure.New(failure.Invalid, "publish policy "+p.Name, "this version was published with other content")
		}
		m.policies[k] = policyRow{sha: sha, policy: stored}
		return nil
	})
}

// Policy returns a published version, or failure.UnknownPolicy.
func (m *Memory) Policy(_ context.Context, name string, version int) (policy.Policy, error) {
	m.mu.Lock()
	row, ok := m.policies[policyKey{name, version}]
	m.mu.Unlock()
	if !ok {
		return policy.Policy{}, failure.New(failure.UnknownPolicy, "read policy "+name, "this version was never published")
	}
	return row.policy, nil
}

// OpenRun puts the run unless it is there, and returns what is there.
func (m *Memory) OpenRun(_ context.Context, r job.Run) (stored job.Run, created bool, err error) {
	err = m.write("open-run", func() error {
		old, ok := m.runs[r.ID]
		if ok {
			stored = unshared(old)
			return nil
		}
		m.runs[r.ID], stored, created = unshared(r), unshared(r), true
		return nil
	})
	return stored, created, err
}

// Run returns a run, or failure.Absent.
func (m *Memory) Run(_ context.Context, id job.RunID) (job.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.runs[id]
	if !ok {
		return r, failure.New(failure.Absent, "read run "+string(id), "no such run")
	}
	return unshared(r), nil
}

// unshared returns the run without the list it shares with another value.
func unshared(r job.Run) job.Run {
	r.Trips = slices.Clone(r.Trips)
	return r
}

// SwapRun writes the run if its row is still the one it was computed from.
func (m *Memory) SwapRun(_ context.Context, next job.Run) error {
	return m.write("run:"+string(next.State), func() error { return m.swapRun(next) })
}

func (m *Memory) swapRun(next job.Run) error {
	if old, ok := m.runs[next.ID]; !ok || old.Rev != next.Rev-1 {
		return failure.New(failure.Conflict, "write run "+string(next.ID), "the row has moved on")
	}
	m.runs[next.ID] = unshared(next)
	return nil
}

// Record moves the scan's cursor and puts the page it found, in one transaction.
// A nil page is a stretch without one. It is failure.Conflict when the run has
// moved on or a page starts there already: a range's id is derived from its start.
func (m *Memory) Record(_ context.Context, next job.Run, page *job.Page) error {
	return m.write("record", func() error {
		if page == nil {
			return m.swapRun(next)
		}
		if _, taken := m.page(*page); taken {
			return failure.New(failure.Conflict, "record page "+string(page.ID), "a page starts there already")
		}
		if err := m.swapRun(next); err != nil {
			return err
		}
		of := partition{page.Run, page.Tenant}
		if m.pages[of] == nil {
			m.pages[of] = map[job.PageID]job.Page{}
			m.tenants[page.Run] = append(m.tenants[page.Run], page.Tenant)
		}
		m.put(*page)
		return nil
	})
}

// Page returns a page, or failure.Absent.
func (m *Memory) Page(_ context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.page(job.Page{Run: run, Tenant: tenant, ID: id})
	if !ok {
		return p, failure.New(failure.Absent, "read page "+string(id), "no such page")
	}
	return p, nil
}

// PageByID returns a page of whatever run and tenant, or failure.Absent.
func (m *Memory) PageByID(_ context.Context, id job.PageID) (job.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pages := range m.pages {
		if p, ok := pages[id]; ok {
			return p, nil
		}
	}
	return job.Page{}, failure.New(failure.Absent, "read page "+string(id), "no such page")
}

// Look returns a page, or failure.Absent, and the brakes in force, by one
// consistent read.
func (m *Memory) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error) {
	p, err := m.Page(ctx, run, tenant, id)
	m.mu.Lock()
	defer m.mu.Unlock()
	return p, slices.Clone(m.brakes), err
}

// SwapPage writes the page if its row is still the one it was computed from.
func (m *Memory) SwapPage(_ context.Context, next job.Page) error {
	return m.write("page:"+string(next.State), func() error { return m.swapPage(next) })
}

// SwapPages writes up to 100 pages, all if each row is still the one it was
// computed from, and otherwise none.
func (m *Memory) SwapPages(_ context.Context, next []job.Page) error {
	if len(next) == 0 {
		return nil
	}
	return m.write("pages:"+string(next[0].State), func() error {
		for _, p := range next {
			if old, ok := m.page(p); !ok || old.Rev != p.Rev-1 {
				return failure.New(failure.Conflict, "write pages", "a row has moved on")
			}
		}
		for _, p := range next {
			m.put(p)
		}
		return nil
	})
}

func (m *Memory) swapPage(next job.Page) error {
	if old, ok := m.page(next); !ok || old.Rev != next.Rev-1 {
		return failure.New(failure.Conflict, "write page "+string(next.ID), "the row has moved on")
	}
	m.put(next)
	return nil
}

// Intend writes the page's intent if its row has not moved and the tenant's hold
// epoch is still the one the plan was made under.
func (m *Memory) Intend(_ context.Context, next job.Page, epoch int64) error {
	return m.write("intend", func() error {
		if m.epochs[next.Tenant] != epoch {
			return failure.New(failure.Conflict, "intend page "+string(next.ID), "the hold epoch has moved on")
		}
		return m.swapPage(next)
	})
}

// Complete writes the page's end and puts its split-off items, all or nothing. An
// item that is named twice, or belongs to another tenant or run than its page, is
// failure.Invalid: it would be lost to the sum of the outcomes.
func (m *Memory) Complete(_ context.Context, next job.Page, children []job.Page) error {
	op := "complete page " + string(next.ID)
	if err := checkChildren(op, next, children); err != nil {
		return err
	}
	return m.write("complete", func() error {
		for _, c := range children {
			if _, taken := m.page(c); taken {
				return failure.New(failure.Conflict, op, "a split-off item is there already")
			}
		}
		if err := m.swapPage(next); err != nil {
			return err
		}
		for _, c := range children {
			m.put(c)
		}
		return nil
	})
}

// checkChildren refuses split-off items that would be lost to the sum of the
// outcomes: one that is named twice, or is another tenant's or run's.
func checkChildren(op string, parent job.Page, children []job.Page) error {
	named := map[job.PageID]bool{}
	for _, c := range children {
		if c.ID == parent.ID {
			return failure.New(failure.Conflict, op, "a split-off item is there already")
		}
		if named[c.ID] || c.Run != parent.Run || c.Tenant != parent.Tenant {
			return failure.New(failure.Invalid, op, "a split-off item is named twice or is not its tenant's")
		}
		named[c.ID] = true
	}
	return nil
}

// Tenants returns the tenants the run has pages of, by a consistent read.
func (m *Memory) Tenants(_ context.Context, run job.RunID) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.tenants[run])), nil
}

// Pages returns up to limit pages of a tenant in the run in sort order, by one
// consistent read; after is the last page of the answer before, nil to begin.
func (m *Memory) Pages(_ context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []job.Page
	for _, p := range m.pages[partition{run, tenant}] {
		if after == nil || sortKey(p) > sortKey(*after) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b job.Page) int { return cmp.Compare(sortKey(a), sortKey(b)) })
	return all[:min(limit, len(all))], nil
}

// sortKey orders the pages of a tenant: ranges by their start, then split-off items.
func sortKey(p job.Page) string {
	if p.Kind == job.ItemPage {
		return "q" + string(p.ID)
	}
	return "p" + p.After
}

// OpenRuns returns the runs that still need work, from an index that may lag.
func (m *Memory) OpenRuns(_ context.Context) ([]job.Run, error) {
	return m.runsThat(job.Run.Open), nil
}

// AwaitingRuns returns the runs that wait for an operator, from an index that may lag.
func (m *Memory) AwaitingRuns(_ context.Context) ([]job.Run, error) {
	return m.runsThat(awaiting), nil
}

func awaiting(r job.Run) bool { return r.State == job.AwaitingApproval }

func (m *Memory) runsThat(wanted func(job.Run) bool) []job.Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []job.Run
	for _, r := range m.runs {
		if wanted(r) {
			all = append(all, unshared(r))
		}
	}
	slices.SortFunc(all, func(a, b job.Run) int { return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.ID, b.ID)) })
	return all
}

// OpenPages returns up to limit pages that need work, from an index that may lag, the
// longest open first: those that wait for a worker, and dead ones that are owed their
// dead letter. after is the last page of the answer before, nil to begin.
func (m *Memory) OpenPages(_ context.Context, after *job.Page, limit int) ([]job.Page, error) {
	return m.pagesThat(needsWork, after, limit), nil
}

// DeadPages is the same of the dead pages whose dead letter is durable: they wait
// for an operator.
func (m *Memory) DeadPages(_ context.Context, after *job.Page, limit int) ([]job.Page, error) {
	return m.pagesThat(waits, after, limit), nil
}

func (m *Memory) pagesThat(wanted func(job.Page) bool, after *job.Page, limit int) []job.Page {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []job.Page
	for _, pages := range m.pages {
		for _, p := range pages {
			if wanted(p) && (m.Lag == nil || !m.Lag(p)) && (after == nil || bySince(p, *after) > 0) {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, bySince)
	return all[:min(limit, len(all))]
}

// needsWork reports whether the page waits for a worker, or its dead letter is owed.
func needsWork(p job.Page) bool {
	return p.State.Open() || p.State == job.Dead && p.Death.LetterAt.IsZero()
}

// waits reports whether the page waits for an operator.
func waits(p job.Page) bool { return p.State == job.Dead && !p.Death.LetterAt.IsZero() }

// bySince is the order of the index of open work. It never changes in a page's
// life, so that the index is written twice in it and not with every step.
func bySince(a, b job.Page) int {
	return cmp.Or(a.BornAt.Compare(b.BornAt), cmp.Compare(a.ID, b.ID))
}

// ClosedRuns returns the policy's last closed scheduled runs, newest first.
func (m *Memory) ClosedRuns(_ context.Context, name string, limit int) ([]job.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var closed []job.Run
	for _, r := range m.runs {
		if r.Policy == name && r.State == job.Closed && r.RequestID == "" {
			closed = append(closed, unshared(r))
		}
	}
	slices.SortFunc(closed, func(a, b job.Run) int { return b.Scheduled.Compare(a.Scheduled) })
	return closed[:min(limit, len(closed))], nil
}

// RecentRuns returns the policy's last ended runs of any kind, newest first.
func (m *Memory) RecentRuns(_ context.Context, name string, limit int) ([]job.Run, error) {
	ended := m.runsThat(func(r job.Run) bool { return r.Policy == name && (r.State == job.Closed || r.State == job.Rejected) })
	slices.SortFunc(ended, func(a, b job.Run) int { return cmp.Or(b.Scheduled.Compare(a.Scheduled), cmp.Compare(b.ID, a.ID)) })
	return ended[:min(limit, len(ended))], nil
}

// Runs returns every run, for reports and checks of a local run.
func (m *Memory) Runs() []job.Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.SortedFunc(maps.Values(m.runs), func(a, b job.Run) int {
		return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.ID, b.ID))
	})
	for i := range all {
		all[i] = unshared(all[i])
	}
	return all
}

// AllPages returns every page of a run, tenant by tenant in sort order.
func (m *Memory) AllPages(run job.RunID) []job.Page {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []job.Page
	for of, pages := range m.pages {
		if of.run == run {
			all = slices.AppendSeq(all, maps.Values(pages))
		}
	}
	slices.SortFunc(all, func(a, b job.Page) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(sortKey(a), sortKey(b)))
	})
	return all
}
