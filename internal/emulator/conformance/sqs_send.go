package conformance

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const mebibyte = 1 << 20

func sqsSending() []check[*sqsSuite] {
	return []check[*sqsSuite]{
		sqsCheck("SendMessageBatch 10 ok; 11, empty, duplicate ids refused", (*sqsSuite).batchLimits),
		sqsCheck("1 MiB message accepted (AWS limit since 2025)", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, nil)
			c.send(t, url, strings.Repeat("x", mebibyte))
			if m := c.one(t, url, "sent"); len(*m.Body) != mebibyte {
				t.Errorf("%d bytes arrived", len(*m.Body))
			}
		}),
		sqsCheck("1 MiB + 1 refused", func(c *sqsSuite, t *testing.T) { c.tooLong(t, nil, mebibyte+1) }),
		sqsCheck("MaximumMessageSize of the queue enforced", func(c *sqsSuite, t *testing.T) {
			c.tooLong(t, map[string]string{"MaximumMessageSize": "1024"}, 1025)
		}),
		sqsCheck("message attributes S/N/B round trip", (*sqsSuite).messageAttributes),
		sqsCheck("attributes only when asked for (message and system)", (*sqsSuite).unasked),
		sqsCheck("attributes count for the size of a message", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, map[string]string{"MaximumMessageSize": "1024"})
			in := &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(strings.Repeat("x", 1000)), MessageAttributes: text("name", "a value of 20 bytes.")}
			_, err := c.SendMessage(t.Context(), in)
			wantCode(t, err, "InvalidParameterValue", "InvalidMessageContents")
		}),
		sqsCheck("characters outside XML 1.0 refused, others kept", (*sqsSuite).characters),
		sqsCheck("MessageGroupId and AWSTraceHeader come back", (*sqsSuite).groupAndTrace),
		sqsCheck("SQ-16 an entry fails inside a good answer", (*sqsSuite).partlyFailed),
		sqsCheck("SQ-17 the sum of a batch is limited: BatchRequestTooLong", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, nil)
			_, err := c.sendBatch(t.Context(), url, entries(strings.Repeat("a", mebibyte/2), strings.Repeat("b", mebibyte/2+1)))
			wantCode(t, err, "AWS.SimpleQueueService.BatchRequestTooLong", "BatchRequestTooLong")
			c.none(t, url, "refused as a whole")
			c.sendAll(t, url, strings.Repeat("a", mebibyte/2), strings.Repeat("b", mebibyte/2))
		}),
	}
}

func (c *sqsSuite) batchLimits(t *testing.T) {
	url := c.queue(t, nil)
	c.sendAll(t, url, slices.Repeat([]string{"b"}, 10)...)
	_, err := c.sendBatch(t.Context(), url, entries(slices.Repeat([]string{"b"}, 11)...))
	wantCode(t, err, "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", "TooManyEntriesInBatchRequest")
	_, err = c.sendBatch(t.Context(), url, []types.SendMessageBatchRequestEntry{})
	wantCode(t, err, "AWS.SimpleQueueService.EmptyBatchRequest", "EmptyBatchRequest", "MissingParameter")
	twice := entries("a", "b")
	twice[1].Id = twice[0].Id
	_, err = c.sendBatch(t.Context(), url, twice)
	wantCode(t, err, "AWS.SimpleQueueService.BatchEntryIdsNotDistinct", "BatchEntryIdsNotDistinct")
	twice[1].Id = aws.String("not/an/id")
	_, err = c.sendBatch(t.Context(), url, twice)
	wantCode(t, err, "AWS.SimpleQueueService.InvalidBatchEntryId", "InvalidBatchEntryId")
	c.wantCounts(t, url, "after the refusals", 10, 0, 0)
}

func (c *sqsSuite) tooLong(t *testing.T, attributes map[string]string, size int) {
	t.Helper()
	url := c.queue(t, attributes)
	_, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(strings.Repeat("x", size))})
	wantCode(t, err, "InvalidParameterValue", "InvalidMessageContents")
	c.none(t, url, "refused")
}

func text(attribute, value string) map[string]types.MessageAttributeValue {
	return map[string]types.MessageAttributeValue{attribute: {DataType: aws.String("String"), StringValue: &value}}
}

// tenAttributes is as many as a message may have, of every type.
func tenAttributes() map[string]types.MessageAttributeValue {
	all := map[string]types.MessageAttributeValue{
		"number": {DataType: aws.String("Number"), StringValue: aws.String("42")},
		"binary": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 255}},
		"label":  {DataType: aws.String("String.json"), StringValue: aws.String(`{"a":"<&>"}`)},
	}
	for i := len(all); i < 10; i++ {
		maps.Copy(all, text("text."+strconv.Itoa(i), "v\u20ac"+strconv.Itoa(i)))
	}
	return all
}

func wantAttributes(t *testing.T, got, want map[string]types.MessageAttributeValue) {
	t.Helper()
	if !maps.EqualFunc(got, want, func(a, b types.MessageAttributeValue) bool {
		return *a.DataType == *b.DataType && aws.ToString(a.StringValue) == aws.ToString(b.StringValue) && string(a.BinaryValue) == string(b.BinaryValue)
	}) {
		t.Errorf("got attributes %v, want %v", got, want)
	}
}

func (c *sqsSuite) messageAttributes(t *testing.T) {
	url, ctx := c.queue(t, nil), t.Context()
	want := tenAttributes()
	out := must(c.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("b"), MessageAttributes: want}))(t)
	m := c.one(t, url, "sent")
	wantAttributes(t, m.MessageAttributes, want)
	if aws.ToString(out.MD5OfMessageAttributes) == "" || aws.ToString(out.MD5OfMessageAttributes) != aws.ToString(m.MD5OfMessageAttributes) {
		t.Errorf("digests %q sent, %q received", aws.ToString(out.MD5OfMessageAttributes), aws.ToString(m.MD5OfMessageAttributes))
	}
	// Known by calculation from the documentation, not from an answer of AWS.
	single := must(c.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("b"), MessageAttributes: text("Foo", "Bar")}))(t)
	if got := aws.ToString(single.MD5OfMessageAttributes); got != "ae7155c6026991b6d54b11589678bf9c" {
		t.Errorf("digest of Foo=Bar is %s", got)
	}
	want["eleventh"] = want["number"]
	_, err := c.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("b"), MessageAttributes: want})
	wantCode(t, err, "InvalidParameterValue")
}

func (c *sqsSuite) unasked(t *testing.T) {
	url := c.queue(t, nil)
	must(c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("b"), MessageAttributes: text("s", "v")}))(t)
	out := must(c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, WaitTimeSeconds: soon}))(t)
	if len(out.Messages) != 1 {
		t.Fatal("there is no message")
	}
	if m := out.Messages[0]; len(m.Attributes) != 0 || len(m.MessageAttributes) != 0 {
		t.Errorf("returned unasked: %v and %v", m.Attributes, m.MessageAttributes)
	}
	c.hide(t, url, out.Messages[0], 0)
	out = must(c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &url, WaitTimeSeconds: soon, MessageAttributeNames: []string{"other.*"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameSentTimestamp},
	}))(t)
	if len(out.Messages) != 1 || len(out.Messages[0].Attributes) != 1 || len(out.Messages[0].MessageAttributes) != 0 {
		t.Errorf("asked for SentTimestamp: got %+v", out.Messages)
	}
}

func (c *sqsSuite) characters(t *testing.T) {
	url := c.queue(t, nil)
	for _, body := range []string{"a\x01", "\x00", "a\ufffe", "\uffff"} {
		_, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body})
		wantCode(t, err, "InvalidMessageContents")
	}
	want := "{\"a\": 1,\t\"b\":\"<\u20ac&\U00010000\" }\r\n "
	c.send(t, url, want)
	if m := c.one(t, url, "sent"); *m.Body != want {
		t.Errorf("got %q, want %q", *m.Body, want)
	}
}

func (c *sqsSuite) groupAndTrace(t *testing.T) {
	const trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
	url := c.queue(t, nil)
	must(c.SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: aws.String("b"), MessageGroupId: aws.String("school-4"),
		MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String(trace)}},
	}))(t)
	if a := c.one(t, url, "sent").Attributes; a["MessageGroupId"] != "school-4" || a["AWSTraceHeader"] != trace {
		t.Errorf("got %v", a)
	}
	for _, group := range []string{"with space", strings.Repeat("g", 129)} {
		_, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("b"), MessageGroupId: &group})
		wantCode(t, err, "InvalidParameterValue")
	}
}

// partlyFailed sends two entries that the queue does not take among two that it does.
func (c *sqsSuite) partlyFailed(t *testing.T) {
	url := c.queue(t, map[string]string{"MaximumMessageSize": "1024"})
	all := entries("first", strings.Repeat("x", 1025), "third", strings.Repeat("y", 1025))
	out := must(c.sendBatch(t.Context(), url, all))(t)
	var taken, refused []string
	for _, e := range out.Successful {
		taken = append(taken, *e.Id)
	}
	for _, e := range out.Failed {
		refused = append(refused, *e.Id)
		if !e.SenderFault || aws.ToString(e.Code) != "InvalidParameterValue" {
			t.Errorf("entry %s failed as %s, the sender's fault: %v", *e.Id, aws.ToString(e.Code), e.SenderFault)
		}
	}
	slices.Sort(taken)
	slices.Sort(refused)
	if !slices.Equal(taken, []string{"0", "2"}) || !slices.Equal(refused, []string{"1", "3"}) {
		t.Errorf("taken %v, refused %v", taken, refused)
	}
	c.wantCounts(t, url, "after the batch", 2, 0, 0)
}
