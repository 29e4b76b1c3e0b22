package artifact

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// opReady names the look at a bucket before a run.
const opReady = "look at the bucket"

// The lasting reasons for which a bucket is not ready.
const (
	noBucket      = "there is no such bucket"
	otherRegion   = "the bucket is in another region than its policy"
	notOurs       = "it may not be listed: the role, or the bucket's policy, does not allow it"
	requesterPays = "it may not be listed: the bucket lets only those in who say that they pay (requester pays)"
)

// Ready reports whether the query can be listed in the region, without which no run
// of it should open: failure.Absent where there is no such bucket, failure.Invalid
// where it is in another region, failure.Forbidden where it may not be listed. It
// lists one key under the prefix, because a role may be allowed that and nothing else
// about the bucket. It needs s3:ListBucket, or s3:ListBucketVersions with Versions;
// with s3:GetBucketRequestPayment it tells requester pays from another refusal
// (S3-23).
func (s *S3) Ready(ctx context.Context, q job.Query, region string) error {
	if err := over(ctx, opReady); err != nil {
		return err
	}
	if s.client.Options().Region != region {
		return failure.New(failure.Invalid, opReady, otherRegion)
	}
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	var err error
	if q.Versions {
		_, err = s.lists.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{
			Bucket: &q.Bucket, Prefix: given(q.Prefix), MaxKeys: aws.Int32(1), RequestPayer: s.payer,
		})
	} else {
		_, err = s.lists.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
			Bucket: &q.Bucket, Prefix: given(q.Prefix), MaxKeys: aws.Int32(1), RequestPayer: s.payer,
		})
	}
	classified := classify(opReady, err)
	switch {
	case err == nil:
		return nil
	case sdk.Code(err) == "NoSuchBucket":
		return failure.New(failure.Absent, opReady, noBucket)
	case elsewhere(sdk.Code(err)):
		return failure.New(failure.Invalid, opReady, otherRegion)
	case failure.Is(classified, failure.Forbidden) && s.asksForPay(ctx, q.Bucket):
		return failure.New(failure.Forbidden, opReady, requesterPays)
	case sdk.Code(err) == "AccessDenied":
		return failure.New(failure.Forbidden, opReady, notOurs)
	default:
		return classified
	}
}

// elsewhere reports whether a code says that a bucket is in another region.
func elsewhere(code string) bool {
	return code == "PermanentRedirect" || code == "AuthorizationHeaderMalformed" || code == "IllegalLocationConstraintException"
}

// asksForPay reports whether a bucket is known to refuse those who do not say that
// they pay.
func (s *S3) asksForPay(ctx context.Context, bucket string) bool {
	out, err := s.client.GetBucketRequestPayment(ctx, &s3.GetBucketRequestPaymentInput{Bucket: &bucket})
	return err == nil && out.Payer == types.PayerRequester && s.payer == ""
}

// Ready implements the look of S3: a bucket of this store is in every region.
func (m *Memory) Ready(ctx context.Context, q job.Query, _ string) error {
	if err := over(ctx, opReady); err != nil {
		return err
	}
	return m.Hook.Do("ready", func() error {
		return m.with(opReady, q.Bucket, func(*bucketState) error { return nil })
	})
}
