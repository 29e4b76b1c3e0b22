package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/artifact/artifacttest"
	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// cloud is an embedded S3 on loopback, with the store under test and a stranger's
// client beside it.
type cloud struct {
	store    *artifact.S3
	service  *s3.Service
	stranger *awss3.Client
	clock    *wire.Manual

	mu    sync.Mutex
	fate  func(wire.Call) wire.Fate // nil lets calls be
	calls []wire.Call
	keys  map[string]keyFault
	n     int // buckets
}

func newCloud(t *testing.T, options artifact.S3Options) *cloud {
	t.Helper()
	c := &cloud{clock: wire.NewManual(time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)), keys: map[string]keyFault{}}
	c.service = s3.New(c.clock)
	server := httptest.NewServer(emulator.New(c.clock, c.decide, c.service))
	t.Cleanup(server.Close)
	limits := sdk.Defaults()
	limits.Backoff = time.Millisecond
	config := limits.Configure(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", ""),
	})
	options.Now = c.clock.Now
	c.store = artifact.NewS3(config, options)
	c.stranger = awss3.NewFromConfig(config.Config, func(o *awss3.Options) { o.UsePathStyle = true })
	return c
}

// decide is the fault hook of the embedded AWS.
func (c *cloud) decide(call wire.Call) wire.Fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	if c.fate != nil {
		return c.fate(call)
	}
	entry := func(applied bool) func(string) *wire.Error {
		return func(key string) *wire.Error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if f, ok := c.keys[key]; ok && f.applied == applied {
				return codeOf(f.answer)
			}
			return nil
		}
	}
	return wire.Fate{Entries: entry(false), EntriesAfter: entry(true)}
}

func codeOf(a job.Answer) *wire.Error {
	return wire.Bad(map[job.Answer]string{job.Denied: "AccessDenied", job.Slow: "SlowDown", job.Unsure: "InternalError"}[a], "")
}

// sent returns the operations since it was last asked.
func (c *cloud) sent() (operations []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		operations = append(operations, call.Operation)
	}
	c.calls = nil
	return operations
}

func (c *cloud) meet(fate func(wire.Call) wire.Fate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fate, c.calls = fate, nil
}

func (c *cloud) Bucket(t *testing.T, versioned bool) string {
	c.n++
	b := fmt.Sprintf("bucket-%d", c.n)
	in := &awss3.CreateBucketInput{Bucket: &b}
	if versioned {
		in.ObjectLockEnabledForBucket = aws.Bool(true)
	}
	_, err := c.stranger.CreateBucket(t.Context(), in)
	must(t, err)
	return b
}

func (c *cloud) Put(t *testing.T, bucket, key, body string) job.Item {
	out, err := c.stranger.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(body)})
	must(t, err)
	return job.Item{
		Key: key, Version: aws.ToString(out.VersionId), ETag: aws.ToString(out.ETag), Size: int64(len(body)), Modified: c.clock.Now(),
	}
}

func (c *cloud) Remove(t *testing.T, bucket string, ref job.Ref) {
	in := &awss3.DeleteObjectInput{Bucket: &bucket, Key: &ref.Key}
	if ref.Version != "" {
		in.VersionId = &ref.Version
	}
	_, err := c.stranger.DeleteObject(t.Context(), in)
	must(t, err)
}

func (c *cloud) Tick(*testing.T) { c.clock.Advance(time.Second) }

func (c *cloud) bed(many int) artifacttest.Bed {
	return artifacttest.Bed{
		Region: "us-east-1",
		Store:  c.store, Seed: c, Now: c.clock.Now, Many: many,
		Lock: func(t *testing.T, bucket string, ref job.Ref, lock artifact.Lock) {
			if lock.LegalHold {
				_, err := c.stranger.PutObjectLegalHold(t.Context(), &awss3.PutObjectLegalHoldInput{
					Bucket: &bucket, Key: &ref.Key, VersionId: &ref.Version,
					LegalHold: &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatusOn},
				})
				must(t, err)
			}
			if lock.Mode != "" {
				_, err := c.stranger.PutObjectRetention(t.Context(), &awss3.PutObjectRetentionInput{
					Bucket: &bucket, Key: &ref.Key, VersionId: &ref.Version,
					Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionMode(lock.Mode), RetainUntilDate: &lock.Until},
				})
				must(t, err)
			}
		},
		Fault: func(_ *testing.T, _, key string, answer job.Answer, applied bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.keys[key] = keyFault{answer, applied}
		},
	}
}

func TestS3(t *testing.T) {
	// More than one answer of S3, also of the versions of one key and its neighbour.
	artifacttest.Exercise(t, func(t *testing.T) artifacttest.Bed { return newCloud(t, artifact.S3Options{}).bed(1100) })
}

// filled returns a cloud with one bucket and an object under each key, as listed.
func (c *cloud) filled(t *testing.T, versioned bool, keys ...string) (bucket string, items []job.Item) {
	t.Helper()
	bucket = c.Bucket(t, versioned)
	must(t, c.service.Seed(bucket, func(yield func(s3.Object) bool) {
		for _, key := range keys {
			if !yield(s3.Object{Key: key, Body: []byte(key)}) {
				return
			}
		}
	}))
	q := job.Query{Bucket: bucket}
	for {
		l, err := c.store.List(t.Context(), q)
		must(t, err)
		items = append(items, l.Items...)
		if q.Token = l.Token; q.Token == "" {
			break
		}
	}
	if len(items) != len(keys) {
		t.Fatalf("%d items of %d keys", len(items), len(keys))
	}
	c.sent()
	return bucket, items
}

func (c *cloud) deletion(bucket string, items ...job.Item) job.Deletion {
	return job.Deletion{Bucket: bucket, Items: items, NotAfter: c.clock.Now().Add(time.Minute)}
}

// One bulk delete, and single deletes for exactly what XML can not carry (S3-05).
func TestS3SingleDeletesOnlyWhereNeeded(t *testing.T) {
	c := newCloud(t, artifact.S3Options{})
	keys := []string{"a", "a\u0001", "a\ufffd", "a\ufffe", "a\n", "a\r", "a\xff", "\u20ac", "a b+%41"}
	bucket, items := c.filled(t, false, keys...)
	answers, err := c.store.Delete(t.Context(), c.deletion(bucket, items...))
	must(t, err)
	for i, a := range answers {
		if a != job.Gone {
			t.Errorf("%q: answer %d", items[i].Key, a)
		}
	}
	if got, want := c.sent(), slices.Concat([]string{"DeleteObjects"}, slices.Repeat([]string{"DeleteObject"}, 4)); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	l, err := c.store.List(t.Context(), job.Query{Bucket: bucket})
	must(t, err)
	if len(l.Items) > 0 {
		t.Errorf("left %+v", l.Items)
	}
}

// An answer is whole or none: cut off, empty, or lost after the effect (S3-01).
func TestS3AnswersThatCanNotBeTrusted(t *testing.T) {
	for name, fate := range map[string]wire.Fate{
		"lost after the effect":  {Lost: true},
		"cut off":                {Truncate: 150},
		"cut off before a byte":  {Truncate: 1},
		"an error of the server": {Error: &wire.Error{Status: 500, Code: "InternalError"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, artifact.S3Options{})
			bucket, items := c.filled(t, false, "a", "b")
			c.meet(func(wire.Call) wire.Fate { return fate })
			answers, err := c.store.Delete(t.Context(), c.deletion(bucket, items...))
			if answers != nil || !failure.Is(err, failure.Network) {
				t.Errorf("delete: %v, %v", answers, err)
			}
			if got := c.sent(); !slices.Equal(got, []string{"DeleteObjects"}) {
				t.Errorf("sent %q: a delete is sent once", got)
			}
			if _, err := c.store.List(t.Context(), job.Query{Bucket: bucket}); !failure.Is(err, failure.Network) {
				t.Errorf("list: %v", err)
			}
			if _, err := c.store.List(t.Context(), job.Query{Bucket: bucket, Versions: true}); !failure.Is(err, failure.Network) {
				t.Errorf("list versions: %v", err)
			}
			if got := len(c.sent()); got != 6 {
				t.Errorf("two listings were sent %d times, want 3 each", got)
			}
			c.meet(nil)
			l, err := c.store.List(t.Context(), job.Query{Bucket: bucket})
			must(t, err)
			if happened := fate.Error == nil; happened != (len(l.Items) == 0) {
				t.Errorf("left %d", len(l.Items))
			}
		})
	}
}

// A listing is tried again by the SDK, after an answer that was cut off too.
func TestS3ListingsAreRetried(t *testing.T) {
	for name, fate := range map[string]wire.Fate{
		"slow down": {Error: &wire.Error{Status: 503, Code: "SlowDown"}}, "lost": {Lost: true}, "cut off": {Truncate: 300},
	} {
		for _, versions := range []bool{false, true} {
			c := newCloud(t, artifact.S3Options{})
			bucket, _ := c.filled(t, false, "a", "b")
			n := 0
			c.meet(func(wire.Call) wire.Fate {
				if n++; n == 1 {
					return fate
				}
				return wire.Fate{}
			})
			l, err := c.store.List(t.Context(), job.Query{Bucket: bucket, Versions: versions})
			if err != nil || len(l.Items) != 2 || n != 2 {
				t.Errorf("%s, versions %v: %d items after %d calls, %v", name, versions, len(l.Items), n, err)
			}
		}
	}
}

// S20 by the adapter: whatever happens between the decision and the signature.
// Items that were answered before keep their answers.
func TestS3SignsNothingLate(t *testing.T) {
	c := newCloud(t, artifact.S3Options{})
	bucket, items := c.filled(t, false, "a", "b\u0001", "c\u0001")
	d := c.deletion(bucket, items...)
	c.meet(func(wire.Call) wire.Fate {
		c.clock.Advance(45 * time.Second) // each call takes that long; the right is for a minute
		return wire.Fate{}
	})
	answers, err := c.store.Delete(t.Context(), d)
	must(t, err)
	if want := []job.Answer{job.Gone, job.Gone, job.Slow}; !slices.Equal(answers, want) {
		t.Errorf("answers %v, want %v", answers, want)
	}
	if got := c.sent(); len(got) != 2 {
		t.Errorf("sent %q", got)
	}
	// And the check before the signature by itself: the clock moves after the first look.
	moving := &stepping{Manual: c.clock}
	late := artifact.NewS3(c.config(t), artifact.S3Options{Now: moving.Now})
	d = c.deletion(bucket, items[2])
	answers, err = late.Delete(t.Context(), d)
	if answers != nil || !failure.Is(err, failure.Conflict) || len(c.sent()) != 0 {
		t.Errorf("got %v, %v", answers, err)
	}
}

// stepping is a clock that moves on by an hour whenever it was read.
type stepping struct{ *wire.Manual }

func (s *stepping) Now() time.Time {
	now := s.Manual.Now()
	s.Advance(time.Hour)
	return now
}

// config returns a configuration for another store on the same cloud.
func (c *cloud) config(*testing.T) sdk.Config {
	return sdk.Defaults().Configure(aws.Config{
		Region: "us-east-1", BaseEndpoint: c.stranger.Options().BaseEndpoint, Credentials: c.stranger.Options().Credentials,
	})
}

// S3-23: every request says who pays, or the bucket denies it.
func TestS3RequesterPays(t *testing.T) {
	for _, pays := range []bool{false, true} {
		c := newCloud(t, artifact.S3Options{RequesterPays: pays})
		bucket := c.Bucket(t, true)
		item := c.Put(t, bucket, "a", "x")
		odd := c.Put(t, bucket, "a\u0001", "x")
		must(t, c.service.SetRequesterPays(bucket, true))
		_, listed := c.store.List(t.Context(), job.Query{Bucket: bucket})
		_, versions := c.store.List(t.Context(), job.Query{Bucket: bucket, Versions: true})
		_, looked := c.store.Standing(t.Context(), bucket, []job.Item{item})
		_, deleted := c.store.Delete(t.Context(), c.deletion(bucket, item))
		answers, _ := c.store.Delete(t.Context(), c.deletion(bucket, odd))
		want := failure.Class("")
		if !pays {
			want = failure.Forbidden
		}
		for name, err := range map[string]error{"list": listed, "versions": versions, "standing": looked, "delete": deleted} {
			if failure.Of(err) != want {
				t.Errorf("pays %v: %s: %v", pays, name, err)
			}
		}
		if denied := len(answers) == 1 && answers[0] == job.Denied; denied == pays {
			t.Errorf("pays %v: single delete: %v", pays, answers)
		}
	}
}

// A look at 1,000 keys costs a page or two, and one at few keys among many does
// not list what lies between them.
func TestS3StandingSkipsWhatNobodyAskedFor(t *testing.T) {
	c := newCloud(t, artifact.S3Options{})
	keys := make([]string, 9000)
	for i := range keys {
		keys[i] = fmt.Sprintf("exports/school-4/%05d", i)
	}
	bucket, items := c.filled(t, true, keys...)
	for name, asked := range map[string][]job.Item{
		"dense": items[4000:4500], "sparse": {items[0], items[3000], items[8999]}, "one": {items[77]},
	} {
		_, err := c.store.Delete(t.Context(), c.deletion(bucket, asked...))
		must(t, err)
		c.sent()
		got, err := c.store.Standing(t.Context(), bucket, asked)
		must(t, err)
		for i, st := range got {
			if st != job.UnderMarker {
				t.Errorf("%s: %q: standing %d", name, asked[i].Key, st)
			}
		}
		if calls := len(c.sent()); calls > 1+3 { // the first time, one more for the versioning
			t.Errorf("%s: %d calls", name, calls)
		}
	}
}

// The single deletes have the same condition as the bulk, and the same answers.
func TestS3SingleDeletesAreConditional(t *testing.T) {
	for _, versioned := range []bool{false, true} {
		c := newCloud(t, artifact.S3Options{})
		bucket, items := c.filled(t, versioned, "gone\u0001", "kept\u0001", "replaced\u0001")
		c.Remove(t, bucket, items[0].Ref())
		c.Put(t, bucket, "replaced\u0001", "after the decision")
		answers, err := c.store.Delete(t.Context(), c.deletion(bucket, items...))
		must(t, err)
		deleted := job.Gone
		if versioned {
			deleted = job.Marked
		}
		if want := []job.Answer{job.NotThere, deleted, job.Differs}; !slices.Equal(answers, want) {
			t.Errorf("versioned %v: answers %v, want %v", versioned, answers, want)
		}
		l, err := c.store.List(t.Context(), job.Query{Bucket: bucket})
		must(t, err)
		if keysOf(l.Items) != "replaced\u0001" {
			t.Errorf("versioned %v: left %q", versioned, keysOf(l.Items))
		}
		l, err = c.store.List(t.Context(), job.Query{Bucket: bucket, Versions: true, Prefix: "replaced"})
		must(t, err)
		oldest := l.Items[len(l.Items)-1]
		answers, err = c.store.Delete(t.Context(), c.deletion(bucket, oldest))
		if err != nil || answers[0] != job.GoneByVersion {
			t.Errorf("versioned %v: by version: %v, %v", versioned, answers, err)
		}
		if got := c.service.SetLastModified(bucket, oldest.Key, oldest.Version, c.clock.Now()); got == nil {
			t.Errorf("versioned %v: the version is still there", versioned)
		}
	}
}

// Only a bucket that keeps versions answers anything but job.Erased, as in Memory.
func TestS3StandingWithoutVersions(t *testing.T) {
	c := newCloud(t, artifact.S3Options{})
	bucket, items := c.filled(t, false, "a", "b")
	c.Put(t, bucket, "a", "another")
	c.Remove(t, bucket, items[1].Ref())
	c.sent()
	got, err := c.store.Standing(t.Context(), bucket, items)
	if want := []job.Standing{job.Erased, job.Erased}; err != nil || !slices.Equal(got, want) {
		t.Errorf("standing %v, %v", got, err)
	}
	if got := c.sent(); !slices.Equal(got, []string{"GetBucketVersioning"}) {
		t.Errorf("sent %q", got)
	}
}

// GO-08: a call ends before the caller's time does, and long before it when it has
// much.
func TestS3CallsEndBeforeTheCallersTime(t *testing.T) {
	c := newCloud(t, artifact.S3Options{})
	bucket, items := c.filled(t, false, "a", "a\u0001")
	c.meet(func(wire.Call) wire.Fate { return wire.Fate{Delay: time.Hour} })
	t.Cleanup(func() { c.clock.Advance(time.Hour) })
	for name, call := range map[string]func(context.Context) error{
		"bulk": func(ctx context.Context) error {
			_, err := c.store.Delete(ctx, c.deletion(bucket, items[0]))
			return err
		},
		"single": func(ctx context.Context) error {
			_, err := c.store.Delete(ctx, c.deletion(bucket, items[1]))
			return err
		},
		"list":     func(ctx context.Context) error { _, err := c.store.List(ctx, job.Query{Bucket: bucket}); return err },
		"standing": func(ctx context.Context) error { _, err := c.store.Standing(ctx, bucket, items); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := call(ctx); !failure.Is(err, failure.Network) || ctx.Err() != nil {
			t.Errorf("%s: %v, and the caller: %v", name, err, ctx.Err())
		}
		cancel()
	}
}

// No error says a key, and none wraps what the SDK or the service says.
func TestS3ErrorsAreOurWords(t *testing.T) {
	c := newCloud(t, artifact.S3Options{})
	bucket, items := c.filled(t, false, "exports/secret-canary.csv")
	for _, code := range []string{"AccessDenied", "InternalError", "SlowDown", "canary"} {
		c.meet(func(wire.Call) wire.Fate {
			return wire.Fate{Error: &wire.Error{Status: 400, Code: code, Message: "canary"}}
		})
		_, deleted := c.store.Delete(t.Context(), c.deletion(bucket, items...))
		_, listed := c.store.List(t.Context(), job.Query{Bucket: bucket, Prefix: "exports/secret-canary"})
		for _, err := range []error{deleted, listed} {
			if err == nil || strings.Contains(err.Error(), "canary") || errors.Unwrap(errors.Unwrap(err)) != nil {
				t.Errorf("%s: %v", code, err)
			}
		}
	}
}
