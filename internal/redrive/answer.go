package redrive

import (
	"slices"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// DeadPage is what the ledger knows of a dead page: what failed, what already
// changed, and what happens if it runs again (R93, R94). No key stands in it.
type DeadPage struct {
	PageRef
	Kind    job.Kind   `json:"kind"`
	Parent  job.PageID `json:"parent,omitzero"` // of a split-off item
	Policy  string     `json:"policy"`
	Version int        `json:"policy_version"`
	Mode    job.Mode   `json:"mode"`

	Death        job.Reason      `json:"death"`
	Class        job.LetterClass `json:"class"`
	FailureClass failure.Class   `json:"failure_class,omitzero"`
	Attempts     int             `json:"attempts"` // in all its lives
	FirstFailure time.Time       `json:"first_failure"`
	DiedAt       time.Time       `json:"died_at"`
	// RedriveID is the plan that moved it back last.
	RedriveID job.RedriveID `json:"redrive_id,omitzero"`
	// Abandoned: somebody has discarded it, and it died while that was being settled. A
	// redrive would take it up again, and needs an override.
	Abandoned bool `json:"abandoned,omitzero"`

	Candidates int            `json:"candidates"` // as the scan recorded them
	Planned    int            `json:"planned"`    // as the deciding plan found them
	Moved      int            `json:"moved"`      // split off into pages of their own
	Outcomes   map[string]int `json:"outcomes"`   // what is settled so far, by word
	Bytes      int64          `json:"bytes"`      // of what was deleted
	// OpenIntent is the committed decision that may have taken effect in part.
	OpenIntent *OpenIntent `json:"open_intent,omitzero"`
	Receipt    string      `json:"receipt,omitzero"` // SHA-256
	// Again says what happens if it runs again.
	Again string `json:"again"`
	// Copies are the dead letters of the page. They may have expired; the page has not.
	Copies []Copy `json:"copies"`
}

// OpenIntent is a page's committed decision.
type OpenIntent struct {
	Plan    string `json:"plan"` // SHA-256 of the plan in the evidence
	Deletes int    `json:"deletes"`
	// QuietAt is when nothing of it can land any more.
	QuietAt time.Time `json:"quiet_at,omitzero"`
}

// Copy is a dead letter of a page.
type Copy struct {
	MessageID string    `json:"message_id"`
	SentAt    time.Time `json:"sent_at"`
	// ExpiresAt counts from when the message was first sent: lying among the dead
	// letters begins no new retention (RD-01).
	ExpiresAt        time.Time `json:"expires_at"`
	ExpiresInSeconds int64     `json:"expires_in_seconds"`
}

func (l *look) copyOf(d job.DeadLetter) Copy {
	end := d.SentAt.Add(l.Settings.DeadLetterRetention)
	return Copy{MessageID: d.MessageID, SentAt: d.SentAt, ExpiresAt: end, ExpiresInSeconds: int64(end.Sub(l.now).Seconds())}
}

func (l *look) pageOf(run job.Run, p job.Page, copies []job.DeadLetter) DeadPage {
	d := DeadPage{
		PageRef: refOf(p), Kind: p.Kind, Parent: p.Parent, Policy: run.Policy, Version: run.Version, Mode: run.Mode,
		Death: p.Death.Reason, Class: p.Death.Reason.Class(), FailureClass: p.LastClass, Attempts: p.Attempts,
		FirstFailure: p.FirstFailure.UTC(), DiedAt: p.Death.At.UTC(), RedriveID: p.RedriveID, Abandoned: p.Abandoned,
		Candidates: p.Candidates, Planned: p.Planned, Moved: p.Moved, Outcomes: map[string]int{}, Bytes: p.Bytes,
		Receipt: p.Receipt, Again: again(run, p), Copies: []Copy{},
	}
	for _, o := range job.Outcomes() {
		if n := p.Counts[o]; n > 0 {
			d.Outcomes[o.String()] = n
		}
	}
	if p.Intent != (job.Intent{}) {
		d.OpenIntent = &OpenIntent{Plan: p.Intent.Plan, Deletes: p.Intent.Deletes, QuietAt: p.QuietAt.UTC()}
	}
	for _, c := range copies {
		d.Copies = append(d.Copies, l.copyOf(c))
	}
	slices.SortFunc(d.Copies, func(a, b Copy) int { return a.SentAt.Compare(b.SentAt) })
	return d
}

func refOf(p job.Page) PageRef { return PageRef{Run: p.Run, Tenant: p.Tenant, Page: p.ID} }

// again says what a worker would do with the page. A redrive is a new delivery and
// no proof that the first changed nothing (R93).
func again(run job.Run, p job.Page) string {
	switch {
	case run.Mode == job.ReportOnly:
		return "A worker lists the range afresh and reports. It deletes nothing."
	case p.Intent != (job.Intent{}):
		return "A worker looks at the " + strconv.Itoa(p.Intent.Deletes) + " items of the open intent again and deletes those that are unchanged and under no hold. It adds none."
	default:
		return "A worker lists the range afresh, decides by the run's cutoff, and deletes at most " + strconv.Itoa(p.Candidates) + " items."
	}
}

// pagesOf counts pages for people.
func pagesOf(n int) string {
	if n == 1 {
		return "1 page"
	}
	return strconv.Itoa(n) + " pages"
}

// Standing says what a dead letter is to the ledger.
type Standing string

// The standings.
const (
	OfDeadPage    Standing = "page"           // the command of a dead page
	Owed          Standing = "owed"           // the command of a page that was moved back, whose message may not be sent (S15)
	Stale         Standing = "stale"          // the command of a page that is not dead any more
	UnknownSource Standing = "unknown_source" // nobody wrote a reason, and no queue of ours moved it (RD-05)
	Damaged       Standing = "damaged"        // its attributes do not read, or are another body's
	Quarantined   Standing = "quarantined"    // a message that a worker refused; it is no page's death
	Newer         Standing = "newer_schema"   // a later release wrote it, and this one can not read it
	NoCommand     Standing = "no_command"     // its body is no command of this schema
	NoPage        Standing = "no_page"        // it names a page that is not on record
	OtherBody     Standing = "other_body"     // it names a page of ours and is not its command
)

// Letter is a dead letter without a dead page of ours. Its body stays where it is.
type Letter struct {
	Copy
	Standing Standing   `json:"standing"`
	Death    job.Reason `json:"death,omitzero"`  // as its writer said; none where nobody did
	Origin   job.Mode   `json:"origin,omitzero"` // of the pages queue that SQS moved it from
	Size     int        `json:"size"`            // of the body, in bytes
	SHA256   string     `json:"sha256"`          // of the body
	// Page is what the body names, where it is a command of this schema.
	Page   *PageRef `json:"page,omitzero"`
	Policy string   `json:"policy,omitzero"`
	// Text says what to do with it.
	Text string `json:"text"`
}

// Inspection is what lies dead: pages by the ledger, and letters that are no dead
// page's.
type Inspection struct {
	Region  string     `json:"region"`
	At      time.Time  `json:"at"`
	Pages   []DeadPage `json:"pages"`
	Letters []Letter   `json:"letters"`
	// MorePages and MoreLetters: there are more than the answer holds.
	MorePages   bool `json:"more_pages"`
	MoreLetters bool `json:"more_letters"`
}

// Verdict is a page and what the gates say of it.
type Verdict struct {
	DeadPage
	Moves bool   `json:"moves"` // every gate is open
	Gates []Gate `json:"gates"`
}

// Plan is what a redrive would move.
type Plan struct {
	Region string `json:"region"`
	// RedriveID and Token are empty when nothing would move: there is nothing to apply.
	RedriveID job.RedriveID `json:"redrive_id,omitzero"`
	Token     string        `json:"token,omitzero"`
	PlannedAt time.Time     `json:"planned_at"`
	ExpiresAt time.Time     `json:"expires_at,omitzero"`
	Override  string        `json:"override,omitzero"`
	Moves     int           `json:"moves"`
	Verdicts  []Verdict     `json:"verdicts"`
	// More: there are dead pages that the plan has not looked at or does not tell of.
	// Of those that stay it tells half of Settings.RedrivePlan at most.
	More bool   `json:"more"`
	Next string `json:"next"`
}

// Left is a page that a plan leaves where it is.
type Left struct {
	PageRef
	Gates []Gate `json:"gates"` // those that closed since the plan
}

// Stuck is a page that something went wrong with. It is tried again.
type Stuck struct {
	PageRef
	FailureClass failure.Class `json:"failure_class"`
	Operation    string        `json:"operation,omitzero"`
}

// Applied is what a call has moved.
type Applied struct {
	RedriveID job.RedriveID `json:"redrive_id"`
	Moved     int           `json:"moved"`     // in this call
	Before    int           `json:"before"`    // by the plan, before this call
	Left      []Left        `json:"left"`      // not moved, for a reason
	Stuck     []Stuck       `json:"stuck"`     // among the remaining
	Remaining int           `json:"remaining"` // neither moved nor left
	Swept     int           `json:"swept"`     // stale copies dropped in this call
	// Done: every page is moved or left, and no stale copy remained.
	Done bool   `json:"done"`
	Next string `json:"next"`
}

// Status is what became of a plan, from the rows alone.
type Status struct {
	RedriveID job.RedriveID `json:"redrive_id"`
	// State is planned, expired, applied, moved or closed.
	State     string    `json:"state"`
	PlannedAt time.Time `json:"planned_at"`
	ExpiresAt time.Time `json:"expires_at"`
	AppliedAt time.Time `json:"applied_at,omitzero"`
	MovedAt   time.Time `json:"moved_at,omitzero"`
	ClosedAt  time.Time `json:"closed_at,omitzero"`
	By        string    `json:"by,omitzero"`
	Reason    string    `json:"reason,omitzero"`
	Override  string    `json:"override,omitzero"`

	Pages     int `json:"pages"`
	Moved     int `json:"moved"`      // Open + Succeeded + DeadAgain
	Open      int `json:"open"`       // wait for a worker
	Succeeded int `json:"succeeded"`  // completed
	DeadAgain int `json:"dead_again"` // dead or discarded after the move
	Remaining int `json:"remaining"`  // not moved yet
	Left      int `json:"left"`       // not moved, for a reason, when the plan was done
	// SuccessRatio is Succeeded of Moved, 0 to 1.
	SuccessRatio float64 `json:"success_ratio"`
	// Recovery is how long the succeeded pages took from their first failure to
	// their success.
	Recovery *Spread `json:"recovery,omitzero"`
}

// Spread is the shortest, the middle and the longest of some times, in seconds.
type Spread struct {
	Min    float64 `json:"min_seconds"`
	Median float64 `json:"median_seconds"`
	Max    float64 `json:"max_seconds"`
}
