package sim

import (
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// The rules that an oracle judges by, in the simulation's own words. Whoever asks the
// product whether a hold covers a key is blind where the product is.

// covers reports whether the hold is about the key. A hold reaches no other tenant.
func (h *holdTruth) covers(key string) bool {
	if tenantIn(key) != h.hold.Tenant {
		return false
	}
	switch h.hold.Scope {
	case hold.Item:
		return key == h.hold.Value
	case hold.Prefix:
		return strings.HasPrefix(key, h.hold.Value)
	default:
		return true
	}
}

// inForce reports whether nobody has released the hold.
func (h *holdTruth) inForce() bool { return h.hold.ReleasedAt.IsZero() }

// stops reports whether a brake is about a run.
func stops(b *job.Brake, r *job.Run) bool {
	return (b.Policy == "" || b.Policy == r.Policy) && (b.Version == 0 || b.Version == r.Version)
}

// ended reports whether nothing may happen to the page any more.
func ended(p job.Page) bool { return p.State == job.Completed || p.State == job.Discarded }

// leased reports whether a claim of the page lasts beyond the instant.
func leased(p job.Page, at time.Time) bool {
	return (p.State == job.Claimed || p.State == job.Intended) && at.Before(p.LeaseEnd)
}

// tries is how many attempts the page has had since its last redrive.
func tries(p job.Page) int { return p.Attempts - p.Spent }

// deleted reports whether the outcome says that we removed the item.
func deleted(o job.Outcome) bool { return o == job.Deleted || o == job.DeletedMarkerOnly }

// final reports whether an outcome stays: what was refused or failed is tried again.
func final(o job.Outcome) bool {
	return o != job.NoOutcome && o != job.Refused && o != job.Failed
}

// sameUpload reports whether what was found is the upload that was planned.
func sameUpload(planned, found job.Item) bool {
	if planned.Version != "" {
		return planned.Key == found.Key && planned.Version == found.Version
	}
	return planned.Key == found.Key && planned.ETag == found.ETag && planned.Size == found.Size && planned.Modified.Equal(found.Modified)
}

// tally counts the outcomes of a receipt, and the bytes of what it calls deleted.
func tally(d *receipt.Document) (counts job.Counts, bytes int64) {
	for i := range d.Lines {
		l := &d.Lines[i]
		if l.Outcome == job.NoOutcome {
			continue
		}
		counts[l.Outcome]++
		if l.Outcome == job.Deleted || l.Outcome == job.WouldDelete {
			bytes += l.Size
		}
	}
	return counts, bytes
}

// answers reports whether a receipt has the lines of its plan, some of them moved.
func answers(receipted, plan *receipt.Document) bool {
	if len(receipted.Lines) != len(plan.Lines) {
		return false
	}
	for i, l := range receipted.Lines {
		was := plan.Lines[i]
		if moved := l.Decision == receipt.Moved && was.Decision == receipt.Delete; l.Ref() != was.Ref() || l.Decision != was.Decision && !moved {
			return false
		}
	}
	return true
}

// shrinks reports whether the second plan decides to delete nothing that the first did
// not, of the same upload.
func shrinks(wide, narrow *receipt.Document) bool {
	planned := make(map[job.Ref]job.Item, len(wide.Lines))
	for _, l := range wide.Lines {
		if l.Decision == receipt.Delete {
			planned[l.Ref()] = l.Item
		}
	}
	for _, l := range narrow.Lines {
		if item, there := planned[l.Ref()]; l.Decision == receipt.Delete && (!there || !sameUpload(item, l.Item) || item.ETag != l.ETag) {
			return false
		}
	}
	return true
}
