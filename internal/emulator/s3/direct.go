package s3

import (
	"crypto/md5"
	"fmt"
	"iter"
	"time"
)

// Listed is a version of an object, or a marker, for whoever stands beside the wire.
type Listed struct {
	Key string
	// Version is its id, "null" in a bucket that never kept versions.
	Version, ETag string
	Size          int64
	Modified      time.Time
	Marker        bool
	// Newest: no version of the key is newer.
	Newest bool
}

func (v *version) listed(key string, newest bool) Listed {
	l := Listed{Key: key, Version: v.id(), Size: int64(len(v.body)), Modified: v.modified, Marker: v.marker, Newest: newest}
	if !v.marker {
		l.ETag = v.etag()
	}
	return l
}

// Create makes a bucket without the wire in between; one that keeps versions has
// Object Lock too.
func (s *Service) Create(name, region string, versioned bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.buckets[name]; taken {
		return fmt.Errorf("s3: there is a bucket %s", name)
	}
	b := &bucket{service: s, name: name, region: region, created: s.clock.Now()}
	if versioned {
		b.locking, b.versioning = true, enabled
	}
	s.buckets[name] = b
	return nil
}

// Upload stores one object without the wire in between.
func (s *Service) Upload(bucket string, o Object) (Listed, error) {
	b, err := s.named(bucket)
	if err != nil {
		return Listed{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.add(o.Key, version{modified: o.Modified.Truncate(time.Second), body: o.Body, md5: md5.Sum(o.Body)})
	return v.listed(o.Key, true), nil
}

// Find returns the named version of a key, or its current object when no version is
// named, which a marker hides.
func (s *Service) Find(bucket, key, id string) (found Listed, ok bool) {
	b, err := s.named(bucket)
	if err != nil {
		return Listed{}, false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if id == "" {
		v := b.current(key)
		if v == nil {
			return Listed{}, false
		}
		return v.listed(key, true), true
	}
	o, at := b.place(key, id)
	if at < 0 {
		return Listed{}, false
	}
	return o.versions[at].listed(key, at == len(o.versions)-1), true
}

// Body returns the bytes of the current object of a key; they must not be changed.
func (s *Service) Body(bucket, key string) (body []byte, ok bool) {
	b, err := s.named(bucket)
	if err != nil {
		return nil, false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	v := b.current(key)
	if v == nil {
		return nil, false
	}
	return v.body, true
}

// Everything yields every version and marker of a bucket in the order of the keys, the
// newest of a key first. The bucket may not be changed meanwhile.
func (s *Service) Everything(bucket string) iter.Seq[Listed] {
	return func(yield func(Listed) bool) {
		b, err := s.named(bucket)
		if err != nil {
			return
		}
		b.mu.RLock()
		defer b.mu.RUnlock()
		b.objects.Scan(func(key string, o *object) bool {
			for at := len(o.versions) - 1; at >= 0; at-- {
				if !yield(o.versions[at].listed(key, at == len(o.versions)-1)) {
					return false
				}
			}
			return true
		})
	}
}

// Remove is somebody else's delete, of the named version or else of the current object.
// It heeds no lock, is no Effect, and reports whether there was something.
func (s *Service) Remove(bucket, key, id string) bool {
	b, err := s.named(bucket)
	if err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == "" {
		if b.current(key) == nil {
			return false
		}
		if b.versioning == "" {
			b.objects.Delete(key)
		} else {
			b.add(key, version{marker: true, modified: s.clock.Now().Truncate(time.Second)})
		}
		return true
	}
	o, at := b.place(key, id)
	if at >= 0 {
		b.cut(key, o, at)
	}
	return at >= 0
}

// Hold lays a legal hold on the current object of a key, and reports whether there is
// one.
func (s *Service) Hold(bucket, key string) bool {
	b, err := s.named(bucket)
	if err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.current(key)
	if v == nil {
		return false
	}
	about := v.attributes()
	about.lock.hold = "ON"
	v.about = &about
	return true
}
