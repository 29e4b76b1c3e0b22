package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// restOracles look at runs and redrives, at messages, letters, evidence, answers, and at
// the end.
func restOracles() []Oracle {
	return slices.Concat(runOracles(), redriveOracles(), []Oracle{
		{"S7", "a message that is no command of a page of ours is acknowledged only once it is a dead letter", on(messageAcked), swallowed},
		{"S15", "a dead page's letter is removed only once its message is on its way or the page has ended", on(letterRemoved), lostLetter},
		{"S16a", "reconcile sends no page again that has ended or has no attempt left", on(messageSent), sentAgain},
		{"S17", "no key stands in a message, a dead letter or an event", on(messageSent, letterWritten, emitted), leaked},
		{"E1", "a message is acknowledged only once its page is settled, dead with its letter, planned again, or not released", on(messageAcked), ackedEarly},
		{"E4", "evidence is kept under the hash of its bytes, and what a drill has shown once", on(documentKept), misnamed},
		{"F12", "what is called too late is gone, and nothing is in flight for longer than anything can land", on(holdAnswered), wrongAnswer},
		{"F12a", "what was deleted since a hold was placed is told as in flight or too late", on(holdAnswered), untoldLoss},
		{"L1", "every page is settled, or dead with its letter", on(worldEnded), lost},
		{"L2", "once nothing goes wrong any more, every run and every redrive comes to its end", on(worldEnded), stuck},
		{"L3", "a date without a run is said", on(worldEnded), silent},
	})
}

// pageOf returns the page whose command the body is, as the ledger has it.
func (t *truth) pageOf(body []byte) *pageTruth {
	c, known := t.commands[string(body)]
	if !known {
		c, _ = job.Decode(readNext(body)) // what is none names no page
		t.commands[string(body)] = c
	}
	p := t.pages[c.PageID]
	if p == nil || job.NewCommand(t.runs[p.row.Run], p.row) != c {
		return nil
	}
	return p
}

func swallowed(t *truth, m *moment) string {
	if p := t.pageOf(m.delivery.Body); p != nil && t.runs[p.row.Run].Mode == m.mode {
		return ""
	}
	if t.letters[string(m.delivery.Body)] || t.letters[string(readNext(m.delivery.Body))] {
		return ""
	}
	return "message " + m.delivery.MessageID + " is nobody's and no dead letter"
}

func ackedEarly(t *truth, m *moment) string {
	p := t.pageOf(m.delivery.Body)
	if p == nil || t.ackable(p.row) || t.runs[p.row.Run].Mode != m.mode {
		return ""
	}
	// A batch is answered as a whole, and the page may have moved on since.
	if !p.ackable.Before(m.asked) {
		return ""
	}
	newer := !bytes.Equal(readNext(m.delivery.Body), m.delivery.Body)
	if t.letters[string(m.delivery.Body)] && (newer || p.row.State == job.Dead) {
		return "" // nobody could read it, or it is a copy that came back around the gates
	}
	return "page " + string(p.row.ID) + " is " + string(p.row.State)
}

func lostLetter(t *truth, m *moment) string {
	p := t.pageOf(m.removed.Body)
	switch {
	case p == nil, !shadow(m.removed):
		return "" // no copy of the page's own
	case p.row.State == job.Dead && !p.row.Death.LetterAt.IsZero() && !t.lettered(m.removed.Body):
		return "the page is dead, and it was the last copy"
	case p.row.State == job.Redriven && (!p.row.NextDue.After(p.row.RestartedAt) || p.sent.Before(p.row.RestartedAt.Add(-skew))):
		return "the message of the page is owed"
	}
	return ""
}

// lettered reports whether a copy of the body lies among the dead letters.
func (t *truth) lettered(body []byte) bool {
	return slices.ContainsFunc(t.w.queue.PeekLetters(), func(d job.DeadLetter) bool { return bytes.Equal(d.Body, body) })
}

func sentAgain(t *truth, m *moment) string {
	if m.by == nil || m.by.function != "reconcile" {
		return ""
	}
	p := t.pageOf(m.message.Body)
	switch began := m.by.began; {
	case p == nil:
		return "the message is no page's"
	case p.row.State.Terminal() && p.row.SettledAt.Add(skew).Before(began):
		return "the page has ended"
	case p.row.State == job.Dead && p.row.Death.At.Add(skew).Before(began):
		return "the page is dead"
	}
	return ""
}

func leaked(_ *truth, m *moment) string {
	switch e := &m.event; m.kind {
	case messageSent:
		if bytes.IndexByte(m.message.Body, '~') >= 0 || strings.Contains(m.message.Group, "~") {
			return "in a message"
		}
	case letterWritten:
		if l := &m.letter; strings.Contains(l.Policy+l.Region+string(l.Reason), "~") {
			return "in a dead letter"
		}
	default:
		if strings.Contains(e.Operation, "~") || strings.Contains(e.TenantID, "~") || strings.Contains(e.Policy, "~") {
			return "in an event"
		}
	}
	return ""
}

func misnamed(t *truth, m *moment) string {
	if strings.HasPrefix(m.name, contract.EvidenceDrills) {
		if kept, known := t.drills[m.name]; known && !bytes.Equal(kept, m.data) {
			return m.name + " held other bytes"
		}
		return ""
	}
	sum := sha256.Sum256(m.data)
	if !strings.Contains(m.name, hex.EncodeToString(sum[:])) {
		return m.name + " holds other bytes"
	}
	return ""
}

func wrongAnswer(t *truth, m *moment) string {
	s, reach := &m.status, t.w.settings.FunctionTimeout+t.w.settings.RequestLifetime
	h := t.holds[s.Hold.ID]
	switch {
	case s.Answer == hold.Ended:
		return ""
	case h == nil:
		return "it answers for a hold that is not there"
	case s.Until.After(m.at.Add(reach + skew)):
		return "it is in flight until " + s.Until.String()
	}
	for _, l := range s.Listed {
		p := t.pages[l.PageID]
		if p == nil || l.Answer != hold.TooLate {
			continue
		}
		could := 0
		for _, line := range t.plan(p.row).Lines {
			if h.covers(line.Key) && (t.touched[line.Key] || t.gone(line.Key)) {
				could++
			}
		}
		if l.Items > could {
			return fmt.Sprintf("%d items of page %s are told as gone, and %d are", l.Items, l.PageID, could)
		}
	}
	return ""
}

// untoldLoss looks at complete answers. That of a hold on an item goes back as far as the
// run that deleted it last, that of any other to all runs that could still act.
func untoldLoss(t *truth, m *moment) string {
	s := &m.status
	h := t.holds[s.Hold.ID]
	if h == nil || !s.Complete || s.UnreadRuns > 0 || s.Answer == hold.Ended {
		return ""
	}
	for _, p := range t.order {
		for _, e := range p.effects {
			if !h.covers(e.Item.Key) || !e.At.After(h.placed) || !e.At.Before(m.asked) || p.restored[e.Item.Key] || e.Item.Modified.After(t.w.scheduled) {
				continue
			}
			if !slices.ContainsFunc(s.Listed, func(l hold.Page) bool {
				return t.tells(l, p.row, e.Item.Key) || h.hold.Scope == hold.Item && t.newer(l, p.row)
			}) {
				return e.Item.Key + " was deleted, and page " + string(p.row.ID) + " is not listed"
			}
		}
	}
	return ""
}

// tells reports whether what is said of a page is about what a request of p deleted: it
// is the page itself, or the one that it was split off from, or the one to which p has
// moved the item.
func (t *truth) tells(l hold.Page, p job.Page, key string) bool {
	if l.PageID == p.ID || l.PageID == p.Parent {
		return true
	}
	other := t.pages[l.PageID]
	if other == nil || other.row.Parent != p.ID {
		return false
	}
	lines := t.plan(other.row).Lines
	return len(lines) == 1 && lines[0].Key == key
}

// newer reports whether a page that deleted something is of a later run than p, whose run
// is over: a search for an item ends with the run that deleted it last.
func (t *truth) newer(l hold.Page, p job.Page) bool {
	run, other := t.runs[p.Run], t.runs[l.RunID]
	later := other.Scheduled.After(run.Scheduled) || other.Scheduled.Equal(run.Scheduled) && other.ID > run.ID
	return l.Answer == hold.TooLate && later && run.State == job.Closed
}

// gone reports whether something under the key was deleted by us.
func (t *truth) gone(key string) bool {
	for _, p := range t.order {
		for _, e := range p.effects {
			if e.Item.Key == key {
				return true
			}
		}
	}
	return false
}

func lost(t *truth, _ *moment) string {
	for _, p := range t.order {
		switch run := t.runs[p.row.Run]; {
		case run.State == job.AwaitingApproval, run.State == job.Rejected, p.row.State.Terminal():
		case p.row.State == job.Dead && t.ackable(p.row):
		default:
			return "page " + string(p.row.ID) + " is " + string(p.row.State)
		}
	}
	return ""
}

func stuck(t *truth, _ *moment) string {
	for _, r := range t.redrives {
		if r.Open() {
			return "redrive " + string(r.ID) + " is not closed"
		}
	}
	for _, run := range t.w.ledger.Runs() {
		if run.Open() {
			return "run " + string(run.ID) + " is " + string(run.State)
		}
	}
	return ""
}

func silent(t *truth, _ *moment) string {
	for _, d := range t.w.dues() {
		watch, err := t.w.ledger.Watch(context.Background(), d.policy)
		sure(err)
		id := job.ScheduledRunID(region, d.policy, d.scheduled)
		_, ran := t.runs[id]
		switch {
		case watch.Rev == 0:
			return "nobody has begun to look at the schedule of " + d.policy
		case ran || !d.scheduled.After(watch.Since):
		case t.missed[id].IsZero():
			return "the date of " + d.policy + " has no run, and no " + string(audit.DateMissed)
		case t.missed[id].After(t.measuredMissed[d.policy]):
			return "the date of " + d.policy + " has no run, and no " + string(contract.MissedDates)
		}
	}
	return ""
}
