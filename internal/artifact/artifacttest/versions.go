package artifacttest

import (
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/job"
)

func versionCases() []testCase {
	return []testCase{
		{"Versions/an unversioned object is the null version", nil, func(s suite) {
			bucket := s.plain("a")
			items := s.list(job.Query{Bucket: bucket, Versions: true})
			if len(items) != 1 || items[0].Version != "null" {
				s.Fatalf("got %+v", items)
			}
			same(s, "answers", s.delete(bucket, items...), job.GoneByVersion)
			same(s, "left", s.keys(job.Query{Bucket: bucket, Versions: true}))
		}},
		{"Versions/a marker is not erasure S3-15", nil, markers},
		{"Versions/all by id S3-15", nil, func(s suite) {
			bucket := s.versioned("a", "a", "a", "b")
			s.Seed.Remove(s.T, bucket, job.Ref{Key: "a"})
			items := s.list(job.Query{Bucket: bucket, Prefix: "a", Versions: true})
			if len(items) != 4 || !items[0].Marker || items[1].Marker {
				s.Fatalf("versions, newest first: %+v", items)
			}
			same(s, "answers", s.delete(bucket, items...), job.GoneByVersion, job.GoneByVersion, job.GoneByVersion, job.GoneByVersion)
			same(s, "left", s.keys(job.Query{Bucket: bucket, Versions: true}), "b")
			same(s, "absent versions", s.delete(bucket, items[1]), job.GoneByVersion)
		}},
		{"Versions/exactly the named one", nil, func(s suite) {
			bucket := s.versioned()
			old := s.Seed.Put(s.T, bucket, "a", "one")
			s.Seed.Put(s.T, bucket, "a", "two")
			same(s, "answer", s.delete(bucket, old), job.GoneByVersion)
			if got := s.item(bucket, "a"); got.ETag == old.ETag {
				s.Error("the newer version went")
			}
			same(s, "left", s.keys(job.Query{Bucket: bucket, Versions: true}), "a")
		}},
		{"Versions/marker under a condition S3-18", nil, func(s suite) {
			bucket := s.versioned("a")
			planned := s.item(bucket, "a")
			s.Seed.Put(s.T, bucket, "a", "new")
			same(s, "answer", s.delete(bucket, planned), job.Differs)
			same(s, "absent", s.delete(bucket, job.Item{Key: "b", ETag: planned.ETag}), job.NotThere)
			same(s, "versions", s.keys(job.Query{Bucket: bucket, Versions: true}), "a", "a")
		}},
		{"Versions/a race lays one marker", nil, func(s suite) {
			bucket := s.versioned("a")
			same(s, "Marked", s.race(bucket, s.item(bucket, "a"), job.Marked), 1)
			same(s, "versions", s.keys(job.Query{Bucket: bucket, Versions: true}), "a", "a")
		}},
		{"Versions/locks S3-17", hasLocks, locks},
		{"Standing/marker over the planned version", nil, func(s suite) {
			bucket := s.versioned("a", "b", "c")
			planned := s.list(job.Query{Bucket: bucket})
			s.delete(bucket, planned...)
			s.Seed.Put(s.T, bucket, "c", "after the marker")
			same(s, "standing", s.standing(bucket, planned...), job.UnderMarker, job.UnderMarker, job.UnderMarker)
			same(s, "visible", s.keys(job.Query{Bucket: bucket}), "c")
		}},
		{"Standing/marker over equal bytes uploaded later F5", nil, equalBytes},
		{"Standing/others", nil, otherStandings},
		{"Standing/of a version by its id", nil, func(s suite) {
			bucket := s.versioned("a", "a", "b")
			items := s.list(job.Query{Bucket: bucket, Versions: true}) // a newest first, b
			s.delete(bucket, items[0])
			s.delete(bucket, s.item(bucket, "b"))
			same(s, "standing", s.standing(bucket, items...), job.Erased, job.Replaced, job.UnderMarker)
			foreign := items[0]
			foreign.Version = "no-version-id-of-this-store"
			same(s, "unknown id", s.standing(bucket, foreign), job.Erased)
		}},
		{"Standing/unversioned", nil, func(s suite) {
			bucket := s.plain("a")
			item := s.item(bucket, "a")
			s.delete(bucket, item)
			same(s, "standing", s.standing(bucket, item), job.Erased)
		}},
		{"Standing/of a current object tells whether versions are kept", nil, func(s suite) {
			for bucket, want := range map[string]job.Standing{s.plain("a"): job.Erased, s.versioned("a"): job.Replaced} {
				same(s, bucket, s.standing(bucket, s.item(bucket, "a")), want)
			}
		}},
	}
}

func markers(s suite) {
	bucket := s.versioned("a", "a", "b")
	planned := s.item(bucket, "a")
	same(s, "answer", s.delete(bucket, planned), job.Marked)
	same(s, "visible", s.keys(job.Query{Bucket: bucket}), "b")
	same(s, "once more", s.delete(bucket, planned), job.NotThere)
	items := s.list(job.Query{Bucket: bucket, Prefix: "a", Versions: true})
	if len(items) != 3 || !items[0].Marker || items[1].ETag != planned.ETag || items[1].Marker {
		s.Errorf("versions, newest first: %+v", items)
	}
	same(s, "the marker by id", s.delete(bucket, items[0]), job.GoneByVersion)
	if got := s.item(bucket, "a"); !got.Same(planned) {
		s.Errorf("beneath the marker: %+v, planned %+v", got, planned)
	}
}

func locks(s suite) {
	year := s.Now().AddDate(1, 0, 0)
	for name, lock := range map[string]artifact.Lock{
		"hold":       {LegalHold: true},
		"governance": {Mode: artifact.Governance, Until: year},
		"compliance": {Mode: artifact.Compliance, Until: year},
		"both":       {LegalHold: true, Mode: artifact.Compliance, Until: s.Now().Add(time.Hour)},
	} {
		bucket := s.versioned("other")
		locked := s.Seed.Put(s.T, bucket, "locked", name)
		s.Lock(s.T, bucket, locked.Ref(), lock)
		other := s.list(job.Query{Bucket: bucket, Prefix: "other", Versions: true})[0]
		same(s, name, s.delete(bucket, locked, other), job.Locked, job.GoneByVersion)
		same(s, name+": left", s.keys(job.Query{Bucket: bucket, Versions: true}), "locked")
		same(s, name+": marker", s.delete(bucket, s.item(bucket, "locked")), job.Marked)
		same(s, name+": beneath it", s.delete(bucket, locked), job.Locked)
	}
}

// equalBytes is the case that no condition on an ETag can see: the planned object
// was uploaded again between the look and the delete.
func equalBytes(s suite) {
	bucket := s.versioned("a", "b")
	planned := s.list(job.Query{Bucket: bucket})
	s.Seed.Tick(s.T)
	s.Seed.Put(s.T, bucket, "a", "body of a")
	again := s.item(bucket, "a")
	if again.Same(planned[0]) || again.ETag != planned[0].ETag {
		s.Fatalf("the bed does not upload equal bytes at another time: %+v, %+v", planned[0], again)
	}
	same(s, "answers", s.delete(bucket, planned...), job.Marked, job.Marked)
	same(s, "standing", s.standing(bucket, planned...), job.Restored, job.UnderMarker)
	if got := s.item(bucket, "a"); !got.Same(again) {
		s.Errorf("current is %+v, want the later upload %+v", got, again)
	}
	same(s, "versions", s.keys(job.Query{Bucket: bucket, Versions: true}), "a", "a", "b", "b")
	same(s, "asked again", s.standing(bucket, planned...), job.Replaced, job.UnderMarker)
}

// otherStandings are left as somebody else's act has them.
func otherStandings(s suite) {
	bucket := s.versioned("erased", "replaced", "hidden", "below")
	planned := s.list(job.Query{Bucket: bucket}) // below, erased, hidden, replaced
	s.Seed.Tick(s.T)
	for _, item := range s.list(job.Query{Bucket: bucket, Prefix: "erased", Versions: true}) {
		s.Seed.Remove(s.T, bucket, item.Ref())
	}
	s.Seed.Put(s.T, bucket, "replaced", "new")
	s.Seed.Put(s.T, bucket, "hidden", "new")
	s.Seed.Remove(s.T, bucket, job.Ref{Key: "hidden"})
	s.delete(bucket, s.item(bucket, "below"))
	s.Seed.Put(s.T, bucket, "below", "new")
	s.Seed.Remove(s.T, bucket, job.Ref{Key: "below"})
	before := s.list(job.Query{Bucket: bucket, Versions: true})
	same(s, "standing", s.standing(bucket, planned...), job.UnderMarker, job.Erased, job.Replaced, job.Replaced)
	if after := s.list(job.Query{Bucket: bucket, Versions: true}); len(after) != len(before) {
		s.Errorf("a look changed the bucket: %d versions, then %d", len(before), len(after))
	}
}
