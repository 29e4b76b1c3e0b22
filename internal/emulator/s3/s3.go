// Package s3 is the embedded AWS's S3: buckets, objects, versions and locks, as far as Expunge deletes and keeps evidence.
//
// # Why our own
//
// The product's claims rest on what S3 does in the corners: a condition on each
// key of a bulk delete, one winner among conditional writes, a listing that goes
// on while what it listed is deleted, keys that are no paths, versions under
// markers and locks. No emulator that runs inside a Go process gets these right,
// so a test on it proves nothing, or deletes the wrong object and passes.
//
// # What it promises
//
// Keys are opaque bytes in byte order and are never cleaned. Times are whole
// seconds, as S3's are. A bulk delete is no transaction: other requests come in
// between its keys. A query parameter or an x-amz header that an operation does
// not know is answered with NotImplemented, because ignoring one is how an
// emulator says yes to what it did not do. Nobody is asked who he is, but what a
// bucket's policy denies is denied.
//
// The checks of internal/emulator/conformance say the rest.
package s3

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// maxKeyBytes is the longest key in bytes of UTF-8:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
const maxKeyBytes = 1024

// Service keeps the buckets of every region in memory. A bucket's name is taken
// in all of them.
type Service struct {
	// OnEffect is told what a delete changed, before the next key of the request. It may
	// call the service, and is set before the first request.
	OnEffect func(bucket string, e Effect)

	clock      wire.Clock
	operations []operation

	mu      sync.RWMutex
	buckets map[string]*bucket
}

var _ wire.Service = (*Service)(nil)

// New returns an S3 without buckets on the given clock.
func New(clock wire.Clock) *Service {
	s := &Service{clock: clock, buckets: map[string]*bucket{}}
	s.operations = s.table()
	return s
}

// Scope implements wire.Service.
func (s *Service) Scope() string { return "s3" }

// Operation implements wire.Service.
func (s *Service) Operation(r *http.Request) string {
	c := newCall(r)
	if op := s.route(c); op != nil && op.stranger(c.query) == "" {
		return op.name
	}
	return ""
}

// call is one request on its way through an operation.
type call struct {
	*http.Request
	w      http.ResponseWriter
	id     string
	region string
	query  url.Values
	// invalid: the query is no query.
	invalid bool
	name    string // of the bucket, "" for the service itself
	key     string
	// body is the payload without the framing of aws-chunked, and sums are the
	// digests that the client gave for it, all of them checked.
	body []byte
	sums sums

	bucket *bucket
	now    time.Time
	fate   wire.Fate
}

// newCall takes a request's URL apart. The decoded path is the key, byte for
// byte: in a key, an escaped slash and a slash are the same.
func newCall(r *http.Request) *call {
	c := &call{Request: r}
	var err error
	c.query, err = url.ParseQuery(r.URL.RawQuery)
	c.invalid = err != nil
	c.name, c.key, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return c
}

// Serve implements wire.Service.
func (s *Service) Serve(w http.ResponseWriter, r *wire.Request) {
	c := newCall(r.Request)
	c.w, c.id, c.region, c.body = w, r.ID, r.Region, r.Body
	c.now, c.fate = s.clock.Now(), wire.FateOf(r.Context())
	w.Header().Set("X-Amz-Request-Id", r.ID)
	if err := s.serve(c); err != nil {
		c.fail(err)
	}
}

func (s *Service) serve(c *call) *wire.Error {
	op := s.route(c)
	switch {
	case c.invalid:
		return failed(http.StatusBadRequest, "InvalidURI", "Couldn't parse the specified URI.")
	case op == nil:
		return wire.Unsupported(c.Method + " of this resource in S3")
	case op.stranger(c.query) != "":
		return wire.Unsupported("the query parameter " + op.stranger(c.query) + " in " + op.name)
	case c.fate.Error != nil:
		return c.fate.Error
	case len(c.key) > maxKeyBytes:
		return failed(http.StatusBadRequest, "KeyTooLongError", "Your key is too long")
	}
	if err := checkHeaders(c.Header); err != nil {
		return err
	}
	if err := c.open(); err != nil {
		return err
	}
	if op.on != onService && op.name != "CreateBucket" {
		if err := s.enter(c, op); err != nil {
			return err
		}
	}
	return op.serve(c)
}

// enter finds the call's bucket and refuses who may not come in.
func (s *Service) enter(c *call, op *operation) *wire.Error {
	s.mu.RLock()
	c.bucket = s.buckets[c.name]
	s.mu.RUnlock()
	if c.bucket == nil {
		return noSuchBucket()
	}
	c.w.Header().Set("X-Amz-Bucket-Region", c.bucket.region)
	if c.bucket.region != c.region && op.name != "GetBucketLocation" { // the one question that any region answers
		return failed(http.StatusMovedPermanently, "PermanentRedirect",
			"The bucket you are attempting to access must be addressed using the specified endpoint. Please send all future requests to this endpoint.")
	}
	if err := c.denied(c.key, c.actions(op.name)...); err != nil {
		return err
	}
	c.bucket.mu.RLock()
	pays := c.bucket.requesterPays
	c.bucket.mu.RUnlock()
	// Questions about the bucket itself are its owner's and cost nothing.
	pays = pays && (op.on == onObject || op.name == "DeleteObjects" || strings.HasPrefix(op.name, "List"))
	if pays && !strings.EqualFold(c.Header.Get("X-Amz-Request-Payer"), "requester") {
		return accessDenied("Access Denied")
	}
	if pays {
		c.w.Header().Set("X-Amz-Request-Charged", "requester")
	}
	return nil
}
