package sim

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// ledgerView is the ledger as an invocation sees it.
type ledgerView struct{ *instance }

func (v ledgerView) do(op string, effect func() error) error {
	return v.write(&ledgerCalls, op, effect)
}

// PublishPolicy records a version.
func (v ledgerView) PublishPolicy(ctx context.Context, p policy.Policy) error {
	return v.do("publish-policy", func() error { return v.ledger.PublishPolicy(ctx, p) })
}

// Policy reads a version.
func (v ledgerView) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	return read(v.instance, &ledgerCalls, "policy", func() (policy.Policy, error) { return v.ledger.Policy(ctx, name, version) })
}

// LatestPolicy reads the newest version.
func (v ledgerView) LatestPolicy(ctx context.Context, name string) (policy.Policy, error) {
	return read(v.instance, &ledgerCalls, "latest-policy", func() (policy.Policy, error) { return v.ledger.LatestPolicy(ctx, name) })
}

// OpenRun puts a run unless it is there.
func (v ledgerView) OpenRun(ctx context.Context, r job.Run) (stored job.Run, created bool, err error) {
	err = v.do("open-run", func() (err error) {
		stored, created, err = v.ledger.OpenRun(ctx, r)
		if created {
			v.tell(&moment{kind: runWritten, run: r, by: v.instance})
		}
		return err
	})
	return stored, created, err
}

// Run reads a run.
func (v ledgerView) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	return read(v.instance, &ledgerCalls, "run", func() (job.Run, error) { return v.ledger.Run(ctx, id) })
}

// ReadRuns reads several.
func (v ledgerView) ReadRuns(ctx context.Context, ids []job.RunID) ([]job.Run, error) {
	return read(v.instance, &ledgerCalls, "runs", func() ([]job.Run, error) { return v.ledger.ReadRuns(ctx, ids) })
}

// SwapRun moves a run.
func (v ledgerView) SwapRun(ctx context.Context, next job.Run) error {
	return v.do("run:"+string(next.State), func() error {
		before, _ := v.ledger.Run(ctx, next.ID)
		err := v.ledger.SwapRun(ctx, next)
		if err == nil {
			v.tell(&moment{kind: runWritten, ranBefore: before, run: next, by: v.instance})
		}
		return err
	})
}

// ClosedRuns reads the last closed runs.
func (v ledgerView) ClosedRuns(ctx context.Context, name string, limit int) ([]job.Run, error) {
	return read(v.instance, &ledgerCalls, "closed-runs", func() ([]job.Run, error) { return v.ledger.ClosedRuns(ctx, name, limit) })
}

// Record moves a scan's cursor and puts the page it found.
func (v ledgerView) Record(ctx context.Context, next job.Run, page *job.Page) error {
	return v.do("record", func() error {
		before, _ := v.ledger.Run(ctx, next.ID)
		err := v.ledger.Record(ctx, next, page)
		if err == nil {
			v.tell(&moment{kind: runWritten, ranBefore: before, run: next, by: v.instance})
			if page != nil {
				v.tell(&moment{kind: pageWritten, page: *page, by: v.instance})
			}
		}
		return err
	})
}

// Tenants reads which tenants a run has pages of.
func (v ledgerView) Tenants(ctx context.Context, run job.RunID) ([]string, error) {
	return read(v.instance, &ledgerCalls, "tenants", func() ([]string, error) { return v.ledger.Tenants(ctx, run) })
}

// RunsOf reads which runs have pages of a tenant.
func (v ledgerView) RunsOf(ctx context.Context, tenant string) ([]job.RunID, error) {
	return read(v.instance, &ledgerCalls, "runs-of", func() ([]job.RunID, error) { return v.ledger.RunsOf(ctx, tenant) })
}

// Pages reads the pages of a tenant in a run.
func (v ledgerView) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	return read(v.instance, &ledgerCalls, "pages", func() ([]job.Page, error) { return v.ledger.Pages(ctx, run, tenant, after, limit) })
}

// PageAt reads the range of a key.
func (v ledgerView) PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error) {
	return read(v.instance, &ledgerCalls, "page-at", func() (job.Page, error) { return v.ledger.PageAt(ctx, run, tenant, key) })
}

// Page reads a page.
func (v ledgerView) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	return read(v.instance, &ledgerCalls, "page", func() (job.Page, error) { return v.ledger.Page(ctx, run, tenant, id) })
}

// Look reads a page, and the brakes with it.
func (v ledgerView) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (p job.Page, b []job.Brake, err error) {
	p, err = read(v.instance, &ledgerCalls, "look", func() (p job.Page, err error) {
		p, b, err = v.ledger.Look(ctx, run, tenant, id)
		return p, err
	})
	return p, b, err
}

// SwapPage moves a page.
func (v ledgerView) SwapPage(ctx context.Context, next job.Page) error {
	return v.do("page:"+string(next.State), func() error {
		return v.moved(ctx, next, nil, func() error { return v.ledger.SwapPage(ctx, next) })
	})
}

// SwapPages moves several.
func (v ledgerView) SwapPages(ctx context.Context, next []job.Page) error {
	return v.do("pages", func() error {
		before := make([]job.Page, len(next))
		for i, p := range next {
			before[i], _ = v.ledger.Page(ctx, p.Run, p.Tenant, p.ID)
		}
		err := v.ledger.SwapPages(ctx, next)
		for i, p := range next {
			if err == nil {
				v.tell(&moment{kind: pageWritten, was: before[i], page: p, by: v.instance})
			}
		}
		return err
	})
}

// Intend commits an intent.
func (v ledgerView) Intend(ctx context.Context, next job.Page, epoch int64) error {
	return v.do("intend", func() error {
		return v.moved(ctx, next, nil, func() error { return v.ledger.Intend(ctx, next, epoch) })
	})
}

// Complete ends a page and puts what was split off.
func (v ledgerView) Complete(ctx context.Context, next job.Page, children []job.Page) error {
	return v.do("complete", func() error {
		return v.moved(ctx, next, children, func() error { return v.ledger.Complete(ctx, next, children) })
	})
}

// moved performs a write of a page and tells of it where it was accepted.
func (v ledgerView) moved(ctx context.Context, next job.Page, children []job.Page, apply func() error) error {
	before, _ := v.ledger.Page(ctx, next.Run, next.Tenant, next.ID)
	if err := apply(); err != nil {
		return err
	}
	v.tell(&moment{kind: pageWritten, was: before, page: next, children: children, by: v.instance})
	return nil
}

// OpenRuns reads the index of open runs.
func (v ledgerView) OpenRuns(ctx context.Context) ([]job.Run, error) {
	return read(v.instance, &ledgerCalls, "open-runs", func() ([]job.Run, error) {
		all, err := v.ledger.OpenRuns(ctx)
		return lagging(v.world, all), err
	})
}

// OpenPages reads the index of open pages.
func (v ledgerView) OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error) {
	return read(v.instance, &ledgerCalls, "open-pages", func() ([]job.Page, error) {
		all, err := v.ledger.OpenPages(ctx, after, limit)
		return lagging(v.world, all), err
	})
}

// DeadPages reads the index of dead pages.
func (v ledgerView) DeadPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error) {
	return read(v.instance, &ledgerCalls, "dead-pages", func() ([]job.Page, error) {
		all, err := v.ledger.DeadPages(ctx, after, limit)
		return lagging(v.world, all), err
	})
}

// OpenRedrives reads the index of redrives.
func (v ledgerView) OpenRedrives(ctx context.Context) ([]job.Redrive, error) {
	return read(v.instance, &ledgerCalls, "open-redrives", func() ([]job.Redrive, error) {
		all, err := v.ledger.OpenRedrives(ctx)
		return lagging(v.world, all), err
	})
}

// lagging is what an index that is behind shows of its rows.
func lagging[T any](w *world, all []T) []T {
	if len(all) > 0 && w.strikes(IndexLags) {
		at := w.chance.n(len(all))
		return append(all[:at:at], all[at+1:]...)
	}
	return all
}

// Epoch reads a tenant's hold epoch.
func (v ledgerView) Epoch(ctx context.Context, tenant string) (int64, error) {
	return read(v.instance, &ledgerCalls, "epoch", func() (int64, error) { return v.ledger.Epoch(ctx, tenant) })
}

// Holds reads a tenant's holds.
func (v ledgerView) Holds(ctx context.Context, tenant string) (hold.Set, error) {
	return read(v.instance, &ledgerCalls, "holds", func() (hold.Set, error) {
		set, err := v.ledger.Holds(ctx, tenant)
		if len(set) > 0 && v.strikes(HoldsCutShort) {
			set = set[:v.chance.n(len(set))]
		}
		return set, err
	})
}

// PlaceHold puts a hold and raises its tenant's epoch.
func (v ledgerView) PlaceHold(ctx context.Context, h hold.Hold) (stored hold.Hold, err error) {
	err = v.do("place-hold", func() (err error) {
		epoch, _ := v.ledger.Epoch(ctx, h.Tenant)
		stored, err = v.ledger.PlaceHold(ctx, h)
		if err == nil && stored.Epoch > epoch {
			v.tell(&moment{kind: holdWritten, hold: stored, by: v.instance})
		}
		return err
	})
	return stored, err
}

// ReleaseHold ends a hold.
func (v ledgerView) ReleaseHold(ctx context.Context, tenant, id string, at time.Time) error {
	return v.do("release-hold", func() error {
		err := v.ledger.ReleaseHold(ctx, tenant, id, at)
		if err == nil {
			v.tell(&moment{kind: holdWritten, hold: hold.Hold{ID: id, Tenant: tenant, ReleasedAt: at}, by: v.instance})
		}
		return err
	})
}

// Brakes reads the brakes in force.
func (v ledgerView) Brakes(ctx context.Context) ([]job.Brake, error) {
	return read(v.instance, &ledgerCalls, "brakes", func() ([]job.Brake, error) { return v.ledger.Brakes(ctx) })
}

// SetBrake puts a brake.
func (v ledgerView) SetBrake(ctx context.Context, b job.Brake) error {
	return v.do("set-brake", func() error {
		err := v.ledger.SetBrake(ctx, b)
		v.tell(&moment{kind: brakeWritten, brake: b, by: v.instance})
		return err
	})
}

// ReleaseBrake takes a brake away.
func (v ledgerView) ReleaseBrake(ctx context.Context, b job.Brake) error {
	return v.do("release-brake", func() error {
		err := v.ledger.ReleaseBrake(ctx, b)
		v.tell(&moment{kind: brakeWritten, brake: b, released: true, by: v.instance})
		return err
	})
}

// Approval reads which version may delete.
func (v ledgerView) Approval(ctx context.Context, name string) (policy.Approval, error) {
	return read(v.instance, &ledgerCalls, "approval", func() (policy.Approval, error) { return v.ledger.Approval(ctx, name) })
}

// Approve lets a version delete.
func (v ledgerView) Approve(ctx context.Context, next policy.Approval) error {
	return v.do("approve", func() error {
		err := v.ledger.Approve(ctx, next)
		if err == nil {
			v.tell(&moment{kind: approvalWritten, approval: next, by: v.instance})
		}
		return err
	})
}

// Watch reads how far a schedule was looked at.
func (v ledgerView) Watch(ctx context.Context, name string) (job.Watch, error) {
	return read(v.instance, &ledgerCalls, "watch", func() (job.Watch, error) { return v.ledger.Watch(ctx, name) })
}

// SwapWatch moves it.
func (v ledgerView) SwapWatch(ctx context.Context, next job.Watch) error {
	return v.do("swap-watch", func() error { return v.ledger.SwapWatch(ctx, next) })
}

// PutEntry records an order.
func (v ledgerView) PutEntry(ctx context.Context, e audit.Entry) error {
	return v.do("entry", func() error {
		err := v.ledger.PutEntry(ctx, e)
		v.tell(&moment{kind: entryWritten, entry: e, by: v.instance})
		return err
	})
}

// Entries reads orders.
func (v ledgerView) Entries(ctx context.Context, since, until time.Time, limit int) ([]audit.Entry, error) {
	return read(v.instance, &ledgerCalls, "entries", func() ([]audit.Entry, error) { return v.ledger.Entries(ctx, since, until, limit) })
}

// PutRedrive records a plan.
func (v ledgerView) PutRedrive(ctx context.Context, r job.Redrive, pages []job.RedrivePage) error {
	return v.do("put-redrive", func() error { return v.ledger.PutRedrive(ctx, r, pages) })
}

// Redrive reads a plan.
func (v ledgerView) Redrive(ctx context.Context, id job.RedriveID) (job.Redrive, error) {
	return read(v.instance, &ledgerCalls, "redrive", func() (job.Redrive, error) { return v.ledger.Redrive(ctx, id) })
}

// RedrivePages reads the pages of a plan.
func (v ledgerView) RedrivePages(ctx context.Context, id job.RedriveID) ([]job.RedrivePage, error) {
	return read(v.instance, &ledgerCalls, "redrive-pages", func() ([]job.RedrivePage, error) { return v.ledger.RedrivePages(ctx, id) })
}

// SwapRedrive moves a plan.
func (v ledgerView) SwapRedrive(ctx context.Context, next job.Redrive) error {
	return v.do("swap-redrive", func() error {
		err := v.ledger.SwapRedrive(ctx, next)
		if err == nil {
			v.tell(&moment{kind: redriveWritten, redrive: next, by: v.instance})
		}
		return err
	})
}

// AutoRedrive reads whether a schedule may redrive.
func (v ledgerView) AutoRedrive(ctx context.Context) (job.AutoRedrive, error) {
	return read(v.instance, &ledgerCalls, "auto-redrive", func() (job.AutoRedrive, error) { return v.ledger.AutoRedrive(ctx) })
}

// SwapAutoRedrive moves it.
func (v ledgerView) SwapAutoRedrive(ctx context.Context, next job.AutoRedrive) error {
	return v.do("swap-auto-redrive", func() error {
		err := v.ledger.SwapAutoRedrive(ctx, next)
		if err == nil {
			v.tell(&moment{kind: autoWritten, auto: next, by: v.instance})
		}
		return err
	})
}

// TenantPrefix returns where a tenant's artifacts are in a run.
func (v ledgerView) TenantPrefix(ctx context.Context, run job.Run, tenant string) (bucket, prefix string, err error) {
	p, err := v.Policy(ctx, run.Policy, run.Version)
	return p.Bucket, p.TenantPrefix(tenant), err
}

// Prefixes returns the tenant's prefix in each policy.
func (v ledgerView) Prefixes(ctx context.Context, tenant string) ([]string, error) {
	var all []string
	for _, d := range v.dues() {
		p, err := v.LatestPolicy(ctx, d.policy)
		if err != nil {
			return nil, err
		}
		all = append(all, p.TenantPrefix(tenant))
	}
	return all, nil
}
