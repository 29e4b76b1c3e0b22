package s3

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// maxPage is the most entries of a listing.
const maxPage = 1000

func number(n int) string { return strconv.Itoa(n) }

// maxKeys returns how many entries the call asks for.
func (c *call) maxKeys() (int, *wire.Error) {
	text := c.query.Get("max-keys")
	if text == "" {
		return maxPage, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, wire.Bad("InvalidArgument", "Argument max-keys must be an integer between 0 and 2147483647")
	}
	return min(int(n), maxPage), nil
}

// listing is a question for the current objects of a bucket.
type listing struct {
	prefix, delimiter string
	after             string // exclusive; "" begins at the start
	most              int
}

// entry is one line of an answer: an object, or a common prefix of several.
type entry struct {
	key    string
	common bool
	object version
}

// fold returns the common prefix that stands for the key, if one does.
func (l listing) fold(key string) (common string, ok bool) {
	if l.delimiter == "" || !strings.HasPrefix(key, l.prefix) {
		return "", false
	}
	at := strings.Index(key[len(l.prefix):], l.delimiter)
	if at < 0 {
		return "", false
	}
	return key[:len(l.prefix)+at+len(l.delimiter)], true
}

// start returns the first key that can be in the answer. What lies in the common
// prefix that the last answer ended with has been answered.
func (l listing) start() string {
	if l.after == "" {
		return l.prefix
	}
	if common, ok := l.fold(l.after); ok {
		return max(l.prefix, beyond(common))
	}
	return max(l.prefix, l.after+"\x00")
}

// beyond returns the least string that is greater than every one with the prefix,
// or the prefix itself when there is none.
func beyond(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return prefix
}

// list answers from a place among the keys, and not from a count: it goes on
// rightly after any of them are gone (S3-25).
func (b *bucket) list(l listing) (entries []entry, truncated bool) {
	if l.most == 0 {
		return nil, false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for from, more := l.start(), true; more; {
		more = false
		b.objects.Ascend(from, func(key string, o *object) bool {
			common, folded := l.fold(key)
			switch {
			case !strings.HasPrefix(key, l.prefix):
				return false
			case o.newest().marker:
				return true
			case len(entries) == l.most:
				truncated = true
				return false
			case folded:
				entries = append(entries, entry{key: common, common: true})
				from = beyond(common)
				more = from != common
				return false
			}
			entries = append(entries, entry{key: key, object: *o.newest()})
			return true
		})
	}
	return entries, truncated
}

// question reads what both forms of listing objects share.
func (c *call) question() (l listing, d *document, err *wire.Error) {
	l = listing{prefix: c.query.Get("prefix"), delimiter: c.query.Get("delimiter")}
	if l.most, err = c.maxKeys(); err != nil {
		return l, nil, err
	}
	d, err = c.encoding()
	return l, d, err
}

// listObjects is the first form, which older scripts still use.
func listObjects(c *call) *wire.Error {
	l, d, err := c.question()
	if err != nil {
		return err
	}
	l.after = c.query.Get("marker")
	entries, truncated := c.bucket.list(l)
	c.head(d, l, truncated)
	d.element("Marker", d.encode(l.after))
	if truncated && l.delimiter != "" { // without one, the last key is the marker
		d.element("NextMarker", d.encode(entries[len(entries)-1].key))
	}
	d.entries(entries, true)
	return c.reply("ListBucketResult", d)
}

func listObjectsV2(c *call) *wire.Error {
	if c.query.Get("list-type") != "2" {
		return wire.Bad("InvalidArgument", "Invalid List Type specified in Request")
	}
	l, d, err := c.question()
	if err != nil {
		return err
	}
	l.after = c.query.Get("start-after")
	token := c.query.Get("continuation-token")
	if c.query.Has("continuation-token") {
		last, failed := base64.URLEncoding.DecodeString(token)
		if failed != nil || len(last) == 0 {
			return wire.Bad("InvalidArgument", "The continuation token provided is incorrect")
		}
		l.after = string(last)
	}
	entries, truncated := c.bucket.list(l)
	c.head(d, l, truncated)
	d.element("KeyCount", number(len(entries)))
	d.optional("ContinuationToken", token)
	d.optional("StartAfter", d.encode(c.query.Get("start-after")))
	if truncated {
		d.element("NextContinuationToken", base64.URLEncoding.EncodeToString([]byte(entries[len(entries)-1].key)))
	}
	d.entries(entries, c.query.Get("fetch-owner") == "true")
	return c.reply("ListBucketResult", d)
}

// head writes what every listing says about itself.
func (c *call) head(d *document, l listing, truncated bool) {
	d.element("Name", c.name)
	d.element("Prefix", d.encode(l.prefix))
	d.optional("Delimiter", d.encode(l.delimiter))
	d.element("MaxKeys", number(l.most))
	d.optional("EncodingType", c.query.Get("encoding-type"))
	d.element("IsTruncated", strconv.FormatBool(truncated))
}

// entries writes the objects, then the common prefixes.
func (d *document) entries(entries []entry, owner bool) {
	for _, e := range entries {
		if e.common {
			continue
		}
		d.WriteString("<Contents>")
		d.element("Key", d.encode(e.key))
		d.facts(&e.object)
		if owner {
			d.WriteString("<Owner><ID>" + wire.Account + "</ID></Owner>")
		}
		d.WriteString("</Contents>")
	}
	for _, e := range entries {
		if e.common {
			d.WriteString("<CommonPrefixes>")
			d.element("Prefix", d.encode(e.key))
			d.WriteString("</CommonPrefixes>")
		}
	}
}

// facts writes what a listing says about an object.
func (d *document) facts(v *version) {
	d.element("LastModified", instant(v.modified))
	d.element("ETag", exact(v.etag()))
	if sums := v.attributes().sums; sums.algorithm != "" {
		d.element("ChecksumAlgorithm", sums.algorithm)
		d.element("ChecksumType", "FULL_OBJECT")
	}
	d.element("Size", number(len(v.body)))
	d.element("StorageClass", "STANDARD")
}
