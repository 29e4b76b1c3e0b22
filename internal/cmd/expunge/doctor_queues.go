package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/report"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// queueAttributes returns all that SQS says of a queue.
func (r *deployment) queueAttributes(ctx context.Context, url string) (map[string]string, error) {
	ctx, done := r.config.Limit(ctx)
	defer done()
	out, err := sqs.NewFromConfig(r.config.Config).GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

func (r *deployment) queueARN(ctx context.Context, url string) (string, error) {
	all, err := r.queueAttributes(ctx, url)
	return all["QueueArn"], err
}

func lookAtQueues(ctx context.Context, a *area) {
	letters, err := a.r.queueAttributes(ctx, a.r.outputs.LettersQueue)
	if err != nil {
		a.queueFailed("dead letters", err)
	}
	for _, q := range []struct{ what, url, worker string }{
		{"pages", a.r.outputs.PagesQueue, a.r.outputs.Worker}, {"report pages", a.r.outputs.ReportQueue, a.r.outputs.ReportWorker},
	} {
		all, err := a.r.queueAttributes(ctx, q.url)
		if err != nil {
			a.queueFailed(q.what, err)
			continue
		}
		timeout := wholeSeconds(a.r.settings.FunctionTimeout)
		if c, err := a.r.configuration(ctx, q.worker); err == nil { // as it is, and not as it should be
			timeout = time.Duration(aws.ToInt32(c.Timeout)) * time.Second
		}
		a.source(q.what, all, letters, timeout)
	}
	if letters != nil {
		a.encrypted("dead letters", letters)
		a.ok("dead letters", counted(letters)+"; each is kept for "+span(attributeSeconds(letters, "MessageRetentionPeriod")))
	}
}

func (a *area) queueFailed(what string, err error) {
	if code := sdk.Code(err); code == "QueueDoesNotExist" || code == "AWS.SimpleQueueService.NonExistentQueue" {
		a.problem(what, "there is no such queue", redeploy)
		return
	}
	a.failed(what, err)
}

// source looks at a queue of pages and at its relation to the dead letters.
func (a *area) source(what string, all, letters map[string]string, timeout time.Duration) {
	before := len(a.lines)
	if hidden := attributeSeconds(all, "VisibilityTimeout"); hidden < 6*timeout {
		a.problem(what, "a message is hidden for "+span(hidden)+", and its worker may run for "+span(timeout)+": it comes again while it is worked on", "give the queue a visibility timeout of "+span(6*timeout)+" or more: "+redeploy)
	}
	a.redrivePolicy(what, all, letters)
	source, dead := attributeSeconds(all, "MessageRetentionPeriod"), attributeSeconds(letters, "MessageRetentionPeriod")
	if letters != nil && dead <= source {
		a.problem(what, "a message is kept for "+span(source)+" here and for "+span(dead)+" among the dead letters, counted from its first day: it may be gone as soon as it dies",
			"keep dead letters for longer, "+span(a.r.settings.DeadLetterRetention)+" as the stack does: "+redeploy)
	}
	a.encrypted(what, all)
	if len(a.lines) == before {
		a.ok(what, counted(all)+"; a message is hidden for "+span(attributeSeconds(all, "VisibilityTimeout"))+" and kept for "+span(source))
	}
}

func (a *area) redrivePolicy(what string, all, letters map[string]string) {
	var to struct {
		Target string `json:"deadLetterTargetArn"`
		Most   int    `json:"maxReceiveCount"`
	}
	least := 2 * a.r.settings.MaxAttempts
	switch {
	case all["RedrivePolicy"] == "":
		a.problem(what, "it has no dead-letter queue: a message that nobody can settle comes again until it expires", redeploy)
	case json.Unmarshal([]byte(all["RedrivePolicy"]), &to) != nil:
		a.problem(what, "its redrive policy does not read", redeploy)
	case letters != nil && to.Target != letters["QueueArn"]:
		a.problem(what, "its dead letters go to "+to.Target+", where this deployment does not look", redeploy)
	case to.Most < least:
		a.problem(what, "a message is a dead letter after "+report.Count(to.Most, "receive")+": throttled ones count too, so it takes "+strconv.Itoa(least)+" at least", redeploy)
	}
}

func (a *area) encrypted(what string, all map[string]string) {
	if all["SqsManagedSseEnabled"] != "true" && all["KmsMasterKeyId"] == "" {
		a.problem(what, "its messages are not encrypted where they lie", redeploy)
	}
}

// counted says how many messages a queue holds, about.
func counted(all map[string]string) string {
	n := func(name string) string {
		count, _ := strconv.ParseInt(all["ApproximateNumberOfMessages"+name], 10, 64)
		return report.Group(count)
	}
	return "about " + n("") + " visible, " + n("NotVisible") + " in flight, " + n("Delayed") + " delayed"
}

func attributeSeconds(all map[string]string, name string) time.Duration {
	n, _ := strconv.ParseInt(all[name], 10, 32) // SQS's own number
	return time.Duration(n) * time.Second
}

// lookAtLedger looks at the table that everything is proved by.
func lookAtLedger(ctx context.Context, a *area) {
	ctx, done := a.r.config.Limit(ctx)
	defer done()
	client, name := dynamodb.NewFromConfig(a.r.config.Config), a.r.outputs.Table
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	switch {
	case sdk.Code(err) == "ResourceNotFoundException":
		a.problem(name, "there is no such table", "restore it from its backup; a new one would know of nothing that was deleted")
		return
	case err != nil || out.Table == nil:
		a.failed(name, err)
		return
	}
	if status := out.Table.TableStatus; status == ddbtypes.TableStatusActive {
		a.ok(name, "active, about "+report.Count(int(aws.ToInt64(out.Table.ItemCount)), "row"))
	} else {
		a.problem(name, "it is "+string(status), "wait until it is active")
	}
	switch protected := out.Table.DeletionProtectionEnabled; {
	case protected == nil:
		a.note(healthSkipped, name, "the service does not say whether it is protected from deletion", "")
	case *protected:
		a.ok(name, "protected from deletion")
	default:
		a.problem(name, "it can be deleted, and with it what every run has done", redeploy)
	}
	backups, err := client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &name})
	if err != nil {
		a.failed(name+", point-in-time recovery", err)
		return
	}
	if d := backups.ContinuousBackupsDescription; d != nil && d.PointInTimeRecoveryDescription != nil &&
		d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == ddbtypes.PointInTimeRecoveryStatusEnabled {
		a.ok(name, "point-in-time recovery is on")
		return
	}
	a.problem(name, "point-in-time recovery is off: a mistake in it can not be taken back", redeploy)
}

// lookAtTopics looks at whether an alarm reaches anybody.
func lookAtTopics(ctx context.Context, a *area) {
	for _, t := range []struct{ what, arn string }{{"pages somebody", a.r.outputs.PageTopic}, {"opens a ticket", a.r.outputs.TicketTopic}} {
		if t.arn == "" {
			a.note(healthSkipped, "the topic that "+t.what, "this deployment has none", "")
			continue
		}
		a.topic(ctx, "the topic that "+t.what, t.arn)
	}
}

func (a *area) topic(ctx context.Context, what, arn string) {
	ctx, done := a.r.config.Limit(ctx)
	defer done()
	heard, pending, token := map[string]int{}, 0, (*string)(nil)
	for {
		out, err := sns.NewFromConfig(a.r.config.Config).ListSubscriptionsByTopic(ctx, &sns.ListSubscriptionsByTopicInput{TopicArn: &arn, NextToken: token})
		if sdk.Code(err) == "NotFound" {
			a.problem(what, "there is no such topic: the alarms tell nobody", redeploy)
			return
		}
		if err != nil {
			a.failed(what, err)
			return
		}
		for _, s := range out.Subscriptions {
			if aws.ToString(s.SubscriptionArn) == "PendingConfirmation" {
				pending++
			} else {
				heard[aws.ToString(s.Protocol)]++
			}
		}
		if token = out.NextToken; token == nil {
			break
		}
	}
	switch {
	case len(heard) == 0 && pending == 0:
		a.problem(what, "nobody is subscribed: the alarms tell nobody", "subscribe whoever is on call to "+arn)
	case len(heard) == 0:
		a.problem(what, report.Count(pending, "subscription")+" not confirmed: the alarms tell nobody", "open the link in the message that SNS has sent, or subscribe again")
	case pending > 0:
		a.warning(what, hearing(heard)+" hear of it; "+report.Count(pending, "subscription")+" not confirmed", "open the link in the message that SNS has sent, or subscribe again")
	default:
		a.ok(what, hearing(heard)+" hear of it")
	}
}

// hearing says how many subscriptions there are, by protocol. The addresses are
// people's, and are not told.
func hearing(by map[string]int) string {
	var all []string
	for _, protocol := range slices.Sorted(maps.Keys(by)) {
		all = append(all, strconv.Itoa(by[protocol])+" by "+protocol)
	}
	return strings.Join(all, ", ")
}
