package sqs_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/sqs"
)

func TestVisibilityToTheInstant(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages", "VisibilityTimeout", "360")
	c.send(q, "a")
	first := c.one(q)
	c.clock.Advance(360*time.Second - time.Nanosecond)
	c.counts(q, 0, 1, 0)
	c.none(q)
	c.clock.Advance(time.Nanosecond)
	c.counts(q, 1, 0, 0)
	again := c.one(q)
	if again.ID != first.ID || again.Handle == first.Handle || again.Receives != 2 || !again.FirstReceivedAt.Equal(first.FirstReceivedAt) {
		t.Errorf("%+v became %+v", first, again)
	}
}

// A receive with no timeout shows messages and hides none of them; what was shown
// stands behind the others. It counts as a receive, up to becoming a letter.
func TestLookingHidesNothing(t *testing.T) {
	c := newCloud(t)
	pages, letters := c.pair("3", "VisibilityTimeout", "360")
	for n := range 8 {
		c.send(pages, fmt.Sprint("page ", n))
		c.clock.Advance(time.Second)
	}
	look := func(count string) (bodies []string, handle any) {
		t.Helper()
		for _, m := range c.do("ReceiveMessage", object{
			"QueueUrl": queueURL("pages"), "MaxNumberOfMessages": 10, "VisibilityTimeout": 0, "MessageSystemAttributeNames": []string{"ApproximateReceiveCount"},
		}).list("Messages") {
			if system, _ := m["Attributes"].(object); system["ApproximateReceiveCount"] != count {
				t.Errorf("%v: received %v times, want %s", m["Body"], system["ApproximateReceiveCount"], count)
			}
			body, _ := m["Body"].(string)
			bodies, handle = append(bodies, body), m["ReceiptHandle"]
		}
		c.counts(pages, 8, 0, 0)
		return bodies, handle
	}
	first, _ := look("1")
	c.clock.Advance(time.Second)
	second, handle := look("2")
	if len(first) != 8 || first[0] != "page 0" || !slices.Equal(first, second) {
		t.Errorf("showed %v, then %v", first, second)
	}
	c.refused("ChangeMessageVisibility", object{"QueueUrl": queueURL("pages"), "ReceiptHandle": handle, "VisibilityTimeout": 5}, "MessageNotInflight")
	c.do("DeleteMessage", object{"QueueUrl": queueURL("pages"), "ReceiptHandle": handle})
	c.counts(pages, 7, 0, 0)
	if got := c.receive(pages); len(got) != 7 || got[0].Receives != 3 {
		t.Errorf("received %+v", got)
	}
	c.clock.Advance(360 * time.Second)
	c.receive(pages)
	c.counts(letters, 7, 0, 0)
}

func TestDelay(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages", "DelaySeconds", "10")
	c.send(q, "delayed by the queue")
	c.do("SendMessage", object{"QueueUrl": queueURL("pages"), "MessageBody": "at once", "DelaySeconds": 0})
	c.do("SendMessage", object{"QueueUrl": queueURL("pages"), "MessageBody": "later", "DelaySeconds": 900})
	c.counts(q, 1, 0, 2)
	if m := c.one(q); m.Body != "at once" {
		t.Errorf("got %s", m.Body)
	}
	if at, ok := q.NextVisible(); !ok || !at.Equal(c.clock.Now().Add(10*time.Second)) {
		t.Errorf("next visible at %v, %v", at, ok)
	}
	c.clock.Advance(10 * time.Second)
	if m := c.one(q); m.Body != "delayed by the queue" {
		t.Errorf("got %s", m.Body)
	}
	c.clock.Advance(890 * time.Second)
	c.counts(q, 3, 0, 0)
	c.refused("SendMessage", object{"QueueUrl": queueURL("pages"), "MessageBody": "x", "DelaySeconds": 901}, "InvalidParameterValueException")
}

// RD-01: a dead letter's retention counts from its first sending.
func TestRetention(t *testing.T) {
	c := newCloud(t)
	const day = 24 * time.Hour
	pages, letters := c.pair("1", "MessageRetentionPeriod", "345600")
	c.send(pages, "a", "b")
	sent := c.clock.Now()
	c.clock.Advance(84 * time.Hour) // 3.5 of 4 days
	c.receive(pages)
	c.clock.Advance(time.Minute)
	c.none(pages)
	got := c.receive(letters)
	if len(got) != 2 || !got[0].SentAt.Equal(sent) || got[0].Source != pages.ARN() || got[0].Receives != 2 {
		t.Fatalf("%+v", got)
	}
	c.clock.Advance(14*day - 84*time.Hour - time.Minute - time.Nanosecond)
	c.counts(letters, 2, 0, 0)
	c.clock.Advance(time.Nanosecond)
	c.counts(letters, 0, 0, 0)
	c.ok(letters.Delete(got[0].Handle)) // gone, and no error
	c.send(pages, "in flight to the end")
	m := c.one(pages)
	c.ok(pages.SetVisibility(m.Handle, 12*time.Hour))
	c.clock.Advance(4 * day)
	c.counts(pages, 0, 0, 0)
}

// What a queue's retention is set to holds for what lies there already.
func TestRetentionShortened(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages")
	c.send(q, "a")
	c.clock.Advance(time.Minute)
	c.do("SetQueueAttributes", object{"QueueUrl": queueURL("pages"), "Attributes": object{"MessageRetentionPeriod": "60"}})
	c.none(q)
}

// A message can be hidden for twelve hours from its receive, however often that is
// asked for.
func TestTwelveHours(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages")
	c.send(q, "a")
	m := c.one(q)
	c.ok(q.SetVisibility(m.Handle, 11*time.Hour))
	c.clock.Advance(10 * time.Hour)
	if err := q.SetVisibility(m.Handle, 2*time.Hour+time.Second); err == nil {
		t.Error("hidden for more than twelve hours")
	}
	c.ok(q.SetVisibility(m.Handle, 2*time.Hour))
	c.clock.Advance(2*time.Hour - 1)
	c.none(q)
	c.clock.Advance(1)
	if err := q.SetVisibility(m.Handle, time.Hour); err == nil {
		t.Error("a message that is visible was hidden")
	}
	c.one(q)
	if err := q.SetVisibility(m.Handle, time.Hour); err == nil {
		t.Error("a message was hidden with an old handle")
	}
}

// poll receives with a long poll beside the test.
func (c *cloud) poll(ctx context.Context, q *sqs.Queue, wait time.Duration) func() []sqs.Message {
	var got []sqs.Message
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { got, err = q.Receive(ctx, 10, wait) })
	return func() []sqs.Message {
		c.Helper()
		wg.Wait()
		c.ok(err)
		return got
	}
}

func TestLongPoll(t *testing.T) {
	for name, row := range map[string]struct {
		before func(c *cloud, q *sqs.Queue) (act func())
		after  time.Duration // it ends
		n      int           // with so many messages
	}{
		"nothing comes": {func(*cloud, *sqs.Queue) func() { return nil }, 20 * time.Second, 0},
		"a send":        {func(c *cloud, q *sqs.Queue) func() { return func() { c.send(q, "a") } }, 0, 1},
		"the end of a timeout": {func(c *cloud, q *sqs.Queue) func() {
			c.send(q, "a")
			c.one(q)
			return nil
		}, 5 * time.Second, 1},
		"a timeout set to nothing": {func(c *cloud, q *sqs.Queue) func() {
			c.send(q, "a")
			m := c.one(q)
			c.ok(q.SetVisibility(m.Handle, time.Hour))
			return func() { c.ok(q.SetVisibility(m.Handle, 0)) }
		}, 0, 1},
		"a timeout set to less": {func(c *cloud, q *sqs.Queue) func() {
			c.send(q, "a")
			m := c.one(q)
			c.ok(q.SetVisibility(m.Handle, time.Hour))
			return func() { c.ok(q.SetVisibility(m.Handle, 3*time.Second)) }
		}, 3 * time.Second, 1},
		"the end of a delay": {func(c *cloud, _ *sqs.Queue) func() {
			c.do("SendMessage", object{"QueueUrl": queueURL("pages"), "MessageBody": "a", "DelaySeconds": 7})
			return nil
		}, 7 * time.Second, 1},
		"a delayed send while it waits": {func(c *cloud, _ *sqs.Queue) func() {
			return func() {
				c.do("SendMessage", object{"QueueUrl": queueURL("pages"), "MessageBody": "a", "DelaySeconds": 7})
			}
		}, 7 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			q := c.create("pages", "VisibilityTimeout", "5")
			act := row.before(c, q)
			end := c.poll(t.Context(), q, 20*time.Second)
			<-c.clock.waits
			if act != nil {
				act()
			}
			if row.after > 0 {
				if act != nil {
					<-c.clock.waits // it has looked again
				}
				c.clock.Advance(row.after)
			}
			if got := end(); len(got) != row.n {
				t.Errorf("received %v, want %d messages", got, row.n)
			}
		})
	}
}

// A consumer that has gone gets nothing, so that nothing is hidden for its sake.
func TestLongPollOfOneWhoHasGone(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages")
	ctx, cancel := context.WithCancel(t.Context())
	end := c.poll(ctx, q, 20*time.Second)
	cancel()
	if got := end(); len(got) != 0 {
		t.Errorf("received %v", got)
	}
	c.send(q, "a")
	if got, err := q.Receive(ctx, 10, 20*time.Second); err != nil || len(got) != 0 {
		t.Errorf("received %v, %v", got, err)
	}
	if a := c.askContext(ctx, "ReceiveMessage", object{"QueueUrl": queueURL("pages"), "WaitTimeSeconds": 20}); len(a.list("Messages")) != 0 {
		t.Errorf("received %v", a.body)
	}
	c.counts(q, 1, 0, 0)
}

func TestLongPollOfADeletedQueue(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages")
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { _, err = q.Receive(t.Context(), 1, 20*time.Second) })
	<-c.clock.waits
	c.do("DeleteQueue", object{"QueueUrl": queueURL("pages")})
	wg.Wait()
	if err == nil {
		t.Error("a queue that is gone answered")
	}
}

// Many polls and one message: one gets it.
func TestLongPollsSideBySide(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages")
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var got []sqs.Message
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			some, err := q.Receive(ctx, 10, 20*time.Second)
			mu.Lock()
			defer mu.Unlock()
			if got = append(got, some...); err != nil || len(some) > 0 {
				cancel()
			}
		})
	}
	c.send(q, "a")
	wg.Wait()
	cancel()
	if len(got) != 1 {
		t.Errorf("%d received it", len(got))
	}
}
