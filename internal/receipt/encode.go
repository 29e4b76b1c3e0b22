package receipt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// level is fixed: it decides the bytes, and so the names.
const level = 6

// gzipHeader is what every document starts with: deflate, no flags, no time,
// no extra flags, no operating system.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// wireLine is an item's line. The fields that change from item to item stand
// first and together; what follows, and the beginning of the next line, is then
// one repetition to the compressor.
type wireLine struct {
	Key           string     `json:"key,omitzero"`
	KeyBase64     []byte     `json:"key_base64,omitempty"`
	Version       string     `json:"version,omitzero"`
	VersionBase64 []byte     `json:"version_base64,omitempty"`
	ETag          string     `json:"etag,omitzero"`
	Size          int64      `json:"size"`
	Modified      time.Time  `json:"modified"`
	Marker        bool       `json:"marker,omitzero"`
	Decision      Decision   `json:"decision"`
	Reason        string     `json:"reason"`
	HoldID        string     `json:"hold_id,omitzero"`
	SettleAt      *time.Time `json:"settle_at,omitzero"` // a pointer: to ask a time for zero allocates
	Outcome       string     `json:"outcome,omitzero"`
	Proof         job.Proof  `json:"proof,omitzero"`
}

// trailer seals the lines before it; the package comment explains the marks. Root
// stands in manifests only.
type trailer struct {
	Items  int    `json:"items"`
	SHA256 string `json:"sha256"`
	Marks  string `json:"marks"`
	Root   string `json:"root,omitzero"`
}

// Encode returns the document's stored bytes and their hash, 64 lower-case hex
// digits, which is its name. A document that Decode would refuse is not written:
// the error is a failure.Bug and holds a *LineError.
func (d Document) Encode() (hash string, data []byte, err error) {
	text, err := d.text()
	if err != nil {
		return "", nil, failure.Wrap(failure.Bug, "encode evidence", err)
	}
	var out bytes.Buffer
	out.Grow(len(text)/4 + 64)
	err = compress(&out, func(z io.Writer) error {
		_, err := z.Write(text)
		return err
	})
	if err != nil {
		return "", nil, failure.Wrap(failure.Bug, "encode evidence", err)
	}
	return hashOf(out.Bytes()), out.Bytes(), nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// text returns the uncompressed document.
func (d Document) text() ([]byte, error) {
	if e := d.check(); e != nil {
		return nil, e
	}
	var buf bytes.Buffer
	buf.Grow(320 * (len(d.Lines) + 2))
	s := newSeal(len(d.Lines) + 1)
	from := 0
	add := func(line int, v any) error {
		if err := json.MarshalWrite(&buf, v, json.Deterministic(true)); err != nil {
			return &LineError{Line: line, Text: "a text is not valid UTF-8 or a time is out of range"}
		}
		buf.WriteByte('\n')
		s.add(buf.Bytes()[from:])
		from = buf.Len()
		return nil
	}
	h := d.Header
	h.Cutoff = h.Cutoff.UTC()
	if err := add(1, &h); err != nil {
		return nil, err
	}
	var w wireLine
	for i := range d.Lines {
		w.set(&d.Lines[i])
		if err := add(itemLine(i), &w); err != nil {
			return nil, err
		}
	}
	if err := add(itemLine(len(d.Lines)), s.trailer()); err != nil {
		return nil, err
	}
	if buf.Len() > MaxText {
		return nil, &LineError{Text: "the text is too large"}
	}
	return buf.Bytes(), nil
}

func (w *wireLine) set(l *Line) {
	*w = wireLine{
		ETag: l.ETag, Size: l.Size, Modified: l.Modified.UTC(), Marker: l.Marker,
		Decision: l.Decision, Reason: l.Reason, HoldID: l.HoldID,
		Outcome: l.Outcome.String(), Proof: l.Proof,
	}
	if !l.SettleAt.IsZero() {
		at := l.SettleAt.UTC()
		w.SettleAt = &at
	}
	w.Key, w.KeyBase64 = split(l.Key)
	w.Version, w.VersionBase64 = split(l.Version)
}

// split says in which of its two fields a text is kept.
func split(s string) (string, []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}

// seal computes the running hash over the lines.
type seal struct {
	h     hash.Hash
	sum   []byte
	marks []byte // the first byte of the running hash after each line
}

func newSeal(lines int) *seal {
	return &seal{h: sha256.New(), sum: make([]byte, 0, sha256.Size), marks: make([]byte, 0, lines)}
}

func (s *seal) add(line []byte) {
	s.h.Write(line)
	s.sum = s.h.Sum(s.sum[:0])
	s.marks = append(s.marks, s.sum[0])
}

// trailer returns what seals everything added so far: the header and the items.
func (s *seal) trailer() *trailer {
	return &trailer{Items: len(s.marks) - 1, SHA256: hex.EncodeToString(s.sum), Marks: hex.EncodeToString(s.marks)}
}
