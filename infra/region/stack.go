// Package region declares one region's whole deployment of Expunge.
//
// New is a list of calls, each of which declares one thing and returns what the next
// ones need of it. Numbers come from contract, names and thresholds from the policies:
// nothing here is a second copy of what a function or a policy file says. What is kept
// for ever - ledger, evidence, logs - stands on the stack itself and not in constructs
// of its own, because a moved logical id is a new, empty table.
package region

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/expunge-aws/expunge/internal/contract"
)

// queues are the stack's queues.
type queues struct {
	Pages, Report   awssqs.Queue // of pages to enforce, and to report on
	Letters         awssqs.Queue // dead letters of both
	ScheduleLetters awssqs.Queue // ticks that no function took or finished
}

// functions are the stack's functions.
type functions struct {
	Enqueue, Worker, ReportWorker, Reconcile, Redrive, Hold awslambda.Function
}

// topics are where alarms go: to wake somebody, or to wait for the morning.
type topics struct {
	Page, Ticket awssns.Topic
}

// parts are what a region is made of.
type parts struct {
	awscdk.Stack
	Config
	queues
	functions
	topics
	Key       awskms.IKey // nil without a customer key
	Ledger    awsdynamodb.TableV2
	Evidence  awss3.Bucket
	Schedules awsscheduler.ScheduleGroup
}

// New declares the stack of a valid configuration. The error is about the packages of
// the functions: one is missing, or no machine of the architecture could start it.
func New(scope constructs.Construct, c Config) (awscdk.Stack, error) {
	if c.CodeVersion == "" {
		digest, err := c.digest()
		if err != nil {
			return nil, err
		}
		c.CodeVersion = digest
	}
	p := &parts{Config: c}
	p.Stack = awscdk.NewStack(scope, jsii.String("Expunge-"+c.Region), &awscdk.StackProps{
		StackName:             jsii.String(contract.StackName(c.Stage)),
		Env:                   &awscdk.Environment{Region: &c.Region}, // the account is whoever deploys
		Description:           jsii.String("Expunge " + c.Stage + ": deletes expired artifacts and proves what it did"),
		TerminationProtection: &c.TerminationProtection,
	})
	awscdk.Tags_Of(p.Stack).Add(jsii.String("application"), jsii.String("expunge"), nil)
	awscdk.Tags_Of(p.Stack).Add(jsii.String("stage"), &c.Stage, nil)
	p.bound()

	p.Key = p.newKey()
	p.topics = p.newTopics()
	p.Ledger = p.newLedger()
	p.Evidence = p.newEvidence()
	p.queues = p.newQueues()
	functions, err := p.newFunctions()
	if err != nil {
		return nil, err
	}
	p.functions = functions
	p.grant()
	p.keepFailures()
	p.refuseSenders()
	p.attach()
	p.Schedules = p.newSchedules()
	p.newPeople()
	p.newDashboard(p.newAlarms())
	p.output()
	return p.Stack, nil
}

// bound holds every role of the stack to the permissions boundary.
func (p *parts) bound() {
	boundary := p.PermissionsBoundary
	switch {
	case boundary == "":
		return
	case strings.HasPrefix(boundary, "arn:"):
		awsiam.PermissionsBoundary_Of(p.Stack).Apply(awsiam.ManagedPolicy_FromManagedPolicyArn(p.Stack, jsii.String("Boundary"), &boundary))
	default:
		awsiam.PermissionsBoundary_Of(p.Stack).Apply(awsiam.ManagedPolicy_FromManagedPolicyName(p.Stack, jsii.String("Boundary"), &boundary))
	}
}

// output tells the operator's tool where everything is.
func (p *parts) output() {
	o := contract.Outputs{
		Region: p.Config.Region, Stage: p.Stage, Table: *p.Ledger.TableName(), Evidence: *p.Evidence.BucketName(),
		PagesQueue: *p.Pages.QueueUrl(), ReportQueue: *p.Report.QueueUrl(), LettersQueue: *p.Letters.QueueUrl(),
		Enqueue: *p.Enqueue.FunctionName(), Worker: *p.Worker.FunctionName(), ReportWorker: *p.ReportWorker.FunctionName(),
		Redrive: *p.Redrive.FunctionName(), Reconcile: *p.Reconcile.FunctionName(), Hold: *p.Hold.FunctionName(),
		Schedules: *p.Schedules.ScheduleGroupName(), PageTopic: *p.Page.TopicArn(), TicketTopic: *p.Ticket.TopicArn(),
		CodeVersion: p.CodeVersion, Concurrency: strconv.Itoa(p.Settings.Concurrency), Scale: p.scale(),
	}
	values := o.Render()
	for _, name := range slices.Sorted(maps.Keys(values)) { // a template has one order
		awscdk.NewCfnOutput(p.Stack, jsii.String("Output"+name), &awscdk.CfnOutputProps{Value: jsii.String(values[name])}).
			OverrideLogicalId(jsii.String(name))
	}
}

// scale is the environment's form of the scale.
func (p *parts) scale() string {
	if p.Scale == 1 {
		return ""
	}
	return strconv.Itoa(p.Scale)
}

// duration is a CDK duration. AWS counts whole seconds; a part of one is rounded up.
func duration(d time.Duration) awscdk.Duration {
	return awscdk.Duration_Seconds(jsii.Number(float64((d + time.Second - 1) / time.Second)))
}

// list is a list as the CDK takes it.
func list(items ...string) *[]*string { return jsii.Strings(items...) }
