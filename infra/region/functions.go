package region

import (
	"strconv"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/expunge-aws/expunge/internal/contract"
)

// The memory of the functions, in MB. A page of 1,000 items takes some 30; what is
// bought with the rest is the share of a processor, for TLS and compression.
const (
	memory       = 256
	memoryWorker = 512
)

// newFunctions declares the functions. The twin of the worker is the same package
// behind its own queue and its own role.
func (p *parts) newFunctions() (f functions, err error) {
	env := contract.Environment{
		Table: *p.Ledger.TableName(), PagesQueue: *p.Pages.QueueUrl(), ReportQueue: *p.Report.QueueUrl(), LettersQueue: *p.Letters.QueueUrl(),
		EvidenceBucket: *p.Evidence.BucketName(), CodeVersion: p.CodeVersion, Stage: p.Config.Stage, Concurrency: strconv.Itoa(p.Settings.Concurrency), Scale: p.scale(),
	}
	declare := func(into *awslambda.Function, id, from string, timeout time.Duration, size float64, env contract.Environment) {
		if err == nil {
			*into, err = p.newFunction(id, from, timeout, size, env)
		}
	}
	planning, enforcing, reporting := env, env, env
	planning.Policies = policyFolder
	enforcing.Mode, reporting.Mode = enforce, reportOnly
	declare(&f.Enqueue, "Enqueue", packageEnqueue, p.Settings.ScanTimeout, memory, planning)
	declare(&f.Worker, "Worker", packageWorker, p.Settings.FunctionTimeout, memoryWorker, enforcing)
	declare(&f.ReportWorker, "ReportWorker", packageWorker, p.Settings.FunctionTimeout, memoryWorker, reporting)
	declare(&f.Redrive, "Redrive", packageRedrive, p.Settings.FunctionTimeout, memory, env)
	declare(&f.Hold, "Hold", packageHold, p.Settings.FunctionTimeout, memory, env)
	if err != nil {
		return f, err
	}
	planning.EnqueueName, planning.RedriveName = *f.Enqueue.FunctionName(), *f.Redrive.FunctionName()
	declare(&f.Reconcile, "Reconcile", packageReconcile, p.Settings.ReconcileTimeout, memory, planning)
	if err == nil {
		f.order()
	}
	return f, err
}

// order has a release reach those who read before those who write, so that no old
// worker is handed a message or a policy of the new one. Reconcile names enqueue and
// redrive, and so comes after both.
func (f functions) order() {
	f.Redrive.Node().AddDependency(f.Worker, f.ReportWorker)
	f.Enqueue.Node().AddDependency(f.Worker, f.ReportWorker, f.Redrive, f.Hold)
}

// newFunction declares a function with a role and a log group of its own.
func (p *parts) newFunction(id, from string, timeout time.Duration, size float64, env contract.Environment) (awslambda.Function, error) {
	folder, err := p.asset(from)
	if err != nil {
		return nil, err
	}
	logs := awslogs.NewLogGroup(p.Stack, jsii.String(id+"Logs"), &awslogs.LogGroupProps{
		Retention: logDays[p.LogDays], RemovalPolicy: awscdk.RemovalPolicy_RETAIN, EncryptionKey: p.Key,
	})
	role := awsiam.NewRole(p.Stack, jsii.String(id+"Role"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
	})
	logs.GrantWrite(role)
	variables := map[string]*string{}
	for name, value := range env.Render() {
		variables[name] = &value
	}
	props := &awslambda.FunctionProps{
		Code: awslambda.Code_FromAsset(&folder, nil), Handler: jsii.String(bootstrap), Runtime: awslambda.Runtime_PROVIDED_AL2023(),
		Architecture: awslambda.Architecture_ARM_64(), Timeout: duration(timeout), MemorySize: &size, Environment: &variables,
		Role: role, LogGroup: logs, LoggingFormat: awslambda.LoggingFormat_JSON,
		// Metrics are lines of the log without a level, which count as INFO: above it they would be lost.
		ApplicationLogLevelV2: awslambda.ApplicationLogLevel_INFO, SystemLogLevelV2: awslambda.SystemLogLevel_WARN,
		Tracing: awslambda.Tracing_ACTIVE,
		// No function sends to the queue that starts it, so a loop is a mistake (SQ-12).
		RecursiveLoop: awslambda.RecursiveLoop_TERMINATE,
	}
	if p.Architecture == X86_64 {
		props.Architecture = awslambda.Architecture_X86_64()
	}
	if p.CodeSigning != "" {
		props.CodeSigningConfig = awslambda.CodeSigningConfig_FromCodeSigningConfigArn(p.Stack, jsii.String(id+"Signing"), &p.CodeSigning)
	}
	if p.Key != nil {
		props.EnvironmentEncryption = p.Key
	}
	return awslambda.NewFunction(p.Stack, &id, props), nil
}

// keepFailures sends to the schedules' dead letters what an asynchronous call could not
// do after its retries: the scheduler counts a tick as delivered once Lambda has it. A
// call waits no longer than the next one, or reconcile, would take to do the same.
func (p *parts) keepFailures() {
	for _, f := range []struct {
		id     string
		of     awslambda.Function
		oldest time.Duration
	}{
		{"Enqueue", p.Enqueue, p.Settings.MissedAfter},
		{"Reconcile", p.Reconcile, p.Settings.ReconcileEvery},
		{"Redrive", p.Redrive, p.Settings.MissedAfter},
	} {
		awslambda.NewCfnEventInvokeConfig(p.Stack, jsii.String(f.id+"OnFailure"), &awslambda.CfnEventInvokeConfigProps{
			FunctionName: f.of.FunctionName(), Qualifier: jsii.String("$LATEST"),
			MaximumRetryAttempts: jsii.Number(2), MaximumEventAgeInSeconds: jsii.Number(max(f.oldest, time.Minute).Seconds()), // Lambda's shortest
			DestinationConfig: &awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
				OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: p.ScheduleLetters.QueueArn()},
			},
		})
	}
}
