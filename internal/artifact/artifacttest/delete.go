package artifacttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

func deleteCases() []testCase {
	return []testCase{
		{"Delete/each odd key alone S3-05 S3-07 S3-09 S3-12", nil, func(s suite) {
			keys := oddKeys()
			bucket := s.plain(keys...)
			for len(keys) > 0 {
				at := len(keys) / 2
				same(s, fmt.Sprintf("answer for %q", keys[at]), s.delete(bucket, s.item(bucket, keys[at])), job.Gone)
				keys = slices.Delete(keys, at, at+1)
				same(s, "left", s.keys(job.Query{Bucket: bucket}), keys...)
			}
		}},
		{"Delete/odd keys in one call S3-05 S3-07", nil, func(s suite) {
			bucket := s.plain(oddKeys()...)
			items := s.list(job.Query{Bucket: bucket})
			for i, answer := range s.delete(bucket, items...) {
				if answer != job.Gone {
					s.Errorf("%q: answer %d", items[i].Key, answer)
				}
			}
			same(s, "left", s.keys(job.Query{Bucket: bucket}))
		}},
		{"Delete/key sizes S3-12", nil, func(s suite) {
			bucket := s.plain("a")
			item := s.item(bucket, "a")
			for _, key := range []string{"", strings.Repeat("k", artifact.MaxKeyBytes+1), strings.Repeat("\u20ac", artifact.MaxKeyBytes/3+1)} {
				item.Key = key
				s.refused(s.deletion(bucket, []job.Item{item}), failure.Invalid)
			}
		}},
		{"Delete/no items and too many S3-13", nil, deleteSizes},
		{"Delete/an item twice", nil, func(s suite) {
			bucket := s.plain("a")
			item := s.item(bucket, "a")
			s.refused(s.deletion(bucket, []job.Item{item, item}), failure.Invalid)
			same(s, "left", s.keys(job.Query{Bucket: bucket}), "a")
		}},
		{"Delete/without a condition", nil, func(s suite) {
			bucket := s.plain("a", "b")
			for _, etag := range []string{"", "*"} {
				bare := s.item(bucket, "b")
				bare.ETag = etag
				s.refused(s.deletion(bucket, []job.Item{s.item(bucket, "a"), bare}), failure.Invalid)
			}
			same(s, "left", s.keys(job.Query{Bucket: bucket}), "a", "b")
		}},
		{"Delete/replaced after the decision S3-18", nil, func(s suite) {
			bucket := s.plain("a", "b")
			planned := s.list(job.Query{Bucket: bucket})
			s.Seed.Put(s.T, bucket, "a", "new")
			same(s, "answers", s.delete(bucket, planned...), job.Differs, job.Gone)
			same(s, "left", s.keys(job.Query{Bucket: bucket}), "a")
		}},
		{"Delete/absent S3-18", nil, func(s suite) {
			bucket := s.plain("a")
			item := s.item(bucket, "a")
			same(s, "answers", s.delete(bucket, item), job.Gone)
			same(s, "once more", s.delete(bucket, item), job.NotThere)
		}},
		{"Delete/unknown bucket", nil, func(s suite) {
			bucket := s.plain("a")
			s.refused(s.deletion(bucket+"-absent", []job.Item{s.item(bucket, "a")}), failure.Absent)
		}},
		{"Delete/cancelled", nil, func(s suite) {
			bucket := s.plain("a")
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			answers, err := s.Store.Delete(ctx, s.deletion(bucket, []job.Item{s.item(bucket, "a")}))
			if answers != nil || !failure.Of(err).Ambiguous() {
				s.Errorf("got %v, %v", answers, err)
			}
		}},
		{"Delete/right is over F6 S20", nil, func(s suite) {
			bucket := s.plain("a")
			d := s.deletion(bucket, []job.Item{s.item(bucket, "a")})
			now := s.Now()
			for _, end := range []time.Time{{}, now.Add(-time.Hour), now} {
				d.NotAfter = end
				s.refused(d, failure.Conflict)
			}
			same(s, "left", s.keys(job.Query{Bucket: bucket}), "a")
		}},
		{"Delete/answers in the order of the items S3-01", nil, func(s suite) {
			bucket := s.plain("a", "b", "c", "d")
			planned := s.list(job.Query{Bucket: bucket})
			s.Seed.Put(s.T, bucket, "b", "new")
			s.Seed.Remove(s.T, bucket, job.Ref{Key: "c"})
			slices.Reverse(planned)
			same(s, "answers", s.delete(bucket, planned...), job.Gone, job.NotThere, job.Differs, job.Gone)
			same(s, "left", s.keys(job.Query{Bucket: bucket}), "b")
		}},
		{"Delete/errors of single keys S3-01 S3-03", hasFaults, keyErrors},
		{"Delete/a race has one winner", nil, func(s suite) {
			bucket := s.plain("a")
			same(s, "Gone", s.race(bucket, s.item(bucket, "a"), job.Gone), 1)
		}},
	}
}

func deleteSizes(s suite) {
	bucket := s.plain("a")
	etag := s.item(bucket, "a").ETag
	absent := make([]job.Item, artifact.MaxItems+1)
	for i, key := range many(len(absent)) {
		absent[i] = job.Item{Key: key, ETag: etag}
	}
	s.refused(s.deletion(bucket, nil), failure.Invalid)
	s.refused(s.deletion(bucket, absent), failure.Invalid)
	for i, answer := range s.delete(bucket, absent[:artifact.MaxItems]...) {
		if answer != job.NotThere {
			s.Fatalf("item %d of %d absent ones: answer %d", i, artifact.MaxItems, answer)
		}
	}
}

func keyErrors(s suite) {
	faults := []struct { // in byte order of the keys
		key     string
		answer  job.Answer
		applied bool
	}{
		{"denied", job.Denied, false},
		{"good", job.NoAnswer, false},
		{"slow", job.Slow, false},
		{"unsure", job.Unsure, false},
		{"unsure but gone", job.Unsure, true},
	}
	bucket := s.plain()
	var want []job.Answer
	var left []string
	for _, f := range faults {
		s.Seed.Put(s.T, bucket, f.key, f.key)
		if f.answer == job.NoAnswer {
			want = append(want, job.Gone)
			continue
		}
		s.Fault(s.T, bucket, f.key, f.answer, f.applied)
		want = append(want, f.answer)
		if !f.applied {
			left = append(left, f.key)
		}
	}
	same(s, "answers", s.delete(bucket, s.list(job.Query{Bucket: bucket})...), want...)
	same(s, "left", s.keys(job.Query{Bucket: bucket}), left...)
}

// race deletes the item in eight calls at once and counts the answer.
func (s suite) race(bucket string, item job.Item, want job.Answer) []int {
	s.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	start := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			<-start
			answers, err := s.Store.Delete(context.Background(), s.deletion(bucket, []job.Item{item}))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				s.Errorf("racing delete: %v", err)
			case answers[0] == want:
				won++
			}
		})
	}
	close(start)
	wg.Wait()
	return []int{won}
}
