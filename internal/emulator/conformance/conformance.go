// Package conformance checks documented behaviour of S3, SQS and DynamoDB, and what an operator's tool asks of other services, against any endpoint.
//
// The embedded AWS has to pass every check in every test run. The same checks
// run against an independent implementation in CI, where its known differences
// are listed by name, and against AWS itself when somebody with an account asks
// for it: make conformance ENDPOINT=URL, or ENDPOINT=aws. Checks make what they
// need under fresh names, remove it again, and never touch anything else.
//
// A list of known differences must stay true, or it hides more than it says: a
// check that is listed runs all the same, as a process of its own, and fails the
// suite when it passes.
package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

// Target is the endpoint under test.
type Target struct {
	// Endpoint is the URL of every service; "" lets the SDK find AWS's own.
	Endpoint string
	// Config is the SDK configuration to start from; Region is set by the suite.
	Config aws.Config
	// KnownDifferences names checks that this target is known to fail, with why.
	// A check that is listed and passes fails the suite: the list must stay true.
	KnownDifferences map[string]string
	// Unsteady names checks that this target passes or fails by chance, or that take
	// it too long, with why. They are skipped, for either result says nothing.
	Unsteady map[string]string
}

// Loopback returns a target with made-up credentials.
func Loopback(endpoint string) Target {
	return Target{Endpoint: endpoint, Config: aws.Config{
		Credentials:      credentials.NewStaticCredentialsProvider("test", "testtest", ""),
		RetryMaxAttempts: 1,
		HTTPClient:       &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}}
}

// The two regions of the suite. What is made in one must not show in the other.
const (
	home  = "us-east-1"
	other = "eu-west-1"
)

// at returns the SDK's configuration for a region.
func (t Target) at(region string) aws.Config {
	c := t.Config.Copy()
	c.Region = region
	return c
}

// base returns the URL that a client shall ask, otherwise where the target names none.
func (t Target) base(otherwise *string) *string {
	if t.Endpoint == "" {
		return otherwise
	}
	return &t.Endpoint
}

// S3Client returns a client for the region.
func (t Target) S3Client(region string) *s3.Client {
	return s3.NewFromConfig(t.at(region), func(o *s3.Options) { o.BaseEndpoint, o.UsePathStyle = t.base(o.BaseEndpoint), t.Endpoint != "" })
}

// SQSClient returns a client for the region.
func (t Target) SQSClient(region string) *sqs.Client {
	return sqs.NewFromConfig(t.at(region), func(o *sqs.Options) { o.BaseEndpoint = t.base(o.BaseEndpoint) })
}

// DynamoDBClient returns a client for the region.
func (t Target) DynamoDBClient(region string) *dynamodb.Client {
	return dynamodb.NewFromConfig(t.at(region), func(o *dynamodb.Options) { o.BaseEndpoint = t.base(o.BaseEndpoint) })
}

// STSClient returns a client for the region.
func (t Target) STSClient(region string) *sts.Client {
	return sts.NewFromConfig(t.at(region), func(o *sts.Options) { o.BaseEndpoint = t.base(o.BaseEndpoint) })
}

// CloudFormationClient returns a client for the region.
func (t Target) CloudFormationClient(region string) *cloudformation.Client {
	return cloudformation.NewFromConfig(t.at(region), func(o *cloudformation.Options) { o.BaseEndpoint = t.base(o.BaseEndpoint) })
}

// SNSClient returns a client for the region.
func (t Target) SNSClient(region string) *sns.Client {
	return sns.NewFromConfig(t.at(region), func(o *sns.Options) { o.BaseEndpoint = t.base(o.BaseEndpoint) })
}

// LambdaClient returns a client for the region.
func (t Target) LambdaClient(region string) *lambda.Client {
	return lambda.NewFromConfig(t.at(region), func(o *lambda.Options) { o.BaseEndpoint = t.base(o.BaseEndpoint) })
}

// SchedulerClient returns a client for the region.
func (t Target) SchedulerClient(region string) *scheduler.Client {
	return scheduler.NewFromConfig(t.at(region), func(o *scheduler.Options) { o.BaseEndpoint = t.base(o.BaseEndpoint) })
}

// Diverted returns the endpoints that the SDK's configuration names in place of
// AWS's own, none if it names none.
func (t Target) Diverted() (urls []string) {
	for _, endpoint := range []*string{
		t.S3Client(home).Options().BaseEndpoint, t.SQSClient(home).Options().BaseEndpoint, t.DynamoDBClient(home).Options().BaseEndpoint,
		t.STSClient(home).Options().BaseEndpoint, t.CloudFormationClient(home).Options().BaseEndpoint, t.SNSClient(home).Options().BaseEndpoint,
		t.LambdaClient(home).Options().BaseEndpoint, t.SchedulerClient(home).Options().BaseEndpoint,
	} {
		if endpoint != nil {
			urls = append(urls, *endpoint)
		}
	}
	return urls
}

// check is one statement about a service.
type check[C any] struct {
	name string
	run  func(t *testing.T, c C)
}

// run runs the checks as subtests.
func run[C any](t *testing.T, target Target, client C, checks []check[C]) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			if why, unsteady := target.Unsteady[c.name]; unsteady {
				t.Skipf("this endpoint passes by chance or takes too long: %s", why)
			}
			why, known := target.KnownDifferences[c.name]
			if known && os.Getenv(listedKey) == "" {
				wantFailure(t, why)
				return
			}
			c.run(t, client)
		})
	}
}

// name returns a fresh name that any service accepts.
func name(prefix string) string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail
	return prefix + "-" + hex.EncodeToString(b[:])
}

// must returns v, and ends the check when err is not nil.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantCode ends the check unless err is an API error with one of the codes.
func wantCode(t *testing.T, err error, codes ...string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Fatalf("got %v, want error %v", err, codes)
	}
	for _, c := range codes {
		if api.ErrorCode() == c {
			return
		}
	}
	t.Fatalf("got error %s (%s), want %v", api.ErrorCode(), api.ErrorMessage(), codes)
}

// racers calls f n times at once and returns the errors in order.
func racers(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// background is the context of clean-ups, which outlive the test's own.
func background() context.Context { return context.Background() }
