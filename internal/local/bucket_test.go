package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/report"
)

// realS3 is an embedded S3 that the caller's environment points at, as AWS or
// another S3 would be, with a count of what it is asked.
type realS3 struct {
	service *s3.Service
	owner   *awss3.Client // makes what the run then reads
	url     string

	mu    sync.Mutex
	calls map[string]int
	fate  func(wire.Call) wire.Fate
}

const bucketRegion = "eu-west-1"

func newRealS3(t *testing.T) *realS3 {
	t.Helper()
	r := &realS3{service: s3.New(wire.Wall{}), calls: map[string]int{}}
	server := httptest.NewServer(emulator.New(wire.Wall{}, r.judge, r.service))
	t.Cleanup(server.Close)
	r.url = server.URL
	callerEnvironment(t)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	r.owner = awss3.New(awss3.Options{
		Region: bucketRegion, BaseEndpoint: &server.URL, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("owner", "owner", ""),
	})
	return r
}

// callerEnvironment makes the environment of somebody with keys, and hides the
// machine's own configuration.
func callerEnvironment(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "") // so that it comes back
			_ = os.Unsetenv(name)
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_REGION": bucketRegion, "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "verysecretkey",
	} {
		t.Setenv(name, value)
	}
}

func (r *realS3) judge(c wire.Call) wire.Fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[c.Operation]++
	if r.fate != nil {
		return r.fate(c)
	}
	return wire.Fate{}
}

// decide sets the fate of the calls to come.
func (r *realS3) decide(fate func(wire.Call) wire.Fate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fate = fate
}

// asked returns the count of every operation since the last time.
func (r *realS3) asked() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = map[string]int{}
	return calls
}

func (r *realS3) bucket(t *testing.T, name, region string, versioned bool) {
	t.Helper()
	_, err := r.owner.CreateBucket(t.Context(), &awss3.CreateBucketInput{
		Bucket: &name, CreateBucketConfiguration: &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(region)},
	}, func(o *awss3.Options) { o.Region = region })
	if err == nil && versioned {
		_, err = r.owner.PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{
			Bucket: &name, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// seed uploads objects that are 31 days old at noon.
func (r *realS3) seed(t *testing.T, bucket string, age time.Duration, keys ...string) {
	t.Helper()
	slices.Sort(keys)
	err := r.service.Seed(bucket, func(yield func(s3.Object) bool) {
		for _, k := range keys {
			if !yield(s3.Object{Key: k, Body: []byte("1234567890"), Modified: noon.Add(-age)}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func numbered(format string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf(format, i)
	}
	return keys
}

// oddKeys are keys that a path, an XML parser or a URL would change.
var oddKeys = []string{
	"exports/acme//b", "exports/acme/a/", "exports/acme/../up", "exports/acme/./x", "exports/acme/ctl\x01x", "exports/acme/nl\nx",
	"exports/acme/a+b", "exports/acme/%41", "exports/acme/a b", "exports/acme/<&>\"'", "exports/acme/\u00fcml\u00e4ut", "exports/acme/\ufffe",
	"exports/acme/" + strings.Repeat("k", 1024-len("exports/acme/")),
}

func TestBucketIsReportedAndOnlyListed(t *testing.T) {
	r := newRealS3(t)
	r.bucket(t, "acme-exports", bucketRegion, false)
	r.seed(t, "acme-exports", 31*day, numbered("exports/acme/%05d.csv", 2500)...)
	r.seed(t, "acme-exports", 31*day, oddKeys...)
	r.seed(t, "acme-exports", 30*day, "exports/acme/zz-cutoff.csv")
	r.seed(t, "acme-exports", 29*day, "exports/globex/young.csv")
	r.seed(t, "acme-exports", 99*day, "exports/README", "elsewhere/old")
	before := r.state(t, "acme-exports")
	r.asked()

	status, got, text, err := runIt(t, Config{Bucket: "acme-exports", Policy: policyFile(t, exportsYAML), AsOf: noon})
	if status != 0 || err != nil {
		t.Fatalf("status %d, %v\n%s", status, err, text)
	}
	want := 2500 + len(oddKeys)
	if got.Mode != job.ReportOnly || got.Totals.WouldDelete != want || got.Totals.Candidates != want || got.Totals.Deleted != 0 ||
		got.Totals.BytesWouldReclaim != int64(10*want) || got.Runs[0].Examined != want+3 || got.Runs[0].Unmatched != 1 {
		t.Errorf("mode %s, totals %+v, run %+v", got.Mode, got.Totals, got.Runs[0])
	}
	if calls := r.asked(); len(calls) != 1 || calls["ListObjectsV2"] < 6 || calls["ListObjectsV2"] > 20 {
		t.Errorf("calls %v, want a few ListObjectsV2 and nothing else", calls)
	}
	if after := r.state(t, "acme-exports"); !maps.Equal(before, after) {
		t.Errorf("the bucket changed: %d objects, then %d", len(before), len(after))
	}
	if effects, err := r.service.Effects("acme-exports"); err != nil || len(effects) != 0 {
		t.Errorf("effects %v, %v", effects, err)
	}
	if strings.Contains(text, "is written for") {
		t.Errorf("the policy fits its bucket, and the text says otherwise:\n%s", text)
	}
}

// state returns every version of a bucket.
func (r *realS3) state(t *testing.T, bucket string) map[string]string {
	t.Helper()
	all := map[string]string{}
	pages := awss3.NewListObjectVersionsPaginator(r.owner, &awss3.ListObjectVersionsInput{Bucket: &bucket, EncodingType: types.EncodingTypeUrl})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Versions {
			all[*v.Key+" "+*v.VersionId] = *v.ETag + v.LastModified.String()
		}
		for _, m := range page.DeleteMarkers {
			all[*m.Key+" "+*m.VersionId] = "marker"
		}
	}
	return all
}

func TestBucketWithVersionsIsOnlyListed(t *testing.T) {
	r := newRealS3(t)
	r.bucket(t, "acme-exports", bucketRegion, true)
	for range 3 {
		r.seed(t, "acme-exports", 31*day, "exports/acme/a", "exports/acme/b")
	}
	r.asked()
	all := policyFile(t, exportsYAML+"versions: all\n")
	status, got, text, err := runIt(t, Config{Bucket: "acme-exports", Policy: all, AsOf: noon})
	if status != 0 || err != nil || got.Totals.WouldDelete != 6 {
		t.Errorf("status %d, %v, %+v\n%s", status, err, got.Totals, text)
	}
	if calls := r.asked(); len(calls) != 1 || calls["ListObjectVersions"] == 0 {
		t.Errorf("calls %v, want ListObjectVersions and nothing else", calls)
	}
}

func TestBucketOfAnotherNameAndRegionThanThePolicys(t *testing.T) {
	r := newRealS3(t)
	r.bucket(t, "staging", "us-west-2", false)
	t.Setenv("AWS_REGION", "us-west-2")
	r.owner = awss3.New(r.owner.Options(), func(o *awss3.Options) { o.Region = "us-west-2" })
	r.seed(t, "staging", 31*day, "exports/acme/a")
	status, got, text, err := runIt(t, Config{Bucket: "staging", Policy: policyFile(t, exportsYAML), AsOf: noon})
	if status != 0 || err != nil || got.Totals.WouldDelete != 1 || got.Runs[0].Region != "us-west-2" {
		t.Errorf("status %d, %v, %+v", status, err, got)
	}
	line := "the policy is written for s3://acme-exports in eu-west-1: its rules are applied to s3://staging in us-west-2 instead\n"
	if strings.Count(text, line) != 1 {
		t.Errorf("the text does not say once %q:\n%s", line, text)
	}
}

func TestBucketReadsInThePolicysRegionWithoutOneOfItsOwn(t *testing.T) {
	r := newRealS3(t)
	r.bucket(t, "acme-exports", bucketRegion, false)
	r.seed(t, "acme-exports", 31*day, "exports/acme/a")
	_ = os.Unsetenv("AWS_REGION")
	status, got, text, err := runIt(t, Config{Bucket: "acme-exports", Policy: policyFile(t, exportsYAML), AsOf: noon})
	if status != 0 || err != nil || got.Totals.WouldDelete != 1 {
		t.Errorf("status %d, %v\n%s", status, err, text)
	}
}

func TestBucketArgumentsAreRefused(t *testing.T) {
	r := newRealS3(t)
	good := policyFile(t, exportsYAML)
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"with a directory":  {Config{Bucket: "acme-exports", Dir: t.TempDir(), Policy: good}, "BUCKET and DIR are both given"},
		"without a policy":  {Config{Bucket: "acme-exports"}, "POLICY is missing"},
		"to enforce":        {Config{Bucket: "acme-exports", Policy: good, Enforce: true}, "ENFORCE=1 does not go with BUCKET"},
		"a URL":             {Config{Bucket: "s3://acme-exports", Policy: good}, `BUCKET is "s3://acme-exports"`},
		"no general bucket": {Config{Bucket: "acme--use1-az4--x-s3", Policy: good}, "BUCKET is"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.AsOf = noon
			status, _, text, err := runIt(t, c.config)
			if status != ExitUsage || err == nil || !strings.HasPrefix(err.Error(), c.says) {
				t.Errorf("status %d, %v\n%s", status, err, text)
			}
		})
	}
	if calls := r.asked(); len(calls) != 0 {
		t.Errorf("S3 was asked: %v", calls)
	}
}

func TestBucketThatCanNotBeListedIsOneSentence(t *testing.T) {
	r := newRealS3(t)
	r.bucket(t, "acme-exports", bucketRegion, false)
	r.bucket(t, "elsewhere", "ap-south-1", false)
	answer := func(status int, code string) func(*testing.T) {
		return func(t *testing.T) {
			r.decide(func(wire.Call) wire.Fate {
				return wire.Fate{Error: &wire.Error{Status: status, Code: code, Message: "for AKIAEXAMPLE and verysecretkey"}}
			})
			t.Cleanup(func() { r.decide(nil) })
		}
	}
	for name, c := range map[string]struct {
		bucket string
		set    func(t *testing.T)
		says   string
	}{
		"no credentials": {"acme-exports", func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", "")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "")
		}, "there are no AWS credentials that work: sign in"},
		"no such profile":      {"acme-exports", func(t *testing.T) { t.Setenv("AWS_PROFILE", "nobody") }, `there is no AWS profile "nobody"`},
		"no such bucket":       {"acme-export", nil, "there is no bucket s3://acme-export:"},
		"another region":       {"elsewhere", nil, "s3://elsewhere is not in eu-west-1: set AWS_REGION to ap-south-1 and run again"},
		"a region of us-east":  {"acme-exports", answer(http.StatusBadRequest, "AuthorizationHeaderMalformed"), "set AWS_REGION to the bucket's region"},
		"access denied":        {"acme-exports", answer(http.StatusForbidden, "AccessDenied"), "your credentials may not list s3://acme-exports: they need s3:ListBucket"},
		"credentials of old":   {"acme-exports", answer(http.StatusBadRequest, "ExpiredToken"), "AWS does not accept your credentials (ExpiredToken): sign in again"},
		"a key nobody knows":   {"acme-exports", answer(http.StatusForbidden, "InvalidAccessKeyId"), "AWS does not accept your credentials (InvalidAccessKeyId)"},
		"a wrong clock":        {"acme-exports", answer(http.StatusForbidden, "RequestTimeTooSkewed"), "set this machine's clock"},
		"something else":       {"acme-exports", answer(http.StatusBadRequest, "Strange"), "S3 refuses to list s3://acme-exports (Strange, status 400)"},
		"an endpoint far away": {"acme-exports", func(t *testing.T) { t.Setenv("AWS_ENDPOINT_URL_S3", "https://s3.example.com") }, "names an endpoint for S3 that is neither AWS nor on loopback"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.set != nil {
				c.set(t)
			}
			status, _, text, err := runIt(t, Config{Bucket: c.bucket, Policy: policyFile(t, exportsYAML), AsOf: noon})
			if status != ExitUsage || err == nil || !strings.HasPrefix(err.Error(), "BUCKET: ") || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("status %d, %v\n%s", status, err, text)
			}
			for _, secret := range []string{"AKIAEXAMPLE", "verysecretkey", "goroutine", "\n"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q stands in the sentence: %v", secret, err)
				}
			}
		})
	}
}

func TestBucketThatFailsOnTheWayEndsTheRun(t *testing.T) {
	r := newRealS3(t)
	r.bucket(t, "acme-exports", bucketRegion, false)
	r.seed(t, "acme-exports", 31*day, numbered("exports/acme/%05d.csv", 2500)...)
	for name, from := range map[string]int{"in the scan": 3, "in a page": 6} {
		t.Run(name, func(t *testing.T) {
			r.asked()
			r.decide(func(c wire.Call) wire.Fate {
				if r.calls[c.Operation] >= from {
					return wire.Fate{Error: &wire.Error{Status: http.StatusForbidden, Code: "ExpiredToken"}}
				}
				return wire.Fate{}
			})
			status, _, text, err := runIt(t, Config{Bucket: "acme-exports", Policy: policyFile(t, exportsYAML), AsOf: noon})
			if status != exitBroken || err == nil || !strings.Contains(err.Error(), "sign in again") {
				t.Errorf("status %d, %v\n%s", status, err, text)
			}
			if calls := r.asked(); calls["ListObjectsV2"] > from+1 {
				t.Errorf("asked on after the refusal: %v", calls)
			}
		})
	}
}

func TestBucketRunCanBeInterrupted(t *testing.T) {
	r := newRealS3(t)
	r.bucket(t, "acme-exports", bucketRegion, false)
	r.seed(t, "acme-exports", 31*day, numbered("exports/acme/%05d.csv", 2500)...)
	r.asked()
	ctx, cancel := context.WithCancel(t.Context())
	r.decide(func(c wire.Call) wire.Fate {
		if r.calls[c.Operation] == 6 {
			cancel()
		}
		return wire.Fate{}
	})
	status, err := Run(ctx, Config{Bucket: "acme-exports", Policy: policyFile(t, exportsYAML), AsOf: noon, Out: t.Output(), Folder: t.TempDir()})
	if status != exitBroken || err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("status %d, %v", status, err)
	}
}

// changing are the names of what changes a store, in the SDK and in ours.
var changing = regexp.MustCompile(`^(Delete|Put|Create|Copy|Upload|Restore|Abort|Complete|Write|Rename|Update|Remove|Unmark|Standing|Load|Set)`)

// TestNoWayToDeleteLeadsFromTheBucket walks everything that can be reached from
// the store which the pipeline is given: no value on the way has a method that
// changes a bucket, and the SDK's client, which has them all, is not among them.
// What is left of it are two functions that list.
func TestNoWayToDeleteLeadsFromTheBucket(t *testing.T) {
	newRealS3(t)
	b, _, err := openBucket(t.Context(), "acme-exports", parse(t, exportsYAML))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	walk(reflect.ValueOf(b), map[uintptr]bool{}, seen)
	if !seen[reflect.TypeFor[*listCalls]()] {
		t.Fatal("the walk did not reach the calls")
	}
	for of := range seen {
		if of == reflect.TypeFor[*awss3.Client]() {
			t.Error("the SDK's client can be reached")
		}
		for i := range of.NumMethod() {
			if name := of.Method(i).Name; changing.MatchString(name) {
				t.Errorf("%v has the method %s", of, name)
			}
		}
	}
	client := reflect.TypeFor[*awss3.Client]()
	if _, ok := client.MethodByName("DeleteObjects"); !ok || !changing.MatchString("DeleteObjects") {
		t.Error("the walk would not notice the SDK's client")
	}
}

// walk collects the types of everything that can be reached from a value.
func walk(v reflect.Value, been map[uintptr]bool, seen map[reflect.Type]bool) {
	if !v.IsValid() {
		return
	}
	seen[v.Type()] = true
	if v.CanAddr() {
		seen[reflect.PointerTo(v.Type())] = true
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !been[v.Pointer()] {
			been[v.Pointer()] = true
			walk(v.Elem(), been, seen)
		}
	case reflect.Interface:
		walk(v.Elem(), been, seen)
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), been, seen)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			walk(v.Index(i), been, seen)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			walk(k, been, seen)
			walk(v.MapIndex(k), been, seen)
		}
	default:
	}
}

// TestConnectionToTheBucketCarriesNoDelete gives the second lock a client that has
// every call.
func TestConnectionToTheBucketCarriesNoDelete(t *testing.T) {
	r := newRealS3(t)
	r.bucket(t, "acme-exports", bucketRegion, false)
	r.seed(t, "acme-exports", day, "k")
	r.asked()
	limits := bucketLimits()
	limits.Attempts = 1
	client := awss3.NewFromConfig(limits.Configure(aws.Config{
		Region: bucketRegion, BaseEndpoint: &r.url, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}).Config, onlyReading(limits))
	bucket, key := "acme-exports", "k"
	ctx := t.Context()
	_, one := client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &bucket, Key: &key})
	_, many := client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: &bucket, Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: &key}}}})
	_, put := client.PutObject(ctx, &awss3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("x")})
	for name, err := range map[string]error{"DeleteObject": one, "DeleteObjects": many, "PutObject": put} {
		if err == nil || !strings.Contains(err.Error(), "only read") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := client.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: &bucket}); err != nil {
		t.Error(err)
	}
	if calls := r.asked(); len(calls) != 1 {
		t.Errorf("S3 was asked: %v", calls)
	}
}

func TestWhatCanOnlyBeListedIsNotEnforced(t *testing.T) {
	p := parse(t, exportsYAML)
	w, err := New(Options{Region: p.Region, AsOf: noon, Policies: []policy.Policy{p}, Lister: &liveBucket{}})
	if err == nil || w != nil {
		t.Error("a world that may enforce took a store that can only be listed")
	}
	if w, err = New(Options{Region: p.Region, AsOf: noon, Policies: []policy.Policy{p}, Lister: &liveBucket{}, ReportOnly: true}); err != nil {
		t.Fatal(err)
	}
	for mode, worker := range w.Workers {
		if _, ok := worker.Artifacts.(readOnly); !ok {
			t.Errorf("the %s worker has a %T", mode, worker.Artifacts)
		}
	}
}

func TestEndpointsAreOnLoopback(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"http://127.0.0.1:5000": true, "http://localhost": true, "https://[::1]:443/": true, "http://127.9.9.9": true,
		"http://localhost.example.com": false, "https://s3.amazonaws.com": false, "http://10.0.0.1": false, "http://127.0.0.1@example.com": false,
		"127.0.0.1:5000": false, "": false, "http://[::1": false, "http://0.0.0.0": false,
	} {
		if got := loopback(endpoint); got != want {
			t.Errorf("%q: %v", endpoint, got)
		}
	}
	callerEnvironment(t)
	root := t.TempDir()
	write(t, root, "exports/acme/old.csv", "1", 31*day)
	c := Config{Dir: root, Policy: policyFile(t, exportsYAML), AsOf: noon}
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": "https://user:secret@example.com", "AWS_ENDPOINT_URL_SQS": "http://10.1.2.3"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			status, _, _, err := runIt(t, c)
			if status != ExitUsage || err == nil || !strings.HasPrefix(err.Error(), name+" ") || strings.Contains(err.Error(), "secret") {
				t.Errorf("status %d, %v", status, err)
			}
		})
	}
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	if status, r, _, err := runIt(t, c); status != 0 || err != nil || r.Verdict != report.Holds {
		t.Errorf("loopback: status %d, %v", status, err)
	}
}

func TestExplainOfNoAnswer(t *testing.T) {
	b := &liveBucket{name: "acme-exports", region: bucketRegion}
	if got := b.explain(errors.New("dial tcp: connection refused")).Error(); !strings.Contains(got, "no answer from S3 in eu-west-1") {
		t.Error(got)
	}
}
