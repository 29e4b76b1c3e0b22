package conformance

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

func s3Deleting() []check[*s3Suite] {
	return []check[*s3Suite]{
		{"DeleteObjects 1000 ok, all reported, quiet reports none", s3BulkOfThousand},
		{"DeleteObjects 1001 refused (MalformedXML) S3-13", s3BulkTooLarge},
		{"DeleteObjects with no key, and with an empty one, refused S3-13", s3BulkEmpty},
		{"DeleteObjects absent key -> Deleted; DeleteObject absent -> 204", s3DeleteAbsent},
		{"DeleteObject If-Match wrong ETag -> 412, object kept; right -> deleted", s3DeleteIfMatch},
		{"DeleteObjects per-key ETag mismatch -> Errors PreconditionFailed, others deleted S3-18", s3BulkIfMatch},
		{"a conditional delete of an absent key -> NoSuchKey, alone and in bulk S3-18", s3ConditionOnAbsent},
		{"DeleteObjects answers 200 with an error per key S3-01", s3BulkErrors},
		{"a conditional delete races: one wins, 16 racers", s3DeleteRace},
		{"errors: NoSuchKey, NoSuchBucket on get/list/delete", s3Absence},
		{"DeleteBucket of a full bucket -> BucketNotEmpty; gone -> NoSuchBucket", s3BucketEnds},
	}
}

func s3BulkOfThousand(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	var all []types.ObjectIdentifier
	for i := range 1000 {
		all = append(all, s3Object(fmt.Sprintf("k%04d", i)))
	}
	for _, quiet := range []bool{false, true} {
		c.fill(t, b, 1000, s3Numbered("k%04d"))
		out := must(c.bulk(t.Context(), b, quiet, all...))(t)
		want := 1000
		if quiet {
			want = 0
		}
		if len(out.Deleted) != want || len(out.Errors) != 0 {
			t.Errorf("quiet %v: deleted %d, errors %d", quiet, len(out.Deleted), len(out.Errors))
		}
		c.wantKeys(t, b)
	}
}

func s3BulkTooLarge(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.put(t, b, "k0000", "x")
	var all []types.ObjectIdentifier
	for i := range 1001 {
		all = append(all, s3Object(fmt.Sprintf("k%04d", i)))
	}
	_, err := c.bulk(t.Context(), b, false, all...)
	wantCode(t, err, "MalformedXML")
	c.wantKeys(t, b, "k0000")
}

func s3BulkEmpty(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.put(t, b, "k", "x")
	_, err := c.bulk(t.Context(), b, false, []types.ObjectIdentifier{}...) // the SDK sends it
	wantCode(t, err, "MalformedXML")
	_, err = c.bulk(t.Context(), b, false, s3Object("k"), s3Object(""))
	wantCode(t, err, "MalformedXML", "UserKeyMustBeSpecified")
	c.wantKeys(t, b, "k")
}

func s3DeleteAbsent(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	out := must(c.bulk(t.Context(), b, false, s3Object("nope")))(t)
	if len(out.Deleted) != 1 || len(out.Errors) != 0 {
		t.Errorf("deleted %d, errors %d", len(out.Deleted), len(out.Errors))
	}
	must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("nope")}))(t)
}

const s3ForeignETag = `"0123456789abcdef0123456789abcdef"`

func s3DeleteIfMatch(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	o := c.put(t, b, "k", "v1")
	_, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k"), IfMatch: aws.String(s3ForeignETag)})
	wantCode(t, err, "PreconditionFailed")
	c.wantKeys(t, b, "k")
	must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k"), IfMatch: o.ETag}))(t)
	c.wantKeys(t, b)
}

func s3BulkIfMatch(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	decided, decidedToo := c.put(t, b, "k1", "v1"), c.put(t, b, "k2", "v2")
	c.put(t, b, "k2", "replaced after the decision")
	out := must(c.bulk(t.Context(), b, false,
		types.ObjectIdentifier{Key: aws.String("k1"), ETag: decided.ETag},
		types.ObjectIdentifier{Key: aws.String("k2"), ETag: decidedToo.ETag}))(t)
	if len(out.Deleted) != 1 || len(out.Errors) != 1 ||
		aws.ToString(out.Errors[0].Key) != "k2" || aws.ToString(out.Errors[0].Code) != "PreconditionFailed" {
		t.Errorf("deleted %v, errors %v", out.Deleted, out.Errors)
	}
	if got := c.body(t, b, "k2", nil); got != "replaced after the decision" {
		t.Errorf("k2 holds %q", got)
	}
}

func s3ConditionOnAbsent(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	out := must(c.bulk(t.Context(), b, false, types.ObjectIdentifier{Key: aws.String("gone"), ETag: aws.String(s3ForeignETag)}))(t)
	if len(out.Deleted) != 0 || len(out.Errors) != 1 || aws.ToString(out.Errors[0].Code) != "NoSuchKey" {
		t.Errorf("deleted %v, errors %v", out.Deleted, out.Errors)
	}
	_, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("gone"), IfMatch: aws.String(s3ForeignETag)})
	wantCode(t, err, "NoSuchKey")
}

// The call succeeds although every key was refused.
func s3BulkErrors(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	var all []types.ObjectIdentifier
	for _, key := range []string{"k1", "k2", "k3"} {
		c.put(t, b, key, "x")
		all = append(all, types.ObjectIdentifier{Key: &key, ETag: aws.String(s3ForeignETag)})
	}
	out := must(c.bulk(t.Context(), b, true, all...))(t)
	if len(out.Deleted) != 0 || len(out.Errors) != 3 {
		t.Errorf("deleted %d, errors %d", len(out.Deleted), len(out.Errors))
	}
	c.wantKeys(t, b, "k1", "k2", "k3")
}

func s3DeleteRace(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	o := c.put(t, b, "k", "x")
	ctx, won := t.Context(), 0
	for _, err := range racers(16, func(int) error {
		_, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k"), IfMatch: o.ETag})
		return err
	}) {
		if err == nil {
			won++
		} else {
			wantCode(t, err, "NoSuchKey", "ConditionalRequestConflict")
		}
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
}

func s3Absence(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	_, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b, Key: aws.String("x")})
	wantCode(t, err, "NoSuchKey")
	_, err = c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: aws.String("x")})
	wantCode(t, err, "NotFound")
	nowhere := name("nobkt")
	_, err = c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &nowhere})
	wantCode(t, err, "NoSuchBucket")
	_, err = c.bulk(t.Context(), nowhere, false, s3Object("nope"))
	wantCode(t, err, "NoSuchBucket")
	_, err = c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &nowhere, Key: aws.String("x"), Body: strings.NewReader("x")})
	wantCode(t, err, "NoSuchBucket")
}

func s3BucketEnds(t *testing.T, c *s3Suite) {
	b := name("bkt")
	must(c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &b}))(t)
	t.Cleanup(func() {
		var api smithy.APIError
		if err := s3Empty(c.Client, b); err != nil && (!errors.As(err, &api) || api.ErrorCode() != "NoSuchBucket") {
			t.Logf("bucket %s stays: %v", b, err)
		}
	})
	c.put(t, b, "k", "x")
	_, err := c.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: &b})
	wantCode(t, err, "BucketNotEmpty")
	must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k")}))(t)
	must(c.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: &b}))(t)
	_, err = c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b})
	wantCode(t, err, "NoSuchBucket")
}
