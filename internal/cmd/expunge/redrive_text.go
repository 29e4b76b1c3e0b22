package main

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/report"
)

// write shows dead pages, and letters that are nobody's.
func (a *inspected) write(s *sheet) {
	i := a.Inspection
	if len(i.Pages)+len(i.Letters) == 0 {
		s.line("Nothing lies dead.")
		return
	}
	if len(i.Pages) > 0 {
		s.heading("Dead pages")
		t := deadTable()
		for _, p := range i.Pages {
			t.Row(deadRow(p)...)
		}
		s.table(t)
		s.more(i.MorePages, "pages")
	}
	if len(i.Letters) > 0 {
		s.heading("Letters that are no dead page's")
		t := newTable(left("message"), left("standing"), left("reason"), left("sent"), left("expires in"), right("bytes"))
		for _, l := range i.Letters {
			t.Row(report.Clean(l.MessageID), words(string(l.Standing)), dash(string(l.Death)), minute(l.SentAt),
				span(time.Duration(l.ExpiresInSeconds)*time.Second), number(l.Size))
		}
		s.table(t)
		seen := map[string]bool{}
		for _, l := range i.Letters {
			if !seen[l.Text] {
				seen[l.Text] = true
				s.sentence("", words(string(l.Standing))+": "+l.Text)
			}
		}
		s.more(i.MoreLetters, "letters")
	}
}

func (s *sheet) more(more bool, what string) {
	if more {
		s.line("There are more ", what, " than these: ask for fewer at a time, or with a higher --limit.")
	}
}

func deadTable(more ...column) *report.Table {
	return newTable(append([]column{
		left("page"), wide("tenant", 32), wide("policy", 28), left("died of"), right("attempts"), left("died"), right("candidates"), wide("settled", 40), right("unsure"),
	}, more...)...)
}

// deadRow is a dead page for a table. Unsure is how many items an open decision
// names that have no outcome, or failed without an answer: each may be gone or still
// there.
func deadRow(p redrive.DeadPage) []string {
	unsure := 0
	if p.OpenIntent != nil {
		unsure = p.Planned - p.Moved + p.Outcomes[job.Failed.String()]
		for _, n := range p.Outcomes {
			unsure -= n
		}
		unsure = max(0, min(p.OpenIntent.Deletes, unsure))
	}
	return []string{
		report.Clean(string(p.Page)), report.Clean(p.Tenant), report.Clean(p.Policy) + "@" + strconv.Itoa(p.Version), words(string(p.Death)),
		number(p.Attempts), minute(p.DiedAt), number(p.Candidates), settled(p.Outcomes), number(unsure),
	}
}

// settled writes outcomes in one cell.
func settled(outcomes map[string]int) string {
	var parts []string
	for word, n := range outcomes {
		parts = append(parts, report.Group(int64(n))+" "+words(word))
	}
	sort.Strings(parts)
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// mostGates is how many pages' closed gates are told in full; all are in the JSON.
const mostGates = 10

// write shows what a plan would move, and why it would not.
func (a *planned) write(s *sheet) {
	p := a.Plan
	if len(p.Verdicts) == 0 {
		s.line("Nothing is dead.")
		return
	}
	s.line(report.Count(p.Moves, "page"), " of ", report.Group(int64(len(p.Verdicts))), " would move.")
	t := deadTable(left("moves"), wide("closed gates", 32))
	for _, v := range p.Verdicts {
		var shut []string
		for _, g := range v.Gates {
			if !g.Open {
				shut = append(shut, string(g.Gate))
			}
		}
		moves := "no"
		if v.Moves {
			moves = "yes"
		}
		t.Row(append(deadRow(v.DeadPage), moves, dash(strings.Join(shut, " ")))...)
	}
	s.table(t)
	s.more(p.More, "dead pages")
	told := 0
	for _, v := range p.Verdicts {
		if told < mostGates && s.gates("Page "+string(v.Page)+":", v.Gates) {
			told++
		}
	}
	if p.Override != "" {
		s.line()
		s.sentence("", "Gates that allow it are passed over: "+p.Override)
	}
	if p.Token != "" {
		s.line()
		s.facts([2]string{"token", p.Token}, [2]string{"valid until", instant(p.ExpiresAt)})
	}
	s.line()
	s.sentence("", p.Next)
}

// gates tells the gates of a page that are closed or passed over. It reports whether
// there were any.
func (s *sheet) gates(head string, gates []redrive.Gate) bool {
	told := false
	for _, g := range gates {
		if g.Open && !g.Overridden {
			continue
		}
		if !told {
			s.line()
			s.sentence("", head)
			told = true
		}
		s.sentence("  ", string(g.Gate)+": "+g.Text)
	}
	return told
}

// write tells what was moved.
func (a *applied) write(s *sheet) {
	did := a.Applied
	s.facts(
		[2]string{"redrive", string(did.RedriveID)}, [2]string{"moved", report.Count(a.Moved, "page")},
		[2]string{"left", report.Count(len(did.Left), "page")}, [2]string{"remain", report.Count(did.Remaining, "page")},
	)
	for i, l := range did.Left {
		if i < mostGates {
			s.gates("Page "+string(l.Page)+" was left:", l.Gates)
		}
	}
	if len(did.Stuck) > 0 {
		s.heading("Not moved yet")
		t := newTable(left("page"), wide("tenant", 32), left("failure"), wide("operation", 48))
		for _, p := range did.Stuck {
			t.Row(report.Clean(string(p.Page)), report.Clean(p.Tenant), words(string(p.FailureClass)), report.Clean(p.Operation))
		}
		s.table(t)
	}
	s.line()
	s.sentence("", did.Next)
}

// write tells what became of a plan.
func (a *statusOf) write(s *sheet) {
	v := a.Status
	facts := [][2]string{
		{"redrive", string(v.RedriveID)}, {"state", v.State}, {"planned", instant(v.PlannedAt)}, {"applied", instant(v.AppliedAt)},
		{"moved", instant(v.MovedAt)}, {"closed", instant(v.ClosedAt)}, {"by", v.By}, {"reason", v.Reason}, {"override", v.Override},
	}
	if v.Moved > 0 {
		facts = append(facts, [2]string{"succeeded", strconv.Itoa(int(v.SuccessRatio*100)) + " % of what was moved"})
	}
	if r := v.Recovery; r != nil {
		seconds := func(f float64) string { return span(time.Duration(f * float64(time.Second))) }
		facts = append(facts, [2]string{"recovery", "from the first failure to success " + seconds(r.Min) + ", " + seconds(r.Median) + " in the middle, " + seconds(r.Max) + " at most"})
	}
	s.facts(facts...)
	s.line()
	t := newTable(right("pages"), right("moved"), right("open"), right("succeeded"), right("dead again"), right("left"))
	t.Row(number(v.Pages), number(v.Moved), number(v.Open), number(v.Succeeded), number(v.DeadAgain), number(v.Left))
	s.table(t)
}
