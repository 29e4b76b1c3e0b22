package worker

import (
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// sheet is what one claim knows about the items of its plan.
type sheet struct {
	plan    string // hash of the plan in force, once it is durable
	header  receipt.Header
	lines   []line
	resumed bool
	// stop is why the claim could not go on with what is pending: a refusal for
	// rate, a call without an answer, or no time. nil when each pending item has a
	// reason of its own.
	stop error
}

// line is one item of the plan and what became of it.
type line struct {
	receipt.Line
	// target: the item is sent to the store by this claim.
	target bool
	// unsure: a request of this claim may already have removed it.
	unsure bool
	// absent: a look did not find it; Standing says what that means.
	absent bool
	// refused: the store refuses it for a lasting reason.
	refused bool
	// slow: the store's last word on it was to slow down.
	slow bool
}

// newSheet starts from a plan: what it keeps has its outcome already.
func newSheet(plan receipt.Document, resumed bool) *sheet {
	s := &sheet{header: plan.Header, lines: make([]line, len(plan.Lines)), resumed: resumed}
	for i, l := range plan.Lines {
		s.lines[i].Line = l
		switch l.Decision {
		case receipt.Delete:
			s.lines[i].target = !resumed // a resume looks first
		case receipt.Held:
			s.lines[i].Outcome = job.Held
		case receipt.Retained:
			s.lines[i].Outcome = job.Retained
			if l.Reason == reasonSuperseded {
				s.lines[i].Outcome = job.Superseded
			}
		case receipt.Veto, receipt.Moved: // settled by a look, or elsewhere
		}
	}
	return s
}

// The reasons a line gets after the decision.
const (
	reasonSuperseded = "superseded"
	reasonLocked     = "object_lock"
	reasonDenied     = "denied"
	reasonUnanswered = "unanswered"
	reasonAbandoned  = "abandoned"
)

// settle gives a line its outcome, once.
func (l *line) settle(o job.Outcome, proof job.Proof) {
	if l.Outcome == job.NoOutcome {
		l.Outcome, l.Proof, l.target = o, proof, false
	}
}

// wouldDelete settles a report-only plan.
func (s *sheet) wouldDelete() {
	for i := range s.lines {
		if l := &s.lines[i]; l.Decision == receipt.Delete {
			l.settle(job.WouldDelete, "")
		}
	}
}

// take notes the store's answer about a line. ours says that an earlier request
// of this page may already have acted: then nothing there means that it did.
func (l *line) take(a job.Answer, resumed bool) {
	ours := resumed || l.unsure
	l.slow = a == job.Slow
	switch a {
	case job.Gone:
		l.settle(job.Deleted, l.proof())
	case job.Marked:
		l.settle(job.DeletedMarkerOnly, l.proof())
	case job.GoneByVersion:
		l.settle(job.Deleted, job.Inferred)
	case job.NotThere:
		if ours {
			l.absent, l.target = true, false
		} else {
			l.settle(job.AlreadyAbsent, "")
		}
	case job.Differs:
		if ours {
			l.settle(job.Superseded, "")
		} else {
			l.settle(job.Changed, "")
		}
	case job.Locked:
		l.Reason = reasonLocked
		l.settle(job.Held, "")
	case job.Denied:
		l.refused, l.target = true, false
	case job.Slow: // nothing happened
	case job.Unsure, job.NoAnswer:
		l.unsure = true
	}
}

// proof of a deletion that the store has just answered.
func (l *line) proof() job.Proof {
	if l.unsure {
		return job.Inferred
	}
	return job.Answered
}

// targets returns the lines that are still to be sent.
func (s *sheet) targets() []*line {
	var t []*line
	for i := range s.lines {
		if s.lines[i].target {
			t = append(t, &s.lines[i])
		}
	}
	return t
}

// open returns the lines without an outcome: those that failed, and those that
// wait for a veto to be settled, with the instant at which the last of them can be.
func (s *sheet) open() (failing []*line, waiting int, until time.Time) {
	for i := range s.lines {
		l := &s.lines[i]
		switch {
		case l.Outcome != job.NoOutcome:
		case l.Decision == receipt.Veto:
			waiting++
			if l.SettleAt.After(until) {
				until = l.SettleAt
			}
		default:
			failing = append(failing, l)
		}
	}
	return failing, waiting, until
}

// refusedOnly reports whether the store refused every failing line for good.
func refusedOnly(failing []*line) bool {
	for _, l := range failing {
		if !l.refused {
			return false
		}
	}
	return len(failing) > 0
}

// anyDone reports whether an item that was to be deleted has its outcome.
func (s *sheet) anyDone() bool {
	for i := range s.lines {
		if l := &s.lines[i]; l.Decision == receipt.Delete && l.Outcome != job.NoOutcome {
			return true
		}
	}
	return false
}

// class is why the page did not settle.
func (s *sheet) class() failure.Class {
	if s.stop != nil {
		return failure.Of(s.stop)
	}
	return failure.Network
}

// document is the receipt of what is known.
func (s *sheet) document() receipt.Document {
	d := receipt.Document{Header: s.header, Lines: make([]receipt.Line, len(s.lines))}
	d.Header.Kind, d.Header.Plan, d.Header.Narrows = receipt.Receipt, s.plan, ""
	for i := range s.lines {
		d.Lines[i] = s.lines[i].Line
	}
	return d
}
