package artifacttest

import (
	"context"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// readier is what a store offers for the look before a run.
type readier interface {
	Ready(ctx context.Context, q job.Query, region string) error
}

func readyCases() []testCase {
	isReadier := func(b Bed) bool {
		_, ok := b.Store.(readier)
		return ok
	}
	return []testCase{
		{"a bucket that can be listed is ready, empty or not", isReadier, readyBuckets},
		{"a bucket that is not there is not ready", isReadier, readyAbsent},
		{"a call that is over gives no answer", isReadier, readyOver},
	}
}

func (s suite) ready(ctx context.Context, q job.Query) error {
	s.Helper()
	store, ok := s.Store.(readier)
	if !ok {
		s.Fatal("the store has lost Ready")
	}
	return store.Ready(ctx, q, s.Region)
}

func readyBuckets(s suite) {
	for _, bucket := range []string{s.plain(), s.plain("a/1", "a/2"), s.versioned("a/1")} {
		for _, q := range []job.Query{{Bucket: bucket, Prefix: "a/"}, {Bucket: bucket, Prefix: "b/"}, {Bucket: bucket, Prefix: "a/", Versions: true}} {
			if err := s.ready(context.Background(), q); err != nil {
				s.Errorf("%+v: %v", q, err)
			}
		}
	}
}

func readyAbsent(s suite) {
	for _, versions := range []bool{false, true} {
		if err := s.ready(context.Background(), job.Query{Bucket: "no-such-bucket-of-ours", Prefix: "a/", Versions: versions}); failure.Of(err) != failure.Absent {
			s.Errorf("got %v", err)
		}
	}
}

func readyOver(s suite) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.ready(ctx, job.Query{Bucket: s.plain(), Prefix: "a/"}); failure.Of(err) != failure.Network {
		s.Errorf("got %v", err)
	}
}
