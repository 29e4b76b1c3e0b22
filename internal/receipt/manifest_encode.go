package receipt

import (
	"bytes"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// wireTotals are the sums of a page or a run.
type wireTotals struct {
	Candidates int        `json:"candidates"`
	Counts     wireCounts `json:"counts,omitzero"`
	Bytes      int64      `json:"bytes"`
}

// wireCounts writes each outcome that occurs by its word, in the order of the
// outcomes: whoever reads it in ten years needs no table.
type wireCounts job.Counts

// MarshalJSONTo writes the words and their numbers.
func (c wireCounts) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for i, n := range c {
		if n == 0 {
			continue
		}
		if err := enc.WriteToken(jsontext.String(job.Outcome(i).String())); err != nil {
			return err
		}
		if err := enc.WriteToken(jsontext.Int(int64(n))); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}

// UnmarshalJSONFrom reads what MarshalJSONTo wrote.
func (c *wireCounts) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*c = wireCounts{}
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return failure.New(failure.Invalid, "read counts", "not an object")
	}
	for dec.PeekKind() == '"' {
		word, err := dec.ReadToken()
		if err != nil {
			return err
		}
		outcome, ok := job.ParseOutcome(word.String())
		if !ok {
			return failure.New(failure.Invalid, "read counts", "unknown outcome")
		}
		if err := json.UnmarshalDecode(dec, &c[outcome]); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// wireManifestHeader is a manifest's first line.
type wireManifestHeader struct {
	Kind          Kind      `json:"kind"`
	Schema        int       `json:"schema"`
	RunID         job.RunID `json:"run_id"`
	Region        string    `json:"region"`
	Policy        string    `json:"policy"`
	PolicyVersion int       `json:"policy_version"`
	PolicySHA256  string    `json:"policy_sha256"`
	Mode          job.Mode  `json:"mode"`
	RequestID     string    `json:"request_id,omitzero"`
	Scheduled     time.Time `json:"scheduled"`
	Cutoff        time.Time `json:"cutoff"`
	Pages         int       `json:"pages"`
	Recorded      int       `json:"recorded"`
	wireTotals
	CodeVersion string `json:"code_version"`
}

// wirePage is an entry's line. As in a document's, what changes stands first.
type wirePage struct {
	ID       job.PageID `json:"page_id"`
	Plan     string     `json:"plan,omitzero"`
	Receipt  string     `json:"receipt,omitzero"`
	Recorded int        `json:"recorded"`
	wireTotals
	Moved  int           `json:"moved,omitzero"`
	Tenant string        `json:"tenant"`
	Kind   job.Kind      `json:"kind"`
	Parent job.PageID    `json:"parent,omitzero"`
	State  job.PageState `json:"state"`
}

func totalsOf(t job.Totals) wireTotals {
	return wireTotals{Candidates: t.Candidates, Counts: wireCounts(t.Counts), Bytes: t.Bytes}
}

func (w *wireManifestHeader) set(h *ManifestHeader) {
	*w = wireManifestHeader{
		Kind: manifestKind, Schema: h.Schema, RunID: h.RunID, Region: h.Region,
		Policy: h.Policy, PolicyVersion: h.PolicyVersion, PolicySHA256: h.PolicySHA256, Mode: h.Mode, RequestID: h.RequestID,
		Scheduled: h.Scheduled.UTC(), Cutoff: h.Cutoff.UTC(), Pages: h.Pages, Recorded: h.Recorded, wireTotals: totalsOf(h.Totals),
		CodeVersion: h.CodeVersion,
	}
}

func (w *wirePage) set(p *ManifestPage) {
	*w = wirePage{
		ID: p.ID, Plan: p.Plan, Receipt: p.Receipt, Recorded: p.Recorded, wireTotals: totalsOf(p.Totals), Moved: p.Moved,
		Tenant: p.Tenant, Kind: p.Kind, Parent: p.Parent, State: p.State,
	}
}

// Encode returns the manifest's stored bytes and their seal, which is what the
// run's row keeps. Equal manifests give equal text and root. A manifest that
// VerifyManifest would refuse is not written: the error is a failure.Bug and holds
// a *LineError. Nothing is kept of a line once it is compressed.
func (m Manifest) Encode() (seal job.Seal, data []byte, err error) {
	if e := m.check(); e != nil {
		return job.Seal{}, nil, failure.Wrap(failure.Bug, "encode manifest", e)
	}
	var out bytes.Buffer
	out.Grow(128 * (len(m.Pages) + 8)) // a page takes some 95 bytes, and the header a few hundred
	err = compress(&out, func(z io.Writer) (err error) {
		seal.Root, err = m.write(z)
		return err
	})
	if err != nil {
		return job.Seal{}, nil, failure.Wrap(failure.Bug, "encode manifest", err)
	}
	seal.Manifest = hashOf(out.Bytes())
	return seal, out.Bytes(), nil
}

// write writes the text and returns the root.
func (m Manifest) write(to io.Writer) (root string, err error) {
	var (
		text lineBuffer
		all  = newSeal(len(m.Pages) + 1)
		tree hashTree
		head wireManifestHeader
		page wirePage
	)
	head.set(&m.Header)
	line, err := text.encode(&head)
	if err != nil {
		return "", &LineError{Line: 1, Text: "a time is out of range"}
	}
	all.add(line)
	if _, err := to.Write(line); err != nil {
		return "", err
	}
	for i := range m.Pages {
		page.set(&m.Pages[i])
		line, err := text.encode(&page)
		if err != nil {
			return "", &LineError{Line: itemLine(i), Text: "not in a form that can be written"}
		}
		all.add(line)
		tree.add(line)
		if _, err := to.Write(line); err != nil {
			return "", err
		}
	}
	end := all.trailer()
	end.Root = tree.root()
	if line, err = text.encode(end); err != nil {
		return "", err
	}
	_, err = to.Write(line)
	return end.Root, err
}

// lineBuffer holds one line at a time.
type lineBuffer struct{ bytes.Buffer }

// encode returns the line of a value, good until the next call.
func (b *lineBuffer) encode(v any) ([]byte, error) {
	b.Reset()
	if err := json.MarshalWrite(b, v, json.Deterministic(true)); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
