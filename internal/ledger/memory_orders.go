package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// redrive is a recorded plan.
type redrive struct {
	head  job.Redrive
	pages []job.RedrivePage
}

// PolicyNames returns the names of all policies that were ever published.
func (m *Memory) PolicyNames(_ context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := map[string]bool{}
	for k := range m.policies {
		names[k.name] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// LatestPolicy returns the highest published version, or failure.UnknownPolicy.
func (m *Memory) LatestPolicy(ctx context.Context, name string) (policy.Policy, error) {
	newest := 0
	m.mu.Lock()
	for k := range m.policies {
		if k.name == name {
			newest = max(newest, k.version)
		}
	}
	m.mu.Unlock()
	return m.Policy(ctx, name, newest)
}

// RunsOf returns the runs that have pages of the tenant, by a consistent read.
func (m *Memory) RunsOf(_ context.Context, tenant string) ([]job.RunID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var runs []job.RunID
	for run, tenants := range m.tenants {
		if slices.Contains(tenants, tenant) {
			runs = append(runs, run)
		}
	}
	slices.Sort(runs)
	return runs, nil
}

// ReadRuns returns up to 100 runs in the order of their ids, by one consistent read.
// It is failure.Absent when one of them is not there.
func (m *Memory) ReadRuns(_ context.Context, ids []job.RunID) ([]job.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	runs := make([]job.Run, len(ids))
	for i, id := range ids {
		r, ok := m.runs[id]
		if !ok {
			return nil, noRunAmong()
		}
		runs[i] = unshared(r)
	}
	return runs, nil
}

func noRunAmong() error {
	return failure.New(failure.Absent, "read runs", "one of them is not there")
}

// PageAt returns the range that handles a key of the tenant, given relative to the
// tenant's prefix, or failure.Absent. Split-off items have pages of their own besides.
func (m *Memory) PageAt(_ context.Context, run job.RunID, tenant, key string) (job.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pages[partition{run, tenant}] {
		if p.Kind == job.RangePage && p.After < key && key <= p.Through {
			return p, nil
		}
	}
	return job.Page{}, noPageAt(run)
}

func noPageAt(run job.RunID) error {
	return failure.New(failure.Absent, "find page in run "+string(run), "no page of the run handles this key")
}

// Approval returns which version of the policy may delete; the zero value is none.
func (m *Memory) Approval(_ context.Context, name string) (policy.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.approvals[name], nil
}

// Approve writes an approval if the stored one is still what it was computed from.
func (m *Memory) Approve(_ context.Context, next policy.Approval) error {
	return m.write("approve", func() error {
		if m.approvals[next.Policy].Rev != next.Rev-1 {
			return moved("approve policy " + next.Policy)
		}
		m.approvals[next.Policy] = next
		return nil
	})
}

func moved(op string) error { return failure.New(failure.Conflict, op, "the row has moved on") }

// Watch returns how far the policy's schedule was looked at; the zero value is never.
func (m *Memory) Watch(_ context.Context, name string) (job.Watch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watches[name], nil
}

// SwapWatch writes the watch if its row is still the one it was computed from.
func (m *Memory) SwapWatch(_ context.Context, next job.Watch) error {
	return m.write("watch", func() error {
		if m.watches[next.Policy].Rev != next.Rev-1 {
			return moved("write watch of " + next.Policy)
		}
		m.watches[next.Policy] = next
		return nil
	})
}

// PutEntry records an order. The same entry again changes nothing.
func (m *Memory) PutEntry(_ context.Context, e audit.Entry) error {
	return m.write("entry", func() error {
		m.entries[e.ID()] = e
		return nil
	})
}

// Entries returns up to limit orders of the time from since until before until,
// newest first.
func (m *Memory) Entries(_ context.Context, since, until time.Time, limit int) ([]audit.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []audit.Entry
	for _, e := range m.entries {
		if !e.At.Before(since) && e.At.Before(until) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b audit.Entry) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID(), a.ID())) })
	return all[:min(limit, len(all))], nil
}

// PutRedrive records a plan and its pages. The same plan again changes nothing.
func (m *Memory) PutRedrive(_ context.Context, r job.Redrive, pages []job.RedrivePage) error {
	op := "record redrive " + string(r.ID)
	if err := checkRedrive(op, r, pages); err != nil {
		return err
	}
	return m.write("redrive", func() error {
		if _, there := m.redrives[r.ID]; !there {
			m.redrives[r.ID] = redrive{r, slices.Clone(pages)}
		}
		return nil
	})
}

// checkRedrive refuses a plan that is not about these pages.
func checkRedrive(op string, r job.Redrive, pages []job.RedrivePage) error {
	if !r.Binds(pages) {
		return failure.New(failure.Invalid, op, "the plan's id is not that of its pages")
	}
	return nil
}

// Redrive returns a recorded plan, or failure.Absent.
func (m *Memory) Redrive(_ context.Context, id job.RedriveID) (job.Redrive, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.redrives[id]
	if !ok {
		return job.Redrive{}, noRedrive(id)
	}
	return r.head, nil
}

func noRedrive(id job.RedriveID) error {
	return failure.New(failure.Absent, "read redrive "+string(id), "no such plan in this region")
}

// RedrivePages returns the pages of a recorded plan, in its order.
func (m *Memory) RedrivePages(_ context.Context, id job.RedriveID) ([]job.RedrivePage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.redrives[id]
	if !ok {
		return nil, noRedrive(id)
	}
	return slices.Clone(r.pages), nil
}

// SwapRedrive writes the plan if its row is still the one it was computed from.
func (m *Memory) SwapRedrive(_ context.Context, next job.Redrive) error {
	return m.write("redrive", func() error {
		old, ok := m.redrives[next.ID]
		if !ok || old.head.Rev != next.Rev-1 {
			return moved("write redrive " + string(next.ID))
		}
		m.redrives[next.ID] = redrive{next, old.pages}
		return nil
	})
}

// OpenRedrives returns the plans that were applied and are still followed, from an
// index that may lag.
func (m *Memory) OpenRedrives(_ context.Context) ([]job.Redrive, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var open []job.Redrive
	for _, r := range m.redrives {
		if r.head.Open() {
			open = append(open, r.head)
		}
	}
	slices.SortFunc(open, func(a, b job.Redrive) int { return cmp.Or(a.AppliedAt.Compare(b.AppliedAt), cmp.Compare(a.ID, b.ID)) })
	return open, nil
}

// AutoRedrive returns whether a schedule may redrive; the zero value is off.
func (m *Memory) AutoRedrive(_ context.Context) (job.AutoRedrive, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.auto, nil
}

// SwapAutoRedrive writes it if the row is still the one it was computed from.
func (m *Memory) SwapAutoRedrive(_ context.Context, next job.AutoRedrive) error {
	return m.write("auto-redrive", func() error {
		if m.auto.Rev != next.Rev-1 {
			return moved("write scheduled redrive")
		}
		m.auto = next
		return nil
	})
}
