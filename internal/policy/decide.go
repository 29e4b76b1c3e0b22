package policy

import (
	"time"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// Reason says why an item is deleted or kept. The list is closed.
type Reason string

// The reasons, in the order in which Decide looks for them.
const (
	// NoPolicy: the policy is empty, or has no prefix or no retention.
	NoPolicy Reason = "no_policy"
	// NoCutoff: the run has no cutoff.
	NoCutoff Reason = "no_cutoff"
	// Unmatched: the key belongs to no tenant of the policy.
	Unmatched Reason = "unmatched"
	// Outside: the key belongs to another tenant than the one asked about.
	Outside Reason = "outside"
	// Marker: a delete marker, and the policy works on current versions.
	Marker Reason = "marker"
	// NoDate: when the item was last modified is not known.
	NoDate Reason = "no_date"
	// Young: last modified at the cutoff or after it.
	Young Reason = "young"
	// Covered: a legal hold in force covers the item.
	Covered Reason = "held"
	// Unconditional: the store could not check that this is still the same item,
	// for there is no ETag, or no version id where the policy works on all versions.
	Unconditional Reason = "unconditional"
	// Expired: last modified before the cutoff, and nothing keeps it.
	Expired Reason = "expired"
)

// DecisionReasons lists every reason once.
func DecisionReasons() []Reason {
	return []Reason{NoPolicy, NoCutoff, Unmatched, Outside, Marker, NoDate, Young, Covered, Unconditional, Expired}
}

// Facts are everything a decision depends on. There is no clock among them: the
// cutoff was pinned when the run opened (S1).
type Facts struct {
	Policy *Policy
	// Tenant is the one whose page this is. It must be the key's own.
	Tenant string
	Cutoff time.Time
	// Holds are those of the tenant, released ones included.
	Holds hold.Set
	Item  job.Item
}

// Decision is what is to become of an item, and why.
type Decision struct {
	// Delete is true only for an expired item. Whether the run may delete at all
	// is the mode's, and whether it did is the store's.
	Delete bool
	// Candidate says that the item is under its tenant and older than the cutoff:
	// it needs an outcome, kept or not.
	Candidate bool
	// Outcome is Held or Retained for a candidate that is kept. It is NoOutcome for
	// what is no candidate, and for a delete, whose outcome is not known yet.
	Outcome job.Outcome
	Reason  Reason
	// HoldID names the hold behind the reason Covered.
	HoldID string
}

// Decide says whether an item may be deleted, and why or why not. What it does
// not know for certain, it keeps (S10).
func Decide(f Facts) Decision {
	if reason := f.noCandidate(); reason != "" {
		return Decision{Reason: reason}
	}
	if h, held := f.Holds.Covering(f.Item.Key); held {
		return Decision{Candidate: true, Outcome: job.Held, Reason: Covered, HoldID: h.ID}
	}
	condition := f.Item.ETag
	if f.Policy.Versions == AllVersions {
		condition = f.Item.Version
	}
	if condition == "" {
		return Decision{Candidate: true, Outcome: job.Retained, Reason: Unconditional}
	}
	return Decision{Candidate: true, Delete: true, Reason: Expired}
}

// noCandidate returns why the item is no candidate, or "".
func (f Facts) noCandidate() Reason {
	if f.Policy == nil || f.Policy.Prefix() == "" ||
		f.Policy.RetentionDays < MinRetentionDays || f.Policy.RetentionDays > MaxRetentionDays {
		return NoPolicy
	}
	if f.Cutoff.IsZero() {
		return NoCutoff
	}
	switch tenant, ok := f.Policy.TenantOf(f.Item.Key); {
	case !ok:
		return Unmatched
	case tenant != f.Tenant:
		return Outside
	case f.Item.Marker && f.Policy.Versions != AllVersions:
		return Marker
	case f.Item.Modified.IsZero():
		return NoDate
	case !f.Item.Modified.Before(f.Cutoff):
		return Young
	}
	return ""
}
