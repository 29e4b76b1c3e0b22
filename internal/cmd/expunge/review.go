package main

import (
	"context"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/report"
)

// reviewCommand asks the five questions that have to be answered before a team goes on
// with a queue in production (R131 to R135), of the deployment and not of its papers.
type reviewCommand struct {
	Days int `default:"30" help:"How many days of runs to look at."`
}

func (c *reviewCommand) exits() exits {
	return exits{Done: "go on: every question is answered by evidence", Wrong: "stop: stdout says at which question, and what is missing"}
}

// verdict is the answer to a question.
type verdict string

const (
	goOn verdict = "go"
	stop verdict = "stop"
)

// reviewed is the answer.
type reviewed struct {
	Head
	AsOf time.Time   `json:"as_of"`
	Rows []reviewRow `json:"rows"`
}

// reviewRow is one question with what was found in this deployment.
type reviewRow struct {
	ID       string  `json:"id"`
	Question string  `json:"question"`
	Verdict  verdict `json:"verdict"`
	// Evidence was found; Missing are the reasons to stop.
	Evidence []string `json:"evidence"`
	Missing  []string `json:"missing"`
}

func (q *reviewRow) found(text string)   { q.Evidence = append(q.Evidence, text) }
func (q *reviewRow) missing(text string) { q.Missing = append(q.Missing, text) }

// unknown notes what could not be looked at: nobody can go on by it.
func (q *reviewRow) unknown(what string, err error) {
	q.missing(what + " could not be looked at: " + err.Error())
}

// review is what every question is asked with.
type review struct {
	r     *deployment
	now   time.Time
	pages []observed
	more  bool
}

func (c *reviewCommand) run(ctx context.Context, d *desk) error {
	if c.Days < 1 || c.Days > 365 {
		return usage("--days is 1 to 365", "expunge review --help")
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	v := &review{r: r, now: d.Clock.Now().UTC().Truncate(time.Second)}
	if v.pages, v.more, err = observedSince(ctx, r.records, "", v.now.AddDate(0, 0, -c.Days)); err != nil {
		return err
	}
	a := &reviewed{AsOf: v.now}
	stops := 0
	for _, q := range []struct {
		id, question string
		ask          func(*review, context.Context, *reviewRow)
	}{
		{"R131", "Can cleanup repeat safely?", (*review).repeats},
		{"R132", "Can support explain one failure?", (*review).explains},
		{"R133", "Can recovery stay regional?", (*review).regional},
		{"R134", "Can the team rehearse recovery?", (*review).rehearses},
		{"R135", "Can the queue meet the objective?", (*review).meets},
	} {
		row := reviewRow{ID: q.id, Question: q.question, Verdict: goOn, Evidence: []string{}, Missing: []string{}}
		q.ask(v, ctx, &row)
		if len(row.Missing) > 0 {
			row.Verdict = stop
			stops++
		}
		a.Rows = append(a.Rows, row)
	}
	if stops > 0 {
		a.Next = []string{d.command("doctor"), d.command("drill", "--tenant="+blank, "--reason="+blank, "--wait")}
	}
	if err := d.show(a); err != nil {
		return err
	}
	if stops > 0 {
		return wrong("stop: " + report.Count(stops, "question") + " without an answer")
	}
	return nil
}

func (a *reviewed) write(s *sheet) {
	for _, q := range a.Rows {
		color := map[verdict]string{goOn: plain, stop: red}[q.Verdict]
		s.line()
		s.line(s.paint(color, strings.ToUpper(string(q.Verdict))), "  ", s.paint(bold, q.Question), " (", q.ID, ")")
		for _, text := range q.Missing {
			s.alert(red, "  missing: "+text)
		}
		for _, text := range q.Evidence {
			s.sentence("  ", text)
		}
	}
}
