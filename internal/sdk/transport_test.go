package sdk_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/sdk"
)

// bulk is a bulk delete of 1,000 keys, and a server that answers it at once.
func bulk(t *testing.T) (server *httptest.Server, in *s3.DeleteObjectsInput) {
	t.Helper()
	var answer strings.Builder
	answer.WriteString(`<DeleteResult>`)
	in = &s3.DeleteObjectsInput{Bucket: aws.String("exports"), Delete: &types.Delete{}}
	for i := range 1000 {
		key := fmt.Sprintf("exports/school-4/2026/%09d.csv", i)
		in.Delete.Objects = append(in.Delete.Objects, types.ObjectIdentifier{Key: &key})
		fmt.Fprintf(&answer, "<Deleted><Key>%s</Key></Deleted>", key)
	}
	answer.WriteString(`</DeleteResult>`)
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, answer.String())
	}))
	t.Cleanup(server.Close)
	return server, in
}

func config(endpoint string) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", ""),
	}
}

func pathStyle(o *s3.Options) { o.UsePathStyle = true }

// failures sends the bulk delete up to n times and counts failed calls; first ends it at one.
func failures(t *testing.T, c *s3.Client, in *s3.DeleteObjectsInput, n int, first bool) (failed, sent int) {
	t.Helper()
	for sent < n && (failed == 0 || !first) {
		sent++
		out, err := c.DeleteObjects(t.Context(), in)
		switch {
		case err != nil && !strings.Contains(err.Error(), "use of closed network connection"):
			t.Fatalf("another fault: %v", err)
		case err != nil:
			failed++
		case len(out.Deleted) != 1000:
			t.Fatalf("%d deleted", len(out.Deleted))
		}
	}
	return failed, sent
}

// TestTheFault shows what Repair is for. It depends on how goroutines are
// scheduled, so that not seeing it in so many calls is no failure; when it is
// never seen any more, with a newer SDK, Repair can go.
func TestTheFault(t *testing.T) {
	server, in := bulk(t)
	c := config(server.URL)
	c.HTTPClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	c.Retryer = sdk.Once
	failed, sent := failures(t, s3.NewFromConfig(c, pathStyle), in, 400, true)
	if failed == 0 {
		t.Skipf("not seen in %d calls", sent)
	}
	t.Logf("seen in call %d", sent)
}

func TestRepair(t *testing.T) {
	server, in := bulk(t)
	c := sdk.Defaults().Configure(config(server.URL)).Config
	c.Retryer = sdk.Once
	if failed, sent := failures(t, s3.NewFromConfig(c, pathStyle), in, 60, false); failed > 0 {
		t.Errorf("%d of %d calls failed", failed, sent)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The same without luck: what the SDK sends can write itself, and what the inner
// transport gets can not.
func TestRepairHidesWriterTo(t *testing.T) {
	_, in := bulk(t)
	var outside, inside atomic.Bool
	look := func(r *http.Request, can *atomic.Bool) {
		_, ok := r.Body.(io.WriterTo)
		can.Store(ok)
	}
	inner := sdk.Repair(roundTripper(func(r *http.Request) (*http.Response, error) {
		look(r, &inside)
		body, err := io.ReadAll(r.Body)
		if err != nil || int64(len(body)) != r.ContentLength {
			t.Errorf("read %d of %d bytes: %v", len(body), r.ContentLength, err)
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("<DeleteResult/>"))}, nil
	}))
	c := config("http://127.0.0.1:1")
	c.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		before := r.Body
		look(r, &outside)
		response, err := inner.RoundTrip(r)
		if r.Body != before {
			t.Error("the request was changed")
		}
		return response, err
	})}
	if _, err := s3.NewFromConfig(c, pathStyle).DeleteObjects(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if !outside.Load() {
		t.Error("the SDK's body does not write itself any more: Repair can go")
	}
	if inside.Load() {
		t.Error("the inner transport's body can write itself")
	}
}
