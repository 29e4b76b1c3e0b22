package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	enqueuehandler "github.com/expunge-aws/expunge/functions/enqueue/handler"
	holdhandler "github.com/expunge-aws/expunge/functions/hold/handler"
	reconcilehandler "github.com/expunge-aws/expunge/functions/reconcile/handler"
	redrivehandler "github.com/expunge-aws/expunge/functions/redrive/handler"
	workerhandler "github.com/expunge-aws/expunge/functions/worker/handler"
	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator"
	fakeddb "github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	fakelambda "github.com/expunge-aws/expunge/internal/emulator/lambda"
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

// roles is a region whose six functions each ask with an access key of their own, and
// have the variables that they need and no others. Its clock is moved by hand, so that
// whatever takes hours in a region is played in a second.
type roles struct {
	testing.TB
	clock    *wire.Manual
	config   sdk.Config // of nobody's role
	endpoint string
	s3       *fakes3.Service
	queues   *fakesqs.Service
	lambda   *fakelambda.Service
	ledger   *ledger.Table
	env      contract.Environment
	book     callBook
	// asked is told of every function that another one has invoked, when it has ended.
	asked chan string

	mu        sync.Mutex
	deployed  []policy.Policy
	functions map[string]lambdago.Handler
	fates     []func(wire.Call) (wire.Fate, bool)
}

// rolesRegion is where they are.
const rolesRegion = "eu-west-1"

// rolesPolicy is a policy by its name, version, mode and which versions it works on.
// Its artifacts are in a bucket of its name.
func rolesPolicy(name string, version int, mode job.Mode, versions policy.Versions) string {
	return fmt.Sprintf(`name: %[1]s
version: %[2]d
region: %[5]s
bucket: %[1]s-bucket
keys: %[1]s/{tenant}/
retention_days: 30
mode: %[3]s
versions: %[4]s
schedule: {every: daily, at: "02:30", zone: Europe/Dublin}
report_only_dates: 1
limits: {max_objects: 1000, max_share: 1, max_growth: 100}
`, name, version, mode, versions, rolesRegion)
}

// newRoles starts a region in which nobody has approved anything.
func newRoles(t testing.TB) *roles {
	t.Helper()
	// Ahead of the machine's clock, or the deadlines of the calls would be over.
	at := time.Date(time.Now().Year()+1, time.June, 10, 1, 30, 0, 0, time.UTC)
	r := &roles{TB: t, clock: wire.NewManual(at), asked: make(chan string, 100)}
	r.s3, r.queues, r.lambda = fakes3.New(r.clock), fakesqs.New(r.clock), fakelambda.New(wire.Wall{})
	embedded := emulator.New(r.clock, r.decide, r.s3, r.queues, r.lambda, fakeddb.New(r.clock))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		seen := &status{ResponseWriter: w}
		embedded.ServeHTTP(seen, q)
		r.absent(q, seen.code)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(r.lambda.Close)
	r.endpoint = server.URL
	r.config = r.as("nobody")
	r.ledger = ledger.NewTable(r.config, tableName)
	r.stores()
	for _, name := range []string{"enqueue", "redrive"} {
		r.must(r.lambda.Register(fakelambda.Function{
			Name: name, Region: rolesRegion, Timeout: contract.Production().FunctionTimeout,
			Handler: func(ctx context.Context, payload []byte) ([]byte, error) {
				answer, err := r.invoke(context.WithoutCancel(ctx), name, payload) // its deadline is one of the machine's clock
				r.asked <- name
				return answer, err
			},
		}))
	}
	return r
}

// status keeps the status of an answer.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap is how http.ResponseController finds what can flush.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// absent notes what a function must be allowed besides, that was told of a document
// that it is absent: to whoever may not list the bucket S3 says "forbidden" (S3-21).
func (r *roles) absent(q *http.Request, code int) {
	if code == http.StatusNotFound && q.Method == http.MethodGet && strings.HasPrefix(q.URL.Path, "/"+evidenceName+"/") {
		r.book.note(wire.Call{Service: "s3", Operation: "ListObjectsV2", Caller: wire.Caller(q), Resource: "/" + evidenceName}, nil)
	}
}

func (r *roles) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// as is the configuration of who asks with the access key.
func (r *roles) as(key string) sdk.Config {
	limits := sdk.Defaults()
	limits.Backoff = time.Millisecond
	return limits.Configure(aws.Config{
		Region: rolesRegion, BaseEndpoint: &r.endpoint, Credentials: credentials.NewStaticCredentialsProvider(key, "local", ""),
	})
}

// decide notes the call and decides its fate.
func (r *roles) decide(c wire.Call) wire.Fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.book.note(c, r.deployed)
	var all wire.Fate
	for _, fate := range r.fates {
		if f, hit := fate(c); hit {
			all = joined(all, f)
		}
	}
	return all
}

// strike lets the next n calls that match meet a fate, or all of them with -1.
func (r *roles) strike(n int, match func(wire.Call) bool, fate wire.Fate) {
	r.meet(func(c wire.Call) (wire.Fate, bool) {
		if n == 0 || !match(c) {
			return wire.Fate{}, false
		}
		n--
		return fate, true
	})
}

// meet adds a hook, which is asked under the lock. calm takes all away.
func (r *roles) meet(fate func(wire.Call) (wire.Fate, bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fates = append(r.fates, fate)
}

func (r *roles) calm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fates = nil
}

// stores makes what the stack would, without buckets of artifacts.
func (r *roles) stores() {
	_, err := dynamodb.NewFromConfig(r.config.Config).CreateTable(r.Context(), ledger.Schema(tableName))
	r.must(err)
	r.bucket(evidenceName, false)
	r.env = contract.Environment{
		Table: tableName, EvidenceBucket: evidenceName, EnqueueName: "enqueue", RedriveName: "redrive", Policies: "unused", CodeVersion: codeVersion,
	}
	hidden := map[string]string{"VisibilityTimeout": strconv.Itoa(int(contract.Production().Visibility().Seconds()))}
	for name, url := range map[string]*string{"pages": &r.env.PagesQueue, "report-pages": &r.env.ReportQueue, "dead-letters": &r.env.LettersQueue} {
		out, err := sqs.NewFromConfig(r.config.Config).CreateQueue(r.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: hidden})
		r.must(err)
		*url = *out.QueueUrl
	}
}

// bucket makes a bucket, one that keeps versions or not.
func (r *roles) bucket(name string, versions bool) {
	client := s3.NewFromConfig(r.config.Config, func(o *s3.Options) { o.UsePathStyle = true })
	_, err := client.CreateBucket(r.Context(), createBucket(name, rolesRegion))
	r.must(err)
	if versions {
		_, err = client.PutBucketVersioning(r.Context(), &s3.PutBucketVersioningInput{
			Bucket: &name, VersioningConfiguration: &s3types.VersioningConfiguration{Status: s3types.BucketVersioningStatusEnabled},
		})
		r.must(err)
	}
}

// deploy makes the functions anew, with the policies in their packages.
func (r *roles) deploy(files ...string) {
	folder, deployed := fstest.MapFS{}, []policy.Policy{}
	for _, file := range files {
		p := parse(r, file)
		folder[p.Name+".yaml"] = &fstest.MapFile{Data: []byte(file)}
		deployed = append(deployed, p)
	}
	enqueue, err := enqueuehandler.New(r.parts("enqueue", enqueuehandler.Needs), folder)
	r.must(err)
	worker, err := workerhandler.New(r.parts("worker", workerhandler.Needs))
	r.must(err)
	report, err := workerhandler.New(r.parts("report-worker", workerhandler.Needs))
	r.must(err)
	reconcile, err := reconcilehandler.New(r.parts("reconcile", reconcilehandler.Needs), folder)
	r.must(err)
	redrive, err := redrivehandler.New(r.parts("redrive", redrivehandler.Needs))
	r.must(err)
	hold, err := holdhandler.New(r.parts("hold", holdhandler.Needs))
	r.must(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deployed = deployed
	r.functions = map[string]lambdago.Handler{
		"enqueue": lambdago.NewHandler(enqueue), "worker": lambdago.NewHandler(worker), "report-worker": lambdago.NewHandler(report),
		"reconcile": lambdago.NewHandler(reconcile), "redrive": lambdago.NewHandler(redrive), "hold": lambdago.NewHandler(hold),
	}
}

// parts is what a function is wired from: the variables that it needs, and its own key.
func (r *roles) parts(name string, needs func(*contract.Environment) []*string) wiring.Parts {
	whole := r.env
	switch name {
	case "worker":
		whole.Mode = string(job.Enforce)
	case "report-worker":
		whole.Mode = string(job.ReportOnly)
	}
	env := contract.Environment{Mode: whole.Mode}
	given := map[string]string{}
	for _, field := range needs(&whole) {
		given[*field] = *field
	}
	for _, f := range []struct{ from, into *string }{
		{&whole.Table, &env.Table}, {&whole.PagesQueue, &env.PagesQueue}, {&whole.ReportQueue, &env.ReportQueue},
		{&whole.LettersQueue, &env.LettersQueue}, {&whole.EvidenceBucket, &env.EvidenceBucket}, {&whole.EnqueueName, &env.EnqueueName},
		{&whole.RedriveName, &env.RedriveName}, {&whole.CodeVersion, &env.CodeVersion},
	} {
		*f.into = given[*f.from]
	}
	c := r.as(name)
	messages := queue.NewSQS(c, queue.URLs{Enforce: env.PagesQueue, ReportOnly: env.ReportQueue, Letters: env.LettersQueue})
	messages.Worker = job.Mode(env.Mode)
	log := &audit.Log{}
	return wiring.Parts{
		Environment: env, Settings: contract.Production(), Region: rolesRegion, SDK: c, Ledger: ledger.NewTable(c, env.Table), Queue: messages,
		Store: artifact.NewS3(c, artifact.S3Options{Now: r.clock.Now}), Evidence: evidence.NewS3(c, env.EvidenceBucket),
		Audit: log, Gauges: log, Clock: handClock{r.clock},
	}
}

// invoke gives a function a payload and a function's time on the region's clock.
func (r *roles) invoke(ctx context.Context, name string, payload []byte) ([]byte, error) {
	ctx, end := context.WithDeadline(ctx, r.clock.Now().Add(contract.Production().FunctionTimeout))
	defer end()
	r.mu.Lock()
	f := r.functions[name]
	r.mu.Unlock()
	return f.Invoke(ctx, payload)
}

// ask invokes a function that must answer, and reads what it says.
func (r *roles) ask(name string, request, into any) {
	r.Helper()
	payload, err := json.Marshal(request)
	r.must(err)
	answer, err := r.invoke(r.Context(), name, payload)
	r.must(err)
	if into != nil {
		r.must(json.Unmarshal(answer, into))
	}
}

// order is a request of an operator.
type order map[string]any

// signed is an order with a name and a reason.
func signed(o order) order {
	o["by"], o["reason"] = "ana", "because it is looked at"
	return o
}

// tick starts the run of a policy that is scheduled now, and returns its id.
func (r *roles) tick(name string) job.RunID {
	r.Helper()
	at := r.clock.Now().UTC().Truncate(time.Second)
	r.ask("enqueue", order{"policy": name, "scheduled": at.Format(time.RFC3339)}, nil)
	return job.ScheduledRunID(rolesRegion, name, at)
}

// work plays the event source mappings until no message is to be seen.
func (r *roles) work() {
	r.Helper()
	for _, m := range []struct{ queue, function string }{{"pages", "worker"}, {"report-pages", "report-worker"}} {
		q, err := r.queues.Queue(rolesRegion, m.queue)
		r.must(err)
		for {
			got, err := q.Receive(r.Context(), 1, 0)
			r.must(err)
			if len(got) == 0 {
				break
			}
			one := got[0]
			batch := events.SQSEvent{Records: []events.SQSMessage{{MessageId: one.ID, ReceiptHandle: one.Handle, Body: one.Body, Attributes: one.SystemAttributes()}}}
			var said events.SQSEventResponse
			r.ask(m.function, batch, &said)
			if len(said.BatchItemFailures) == 0 {
				r.must(q.Delete(one.Handle))
			}
		}
	}
}

// workFor works on, and moves the clock, for as long as messages come back.
func (r *roles) workFor(d time.Duration) {
	r.Helper()
	for end := r.clock.Now().Add(d); r.clock.Now().Before(end); r.clock.Advance(contract.Production().Visibility()) {
		r.work()
	}
}

// pass lets reconcile look, and waits for the functions that it must ask.
func (r *roles) pass(asked ...string) {
	r.Helper()
	r.ask("reconcile", order{}, nil)
	for _, want := range asked {
		select {
		case got := <-r.asked:
			if got != want {
				r.Errorf("reconcile asked %s, want %s", got, want)
			}
		case <-time.After(10 * time.Second): // real time, in which a function of this process answers
			r.Fatalf("reconcile did not ask %s", want)
		}
	}
}

// put uploads an object of the policy as old as given.
func (r *roles) put(name, tenant, file string, age time.Duration) {
	r.Helper()
	key := name + "/" + tenant + "/" + file
	r.must(r.s3.Seed(name+"-bucket", func(yield func(fakes3.Object) bool) {
		yield(fakes3.Object{Key: key, Body: []byte(key), Modified: r.clock.Now().Add(-age)})
	}))
}

// page returns the one page of a tenant in a run.
func (r *roles) page(run job.RunID, tenant string) job.Page {
	r.Helper()
	pages, err := r.ledger.Pages(r.Context(), run, tenant, nil, 10)
	r.must(err)
	if len(pages) != 1 {
		r.Fatalf("%d pages of %s, want one", len(pages), tenant)
	}
	return pages[0]
}

// ref names a page in an order.
func ref(p job.Page) order { return order{"run_id": p.Run, "tenant_id": p.Tenant, "page_id": p.ID} }
