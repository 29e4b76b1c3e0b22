package wiring_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	lambdago "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	enqueuehandler "github.com/expunge-aws/expunge/functions/enqueue/handler"
	holdhandler "github.com/expunge-aws/expunge/functions/hold/handler"
	reconcilehandler "github.com/expunge-aws/expunge/functions/reconcile/handler"
	redrivehandler "github.com/expunge-aws/expunge/functions/redrive/handler"
	workerhandler "github.com/expunge-aws/expunge/functions/worker/handler"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/lambda"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/wiring"
)

// The names of the samples' region.
const (
	regionName   = "eu-west-1"
	bucket       = "acme-exports"
	evidenceName = "expunge-evidence"
	pagesName    = "expunge-pages"
	reportName   = "expunge-pages-report"
	lettersName  = "expunge-dead-letters"
	enqueueName  = "expunge-enqueue"
	redriveName  = "expunge-redrive"
)

// region is a deployed region in one process: the handlers that the mains
// start, each with the variables that the stack gives it and no others, on the
// real adapters, over loopback HTTP to an embedded AWS on the machine's clock.
type region struct {
	t testing.TB
	*cloud
	env contract.Environment // of the whole region

	enqueue, worker, redrive, reconcile, hold lambdago.Handler
	// ledger and clients look at what happened; they are no function's.
	ledger *ledger.Table
	s3c    *awss3.Client
	sqsc   *awssqs.Client
	log    lines // of all functions
	// resumed is told of every scan that reconcile asked for, once it has ended, and
	// wentOn of every redrive.
	resumed, wentOn chan error
}

// cloud is the embedded AWS of this process.
type cloud struct {
	s3     *s3.Service
	sqs    *sqs.Service
	lambda *lambda.Service
	url    string

	mu    sync.Mutex
	fate  wire.Faults
	calls map[string]int // by service and operation, since the last count

	units units
}

func newCloud(t testing.TB) *cloud {
	t.Helper()
	clock := wire.Wall{}
	c := &cloud{s3: s3.New(clock), sqs: sqs.New(clock), lambda: lambda.New(clock), calls: map[string]int{}}
	aws := emulator.New(clock, c.decide, c.s3, c.sqs, c.lambda, dynamodb.New(clock))
	server := httptest.NewServer(c.units.around(aws))
	t.Cleanup(server.Close)
	t.Cleanup(c.lambda.Close)
	c.url = server.URL
	return c
}

// decide is the fault hook: it sees every call at the wire, retries included.
func (c *cloud) decide(call wire.Call) wire.Fate {
	c.mu.Lock()
	c.calls[call.Service+" "+call.Operation]++
	fate := c.fate
	c.mu.Unlock()
	return fate.Of(call)
}

// meet decides the fate of the calls from now on.
func (c *cloud) meet(fate wire.Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fate = fate
}

// count returns the calls since the last count, and begins anew.
func (c *cloud) count() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = map[string]int{}
	return calls
}

// newRegion returns a region whose policies are those of the folder.
func newRegion(t testing.TB, policies fs.FS) *region {
	t.Helper()
	c := newCloud(t)
	r := connect(t, c.url, policies)
	r.cloud = c
	must(t, c.lambda.Register(lambda.Function{
		Name: enqueueName, Region: regionName, Timeout: contract.Production().FunctionTimeout,
		Handler: func(ctx context.Context, payload []byte) ([]byte, error) {
			answer, err := r.enqueue.Invoke(ctx, payload)
			r.resumed <- err
			return answer, err
		},
	}))
	must(t, c.lambda.Register(lambda.Function{
		Name: redriveName, Region: regionName, Timeout: contract.Production().FunctionTimeout,
		Handler: func(ctx context.Context, payload []byte) ([]byte, error) {
			answer, err := r.redrive.Invoke(ctx, payload)
			r.wentOn <- err
			return answer, err
		},
	}))
	c.count()
	return r
}

// connect builds the region's table, buckets and queues in the AWS at the URL, and
// the functions from their environment.
func connect(t testing.TB, url string, policies fs.FS) *region {
	t.Helper()
	setAWS(t, url)
	r := &region{t: t, resumed: make(chan error, 10), wentOn: make(chan error, 10), env: contract.Environment{
		Table: "expunge-ledger", EvidenceBucket: evidenceName, Mode: "enforce", Policies: "unused", EnqueueName: enqueueName,
		RedriveName: redriveName, CodeVersion: "test",
	}}
	c := r.load(r.env, func(*contract.Environment) []*string { return nil }).SDK
	r.ledger = ledger.NewTable(c, r.env.Table)
	r.s3c = awss3.NewFromConfig(c.Config, func(o *awss3.Options) { o.UsePathStyle = true })
	r.sqsc = awssqs.NewFromConfig(c.Config)
	_, err := awsdynamodb.NewFromConfig(c.Config).CreateTable(t.Context(), ledger.Schema(r.env.Table))
	must(t, err)
	for _, name := range []string{bucket, evidenceName} {
		_, err := r.s3c.CreateBucket(t.Context(), &awss3.CreateBucketInput{
			Bucket: &name, CreateBucketConfiguration: &s3types.CreateBucketConfiguration{LocationConstraint: regionName},
		})
		must(t, err)
	}
	r.queues()
	r.functions(policies)
	r.approve(policies)
	return r
}

// approve puts on record that the policies of the folder may delete.
func (r *region) approve(folder fs.FS) {
	policies, err := policy.ReadFolder(folder)
	must(r.t, err)
	for _, p := range policies {
		must(r.t, r.ledger.Approve(r.t.Context(), policy.Approval{
			Policy: p.Name, Rev: 1, Version: p.Version, SHA256: p.SHA256(), By: "test", Reason: "the samples are of a region that deletes", At: ticked,
		}))
	}
}

// setAWS points the SDK at the URL, and takes everything else from it that this
// machine may have configured.
func setAWS(t testing.TB, url string) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": url, "AWS_REGION": regionName, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
}

// load builds the parts of a function from an environment, as its main does.
func (r *region) load(env contract.Environment, need func(*contract.Environment) []*string) wiring.Parts {
	r.t.Helper()
	every := contract.Environment{
		Table: "x", PagesQueue: "x", ReportQueue: "x", LettersQueue: "x", EvidenceBucket: "x", Mode: "x", Policies: "x",
		EnqueueName: "x", RedriveName: "x", CodeVersion: "x", Scale: "x",
	}
	given := env.Render()
	for name := range every.Render() {
		r.t.Setenv(name, given[name])
	}
	p, err := wiring.Load(r.t.Context(), need)
	must(r.t, err)
	lines := audit.NewLines(&r.log, "prod")
	p.Audit, p.Gauges = lines, lines
	return p
}

// only returns the region's environment as a function gets it: what it needs.
func (r *region) only(need func(*contract.Environment) []*string) contract.Environment {
	e := r.env
	needed := need(&e)
	fields := reflect.ValueOf(&e).Elem()
	for i := range fields.NumField() {
		if field, ok := fields.Field(i).Addr().Interface().(*string); !ok || !slices.Contains(needed, field) {
			fields.Field(i).SetZero()
		}
	}
	return e
}

func (r *region) queues() {
	set := contract.Production()
	whole := func(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
	create := func(name string, retention time.Duration, redrive string) string {
		attributes := map[string]string{"VisibilityTimeout": whole(set.Visibility()), "MessageRetentionPeriod": whole(retention)}
		if redrive != "" {
			attributes["RedrivePolicy"] = redrive
		}
		out, err := r.sqsc.CreateQueue(r.t.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		must(r.t, err)
		return *out.QueueUrl
	}
	r.env.LettersQueue = create(lettersName, set.DeadLetterRetention, "")
	redrive := `{"deadLetterTargetArn":"arn:aws:sqs:` + regionName + `:` + wire.Account + `:` + lettersName + `","maxReceiveCount":` +
		strconv.Itoa(set.MaxReceives) + `}`
	r.env.PagesQueue = create(pagesName, set.SourceRetention, redrive)
	r.env.ReportQueue = create(reportName, set.SourceRetention, redrive)
}

// functions makes the handlers. Made again they are other processes, which
// remember nothing.
func (r *region) functions(policies fs.FS) {
	enqueue, err := enqueuehandler.New(r.load(r.only(enqueuehandler.Needs), enqueuehandler.Needs), policies)
	must(r.t, err)
	worker, err := workerhandler.New(r.load(r.only(workerhandler.Needs), workerhandler.Needs))
	must(r.t, err)
	redrive, err := redrivehandler.New(r.load(r.only(redrivehandler.Needs), redrivehandler.Needs))
	must(r.t, err)
	reconcile, err := reconcilehandler.New(r.load(r.only(reconcilehandler.Needs), reconcilehandler.Needs), policies)
	must(r.t, err)
	r.enqueue, r.worker = lambdago.NewHandler(enqueue), lambdago.NewHandler(worker)
	r.redrive, r.reconcile = lambdago.NewHandler(redrive), lambdago.NewHandler(reconcile)
	hold, err := holdhandler.New(r.load(r.only(holdhandler.Needs), holdhandler.Needs))
	must(r.t, err)
	r.hold = lambdago.NewHandler(hold)
}

// invoke gives the handler a payload and the time that a function has.
func (r *region) invoke(h lambdago.Handler, payload []byte) []byte {
	r.t.Helper()
	ctx, end := context.WithTimeout(r.t.Context(), contract.Production().FunctionTimeout)
	defer end()
	answer, err := h.Invoke(ctx, payload)
	must(r.t, err)
	return answer
}

// poll plays the event source mapping once: it receives a batch, invokes the
// worker, and deletes what the answer does not name. It returns the batch.
func (r *region) poll() []events.SQSMessage {
	r.t.Helper()
	batch := r.receive()
	if len(batch) == 0 {
		return nil
	}
	r.settle(batch, r.invoke(r.worker, marshal(r.t, events.SQSEvent{Records: batch})))
	return batch
}

// drain polls until there is no message to be seen.
func (r *region) drain() {
	r.t.Helper()
	for len(r.poll()) > 0 {
	}
}

// receive receives at most ten messages, as the event source mapping does.
func (r *region) receive() []events.SQSMessage {
	r.t.Helper()
	out, err := r.sqsc.ReceiveMessage(r.t.Context(), &awssqs.ReceiveMessageInput{
		QueueUrl: &r.env.PagesQueue, MaxNumberOfMessages: 10,
		MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameAll},
		MessageAttributeNames:       []string{"All"},
	})
	must(r.t, err)
	batch := make([]events.SQSMessage, len(out.Messages))
	for i, m := range out.Messages {
		batch[i] = events.SQSMessage{
			MessageId: *m.MessageId, ReceiptHandle: *m.ReceiptHandle, Body: *m.Body, Md5OfBody: *m.MD5OfBody, Attributes: m.Attributes,
			MessageAttributes: map[string]events.SQSMessageAttribute{}, EventSource: "aws:sqs", AWSRegion: regionName,
			EventSourceARN: "arn:aws:sqs:" + regionName + ":" + wire.Account + ":" + pagesName,
		}
	}
	return batch
}

// settle deletes the messages of a batch that the answer does not name.
func (r *region) settle(batch []events.SQSMessage, answer []byte) {
	r.t.Helper()
	var said events.SQSEventResponse
	must(r.t, json.Unmarshal(answer, &said))
	in := &awssqs.DeleteMessageBatchInput{QueueUrl: &r.env.PagesQueue}
	for i, m := range batch {
		if !slices.Contains(said.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.MessageId}) {
			in.Entries = append(in.Entries, sqstypes.DeleteMessageBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &batch[i].ReceiptHandle,
			})
		}
	}
	if len(in.Entries) == 0 {
		return
	}
	out, err := r.sqsc.DeleteMessageBatch(r.t.Context(), in)
	must(r.t, err)
	if len(out.Failed) > 0 {
		r.t.Fatalf("not deleted: %v", out.Failed)
	}
}

// queued returns the messages of a queue, hidden ones too, without receiving any.
func (r *region) queued(name string) []sqs.Message {
	r.t.Helper()
	q, err := r.sqs.Queue(regionName, name)
	must(r.t, err)
	return q.Peek()
}

// lines keeps what is written to it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns the text and forgets it.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
