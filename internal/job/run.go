package job

import (
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
)

// RunState is where a run stands; internal/ledger draws the machine.
type RunState string

// The states of a run.
const (
	Scanning         RunState = "scanning"
	AwaitingApproval RunState = "awaiting_approval"
	Released         RunState = "released"
	Closed           RunState = "closed"
	Rejected         RunState = "rejected"
)

// RunStates lists every state of a run once.
func RunStates() []RunState {
	return []RunState{Scanning, AwaitingApproval, Released, Closed, Rejected}
}

// RunEvent moves a run from one state to the next.
type RunEvent string

// The events of a run.
const (
	EventAdvance RunEvent = "advance" // the scan recorded another stretch
	EventRelease RunEvent = "release" // the guard found nothing, or an operator approved
	EventAwait   RunEvent = "await"   // the guard tripped
	EventReject  RunEvent = "reject"  // an operator refused
	EventClose   RunEvent = "close"   // every page is completed or discarded
)

// RunEvents lists every event of a run once.
func RunEvents() []RunEvent {
	return []RunEvent{EventAdvance, EventRelease, EventAwait, EventReject, EventClose}
}

var runMoves = map[RunState]map[RunEvent]RunState{
	Scanning:         {EventAdvance: Scanning, EventRelease: Released, EventAwait: AwaitingApproval},
	AwaitingApproval: {EventRelease: Released, EventReject: Rejected},
	Released:         {EventClose: Closed},
	Closed:           {},
	Rejected:         {},
}

// On returns the state that follows, and whether the event is allowed at all.
func (s RunState) On(e RunEvent) (RunState, bool) {
	next, ok := runMoves[s][e]
	return next, ok
}

// Run is one policy at one scheduled instant, or one request for a tenant. The
// policy version, the mode and the cutoff are pinned when the run opens and
// never change (S1).
type Run struct {
	ID  RunID
	Rev int64 // revision of the row: a write names the one it read

	Region       string
	Policy       string
	Version      int
	PolicySHA256 string
	Mode         Mode
	Scheduled    time.Time
	Cutoff       time.Time

	// A request: one tenant, who asked and why. Empty in a scheduled run.
	Tenant    string
	RequestID string
	Reason    string

	State RunState
	// Cursor is the last key the scan has recorded; it moves in the same
	// transaction as the page record.
	Cursor string
	// What the scan has seen so far.
	Examined, Unmatched, Candidates, Pages int
	// Trips are the guard's findings in words. In an enforcing run they stop it;
	// in a report-only run they are only reported.
	Trips []string
	// Approval is the reason an operator gave for releasing or rejecting, ApprovedBy who.
	Approval, ApprovedBy string
	// Ratchet says in words why the run only reports although its policy enforces.
	Ratchet []string
	// Seal names the manifest of a closed run.
	Seal Seal

	OpenedAt, ReleasedAt, ClosedAt time.Time
	Totals                         Totals
}

// Seal is what makes a closed run's evidence one thing: Manifest is the SHA-256 of
// the stored manifest, Root that of the hash tree over its pages. 64 hex digits each.
type Seal struct{ Manifest, Root string }

// Fingerprint stands for all that the guard stopped: an approval that names it is
// about this scan and no other. 32 hex digits.
func (r Run) Fingerprint() string {
	return digest("approve", append([]string{
		string(r.ID), r.Policy, strconv.Itoa(r.Version), r.PolicySHA256, string(r.Mode), r.Cutoff.UTC().Format(time.RFC3339Nano),
		strconv.Itoa(r.Examined), strconv.Itoa(r.Candidates), strconv.Itoa(r.Pages),
	}, r.Trips...)...)
}

// Open reports whether the run still needs work.
func (r Run) Open() bool { return r.State == Scanning || r.State == Released }

// WithFailures reports whether a closed run has items that nobody deleted and
// nobody protects.
func (r Run) WithFailures() bool {
	return r.Totals.Counts[Refused]+r.Totals.Counts[Failed] > 0
}

func (r Run) on(e RunEvent) (Run, error) {
	next, ok := r.State.On(e)
	if !ok {
		return r, failure.New(failure.Conflict, "run "+string(r.ID), string(r.State)+" does not allow "+string(e))
	}
	r.State = next
	r.Rev++
	return r, nil
}

// Stretch is what one step of the scan has seen.
type Stretch struct {
	// Through is the last key seen; the cursor moves there.
	Through string
	// Examined counts listed items, Unmatched those of them that belong to no
	// tenant of the policy.
	Examined, Unmatched int
}

// Advance records a stretch, and the page in it when it belongs to a tenant.
func (r Run) Advance(s Stretch, page *Page) (Run, error) {
	r, err := r.on(EventAdvance)
	if err != nil {
		return r, err
	}
	r.Cursor = s.Through
	r.Examined += s.Examined
	r.Unmatched += s.Unmatched
	if page != nil {
		r.Pages++
		r.Candidates += page.Candidates
	}
	return r, nil
}

// Release lets the run's pages be claimed. reason is an operator's and by who; both
// are "" from the guard.
func (r Run) Release(now time.Time, trips []string, reason, by string) (Run, error) {
	r, err := r.on(EventRelease)
	r.ReleasedAt, r.Trips, r.Approval, r.ApprovedBy = now, trips, reason, by
	return r, err
}

// Await stops the run before it has any effect.
func (r Run) Await(trips []string) (Run, error) {
	r, err := r.on(EventAwait)
	r.Trips = trips
	return r, err
}

// Reject ends a run that was awaiting approval.
func (r Run) Reject(now time.Time, reason, by string) (Run, error) {
	r, err := r.on(EventReject)
	r.ClosedAt, r.Approval, r.ApprovedBy = now, reason, by
	return r, err
}

// Close records the run's totals, and its manifest.
func (r Run) Close(now time.Time, totals Totals, seal Seal) (Run, error) {
	r, err := r.on(EventClose)
	r.ClosedAt, r.Totals, r.Seal = now, totals, seal
	return r, err
}
