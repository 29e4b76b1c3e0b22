package job

import (
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/failure"
)

// Mode says whether a policy version may delete.
type Mode string

// The two modes. A report-only run goes the same way through the same code and
// ends before the delete.
const (
	ReportOnly Mode = "report-only"
	Enforce    Mode = "enforce"
)

// Ref names one item: a key, and a version where the policy works on versions.
// Both are opaque bytes of the artifact's kind.
type Ref struct {
	Key     string
	Version string
}

// Item is one listed artifact. Size is in bytes; Modified is the store's clock.
type Item struct {
	Key      string
	Version  string
	ETag     string
	Size     int64
	Modified time.Time
	// Marker says that the version is a delete marker and holds no bytes.
	Marker bool
}

// Ref returns the item's name.
func (i Item) Ref() Ref { return Ref{Key: i.Key, Version: i.Version} }

// Same reports whether o, found under the same name, is still the item that was
// planned: the exact version, or else equal ETag, time and size. Equal bytes
// uploaded again within the same second are the residue no look can close (F5).
func (i Item) Same(o Item) bool {
	if i.Key != o.Key || i.Version != o.Version {
		return false
	}
	return i.Version != "" || (i.ETag == o.ETag && i.Size == o.Size && i.Modified.Equal(o.Modified))
}

// Query asks a store for items in key order.
type Query struct {
	Bucket string
	Prefix string
	// After is exclusive and Through inclusive; both are whole keys and "" means open.
	After, Through string
	// Versions lists every version instead of the current ones.
	Versions bool
	// Token continues an earlier listing of the same query. It is never stored:
	// a scan that starts again does so after a key.
	Token string
}

// Listing is one answer to a Query, at most 1,000 items.
type Listing struct {
	Items []Item
	// Token continues the listing; "" means that this was the last answer.
	Token string
}

// Deletion asks a store to delete exactly these items and nothing else.
type Deletion struct {
	Bucket string
	Items  []Item
	// NotAfter is when the claim's right to delete ends. A request that would be
	// signed at or after it is refused with failure.Conflict and not sent (S20).
	NotAfter time.Time
}

// Answer is what a store said about one item of a Deletion.
type Answer uint8

// The answers. The zero value is no answer at all, so a store that forgets an
// item can not have it counted as deleted.
const (
	NoAnswer Answer = iota
	// Gone: the item was deleted by this request, by condition on its ETag.
	Gone
	// GoneByVersion: deleted by version id, where an absent version answers the same.
	GoneByVersion
	// Marked: a delete marker was laid; the bytes remain.
	Marked
	// NotThere: nothing stood under that name.
	NotThere
	// Differs: something else stands there; it was left alone.
	Differs
	// Locked: the store's own lock protects it.
	Locked
	// Denied: a lasting refusal, such as a missing permission.
	Denied
	// Slow: refused for rate; nothing happened.
	Slow
	// Unsure: an error that does not say whether it happened.
	Unsure
)

// Standing is what remains of an item that is no longer the current one under
// its key. Only a bucket that keeps versions answers anything but Erased.
type Standing uint8

// The standings. The zero value is no standing at all.
const (
	NoStanding Standing = iota
	// Erased: no version of the planned item remains.
	Erased
	// UnderMarker: the planned version lies directly under a delete marker.
	UnderMarker
	// Restored: a marker laid by its ETag covered equal bytes uploaded later; the
	// marker was removed and the later upload is current again.
	Restored
	// Replaced: something else stands or lies there, by somebody else's act.
	Replaced
)

// Outcome is the one final word on an item. The zero value is no outcome.
type Outcome uint8

// The outcome words, as the design defines them.
const (
	NoOutcome Outcome = iota
	Deleted
	DeletedMarkerOnly
	AlreadyAbsent
	Changed
	Superseded
	Held
	Retained
	Refused
	Failed
	// WouldDelete stands for Deleted in a report-only run.
	WouldDelete
	outcomes
)

var outcomeWords = [outcomes]string{
	"", "deleted", "deleted_marker_only", "already_absent", "changed", "superseded",
	"held", "retained", "refused", "failed", "would_delete",
}

// Outcomes lists every outcome in the order in which reports show them.
func Outcomes() []Outcome {
	all := make([]Outcome, 0, outcomes-1)
	for o := Deleted; o < outcomes; o++ {
		all = append(all, o)
	}
	return all
}

func (o Outcome) String() string {
	if o < outcomes {
		return outcomeWords[o]
	}
	return ""
}

// ParseOutcome returns the outcome of a word.
func ParseOutcome(word string) (Outcome, bool) {
	for o := Deleted; o < outcomes; o++ {
		if outcomeWords[o] == word {
			return o, true
		}
	}
	return NoOutcome, false
}

// Deletes reports whether the outcome claims that Expunge removed the item.
func (o Outcome) Deletes() bool { return o == Deleted || o == DeletedMarkerOnly }

// Proof says how a deletion is known.
type Proof string

const (
	// Answered: the store answered this claim's only request, by ETag.
	Answered Proof = "answered"
	// Inferred: concluded after an ambiguous answer, by a resume, or by version id.
	Inferred Proof = "inferred"
)

// Counts holds one number for each outcome.
type Counts [outcomes]int

// Sum adds up all outcomes.
func (c Counts) Sum() int {
	n := 0
	for _, v := range c {
		n += v
	}
	return n
}

// Plus adds d to c.
func (c Counts) Plus(d Counts) Counts {
	for i, v := range d {
		c[i] += v
	}
	return c
}

// MarshalJSON writes the numbers in the order of the outcomes, up to the last that
// is not zero. The list of outcomes only grows at its end, so a row outlives it.
func (c Counts) MarshalJSON() ([]byte, error) {
	last := len(c)
	for last > 1 && c[last-1] == 0 {
		last--
	}
	return json.Marshal(c[1:last]) // the first is no outcome
}

// UnmarshalJSON reads what MarshalJSON wrote. More numbers than outcomes are
// refused: newer code wrote them, and a count would be lost.
func (c *Counts) UnmarshalJSON(b []byte) error {
	var numbers []int
	if err := json.Unmarshal(b, &numbers); err != nil {
		return err
	}
	if len(numbers) >= len(c) {
		return failure.New(failure.Invalid, "read counts", "more numbers than outcomes")
	}
	*c = Counts{}
	copy(c[1:], numbers)
	return nil
}

// Totals are the final numbers of a page, a tenant or a run.
type Totals struct {
	Candidates int
	Counts     Counts
	// Bytes is the size of what was deleted, in bytes; in a report-only run of
	// what would have been.
	Bytes int64
}

// Plus adds u to t.
func (t Totals) Plus(u Totals) Totals {
	t.Candidates += u.Candidates
	t.Counts = t.Counts.Plus(u.Counts)
	t.Bytes += u.Bytes
	return t
}
