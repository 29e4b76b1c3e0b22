package policy

import (
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// Approval says which version of a policy may delete. There is one for each policy:
// a version that would delete more than the approved one only reports, until
// somebody approves it by name.
type Approval struct {
	Policy  string
	Rev     int64 // revision of the row: a write names the one it read; 0 is none yet
	Version int
	SHA256  string
	// RunID is the completed report-only run that the approval names; "" where the
	// version deletes no more than the one approved before.
	RunID      job.RunID
	By, Reason string
	At         time.Time
}

// Names reports whether the approval is of exactly this version.
func (a Approval) Names(p Policy) bool {
	return a.Policy == p.Name && a.Version == p.Version && a.SHA256 == p.SHA256()
}
