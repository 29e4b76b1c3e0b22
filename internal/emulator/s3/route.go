package s3

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// target is what a path names.
type target int

const (
	onService target = iota
	onBucket
	onObject
)

// operation is one row of the table of what S3 does here.
type operation struct {
	name   string
	method string
	on     target
	// sub is the query parameter that chooses the operation, "" for the plain request.
	sub string
	// params are the further query parameters that it understands.
	params string
	serve  func(*call) *wire.Error
}

// table lists every operation. What is not in it is not offered.
func (s *Service) table() []operation {
	const (
		get, head, put, post, del = http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete
		paging                    = "prefix delimiter max-keys encoding-type "
	)
	return []operation{
		{"ListBuckets", get, onService, "", "", s.listBuckets},

		{"CreateBucket", put, onBucket, "", "", s.createBucket},
		{"DeleteBucket", del, onBucket, "", "", s.deleteBucket},
		{"HeadBucket", head, onBucket, "", "", headBucket},
		{"GetBucketLocation", get, onBucket, "location", "", getBucketLocation},
		{"GetBucketVersioning", get, onBucket, "versioning", "", getBucketVersioning},
		{"PutBucketVersioning", put, onBucket, "versioning", "", putBucketVersioning},
		{"GetObjectLockConfiguration", get, onBucket, "object-lock", "", getLockConfiguration},
		{"PutObjectLockConfiguration", put, onBucket, "object-lock", "", putLockConfiguration},
		{"GetBucketPolicy", get, onBucket, "policy", "", getBucketPolicy},
		{"PutBucketPolicy", put, onBucket, "policy", "", putBucketPolicy},
		{"DeleteBucketPolicy", del, onBucket, "policy", "", deleteBucketPolicy},
		{"GetBucketRequestPayment", get, onBucket, "requestPayment", "", getRequestPayment},
		{"GetBucketEncryption", get, onBucket, "encryption", "", getEncryption},
		{"GetPublicAccessBlock", get, onBucket, "publicAccessBlock", "", getPublicAccessBlock},
		{"ListObjects", get, onBucket, "", paging + "marker", listObjects},
		{"ListObjectsV2", get, onBucket, "list-type", paging + "start-after continuation-token fetch-owner", listObjectsV2},
		{"ListObjectVersions", get, onBucket, "versions", "prefix max-keys encoding-type key-marker version-id-marker", listVersions},
		{"DeleteObjects", post, onBucket, "delete", "", deleteObjects},

		{"PutObject", put, onObject, "", "", putObject},
		{"GetObject", get, onObject, "", "versionId", getObject},
		{"HeadObject", head, onObject, "", "versionId", getObject},
		{"DeleteObject", del, onObject, "", "versionId", deleteObject},
		{"GetObjectTagging", get, onObject, "tagging", "versionId", getTagging},
		{"PutObjectTagging", put, onObject, "tagging", "versionId", putTagging},
		{"DeleteObjectTagging", del, onObject, "tagging", "versionId", deleteTagging},
		{"GetObjectLegalHold", get, onObject, "legal-hold", "versionId", getLegalHold},
		{"PutObjectLegalHold", put, onObject, "legal-hold", "versionId", putLegalHold},
		{"GetObjectRetention", get, onObject, "retention", "versionId", getRetention},
		{"PutObjectRetention", put, onObject, "retention", "versionId", putRetention},
	}
}

// route returns the operation that the call asks for, or nil.
func (s *Service) route(c *call) *operation {
	on := onObject
	switch {
	case c.name == "":
		on = onService
	case c.key == "":
		on = onBucket
	}
	var plain *operation
	for i := range s.operations {
		op := &s.operations[i]
		switch {
		case op.method != c.Method || op.on != on:
		case op.sub == "":
			plain = op
		case c.query.Has(op.sub):
			return op
		}
	}
	return plain
}

// stranger returns a query parameter that the operation does not know, or "".
// X-Amz parameters are a presigned request's; x-id only repeats the operation.
func (op *operation) stranger(query url.Values) string {
	for name := range query {
		known := name == op.sub || name == "x-id" || strings.HasPrefix(name, "X-Amz-")
		if !known && !slices.Contains(strings.Fields(op.params), name) {
			return name
		}
	}
	return ""
}

// knownHeaders are the x-amz headers that some operation reads, or that change nothing.
const knownHeaders = ` date content-sha256 security-token user-agent decoded-content-length trailer
	sdk-checksum-algorithm checksum-mode checksum-crc32 checksum-crc32c checksum-crc64nvme checksum-sha1 checksum-sha256
	tagging object-lock-legal-hold object-lock-mode object-lock-retain-until-date bucket-object-lock-enabled
	bypass-governance-retention request-payer expected-bucket-owner storage-class acl `

// checkHeaders refuses headers that ask for what is not offered.
func checkHeaders(h http.Header) *wire.Error {
	for name := range h {
		short, ok := strings.CutPrefix(strings.ToLower(name), "x-amz-")
		if ok && !strings.HasPrefix(short, "meta-") && !slices.Contains(strings.Fields(knownHeaders), short) {
			return wire.Unsupported("the header " + strings.ToLower(name))
		}
	}
	if class := h.Get("X-Amz-Storage-Class"); class != "" && class != "STANDARD" {
		return wire.Unsupported("the storage class " + class)
	}
	if acl := h.Get("X-Amz-Acl"); acl != "" && acl != "private" {
		return wire.Unsupported("the ACL " + acl)
	}
	if owner := h.Get("X-Amz-Expected-Bucket-Owner"); owner != "" && owner != wire.Account {
		return accessDenied("Access Denied")
	}
	return nil
}
