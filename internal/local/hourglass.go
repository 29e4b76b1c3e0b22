package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing/fstest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	enqueuehandler "github.com/expunge-aws/expunge/functions/enqueue/handler"
	workerhandler "github.com/expunge-aws/expunge/functions/worker/handler"
	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator"
	fakeddb "github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	fakes3 "github.com/expunge-aws/expunge/internal/emulator/s3"
	fakesqs "github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/sdk"
	"github.com/expunge-aws/expunge/internal/wiring"
)

// hourglass is a region on the embedded AWS whose clock is moved by hand: where a
// drill needs dates. The handlers run in this process, bytes in and bytes out. Its
// dates lie ahead of the machine's, or the deadlines of the calls would be over.
type hourglass struct {
	clock  *wire.Manual
	region string
	server *http.Server
	s3     *fakes3.Service
	// pages is the queue of what may be deleted, letters that of the dead.
	pages, letters *fakesqs.Queue
	ledger         *ledger.Table

	// parts are what the handlers are wired from.
	parts           wiring.Parts
	enqueue, worker lambda.Handler
}

// handClock is the hand-moved clock as a function sees it: waiting moves it.
type handClock struct{ *wire.Manual }

// Sleep implements wiring.Clock.
func (c handClock) Sleep(_ context.Context, d time.Duration) error {
	c.Advance(d)
	return nil
}

// newHourglass starts a region at an instant. file is the one policy's.
func newHourglass(ctx context.Context, at time.Time, file string) (*hourglass, error) {
	p, err := policy.Parse("policy.yaml", []byte(file))
	if err != nil {
		return nil, err
	}
	listener, err := emulator.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hourglass{clock: wire.NewManual(at), region: p.Region}
	h.s3 = fakes3.New(h.clock)
	queues := fakesqs.New(h.clock)
	h.server = &http.Server{
		Handler:           emulator.New(h.clock, nil, h.s3, queues, fakeddb.New(h.clock)),
		ReadHeaderTimeout: 10 * time.Second, // loopback; a client that is slower has died
	}
	go func() { _ = h.server.Serve(listener) }() // ends with Close, which is the only error it can have
	endpoint := "http://" + listener.Addr().String()
	c := sdk.Defaults().Configure(aws.Config{
		Region: p.Region, BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	if err := h.build(ctx, c, p, file); err != nil {
		h.Close()
		return nil, err
	}
	h.pages, err = queues.Queue(p.Region, "pages")
	if err == nil {
		h.letters, err = queues.Queue(p.Region, "dead-letters")
	}
	return h, err
}

// Close ends the region.
func (h *hourglass) Close() { _ = h.server.Close() } // nobody is left to be told

// build makes what the stack would, and the handlers.
func (h *hourglass) build(ctx context.Context, c sdk.Config, p policy.Policy, file string) error {
	env := contract.Environment{Table: tableName, EvidenceBucket: evidenceName, Mode: string(job.Enforce), CodeVersion: codeVersion}
	if _, err := dynamodb.NewFromConfig(c.Config).CreateTable(ctx, ledger.Schema(tableName)); err != nil {
		return err
	}
	buckets := s3.NewFromConfig(c.Config, func(o *s3.Options) { o.UsePathStyle = true })
	for _, name := range []string{evidenceName, p.Bucket} {
		if _, err := buckets.CreateBucket(ctx, createBucket(name, p.Region)); err != nil {
			return err
		}
	}
	for name, url := range map[string]*string{"pages": &env.PagesQueue, "report": &env.ReportQueue, "dead-letters": &env.LettersQueue} {
		out, err := sqs.NewFromConfig(c.Config).CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name})
		if err != nil {
			return err
		}
		*url = *out.QueueUrl
	}
	h.ledger = ledger.NewTable(c, tableName)
	if err := approve(ctx, h.ledger, []policy.Policy{p}, h.clock.Now(), ""); err != nil {
		return err
	}
	messages := queue.NewSQS(c, queue.URLs{Enforce: env.PagesQueue, ReportOnly: env.ReportQueue, Letters: env.LettersQueue})
	messages.Worker = job.Enforce
	log := &audit.Log{}
	h.parts = wiring.Parts{
		Environment: env, Settings: contract.Production(), Region: p.Region, SDK: c, Ledger: h.ledger, Queue: messages,
		Store: artifact.NewS3(c, artifact.S3Options{Now: h.clock.Now}), Evidence: evidence.NewS3(c, evidenceName), Audit: log, Gauges: log, Clock: handClock{h.clock},
	}
	enqueuer, err := enqueuehandler.New(h.parts, fstest.MapFS{p.Name + ".yaml": {Data: []byte(file)}})
	if err != nil {
		return err
	}
	worker, err := workerhandler.New(h.parts)
	if err != nil {
		return err
	}
	h.enqueue, h.worker = lambda.NewHandler(enqueuer), lambda.NewHandler(worker)
	return nil
}

// invoke gives a handler a payload and a function's time on the region's clock.
func (h *hourglass) invoke(ctx context.Context, handler lambda.Handler, payload any) ([]byte, error) {
	ctx, end := context.WithDeadline(ctx, h.clock.Now().Add(contract.Production().FunctionTimeout))
	defer end()
	data, err := json.Marshal(payload)
	if err != nil {
		return nil, err
	}
	return handler.Invoke(ctx, data)
}

// tick moves the clock to the instant and plays the run that is scheduled there, to
// its last message. It returns the run.
func (h *hourglass) tick(ctx context.Context, p string, at time.Time) (job.Run, error) {
	h.clock.Advance(at.Sub(h.clock.Now()))
	if _, err := h.invoke(ctx, h.enqueue, map[string]string{"policy": p, "scheduled": at.UTC().Format(time.RFC3339)}); err != nil {
		return job.Run{}, err
	}
	for {
		got, err := h.pages.Receive(ctx, 10, 0)
		if err != nil {
			return job.Run{}, err
		}
		if len(got) == 0 {
			return h.ledger.Run(ctx, job.ScheduledRunID(h.region, p, at))
		}
		batch := events.SQSEvent{}
		for _, m := range got {
			batch.Records = append(batch.Records, events.SQSMessage{MessageId: m.ID, ReceiptHandle: m.Handle, Body: m.Body, Attributes: m.SystemAttributes()})
		}
		answer, err := h.invoke(ctx, h.worker, batch)
		if err != nil {
			return job.Run{}, err
		}
		var said events.SQSEventResponse
		if err := json.Unmarshal(answer, &said); err != nil {
			return job.Run{}, err
		}
		if len(said.BatchItemFailures) > 0 {
			return job.Run{}, fmt.Errorf("local: the worker gave back %d of %d messages", len(said.BatchItemFailures), len(got))
		}
		for _, m := range got {
			if err := h.pages.Delete(m.Handle); err != nil {
				return job.Run{}, err
			}
		}
	}
}

// put uploads objects as old as given, by name.
func (h *hourglass) put(bucket string, objects map[string]time.Duration) error {
	now := h.clock.Now()
	return h.s3.Seed(bucket, func(yield func(fakes3.Object) bool) {
		for key, age := range objects {
			if !yield(fakes3.Object{Key: key, Body: []byte(key), Modified: now.Add(-age)}) {
				return
			}
		}
	})
}

// effects returns the keys that were deleted, sorted.
func (h *hourglass) effects(bucket string) ([]string, error) {
	all, err := h.s3.Effects(bucket)
	var keys []string
	for _, e := range all {
		keys = append(keys, e.Key)
	}
	slices.Sort(keys)
	return keys, err
}
