package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	awsscheduler "github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/cloudformation"
	"github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/lambda"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/scheduler"
	"github.com/expunge-aws/expunge/internal/emulator/sns"
	"github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/sts"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// clinic is a deployed region as the stack leaves it, with everything that a doctor
// looks at and nothing that works.
type clinic struct {
	*region
	topics *sns.Service
	sqsc   *awssqs.Client
	s3c    *awss3.Client
	events *awsscheduler.Client
	// functions are registered by admit, so that an ailment can change them.
	functions map[string]lambda.Function
	mappings  []lambda.Mapping
	table     func(*awsdynamodb.CreateTableInput)
}

// ailment is what is wrong with a clinic's region; before is changed before the
// region is made, after when it is.
type ailment struct {
	before, after func(c *clinic)
}

func newClinic(t *testing.T, a ailment) *clinic {
	t.Helper()
	clock := wire.Wall{}
	r := &region{
		t: t, dir: t.TempDir(), now: &hands{at: time.Now().UTC()},
		s3: s3.New(clock), sqs: sqs.New(clock), lambda: lambda.New(clock), stacks: cloudformation.New(clock),
	}
	c := &clinic{region: r, topics: sns.New(), functions: map[string]lambda.Function{}, table: func(*awsdynamodb.CreateTableInput) {}}
	schedules := scheduler.New(clock, func(context.Context, string, []byte) error { return nil })
	server := httptest.NewServer(emulator.New(clock, r.decide, r.s3, r.sqs, r.lambda, r.stacks, dynamodb.New(clock), sts.New(), c.topics, schedules))
	t.Cleanup(server.Close)
	t.Cleanup(r.lambda.Close)
	r.url = server.URL
	limits := sdk.Defaults()
	limits.Backoff = time.Millisecond
	r.sdk = limits.Configure(aws.Config{
		Region: regionName, BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("stack", "local", ""),
	})
	c.sqsc, c.events = awssqs.NewFromConfig(r.sdk.Config), awsscheduler.NewFromConfig(r.sdk.Config)
	c.s3c = awss3.NewFromConfig(r.sdk.Config, func(o *awss3.Options) { o.UsePathStyle = true })
	c.name()
	c.queues()
	c.workers()
	if a.before != nil {
		a.before(c)
	}
	c.admit()
	if a.after != nil {
		a.after(c)
	}
	return c
}

// name gives everything its name, and makes what is known by it.
func (c *clinic) name() {
	c.outputs = contract.Outputs{
		Region: regionName, Stage: "dev", Table: "expunge-ledger", Evidence: "expunge-evidence",
		Enqueue: "expunge-enqueue", Worker: "expunge-worker", ReportWorker: "expunge-report-worker", Redrive: "expunge-redrive",
		Reconcile: "expunge-reconcile", Hold: "expunge-hold", Schedules: "expunge", CodeVersion: "v1.2.3",
	}
	topic := func(name string) string {
		arn, err := c.topics.Declare(sns.Topic{Region: regionName, Name: name, Subscriptions: []sns.Subscription{{Protocol: "email", Endpoint: "oncall@example.com"}}})
		must(c.t, err)
		return arn
	}
	c.outputs.PageTopic, c.outputs.TicketTopic = topic("expunge-page"), topic("expunge-ticket")
	c.ledger = ledger.NewTable(c.sdk, c.outputs.Table)
}

func (c *clinic) queue(name string, attributes map[string]string) string {
	c.t.Helper()
	out, err := c.sqsc.CreateQueue(c.t.Context(), &awssqs.CreateQueueInput{QueueName: aws.String("expunge-" + name), Attributes: attributes})
	must(c.t, err)
	return *out.QueueUrl
}

func (c *clinic) queues() {
	s := contract.Production()
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
	c.outputs.LettersQueue = c.queue("dead-letters", map[string]string{"MessageRetentionPeriod": seconds(s.DeadLetterRetention)})
	source := map[string]string{
		"VisibilityTimeout": seconds(s.Visibility()), "MessageRetentionPeriod": seconds(s.SourceRetention),
		"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, c.arn("dead-letters"), s.MaxReceives),
	}
	c.outputs.PagesQueue, c.outputs.ReportQueue = c.queue("pages", source), c.queue("pages-report", source)
}

// arn is a queue's.
func (c *clinic) arn(name string) string {
	q, err := c.sqs.Queue(regionName, "expunge-"+name)
	must(c.t, err)
	return q.ARN()
}

// noMessages is a queue that a mapping sees.
type noMessages struct{ lambda.Source }

func (noMessages) Visibility() time.Duration { return 6 * time.Minute }

func (c *clinic) workers() {
	o := c.outputs
	for _, f := range []struct{ name, mode string }{
		{o.Enqueue, ""}, {o.Worker, "enforce"}, {o.ReportWorker, "report-only"}, {o.Redrive, ""}, {o.Reconcile, ""}, {o.Hold, ""},
	} {
		env := contract.Environment{
			Table: o.Table, PagesQueue: o.PagesQueue, ReportQueue: o.ReportQueue, LettersQueue: o.LettersQueue, EvidenceBucket: o.Evidence,
			Mode: f.mode, EnqueueName: o.Enqueue, RedriveName: o.Redrive, CodeVersion: o.CodeVersion,
		}
		function := lambda.Function{
			Name: f.name, Region: regionName, Timeout: contract.Production().FunctionTimeout,
			Handler: func(context.Context, []byte) ([]byte, error) { return nil, errors.New("it only stands here") },
		}
		for name, value := range env.Render() {
			function.Env = append(function.Env, name+"="+value)
		}
		c.functions[f.name] = function
	}
	for _, m := range []struct{ function, queue string }{{o.Worker, "pages"}, {o.ReportWorker, "pages-report"}} {
		c.mappings = append(c.mappings, lambda.Mapping{
			Region: regionName, Function: m.function, Queue: c.arn(m.queue), Source: noMessages{},
			MaximumConcurrency: 5, ReportBatchItemFailures: true, Stepped: true,
		})
	}
}

// admit makes the rest of the region.
func (c *clinic) admit() {
	ctx := c.t.Context()
	for _, f := range c.functions {
		must(c.t, c.lambda.Register(f))
	}
	for _, m := range c.mappings {
		if _, ok := c.functions[m.Function]; ok {
			_, err := c.lambda.Map(m)
			must(c.t, err)
		}
	}
	table := ledger.Schema(c.outputs.Table)
	table.DeletionProtectionEnabled = aws.Bool(true)
	c.table(table)
	_, err := awsdynamodb.NewFromConfig(c.sdk.Config).CreateTable(ctx, table)
	must(c.t, err)
	location := &s3types.CreateBucketConfiguration{LocationConstraint: regionName}
	_, err = c.s3c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: aws.String(bucketName), CreateBucketConfiguration: location})
	must(c.t, err)
	_, err = c.s3c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: &c.outputs.Evidence, CreateBucketConfiguration: location, ObjectLockEnabledForBucket: aws.Bool(true)})
	must(c.t, err)
	_, err = c.s3c.PutObjectLockConfiguration(ctx, &awss3.PutObjectLockConfigurationInput{Bucket: &c.outputs.Evidence, ObjectLockConfiguration: &s3types.ObjectLockConfiguration{
		ObjectLockEnabled: s3types.ObjectLockEnabledEnabled,
		Rule:              &s3types.ObjectLockRule{DefaultRetention: &s3types.DefaultRetention{Mode: s3types.ObjectLockRetentionModeGovernance, Days: aws.Int32(400)}},
	}})
	must(c.t, err)
	p := c.publish(exportsPolicy)[0]
	must(c.t, c.ledger.Approve(ctx, policy.Approval{Policy: p.Name, Rev: 1, Version: p.Version, SHA256: p.SHA256(), By: "ana", Reason: "the reports are right", At: at}))
	_, err = c.events.CreateScheduleGroup(ctx, &awsscheduler.CreateScheduleGroupInput{Name: &c.outputs.Schedules})
	must(c.t, err)
	c.schedule("policy-exports", `{"policy":"exports","scheduled":"<aws.scheduler.scheduled-time>"}`, nil)
	c.declare("expunge-dev", c.outputs.Render())
	c.up()
}

// schedule makes a schedule of the exports policy.
func (c *clinic) schedule(name, input string, change func(*awsscheduler.CreateScheduleInput)) {
	c.t.Helper()
	in := &awsscheduler.CreateScheduleInput{
		Name: &name, GroupName: &c.outputs.Schedules, ScheduleExpression: aws.String("cron(30 2 * * ? *)"), ScheduleExpressionTimezone: aws.String("Europe/Berlin"),
		State: schedulertypes.ScheduleStateEnabled, FlexibleTimeWindow: &schedulertypes.FlexibleTimeWindow{Mode: schedulertypes.FlexibleTimeWindowModeOff},
		Target: &schedulertypes.Target{
			Arn: aws.String("arn:aws:lambda:" + regionName + ":" + wire.Account + ":function:" + c.outputs.Enqueue), Input: &input,
			RoleArn: aws.String("arn:aws:iam::" + wire.Account + ":role/scheduler"),
		},
	}
	if change != nil {
		change(in)
	}
	_, err := c.events.CreateSchedule(c.t.Context(), in)
	must(c.t, err)
}

// reschedule replaces the schedule of exports.
func (c *clinic) reschedule(change func(*awsscheduler.CreateScheduleInput)) {
	_, err := c.events.DeleteSchedule(c.t.Context(), &awsscheduler.DeleteScheduleInput{Name: aws.String("policy-exports"), GroupName: &c.outputs.Schedules})
	must(c.t, err)
	if change != nil {
		c.schedule("policy-exports", `{"policy":"exports"}`, change)
	}
}

func (c *clinic) attributes(url string, attributes map[string]string) {
	_, err := c.sqsc.SetQueueAttributes(c.t.Context(), &awssqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: attributes})
	must(c.t, err)
}

func (c *clinic) version(status s3types.BucketVersioningStatus) {
	_, err := c.s3c.PutBucketVersioning(c.t.Context(), &awss3.PutBucketVersioningInput{
		Bucket: aws.String(bucketName), VersioningConfiguration: &s3types.VersioningConfiguration{Status: status},
	})
	must(c.t, err)
}

// with changes a function before it is registered.
func with(name func(contract.Outputs) string, change func(*lambda.Function)) func(*clinic) {
	return func(c *clinic) {
		f := c.functions[name(c.outputs)]
		change(&f)
		c.functions[f.Name] = f
	}
}

func workerOf(o contract.Outputs) string { return o.Worker }

func setVariable(name, value string) func(*lambda.Function) {
	return func(f *lambda.Function) {
		f.Env = slices.DeleteFunc(slices.Clone(f.Env), func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
		f.Env = append(f.Env, name+"="+value)
	}
}

// stackIs gives the stack a status.
func stackIs(status string) func(*clinic) {
	return func(c *clinic) {
		must(c.t, c.stacks.Declare(cloudformation.Stack{Region: regionName, Name: "expunge-dev", Status: status, Outputs: c.outputs.Render()}))
	}
}

// subscribe leaves a topic with these subscriptions.
func (c *clinic) subscribe(topic string, all ...sns.Subscription) {
	_, err := c.topics.Declare(sns.Topic{Region: regionName, Name: topic, Subscriptions: all})
	must(c.t, err)
}

// renamed gives the deployment other outputs than its functions know.
func (c *clinic) renamed(change func(*contract.Outputs)) {
	change(&c.outputs)
	c.declare("expunge-dev", c.outputs.Render())
	c.up()
}

// toldOf writes a diagnosis line by line.
func toldOf(d diagnosis) string {
	var b strings.Builder
	for _, l := range d.Lines {
		fmt.Fprintf(&b, "%s %s %s: %s\n", l.State, l.Area, l.What, l.Text)
	}
	return b.String()
}

// diagnosis is what a machine reads of an examination.
type diagnosis struct {
	Sums  map[string]int
	Lines []doctorLine
}

func (c *clinic) examine(args ...string) (d diagnosis, s said) {
	c.t.Helper()
	s = c.expunge(append([]string{"doctor", "--json"}, args...)...)
	must(c.t, json.Unmarshal([]byte(s.out), &d))
	return d, s
}

// anyInstant is a time in a text.
var anyInstant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

func TestDoctorHealthy(t *testing.T) {
	c := newClinic(t, ailment{})
	mask := func(s said) string { return anyInstant.ReplaceAllString(s.out, "INSTANT") }
	golden(t, "doctor", mask(c.ok("doctor")))
	golden(t, "doctor-json", mask(c.ok("doctor", "--json")))
}

// One thing is wrong at a time: it is told with how to mend it, and nothing else
// becomes worse by it.
func TestDoctorFinds(t *testing.T) {
	put := func(text string) func(*clinic) {
		return func(c *clinic) {
			_, err := c.s3c.PutBucketPolicy(c.t.Context(), &awss3.PutBucketPolicyInput{Bucket: aws.String(bucketName), Policy: &text})
			must(c.t, err)
		}
	}
	deny := func(action, resource string) string {
		return fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Sid":"Keep","Effect":"Deny","Principal":"*","Action":%q,"Resource":%q}]}`, action, resource)
	}
	for name, c := range map[string]struct {
		ailment
		area  string
		state health
		text  string
	}{
		"the clock":                   {ailment{after: func(c *clinic) { c.now.at = c.now.at.Add(20 * time.Minute) }}, "clock", healthProblem, "ahead of the service's: AWS refuses"},
		"the clock, a little":         {ailment{after: func(c *clinic) { c.now.at = c.now.at.Add(-2 * time.Minute) }}, "clock", healthWarning, "behind the service's"},
		"the stack was rolled back":   {ailment{after: stackIs("UPDATE_ROLLBACK_COMPLETE")}, "stack", healthWarning, "was taken back"},
		"the stack failed":            {ailment{after: stackIs("ROLLBACK_COMPLETE")}, "stack", healthProblem, "ROLLBACK_COMPLETE"},
		"the stack is changing":       {ailment{after: stackIs("UPDATE_IN_PROGRESS")}, "stack", healthWarning, "being changed"},
		"the stack is another":        {ailment{after: func(c *clinic) { o := c.outputs; o.CodeVersion = "v9"; c.declare("expunge-dev", o.Render()) }}, "stack", healthProblem, "outputs"},
		"a function is gone":          {ailment{before: func(c *clinic) { delete(c.functions, c.outputs.Hold) }}, "functions", healthProblem, "there is no such function"},
		"a function of other code":    {ailment{before: with(workerOf, setVariable("EXPUNGE_CODE_VERSION", "v1.2.2"))}, "functions", healthProblem, "EXPUNGE_CODE_VERSION is v1.2.2 and not v1.2.3"},
		"a function on another table": {ailment{before: with(workerOf, setVariable("EXPUNGE_LEDGER_TABLE", "test"))}, "functions", healthProblem, "EXPUNGE_LEDGER_TABLE is test and not expunge-ledger"},
		"a worker of the wrong mode":  {ailment{before: with(func(o contract.Outputs) string { return o.ReportWorker }, setVariable("EXPUNGE_MODE", "enforce"))}, "functions", healthProblem, "EXPUNGE_MODE is enforce and not report-only"},
		"a worker is too quick":       {ailment{before: with(workerOf, func(f *lambda.Function) { f.Timeout = 30 * time.Second })}, "functions", healthProblem, "its timeout is 30s and leases are made for 1m"},
		"visibility":                  {ailment{after: func(c *clinic) { c.attributes(c.outputs.PagesQueue, map[string]string{"VisibilityTimeout": "359"}) }}, "queues", healthProblem, "hidden for 5m59s, and its worker may run for 1m"},
		"no dead letters":             {ailment{after: func(c *clinic) { c.attributes(c.outputs.ReportQueue, map[string]string{"RedrivePolicy": ""}) }}, "queues", healthProblem, "has no dead-letter queue"},
		"dead letters elsewhere": {ailment{after: func(c *clinic) {
			c.queue("other", nil)
			c.attributes(c.outputs.PagesQueue, map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"` + c.arn("other") + `","maxReceiveCount":10}`})
		}}, "queues", healthProblem, "where this deployment does not look"},
		"too few receives": {ailment{after: func(c *clinic) {
			c.attributes(c.outputs.PagesQueue, map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"` + c.arn("dead-letters") + `","maxReceiveCount":3}`})
		}}, "queues", healthProblem, "after 3 receives"},
		"dead letters expire": {ailment{after: func(c *clinic) {
			c.attributes(c.outputs.LettersQueue, map[string]string{"MessageRetentionPeriod": "345600"})
		}}, "queues", healthProblem, "kept for 4d here and for 4d among the dead letters"},
		"not encrypted": {ailment{after: func(c *clinic) {
			c.attributes(c.outputs.LettersQueue, map[string]string{"SqsManagedSseEnabled": "false"})
		}}, "queues", healthProblem, "not encrypted"},
		"a queue is gone": {ailment{after: func(c *clinic) {
			_, err := c.sqsc.DeleteQueue(c.t.Context(), &awssqs.DeleteQueueInput{QueueUrl: &c.outputs.ReportQueue})
			must(c.t, err)
		}}, "queues", healthProblem, "there is no such queue"},
		"nobody reads":              {ailment{before: func(c *clinic) { c.mappings = c.mappings[1:] }}, "mappings", healthProblem, "0 mappings read the queue"},
		"the answer does not count": {ailment{before: func(c *clinic) { c.mappings[0].ReportBatchItemFailures = false }}, "mappings", healthProblem, "does not ask for ReportBatchItemFailures"},
		"no bound":                  {ailment{before: func(c *clinic) { c.mappings[1].MaximumConcurrency = 0 }}, "mappings", healthProblem, "no maximum concurrency"},
		"the wrong worker":          {ailment{before: func(c *clinic) { c.mappings[1].Function = c.outputs.Worker }}, "mappings", healthProblem, "and not by expunge-report-worker"},
		"the dead letters are taken": {ailment{before: func(c *clinic) {
			m := c.mappings[0]
			m.Queue = c.arn("dead-letters")
			c.mappings = append(c.mappings, m)
		}}, "mappings", healthProblem, "takes them away"},
		"the ledger can be deleted": {ailment{before: func(c *clinic) {
			c.table = func(in *awsdynamodb.CreateTableInput) { in.DeletionProtectionEnabled = nil }
		}}, "ledger", healthProblem, "it can be deleted"},
		"nobody is subscribed": {ailment{after: func(c *clinic) { c.subscribe("expunge-page") }}, "topics", healthProblem, "nobody is subscribed"},
		"not confirmed": {ailment{after: func(c *clinic) {
			c.subscribe("expunge-page", sns.Subscription{Protocol: "email", Endpoint: "a@example.com", Pending: true})
		}}, "topics", healthProblem, "1 subscription not confirmed: the alarms tell nobody"},
		"one not confirmed": {ailment{after: func(c *clinic) {
			c.subscribe("expunge-ticket", sns.Subscription{Protocol: "email", Endpoint: "a@example.com", Pending: true}, sns.Subscription{Protocol: "https", Endpoint: "https://example.com"})
		}}, "topics", healthWarning, "1 by https hear of it; 1 subscription not confirmed"},
		"the topic is gone": {ailment{after: func(c *clinic) { c.renamed(func(o *contract.Outputs) { o.PageTopic += "x" }) }}, "topics", healthProblem, "there is no such topic"},
		"a newer version": {ailment{after: func(c *clinic) {
			c.publish(changed(c.t, exportsPolicy, "version: 1", "version: 2", "retention_days: 30", "retention_days: 7"))
		}}, "policies", healthWarning, "version 1 is the approved one"},
		"none approved": {ailment{after: func(c *clinic) {
			c.publish(changed(c.t, exportsPolicy, "name: exports", "name: more"))
			c.schedule("more", `{"policy":"more"}`, nil)
		}}, "policies", healthWarning, "no version was ever approved"},
		"a policy of another region": {ailment{after: func(c *clinic) {
			c.publish(changed(c.t, exportsPolicy, "version: 1", "version: 2", "eu-west-1", "us-east-1"))
		}}, "policies", healthProblem, "it belongs to us-east-1"},
		"no schedule":   {ailment{after: func(c *clinic) { c.reschedule(nil) }}, "schedules", healthProblem, "no schedule of group expunge starts it"},
		"two schedules": {ailment{after: func(c *clinic) { c.schedule("again", `{"policy":"exports"}`, nil) }}, "schedules", healthProblem, "2 schedules start it"},
		"the schedule is disabled": {ailment{after: func(c *clinic) {
			c.reschedule(func(in *awsscheduler.CreateScheduleInput) { in.State = schedulertypes.ScheduleStateDisabled })
		}}, "schedules", healthProblem, "DISABLED: no run starts"},
		"another cron": {ailment{after: func(c *clinic) {
			c.reschedule(func(in *awsscheduler.CreateScheduleInput) { in.ScheduleExpression = aws.String("cron(0 3 * * ? *)") })
		}}, "schedules", healthProblem, "is cron(0 3 * * ? *) and exports@1 says cron(30 2 * * ? *)"},
		"another zone": {ailment{after: func(c *clinic) {
			c.reschedule(func(in *awsscheduler.CreateScheduleInput) { in.ScheduleExpressionTimezone = aws.String("UTC") })
		}}, "schedules", healthProblem, "counts in UTC and exports@1 in Europe/Berlin"},
		"another target": {ailment{after: func(c *clinic) {
			c.reschedule(func(in *awsscheduler.CreateScheduleInput) {
				in.Target.Arn = aws.String(strings.Replace(*in.Target.Arn, "enqueue", "other", 1))
			})
		}}, "schedules", healthProblem, "and not expunge-enqueue"},
		"a flexible window": {ailment{after: func(c *clinic) {
			c.reschedule(func(in *awsscheduler.CreateScheduleInput) {
				in.FlexibleTimeWindow = &schedulertypes.FlexibleTimeWindow{Mode: schedulertypes.FlexibleTimeWindowModeFlexible, MaximumWindowInMinutes: aws.Int32(15)}
			})
		}}, "schedules", healthWarning, "may start late"},
		"a brake": {ailment{after: func(c *clinic) {
			must(c.t, c.ledger.SetBrake(c.t.Context(), job.Brake{Policy: "exports", Reason: "a wrong retention", By: "ana", At: at}))
		}}, "brakes", healthWarning, "by ana: a wrong retention"},
		"R16 a redrive without a drill": {ailment{after: func(c *clinic) {
			must(c.t, c.ledger.SwapAutoRedrive(c.t.Context(), job.AutoRedrive{Rev: 1, On: true, Reason: job.ReasonForbidden, Cap: 10, By: "ana", At: at}))
		}}, "brakes", healthProblem, "no drill has passed in the last 30d: it moves nothing"},
		"the bucket keeps versions": {ailment{after: func(c *clinic) { c.version(s3types.BucketVersioningStatusEnabled) }}, "buckets", healthWarning, "a delete lays a marker, and the bytes remain"},
		"all of no versions":        {ailment{after: func(c *clinic) { c.publish(changed(c.t, exportsPolicy, "version: 1", "version: 2\nversions: all")) }}, "buckets", healthWarning, "keeps no versions, and the policy is about all of them"},
		"no bucket": {ailment{after: func(c *clinic) {
			c.publish(changed(c.t, exportsPolicy, "version: 1", "version: 2", "acme-exports", "acme-photos"))
		}}, "buckets", healthProblem, "there is no such bucket"},
		"a bucket elsewhere": {ailment{after: func(c *clinic) {
			_, err := awss3.New(c.s3c.Options(), func(o *awss3.Options) { o.Region = "us-east-1" }).CreateBucket(c.t.Context(), &awss3.CreateBucketInput{Bucket: aws.String("acme-photos")})
			must(c.t, err)
			c.publish(changed(c.t, exportsPolicy, "version: 1", "version: 2", "acme-exports", "acme-photos"))
		}}, "buckets", healthProblem, "it is in us-east-1 and not in eu-west-1"},
		"S3-23 requester pays": {ailment{after: func(c *clinic) { must(c.t, c.s3.SetRequesterPays(bucketName, true)) }}, "buckets", healthProblem, "the requester"},
		"S3-20 deletes denied": {ailment{after: put(deny("s3:DeleteObject", "arn:aws:s3:::acme-exports/*"))}, "buckets", healthProblem, "denies expunge-worker s3:DeleteObject (Keep)"},
		"S3-20 reading denied": {ailment{after: put(deny("s3:GetObject*", "arn:aws:s3:::acme-exports/exports/*"))}, "buckets", healthProblem, "denies expunge-worker s3:GetObject (Keep)"},
		"one tenant denied":    {ailment{after: put(deny("s3:*", "arn:aws:s3:::acme-exports/exports/acme-eu/*"))}, "buckets", healthWarning, "may deny expunge-worker s3:DeleteObject on arn:aws:s3:::acme-exports/exports/acme-eu/* (Keep)"},
		"evidence elsewhere":   {ailment{after: func(c *clinic) { c.renamed(func(o *contract.Outputs) { o.Evidence = bucketName }) }}, "evidence", healthProblem, "can replace evidence without a trace"},
	} {
		t.Run(name, func(t *testing.T) {
			clinic := newClinic(t, c.ailment)
			d, s := clinic.examine()
			i := slices.IndexFunc(d.Lines, func(l doctorLine) bool {
				return l.Area == c.area && l.State == c.state && strings.Contains(l.Text, c.text)
			})
			if i < 0 {
				t.Fatalf("not found:\n%s", toldOf(d))
			}
			if d.Lines[i].Fix == "" {
				t.Error("it does not say how to mend it")
			}
			if want := map[bool]int{true: exitWrong, false: exitDone}[d.Sums["problem"] > 0]; s.status != want {
				t.Errorf("status %d with %d problems", s.status, d.Sums["problem"])
			}
			for _, l := range d.Lines {
				if (l.State == healthProblem) && c.state == healthWarning {
					t.Errorf("and also %+v", l)
				}
			}
		})
	}
}

// One service that does not answer, or may not be asked, hides nothing of the others.
func TestDoctorServiceAway(t *testing.T) {
	areas := map[string][]string{
		"lambda":         {"functions", "mappings", "queues", "buckets"}, // the last two know less of the workers
		"sqs":            {"queues", "mappings"},
		"dynamodb":       {"ledger", "policies", "buckets", "schedules", "brakes"},
		"sns":            {"topics"},
		"s3":             {"evidence", "buckets"},
		"scheduler":      {"schedules"},
		"sts":            {"buckets"},
		"cloudformation": {"stack"},
	}
	well := toldOf(first(newClinic(t, ailment{}).examine()))
	for service, concerned := range areas {
		for _, answer := range []struct {
			status int
			code   string
			want   health
		}{{http.StatusForbidden, "AccessDeniedException", healthSkipped}, {http.StatusServiceUnavailable, "ServiceUnavailable", healthProblem}} {
			t.Run(service+" "+answer.code, func(t *testing.T) {
				c := newClinic(t, ailment{})
				c.meet(refusing(service, "", answer.status, answer.code))
				d, s := c.examine()
				told := toldOf(d)
				for line := range strings.Lines(well) {
					area := strings.Fields(line)[1]
					if !slices.Contains(concerned, area) && !strings.Contains(anyInstant.ReplaceAllString(told, "I"), anyInstant.ReplaceAllString(line, "I")) {
						t.Errorf("hidden: %s", line)
					}
				}
				found := slices.ContainsFunc(d.Lines, func(l doctorLine) bool { return l.State == answer.want && slices.Contains(concerned, l.Area) })
				if !found && service != "sts" {
					t.Errorf("nothing is %s:\n%s", answer.want, told)
				}
				if answer.want == healthSkipped && d.Sums["problem"] > 0 || s.status != map[bool]int{true: exitWrong, false: exitDone}[d.Sums["problem"] > 0] {
					t.Errorf("status %d:\n%s", s.status, told)
				}
			})
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

// The doctor asks for nothing that could change anything.
func TestDoctorOnlyAsks(t *testing.T) {
	c := newClinic(t, ailment{})
	must(t, c.s3.Seed(bucketName, func(yield func(s3.Object) bool) {
		yield(s3.Object{Key: acme + "1.csv", Body: []byte("x"), Modified: old})
	}))
	asks := regexp.MustCompile(`^(Get|Head|List|Describe|Query|BatchGet)`)
	var others []string
	c.meet(func(call wire.Call) wire.Fate {
		if !asks.MatchString(call.Operation) {
			others = append(others, call.Service+" "+call.Operation)
		}
		return wire.Fate{}
	})
	d, _ := c.examine()
	if len(others) > 0 {
		t.Errorf("it also asked for %v", others)
	}
	if !strings.Contains(toldOf(d), "list exports/ and look at an object there") {
		t.Error(toldOf(d))
	}
}

// In AWS the stack is there, and IAM is asked where it can be.
func TestDoctorInAWS(t *testing.T) {
	c := newClinic(t, ailment{})
	c.inAWS()
	s := c.ok("doctor", "--region=eu-west-1", "--stage=dev")
	if !strings.Contains(s.out, "expunge-dev: CREATE_COMPLETE") || !strings.Contains(s.out, "was not asked: its role is not known") {
		t.Error(s.out)
	}
}

// R16: a drill that passed lately lets the schedule redrive.
func TestDoctorAutomatic(t *testing.T) {
	c := newClinic(t, ailment{})
	must(t, c.ledger.SwapAutoRedrive(t.Context(), job.AutoRedrive{Rev: 1, On: true, Reason: job.ReasonForbidden, Cap: 10, By: "ana", At: at}))
	must(t, c.ledger.PutEntry(t.Context(), audit.Entry{At: c.now.at.AddDate(0, 0, -3).Add(-time.Minute), Act: audit.DrillPassed, Region: regionName, By: "ana", Reason: "a rehearsal"}))
	if s := c.ok("doctor"); !strings.Contains(s.out, "it is on for forbidden, 10 pages a round; a drill passed 3d ago") {
		t.Error(s.out)
	}
}

func TestDoctorOnePolicy(t *testing.T) {
	c := newClinic(t, ailment{})
	c.publish(changed(t, exportsPolicy, "name: exports", "name: more"))
	if d, _ := c.examine("--policy=exports"); strings.Contains(toldOf(d), "more") {
		t.Error(toldOf(d))
	}
	d, s := c.examine("--policy=other")
	if s.status != exitWrong || !strings.Contains(toldOf(d), "no such policy was ever published here") {
		t.Error(toldOf(d))
	}
}
