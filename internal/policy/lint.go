package policy

import (
	"strings"
	"time"
)

// Code names a kind of finding. The list is closed and the words are stable:
// people suppress and search by them.
type Code string

// The kinds of finding.
const (
	// The policy can never match anything.
	PatternMatchesNothing Code = "pattern-matches-nothing"
	TenantOutsidePattern  Code = "tenant-outside-pattern"
	OlderThanS3           Code = "older-than-s3"

	// The policy may match more than its author means.
	ShortRoot       Code = "short-root"
	WholeFirstLevel Code = "whole-first-level"
	ShareOff        Code = "share-off"
	ObjectsCeiling  Code = "objects-at-ceiling"
	GrowthCeiling   Code = "growth-at-ceiling"
	FewReports      Code = "few-reports"
	Overlap         Code = "overlap"
	SameName        Code = "same-name"

	// The policy runs, or ends, at other times than its author means.
	AtSkipped           Code = "at-skipped"
	AtDoubled           Code = "at-doubled"
	CatchUpUnneeded     Code = "catch-up-unneeded"
	RetentionNearPeriod Code = "retention-near-period"
	ObjectiveUnmeetable Code = "objective-unmeetable"
	ObjectiveShort      Code = "objective-short"
)

// Codes lists every code once.
func Codes() []Code {
	return []Code{
		PatternMatchesNothing, TenantOutsidePattern, OlderThanS3,
		ShortRoot, WholeFirstLevel, ShareOff, ObjectsCeiling, GrowthCeiling, FewReports, Overlap, SameName,
		AtSkipped, AtDoubled, CatchUpUnneeded, RetentionNearPeriod, ObjectiveUnmeetable, ObjectiveShort,
	}
}

// Finding is something about a valid policy that its author should know.
type Finding struct {
	Code Code
	// Field is the key it is about.
	Field string
	// Text is a sentence.
	Text string
}

// resendPeriod is how often reconcile sends lost work again in production
// (contract.Settings.ReconcileEvery; a test compares them).
const resendPeriod = 5 * time.Minute

// Lint says what is allowed but probably not meant. It takes a valid policy, and
// the instant from which on dates are looked at.
func Lint(p Policy, asOf time.Time) []Finding {
	var found []Finding
	add := func(code Code, field, text string) {
		found = append(found, Finding{code, field, text})
	}
	p.lintNever(asOf, add)
	p.lintWide(add)
	p.lintTimes(asOf, add)
	return found
}

// s3Start is when S3 opened. Nothing in it is older.
func s3Start() time.Time { return time.Date(2006, time.March, 14, 0, 0, 0, 0, time.UTC) }

func (p Policy) lintNever(asOf time.Time, add func(Code, string, string)) {
	switch {
	case p.TenantPattern == "":
	case p.Tenant != "" && !p.admits(p.Tenant):
		add(TenantOutsidePattern, "tenant", "Nothing is ever deleted: tenant "+p.Tenant+" does not match tenant_pattern "+
			quote(p.TenantPattern)+".")
	case !commonTenant(p.TenantPattern, ""):
		add(PatternMatchesNothing, "tenant_pattern", "Nothing is ever deleted: no valid tenant matches "+
			quote(p.TenantPattern)+" as a whole.")
	}
	if first := s3Start().Add(p.retention()); first.After(asOf) {
		add(OlderThanS3, "retention_days", "Nothing is deleted before "+first.Format(time.DateOnly)+
			": no object in S3 is older than "+s3Start().Format(time.DateOnly)+".")
	}
}

func (p Policy) lintWide(add func(Code, string, string)) {
	segments := strings.Split(strings.TrimSuffix(p.Keys, "/"), "/")
	if len(segments[0]) == 1 {
		add(ShortRoot, "keys", "The root folder "+segments[0]+"/ has a name of one character: a slip of the finger makes it another folder, "+
			"and everything in that would be listed.")
	}
	if p.Tenant != "" && len(segments) == 1 {
		add(WholeFirstLevel, "keys", "Every object under the top-level folder "+p.Keys+" counts as tenant "+p.Tenant+
			"'s, whoever wrote it.")
	}
	if p.Limits.MaxShare == 1 {
		add(ShareOff, "limits.max_share", "No run is ever stopped for deleting too large a share: 1 allows everything it examined.")
	}
	if p.Limits.MaxObjects == CeilingObjects {
		add(ObjectsCeiling, "limits.max_objects", "Runs of up to "+group(CeilingObjects)+" objects start without approval, the most that can be configured.")
	}
	if p.Limits.MaxGrowth == CeilingGrowth {
		add(GrowthCeiling, "limits.max_growth", "A run may hold "+group(CeilingGrowth)+" times the usual without approval, the most that can be configured.")
	}
	if dates := p.ReportOnlyDatesNeeded(); dates < DefaultReportOnlyDates {
		add(FewReports, "report_only_dates", "It may delete once its runs have only reported on "+count(dates, "date")+
			": "+group(DefaultReportOnlyDates)+" are the rule, for what one date hides another shows.")
	}
}

func (p Policy) lintTimes(asOf time.Time, add func(Code, string, string)) {
	skipped, doubled := p.Schedule.oddDays(asOf)
	if len(skipped) > 0 && !p.Schedule.CatchUp {
		add(AtSkipped, "schedule.at", "No run starts on "+strings.Join(skipped, ", ")+": "+p.Schedule.At+
			" does not exist in "+p.Schedule.Zone+" that day.")
	}
	if len(doubled) > 0 {
		add(AtDoubled, "schedule.at", p.Schedule.At+" comes twice in "+p.Schedule.Zone+" on "+strings.Join(doubled, ", ")+
			": the run starts at the first and not again.")
	}
	if p.Schedule.CatchUp && p.Schedule.Every == Daily && len(skipped) == 0 {
		add(CatchUpUnneeded, "schedule.catch_up", "No clock change skips "+p.Schedule.At+" in "+p.Schedule.Zone+
			", and the next day's run takes what a missed one left: catch_up only starts dates whose schedule somebody disabled or deleted.")
	}
	if period := p.Schedule.days(); p.RetentionDays <= period {
		add(RetentionNearPeriod, "retention_days", "An object is deleted at an age of "+group(p.RetentionDays)+" to "+
			count(p.RetentionDays+period, "day")+": a hold or a restore has to come within that.")
	}
	if need := time.Duration(p.Limits.MaxObjects/p.Limits.MaxRate) * time.Second; need > p.Objective {
		add(ObjectiveUnmeetable, "objective", "A run of max_objects takes at least "+spell(need)+" at max_rate, which is longer than the objective of "+
			spell(p.Objective)+".")
	}
	if p.Objective < resendPeriod {
		add(ObjectiveShort, "objective", "A lost message is sent again only every "+spell(resendPeriod)+", which is longer than the objective of "+
			spell(p.Objective)+".")
	}
}

const (
	// oddHorizon is how far ahead odd days are looked for: two of each clock change.
	oddHorizon = 2 * 366
	// oddShown is how many dates one finding names.
	oddShown = 3
)

// oddDays returns the next dates on which the schedule's time of day does not
// exist, and those on which it comes twice, as YYYY-MM-DD.
func (s Schedule) oddDays(asOf time.Time) (skipped, doubled []string) {
	loc, ok := loadZone(s.Zone)
	hour, minute, okAt := clock(s.At)
	if !ok || !okAt {
		return nil, nil
	}
	year, month, day := asOf.In(loc).Date()
	for i := range oddHorizon {
		wall := time.Date(year, month, day+i, hour, minute, 0, 0, time.UTC)
		if !s.on(wall.Weekday()) {
			continue
		}
		switch n := showings(loc, wall); {
		case n == 0 && len(skipped) < oddShown:
			skipped = append(skipped, wall.Format(time.DateOnly))
		case n > 1 && len(doubled) < oddShown:
			doubled = append(doubled, wall.Format(time.DateOnly))
		}
	}
	return skipped, doubled
}

// showings counts the instants at which a clock in loc shows the wall time.
func showings(loc *time.Location, wall time.Time) int {
	n := 0
	for _, off := range offsets(loc, wall) {
		if offsetAt(loc, wall.Add(-off)) == off {
			n++
		}
	}
	return n
}

// LintAll says what is wrong between policies: names used twice, and key
// templates that cover the same keys, where the shorter retention wins without
// anybody having decided it.
func LintAll(policies []Policy) []Finding {
	var found []Finding
	for i, a := range policies {
		for _, b := range policies[i+1:] {
			if a.Name == b.Name {
				found = append(found, Finding{SameName, "name", "Two policies have the name " + a.Name + "."})
			}
			if a.Region == b.Region && a.Bucket == b.Bucket && overlap(a, b) {
				first := a
				if b.RetentionDays < a.RetentionDays {
					first = b
				}
				found = append(found, Finding{Overlap, "keys", "Policies " + a.Name + " and " + b.Name + " both cover keys under " +
					a.Keys + " and " + b.Keys + ": an object in both is deleted by " + first.Name + " after " +
					count(first.RetentionDays, "day") + "."})
			}
		}
	}
	return found
}

// overlap reports whether some key could belong to both templates: one is the
// beginning of the other, where a placeholder stands for any tenant of its policy.
func overlap(a, b Policy) bool {
	left, right := strings.Split(strings.TrimSuffix(a.Keys, "/"), "/"), strings.Split(strings.TrimSuffix(b.Keys, "/"), "/")
	for i := range min(len(left), len(right)) {
		switch l, r := left[i], right[i]; {
		case l == placeholder && r == placeholder:
			if !commonTenant(a.TenantPattern, b.TenantPattern) {
				return false
			}
		case l == placeholder && !a.admits(r), r == placeholder && !b.admits(l):
			return false
		case l != placeholder && r != placeholder && l != r:
			return false
		}
	}
	return true
}
