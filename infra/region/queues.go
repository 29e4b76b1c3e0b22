package region

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

// newQueues declares the two queues of pages, their dead letters, and those of the
// schedules. Queues are transport and the ledger is the truth, so they go with the stack.
func (p *parts) newQueues() queues {
	// The dead letters name the queues they serve and each of those names the dead
	// letters: by reference that is a circle, so the names are fixed.
	pages, report := p.name("pages"), p.name("report-pages")
	letters := p.newQueue("DeadLetters", p.name("dead-letters"), p.Settings.DeadLetterRetention, &awssqs.QueueProps{
		RedriveAllowPolicy: &awssqs.RedriveAllowPolicy{
			RedrivePermission: awssqs.RedrivePermission_BY_QUEUE,
			SourceQueues:      &[]awssqs.IQueue{p.named("PagesByName", pages), p.named("ReportPagesByName", report)},
		},
	})
	dead := &awssqs.DeadLetterQueue{Queue: letters, MaxReceiveCount: jsii.Number(float64(p.Settings.MaxReceives))}
	return queues{
		Pages:   p.newQueue("Pages", pages, p.Settings.SourceRetention, &awssqs.QueueProps{DeadLetterQueue: dead, VisibilityTimeout: duration(p.Visibility)}),
		Report:  p.newQueue("ReportPages", report, p.Settings.SourceRetention, &awssqs.QueueProps{DeadLetterQueue: dead, VisibilityTimeout: duration(p.Visibility)}),
		Letters: letters,
		ScheduleLetters: p.newQueue("ScheduleDeadLetters", p.name("schedule-dead-letters"), p.Settings.DeadLetterRetention, &awssqs.QueueProps{
			RedriveAllowPolicy: &awssqs.RedriveAllowPolicy{RedrivePermission: awssqs.RedrivePermission_DENY_ALL},
		}),
	}
}

// newQueue declares a queue. Every one is encrypted and refuses plain HTTP.
func (p *parts) newQueue(id, name string, kept time.Duration, props *awssqs.QueueProps) awssqs.Queue {
	props.QueueName, props.RetentionPeriod, props.EnforceSSL = &name, duration(kept), jsii.Bool(true)
	props.Encryption = awssqs.QueueEncryption_SQS_MANAGED
	if p.Key != nil {
		props.Encryption, props.EncryptionMasterKey = awssqs.QueueEncryption_KMS, p.Key
	}
	props.RemovalPolicy = awscdk.RemovalPolicy_DESTROY
	return awssqs.NewQueue(p.Stack, &id, props)
}

// named is a queue of this stack by its name.
func (p *parts) named(id, name string) awssqs.IQueue {
	return awssqs.Queue_FromQueueArn(p.Stack, &id, p.FormatArn(&awscdk.ArnComponents{Service: jsii.String("sqs"), Resource: &name}))
}

// refuseSenders denies sending to everybody but the functions that have to. A message
// carries no authority, but a forged one still costs an attempt; and a redrive from the
// console, which passes no gate, ends here.
func (p *parts) refuseSenders() {
	starters := []awslambda.Function{p.Enqueue, p.Reconcile, p.Redrive}
	p.onlyFrom(p.Pages, starters)
	p.onlyFrom(p.Report, starters)
	p.onlyFrom(p.Letters, []awslambda.Function{p.Worker, p.ReportWorker, p.Reconcile})
}

func (p *parts) onlyFrom(q awssqs.Queue, senders []awslambda.Function) {
	var roles []*string
	for _, f := range senders {
		roles = append(roles, f.Role().RoleArn())
	}
	q.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("OnlyFromTheFunctions"), Effect: awsiam.Effect_DENY,
		Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()}, Actions: list("sqs:SendMessage"), Resources: &[]*string{q.QueueArn()},
		Conditions: &map[string]any{
			"ArnNotEquals": map[string]any{"aws:PrincipalArn": roles},
			// SQS itself moves what was received too often; no other service is allowed to send.
			"BoolIfExists": map[string]any{"aws:PrincipalIsAWSService": "false"},
		},
	}))
}

// attach lets Lambda's poller hand the pages to the workers.
func (p *parts) attach() {
	for _, a := range []struct {
		id    string
		queue awssqs.Queue
		to    awslambda.Function
	}{{"PagesToWorker", p.Pages, p.Worker}, {"ReportPagesToWorker", p.Report, p.ReportWorker}} {
		props := &awslambda.EventSourceMappingProps{
			Target: a.to, EventSourceArn: a.queue.QueueArn(), BatchSize: jsii.Number(float64(p.BatchSize)),
			// Without this the messages that a batch could not settle would be deleted with the others.
			ReportBatchItemFailures: jsii.Bool(true),
			// A limit here, and none reserved on the function: a poller that fetches more
			// than the function may run spends receives (SQS AWS guide, SQ-08).
			MaxConcurrency: jsii.Number(float64(p.Settings.Concurrency)),
		}
		if p.BatchWindow > 0 {
			props.MaxBatchingWindow = duration(p.BatchWindow)
		}
		awslambda.NewEventSourceMapping(p.Stack, &a.id, props)
	}
}

// newTopics declares where alarms go.
func (p *parts) newTopics() topics {
	return topics{Page: p.newTopic("PageTopic", p.PageTo), Ticket: p.newTopic("TicketTopic", p.TicketTo)}
}

// newTopic declares a topic that CloudWatch can really publish to. A topic that
// refuses plain HTTP has a policy of its own, which takes the place of the default one:
// without the second statement every alarm would be lost in silence.
func (p *parts) newTopic(id string, s Subscribers) awssns.Topic {
	t := awssns.NewTopic(p.Stack, &id, &awssns.TopicProps{EnforceSSL: jsii.Bool(true), MasterKey: p.Key})
	t.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("AlarmsMayPublish"), Actions: list("sns:Publish"), Resources: &[]*string{t.TopicArn()},
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Conditions: &map[string]any{
			"StringEquals": map[string]any{"aws:SourceAccount": p.Account()},
			"ArnLike": map[string]any{"aws:SourceArn": p.FormatArn(&awscdk.ArnComponents{
				Service: jsii.String("cloudwatch"), Resource: jsii.String("alarm"), ResourceName: jsii.String("*"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
			})},
		},
	}))
	for i := range s.Emails {
		t.AddSubscription(awssnssubscriptions.NewEmailSubscription(&s.Emails[i], nil))
	}
	for i := range s.URLs {
		t.AddSubscription(awssnssubscriptions.NewUrlSubscription(&s.URLs[i], &awssnssubscriptions.UrlSubscriptionProps{Protocol: awssns.SubscriptionProtocol_HTTPS}))
	}
	return t
}
