package main

import (
	"strconv"

	"github.com/expunge-aws/expunge/internal/report"
)

// write tells people: what it is about, and then the three answers.
func (e *explanation) write(s *sheet) {
	for _, b := range e.Brakes {
		s.alert(red, b.sentence())
	}
	e.subject(s)
	e.list(s, "What failed", e.Failed)
	e.deadPages(s)
	e.list(s, "What has already changed", e.Changed)
	e.items(s)
	e.list(s, "What happens if it runs again", e.Again)
	if v := e.Rehearsal; v != nil && len(v.Items) > 0 {
		s.itemTable(v.Items)
	}
}

func (e *explanation) list(s *sheet, head string, sentences []string) {
	s.heading(head)
	for _, text := range sentences {
		s.sentence("", text)
	}
}

// subject says what the explanation is about.
func (e *explanation) subject(s *sheet) {
	var facts [][2]string
	add := func(name, value string) { facts = append(facts, [2]string{name, value}) }
	if k := e.Key; k != nil {
		add("key", k.Key)
		add("bucket", k.Bucket)
		if e.Run == nil {
			add("policy", k.Policy+"@"+strconv.Itoa(k.Version))
			add("tenant", k.Tenant)
		}
	}
	if m := e.Message; m != nil {
		add("message", m.MessageID)
		add("sent", instant(m.SentAt)+", expires "+instant(m.ExpiresAt))
		add("body", report.Count(m.Size, "byte")+", SHA-256 "+m.SHA256)
	}
	if v := e.Run; v != nil {
		add("run", string(v.RunID))
		add("policy", v.version()+", "+string(v.Mode))
		add("scheduled", instant(v.Scheduled)+", cutoff "+instant(v.Cutoff))
		add("run state", words(string(v.State)))
		if v.RequestID != "" {
			add("request", v.RequestID)
		}
	}
	if p := e.Page; p != nil {
		add("page", string(p.PageID))
		add("tenant", p.Tenant)
		add("page state", words(string(p.State))+", "+report.Count(p.Attempts, "attempt"))
	} else if v := e.Run; v != nil {
		add("pages", kindsText(v.Pages))
		add("tenant", v.Tenant)
	}
	s.facts(facts...)
}

// kindsText writes the pages of a run in one line.
func kindsText(k pageKinds) string {
	text := ""
	for _, part := range []struct {
		n    int
		name string
	}{{k.Ready, "ready"}, {k.Waiting, "waiting"}, {k.Leased, "leased"}, {k.Dead, "dead"}, {k.Done, "done"}} {
		if part.n > 0 {
			if text != "" {
				text += ", "
			}
			text += report.Group(int64(part.n)) + " " + part.name
		}
	}
	if text == "" {
		return "none"
	}
	return text
}

// mostDead is how many dead pages a table shows; all are in the JSON.
const mostDead = 20

func (e *explanation) deadPages(s *sheet) {
	if len(e.Dead) == 0 {
		return
	}
	t := newTable(left("dead page"), wide("tenant", 32), left("reason"), right("attempts"), left("died"), right("items"))
	for _, p := range e.Dead[:min(len(e.Dead), mostDead)] {
		t.Row(report.Clean(string(p.PageID)), report.Clean(p.Tenant), report.Clean(string(p.Reason)), number(p.Attempts), minute(p.Died), number(p.Items))
	}
	s.table(t)
	if more := len(e.Dead) - mostDead; more > 0 {
		s.line("and ", report.Group(int64(more)), " more")
	}
}

// items lists what a plan or receipt says of each item, where that was asked for.
func (e *explanation) items(s *sheet) {
	lines := e.Items
	if e.Key != nil {
		lines = e.Key.Lines
	}
	if len(lines) == 0 {
		return
	}
	s.itemTable(lines)
}

func (s *sheet) itemTable(lines []itemView) {
	t := newTable(left("decision"), left("reason"), left("outcome"), left("proof"), left("modified"), right("size"), left("key"))
	for _, l := range lines {
		key := report.Clean(l.Key)
		if l.Version != "" {
			key += " version " + report.Clean(l.Version)
		}
		t.Row(words(string(l.Decision)), dash(l.Reason), dash(l.Outcome), dash(string(l.Proof)), minute(l.Modified), size(l.Size), key)
	}
	s.table(t)
}

// dash writes a word for a table, and a dash for none.
func dash(word string) string {
	if word == "" {
		return "-"
	}
	return words(word)
}
