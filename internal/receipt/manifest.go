package receipt

import (
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// MaxManifestPages is how many pages a manifest may list. A run of 50 million
// objects, the most that a guard can allow, has 50,000 full pages; twenty times
// that is room for small tenants, who have a page each, for stretches without a
// candidate and for split-off items. It is a bound for readers, not a goal.
const MaxManifestPages = 1_000_000

// manifestKind stands in a manifest's header and begins its name.
const manifestKind Kind = "manifest"

// Manifest is the sealed list of a closed run's pages, in the order in which the
// ledger lists them: tenants ascending by their bytes; in a tenant the ranges by
// their start, then the split-off items by their id.
type Manifest struct {
	Header ManifestHeader
	Pages  []ManifestPage
}

// ManifestHeader says what run was closed, under what authority, with what totals.
type ManifestHeader struct {
	Schema        int
	RunID         job.RunID
	Region        string
	Policy        string
	PolicyVersion int
	PolicySHA256  string // 64 hex digits
	Mode          job.Mode
	// RequestID is "" in a scheduled run.
	RequestID string
	// Scheduled and Cutoff are the run's pinned instants.
	Scheduled, Cutoff time.Time
	// Pages is how many there are, split-off items included.
	Pages int
	// Recorded is how many candidates the scan recorded: the sum over the ranges. A
	// split-off item was recorded with its parent.
	Recorded int
	// Totals sums the pages. Candidates are the items that have an outcome: fewer
	// than Recorded when some were gone before their page was planned, or a page was
	// given up.
	Totals      job.Totals
	CodeVersion string
}

// ManifestPage is one page of a closed run.
type ManifestPage struct {
	ID     job.PageID
	Tenant string
	Kind   job.Kind
	// Parent is the page that an item was split off from, "" for a range.
	Parent job.PageID
	// State is completed or discarded.
	State job.PageState
	// Plan is the hash of the committed plan: "" when no intent was committed, as in
	// a report-only run and where nothing was to be deleted.
	Plan string
	// Receipt is the hash of the receipt that counts: "" for a page without
	// candidates, and for one that was given up before anything was decided.
	Receipt string
	// Recorded is how many candidates the scan recorded, 1 for an item.
	Recorded int
	// Moved is how many of the items became pages of their own.
	Moved  int
	Totals job.Totals
}

// NewManifestPage returns the entry of a page that is completed or discarded.
func NewManifestPage(p job.Page) ManifestPage {
	return ManifestPage{
		ID: p.ID, Tenant: p.Tenant, Kind: p.Kind, Parent: p.Parent, State: p.State, Plan: p.Intent.Plan, Receipt: p.Receipt,
		Recorded: p.Candidates, Moved: p.Moved, Totals: p.Totals(),
	}
}

// NewManifest returns the manifest of a run whose pages these are, in order, with
// the totals summed. It depends on recorded facts only: whoever closes the run
// lists the same.
func NewManifest(r job.Run, pages []ManifestPage, codeVersion string) Manifest {
	h := ManifestHeader{
		Schema: Schema, RunID: r.ID, Region: r.Region, Policy: r.Policy, PolicyVersion: r.Version, PolicySHA256: r.PolicySHA256,
		Mode: r.Mode, RequestID: r.RequestID, Scheduled: r.Scheduled, Cutoff: r.Cutoff, CodeVersion: codeVersion,
	}
	var s pageSums
	for i := range pages {
		s.add(&pages[i])
	}
	s.into(&h)
	return Manifest{Header: h, Pages: pages}
}

// pageSums adds up entries.
type pageSums struct {
	pages, recorded int
	totals          job.Totals
}

func (s *pageSums) add(p *ManifestPage) {
	s.pages++
	s.totals = s.totals.Plus(p.Totals)
	if p.Kind == job.RangePage {
		s.recorded += p.Recorded
	}
}

func (s *pageSums) into(h *ManifestHeader) {
	h.Pages, h.Recorded, h.Totals = s.pages, s.recorded, s.totals
}

// ManifestName returns where a run's manifest is kept:
//
//	manifest/<run_id>/<sha256 of the stored bytes>.jsonl.gz
func ManifestName(run job.RunID, hash string) string {
	return prefix(manifestKind, run) + hash + suffix
}

// Prefixes returns what the names of a run's evidence begin with: its plans, its
// receipts, its manifest.
func Prefixes(run job.RunID) []string {
	return []string{prefix(Plan, run), prefix(Receipt, run), prefix(manifestKind, run)}
}

func prefix(kind Kind, run job.RunID) string { return string(kind) + "/" + string(run) + "/" }

// parseManifestName takes apart what ManifestName writes.
func parseManifestName(name string) (run job.RunID, hash string, ok bool) {
	fields := strings.Split(name, "/")
	if len(fields) != 3 || fields[0] != string(manifestKind) {
		return "", "", false
	}
	hash, ok = strings.CutSuffix(fields[2], suffix)
	return job.RunID(fields[1]), hash, ok && isHex(fields[1], 32) && isHex(hash, 64)
}
