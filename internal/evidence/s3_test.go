package evidence_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/evidence/evidencetest"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/sdk"
)

const planName = "plan/run/page.json"

// openS3 returns a store in a new bucket of an embedded S3.
func openS3(t *testing.T, faults wire.Faults) *evidence.S3 {
	t.Helper()
	server := httptest.NewServer(emulator.New(wire.Wall{}, faults, s3.New(wire.Wall{})))
	t.Cleanup(server.Close)
	limits := sdk.Defaults()
	limits.Backoff = time.Millisecond
	config := limits.Configure(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", ""),
	})
	client := awss3.NewFromConfig(config.Config, func(o *awss3.Options) { o.UsePathStyle = true })
	bucket := "evidence"
	if _, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &bucket, ObjectLockEnabledForBucket: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	// A stranger's object in the bucket is no evidence.
	if _, err := client.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &bucket, Key: aws.String("A stranger's"), Body: strings.NewReader("x")}); err != nil {
		t.Fatal(err)
	}
	return evidence.NewS3(config, bucket)
}

func TestS3(t *testing.T) {
	evidencetest.Exercise(t, func(t *testing.T) evidencetest.Store { return openS3(t, nil) })
}

// script decides the fates of the calls of one operation, in their order.
func script(operation string, fates ...wire.Fate) (faults wire.Faults, calls *atomic.Int32) {
	calls = new(atomic.Int32)
	return func(c wire.Call) wire.Fate {
		if c.Operation != operation || strings.Contains(c.Resource, "stranger") {
			return wire.Fate{}
		}
		if n := int(calls.Add(1)); n <= len(fates) {
			return fates[n-1]
		}
		return wire.Fate{}
	}, calls
}

func refusal(status int, code string) wire.Fate {
	return wire.Fate{Error: &wire.Error{Status: status, Code: code, Message: "canary"}}
}

// A write whose answer is lost, and which the SDK sends again, finds its own bytes.
func TestS3WriteThatHappened(t *testing.T) {
	for what, fate := range map[string]wire.Fate{
		"lost": {Lost: true}, "repeated": {Repeat: true}, "refused": refusal(500, "InternalError"),
		"slow": refusal(503, "SlowDown"), "a conflict": refusal(409, "ConditionalRequestConflict"),
	} {
		faults, _ := script("PutObject", fate)
		s := openS3(t, faults)
		if err := s.Put(t.Context(), planName, []byte("x")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if data, err := s.Get(t.Context(), planName); err != nil || string(data) != "x" {
			t.Errorf("%s: %q, %v", what, data, err)
		}
		if err := s.Put(t.Context(), planName, []byte("y")); !failure.Is(err, failure.Invalid) {
			t.Errorf("%s: other bytes: %v", what, err)
		}
	}
}

func TestS3ReadThatIsCutOff(t *testing.T) {
	faults, _ := script("GetObject", wire.Fate{Truncate: 3})
	s := openS3(t, faults)
	if err := s.Put(t.Context(), planName, []byte("whole")); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Get(t.Context(), planName); !failure.Is(err, failure.Network) {
		t.Errorf("%q, %v", data, err)
	}
	if data, err := s.Get(t.Context(), planName); err != nil || string(data) != "whole" {
		t.Errorf("%q, %v", data, err)
	}
}

// Who does not answer at all is no bug of ours: the SDK tells of a response then, too.
func TestS3WithoutAnAnswer(t *testing.T) {
	for what, fate := range map[string]wire.Fate{"lost": {Lost: true}, "cut off": {Truncate: 1, Error: &wire.Error{Status: 500, Code: "InternalError"}}} {
		for _, operation := range []string{"PutObject", "GetObject", "ListObjectsV2"} {
			faults, _ := script(operation, slices.Repeat([]wire.Fate{fate}, 20)...)
			s := openS3(t, faults)
			errPut := s.Put(t.Context(), planName, []byte("x"))
			_, errGet := s.Get(t.Context(), planName)
			_, errList := s.List(t.Context(), "", "", 10)
			if err := map[string]error{"PutObject": errPut, "GetObject": errGet, "ListObjectsV2": errList}[operation]; !failure.Is(err, failure.Network) {
				t.Errorf("%s %s: %v", operation, what, err)
			}
		}
	}
}

func TestS3Classes(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   failure.Class
	}{
		{503, "SlowDown", failure.Throttled}, {429, "TooManyRequests", failure.Throttled},
		{409, "ConditionalRequestConflict", failure.Conflict}, {409, "OperationAborted", failure.Conflict},
		{400, "ExpiredToken", failure.Network}, {403, "RequestTimeTooSkewed", failure.Network}, {400, "RequestTimeout", failure.Network},
		{500, "InternalError", failure.Network}, {503, "ServiceUnavailable", failure.Network},
		{403, "AccessDenied", failure.Forbidden}, {403, "InvalidAccessKeyId", failure.Forbidden},
		{404, "NoSuchBucket", failure.Forbidden}, {301, "PermanentRedirect", failure.Forbidden},
		{400, "canary", failure.Bug}, {501, "NotImplemented", failure.Bug},
	} {
		always := slices.Repeat([]wire.Fate{refusal(c.status, c.code)}, 20)
		for _, operation := range []string{"PutObject", "GetObject", "ListObjectsV2"} {
			faults, calls := script(operation, always...)
			s := openS3(t, faults)
			errPut := s.Put(t.Context(), planName, []byte("x"))
			_, errGet := s.Get(t.Context(), planName)
			_, errList := s.List(t.Context(), "", "", 10)
			err := map[string]error{"PutObject": errPut, "GetObject": errGet, "ListObjectsV2": errList}[operation]
			if failure.Of(err) != c.want || strings.Contains(fmt.Sprint(err), "canary") || calls.Load() > 9 {
				t.Errorf("%s, %d %s: %v after %d calls, want %s", operation, c.status, c.code, err, calls.Load(), c.want)
			}
		}
	}
}

func TestS3ListsOverPages(t *testing.T) {
	s := openS3(t, nil)
	var want []string
	for i := range 1100 {
		n := fmt.Sprintf("plan/%04d.json", i)
		if err := s.Put(t.Context(), n, nil); err != nil {
			t.Fatal(err)
		}
		want = append(want, n)
	}
	for _, limit := range []int{999, 1000, 1001, 1100, 5000} {
		got, err := s.List(t.Context(), "", "", limit)
		if err != nil || !slices.Equal(got, want[:min(limit, len(want))]) {
			t.Errorf("limit %d: %d names, %v", limit, len(got), err)
		}
	}
}
