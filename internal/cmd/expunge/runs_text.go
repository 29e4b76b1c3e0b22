package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/report"
)

// write tells people about the runs: what is in force first, then what each run is,
// then what its pages and its items have come to.
func (l *runList) write(s *sheet) {
	for _, b := range l.Brakes {
		s.alert(red, b.sentence())
	}
	writeMissed(s, l.Missed)
	if len(l.Runs) == 0 {
		switch {
		case len(l.Missed) > 0:
		case l.Late:
			s.line("Nothing is late.")
		default:
			s.line("No run.")
		}
		return
	}
	s.heading("Runs")
	t := newTable(left("run"), wide("policy", 28), left("scheduled"), left("state"), left("mode"), right("oldest open"), right("objective"))
	for _, v := range l.Runs {
		t.Row(report.Clean(string(v.RunID)), v.version(), minute(v.Scheduled), words(string(v.State)), words(string(v.Mode)), v.oldest(), v.objective())
	}
	s.table(t)
	l.pages(s)
	if !l.Late {
		l.items(s)
	}
	for _, v := range l.Runs {
		v.notes(s)
	}
}

// version names the policy version.
func (v runView) version() string { return report.Clean(v.Policy) + "@" + strconv.Itoa(v.Version) }

func (v runView) oldest() string {
	switch {
	case v.ended():
		return "-"
	case v.Late:
		return span(time.Duration(v.OldestSeconds)*time.Second) + " (late)"
	default:
		return span(time.Duration(v.OldestSeconds) * time.Second)
	}
}

func (v runView) objective() string {
	if v.ended() {
		return "-"
	}
	return span(time.Duration(v.ObjectiveSeconds) * time.Second)
}

func (v runView) ended() bool { return v.State == job.Closed || v.State == job.Rejected }

// pages tells what the pages wait for; of late runs only the late pages.
func (l *runList) pages(s *sheet) {
	s.heading(map[bool]string{false: "Pages", true: "Pages past the objective"}[l.Late])
	columns := []column{left("run"), wide("policy", 28), right("ready"), right("waiting"), right("leased"), right("dead")}
	if !l.Late {
		columns = append(columns, right("done"))
	}
	t := newTable(columns...)
	for _, v := range l.Runs {
		k := v.Pages
		if l.Late {
			k = v.LatePages
		}
		cells := []string{report.Clean(string(v.RunID)), v.version(), number(k.Ready), number(k.Waiting), number(k.Leased), number(k.Dead)}
		if !l.Late {
			cells = append(cells, number(k.Done))
		}
		t.Row(cells...)
	}
	s.table(t)
}

// items tells what became of the candidates: the outcomes that any run has.
func (l *runList) items(s *sheet) {
	var shown []job.Outcome
	columns := []column{left("run"), wide("policy", 28), right("candidates")}
	for _, o := range job.Outcomes() {
		for _, v := range l.Runs {
			if v.Counts[o.String()] > 0 {
				shown = append(shown, o)
				columns = append(columns, right(words(o.String())))
				break
			}
		}
	}
	s.heading("Items")
	t := newTable(append(columns, right("bytes"))...)
	for _, v := range l.Runs {
		cells := []string{report.Clean(string(v.RunID)), v.version(), number(v.Candidates)}
		for _, o := range shown {
			cells = append(cells, number(v.Counts[o.String()]))
		}
		t.Row(append(cells, size(v.Bytes))...)
	}
	s.table(t)
}

// size writes a number of bytes for a table.
func size(n int64) string {
	if n == 0 {
		return "-"
	}
	return report.Human(n)
}

// notes says in words why a run waits, and why it only reports.
func (v runView) notes(s *sheet) {
	note := func(head string, texts []string) {
		if len(texts) > 0 {
			s.line()
			s.sentence("", "Run "+string(v.RunID)+" ("+v.version()+") "+head+":")
		}
		for _, text := range texts {
			s.sentence("  ", text)
		}
	}
	if v.State == job.AwaitingApproval {
		note("waits for approval", v.Guard)
	}
	note("only reports, by what stood when it was opened", v.Ratchet)
	if v.RequestID != "" {
		s.line()
		s.sentence("", "Run "+string(v.RunID)+" is request "+v.RequestID+" for tenant "+v.Tenant+".")
	}
}

// brakeView is a brake in force.
type brakeView struct {
	Policy  string    `json:"policy"`         // "" is the whole region
	Version int       `json:"policy_version"` // 0 is every version
	Reason  string    `json:"reason"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

func viewBrakes(brakes []job.Brake) []brakeView {
	views := make([]brakeView, len(brakes))
	for i, b := range brakes {
		views[i] = brakeView{Policy: b.Policy, Version: b.Version, Reason: b.Reason, By: b.By, At: b.At.UTC()}
	}
	return views
}

// scope says what a brake stops.
func (b brakeView) scope() string {
	switch {
	case b.Policy == "":
		return "the whole region"
	case b.Version == 0:
		return b.Policy + ", every version"
	default:
		return b.Policy + "@" + strconv.Itoa(b.Version)
	}
}

func (b brakeView) sentence() string {
	return "Brake on " + b.scope() + " since " + instant(b.At) + ": " + strings.TrimSuffix(b.Reason, ".") + " (" + b.By + "). Nothing of it starts until it is released."
}
