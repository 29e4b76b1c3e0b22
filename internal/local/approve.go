package local

import (
	"cmp"
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// approver keeps policy versions and approvals.
type approver interface {
	PublishPolicy(ctx context.Context, p policy.Policy) error
	Approve(ctx context.Context, next policy.Approval) error
}

// approve lets the policies that enforce delete from the start: a ledger that was
// made a moment ago knows of nobody who has looked at their reports. "" stands for
// the local environment's own reason.
func approve(ctx context.Context, ledger approver, policies []policy.Policy, now time.Time, reason string) error {
	for _, p := range policies {
		if p.Mode != job.Enforce {
			continue
		}
		// An approval of a version that is not on record counts for nothing.
		if err := ledger.PublishPolicy(ctx, p); err != nil {
			return err
		}
		err := ledger.Approve(ctx, policy.Approval{
			Policy: p.Name, Rev: 1, Version: p.Version, SHA256: p.SHA256(), By: "local",
			Reason: cmp.Or(reason, "a local region starts with its policies approved"), At: now.UTC(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
