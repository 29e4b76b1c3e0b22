package sim

import (
	"bytes"
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
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
		{Mutant: Mutant{Name: "region-of-a-token-ignored", Request: func(_ string, request []byte) []byte {
			return bytes.Replace(request, []byte(`"`+otherRegion+"/"), []byte(`"`+region+"/"), 1)
		}}},
		{Mutant: Mutant{Name: "redrive-of-another-region", Redrive: func(c *redrive.Config, _ *instance) { c.Region = otherRegion }}},
	}
}
