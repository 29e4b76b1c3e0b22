package enqueue

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/job"
)

// Resumption is the third input, which reconcile sends: go on with a scan.
type Resumption struct {
	RunID job.RunID `json:"resume"`
}

// Handle takes an invocation's payload: a tick, a request, or a resumption.
func (e *Enqueuer) Handle(ctx context.Context, deadline time.Time, payload []byte) (Receipt, error) {
	var again Resumption
	if json.Unmarshal(payload, &again, json.RejectUnknownMembers(true)) == nil && again.RunID != "" {
		return e.Resume(ctx, deadline, again.RunID)
	}
	in, err := Decode(payload)
	if err != nil {
		return Receipt{}, err
	}
	return e.Start(ctx, deadline, in)
}
