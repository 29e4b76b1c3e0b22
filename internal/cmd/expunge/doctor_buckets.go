package main

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/report"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// reader is what the tool asks S3. It has no call that could change anything.
type reader struct {
	artifact.ListClient
	bucketReader
	settingsReader
}

// bucketReader asks what a bucket is.
type bucketReader interface {
	GetBucketLocation(ctx context.Context, in *awss3.GetBucketLocationInput, options ...func(*awss3.Options)) (*awss3.GetBucketLocationOutput, error)
	GetBucketVersioning(ctx context.Context, in *awss3.GetBucketVersioningInput, options ...func(*awss3.Options)) (*awss3.GetBucketVersioningOutput, error)
	GetObjectLockConfiguration(ctx context.Context, in *awss3.GetObjectLockConfigurationInput, options ...func(*awss3.Options)) (*awss3.GetObjectLockConfigurationOutput, error)
	GetBucketPolicy(ctx context.Context, in *awss3.GetBucketPolicyInput, options ...func(*awss3.Options)) (*awss3.GetBucketPolicyOutput, error)
}

// settingsReader asks how a bucket treats what lies in it.
type settingsReader interface {
	GetBucketRequestPayment(ctx context.Context, in *awss3.GetBucketRequestPaymentInput, options ...func(*awss3.Options)) (*awss3.GetBucketRequestPaymentOutput, error)
	GetBucketEncryption(ctx context.Context, in *awss3.GetBucketEncryptionInput, options ...func(*awss3.Options)) (*awss3.GetBucketEncryptionOutput, error)
	HeadObject(ctx context.Context, in *awss3.HeadObjectInput, options ...func(*awss3.Options)) (*awss3.HeadObjectOutput, error)
}

func newReader(c sdk.Config) reader {
	client := awss3.NewFromConfig(c.Config, func(o *awss3.Options) { o.UsePathStyle = c.BaseEndpoint != nil })
	return reader{client, client, client}
}

// bucket is a bucket while it is looked at.
type bucket struct {
	*area
	store reader
	name  string
}

// lookAtBuckets looks at where the policies delete.
func lookAtBuckets(ctx context.Context, a *area) {
	all, ok := a.policies(ctx)
	if !ok {
		return
	}
	for _, p := range all {
		b := &bucket{a, newReader(a.r.config), p.Bucket}
		if !b.region(ctx, p.Bucket, p.Region) {
			continue
		}
		b.versioning(ctx, p)
		b.lock(ctx, p)
		b.payer(ctx)
		b.encryption(ctx)
		b.rights(ctx, p)
	}
}

// region reports whether the bucket is there, in its region.
func (b *bucket) region(ctx context.Context, what, region string) bool {
	ctx, done := b.r.config.Limit(ctx)
	defer done()
	out, err := b.store.GetBucketLocation(ctx, &awss3.GetBucketLocationInput{Bucket: &b.name})
	switch {
	case sdk.Code(err) == "NoSuchBucket":
		b.problem(what, "there is no such bucket", "make it in "+region+", or correct the policy")
		return false
	case err != nil:
		b.failed(what+", region", err)
		return sdk.Code(err) == "AccessDenied"
	}
	is := bucketRegion(out)
	if is != region {
		b.problem(what, "it is in "+is+" and not in "+region+": no run opens on it", "correct the policy's region, and deploy it there")
		return false
	}
	b.ok(what, "in "+is)
	return true
}

// bucketRegion is the region of an answer. Two have names of old:
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetBucketLocation.html
func bucketRegion(out *awss3.GetBucketLocationOutput) string {
	switch out.LocationConstraint {
	case "":
		return "us-east-1"
	case s3types.BucketLocationConstraintEu:
		return "eu-west-1"
	default:
		return string(out.LocationConstraint)
	}
}

// versioning compares what the bucket keeps with what the policy means to remove.
func (b *bucket) versioning(ctx context.Context, p policy.Policy) {
	ctx, done := b.r.config.Limit(ctx)
	defer done()
	what := p.Bucket + ", versions of " + p.Name
	out, err := b.store.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: &b.name})
	if err != nil {
		b.failed(what, err)
		return
	}
	kept, all := out.Status != "", p.Versions == policy.AllVersions
	switch {
	case out.MFADelete == s3types.MFADeleteStatusEnabled && all:
		b.problem(what, "MFA delete is on: the store refuses every delete of a version", "turn it off, or set versions: current")
	case kept && !all:
		b.warning(what, "the bucket keeps versions, and the policy works on current ones: a delete lays a marker, and the bytes remain", "set versions: all, or let a lifecycle rule expire the versions under markers")
	case !kept && all:
		b.warning(what, "the bucket keeps no versions, and the policy is about all of them", "set versions: current, or turn versioning on")
	case kept:
		b.ok(what, "the bucket keeps versions, and every one is deleted by its id")
	default:
		b.ok(what, "the bucket keeps none")
	}
}

// lockOf reports whether Object Lock is on, and the default retention.
func (b *bucket) lockOf(ctx context.Context) (on bool, retention *s3types.DefaultRetention, err error) {
	ctx, done := b.r.config.Limit(ctx)
	defer done()
	out, err := b.store.GetObjectLockConfiguration(ctx, &awss3.GetObjectLockConfigurationInput{Bucket: &b.name})
	if code := sdk.Code(err); code == "ObjectLockConfigurationNotFoundError" {
		return false, nil, nil
	}
	if err != nil || out.ObjectLockConfiguration == nil {
		return false, nil, err
	}
	if rule := out.ObjectLockConfiguration.Rule; rule != nil {
		retention = rule.DefaultRetention
	}
	return out.ObjectLockConfiguration.ObjectLockEnabled == s3types.ObjectLockEnabledEnabled, retention, nil
}

func (b *bucket) lock(ctx context.Context, p policy.Policy) {
	what := p.Bucket + ", Object Lock"
	on, retention, err := b.lockOf(ctx)
	switch {
	case err != nil:
		b.failed(what, err)
	case !on:
		b.ok(what, "off")
	case retention != nil && lockedDays(retention) > p.RetentionDays:
		b.warning(what, "objects are locked for "+lockedFor(retention)+", and "+p.Name+" expects them to go after "+report.Count(p.RetentionDays, "day")+": until then they end as held", "lengthen the policy's retention, or shorten the lock")
	default:
		b.ok(what, "on: what is locked ends as held")
	}
}

// lockedDays counts a retention in days, a year as 366.
func lockedDays(r *s3types.DefaultRetention) int {
	return int(aws.ToInt32(r.Days)) + 366*int(aws.ToInt32(r.Years))
}

func (b *bucket) payer(ctx context.Context) {
	ctx, done := b.r.config.Limit(ctx)
	defer done()
	what := b.name + ", who pays"
	out, err := b.store.GetBucketRequestPayment(ctx, &awss3.GetBucketRequestPaymentInput{Bucket: &b.name})
	switch {
	case err != nil:
		b.failed(what, err)
	case out.Payer == s3types.PayerRequester:
		b.problem(what, "the requester: the functions do not say that they pay, and other accounts than the owner's are refused", "let the owner pay")
	default:
		b.ok(what, "the owner")
	}
}

// encryption warns of a key that another account can take away.
func (b *bucket) encryption(ctx context.Context) {
	ctx, done := b.r.config.Limit(ctx)
	defer done()
	what := b.name + ", encryption"
	out, err := b.store.GetBucketEncryption(ctx, &awss3.GetBucketEncryptionInput{Bucket: &b.name})
	if err != nil {
		b.failed(what, err)
		return
	}
	var rules []s3types.ServerSideEncryptionRule
	if out.ServerSideEncryptionConfiguration != nil {
		rules = out.ServerSideEncryptionConfiguration.Rules
	}
	for _, rule := range rules {
		by := rule.ApplyServerSideEncryptionByDefault
		if by == nil || by.SSEAlgorithm == s3types.ServerSideEncryptionAes256 {
			continue
		}
		key := aws.ToString(by.KMSMasterKeyID)
		if own := b.r.account(ctx); strings.HasPrefix(key, "arn:") && own != "" && accountOf(key) != own {
			b.warning(what, "by a KMS key of account "+accountOf(key)+": a worker's condition on an object may need that key, and its owner can take it away", "let the key's policy allow the worker's role kms:Decrypt")
			return
		}
		b.ok(what, "by KMS")
		return
	}
	b.ok(what, "by S3's own keys")
}

// account is the operator's own, "" when it is not known.
func (r *deployment) account(ctx context.Context) string {
	arn, err := r.signer(ctx)
	if err != nil {
		return ""
	}
	return accountOf(arn)
}

// accountOf is the account in an ARN: arn:partition:service:region:account:resource.
func accountOf(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) < 6 {
		return ""
	}
	return parts[4]
}

// lookAtEvidence looks at where plans and receipts are kept.
func lookAtEvidence(ctx context.Context, a *area) {
	b := &bucket{a, newReader(a.r.config), a.r.outputs.Evidence}
	if !b.region(ctx, b.name, a.r.outputs.Region) {
		return
	}
	limited, done := b.r.config.Limit(ctx)
	defer done()
	out, err := b.store.GetBucketVersioning(limited, &awss3.GetBucketVersioningInput{Bucket: &b.name})
	switch {
	case err != nil:
		b.failed(b.name+", versions", err)
	case out.Status == s3types.BucketVersioningStatusEnabled:
		b.ok(b.name+", versions", "kept: what was written over or removed can be found again")
	default:
		b.problem(b.name+", versions", "not kept: whoever may write can replace evidence without a trace", redeploy)
	}
	on, retention, err := b.lockOf(ctx)
	switch {
	case err != nil:
		b.failed(b.name+", Object Lock", err)
	case !on: // a deployment may choose so; its versions are kept all the same
		b.warning(b.name+", Object Lock", "off: whoever may delete versions can remove evidence", "deploy with object_lock and object_lock_days in cdk.json's context")
	case retention == nil:
		b.warning(b.name+", Object Lock", "on, and without a default retention it locks nothing", redeploy)
	default:
		b.ok(b.name+", Object Lock", strings.ToLower(string(retention.Mode))+", for "+lockedFor(retention))
	}
}

func lockedFor(r *s3types.DefaultRetention) string {
	if years := aws.ToInt32(r.Years); years > 0 {
		return report.Count(int(years), "year")
	}
	return report.Count(int(aws.ToInt32(r.Days)), "day")
}
