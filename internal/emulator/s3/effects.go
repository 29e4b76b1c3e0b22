package s3

import (
	"slices"
	"time"
)

// Effect is something that a delete changed in a bucket, for whoever judges
// afterwards what was deleted.
type Effect struct {
	Key string
	// Version is the id of what was destroyed or hidden, "" in a bucket that never
	// kept versions.
	Version, ETag string
	Size          int64
	Modified, At  time.Time
	// Marker: it was hidden by a marker and its bytes remain.
	Marker bool
	// Lifted: it was a marker itself, and what lies beneath may show again.
	Lifted bool
}

// Effects returns what deletes have changed in the bucket, in order.
func (s *Service) Effects(bucket string) ([]Effect, error) {
	b, err := s.named(bucket)
	if err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Clone(b.effects), nil
}

// note records an effect on a version. The caller holds the lock.
func (b *bucket) note(key string, v *version, now time.Time, marker bool) *Effect {
	e := Effect{Key: key, ETag: v.etag(), Size: int64(len(v.body)), Modified: v.modified, At: now, Marker: marker, Lifted: v.marker}
	if b.versioning != "" {
		e.Version = v.id()
	}
	b.effects = append(b.effects, e)
	return &e
}

// tell passes an effect on. The caller holds no lock.
func (b *bucket) tell(e Effect) {
	if b.service.OnEffect != nil {
		b.service.OnEffect(b.name, e)
	}
}
