package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/report"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// deployment is a deployment of Expunge as an operator sees it: he reads its ledger,
// its evidence and its dead letters, and asks its functions.
type deployment struct {
	outputs  contract.Outputs
	settings contract.Settings
	local    bool
	endpoint string // of a local deployment
	config   sdk.Config

	records  records
	evidence documents
	letters  queue.Inspector
	store    artifacts

	lambda *lambda.Client
	by     string // who asks, once it is known
}

// documents reads evidence.
type documents interface {
	Get(ctx context.Context, name string) ([]byte, error)
	List(ctx context.Context, prefix, after string, limit int) ([]string, error)
}

// artifacts looks at the objects themselves and changes none.
type artifacts interface {
	List(ctx context.Context, q job.Query) (job.Listing, error)
	Look(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error)
}

// answerTime is how long a function's answer may take: its own timeout, and time for
// a cold start and the way.
const answerTime = 30 * time.Second

func newDeployment(f found) (*deployment, error) {
	settings, err := contract.Environment{Scale: f.outputs.Scale, Concurrency: f.outputs.Concurrency}.Settings()
	if err != nil {
		return nil, wrong("the deployment has numbers that this tool does not know: " + err.Error())
	}
	c := sdk.Defaults().Configure(f.base)
	// A function is asked once: it may have carried out an order whose answer is lost,
	// and whether to say it again is the operator's to decide.
	patient := sdk.Defaults()
	patient.Call = contract.Production().FunctionTimeout + answerTime
	patient.Header, patient.Attempts = patient.Call, 1
	q := queue.NewSQS(c, queue.URLs{Enforce: f.outputs.PagesQueue, ReportOnly: f.outputs.ReportQueue, Letters: f.outputs.LettersQueue})
	return &deployment{
		outputs: f.outputs, settings: settings, local: f.local, endpoint: aws.ToString(f.base.BaseEndpoint), config: c,
		records: read(ledger.NewTable(c, f.outputs.Table)), evidence: evidence.NewS3(c, f.outputs.Evidence), letters: q,
		store:  artifact.NewS3(c, artifact.S3Options{}),
		lambda: lambda.NewFromConfig(patient.Configure(f.base).Config),
	}, nil
}

// title names the deployment above every answer.
func (r *deployment) title() string {
	name := report.Clean(contract.StackName(r.outputs.Stage) + " in " + r.outputs.Region)
	if r.local {
		name += ", local, " + report.Clean(r.endpoint)
	}
	return name
}

// signer returns who asks, as AWS knows him.
func (r *deployment) signer(ctx context.Context) (string, error) {
	if r.by != "" {
		return r.by, nil
	}
	ctx, done := r.config.Limit(ctx)
	defer done()
	const op = "ask AWS who you are"
	out, err := sts.NewFromConfig(r.config.Config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", classify(op, err)
	}
	if r.by = aws.ToString(out.Arn); r.by == "" {
		return "", failure.New(failure.Network, op, "the answer names nobody, and may be none")
	}
	return r.by, nil
}

// ask hands a request to a function and reads its answer.
func (r *deployment) ask(ctx context.Context, function string, request, answer any) error {
	op := "ask function " + function
	payload, err := json.Marshal(request, json.Deterministic(true))
	if err != nil {
		return failure.Wrap(failure.Bug, op, err)
	}
	ctx, done := context.WithTimeout(ctx, contract.Production().FunctionTimeout+answerTime)
	defer done()
	out, err := r.lambda.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: payload})
	if err != nil {
		return classify(op, err)
	}
	if out.FunctionError != nil {
		return refused(op, out.Payload)
	}
	if err := json.Unmarshal(out.Payload, answer); err != nil {
		return failure.New(failure.Network, op, "the answer does not read: the function may be of another version than this tool, "+r.outputs.CodeVersion)
	}
	return nil
}

// refused is the error of a function that answered with one: in its own words, for
// it knows why.
func refused(op string, payload []byte) error {
	var said struct {
		Kind string `json:"errorType"`
		Text string `json:"errorMessage"`
	}
	if json.Unmarshal(payload, &said) != nil || said.Text == "" {
		return failure.New(failure.Network, op, "it failed without saying why")
	}
	// An overrun, or the end of its process: nobody knows how far it came.
	if strings.HasPrefix(said.Kind, "Runtime.") || strings.HasPrefix(said.Kind, "Sandbox.") || strings.Contains(said.Text, "Task timed out") {
		return failure.New(failure.Network, op, "it ended before it had answered: "+said.Text)
	}
	// Our functions' errors are of the form "operation: class: why".
	first := len(said.Text)
	refusal := failure.New(failure.Invalid, op, said.Text)
	for _, class := range failure.Classes() {
		if what, why, ok := strings.Cut(said.Text, ": "+string(class)+": "); ok && len(what) < first {
			first, refusal = len(what), &failure.Error{Class: class, Op: what, Err: errors.New(why)}
		}
	}
	return refusal
}
