package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// S3 checks what Expunge needs of S3.
func S3(t *testing.T, target Target) {
	if target.Config.RequestChecksumCalculation == 0 { // as an SDK does that has loaded its configuration
		target.Config.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
		target.Config.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
	}
	c := &s3Suite{Client: target.S3Client(home), abroad: target.S3Client(other), target: target}
	run(t, target, c, s3Checks())
}

// s3Checks are the checks in their order.
func s3Checks() []check[*s3Suite] {
	return slices.Concat(s3Listing(), s3Keys(), s3Deleting(), s3Objects(), s3Versions(), s3Locks(), s3Policies(), s3Digests())
}

// s3Suite is a client in the home region with what the checks share.
type s3Suite struct {
	*s3.Client
	abroad *s3.Client
	target Target
}

// bucket makes a bucket that is emptied and removed when the check ends.
func (c *s3Suite) bucket(t *testing.T, edit ...func(*s3.CreateBucketInput)) string {
	t.Helper()
	b := name("bkt")
	in := &s3.CreateBucketInput{Bucket: &b}
	for _, e := range edit {
		e(in)
	}
	must(c.CreateBucket(t.Context(), in))(t)
	t.Cleanup(func() {
		if err := s3Empty(c.Client, b); err != nil {
			t.Logf("bucket %s stays: %v", b, err)
		}
	})
	return b
}

// versioned makes a bucket that keeps versions.
func (c *s3Suite) versioned(t *testing.T) string {
	t.Helper()
	b := c.bucket(t)
	c.setVersioning(t, b, types.BucketVersioningStatusEnabled)
	return b
}

func (c *s3Suite) setVersioning(t *testing.T, b string, status types.BucketVersioningStatus) {
	t.Helper()
	must(c.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: &b, VersioningConfiguration: &types.VersioningConfiguration{Status: status},
	}))(t)
}

// locking makes a bucket with Object Lock.
func (c *s3Suite) locking(t *testing.T) string {
	t.Helper()
	return c.bucket(t, func(in *s3.CreateBucketInput) { in.ObjectLockEnabledForBucket = aws.Bool(true) })
}

// s3Empty removes every version of a bucket, and the bucket.
func s3Empty(c *s3.Client, b string) error {
	ctx := background()
	for {
		page, err := c.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &b, EncodingType: types.EncodingTypeUrl})
		if err != nil {
			return err
		}
		var all []types.ObjectIdentifier
		for _, v := range page.Versions {
			all = append(all, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, m := range page.DeleteMarkers {
			all = append(all, types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
		}
		if len(all) == 0 {
			_, err = c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &b})
			return err
		}
		for i := range all {
			if page.EncodingType == types.EncodingTypeUrl {
				key, err := url.QueryUnescape(*all[i].Key)
				if err != nil {
					return err
				}
				all[i].Key = &key
			}
		}
		if err := s3Remove(ctx, c, b, all); err != nil {
			return err
		}
	}
}

// s3Remove destroys versions: in bulk, and one by one what that can not name or is
// locked.
func s3Remove(ctx context.Context, c *s3.Client, b string, all []types.ObjectIdentifier) error {
	single := slices.Clone(all)
	bulk := slices.DeleteFunc(all, func(o types.ObjectIdentifier) bool { return !s3InBulk(*o.Key) })
	if len(bulk) > 0 {
		out, err := c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &b, Delete: &types.Delete{Objects: bulk}})
		if err != nil {
			return err
		}
		gone := map[string]bool{}
		for _, d := range out.Deleted {
			gone[aws.ToString(d.Key)+" "+aws.ToString(d.VersionId)] = true
		}
		single = slices.DeleteFunc(single, func(o types.ObjectIdentifier) bool {
			return gone[aws.ToString(o.Key)+" "+aws.ToString(o.VersionId)]
		})
	}
	for _, o := range single {
		_, _ = c.PutObjectLegalHold(ctx, &s3.PutObjectLegalHoldInput{ // there may be none
			Bucket: &b, Key: o.Key, VersionId: o.VersionId,
			LegalHold: &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatusOff},
		})
		if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{
			Bucket: &b, Key: o.Key, VersionId: o.VersionId, BypassGovernanceRetention: aws.Bool(true),
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *s3Suite) put(t *testing.T, b, key, body string) *s3.PutObjectOutput {
	t.Helper()
	return must(c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b, Key: &key, Body: strings.NewReader(body)}))(t)
}

// fill puts n small objects, several at a time.
func (c *s3Suite) fill(t *testing.T, b string, n int, key func(i int) string) {
	t.Helper()
	const workers = 8
	ctx := t.Context()
	for _, err := range racers(workers, func(w int) error {
		for i := w; i < n; i += workers {
			k := key(i)
			if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: &b, Key: &k, Body: strings.NewReader("x")}); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// list returns every key of a listing, decoded, and the number of its pages.
func (c *s3Suite) list(t *testing.T, in *s3.ListObjectsV2Input) (keys []string, pages int) {
	t.Helper()
	in.EncodingType = types.EncodingTypeUrl
	for pages < 10_000 {
		out := must(c.ListObjectsV2(t.Context(), in))(t)
		pages++
		for _, o := range out.Contents {
			keys = append(keys, s3Decoded(t, out.EncodingType, *o.Key))
		}
		if !aws.ToBool(out.IsTruncated) {
			return keys, pages
		}
		if aws.ToString(out.NextContinuationToken) == "" {
			t.Fatal("truncated without a token")
		}
		in.ContinuationToken = out.NextContinuationToken
	}
	t.Fatal("the listing does not end")
	return nil, 0
}

func (c *s3Suite) keys(t *testing.T, b string) []string {
	t.Helper()
	keys, _ := c.list(t, &s3.ListObjectsV2Input{Bucket: &b})
	return keys
}

// s3Decoded returns a listed key as it is, should the server have encoded it.
func s3Decoded(t *testing.T, encoding types.EncodingType, key string) string {
	t.Helper()
	if encoding != types.EncodingTypeUrl {
		return key
	}
	plain, err := url.QueryUnescape(key)
	if err != nil {
		t.Fatalf("key %q: %v", key, err)
	}
	return plain
}

// body returns the content of an object, or of one version of it.
func (c *s3Suite) body(t *testing.T, b, key string, version *string) string {
	t.Helper()
	out := must(c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b, Key: &key, VersionId: version}))(t)
	defer out.Body.Close()
	return string(must(io.ReadAll(out.Body))(t))
}

func (c *s3Suite) has(t *testing.T, b, key string) bool {
	t.Helper()
	_, err := c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: &key})
	var absent *types.NotFound
	if err != nil && !errors.As(err, &absent) {
		t.Fatalf("head %q: %v", key, err)
	}
	return err == nil
}

func (c *s3Suite) bulk(ctx context.Context, b string, quiet bool, objects ...types.ObjectIdentifier) (*s3.DeleteObjectsOutput, error) {
	return c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &b, Delete: &types.Delete{Objects: objects, Quiet: &quiet}})
}

// versions lists all versions and all markers of a bucket.
func (c *s3Suite) versions(t *testing.T, b string) (versions []types.ObjectVersion, s3Markers []types.DeleteMarkerEntry) {
	t.Helper()
	out := must(c.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &b}))(t)
	return out.Versions, out.DeleteMarkers
}

func s3Numbered(format string) func(i int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}

func s3Object(key string) types.ObjectIdentifier { return types.ObjectIdentifier{Key: &key} }

// wantKeys fails the check unless the bucket lists exactly these keys.
func (c *s3Suite) wantKeys(t *testing.T, b string, want ...string) {
	t.Helper()
	if got := c.keys(t, b); !slices.Equal(got, want) {
		t.Errorf("the bucket lists %.300q, want %.300q", got, want)
	}
}
