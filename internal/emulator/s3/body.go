package s3

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// sums are the digests that came with a payload: the x-amz-checksum header or
// trailer, and whether there was any digest at all, Content-MD5 included.
type sums struct {
	given     bool
	header    string // such as X-Amz-Checksum-Crc32, "" without one
	value     string
	algorithm string
}

// algorithms returns the checksums that S3 offers, by the last word of their header.
func algorithms() map[string]func() hash.Hash {
	return map[string]func() hash.Hash{
		"CRC32":  func() hash.Hash { return crc32.NewIEEE() },
		"CRC32C": func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) },
		// CRC-64/NVME: its polynomial bit-reversed, as Go's tables want it.
		"CRC64NVME": func() hash.Hash { return crc64.New(crc64.MakeTable(0x9a6c9329ac4bc9b5)) },
		"SHA1":      sha1.New,
		"SHA256":    sha256.New,
	}
}

// open takes the framing off the payload and checks every digest given for it.
func (c *call) open() *wire.Error {
	trailer := http.Header{}
	switch payload := c.Header.Get("X-Amz-Content-Sha256"); {
	case strings.HasPrefix(payload, "STREAMING-"):
		var err *wire.Error
		if c.body, trailer, err = unframe(c.body); err != nil {
			return err
		}
		if n := c.Header.Get("X-Amz-Decoded-Content-Length"); n != strconv.Itoa(len(c.body)) {
			return wire.Bad("IncompleteBody", "The body does not have the length that x-amz-decoded-content-length gives")
		}
	case payload != "" && payload != "UNSIGNED-PAYLOAD":
		if sum := sha256.Sum256(c.body); payload != hex.EncodeToString(sum[:]) {
			return wire.Bad("XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.")
		}
	}
	for _, name := range strings.Split(c.Header.Get("X-Amz-Trailer"), ",") {
		if name = strings.TrimSpace(name); name != "" && trailer.Get(name) == "" {
			return wire.Bad("MalformedTrailerError", "The request contained trailing data that was not well-formed or did not conform to our published schema.")
		}
	}
	return c.check(trailer)
}

// check compares the digests in header and trailer with the payload.
func (c *call) check(trailer http.Header) *wire.Error {
	if given := c.Header.Get("Content-Md5"); given != "" {
		want, err := base64.StdEncoding.DecodeString(given)
		if err != nil || len(want) != md5.Size {
			return wire.Bad("InvalidDigest", "The Content-MD5 you specified was invalid.")
		}
		if sum := md5.Sum(c.body); !bytes.Equal(want, sum[:]) {
			return wire.Bad("BadDigest", "The Content-MD5 you specified did not match what we received.")
		}
		c.sums.given = true
	}
	for algorithm, start := range algorithms() {
		header := textproto.CanonicalMIMEHeaderKey("X-Amz-Checksum-" + algorithm)
		given := c.Header.Get(header)
		if given == "" {
			given = trailer.Get(header)
		}
		if given == "" {
			continue
		}
		h := start()
		h.Write(c.body)
		want, err := base64.StdEncoding.DecodeString(given)
		switch {
		case err != nil || len(want) != h.Size():
			return wire.Bad("InvalidRequest", "Value for "+strings.ToLower(header)+" header is invalid.")
		case !bytes.Equal(want, h.Sum(nil)):
			return wire.Bad("BadDigest", "The "+algorithm+" you specified did not match the calculated checksum.")
		case c.sums.header != "":
			return wire.Bad("InvalidRequest", "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
		}
		c.sums = sums{given: true, header: header, value: given, algorithm: algorithm}
	}
	return nil
}

// unframe undoes the aws-chunked framing: chunks of "size;extensions CRLF data
// CRLF", one of size 0, and trailers. Signatures of chunks are not checked.
func unframe(framed []byte) (payload []byte, trailer http.Header, failed *wire.Error) {
	short := wire.Bad("IncompleteBody", "The request body terminated unexpectedly")
	for {
		line, rest, ok := bytes.Cut(framed, []byte("\r\n"))
		if !ok {
			return nil, nil, short
		}
		digits, _, _ := strings.Cut(string(line), ";")
		size, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 31)
		if err != nil {
			return nil, nil, wire.Bad("InvalidRequest", "The chunk size is no hexadecimal number")
		}
		if size == 0 {
			return payload, trailers(rest), nil
		}
		if uint64(len(rest)) < size+2 || string(rest[size:size+2]) != "\r\n" {
			return nil, nil, short
		}
		payload = append(payload, rest[:size]...)
		framed = rest[size+2:]
	}
}

// trailers reads the lines after the last chunk.
func trailers(rest []byte) http.Header {
	h := http.Header{}
	for line := range strings.Lines(string(rest)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			h.Set(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	return h
}
