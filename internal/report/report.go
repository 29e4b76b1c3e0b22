// Package report tells people and machines what a run did.
//
// A Report is the document that a run leaves behind, .expunge/run.json. Its form
// is events/run.schema.json: every count is an integer and always there, times are
// RFC 3339 in UTC, no list is null, and the same facts give the same bytes.
// WriteText says the same to people.
//
// # What the numbers mean
//
// Candidates are items that have or owe an outcome: the sum of the outcomes once
// all is settled. Of a run that still waits, for approval or for a worker, they are
// what its scan recorded, and what has no outcome yet is in no outcome's count. An
// item that vanished between the scan and the plan is no candidate any more.
//
// BytesReclaimed counts objects that are gone. A delete marker reclaims nothing,
// and a report-only run reclaims nothing either: what it would have reclaimed
// stands apart, in BytesWouldReclaim, so that nobody reads the one for the other.
package report

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
)

// Schema is the number of the form.
const Schema = 1

// The verdicts.
const (
	Holds    = "holds"
	Violated = "violated"
)

// Report is what the runs of one region did.
type Report struct {
	Schema  int    `json:"schema"`
	Verdict string `json:"verdict"`
	// Mode is enforce only if something was deleted.
	Mode        job.Mode           `json:"mode"`
	AsOf        time.Time          `json:"as_of"`
	Runs        []Run              `json:"runs"`
	Totals      Totals             `json:"totals"`
	Tenants     []Tenant           `json:"tenants"`
	DeadLetters []DeadLetter       `json:"dead_letters"`
	Invariants  []invariant.Result `json:"invariants"`
	// RefusedNames counts names that can not be keys and were left out of every run.
	RefusedNames int `json:"refused_names"`
}

// Run is one run.
type Run struct {
	RunID      job.RunID    `json:"run_id"`
	Policy     string       `json:"policy"`
	Version    int          `json:"version"`
	SHA256     string       `json:"sha256"`
	Region     string       `json:"region"`
	Mode       job.Mode     `json:"mode"`
	Cutoff     time.Time    `json:"cutoff"`
	State      job.RunState `json:"state"`
	Candidates int          `json:"candidates"`
	Examined   int          `json:"examined"`
	Unmatched  int          `json:"unmatched"`
	// Guard holds the guard's findings in words. They stop an enforcing run until
	// somebody approves it.
	Guard []string `json:"guard"`
}

// Totals are the numbers of a tenant, or of everything.
type Totals struct {
	Candidates        int   `json:"candidates"`
	Deleted           int   `json:"deleted"`
	DeletedMarkerOnly int   `json:"deleted_marker_only"`
	AlreadyAbsent     int   `json:"already_absent"`
	Changed           int   `json:"changed"`
	Superseded        int   `json:"superseded"`
	Held              int   `json:"held"`
	Retained          int   `json:"retained"`
	Refused           int   `json:"refused"`
	Failed            int   `json:"failed"`
	WouldDelete       int   `json:"would_delete"`
	BytesReclaimed    int64 `json:"bytes_reclaimed"`
	BytesWouldReclaim int64 `json:"bytes_would_reclaim"`
}

// Tenant is one tenant over all runs.
type Tenant struct {
	Tenant string `json:"tenant"`
	Totals
}

// DeadLetter is one message that will not be tried again without an operator.
// Reason is "" when the queue moved it by itself. Run, page and tenant are "" where
// nobody knows them.
type DeadLetter struct {
	RunID    job.RunID       `json:"run_id"`
	PageID   job.PageID      `json:"page_id"`
	Tenant   string          `json:"tenant"`
	Reason   job.Reason      `json:"reason"`
	Class    job.LetterClass `json:"class"`
	Attempts int             `json:"attempts"`
}

// Exit is the status to end with: 1 when an invariant is violated, 3 when all hold
// and a run waits for approval, and otherwise 0.
func (r Report) Exit() int {
	if r.Verdict != Holds {
		return 1
	}
	for _, run := range r.Runs {
		if run.State == job.AwaitingApproval {
			return 3
		}
	}
	return 0
}

// JSON returns the document, indented and with a newline at its end.
func (r Report) JSON() ([]byte, error) {
	b, err := json.Marshal(r, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(b, '\n'), err
}

// Of returns the count of an outcome.
func (t Totals) Of(o job.Outcome) int {
	if n := t.outcome(o); n != nil {
		return *n
	}
	return 0
}

// outcome returns where an outcome is counted.
func (t *Totals) outcome(o job.Outcome) *int {
	switch o {
	case job.Deleted:
		return &t.Deleted
	case job.DeletedMarkerOnly:
		return &t.DeletedMarkerOnly
	case job.AlreadyAbsent:
		return &t.AlreadyAbsent
	case job.Changed:
		return &t.Changed
	case job.Superseded:
		return &t.Superseded
	case job.Held:
		return &t.Held
	case job.Retained:
		return &t.Retained
	case job.Refused:
		return &t.Refused
	case job.Failed:
		return &t.Failed
	case job.WouldDelete:
		return &t.WouldDelete
	default:
		return nil
	}
}

// add counts a page. Its bytes were reclaimed unless the run only reports.
func (t *Totals) add(p job.Totals, mode job.Mode) {
	t.Candidates += p.Candidates
	for _, o := range job.Outcomes() {
		*t.outcome(o) += p.Counts[o]
	}
	if mode == job.Enforce {
		t.BytesReclaimed += p.Bytes
	} else {
		t.BytesWouldReclaim += p.Bytes
	}
}

// plus adds up two totals.
func (t Totals) plus(u Totals) Totals {
	t.Candidates += u.Candidates
	for _, o := range job.Outcomes() {
		*t.outcome(o) += u.Of(o)
	}
	t.BytesReclaimed += u.BytesReclaimed
	t.BytesWouldReclaim += u.BytesWouldReclaim
	return t
}
