package artifact_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// codes is what each error code of S3 has to mean: for an item of a bulk delete,
// and for a call. It is written a second time here, so that a change of meaning
// is made twice.
var codes = []struct {
	code   string
	status int
	item   job.Answer
	call   failure.Class
}{
	{"NoSuchKey", 404, job.NotThere, failure.Absent},
	{"NoSuchVersion", 404, job.NotThere, failure.Absent},
	{"PreconditionFailed", 412, job.Differs, failure.Conflict},
	{"ConditionalRequestConflict", 409, job.Slow, failure.Conflict},
	{"OperationAborted", 409, job.Slow, failure.Conflict},

	{"BandwidthLimitExceeded", 503, job.Slow, failure.Throttled},
	{"RequestLimitExceeded", 503, job.Slow, failure.Throttled},
	{"SlowDown", 503, job.Slow, failure.Throttled},
	{"Throttling", 400, job.Slow, failure.Throttled},
	{"ThrottlingException", 400, job.Slow, failure.Throttled},
	{"TooManyRequestsException", 429, job.Slow, failure.Throttled},

	{"AccessDenied", 403, job.Denied, failure.Forbidden},
	{"AccountProblem", 403, job.Denied, failure.Forbidden},
	{"AllAccessDisabled", 403, job.Denied, failure.Forbidden},
	{"InvalidAccessKeyId", 403, job.Denied, failure.Forbidden},
	{"InvalidObjectState", 403, job.Denied, failure.Forbidden},
	{"InvalidPayer", 403, job.Denied, failure.Forbidden},
	{"InvalidSecurity", 403, job.Denied, failure.Forbidden},
	{"InvalidToken", 400, job.Denied, failure.Forbidden},
	{"MethodNotAllowed", 405, job.Denied, failure.Forbidden},
	{"NotSignedUp", 403, job.Denied, failure.Forbidden},
	{"SignatureDoesNotMatch", 403, job.Denied, failure.Forbidden},
	{"UnauthorizedAccess", 403, job.Denied, failure.Forbidden},

	{"InvalidArgument", 400, job.Denied, failure.Invalid},
	{"KeyTooLongError", 400, job.Denied, failure.Invalid},
	{"NotImplemented", 501, job.Denied, failure.Invalid},
	{"AuthorizationHeaderMalformed", 400, job.Unsure, failure.Invalid},
	{"InvalidBucketName", 400, job.Unsure, failure.Invalid},
	{"InvalidRequest", 400, job.Unsure, failure.Invalid},
	{"InvalidURI", 400, job.Unsure, failure.Invalid},
	{"MalformedXML", 400, job.Unsure, failure.Invalid},
	{"PermanentRedirect", 301, job.Unsure, failure.Invalid},
	{"NoSuchBucket", 404, job.Unsure, failure.Absent},

	{"InternalError", 500, job.Unsure, failure.Network},
	{"RequestTimeout", 400, job.Unsure, failure.Network},
	{"ServiceUnavailable", 503, job.Unsure, failure.Network},
	{"TemporaryRedirect", 307, job.Unsure, failure.Network},
	{"BadDigest", 400, job.Unsure, failure.Network},
	{"ExpiredToken", 400, job.Unsure, failure.Network},
	{"IncompleteBody", 400, job.Unsure, failure.Network},
	{"InvalidDigest", 400, job.Unsure, failure.Network},
	{"RequestExpired", 400, job.Unsure, failure.Network},
	{"RequestTimeTooSkewed", 403, job.Unsure, failure.Network},
	{"TokenRefreshRequired", 400, job.Unsure, failure.Network},
	{"XAmzContentSHA256Mismatch", 400, job.Unsure, failure.Network},

	{"SomethingNew", 400, job.Unsure, failure.Bug},
	{"SomethingNew", 403, job.Unsure, failure.Forbidden},
	{"SomethingNew", 401, job.Unsure, failure.Forbidden},
	{"SomethingNew", 429, job.Unsure, failure.Throttled},
	{"SomethingNew", 503, job.Unsure, failure.Network},
}

func TestS3ErrorCodes(t *testing.T) {
	c := newCloud(t, artifact.S3Options{})
	bucket := c.Bucket(t, false)
	plain, odd := c.Put(t, bucket, "a", "x"), c.Put(t, bucket, "a\u0001", "x")
	// One attempt: what is retried is for other tests.
	once := c.once(t)
	for _, row := range codes {
		t.Run(fmt.Sprint(row.code, " ", row.status), func(t *testing.T) {
			refused := wire.Error{Status: row.status, Code: row.code, Message: "in words"}
			c.meet(func(wire.Call) wire.Fate { return wire.Fate{Entries: func(string) *wire.Error { return &refused }} })
			answers, err := once.Delete(t.Context(), c.deletion(bucket, plain))
			if err != nil || answers[0] != row.item {
				t.Errorf("an item of a bulk delete: %v, %v; want %d", answers, err, row.item)
			}
			c.meet(func(wire.Call) wire.Fate { return wire.Fate{Error: &refused} })
			answers, err = once.Delete(t.Context(), c.deletion(bucket, plain))
			if answers != nil || failure.Of(err) != row.call {
				t.Errorf("a bulk delete: %v, %v; want %s", answers, err, row.call)
			}
			if _, err := once.List(t.Context(), job.Query{Bucket: bucket}); failure.Of(err) != row.call {
				t.Errorf("a listing: %v; want %s", err, row.call)
			}
			answers, err = once.Delete(t.Context(), c.deletion(bucket, odd))
			if row.item == job.Unsure { // alone, no answer for the item is none for the call
				if answers != nil || failure.Of(err) != row.call {
					t.Errorf("a single delete: %v, %v; want %s", answers, err, row.call)
				}
			} else if err != nil || answers[0] != row.item {
				t.Errorf("a single delete: %v, %v; want %d", answers, err, row.item)
			}
		})
	}
}

// once returns a store that sends everything once.
func (c *cloud) once(t *testing.T) *artifact.S3 {
	config := c.config(t)
	config.Retryer = sdk.Once
	return artifact.NewS3(config, artifact.S3Options{Now: c.clock.Now})
}

// Every code of the table in the code has its row here.
func TestS3ErrorCodesAreAll(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "s3_error.go", nil, 0)
	must(t, err)
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		pair, ok := node.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if key, ok := pair.Key.(*ast.BasicLit); ok && key.Kind == token.STRING {
			code, err := strconv.Unquote(key.Value)
			must(t, err)
			n++
			for _, row := range codes {
				if row.code == code {
					return false
				}
			}
			t.Errorf("%s has no row in this test", code)
		}
		return true
	})
	if n < 40 {
		t.Errorf("found only %d codes", n)
	}
}

// A lock and a missing permission have one code; the words tell them apart (S3-17).
func TestS3LockedOrDenied(t *testing.T) {
	c := newCloud(t, artifact.S3Options{})
	bucket := c.Bucket(t, true)
	item := c.Put(t, bucket, "a", "x")
	odd := c.Put(t, bucket, "a\u0001", "x")
	for message, want := range map[string]job.Answer{
		"Access Denied because object protected by object lock.": job.Locked,
		"Access Denied because object protected by Object Lock":  job.Locked,
		"Access Denied": job.Denied,
		"":              job.Denied,
		"Mfa Authentication must be used for this request": job.Denied,
	} {
		denied := &wire.Error{Status: http.StatusForbidden, Code: "AccessDenied", Message: message}
		c.meet(func(call wire.Call) wire.Fate {
			if call.Operation == "DeleteObject" {
				return wire.Fate{Error: denied}
			}
			return wire.Fate{Entries: func(string) *wire.Error { return denied }}
		})
		answers, err := c.store.Delete(t.Context(), c.deletion(bucket, item, odd))
		must(t, err)
		if !slices.Equal(answers, []job.Answer{want, want}) {
			t.Errorf("%q: %v, want %d", message, answers, want)
		}
	}
}

// serve returns a store on a server that is no S3 at all.
func serve(t *testing.T, handler http.HandlerFunc) *artifact.S3 {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	config := sdk.Defaults().Configure(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", ""),
	})
	config.Retryer = sdk.Once
	return artifact.NewS3(config, artifact.S3Options{})
}

// What looks like success and is none: the call has no answer.
func TestS3AnswersThatProveNothing(t *testing.T) {
	d := job.Deletion{
		Bucket: "exports", Items: []job.Item{{Key: "a", ETag: `"e"`}, {Key: "b", ETag: `"e"`}}, NotAfter: time.Now().Add(time.Hour),
	}
	const deleted = "<Deleted><Key>a</Key></Deleted>"
	for _, body := range []string{
		"", "<DeleteResult/>", "<DeleteResult>" + deleted + "</DeleteResult>", "<DeleteResult>" + deleted + deleted + "</DeleteResult>",
		"<DeleteResult>" + deleted + "<Deleted><Key>c</Key></Deleted></DeleteResult>",
		"<DeleteResult>" + deleted + "<Deleted><Key>b</Key><VersionId>1</VersionId></Deleted></DeleteResult>",
		"<DeleteResult>" + deleted + "<Deleted/></DeleteResult>",
		"<DeleteResult>" + deleted + "<Deleted><Key>b</Key>", "<html/>", "<Error><Code>InternalError</Code></Error>",
	} {
		store := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		if answers, err := store.Delete(t.Context(), d); answers != nil || !failure.Is(err, failure.Network) {
			t.Errorf("%q: %v, %v", body, answers, err)
		}
	}
}

func TestS3ListingsThatProveNothing(t *testing.T) {
	object := func(key string) string {
		return "<Contents><Key>" + key + "</Key><ETag>e</ETag><Size>1</Size><LastModified>2026-12-01T06:00:00.000Z</LastModified></Contents>"
	}
	version := func(key string) string {
		return "<Version><Key>" + key + "</Key><VersionId>1</VersionId><ETag>e</ETag><Size>1</Size><LastModified>2026-12-01T06:00:00.000Z</LastModified></Version>"
	}
	const facts = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
	bad := map[bool][]string{
		false: {
			"", "<ListBucketResult/>", "<ListBucketResult>" + facts + "</ListBucketResult>",
			"<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>",
			"<ListBucketResult>" + facts + "<KeyCount>2</KeyCount>" + object("p/b") + "</ListBucketResult>",
			"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><KeyCount>1</KeyCount>" + object("p/b") + "</ListBucketResult>",
			"<ListBucketResult>" + facts + "<KeyCount>2</KeyCount>" + object("p/c") + object("p/b") + "</ListBucketResult>",
			"<ListBucketResult>" + facts + "<KeyCount>1</KeyCount>" + object("q") + "</ListBucketResult>",
			"<ListBucketResult>" + facts + "<KeyCount>1</KeyCount>" + object("p/a") + "</ListBucketResult>", // what it was to begin after
			"<ListBucketResult>" + facts + "<KeyCount>1</KeyCount>" + object("p/%zz") + "</ListBucketResult>",
			"<ListBucketResult>" + facts + "<KeyCount>1</KeyCount><Contents><Key>p/b</Key></Contents></ListBucketResult>",
		},
		true: {
			"", "<ListVersionsResult/>", "<ListBucketResult>" + facts + "</ListBucketResult>", "<ListVersionsResult>" + facts + version("p/b"),
			"<ListVersionsResult><IsTruncated>false</IsTruncated></ListVersionsResult>",
			"<ListVersionsResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>" + version("p/b") + "</ListVersionsResult>",
			"<ListVersionsResult>" + facts + version("p/c") + version("p/b") + "</ListVersionsResult>",
			"<ListVersionsResult>" + facts + version("p/a") + "</ListVersionsResult>",
			"<ListVersionsResult>" + facts + "<Version><Key>p/b</Key></Version></ListVersionsResult>",
		},
	}
	good := map[bool]string{
		false: "<ListBucketResult>" + facts + "<KeyCount>1</KeyCount>" + object("p/b") + "</ListBucketResult>",
		true:  "<ListVersionsResult>" + facts + version("p/b") + version("p/b") + "</ListVersionsResult>",
	}
	for versions, bodies := range bad {
		q := job.Query{Bucket: "exports", Prefix: "p", After: "p/a", Versions: versions}
		for _, body := range bodies {
			store := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
			if l, err := store.List(t.Context(), q); !failure.Is(err, failure.Network) {
				t.Errorf("%q: %+v, %v", body, l, err)
			}
		}
		store := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, good[versions]) })
		if l, err := store.List(t.Context(), q); err != nil || len(l.Items) == 0 {
			t.Errorf("a whole listing: %+v, %v", l, err)
		}
	}
}

// S3 may answer a page without a key that is not the last; the caller sees none.
func TestS3EmptyPages(t *testing.T) {
	const facts = "<EncodingType>url</EncodingType>"
	pages := map[string]string{
		"":  "<ListBucketResult>" + facts + "<KeyCount>0</KeyCount><IsTruncated>true</IsTruncated><NextContinuationToken>1</NextContinuationToken></ListBucketResult>",
		"1": "<ListBucketResult>" + facts + "<KeyCount>0</KeyCount><IsTruncated>true</IsTruncated><NextContinuationToken>2</NextContinuationToken></ListBucketResult>",
		"2": "<ListBucketResult>" + facts + "<KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>" +
			"<Contents><Key>a</Key><ETag>e</ETag><Size>1</Size><LastModified>2026-12-01T06:00:00.000Z</LastModified></Contents></ListBucketResult>",
	}
	store := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, pages[r.URL.Query().Get("continuation-token")])
	})
	l, err := store.List(t.Context(), job.Query{Bucket: "exports"})
	if err != nil || len(l.Items) != 1 || l.Token != "" {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestS3RetryAfter(t *testing.T) {
	store := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Amz-Request-Id", "R-1")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "<Error><Code>SlowDown</Code><Message>canary</Message></Error>")
	})
	_, err := store.List(t.Context(), job.Query{Bucket: "exports"})
	if failure.RetryAfter(err) != 7*time.Second || err.Error() != "list items: throttled: SlowDown, status 503, request R-1" {
		t.Errorf("%v after %v", err, failure.RetryAfter(err))
	}
}

func TestS3WithoutAPeer(t *testing.T) {
	config := sdk.Defaults().Configure(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", ""),
	})
	store := artifact.NewS3(config, artifact.S3Options{})
	if _, err := store.List(context.Background(), job.Query{Bucket: "exports"}); !failure.Is(err, failure.Network) {
		t.Errorf("%v", err)
	}
}
