package sqs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/sqs"
)

// The receive count of a queue decides, the count over all queues is shown.
func TestLettersOfLetters(t *testing.T) {
	c := newCloud(t)
	last := c.create("last")
	letters := c.create("letters", "RedrivePolicy", fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":2}`, last.ARN()))
	pages := c.create("pages", "RedrivePolicy", fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"3"}`, letters.ARN()))
	c.send(pages, "a")
	want := 0
	for _, step := range []struct {
		q        *sqs.Queue
		receives int
	}{{pages, 3}, {letters, 2}, {last, 4}} {
		for range step.receives {
			want++
			m := c.one(step.q)
			if m.Receives != want {
				t.Fatalf("%s: received %d times, want %d", step.q.ARN(), m.Receives, want)
			}
			c.ok(step.q.SetVisibility(m.Handle, 0))
		}
		if step.q != last {
			c.none(step.q)
		}
	}
	if m := last.Peek(); len(m) != 1 || m[0].Source != letters.ARN() {
		t.Errorf("%+v", m)
	}
}

func TestLettersWithoutAQueue(t *testing.T) {
	c := newCloud(t)
	pages, _ := c.pair("1")
	c.send(pages, "a")
	c.do("DeleteQueue", object{"QueueUrl": queueURL("letters")})
	for range 3 {
		m := c.one(pages)
		c.ok(pages.SetVisibility(m.Handle, 0))
	}
}

// An old handle of the source queue has no power over the dead letter.
func TestLetterAndItsOldHandle(t *testing.T) {
	c := newCloud(t)
	pages, letters := c.pair("1")
	c.send(pages, "a")
	m := c.one(pages)
	c.ok(pages.SetVisibility(m.Handle, 0))
	c.none(pages)
	c.ok(pages.Delete(m.Handle))
	if err := letters.Delete(m.Handle); err == nil {
		t.Error("a handle of another queue was taken")
	}
	c.counts(letters, 1, 0, 0)
}

// bury makes n dead letters.
func (c *cloud) bury(pages, letters *sqs.Queue, n int) {
	c.Helper()
	for i := range n {
		c.send(pages, fmt.Sprint("letter ", i))
	}
	for letters.Counts().Visible < n {
		for _, m := range c.receive(pages) {
			c.ok(pages.SetVisibility(m.Handle, 0))
		}
	}
}

func (c *cloud) tasks(most int) []object {
	c.Helper()
	return c.do("ListMessageMoveTasks", object{"SourceArn": "arn:aws:sqs:" + region + ":000000000000:letters", "MaxResults": most}).list("Results")
}

// RD-03: what a move task moves is new where it arrives, and its retention too.
func TestMoveTask(t *testing.T) {
	c := newCloud(t)
	pages, letters := c.pair("1", "VisibilityTimeout", "1000")
	_, err := pages.Send(sqs.Message{Body: "grouped", Group: "school-4", Trace: "Root=1", Attributes: map[string]sqs.Attribute{"a": {DataType: "Number", StringValue: "1"}}})
	c.ok(err)
	c.ok(pages.SetVisibility(c.one(pages).Handle, 0))
	c.none(pages)
	c.bury(pages, letters, 3)
	old := letters.Peek()
	c.clock.Advance(time.Hour)
	task := c.do("StartMessageMoveTask", object{"SourceArn": letters.ARN(), "MaxNumberOfMessagesPerSecond": 2}).body["TaskHandle"]
	c.counts(letters, 4, 0, 0)
	for moved := 1; moved <= 4; moved++ {
		c.clock.Advance(500 * time.Millisecond)
		c.counts(pages, moved, 0, 0)
		c.counts(letters, 4-moved, 0, 0)
	}
	listed := c.tasks(1)
	if listed[0]["Status"] != "RUNNING" || listed[0]["TaskHandle"] != task || listed[0]["ApproximateNumberOfMessagesToMove"] != 4.0 {
		t.Errorf("%v", listed)
	}
	c.clock.Advance(time.Second)
	if listed = c.tasks(1); listed[0]["Status"] != "COMPLETED" || listed[0]["ApproximateNumberOfMessagesMoved"] != 4.0 || listed[0]["TaskHandle"] != nil {
		t.Errorf("%v", listed)
	}
	for _, m := range c.receive(pages) {
		for _, o := range old {
			if m.ID == o.ID || !m.SentAt.After(o.SentAt.Add(time.Hour)) || m.Receives != 1 || m.Source != "" {
				t.Errorf("%+v became %+v", o, m)
			}
		}
		if m.Body == "grouped" && (m.Group != "school-4" || m.Trace != "Root=1" || m.Attributes["a"].StringValue != "1") {
			t.Errorf("%+v", m)
		}
	}
}

// A long poll at the destination sees what a task brings.
func TestMoveTaskWakesAPoll(t *testing.T) {
	c := newCloud(t)
	pages, letters := c.pair("1")
	c.bury(pages, letters, 1)
	end := c.poll(t.Context(), pages, 20*time.Second)
	<-c.clock.waits
	c.do("StartMessageMoveTask", object{"SourceArn": letters.ARN(), "MaxNumberOfMessagesPerSecond": 1})
	<-c.clock.waits
	c.clock.Advance(time.Second)
	if got := end(); len(got) != 1 {
		t.Errorf("received %v", got)
	}
}

func TestMoveTaskEnds(t *testing.T) {
	for name, row := range map[string]struct {
		spoil                func(c *cloud, letters *sqs.Queue)
		destination          string
		status, why          string
		moved, left, arrived int
	}{
		"all":              {nil, "", "COMPLETED", "", 3, 0, 3},
		"to another queue": {func(c *cloud, _ *sqs.Queue) { c.create("else") }, "else", "COMPLETED", "", 3, 0, 0},
		"no origin RD-05":  {func(c *cloud, letters *sqs.Queue) { c.send(letters, "by hand") }, "", "FAILED", "CouldNotDetermineMessageSource", 3, 1, 3},
		"no destination any more": {func(c *cloud, _ *sqs.Queue) {
			c.do("DeleteQueue", object{"QueueUrl": queueURL("pages")})
		}, "", "", "", 0, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			pages, letters := c.pair("1")
			c.bury(pages, letters, 3)
			if row.spoil != nil {
				row.spoil(c, letters)
			}
			in := object{"SourceArn": letters.ARN()}
			if row.destination != "" {
				in["DestinationArn"] = "arn:aws:sqs:" + region + ":000000000000:" + row.destination
			}
			if row.status == "" { // the only queue that sent letters here is gone
				c.refused("StartMessageMoveTask", in, "InvalidParameterValueException")
				return
			}
			c.do("StartMessageMoveTask", in)
			c.clock.Advance(time.Minute)
			task := c.tasks(1)[0]
			why, _ := task["FailureReason"].(string)
			if task["Status"] != row.status || why != row.why || task["ApproximateNumberOfMessagesMoved"] != float64(row.moved) {
				t.Errorf("%v", task)
			}
			c.counts(letters, row.left, 0, 0)
			c.counts(pages, row.arrived, 0, 0)
		})
	}
}

func TestMoveTaskWhileQueuesGo(t *testing.T) {
	for _, gone := range []string{"pages", "letters"} {
		c := newCloud(t)
		pages, letters := c.pair("1")
		c.bury(pages, letters, 5)
		c.do("StartMessageMoveTask", object{"SourceArn": letters.ARN(), "MaxNumberOfMessagesPerSecond": 1})
		c.clock.Advance(1500 * time.Millisecond)
		c.counts(pages, 2, 0, 0)
		c.do("DeleteQueue", object{"QueueUrl": queueURL(gone)})
		c.clock.Advance(time.Minute)
		if gone == "letters" {
			c.refused("ListMessageMoveTasks", object{"SourceArn": letters.ARN()}, "ResourceNotFoundException")
			c.counts(pages, 2, 0, 0)
			continue
		}
		task := c.tasks(1)[0]
		if task["Status"] != "FAILED" || task["FailureReason"] != "AWS.SimpleQueueService.NonExistentQueue" || task["ApproximateNumberOfMessagesMoved"] != 2.0 {
			t.Errorf("%v", task)
		}
		c.counts(letters, 3, 0, 0)
	}
}

func TestMoveTaskCancelled(t *testing.T) {
	c := newCloud(t)
	pages, letters := c.pair("1")
	c.bury(pages, letters, 5)
	in := object{"SourceArn": letters.ARN(), "MaxNumberOfMessagesPerSecond": 1}
	task := c.do("StartMessageMoveTask", in).body["TaskHandle"]
	c.refused("StartMessageMoveTask", in, "InvalidParameterValueException")
	c.clock.Advance(1500 * time.Millisecond)
	if a := c.do("CancelMessageMoveTask", object{"TaskHandle": task}); a.body["ApproximateNumberOfMessagesMoved"] != 2.0 {
		t.Errorf("%v", a.body)
	}
	c.refused("CancelMessageMoveTask", object{"TaskHandle": task}, "InvalidParameterValueException")
	c.clock.Advance(time.Minute)
	c.counts(letters, 3, 0, 0)
	c.do("StartMessageMoveTask", in)
	if all := c.tasks(10); len(all) != 2 || all[0]["Status"] != "RUNNING" || all[1]["Status"] != "CANCELLED" {
		t.Errorf("%v", all)
	}
	if newest := c.tasks(1); len(newest) != 1 || newest[0]["Status"] != "RUNNING" {
		t.Errorf("%v", newest)
	}
	for what, body := range map[string]object{
		"ResourceNotFoundException":         {"SourceArn": letters.ARN() + "x"},
		"InvalidParameterValueException":    {"SourceArn": letters.ARN(), "MaxNumberOfMessagesPerSecond": 501},
		"MissingRequiredParameterException": {},
	} {
		c.refused("StartMessageMoveTask", body, what)
	}
	c.refused("StartMessageMoveTask", object{"SourceArn": letters.ARN(), "DestinationArn": letters.ARN() + "x"}, "ResourceNotFoundException")
	c.refused("CancelMessageMoveTask", object{"TaskHandle": "garbage"}, "InvalidParameterValueException")
	c.refused("ListMessageMoveTasks", object{"SourceArn": letters.ARN(), "MaxResults": 11}, "InvalidParameterValueException")
}

// Twice in one batch, or to two consumers: the older handle deletes nothing.
func TestDuplicates(t *testing.T) {
	c := newCloud(t)
	var deleted []sqs.Deletion
	c.service.OnDelete = func(d sqs.Deletion) { deleted = append(deleted, d) }
	q := c.create("pages")
	c.send(q, "a")
	q.Duplicate(1)
	got := c.receive(q)
	if len(got) != 2 || got[0].ID != got[1].ID || got[0].Handle == got[1].Handle || got[1].Receives != 2 {
		t.Fatalf("%+v", got)
	}
	c.ok(q.Delete(got[0].Handle))
	c.counts(q, 0, 1, 0)
	c.ok(q.Delete(got[1].Handle))
	c.ok(q.Delete(got[1].Handle))
	c.counts(q, 0, 0, 0)
	if len(deleted) != 1 || deleted[0] != (sqs.Deletion{Region: region, Queue: "pages", ID: got[0].ID, Body: "a", At: c.clock.Now()}) {
		t.Errorf("told of %+v", deleted)
	}
	c.send(q, "b")
	q.Duplicate(1)
	one, err := q.Receive(context.Background(), 1, 0)
	c.ok(err)
	other := c.one(q)
	if one[0].ID != other.ID {
		t.Errorf("%+v and %+v", one, other)
	}
}
