package enqueue

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// ready looks whether the policy's bucket can be listed, before there is a run. A run
// that opens on a bucket that is gone, elsewhere or closed to us would stay open until
// somebody asks why; a tick that fails says so at once, and nothing is opened. Without
// the time for a look there is none: the run that opens is scanned later (GO-04).
func (e *Enqueuer) ready(ctx context.Context, deadline time.Time, p policy.Policy, planned job.Run) error {
	if e.late(deadline) {
		return nil
	}
	err := e.Lister.Ready(ctx, job.Query{Bucket: p.Bucket, Prefix: p.Prefix(), Versions: p.Versions == policy.AllVersions}, p.Region)
	if err != nil {
		e.emit(audit.Event{Event: audit.BucketRefused, FailureClass: failure.Of(err), Operation: failure.Op(err)}.About(planned, job.Page{}))
	}
	return err
}
