package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// momentKind is what a moment is about.
type momentKind uint8

const (
	runWritten momentKind = iota
	pageWritten
	holdWritten
	brakeWritten
	approvalWritten
	entryWritten
	redriveWritten
	autoWritten
	messageSent
	messageAcked
	messageReturned
	letterWritten
	letterRemoved
	documentKept
	deleteSent
	effectHappened
	holdAnswered
	orderAnswered
	emitted
	measured
	startAsked // reconcile asked for the run of a date, with or without an effect
	passEnded  // of reconcile, without an error
	worldEnded
	momentKinds
)

// moment is one thing that took effect, at its instant. Oracles see nothing else. Its
// fields belong to its kind; those of other kinds are zero.
type moment struct {
	at   time.Time
	kind momentKind
	by   *instance // nil for what no invocation did

	ranBefore, run job.Run
	was, page      job.Page // before and after the write; was is zero for a new one
	children       []job.Page
	hold           hold.Hold // of a release only its names and the instant
	brake          job.Brake
	released       bool
	approval       policy.Approval
	entry          audit.Entry
	redrive        job.Redrive
	auto           job.AutoRedrive

	mode     job.Mode
	message  job.Message
	delivery job.Delivery
	letter   job.Letter
	removed  job.DeadLetter

	name string
	data []byte

	flight *flight
	effect artifact.Effect

	status hold.Status
	asked  time.Time // when the question began
	// request is what somebody ordered of redrive, answer what redrive answered.
	request, answer any

	scheduled time.Time // the date of which a run was asked for

	event audit.Event
	gauge audit.Measurement
}

// tell holds a moment against every oracle that looks at its kind, and then lets the
// truth take it in.
func (w *world) tell(what moment) {
	w.told = what // in one place: moments are large, and most of what a world makes
	m := &w.told
	switch m.kind {
	case runWritten, pageWritten, holdWritten, approvalWritten, redriveWritten:
		w.rewrites++
	default: // may say again what is so
	}
	if m.at = w.clock(); w.nobody {
		m.by = nil
	}
	if w.trace != nil {
		w.show(m)
	}
	if w.broken == nil {
		for _, o := range w.oracles.of[m.kind] {
			if text := o.look(w.truth, m); text != "" && !slices.Contains(w.deaf, o.ID) {
				w.violate(o.ID, text)
			}
		}
	}
	w.truth.take(m)
}

// show tells what took effect, for the reader of a trace.
func (w *world) show(m *moment) {
	var text string
	switch p, r := &m.page, &m.run; m.kind {
	case runWritten:
		text = fmt.Sprintf("run %.6s is %s: %d pages, %d candidates", r.ID, r.State, r.Pages, r.Candidates)
	case pageWritten:
		text = fmt.Sprintf("page %.6s of run %.6s (%s, %q to %q) is %s: claim %d, attempt %d, %d split off", p.ID, p.Run, p.Tenant, p.After, p.Through,
			p.State, p.Fence, p.Attempts, len(m.children))
	case effectHappened:
		text = fmt.Sprintf("%s of %s is gone (marker %t, restored %t)", m.effect.Item.Key, m.effect.Item.Modified.Format(time.DateTime), m.effect.Marker, m.effect.Restored)
	case holdWritten:
		text = fmt.Sprintf("%s on %s %s is written, epoch %d, released %t", m.hold.ID, m.hold.Tenant, m.hold.Value, m.hold.Epoch, !m.hold.ReleasedAt.IsZero())
	case holdAnswered:
		text = fmt.Sprintf("%s is answered %s until %s, complete %t, %d pages listed", m.status.Hold.ID, m.status.Answer, m.status.Until.Format(time.TimeOnly), m.status.Complete, len(m.status.Listed))
	case messageAcked:
		text = "message " + m.delivery.MessageID + " is acknowledged"
	case letterWritten:
		text = "a dead letter is written: " + string(m.letter.Reason)
	default:
		return
	}
	_, _ = fmt.Fprintf(w.trace, "%13s%s\n", "", text) // a trace that can not be written is not worth a failure
}

// Violation is an oracle's finding.
type Violation struct {
	Oracle string
	At     time.Time
	Text   string
	// Also are the oracles that found something in the same instant.
	Also []string
}

func (w *world) violate(id, text string) {
	w.log(nil, "VIOLATION", id+": "+text)
	if w.broken != nil {
		w.broken.Also = append(w.broken.Also, id)
		return
	}
	w.broken = &Violation{Oracle: id, At: w.clock(), Text: text}
}
