package sim

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/reconcile"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/worker"
)

// switched changes what a schedule may redrive.
type switched struct {
	ledgerView
	seen func(job.AutoRedrive) job.AutoRedrive
}

func (s switched) AutoRedrive(ctx context.Context) (job.AutoRedrive, error) {
	a, err := s.ledgerView.AutoRedrive(ctx)
	return s.seen(a), err
}

func ofSchedule(name string, seen func(job.AutoRedrive) job.AutoRedrive) killer {
	return killer{Mutant: Mutant{Name: name, Redrive: func(c *redrive.Config, i *instance) { c.Schedule = switched{ledgerView{i}, seen} }}}
}

// undrilled finds a drill that passed, whatever is on record.
type undrilled struct{ ledgerView }

func (u undrilled) Entries(_ context.Context, _, _ time.Time, _ int) ([]audit.Entry, error) {
	return []audit.Entry{{At: u.clock(), Act: audit.DrillPassed}}, nil
}

// bold is a version that is approved, as if it deleted much more than it does.
func bold(p policy.Policy) policy.Policy {
	p.RetentionDays = 1
	return p
}

type bolder struct{ ledgerView }

func (b bolder) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	p, err := b.ledgerView.Policy(ctx, name, version)
	if version == b.policy.Version && b.released && !b.old {
		p = bold(p)
	}
	return p, err
}

func ofReport(name string, run func(*instance, job.Run) job.Run) killer {
	return killer{Mutant: Mutant{Name: name, Redrive: func(c *redrive.Config, i *instance) { c.Runs = rows{ledgerView: ledgerView{i}, run: run} }}}
}

// twiceReported finds each report on two dates.
type twiceReported struct{ ledgerView }

func (r twiceReported) ClosedRuns(ctx context.Context, name string, limit int) ([]job.Run, error) {
	all, err := r.ledgerView.ClosedRuns(ctx, name, limit)
	for _, run := range all {
		run.Scheduled, run.OpenedAt = run.Scheduled.Add(-day), run.OpenedAt.Add(-day)
		all = append(all, run)
	}
	return all, err
}

// ofOnePolicy finds the runs of the first policy alone.
type ofOnePolicy struct{ ledgerView }

func (o ofOnePolicy) RunsOf(ctx context.Context, tenant string) ([]job.RunID, error) {
	all, err := o.ledgerView.RunsOf(ctx, tenant)
	return slices.DeleteFunc(all, func(id job.RunID) bool { return o.truth.runs[id].Policy != policyName }), err
}

// ofEverybody forgets whose request it is.
type ofEverybody struct{ ledgerView }

func (o ofEverybody) OpenRun(ctx context.Context, r job.Run) (job.Run, bool, error) {
	r.Tenant = ""
	return o.ledgerView.OpenRun(ctx, r)
}

// believed reads what is lost.
type believed struct{ ledgerView }

func (b believed) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	return b.world.ledger.Policy(ctx, name, version)
}

func (b believed) LatestPolicy(ctx context.Context, name string) (policy.Policy, error) {
	return b.world.ledger.LatestPolicy(ctx, name)
}

// renamed names a run by when it opens.
type renamed struct{ ledgerView }

func (r renamed) OpenRun(ctx context.Context, run job.Run) (job.Run, bool, error) {
	if run.RequestID == "" {
		run.ID = job.ScheduledRunID(run.Region, run.Policy, r.clock())
	}
	return r.ledgerView.OpenRun(ctx, run)
}

// orderMutants break what takes the orders of people and schedules.
func orderMutants() []killer {
	return []killer{
		ofSchedule("schedule-never-off", func(a job.AutoRedrive) job.AutoRedrive {
			if !a.On {
				a.On, a.Reason, a.Cap = true, job.ReasonAttempts, 3
			}
			return a
		}),
		ofSchedule("schedule-without-cap", func(a job.AutoRedrive) job.AutoRedrive {
			a.Cap = 100
			return a
		}),
		ofSchedule("schedule-of-any-death", func(a job.AutoRedrive) job.AutoRedrive {
			if a.Reason != job.ReasonAttempts {
				a.Reason = job.ReasonAttempts
			} else {
				a.Reason = job.ReasonForbidden
			}
			return a
		}),
		{Mutant: Mutant{Name: "schedule-without-drill", Redrive: func(c *redrive.Config, i *instance) { c.Orders = undrilled{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "dates-made-up", Redrive: func(c *redrive.Config, i *instance) { c.Runs = twiceReported{ledgerView{i}} }}},
		ofRows("brake-on-everything", rows{brakes: func(all []job.Brake) []job.Brake {
			for i := range all {
				all[i].Policy = ""
			}
			return all
		}}),
		{Mutant: Mutant{Name: "filter-ignored", Request: func(_ string, request []byte) []byte {
			if bytes.Contains(request, []byte(`"op":"plan"`)) {
				request = bytes.Replace(request, []byte(`,"policy":"`+secondName+`"`), nil, 1)
			}
			return request
		}}},
		{Mutant: Mutant{Name: "guard-stops-everything", Enqueue: func(c *enqueue.Config, i *instance) {
			c.Runs = scanned{ledgerView: ledgerView{i}, swap: func(ctx context.Context, l ledgerView, next job.Run) error {
				if next.State == job.Released && next.Mode == job.Enforce {
					next.State, next.ReleasedAt = job.AwaitingApproval, time.Time{}
				}
				return l.SwapRun(ctx, next)
			}}
		}}},
		{Mutant: Mutant{Name: "holds-of-one-policy", Hold: func(c *hold.Config, i *instance) { c.Runs = ofOnePolicy{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "one-schedule-watched", Reconcile: func(c *reconcile.Config, i *instance) {
			delete(c.Deployed, secondName)
		}}},
		{Mutant: Mutant{Name: "other-policy", Land: func(w *world, d *job.Deletion) {
			if rel, under := strings.CutPrefix(d.Items[0].Key, root); under {
				if now, there := w.store.Get(d.Bucket, job.Ref{Key: secondRoot + rel}); there {
					d.Items[0] = now
				}
			}
		}}},
		ofReport("drill-ends-any-page", func(_ *instance, r job.Run) job.Run {
			if r.RequestID != drillRequest {
				r.RequestID, r.Tenant = drillRequest, tenants[0]
			}
			return r
		}),
		ofRedrive("drill-ends-what-was-claimed", func(_ *instance, p job.Page) job.Page {
			if p.State != job.Dead && p.Fence > 0 {
				p.State, p.Fence, p.Attempts, p.Intent, p.LeaseEnd = job.Sent, 0, 0, job.Intent{}, time.Time{}
			}
			return p
		}),
		{Mutant: Mutant{Name: "drill-always-passes", Redrive: func(c *redrive.Config, i *instance) {
			c.Orders = orders{ledgerView: ledgerView{i}, put: func(e audit.Entry) audit.Entry {
				if e.Act == audit.DrillFailed {
					e.Act = audit.DrillPassed
				}
				return e
			}}
		}}},
		{Mutant: Mutant{Name: "request-of-every-tenant", Enqueue: func(c *enqueue.Config, i *instance) { c.Runs = ofEverybody{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "lost-version-believed", Redrive: func(c *redrive.Config, i *instance) { c.Policies = believed{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "command-rewritten", Redrive: func(c *redrive.Config, i *instance) {
			c.Sender = post{queueView: queueView{i}, send: func(ctx context.Context, q queueView, mode job.Mode, m []job.Message) ([]string, error) {
				for n := range m {
					m[n].Body = append(slices.Clone(m[n].Body), ' ')
				}
				return q.Send(ctx, mode, m)
			}}
		}}},
		{Mutant: Mutant{Name: "reports-sent-to-delete", Enqueue: func(c *enqueue.Config, i *instance) {
			c.Sender = post{queueView: queueView{i}, send: func(ctx context.Context, q queueView, _ job.Mode, m []job.Message) ([]string, error) {
				return q.Send(ctx, job.Enforce, m)
			}}
		}}},
		{Mutant: Mutant{Name: "run-named-by-the-clock", Enqueue: func(c *enqueue.Config, i *instance) { c.Runs = renamed{ledgerView{i}} }}},
		{Mutant: Mutant{Name: "resume-not-rechecked", Worker: func(c *worker.Config, i *instance) {
			c.Holds = vetoes{ledgerView: ledgerView{i}, keep: func(hold.Hold) bool { return i.truth.claims[i.owner].Intent == (job.Intent{}) }}
		}}},
		{Mutant: Mutant{Name: "wider-taken-over", Enqueue: func(c *enqueue.Config, i *instance) {
			c.Approvals = orders{ledgerView: ledgerView{i}, approval: func(a policy.Approval) policy.Approval {
				if a.Version > 0 {
					a.SHA256 = bold(i.policy).SHA256()
				}
				return a
			}}
			c.Policies = bolder{ledgerView{i}}
		}}},
		{Mutant: Mutant{Name: "approves-another-version", Redrive: func(c *redrive.Config, i *instance) {
			c.Approvals = orders{ledgerView: ledgerView{i}, approve: func(a policy.Approval) policy.Approval {
				a.Version, a.SHA256 = i.next.Version, i.next.SHA256()
				if a.RunID = ""; i.released {
					a.Version, a.SHA256 = i.policy.Version, i.policy.SHA256()
				}
				return a
			}}
		}}},
		ofReport("open-report-approves", func(_ *instance, r job.Run) job.Run {
			r.State = job.Closed
			return r
		}),
		ofReport("request-approves", func(_ *instance, r job.Run) job.Run {
			r.RequestID = ""
			return r
		}),
		ofReport("report-of-another-version-approves", func(i *instance, r job.Run) job.Run {
			r.Version, r.PolicySHA256 = i.current.Version, i.current.SHA256()
			return r
		}),
		{Mutant: Mutant{Name: "region-of-a-token-ignored", Request: func(_ string, request []byte) []byte {
			return bytes.Replace(request, []byte(`"`+otherRegion+"/"), []byte(`"`+region+"/"), 1)
		}}},
		{Mutant: Mutant{Name: "redrive-of-another-region", Redrive: func(c *redrive.Config, _ *instance) { c.Region = otherRegion }}},
	}
}
