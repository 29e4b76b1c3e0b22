package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// stage is the stage of the deployment.
const stage = "e2e"

// stackID is the stack among those of the application.
const stackID = "Expunge-" + home

// region is the deployed region, and what the test reaches it with.
type region struct {
	root string // the repository
	dir  string // everything that this run leaves, taken away at the end
	cdk  []string
	env  []string

	server *server
	front  *front

	stacks    *cloudformation.Client
	functions *lambda.Client
	schedules *scheduler.Client
	buckets   *s3.Client
	queues    *sqs.Client
	config    sdk.Config
	ledger    *ledger.Table

	outputs   contract.Outputs
	template  template
	resources map[string]string // physical id by logical id
}

// cdkLine is where the Makefile says which command line it is.
var cdkLine = regexp.MustCompile(`(?m)^CDK := (.+)$`)

// openRegion starts everything but the deployment.
func openRegion(ctx context.Context, t *testing.T) *region {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	line := cdkLine.FindSubmatch(makefile)
	if err != nil || line == nil {
		t.Fatalf("the Makefile names no CDK: %v", err)
	}
	r := &region{root: root, dir: filepath.Join(root, ".e2e", "run"), cdk: strings.Fields(string(line[1]))}
	if err := os.RemoveAll(r.dir); err != nil { // of a run that was killed
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.dir, 0o750); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s is kept for reading", r.dir)
		} else if err := os.RemoveAll(r.dir); err != nil {
			t.Error(err)
		}
	})
	seed(t, r.dir, time.Now())
	port := freePort(t)
	r.front = openFront(t, fmt.Sprintf("http://127.0.0.1:%d", port), os.Stderr)
	r.server = startServer(ctx, t, filepath.Join(root, ".e2e", "venv"), r.dir, port, r.front.url)
	r.env = r.environment()
	r.connect()
	return r
}

// environment is that of the programs which deploy and operate: this process's own,
// without anything that could lead them to another account.
func (r *region) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "CDK_") || strings.HasPrefix(v, "EXPUNGE_") || strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
	none := filepath.Join(r.dir, "no-aws-profile")
	return append(env,
		"AWS_ENDPOINT_URL="+r.front.url, "AWS_REGION="+home, "AWS_DEFAULT_REGION="+home,
		"AWS_ACCESS_KEY_ID="+operator, "AWS_SECRET_ACCESS_KEY="+operator,
		"AWS_CONFIG_FILE="+none, "AWS_SHARED_CREDENTIALS_FILE="+none, "AWS_EC2_METADATA_DISABLED=true",
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
		"TMPDIR="+filepath.Join(r.dir, "tmp"),
		"ARCH="+architecture(), // make package builds for this machine: the functions run on it
		"CDK_HOME="+filepath.Join(r.dir, "cdk"), "CDK_DISABLE_CLI_TELEMETRY=true", "CI=true",
		"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20",
	)
}

// architecture is this machine's, as Lambda names it.
func architecture() string {
	if runtime.GOARCH == "amd64" {
		return "x86_64"
	}
	return runtime.GOARCH
}

func (r *region) connect() {
	base := aws.Config{Region: home, BaseEndpoint: &r.front.url, Credentials: credentials.NewStaticCredentialsProvider(operator, operator, "")}
	r.config = sdk.Defaults().Configure(base)
	r.stacks = cloudformation.NewFromConfig(base)
	r.functions = lambda.NewFromConfig(base)
	r.schedules = scheduler.NewFromConfig(base)
	r.buckets = s3.NewFromConfig(base, func(o *s3.Options) { o.UsePathStyle = true })
	r.queues = sqs.NewFromConfig(base)
}

// run calls the CDK's command line in a folder: that of the repository has the application.
func (r *region) run(ctx context.Context, t *testing.T, dir string, args ...string) {
	t.Helper()
	start := time.Now()
	out, diagnostics, err := command(ctx, dir, r.env, r.cdk[0], append(slices.Clone(r.cdk[1:]), args...)...)
	if err != nil {
		t.Fatalf("cdk %s: %v\n%s%s", args[0], err, out, diagnostics)
	}
	t.Logf("cdk %s, after %s", args[0], time.Since(start).Round(time.Second/10))
}

// bootstrap prepares the account for the CDK.
func (r *region) bootstrap(ctx context.Context, t *testing.T) {
	t.Helper()
	r.run(ctx, t, r.dir, "bootstrap", "aws://"+account+"/"+home)
}

// deploy deploys the policies that lie in the folder, and repairs what ministack has
// dropped of the template.
func (r *region) deploy(ctx context.Context, t *testing.T) {
	t.Helper()
	r.run(ctx, t, r.root, "deploy", stackID, "--require-approval", "never", "--output", filepath.Join(r.dir, "cdk.out"),
		"-c", "regions="+home, "-c", "stage="+stage, "-c", "emulator=true", "-c", "scale=20", "-c", "architecture="+architecture(),
		"-c", "policies="+filepath.Join(r.dir, "policies"),
		"-c", "object_lock=governance", "-c", "object_lock_days=1",
		"-c", "page_emails=oncall@example.com", "-c", "ticket_emails=team@example.com")
	r.describe(ctx, t)
	r.template = readTemplate(t, filepath.Join(r.dir, "cdk.out", stackID+".template.json"))
	for id := range r.template.Resources {
		if r.resources[id] == "" {
			t.Errorf("the stack has no %s", id)
		}
	}
	r.ledger = ledger.NewTable(r.config, r.outputs.Table)
}

// describe asks what the stack has become.
func (r *region) describe(ctx context.Context, t *testing.T) {
	t.Helper()
	name := contract.StackName(stage)
	out, err := r.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if err != nil || len(out.Stacks) != 1 {
		t.Fatalf("describe the stack: %d, %v", len(out.Stacks), err)
	}
	values := map[string]string{}
	for _, o := range out.Stacks[0].Outputs {
		values[*o.OutputKey] = *o.OutputValue
	}
	outputs, missing := contract.ParseOutputs(values)
	if len(missing) > 0 {
		t.Fatalf("the stack's outputs lack %v", missing)
	}
	r.outputs = outputs
	all, err := r.stacks.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: &name})
	if err != nil {
		t.Fatal(err)
	}
	r.resources = map[string]string{}
	for _, each := range all.StackResources {
		r.resources[aws.ToString(each.LogicalResourceId)] = aws.ToString(each.PhysicalResourceId)
	}
}

// outcome is how a program of the operator ended.
type outcome struct {
	status           int
	out, diagnostics string
}

// build builds the operator's tool, and what cdk deploy would build otherwise: how long
// a deployment takes is measured, and compiling is no part of it.
func (r *region) build(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, words := range [][]string{{"go", "build", "-o", r.tool(), "./internal/cmd/expunge"}, {"make", "--silent", "package"}} {
		if out, diagnostics, err := command(ctx, r.root, r.env, words[0], words[1:]...); err != nil {
			t.Fatalf("%v: %v\n%s%s", words, err, out, diagnostics)
		}
	}
}

func (r *region) tool() string { return filepath.Join(r.dir, "expunge") }

// expunge runs the operator's tool, which says in its status how it ended: -1 is that
// it could not be run, or was ended.
func (r *region) expunge(ctx context.Context, args ...string) outcome {
	out, diagnostics, err := command(ctx, r.dir, r.env, r.tool(), append(slices.Clone(args), "--region="+home, "--stage="+stage, "--json")...)
	return outcome{status: statusOf(err), out: out, diagnostics: diagnostics}
}

// must runs the operator's tool and expects a status.
func (r *region) must(ctx context.Context, t *testing.T, status int, args ...string) string {
	t.Helper()
	o := r.expunge(ctx, args...)
	if o.status != status {
		t.Fatalf("expunge %s ends with status %d, want %d:\n%s%s", strings.Join(args, " "), o.status, status, o.out, o.diagnostics)
	}
	return o.out
}
