package conformance

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func s3Digests() []check[*s3Suite] {
	return []check[*s3Suite]{
		{"DeleteObjects: CRC32 or MD5 accepted, no digest refused, a wrong one BadDigest S3-14", s3BulkDigests},
		{"DeleteObjects: the SDK with checksums only where required S3-14", s3BulkWhenRequired},
		{"DeleteObjects: a body that is no XML, or holds what no one knows, is MalformedXML", s3BulkMalformed},
		{"PutObject: every checksum is verified and given back", s3PutChecksums},
		{"PutObject: aws-chunked with a trailing checksum", s3TrailingChecksum},
	}
}

func s3Crc(body string) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body))))
}

// raw sends a request without the SDK and returns its status and its answer.
func (c *s3Suite) raw(t *testing.T, method, path, body string, header map[string]string) (status int, answer string) {
	t.Helper()
	if c.target.Endpoint == "" {
		t.Skip("asks for a known endpoint")
	}
	r := must(http.NewRequestWithContext(t.Context(), method, c.target.Endpoint+path, strings.NewReader(body)))(t)
	payload := "UNSIGNED-PAYLOAD"
	for name, value := range header {
		if r.Header.Set(name, value); name == "X-Amz-Content-Sha256" {
			payload = value
		}
	}
	response := must(c.send(r, payload))(t) //nolint:bodyclose // closed below; the check does not see through must
	defer response.Body.Close()
	return response.StatusCode, string(must(io.ReadAll(response.Body))(t))
}

const s3BulkOfK = `<Delete><Object><Key>k</Key></Object></Delete>`

func s3BulkDigests(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	sum := md5.Sum([]byte(s3BulkOfK))
	for what, step := range map[string]struct {
		header map[string]string
		status int
		answer string
	}{
		"CRC32":     {map[string]string{"X-Amz-Checksum-Crc32": s3Crc(s3BulkOfK)}, http.StatusOK, "<Deleted>"},
		"MD5":       {map[string]string{"Content-MD5": base64.StdEncoding.EncodeToString(sum[:])}, http.StatusOK, "<Deleted>"},
		"none":      {nil, http.StatusBadRequest, "InvalidRequest"},
		"wrong":     {map[string]string{"X-Amz-Checksum-Crc32": s3Crc("other")}, http.StatusBadRequest, "BadDigest"},
		"wrong MD5": {map[string]string{"Content-MD5": base64.StdEncoding.EncodeToString(make([]byte, md5.Size))}, http.StatusBadRequest, "BadDigest"},
	} {
		status, answer := c.raw(t, http.MethodPost, "/"+b+"?delete=", s3BulkOfK, step.header)
		if status != step.status || !strings.Contains(answer, step.answer) {
			t.Errorf("%s: status %d, %.300s", what, status, answer)
		}
	}
}

func s3BulkWhenRequired(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.put(t, b, "k", "x")
	out := must(c.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{
		Bucket: &b, Delete: &types.Delete{Objects: []types.ObjectIdentifier{s3Object("k")}},
	}, func(o *s3.Options) { o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired }))(t)
	if len(out.Deleted) != 1 {
		t.Errorf("deleted %d", len(out.Deleted))
	}
	c.wantKeys(t, b)
}

func s3BulkMalformed(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	c.put(t, b, "k", "x")
	for _, body := range []string{
		"", "k", "<Delete><Object><Key>k</Key></Object>", "<Delete></Delete>", "<Delete><Object></Object></Delete>",
		"<Erase><Object><Key>k</Key></Object></Erase>",
		"<Delete><Object><Key>k</Key></Object><Object><Key>a\x01</Key></Object></Delete>",
	} {
		status, answer := c.raw(t, http.MethodPost, "/"+b+"?delete=", body, map[string]string{"X-Amz-Checksum-Crc32": s3Crc(body)})
		if status != http.StatusBadRequest || !strings.Contains(answer, "MalformedXML") && body != "" {
			t.Errorf("%q: status %d, %.300s", body, status, answer)
		}
	}
	c.wantKeys(t, b, "k")
}

func s3PutChecksums(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	for _, algorithm := range []types.ChecksumAlgorithm{
		types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmSha1, types.ChecksumAlgorithmSha256, types.ChecksumAlgorithmCrc64nvme,
	} {
		key := string(algorithm)
		o := must(c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &b, Key: &key, Body: strings.NewReader("body"), ChecksumAlgorithm: algorithm}))(t)
		h := must(c.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &b, Key: &key, ChecksumMode: types.ChecksumModeEnabled}))(t)
		for _, pair := range [][2]*string{
			{o.ChecksumCRC32, h.ChecksumCRC32}, {o.ChecksumCRC32C, h.ChecksumCRC32C}, {o.ChecksumSHA1, h.ChecksumSHA1},
			{o.ChecksumSHA256, h.ChecksumSHA256}, {o.ChecksumCRC64NVME, h.ChecksumCRC64NVME},
		} {
			if aws.ToString(pair[0]) != aws.ToString(pair[1]) {
				t.Errorf("%s: put says %q, head %q", algorithm, aws.ToString(pair[0]), aws.ToString(pair[1]))
			}
		}
		// The SDK checks the checksum of what it reads.
		if got := c.body(t, b, key, nil); got != "body" {
			t.Errorf("%s: %q", algorithm, got)
		}
	}
	for header, value := range map[string]string{
		"X-Amz-Checksum-Crc32": "AAAAAA==", "X-Amz-Checksum-Crc32c": "AAAAAA==", "X-Amz-Checksum-Crc64nvme": "AAAAAAAAAAA=",
		"X-Amz-Checksum-Sha1":   base64.StdEncoding.EncodeToString(make([]byte, 20)),
		"X-Amz-Checksum-Sha256": base64.StdEncoding.EncodeToString(make([]byte, 32)),
		"Content-MD5":           base64.StdEncoding.EncodeToString(make([]byte, 16)),
	} {
		status, answer := c.raw(t, http.MethodPut, "/"+b+"/wrong", "body", map[string]string{header: value})
		if status != http.StatusBadRequest || !strings.Contains(answer, "BadDigest") {
			t.Errorf("%s: status %d, %.300s", header, status, answer)
		}
	}
	if c.has(t, b, "wrong") {
		t.Error("an upload with a wrong digest is there")
	}
}

func s3TrailingChecksum(t *testing.T, c *s3Suite) {
	b := c.bucket(t)
	header := map[string]string{
		"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "X-Amz-Decoded-Content-Length": "9",
		"X-Amz-Trailer": "x-amz-checksum-crc32", "Content-Encoding": "aws-chunked",
	}
	framed := func(sum string) string {
		return "4\r\nbody\r\n5\r\n\r\nand\r\n0\r\nx-amz-checksum-crc32:" + sum + "\r\n\r\n"
	}
	status, answer := c.raw(t, http.MethodPut, "/"+b+"/k", framed(s3Crc("body\r\nand")), header)
	if status != http.StatusOK {
		t.Fatalf("status %d, %.300s", status, answer)
	}
	if got := c.body(t, b, "k", nil); got != "body\r\nand" {
		t.Errorf("the object holds %q", got)
	}
	if status, answer = c.raw(t, http.MethodPut, "/"+b+"/wrong", framed(s3Crc("other")), header); status != http.StatusBadRequest || !strings.Contains(answer, "BadDigest") {
		t.Errorf("a wrong trailer: status %d, %.300s", status, answer)
	}
	if status, _ = c.raw(t, http.MethodPut, "/"+b+"/wrong", "4\r\nbo", header); status != http.StatusBadRequest {
		t.Errorf("a torn body: status %d", status)
	}
	c.wantKeys(t, b, "k")
}
