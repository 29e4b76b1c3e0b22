package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator"
	fakecloudformation "github.com/expunge-aws/expunge/internal/emulator/cloudformation"
	fakeddb "github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	fakelambda "github.com/expunge-aws/expunge/internal/emulator/lambda"
	fakes3 "github.com/expunge-aws/expunge/internal/emulator/s3"
	fakescheduler "github.com/expunge-aws/expunge/internal/emulator/scheduler"
	fakesns "github.com/expunge-aws/expunge/internal/emulator/sns"
	fakesqs "github.com/expunge-aws/expunge/internal/emulator/sqs"
	fakests "github.com/expunge-aws/expunge/internal/emulator/sts"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// cloudScale divides every duration of the deployment, so that a lease, a
// visibility timeout and a pass of reconcile can be waited for.
const cloudScale = 20

// The names of what the stack would declare.
const (
	localStage   = "local"
	tableName    = "ledger"
	evidenceName = "evidence"
)

// CloudOptions say what a Cloud starts from.
type CloudOptions struct {
	Region   string
	Policies []policy.Policy
	// Unapproved are the names of policies that nobody has approved to delete.
	Unapproved []string
	// Listen is the loopback address to serve at; "" is any free port.
	Listen string
	// Functions is the folder with the built functions: <Functions>/<name>.
	Functions string
	// PolicyFiles is the folder of policy files that enqueue reads.
	PolicyFiles string
	// Audit is told every event besides the cloud's own log; nil for nobody.
	Audit audit.Sink
	// Log takes what the functions print, as CloudWatch would; nil for nobody.
	Log io.Writer
}

// Cloud is one region on the embedded AWS, on the machine's clock: the functions
// are processes of their own that are spoken to over the Runtime API and speak to
// S3, SQS and DynamoDB over loopback through the AWS SDK, as in a deployed region.
type Cloud struct {
	Region   string
	Settings contract.Settings
	Ledger   *ledger.Table
	Queue    *queue.SQS
	Evidence *evidence.S3
	Log      *audit.Log
	Policies []policy.Policy
	// Endpoint is where the embedded AWS answers, Outputs what its stack would give out.
	Endpoint string
	Outputs  contract.Outputs

	config sdk.Config
	s3     *fakes3.Service
	sqs    *fakesqs.Service
	lambda *fakelambda.Service
	stacks *fakecloudformation.Service
	topics *fakesns.Service
	server *http.Server
	stop   context.CancelFunc // ends the scheduler
	faults *faults
	runs   []job.RunID
	acks   *ackLog
}

// OpenCloud starts the embedded AWS, creates what the stack would, and registers
// the functions.
func OpenCloud(ctx context.Context, o CloudOptions) (*Cloud, error) {
	settings := contract.Production().Scaled(cloudScale)
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	listener, err := emulator.Listen(cmp.Or(o.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	clock := wire.Wall{}
	c := &Cloud{
		Region: o.Region, Settings: settings, Log: &audit.Log{}, Policies: o.Policies, faults: &faults{}, acks: &ackLog{},
		s3: fakes3.New(clock), sqs: fakesqs.New(clock), lambda: fakelambda.New(clock),
		stacks: fakecloudformation.New(clock), topics: fakesns.New(),
	}
	c.sqs.OnDelete = c.acks.note
	c.lambda.Output = newOutput(c.Log, o.Audit)
	if o.Log != nil {
		c.lambda.Output = io.MultiWriter(c.lambda.Output, o.Log)
	}
	schedules := fakescheduler.New(clock, func(_ context.Context, arn string, input []byte) error {
		return c.lambda.InvokeEvent(o.Region, arn, input)
	})
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	go schedules.Run(running)
	c.server = &http.Server{
		Handler:           emulator.New(clock, c.faults.of, c.s3, c.sqs, fakeddb.New(clock), c.lambda, schedules, fakests.New(), c.stacks, c.topics),
		ReadHeaderTimeout: 10 * time.Second, // loopback; a client that is slower has died
	}
	go func() { _ = c.server.Serve(listener) }() // ends with Close, which is the only error it can have
	c.Endpoint = "http://" + listener.Addr().String()
	c.config = sdk.Defaults().Configure(aws.Config{
		Region: o.Region, BaseEndpoint: &c.Endpoint, Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	env, err := c.create(ctx, o)
	if err == nil {
		err = c.deploy(o, env, c.Endpoint)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the functions and the services.
func (c *Cloud) Close() {
	c.stop()
	c.lambda.Close()
	_ = c.server.Close() // nobody is left to be told
}

// create makes the table, the buckets and the queues, and returns their names.
func (c *Cloud) create(ctx context.Context, o CloudOptions) (contract.Environment, error) {
	env := contract.Environment{
		Table: tableName, EvidenceBucket: evidenceName, EnqueueName: "enqueue", RedriveName: "redrive",
		CodeVersion: codeVersion, Stage: localStage, Scale: fmt.Sprint(cloudScale),
	}
	schema := ledger.Schema(tableName)
	schema.DeletionProtectionEnabled = aws.Bool(true)
	if _, err := dynamodb.NewFromConfig(c.config.Config).CreateTable(ctx, schema); err != nil {
		return env, err
	}
	buckets := s3.NewFromConfig(c.config.Config, func(o *s3.Options) { o.UsePathStyle = true })
	names := map[string]bool{evidenceName: true}
	for _, p := range c.Policies {
		names[p.Bucket] = true
	}
	for name := range names {
		in := createBucket(name, c.Region)
		in.ObjectLockEnabledForBucket = aws.Bool(name == evidenceName) // and versions with it: evidence is never replaced
		if _, err := buckets.CreateBucket(ctx, in); err != nil {
			return env, err
		}
	}
	var err error
	seconds := func(d time.Duration) string { return fmt.Sprint(int(d.Seconds())) }
	kept := map[string]string{"MessageRetentionPeriod": seconds(c.Settings.DeadLetterRetention)}
	if env.LettersQueue, err = c.createQueue(ctx, "dead-letters", kept); err != nil {
		return env, err
	}
	letters, err := c.sqs.Queue(c.Region, "dead-letters")
	if err != nil {
		return env, err
	}
	redrive := map[string]string{
		"VisibilityTimeout":      seconds(c.Settings.Visibility()),
		"MessageRetentionPeriod": seconds(c.Settings.SourceRetention),
		"RedrivePolicy":          fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, letters.ARN(), c.Settings.MaxReceives),
	}
	if env.PagesQueue, err = c.createQueue(ctx, "pages", redrive); err != nil {
		return env, err
	}
	env.ReportQueue, err = c.createQueue(ctx, "report", redrive)
	c.Ledger = ledger.NewTable(c.config, tableName)
	c.Evidence = evidence.NewS3(c.config, evidenceName)
	c.Queue = queue.NewSQS(c.config, queue.URLs{Enforce: env.PagesQueue, ReportOnly: env.ReportQueue, Letters: env.LettersQueue})
	if err != nil {
		return env, err
	}
	approved := slices.DeleteFunc(slices.Clone(c.Policies), func(p policy.Policy) bool { return slices.Contains(o.Unapproved, p.Name) })
	return env, approve(ctx, c.Ledger, approved, time.Now(), "")
}

func (c *Cloud) createQueue(ctx context.Context, name string, attributes map[string]string) (url string, err error) {
	out, err := sqs.NewFromConfig(c.config.Config).CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		return "", err
	}
	return *out.QueueUrl, nil
}

// deploy registers the functions and maps the queues to their workers.
func (c *Cloud) deploy(o CloudOptions, env contract.Environment, endpoint string) error {
	files, err := filepath.Abs(o.PolicyFiles)
	if err != nil {
		return err
	}
	env.Policies = files
	c.Outputs = contract.Outputs{
		Region: c.Region, Stage: localStage, Table: env.Table, PagesQueue: env.PagesQueue, ReportQueue: env.ReportQueue,
		LettersQueue: env.LettersQueue, Evidence: env.EvidenceBucket, Enqueue: "enqueue", Worker: "worker", ReportWorker: "report-worker",
		Redrive: "redrive", Reconcile: "reconcile", Hold: "hold", Schedules: "default", CodeVersion: codeVersion, Scale: env.Scale,
	}
	if err := c.declare(); err != nil {
		return err
	}
	enforce, report := env, env
	enforce.Mode, report.Mode = string(job.Enforce), string(job.ReportOnly)
	for _, f := range []struct {
		name, binary string
		env          contract.Environment
		concurrency  int
	}{
		{"enqueue", "enqueue", env, 1},
		{"reconcile", "reconcile", env, 1},
		{"redrive", "redrive", env, 2}, // a brake does not wait for a plan that is being moved
		{"hold", "hold", env, 1},
		{"worker", "worker", enforce, 2},
		{"report-worker", "worker", report, 2},
	} {
		binary, err := filepath.Abs(filepath.Join(o.Functions, f.binary))
		if err != nil {
			return err
		}
		if _, err := os.Stat(binary); err != nil {
			return fmt.Errorf("the function %s is not built: run make, or go build -o %s ./functions/...: %w", f.binary, o.Functions, err)
		}
		err = c.lambda.Register(fakelambda.Function{
			Name: f.name, Region: c.Region, Timeout: c.timeout(f.name), Concurrency: f.concurrency, Binary: []string{binary},
			Env: variables(f.name, f.env, c.Region, endpoint),
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(c.attach("pages", "worker"), c.attach("report", "report-worker"))
}

// declare makes the stack and its topics known, so that the operator's tool finds
// this region as it finds a deployed one. Nobody has confirmed the second topic's
// subscription yet.
func (c *Cloud) declare() error {
	for _, t := range []struct {
		name  string
		field *string
		sub   fakesns.Subscription
	}{
		{"expunge-page", &c.Outputs.PageTopic, fakesns.Subscription{Protocol: "email", Endpoint: "oncall@example.com"}},
		{"expunge-ticket", &c.Outputs.TicketTopic, fakesns.Subscription{Protocol: "email", Endpoint: "team@example.com", Pending: true}},
	} {
		arn, err := c.topics.Declare(fakesns.Topic{Region: c.Region, Name: t.name, Subscriptions: []fakesns.Subscription{t.sub}})
		if err != nil {
			return err
		}
		*t.field = arn
	}
	return c.stacks.Declare(fakecloudformation.Stack{Region: c.Region, Name: contract.StackName(localStage), Outputs: c.Outputs.Render()})
}

// timeout is a function's limit: the workers' is the lease, which hold counts on for
// its own answers too. The others have the five minutes that AWS would give them, at
// this scale.
func (c *Cloud) timeout(name string) time.Duration {
	switch name {
	case "worker", "report-worker", "hold":
		return c.Settings.FunctionTimeout
	default:
		return 5 * time.Minute / cloudScale
	}
}

// variables is a function's environment. Its name is its access key, so that a
// fault can tell who asks.
func variables(function string, env contract.Environment, region, endpoint string) []string {
	all := []string{
		"AWS_REGION=" + region, "AWS_ENDPOINT_URL=" + endpoint, "AWS_ACCESS_KEY_ID=" + function, "AWS_SECRET_ACCESS_KEY=local",
		"AWS_EC2_METADATA_DISABLED=true",
	}
	for name, value := range env.Render() {
		all = append(all, name+"="+value)
	}
	return all
}

// attach maps a queue to a worker. A batch is one message: at this scale an
// invocation has time for few pages.
func (c *Cloud) attach(queueName, function string) error {
	q, err := c.sqs.Queue(c.Region, queueName)
	if err != nil {
		return err
	}
	_, err = c.lambda.Map(fakelambda.Mapping{
		Region: c.Region, Function: function, Queue: q.ARN(), Source: source{q}, BatchSize: 1,
		MaximumConcurrency: 2, ReportBatchItemFailures: true,
	})
	return err
}
