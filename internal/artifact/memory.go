package artifact

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Effect is something that a delete call changed in a bucket.
type Effect struct {
	Bucket string
	// Item is the object or version that was destroyed or hidden. Its Version is
	// set in a versioned bucket.
	Item job.Item
	At   time.Time
	// Marker: the item was hidden and its bytes remain.
	Marker bool
	// Restored: Standing took a wrong marker away; Item is the upload beneath it.
	Restored bool
}

// LockMode is the kind of a retention period.
type LockMode string

// The retention modes of S3 Object Lock. Only a bypass would tell them apart, and
// Expunge never asks for one.
const (
	Governance LockMode = "GOVERNANCE"
	Compliance LockMode = "COMPLIANCE"
)

// Lock is the store's own protection of one version (S3 Object Lock).
type Lock struct {
	LegalHold bool
	Mode      LockMode
	Until     time.Time // end of the retention period; zero without one
}

// Limit makes a Memory refuse for rate. The zero value refuses nothing.
type Limit struct {
	// KeysPerSecond is how many keys may be deleted in a second of the clock, on
	// average and at once.
	KeysPerSecond int
	// WholeCall refuses a call as a whole, failure.Throttled with RetryAfter, where
	// otherwise the keys above the limit are answered with job.Slow.
	WholeCall bool
}

// Memory is a Store in memory: several buckets, versioned or not, with faults on
// demand and a log of every effect. Set its fields before the first call. It is
// safe for concurrent use; the functions it calls may call it.
type Memory struct {
	// PageSize lowers the number of items in an answer of List; 0 is MaxItems.
	PageSize int
	// Hook decides the fate of the calls "delete", "list", "standing" (its look),
	// "unmark" (its removal of one wrong marker) and "ready".
	Hook failure.Hook
	// KeyFault decides the answer for one item of a Deletion; job.NoAnswer leaves it
	// to the store. applied says whether the effect happens all the same.
	KeyFault func(item job.Item) (answer job.Answer, applied bool)
	// OnEffect is told each effect at its instant, before the next key of the call.
	OnEffect func(Effect)
	// Limit is the rate above which deletes are refused.
	Limit Limit

	now func() time.Time

	mu         sync.Mutex
	buckets    map[string]*bucketState
	effects    []Effect
	busyUntil  time.Time // when the keys admitted so far are paid for
	generation uint64    // of the tokens that are still good
}

var _ Store = (*Memory)(nil)

// NewMemory returns a store without buckets on the given clock, which is called
// while the store is locked and must not call it.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, buckets: map[string]*bucketState{}}
}

// CreateBucket makes an empty bucket. A bucket that is there already, and as
// versioned as asked, is left alone; otherwise it is failure.Conflict.
func (m *Memory) CreateBucket(name string, versioned bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "" {
		return failure.New(failure.Invalid, "create bucket", "no name")
	}
	if b, ok := m.buckets[name]; ok && b.versioned != versioned {
		return failure.New(failure.Conflict, "create bucket", "it exists with another versioning")
	} else if ok {
		return nil
	}
	m.buckets[name] = &bucketState{versioned: versioned, locks: map[position]Lock{}, deniedKey: map[string]bool{}}
	return nil
}

// with runs f on the bucket under the lock.
func (m *Memory) with(op, name string, f func(*bucketState) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.buckets[name]
	if !ok {
		return failure.New(failure.Absent, op, "no such bucket")
	}
	return f(b)
}

// Put stores the item over what stood under its key, or above it in a versioned
// bucket, and returns it with the version id it was given. A Version passed in is
// ignored; a zero Modified is now; Marker lays a foreign marker.
func (m *Memory) Put(bucket string, item job.Item) (stored job.Item, err error) {
	err = m.with("put", bucket, func(b *bucketState) error {
		stored, err = m.put(b, item)
		return err
	})
	return stored, err
}

func (m *Memory) put(b *bucketState, item job.Item) (job.Item, error) {
	if item.Key == "" || len(item.Key) > MaxKeyBytes {
		return job.Item{}, failure.New(failure.Invalid, "put", "the key is empty or too long")
	}
	if item.Marker && !b.versioned {
		return job.Item{}, failure.New(failure.Invalid, "put", "a marker needs a versioned bucket")
	}
	if item.Modified.IsZero() {
		item.Modified = m.now()
	}
	return b.put(item), nil
}

// Load puts many items, quickest in key order.
func (m *Memory) Load(bucket string, items iter.Seq[job.Item]) error {
	return m.with("load", bucket, func(b *bucketState) error {
		for item := range items {
			if _, err := m.put(b, item); err != nil {
				return err
			}
		}
		return nil
	})
}

// Get returns the current object of a key, without a version id, or the named
// version, markers included.
func (m *Memory) Get(bucket string, ref job.Ref) (item job.Item, ok bool) {
	_ = m.with("get", bucket, func(b *bucketState) error {
		e, at := b.locate(ref)
		if ok = at >= 0; ok && ref.Version != "" {
			item = e.versions[at].named(e.key)
		} else if ok {
			item = e.versions[at].item(e.key)
		}
		return nil
	}) // an unknown bucket has no objects
	return item, ok
}

// Has reports whether an object is visible under the key.
func (m *Memory) Has(bucket, key string) bool {
	_, ok := m.Get(bucket, job.Ref{Key: key})
	return ok
}

// Remove is someone else's delete: of the named version, or of the current object,
// which a versioned bucket hides under a marker. It heeds no condition or lock, is
// no Effect, and reports whether there was something.
func (m *Memory) Remove(bucket string, ref job.Ref) (removed bool) {
	_ = m.with("remove", bucket, func(b *bucketState) error {
		e, at := b.locate(ref)
		if removed = at >= 0; !removed {
			return nil
		}
		if b.versioned && ref.Version == "" {
			b.lay(ref.Key, m.now())
		} else {
			b.cut(e, at)
		}
		return nil
	}) // an unknown bucket has no objects
	return removed
}

// SetLock protects a version, the current one when ref names none, and replaces
// an earlier lock; the zero Lock takes it away. Only versioned buckets have locks.
func (m *Memory) SetLock(bucket string, ref job.Ref, lock Lock) error {
	return m.with("lock", bucket, func(b *bucketState) error {
		if !b.versioned {
			return failure.New(failure.Invalid, "lock", "object lock needs a versioned bucket")
		}
		e, at := b.locate(ref)
		if at < 0 {
			return failure.New(failure.Absent, "lock", "no such version")
		}
		b.locks[position{e.key, e.versions[at].seq}] = lock
		return nil
	})
}

// Deny refuses deletes of every key that begins with the prefix.
func (m *Memory) Deny(bucket, prefix string) error {
	return m.with("deny", bucket, func(b *bucketState) error {
		b.denied = append(b.denied, prefix)
		return nil
	})
}

// DenyKey refuses deletes of one key.
func (m *Memory) DenyKey(bucket, key string) error {
	return m.with("deny", bucket, func(b *bucketState) error {
		b.deniedKey[key] = true
		return nil
	})
}

// Allow lifts every refusal of Deny and DenyKey.
func (m *Memory) Allow(bucket string) error {
	return m.with("allow", bucket, func(b *bucketState) error {
		b.denied = nil
		clear(b.deniedKey)
		return nil
	})
}

// Objects yields the current objects in key order, as List does, without faults.
// The bucket may change meanwhile; an unknown bucket is empty.
func (m *Memory) Objects(bucket string) iter.Seq[job.Item] {
	return m.all(job.Query{Bucket: bucket})
}

// Versions yields every version and marker, the newest of a key first.
func (m *Memory) Versions(bucket string) iter.Seq[job.Item] {
	return m.all(job.Query{Bucket: bucket, Versions: true})
}

func (m *Memory) all(q job.Query) iter.Seq[job.Item] {
	return func(yield func(job.Item) bool) {
		var last *position
		for {
			var items []job.Item
			err := m.with("list", q.Bucket, func(b *bucketState) error {
				items, last = b.page(q, last, MaxItems)
				return nil
			})
			for _, item := range items {
				if !yield(item) {
					return
				}
			}
			if err != nil || last == nil {
				return
			}
		}
	}
}

// Effects returns every effect so far, in the order in which they happened.
func (m *Memory) Effects() []Effect {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.effects)
}

// ExpireTokens makes every token handed out so far stale.
func (m *Memory) ExpireTokens() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.generation++
}

func over(ctx context.Context, op string) error {
	return failure.Wrap(failure.Network, op, ctx.Err())
}
