package redrive

import (
	"context"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const opStatus = "status of redrive"

// status says what became of a plan, from the rows alone.
func (r *Redriver) status(ctx context.Context, _ time.Time, q StatusRequest) (a Status, err error) {
	id := q.ID
	switch {
	case (q.Token == "") == (q.ID == ""):
		return a, failure.New(failure.Invalid, opStatus, "name the plan by its token or by its redrive_id")
	case q.Token != "":
		if id, err = r.idOf(q.Token); err != nil {
			return a, err
		}
	case !isID(string(q.ID)):
		return a, failure.New(failure.Invalid, opStatus, "redrive_id is not of its form: 32 hex digits")
	}
	plan, pages, err := r.bound(ctx, opStatus, id)
	if err != nil {
		return a, err
	}
	a = Status{
		RedriveID: plan.ID, State: stateOf(plan, r.now()), PlannedAt: plan.PlannedAt, ExpiresAt: plan.ExpiresAt, AppliedAt: plan.AppliedAt,
		MovedAt: plan.MovedAt, ClosedAt: plan.ClosedAt, By: plan.By, Reason: plan.Reason, Override: plan.Override, Pages: plan.Pages,
	}
	var took []time.Duration
	for _, p := range pages {
		page, err := r.Pages.Page(ctx, p.Run, p.Tenant, p.ID)
		switch {
		case failure.Is(err, failure.Absent), err == nil && page.RedriveID != plan.ID:
		case err != nil:
			return a, err
		case page.State == job.Completed:
			a.Succeeded++
			took = append(took, page.SettledAt.Sub(page.FirstFailure))
		case page.State.Open():
			a.Open++
		default:
			a.DeadAgain++
		}
	}
	if !plan.ClosedAt.IsZero() { // a page that died again may have moved on with a later plan
		a.Open, a.Succeeded, a.DeadAgain = 0, plan.Succeeded, plan.DiedAgain
	}
	a.Moved = a.Open + a.Succeeded + a.DeadAgain
	if a.Left = a.Pages - a.Moved; plan.MovedAt.IsZero() {
		a.Left, a.Remaining = 0, a.Left
	}
	if a.Moved > 0 {
		a.SuccessRatio = float64(a.Succeeded) / float64(a.Moved)
	}
	a.Recovery = spread(took)
	return a, nil
}

func stateOf(plan job.Redrive, now time.Time) string {
	switch {
	case !plan.ClosedAt.IsZero():
		return "closed"
	case !plan.MovedAt.IsZero():
		return "moved"
	case !plan.AppliedAt.IsZero():
		return "applied"
	case !now.Before(plan.ExpiresAt):
		return "expired"
	default:
		return "planned"
	}
}

// spread returns nil when there is nothing to spread.
func spread(took []time.Duration) *Spread {
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	n := len(took)
	return &Spread{Min: took[0].Seconds(), Median: (took[(n-1)/2] + took[n/2]).Seconds() / 2, Max: took[n-1].Seconds()}
}
