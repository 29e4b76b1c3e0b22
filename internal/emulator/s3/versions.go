package s3

import (
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// line is one version in a listing of versions.
type line struct {
	key     string
	latest  bool
	version version
}

// place in a listing of versions: after this version of the key, or after all of
// them when no version is named.
type place struct{ key, id string }

// history lists versions and markers, the newest of a key first.
func (b *bucket) history(prefix string, after place, most int) (lines []line, truncated bool) {
	if most == 0 {
		return nil, false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	from := max(prefix, after.key)
	b.objects.Ascend(from, func(key string, o *object) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		next := len(o.versions) - 1
		if key == after.key && after.key != "" {
			next = o.before(after.id)
		}
		for i := next; i >= 0; i-- {
			if len(lines) == most {
				truncated = true
				return false
			}
			lines = append(lines, line{key, i == len(o.versions)-1, o.versions[i]})
		}
		return true
	})
	return lines, truncated
}

// before returns the place of the newest version that is older than the one with
// the id, which may be gone. Nothing is older than all of them, which "" means.
// Where a null version stood can not be told once it is gone; then all are
// listed again, because showing twice is better than leaving out.
func (o *object) before(id string) int {
	if id == "" {
		return -1
	}
	sequence, _ := sequenceOf(id)
	for i := len(o.versions) - 1; i >= 0; i-- {
		v := &o.versions[i]
		if id == nullVersion && v.null {
			return i - 1
		}
		if id != nullVersion && v.sequence < sequence {
			return i
		}
	}
	if id == nullVersion {
		return len(o.versions) - 1
	}
	return -1
}

func listVersions(c *call) *wire.Error {
	most, err := c.maxKeys()
	if err != nil {
		return err
	}
	d, err := c.encoding()
	if err != nil {
		return err
	}
	prefix := c.query.Get("prefix")
	after := place{c.query.Get("key-marker"), c.query.Get("version-id-marker")}
	switch {
	case after.id != "" && after.key == "":
		return wire.Bad("InvalidArgument", "A version-id marker cannot be specified without a key marker.")
	case !validVersion(after.id):
		return wire.Bad("InvalidArgument", "Invalid version id specified")
	}
	lines, truncated := c.bucket.history(prefix, after, most)
	c.head(d, listing{prefix: prefix, most: most}, truncated)
	d.element("KeyMarker", d.encode(after.key))
	d.element("VersionIdMarker", after.id)
	if truncated {
		last := lines[len(lines)-1]
		d.element("NextKeyMarker", d.encode(last.key))
		d.element("NextVersionIdMarker", last.version.id())
	}
	for i := range lines {
		d.line(&lines[i])
	}
	return c.reply("ListVersionsResult", d)
}

func (d *document) line(l *line) {
	name := "Version"
	if l.version.marker {
		name = "DeleteMarker"
	}
	d.WriteString("<" + name + ">")
	d.element("Key", d.encode(l.key))
	d.element("VersionId", l.version.id())
	d.element("IsLatest", strconv.FormatBool(l.latest))
	if l.version.marker {
		d.element("LastModified", instant(l.version.modified))
	} else {
		d.facts(&l.version)
	}
	d.WriteString("<Owner><ID>" + wire.Account + "</ID></Owner>")
	d.WriteString("</" + name + ">")
}
