package receipt

import (
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// Schema is the number of the form this code writes and reads. Documents are
// kept for years: a form that was ever released is read forever.
const Schema = 1

const (
	// MaxLines is how many items a document may hold: the most a page holds.
	MaxLines = 1000
	// MaxText caps a document's uncompressed text, in bytes. A thousand items with
	// keys and versions of 1,024 control characters, each escaped to six bytes,
	// stay below it; a gzip bomb does not.
	MaxText = 16 << 20
)

// Kind tells the two documents of a page apart.
type Kind string

// The kinds of document.
const (
	Plan    Kind = "plan"
	Receipt Kind = "receipt"
)

// Header says under what authority a document was written. Every field is set,
// but for Narrows and Plan, which belong to one kind each.
type Header struct {
	Kind          Kind       `json:"kind"`
	Schema        int        `json:"schema"`
	RunID         job.RunID  `json:"run_id"`
	PageID        job.PageID `json:"page_id"`
	Tenant        string     `json:"tenant"`
	Policy        string     `json:"policy"`
	PolicyVersion int        `json:"policy_version"`
	// PolicySHA256 is the content hash of the policy version, 64 hex digits.
	PolicySHA256 string   `json:"policy_sha256"`
	Mode         job.Mode `json:"mode"`
	Bucket       string   `json:"bucket"`
	// Cutoff is the run's pinned instant; it is written as RFC 3339 in UTC.
	Cutoff time.Time `json:"cutoff"`
	// Fence is the claim that wrote the document, HoldEpoch the tenant's hold
	// epoch that was read before the holds.
	Fence       int64  `json:"fence"`
	HoldEpoch   int64  `json:"hold_epoch"`
	CodeVersion string `json:"code_version"`
	// Narrows is the hash of the plan that this plan shrinks: the page's earlier
	// one, or for a split-off item its parent's. "" in a page's first plan and in
	// receipts.
	Narrows string `json:"narrows,omitzero"`
	// Plan is the hash of the plan that this receipt answers; "" in plans.
	Plan string `json:"plan,omitzero"`
}

// Decision is what the plan says about an item. The list is closed; the zero
// value is no decision.
type Decision string

// The decisions.
const (
	// Delete: the item is to be deleted.
	Delete Decision = "delete"
	// Veto: an earlier intent named the item and a hold placed since covers it; it
	// is settled by a look, not before SettleAt.
	Veto Decision = "veto"
	// Held: a hold covers the item, and no intent ever named it.
	Held Decision = "held"
	// Retained: a candidate that stays for another reason.
	Retained Decision = "retained"
	// Moved: the item became a page of its own, which owes its outcome.
	Moved Decision = "moved"
)

// Line is one item of a document. A key or version that is not valid UTF-8 is
// kept byte for byte, in base64; Modified keeps its nanoseconds and is written
// in UTC.
type Line struct {
	job.Item
	Decision Decision
	// Reason is a short word of the caller's closed list: 1 to 40 of [a-z0-9_-].
	Reason string
	// HoldID names the hold of a veto, or of a held item when it is Expunge's own.
	HoldID string
	// SettleAt is when a veto may be settled at the earliest; zero otherwise.
	SettleAt time.Time
	// Outcome and Proof stand in receipts only. NoOutcome is an item that nobody
	// has settled yet, or that moved.
	Outcome job.Outcome
	Proof   job.Proof
}

// Document is a plan or a receipt. Its lines ascend by the bytes of the key;
// the versions of one key stand together, in the order of their listing.
type Document struct {
	Header Header
	Lines  []Line
}

// Count returns how many lines carry the decision.
func (d Document) Count(decision Decision) int {
	n := 0
	for i := range d.Lines {
		if d.Lines[i].Decision == decision {
			n++
		}
	}
	return n
}

// Deletes returns how many items the document decides to delete.
func (d Document) Deletes() int { return d.Count(Delete) }

// Totals sums the outcomes. Candidates are the items that have or still owe an
// outcome here, so it equals the sum of the outcomes once all are settled; moved
// items count in the page they moved to. Bytes is the size of the items deleted,
// in a report-only run of those it would have deleted. An item under a delete
// marker still takes its space and adds no bytes.
func (d Document) Totals() job.Totals {
	var t job.Totals
	for i := range d.Lines {
		l := &d.Lines[i]
		if l.Decision != Moved {
			t.Candidates++
		}
		if l.Outcome.String() == "" {
			continue
		}
		t.Counts[l.Outcome]++
		if l.Outcome == job.Deleted || l.Outcome == job.WouldDelete {
			t.Bytes += l.Size
		}
	}
	return t
}

// Subset reports whether narrow deletes nothing that wide does not (S19): both
// are of the same run and tenant, and every item that narrow decides to delete is
// decided so by wide, down to its ETag, size and time. The pages may differ: the
// plan of a split-off item narrows its parent's. It does not compare names: that
// narrow's Narrows is wide's hash is the caller's to check.
func Subset(narrow, wide Document) bool {
	n, w := &narrow.Header, &wide.Header
	if n.RunID != w.RunID || n.Tenant != w.Tenant || n.Bucket != w.Bucket {
		return false
	}
	allowed := make(map[job.Ref]job.Item, len(wide.Lines))
	for _, l := range wide.Lines {
		if l.Decision == Delete {
			allowed[l.Ref()] = l.Item
		}
	}
	for _, l := range narrow.Lines {
		if l.Decision != Delete {
			continue
		}
		item, ok := allowed[l.Ref()]
		if !ok || !identical(item, l.Item) {
			return false
		}
		delete(allowed, l.Ref())
	}
	return true
}

// identical is stricter than job.Item.Same: two plans of one page describe one
// listing, so even a versioned item must agree in every field.
func identical(a, b job.Item) bool {
	sameTime := a.Modified.Equal(b.Modified)
	a.Modified, b.Modified = time.Time{}, time.Time{}
	return sameTime && a == b
}
