package conformance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func s3Listing() []check[*s3Suite] {
	return []check[*s3Suite]{
		{"put 5000, list in 1000-key pages, UTF-8 order", s3ManyPages},
		{"StartAfter + Prefix; token wins over StartAfter", s3StartAfter},
		{"page while deleting the page just listed (token key gone) S3-25", s3DeleteWhilePaging},
		{"Delimiter: CommonPrefixes once over pages, counted in MaxKeys", s3CommonPrefixes},
		{"EncodingType=url honoured and echoed", s3UrlEncoding},
		{"KeyCount, MaxKeys 0, a token that is none", s3ListingFacts},
		{"ListObjects, the first form: Marker and NextMarker", s3FirstForm},
		{"LastModified has whole seconds and is the same in Head and list", s3LastModified},
		{"regions: bucket made in eu-west-1 reports its region / redirect", s3Regions},
	}
}

func s3ManyPages(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.fill(t, b, 5000, func(i int) string { return fmt.Sprintf("p%d/k%05d", i%3, i) })
	keys, pages := c.list(t, &s3.ListObjectsV2Input{Bucket: &b})
	if len(keys) != 5000 || pages != 5 || !slices.IsSorted(keys) {
		t.Errorf("%d keys in %d pages, sorted %v", len(keys), pages, slices.IsSorted(keys))
	}
	keys, _ = c.list(t, &s3.ListObjectsV2Input{Bucket: &b, Prefix: aws.String("p1/"), MaxKeys: aws.Int32(77)})
	if len(keys) != 1667 {
		t.Errorf("%d keys with the prefix, want 1667", len(keys))
	}
}

func s3StartAfter(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.fill(t, b, 60, func(i int) string { return fmt.Sprintf("%c/%02d", "ab"[i%2], i/2) })
	keys, _ := c.list(t, &s3.ListObjectsV2Input{Bucket: &b, Prefix: aws.String("a/"), StartAfter: aws.String("a/09"), MaxKeys: aws.Int32(7)})
	if len(keys) != 20 || keys[0] != "a/10" {
		t.Errorf("%d keys after a/09: %q", len(keys), keys)
	}
	keys, _ = c.list(t, &s3.ListObjectsV2Input{Bucket: &b, StartAfter: aws.String("a/zzz-not-there")})
	if len(keys) != 30 {
		t.Errorf("%d keys after one that is not there", len(keys))
	}
}

// What a worker does: delete a page, then ask for the next.
func s3DeleteWhilePaging(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.fill(t, b, 50, s3Numbered("k%02d"))
	var token *string
	seen := 0
	for range 20 {
		out := must(c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b, MaxKeys: aws.Int32(10), ContinuationToken: token}))(t)
		for _, o := range out.Contents {
			seen++
			must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: o.Key}))(t)
		}
		if token = out.NextContinuationToken; !aws.ToBool(out.IsTruncated) {
			break
		}
	}
	if seen != 50 {
		t.Errorf("saw %d of 50", seen)
	}
	// And a scan that starts again after a key that is gone.
	c.fill(t, b, 10, s3Numbered("k%02d"))
	must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k04")}))(t)
	if keys, _ := c.list(t, &s3.ListObjectsV2Input{Bucket: &b, StartAfter: aws.String("k04")}); len(keys) != 5 || keys[0] != "k05" {
		t.Errorf("after a deleted key: %q", keys)
	}
}

func s3CommonPrefixes(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.fill(t, b, 30, func(i int) string {
		switch i % 3 {
		case 0:
			return fmt.Sprintf("d%02d/x", i/3)
		case 1:
			return fmt.Sprintf("d%02d/y", i/3)
		default:
			return fmt.Sprintf("f%02d", i/3)
		}
	})
	seen := map[string]int{}
	var token *string
	for range 40 {
		out := must(c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{
			Bucket: &b, Delimiter: aws.String("/"), MaxKeys: aws.Int32(4), ContinuationToken: token,
		}))(t)
		if n := len(out.Contents) + len(out.CommonPrefixes); n > 4 {
			t.Errorf("%d entries in a page of 4", n)
		}
		for _, o := range out.Contents {
			seen[*o.Key]++
		}
		for _, p := range out.CommonPrefixes {
			seen[*p.Prefix]++
		}
		if token = out.NextContinuationToken; !aws.ToBool(out.IsTruncated) {
			break
		}
	}
	for what, n := range seen {
		if n != 1 {
			t.Errorf("%q came %d times", what, n)
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d entries, want 20", len(seen))
	}
}

func s3UrlEncoding(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	key := "a b+c%é\n\x01&<x>"
	c.put(t, b, key, "x")
	out := must(c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b, EncodingType: types.EncodingTypeUrl, Prefix: aws.String("a b+")}))(t)
	if out.EncodingType != types.EncodingTypeUrl {
		t.Fatalf("EncodingType is %q", out.EncodingType)
	}
	if len(out.Contents) != 1 {
		t.Fatalf("%d keys", len(out.Contents))
	}
	if got := s3Decoded(t, out.EncodingType, *out.Contents[0].Key); got != key {
		t.Errorf("decoded %q from %q", got, *out.Contents[0].Key)
	}
	if got := s3Decoded(t, out.EncodingType, aws.ToString(out.Prefix)); got != "a b+" {
		t.Errorf("the prefix came back as %q", aws.ToString(out.Prefix))
	}
	_, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b, EncodingType: "base64"})
	wantCode(t, err, "InvalidArgument")
}

func s3ListingFacts(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.fill(t, b, 3, s3Numbered("k%d"))
	out := must(c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b, MaxKeys: aws.Int32(2)}))(t)
	if aws.ToInt32(out.KeyCount) != 2 || !aws.ToBool(out.IsTruncated) || aws.ToInt32(out.MaxKeys) != 2 {
		t.Errorf("KeyCount %d, truncated %v, MaxKeys %d", aws.ToInt32(out.KeyCount), aws.ToBool(out.IsTruncated), aws.ToInt32(out.MaxKeys))
	}
	out = must(c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b, MaxKeys: aws.Int32(0)}))(t)
	if aws.ToInt32(out.KeyCount) != 0 || len(out.Contents) != 0 || aws.ToBool(out.IsTruncated) {
		t.Errorf("MaxKeys 0: %d keys, truncated %v", len(out.Contents), aws.ToBool(out.IsTruncated))
	}
	_, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b, ContinuationToken: aws.String("k1")})
	wantCode(t, err, "InvalidArgument")
}

func s3FirstForm(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	for _, key := range []string{"a", "b/1", "b/2", "c", "d"} {
		c.put(t, b, key, "x")
	}
	var seen []string
	var marker *string
	for range 10 {
		out := must(c.ListObjects(t.Context(), &s3.ListObjectsInput{Bucket: &b, Delimiter: aws.String("/"), MaxKeys: aws.Int32(1), Marker: marker}))(t)
		for _, o := range out.Contents {
			seen = append(seen, *o.Key)
		}
		for _, p := range out.CommonPrefixes {
			seen = append(seen, *p.Prefix)
		}
		if marker = out.NextMarker; !aws.ToBool(out.IsTruncated) {
			break
		}
	}
	if want := []string{"a", "b/", "c", "d"}; !slices.Equal(seen, want) {
		t.Errorf("saw %q, want %q", seen, want)
	}
	out := must(c.ListObjects(t.Context(), &s3.ListObjectsInput{Bucket: &b, Marker: aws.String("b/1")}))(t)
	if len(out.Contents) != 3 || *out.Contents[0].Key != "b/2" {
		t.Errorf("%d keys after the marker", len(out.Contents))
	}
}

func s3LastModified(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.put(t, b, "k", "1")
	out := must(c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b}))(t)
	head := must(c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: aws.String("k")}))(t)
	listed := *out.Contents[0].LastModified
	if !listed.Equal(*head.LastModified) || !listed.Equal(listed.Truncate(time.Second)) {
		t.Errorf("listed %s, head says %s", listed.Format(time.RFC3339Nano), head.LastModified.Format(time.RFC3339Nano))
	}
}

func s3Regions(t *testing.T, c *s3Suite) {
	b := name("eub")
	must(c.abroad.CreateBucket(t.Context(), &s3.CreateBucketInput{
		Bucket:                    &b,
		CreateBucketConfiguration: &types.CreateBucketConfiguration{LocationConstraint: other},
	}))(t)
	t.Cleanup(func() {
		if err := s3Empty(c.abroad, b); err != nil {
			t.Logf("bucket %s stays: %v", b, err)
		}
	})
	l := must(c.abroad.GetBucketLocation(t.Context(), &s3.GetBucketLocationInput{Bucket: &b}))(t)
	if l.LocationConstraint != other {
		t.Errorf("location %q", l.LocationConstraint)
	}
	_, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b})
	wantCode(t, err, "PermanentRedirect")
	h, err := c.abroad.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: &b})
	if err != nil || aws.ToString(h.BucketRegion) != other {
		t.Errorf("HeadBucket: %v, %v", h, err)
	}
	_, err = c.CreateBucket(t.Context(), &s3.CreateBucketInput{
		Bucket:                    aws.String(name("bkt")),
		CreateBucketConfiguration: &types.CreateBucketConfiguration{LocationConstraint: other},
	})
	wantCode(t, err, "IllegalLocationConstraintException")
}
