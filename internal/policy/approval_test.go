package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// reported returns a closed report-only run of the version on a day of March.
func reported(p Policy, day int) Reported {
	at := time.Date(2026, 3, day, 3, 15, 0, 0, time.UTC)
	return Reported{job.Run{
		ID: job.ScheduledRunID(p.Region, p.Name, at), Region: p.Region, Policy: p.Name, Version: p.Version, PolicySHA256: p.SHA256(),
		Mode: job.ReportOnly, Scheduled: at, OpenedAt: at.Add(time.Second), State: job.Closed,
	}, p}
}

func history(p Policy, days ...int) []Reported {
	var all []Reported
	for _, day := range days {
		all = append(all, reported(p, day))
	}
	return all
}

// R137: the named run is looked at, and nothing else will do in its place.
func TestR137NamedRunIsAClosedReportOfThisVersion(t *testing.T) {
	p := valid(t, base)
	enough := history(p, 1, 2, 3)
	for name, c := range map[string]struct {
		change func(*Policy, *job.Run)
		class  failure.Class
		words  string
	}{
		"as it should be":  {func(*Policy, *job.Run) {}, "", ""},
		"nothing deleted":  {func(p *Policy, _ *job.Run) { p.Mode = job.ReportOnly }, failure.Invalid, "only reports"},
		"another policy":   {func(_ *Policy, r *job.Run) { r.Policy = "uploads" }, failure.Invalid, "another policy's"},
		"another version":  {func(_ *Policy, r *job.Run) { r.Version = 2 }, failure.Invalid, "of version 2"},
		"another content":  {func(_ *Policy, r *job.Run) { r.PolicySHA256 = strings.Repeat("0", 64) }, failure.Invalid, "of version 3"},
		"a request":        {func(_ *Policy, r *job.Run) { r.RequestID = "ticket-1" }, failure.Invalid, "one tenant"},
		"a run that acts":  {func(_ *Policy, r *job.Run) { r.Mode = job.Enforce }, failure.Invalid, "deletes"},
		"a scan":           {func(_ *Policy, r *job.Run) { r.State = job.Scanning }, failure.Conflict, "scanning"},
		"a released run":   {func(_ *Policy, r *job.Run) { r.State = job.Released }, failure.Conflict, "released"},
		"no run of all":    {func(_ *Policy, r *job.Run) { *r = job.Run{} }, failure.Invalid, "another policy's"},
		"a run that waits": {func(_ *Policy, r *job.Run) { r.State = job.AwaitingApproval }, failure.Conflict, "awaiting_approval"},
		"a rejected run":   {func(_ *Policy, r *job.Run) { r.State = job.Rejected }, failure.Conflict, "rejected"},
	} {
		for _, standing := range []bool{true, false} {
			next, run := p, reported(p, 3).Run
			c.change(&next, &run)
			err := Approvable(next, standing, run, enough)
			if failure.Of(err) != c.class {
				t.Errorf("%s: %v, want class %q", name, err, c.class)
			}
			if err != nil && (!strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "approve exports@3")) {
				t.Errorf("%s: %v does not say %q", name, err, c.words)
			}
		}
	}
}

// R137: dates of the past that are all started today are one look.
func TestR137DatesStartedOnOneDayAreOneLook(t *testing.T) {
	p := valid(t, base)
	all := history(p, 1, 2, 3)
	if err := Approvable(p, false, all[2].Run, all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].Run.OpenedAt = all[2].Run.Scheduled
	}
	if err := Approvable(p, false, all[2].Run, all); !failure.Is(err, failure.Conflict) || !strings.Contains(err.Error(), "1 of the 3 dates") {
		t.Errorf("three dates in one day suffice: %v", err)
	}
}

// R137: where nothing was approved before, several dates must have been reported by
// versions that hid nothing of this one.
func TestR137FirstApprovalNeedsSeveralDates(t *testing.T) {
	p := valid(t, base)
	other := func(old, replacement string) Policy {
		return valid(t, strings.Replace(with(t, old, replacement), "version: 3", "version: 2", 1))
	}
	changed := func(day int, change func(*Reported)) Reported {
		r := reported(p, day)
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		history []Reported
		there   int
	}{
		"the named run alone":            {nil, 1},
		"itself once more":               {history(p, 3), 1},
		"two dates":                      {history(p, 3, 4), 2},
		"three dates":                    {history(p, 1, 2, 3), 3},
		"three beside the named one":     {history(p, 5, 6, 7), 4},
		"one date again and again":       {history(p, 4, 4, 4, 3), 2},
		"reports by a report-only one":   {history(other("mode: enforce", "mode: report-only"), 4, 5), 3},
		"reports by a wider one":         {history(other("retention_days: 30", "retention_days: 10"), 4, 5), 3},
		"reports by a narrower one":      {history(other("retention_days: 30", "retention_days: 31"), 4, 5), 1},
		"reports that asked for less":    {history(other("max_objects: 18240", "max_objects: 18239"), 4, 5), 1},
		"a version that asks fewer days": {history(other("mode: enforce", "mode: enforce\nreport_only_dates: 4"), 4, 5), 1},
		"runs that delete": {[]Reported{
			changed(4, func(r *Reported) { r.Run.Mode = job.Enforce }), changed(5, func(r *Reported) { r.Run.Mode = job.Enforce }),
		}, 1},
		"requests": {[]Reported{
			changed(4, func(r *Reported) { r.Run.RequestID = "ticket-1" }), changed(5, func(r *Reported) { r.Run.RequestID = "ticket-2" }),
		}, 1},
		"open runs": {[]Reported{
			changed(4, func(r *Reported) { r.Run.State = job.Released }), changed(5, func(r *Reported) { r.Run.State = job.Rejected }),
		}, 1},
		"runs of another policy": {[]Reported{
			changed(4, func(r *Reported) { r.Run.Policy = "uploads" }), changed(5, func(r *Reported) { r.Run.Policy = "uploads" }),
		}, 1},
		"a version that is not the run's": {[]Reported{
			changed(4, func(r *Reported) { r.Run.Version = 2 }), changed(5, func(r *Reported) { r.Run.PolicySHA256 = "" }),
		}, 1},
		// In Berlin both are on the 4th.
		"two days of UTC": {[]Reported{
			changed(4, func(r *Reported) { r.Run.Scheduled = instant(t, "2026-03-03T23:00:00Z") }),
			changed(4, func(r *Reported) { r.Run.Scheduled = instant(t, "2026-03-04T22:59:59Z") }),
		}, 2},
		// And these on the 4th and the 5th.
		"one day of UTC": {[]Reported{
			changed(4, func(r *Reported) { r.Run.Scheduled = instant(t, "2026-03-04T00:00:00Z") }),
			changed(5, func(r *Reported) { r.Run.Scheduled = instant(t, "2026-03-04T23:00:00Z") }),
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			run := reported(p, 3).Run
			err := Approvable(p, false, run, c.history)
			if c.there >= 3 {
				if err != nil {
					t.Error(err)
				}
			} else {
				words := fmt.Sprintf("are of %d of the 3 dates that are needed: %d more", c.there, 3-c.there)
				if !failure.Is(err, failure.Conflict) || !strings.Contains(err.Error(), words) {
					t.Errorf("%v does not say %q", err, words)
				}
			}
			if err := Approvable(p, true, run, c.history); err != nil {
				t.Errorf("beside an approval: %v", err)
			}
		})
	}
}

// As many dates are needed as the version says, and not one less.
func TestR137DatesNeededAreThoseOfTheVersion(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		needed := rapid.IntRange(1, MaxReportOnlyDates).Draw(rt, "needed")
		days := rapid.SliceOfN(rapid.IntRange(1, 31), 1, 40).Draw(rt, "days")
		p := valid(t, with(t, "mode: enforce", fmt.Sprintf("mode: enforce\nreport_only_dates: %d", needed)))
		all := history(p, days...)
		different := map[int]bool{}
		for _, day := range days {
			different[day] = true
		}
		if err := Approvable(p, false, all[0].Run, all); (err == nil) != (len(different) >= needed) {
			rt.Fatalf("%d of %d dates: %v", len(different), needed, err)
		}
	})
}

func TestApprovalNamesOneVersionOnly(t *testing.T) {
	p := valid(t, base)
	a := Approval{Policy: "exports", Version: 3, SHA256: p.SHA256()}
	if !a.Names(p) {
		t.Error("it does not name its own version")
	}
	other := p
	other.RetentionDays++
	for name, b := range map[string]Approval{
		"none": {}, "another policy": {Policy: "uploads", Version: 3, SHA256: a.SHA256}, "another version": {Policy: "exports", Version: 2, SHA256: a.SHA256},
		"another content": {Policy: "exports", Version: 3, SHA256: other.SHA256()},
	} {
		if b.Names(p) {
			t.Errorf("%s: %+v", name, b)
		}
	}
}
