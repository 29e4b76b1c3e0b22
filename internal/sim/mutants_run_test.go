package sim

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/reconcile"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/worker"
)

// runMutants break how runs come to be, and what is said of them.
func runMutants() []killer {
	return []killer{
		{Mutant: Mutant{Name: "takes-any-version-over", Enqueue: func(c *enqueue.Config, i *instance) { c.Approvals = hungry{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "report-only-waits", Enqueue: func(c *enqueue.Config, i *instance) {
			c.Runs = scanned{ledgerView: ledgerView{i}, swap: func(ctx context.Context, l ledgerView, next job.Run) error {
				if next.Mode == job.ReportOnly && len(next.Trips) > 0 {
					next.State = job.AwaitingApproval
				}
				return l.SwapRun(ctx, next)
			}}
		}}},
		{Mutant: Mutant{Name: "first-answer-is-all", Enqueue: func(c *enqueue.Config, i *instance) { c.Lister = short{storeView{i}} }}},
		{Mutant: Mutant{Name: "requests-of-everybody", Enqueue: func(c *enqueue.Config, i *instance) { c.Lister = wide{storeView{i}} }}},
		{Mutant: Mutant{Name: "sent-to-the-other-queue", Enqueue: func(c *enqueue.Config, i *instance) {
			c.Sender = post{queueView: queueView{i}, send: func(ctx context.Context, q queueView, _ job.Mode, m []job.Message) ([]string, error) {
				return q.Send(ctx, job.Enforce, m)
			}}
		}}},
		{Mutant: Mutant{Name: "a-run-for-each-tick", Enqueue: func(c *enqueue.Config, i *instance) { c.Runs = anew{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "buried-early", Reconcile: func(c *reconcile.Config, _ *instance) { c.Settings.MaxAttempts = 1 }}},
		{Mutant: Mutant{Name: "dates-to-come", Enqueue: func(c *enqueue.Config, _ *instance) { c.Settings.ClockSkew = 2 * day }}},
		{Mutant: Mutant{Name: "pages-too-large", Enqueue: func(c *enqueue.Config, _ *instance) { c.Settings.PageItems, c.Settings.PageListed = 12, 24 }}},
		{Mutant: Mutant{Name: "guard-untold", Enqueue: func(c *enqueue.Config, _ *instance) { c.Audit = silenced{c.Audit, audit.GuardTripped} }}},
		{Mutant: Mutant{Name: "ratchet-untold", Enqueue: func(c *enqueue.Config, _ *instance) { c.Audit = silenced{c.Audit, audit.VersionNotApproved} }}},
		{Mutant: Mutant{Name: "missed-too-early", Reconcile: func(c *reconcile.Config, _ *instance) { c.Settings.MissedAfter = c.Settings.Objective }}},
		{Mutant: Mutant{Name: "missed-and-not-started", Reconcile: func(c *reconcile.Config, i *instance) { c.Scans = idle{resumeScans{starts{i}}} }}},
		{Mutant: Mutant{Name: "lag-of-another-date", Reconcile: func(c *reconcile.Config, i *instance) { c.Runs = ahead{rows{ledgerView: ledgerView{i}}} }}},
		{Mutant: Mutant{Name: "dead-pages-unmeasured", Reconcile: func(c *reconcile.Config, i *instance) { c.Gauges = deaf{i, contract.DeadPages} }}},
		{Mutant: Mutant{Name: "open-pages-unmeasured", Reconcile: func(c *reconcile.Config, i *instance) { c.Gauges = deaf{i, contract.OldestOpenPageAge} }}},
		{Mutant: Mutant{Name: "missed-unmeasured", Reconcile: func(c *reconcile.Config, i *instance) { c.Gauges = deaf{i, contract.MissedDates} }}},
		{Mutant: Mutant{Name: "death-unsaid", Worker: func(c *worker.Config, _ *instance) { c.Audit = silenced{c.Audit, audit.DeadLettered} }}},
		{Mutant: Mutant{Name: "sends-what-is-not-due", Reconcile: func(c *reconcile.Config, i *instance) {
			e := early{rows{ledgerView: ledgerView{i}, seen: overdue}}
			c.Index, c.Rows = e, e
		}}},
		{Mutant: Mutant{Name: "voids-what-waits", Reconcile: func(c *reconcile.Config, i *instance) {
			c.Runs = rows{ledgerView: ledgerView{i}, run: func(_ *instance, r job.Run) job.Run {
				if r.State == job.AwaitingApproval {
					r.State = job.Rejected
				}
				return r
			}}
		}}},
	}
}

// redriveMutants break what moves pages back and gives them up.
func redriveMutants() []killer {
	return []killer{
		{Mutant: Mutant{Name: "brake-gate-off", Redrive: func(c *redrive.Config, i *instance) {
			c.Brakes = rows{ledgerView: ledgerView{i}, brakes: func([]job.Brake) []job.Brake { return nil }}
		}}},
		{Mutant: Mutant{Name: "superseded-unseen", Redrive: func(c *redrive.Config, i *instance) { c.Policies = oldest{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "all-at-once", Redrive: func(c *redrive.Config, _ *instance) {
			c.Settings.RedriveRate, c.Settings.RedriveBatch = c.Settings.RedrivePlan, c.Settings.RedrivePlan
		}}},
		{Mutant: Mutant{Name: "sweep-sees-nothing", Redrive: func(c *redrive.Config, i *instance) { c.Letters = unseen{queueView{i}} }}},
		{Mutant: Mutant{Name: "closed-without-the-last", Reconcile: func(c *reconcile.Config, i *instance) { c.Plans = lacking{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "letters-unordered", Redrive: func(c *redrive.Config, i *instance) {
			c.Orders = forgets{ledgerView{i}, audit.LetterDiscarded}
		}}},
		{Mutant: Mutant{Name: "given-up-means-gone", Redrive: func(c *redrive.Config, i *instance) {
			c.Pages = rows{ledgerView: ledgerView{i}, swap: func(ctx context.Context, l ledgerView, next job.Page) error {
				if next.State == job.Discarded {
					next.Counts[job.Deleted] += next.Counts[job.Failed]
					next.Counts[job.Failed] = 0
				}
				return l.SwapPage(ctx, next)
			}}
		}}},
	}
}

// hungry approves whatever is deployed, as if it deleted no more.
type hungry struct{ ledgerView }

func (h hungry) Approval(ctx context.Context, name string) (policy.Approval, error) {
	a, err := h.ledgerView.Approval(ctx, name)
	p := h.deployed()[name]
	if err != nil || a.Names(p) {
		return a, err
	}
	next := policy.Approval{Policy: name, Rev: a.Rev + 1, Version: p.Version, SHA256: p.SHA256(), By: "enqueue", Reason: "taken over", At: h.clock()}
	if err := h.PutEntry(ctx, audit.Entry{At: next.At, Act: audit.VersionApproved, Region: region, By: next.By, Reason: next.Reason, Policy: name, Version: p.Version}); err != nil {
		return a, err
	}
	return next, h.Approve(ctx, next)
}

// short forgets that a listing goes on.
type short struct{ storeView }

func (s short) List(ctx context.Context, q job.Query) (job.Listing, error) {
	l, err := s.storeView.List(ctx, q)
	l.Token = ""
	return l, err
}

// wide lists what is not asked for.
type wide struct{ storeView }

func (s wide) List(ctx context.Context, q job.Query) (job.Listing, error) {
	q.Prefix = rootIn(q.Prefix)
	return s.storeView.List(ctx, q)
}

// anew opens a run by the clock.
type anew struct{ ledgerView }

func (a anew) OpenRun(ctx context.Context, r job.Run) (job.Run, bool, error) {
	if r.RequestID == "" {
		r.ID = job.ScheduledRunID(r.Region, r.Policy, a.clock())
	}
	return a.ledgerView.OpenRun(ctx, r)
}

// early shows every page that was sent as overdue.
type early struct{ rows }

func (e early) OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error) {
	all, err := e.ledgerView.OpenPages(ctx, after, limit)
	for n := range all {
		all[n] = overdue(e.instance, all[n])
	}
	return all, err
}

func overdue(i *instance, p job.Page) job.Page {
	if p.State == job.Sent {
		p.NextDue = i.clock().Add(-time.Hour)
	}
	return p
}

// silenced drops the events of a name.
type silenced struct {
	audit.Sink
	name audit.Name
}

func (s silenced) Emit(e audit.Event) {
	if e.Event != s.name {
		s.Sink.Emit(e)
	}
}

// deaf drops the measurements of a metric.
type deaf struct {
	*instance
	metric contract.Metric
}

func (d deaf) Measure(m audit.Measurement) {
	if m.Metric != d.metric {
		d.instance.Measure(m)
	}
}

// idle starts no run.
type idle struct{ resumeScans }

func (idle) Start(context.Context, time.Time, string, time.Time) error { return nil }

// ahead shows a closed run of a date that has not come.
type ahead struct{ rows }

func (a ahead) ClosedRuns(_ context.Context, name string, _ int) ([]job.Run, error) {
	return []job.Run{{Policy: name, State: job.Closed, Scheduled: a.clock().Add(day)}}, nil
}

// oldest shows no policy but the first.
type oldest struct{ ledgerView }

func (o oldest) LatestPolicy(ctx context.Context, name string) (policy.Policy, error) {
	return o.Policy(ctx, name, 1)
}

// unseen shows no dead letter to whoever would take it.
type unseen struct{ queueView }

func (unseen) Letters(context.Context, int) ([]job.DeadLetter, error) { return nil, nil }

// lacking is without the last page of every plan.
type lacking struct{ ledgerView }

func (c lacking) RedrivePages(ctx context.Context, id job.RedriveID) ([]job.RedrivePage, error) {
	all, err := c.ledgerView.RedrivePages(ctx, id)
	return all[:max(len(all)-1, 0)], err
}

// forgets writes down no order of an act.
type forgets struct {
	ledgerView
	act audit.Name
}

func (f forgets) PutEntry(ctx context.Context, e audit.Entry) error {
	if e.Act == f.act {
		return nil
	}
	return f.ledgerView.PutEntry(ctx, e)
}
