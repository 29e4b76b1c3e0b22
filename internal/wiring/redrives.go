package wiring

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// Redrives asks the redrive function to go on with a plan that was applied.
// Reconcile may take no dead letter away itself.
type Redrives struct {
	client *lambda.Client
	limits sdk.Settings
	name   string
}

// NewRedrives returns the redrives of the redrive function with the name.
func NewRedrives(c sdk.Config, name string) *Redrives {
	return &Redrives{client: lambda.NewFromConfig(c.Config), limits: c.Settings, name: name}
}

// Resume hands the plan over and does not wait for it.
func (r *Redrives) Resume(ctx context.Context, _ time.Time, id job.RedriveID) error {
	payload, err := json.Marshal(redrive.ResumeRequest{Op: redrive.OpResume, ID: id})
	if err != nil {
		return failure.Wrap(failure.Bug, "resume redrive", err)
	}
	ctx, done := r.limits.Limit(ctx)
	defer done()
	_, err = r.client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &r.name, InvocationType: types.InvocationTypeEvent, Payload: payload})
	if err != nil {
		return failure.New(failure.Network, "resume redrive "+string(id), "the redrive function could not be asked")
	}
	return nil
}
