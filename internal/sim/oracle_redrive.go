package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// redriveOracles look at what moves back, at what is given up, and at the plans and
// letters of both.
func redriveOracles() []Oracle {
	return []Oracle{
		{"S15f", "a page moves back only by a plan that was applied in time and by what it was then, and through gates that are open", on(pageWritten, redriveWritten), movedAgainstGates},
		{"S15c", "a call moves no more pages than a batch has, and no more in a second than the rate", on(pageWritten), tooFast},
		{"S15d", "a plan has moved all only once each of its pages was sent or left for a reason, and no older copy lies among the dead letters", on(redriveWritten), movedTooFew},
		{"S15e", "a plan is closed with an entry and the true counts, once its pages have ended", on(redriveWritten), closedWrong},
		{"S15g", "a row says that its letter is durable only once it is", on(pageWritten), letteredEarly},
		{"E7a", "a letter that is no page's shadow is removed only by an order", on(letterRemoved), letterUnordered},
		{"E7b", "every order that was taken stands in the ledger as it was given", on(worldEnded), forgotten},
		{"E5a", "who gives a page up says of each item that it failed or was refused, and of none that it is gone", on(pageWritten), givenUpWrong},
		{"S9e", "a run that waits is ended by what was shown, and one of a superseded version released only by an override on record", on(runWritten), releasedBlindly},
	}
}

// patience is how long the override of a plan holds: twice what reconcile takes for the
// largest one.
func (w *world) patience() time.Duration {
	calls := (w.settings.RedrivePlan + w.settings.RedriveBatch - 1) / w.settings.RedriveBatch
	return 2 * time.Duration(calls) * w.settings.ReconcileEvery
}

func movedAgainstGates(t *truth, m *moment) string {
	if m.kind == redriveWritten {
		was := t.redrives[m.redrive.ID]
		if was.AppliedAt.IsZero() && !m.redrive.AppliedAt.Before(m.redrive.ExpiresAt) {
			return "the plan was applied " + m.redrive.AppliedAt.Sub(m.redrive.ExpiresAt).String() + " after its end"
		}
		if was.AppliedAt.IsZero() && !t.ordered(audit.RedriveApplied, func(e audit.Entry) bool { return e.RedriveID == m.redrive.ID && e.Override == m.redrive.Override }) {
			return "its order says nothing of its override"
		}
		return ""
	}
	if m.page.State != job.Redriven || m.was.State != job.Dead || m.page.Abandoned {
		return ""
	}
	plan := t.redrives[m.page.RedriveID]
	switch {
	case plan.AppliedAt.IsZero():
		return "nobody has applied its plan"
	case m.was.Death.At.After(plan.PlannedAt.Add(skew)):
		return "it died again after the plan was made"
	case m.by == nil:
		return ""
	}
	since := m.by.began.Add(-skew)
	override := plan.Override != "" && m.at.Before(plan.AppliedAt.Add(t.w.patience()+skew))
	return t.closedGate(t.runs[m.page.Run], m.was, since, override)
}

// closedGate says which gate of the page has been closed since the instant.
func (t *truth) closedGate(run job.Run, page job.Page, since time.Time, override bool) string {
	for _, b := range t.brakes {
		if stops(&b, &run) && b.At.Before(since) {
			return "a brake is set since " + b.At.String()
		}
	}
	for _, id := range t.w.holdIDs() {
		whole := t.w.script == nil && t.w.rates[HoldsCutShort] == 0 // else nobody may have seen it
		if h := t.holds[id].hold; whole && t.holds[id].inForce() && h.Scope == hold.Tenant && h.Tenant == page.Tenant && h.PlacedAt.Before(since) {
			return id + " covers its tenant"
		}
	}
	switch {
	case override:
	case page.Abandoned:
		return "it was given up"
	case t.superseded(run, since):
		return fmt.Sprintf("version %d is superseded", run.Version)
	}
	return ""
}

// superseded reports whether a newer version of the run's policy was on record at the
// instant: a run of it had been opened.
func (t *truth) superseded(run job.Run, at time.Time) bool {
	for _, r := range t.runs {
		if r.Policy == run.Policy && r.Version > run.Version && r.OpenedAt.Before(at) {
			return true
		}
	}
	return false
}

// tooFast counts rows. What the queue does not take, or takes without an answer, does not
// count towards a batch.
func tooFast(t *truth, m *moment) string {
	if m.by == nil || m.page.State != job.Redriven || m.was.State != job.Dead || m.page.Abandoned {
		return ""
	}
	call, second := 1, 1
	for _, at := range t.moves[m.by] {
		if !at.Before(m.by.began) {
			call++
		}
		if m.at.Sub(at) < time.Second {
			second++
		}
	}
	rates := &t.w.rates
	sure := t.w.script == nil && rates[SendRefused]+rates[SendLost]+rates[SendUnsure] == 0
	if set := &t.w.settings; sure && call > set.RedriveBatch || second > set.RedriveRate {
		return fmt.Sprintf("%d pages in a call, %d in a second", call, second)
	}
	return ""
}

func movedTooFew(t *truth, m *moment) string {
	if m.redrive.MovedAt.IsZero() || !t.redrives[m.redrive.ID].MovedAt.IsZero() {
		return ""
	}
	pages, err := t.w.ledger.RedrivePages(context.Background(), m.redrive.ID)
	sure(err)
	for _, named := range pages {
		p := t.pages[named.ID]
		mine := p.row.RedriveID == m.redrive.ID
		switch {
		case mine && p.row.State == job.Redriven && p.sent.Before(p.row.RestartedAt.Add(-skew)):
			return "the message of page " + string(named.ID) + " was not sent"
		case !mine && p.row.State == job.Dead && p.row.Death.At.Before(m.redrive.PlannedAt) &&
			t.said[about{audit.RedriveLeft, string(named.ID)}].Before(m.redrive.AppliedAt.Add(-skew)):
			return "page " + string(named.ID) + " was neither moved nor left"
		case mine && p.row.State != job.Dead && t.olderLetter(m, p.row):
			return "an older copy of page " + string(named.ID) + " lies among the dead letters"
		}
	}
	return ""
}

// olderLetter reports whether a letter of the page's own lies there that was written
// before the plan was applied, and so long before that it shows: what SQS moved there by
// itself may be hidden for a visibility. One that another call has in hand, or had when it
// ended, nobody else sees.
func (t *truth) olderLetter(m *moment, p job.Page) bool {
	if t.w.far != nil || m.by == nil { // whose letters tell oracles no more than their bodies; and a late write is about what was
		return false
	}
	before := m.redrive.AppliedAt.Add(-skew - t.w.settings.Visibility())
	body := job.NewCommand(t.runs[p.Run], p).Encode()
	return slices.ContainsFunc(t.w.queue.PeekLetters(), func(d job.DeadLetter) bool {
		return bytes.Equal(d.Body, body) && shadow(d) && d.SentAt.Before(before) && !t.inHand(m, d)
	})
}

// inHand reports whether another call had taken the letter, so that it did not show when
// this one began to look.
func (t *truth) inHand(m *moment, d job.DeadLetter) bool {
	h := t.hands[d.MessageID]
	mine := m.by != nil && h.by == m.by && !h.at.Before(m.by.began)
	return !mine && m.by != nil && m.by.began.Before(h.at.Add(t.w.settings.Visibility()))
}

// shadow reports whether a letter was written by a page's death, or moved by its queue
// before anybody had read it. Any other is about a message that somebody refused.
func shadow(d job.DeadLetter) bool {
	switch d.Letter.Reason {
	case job.ReasonUnknownPolicy, job.ReasonOutsidePolicy, job.ReasonForbidden, job.ReasonAttempts, job.ReasonAge, job.ReasonNewerSchema:
		return !d.Damaged && !bytes.Contains(d.Body, schemaNext)
	case "":
		return d.Origin != "" && !d.Damaged && !bytes.Contains(d.Body, schemaNext)
	default:
		return false
	}
}

func closedWrong(t *truth, m *moment) string {
	r := &m.redrive
	if r.ClosedAt.IsZero() {
		return ""
	}
	pages, err := t.w.ledger.RedrivePages(context.Background(), r.ID)
	sure(err)
	moved, succeeded := 0, 0
	for _, named := range pages {
		p := t.pages[named.ID].row
		if p.RedriveID != r.ID {
			continue
		}
		if p.State.Open() {
			return "page " + string(p.ID) + " is " + string(p.State)
		}
		if moved++; p.State == job.Completed {
			succeeded++
		}
	}
	switch {
	case r.MovedAt.IsZero():
		return "it has not moved all"
	case r.Succeeded != succeeded || r.Moved < moved || r.Moved != r.Succeeded+r.DiedAgain || r.Moved > r.Pages:
		return fmt.Sprintf("%d moved, %d succeeded and %d died again of %d and %d", r.Moved, r.Succeeded, r.DiedAgain, moved, succeeded)
	case !t.ordered(audit.RedriveClosed, func(e audit.Entry) bool { return e.RedriveID == r.ID && e.Count == r.Moved }):
		return "no " + string(audit.RedriveClosed) + " is on record"
	}
	return ""
}

func letteredEarly(t *truth, m *moment) string {
	if m.page.State != job.Dead || m.page.Death.LetterAt.IsZero() || !m.was.Death.LetterAt.IsZero() || t.ackable(m.page) {
		return ""
	}
	return "there is no letter of its command"
}

func letterUnordered(t *truth, m *moment) string {
	d := &m.removed
	if p := t.pageOf(d.Body); p != nil && shadow(*d) {
		return ""
	}
	if t.ordered(audit.LetterDiscarded, func(e audit.Entry) bool { return e.MessageID == d.MessageID }) {
		return ""
	}
	return "letter " + d.MessageID + " was nobody's to remove"
}

func forgotten(t *truth, _ *moment) string {
	kept, err := t.w.ledger.Entries(context.Background(), t.w.epoch.Add(-365*day), t.w.clock().Add(365*day), 1<<20)
	sure(err)
	stands := map[audit.Entry]bool{}
	for _, e := range kept {
		stands[e] = true
	}
	for _, e := range t.entries {
		if !stands[e] {
			return "no " + string(e.Act) + " of " + e.At.String() + " is there"
		}
	}
	return ""
}

func givenUpWrong(_ *truth, m *moment) string {
	if m.was.State != job.Dead || m.page.State != job.Discarded {
		return ""
	}
	outcome := job.Failed
	if m.was.Death.Reason == job.ReasonForbidden {
		outcome = job.Refused
	}
	was, is := m.was.Counts, m.page.Counts
	missing := m.was.Totals().Candidates - was.Sum()
	if was[outcome] += missing; was != is || m.page.Moved != m.was.Moved || m.page.Receipt != m.was.Receipt {
		return fmt.Sprintf("it says %v after %v", is, m.was.Counts)
	}
	return ""
}

// blind signs an order that names another scan than the one that stands there.
const blind = "blind"

func releasedBlindly(t *truth, m *moment) string {
	if m.ranBefore.State != job.AwaitingApproval || m.by == nil {
		return ""
	}
	if m.run.ApprovedBy == blind {
		return "the order was about another scan"
	}
	overridden := func(e audit.Entry) bool { return e.RunID == m.run.ID && e.Override != "" }
	if m.run.State == job.Released && t.superseded(m.run, m.by.began.Add(-skew)) && !t.ordered(audit.RunApproved, overridden) {
		return fmt.Sprintf("version %d is superseded", m.run.Version)
	}
	return ""
}
