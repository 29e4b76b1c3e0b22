package s3

import (
	"encoding/xml"
	"net/http"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// maxDelete is the most keys of one bulk delete:
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
const maxDelete = 1000

// removal asks to delete one key, or one version of it.
type removal struct {
	key, version string
	match        string // condition on the current object's ETag, "" for none
	bypass       bool   // of a retention in governance mode
}

// removed is what a removal did.
type removed struct {
	marker bool   // a marker was laid, or destroyed
	id     string // of that marker or of the destroyed version, "" for an object without versions
}

// remove carries a removal out, and tells of its effect once nothing is locked.
func (b *bucket) remove(r removal, now time.Time) (removed, *wire.Error) {
	did, effect, err := b.take(r, now)
	if effect != nil {
		b.tell(*effect)
	}
	return did, err
}

// take removes in one step with its condition.
func (b *bucket) take(r removal, now time.Time) (did removed, effect *Effect, failed *wire.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.match != "" {
		current := b.current(r.key)
		if current == nil {
			return removed{}, nil, noSuchKey()
		}
		if !names(r.match, current) {
			return removed{}, nil, preconditionFailed()
		}
	}
	if r.version != "" {
		return b.destroy(r, now)
	}
	if v := b.current(r.key); v != nil {
		effect = b.note(r.key, v, now, b.versioning != "")
	}
	if b.versioning == "" {
		b.objects.Delete(r.key)
		return removed{}, effect, nil
	}
	// A marker hides what is there, and is laid over nothing too. It does not touch
	// what a lock protects; while versioning is suspended, when it takes the null
	// version's place, a bucket has no locks.
	laid := b.add(r.key, version{marker: true, modified: now.Truncate(time.Second)})
	return removed{marker: true, id: laid.id()}, effect, nil
}

// destroy removes exactly the named version. One that is not there is no error.
func (b *bucket) destroy(r removal, now time.Time) (removed, *Effect, *wire.Error) {
	o, at := b.place(r.key, r.version)
	if at < 0 {
		return removed{id: r.version}, nil, nil
	}
	v := o.versions[at]
	if v.locked(now, r.bypass) {
		return removed{}, nil, accessDenied("Access Denied because object protected by object lock.")
	}
	effect := b.note(r.key, &v, now, false)
	b.cut(r.key, o, at)
	return removed{marker: v.marker, id: r.version}, effect, nil
}

// validVersion reports whether id can be the id of a version.
func validVersion(id string) bool {
	_, ok := sequenceOf(id)
	return ok || id == "" || id == nullVersion
}

func (c *call) bypasses() bool {
	return strings.EqualFold(c.Header.Get("X-Amz-Bypass-Governance-Retention"), "true")
}

// removal is what a single delete asks for.
func (c *call) removal() removal {
	return removal{key: c.key, version: c.query.Get("versionId"), match: c.Header.Get("If-Match"), bypass: c.bypasses()}
}

func deleteObject(c *call) *wire.Error {
	r := c.removal()
	if !validVersion(r.version) {
		return wire.Bad("InvalidArgument", "Invalid version id specified")
	}
	did, err := c.bucket.remove(r, c.now)
	if err != nil {
		return err
	}
	if did.marker {
		c.w.Header().Set("X-Amz-Delete-Marker", "true")
	}
	if did.id != "" {
		c.w.Header().Set("X-Amz-Version-Id", did.id)
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// bulk is the payload of a bulk delete. Unknown elements make it invalid: one of
// them may be a condition.
type bulk struct {
	XMLName xml.Name `xml:"Delete"`
	Quiet   bool
	Objects []struct {
		Key              *string
		VersionID        string `xml:"VersionId"`
		ETag             string
		Size             *string // conditions of directory buckets
		LastModifiedTime *string
		Unknown          []struct{} `xml:",any"`
	} `xml:"Object"`
	Unknown []struct{} `xml:",any"`
}

// removals returns what the payload asks for, once all of it is valid.
func (c *call) removals() (all []removal, quiet bool, failed *wire.Error) {
	if !c.sums.given {
		return nil, false, wire.Bad("InvalidRequest", "Missing required header for this request: Content-MD5 OR x-amz-checksum-*")
	}
	var asked bulk
	if err := c.decode(&asked); err != nil {
		return nil, false, err
	}
	if len(asked.Objects) == 0 || len(asked.Objects) > maxDelete || len(asked.Unknown) > 0 {
		return nil, false, malformedXML()
	}
	for _, o := range asked.Objects {
		switch {
		case o.Key == nil, *o.Key == "", len(o.Unknown) > 0:
			return nil, false, malformedXML()
		case o.Size != nil, o.LastModifiedTime != nil:
			return nil, false, wire.Unsupported("a delete on the condition of size or time")
		}
		all = append(all, removal{key: *o.Key, version: o.VersionID, match: o.ETag, bypass: c.bypasses()})
	}
	return all, asked.Quiet, nil
}

func deleteObjects(c *call) *wire.Error {
	all, quiet, err := c.removals()
	if err != nil {
		return err
	}
	d := &document{}
	for _, r := range all {
		did, err := c.one(r)
		switch {
		case err != nil:
			d.WriteString("<Error>")
			d.element("Key", exact(r.key))
			d.optional("VersionId", exact(r.version))
			d.element("Code", legible(err.Code))
			d.element("Message", legible(err.Message))
			d.WriteString("</Error>")
		case !quiet:
			d.WriteString("<Deleted>")
			d.element("Key", exact(r.key))
			d.optional("VersionId", exact(r.version))
			if did.marker {
				d.element("DeleteMarker", "true")
				d.element("DeleteMarkerVersionId", did.id)
			}
			d.WriteString("</Deleted>")
		}
	}
	return c.reply("DeleteResult", d)
}

// one carries out one key of a bulk delete under its fate.
func (c *call) one(r removal) (removed, *wire.Error) {
	if c.fate.Entries != nil {
		if err := c.fate.Entries(r.key); err != nil {
			return removed{}, err
		}
	}
	switch {
	case len(r.key) > maxKeyBytes:
		return removed{}, wire.Bad("KeyTooLongError", "Your key is too long")
	case !validVersion(r.version):
		return removed{}, noSuchVersion()
	}
	if err := c.denied(r.key, r.actions()...); err != nil {
		return removed{}, err
	}
	did, err := c.bucket.remove(r, c.now)
	if c.fate.EntriesAfter != nil {
		if lost := c.fate.EntriesAfter(r.key); lost != nil {
			return removed{}, lost
		}
	}
	return did, err
}
