package artifacttest

import (
	"context"
	"fmt"
	"slices"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

func listCases() []testCase {
	return []testCase{
		{"List/empty bucket", nil, func(s suite) {
			same(s, "keys", s.keys(job.Query{Bucket: s.plain()}))
		}},
		{"List/unknown bucket", nil, func(s suite) {
			_, err := s.Store.List(context.Background(), job.Query{Bucket: s.plain() + "-absent"})
			if !failure.Is(err, failure.Absent) {
				s.Errorf("got %v, want %s", err, failure.Absent)
			}
		}},
		{"List/what an item says", nil, func(s suite) {
			bucket := s.plain()
			put := s.Seed.Put(s.T, bucket, "a", "four")
			got := s.item(bucket, "a")
			if !got.Same(put) || got.Size != 4 || got.ETag == "" || got.Modified.IsZero() || got.Version != "" || got.Marker {
				s.Errorf("listed %+v after the upload of %+v", got, put)
			}
		}},
		{"List/byte order of odd keys S3-05 S3-07 S3-09 S3-12", nil, func(s suite) {
			same(s, "keys", s.keys(job.Query{Bucket: s.plain(oddKeys()...)}), oddKeys()...)
		}},
		{"List/after is exclusive, through inclusive", nil, listBounds},
		{"List/prefix and its neighbours S3-10", nil, func(s suite) {
			bucket := s.plain("exports/school-4", "exports/school-4/", "exports/school-4/a", "exports/school-42/a", "exports/school-5/a")
			same(s, "with a slash", s.keys(job.Query{Bucket: bucket, Prefix: "exports/school-4/"}), "exports/school-4/", "exports/school-4/a")
			same(s, "without", s.keys(job.Query{Bucket: bucket, Prefix: "exports/school-4"}),
				"exports/school-4", "exports/school-4/", "exports/school-4/a", "exports/school-42/a")
			same(s, "of nothing", s.keys(job.Query{Bucket: bucket, Prefix: "exports/school-40"}))
			same(s, "before after", s.keys(job.Query{Bucket: bucket, Prefix: "exports/school-4/", After: "exports/school-5"}))
		}},
		{"List/pages cover every key once", nil, func(s suite) {
			keys := many(s.Many)
			bucket := s.plain(keys...)
			same(s, "keys", s.keys(job.Query{Bucket: bucket, Prefix: "many/"}), keys...)
			same(s, "to the middle", s.keys(job.Query{Bucket: bucket, After: keys[0], Through: keys[s.Many/2]}), keys[1:s.Many/2+1]...)
		}},
		{"List/tokens survive the deletion of what was listed S3-25", nil, func(s suite) {
			keys := many(s.Many)
			bucket := s.plain(keys...)
			var seen []string
			for page := range s.pages(job.Query{Bucket: bucket}) {
				for i, answer := range s.delete(bucket, page...) {
					if answer != job.Gone {
						s.Fatalf("%q: answer %d", page[i].Key, answer)
					}
					seen = append(seen, page[i].Key)
				}
			}
			same(s, "seen", seen, keys...)
			same(s, "left", s.keys(job.Query{Bucket: bucket}))
		}},
		{"List/what is replaced after it was listed comes once", nil, func(s suite) {
			keys := many(s.Many)
			bucket := s.versioned(keys...)
			var seen []string
			for page := range s.pages(job.Query{Bucket: bucket}) {
				for _, item := range page {
					seen = append(seen, item.Key)
				}
				s.Seed.Put(s.T, bucket, page[len(page)-1].Key, "new")
			}
			same(s, "seen", seen, keys...)
		}},
		{"List/goes on after a key that is gone S3-25", nil, func(s suite) {
			bucket := s.plain("a", "b", "c")
			s.Seed.Remove(s.T, bucket, job.Ref{Key: "b"})
			same(s, "keys", s.keys(job.Query{Bucket: bucket, After: "b"}), "c")
		}},
		{"List/tokens of another query S3-25", nil, foreignTokens},
		{"List/versions over pages while they go", nil, versionPages},
	}
}

func listBounds(s suite) {
	keys := []string{"a", "b", "b/", "b/1", "c", "d"}
	bucket := s.plain(keys...)
	// Bounds lie on keys, between them and outside.
	for _, after := range []string{"", "0", "a", "b", "b/0", "b/1", "c\x01", "d", "e"} {
		for _, through := range []string{"", "0", "a", "b", "b/0", "c", "d", "e"} {
			var want []string
			for _, key := range keys {
				if key > after && (through == "" || key <= through) {
					want = append(want, key)
				}
			}
			same(s, fmt.Sprintf("after %q through %q", after, through),
				s.keys(job.Query{Bucket: bucket, After: after, Through: through}), want...)
		}
	}
}

func foreignTokens(s suite) {
	bucket := s.versioned(many(s.Many)...)
	q := job.Query{Bucket: bucket, Prefix: "many/"}
	first, err := s.Store.List(context.Background(), q)
	if err != nil || first.Token == "" {
		s.Fatalf("first answer: token %q, %v", first.Token, err)
	}
	for name, change := range map[string]func(*job.Query){
		"not a token":    func(q *job.Query) { q.Token = "many/000001" },
		"a spoilt token": func(q *job.Query) { q.Token = "A" + q.Token },
		"prefix":         func(q *job.Query) { q.Prefix = "many" },
		"after":          func(q *job.Query) { q.After = "many/0" },
		"through":        func(q *job.Query) { q.Through = "many/9" },
		"versions":       func(q *job.Query) { q.Versions = true },
		"bucket":         func(q *job.Query) { q.Bucket = s.plain() },
	} {
		other := q
		other.Token = first.Token
		change(&other)
		if l, err := s.Store.List(context.Background(), other); !failure.Is(err, failure.Invalid) {
			s.Errorf("%s: got %d items, %v; want %s", name, len(l.Items), err, failure.Invalid)
		}
	}
}

// versionPages deletes each listed version before it asks for the next answer.
func versionPages(s suite) {
	bucket := s.versioned()
	type name struct{ key, version string }
	var want []name
	for _, key := range many(2) { // so many versions of one key that an answer ends among them
		var of []name
		for range s.Many / 2 {
			of = append(of, name{key, s.Seed.Put(s.T, bucket, key, "same").Version})
		}
		slices.Reverse(of)
		want = append(want, of...)
	}
	var got []name
	for page := range s.pages(job.Query{Bucket: bucket, Versions: true}) {
		if len(page) > artifact.MaxItems {
			s.Fatalf("%d items", len(page))
		}
		for _, item := range page {
			got = append(got, name{item.Key, item.Version})
		}
		s.delete(bucket, page...)
	}
	same(s, "versions, newest first", got, want...)
	same(s, "left", s.keys(job.Query{Bucket: bucket, Versions: true}))
}
