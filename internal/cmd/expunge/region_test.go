package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	lambdago "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
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
	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/cloudformation"
	"github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/lambda"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/sts"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/sdk"
	"github.com/expunge-aws/expunge/internal/wiring"
)

const (
	regionName = "eu-west-1"
	bucketName = "acme-exports"
)

// region is a deployed region in one process: the real handlers on the real
// adapters, over loopback HTTP to an embedded AWS. Its functions are asked as the
// tool asks them; the event source mapping is played by deliver.
type region struct {
	t       *testing.T
	dir     string // an operator's working directory: .expunge/up.json names the region
	now     *hands
	outputs contract.Outputs
	sdk     sdk.Config

	s3     *s3.Service
	sqs    *sqs.Service
	lambda *lambda.Service
	stacks *cloudformation.Service
	url    string

	ledger   *ledger.Table
	queue    *queue.SQS
	evidence *evidence.S3
	parts    wiring.Parts
	worker   lambdago.Handler
	closer   lambdago.Handler // reconcile
	enqueue  enqueuehandler.Func

	mu      sync.Mutex
	fate    wire.Faults
	command string // of the tool, while it runs
}

// hands are a clock that a test sets. Sleeping moves it.
type hands struct {
	mu    sync.Mutex
	at    time.Time
	slept time.Duration
	// onSleep happens while somebody waits.
	onSleep func()
}

func (h *hands) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *hands) Sleep(ctx context.Context, d time.Duration) error {
	h.mu.Lock()
	h.at, h.slept = h.at.Add(d), h.slept+d
	h.mu.Unlock()
	if h.onSleep != nil {
		h.onSleep()
	}
	return ctx.Err()
}

// exportsPolicy is the policy that the region's functions are deployed with.
const exportsPolicy = `name: exports
version: 1
region: eu-west-1
bucket: acme-exports
keys: exports/{tenant}/csv/
retention_days: 30
mode: enforce
schedule: {every: daily, at: "02:30", zone: Europe/Berlin}
`

// newRegion returns an empty region. The operator's clock stands at the instant,
// the functions' is the machine's.
func newRegion(t *testing.T, now time.Time) *region {
	t.Helper()
	clock := wire.Wall{}
	r := &region{
		t: t, dir: t.TempDir(), now: &hands{at: now},
		s3: s3.New(clock), sqs: sqs.New(clock), lambda: lambda.New(clock), stacks: cloudformation.New(clock),
	}
	server := httptest.NewServer(emulator.New(clock, r.decide, r.s3, r.sqs, r.lambda, r.stacks, dynamodb.New(clock), sts.New()))
	t.Cleanup(server.Close)
	t.Cleanup(r.lambda.Close)
	r.url = server.URL
	limits := sdk.Defaults()
	limits.Backoff = time.Millisecond
	r.sdk = limits.Configure(aws.Config{
		Region: regionName, BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("functions", "local", ""),
	})
	r.outputs = contract.Outputs{
		Region: regionName, Stage: "dev", Table: "expunge-ledger", Evidence: "expunge-evidence",
		Enqueue: "expunge-enqueue", Worker: "expunge-worker", ReportWorker: "expunge-report-worker", Redrive: "expunge-redrive",
		Reconcile: "expunge-reconcile", Hold: "expunge-hold", Schedules: "expunge", CodeVersion: "test",
	}
	r.stores()
	r.functions()
	r.up()
	r.allowed()
	return r
}

// allowed lets the policy delete, as somebody has once approved.
func (r *region) allowed() {
	r.t.Helper()
	p, err := policy.Parse("exports.yaml", []byte(exportsPolicy))
	must(r.t, err)
	must(r.t, r.ledger.Approve(r.t.Context(), policy.Approval{
		Policy: p.Name, Rev: 1, Version: p.Version, SHA256: p.SHA256(), By: "ana", Reason: "it was looked at", At: old,
	}))
}

// decide is the fault hook of the embedded AWS.
func (r *region) decide(call wire.Call) wire.Fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(call)
	return r.fate.Of(call)
}

// meet decides the fate of the calls from now on.
func (r *region) meet(fate wire.Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fate = fate
}

func (r *region) stores() {
	ctx := r.t.Context()
	_, err := awsdynamodb.NewFromConfig(r.sdk.Config).CreateTable(ctx, ledger.Schema(r.outputs.Table))
	must(r.t, err)
	s3c := awss3.NewFromConfig(r.sdk.Config, func(o *awss3.Options) { o.UsePathStyle = true })
	for _, name := range []string{bucketName, r.outputs.Evidence} {
		_, err := s3c.CreateBucket(ctx, &awss3.CreateBucketInput{
			Bucket: &name, CreateBucketConfiguration: &s3types.CreateBucketConfiguration{LocationConstraint: regionName},
		})
		must(r.t, err)
	}
	sqsc := awssqs.NewFromConfig(r.sdk.Config)
	for name, url := range map[string]*string{"pages": &r.outputs.PagesQueue, "pages-report": &r.outputs.ReportQueue, "dead-letters": &r.outputs.LettersQueue} {
		out, err := sqsc.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: aws.String("expunge-" + name), Attributes: map[string]string{
			"VisibilityTimeout": strconv.Itoa(int(contract.Production().Visibility().Seconds())),
		}})
		must(r.t, err)
		*url = *out.QueueUrl
	}
	r.ledger = ledger.NewTable(r.sdk, r.outputs.Table)
	r.evidence = evidence.NewS3(r.sdk, r.outputs.Evidence)
	r.queue = queue.NewSQS(r.sdk, queue.URLs{Enforce: r.outputs.PagesQueue, ReportOnly: r.outputs.ReportQueue, Letters: r.outputs.LettersQueue})
	r.queue.Worker = "enforce"
}

// functions makes the handlers as the mains do, and registers those that the tool
// asks.
func (r *region) functions() {
	log := &audit.Log{}
	r.parts = wiring.Parts{
		Environment: contract.Environment{
			Table: r.outputs.Table, PagesQueue: r.outputs.PagesQueue, ReportQueue: r.outputs.ReportQueue, LettersQueue: r.outputs.LettersQueue,
			EvidenceBucket: r.outputs.Evidence, Mode: "enforce", Policies: "unused", EnqueueName: r.outputs.Enqueue, RedriveName: r.outputs.Redrive,
			CodeVersion: "test",
		},
		Settings: contract.Production(), Region: regionName, SDK: r.sdk, Ledger: r.ledger, Queue: r.queue,
		Store: artifact.NewS3(r.sdk, artifact.S3Options{}), Evidence: r.evidence, Audit: log, Gauges: log, Clock: wiring.Wall{},
	}
	var err error
	deployed := fstest.MapFS{"exports.yaml": {Data: []byte(exportsPolicy)}}
	r.enqueue, err = enqueuehandler.New(r.parts, deployed)
	must(r.t, err)
	worker, err := workerhandler.New(r.parts)
	must(r.t, err)
	reconcile, err := reconcilehandler.New(r.parts, deployed)
	must(r.t, err)
	r.worker, r.closer = lambdago.NewHandler(worker), lambdago.NewHandler(reconcile)
	r.register(r.outputs.Enqueue, lambdago.NewHandler(r.enqueue))
	r.redriver()
	keeper, err := holdhandler.New(r.parts)
	must(r.t, err)
	r.register(r.outputs.Hold, lambdago.NewHandler(keeper))
}

func (r *region) redriver() {
	r.t.Helper()
	parts := r.parts
	parts.Settings = quick()
	redriver, err := redrivehandler.New(parts)
	must(r.t, err)
	r.register(r.outputs.Redrive, lambdago.NewHandler(redriver))
}

// quick are the production's numbers without the wait for a storm to be over.
func quick() contract.Settings {
	s := contract.Production()
	s.RedriveAfterFailure, s.RedriveAfterDeath = time.Nanosecond, time.Nanosecond
	return s
}

func (r *region) register(name string, h lambdago.Handler) {
	r.t.Helper()
	must(r.t, r.lambda.Register(lambda.Function{
		Name: name, Region: regionName, Timeout: contract.Production().FunctionTimeout, Handler: h.Invoke,
	}))
}

// up writes where the region is.
func (r *region) up() {
	r.t.Helper()
	text, err := json.Marshal(map[string]any{"endpoint": r.url, "outputs": r.outputs.Render()})
	must(r.t, err)
	must(r.t, os.MkdirAll(filepath.Join(r.dir, ".expunge"), 0o755))
	must(r.t, os.WriteFile(filepath.Join(r.dir, upFile), text, 0o644))
}

// wallNow is the functions' clock.
func wallNow() time.Time { return time.Now().UTC() }

// decode reads JSON that a command printed.
func decode(t *testing.T, text string, into any) {
	t.Helper()
	must(t, json.Unmarshal([]byte(text), into))
}

// runs names the command that runs from now on, and returns the one that ran before.
func (r *region) runs(command string) (before string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.command = r.command, command
	return before
}

// said is what a command of the tool said.
type said struct {
	status   int
	out, err string
}

// expunge runs a command of the tool.
func (r *region) expunge(args ...string) said {
	r.t.Helper()
	defer r.runs(r.runs(commandOf(args)))
	s := run(r.t, Process{Args: args, Dir: r.dir, Clock: r.now})
	s.out = strings.ReplaceAll(s.out, r.url, "http://127.0.0.1:4566") // whatever port it got
	return s
}

func run(t *testing.T, p Process) said {
	t.Helper()
	var out, err bytes.Buffer
	p.Out, p.Err = &out, &err
	if p.Env == nil {
		p.Env = func(string) string { return "" }
	}
	status := Main(t.Context(), p)
	return said{status, out.String(), err.String()}
}

// ok runs a command that must end well.
func (r *region) ok(args ...string) said {
	r.t.Helper()
	s := r.expunge(args...)
	if s.status != exitDone {
		r.t.Fatalf("expunge %s: status %d\n%s%s", strings.Join(args, " "), s.status, s.out, s.err)
	}
	return s
}

// json runs a command that must end well and reads its answer.
func (r *region) json(into any, args ...string) {
	r.t.Helper()
	decode(r.t, r.ok(append(args, "--json")...).out, into)
}

// ends runs a command that must end with a status, and say so.
func (r *region) ends(status int, reason string, args ...string) said {
	r.t.Helper()
	s := r.expunge(args...)
	if s.status != status || !strings.Contains(s.err, reason) {
		r.t.Fatalf("expunge %s: status %d, want %d and %q\n%s%s", strings.Join(args, " "), s.status, status, reason, s.out, s.err)
	}
	return s
}

// deliver plays the event source mapping until there is nothing to be seen.
func (r *region) deliver() {
	r.t.Helper()
	sqsc := awssqs.NewFromConfig(r.sdk.Config)
	for {
		out, err := sqsc.ReceiveMessage(r.t.Context(), &awssqs.ReceiveMessageInput{
			QueueUrl: &r.outputs.PagesQueue, MaxNumberOfMessages: 10,
			MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameAll},
			MessageAttributeNames:       []string{"All"},
		})
		must(r.t, err)
		if len(out.Messages) == 0 {
			return
		}
		r.hand(sqsc, out.Messages)
	}
}

// hand hands a batch to the worker, and deletes what it does not give back.
func (r *region) hand(sqsc *awssqs.Client, messages []sqstypes.Message) {
	r.t.Helper()
	var batch events.SQSEvent
	for _, m := range messages {
		batch.Records = append(batch.Records, events.SQSMessage{
			MessageId: *m.MessageId, ReceiptHandle: *m.ReceiptHandle, Body: *m.Body, Md5OfBody: *m.MD5OfBody, Attributes: m.Attributes,
			MessageAttributes: map[string]events.SQSMessageAttribute{}, EventSource: "aws:sqs", AWSRegion: regionName,
		})
	}
	payload, err := json.Marshal(batch)
	must(r.t, err)
	var response events.SQSEventResponse
	must(r.t, json.Unmarshal(r.invoke(r.worker, payload), &response))
	back := map[string]bool{}
	for _, f := range response.BatchItemFailures {
		back[f.ItemIdentifier] = true
	}
	for _, m := range messages {
		if !back[*m.MessageId] {
			_, err := sqsc.DeleteMessage(r.t.Context(), &awssqs.DeleteMessageInput{QueueUrl: &r.outputs.PagesQueue, ReceiptHandle: m.ReceiptHandle})
			must(r.t, err)
		}
	}
}

// invoke gives a handler a payload and the time that a function has.
func (r *region) invoke(h lambdago.Handler, payload []byte) []byte {
	r.t.Helper()
	ctx, end := context.WithTimeout(r.t.Context(), contract.Production().FunctionTimeout)
	defer end()
	answer, err := h.Invoke(ctx, payload)
	must(r.t, err)
	return answer
}

// reconcile runs one pass.
func (r *region) reconcile() {
	r.t.Helper()
	r.invoke(r.closer, []byte(`{}`))
}

// refusing answers calls of a service whose resource holds the text with an error.
func refusing(service, text string, status int, code string) wire.Faults {
	return func(c wire.Call) wire.Fate {
		if c.Service != service || !strings.Contains(c.Resource+string(c.Body), text) {
			return wire.Fate{}
		}
		return wire.Fate{Error: &wire.Error{Status: status, Code: code, Message: http.StatusText(status)}}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
