package policy

import (
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// Sentence says in one English sentence what the policy does, for people who
// approve runs or read receipts. It is derived from the effective policy alone.
func (p Policy) Sentence() string {
	var b strings.Builder
	b.WriteString("Policy " + p.Name + " (version " + strconv.Itoa(p.Version) + ") ")
	if p.Mode == job.Enforce {
		b.WriteString("deletes ")
	} else {
		b.WriteString("only reports, without deleting them, ")
	}
	if p.Versions == AllVersions {
		b.WriteString("every version of ")
	}
	b.WriteString("objects under " + p.Keys + " in bucket " + p.Bucket + " (" + p.Region + ") " + p.whose())
	b.WriteString(" that were last modified more than " + count(p.RetentionDays, "day") + " before the run, ")
	b.WriteString(p.Schedule.Words())
	b.WriteString(", at most " + group(p.Limits.MaxRate) + " a second, settled within " + spell(p.Objective))
	if p.Mode == job.Enforce {
		b.WriteString("; a run needs approval above ")
	} else {
		b.WriteString("; it points out a run above ")
	}
	b.WriteString(count(p.Limits.MaxObjects, "object"))
	if p.Limits.MaxShare < 1 {
		b.WriteString(", above " + percent(p.Limits.MaxShare) + " of what it examined where that is " + group(shareFrom) + " or more")
	}
	b.WriteString(", or from the fourth run on above " + number(p.Limits.MaxGrowth) + " times its usual size")
	if dates := p.ReportOnlyDatesNeeded(); dates != DefaultReportOnlyDates {
		b.WriteString("; before it may delete, its runs must have only reported on " + count(dates, "date"))
	}
	if p.Schedule.CatchUp {
		b.WriteString("; of the dates that never ran the newest is started late")
	}
	if p.Urgent {
		b.WriteString("; a single dead letter pages at once")
	}
	b.WriteString(".")
	return b.String()
}

// whose says which tenants the policy works for.
func (p Policy) whose() string {
	switch {
	case p.Tenant != "":
		return "of tenant " + p.Tenant
	case p.TenantPattern != "":
		return "of every tenant that matches " + p.TenantPattern
	default:
		return "of every tenant"
	}
}

// Words says when the schedule fires: "every Monday at 02:30 (Europe/Berlin)".
func (s Schedule) Words() string {
	day := "day"
	if s.Every == Weekly && s.Weekday != "" {
		day = strings.ToUpper(s.Weekday[:1]) + s.Weekday[1:]
	}
	return "every " + day + " at " + s.At + " (" + s.Zone + ")"
}

// count writes a number with its noun: "1 day", "1,000 days".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return group(n) + " " + noun + "s"
}

// spell writes a duration of whole seconds in words: "1 hour 30 minutes".
func spell(d time.Duration) string {
	var words []string
	for _, unit := range []struct {
		size time.Duration
		noun string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := int(d / unit.size); n > 0 {
			words = append(words, count(n, unit.noun))
			d -= time.Duration(n) * unit.size
		}
	}
	return strings.Join(words, " ")
}
