package region

import (
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/policy"
)

// actions is what a role may do, and resources what with.
type (
	actions   = []string
	resources = []string
)

// What the ledger's client calls. Every write is a conditional put, alone or in a
// transaction; nothing is ever updated in place or deleted.
var (
	ledgerRows  = actions{"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"}
	ledgerCheck = actions{"dynamodb:ConditionCheckItem"} // of a tenant's hold epoch, with the intent
)

// What Lambda's poller does to a worker's queue with the worker's role:
// https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
var polling = actions{"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}

// waiting lets a worker say for how long a message stays hidden.
var waiting = actions{"sqs:ChangeMessageVisibility"}

// grant gives every function's role what its code calls and no more. This is the page
// that says who may do what; testdata/grants.golden is the same as the template has it.
// Besides these, each role may write its own log group and its traces.
func (p *parts) grant() {
	ledger := *p.Ledger.TableArn()
	index := ledger + "/index/" + contract.LedgerIndex
	pages, report, letters := *p.Pages.QueueArn(), *p.Report.QueueArn(), *p.Letters.QueueArn()
	documents := resources{p.evidence(contract.EvidencePlans), p.evidence(contract.EvidenceReceipts)}

	p.allow(p.Enqueue, ledgerRows, ledger)
	p.allow(p.Enqueue, actions{"sqs:SendMessage"}, pages, report)
	p.allowList(p.Enqueue, p.Policies)
	p.allowBuckets(p.Enqueue, p.Policies, "s3:GetBucketRequestPayment") // only to say why a listing was refused

	p.allow(p.Worker, slices.Concat(ledgerRows, ledgerCheck), ledger)
	p.allow(p.Worker, slices.Concat(polling, waiting), pages)
	p.allow(p.Worker, actions{"sqs:SendMessage"}, letters)
	p.allow(p.Worker, actions{"s3:GetObject", "s3:PutObject"}, documents...)
	p.allowAbsent(p.Worker)
	p.allowLook(p.Worker, p.Policies)
	p.allowDelete(p.Worker, p.enforcing())

	// The twin has no action that deletes, and reads no artifact: its role is what
	// makes report-only true (R137).
	p.allow(p.ReportWorker, ledgerRows, ledger)
	p.allow(p.ReportWorker, slices.Concat(polling, waiting), report)
	p.allow(p.ReportWorker, actions{"sqs:SendMessage"}, letters)
	p.allow(p.ReportWorker, actions{"s3:GetObject", "s3:PutObject"}, documents...)
	p.allowList(p.ReportWorker, p.Policies)

	p.allow(p.Reconcile, ledgerRows, ledger)
	p.allow(p.Reconcile, actions{"dynamodb:Query"}, index)
	p.allow(p.Reconcile, actions{"sqs:SendMessage"}, pages, report, letters)
	p.allow(p.Reconcile, actions{"s3:GetObject", "s3:PutObject"}, p.evidence(contract.EvidenceManifests))
	p.allow(p.Reconcile, actions{"lambda:InvokeFunction"}, *p.Enqueue.FunctionArn(), *p.Redrive.FunctionArn())

	p.allow(p.Redrive, ledgerRows, ledger)
	p.allow(p.Redrive, actions{"dynamodb:Query"}, index)
	p.allow(p.Redrive, actions{"sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"}, letters)
	p.allow(p.Redrive, actions{"sqs:SendMessage"}, pages, report)
	p.allow(p.Redrive, actions{"s3:GetObject"}, p.evidence(contract.EvidenceReceipts))
	p.allow(p.Redrive, actions{"s3:GetObject", "s3:PutObject"}, p.evidence(contract.EvidenceDrills))
	p.allowAbsent(p.Redrive)

	p.allow(p.Hold, ledgerRows, ledger)
	p.allow(p.Hold, actions{"s3:GetObject"}, documents...)
	p.allowAbsent(p.Hold)
	p.allowList(p.Hold, p.Policies)

	for _, of := range []awslambda.Function{p.Enqueue, p.Reconcile, p.Redrive} {
		p.allow(of, actions{"sqs:SendMessage"}, *p.ScheduleLetters.QueueArn()) // what failed for good: see keepFailures
	}
}

// allow adds a statement to a function's role.
func (p *parts) allow(f awslambda.Function, may actions, with ...string) {
	p.allowIf(f, nil, may, with...)
}

func (p *parts) allowIf(f awslambda.Function, conditions *map[string]any, may actions, with ...string) {
	f.AddToRolePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions: list(may...), Resources: list(with...), Conditions: conditions,
	}))
}

// allowList lets a function list what is under a policy's prefix, and nothing else of
// the bucket.
func (p *parts) allowList(f awslambda.Function, of []policy.Policy) {
	for _, each := range of {
		may := actions{"s3:ListBucket"}
		if each.Versions == policy.AllVersions {
			may = actions{"s3:ListBucketVersions"}
		}
		p.allowIf(f, below(each), may, p.bucket(each))
	}
}

// allowBuckets allows actions on the policies' buckets themselves.
func (p *parts) allowBuckets(f awslambda.Function, of []policy.Policy, may ...string) {
	for _, each := range of {
		p.allow(f, may, p.bucket(each))
	}
}

// allowLook lets the worker see what a policy's artifacts are and what became of them. A
// policy that only reports by now may have pages from when it deleted: their open intents
// are looked at before an operator's discard ends them.
func (p *parts) allowLook(f awslambda.Function, of []policy.Policy) {
	p.allowList(f, of)
	for _, each := range of {
		if each.Versions == policy.AllVersions {
			continue
		}
		p.allow(f, actions{"s3:GetBucketVersioning"}, p.bucket(each))
		p.allowIf(f, below(each), actions{"s3:ListBucketVersions"}, p.bucket(each))
	}
}

// allowDelete lets the worker delete a policy's keys: of every tenant's folder only what
// is below the rest of the template. A delete on condition of an ETag needs s3:GetObject
// too; one of an exact version has a permission of its own, which a policy on current
// versions needs to take back a delete marker that covers another version than the
// planned one:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html
func (p *parts) allowDelete(f awslambda.Function, of []policy.Policy) {
	for _, each := range of {
		may := actions{"s3:DeleteObjectVersion"}
		if each.Versions != policy.AllVersions {
			may = append(may, "s3:DeleteObject", "s3:GetObject")
		}
		p.allow(f, may, p.bucket(each)+"/"+strings.Replace(each.Keys, "{tenant}", "*", 1)+"*")
	}
}

// allowAbsent lets a function be told that a document is absent: S3 says "forbidden" of
// it to whoever may not list the bucket. The names there are ids and hashes.
func (p *parts) allowAbsent(f awslambda.Function) {
	p.allow(f, actions{"s3:ListBucket"}, *p.Evidence.BucketArn())
}

// below restricts a listing to a policy's prefix.
func below(of policy.Policy) *map[string]any {
	return &map[string]any{"StringLike": map[string]any{"s3:prefix": of.Prefix() + "*"}}
}

// bucket is the ARN of a policy's bucket.
func (p *parts) bucket(of policy.Policy) string {
	return *p.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("s3"), Region: jsii.String(""), Account: jsii.String(""), Resource: jsii.String(of.Bucket), ArnFormat: awscdk.ArnFormat_NO_RESOURCE_NAME,
	})
}

// evidence is the ARN of everything in a folder of the evidence.
func (p *parts) evidence(folder string) string {
	return *p.Evidence.ArnForObjects(jsii.String(folder + "*"))
}
