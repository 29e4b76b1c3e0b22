package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// where says which deployment is asked. A local one is asked when it is there and
// nothing names another.
type where struct {
	Region  string `placeholder:"REGION" help:"AWS region of the deployment; that of the profile when there is no local deployment."`
	Stage   string `placeholder:"STAGE" help:"Stage of the deployment; prod when not given."`
	Profile string `placeholder:"NAME" help:"Profile of your AWS configuration."`
	Local   local  `help:"The local deployment of .expunge/up.json, or of another file: --local=PATH. It is also asked when that file is there and neither a region, a stage nor a profile is given."`
}

// local is a flag that may have a path.
type local struct {
	on   bool
	path string
}

// upFile is where a local deployment says where it is.
const upFile = ".expunge/up.json"

// Decode reads the flag: alone, or with a path behind an equals sign.
func (l *local) Decode(ctx *kong.DecodeContext) error {
	l.on, l.path = true, upFile
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		path, ok := ctx.Scan.Pop().Value.(string)
		if !ok || path == "" {
			return errors.New("the path behind --local= is empty")
		}
		l.path = path
	}
	return nil
}

// IsBool lets the flag stand alone.
func (l *local) IsBool() bool { return true }

// words repeats the flags for another command.
func (w where) words() []string {
	var all []string
	for _, f := range []struct{ name, value string }{{"region", w.Region}, {"stage", w.Stage}, {"profile", w.Profile}} {
		if f.value != "" {
			all = append(all, "--"+f.name+"="+f.value)
		}
	}
	switch {
	case w.Local.path == upFile:
		all = append(all, "--local")
	case w.Local.on:
		all = append(all, "--local="+w.Local.path)
	}
	return all
}

// elsewhere reports whether a deployment in AWS was named.
func (w where) elsewhere() bool { return w.Region != "" || w.Stage != "" || w.Profile != "" }

// connect finds the deployment.
func (d *desk) connect(ctx context.Context) (*deployment, error) {
	found, err := d.find(ctx)
	if err != nil {
		return nil, err
	}
	d.region, err = newDeployment(found)
	return d.region, err
}

// found is a deployment as its description has it.
type found struct {
	outputs contract.Outputs
	base    aws.Config
	local   bool
}

func (d *desk) find(ctx context.Context) (found, error) {
	if d.where.Local.on && d.where.elsewhere() {
		return found{}, usage("--local names another deployment than --region, --stage and --profile: give the one or the others")
	}
	if d.where.elsewhere() {
		return d.deployed(ctx)
	}
	path := upFile
	if d.where.Local.on {
		path = d.where.Local.path
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(d.Dir, path)
	}
	f, err := readUp(path)
	if errors.Is(err, fs.ErrNotExist) && !d.where.Local.on {
		return d.deployed(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = wrong("there is no "+path+": no local deployment is up", "make up")
	}
	return f, err
}

// maxUp caps the size of a local deployment's description.
const maxUp = 64 << 10

// readUp reads a local deployment's description. Anything but an endpoint on this
// machine is refused: the credentials are none, and the file may be anybody's.
func readUp(path string) (found, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return found{}, err
	}
	refuse := func(why string) (found, error) { return found{}, wrong(path+" "+why, "make up") }
	var up struct {
		Endpoint string            `json:"endpoint"`
		Outputs  map[string]string `json:"outputs"`
	}
	if len(text) > maxUp || json.Unmarshal(text, &up, json.RejectUnknownMembers(true)) != nil {
		return refuse("does not read: it is one JSON object with endpoint and outputs, as the local deployment writes it")
	}
	if !loopback(up.Endpoint) {
		return refuse("names an endpoint that is not on this machine: it must be http, and 127.0.0.1, [::1] or localhost")
	}
	outputs, missing := contract.ParseOutputs(up.Outputs)
	if len(missing) > 0 {
		return refuse("lacks " + strings.Join(missing, ", ") + ": another version wrote it")
	}
	return found{outputs: outputs, local: true, base: aws.Config{
		Region: outputs.Region, BaseEndpoint: &up.Endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("operator", "local", ""),
	}}, nil
}

// loopback reports whether a URL is one of this machine and has nothing but host
// and port.
func loopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// deployed finds a deployment by its stack.
func (d *desk) deployed(ctx context.Context) (found, error) {
	base, err := d.configuration(ctx, d.where.Region)
	if err != nil {
		return found{}, err
	}
	stage := d.stage()
	if base.Region == "" {
		return found{}, usage("no deployment is named: there is no "+upFile+" here, and your AWS configuration names no region",
			"expunge runs --region="+blank, "make up")
	}
	if err := identified(ctx, base); err != nil {
		return found{}, err
	}
	outputs, err := describe(ctx, sdk.Defaults().Configure(base), contract.StackName(stage))
	if err != nil {
		return found{}, err
	}
	parsed, missing := contract.ParseOutputs(outputs)
	if len(missing) > 0 {
		return found{}, wrong("the stack " + contract.StackName(stage) + " in " + base.Region + " lacks the outputs " + strings.Join(missing, ", ") +
			": it is none of Expunge, or of another version than this tool")
	}
	if parsed.Region != base.Region {
		return found{}, wrong("the stack " + contract.StackName(stage) + " says it is in " + parsed.Region + ", and was found in " + base.Region)
	}
	return found{outputs: parsed, base: base}, nil
}

// configuration is the operator's own AWS configuration; a region of "" is the one that
// it names.
func (d *desk) configuration(ctx context.Context, region string) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	if d.where.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(d.where.Profile))
	}
	base, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, wrong("your AWS configuration does not load: the profile may not exist", "aws configure list-profiles")
	}
	return base, nil
}

// metadata is the SDK's name of a machine's own metadata, where it looks last.
const metadata = "ec2imds"

// identified asks for the credentials once, before anything is asked of AWS: without
// any, every call would end as one that nobody answered. They may be those of a role,
// which a service was asked for: what it answered, or that it did not, is an error as
// any other. Metadata are looked at although nobody configured them, so that nothing
// answers there only says that there are no credentials.
func identified(ctx context.Context, base aws.Config) error {
	limited, done := sdk.Defaults().Configure(base).Limit(ctx)
	defer done()
	_, err := base.Credentials.Retrieve(limited)
	if err == nil {
		return nil
	}
	asked, ok := errors.AsType[*smithy.OperationError](err)
	if ctx.Err() != nil || ok && asked.ServiceID != metadata {
		return classify("get your AWS credentials", err)
	}
	return usage("no AWS credentials were found that can be used: give --profile, or set AWS_PROFILE or the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY;" +
		" the sign-in of a profile may be over")
}

// defaultStage is the stage of a command that names none.
const defaultStage = "prod"

func (d *desk) stage() string {
	if d.where.Stage == "" {
		return defaultStage
	}
	return d.where.Stage
}

// describe returns the outputs of a stack.
func describe(ctx context.Context, c sdk.Config, name string) (map[string]string, error) {
	ctx, done := c.Limit(ctx)
	defer done()
	op := "find stack " + name + " in " + c.Region
	out, err := cloudformation.NewFromConfig(c.Config).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if sdk.Code(err) == "ValidationError" { // CloudFormation's word for a stack that is not there
		return nil, wrong("there is no stack "+name+" in "+c.Region+": nothing is deployed under this stage here, or it is another account",
			"aws cloudformation list-stacks --region "+c.Region, "expunge runs --region="+c.Region+" --stage="+blank)
	}
	if err != nil {
		return nil, classify(op, err)
	}
	if len(out.Stacks) != 1 {
		return nil, failure.New(failure.Network, op, "the answer names no stack, and may be none")
	}
	values := map[string]string{}
	for _, o := range out.Stacks[0].Outputs {
		values[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	return values, nil
}

// classify gives an error of a service that only this tool asks its class.
func classify(op string, err error) error {
	return sdk.Classify(op, err, sdk.Code(err), func(code string) (failure.Class, bool) {
		switch code {
		case "AccessDenied", "AccessDeniedException", "UnrecognizedClientException", "InvalidClientTokenId", "ExpiredToken",
			"ExpiredTokenException", "SignatureDoesNotMatch", "ResourceNotFoundException":
			return failure.Forbidden, true
		case "Throttling", "ThrottlingException", "TooManyRequestsException":
			return failure.Throttled, true
		case "InvalidRequestContentException", "RequestTooLargeException":
			return failure.Invalid, true
		default:
			return "", false
		}
	})
}
