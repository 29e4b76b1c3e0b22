package sim

import (
	"bytes"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// saidOracles look at what is said of a message: by an event, by a dead letter, and by
// giving it back.
func saidOracles() []Oracle {
	return []Oracle{
		{"E8", "what a message came to is told by an event before it is acknowledged", on(messageAcked), silentAck},
		{"E8a", "what an event counts of a page that has ended is what its row says", on(emitted), miscounted},
		{"S7a", "a dead letter says why it is one, and of which page", on(letterWritten), mislabelled},
		{"S7b", "a message of a newer schema is left to a newer worker for as long as the queue has it", on(letterWritten), impatient},
		{"F17", "a page that was given up sends no delete, commits no intent, and ends as discarded", on(deleteSent, pageWritten), notGivenUp},
		{"S20b", "a page is called quiet only once nothing of its intents can land any more", on(pageWritten), quietEarly},
		{"E6b", "what a claim knows and has put into a receipt is named by the row that it writes next", on(pageWritten), notNamed},
		{"F13b", "neither a brake nor a wait for a veto is an attempt", on(pageWritten), charged},
		{"L2a", "the message of a page that had ended does not come back once nothing goes wrong any more", on(messageReturned), undying},
	}
}

// silentAck excuses a page whose run was not released: nobody has looked at it yet (F8).
func silentAck(t *truth, m *moment) string {
	if t.told[m.delivery.MessageID] {
		return ""
	}
	if p := t.pageOf(m.delivery.Body); p != nil {
		switch run := t.runs[p.row.Run]; {
		case run.State != job.Released && run.State != job.Closed, run.ReleasedAt.Add(skew).After(m.asked):
			return ""
		}
	}
	return "nothing is said of message " + m.delivery.MessageID
}

func miscounted(t *truth, m *moment) string {
	e := &m.event
	p := t.pages[e.JobID]
	if e.Event != audit.Succeeded && e.Event != audit.Discarded || m.by.function != string(job.Enforce) && m.by.function != string(job.ReportOnly) {
		return ""
	}
	if p == nil || !ended(p.row) {
		return "page " + string(e.JobID) + " has not ended"
	}
	all := 0
	for _, n := range p.row.Counts {
		all += n
	}
	if c := p.row.Counts; e.Count != all || e.Deleted != c[job.Deleted]+c[job.DeletedMarkerOnly] || e.Held != c[job.Held] {
		return "the row of page " + string(e.JobID) + " says otherwise"
	}
	return ""
}

// mislabelled knows what each body is. Nobody but a worker reads bodies.
func mislabelled(t *truth, m *moment) string {
	l := &m.letter
	p := t.pageOf(l.Body)
	c, err := job.Decode(readNext(l.Body))
	why := "the reason is " + string(l.Reason)
	switch {
	case !bytes.Equal(readNext(l.Body), l.Body) && l.Reason != job.ReasonNewerSchema,
		err != nil && l.Reason != job.ReasonMalformed && l.Reason != job.ReasonUnsupportedSchema,
		err == nil && c.Region != region && l.Reason != job.ReasonWrongRegion:
		return why
	case l.Reason == job.ReasonNewerSchema, err != nil, c.Region != region:
		return ""
	case l.RunID != c.RunID || l.PageID != c.PageID || l.Policy != c.Policy || l.Version != c.PolicyVersion || l.Region != c.Region:
		return "it is said to be of another page"
	case p == nil:
		if l.Reason != job.ReasonUnknownRun && l.Reason != job.ReasonUnknownPage && l.Reason != job.ReasonUnknownPolicy && l.Reason != job.ReasonHashMismatch {
			return why
		}
	case m.by != nil && m.by.function != "reconcile" && m.by.function != string(t.runs[p.row.Run].Mode):
		if l.Reason != job.ReasonWrongQueue {
			return why
		}
	case p.row.State == job.Dead && !p.row.RestartedAt.IsZero() && l.Attempts < p.row.Attempts:
		return "" // somebody who stood still tells of an earlier death
	case p.row.State == job.Dead && (l.Reason != p.row.Death.Reason || l.Attempts != p.row.Attempts):
		return why + ", and the page died of " + string(p.row.Death.Reason)
	}
	return ""
}

// impatient leaves out the queues that give a message up after few receives: copies of it
// may use them up at once.
func impatient(t *truth, m *moment) string {
	l := &m.letter
	if waited := l.FailedAt.Sub(l.FirstAt); l.Reason == job.ReasonNewerSchema && t.w.settings.MaxReceives >= 6 && waited+skew < t.w.settings.Visibility() {
		return "it waited for " + waited.String()
	}
	return ""
}

func notGivenUp(_ *truth, m *moment) string {
	switch s := m.page.State; {
	case m.kind == deleteSent && m.flight.page.Abandoned:
		return "page " + string(m.flight.page.ID) + " was given up"
	case m.was.Abandoned && (s == job.Intended || s == job.Completed || !m.page.Abandoned && s != job.Redriven):
		return "page " + string(m.page.ID) + " was given up, and is " + string(s)
	}
	return ""
}

func quietEarly(t *truth, m *moment) string {
	p := &m.page
	if p.QuietAt.Before(m.was.QuietAt) {
		return "it was to be quiet at " + m.was.QuietAt.String()
	}
	if end := p.LeaseEnd.Add(t.w.settings.RequestLifetime); p.State == job.Intended && p.Intent.Deletes > 0 && p.QuietAt.Before(end) {
		return "a request may land until " + end.String()
	}
	return ""
}

// charged looks at what the holder of a claim gives back. It waits for vetoes where its
// receipt owes an outcome of nothing else.
func charged(t *truth, m *moment) string {
	p := &m.page
	if m.by == nil || m.by.owner != p.Owner || p.Attempts < m.was.Attempts {
		return ""
	}
	if p.State == job.Planned && m.was.State == job.Claimed {
		return "a brake is counted as an attempt"
	}
	if p.State != job.Retrying || p.Receipt == m.was.Receipt {
		return ""
	}
	waits := false
	for _, l := range t.receipt(*p).Lines {
		if l.Outcome == job.NoOutcome && l.Decision != receipt.Veto {
			return ""
		}
		waits = waits || l.Outcome == job.NoOutcome
	}
	if waits {
		return "a wait for a veto is counted as an attempt"
	}
	return ""
}

// notNamed looks where nobody doubts that a receipt is kept. What a page that was given
// up is told by, a look, can be had again.
func notNamed(t *truth, m *moment) string {
	p := &m.page
	if p.Receipt != "" && p.Intent == (job.Intent{}) && !ended(*p) {
		return "it names what came of a plan that was never committed"
	}
	kept := t.kept[p.Owner] // unless it tells of pages that were never born, or another has let the page die meanwhile
	if kept == "" || p.Intent == (job.Intent{}) || p.State != job.Completed && t.document(receipt.Receipt, *p, kept).Count(receipt.Moved) > 0 || p.Abandoned || m.by == nil || m.by.owner != p.Owner || p.State == job.Claimed || p.State == job.Intended || m.was.State == job.Dead || t.w.hits[EvidenceUnsure] > 0 {
		return ""
	}
	if p.Receipt != kept && m.was.Receipt != kept {
		return "receipt " + kept + " is not named"
	}
	return ""
}

// undying leaves out messages that only a worker of the next release reads, and batches
// that took so long that the worker may have had no time left.
func undying(t *truth, m *moment) string {
	p := t.pageOf(m.delivery.Body)
	newer := !bytes.Equal(readNext(m.delivery.Body), m.delivery.Body)
	calm := t.w.epoch.Add(t.w.safety + time.Minute)
	if p == nil || newer || t.runs[p.row.Run].Mode != m.mode || !ended(p.row) || m.asked.Before(calm) || m.at.Sub(m.asked) > t.w.settings.FunctionTimeout/3 {
		return ""
	}
	if p.row.SettledAt.Add(skew).Before(m.asked) {
		return "page " + string(p.row.ID) + " ended at " + p.row.SettledAt.String()
	}
	return ""
}
