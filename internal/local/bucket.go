package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// bucketLimits are the limits of reading a bucket for a person. Nobody else waits
// for the answer, and a page that is given up ends the whole run.
func bucketLimits() sdk.Settings {
	s := sdk.Defaults()
	s.Call, s.Attempts, s.Backoff = 2*time.Minute, 6, 20*time.Second
	return s
}

// credentialPatience is how long the search for credentials may take: the last
// place that the SDK looks at is a machine's metadata service, which may not exist.
const credentialPatience = 20 * time.Second

// runBucket evaluates a real bucket. Nothing but the listing leaves this process:
// the ledger, the queue and the evidence are in memory, as for a directory.
func runBucket(ctx context.Context, c Config) (int, error) {
	p, err := readPolicy(c)
	if err != nil {
		return ExitUsage, err
	}
	written := p
	b, p, err := openBucket(ctx, c.Bucket, p)
	if err != nil {
		return ExitUsage, err
	}
	asOf := introduce(c, p)
	if p.Bucket != written.Bucket || p.Region != written.Region {
		fmt.Fprintf(c.Out, "the policy is written for s3://%s in %s: its rules are applied to s3://%s in %s instead\n",
			written.Bucket, written.Region, p.Bucket, p.Region)
	}
	fmt.Fprintf(c.Out, "s3://%s is only listed, with a client that has no other call; the run reports and deletes nothing\n", p.Bucket)
	if err := b.probe(ctx, p); err != nil {
		return ExitUsage, err
	}
	options := Options{Region: p.Region, AsOf: asOf, Policies: []policy.Policy{p}, ReportOnly: true, Lister: b}
	return perform(ctx, c, options, 0, func(ctx context.Context, w *World, say func(string)) error {
		b.tell(say)
		_, err := w.Tick(ctx, p.Name, asOf)
		b.tell(nil) // the pages are listed once more, and told as they are settled
		if err == nil {
			err = w.Drain(ctx)
		}
		if failed := b.failure(); failed != nil {
			return failed
		}
		return err
	})
}

// listCalls are the two calls that a bucket is read with. They are bound functions
// and not the client they belong to, so that what holds them holds no way to any
// other call.
type listCalls struct {
	objects  func(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	versions func(context.Context, *s3.ListObjectVersionsInput, ...func(*s3.Options)) (*s3.ListObjectVersionsOutput, error)

	mu  sync.Mutex
	err error // the last one, as the SDK gave it
}

var _ artifact.ListClient = (*listCalls)(nil)

// ListObjectsV2 lists current objects.
func (c *listCalls) ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input, options ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	out, err := c.objects(ctx, in, options...)
	c.note(err)
	return out, err
}

// ListObjectVersions lists versions and markers.
func (c *listCalls) ListObjectVersions(ctx context.Context, in *s3.ListObjectVersionsInput, options ...func(*s3.Options)) (*s3.ListObjectVersionsOutput, error) {
	out, err := c.versions(ctx, in, options...)
	c.note(err)
	return out, err
}

func (c *listCalls) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *listCalls) last() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// liveBucket is a real bucket as the pipeline sees it: something to list. The
// first listing that fails ends it, because the SDK has tried again by then, and
// a simulated back-off would not wait.
type liveBucket struct {
	name, region string
	calls        *listCalls
	lister       *artifact.S3Lister

	mu     sync.Mutex
	say    func(string) // nil for nobody
	listed int
	failed error
}

// openBucket finds the caller's credentials and makes the client, which speaks to
// AWS, or to a loopback endpoint that the environment gives. It returns the policy
// as it applies to this bucket, and sends no request to it.
func openBucket(ctx context.Context, name string, p policy.Policy) (*liveBucket, policy.Policy, error) {
	base, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, p, unreadableConfig(err)
	}
	if base.Region == "" {
		base.Region = p.Region
	}
	p, err = applied(p, name, base.Region)
	if err != nil {
		return nil, p, err
	}
	search, done := context.WithTimeout(ctx, credentialPatience)
	defer done()
	if _, err := base.Credentials.Retrieve(search); err != nil {
		return nil, p, errNoCredentials
	}
	limits := bucketLimits()
	client := s3.NewFromConfig(limits.Configure(base).Config, onlyReading(limits))
	if endpoint := client.Options().BaseEndpoint; endpoint != nil && !loopback(*endpoint) {
		return nil, p, errors.New("BUCKET: your AWS configuration names an endpoint for S3 that is neither AWS nor on loopback: unset AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 and endpoint_url, or point them at a loopback address")
	}
	calls := &listCalls{objects: client.ListObjectsV2, versions: client.ListObjectVersions}
	return &liveBucket{name: name, region: p.Region, calls: calls, lister: artifact.NewS3Lister(calls, limits)}, p, nil
}

// applied returns the policy for another bucket and region than its file names, so
// that the report and the evidence name what was read.
func applied(p policy.Policy, bucket, region string) (policy.Policy, error) {
	p.Bucket, p.Region = bucket, region
	q, err := policy.Load(p.Canonical())
	var refused *policy.Error
	if errors.As(err, &refused) {
		for _, problem := range refused.Problems {
			switch problem.Field {
			case "bucket":
				return q, fmt.Errorf("BUCKET %s", problem.Text)
			case "region":
				return q, fmt.Errorf("the region of your AWS configuration %s: look at AWS_REGION and ~/.aws/config", problem.Text)
			}
		}
	}
	return q, err
}

// probe lists one key under the policy's prefix, to tell what is wrong before the
// run begins.
func (b *liveBucket) probe(ctx context.Context, p policy.Policy) error {
	ctx, done := bucketLimits().Limit(ctx)
	defer done()
	var err error
	if p.Versions == policy.AllVersions {
		_, err = b.calls.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &b.name, Prefix: aws.String(p.Prefix()), MaxKeys: aws.Int32(1)})
	} else {
		_, err = b.calls.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: aws.String(p.Prefix()), MaxKeys: aws.Int32(1)})
	}
	if err != nil {
		return b.explain(err)
	}
	return nil
}

// Ready has nothing to add to the probe, which tells a person what to do.
func (*liveBucket) Ready(context.Context, job.Query, string) error { return nil }

// toldEvery is how many listed keys make a line.
const toldEvery = 50_000

// List lists the bucket.
func (b *liveBucket) List(ctx context.Context, q job.Query) (job.Listing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed != nil {
		return job.Listing{}, b.failed
	}
	q.Bucket = b.name
	listing, err := b.lister.List(ctx, q)
	if err != nil {
		b.failed = err
		if cause := b.calls.last(); cause != nil {
			b.failed = b.explain(cause)
		}
		return job.Listing{}, err
	}
	before := b.listed
	if b.listed += len(listing.Items); b.say != nil && b.listed/toldEvery > before/toldEvery {
		b.say(fmt.Sprintf("listing s3://%s: %d keys so far", b.name, b.listed))
	}
	return listing, nil
}

// tell makes the bucket tell how far its listing is.
func (b *liveBucket) tell(say func(string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.say = say
}

// failure returns why the bucket could not be listed to the end, nil if it could.
func (b *liveBucket) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}
