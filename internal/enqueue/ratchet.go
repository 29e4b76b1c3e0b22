package enqueue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// orderedBy signs what the ratchet orders by itself.
const orderedBy = "enqueue"

// ratchet returns the run in the mode that the policy's approval allows. A version
// that may delete more than the approved one only reports, and the run says by what
// it goes further (HP-08, T4). A version that deletes no more takes the approval
// over: what it gave up needs a person again.
//
// Nothing is guessed. When the approval can not be read, no run opens, and the tick
// comes again.
func (e *Enqueuer) ratchet(ctx context.Context, p policy.Policy, planned job.Run) (job.Run, error) {
	if planned.Mode != job.Enforce {
		return planned, nil
	}
	approval, err := e.Approvals.Approval(ctx, p.Name)
	if err != nil || approval.Names(p) {
		return planned, err
	}
	beyond, err := e.beyond(ctx, approval, p)
	switch {
	case err != nil:
		return planned, err
	case len(beyond) == 0:
		return planned, e.takeOver(ctx, approval, p)
	}
	planned.Mode, planned.Ratchet = job.ReportOnly, beyond
	return planned, nil
}

// beyond says in sentences by what the version goes further than the approval.
func (e *Enqueuer) beyond(ctx context.Context, approval policy.Approval, p policy.Policy) ([]string, error) {
	if approval == (policy.Approval{}) {
		return []string{"No version of " + p.Name + " was ever approved to delete.", remedy(p)}, nil
	}
	approved, err := e.Policies.Policy(ctx, p.Name, approval.Version)
	unknown := failure.Is(err, failure.UnknownPolicy)
	if err != nil && !unknown {
		return nil, err
	}
	if unknown || !approval.Names(approved) {
		return []string{"The approval names version " + strconv.Itoa(approval.Version) + " of " + p.Name +
			", which is not on record as it was approved.", remedy(p)}, nil
	}
	return policy.Widens(approved, p), nil
}

// remedy says what lets a version delete where there is no other to compare it with.
func remedy(p policy.Policy) string {
	dates := "1 date"
	if n := p.ReportOnlyDatesNeeded(); n > 1 {
		dates = strconv.Itoa(n) + " dates"
	}
	return fmt.Sprintf("Once it has only reported on %s, expunge approve %s@%d --run <id> lets this version delete.", dates, p.Name, p.Version)
}

// takeOver moves the approval to a version that deletes no more than the one it
// names. The order is on record before it has an effect (E7).
func (e *Enqueuer) takeOver(ctx context.Context, from policy.Approval, p policy.Policy) error {
	next := policy.Approval{
		Policy: p.Name, Rev: from.Rev + 1, Version: p.Version, SHA256: p.SHA256(),
		By: orderedBy, Reason: "deletes no more than version " + strconv.Itoa(from.Version), At: e.Clock.Now().UTC(),
	}
	order := audit.Entry{
		At: next.At, Act: audit.VersionApproved, Region: e.Region, By: next.By, Reason: next.Reason, Policy: p.Name, Version: p.Version,
	}
	if err := e.Approvals.PutEntry(ctx, order); err != nil {
		return err
	}
	e.emit(order.Event())
	err := e.Approvals.Approve(ctx, next)
	if err == nil {
		return nil
	}
	// Another enqueue was first, or the answer was lost: what stands there counts.
	if stored, rerr := e.Approvals.Approval(ctx, p.Name); rerr == nil && stored.Names(p) {
		return nil
	}
	return err
}
