package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

var start = time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)

// bed is an S3 on a clock that stands still, with one bucket.
type bed struct {
	*awss3.Client
	service *s3.Service
	clock   *wire.Manual
	url     string
	fate    wire.Fate // of every call
	seen    []string  // the operations, as the hook is told
}

const bucket = "exports"

func open(t *testing.T) *bed {
	t.Helper()
	b := &bed{clock: wire.NewManual(start)}
	b.service = s3.New(b.clock)
	server := httptest.NewServer(emulator.New(b.clock, func(c wire.Call) wire.Fate {
		b.seen = append(b.seen, c.Operation)
		return b.fate
	}, b.service))
	t.Cleanup(server.Close)
	b.url = server.URL
	b.Client = awss3.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", ""),
	}, func(o *awss3.Options) { o.UsePathStyle = true })
	if _, err := b.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) seed(t *testing.T, keys ...string) {
	t.Helper()
	if err := b.service.Seed(bucket, func(yield func(s3.Object) bool) {
		for _, key := range keys {
			if !yield(s3.Object{Key: key, Body: []byte(key)}) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func (b *bed) keys(t *testing.T) (keys []string) {
	t.Helper()
	out, err := b.ListObjectsV2(t.Context(), &awss3.ListObjectsV2Input{Bucket: aws.String(bucket)})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range out.Contents {
		keys = append(keys, *o.Key)
	}
	return keys
}

// remove deletes keys in bulk, and returns "key" or "key code" for each in order.
func (b *bed) remove(t *testing.T, keys ...string) (answers []string) {
	t.Helper()
	in := &awss3.DeleteObjectsInput{Bucket: aws.String(bucket), Delete: &types.Delete{}}
	for _, key := range keys {
		in.Delete.Objects = append(in.Delete.Objects, types.ObjectIdentifier{Key: &key})
	}
	out, err := b.DeleteObjects(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range out.Deleted {
		answers = append(answers, *d.Key)
	}
	for _, e := range out.Errors {
		answers = append(answers, *e.Key+" "+*e.Code)
	}
	slices.Sort(answers)
	return answers
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestFatesOfSingleKeys(t *testing.T) {
	b := open(t)
	b.seed(t, "a", "b", "c")
	refuse := func(victim string) func(string) *wire.Error {
		return func(key string) *wire.Error {
			if key != victim {
				return nil
			}
			return wire.Bad("InternalError", "We encountered an internal error. Please try again.")
		}
	}
	b.fate = wire.Fate{Entries: refuse("a"), EntriesAfter: refuse("b")}
	same(t, "answers", b.remove(t, "a", "b", "c"), "a InternalError", "b InternalError", "c")
	b.fate = wire.Fate{}
	same(t, "left", b.keys(t), "a")
}

func TestFateOfACall(t *testing.T) {
	b := open(t)
	b.seed(t, "a")
	b.fate = wire.Fate{Error: &wire.Error{Status: http.StatusServiceUnavailable, Code: "SlowDown", Message: "Please reduce your request rate."}}
	_, err := b.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: aws.String(bucket), Key: aws.String("a")})
	if err == nil || !strings.Contains(err.Error(), "SlowDown: Please reduce your request rate.") {
		t.Errorf("%v", err)
	}
	if _, err := b.HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: aws.String(bucket), Key: aws.String("a")}); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("head: %v", err)
	}
	b.fate = wire.Fate{}
	same(t, "left", b.keys(t), "a")
	same(t, "operations", b.seen, "CreateBucket", "DeleteObject", "HeadObject", "ListObjectsV2")
}

func TestTheClockAndSeeding(t *testing.T) {
	b := open(t)
	b.seed(t, "new", "old")
	if err := b.service.SetLastModified(bucket, "old", "", start.Add(-48*time.Hour+time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(1500 * time.Millisecond)
	b.seed(t, "newer")
	out, err := b.ListObjectsV2(t.Context(), &awss3.ListObjectsV2Input{Bucket: aws.String(bucket)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range out.Contents {
		got = append(got, fmt.Sprintf("%s %s %d", *o.Key, o.LastModified.Sub(start), *o.Size))
	}
	same(t, "objects", got, "new 0s 3", "newer 1s 5", "old -48h0m0s 3")
	for what, err := range map[string]error{
		"no bucket": b.service.Seed("nowhere", func(func(s3.Object) bool) {}),
		"no key":    b.service.Seed(bucket, slices.Values([]s3.Object{{}})),
		"no object": b.service.SetLastModified(bucket, "nothing", "", start),
		"version":   b.service.SetLastModified(bucket, "old", "nothing", start),
		"payer":     b.service.SetRequesterPays("nowhere", true),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := b.service.SetLastModified(bucket, "old", "null", start); err != nil {
		t.Errorf("the null version: %v", err)
	}
}

// S3-23: without the payer's header every access is denied; questions about the
// bucket itself are not.
func TestRequesterPays(t *testing.T) {
	b := open(t)
	b.seed(t, "a")
	if err := b.service.SetRequesterPays(bucket, true); err != nil {
		t.Fatal(err)
	}
	name, key := aws.String(bucket), aws.String("a")
	for _, payer := range []types.RequestPayer{"", types.RequestPayerRequester} {
		_, list := b.ListObjectsV2(t.Context(), &awss3.ListObjectsV2Input{Bucket: name, RequestPayer: payer})
		_, versions := b.ListObjectVersions(t.Context(), &awss3.ListObjectVersionsInput{Bucket: name, RequestPayer: payer})
		_, head := b.HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: name, Key: key, RequestPayer: payer})
		_, bulk := b.DeleteObjects(t.Context(), &awss3.DeleteObjectsInput{
			Bucket: name, RequestPayer: payer, Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: key}}},
		})
		_, single := b.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: name, Key: key, RequestPayer: payer})
		for what, err := range map[string]error{"list": list, "versions": versions, "head": head, "bulk": bulk, "single": single} {
			if denied := err != nil && strings.Contains(err.Error(), "403"); denied != (payer == "") || !denied && err != nil {
				t.Errorf("payer %q: %s: %v", payer, what, err)
			}
		}
		if _, err := b.GetBucketVersioning(t.Context(), &awss3.GetBucketVersioningInput{Bucket: name}); err != nil {
			t.Errorf("payer %q: versioning: %v", payer, err)
		}
	}
}

// What is not offered is said so, by name, and changes nothing.
func TestNotOffered(t *testing.T) {
	b := open(t)
	b.seed(t, "a")
	for _, c := range []struct{ method, path, header string }{
		{http.MethodGet, "/exports?acl", ""}, {http.MethodGet, "/exports?lifecycle", ""}, {http.MethodGet, "/exports?uploads", ""},
		{http.MethodPut, "/exports?requestPayment", ""}, {http.MethodPut, "/exports?encryption", ""}, {http.MethodPut, "/exports?publicAccessBlock", ""},
		{http.MethodDelete, "/exports?tagging", ""}, {http.MethodDelete, "/exports?encryption", ""}, {http.MethodDelete, "/exports?publicAccessBlock", ""},
		{http.MethodGet, "/exports?policyStatus", ""}, {http.MethodPut, "/exports?policy", "X-Amz-Confirm-Remove-Self-Bucket-Access: true"},
		{http.MethodGet, "/exports?list-type=2&something=new", ""}, {http.MethodGet, "/exports?versions&delimiter=/", ""},
		{http.MethodPost, "/exports/a?uploads", ""}, {http.MethodPost, "/exports/a?restore", ""}, {http.MethodPut, "/exports/a?uploadId=1&partNumber=1", ""},
		{http.MethodPut, "/exports/a?acl", ""}, {http.MethodGet, "/exports/a?attributes", ""}, {http.MethodGet, "/exports/a?partNumber=1", ""},
		{http.MethodGet, "/exports/a?response-content-type=text/plain", ""}, {http.MethodDelete, "/exports/a?acl", ""}, {http.MethodPatch, "/exports/a", ""},
		{http.MethodPut, "/exports/a", "X-Amz-Copy-Source: /exports/b"}, {http.MethodPut, "/exports/a", "X-Amz-Server-Side-Encryption: aws:kms"},
		{http.MethodPut, "/exports/a", "X-Amz-Storage-Class: GLACIER"}, {http.MethodPut, "/exports/a", "X-Amz-Acl: public-read"},
		{http.MethodPut, "/exports/a", "If-None-Match: \"e\""}, {http.MethodDelete, "/exports/a", "X-Amz-If-Match-Size: 7"},
		{http.MethodDelete, "/exports/a?versionId=null", "X-Amz-Mfa: 1 2"}, {http.MethodGet, "/exports/a", "Range: bytes=0-0,1-1"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, b.url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(r) // unsigned, which the embedded AWS takes for S3
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusNotImplemented || !strings.Contains(string(body), "<Code>NotImplemented</Code>") {
			t.Errorf("%s %s %s: status %d, %s", c.method, c.path, c.header, response.StatusCode, body)
		}
	}
	same(t, "left", b.keys(t), "a")
}

func TestForeignOwner(t *testing.T) {
	b := open(t)
	for owner, denied := range map[string]bool{wire.Account: false, "111111111111": true} {
		_, err := b.HeadBucket(t.Context(), &awss3.HeadBucketInput{Bucket: aws.String(bucket), ExpectedBucketOwner: &owner})
		if (err != nil) != denied {
			t.Errorf("owner %s: %v", owner, err)
		}
	}
}

// A key that XML can not carry makes a listing unreadable, unless it is asked for
// in the form of an URL: no reader takes it for another key.
func TestUnreadableKeysStayUnreadable(t *testing.T) {
	for _, key := range []string{"a\u0001", "a\ufffe", "a\xff"} {
		b := open(t)
		b.seed(t, key)
		if out, err := b.ListObjectsV2(t.Context(), &awss3.ListObjectsV2Input{Bucket: aws.String(bucket)}); err == nil {
			t.Errorf("%q was read as %q", key, *out.Contents[0].Key)
		}
	}
}

func TestTwoHundredThousandObjects(t *testing.T) {
	b := open(t)
	const n = 200_000
	body := []byte("x")
	begin := time.Now()
	if err := b.service.Seed(bucket, func(yield func(s3.Object) bool) {
		for i := range n {
			if !yield(s3.Object{Key: fmt.Sprintf("exports/%09d", i), Body: body}) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("seeded in %v", time.Since(begin))
	out, err := b.ListObjectsV2(t.Context(), &awss3.ListObjectsV2Input{Bucket: aws.String(bucket), StartAfter: aws.String("exports/000199000")})
	if err != nil || len(out.Contents) != 999 {
		t.Fatalf("%v", err)
	}
	// All of it lies in one common prefix, which is found without a look at all of it.
	begin = time.Now()
	out, err = b.ListObjectsV2(t.Context(), &awss3.ListObjectsV2Input{Bucket: aws.String(bucket), Delimiter: aws.String("/")})
	if err != nil || len(out.CommonPrefixes) != 1 || time.Since(begin) > 5*time.Second {
		t.Errorf("%d common prefixes after %v, %v", len(out.CommonPrefixes), time.Since(begin), err)
	}
}
