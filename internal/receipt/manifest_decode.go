package receipt

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// VerifyManifest reads a manifest that Encode wrote and checks that it is the one
// its name says. It refuses what Decode refuses of a document, totals that are not
// the sums, and entries out of order. The seal is computed from the bytes: whoever
// knows the run's row compares the two. The error is a failure.Invalid, holds a
// *LineError with the first wrong line where one can be found, and quotes nothing.
//
// The text is read line by line and never held: a bomb is refused at its first line.
func VerifyManifest(name string, data []byte) (Manifest, job.Seal, error) {
	run, hash, ok := parseManifestName(name)
	if !ok {
		return Manifest{}, job.Seal{}, failure.New(failure.Invalid, "verify manifest", "the name is not manifest/<run>/<sha256>"+suffix)
	}
	m, root, e := decodeManifest(data)
	e = bindName(hash, data, e)
	if e == nil && m.Header.RunID != run {
		e = &LineError{Line: 1, Text: "the header is of another run than the name"}
	}
	if e != nil {
		return Manifest{}, job.Seal{}, failure.Wrap(failure.Invalid, "verify manifest", e)
	}
	return m, job.Seal{Manifest: hash, Root: root}, nil
}

// decodeManifest says of several things that are wrong the first line that is not
// of its form, else the first that is not what was sealed, else the first that a
// manifest of ours never says.
func decodeManifest(data []byte) (Manifest, string, *LineError) {
	lines, e := openLines(data)
	if e != nil {
		return Manifest{}, "", e
	}
	d := manifestDecoder{all: newSeal(0)}
	for {
		line, last, e := lines.next()
		if e == nil && last {
			e = d.end(line)
		} else if e == nil {
			e = d.take(line, lines.n)
		}
		if e != nil {
			return Manifest{}, "", e
		}
		if last {
			return d.m, d.tree.root(), nil
		}
	}
}

// manifestDecoder is what was read of a manifest so far.
type manifestDecoder struct {
	m     Manifest
	all   *seal
	tree  hashTree
	pages pageCheck
	text  lineBuffer
	// wrong is the first thing that no manifest of ours says.
	wrong *LineError
}

// take reads the header or an entry.
func (d *manifestDecoder) take(line []byte, n int) *LineError {
	d.all.add(line)
	if n == 1 {
		return d.header(line)
	}
	d.tree.add(line)
	var w wirePage
	if json.Unmarshal(line, &w, json.RejectUnknownMembers(true)) != nil {
		return &LineError{Line: n, Text: "not a page"}
	}
	if d.wrong == nil { // otherwise only the seal can still say more exactly where it begins
		p := w.page()
		d.judge(n, d.pages.page(&p), &w, line)
		d.m.Pages = append(d.m.Pages, p)
	}
	return nil
}

func (d *manifestDecoder) header(line []byte) *LineError {
	var version struct {
		Schema int `json:"schema"`
	}
	if json.Unmarshal(line, &version) == nil && version.Schema > Schema {
		return &LineError{Line: 1, Text: "written by newer code", Newer: true}
	}
	var w wireManifestHeader
	if json.Unmarshal(line, &w, json.RejectUnknownMembers(true)) != nil || w.Kind != manifestKind {
		return &LineError{Line: 1, Text: "not a manifest's header"}
	}
	d.m.Header = w.header()
	d.judge(1, d.m.Header.check(), &w, line)
	return nil
}

// end reads the trailer and looks at the whole.
func (d *manifestDecoder) end(line []byte) *LineError {
	if len(d.all.marks) == 0 {
		return &LineError{Line: 1, Text: "header is missing"}
	}
	want := d.all.trailer()
	want.Root = d.tree.root()
	if e := d.all.check(line, want); e != nil {
		return e
	}
	if d.wrong != nil {
		return d.wrong
	}
	return d.pages.sums(d.m.Header)
}

// judge keeps what is wrong with line n: what its check found, or else that v is
// written in other bytes than Encode would have.
func (d *manifestDecoder) judge(n int, found string, v any, line []byte) {
	if found == "" {
		if again, err := d.text.encode(v); err != nil || !bytes.Equal(again, line) {
			found = "not in canonical form"
		}
	}
	if found != "" {
		d.wrong = &LineError{Line: n, Text: found}
	}
}

func (w *wireTotals) totals() job.Totals {
	return job.Totals{Candidates: w.Candidates, Counts: job.Counts(w.Counts), Bytes: w.Bytes}
}

func (w *wireManifestHeader) header() ManifestHeader {
	w.Scheduled, w.Cutoff = w.Scheduled.UTC(), w.Cutoff.UTC() // any other spelling is not canonical
	return ManifestHeader{
		Schema: w.Schema, RunID: w.RunID, Region: w.Region, Policy: w.Policy, PolicyVersion: w.PolicyVersion,
		PolicySHA256: w.PolicySHA256, Mode: w.Mode, RequestID: w.RequestID, Scheduled: w.Scheduled, Cutoff: w.Cutoff,
		Pages: w.Pages, Recorded: w.Recorded, Totals: w.totals(), CodeVersion: w.CodeVersion,
	}
}

func (w *wirePage) page() ManifestPage {
	return ManifestPage{
		ID: w.ID, Tenant: w.Tenant, Kind: w.Kind, Parent: w.Parent, State: w.State, Plan: w.Plan, Receipt: w.Receipt,
		Recorded: w.Recorded, Moved: w.Moved, Totals: w.totals(),
	}
}

const (
	// maxManifestLine bounds a line, in bytes: an entry with every field at its
	// longest has some 900, a header some 2,900.
	maxManifestLine = 4 << 10
	// maxManifestTrailer bounds the last line: two digits for each line before it.
	maxManifestTrailer = 2*(MaxManifestPages+1) + maxManifestLine
)

// trailerStart is what only a trailer begins with.
const trailerStart = `{"items":`

// lineReader gives out the lines of a compressed text one after the other.
type lineReader struct {
	data *bytes.Reader
	text *bufio.Reader
	n    int // the number of the line given out last
}

func openLines(data []byte) (*lineReader, *LineError) {
	r := &lineReader{data: bytes.NewReader(data)}
	z := new(gzip.Reader)
	if e := member(z, r.data); e != nil {
		return nil, e
	}
	r.text = bufio.NewReaderSize(z, maxManifestLine)
	return r, nil
}

// next returns the next line with its newline, good until the next call. last is
// the trailer, after which nothing may stand.
func (r *lineReader) next() (line []byte, last bool, e *LineError) {
	r.n++
	if r.n > MaxManifestPages+2 {
		return nil, false, &LineError{Line: r.n, Text: "too many lines"}
	}
	line, err := r.text.ReadSlice('\n')
	if !bytes.HasPrefix(line, []byte(trailerStart)) {
		return line, false, r.fault(err)
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) && len(long) <= maxManifestTrailer {
		line, err = r.text.ReadSlice('\n')
		long = append(long, line...)
	}
	if e := r.fault(err); e != nil {
		return nil, true, e
	}
	return long, true, r.close()
}

// fault says what a line that ends with err is.
func (r *lineReader) fault(err error) *LineError {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrBufferFull):
		return &LineError{Line: r.n, Text: "the line is too long"}
	case errors.Is(err, io.EOF):
		return &LineError{Line: r.n, Text: "header, trailer or newline is missing: cut short"}
	default:
		return &LineError{Line: r.n, Text: damaged}
	}
}

// close requires that nothing follows.
func (r *lineReader) close() *LineError {
	switch _, err := r.text.ReadByte(); {
	case err == nil:
		return &LineError{Line: r.n + 1, Text: trailing}
	case !errors.Is(err, io.EOF):
		return &LineError{Line: r.n, Text: damaged}
	case r.data.Len() > 0:
		return &LineError{Text: trailing}
	}
	return nil
}
