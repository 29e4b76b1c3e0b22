package wiring

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// Scans asks the enqueue function to begin a run or to go on with its scan.
// Reconcile can read no bucket itself.
type Scans struct {
	client *lambda.Client
	limits sdk.Settings
	name   string
}

// NewScans returns the scans of the enqueue function with the name.
func NewScans(c sdk.Config, name string) *Scans {
	return &Scans{client: lambda.NewFromConfig(c.Config), limits: c.Settings, name: name}
}

// Resume hands the scan over and does not wait for it.
func (s *Scans) Resume(ctx context.Context, _ time.Time, id job.RunID) error {
	return s.ask(ctx, "resume scan of run "+string(id), enqueue.Resumption{RunID: id})
}

// Start asks for the run of a scheduled instant, as the schedule's tick would have,
// and does not wait for it.
func (s *Scans) Start(ctx context.Context, _ time.Time, policy string, scheduled time.Time) error {
	return s.ask(ctx, "start run of "+policy, enqueue.Input{Policy: policy, Scheduled: scheduled.UTC().Format(time.RFC3339Nano)})
}

func (s *Scans) ask(ctx context.Context, op string, input any) error {
	payload, err := json.Marshal(input)
	if err != nil {
		return failure.Wrap(failure.Bug, op, err)
	}
	ctx, done := s.limits.Limit(ctx)
	defer done()
	_, err = s.client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &s.name, InvocationType: types.InvocationTypeEvent, Payload: payload})
	if err != nil {
		return failure.New(failure.Network, op, "the enqueue function could not be asked")
	}
	return nil
}
