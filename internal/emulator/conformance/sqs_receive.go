package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// oneSecond is the shortest visibility timeout that a check can wait for.
func oneSecond() map[string]string { return map[string]string{"VisibilityTimeout": "1"} }

func sqsReceiving() []check[*sqsSuite] {
	return []check[*sqsSuite]{
		sqsCheck("system attributes: ReceiveCount, Sent/FirstReceive timestamps, SenderId", (*sqsSuite).systemAttributes),
		sqsCheck("visibility: hidden, then back after timeout; counts move", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, map[string]string{"VisibilityTimeout": "2"}) // time enough to look twice
			c.send(t, url, "b")
			c.one(t, url, "sent")
			c.none(t, url, "in flight")
			c.wantCounts(t, url, "in flight", 0, 1, 0)
			c.wantCounts(t, url, "after the timeout and before any receive", 1, 0, 0)
			if got := c.receive(t, url, 1, 10); len(got) != 1 {
				t.Errorf("%d messages are back after the timeout", len(got))
			}
		}),
		sqsCheck("ReceiveMessage VisibilityTimeout=0 leaves it visible", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, nil)
			c.send(t, url, "b")
			for i := range 2 { // the SDK leaves out a zero, so the request is written by hand
				got := c.raw(t, "ReceiveMessage", map[string]any{"QueueUrl": url, "MaxNumberOfMessages": 1, "VisibilityTimeout": 0, "WaitTimeSeconds": soon})
				if len(got) != 1 {
					t.Fatalf("receive %d: %d messages", i+1, len(got))
				}
			}
		}),
		sqsCheck("looks with VisibilityTimeout=0 show the same messages, hide none, and count", (*sqsSuite).looks),
		sqsCheck("ChangeMessageVisibility 0 -> at once; >0 extends", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, oneSecond())
			c.send(t, url, "b")
			m := c.one(t, url, "sent")
			c.hide(t, url, m, 30)
			time.Sleep(1200 * time.Millisecond)
			c.none(t, url, "extended")
			c.hide(t, url, m, 0)
			if again := c.one(t, url, "shown"); *again.ReceiptHandle == *m.ReceiptHandle {
				t.Error("the same receipt handle for another receive")
			}
		}),
		sqsCheck("ChangeMessageVisibility: 43200 is the most, absent and gone messages refused", (*sqsSuite).visibilityLimits),
		sqsCheck("ChangeMessageVisibilityBatch: per-entry failure next to successes", (*sqsSuite).visibilityBatch),
		sqsCheck("DelaySeconds per message and counts", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, nil)
			must(c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("b"), DelaySeconds: 2}))(t)
			c.none(t, url, "delayed")
			if got := c.counts(t, url); got != [3]int{0, 0, 1} {
				t.Errorf("visible, in flight, delayed are %v", got)
			}
			c.one(t, url, "after the delay")
		}),
		sqsCheck("16 receivers x 1000 messages: each once, none lost", (*sqsSuite).manyReceivers),
	}
}

// looks asks until a look shows all messages, for AWS may show some of them only.
func (c *sqsSuite) looks(t *testing.T) {
	url := c.queue(t, nil)
	want := []string{c.send(t, url, "1"), c.send(t, url, "2"), c.send(t, url, "3")}
	slices.Sort(want)
	counts := map[string]int{}
	for range 2 {
		var seen []string
		if !within(2*soon*time.Second, func() bool {
			seen = nil
			for _, m := range c.raw(t, "ReceiveMessage", map[string]any{
				"QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0, "WaitTimeSeconds": soon,
				"MessageSystemAttributeNames": []string{"ApproximateReceiveCount"},
			}) {
				seen = append(seen, m.MessageID)
				count := must(strconv.Atoi(m.Attributes["ApproximateReceiveCount"]))(t)
				if count <= counts[m.MessageID] {
					t.Errorf("a message was received %d times, then %d", counts[m.MessageID], count)
				}
				counts[m.MessageID] = count
			}
			slices.Sort(seen)
			return slices.Equal(seen, want)
		}) {
			t.Errorf("the last look showed %v, want %v", seen, want)
		}
		c.wantCounts(t, url, "looked at", 3, 0, 0)
	}
}

func (c *sqsSuite) systemAttributes(t *testing.T) {
	url := c.queue(t, nil)
	before := time.Now().UnixMilli()
	c.send(t, url, "b")
	var first string
	for i := 1; i <= 3; i++ {
		m := c.one(t, url, "receive "+strconv.Itoa(i))
		a := m.Attributes
		if a["ApproximateReceiveCount"] != strconv.Itoa(i) {
			t.Errorf("receive %d counts %s", i, a["ApproximateReceiveCount"])
		}
		if at := must(strconv.ParseInt(a["SentTimestamp"], 10, 64))(t); at < before-2000 || at > before+5000 {
			t.Errorf("SentTimestamp %d, sent at %d", at, before)
		}
		if i == 1 {
			first = a["ApproximateFirstReceiveTimestamp"]
		}
		if first == "" || a["ApproximateFirstReceiveTimestamp"] != first {
			t.Errorf("first received at %q, then at %q", first, a["ApproximateFirstReceiveTimestamp"])
		}
		if a["SenderId"] == "" {
			t.Error("no SenderId")
		}
		c.hide(t, url, m, 0)
	}
}

func (c *sqsSuite) visibilityLimits(t *testing.T) {
	url, ctx := c.queue(t, nil), t.Context()
	c.send(t, url, "b")
	m := c.one(t, url, "sent")
	in := &sqs.ChangeMessageVisibilityInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 43_201}
	_, err := c.ChangeMessageVisibility(ctx, in)
	wantCode(t, err, "InvalidParameterValue")
	c.hide(t, url, m, 12*60*60-15*60) // what Expunge asks for at most
	c.remove(t, url, m)
	in.VisibilityTimeout = 1
	_, err = c.ChangeMessageVisibility(ctx, in)
	wantCode(t, err, "InvalidParameterValue", "AWS.SimpleQueueService.MessageNotInflight", "MessageNotInflight")
	in.ReceiptHandle = aws.String("garbage")
	_, err = c.ChangeMessageVisibility(ctx, in)
	wantCode(t, err, "ReceiptHandleIsInvalid")
}

func (c *sqsSuite) visibilityBatch(t *testing.T) {
	url := c.queue(t, nil)
	c.send(t, url, "b")
	m := c.one(t, url, "sent")
	out := must(c.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: &url, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
			{Id: aws.String("a"), ReceiptHandle: m.ReceiptHandle}, {Id: aws.String("b"), ReceiptHandle: aws.String("garbage")},
		},
	}))(t)
	if len(out.Successful) != 1 || len(out.Failed) != 1 || *out.Failed[0].Id != "b" {
		t.Errorf("%d succeeded, %d failed", len(out.Successful), len(out.Failed))
	}
	c.one(t, url, "shown by the batch")
}

func (c *sqsSuite) manyReceivers(t *testing.T) {
	const n = 1000
	url, ctx := c.queue(t, map[string]string{"VisibilityTimeout": "600"}), t.Context() // a slow target gets no message twice
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = strconv.Itoa(i)
	}
	c.sendAll(t, url, bodies...)
	var mu sync.Mutex
	seen := map[string]int{}
	for _, err := range racers(16, func(int) error {
		for {
			some, err := c.drainOnce(ctx, url)
			if err != nil || len(some) == 0 {
				return err
			}
			mu.Lock()
			for _, body := range some {
				seen[body]++
			}
			mu.Unlock()
		}
	}) {
		if err != nil {
			t.Error(err)
		}
	}
	for _, body := range bodies {
		if seen[body] != 1 {
			t.Errorf("message %s was received %d times", body, seen[body])
		}
	}
}

// drainOnce receives a batch and deletes it.
func (c *sqsSuite) drainOnce(ctx context.Context, url string) (bodies []string, err error) {
	out, err := c.ReceiveMessage(ctx, everything(url, 1, 10))
	if err != nil || len(out.Messages) == 0 {
		return nil, err
	}
	in := &sqs.DeleteMessageBatchInput{QueueUrl: &url}
	for i, m := range out.Messages {
		bodies = append(bodies, *m.Body)
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
	}
	deleted, err := c.DeleteMessageBatch(ctx, in)
	if err == nil && len(deleted.Failed) > 0 {
		err = fmt.Errorf("delete: %s", aws.ToString(deleted.Failed[0].Message))
	}
	return bodies, err
}

func sqsPolling() []check[*sqsSuite] {
	return []check[*sqsSuite]{
		sqsCheck("long poll: waits full time when empty, returns promptly on send", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, nil)
			start := time.Now()
			if got := c.receive(t, url, 1, 1); len(got) != 0 {
				t.Fatal("an empty queue has a message")
			}
			if d := time.Since(start); d < 800*time.Millisecond || d > 3*time.Second {
				t.Errorf("waited %v for 1 s", d)
			}
			c.wakes(t, url, "a send", func() error {
				_, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("b")})
				return err
			})
		}),
		sqsCheck("long poll wakes when visibility expires / Change(0) / delay ends", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, oneSecond())
			c.send(t, url, "b")
			c.one(t, url, "sent")
			c.wakes(t, url, "the end of the visibility timeout", nil)

			url = c.queue(t, nil)
			c.send(t, url, "b")
			m := c.one(t, url, "sent")
			c.wakes(t, url, "Change(0)", func() error {
				_, err := c.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
				return err
			})

			url = c.queue(t, nil)
			must(c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("b"), DelaySeconds: 1}))(t)
			c.wakes(t, url, "the end of a delay", nil)
		}),
	}
}

// wakes waits with a poll of 10 seconds for what act does a moment later, or for
// what comes by itself.
func (c *sqsSuite) wakes(t *testing.T, url, what string, act func() error) {
	t.Helper()
	acted := make(chan error, 1)
	go func() {
		time.Sleep(300 * time.Millisecond)
		if act == nil {
			acted <- nil
			return
		}
		acted <- act()
	}()
	start := time.Now()
	got := c.receive(t, url, 10, 1)
	if d := time.Since(start); len(got) != 1 || d > 5*time.Second {
		t.Errorf("%s: %d messages after %v", what, len(got), d.Round(time.Millisecond))
	}
	if err := <-acted; err != nil {
		t.Error(err)
	}
}

func sqsDeleting() []check[*sqsSuite] {
	return []check[*sqsSuite]{
		sqsCheck("typed errors: QueueDoesNotExist, ReceiptHandleIsInvalid", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, nil)
			_, err := c.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(name("never-made"))})
			var noQueue *types.QueueDoesNotExist
			if !errors.As(err, &noQueue) {
				t.Errorf("GetQueueUrl is no QueueDoesNotExist: %v", err)
			}
			_, err = c.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: aws.String("garbage")})
			var noHandle *types.ReceiptHandleIsInvalid
			if !errors.As(err, &noHandle) {
				t.Errorf("DeleteMessage is no ReceiptHandleIsInvalid: %v", err)
			}
		}),
		sqsCheck("DeleteMessage twice is idempotent (AWS success)", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, nil)
			c.send(t, url, "b")
			m := c.one(t, url, "sent")
			c.remove(t, url, m)
			c.remove(t, url, m)
			c.none(t, url, "deleted")
		}),
		sqsCheck("DeleteMessage with an old handle succeeds", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, nil)
			c.send(t, url, "b")
			old := c.one(t, url, "sent")
			c.hide(t, url, old, 0)
			m := c.one(t, url, "again")
			c.remove(t, url, old) // whether it deletes is not said
			c.remove(t, url, m)
			c.wantCounts(t, url, "deleted", 0, 0, 0)
		}),
		sqsCheck("DeleteMessage after visibility expired but not re-received deletes", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, oneSecond())
			c.send(t, url, "b")
			m := c.one(t, url, "sent")
			c.wantCounts(t, url, "after the timeout", 1, 0, 0)
			c.remove(t, url, m)
			c.none(t, url, "deleted")
		}),
		sqsCheck("DeleteMessageBatch: per-entry failure next to successes", func(c *sqsSuite, t *testing.T) {
			url := c.queue(t, nil)
			c.send(t, url, "b")
			m := c.one(t, url, "sent")
			out := must(c.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: []types.DeleteMessageBatchRequestEntry{
				{Id: aws.String("a"), ReceiptHandle: m.ReceiptHandle}, {Id: aws.String("b"), ReceiptHandle: aws.String("garbage")},
			}}))(t)
			if len(out.Successful) != 1 || len(out.Failed) != 1 || *out.Failed[0].Id != "b" || aws.ToString(out.Failed[0].Code) != "ReceiptHandleIsInvalid" {
				t.Errorf("%d succeeded, failed: %+v", len(out.Successful), out.Failed)
			}
		}),
	}
}
