package sqs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/sqs"
)

func TestFindingAQueue(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages", "VisibilityTimeout", "7")
	if found, err := c.service.QueueAt(q.ARN()); err != nil || found.ARN() != q.ARN() || found.Attribute("VisibilityTimeout") != "7" {
		t.Errorf("%v, %v", found, err)
	}
	for _, arn := range []string{"", "pages", "arn:aws:sqs:us-east-1:000000000000:pages", "arn:aws:sqs:" + region + ":111122223333:pages", "arn:aws:s3:" + region + ":000000000000:pages"} {
		if _, err := c.service.QueueAt(arn); err == nil {
			t.Errorf("%q was found", arn)
		}
	}
	c.do("DeleteQueue", object{"QueueUrl": queueURL("pages")})
	_, sending := q.Send(sqs.Message{Body: "a"})
	_, receiving := q.Receive(context.Background(), 1, 0)
	for what, err := range map[string]error{"send": sending, "receive": receiving, "delete": q.Delete("h"), "hide": q.SetVisibility("h", 0)} {
		if err == nil {
			t.Errorf("%s at a queue that is gone", what)
		}
	}
	if _, ok := q.OldestAge(); ok || q.Attribute("VisibilityTimeout") != "" || q.Peek() != nil {
		t.Error("a queue that is gone has something")
	}
}

// The metric leaves out what was received more than three times, and counts a dead
// letter from its arrival.
func TestOldestAge(t *testing.T) {
	c := newCloud(t)
	pages, letters := c.pair("5", "VisibilityTimeout", "60")
	if _, ok := pages.OldestAge(); ok {
		t.Error("an empty queue has an age")
	}
	want := func(q *sqs.Queue, want time.Duration) {
		t.Helper()
		if age, ok := q.OldestAge(); !ok || age != want {
			t.Errorf("%v, %v; want %v", age, ok, want)
		}
	}
	c.send(pages, "poison")
	for range 4 {
		want(pages, c.clock.Now().Sub(time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)))
		c.one(pages)
		c.clock.Advance(time.Minute)
	}
	c.send(pages, "new")
	c.clock.Advance(time.Minute)
	want(pages, time.Minute)
	for range 2 {
		c.receive(pages)
		c.clock.Advance(time.Minute)
	}
	want(letters, time.Minute)
	want(pages, 3*time.Minute)
}

func TestNextVisible(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages")
	if _, ok := q.NextVisible(); ok {
		t.Error("an empty queue shows something")
	}
	c.send(q, "a")
	sent := c.clock.Now()
	c.clock.Advance(time.Minute)
	if at, ok := q.NextVisible(); !ok || !at.Equal(sent) {
		t.Errorf("%v, %v", at, ok)
	}
	c.one(q)
	if at, ok := q.NextVisible(); !ok || !at.Equal(sent.Add(90*time.Second)) {
		t.Errorf("%v, %v", at, ok)
	}
}

func TestPeek(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages")
	c.send(q, "a", "b", "c")
	c.receive(q)
	c.send(q, "d")
	all := q.Peek()
	bodies := ""
	for _, m := range all {
		bodies += m.Body
	}
	if bodies != "abcd" || all[0].Receives != 1 || all[3].Receives != 0 || all[0].Handle != "" {
		t.Errorf("%+v", all)
	}
	c.counts(q, 1, 3, 0)
}

// Beside the wire, the same is refused.
func TestDirectRefusals(t *testing.T) {
	c := newCloud(t)
	q := c.create("pages")
	for what, m := range map[string]sqs.Message{
		"no body": {}, "a character": {Body: "\x01"}, "a group": {Body: "a", Group: "a b"}, "a type": {Body: "a", Attributes: map[string]sqs.Attribute{"a": {DataType: "Text", StringValue: "x"}}},
	} {
		if _, err := q.Send(m); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
	for _, n := range []int{0, 11} {
		if _, err := q.Receive(context.Background(), n, 0); err == nil {
			t.Errorf("%d messages were asked for", n)
		}
	}
	if _, err := q.Receive(context.Background(), 1, 21*time.Second); err == nil {
		t.Error("waited for more than 20 s")
	}
	if q.Delete("garbage") == nil || q.Delete("") == nil || q.SetVisibility("garbage", 0) == nil {
		t.Error("garbage is a handle")
	}
}

// Everything at once, for the race detector and for conservation: each message is
// deleted once or is still there.
func TestConservation(t *testing.T) {
	c := newCloud(t)
	var mu sync.Mutex
	deleted := map[string]int{}
	c.service.OnDelete = func(d sqs.Deletion) {
		mu.Lock()
		defer mu.Unlock()
		deleted[d.Body]++
	}
	pages, letters := c.pair("3", "VisibilityTimeout", "5")
	const senders, each = 4, 100
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				c.send(pages, fmt.Sprintf("%d-%d", s, i))
			}
		})
		wg.Go(func() {
			for i := range each {
				got, err := pages.Receive(context.Background(), 1+i%10, 0)
				c.ok(err)
				for j, m := range got {
					switch (i + j) % 3 {
					case 0:
						c.ok(pages.Delete(m.Handle))
					case 1:
						_ = pages.SetVisibility(m.Handle, 0) // it may have become visible by then
					}
				}
				c.clock.Advance(time.Second)
			}
		})
	}
	wg.Wait()
	left := map[string]int{}
	for _, m := range append(pages.Peek(), letters.Peek()...) {
		left[m.Body]++
	}
	for s := range senders {
		for i := range each {
			body := fmt.Sprintf("%d-%d", s, i)
			if deleted[body]+left[body] != 1 {
				t.Errorf("%s: deleted %d times, there %d times", body, deleted[body], left[body])
			}
		}
	}
}
