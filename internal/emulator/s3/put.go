package s3

import (
	"crypto/md5"
	"net/http"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// keptHeaders are kept with an object and answered with it.
const keptHeaders = "content-type content-encoding content-disposition content-language cache-control expires"

// putObject stores the payload under its key. The condition is judged and the
// object stored in one step: of many conditional writers, one wins.
func putObject(c *call) *wire.Error {
	about, err := c.attributes()
	if err != nil {
		return err
	}
	v := version{modified: c.now.Truncate(time.Second), body: c.body, md5: md5.Sum(c.body)}
	b := c.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := c.mayPut(b.current(c.key)); err != nil {
		return err
	}
	if err := b.protect(&about.lock, c); err != nil {
		return err
	}
	v.about = &about
	stored := b.add(c.key, v)
	c.w.Header().Set("ETag", stored.etag())
	if about.sums.header != "" {
		c.w.Header().Set(about.sums.header, about.sums.value)
	}
	if b.versioning != "" {
		c.w.Header().Set("X-Amz-Version-Id", stored.id())
	}
	return nil
}

// mayPut judges the request's condition on the object that stands there.
func (c *call) mayPut(current *version) *wire.Error {
	match, none := c.Header.Get("If-Match"), c.Header.Get("If-None-Match")
	switch {
	case match != "" && none != "", none != "" && none != "*":
		return wire.Unsupported("a write under this condition")
	case none != "" && current != nil:
		return preconditionFailed()
	case match != "" && current == nil:
		return noSuchKey()
	case match != "" && !names(match, current):
		return preconditionFailed()
	}
	return nil
}

// names reports whether a list of ETags, or "*", holds that of the version.
func names(list string, v *version) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.Trim(strings.TrimSpace(one), `"`); one == "*" || one == strings.Trim(v.etag(), `"`) {
			return true
		}
	}
	return false
}

// attributes reads from the headers of an upload what is said about the object.
func (c *call) attributes() (about attributes, err *wire.Error) {
	about.headers, about.sums = http.Header{}, c.sums
	for name, values := range c.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz-meta-") {
			about.headers[name] = values
		}
	}
	for name := range strings.FieldsSeq(keptHeaders) {
		value := c.Header.Get(name)
		if name == "content-encoding" { // aws-chunked is of the request, not of the object
			value = strings.Trim(strings.ReplaceAll(value, "aws-chunked", ""), ", ")
		}
		if value != "" {
			about.headers[name] = []string{value}
		}
	}
	if about.tags, err = headerTags(c.Header.Get("X-Amz-Tagging")); err != nil {
		return about, err
	}
	about.lock, err = c.askedLock()
	return about, err
}
