package sim

import (
	"context"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/reconcile"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// orders changes what becomes of orders and approvals.
type orders struct {
	ledgerView
	forget   bool
	put      func(audit.Entry) audit.Entry
	approval func(policy.Approval) policy.Approval
	approve  func(policy.Approval) policy.Approval
}

func (o orders) Approve(ctx context.Context, next policy.Approval) error {
	if o.approve != nil {
		next = o.approve(next)
	}
	return o.ledgerView.Approve(ctx, next)
}

func (o orders) PutEntry(ctx context.Context, e audit.Entry) error {
	if o.forget {
		return nil
	}
	if o.put != nil {
		e = o.put(e)
	}
	return o.ledgerView.PutEntry(ctx, e)
}

func (o orders) Approval(ctx context.Context, name string) (policy.Approval, error) {
	a, err := o.ledgerView.Approval(ctx, name)
	if o.approval != nil {
		a = o.approval(a)
	}
	return a, err
}

// scanned changes how runs are written.
type scanned struct {
	ledgerView
	swap   func(context.Context, ledgerView, job.Run) error
	record func(context.Context, ledgerView, job.Run, *job.Page) error
}

func (s scanned) SwapRun(ctx context.Context, next job.Run) error {
	if s.swap != nil {
		return s.swap(ctx, s.ledgerView, next)
	}
	return s.ledgerView.SwapRun(ctx, next)
}

func (s scanned) Record(ctx context.Context, next job.Run, page *job.Page) error {
	if s.record != nil {
		return s.record(ctx, s.ledgerView, next, page)
	}
	return s.ledgerView.Record(ctx, next, page)
}

// placed lets a hold be written only after its answer.
type placed struct{ ledgerView }

func (p placed) PlaceHold(ctx context.Context, h hold.Hold) (hold.Hold, error) {
	epoch, err := p.ledgerView.Epoch(ctx, h.Tenant)
	p.later("place-hold", 2*time.Second, func() error {
		stored, err := p.ledger.PlaceHold(ctx, h)
		p.tell(moment{kind: holdWritten, hold: stored})
		return err
	})
	h.Epoch = epoch + 1
	return h, err
}

// lists changes what the hold function finds in the store.
type lists struct {
	storeView
	always bool
}

func (l lists) List(ctx context.Context, q job.Query) (job.Listing, error) {
	if !l.always {
		return l.storeView.List(ctx, q)
	}
	return job.Listing{Items: l.objects}, nil
}

func ofPages(name string, seen func(*instance, job.Page) job.Page) killer {
	return killer{Mutant: Mutant{Name: name, Hold: func(c *hold.Config, i *instance) { c.Pages = rows{ledgerView: ledgerView{i}, seen: seen} }}}
}

func ofRedrive(name string, seen func(*instance, job.Page) job.Page) killer {
	return killer{Mutant: Mutant{Name: name, Redrive: func(c *redrive.Config, i *instance) { c.Pages = rows{ledgerView: ledgerView{i}, seen: seen} }}}
}

// unsent takes messages and sends none.
func unsent(_ context.Context, _ queueView, _ job.Mode, m []job.Message) (accepted []string, err error) {
	for _, one := range m {
		accepted = append(accepted, one.ID)
	}
	return accepted, nil
}

func otherMutants() []killer {
	return slices.Concat(runMutants(), redriveMutants(), []killer{
		{Mutant: Mutant{Name: "guard-off", Enqueue: func(c *enqueue.Config, i *instance) {
			c.Runs = scanned{ledgerView: ledgerView{i}, swap: func(ctx context.Context, l ledgerView, next job.Run) error {
				if next.State == job.AwaitingApproval {
					next.State, next.ReleasedAt = job.Released, l.clock()
				}
				return l.SwapRun(ctx, next)
			}}
		}}},
		{Mutant: Mutant{Name: "cutoff-too-late", Enqueue: func(c *enqueue.Config, i *instance) { c.Runs = hasty{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "pages-keyed-by-end", Enqueue: func(c *enqueue.Config, i *instance) {
			c.Pages = scanned{ledgerView: ledgerView{i}, record: func(ctx context.Context, l ledgerView, next job.Run, page *job.Page) error {
				stored, _ := l.ledger.Run(ctx, next.ID)
				if next.Rev = stored.Rev + 1; page != nil {
					page.ID = job.RangePageID(page.Run, page.Tenant, "through "+page.Through)
				}
				return l.Record(ctx, next, page)
			}}
		}}},
		{Mutant: Mutant{Name: "ratchet-off", Enqueue: func(c *enqueue.Config, i *instance) {
			c.Approvals = orders{ledgerView: ledgerView{i}, approval: func(policy.Approval) policy.Approval {
				p := i.deployed()[policyName]
				return policy.Approval{Policy: p.Name, Rev: 1, Version: p.Version, SHA256: p.SHA256()}
			}}
		}}},
		{Mutant: Mutant{Name: "approval-unordered", Enqueue: func(c *enqueue.Config, i *instance) {
			c.Approvals = orders{ledgerView: ledgerView{i}, forget: true}
		}}},
		ofRedrive("dead-letters-dropped", func(_ *instance, p job.Page) job.Page {
			if p.State == job.Dead && p.Intent == (job.Intent{}) {
				p.State = job.Completed
			}
			return p
		}),
		ofRedrive("owed-letters-dropped", func(_ *instance, p job.Page) job.Page {
			if p.State == job.Redriven {
				p.NextDue = p.RestartedAt.Add(time.Minute)
			}
			return p
		}),
		ofRedrive("given-up-moved", func(_ *instance, p job.Page) job.Page {
			p.Abandoned = false
			return p
		}),
		ofRedrive("attempts-gate-off", func(_ *instance, p job.Page) job.Page {
			p.Attempts = 0
			return p
		}),
		ofRedrive("age-gate-off", func(_ *instance, p job.Page) job.Page {
			if p.State == job.Dead {
				p.FirstFailure, p.Death.At = p.FirstFailure.Add(-20*time.Minute), p.Death.At.Add(-20*time.Minute)
			}
			return p
		}),
		{Mutant: Mutant{Name: "redrive-unordered", Redrive: func(c *redrive.Config, i *instance) {
			c.Orders = orders{ledgerView: ledgerView{i}, forget: true}
		}}},
		{Mutant: Mutant{Name: "no-reconciler", Reconcile: func(c *reconcile.Config, i *instance) {
			c.Queue = post{queueView: queueView{i}, send: unsent}
		}}},
		{Mutant: Mutant{Name: "letters-never-owed", Reconcile: func(c *reconcile.Config, i *instance) {
			c.Queue = post{queueView: queueView{i}, letter: func(context.Context, queueView, job.Letter) error { return nil }}
		}}},
		{Mutant: Mutant{Name: "closed-early", Reconcile: func(c *reconcile.Config, i *instance) {
			c.Rows = rows{ledgerView: ledgerView{i}, seen: func(_ *instance, p job.Page) job.Page {
				if p.State == job.Dead {
					p.State = job.Completed
				}
				return p
			}}
		}}},
		{Mutant: Mutant{Name: "closed-with-open-pages", Reconcile: func(c *reconcile.Config, i *instance) {
			c.Index = hidden{ledgerView{i}}
			c.Rows = rows{ledgerView: ledgerView{i}, seen: func(_ *instance, p job.Page) job.Page {
				if p.State.Open() {
					p.State, p.Counts[job.Deleted], p.Planned = job.Completed, p.Candidates, p.Candidates
				}
				return p
			}}
		}}},
		{Mutant: Mutant{Name: "dates-unwatched", Reconcile: func(c *reconcile.Config, i *instance) {
			c.Watches = unwatched{ledgerView{i}}
		}}},
		{Mutant: Mutant{Name: "manifest-not-kept", Reconcile: func(c *reconcile.Config, i *instance) {
			c.Evidence = papers{evidenceView{i}, func(context.Context, evidenceView, string, []byte) error { return nil }}
		}}},
		{Mutant: Mutant{Name: "sends-what-the-index-shows", Reconcile: func(c *reconcile.Config, i *instance) {
			c.Rows = rows{ledgerView: ledgerView{i}, seen: func(i *instance, p job.Page) job.Page {
				if p.State.Terminal() {
					p.State, p.NextDue = job.Sent, i.clock().Add(-time.Hour)
				}
				return p
			}}
			c.Index = stale{ledgerView{i}}
		}}},
		ofPages("held-over-open-intent", func(_ *instance, p job.Page) job.Page {
			p.Intent = job.Intent{}
			return p
		}),
		ofPages("quiet-too-early", func(i *instance, p job.Page) job.Page {
			if !p.QuietAt.IsZero() {
				p.QuietAt = i.clock().Add(-time.Minute)
			}
			return p
		}),
		{Mutant: Mutant{Name: "hold-written-last", Hold: func(c *hold.Config, i *instance) { c.Holds = placed{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "hold-looks-at-nothing", Hold: func(c *hold.Config, i *instance) { c.Lister = lists{storeView{i}, true} }}},
		{Mutant: Mutant{Name: "hold-unordered", Hold: func(c *hold.Config, i *instance) { c.Entries = orders{ledgerView: ledgerView{i}, forget: true} }}},
	})
}

// hidden is an index that shows nothing.
type hidden struct{ ledgerView }

func (hidden) OpenPages(context.Context, *job.Page, int) ([]job.Page, error) { return nil, nil }
func (hidden) DeadPages(context.Context, *job.Page, int) ([]job.Page, error) { return nil, nil }

// stale is an index that shows every page as open.
type stale struct{ ledgerView }

func (s stale) OpenPages(_ context.Context, after *job.Page, _ int) (all []job.Page, err error) {
	if after != nil {
		return nil, nil
	}
	for _, p := range s.truth.order {
		row := p.row
		row.State, row.NextDue = job.Sent, s.clock().Add(-time.Hour)
		all = append(all, row)
	}
	return all, nil
}

// unwatched has looked at every date.
type unwatched struct{ ledgerView }

func (u unwatched) Watch(_ context.Context, name string) (job.Watch, error) {
	now := u.clock().Add(time.Hour)
	return job.Watch{Policy: name, Rev: 1, Since: now, Through: now}, nil
}

// hasty opens runs that keep a day less.
type hasty struct{ ledgerView }

func (h hasty) OpenRun(ctx context.Context, r job.Run) (job.Run, bool, error) {
	r.Cutoff = r.Cutoff.Add(day)
	return h.ledgerView.OpenRun(ctx, r)
}

// foundMutants put back what worlds have found in the product.
func foundMutants() []killer {
	return []killer{
		{Mutant: Mutant{Name: "clocks-agree", Hold: func(c *hold.Config, _ *instance) { c.Settings.ClockSkew = 1 }}},
	}
}
