package main

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/report"
)

// missedDate is a scheduled date that never ran.
type missedDate struct {
	Policy    string    `json:"policy"`
	Day       string    `json:"day"` // in the policy's zone
	Scheduled time.Time `json:"scheduled"`
	// Skipped: a clock change took the date away, and no schedule fires on it.
	Skipped bool `json:"skipped"`
}

// missedWindow is how far back dates are looked for. What is older was said in its
// time, and the next run has taken what it left.
const missedWindow = 7 * 24 * time.Hour

// missed returns the dates of the policies that have no run although they should
// have, since each policy was first seen deployed.
func missed(ctx context.Context, r *deployment, names []string, now time.Time) (all []missedDate, err error) {
	for _, name := range names {
		w, err := r.records.Watch(ctx, name)
		if err != nil {
			return nil, err
		}
		p, err := r.records.LatestPolicy(ctx, name)
		if err != nil || w.Since.IsZero() {
			continue // it can not be read, or nobody watches it: what it may have missed is not known
		}
		since := now.Add(-missedWindow)
		if w.Since.After(since) {
			since = w.Since
		}
		for _, d := range p.Schedule.Dates(since, now.Add(-r.settings.MissedAfter), 100) {
			_, err := r.records.Run(ctx, job.ScheduledRunID(r.outputs.Region, name, d.At))
			if failure.Is(err, failure.Absent) {
				all = append(all, missedDate{name, d.Day, d.At.UTC(), d.Skipped})
			} else if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// writeMissed tells people about dates without a run.
func writeMissed(s *sheet, all []missedDate) {
	if len(all) == 0 {
		return
	}
	s.heading("Dates that never ran")
	t := newTable(wide("policy", 28), left("date"), left("scheduled"), left("why"))
	for _, m := range all {
		why := "no run was opened: is the schedule enabled? expunge doctor looks"
		if m.Skipped {
			why = "a clock change skipped it"
		}
		t.Row(report.Clean(m.Policy), m.Day, instant(m.Scheduled), why)
	}
	s.table(t)
}

// startCommand opens the run of a scheduled date, as its schedule would have.
type startCommand struct {
	Policy    string `arg:"" help:"The policy, at the version that is deployed."`
	Scheduled string `arg:"" placeholder:"INSTANT" help:"The date's instant, in RFC 3339, such as 2026-03-08T02:30:00Z: runs --late shows it."`
}

func (c *startCommand) exits() exits {
	return exits{Done: "the run is on record; it is not carried out yet", Wrong: "it was refused: the reason is on stderr"}
}

// started is the answer.
type started struct {
	Head
	RunID job.RunID    `json:"run_id"`
	State job.RunState `json:"state"`
}

func (c *startCommand) run(ctx context.Context, d *desk) error {
	scheduled, err := time.Parse(time.RFC3339, c.Scheduled)
	if err != nil {
		return usage(c.Scheduled+" is no instant in RFC 3339, such as 2026-03-08T02:30:00Z: runs --late shows those that never ran", d.command("runs", "--late", "--policy="+c.Policy))
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	p, err := r.records.LatestPolicy(ctx, c.Policy)
	if err != nil {
		return err
	}
	// A made-up instant would be a run of its own, with a cutoff that no schedule has.
	if dates := p.Schedule.Dates(scheduled.Add(-time.Second), scheduled, 1); len(dates) == 0 || !dates[0].At.Equal(scheduled) {
		return usage("the schedule of "+c.Policy+" has no date at "+instant(scheduled), d.command("runs", "--late", "--policy="+c.Policy))
	}
	in := map[string]string{"policy": c.Policy, "scheduled": scheduled.UTC().Format(time.RFC3339)}
	var answer struct {
		RunID job.RunID    `json:"run_id"`
		State job.RunState `json:"state"`
	}
	if err := r.ask(ctx, r.outputs.Enqueue, in, &answer); err != nil {
		return err
	}
	return d.show(&started{
		Head:  Head{Next: []string{d.command("explain", string(answer.RunID)), d.command("runs", "--policy="+c.Policy)}},
		RunID: answer.RunID, State: answer.State,
	})
}

func (a *started) write(s *sheet) {
	s.line("The run of this date is on record. It is the same run whoever starts it, and however often.")
	s.facts([2]string{"run", string(a.RunID)}, [2]string{"state", words(string(a.State))})
}
