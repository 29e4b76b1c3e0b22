package s3

import (
	"crypto/md5"
	"fmt"
	"iter"
	"time"
)

// Object is an object to seed a bucket with.
type Object struct {
	Key  string
	Body []byte // not copied: it must not change any more
	// Modified is when it seems to have been uploaded; zero is now.
	Modified time.Time
}

// Seed uploads many objects without the wire in between, quickest in key order.
func (s *Service) Seed(bucket string, objects iter.Seq[Object]) error {
	b, err := s.named(bucket)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for o := range objects {
		if o.Key == "" || len(o.Key) > maxKeyBytes {
			return fmt.Errorf("s3: a key of %d bytes", len(o.Key))
		}
		if o.Modified.IsZero() {
			o.Modified = now
		}
		b.add(o.Key, version{modified: o.Modified.Truncate(time.Second), body: o.Body, md5: md5.Sum(o.Body)})
	}
	return nil
}

// SetLastModified gives a version another time, or the current object when no
// version is named. No API of S3 can do that, and a test of retention needs it.
func (s *Service) SetLastModified(bucket, key, version string, at time.Time) error {
	b, err := s.named(bucket)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.current(key)
	if o, place := b.place(key, version); version != "" && place >= 0 {
		v = &o.versions[place]
	} else if version != "" {
		v = nil
	}
	if v == nil {
		return fmt.Errorf("s3: no such object in %s", bucket)
	}
	v.modified = at.Truncate(time.Second)
	return nil
}

// SetRequesterPays makes the bucket refuse every request that does not say that
// its sender pays. In AWS the bucket's owner is exempt; here nobody is.
func (s *Service) SetRequesterPays(bucket string, on bool) error {
	b, err := s.named(bucket)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requesterPays = on
	return nil
}

func (s *Service) named(name string) (*bucket, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if b, ok := s.buckets[name]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("s3: no bucket %s", name)
}
