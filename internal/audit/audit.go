// Package audit is the closed vocabulary of events, with the only fields that may leave the process.
//
// An event is one JSON line. Ids of runs, pages and tenants may stand in it; keys,
// bodies and the text of errors may not, and there is no field to put them in.
// An event about an act that an operator orders is written before the act; one
// about an outcome is written after the ledger has it, so that a line is never
// ahead of the record it speaks of.
//
// What is measured goes the same way, as lines that CloudWatch reads. Most of it is
// the number of events of a kind, so one table says which event counts for what, and
// no step has to say a thing twice.
package audit

import (
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Name is what happened.
type Name string

// The events. The first five are requirement R99's.
const (
	Enqueued     Name = "cleanup_enqueued"
	Attempted    Name = "cleanup_attempted"
	Succeeded    Name = "cleanup_succeeded"
	DeadLettered Name = "cleanup_dead_lettered"
	Redriven     Name = "cleanup_redriven"

	// Discarded: a page that an operator gave up has been settled, and nothing was deleted for it.
	Discarded Name = "cleanup_discarded"
	// Retried: an attempt failed for now and the page waits for another.
	Retried Name = "cleanup_retried"
	// DuplicateObserved: a delivery found its page already settled.
	DuplicateObserved Name = "cleanup_duplicate_observed"
	// RedriveRefused: a dead page came back without an approved redrive.
	RedriveRefused Name = "cleanup_redrive_refused"
	// RedriveLeft: gates keep a dead page where it is; the operation names them.
	RedriveLeft Name = "cleanup_redrive_left"
	// Deferred: the invocation had no time left to start the message.
	Deferred Name = "cleanup_deferred"
	// Parked: a brake sent the page back.
	Parked Name = "cleanup_parked"
	// EvidenceFailed: a plan or a receipt could not be written, so the page goes no further.
	EvidenceFailed Name = "cleanup_evidence_failed"
	// MarkerUndone: a delete marker covered another version and was removed.
	MarkerUndone Name = "cleanup_marker_undone"
	// RunOpened, GuardTripped, RunReleased, RunClosed tell a run's life.
	RunOpened    Name = "run_opened"
	GuardTripped Name = "run_guard_tripped"
	RunReleased  Name = "run_released"
	RunClosed    Name = "run_closed"
	// TotalsMismatch: a run's pages do not add up to what its scan recorded.
	TotalsMismatch Name = "run_totals_mismatch"
	// VersionNotApproved: a run only reports, because nobody has approved that its
	// policy version deletes more than the approved one.
	VersionNotApproved Name = "policy_version_not_approved"
	// SealFailed: the manifest of a run could not be kept, so the run stays open.
	SealFailed Name = "run_seal_failed"
	// PolicyRefused: a policy version was published before with other content.
	PolicyRefused Name = "policy_refused"
	// BucketRefused: a policy's bucket could not be listed, and no run was opened.
	BucketRefused Name = "bucket_refused"
	// BatchEntriesRefused: the queue took only a part of the messages.
	BatchEntriesRefused Name = "send_incomplete"
	// DateMissed: a scheduled date has no run.
	DateMissed Name = "run_date_missed"

	// What an operator orders. Each is also an Entry in the ledger before it happens (E7).
	RedriveApplied  Name = "redrive_applied"
	RedriveClosed   Name = "redrive_closed"
	AutoRedriveSet  Name = "redrive_schedule_set"
	PageDiscarded   Name = "page_discarded"
	LetterDiscarded Name = "letter_discarded"
	HoldPlaced      Name = "hold_placed"
	HoldReleased    Name = "hold_released"
	BrakeSet        Name = "brake_set"
	BrakeReleased   Name = "brake_released"
	RunApproved     Name = "run_approved"
	RunRejected     Name = "run_rejected"
	VersionApproved Name = "policy_version_approved"
	DrillStarted    Name = "drill_started"
	DrillPassed     Name = "drill_passed"
	DrillFailed     Name = "drill_failed"
)

// Event is one line. JobID is the page: the durable command (R100). Attempt is
// the ledger's number, not the queue's.
type Event struct {
	Time         time.Time     `json:"timestamp"`
	Event        Name          `json:"event"`
	Region       string        `json:"region"`
	RunID        job.RunID     `json:"run_id,omitzero"`
	JobID        job.PageID    `json:"job_id,omitzero"`
	TenantID     string        `json:"tenant_id,omitzero"`
	Policy       string        `json:"policy,omitzero"`
	Version      int           `json:"policy_version,omitzero"`
	Attempt      int           `json:"attempt"`
	QueueAgeMS   int64         `json:"queue_age_ms"`
	FailureClass failure.Class `json:"failure_class,omitzero"`
	// Operation is what failed, in our own fixed words; never an error's text.
	Operation   string     `json:"operation,omitzero"`
	Reason      job.Reason `json:"reason,omitzero"`
	MessageID   string     `json:"message_id,omitzero"`
	CodeVersion string     `json:"code_version,omitzero"`
	// Count is what the event counts: messages sent, items settled.
	Count int `json:"count,omitzero"`
	// Deleted and Held are how many of the settled items are gone, by a marker too, and
	// how many a hold or a lock has kept.
	Deleted int `json:"deleted,omitzero"`
	Held    int `json:"held,omitzero"`
	// RecoveryMS is from the first failure of a page to its success, if it ever failed.
	RecoveryMS int64         `json:"recovery_ms,omitzero"`
	HoldID     string        `json:"hold_id,omitzero"`
	RedriveID  job.RedriveID `json:"redrive_id,omitzero"`
	// Scheduled is the instant of the schedule that the event is about.
	Scheduled time.Time `json:"scheduled,omitzero"`
}

// About fills in the run and the page of an event.
func (e Event) About(r job.Run, p job.Page) Event {
	e.Region, e.RunID, e.Policy, e.Version = r.Region, r.ID, r.Policy, r.Version
	e.JobID, e.TenantID, e.Attempt = p.ID, p.Tenant, p.Attempts
	return e
}

// Sink takes events. It must not fail the step: losing a log line may not undo
// what the ledger has recorded.
type Sink interface {
	Emit(e Event)
}

// Lines writes each event as one JSON line. It is safe for concurrent use.
type Lines struct {
	mu    sync.Mutex
	w     io.Writer
	stage string
}

// NewLines returns a sink that writes to w. Measurements are those of the stage.
func NewLines(w io.Writer, stage string) *Lines { return &Lines{w: w, stage: stage} }

// Emit writes the event in one call. Whatever its values, the line is printed
// ASCII, so a value can not forge a line or hide one.
func (l *Lines) Emit(e Event) {
	b, err := json.Marshal(e, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return // only an instant outside of the years 0 to 9999 can do this
	}
	l.write(b)
}

// write prints the line in one call.
func (l *Lines) write(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.w.Write(append(ascii(line), '\n')) // the process has nowhere else to say that its log is gone
}

// ascii escapes what JSON leaves as it is inside a string and some readers do not:
// U+0085 and U+2028 end a line, U+009B moves the cursor, others turn the text around.
func ascii(line []byte) []byte {
	out := make([]byte, 0, len(line)+1)
	for _, r := range string(line) {
		if r < 0x7f {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// Log keeps events in memory, for tests and the local run.
type Log struct {
	mu       sync.Mutex
	events   []Event
	measured []Measurement
}

// Emit appends the event.
func (l *Log) Emit(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// Events returns a copy of what was emitted, in order.
func (l *Log) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Event(nil), l.events...)
}

// Both emits to two sinks.
func Both(a, b Sink) Sink { return both{a, b} }

type both struct{ a, b Sink }

func (s both) Emit(e Event) {
	s.a.Emit(e)
	s.b.Emit(e)
}
