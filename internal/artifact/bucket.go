package artifact

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// nullVersion is how S3 names the version of an object in an unversioned bucket.
const nullVersion = "null"

// version is one version of a key. Sequence numbers rise within a bucket, so the
// version id is derived and not stored; 0 is the null version.
type version struct {
	seq      uint64
	etag     string
	size     int64
	modified time.Time
	marker   bool
}

func (v version) id() string {
	if v.seq == 0 {
		return nullVersion
	}
	return fmt.Sprintf("v%015x", v.seq)
}

// versionSeq is the reverse of id; ok is false for what is no version id of ours.
func versionSeq(id string) (seq uint64, ok bool) {
	if id == nullVersion {
		return 0, true
	}
	digits, ok := strings.CutPrefix(id, "v")
	seq, err := strconv.ParseUint(digits, 16, 64)
	return seq, ok && err == nil && seq > 0 && version{seq: seq}.id() == id
}

func (v version) item(key string) job.Item {
	return job.Item{Key: key, ETag: v.etag, Size: v.size, Modified: v.modified, Marker: v.marker}
}

func (v version) named(key string) job.Item {
	item := v.item(key)
	item.Version = v.id()
	return item
}

// twin reports whether the version holds the planned bytes, so that the condition
// on the ETag can not tell it from what was planned.
func (v version) twin(item job.Item) bool {
	return !v.marker && v.etag == item.ETag && v.size == item.Size
}

// planned reports whether the version is the upload that the item names.
func (v version) planned(item job.Item) bool {
	if item.Version != "" {
		return v.id() == item.Version
	}
	return v.twin(item) && v.modified.Equal(item.Modified)
}

// position names one version for as long as the bucket lives.
type position struct {
	key string
	seq uint64
}

type bucketState struct {
	versioned bool
	seq       uint64
	index     index
	locks     map[position]Lock
	denied    []string // prefixes
	deniedKey map[string]bool
}

// put stores the item as the newest version of its key.
func (b *bucketState) put(item job.Item) job.Item {
	v := version{etag: item.ETag, size: item.Size, modified: item.Modified.UTC()}
	if item.Marker {
		v = version{modified: v.modified, marker: true}
	}
	e := b.index.put(item.Key)
	if !b.versioned {
		e.versions = append(e.versions[:0], v)
		return v.item(e.key)
	}
	b.seq++
	v.seq = b.seq
	e.versions = append(e.versions, v)
	return v.named(e.key)
}

// locate returns the entry and the place of the version in it, -1 when it is not
// there. An empty version means the current object, which a marker hides.
func (b *bucketState) locate(ref job.Ref) (*entry, int) {
	e := b.index.get(ref.Key)
	if e == nil {
		return nil, -1
	}
	if ref.Version == "" {
		if e.newest().marker {
			return e, -1
		}
		return e, len(e.versions) - 1
	}
	seq, ok := versionSeq(ref.Version)
	at, found := slices.BinarySearchFunc(e.versions, seq, func(v version, seq uint64) int { return cmp.Compare(v.seq, seq) })
	if !ok || !found {
		return e, -1
	}
	return e, at
}

// cut destroys a version.
func (b *bucketState) cut(e *entry, at int) {
	delete(b.locks, position{e.key, e.versions[at].seq})
	e.versions = slices.Delete(e.versions, at, at+1)
	if len(e.versions) == 0 {
		b.index.remove(e.key)
	}
}

// lay hides the key's current object.
func (b *bucketState) lay(key string, at time.Time) {
	b.put(job.Item{Key: key, Modified: at, Marker: true})
}

func (b *bucketState) denies(key string) bool {
	return b.deniedKey[key] || slices.ContainsFunc(b.denied, func(p string) bool { return strings.HasPrefix(key, p) })
}

func (b *bucketState) locked(p position, at time.Time) bool {
	l, ok := b.locks[p]
	return ok && (l.LegalHold || at.Before(l.Until))
}

// delete is one item of a Deletion. The effect is meaningful when there was one.
func (b *bucketState) delete(item job.Item, now time.Time) (answer job.Answer, effect Effect, happened bool) {
	if b.denies(item.Key) {
		return job.Denied, Effect{}, false
	}
	e, at := b.locate(item.Ref())
	switch {
	case at < 0 && item.Version != "":
		return job.GoneByVersion, Effect{}, false
	case at < 0:
		return job.NotThere, Effect{}, false
	}
	v := e.versions[at]
	effect = Effect{Item: v.item(e.key), At: now}
	if b.versioned || item.Version != "" {
		effect.Item = v.named(e.key)
	}
	switch {
	case item.Version != "":
		if b.locked(position{e.key, v.seq}, now) {
			return job.Locked, Effect{}, false
		}
		b.cut(e, at)
		return job.GoneByVersion, effect, true
	case v.etag != item.ETag:
		return job.Differs, Effect{}, false
	case b.versioned:
		b.lay(e.key, now)
		effect.Marker = true
		return job.Marked, effect, true
	default:
		b.cut(e, at)
		return job.Gone, effect, true
	}
}
