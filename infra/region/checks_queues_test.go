package region

import (
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/contract"
)

const (
	kindQueue    = "AWS::SQS::Queue"
	kindTopic    = "AWS::SNS::Topic"
	kindMapping  = "AWS::Lambda::EventSourceMapping"
	kindFunction = "AWS::Lambda::Function"
	kindBucket   = "AWS::S3::Bucket"
	kindTable    = "AWS::DynamoDB::GlobalTable"
	kindLogs     = "AWS::Logs::LogGroup"
	kindKey      = "AWS::KMS::Key"
	kindAlarm    = "AWS::CloudWatch::Alarm"
)

// checkEncryption asks for a key on everything that keeps something: the customer's,
// where there is one.
func checkEncryption(t template) []string {
	var p problems
	own := t.config.CustomerKey
	for _, q := range t.things(kindQueue) {
		p.want(own || q.at("SqsManagedSseEnabled") == true, "queue %s is not encrypted", q.name)
		p.want(!own || q.word("KmsMasterKeyId") == "<Key.Arn>", "queue %s does not use the customer key", q.name)
	}
	for _, b := range t.things(kindBucket) {
		rule := at(b.at("BucketEncryption", "ServerSideEncryptionConfiguration"), 0)
		with := word(at(rule, "ServerSideEncryptionByDefault", "SSEAlgorithm"))
		if own && b.name == "Evidence" {
			p.want(with == "aws:kms" && word(at(rule, "ServerSideEncryptionByDefault", "KMSMasterKeyID")) == "<Key.Arn>", "the evidence does not use the customer key")
			p.want(at(rule, "BucketKeyEnabled") == true, "every piece of evidence would be a call of KMS: the evidence has no bucket key")
			continue
		}
		p.want(with == "AES256", "bucket %s is not encrypted with S3's own key, but %q", b.name, with)
	}
	if !own {
		return p
	}
	for _, topic := range t.things(kindTopic) {
		p.want(topic.word("KmsMasterKeyId") == "<Key.Arn>", "topic %s does not use the customer key", topic.name)
	}
	for _, group := range t.things(kindLogs) {
		p.want(group.word("KmsKeyId") == "<Key.Arn>", "log group %s does not use the customer key", group.name)
	}
	for _, f := range t.things(kindFunction) {
		p.want(f.word("KmsKeyArn") == "<Key.Arn>", "the environment of %s does not use the customer key", f.name)
	}
	table := t.thing(kindTable, "Ledger")
	p.want(table.at("SSESpecification", "SSEEnabled") == true && word(table.at("Replicas", 0, "SSESpecification", "KMSMasterKeyId")) == "<Key.Arn>", "the table does not use the customer key")
	return p
}

// checkPlainHTTP asks of everything with a policy of its own to refuse what is not TLS.
func checkPlainHTTP(t template) []string {
	var p problems
	for kind, actions := range map[string]string{kindQueue: "sqs:*", kindTopic: "sns:Publish", kindBucket: "s3:*"} {
		for _, x := range t.things(kind) {
			resources := map[string][]string{
				kindQueue: {x.arn()}, kindTopic: {x.ref()}, kindBucket: {x.arn(), x.arn() + "/*"},
			}[kind]
			p.want(slices.ContainsFunc(t.on(x), func(s statement) bool {
				return s.effect == "Deny" && anyone(s.principal) && slices.Equal(s.actions, []string{actions}) &&
					slices.Equal(s.resources, resources) && s.condition == `{"Bool":{"aws:SecureTransport":"false"}}`
			}), "%s %s does not refuse plain HTTP", kind, x.name)
			p.want(kind != kindBucket || slices.ContainsFunc(t.on(x), func(s statement) bool {
				return s.effect == "Deny" && anyone(s.principal) && slices.Equal(s.actions, []string{actions}) &&
					slices.Equal(s.resources, resources) && s.condition == `{"NumericLessThan":{"s3:TlsVersion":1.2}}`
			}), "%s %s takes TLS of before 1.2", kind, x.name)
		}
	}
	return p
}

func anyone(principal string) bool { return principal == "*" || principal == `{"AWS":"*"}` }

// checkRetention asks for what keeps a message recoverable: a dead letter keeps the age
// that it had, so its queue must keep longer than the one that it comes from.
func checkRetention(t template) []string {
	var p problems
	const pages, letters = 4 * 24 * time.Hour, 14 * 24 * time.Hour
	for name, kept := range map[string]time.Duration{"Pages": pages, "ReportPages": pages, "DeadLetters": letters, "ScheduleDeadLetters": letters} {
		got := t.thing(kindQueue, name).number("MessageRetentionPeriod")
		p.want(got == kept.Seconds(), "queue %s keeps messages for %.0f seconds, want %.0f", name, got, kept.Seconds())
	}
	for _, q := range t.things(kindQueue) {
		target := t.target(q)
		p.want(target.name == "" || target.number("MessageRetentionPeriod") > q.number("MessageRetentionPeriod"),
			"dead letters of %s would end before they can be redriven", q.name)
	}
	return p
}

// target is the queue of a queue's dead letters, an empty thing without one.
func (t template) target(q thing) thing {
	for _, other := range t.things(kindQueue) {
		if q.word("RedrivePolicy", "deadLetterTargetArn") == other.arn() {
			return other
		}
	}
	return thing{}
}

// checkVisibility derives it from the function that reads the queue (SQ-07).
func checkVisibility(t template) []string {
	var p problems
	for _, m := range t.things(kindMapping) {
		for _, f := range t.things(kindFunction) {
			if m.word("FunctionName") != f.ref() {
				continue
			}
			for _, q := range t.things(kindQueue) {
				least := 6*f.number("Timeout") + max(m.number("MaximumBatchingWindowInSeconds"), 0)
				p.want(m.word("EventSourceArn") != q.arn() || q.number("VisibilityTimeout") >= least,
					"queue %s hides a message for %.0f seconds, and %s may run for %.0f: want %.0f", q.name, q.number("VisibilityTimeout"), f.name, f.number("Timeout"), least)
			}
		}
	}
	return p
}

// checkRedrive asks for SQS's own backstop behind the worker's attempts (SQ-08).
func checkRedrive(t template) []string {
	var p problems
	for _, name := range []string{"Pages", "ReportPages"} {
		q := t.thing(kindQueue, name)
		p.want(q.word("RedrivePolicy", "deadLetterTargetArn") == "<DeadLetters.Arn>", "queue %s has no dead letters", name)
		receives := q.number("RedrivePolicy", "maxReceiveCount")
		p.want(receives >= 5, "queue %s gives a message up after %.0f receives: throttled ones count too (SQ-08)", name, receives)
		p.want(receives == float64(t.config.Settings.MaxReceives), "queue %s gives a message up after %.0f receives; the functions reckon with %d", name, receives, t.config.Settings.MaxReceives)
	}
	for _, name := range []string{"DeadLetters", "ScheduleDeadLetters"} {
		p.want(t.thing(kindQueue, name).at("RedrivePolicy") == nil, "queue %s has dead letters of its own", name)
	}
	return p
}

// checkRedriveAllow asks for exactly the two queues of pages as sources of dead letters.
func checkRedriveAllow(t template) []string {
	var p problems
	allow := t.thing(kindQueue, "DeadLetters").at("RedriveAllowPolicy")
	p.want(word(at(allow, "redrivePermission")) == "byQueue", "any queue may send its dead letters to ours")
	stack := contract.StackName(t.config.Stage)
	var sources []string
	for _, name := range []string{"-pages", "-report-pages"} {
		sources = append(sources, "arn:aws:sqs:"+t.config.Region+":<AWS::AccountId>:"+stack+name)
	}
	p.equal("the sources of dead letters", words(at(allow, "sourceQueueArns")), sources)
	p.equal("the names of the queues of pages", []string{t.thing(kindQueue, "Pages").word("QueueName"), t.thing(kindQueue, "ReportPages").word("QueueName")},
		[]string{stack + "-pages", stack + "-report-pages"})
	p.want(t.thing(kindQueue, "ScheduleDeadLetters").word("RedriveAllowPolicy", "redrivePermission") == "denyAll", "a queue may send its dead letters to those of the schedules")
	return p
}

// checkSenders asks that nobody sends a page or a dead letter but who has to.
func checkSenders(t template) []string {
	var p problems
	starters := []string{"<EnqueueRole.Arn>", "<ReconcileRole.Arn>", "<RedriveRole.Arn>"}
	for name, senders := range map[string][]string{
		"Pages": starters, "ReportPages": starters, "DeadLetters": {"<WorkerRole.Arn>", "<ReportWorkerRole.Arn>", "<ReconcileRole.Arn>"},
	} {
		q := t.thing(kindQueue, name)
		want := map[string]any{
			"ArnNotEquals": map[string]any{"aws:PrincipalArn": toAny(senders)}, "BoolIfExists": map[string]any{"aws:PrincipalIsAWSService": "false"},
		}
		p.want(slices.ContainsFunc(t.on(q), func(s statement) bool {
			return s.effect == "Deny" && anyone(s.principal) && slices.Equal(s.actions, []string{"sqs:SendMessage"}) && slices.Equal(s.resources, []string{q.arn()}) && s.condition == word(want)
		}), "queue %s takes messages from others than %q", name, senders)
	}
	for _, q := range t.things(kindQueue) {
		for _, s := range t.on(q) {
			p.want(s.effect == "Deny", "the policy of queue %s allows %q to %s", q.name, s.actions, s.principal)
		}
	}
	return p
}

func toAny(items []string) []any {
	out := make([]any, len(items))
	for i := range items {
		out[i] = items[i]
	}
	return out
}

// checkMapping asks for what decides whether a failed message stays (SQ-04), and
// whether throttled polls cost attempts (SQ-08).
func checkMapping(t template) []string {
	var p problems
	var seen []string
	for _, m := range t.things(kindMapping) {
		seen = append(seen, m.word("EventSourceArn")+" to "+m.word("FunctionName"))
		p.equal(m.name+" reports", words(m.at("FunctionResponseTypes")), []string{"ReportBatchItemFailures"})
		most := m.number("ScalingConfig", "MaximumConcurrency")
		p.want(most >= 2 && most == float64(t.config.Settings.Concurrency), "%s runs at most %.0f at once", m.name, most)
		size, window := m.number("BatchSize"), m.number("MaximumBatchingWindowInSeconds")
		p.want(size >= 1 && (size <= 10 || window >= 1), "%s takes %.0f messages at once without a window", m.name, size)
		p.want(m.at("Enabled") != false, "%s is switched off", m.name)
	}
	p.equal("the mappings", seen, []string{"<Pages.Arn> to <Worker>", "<ReportPages.Arn> to <ReportWorker>"})
	return p
}

// checkTopics follows every alarm to its topic, and asks the topic whether CloudWatch
// may publish there: a policy that only denies takes the place of the default one, and
// then every alarm is lost in silence.
func checkTopics(t template) []string {
	var p problems
	account := `{"aws:SourceAccount":"<AWS::AccountId>"}`
	want := `{"ArnLike":{"aws:SourceArn":"arn:aws:cloudwatch:` + t.config.Region + `:<AWS::AccountId>:alarm:*"},"StringEquals":` + account + `}`
	var topics []string
	for _, topic := range t.things(kindTopic) {
		topics = append(topics, topic.ref())
		p.want(slices.ContainsFunc(t.on(topic), func(s statement) bool {
			return s.effect == "Allow" && s.principal == `{"Service":"cloudwatch.amazonaws.com"}` &&
				slices.Equal(s.actions, []string{"sns:Publish"}) && slices.Equal(s.resources, []string{topic.ref()}) && s.condition == want
		}), "CloudWatch may not publish to %s", topic.name)
		for _, s := range t.on(topic) {
			p.want(s.effect == "Deny" || s.principal == `{"Service":"cloudwatch.amazonaws.com"}`, "%s may publish to %s", s.principal, topic.name)
		}
	}
	p.equal("the topics", topics, []string{"<PageTopic>", "<TicketTopic>"})
	var got, to []string
	for _, s := range t.things("AWS::SNS::Subscription") {
		got = append(got, strings.Join([]string{s.word("TopicArn"), s.word("Protocol"), s.word("Endpoint")}, " "))
		p.want(s.at("RawMessageDelivery") == nil && s.at("FilterPolicy") == nil, "%s is not told of every alarm, or not as SNS says it: an incident tool confirms and reads SNS's own form", s.word("Endpoint"))
	}
	for topic, s := range map[string]Subscribers{"<PageTopic>": t.config.PageTo, "<TicketTopic>": t.config.TicketTo} {
		for _, email := range s.Emails {
			to = append(to, topic+" email "+email)
		}
		for _, url := range s.URLs {
			to = append(to, topic+" https "+url)
		}
	}
	p.equal("the subscriptions", got, to)
	for _, alarm := range t.things(kindAlarm) {
		actions := words(alarm.at("AlarmActions"))
		p.want(len(actions) > 0, "alarm %s tells nobody", alarm.name)
		for _, action := range actions {
			p.want(slices.Contains(topics, action), "alarm %s tells %s, which is no topic of the stack", alarm.name, action)
		}
		p.want(alarm.at("ActionsEnabled") != false, "the actions of alarm %s are switched off", alarm.name)
	}
	return p
}
