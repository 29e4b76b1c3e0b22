package sqs_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const region = "eu-central-1"

// cloud is an SQS on a clock that the test moves, asked without a network between.
type cloud struct {
	*testing.T
	service *sqs.Service
	clock   *watched
	aws     http.Handler

	mu     sync.Mutex
	faults wire.Faults
}

func newCloud(t *testing.T) *cloud {
	c := &cloud{T: t, clock: &watched{wire.NewManual(time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)), make(chan struct{}, 1000)}}
	c.service = sqs.New(c.clock)
	c.aws = emulator.New(c.clock, func(call wire.Call) wire.Fate {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.faults.Of(call)
	}, c.service)
	return c
}

// watched is a clock that tells when somebody begins to wait for it.
type watched struct {
	*wire.Manual
	waits chan struct{}
}

func (w *watched) After(d time.Duration) <-chan time.Time {
	ring := w.Manual.After(d)
	w.waits <- struct{}{}
	return ring
}

// meet decides the fate of the calls from now on.
func (c *cloud) meet(fate wire.Fate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = func(wire.Call) wire.Fate { return fate }
}

// object is a JSON object.
type object = map[string]any

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   object
}

func (a answer) code() string { s, _ := a.body["__type"].(string); return s }

func (a answer) list(name string) []object {
	items, _ := a.body[name].([]any)
	all := make([]object, 0, len(items))
	for _, item := range items {
		o, _ := item.(object)
		all = append(all, o)
	}
	return all
}

// ask sends a request and returns whatever comes back.
func (c *cloud) ask(operation string, body any) answer {
	c.Helper()
	return c.askContext(context.Background(), operation, body)
}

func (c *cloud) askContext(ctx context.Context, operation string, body any) answer {
	c.Helper()
	text, ok := body.(string)
	if !ok {
		b, err := json.Marshal(body)
		c.ok(err)
		text = string(b)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:4566/", strings.NewReader(text))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20261201/"+region+"/sqs/aws4_request, SignedHeaders=host, Signature=0")
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "AmazonSQS."+operation)
	w := httptest.NewRecorder()
	c.aws.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header()}
	c.ok(json.Unmarshal(w.Body.Bytes(), &a.body))
	return a
}

// do sends a request that has to succeed.
func (c *cloud) do(operation string, body object) answer {
	c.Helper()
	a := c.ask(operation, body)
	if a.status != http.StatusOK {
		c.Fatalf("%s: %d %v", operation, a.status, a.body)
	}
	return a
}

// refused sends a request that has to fail with the code.
func (c *cloud) refused(operation string, body any, code string) answer {
	c.Helper()
	a := c.ask(operation, body)
	if a.status < 400 || a.code()[strings.LastIndexByte(a.code(), '#')+1:] != code {
		c.Errorf("%s %.200v: %d %v, want %s", operation, body, a.status, a.body, code)
	}
	return a
}

func queueURL(name string) string { return "http://127.0.0.1:4566/000000000000/" + name }

// create makes a queue; attributes come in pairs.
func (c *cloud) create(name string, attributes ...string) *sqs.Queue {
	c.Helper()
	all := map[string]string{}
	for i := 0; i < len(attributes); i += 2 {
		all[attributes[i]] = attributes[i+1]
	}
	if a := c.do("CreateQueue", object{"QueueName": name, "Attributes": all}); a.body["QueueUrl"] != queueURL(name) {
		c.Fatalf("the queue is %v", a.body["QueueUrl"])
	}
	q, err := c.service.Queue(region, name)
	c.ok(err)
	return q
}

// pair makes a queue and its dead letter queue.
func (c *cloud) pair(maxReceives string, attributes ...string) (pages, letters *sqs.Queue) {
	c.Helper()
	letters = c.create("letters", "MessageRetentionPeriod", "1209600")
	policy := `{"deadLetterTargetArn":"` + letters.ARN() + `","maxReceiveCount":` + maxReceives + `}`
	return c.create("pages", append(attributes, "RedrivePolicy", policy)...), letters
}

func (c *cloud) ok(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cloud) send(q *sqs.Queue, bodies ...string) {
	c.Helper()
	for _, body := range bodies {
		_, err := q.Send(sqs.Message{Body: body})
		c.ok(err)
	}
}

func (c *cloud) receive(q *sqs.Queue) []sqs.Message {
	c.Helper()
	got, err := q.Receive(context.Background(), 10, 0)
	c.ok(err)
	return got
}

func (c *cloud) one(q *sqs.Queue) sqs.Message {
	c.Helper()
	got := c.receive(q)
	if len(got) != 1 {
		c.Fatalf("received %d messages, want 1", len(got))
	}
	return got[0]
}

func (c *cloud) none(q *sqs.Queue) {
	c.Helper()
	if got := c.receive(q); len(got) != 0 {
		c.Fatalf("received %d messages, want none", len(got))
	}
}

func (c *cloud) counts(q *sqs.Queue, visible, inFlight, delayed int) {
	c.Helper()
	if got := q.Counts(); got != (sqs.Counts{Visible: visible, InFlight: inFlight, Delayed: delayed}) {
		c.Errorf("got %+v, want %d, %d, %d", got, visible, inFlight, delayed)
	}
}
