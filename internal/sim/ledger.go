package sim

import (
	"context"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// ledgerView is the ledger as an invocation sees it.
type ledgerView struct{ *instance }

// do is a write. around sees it take effect in the world's ledger, and tells of it; nil
// tells nothing.
func (v ledgerView) do(ctx context.Context, op string, write func(context.Context, *ledgers) error, around func(apply func() error) error) error {
	effect := func() error { return write(ctx, v.rows) }
	if around != nil {
		apply := effect
		effect = func() error { return around(apply) }
	}
	return v.write(ctx, &ledgerCalls, op, effect, func(ctx context.Context) error { return write(ctx, v.far.ledger) })
}

// then tells of a write that was taken.
func then(tell func()) func(apply func() error) error {
	return func(apply func() error) error {
		err := apply()
		if err == nil {
			tell()
		}
		return err
	}
}

// ask is a read.
func ask[T any](ctx context.Context, v ledgerView, op string, get func(context.Context, *ledgers) (T, error)) (T, error) {
	return read(ctx, v.instance, &ledgerCalls, op, func() (T, error) { return get(ctx, v.rows) },
		func(ctx context.Context) (T, error) { return get(ctx, v.far.ledger) })
}

// PublishPolicy records a version.
func (v ledgerView) PublishPolicy(ctx context.Context, p policy.Policy) error {
	return v.do(ctx, "publish-policy", func(ctx context.Context, l *ledgers) error { return l.PublishPolicy(ctx, p) }, nil)
}

// Policy reads a version.
func (v ledgerView) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	p, err := ask(ctx, v, "policy", func(ctx context.Context, l *ledgers) (policy.Policy, error) { return l.Policy(ctx, name, version) })
	return v.unlessLost(p, err)
}

// LatestPolicy reads the newest version.
func (v ledgerView) LatestPolicy(ctx context.Context, name string) (policy.Policy, error) {
	p, err := ask(ctx, v, "latest-policy", func(ctx context.Context, l *ledgers) (policy.Policy, error) { return l.LatestPolicy(ctx, name) })
	return v.unlessLost(p, err)
}

// unlessLost answers that there is no version, while those on record are lost.
func (w *world) unlessLost(p policy.Policy, err error) (policy.Policy, error) {
	if err == nil && w.lostSince(w.clock()) {
		return policy.Policy{}, failure.New(failure.UnknownPolicy, "policy", "not on record")
	}
	return p, err
}

// opened is an answer to OpenRun.
type opened struct {
	run     job.Run
	created bool
}

// OpenRun puts a run unless it is there.
func (v ledgerView) OpenRun(ctx context.Context, r job.Run) (stored job.Run, created bool, err error) {
	var fake, client opened
	err = v.do(ctx, "open-run", func(ctx context.Context, l *ledgers) (err error) {
		o := &fake
		if l != v.rows {
			o = &client
		}
		o.run, o.created, err = l.OpenRun(ctx, r)
		return err
	}, then(func() {
		if fake.created {
			v.tell(moment{kind: runWritten, run: r, by: v.instance})
		}
	}))
	if v.far != nil {
		fake = client
	}
	return fake.run, fake.created, err
}

// Run reads a run.
func (v ledgerView) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	return ask(ctx, v, "run", func(ctx context.Context, l *ledgers) (job.Run, error) { return l.Run(ctx, id) })
}

// ReadRuns reads several.
func (v ledgerView) ReadRuns(ctx context.Context, ids []job.RunID) ([]job.Run, error) {
	return ask(ctx, v, "runs", func(ctx context.Context, l *ledgers) ([]job.Run, error) { return l.ReadRuns(ctx, ids) })
}

// SwapRun moves a run.
func (v ledgerView) SwapRun(ctx context.Context, next job.Run) error {
	return v.do(ctx, "run:"+string(next.State), func(ctx context.Context, l *ledgers) error { return l.SwapRun(ctx, next) }, v.ran(ctx, next, func() {}))
}

// ClosedRuns reads the last closed runs.
func (v ledgerView) ClosedRuns(ctx context.Context, name string, limit int) ([]job.Run, error) {
	return ask(ctx, v, "closed-runs", func(ctx context.Context, l *ledgers) ([]job.Run, error) { return l.ClosedRuns(ctx, name, limit) })
}

// Record moves a scan's cursor and puts the page it found.
func (v ledgerView) Record(ctx context.Context, next job.Run, page *job.Page) error {
	return v.do(ctx, "record", func(ctx context.Context, l *ledgers) error { return l.Record(ctx, next, page) }, v.ran(ctx, next, func() {
		if page != nil {
			v.tell(moment{kind: pageWritten, page: *page, by: v.instance})
		}
	}))
}

// ran tells of a write of a run, and then of what came with it.
func (v ledgerView) ran(ctx context.Context, next job.Run, also func()) func(apply func() error) error {
	return func(apply func() error) error {
		before, _ := v.ledger.Run(ctx, next.ID)
		if err := apply(); err != nil {
			return err
		}
		v.tell(moment{kind: runWritten, ranBefore: before, run: next, by: v.instance})
		also()
		return nil
	}
}

// Tenants reads which tenants a run has pages of.
func (v ledgerView) Tenants(ctx context.Context, run job.RunID) ([]string, error) {
	return ask(ctx, v, "tenants", func(ctx context.Context, l *ledgers) ([]string, error) { return l.Tenants(ctx, run) })
}

// RunsOf reads which runs have pages of a tenant.
func (v ledgerView) RunsOf(ctx context.Context, tenant string) ([]job.RunID, error) {
	return ask(ctx, v, "runs-of", func(ctx context.Context, l *ledgers) ([]job.RunID, error) { return l.RunsOf(ctx, tenant) })
}

// Pages reads the pages of a tenant in a run.
func (v ledgerView) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	if v.function == "enqueue" { // which reads on until there are none
		limit = v.few(limit)
	}
	return ask(ctx, v, "pages", func(ctx context.Context, l *ledgers) ([]job.Page, error) {
		return l.Pages(ctx, run, tenant, after, limit)
	})
}

// PageAt reads the range of a key.
func (v ledgerView) PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error) {
	return ask(ctx, v, "page-at", func(ctx context.Context, l *ledgers) (job.Page, error) { return l.PageAt(ctx, run, tenant, key) })
}

// Page reads a page.
func (v ledgerView) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	return ask(ctx, v, "page", func(ctx context.Context, l *ledgers) (job.Page, error) { return l.Page(ctx, run, tenant, id) })
}

// Look reads a page, and the brakes with it.
func (v ledgerView) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (p job.Page, b []job.Brake, err error) {
	p, err = ask(ctx, v, "look", func(ctx context.Context, l *ledgers) (p job.Page, err error) {
		p, b, err = l.Look(ctx, run, tenant, id)
		return p, err
	})
	return p, b, err
}

// SwapPage moves a page.
func (v ledgerView) SwapPage(ctx context.Context, next job.Page) error {
	return v.do(ctx, "page:"+string(next.State), func(ctx context.Context, l *ledgers) error { return l.SwapPage(ctx, next) }, v.moved(ctx, next, nil))
}

// SwapPages moves several.
func (v ledgerView) SwapPages(ctx context.Context, next []job.Page) error {
	return v.do(ctx, "pages", func(ctx context.Context, l *ledgers) error { return l.SwapPages(ctx, next) }, func(apply func() error) error {
		before := make([]job.Page, len(next))
		for i, p := range next {
			before[i], _ = v.ledger.Page(ctx, p.Run, p.Tenant, p.ID)
		}
		err := apply()
		for i, p := range next {
			if err == nil {
				v.tell(moment{kind: pageWritten, was: before[i], page: p, by: v.instance})
			}
		}
		return err
	})
}

// Intend commits an intent.
func (v ledgerView) Intend(ctx context.Context, next job.Page, epoch int64) error {
	return v.do(ctx, "intend", func(ctx context.Context, l *ledgers) error { return l.Intend(ctx, next, epoch) }, v.moved(ctx, next, nil))
}

// Complete ends a page and puts what was split off.
func (v ledgerView) Complete(ctx context.Context, next job.Page, children []job.Page) error {
	return v.do(ctx, "complete", func(ctx context.Context, l *ledgers) error { return l.Complete(ctx, next, children) }, v.moved(ctx, next, children))
}

// moved tells of a write of a page.
func (v ledgerView) moved(ctx context.Context, next job.Page, children []job.Page) func(apply func() error) error {
	return func(apply func() error) error {
		before, _ := v.ledger.Page(ctx, next.Run, next.Tenant, next.ID)
		if err := apply(); err != nil {
			return err
		}
		v.tell(moment{kind: pageWritten, was: before, page: next, children: children, by: v.instance})
		return nil
	}
}

// OpenRuns reads the index of open runs.
func (v ledgerView) OpenRuns(ctx context.Context) ([]job.Run, error) {
	all, err := ask(ctx, v, "open-runs", func(ctx context.Context, l *ledgers) ([]job.Run, error) { return l.OpenRuns(ctx) })
	return lagging(v.world, all), err
}

// OpenPages reads the index of open pages.
func (v ledgerView) OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error) {
	limit = v.few(limit)
	all, err := ask(ctx, v, "open-pages", func(ctx context.Context, l *ledgers) ([]job.Page, error) { return l.OpenPages(ctx, after, limit) })
	return v.behind(all, after, func(p *job.Page) bool { return p.State.Open() || p.State == job.Dead && p.Death.LetterAt.IsZero() }), err
}

// DeadPages reads the index of dead pages.
func (v ledgerView) DeadPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error) {
	limit = v.few(limit)
	all, err := ask(ctx, v, "dead-pages", func(ctx context.Context, l *ledgers) ([]job.Page, error) { return l.DeadPages(ctx, after, limit) })
	return v.behind(all, after, func(p *job.Page) bool { return p.State == job.Dead && !p.Death.LetterAt.IsZero() }), err
}

// OpenRedrives reads the index of redrives.
func (v ledgerView) OpenRedrives(ctx context.Context) ([]job.Redrive, error) {
	all, err := ask(ctx, v, "open-redrives", func(ctx context.Context, l *ledgers) ([]job.Redrive, error) { return l.OpenRedrives(ctx) })
	return lagging(v.world, all), err
}

// lagging is what an index that is behind shows of its rows.
func lagging[T any](w *world, all []T) []T {
	if len(all) > 0 && w.strikes(IndexLags) {
		at := w.chance.n(len(all))
		return append(all[:at:at], all[at+1:]...)
	}
	return all
}

// few is how many rows an answer has that may have so many.
func (w *world) few(limit int) int {
	if w.answers > 0 {
		return min(limit, w.answers)
	}
	return limit
}

// behind is what an index of pages shows that is behind: it lacks a row, or shows one as it
// was before, which shown would choose.
func (w *world) behind(all []job.Page, after *job.Page, shown func(*job.Page) bool) []job.Page {
	if len(w.truth.order) == 0 || after != nil || w.rates[IndexLags] == 0 || !w.chance.one(2) {
		return lagging(w, all)
	}
	old := &pick(&w.chance, w.truth.order).was
	if old.ID == "" || !shown(old) || !w.strikes(IndexLags) {
		return all
	}
	rest := slices.DeleteFunc(all, func(p job.Page) bool { return p.ID == old.ID })
	return append([]job.Page{*old}, rest...)
}

// Epoch reads a tenant's hold epoch.
func (v ledgerView) Epoch(ctx context.Context, tenant string) (int64, error) {
	return ask(ctx, v, "epoch", func(ctx context.Context, l *ledgers) (int64, error) { return l.Epoch(ctx, tenant) })
}

// Holds reads a tenant's holds.
func (v ledgerView) Holds(ctx context.Context, tenant string) (hold.Set, error) {
	set, err := ask(ctx, v, "holds", func(ctx context.Context, l *ledgers) (hold.Set, error) { return l.Holds(ctx, tenant) })
	if len(set) > 0 && v.strikes(HoldsCutShort) {
		set = set[:v.chance.n(len(set))]
	}
	return set, err
}

// PlaceHold puts a hold and raises its tenant's epoch.
func (v ledgerView) PlaceHold(ctx context.Context, h hold.Hold) (stored hold.Hold, err error) {
	var fake, client hold.Hold
	err = v.do(ctx, "place-hold", func(ctx context.Context, l *ledgers) (err error) {
		placed := &fake
		if l != v.rows {
			placed = &client
		}
		*placed, err = l.PlaceHold(ctx, h)
		return err
	}, func(apply func() error) error {
		epoch, _ := v.ledger.Epoch(ctx, h.Tenant)
		err := apply()
		if err == nil && fake.Epoch > epoch {
			v.tell(moment{kind: holdWritten, hold: fake, by: v.instance})
		}
		return err
	})
	if v.far != nil {
		return client, err
	}
	return fake, err
}

// ReleaseHold ends a hold.
func (v ledgerView) ReleaseHold(ctx context.Context, tenant, id string, at time.Time) error {
	return v.do(ctx, "release-hold", func(ctx context.Context, l *ledgers) error { return l.ReleaseHold(ctx, tenant, id, at) }, then(func() {
		v.tell(moment{kind: holdWritten, hold: hold.Hold{ID: id, Tenant: tenant, ReleasedAt: at}, by: v.instance})
	}))
}

// Brakes reads the brakes in force.
func (v ledgerView) Brakes(ctx context.Context) ([]job.Brake, error) {
	return ask(ctx, v, "brakes", func(ctx context.Context, l *ledgers) ([]job.Brake, error) { return l.Brakes(ctx) })
}

// SetBrake puts a brake.
func (v ledgerView) SetBrake(ctx context.Context, b job.Brake) error {
	return v.do(ctx, "set-brake", func(ctx context.Context, l *ledgers) error { return l.SetBrake(ctx, b) }, then(func() {
		v.tell(moment{kind: brakeWritten, brake: b, by: v.instance})
	}))
}

// ReleaseBrake takes a brake away.
func (v ledgerView) ReleaseBrake(ctx context.Context, b job.Brake) error {
	return v.do(ctx, "release-brake", func(ctx context.Context, l *ledgers) error { return l.ReleaseBrake(ctx, b) }, then(func() {
		v.tell(moment{kind: brakeWritten, brake: b, released: true, by: v.instance})
	}))
}

// Approval reads which version may delete.
func (v ledgerView) Approval(ctx context.Context, name string) (policy.Approval, error) {
	return ask(ctx, v, "approval", func(ctx context.Context, l *ledgers) (policy.Approval, error) { return l.Approval(ctx, name) })
}

// Approve lets a version delete.
func (v ledgerView) Approve(ctx context.Context, next policy.Approval) error {
	return v.do(ctx, "approve", func(ctx context.Context, l *ledgers) error { return l.Approve(ctx, next) }, then(func() {
		v.tell(moment{kind: approvalWritten, approval: next, by: v.instance})
	}))
}

// Watch reads how far a schedule was looked at.
func (v ledgerView) Watch(ctx context.Context, name string) (job.Watch, error) {
	return ask(ctx, v, "watch", func(ctx context.Context, l *ledgers) (job.Watch, error) { return l.Watch(ctx, name) })
}

// SwapWatch moves it.
func (v ledgerView) SwapWatch(ctx context.Context, next job.Watch) error {
	return v.do(ctx, "swap-watch", func(ctx context.Context, l *ledgers) error { return l.SwapWatch(ctx, next) }, nil)
}

// PutEntry records an order.
func (v ledgerView) PutEntry(ctx context.Context, e audit.Entry) error {
	return v.do(ctx, "entry", func(ctx context.Context, l *ledgers) error { return l.PutEntry(ctx, e) }, then(func() {
		v.tell(moment{kind: entryWritten, entry: e, by: v.instance})
	}))
}

// Entries reads orders.
func (v ledgerView) Entries(ctx context.Context, since, until time.Time, limit int) ([]audit.Entry, error) {
	return ask(ctx, v, "entries", func(ctx context.Context, l *ledgers) ([]audit.Entry, error) {
		return l.Entries(ctx, since, until, limit)
	})
}

// PutRedrive records a plan.
func (v ledgerView) PutRedrive(ctx context.Context, r job.Redrive, pages []job.RedrivePage) error {
	return v.do(ctx, "put-redrive", func(ctx context.Context, l *ledgers) error { return l.PutRedrive(ctx, r, pages) }, nil)
}

// Redrive reads a plan.
func (v ledgerView) Redrive(ctx context.Context, id job.RedriveID) (job.Redrive, error) {
	return ask(ctx, v, "redrive", func(ctx context.Context, l *ledgers) (job.Redrive, error) { return l.Redrive(ctx, id) })
}

// RedrivePages reads the pages of a plan.
func (v ledgerView) RedrivePages(ctx context.Context, id job.RedriveID) ([]job.RedrivePage, error) {
	return ask(ctx, v, "redrive-pages", func(ctx context.Context, l *ledgers) ([]job.RedrivePage, error) { return l.RedrivePages(ctx, id) })
}

// SwapRedrive moves a plan.
func (v ledgerView) SwapRedrive(ctx context.Context, next job.Redrive) error {
	return v.do(ctx, "swap-redrive", func(ctx context.Context, l *ledgers) error { return l.SwapRedrive(ctx, next) }, then(func() {
		v.tell(moment{kind: redriveWritten, redrive: next, by: v.instance})
	}))
}

// AutoRedrive reads whether a schedule may redrive.
func (v ledgerView) AutoRedrive(ctx context.Context) (job.AutoRedrive, error) {
	return ask(ctx, v, "auto-redrive", func(ctx context.Context, l *ledgers) (job.AutoRedrive, error) { return l.AutoRedrive(ctx) })
}

// SwapAutoRedrive moves it.
func (v ledgerView) SwapAutoRedrive(ctx context.Context, next job.AutoRedrive) error {
	return v.do(ctx, "swap-auto-redrive", func(ctx context.Context, l *ledgers) error { return l.SwapAutoRedrive(ctx, next) }, then(func() {
		v.tell(moment{kind: autoWritten, auto: next, by: v.instance})
	}))
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
