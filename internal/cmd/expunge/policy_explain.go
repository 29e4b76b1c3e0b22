package main

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/report"
)

// policyExplain says what a file does.
type policyExplain struct {
	File string `arg:"" help:"The policy file."`
	AsOf string `placeholder:"WHEN" help:"Show the runs after this instant; now when not given."`
}

func (c *policyExplain) exits() exits {
	return exits{Done: "explained", Wrong: "the file is refused: stderr says where and why"}
}

// policySaid is the answer.
type policySaid struct {
	Head
	Policy   string `json:"policy"`
	Version  int    `json:"policy_version"`
	SHA256   string `json:"sha256"` // of the canonical form
	Sentence string `json:"sentence"`
	// Never says what the policy never touches.
	Never    []string      `json:"never"`
	Limits   policyLimits  `json:"limits"`
	AsOf     time.Time     `json:"as_of"`
	Dates    []policyDate  `json:"dates"`
	Findings []lintFinding `json:"findings"`
}

type policyLimits struct {
	MaxObjects       int     `json:"max_objects"`
	MaxShare         float64 `json:"max_share"`
	MaxGrowth        float64 `json:"max_growth"`
	MaxRate          int     `json:"max_rate"` // keys a second
	ObjectiveSeconds int64   `json:"objective_seconds"`
	ReportOnlyDates  int     `json:"report_only_dates"`
}

// policyDate is a date of the schedule.
type policyDate struct {
	Date   string    `json:"date"`  // in the schedule's zone
	Local  string    `json:"local"` // the clock's time there, with its offset; "" where none shows it
	At     time.Time `json:"at"`
	Cutoff time.Time `json:"cutoff,omitzero"`
	// Runs: a run starts then.
	Runs bool   `json:"runs"`
	Note string `json:"note,omitzero"`
}

// explainedRuns is how many runs are shown.
const explainedRuns = 5

func (c *policyExplain) run(_ context.Context, d *desk) error {
	asOf, err := d.asOf(c.AsOf)
	if err != nil {
		return err
	}
	p, err := d.validPolicy(c.File)
	if err != nil {
		return err
	}
	found := &lintReport{Findings: []lintFinding{}}
	found.add(c.File, policy.Lint(p, asOf))
	return d.show(&policySaid{
		Policy: p.Name, Version: p.Version, SHA256: p.SHA256(), Sentence: p.Sentence(), Never: never(p),
		Limits: policyLimits{
			MaxObjects: p.Limits.MaxObjects, MaxShare: p.Limits.MaxShare, MaxGrowth: p.Limits.MaxGrowth, MaxRate: p.Limits.MaxRate,
			ObjectiveSeconds: int64(p.Objective / time.Second), ReportOnlyDates: p.ReportOnlyDatesNeeded(),
		},
		AsOf: asOf, Dates: nextDates(p, asOf, explainedRuns), Findings: found.Findings,
		Head: Head{Next: []string{d.command("policy", "diff", c.File)}},
	})
}

// nextDates returns the dates until so many runs start, those that a clock change
// skips among them.
func nextDates(p policy.Policy, asOf time.Time, runs int) (dates []policyDate) {
	const weeks = 3 // so many of a weekly schedule's dates in a row are never skipped
	until := asOf.AddDate(0, 0, 7*(runs+weeks))
	offset, known := time.Duration(0), false
	for _, date := range p.Schedule.Dates(asOf, until, runs+weeks) {
		if runs == 0 {
			break
		}
		said := policyDate{Date: date.Day, At: date.At}
		if date.Skipped {
			said.Note = "no clock shows " + p.Schedule.At + " that day: no run starts, and the next one takes what it would have"
			if p.Schedule.CatchUp {
				said.Note = "no clock shows " + p.Schedule.At + " that day: the run is started late"
			}
			dates = append(dates, said)
			continue
		}
		runs--
		said.Runs, said.Cutoff = true, p.Cutoff(date.At)
		wall, _ := time.Parse(time.DateOnly+" 15:04", date.Day+" "+p.Schedule.At) // both are valid
		ahead := wall.Sub(date.At)
		said.Local = wall.Format("2006-01-02 15:04") + " " + offsetOf(ahead)
		if known && ahead != offset {
			said.Note = "clocks were set " + map[bool]string{true: "forward", false: "back"}[ahead > offset] + " by " + span((ahead - offset).Abs())
		}
		if longer := date.At.AddDate(0, 0, -p.RetentionDays).Sub(said.Cutoff); longer > 0 {
			said.Note = join(said.Note, "keeps for "+span(longer)+" more than "+report.Count(p.RetentionDays, "day")+" of 24 hours")
		}
		offset, known = ahead, true
		dates = append(dates, said)
	}
	return dates
}

// join puts two remarks into one.
func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// offsetOf writes how far a zone is ahead of UTC: +02:00.
func offsetOf(ahead time.Duration) string {
	return time.Unix(0, 0).In(time.FixedZone("", int(ahead/time.Second))).Format("-07:00")
}

// never says what a policy leaves alone, whatever else is true.
func never(p policy.Policy) []string {
	whose := "whose {tenant} is not one whole segment of 1 to 128 letters, digits, dots, hyphens and underscores"
	if p.TenantPattern != "" {
		whose += ", or does not match " + p.TenantPattern
	}
	under := "Keys that do not lie under " + p.Keys + ", or " + whose + "."
	if p.Tenant != "" {
		under = "Keys that do not lie under " + p.Keys + "."
	}
	all := []string{
		"Anything outside of bucket " + p.Bucket + " in " + p.Region + ".",
		under,
		"What was last modified " + report.Count(p.RetentionDays, "day") + " before its run or later, to the second.",
		"What a legal hold of Expunge or an Object Lock covers.",
		"What has changed since it was listed.",
	}
	if p.Versions != policy.AllVersions {
		all = append(all, "Versions that are not current: where the bucket keeps versions, a delete lays a marker and the bytes remain.")
	}
	if p.Mode == job.ReportOnly {
		all = append(all, "Anything at all, while it only reports.")
	}
	return all
}

func (a *policySaid) write(s *sheet) {
	s.sentence("", a.Sentence)
	s.line("sha256 ", a.SHA256)
	s.heading("Runs after " + instant(a.AsOf))
	t := newTable(left("local time"), left("instant"), left("deletes what is older than"))
	for _, d := range a.Dates {
		if d.Runs {
			t.Row(d.Local, instant(d.At), instant(d.Cutoff))
		} else {
			t.Row(d.Date+" no run", "-", "-")
		}
	}
	s.table(t)
	for _, d := range a.Dates {
		if d.Note != "" {
			s.sentence("  ", d.Date+": "+d.Note+".")
		}
	}
	s.heading("Needs approval")
	s.facts(
		[2]string{"objects", "above " + report.Group(int64(a.Limits.MaxObjects))},
		[2]string{"share", "above " + strconv.FormatFloat(100*a.Limits.MaxShare, 'f', -1, 64) + " % of what it examined, from 1,000 on"},
		[2]string{"growth", "above " + strconv.FormatFloat(a.Limits.MaxGrowth, 'f', -1, 64) + " times the usual, from the fourth run on"},
		[2]string{"new version", "once it has only reported on " + report.Count(a.Limits.ReportOnlyDates, "date") + ", if it would delete more than the approved one"},
	)
	s.heading("Never touches")
	for _, text := range a.Never {
		s.sentence("  ", text)
	}
	for _, f := range a.Findings {
		s.line()
		f.write(s)
	}
}
