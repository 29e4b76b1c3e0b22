package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/queue/queuetest"
	"github.com/expunge-aws/expunge/internal/sdk"
)

const region = "eu-central-1"

// cloud is the region's queues in an embedded AWS, over loopback.
type cloud struct {
	*queue.SQS
	service *sqs.Service
	clock   *wire.Manual
	config  sdk.Config
	urls    queue.URLs

	mu     sync.Mutex
	faults wire.Faults
	calls  []string
}

// meet decides the fate of the calls from now on, and forgets those before.
func (c *cloud) meet(faults wire.Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults, c.calls = faults, nil
}

func (c *cloud) fate(call wire.Call) wire.Fate {
	c.mu.Lock()
	faults := c.faults
	c.calls = append(c.calls, call.Operation)
	c.mu.Unlock()
	return faults.Of(call)
}

// sent returns the calls that arrived.
func (c *cloud) sent() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{clock: wire.NewManual(time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC))}
	c.service = sqs.New(c.clock)
	server := httptest.NewServer(emulator.New(c.clock, c.fate, c.service))
	t.Cleanup(server.Close)
	limits := sdk.Defaults()
	limits.Backoff = time.Millisecond
	c.config = limits.Configure(aws.Config{
		Region: region, BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", ""),
	})
	set := settings()
	c.urls.Letters = c.create(t, "letters", set.LetterRetention, "")
	letters, err := c.service.Queue(region, "letters")
	must(t, err)
	policy := `{"deadLetterTargetArn":"` + letters.ARN() + `","maxReceiveCount":` + strconv.Itoa(set.MaxReceives) + `}`
	c.urls.Enforce = c.create(t, "pages", set.Retention, policy)
	c.urls.ReportOnly = c.create(t, "pages-report", set.Retention, policy)
	c.SQS = c.as(job.Enforce)
	c.meet(nil)
	return c
}

// as returns the queues as a worker of the mode has them.
func (c *cloud) as(mode job.Mode) *queue.SQS {
	s := queue.NewSQS(c.config, c.urls)
	s.Worker = mode
	return s
}

func (c *cloud) create(t *testing.T, name string, retention time.Duration, redrive string) string {
	t.Helper()
	whole := func(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
	attributes := map[string]string{"VisibilityTimeout": whole(settings().Visibility), "MessageRetentionPeriod": whole(retention)}
	if redrive != "" {
		attributes["RedrivePolicy"] = redrive
	}
	out, err := awssqs.NewFromConfig(c.config.Config).CreateQueue(context.Background(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	must(t, err)
	return *out.QueueUrl
}

// peek returns what lies in a queue, hidden or not.
func (c *cloud) peek(t *testing.T, name string) []sqs.Message {
	t.Helper()
	q, err := c.service.Queue(region, name)
	must(t, err)
	return q.Peek()
}

// workers is a worker of each mode behind one Receiver: the suite delays deliveries
// of both, and a worker is bound to its own queue.
type workers struct {
	queue.Receiver
	reporting queue.Receiver

	mu   sync.Mutex
	from map[string]job.Mode // by handle
}

func (w *workers) Receive(ctx context.Context, mode job.Mode, limit int) ([]job.Delivery, error) {
	got, err := w.Receiver.Receive(ctx, mode, limit)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range got {
		w.from[d.Handle] = mode
	}
	return got, err
}

func (w *workers) Delay(ctx context.Context, d job.Delivery, wait time.Duration) error {
	w.mu.Lock()
	mode := w.from[d.Handle]
	w.mu.Unlock()
	if mode == job.ReportOnly {
		return w.reporting.Delay(ctx, d, wait)
	}
	return w.Receiver.Delay(ctx, d, wait)
}

// refusing refuses the entries of a batch send that carry the messages.
func refusing(bodies map[string]bool) wire.Faults {
	return func(call wire.Call) wire.Fate {
		var in struct {
			Entries []struct {
				ID          string `json:"Id"`
				MessageBody string
			}
		}
		if call.Operation != "SendMessageBatch" || json.Unmarshal(call.Body, &in) != nil {
			return wire.Fate{}
		}
		return wire.Fate{Entries: func(id string) *wire.Error {
			for _, e := range in.Entries {
				if e.ID == id && bodies[e.MessageBody] {
					return wire.Bad("RequestThrottled", "in words")
				}
			}
			return nil
		}}
	}
}

func TestSQS(t *testing.T) {
	queuetest.Exercise(t, func(t *testing.T) queuetest.Bed {
		c := newCloud(t)
		return queuetest.Bed{
			Sender: c, Letterbox: c, Inspector: c, Settings: settings(), Advance: c.clock.Advance,
			Receiver: &workers{Receiver: c, reporting: c.as(job.ReportOnly), from: map[string]job.Mode{}},
			Refuse: func(ids ...string) {
				bodies := map[string]bool{}
				for _, id := range ids { // the suite's page-003 is {"page":3}
					n, err := strconv.Atoi(id[len("page-"):])
					must(t, err)
					bodies[`{"page":`+strconv.Itoa(n)+`}`] = true
				}
				c.meet(refusing(bodies))
			},
		}
	})
}

// SQ-16: reported as failed, and it happened. What is not accepted is sent again, and
// then lies there twice.
func TestSQSEntryFailedButHappened(t *testing.T) {
	c := newCloud(t)
	c.meet(func(wire.Call) wire.Fate {
		return wire.Fate{EntriesAfter: func(id string) *wire.Error {
			if id == "1" {
				return &wire.Error{Status: http.StatusInternalServerError, Code: "InternalFailure"}
			}
			return nil
		}}
	})
	accepted, err := c.Send(t.Context(), job.Enforce, pages("a", "b", "c"))
	must(t, err)
	if !slices.Equal(accepted, []string{"a", "c"}) || len(c.peek(t, "pages")) != 3 {
		t.Errorf("accepted %v, of %d in the queue", accepted, len(c.peek(t, "pages")))
	}
}

// The retries of each operation, and what an answer that is lost each time comes to.
func TestSQSLostAnswers(t *testing.T) {
	ctx := t.Context()
	for name, row := range map[string]struct {
		sent int // how often it goes out
		call func(*cloud, job.Delivery, job.DeadLetter) error
	}{
		"send": {3, func(c *cloud, _ job.Delivery, _ job.DeadLetter) error {
			accepted, err := c.Send(ctx, job.Enforce, pages("new"))
			return errors.Join(err, acceptedNone(accepted))
		}},
		"receive": {1, func(c *cloud, _ job.Delivery, _ job.DeadLetter) error {
			got, err := c.Receive(ctx, job.Enforce, 10)
			if len(got) > 0 {
				t.Errorf("received %v", got)
			}
			return err
		}},
		"letters": {1, func(c *cloud, _ job.Delivery, _ job.DeadLetter) error {
			got, err := c.Letters(ctx, 10)
			if len(got) > 0 {
				t.Errorf("received %v", got)
			}
			return err
		}},
		"ack":         {3, func(c *cloud, d job.Delivery, _ job.DeadLetter) error { return c.Ack(ctx, job.Enforce, d) }},
		"delay":       {3, func(c *cloud, d job.Delivery, _ job.DeadLetter) error { return c.Delay(ctx, d, time.Hour) }},
		"dead-letter": {3, func(c *cloud, _ job.Delivery, _ job.DeadLetter) error { return c.DeadLetter(ctx, letterOf("new")) }},
		"remove":      {3, func(c *cloud, _ job.Delivery, dead job.DeadLetter) error { return c.Remove(ctx, dead) }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			_, err := c.Send(ctx, job.Enforce, pages("old", "other"))
			must(t, err)
			must(t, c.DeadLetter(ctx, letterOf("old")))
			must(t, c.DeadLetter(ctx, letterOf("other")))
			d, err := c.Receive(ctx, job.Enforce, 1)
			must(t, err)
			dead, err := c.Letters(ctx, 1)
			must(t, err)
			c.meet(func(wire.Call) wire.Fate { return wire.Fate{Lost: true} })
			err = row.call(c, d[0], dead[0])
			if !failure.Is(err, failure.Network) || len(c.sent()) != row.sent {
				t.Errorf("%v after %v", err, c.sent())
			}
			c.meet(nil)
			if name == "ack" && len(c.peek(t, "pages")) != 1 || name == "remove" && len(c.peek(t, "letters")) != 1 {
				t.Error("it did not happen")
			}
			if name == "receive" { // what was handed out and lost is hidden, not gone
				got, err := c.Receive(ctx, job.Enforce, 10)
				must(t, err)
				c.clock.Advance(settings().Visibility)
				again, err := c.Receive(ctx, job.Enforce, 10)
				must(t, err)
				if len(got) != 0 || len(again) != 2 {
					t.Errorf("%d at once, %d after the timeout", len(got), len(again))
				}
			}
		})
	}
}

// RD-01, RD-04, RD-05: what tells where a letter comes from.
func TestSQSOrigins(t *testing.T) {
	c := newCloud(t)
	letters, err := c.service.Queue(region, "letters")
	must(t, err)
	_, err = letters.Send(sqs.Message{Body: "by hand"})
	must(t, err)
	_, err = letters.Send(sqs.Message{Body: "by hand, with words", Attributes: map[string]sqs.Attribute{"note": {DataType: "String", StringValue: "x"}}})
	must(t, err)
	_, err = letters.Send(sqs.Message{Body: "no text", Attributes: map[string]sqs.Attribute{"reason": {DataType: "Binary", BinaryValue: []byte("age")}}})
	must(t, err)
	got, err := c.Letters(t.Context(), 10)
	must(t, err)
	for _, d := range got {
		if d.Origin != "" || d.Letter.Reason != "" || d.Damaged != (string(d.Body) != "by hand") {
			t.Errorf("%s: %+v", d.Body, d)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d letters", len(got))
	}
}

// A process uses the queues that it was given, and no other.
func TestSQSQueuesNotGiven(t *testing.T) {
	ctx := t.Context()
	c := newCloud(t)
	s := queue.NewSQS(c.config, queue.URLs{ReportOnly: c.urls.ReportOnly})
	_, sending := s.Send(ctx, job.Enforce, pages("a"))
	_, receiving := s.Receive(ctx, job.Enforce, 1)
	_, reading := s.Letters(ctx, 1)
	for what, err := range map[string]error{
		"send": sending, "receive": receiving, "letters": reading, "ack": s.Ack(ctx, job.Enforce, job.Delivery{Handle: "h"}),
		"dead letter": s.DeadLetter(ctx, letterOf("a")), "remove": s.Remove(ctx, job.DeadLetter{}), "put back": s.PutBack(ctx, job.DeadLetter{}),
	} {
		if !failure.Is(err, failure.Forbidden) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Delay(ctx, job.Delivery{Handle: "h"}, 0); !failure.Is(err, failure.Invalid) {
		t.Errorf("delay without a worker's mode: %v", err)
	}
	if calls := c.sent(); len(calls) != 0 {
		t.Errorf("asked SQS for %v", calls)
	}
}

func TestSQSNothingAskedFor(t *testing.T) {
	c := newCloud(t)
	if got, err := c.Receive(t.Context(), job.Enforce, 0); err != nil || got != nil || len(c.sent()) != 0 {
		t.Errorf("%v, %v after %v", got, err, c.sent())
	}
}

// SQS hands out ten at most, whatever is asked for.
func TestSQSReceivesTenAtMost(t *testing.T) {
	c := newCloud(t)
	var ids []string
	for i := range 12 {
		ids = append(ids, strconv.Itoa(i))
	}
	_, err := c.Send(t.Context(), job.Enforce, pages(ids...))
	must(t, err)
	if got, err := c.Receive(t.Context(), job.Enforce, 100); err != nil || len(got) != 10 {
		t.Errorf("%d messages, %v", len(got), err)
	}
}
