package conformance

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func s3Versions() []check[*s3Suite] {
	return []check[*s3Suite]{
		{"versioned: put returns VersionId; ListObjectVersions latest flags", s3VersionFlags},
		{"versioned: HeadObject?versionId of old version", s3HeadOldVersion},
		{"versioned: delete -> marker; hidden from ListObjectsV2; Head 404 S3-15", s3Markers},
		{"versioned: DeleteObjects by VersionId + markers reported", s3BulkByVersion},
		{"versioned: object put before versioning has VersionId null and is deletable", s3NullVersion},
		{"versioned: suspended, a put and a delete take the null version's place", s3Suspension},
		{"versioned: If-Match is judged on the current version; a marker is NoSuchKey S3-18", s3MarkerUnderCondition},
		{"ListObjectVersions paging (KeyMarker/VersionIdMarker)", s3VersionPages},
		{"ListObjectVersions goes on after the version it ended with is gone S3-25", s3VersionPagesWhileDeleting},
		{"absent version: by id no error, a version id that is none is refused", s3AbsentVersion},
	}
}

func s3VersionFlags(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	v1, v2 := c.put(t, b, "k", "1"), c.put(t, b, "k", "2")
	if aws.ToString(v1.VersionId) == "" || aws.ToString(v1.VersionId) == aws.ToString(v2.VersionId) {
		t.Errorf("version ids %q and %q", aws.ToString(v1.VersionId), aws.ToString(v2.VersionId))
	}
	l, _ := c.versions(t, b)
	if len(l) != 2 || !aws.ToBool(l[0].IsLatest) || aws.ToBool(l[1].IsLatest) || *l[0].VersionId != *v2.VersionId {
		t.Errorf("versions %+v", l)
	}
	h := must(c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: aws.String("k")}))(t)
	if aws.ToString(h.VersionId) != *v2.VersionId {
		t.Errorf("head says version %q", aws.ToString(h.VersionId))
	}
}

func s3HeadOldVersion(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	v1 := c.put(t, b, "k", "1")
	c.put(t, b, "k", "22")
	h := must(c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: aws.String("k"), VersionId: v1.VersionId}))(t)
	if aws.ToInt64(h.ContentLength) != 1 {
		t.Errorf("the old version has %d bytes", aws.ToInt64(h.ContentLength))
	}
}

func s3Markers(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	v1 := c.put(t, b, "k", "1")
	d := must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k")}))(t)
	if !aws.ToBool(d.DeleteMarker) || aws.ToString(d.VersionId) == "" {
		t.Fatal("no delete marker reported")
	}
	c.wantKeys(t, b)
	if c.has(t, b, "k") {
		t.Error("HeadObject finds what lies under a marker")
	}
	if got := c.body(t, b, "k", v1.VersionId); got != "1" {
		t.Errorf("under the marker lies %q", got)
	}
	_, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b, Key: aws.String("k"), VersionId: d.VersionId})
	wantCode(t, err, "MethodNotAllowed")
	must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k"), VersionId: d.VersionId}))(t)
	if got := c.body(t, b, "k", nil); got != "1" {
		t.Errorf("without the marker stands %q", got)
	}
}

func s3BulkByVersion(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	v1, v2 := c.put(t, b, "k", "1"), c.put(t, b, "k", "2")
	out := must(c.bulk(t.Context(), b, false, types.ObjectIdentifier{Key: aws.String("k"), VersionId: v1.VersionId}))(t)
	if len(out.Deleted) != 1 || aws.ToString(out.Deleted[0].VersionId) != *v1.VersionId {
		t.Errorf("deleted %+v", out.Deleted)
	}
	if l, _ := c.versions(t, b); len(l) != 1 || *l[0].VersionId != *v2.VersionId {
		t.Errorf("left %+v", l)
	}
	out = must(c.bulk(t.Context(), b, false, s3Object("k")))(t)
	if len(out.Deleted) != 1 || !aws.ToBool(out.Deleted[0].DeleteMarker) || aws.ToString(out.Deleted[0].DeleteMarkerVersionId) == "" {
		t.Errorf("the marker: %+v", out.Deleted)
	}
}

func s3NullVersion(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.put(t, b, "k", "0")
	c.setVersioning(t, b, types.BucketVersioningStatusEnabled)
	c.put(t, b, "k", "1")
	if l, _ := c.versions(t, b); len(l) != 2 || *l[1].VersionId != "null" {
		t.Fatalf("versions %+v", l)
	}
	must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k"), VersionId: aws.String("null")}))(t)
	if l, _ := c.versions(t, b); len(l) != 1 {
		t.Error("the null version is still there")
	}
	if got := c.body(t, b, "k", nil); got != "1" {
		t.Errorf("current is %q", got)
	}
}

func s3Suspension(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	v1 := c.put(t, b, "k", "1")
	c.setVersioning(t, b, types.BucketVersioningStatusSuspended)
	c.put(t, b, "k", "2")
	if o := c.put(t, b, "k", "3"); aws.ToString(o.VersionId) != "null" && aws.ToString(o.VersionId) != "" {
		t.Errorf("a put while suspended has the version %q", aws.ToString(o.VersionId))
	}
	if l, _ := c.versions(t, b); len(l) != 2 || *l[0].VersionId != "null" || *l[1].VersionId != *v1.VersionId {
		t.Errorf("versions %+v", l)
	}
	must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k")}))(t)
	if l, m := c.versions(t, b); len(l) != 1 || *l[0].VersionId != *v1.VersionId || len(m) != 1 || *m[0].VersionId != "null" {
		t.Errorf("after the delete: versions %+v, markers %+v", l, m)
	}
}

func s3MarkerUnderCondition(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	old := c.put(t, b, "k", "1")
	current := c.put(t, b, "k", "2")
	remove := func(etag *string) *s3.DeleteObjectsOutput {
		return must(c.bulk(t.Context(), b, false, types.ObjectIdentifier{Key: aws.String("k"), ETag: etag}))(t)
	}
	if out := remove(old.ETag); len(out.Errors) != 1 || aws.ToString(out.Errors[0].Code) != "PreconditionFailed" {
		t.Errorf("by the old ETag: %+v", out)
	}
	if out := remove(current.ETag); len(out.Deleted) != 1 || !aws.ToBool(out.Deleted[0].DeleteMarker) {
		t.Errorf("by the current ETag: %+v", out)
	}
	if out := remove(current.ETag); len(out.Errors) != 1 || aws.ToString(out.Errors[0].Code) != "NoSuchKey" {
		t.Errorf("once more: %+v", out)
	}
	if l, m := c.versions(t, b); len(l) != 2 || len(m) != 1 {
		t.Errorf("%d versions and %d markers", len(l), len(m))
	}
}

func s3VersionPages(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	for i := range 12 {
		c.put(t, b, fmt.Sprintf("k%d", i/3), "x")
	}
	seen := map[string]bool{}
	n, pages := 0, 0
	in := &s3.ListObjectVersionsInput{Bucket: &b, MaxKeys: aws.Int32(5)}
	for pages < 30 {
		l := must(c.ListObjectVersions(t.Context(), in))(t)
		pages++
		for _, v := range l.Versions {
			n++
			seen[*v.Key+" "+*v.VersionId] = true
		}
		if !aws.ToBool(l.IsTruncated) {
			break
		}
		in.KeyMarker, in.VersionIdMarker = l.NextKeyMarker, l.NextVersionIdMarker
	}
	if n != 12 || len(seen) != 12 || pages != 3 {
		t.Errorf("%d versions, %d different, in %d pages", n, len(seen), pages)
	}
	l := must(c.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &b, KeyMarker: aws.String("k1")}))(t)
	if len(l.Versions) != 6 || *l.Versions[0].Key != "k2" {
		t.Errorf("after all of k1: %d versions", len(l.Versions))
	}
}

func s3VersionPagesWhileDeleting(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	for i := range 20 {
		c.put(t, b, "k", fmt.Sprint(i))
	}
	n := 0
	in := &s3.ListObjectVersionsInput{Bucket: &b, MaxKeys: aws.Int32(6)}
	for range 30 {
		l := must(c.ListObjectVersions(t.Context(), in))(t)
		for _, v := range l.Versions {
			n++
			must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: v.Key, VersionId: v.VersionId}))(t)
		}
		if !aws.ToBool(l.IsTruncated) {
			break
		}
		in.KeyMarker, in.VersionIdMarker = l.NextKeyMarker, l.NextVersionIdMarker
	}
	if n != 20 {
		t.Errorf("saw %d of 20 versions", n)
	}
}

func s3AbsentVersion(t *testing.T, c *s3Suite) {
	b := c.versioned(t)
	v := c.put(t, b, "k", "1")
	for range 2 {
		must(c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k"), VersionId: v.VersionId}))(t)
	}
	out := must(c.bulk(t.Context(), b, false, types.ObjectIdentifier{Key: aws.String("k"), VersionId: v.VersionId}))(t)
	if len(out.Deleted) != 1 || len(out.Errors) != 0 {
		t.Errorf("in bulk: %+v", out)
	}
	_, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &b, Key: aws.String("k"), VersionId: v.VersionId})
	wantCode(t, err, "NoSuchVersion")
	_, err = c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &b, Key: aws.String("k"), VersionId: aws.String("no-version")})
	wantCode(t, err, "InvalidArgument")
}
