package s3

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// nullVersion is the id of the one version that is kept while versioning is off
// or suspended.
const nullVersion = "null"

// The states of a bucket's versioning; the zero value is one never enabled.
const (
	enabled   = "Enabled"
	suspended = "Suspended"
)

// bucket is one bucket. Everything below mu is guarded by it.
type bucket struct {
	service      *Service
	name, region string
	created      time.Time

	mu            sync.RWMutex
	versioning    string
	requesterPays bool
	policy        *policy // never changed, nil without one
	locking       bool    // Object Lock is enabled
	standard      rule    // of new objects
	objects       btree.Map[string, *object]
	sequence      uint64 // of the newest version
	effects       []Effect
}

// rule is a bucket's default retention; the zero value is none.
type rule struct {
	mode        string
	days, years int
}

// object is a key with its versions, the newest last. It has at least one.
type object struct{ versions []version }

func (o *object) newest() *version { return &o.versions[len(o.versions)-1] }

// version is one version of an object, or a delete marker.
type version struct {
	sequence uint64
	null     bool
	marker   bool
	modified time.Time
	body     []byte // never changed
	md5      [md5.Size]byte
	// about is what was said about the version besides its bytes, nil for nothing.
	// It is replaced, not changed.
	about *attributes
}

// attributes are an object's metadata, its tags and its lock.
type attributes struct {
	headers http.Header // names as they were sent, in lower case
	sums    sums
	tags    []tag
	lock    lock
}

// lock protects one version.
type lock struct {
	hold  string // legal hold: "ON", "OFF", or "" when never set
	mode  string // of the retention, "" without one
	until time.Time
}

// Version ids look random: nobody shall come to rely on their order. The
// sequence number can be had back from them all the same, so that a listing goes
// on at its place after the version it ended with is gone (S3-25).
const (
	scatter = 0x9e3779b97f4a7c15 // odd, so that multiplying by it can be undone
	gather  = 0xf1de83e19937733d // its inverse modulo 2^64
)

func versionID(sequence uint64) string {
	x := sequence * scatter
	return fmt.Sprintf("%016x%016x", x, (x^x>>29)*scatter)
}

// sequenceOf is the reverse of versionID; ok is false for what is no id of ours.
func sequenceOf(id string) (sequence uint64, ok bool) {
	if len(id) != 32 {
		return 0, false
	}
	x, err := strconv.ParseUint(id[:16], 16, 64)
	sequence = x * gather
	return sequence, err == nil && versionID(sequence) == id
}

func (v *version) id() string {
	if v.null {
		return nullVersion
	}
	return versionID(v.sequence)
}

func (v *version) etag() string { return `"` + hex.EncodeToString(v.md5[:]) + `"` }

func (v *version) attributes() attributes {
	if v.about == nil {
		return attributes{}
	}
	return *v.about
}

// locked reports whether the version may not be destroyed.
func (v *version) locked(now time.Time, bypass bool) bool {
	l := v.attributes().lock
	return l.hold == "ON" || l.retained(now) && (l.mode == compliance || !bypass)
}

// current returns the object that stands under a key, nil when there is none or a
// marker hides it.
func (b *bucket) current(key string) *version {
	o, ok := b.objects.Get(key)
	if !ok || o.newest().marker {
		return nil
	}
	return o.newest()
}

// place returns the object of a key and where the version lies in it, -1 when it
// is not there.
func (b *bucket) place(key, id string) (*object, int) {
	o, ok := b.objects.Get(key)
	if !ok {
		return nil, -1
	}
	sequence, _ := sequenceOf(id)
	for i := range o.versions {
		if v := &o.versions[i]; id == nullVersion && v.null || id != nullVersion && !v.null && v.sequence == sequence {
			return o, i
		}
	}
	return o, -1
}

// add makes v the newest version of the key and numbers it. A null version takes
// the place of the earlier one.
func (b *bucket) add(key string, v version) *version {
	b.sequence++
	v.sequence, v.null = b.sequence, b.versioning != enabled
	o, ok := b.objects.Get(key)
	if !ok {
		o = &object{}
		b.objects.Set(key, o)
	}
	if v.null {
		for i := range o.versions {
			if o.versions[i].null {
				o.versions = slices.Delete(o.versions, i, i+1)
				break
			}
		}
	}
	o.versions = append(o.versions, v)
	return o.newest()
}

// cut destroys a version.
func (b *bucket) cut(key string, o *object, at int) {
	o.versions = slices.Delete(o.versions, at, at+1)
	if len(o.versions) == 0 {
		b.objects.Delete(key)
	}
}

// read returns a copy of the version that a request names, or of the current
// object when it names none. marker is set to the marker that was found instead.
func (b *bucket) read(key, id string) (found, marker *version, err *wire.Error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.find(key, id)
}

func (b *bucket) find(key, id string) (found, marker *version, err *wire.Error) {
	o, ok := b.objects.Get(key)
	if id == "" {
		switch {
		case !ok:
			return nil, nil, noSuchKey()
		case o.newest().marker:
			v := *o.newest()
			return nil, &v, noSuchKey()
		}
		v := *o.newest()
		return &v, nil, nil
	}
	if _, ok := sequenceOf(id); !ok && id != nullVersion {
		return nil, nil, wire.Bad("InvalidArgument", "Invalid version id specified")
	}
	o, at := b.place(key, id)
	switch {
	case at < 0:
		return nil, nil, noSuchVersion()
	case o.versions[at].marker:
		v := o.versions[at]
		return nil, &v, methodNotAllowed()
	}
	v := o.versions[at]
	return &v, nil, nil
}

// change replaces the attributes of the version that the call names by what edit
// makes of them.
func (c *call) change(edit func(a *attributes) *wire.Error) *wire.Error {
	c.bucket.mu.Lock()
	defer c.bucket.mu.Unlock()
	found, _, err := c.bucket.find(c.key, c.query.Get("versionId"))
	if err != nil {
		return err
	}
	about := found.attributes()
	if err := edit(&about); err != nil {
		return err
	}
	o, at := c.bucket.place(c.key, found.id())
	o.versions[at].about = &about
	if c.bucket.versioning != "" {
		c.w.Header().Set("X-Amz-Version-Id", found.id())
	}
	return nil
}
