package conformance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func sqsLetters() []check[*sqsSuite] {
	return []check[*sqsSuite]{
		sqsCheck("DLQ: maxReceiveCount=2, third receive returns nothing, message in DLQ with same id/body/SentTimestamp", (*sqsSuite).becomesLetter),
		sqsCheck("DLQ message: ApproximateReceiveCount keeps counting across queues", func(c *sqsSuite, t *testing.T) {
			url, letters := c.withLetters(t, 1, nil)
			c.send(t, url, "b")
			_, dead := c.exhaust(t, url, letters, 1)
			if got := dead.Attributes["ApproximateReceiveCount"]; got != "2" {
				t.Errorf("the receive count among the dead letters is %q after one receive before", got)
			}
		}),
		sqsCheck("DLQ message has DeadLetterQueueSourceArn", func(c *sqsSuite, t *testing.T) {
			url, letters := c.withLetters(t, 1, nil)
			c.send(t, url, "b")
			_, dead := c.exhaust(t, url, letters, 1)
			if got, want := dead.Attributes["DeadLetterQueueSourceArn"], c.arn(t, url); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}),
		sqsCheck("DLQ move also happens when Change(0) makes it visible", func(c *sqsSuite, t *testing.T) {
			url, letters := c.withLetters(t, 1, map[string]string{"VisibilityTimeout": "30"})
			c.send(t, url, "b")
			c.exhaust(t, url, letters, 1)
		}),
		sqsCheck("RedrivePolicy validated (missing DLQ / bad maxReceiveCount refused)", func(c *sqsSuite, t *testing.T) {
			arn := c.arn(t, c.queue(t, nil))
			for what, policy := range map[string]string{
				"no such queue":  redrivePolicy(arn+"-not-there", 3),
				"0 receives":     redrivePolicy(arn, 0),
				"1,001 receives": redrivePolicy(arn, 1001),
				"no count":       `{"deadLetterTargetArn":"` + arn + `"}`,
				"no JSON":        "{",
			} {
				_, err := c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(name("q")), Attributes: map[string]string{"RedrivePolicy": policy}})
				if err == nil {
					t.Errorf("%s was accepted", what)
					continue
				}
				wantCode(t, err, "InvalidParameterValue", "InvalidAttributeValue", "AWS.SimpleQueueService.NonExistentQueue")
			}
		}),
		sqsCheck("RedriveAllowPolicy stored, returned and enforced", (*sqsSuite).allowPolicy),
		sqsCheck("ListDeadLetterSourceQueues", func(c *sqsSuite, t *testing.T) {
			url, letters := c.withLetters(t, 3, nil)
			out := must(c.ListDeadLetterSourceQueues(t.Context(), &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &letters}))(t)
			if len(out.QueueUrls) != 1 || out.QueueUrls[0] != url {
				t.Errorf("got %v, want %s", out.QueueUrls, url)
			}
		}),
		sqsCheck("RD-01 a dead letter keeps its times and its count", func(c *sqsSuite, t *testing.T) {
			url, letters := c.withLetters(t, 2, nil)
			c.send(t, url, "b")
			last, dead := c.exhaust(t, url, letters, 2)
			for _, attribute := range []string{"SentTimestamp", "ApproximateFirstReceiveTimestamp"} {
				if dead.Attributes[attribute] != last.Attributes[attribute] || dead.Attributes[attribute] == "" {
					t.Errorf("%s was %s and is %s", attribute, last.Attributes[attribute], dead.Attributes[attribute])
				}
			}
			if got := dead.Attributes["ApproximateReceiveCount"]; got != "3" {
				t.Errorf("received %s times, want 3", got)
			}
		}),
	}
}

func (c *sqsSuite) becomesLetter(t *testing.T) {
	url, letters := c.withLetters(t, 2, oneSecond())
	id := *must(c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("b"), MessageAttributes: text("key", "v")}))(t).MessageId
	var sent string
	for i := range 2 {
		m := c.one(t, url, "receive "+strconv.Itoa(i+1))
		sent = m.Attributes["SentTimestamp"]
	}
	if got := c.receive(t, url, 2, 1); len(got) != 0 {
		t.Fatal("the third receive returned it")
	}
	dead := c.one(t, letters, "among the dead letters")
	if *dead.MessageId != id || *dead.Body != "b" || dead.Attributes["SentTimestamp"] != sent {
		t.Errorf("message %s sent at %s became %+v", id, sent, dead)
	}
	wantAttributes(t, dead.MessageAttributes, text("key", "v"))
}

func (c *sqsSuite) allowPolicy(t *testing.T) {
	letters := c.queue(t, map[string]string{"RedriveAllowPolicy": `{"redrivePermission":"denyAll"}`})
	arn := c.arn(t, letters)
	if got := c.attributes(t, c.Client, letters)["RedriveAllowPolicy"]; !strings.Contains(got, "denyAll") {
		t.Errorf("the policy is %q", got)
	}
	in := &sqs.CreateQueueInput{QueueName: aws.String(name("q")), Attributes: map[string]string{"RedrivePolicy": redrivePolicy(arn, 3)}}
	_, err := c.CreateQueue(t.Context(), in)
	wantCode(t, err, "InvalidParameterValue", "InvalidAttributeValue")
	source := c.queue(t, nil)
	allow := fmt.Sprintf(`{"redrivePermission":"byQueue","sourceQueueArns":[%q]}`, c.arn(t, source))
	must(c.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &letters, Attributes: map[string]string{"RedriveAllowPolicy": allow}}))(t)
	must(c.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &source, Attributes: in.Attributes}))(t)
	_, err = c.CreateQueue(t.Context(), in)
	wantCode(t, err, "InvalidParameterValue", "InvalidAttributeValue")
}

func sqsRedrive() []check[*sqsSuite] {
	return []check[*sqsSuite]{
		sqsCheck("StartMessageMoveTask + ListMessageMoveTasks", (*sqsSuite).moveTask),
		sqsCheck("RD-03 a redriven message has a new id, time and count", func(c *sqsSuite, t *testing.T) {
			url, letters := c.withLetters(t, 1, nil)
			id := c.send(t, url, "b")
			_, dead := c.exhaust(t, url, letters, 1)
			c.hide(t, letters, dead, 0)
			c.moveAll(t, letters, types.ListMessageMoveTasksResultEntry{Status: aws.String("COMPLETED"), ApproximateNumberOfMessagesMoved: 1})
			m := c.one(t, url, "redriven")
			if *m.MessageId == id || *m.Body != "b" || m.Attributes["DeadLetterQueueSourceArn"] != "" {
				t.Errorf("message %s became %+v", id, m)
			}
			sent := func(m types.Message) int64 { return must(strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64))(t) }
			if sent(m) <= sent(dead) || m.Attributes["ApproximateReceiveCount"] != "1" {
				t.Errorf("sent at %d, redriven at %d, received %s times", sent(dead), sent(m), m.Attributes["ApproximateReceiveCount"])
			}
			c.hide(t, url, m, 0)
			c.none(t, url, "received as often as it may be") // its count began anew, and ends the same
		}),
		sqsCheck("RD-04 ten attributes survive the DLQ and the redrive", func(c *sqsSuite, t *testing.T) {
			url, letters := c.withLetters(t, 1, nil)
			want := tenAttributes()
			must(c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("b"), MessageAttributes: want}))(t)
			_, dead := c.exhaust(t, url, letters, 1)
			wantAttributes(t, dead.MessageAttributes, want)
			c.hide(t, letters, dead, 0)
			c.moveAll(t, letters, types.ListMessageMoveTasksResultEntry{Status: aws.String("COMPLETED"), ApproximateNumberOfMessagesMoved: 1})
			wantAttributes(t, c.one(t, url, "redriven").MessageAttributes, want)
		}),
		sqsCheck("RD-05 a dead letter without an origin stays where it is", func(c *sqsSuite, t *testing.T) {
			_, letters := c.withLetters(t, 1, nil)
			c.send(t, letters, "sent here by somebody")
			c.moveAll(t, letters, types.ListMessageMoveTasksResultEntry{Status: aws.String("FAILED"), FailureReason: aws.String("CouldNotDetermineMessageSource")})
			if m := c.one(t, letters, "after the failed move"); m.Attributes["DeadLetterQueueSourceArn"] != "" {
				t.Errorf("it has an origin: %v", m.Attributes)
			}
		}),
		sqsCheck("move tasks: one at a time, cancelled, refused", (*sqsSuite).moveTaskRefused),
	}
}

// bury receives what is in the queue until n messages are dead letters.
func (c *sqsSuite) bury(t *testing.T, url, letters string, n int) {
	t.Helper()
	if !within(2*soon*time.Second, func() bool {
		for _, m := range c.receive(t, url, 0, 10) {
			c.hide(t, url, m, 0)
		}
		return c.counts(t, letters)[0] == n
	}) {
		t.Fatalf("%v dead letters, want %d", c.counts(t, letters), n)
	}
}

// moveAll starts a task and waits for its end.
func (c *sqsSuite) moveAll(t *testing.T, letters string, want types.ListMessageMoveTasksResultEntry) {
	t.Helper()
	arn := c.arn(t, letters)
	must(c.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: &arn, MaxNumberOfMessagesPerSecond: aws.Int32(50)}))(t)
	var got types.ListMessageMoveTasksResultEntry
	if !within(60*time.Second, func() bool { // AWS takes its time to begin
		got = c.newestTask(t, arn)
		return *got.Status != "RUNNING"
	}) || *got.Status != *want.Status || got.ApproximateNumberOfMessagesMoved != want.ApproximateNumberOfMessagesMoved ||
		aws.ToString(got.FailureReason) != aws.ToString(want.FailureReason) {
		t.Errorf("the task ended %s (%s), moved %d", aws.ToString(got.Status), aws.ToString(got.FailureReason), got.ApproximateNumberOfMessagesMoved)
	}
	if got.TaskHandle != nil {
		t.Error("a task that has ended has a handle")
	}
}

func (c *sqsSuite) newestTask(t *testing.T, arn string) types.ListMessageMoveTasksResultEntry {
	t.Helper()
	out := must(c.ListMessageMoveTasks(t.Context(), &sqs.ListMessageMoveTasksInput{SourceArn: &arn}))(t)
	if len(out.Results) != 1 {
		t.Fatalf("%d tasks are listed, want the newest", len(out.Results))
	}
	return out.Results[0]
}

func (c *sqsSuite) moveTask(t *testing.T) {
	url, letters := c.withLetters(t, 1, nil)
	c.sendAll(t, url, "1", "2", "3", "4", "5")
	c.bury(t, url, letters, 5)
	c.moveAll(t, letters, types.ListMessageMoveTasksResultEntry{Status: aws.String("COMPLETED"), ApproximateNumberOfMessagesMoved: 5})
	c.wantCounts(t, url, "moved back", 5, 0, 0)
	c.wantCounts(t, letters, "moved away", 0, 0, 0)
}

func (c *sqsSuite) moveTaskRefused(t *testing.T) {
	ctx := t.Context()
	url, letters := c.withLetters(t, 1, nil)
	source, arn := c.arn(t, url), c.arn(t, letters)
	_, err := c.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: &source})
	wantCode(t, err, "InvalidParameterValue")
	_, err = c.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: aws.String(arn + "-not-there")})
	wantCode(t, err, "ResourceNotFoundException")
	_, err = c.CancelMessageMoveTask(ctx, &sqs.CancelMessageMoveTaskInput{TaskHandle: aws.String("garbage")})
	wantCode(t, err, "InvalidParameterValue")
	c.sendAll(t, url, "1", "2", "3", "4", "5", "6", "7", "8", "9")
	c.bury(t, url, letters, 9)
	in := &sqs.StartMessageMoveTaskInput{SourceArn: &arn, MaxNumberOfMessagesPerSecond: aws.Int32(1)}
	task := must(c.StartMessageMoveTask(ctx, in))(t)
	_, err = c.StartMessageMoveTask(ctx, in)
	wantCode(t, err, "InvalidParameterValue", "AWS.SimpleQueueService.UnsupportedOperation")
	must(c.CancelMessageMoveTask(ctx, &sqs.CancelMessageMoveTaskInput{TaskHandle: task.TaskHandle}))(t)
	var got types.ListMessageMoveTasksResultEntry
	if !within(60*time.Second, func() bool {
		got = c.newestTask(t, arn)
		return *got.Status == "CANCELLED"
	}) || got.ApproximateNumberOfMessagesMoved > 8 {
		t.Errorf("the task is %s and moved %d", *got.Status, got.ApproximateNumberOfMessagesMoved)
	}
}

func sqsRetention(wait func(time.Duration)) []check[*sqsSuite] {
	return []check[*sqsSuite]{
		{"retention: message older than MessageRetentionPeriod=60 vanishes (65 s)", func(t *testing.T, c *sqsSuite) {
			url := c.queue(t, map[string]string{"MessageRetentionPeriod": "60"})
			c.send(t, url, "b")
			wait(63 * time.Second)
			c.none(t, url, "past its retention")
		}},
		{"RD-01 DLQ does not restart retention", func(t *testing.T, c *sqsSuite) {
			url, letters := c.withLetters(t, 1, map[string]string{"MessageRetentionPeriod": "60"})
			must(c.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &letters, Attributes: map[string]string{"MessageRetentionPeriod": "120"}}))(t)
			c.send(t, url, "b")
			wait(45 * time.Second) // of the 120 that it has in all
			_, dead := c.exhaust(t, url, letters, 1)
			c.hide(t, letters, dead, 0)
			wait(60 * time.Second)
			c.hide(t, letters, c.one(t, letters, "past its first queue's retention"), 0)
			wait(20 * time.Second)
			c.none(t, letters, "past its retention since it was sent")
		}},
	}
}
