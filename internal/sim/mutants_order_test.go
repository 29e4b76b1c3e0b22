package sim

import (
	"bytes"
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/redrive"
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
