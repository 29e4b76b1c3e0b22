package sim

import (
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
	messageSent
	messageAcked
	letterWritten
	letterRemoved
	documentKept
	deleteSent
	effectHappened
	holdAnswered
	emitted
	measured
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

	event audit.Event
	gauge audit.Measurement
}

// tell holds a moment against every oracle that looks at its kind, and then lets the
// truth take it in.
func (w *world) tell(m *moment) {
	if m.at = w.clock(); w.nobody {
		m.by = nil
	}
	if w.broken == nil {
		for _, o := range w.oracles.of[m.kind] {
			if text := o.look(w.truth, m); text != "" {
				w.violate(o.ID, text)
			}
		}
	}
	w.truth.take(m)
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
