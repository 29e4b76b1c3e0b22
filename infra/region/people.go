package region

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/policy"
)

// rules are what a policy allows.
type rules = []awsiam.PolicyStatement

// newPeople declares what people may do who use the operator's tool, as policies for a
// team to attach. None of them writes to what expunge keeps: what changes something is a
// call of a function, which has gates of its own and records who asked and why. One
// thing is left to hands: whoever has read a dead letter of the schedules deletes it,
// because no function reads that queue.
//
// Whoever answers alarms can neither place nor release a hold, and whoever keeps holds
// can not redrive, so that a hold and what it protects never hang on one person. A call
// of the hold function may be any of its orders, so on-call is not even given its list;
// explain names the hold that covers an object. On-call also opens what the runbooks send
// a person to beside the tool: logs, alarms, the dashboard, and those letters.
//
// What nothing here allows, the tool says that it could not do. The doctor opens no
// object, because the same permission would let a person read what is in it, and what
// drill --prepare puts needs a right that the team gives for its test tenant.
func (p *parts) newPeople() {
	p.newPolicy("OnCall", "Expunge: read what expunge shows and the runbooks name, start runs, redrive, empty the dead letters of schedules", roomOnCall,
		slices.Concat(p.explaining(), p.examining(), p.following(), rules{permit(actions{"lambda:InvokeFunction"}, *p.Enqueue.FunctionArn(), *p.Redrive.FunctionArn())}),
		func(share []policy.Policy) rules { return append(p.listing(share), p.settings(share)...) })
	p.newPolicy("Compliance", "Expunge: explain, verify, read orders, place and release holds", roomCompliance,
		append(p.explaining(), permit(actions{"lambda:InvokeFunction"}, *p.Hold.FunctionArn())),
		p.listing)
}

// newPolicy declares a policy of people, and as many more as what it says of the
// artifacts' buckets needs; the output names all of them. They have no names, so that
// stages and regions of an account do not collide.
func (p *parts) newPolicy(id, what string, room int, fixed rules, artifacts func(share []policy.Policy) rules) {
	var arns []string
	for i, share := range shares(p.Policies, room) {
		name, says := id, artifacts(share)
		if i == 0 {
			says = append(says, fixed...)
		} else {
			name += strconv.Itoa(i + 1)
		}
		made := awsiam.NewManagedPolicy(p.Stack, &name, &awsiam.ManagedPolicyProps{Description: &what, Statements: &says})
		arns = append(arns, *made.ManagedPolicyArn())
	}
	awscdk.NewCfnOutput(p.Stack, jsii.String("Output"+id+"Policy"), &awscdk.CfnOutputProps{Value: jsii.String(strings.Join(arns, ","))}).
		OverrideLogicalId(jsii.String(id + "Policy"))
}

// IAM takes 6,144 characters of a managed policy, blanks not counted:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
// The statements that every region has take less than 5,500 of them for OnCall, and less
// than 2,000 for Compliance.
const (
	roomOnCall     = 500   // for artifacts, in the first policy
	roomCompliance = 4_000 // likewise
	roomAlone      = 6_000 // in one that has nothing else
	// perPolicy is what one of our policies takes at most, without its names.
	perPolicy = 200
)

// shares divides our policies by the room that there is in the first policy, and in those
// that have nothing else. The first share may be empty.
func shares(all []policy.Policy, room int) [][]policy.Policy {
	divided := [][]policy.Policy{nil}
	for _, of := range all {
		need := perPolicy + 3*len(of.Bucket) + len(of.Prefix()) // a bucket is named in three statements
		if need > room {
			divided, room = append(divided, nil), roomAlone
		}
		last := len(divided) - 1
		divided[last] = append(divided[last], of)
		room -= need
	}
	return divided
}

// explaining is what finding the deployment, explain, verify and orders read. The
// ledger's index is not among it: only lists of what is open need that.
func (p *parts) explaining() rules {
	return rules{
		permit(actions{"cloudformation:DescribeStacks"}, p.arn("cloudformation", "stack", contract.StackName(p.Stage)+"/*")),
		permit(actions{"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}, *p.Ledger.TableArn()),
		permit(actions{"s3:GetObject"}, p.evidence("")),
		permit(actions{"s3:ListBucket"}, *p.Evidence.BucketArn()), // without it S3 says of what is absent that it is forbidden
		permit(actions{"sqs:ReceiveMessage"}, *p.Letters.QueueArn()),
	}
}

// examining is what the lists, the doctor and the review read besides.
func (p *parts) examining() rules {
	var functions resources
	for _, f := range p.all() {
		functions = append(functions, *f.FunctionArn())
	}
	return rules{
		// Neither action knows a resource. EventBridge Scheduler takes a list of one group's
		// schedules for one of all groups': https://github.com/aws/aws-cdk/issues/38201
		p.here("lambda:ListEventSourceMappings", "scheduler:ListSchedules"),
		permit(actions{"dynamodb:DescribeContinuousBackups", "dynamodb:DescribeTable"}, *p.Ledger.TableArn()),
		permit(actions{"dynamodb:Query"}, *p.Ledger.TableArn()+"/index/"+contract.LedgerIndex),
		permit(actions{"iam:SimulatePrincipalPolicy"}, *p.Worker.Role().RoleArn(), *p.ReportWorker.Role().RoleArn()),
		permit(actions{"lambda:GetFunctionConfiguration"}, functions...),
		permit(actions{"s3:GetBucketLocation", "s3:GetBucketObjectLockConfiguration", "s3:GetBucketVersioning"}, *p.Evidence.BucketArn()),
		permit(actions{"scheduler:GetSchedule"}, p.arn("scheduler", "schedule", *p.Schedules.ScheduleGroupName()+"/*")),
		permit(actions{"sns:ListSubscriptionsByTopic"}, *p.Page.TopicArn(), *p.Ticket.TopicArn()),
		permit(actions{"sqs:GetQueueAttributes"}, *p.Pages.QueueArn(), *p.Report.QueueArn(), *p.Letters.QueueArn()),
	}
}

// following is what the runbooks send a person to beside the tool. CloudWatch takes a
// question after some alarms for one after all of the region's, and a dashboard belongs
// to no region. The functions' logs have no object's bytes, and neither has a letter.
func (p *parts) following() rules {
	var logs resources
	for _, f := range p.all() {
		logs = append(logs, *f.LogGroup().LogGroupArn())
	}
	return rules{
		p.here("cloudwatch:GetMetricData", "cloudwatch:GetMetricStatistics", "cloudwatch:ListMetrics", "logs:DescribeLogGroups", "logs:GetQueryResults"),
		permit(actions{"cloudwatch:DescribeAlarms"}, *p.FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("cloudwatch"), Resource: jsii.String("alarm"), ResourceName: jsii.String("*"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
		})),
		permit(actions{"cloudwatch:GetDashboard"}, *p.FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("cloudwatch"), Region: jsii.String(""), Resource: jsii.String("dashboard"), ResourceName: jsii.String(p.name(p.Config.Region)),
		})),
		permit(actions{"logs:DescribeLogStreams", "logs:FilterLogEvents", "logs:GetLogEvents", "logs:StartQuery"}, logs...),
		permit(actions{"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}, *p.ScheduleLetters.QueueArn()),
	}
}

// listing is what tells which objects a page would find: names and versions under the
// policies' prefixes, and never what an object holds.
func (p *parts) listing(share []policy.Policy) (all rules) {
	prefixes := p.prefixes(share)
	for _, bucket := range slices.Sorted(maps.Keys(prefixes)) {
		list := permit(actions{"s3:ListBucket", "s3:ListBucketVersions"}, bucket)
		list.AddCondition(jsii.String("StringLike"), map[string]any{"s3:prefix": prefixes[bucket]})
		all = append(all, list, permit(actions{"s3:GetBucketVersioning"}, bucket))
	}
	return all
}

// settings are what the doctor asks of an artifact bucket.
func (p *parts) settings(share []policy.Policy) (all rules) {
	for _, bucket := range slices.Sorted(maps.Keys(p.prefixes(share))) {
		all = append(all, permit(actions{
			"s3:GetBucketLocation", "s3:GetBucketObjectLockConfiguration", "s3:GetBucketPolicy", "s3:GetBucketRequestPayment", "s3:GetEncryptionConfiguration",
		}, bucket))
	}
	return all
}

// prefixes are patterns of the prefixes that the policies work on, by their bucket's ARN.
func (p *parts) prefixes(share []policy.Policy) map[string][]string {
	all := map[string][]string{}
	for _, of := range share {
		all[p.bucket(of)] = append(all[p.bucket(of)], of.Prefix()+"*")
	}
	return all
}

// all are the functions.
func (f functions) all() []awslambda.Function {
	return []awslambda.Function{f.Enqueue, f.Worker, f.ReportWorker, f.Reconcile, f.Redrive, f.Hold}
}

// here allows actions that know no resource, in this region alone.
func (p *parts) here(may ...string) awsiam.PolicyStatement {
	all := permit(may, "*")
	all.AddCondition(jsii.String("StringEquals"), map[string]any{"aws:RequestedRegion": p.Config.Region})
	return all
}

// permit is a statement that allows actions on resources.
func permit(may actions, with ...string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Actions: list(may...), Resources: list(with...)})
}

// arn is the ARN of something in this region and account.
func (p *parts) arn(service, resource, name string) string {
	return *p.FormatArn(&awscdk.ArnComponents{
		Service: &service, Resource: &resource, ResourceName: &name, ArnFormat: awscdk.ArnFormat_SLASH_RESOURCE_NAME,
	})
}
