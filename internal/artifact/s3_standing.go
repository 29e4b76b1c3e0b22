package artifact

import (
	"context"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// Standing implements Store.
func (s *S3) Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	standings, wrong, err := s.look(ctx, bucket, items)
	if err != nil {
		return nil, err
	}
	for _, marker := range wrong {
		if err := s.unmark(ctx, bucket, marker); err != nil {
			return nil, err
		}
	}
	return standings, nil
}

// Look implements Store.
func (s *S3) Look(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	standings, _, err := s.look(ctx, bucket, items)
	return standings, err
}

// look judges the items and names the markers that are wrong. It lists the versions
// between the first and the last of the keys, and skips what lies between two of them.
func (s *S3) look(ctx context.Context, bucket string, items []job.Item) (standings []job.Standing, wrong []job.Ref, err error) {
	if err := over(ctx, opLook); err != nil {
		return nil, nil, err
	}
	standings = make([]job.Standing, len(items))
	if len(items) == 0 {
		return standings, nil, nil
	}
	keeps, err := s.keepsVersions(ctx, bucket)
	if err != nil {
		return nil, nil, err
	}
	var found map[string][]job.Item
	if keeps {
		if found, err = s.histories(ctx, bucket, items); err != nil {
			return nil, nil, err
		}
	}
	for i, item := range items {
		var marker job.Ref
		standings[i], marker = judge(found[item.Key], item)
		if standings[i] == job.Restored {
			wrong = append(wrong, marker)
		}
	}
	return standings, wrong, nil
}

// keepsVersions reports whether the bucket has ever kept versions. One that has
// can be suspended but not go back.
func (s *S3) keepsVersions(ctx context.Context, bucket string) (bool, error) {
	s.mu.Lock()
	known := s.versioned[bucket]
	s.mu.Unlock()
	if known {
		return true, nil
	}
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	out, err := s.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &bucket})
	if err != nil {
		return false, classify(opLook, err)
	}
	if out.Status != types.BucketVersioningStatusEnabled && out.Status != types.BucketVersioningStatusSuspended {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versioned[bucket] = true
	return true, nil
}

// histories returns every version of the items' keys, the newest first.
func (s *S3) histories(ctx context.Context, bucket string, items []job.Item) (map[string][]job.Item, error) {
	found := make(map[string][]job.Item, len(items))
	var keys []string
	for _, item := range items {
		if _, ok := found[item.Key]; !ok {
			found[item.Key] = nil
			keys = append(keys, item.Key)
		}
	}
	slices.Sort(keys)
	prefix := shared(keys[0], keys[len(keys)-1])
	at := place{mark: before(keys[0])}
	for {
		page, next, err := s.page(ctx, bucket, prefix, at)
		if err != nil {
			return nil, err
		}
		for _, v := range page {
			if lines, wanted := found[v.Key]; wanted {
				found[v.Key] = append(lines, v)
			}
		}
		for len(keys) > 0 && keys[0] < next.mark {
			keys = keys[1:] // all of it has been listed
		}
		if next == (place{}) || len(keys) == 0 {
			return found, nil
		}
		if at = next; before(keys[0]) > next.mark {
			at = place{mark: before(keys[0])}
		}
	}
}

// page is one listing of versions, within its own time.
func (s *S3) page(ctx context.Context, bucket, prefix string, at place) ([]job.Item, place, error) {
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	return s.history(ctx, opLook, bucket, prefix, at)
}

// shared returns the longest prefix of both keys that does not cut a character.
func shared(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(a) && !utf8.RuneStart(a[n]) {
		n--
	}
	return a[:n]
}

// before returns a key shortly before the given one, to list from: S3 lists after
// a key, and there is none directly before another. What lies between is listed
// in vain and does no harm.
func before(key string) string {
	r, n := utf8.DecodeLastRuneInString(key)
	start := key[:len(key)-n]
	switch below := r - 1; {
	case r == utf8.RuneError, below <= ' ', !utf8.ValidRune(below), len(start)+2*utf8.UTFMax > MaxKeyBytes:
		return start
	default:
		return start + string(below) + string(utf8.MaxRune)
	}
}

// judge is standing over versions as they are listed, the newest first. With
// job.Restored it names the marker to remove. Where an id is given, standing asks
// for the sequence numbers of this package, so they are numbered here.
func judge(listed []job.Item, item job.Item) (job.Standing, job.Ref) {
	if len(listed) == 0 {
		return job.Erased, job.Ref{}
	}
	versions := make([]version, len(listed))
	planned := item
	if item.Version != "" {
		planned.Version = "-" // of no version, unless it is found
	}
	for i, v := range listed {
		at := len(listed) - 1 - i
		versions[at] = version{seq: uint64(at) + 1, etag: v.ETag, size: v.Size, modified: v.Modified, marker: v.Marker} //nolint:gosec // an index
		if item.Version != "" && v.Version == item.Version {
			planned.Version = versions[at].id()
		}
	}
	st, marker := standing(versions, planned)
	if st != job.Restored {
		return st, job.Ref{}
	}
	return st, listed[len(listed)-int(marker)].Ref() //nolint:gosec // one of the indexes given above
}

// unmark removes a marker by its id, which is no error when it is gone.
func (s *S3) unmark(ctx context.Context, bucket string, marker job.Ref) error {
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket: &bucket, Key: &marker.Key, VersionId: &marker.Version, RequestPayer: s.payer,
	}, func(o *s3.Options) { o.Retryer = sdk.Once() })
	if err != nil {
		return classify("remove marker", err)
	}
	return nil
}
