package region

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// A mutation is a mistake somebody could make in the stack, made in its template, and
// the check that has to notice it.
type mutation struct {
	name, check string
	make        func(d *draft)
}

var mutations = []mutation{
	{"a failed message is deleted with its batch (SQ-04)", "mapping", func(d *draft) { d.drop("PagesToWorker", "FunctionResponseTypes") }},
	{"pollers without a limit (SQ-08)", "mapping", func(d *draft) { d.drop("PagesToWorker", "ScalingConfig") }},
	{"one worker at a time", "mapping", func(d *draft) { d.set("PagesToWorker", 1.0, "ScalingConfig", "MaximumConcurrency") }},
	{"a batch of 11 without a window", "mapping", func(d *draft) { d.set("ReportPagesToWorker", 11.0, "BatchSize") }},
	{"the twin reads the pages to enforce", "mapping", func(d *draft) { d.swap("PagesToWorker", "ReportPagesToWorker", "EventSourceArn") }},
	{"nobody reads the report-only pages", "mapping", func(d *draft) { d.remove("ReportPagesToWorker") }},
	{"visibility below the function's timeout (SQ-07)", "visibility", func(d *draft) { d.set("Pages", 60.0, "VisibilityTimeout") }},
	{"a longer function, and visibility as before", "visibility", func(d *draft) { d.set("ReportWorker", 120.0, "Timeout") }},
	{"retentions of source and dead letters swapped", "retention", func(d *draft) { d.swap("Pages", "DeadLetters", "MessageRetentionPeriod") }},
	{"dead letters kept as short as pages", "retention", func(d *draft) { d.set("DeadLetters", 345600.0, "MessageRetentionPeriod") }},
	{"no dead letters", "redrive", func(d *draft) { d.drop("Pages", "RedrivePolicy") }},
	{"dead after the first throttled receive (SQ-08)", "redrive", func(d *draft) { d.set("ReportPages", 1.0, "RedrivePolicy", "maxReceiveCount") }},
	{"dead letters of anybody", "redrive-allow", func(d *draft) { d.drop("DeadLetters", "RedriveAllowPolicy") }},
	{"one source of dead letters too few", "redrive-allow", func(d *draft) { d.drop("DeadLetters", "RedriveAllowPolicy", "sourceQueueArns", 1) }},
	{"a queue renamed and not its dead letters", "redrive-allow", func(d *draft) { d.set("Pages", "expunge-prod-work", "QueueName") }},
	{"schedules' dead letters open to queues", "redrive-allow", func(d *draft) { d.drop("ScheduleDeadLetters", "RedriveAllowPolicy") }},
	{"anybody sends pages", "senders", func(d *draft) { d.drop("PagesPolicy", "PolicyDocument", "Statement", 1) }},
	{"a redrive from the console", "senders", func(d *draft) { d.replace("PagesPolicy", "sqs:SendMessage", "sqs:SendMessageBatch") }},
	{"hold sends dead letters", "senders", func(d *draft) { d.replace("DeadLettersPolicy", d.id("ReconcileRole"), d.id("HoldRole")) }},
	{"a queue that takes messages from another account", "senders", func(d *draft) {
		d.append("PagesPolicy", statementOf("Allow", "sqs:SendMessage", d.arn("Pages"), map[string]any{"AWS": "arn:aws:iam::444455556666:root"}), "PolicyDocument", "Statement")
	}},
	{"a queue in the clear", "encryption", func(d *draft) { d.drop("DeadLetters", "SqsManagedSseEnabled") }},
	{"a bucket in the clear", "encryption", func(d *draft) { d.drop("Evidence", "BucketEncryption") }},
	{"plain HTTP to a queue", "plain-http", func(d *draft) { d.drop("ScheduleDeadLettersPolicy", "PolicyDocument", "Statement", 0) }},
	{"plain HTTP to a topic", "plain-http", func(d *draft) { d.drop("TicketTopicPolicy", "PolicyDocument", "Statement", 0) }},
	{"plain HTTP to the evidence", "plain-http", func(d *draft) { d.drop("EvidencePolicy", "PolicyDocument", "Statement", 0) }},

	{"old TLS to the evidence", "plain-http", func(d *draft) { d.replace("EvidencePolicy", "s3:TlsVersion", "s3:signatureAge") }},
	{"an incident tool that can not read what it gets", "topics", func(d *draft) { d.set("TicketTopicteamexamplecom", true, "RawMessageDelivery") }},
	{"CloudWatch may not publish", "topics", func(d *draft) { d.drop("PageTopicPolicy", "PolicyDocument", "Statement", 1) }},
	{"alarms of another account", "topics", func(d *draft) {
		d.drop("TicketTopicPolicy", "PolicyDocument", "Statement", 1, "Condition", "StringEquals")
	}},
	{"a subscription is lost", "topics", func(d *draft) { d.remove("TicketTopicteamexamplecom") }},

	{"another machine than the packages are for (GO-01)", "functions", func(d *draft) { d.set("Worker", []any{"x86_64"}, "Architectures") }},
	{"metrics above the log's level", "functions", func(d *draft) { d.set("Reconcile", "WARN", "LoggingConfig", "ApplicationLogLevel") }},
	{"a log that nobody can search", "functions", func(d *draft) { d.set("Hold", "Text", "LoggingConfig", "LogFormat") }},
	{"a twin with less memory", "functions", func(d *draft) { d.set("ReportWorker", 256.0, "MemorySize") }},
	{"no traces", "functions", func(d *draft) { d.drop("Redrive", "TracingConfig") }},
	{"loops go on (SQ-12)", "functions", func(d *draft) { d.set("Enqueue", "Allow", "RecursiveLoop") }},
	{"reserved concurrency (SQ-08)", "functions", func(d *draft) { d.set("Worker", 2.0, "ReservedConcurrentExecutions") }},
	{"the twin with the worker's role", "functions", func(d *draft) { d.set("ReportWorker", d.arn("WorkerRole"), "Role") }},
	{"a worker that outlives its lease", "timeouts", func(d *draft) { d.set("Worker", 61.0, "Timeout") }},
	{"hold takes longer than a worker", "timeouts", func(d *draft) { d.set("Hold", 900.0, "Timeout") }},
	{"the twin enforces", "environment", func(d *draft) { d.set("ReportWorker", "enforce", "Environment", "Variables", "EXPUNGE_MODE") }},
	{"a variable that is missing", "environment", func(d *draft) { d.drop("Reconcile", "Environment", "Variables", "EXPUNGE_ENQUEUE_FUNCTION") }},
	{"the queues mixed up", "environment", func(d *draft) {
		d.set("Enqueue", map[string]any{"Ref": d.id("ReportPages")}, "Environment", "Variables", "EXPUNGE_PAGES_QUEUE_URL")
	}},
	{"another concurrency than the mapping's", "environment", func(d *draft) { d.set("Worker", "50", "Environment", "Variables", "EXPUNGE_CONCURRENCY") }},
	{"logs for ever (CD-04)", "logs", func(d *draft) { d.drop("WorkerLogs", "RetentionInDays") }},
	{"logs shorter than dead letters (CD-04)", "logs", func(d *draft) { d.set("WorkerLogs", 7.0, "RetentionInDays") }},
	{"a log group that Lambda makes itself (CD-04)", "logs", func(d *draft) { d.drop("Hold", "LoggingConfig", "LogGroup") }},
	{"the twin with code of its own", "code", func(d *draft) { d.set("ReportWorker", "0000.zip", "Code", "S3Key") }},
	{"a failed tick leaves no trace", "failures", func(d *draft) { d.drop("EnqueueOnFailure", "DestinationConfig") }},
	{"a call that fails is not made again", "failures", func(d *draft) { d.set("EnqueueOnFailure", 0.0, "MaximumRetryAttempts") }},
	{"a call that waits for a minute at most", "failures", func(d *draft) { d.set("RedriveOnFailure", 60.0, "MaximumEventAgeInSeconds") }},
	{"a failed pass leaves no trace", "failures", func(d *draft) { d.remove("ReconcileOnFailure") }},

	{"a schedule's role for every group (confused deputy)", "trust", func(d *draft) {
		d.drop("PolicyexportsScheduleRole", "AssumeRolePolicyDocument", "Statement", 0, "Condition")
	}},
	{"a role that a person can take", "trust", func(d *draft) {
		d.set("WorkerRole", map[string]any{"AWS": "arn:aws:iam::444455556666:root"}, "AssumeRolePolicyDocument", "Statement", 0, "Principal")
	}},
	{"a managed policy", "trust", func(d *draft) {
		d.set("HoldRole", []any{"arn:aws:iam::aws:policy/ReadOnlyAccess"}, "ManagedPolicyArns")
	}},
	{"an action of every kind", "wildcards", func(d *draft) { d.grant("RedriveRole", "sqs:*", d.arn("DeadLetters")) }},
	{"every resource", "wildcards", func(d *draft) { d.grant("EnqueueRole", "s3:ListBucket", "*") }},
	{"all actions but one", "wildcards", func(d *draft) {
		d.append("HoldRoleDefaultPolicy", map[string]any{"Effect": "Allow", "NotAction": "iam:PassRole", "Resource": d.arn("Ledger")}, "PolicyDocument", "Statement")
	}},
	{"a policy's prefix widened", "artifacts", func(d *draft) {
		d.replace("WorkerRoleDefaultPolicy", "acme-exports/exports/*/csv/*", "acme-exports/exports/*")
	}},
	{"the whole bucket", "artifacts", func(d *draft) { d.replace("WorkerRoleDefaultPolicy", "acme-exports/exports/*/csv/*", "acme-exports/*") }},
	{"a listing of the whole bucket", "artifacts", func(d *draft) { d.replace("EnqueueRoleDefaultPolicy", `"exports/*"`, `"*"`) }},
	{"the worker deletes what a policy only reports", "artifacts", func(d *draft) { d.grant("WorkerRole", "s3:DeleteObject", "arn:aws:s3:::acme-digests/digests/*/*") }},
	{"hold reads artifacts", "artifacts", func(d *draft) { d.grant("HoldRole", "s3:GetObject", "arn:aws:s3:::acme-exports/exports/*/csv/*") }},
	{"the worker lost its delete", "artifacts", func(d *draft) { d.replace("WorkerRoleDefaultPolicy", "s3:DeleteObject\"", "s3:GetObjectAcl\"") }},
	{"a twin that deletes (R137)", "twin", func(d *draft) {
		d.grant("ReportWorkerRole", "s3:DeleteObject", "arn:aws:s3:::acme-digests/digests/*/*")
	}},
	{"a twin that deletes rows", "twin", func(d *draft) { d.grant("ReportWorkerRole", "dynamodb:DeleteItem", d.arn("Ledger")) }},
	{"a twin that reads artifacts", "twin", func(d *draft) { d.grant("ReportWorkerRole", "s3:GetObject", "arn:aws:s3:::acme-digests/digests/*/*") }},
	{"a twin that overwrites artifacts", "twin", func(d *draft) { d.grant("ReportWorkerRole", "s3:PutObject", "arn:aws:s3:::acme-digests/digests/*/*") }},
	{"a worker that takes dead letters", "messages", func(d *draft) { d.grant("WorkerRole", "sqs:ReceiveMessage", d.arn("DeadLetters")) }},
	{"a twin that sends pages", "messages", func(d *draft) { d.grant("ReportWorkerRole", "sqs:SendMessage", d.arn("Pages")) }},
	{"a queue that is purged", "messages", func(d *draft) { d.grant("ReconcileRole", "sqs:PurgeQueue", d.arn("Pages")) }},
	{"a row that is deleted", "ledger-rights", func(d *draft) { d.grant("ReconcileRole", "dynamodb:DeleteItem", d.arn("Ledger")) }},
	{"a table that is read whole", "ledger-rights", func(d *draft) { d.grant("HoldRole", "dynamodb:Scan", d.arn("Ledger")) }},
	{"a worker that can not claim", "ledger-rights", func(d *draft) { d.replace("WorkerRoleDefaultPolicy", "dynamodb:PutItem", "dynamodb:DescribeTable") }},
	{"evidence that is deleted", "evidence-rights", func(d *draft) { d.grant("ReconcileRole", "s3:DeleteObject", d.below("Evidence", "/plan/*")) }},
	{"a lock that is lifted", "evidence-rights", func(d *draft) {
		d.grant("HoldRole", "s3:BypassGovernanceRetention", d.below("Evidence", "/plan/*"))
	}},
	{"a bucket policy that a function can change", "evidence-rights", func(d *draft) { d.grant("RedriveRole", "s3:PutBucketPolicy", d.arn("Evidence")) }},
	{"a worker that writes manifests", "evidence-rights", func(d *draft) { d.grant("WorkerRole", "s3:PutObject", d.below("Evidence", "/manifest/*")) }},
	{"a role without its boundary", "boundary", func(d *draft) { d.from(full()).drop("HoldRole", "PermissionsBoundary") }},

	{"a table that can not be brought back", "table", func(d *draft) { d.drop("Ledger", "Replicas", 0, "PointInTimeRecoverySpecification") }},
	{"a week of recovery", "table", func(d *draft) {
		d.set("Ledger", 7.0, "Replicas", 0, "PointInTimeRecoverySpecification", "RecoveryPeriodInDays")
	}},
	{"a table that can be deleted", "table", func(d *draft) { d.set("Ledger", false, "Replicas", 0, "DeletionProtectionEnabled") }},
	{"rows that end by themselves", "table", func(d *draft) {
		d.set("Ledger", map[string]any{"AttributeName": "ttl", "Enabled": true}, "TimeToLiveSpecification")
	}},
	{"a ledger in two regions", "table", func(d *draft) {
		d.append("Ledger", map[string]any{"Region": "us-east-1"}, "Replicas")
	}},
	{"an index that nobody reads", "table", func(d *draft) { d.set("Ledger", "by-date", "GlobalSecondaryIndexes", 0, "IndexName") }},
	{"a sort key of another type", "table", func(d *draft) { d.set("Ledger", "S", "AttributeDefinitions", 1, "AttributeType") }},
	{"evidence without versions", "evidence", func(d *draft) { d.drop("Evidence", "VersioningConfiguration") }},
	{"evidence that is replaced", "evidence", func(d *draft) { d.drop("EvidencePolicy", "PolicyDocument", "Statement", 2) }},
	{"access logs for a day", "evidence", func(d *draft) { d.set("AccessLogs", 1.0, "LifecycleConfiguration", "Rules", 0, "ExpirationInDays") }},
	{"access logs for ever", "evidence", func(d *draft) { d.drop("AccessLogs", "LifecycleConfiguration") }},
	{"nobody notes who reads evidence", "evidence", func(d *draft) { d.drop("Evidence", "LoggingConfiguration") }},
	{"evidence for a year (R142)", "evidence-life", func(d *draft) {
		d.set("Evidence", 365.0, "LifecycleConfiguration", "Rules", 1, "ExpirationInDays")
	}},
	{"evidence for ever (R142)", "evidence-life", func(d *draft) { d.drop("Evidence", "LifecycleConfiguration", "Rules", 1) }},
	{"evidence for twice its years (R142)", "evidence-life", func(d *draft) {
		d.set("Evidence", 2555.0, "LifecycleConfiguration", "Rules", 1, "NoncurrentVersionExpiration", "NoncurrentDays")
	}},
	{"removed evidence that can not be brought back", "evidence-life", func(d *draft) {
		d.set("Evidence", 1.0, "LifecycleConfiguration", "Rules", 1, "NoncurrentVersionExpiration", "NoncurrentDays")
	}},
	{"small evidence in a class that bills it as large", "evidence-life", func(d *draft) {
		d.set("Evidence", "1", "LifecycleConfiguration", "Rules", 0, "ObjectSizeGreaterThan")
	}},
	{"evidence out of reach", "evidence-life", func(d *draft) {
		d.set("Evidence", "DEEP_ARCHIVE", "LifecycleConfiguration", "Rules", 0, "Transitions", 0, "StorageClass")
	}},
	{"a lock for a day", "evidence-lock", func(d *draft) {
		d.from(full()).set("Evidence", 1.0, "ObjectLockConfiguration", "Rule", "DefaultRetention", "Days")
	}},
	{"a lock that nobody asked for", "evidence-lock", func(d *draft) {
		d.set("Evidence", true, "ObjectLockEnabled")
	}},
	{"a key that CloudWatch can not use", "key", func(d *draft) { d.from(full()).replace("Key", "cloudwatch.amazonaws.com", "events.amazonaws.com") }},
	{"a key that the queues can not use", "key", func(d *draft) { d.from(full()).replace("Key", "sqs.eu-west-1.", "ses.eu-west-1.") }},
	{"a key through any service", "key", func(d *draft) { d.from(full()).replace("Key", "kms:ViaService", "kms:RequestAlias") }},
	{"a key through one service more", "key", func(d *draft) {
		d.from(full()).append("Key", "ec2.eu-west-1.amazonaws.com", "KeyPolicy", "Statement", 1, "Condition", "StringEquals", "kms:ViaService")
	}},
	{"a key for every account", "key", func(d *draft) { d.from(full()).replace("Key", "kms:CallerAccount", "kms:EncryptionAlgorithm") }},
	{"a topic without the customer key", "encryption", func(d *draft) { d.from(full()).drop("PageTopic", "KmsMasterKeyId") }},
	{"an environment without the customer key", "encryption", func(d *draft) { d.from(full()).drop("Worker", "KmsKeyArn") }},
	{"logs without the customer key", "encryption", func(d *draft) { d.from(full()).drop("HoldLogs", "KmsKeyId") }},
	{"a table without the customer key", "encryption", func(d *draft) { d.from(full()).set("Ledger", false, "SSESpecification", "SSEEnabled") }},

	{"a tick that is lost", "schedules", func(d *draft) { d.drop("PolicyexportsSchedule", "Target", "DeadLetterConfig") }},
	{"a tick that is offered twice", "schedules", func(d *draft) {
		d.set("PolicyexportsSchedule", 1.0, "Target", "RetryPolicy", "MaximumRetryAttempts")
	}},
	{"a tick within a window", "schedules", func(d *draft) {
		d.set("PolicydigestsSchedule", map[string]any{"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15.0}, "FlexibleTimeWindow")
	}},
	{"a tick of yesterday", "schedules", func(d *draft) {
		d.set("PolicyexportsSchedule", 86400.0, "Target", "RetryPolicy", "MaximumEventAgeInSeconds")
	}},
	{"two schedules with one role", "schedules", func(d *draft) {
		d.set("PolicyexportsSchedule", d.arn("PolicydigestsScheduleRole"), "Target", "RoleArn")
	}},
	{"a schedule outside its group", "schedules", func(d *draft) { d.drop("ReconcileSchedule", "GroupName") }},
	{"a schedule's role that starts two functions", "schedules", func(d *draft) {
		d.set("ReconcileScheduleRole", []any{d.arn("Reconcile"), d.arn("Enqueue")}, "Policies", 0, "PolicyDocument", "Statement", 0, "Resource")
	}},
	{"a schedule that is off", "schedules", func(d *draft) { d.set("PolicyexportsSchedule", "DISABLED", "State") }},
	{"a policy without a schedule", "ticks", func(d *draft) { d.remove("PolicydigestsSchedule") }},
	{"a schedule in another zone", "ticks", func(d *draft) { d.drop("PolicyexportsSchedule", "ScheduleExpressionTimezone") }},
	{"a tick without its instant", "ticks", func(d *draft) { d.set("PolicyexportsSchedule", `{"policy":"exports"}`, "Target", "Input") }},
	{"a region that is never reconciled", "ticks", func(d *draft) { d.remove("ReconcileSchedule") }},

	{"an alarm that tells nobody", "alarm-actions", func(d *draft) { d.drop("Alarmsdeadletters", "AlarmActions") }},
	{"an alarm that tells nobody, seen from its topic", "topics", func(d *draft) { d.drop("Alarmsoldestmessage", "AlarmActions") }},
	{"silence that is taken for health (R112)", "alarm-silence", func(d *draft) { d.drop("Alarmsbusinessdatelag", "TreatMissingData") }},
	{"an alarm on messages sent (AL-01)", "alarm-metrics", func(d *draft) { d.set("Alarmsdeadletters", "NumberOfMessagesSent", "MetricName") }},
	{"the sum of a gauge (AL-05)", "alarm-metrics", func(d *draft) { d.set("Alarmsoldestmessage", "Sum", "Statistic") }},
	{"an alarm that says nothing (R111)", "alarm-texts", func(d *draft) { d.set("Alarmsdeadletters", "queue unhealthy", "AlarmDescription") }},
	{"an alarm that is removed", "dashboard", func(d *draft) { d.remove("Alarmsworkererrors") }},

	{"a function's address (R151)", "kinds", func(d *draft) { d.add("WorkerUrl", "AWS::Lambda::Url", map[string]any{"AuthType": "NONE"}) }},
	{"a copy from another region (CD-01)", "kinds", func(d *draft) { d.add("ExportsReader", "Custom::CrossRegionExportReader", map[string]any{}) }},
	{"a function of the CDK's (CD-04)", "kinds", func(d *draft) { d.add("LogRetention", "Custom::LogRetention", map[string]any{}) }},
	{"another region's ARN (CD-01)", "regions", func(d *draft) { d.replace("DeadLetters", "arn:aws:sqs:eu-west-1", "arn:aws:sqs:us-east-1") }},
	{"a bucket that may be public (R151)", "public", func(d *draft) { d.set("Evidence", false, "PublicAccessBlockConfiguration", "RestrictPublicBuckets") }},
	{"a queue for everybody (R151)", "public", func(d *draft) {
		d.append("PagesPolicy", statementOf("Allow", "sqs:SendMessage", d.arn("Pages"), "*"), "PolicyDocument", "Statement")
	}},
	{"a table with a name (CD-03)", "names", func(d *draft) { d.set("Ledger", "ledger", "TableName") }},
	{"a queue without its stage (CD-03)", "names", func(d *draft) { d.set("ScheduleDeadLetters", "expunge-schedule-dead-letters", "QueueName") }},
	{"a bill that nobody can divide", "tags", func(d *draft) { d.drop("Worker", "Tags") }},
	{"a table that goes with the stack", "retained", func(d *draft) { d.resource("Ledger")["DeletionPolicy"] = "Delete" }},
	{"evidence that goes when it is replaced", "retained", func(d *draft) { delete(d.resource("Evidence"), "UpdateReplacePolicy") }},
	{"a function may not do what its code does", "calls-granted", func(d *draft) {
		d.replace("ReconcileRoleDefaultPolicy", "lambda:InvokeFunction", "lambda:InvokeAsync")
	}},
	{"a listing without the prefix that it asks for", "calls-granted", func(d *draft) { d.replace("EnqueueRoleDefaultPolicy", "exports/*", "export/*") }},
	{"a grant that no code uses", "grants-called", func(d *draft) { d.grant("HoldRole", "sqs:SendMessage", d.arn("Pages")) }},
	{"a delete for who does not delete", "grants-called", func(d *draft) {
		d.grant("EnqueueRole", "s3:DeleteObject", "arn:aws:s3:::acme-exports/exports/*/csv/*")
	}},

	{"a retained queue (CD-03)", "retained", func(d *draft) {
		d.resource("Pages")["DeletionPolicy"], d.resource("Pages")["UpdateReplacePolicy"] = "Retain", "Retain"
	}},
	{"an output that the tool needs", "outputs", func(d *draft) { delete(d.outputs, "LedgerTable") }},
	{"outputs mixed up", "outputs", func(d *draft) { d.outputs["PagesQueueUrl"] = d.outputs["ReportQueueUrl"] }},
}

func statementOf(effect, action string, resource, principal any) map[string]any {
	return map[string]any{"Effect": effect, "Action": action, "Resource": resource, "Principal": principal}
}

// TestMistakesAreNoticed makes every mistake, and asks its check.
func TestMistakesAreNoticed(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.check+"/"+m.name, func(t *testing.T) {
			i := slices.IndexFunc(checks, func(c check) bool { return c.name == m.check })
			if i < 0 {
				t.Fatalf("no check is called %s", m.check)
			}
			d := new(draft).from(one())
			m.make(d)
			stack := d.template()
			if string(stack.text) == string(d.before.text) {
				t.Fatal("the mistake changes nothing")
			}
			if len(checks[i].find(d.before)) > 0 {
				t.Fatal("the check finds fault with the stack as it is")
			}
			if len(checks[i].find(stack)) == 0 {
				t.Error("the check does not notice")
			}
		})
	}
}

// TestEveryCheckNotices asks of each check for a mistake that it notices: one that can
// not fail proves nothing.
func TestEveryCheckNotices(t *testing.T) {
	for _, c := range checks {
		if !slices.ContainsFunc(mutations, func(m mutation) bool { return m.check == c.name }) {
			t.Errorf("no mistake is made that %s would notice", c.name)
		}
	}
}

// A draft is a template that is being changed.
type draft struct {
	before             template
	resources, outputs map[string]any
	rest               map[string]any
}

// from begins again with a template.
func (d *draft) from(t template) *draft {
	d.before, d.rest = t, map[string]any{}
	if err := json.Unmarshal(t.text, &d.rest); err != nil {
		panic(err)
	}
	d.resources, _ = d.rest["Resources"].(map[string]any)
	d.outputs, _ = d.rest["Outputs"].(map[string]any)
	// As it is written again, so that only a change is a difference.
	d.before = d.template()
	return d
}

func (d *draft) template() template {
	text, err := json.Marshal(d.rest, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	t := parse(text)
	t.config = d.before.config
	return t
}

// id is the logical id of what was declared under a name. A mistake in what is not
// there would prove nothing, so it ends the test.
func (d *draft) id(name string) string {
	for id := range d.resources {
		if d.before.short(id) == name {
			return id
		}
	}
	panic("nothing is called " + name)
}

func (d *draft) resource(name string) map[string]any {
	return as[map[string]any](d.resources[d.id(name)])
}

func (d *draft) arn(name string) any {
	return map[string]any{"Fn::GetAtt": []any{d.id(name), "Arn"}}
}

func (d *draft) below(name, path string) any {
	return map[string]any{"Fn::Join": []any{"", []any{d.arn(name), path}}}
}

// edit replaces the value at a path; change is told the value that stands there.
func (d *draft) edit(name string, change func(v any) any, path []any) {
	r := d.resource(name)
	r["Properties"] = edited(r["Properties"], change, path)
}

func edited(v any, change func(v any) any, path []any) any {
	if len(path) == 0 {
		return change(v)
	}
	switch step := path[0].(type) {
	case string:
		m := as[map[string]any](v)
		if next := edited(m[step], change, path[1:]); next != nil {
			m[step] = next
		} else {
			delete(m, step)
		}
		return m
	case int:
		l := as[[]any](v)
		if next := edited(l[step], change, path[1:]); next != nil {
			l[step] = next
			return l
		}
		return slices.Delete(l, step, step+1)
	default:
		panic(fmt.Sprintf("%v is no step of a path", step))
	}
}

func (d *draft) set(name string, value any, path ...any) {
	d.edit(name, func(any) any { return value }, path)
}

func (d *draft) drop(name string, path ...any) {
	d.edit(name, func(any) any { return nil }, path)
}

func (d *draft) append(name string, value any, path ...any) {
	d.edit(name, func(v any) any { return append(as[[]any](v), value) }, path)
}

func (d *draft) swap(a, b string, path ...any) {
	of := func(name string) any { return at(d.resource(name)["Properties"], path...) }
	x, y := of(a), of(b)
	d.set(a, y, path...)
	d.set(b, x, path...)
}

// as is a value of the kind that it has to have at its place.
func as[T any](v any) T {
	of, ok := v.(T)
	if !ok {
		panic(fmt.Sprintf("%v is no %T", v, of))
	}
	return of
}

// replace replaces a text wherever it stands in a resource.
func (d *draft) replace(name, old, next string) {
	text, err := json.Marshal(d.resource(name)["Properties"], json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	var properties any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), old, next)), &properties); err != nil {
		panic(err)
	}
	d.resource(name)["Properties"] = properties
}

// grant lets a role do something more.
func (d *draft) grant(role, action string, resource any) {
	d.append(role+"DefaultPolicy", map[string]any{"Effect": "Allow", "Action": action, "Resource": resource}, "PolicyDocument", "Statement")
}

func (d *draft) add(name, kind string, properties map[string]any) {
	d.resources[name] = map[string]any{"Type": kind, "Properties": properties}
}

func (d *draft) remove(name string) { delete(d.resources, d.id(name)) }
