package job

import (
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
)

// RedriveID names a redrive plan by its content: 32 hex digits.
type RedriveID string

// Redrive is a plan to move dead pages back. Region, instants, override and pages
// never change once it is recorded; its id is their digest.
type Redrive struct {
	ID     RedriveID
	Rev    int64 // revision of the row: a write names the one it read
	Region string
	// PlannedAt is when the gates were looked at; ExpiresAt when the plan is too old to begin.
	PlannedAt, ExpiresAt time.Time
	// Override is the reason for which gates that allow it were passed over; "" for none.
	Override string
	// Pages is how many pages the plan moves.
	Pages int

	// An operator's word, from when the plan is applied.
	AppliedAt  time.Time
	By, Reason string
	// MovedAt is when every page was moved or left for a reason, and no stale copy
	// remained among the dead letters.
	MovedAt time.Time
	// ClosedAt is when every moved page had ended. Moved, Succeeded and DiedAgain
	// count them then.
	ClosedAt                    time.Time
	Moved, Succeeded, DiedAgain int
}

// RedrivePage is one page of a plan. Hash binds it to the command's bytes.
type RedrivePage struct {
	Run    RunID
	Tenant string
	ID     PageID
	Hash   string // SHA-256 of the command, 64 hex digits
}

// NewRedrive returns the plan that moves the pages.
func NewRedrive(region string, now, expires time.Time, override string, pages []RedrivePage) Redrive {
	r := Redrive{Rev: 1, Region: region, PlannedAt: now.UTC(), ExpiresAt: expires.UTC(), Override: override, Pages: len(pages)}
	r.ID = r.digest(pages)
	return r
}

// Binds reports whether the plan is exactly one about these pages.
func (r Redrive) Binds(pages []RedrivePage) bool {
	return r.Pages == len(pages) && r.ID == r.digest(pages)
}

func (r Redrive) digest(pages []RedrivePage) RedriveID {
	parts := []string{r.Region, r.PlannedAt.Format(time.RFC3339Nano), r.ExpiresAt.Format(time.RFC3339Nano), r.Override, strconv.Itoa(len(pages))}
	for _, p := range pages {
		parts = append(parts, string(p.Run), p.Tenant, string(p.ID), p.Hash)
	}
	return RedriveID(digest("redrive", parts...))
}

// Token is what an operator shows to apply the plan: the region and the digest.
// It is no secret. It proves that its holder has seen this plan, and no other plan
// has it.
func (r Redrive) Token() string { return r.Region + "/" + string(r.ID) }

// ParseToken reads a token. The error says what is wrong with its form and quotes
// nothing of it.
func ParseToken(token string) (region string, id RedriveID, err error) {
	region, digits, _ := strings.Cut(token, "/")
	if len(token) > 128 || !isName(region) || !isHex(digits, 32) {
		return "", "", failure.New(failure.Invalid, "read token", "it is not of the form region/32 hex digits that a plan gives out")
	}
	return region, RedriveID(digits), nil
}

// Apply records the operator's word. Said again it changes nothing.
func (r Redrive) Apply(now time.Time, by, reason string) (Redrive, error) {
	switch {
	case !r.AppliedAt.IsZero():
		return r, nil
	case !now.Before(r.ExpiresAt):
		return r, failure.New(failure.Conflict, "redrive "+string(r.ID), "the plan has expired: make a new one and look at it")
	}
	r.AppliedAt, r.By, r.Reason = now.UTC(), by, reason
	r.Rev++
	return r, nil
}

// Moves records that nothing of the plan is left to be moved.
func (r Redrive) Moves(now time.Time) Redrive {
	r.MovedAt = now.UTC()
	r.Rev++
	return r
}

// Close records what became of the moved pages.
func (r Redrive) Close(now time.Time, moved, succeeded, diedAgain int) Redrive {
	r.ClosedAt, r.Moved, r.Succeeded, r.DiedAgain = now.UTC(), moved, succeeded, diedAgain
	r.Rev++
	return r
}

// Open reports whether the plan was applied and is still followed.
func (r Redrive) Open() bool { return !r.AppliedAt.IsZero() && r.ClosedAt.IsZero() }

// AutoRedrive says whether a schedule may redrive by itself, and what. It is off
// unless somebody switched it on (R16).
type AutoRedrive struct {
	Rev int64
	On  bool
	// Reason is the only reason of dead letters that it moves, Cap the most pages of one round.
	Reason Reason
	Cap    int
	By     string
	At     time.Time
}
