// Package artifacttest is the suite that every artifact store passes.
//
// It uses only what a store promises, and a small bed around it that puts
// objects there the way strangers do. Cases are named after the bug log where
// they come from it. What a store can not offer (locks, faults on demand) it
// leaves nil in its bed, and the suite says which cases were not run.
package artifacttest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Seeder changes a bucket behind the store's back. Each method fails the test
// when it can not do its work.
type Seeder interface {
	// Bucket returns the name of a new and empty bucket.
	Bucket(t *testing.T, versioned bool) string
	// Put uploads an object and returns it as listed, with its version id in a
	// versioned bucket. Equal bodies have equal ETags.
	Put(t *testing.T, bucket, key, body string) job.Item
	// Remove deletes the version, or the current object when none is named.
	Remove(t *testing.T, bucket string, ref job.Ref)
	// Tick returns when a later upload has a later Modified.
	Tick(t *testing.T)
}

// Bed is one store under test and what stands around it.
type Bed struct {
	Store artifact.Store
	Seed  Seeder
	// Now is the clock against which the store judges Deletion.NotAfter.
	Now func() time.Time
	// Many is the number of objects in the cases about paging; 0 is 2,500, which is
	// three answers of S3.
	Many int
	// Region is where the buckets are.
	Region string

	// Lock protects a version. Nil: the store has no locks.
	Lock func(t *testing.T, bucket string, ref job.Ref, lock artifact.Lock)
	// Fault makes the store answer so for the key from now on, with the effect or
	// without. Nil: faults can not be had on demand.
	Fault func(t *testing.T, bucket, key string, answer job.Answer, applied bool)
}

// suite is a bed in use by one case.
type suite struct {
	*testing.T
	Bed
}

type testCase struct {
	name string
	// offered reports whether the bed has what the case needs; nil is always.
	offered func(Bed) bool
	run     func(suite)
}

// Exercise runs the suite. open is called once for each case.
func Exercise(t *testing.T, open func(t *testing.T) Bed) {
	t.Helper()
	for _, c := range slices.Concat(listCases(), deleteCases(), versionCases(), readyCases()) {
		bed := open(t)
		if c.offered != nil && !c.offered(bed) {
			t.Logf("not offered, not run: %s", c.name)
			continue
		}
		if bed.Many == 0 {
			bed.Many = 2500
		}
		t.Run(c.name, func(t *testing.T) { c.run(suite{t, bed}) })
	}
}

func hasLocks(b Bed) bool  { return b.Lock != nil }
func hasFaults(b Bed) bool { return b.Fault != nil }

// plain returns a new unversioned bucket with an object under each key.
func (s suite) plain(keys ...string) string { return s.bucket(false, keys) }

// versioned returns a new versioned bucket with an object under each key.
func (s suite) versioned(keys ...string) string { return s.bucket(true, keys) }

func (s suite) bucket(versioned bool, keys []string) string {
	name := s.Seed.Bucket(s.T, versioned)
	for _, key := range keys {
		s.Seed.Put(s.T, name, key, "body of "+key)
	}
	return name
}

// many returns that many keys in byte order.
func many(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("many/%06d", i)
	}
	return keys
}

// pages yields every answer to the query, however the bucket changes meanwhile.
func (s suite) pages(q job.Query) iter.Seq[[]job.Item] {
	return func(yield func([]job.Item) bool) {
		for {
			l, err := s.Store.List(context.Background(), q)
			if err != nil {
				s.Fatalf("list: %v", err)
			}
			if len(l.Items) > artifact.MaxItems {
				s.Fatalf("an answer has %d items", len(l.Items))
			}
			if l.Token != "" && len(l.Items) == 0 {
				s.Fatal("an empty answer with a token")
			}
			if !yield(l.Items) || l.Token == "" {
				return
			}
			q.Token = l.Token
		}
	}
}

func (s suite) list(q job.Query) (items []job.Item) {
	s.Helper()
	for page := range s.pages(q) {
		items = append(items, page...)
	}
	return items
}

func (s suite) keys(q job.Query) []string {
	s.Helper()
	keys := []string{}
	for _, item := range s.list(q) {
		keys = append(keys, item.Key)
	}
	return keys
}

// item returns the one listed object of that key.
func (s suite) item(bucket, key string) job.Item {
	s.Helper()
	for _, item := range s.list(job.Query{Bucket: bucket}) {
		if item.Key == key {
			return item
		}
	}
	s.Fatalf("%q is not listed", key)
	return job.Item{}
}

func (s suite) deletion(bucket string, items []job.Item) job.Deletion {
	return job.Deletion{Bucket: bucket, Items: items, NotAfter: s.Now().Add(time.Minute)}
}

// delete deletes the items, in calls of the allowed size, and returns all answers.
func (s suite) delete(bucket string, items ...job.Item) (answers []job.Answer) {
	s.Helper()
	for part := range slices.Chunk(items, artifact.MaxItems) {
		got, err := s.Store.Delete(context.Background(), s.deletion(bucket, part))
		if err != nil {
			s.Fatalf("delete: %v", err)
		}
		if len(got) != len(part) {
			s.Fatalf("%d answers to %d items", len(got), len(part))
		}
		answers = append(answers, got...)
	}
	return answers
}

// standing asks what remains of the items, after a look has said the same and
// changed nothing.
func (s suite) standing(bucket string, items ...job.Item) []job.Standing {
	s.Helper()
	before := s.list(job.Query{Bucket: bucket, Versions: true})
	looked, err := s.Store.Look(context.Background(), bucket, items)
	if err != nil {
		s.Fatalf("look: %v", err)
	}
	same(s, "versions after a look", s.list(job.Query{Bucket: bucket, Versions: true}), before...)
	got, err := s.Store.Standing(context.Background(), bucket, items)
	if err != nil {
		s.Fatalf("standing: %v", err)
	}
	same(s, "a look", looked, got...)
	return got
}

// refused asserts that the deletion fails with the class and tells nothing.
func (s suite) refused(d job.Deletion, want failure.Class) {
	s.Helper()
	answers, err := s.Store.Delete(context.Background(), d)
	if failure.Of(err) != want || answers != nil {
		s.Errorf("got %v, %v; want no answers and %s", answers, err, want)
	}
}

func same[T comparable](s suite, what string, got []T, want ...T) {
	s.Helper()
	if !slices.Equal(got, want) {
		s.Errorf("%s: got %s, want %s", what, short(got), short(want))
	}
}

func short[T any](list []T) string {
	text := fmt.Sprintf("%d %#v", len(list), list)
	if len(text) > 500 {
		return text[:500] + "..."
	}
	return text
}

// oddKeys are keys that encoders and path cleaners get wrong, in byte order.
func oddKeys() []string {
	keys := []string{
		// S3-05: what XML cannot carry, and what a bad encoder puts in its place.
		"ctl/a\u0001.csv", "ctl/a\u0010.csv", "ctl/a\ufffd.csv", "ctl/a\ufffe.csv", "ctl/a\t\n\r.csv",
		// S3-07: what an URL means differently.
		"url/a b", "url/a+b", "url/a%2Bb", "url/a%20b", "url/100%.csv", "url/run=2026-06-26T00:00:00+00:00/f",
		"url/?&#<>\"';", "url/a\\b",
		// Paths that are not paths.
		"/path", "path//b", "path/b", "path/../b", "../path", "./path", "path/./b", "path/", "path",
		// S3-12: two forms of one letter.
		"form/caf\u00e9.csv", "form/cafe\u0301.csv",
		// UTF-16 would sort these the other way round.
		"high/\U00010000", "high/\uffff",
		"long/" + strings.Repeat("k", artifact.MaxKeyBytes-len("long/")),
	}
	slices.Sort(keys)
	return keys
}
