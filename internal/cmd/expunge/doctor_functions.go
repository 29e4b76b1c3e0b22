package main

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// noticedSkew is how far apart two clocks may be before it is worth a word: an answer
// may have been under way for a second or two.
const noticedSkew = 5 * time.Second

// lookAtClock compares this machine's clock with the service's: signatures, leases and
// gates go by it. Any answer has the time, a refusal too.
func lookAtClock(ctx context.Context, a *area) {
	ctx, done := a.r.config.Limit(ctx)
	defer done()
	out, err := sts.NewFromConfig(a.r.config.Config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	var there time.Time
	if err == nil {
		there, _ = awsmiddleware.GetServerTime(out.ResultMetadata)
	} else if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		there, _ = http.ParseTime(response.Response.Header.Get("Date"))
	}
	if there.IsZero() {
		a.failed("this machine's clock", err)
		return
	}
	apart := a.now.Sub(there)
	text := "it is " + span(apart.Abs()) + map[bool]string{true: " ahead of", false: " behind"}[apart > 0] + " the service's"
	switch {
	case apart.Abs() < noticedSkew:
		a.ok("this machine's clock", "it agrees with the service's")
	case apart.Abs() >= a.r.settings.ClockSkew:
		a.problem("this machine's clock", text+": AWS refuses what is signed so", "set the clock, and keep it by NTP")
	default:
		a.warning("this machine's clock", text, "set the clock, and keep it by NTP")
	}
}

// lookAtStack says what CloudFormation says of the stack.
func lookAtStack(ctx context.Context, a *area) {
	ctx, done := a.r.config.Limit(ctx)
	defer done()
	name := contract.StackName(a.r.outputs.Stage)
	out, err := cloudformation.NewFromConfig(a.r.config.Config).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if sdk.Code(err) == "ValidationError" && a.r.local {
		a.note(healthSkipped, name, "a local deployment needs no stack", "")
		return
	}
	if err != nil || len(out.Stacks) != 1 {
		a.failed(name, err)
		return
	}
	switch status := string(out.Stacks[0].StackStatus); {
	case status == "CREATE_COMPLETE" || status == "UPDATE_COMPLETE":
		a.ok(name, status)
	case strings.HasSuffix(status, "_IN_PROGRESS"):
		a.warning(name, status+": it is being changed, so what is said below may be of either side", "ask again when it is complete")
	case status == "UPDATE_ROLLBACK_COMPLETE":
		a.warning(name, status+": the last deployment failed and was taken back", "look at the stack's events for the reason, and deploy again")
	default:
		a.problem(name, status, "look at the stack's events for the reason, and deploy again")
	}
	values := map[string]string{}
	for _, o := range out.Stacks[0].Outputs {
		values[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	if now, missing := contract.ParseOutputs(values); len(missing) > 0 || now != a.r.outputs {
		a.problem(name, "its outputs are not those that this tool works by", "ask again; a deployment may have ended meanwhile")
	}
}

// deployedFunction is a function as the stack declares it.
type deployedFunction struct {
	name string
	mode string // of a worker, else ""
}

func (r *deployment) functions() []deployedFunction {
	o := r.outputs
	return []deployedFunction{
		{o.Enqueue, ""}, {o.Worker, "enforce"}, {o.ReportWorker, "report-only"}, {o.Redrive, ""}, {o.Reconcile, ""}, {o.Hold, ""},
	}
}

// configuration returns what Lambda knows of a function.
func (r *deployment) configuration(ctx context.Context, name string) (*lambda.GetFunctionConfigurationOutput, error) {
	ctx, done := r.config.Limit(ctx)
	defer done()
	return lambda.NewFromConfig(r.config.Config).GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
}

func lookAtFunctions(ctx context.Context, a *area) {
	for _, f := range a.r.functions() {
		c, err := a.r.configuration(ctx, f.name)
		switch {
		case sdk.Code(err) == "ResourceNotFoundException":
			a.problem(f.name, "there is no such function", redeploy)
		case err != nil:
			a.failed(f.name, err)
		default:
			a.function(f, c)
		}
	}
}

// function compares a function with what the deployment says of it.
func (a *area) function(f deployedFunction, c *lambda.GetFunctionConfigurationOutput) {
	before := len(a.lines)
	if c.State != lambdatypes.StateActive {
		a.problem(f.name, "it is "+string(c.State)+": "+aws.ToString(c.StateReason), "wait if it is Pending; Inactive ends with the next invocation; else "+redeploy)
	}
	if c.LastUpdateStatus != lambdatypes.LastUpdateStatusSuccessful {
		a.problem(f.name, "its last update is "+string(c.LastUpdateStatus)+": "+aws.ToString(c.LastUpdateStatusReason), redeploy)
	}
	if timeout := time.Duration(aws.ToInt32(c.Timeout)) * time.Second; f.mode != "" && timeout != wholeSeconds(a.r.settings.FunctionTimeout) {
		a.problem(f.name, "its timeout is "+span(timeout)+" and leases are made for "+span(a.r.settings.FunctionTimeout), redeploy)
	}
	a.environment(f, c)
	if len(a.lines) == before {
		a.ok(f.name, "active, "+span(time.Duration(aws.ToInt32(c.Timeout))*time.Second)+", code "+a.r.outputs.CodeVersion)
	}
}

// wholeSeconds is what Lambda makes of a timeout.
func wholeSeconds(d time.Duration) time.Duration {
	return time.Duration(math.Ceil(d.Seconds())) * time.Second
}

// environment compares the function's names with the stack's outputs. A function that
// works on another table or queue than its neighbours breaks every promise there is.
func (a *area) environment(f deployedFunction, c *lambda.GetFunctionConfigurationOutput) {
	if c.Environment == nil || c.Environment.Error != nil {
		a.note(healthSkipped, f.name, "your credentials may not see its environment, so its code version and names are not compared", "")
		return
	}
	o := a.r.outputs
	want := contract.Environment{
		Table: o.Table, PagesQueue: o.PagesQueue, ReportQueue: o.ReportQueue, LettersQueue: o.LettersQueue, EvidenceBucket: o.Evidence,
		Mode: f.mode, EnqueueName: o.Enqueue, RedriveName: o.Redrive, CodeVersion: o.CodeVersion, Concurrency: o.Concurrency, Stage: o.Stage, Scale: o.Scale,
	}.Render()
	var others []string
	for name, value := range c.Environment.Variables {
		if wanted, known := want[name]; known && value != wanted {
			others = append(others, name+" is "+value+" and not "+wanted)
		}
	}
	for _, name := range []string{"EXPUNGE_LEDGER_TABLE", "EXPUNGE_CODE_VERSION"} { // no function does without
		if c.Environment.Variables[name] == "" {
			others = append(others, name+" is not set")
		}
	}
	slices.Sort(others)
	if len(others) > 0 {
		a.problem(f.name, strings.Join(others, "; "), redeploy)
	}
}

// lookAtMappings looks at who reads the queues.
func lookAtMappings(ctx context.Context, a *area) {
	for _, q := range []struct{ what, url, worker string }{
		{"pages", a.r.outputs.PagesQueue, a.r.outputs.Worker}, {"report pages", a.r.outputs.ReportQueue, a.r.outputs.ReportWorker},
		{"dead letters", a.r.outputs.LettersQueue, ""},
	} {
		arn, err := a.r.queueARN(ctx, q.url)
		var mappings []lambdatypes.EventSourceMappingConfiguration
		if err == nil {
			mappings, err = a.r.mappings(ctx, arn)
		}
		if err != nil {
			a.failed(q.what, err)
			continue
		}
		a.mapping(q.what, q.worker, mappings)
	}
}

func (r *deployment) mappings(ctx context.Context, arn string) ([]lambdatypes.EventSourceMappingConfiguration, error) {
	ctx, done := r.config.Limit(ctx)
	defer done()
	out, err := lambda.NewFromConfig(r.config.Config).ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{EventSourceArn: &arn})
	if err != nil {
		return nil, err
	}
	return out.EventSourceMappings, nil
}

// mapping looks at what reads one queue; worker is "" for a queue that nothing reads.
func (a *area) mapping(what, worker string, mappings []lambdatypes.EventSourceMappingConfiguration) {
	switch {
	case worker == "" && len(mappings) == 0:
		a.ok(what, "no function reads them by itself")
		return
	case worker == "":
		a.problem(what, "a function is mapped to the dead letters and takes them away", "delete the mapping "+aws.ToString(mappings[0].UUID))
		return
	case len(mappings) != 1:
		a.problem(what, strconv.Itoa(len(mappings))+" mappings read the queue, and one should", redeploy)
		return
	}
	m, before := mappings[0], len(a.lines)
	if function := aws.ToString(m.FunctionArn); !strings.Contains(function+":", ":function:"+worker+":") {
		a.problem(what, "the queue is read by "+function+" and not by "+worker, redeploy)
	}
	if state := aws.ToString(m.State); state != "Enabled" {
		a.problem(what, "the mapping is "+state+": nothing reads the queue", "enable the mapping "+aws.ToString(m.UUID)+"; a brake stops the work and leaves it enabled")
	}
	if !slices.Contains(m.FunctionResponseTypes, lambdatypes.FunctionResponseTypeReportBatchItemFailures) {
		a.problem(what, "the mapping does not ask for ReportBatchItemFailures: what the worker gives back counts as done", redeploy)
	}
	most := 0
	if m.ScalingConfig != nil {
		most = int(aws.ToInt32(m.ScalingConfig.MaximumConcurrency))
	}
	if most < 2 {
		a.problem(what, "the mapping has no maximum concurrency: nothing bounds how many workers delete at once", redeploy)
	}
	if len(a.lines) == before {
		a.ok(what, worker+" reads them, at most "+strconv.Itoa(most)+" at once, and its answer counts")
	}
}
