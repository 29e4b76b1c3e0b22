package s3

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// getObject answers GetObject and HeadObject.
func getObject(c *call) *wire.Error {
	v, marker, err := c.bucket.read(c.key, c.query.Get("versionId"))
	h := c.w.Header()
	if marker != nil {
		h.Set("X-Amz-Delete-Marker", "true")
		h.Set("X-Amz-Version-Id", marker.id())
		h.Set("Last-Modified", marker.modified.UTC().Format(http.TimeFormat))
	}
	if err != nil && err.Code == "NoSuchKey" { // who may not list is not told what is not there
		if denied := c.denied("", "ListBucket"); denied != nil {
			return denied
		}
	}
	if err != nil {
		return err
	}
	h.Set("ETag", v.etag())
	h.Set("Last-Modified", v.modified.UTC().Format(http.TimeFormat))
	if err := c.mayGet(v); err != nil {
		return err
	}
	c.describe(v)
	body, status, err := c.ranged(v)
	if err != nil {
		return err
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	if c.Method == http.MethodGet {
		_, _ = c.w.Write(body) // a client that has gone can not be told
	}
	return nil
}

// mayGet judges the request's conditions in the order of RFC 9110.
func (c *call) mayGet(v *version) *wire.Error {
	match, none := c.Header.Get("If-Match"), c.Header.Get("If-None-Match")
	after := func(name string) bool { // modified after the header's time, if that is one
		t, err := http.ParseTime(c.Header.Get(name))
		return err != nil || v.modified.After(t)
	}
	switch {
	case match != "" && !names(match, v),
		match == "" && c.Header.Get("If-Unmodified-Since") != "" && after("If-Unmodified-Since"):
		return preconditionFailed()
	case none != "" && names(none, v),
		none == "" && c.Header.Get("If-Modified-Since") != "" && !after("If-Modified-Since"):
		return failed(http.StatusNotModified, "NotModified", "Not Modified")
	}
	return nil
}

// describe sets the headers that say what is known about the version.
func (c *call) describe(v *version) {
	h, about := c.w.Header(), v.attributes()
	h.Set("Content-Type", "binary/octet-stream")
	for name, values := range about.headers {
		if strings.HasPrefix(name, "x-amz-meta-") {
			h[name] = values // some SDKs take the name as it is sent
		} else {
			h.Set(name, values[0])
		}
	}
	h.Set("Accept-Ranges", "bytes")
	c.bucket.mu.RLock()
	versioned := c.bucket.versioning != ""
	c.bucket.mu.RUnlock()
	if versioned {
		h.Set("X-Amz-Version-Id", v.id())
	}
	if n := len(about.tags); n > 0 {
		h.Set("X-Amz-Tagging-Count", strconv.Itoa(n))
	}
	if about.sums.header != "" && strings.EqualFold(c.Header.Get("X-Amz-Checksum-Mode"), "enabled") && c.Header.Get("Range") == "" {
		h.Set(about.sums.header, about.sums.value)
	}
	if about.lock.hold != "" {
		h.Set("X-Amz-Object-Lock-Legal-Hold", about.lock.hold)
	}
	if about.lock.mode != "" {
		h.Set("X-Amz-Object-Lock-Mode", about.lock.mode)
		h.Set("X-Amz-Object-Lock-Retain-Until-Date", instant(about.lock.until))
	}
}

// ranged returns the bytes that the request asks for: all, or one range.
func (c *call) ranged(v *version) (body []byte, status int, err *wire.Error) {
	spec, ok := strings.CutPrefix(c.Header.Get("Range"), "bytes=")
	if !ok { // as in HTTP, what is no range asks for everything
		return v.body, http.StatusOK, nil
	}
	if strings.Contains(spec, ",") {
		return nil, 0, wire.Unsupported("several ranges in one request")
	}
	from, to, valid := bounds(spec, len(v.body))
	if !valid {
		return v.body, http.StatusOK, nil
	}
	if from >= len(v.body) || from > to {
		return nil, 0, failed(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable")
	}
	c.w.Header().Set("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(to)+"/"+strconv.Itoa(len(v.body)))
	return v.body[from : to+1], http.StatusPartialContent, nil
}

// bounds reads "a-b", "a-" and "-n" of a body of size bytes; to is inclusive.
func bounds(spec string, size int) (from, to int, ok bool) {
	first, last, ok := strings.Cut(spec, "-")
	a, errA := strconv.ParseUint(first, 10, 31)
	b, errB := strconv.ParseUint(last, 10, 31)
	switch {
	case !ok:
		return 0, 0, false
	case first == "" && errB == nil:
		if b == 0 {
			return size, size, true // an empty tail can not be satisfied
		}
		return max(0, size-int(b)), size - 1, true
	case last == "" && errA == nil:
		return int(a), size - 1, true
	case errA == nil && errB == nil && a <= b:
		return int(a), min(int(b), size-1), true
	default:
		return 0, 0, false
	}
}
