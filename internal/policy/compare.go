package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// Difference is a key in which two policies differ.
type Difference struct {
	// Field is the key's path, such as limits.max_objects.
	Field string
	// Old and New are the values as a person reads them: "30 days", "25 %", or
	// "(none)" for a key that is left out.
	Old, New string
	// Widens says that by this key alone the new policy may delete more, as soon
	// as it enforces.
	Widens bool
}

// Differences lists every key in which two versions of a policy differ, in the
// order of the schema. Without any, their canonical forms are the same.
func Differences(old, next Policy) []Difference {
	var all []Difference
	for _, c := range compare(old, next) {
		all = append(all, c.Difference)
	}
	return all
}

// Widens says in sentences with their numbers by what the next version of a
// policy might delete more than the old one. Where it says nothing, a run of next
// deletes nothing that a run of old at the same instant would keep, and on the same
// counts the guard stops it wherever it would stop that. Both versions are valid.
// What can not be proved to be narrower counts as wider.
//
// A next that only reports deletes nothing, so it widens nothing; by what its
// reports go further than old, Unreported says. When a run starts is not asked
// either: each is held to the cutoff of its own instant.
func Widens(old, next Policy) []string {
	if next.Mode != job.Enforce {
		return nil
	}
	return wider(compare(old, next))
}

// Unreported says by what next might delete more than the report-only runs of
// another version showed, or start with less approval: Widens without regard to
// either mode. Where it says nothing, those reports stand for next.
func Unreported(reported, next Policy) []string {
	return wider(slices.DeleteFunc(compare(reported, next), func(c change) bool { return c.Field == "mode" }))
}

// change is a difference, and the sentence that says by what it widens, or "".
type change struct {
	Difference
	wider string
}

func wider(changes []change) []string {
	var all []string
	for _, c := range changes {
		if c.Widens {
			all = append(all, c.wider)
		}
	}
	return all
}

// compare lists what differs. A test alters every key of a policy, so that none
// is forgotten here.
func compare(old, next Policy) []change {
	all := slices.Concat(comparePlace(old, next), compareTime(old, next), compareLimits(old.Limits, next.Limits), []change{
		differ("objective", old.Objective, next.Objective, spell, ""),
		differ("urgent", old.Urgent, next.Urgent, strconv.FormatBool, ""),
		differ("versions", old.Versions, next.Versions, asIs, when(next.Versions == AllVersions,
			"Every version of an object is deleted by its id, and only current versions were deleted.")),
	})
	return slices.DeleteFunc(all, func(c change) bool { return c == change{} })
}

// comparePlace looks at which artifacts the policies are about, and whose.
func comparePlace(old, next Policy) []change {
	return []change{
		// Another class has no runs yet that its own could be compared with.
		differ("name", old.Name, next.Name, asIs, "The name is "+next.Name+" and was "+old.Name+": it is another policy, and no earlier run is its own."),
		differ("version", old.Version, next.Version, strconv.Itoa, ""),
		differ("region", old.Region, next.Region, asIs, "The region is "+next.Region+" and was "+old.Region+": these are other artifacts."),
		differ("bucket", old.Bucket, next.Bucket, asIs, "The bucket is "+next.Bucket+" and was "+old.Bucket+": these are other artifacts."),
		differ("keys", old.Keys, next.Keys, asIs, when(!old.covers(next.Keys),
			"The keys are "+next.Keys+" and were "+old.Keys+": not all of them lie under the keys of before.")),
		differ("tenant", old.Tenant, next.Tenant, asIs, "The artifacts count as those "+next.whose()+", and counted as those "+old.whose()+"."),
		differ("tenant_pattern", old.TenantPattern, next.TenantPattern, asIs, patternWidens(old.TenantPattern, next.TenantPattern)),
	}
}

// covers reports whether every key under another template lies under this one, of
// the same tenant, provided that both name the same fixed tenant or none. A
// template ends in a slash, so the beginning of another is whole segments; and it
// has {tenant} at most once, so {tenant} stands in the same place.
func (p Policy) covers(keys string) bool {
	return p.Keys != "" && strings.HasPrefix(keys, p.Keys)
}

// patternWidens says what it means for the tenants that the pattern is another
// one. Only a pattern where there was none is surely narrower.
func patternWidens(old, next string) string {
	switch {
	case old == "":
		return ""
	case next == "":
		return "Every tenant counts, and only those that match " + old + " counted."
	default:
		return "The tenants are those that match " + next + ", and were those that match " + old + ": nothing proves that they are no more."
	}
}

// compareTime looks at when something is deleted, and whether.
func compareTime(old, next Policy) []change {
	was, is := old.ReportOnlyDatesNeeded(), next.ReportOnlyDatesNeeded()
	s, t := old.Schedule, next.Schedule
	return []change{
		differ("retention_days", old.RetentionDays, next.RetentionDays, inDays, when(next.RetentionDays < old.RetentionDays,
			"An artifact is kept for "+count(next.RetentionDays, "day")+", and was for "+count(old.RetentionDays, "day")+".")),
		differ("mode", old.Mode, next.Mode, asIs, when(next.Mode == job.Enforce, "It deletes, and only reported.")),
		differ("report_only_dates", old.ReportOnlyDates, next.ReportOnlyDates, datesInWords, when(is < was,
			"Before it may delete, it must have only reported on "+count(is, "date")+", and it was "+count(was, "date")+".")),
		differ("schedule.every", s.Every, t.Every, asIs, ""),
		differ("schedule.weekday", s.Weekday, t.Weekday, asIs, ""),
		differ("schedule.at", s.At, t.At, asIs, ""),
		differ("schedule.zone", s.Zone, t.Zone, asIs, zoneWidens(old, next)),
		differ("schedule.catch_up", s.CatchUp, t.CatchUp, strconv.FormatBool, ""),
	}
}

// zoneWidens says by how much the zone that counts the days lets an artifact go
// earlier. In the old one the calendar may have kept it for longer than 24 hours a
// day, by as much as clocks were set back meanwhile; in the new one perhaps not.
// Whole days more of retention outweigh that.
func zoneWidens(old, next Policy) string {
	if old.Schedule.Zone == next.Schedule.Zone {
		return ""
	}
	back := setBack(old.Schedule.Zone)
	earlier := back - max(0, next.retention()-old.retention())
	return when(earlier > 0, "Days are counted in "+next.Schedule.Zone+", and were in "+old.Schedule.Zone+
		": an artifact may go up to "+spell(earlier)+" earlier where clocks are set back.")
}

// setBack returns the most by which the clocks of a zone ever stood behind where
// they had stood before, since S3 opened: nothing in it is older. It looks at each
// day to the end of the zones' tables, after which the last rule repeats.
func setBack(zone string) time.Duration {
	loc, ok := loadZone(zone)
	if !ok {
		return reach
	}
	most, highest := time.Duration(0), -reach
	for t := s3Start().Add(-reach); t.Year() <= 2038; t = t.Add(24 * time.Hour) {
		off := offsetAt(loc, t)
		highest = max(highest, off)
		most = max(most, highest-off)
	}
	return most
}

// compareLimits looks at what a run may do without a person, and how fast.
func compareLimits(old, next Limits) []change {
	return []change{
		differ("limits.max_objects", old.MaxObjects, next.MaxObjects, group, when(next.MaxObjects > old.MaxObjects,
			"A run needs approval above "+count(next.MaxObjects, "object")+", and did above "+group(old.MaxObjects)+".")),
		differ("limits.max_share", old.MaxShare, next.MaxShare, percent, when(next.MaxShare > old.MaxShare,
			"A run needs approval above "+percent(next.MaxShare)+" of what it examined, and did above "+percent(old.MaxShare)+".")),
		differ("limits.max_growth", old.MaxGrowth, next.MaxGrowth, number, when(next.MaxGrowth > old.MaxGrowth,
			"A run needs approval above "+number(next.MaxGrowth)+" times its usual size, and did above "+number(old.MaxGrowth)+" times.")),
		differ("limits.max_rate", old.MaxRate, next.MaxRate, group, when(next.MaxRate > old.MaxRate,
			"Up to "+count(next.MaxRate, "key")+" a second are deleted, and "+group(old.MaxRate)+" were.")),
	}
}

// differ returns the change of one key, or none.
func differ[T comparable](field string, old, next T, words func(T) string, wider string) change {
	if old == next {
		return change{}
	}
	return change{Difference{Field: field, Old: words(old), New: words(next), Widens: wider != ""}, wider}
}

func when(holds bool, text string) string {
	if !holds {
		return ""
	}
	return text
}

func asIs[T ~string](value T) string {
	if value == "" {
		return "(none)"
	}
	return string(value)
}

func inDays(n int) string { return count(n, "day") }

// datesInWords tells apart a file that is silent from one that says the same.
func datesInWords(n int) string {
	if n == 0 {
		return count(DefaultReportOnlyDates, "date") + " (default)"
	}
	return count(n, "date")
}
