package conformance

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func sqsQueues() []check[*sqsSuite] {
	return []check[*sqsSuite]{
		sqsCheck("CreateQueue same name other attributes -> QueueNameExists", func(c *sqsSuite, t *testing.T) {
			n := name("q")
			url := c.newQueue(t, c.Client, n, map[string]string{"VisibilityTimeout": "10"})
			again := must(c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &n, Attributes: map[string]string{"VisibilityTimeout": "10"}}))(t)
			if *again.QueueUrl != url {
				t.Errorf("made %s, then %s", url, *again.QueueUrl)
			}
			_, err := c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &n, Attributes: map[string]string{"VisibilityTimeout": "20"}})
			wantCode(t, err, "QueueAlreadyExists", "QueueNameExists")
		}),
		sqsCheck("queue attributes checked, set and returned", (*sqsSuite).queueAttributes),
		sqsCheck("queue attributes by name: counts, times, redrive, keys and policy", (*sqsSuite).namedAttributes),
		sqsCheck("GetQueueUrl finds a queue, and says when there is none", (*sqsSuite).queueURL),
		sqsCheck("PurgeQueue, DeleteQueue, ListQueues prefix", (*sqsSuite).queueLife),
		sqsCheck("ListQueues in pages", (*sqsSuite).queuePages),
		sqsCheck("queue tags", (*sqsSuite).queueTags),
		sqsCheck("regions separate: same name in eu-west-1 is another queue", func(c *sqsSuite, t *testing.T) {
			n := name("q")
			here, there := c.newQueue(t, c.Client, n, nil), c.newQueue(t, c.abroad, n, nil)
			c.send(t, here, "us")
			out := must(c.abroad.ReceiveMessage(t.Context(), everything(there, 1, 1)))(t)
			if len(out.Messages) != 0 {
				t.Error("a message of one region shows in another")
			}
			if arn := c.attributes(t, c.abroad, there)["QueueArn"]; !strings.Contains(arn, ":"+other+":") {
				t.Errorf("the queue in %s is %s", other, arn)
			}
			c.one(t, here, "in its own region")
		}),
	}
}

func (c *sqsSuite) queueAttributes(t *testing.T) {
	ctx := t.Context()
	for attribute, bad := range map[string]string{
		"VisibilityTimeout": "43201", "DelaySeconds": "901", "MessageRetentionPeriod": "59", "MaximumMessageSize": "1048577",
		"ReceiveMessageWaitTimeSeconds": "21", "SqsManagedSseEnabled": "perhaps", "Policy": "no JSON",
	} {
		_, err := c.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(name("q")), Attributes: map[string]string{attribute: bad}})
		wantCode(t, err, "InvalidAttributeValue")
	}
	url := c.queue(t, nil)
	set := map[string]string{"VisibilityTimeout": "360", "MessageRetentionPeriod": "1209600", "DelaySeconds": "1", "ReceiveMessageWaitTimeSeconds": "2", "MaximumMessageSize": "2048"}
	must(c.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: set}))(t)
	all := c.attributes(t, c.Client, url)
	for attribute, want := range set {
		if all[attribute] != want {
			t.Errorf("%s is %q, want %q", attribute, all[attribute], want)
		}
	}
	for _, attribute := range []string{"QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"} {
		if all[attribute] == "" {
			t.Errorf("no %s", attribute)
		}
	}
	_, err := c.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{"FifoQueue": "true"}})
	wantCode(t, err, "InvalidAttributeName")
	_, err = c.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{"Nonsense"}})
	wantCode(t, err, "InvalidAttributeName")
}

// namedAttributes asks what a tool needs to know of a queue that it did not make.
// What a queue does not have is left out of the answer.
func (c *sqsSuite) namedAttributes(t *testing.T) {
	letters := c.queue(t, map[string]string{"MessageRetentionPeriod": "1209600", "RedriveAllowPolicy": `{"redrivePermission":"allowAll"}`})
	target := c.arn(t, letters)
	url := c.queue(t, map[string]string{"VisibilityTimeout": "360", "RedrivePolicy": redrivePolicy(target, 10), "KmsMasterKeyId": "alias/aws/sqs"})
	names := []types.QueueAttributeName{
		"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed",
		"VisibilityTimeout", "MessageRetentionPeriod", "RedrivePolicy", "RedriveAllowPolicy", "SqsManagedSseEnabled", "KmsMasterKeyId", "QueueArn", "Policy",
	}
	get := func(url string) map[string]string {
		t.Helper()
		return must(c.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names}))(t).Attributes
	}
	want := map[string]string{
		"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "0", "ApproximateNumberOfMessagesDelayed": "0",
		"VisibilityTimeout": "360", "MessageRetentionPeriod": "345600", "RedrivePolicy": redrivePolicy(target, 10),
		"SqsManagedSseEnabled": "false", "KmsMasterKeyId": "alias/aws/sqs", "QueueArn": c.arn(t, url),
	}
	if got := get(url); !maps.Equal(got, want) {
		t.Errorf("the queue has %v, want %v", got, want)
	}
	want = map[string]string{
		"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "0", "ApproximateNumberOfMessagesDelayed": "0",
		"VisibilityTimeout": "30", "MessageRetentionPeriod": "1209600", "RedriveAllowPolicy": `{"redrivePermission":"allowAll"}`,
		"SqsManagedSseEnabled": "true", "QueueArn": target,
	}
	if got := get(letters); !maps.Equal(got, want) {
		t.Errorf("the dead letter queue has %v, want %v", got, want)
	}
	policy := `{"Version":"2012-10-17","Statement":[{"Sid":"tls","Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"` + target +
		`","Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}`
	must(c.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &letters, Attributes: map[string]string{"Policy": policy}}))(t)
	if got := get(letters)["Policy"]; !strings.Contains(got, "aws:SecureTransport") {
		t.Errorf("the policy is %q", got)
	}
}

func (c *sqsSuite) queueURL(t *testing.T) {
	n := name("q")
	_, err := c.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &n})
	var none *types.QueueDoesNotExist
	if !errors.As(err, &none) {
		t.Errorf("a queue that is not there: %v", err)
	}
	url := c.newQueue(t, c.Client, n, nil)
	if got := must(c.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &n}))(t).QueueUrl; *got != url {
		t.Errorf("got %s, want %s", *got, url)
	}
	_, err = c.abroad.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &n})
	if !errors.As(err, &none) {
		t.Errorf("a queue of another region: %v", err)
	}
}

func (c *sqsSuite) queueLife(t *testing.T) {
	ctx, n := t.Context(), name("life")
	url := *must(c.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &n}))(t).QueueUrl
	c.send(t, url, "b")
	listed := func() bool {
		out := must(c.ListQueues(ctx, &sqs.ListQueuesInput{QueueNamePrefix: &n}))(t)
		return slices.Contains(out.QueueUrls, url)
	}
	if !within(soon*1e9, listed) {
		t.Error("not listed")
	}
	must(c.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &url}))(t)
	c.wantCounts(t, url, "purged", 0, 0, 0)
	_, err := c.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &url})
	wantCode(t, err, "AWS.SimpleQueueService.PurgeQueueInProgress", "PurgeQueueInProgress")
	must(c.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url}))(t)
	if !within(60*1e9, func() bool { // AWS takes up to a minute
		_, err = c.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("x")})
		var gone *types.QueueDoesNotExist
		return errors.As(err, &gone)
	}) {
		t.Errorf("a send to a deleted queue: %v", err)
	}
	if listed() {
		t.Error("a deleted queue is listed")
	}
}

func (c *sqsSuite) queuePages(t *testing.T) {
	prefix := name("page")
	var want, got []string
	for _, suffix := range []string{"-a", "-b", "-c"} {
		want = append(want, c.newQueue(t, c.Client, prefix+suffix, nil))
	}
	in := &sqs.ListQueuesInput{QueueNamePrefix: &prefix, MaxResults: aws.Int32(2)}
	if !within(soon*1e9, func() bool {
		got, in.NextToken = nil, nil
		pages := sqs.NewListQueuesPaginator(c.Client, in)
		for pages.HasMorePages() {
			page := must(pages.NextPage(t.Context()))(t)
			if len(page.QueueUrls) > 2 {
				t.Fatalf("%d queues on a page of 2", len(page.QueueUrls))
			}
			got = append(got, page.QueueUrls...)
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	}) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

func (c *sqsSuite) queueTags(t *testing.T) {
	ctx := t.Context()
	n := name("q")
	url := *must(c.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &n, Tags: map[string]string{"made": "by-test"}}))(t).QueueUrl
	t.Cleanup(func() { _, _ = c.DeleteQueue(background(), &sqs.DeleteQueueInput{QueueUrl: &url}) })
	must(c.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: &url, Tags: map[string]string{"stage": "local", "other": "1"}}))(t)
	must(c.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: &url, TagKeys: []string{"other"}}))(t)
	if tags := must(c.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: &url}))(t).Tags; len(tags) != 2 || tags["made"] != "by-test" || tags["stage"] != "local" {
		t.Errorf("got tags %v", tags)
	}
}
