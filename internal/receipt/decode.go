package receipt

import (
	"bytes"
	"compress/gzip"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Decode reads a document that Encode wrote, and refuses everything else:
// unknown, repeated or reordered fields, another spelling of the same value,
// lines that do not match the seal, contents that no document of ours has, bytes
// after the end, and text beyond MaxText. The error is a failure.Invalid, holds
// a *LineError, and quotes nothing of the document. Times come back in UTC.
//
// Decode alone proves that a document is whole, not that it is the one that was
// meant: that is Verify's.
func Decode(data []byte) (Document, error) {
	d, e := decode(data)
	if e != nil {
		return Document{}, failure.Wrap(failure.Invalid, "decode evidence", e)
	}
	return d, nil
}

// Verify reads a document and checks that it is the one its name says: the bytes
// have the hash, and the header has the kind, the run and the page. The error is
// a failure.Invalid and names the first wrong line where one can be found.
func Verify(name string, data []byte) (Document, error) {
	parts, err := ParseName(name)
	if err != nil {
		return Document{}, err
	}
	d, e := decode(data)
	e = bindName(parts.Hash, data, e)
	if h := &d.Header; e == nil && (h.Kind != parts.Kind || h.RunID != parts.RunID || h.PageID != parts.PageID) {
		e = &LineError{Line: 1, Text: "the header is of another kind, run or page than the name"}
	}
	if e != nil {
		return Document{}, failure.Wrap(failure.Invalid, "verify evidence", e)
	}
	return d, nil
}

// bindName adds to what is wrong with the lines that the bytes are not those of
// the name.
func bindName(hash string, data []byte, e *LineError) *LineError {
	const text = "the bytes do not have the hash in the name"
	switch {
	case hashOf(data) == hash:
		return e
	case e == nil:
		return &LineError{Text: text + ", though the lines are whole"}
	default:
		return &LineError{Line: e.Line, Text: e.Text + "; " + text}
	}
}

func decode(data []byte) (Document, *LineError) {
	text, e := inflate(data)
	if e != nil {
		return Document{}, e
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if last := len(lines) - 1; len(lines[last]) == 0 {
		lines = lines[:last]
	} else {
		return Document{}, &LineError{Line: len(lines), Text: "does not end with a newline: cut short"}
	}
	if len(lines) < 2 {
		return Document{}, &LineError{Line: len(lines) + 1, Text: "header or trailer is missing"}
	}
	if len(lines) > MaxLines+2 {
		return Document{}, &LineError{Line: itemLine(MaxLines), Text: "too many lines"}
	}
	d, e := parse(lines[:len(lines)-1])
	if e == nil {
		e = checkSeal(lines)
	}
	if e == nil {
		e = d.check()
	}
	if e == nil {
		e = d.checkCanonical(lines[:len(lines)-1])
	}
	return d, e
}

// inflate returns the text of the one gzip member that data is.
func inflate(data []byte) ([]byte, *LineError) {
	bad := func(text string) ([]byte, *LineError) { return nil, &LineError{Text: text} }
	rest := bytes.NewReader(data)
	z, ok := inflaters.Get().(*gzip.Reader)
	if !ok {
		panic("receipt: only readers rest here")
	}
	defer inflaters.Put(z)
	if e := member(z, rest); e != nil {
		return nil, e
	}
	var text bytes.Buffer
	switch n, err := text.ReadFrom(io.LimitReader(z, MaxText+1)); {
	case n > MaxText:
		return bad("the text is too large")
	case err != nil:
		return bad(damaged)
	case rest.Len() > 0:
		return bad(trailing)
	}
	return text.Bytes(), nil
}

const (
	damaged  = "the compressed bytes are damaged"
	trailing = "bytes after the end"
)

// member opens the gzip member that data begins with.
func member(z *gzip.Reader, data *bytes.Reader) *LineError {
	other := &LineError{Text: "not compressed the way documents are"}
	head := make([]byte, len(gzipHeader))
	if n, _ := data.ReadAt(head, 0); string(head[:n]) != gzipHeader { // fewer bytes are another header
		return other
	}
	if z.Reset(data) != nil {
		return other
	}
	z.Multistream(false)
	return nil
}

// parse reads the header and the items.
func parse(lines [][]byte) (Document, *LineError) {
	var version struct {
		Schema int `json:"schema"`
	}
	if json.Unmarshal(lines[0], &version) == nil && version.Schema > Schema {
		return Document{}, &LineError{Line: 1, Text: "written by newer code", Newer: true}
	}
	var d Document
	strict := json.RejectUnknownMembers(true)
	if json.Unmarshal(lines[0], &d.Header, strict) != nil {
		return d, &LineError{Line: 1, Text: "not a header"}
	}
	d.Header.Cutoff = d.Header.Cutoff.UTC()
	d.Lines = make([]Line, len(lines)-1)
	var w wireLine
	for i := range d.Lines {
		w = wireLine{}
		if json.Unmarshal(lines[i+1], &w, strict) != nil {
			return d, &LineError{Line: itemLine(i), Text: "not an item"}
		}
		if text := d.Lines[i].set(&w); text != "" {
			return d, &LineError{Line: itemLine(i), Text: text}
		}
	}
	return d, nil
}

func (l *Line) set(w *wireLine) string {
	*l = Line{
		Item: job.Item{
			Key: w.Key, Version: w.Version, ETag: w.ETag, Size: w.Size,
			Modified: w.Modified.UTC(), Marker: w.Marker,
		},
		Decision: w.Decision, Reason: w.Reason, HoldID: w.HoldID, Proof: w.Proof,
	}
	if w.SettleAt != nil {
		l.SettleAt = w.SettleAt.UTC()
	}
	if len(w.KeyBase64) > 0 {
		l.Key = string(w.KeyBase64)
	}
	if len(w.VersionBase64) > 0 {
		l.Version = string(w.VersionBase64)
	}
	if w.Outcome != "" {
		outcome, ok := job.ParseOutcome(w.Outcome)
		if !ok {
			return "unknown outcome"
		}
		l.Outcome = outcome
	}
	return ""
}

// checkSeal computes the running hash again and names the first line that does
// not match its mark.
func checkSeal(lines [][]byte) *LineError {
	last := len(lines) - 1
	s := newSeal(last)
	for _, line := range lines[:last] {
		s.add(line)
	}
	return s.check(lines[last], s.trailer())
}

// check compares a trailer with the one that is wanted after the lines so far.
func (s *seal) check(line []byte, want *trailer) *LineError {
	last := len(s.marks)
	var found trailer
	if json.Unmarshal(line, &found, json.RejectUnknownMembers(true)) != nil {
		return &LineError{Line: last + 1, Text: "not a trailer: cut short or altered"}
	}
	if found.SHA256 == want.SHA256 {
		if found != *want || !canonical(want, line) {
			return &LineError{Line: last + 1, Text: "the trailer is altered"}
		}
		return nil
	}
	for i := range last {
		if 2*i+2 > len(found.Marks) || found.Marks[2*i:2*i+2] != want.Marks[2*i:2*i+2] {
			return &LineError{Line: i + 1, Text: "not what was sealed: altered, dropped, inserted or reordered from here on"}
		}
	}
	return &LineError{Line: last + 1, Text: "the lines before the trailer are not what was sealed"}
}

// checkCanonical reports the first line that says in other bytes what Encode
// would have written.
func (d Document) checkCanonical(lines [][]byte) *LineError {
	h := d.Header
	if !canonical(&h, lines[0]) {
		return &LineError{Line: 1, Text: "not in canonical form"}
	}
	var w wireLine
	for i := range d.Lines {
		w.set(&d.Lines[i])
		if !canonical(&w, lines[i+1]) {
			return &LineError{Line: itemLine(i), Text: "not in canonical form"}
		}
	}
	return nil
}

func canonical(v any, line []byte) bool {
	b, err := json.Marshal(v, json.Deterministic(true))
	return err == nil && bytes.Equal(append(b, '\n'), line)
}
