package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func s3Objects() []check[*s3Suite] {
	return []check[*s3Suite]{
		{"PutObject If-None-Match:* -> 412 when present; 16 racers exactly one wins", s3PutRace},
		{"PutObject If-Match: 412 on another ETag, NoSuchKey when absent", s3PutIfMatch},
		{"HeadObject metadata/ETag/size/type; conditional GET 304/412", s3HeadAndConditions},
		{"HeadObject If-Match wrong -> 412", s3HeadIfMatch},
		{"GetObject Range: a part, a tail, 416", s3Ranges},
		{"tagging: put header, PutObjectTagging, Get, Delete, TagCount in Head", s3Tagging},
		{"slow uploader does not block other requests", s3SlowUpload},
		{"256 KiB body with default SDK checksum round-trips", s3LargeBody},
		{"what is not offered is an error, never a silent 200", s3NotOffered},
	}
}

func s3PutRace(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	ctx, won := t.Context(), 0
	for _, err := range racers(16, func(i int) error {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &b, Key: aws.String("r"), Body: strings.NewReader(fmt.Sprint(i)), IfNoneMatch: aws.String("*"),
		})
		return err
	}) {
		if err == nil {
			won++
		} else {
			wantCode(t, err, "PreconditionFailed", "ConditionalRequestConflict")
		}
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
}

func s3PutIfMatch(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	put := func(etag *string) error {
		_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b, Key: aws.String("k"), Body: strings.NewReader("v2"), IfMatch: etag})
		return err
	}
	wantCode(t, put(aws.String(s3ForeignETag)), "NoSuchKey")
	o := c.put(t, b, "k", "v1")
	wantCode(t, put(aws.String(s3ForeignETag)), "PreconditionFailed")
	if err := put(o.ETag); err != nil {
		t.Error(err)
	}
	wantCode(t, put(o.ETag), "PreconditionFailed")
}

func s3HeadAndConditions(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	o := must(c.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &b, Key: aws.String("k"), Body: strings.NewReader("hello"),
		ContentType: aws.String("text/csv"), Metadata: map[string]string{"created-at": "2020-01-01"},
	}))(t)
	h := must(c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: aws.String("k")}))(t)
	if aws.ToInt64(h.ContentLength) != 5 || aws.ToString(h.ContentType) != "text/csv" || h.Metadata["created-at"] != "2020-01-01" ||
		aws.ToString(h.ETag) != aws.ToString(o.ETag) || h.LastModified == nil {
		t.Errorf("head: %d bytes, %s, %v, %s, %v", aws.ToInt64(h.ContentLength), aws.ToString(h.ContentType), h.Metadata, aws.ToString(h.ETag), h.LastModified)
	}
	_, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b, Key: aws.String("k"), IfMatch: aws.String(s3ForeignETag)})
	wantCode(t, err, "PreconditionFailed")
	_, err = c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b, Key: aws.String("k"), IfNoneMatch: o.ETag})
	wantCode(t, err, "NotModified")
	hour := h.LastModified.Add(-time.Hour)
	_, err = c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b, Key: aws.String("k"), IfUnmodifiedSince: &hour})
	wantCode(t, err, "PreconditionFailed")
}

func s3HeadIfMatch(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.put(t, b, "k", "v")
	_, err := c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: aws.String("k"), IfMatch: aws.String(s3ForeignETag)})
	wantCode(t, err, "PreconditionFailed")
}

func s3Ranges(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.put(t, b, "k", "0123456789")
	for asked, want := range map[string]string{"bytes=2-4": "234", "bytes=7-": "789", "bytes=-2": "89", "bytes=8-99": "89"} {
		out := must(c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b, Key: aws.String("k"), Range: &asked}))(t)
		got := must(io.ReadAll(out.Body))(t)
		if string(got) != want || aws.ToString(out.ContentRange) == "" {
			t.Errorf("%s: %q, Content-Range %q", asked, got, aws.ToString(out.ContentRange))
		}
	}
	_, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b, Key: aws.String("k"), Range: aws.String("bytes=10-")})
	wantCode(t, err, "InvalidRange")
}

func s3Tagging(t *testing.T, c *s3Suite) {
	b, key := c.bucket(t), aws.String("k")
	tags := func() []types.Tag {
		return must(c.GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: &b, Key: key}))(t).TagSet
	}
	must(c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b, Key: key, Body: strings.NewReader("v"), Tagging: aws.String("class=export&tenant=t1")}))(t)
	if got := tags(); len(got) != 2 {
		t.Errorf("%d tags from the header", len(got))
	}
	must(c.PutObjectTagging(t.Context(), &s3.PutObjectTaggingInput{
		Bucket: &b, Key: key, Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}},
	}))(t)
	out := must(c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b, Key: key}))(t)
	out.Body.Close()
	if aws.ToInt32(out.TagCount) != 1 {
		t.Errorf("TagCount %d", aws.ToInt32(out.TagCount))
	}
	must(c.DeleteObjectTagging(t.Context(), &s3.DeleteObjectTaggingInput{Bucket: &b, Key: key}))(t)
	if !c.has(t, b, "k") {
		t.Fatal("DeleteObjectTagging deleted the object")
	}
	if got := tags(); len(got) != 0 {
		t.Errorf("%d tags after the delete", len(got))
	}
}

// An upload that takes two seconds must not hold up a listing.
func s3SlowUpload(t *testing.T, c *s3Suite) {
	if c.target.Endpoint == "" {
		t.Skip("asks for a known endpoint")
	}
	b := c.bucket(t)
	r, w := io.Pipe()
	go func() {
		half := bytes.Repeat([]byte("x"), 100)
		_, _ = w.Write(half)
		time.Sleep(2 * time.Second)
		_, _ = w.Write(half)
		_ = w.Close()
	}()
	uploaded := make(chan error, 1)
	go func() { uploaded <- c.upload(t.Context(), "/"+b+"/slow", r, 200) }()
	time.Sleep(300 * time.Millisecond)
	start := time.Now()
	must(c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b}))(t)
	if d := time.Since(start); d > time.Second {
		t.Errorf("the listing took %v during a slow upload", d)
	}
	if err := <-uploaded; err != nil {
		t.Errorf("the upload: %v", err)
	}
}

// upload sends a body of the length without the SDK, signed but for its payload.
func (c *s3Suite) upload(ctx context.Context, path string, body io.Reader, length int64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, c.target.Endpoint+path, body)
	if err != nil {
		return err
	}
	r.ContentLength = length
	response, err := c.send(r, "UNSIGNED-PAYLOAD")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// send signs a request that was made by hand, and sends it.
func (c *s3Suite) send(r *http.Request, payload string) (*http.Response, error) {
	credentials, err := c.target.Config.Credentials.Retrieve(r.Context())
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Amz-Content-Sha256", payload)
	if err := v4.NewSigner().SignHTTP(r.Context(), credentials, r, payload, "s3", home, time.Now()); err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

func s3LargeBody(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	body := bytes.Repeat([]byte("0123456789abcdef"), 16384)
	must(c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b, Key: aws.String("k"), Body: bytes.NewReader(body)}))(t)
	if got := c.body(t, b, "k", nil); got != string(body) {
		t.Errorf("%d bytes came back, and not the same", len(got))
	}
}

// Of AWS this check can not be asked: there these calls work.
func s3NotOffered(t *testing.T, c *s3Suite) {
	if c.target.Endpoint == "" {
		t.Skip("AWS offers everything")
	}
	b := c.bucket(t)
	c.put(t, b, "k", "x")
	ctx, key := t.Context(), aws.String("k")
	calls := map[string]func() error{
		"CopyObject": func() error {
			_, err := c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &b, Key: aws.String("copy"), CopySource: aws.String(b + "/k")})
			return err
		},
		"CreateMultipartUpload": func() error {
			_, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &b, Key: key})
			return err
		},
		"GetObjectAcl": func() error {
			_, err := c.GetObjectAcl(ctx, &s3.GetObjectAclInput{Bucket: &b, Key: key})
			return err
		},
		"GetBucketLifecycleConfiguration": func() error {
			_, err := c.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &b})
			return err
		},
		"an encrypted PutObject": func() error {
			_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: &b, Key: aws.String("e"), ServerSideEncryption: types.ServerSideEncryptionAwsKms})
			return err
		},
		"DeleteObjects on the condition of a size": func() error {
			_, err := c.bulk(ctx, b, false, types.ObjectIdentifier{Key: key, Size: aws.Int64(5)})
			return err
		},
	}
	for what, call := range calls {
		t.Run(what, func(t *testing.T) { wantCode(t, call(), "NotImplemented") })
	}
	c.wantKeys(t, b, "k")
}
