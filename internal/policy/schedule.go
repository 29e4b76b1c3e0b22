package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cutoff returns the instant before which an artifact counts as expired in a run
// at the given instant: the older of at minus N times 24 hours and the same wall
// time N calendar days earlier in the policy's zone. A wall time that does not
// exist or exists twice counts as the earlier instant. The result is in UTC and
// never later than at minus N times 24 hours (S2).
//
// A policy whose retention or zone is not valid, or a zero at, has the zero
// cutoff, before which nothing was ever modified (S10).
func (p Policy) Cutoff(at time.Time) time.Time {
	if at.IsZero() || p.RetentionDays < MinRetentionDays || p.RetentionDays > MaxRetentionDays {
		return time.Time{}
	}
	loc, ok := loadZone(p.Schedule.Zone)
	if !ok {
		return time.Time{}
	}
	return p.cutoffIn(loc, at)
}

func (p Policy) cutoffIn(loc *time.Location, at time.Time) time.Time {
	exact := at.Add(-p.retention()).UTC()
	local := at.In(loc)
	year, month, day := local.Date()
	hour, minute, second := local.Clock()
	wall := time.Date(year, month, day-p.RetentionDays, hour, minute, second, local.Nanosecond(), time.UTC)
	if calendar, _ := earliest(loc, wall); calendar.Before(exact) {
		return calendar
	}
	return exact
}

// Honours reports whether a cutoff that was pinned for a run keeps the
// retention: it is set, and at least N times 24 hours before the run. Checking it
// where a delete is decided costs nothing and needs no zone database (S2).
func (p Policy) Honours(scheduled, cutoff time.Time) bool {
	return p.RetentionDays >= MinRetentionDays && p.RetentionDays <= MaxRetentionDays &&
		!scheduled.IsZero() && !cutoff.IsZero() && !cutoff.After(scheduled.Add(-p.retention()))
}

func (p Policy) retention() time.Duration {
	return time.Duration(p.RetentionDays) * 24 * time.Hour
}

// searchDays is how many days a search for a scheduled instant covers: four
// weeks, of which a clock change can take one occurrence.
const searchDays = 28

// Next returns the first scheduled instant after the given one, in UTC. A local
// time that a clock change skips is no instant that day; one that comes twice is
// one instant, the first. A schedule that is not valid has none: zero.
func (s Schedule) Next(after time.Time) time.Time {
	loc, ok := loadZone(s.Zone)
	if !ok {
		return time.Time{}
	}
	return s.nextIn(loc, after)
}

// Previous returns the last scheduled instant at or before the given one, in
// UTC, by the rules of Next.
func (s Schedule) Previous(at time.Time) time.Time {
	loc, ok := loadZone(s.Zone)
	if !ok {
		return time.Time{}
	}
	return s.previousIn(loc, at)
}

func (s Schedule) nextIn(loc *time.Location, after time.Time) time.Time {
	return s.search(loc, after, 1, func(t time.Time) bool { return t.After(after) })
}

func (s Schedule) previousIn(loc *time.Location, at time.Time) time.Time {
	return s.search(loc, at, -1, func(t time.Time) bool { return !t.After(at) })
}

// search walks the days from the one before (or after) from's own, in the
// direction of step, to the first scheduled instant that is wanted.
func (s Schedule) search(loc *time.Location, from time.Time, step int, wanted func(time.Time) bool) time.Time {
	hour, minute, ok := clock(s.At)
	if !ok || !s.known() {
		return time.Time{}
	}
	year, month, day := from.In(loc).Date()
	for i := -1; i <= searchDays; i++ {
		wall := time.Date(year, month, day+i*step, hour, minute, 0, 0, time.UTC)
		if !s.on(wall.Weekday()) {
			continue
		}
		if t, exists := earliest(loc, wall); exists && wanted(t) {
			return t
		}
	}
	return time.Time{}
}

// Cron returns the schedule as EventBridge Scheduler reads it, to be evaluated in
// the schedule's zone: "cron(30 2 * * ? *)".
func (s Schedule) Cron() string {
	hour, minute, _ := clock(s.At)
	days := "* * ?"
	if s.Every == Weekly && len(s.Weekday) >= 3 {
		days = "? * " + strings.ToUpper(s.Weekday[:3])
	}
	return "cron(" + strconv.Itoa(minute) + " " + strconv.Itoa(hour) + " " + days + " *)"
}

// known reports whether the schedule names days at all.
func (s Schedule) known() bool {
	return s.Every == Daily && s.Weekday == "" || s.Every == Weekly && slices.Contains(weekdays(), s.Weekday)
}

// on reports whether the schedule fires on that day of the week.
func (s Schedule) on(day time.Weekday) bool {
	return s.Every == Daily || s.Weekday == strings.ToLower(day.String())
}

// days is the length of the schedule's period.
func (s Schedule) days() int {
	if s.Every == Weekly {
		return 7
	}
	return 1
}

// weekdays lists the words for the days, Monday first.
func weekdays() []string {
	return []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
}

// clock reads HH:MM.
func clock(at string) (hour, minute int, ok bool) {
	if len(at) != 5 || at[2] != ':' {
		return 0, 0, false
	}
	for _, i := range []int{0, 1, 3, 4} {
		if at[i] < '0' || at[i] > '9' {
			return 0, 0, false
		}
	}
	hour = int(at[0]-'0')*10 + int(at[1]-'0')
	minute = int(at[3]-'0')*10 + int(at[4]-'0')
	return hour, minute, hour < 24 && minute < 60
}

// reach is further than any zone is from UTC, so that every instant that shows a
// wall time lies this close to the instant UTC shows it.
const reach = 26 * time.Hour

// earliest returns the first instant at which a clock in loc shows the wall time,
// given as a time in UTC. For a wall time that is skipped, exists is false and
// the instant is the earlier of those that the offsets around the gap give.
func earliest(loc *time.Location, wall time.Time) (t time.Time, exists bool) {
	for _, off := range offsets(loc, wall) {
		candidate := wall.Add(-off)
		shows := offsetAt(loc, candidate) == off
		switch {
		case t.IsZero(), shows && !exists, shows == exists && candidate.Before(t):
			t, exists = candidate, shows
		}
	}
	return t, exists
}

// offsets returns the offsets from UTC that are in force in loc within reach of an
// instant, in their order: nearly always one.
func offsets(loc *time.Location, around time.Time) (all []time.Duration) {
	first, last := around.Add(-reach), around.Add(reach)
	for t := first; ; {
		if off := offsetAt(loc, t); !slices.Contains(all, off) {
			all = append(all, off)
		}
		_, end := t.In(loc).ZoneBounds()
		switch {
		case end.IsZero() || end.After(last):
			return all
		case !end.After(t):
			return probe(loc, first, last)
		}
		t = end
	}
}

// probe returns them in steps for less than which no offset ever was in force. The bounds
// that time.Time.ZoneBounds gives beyond a zone's table can lie in the past (on 31 December
// of a leap year), and a walk along them would not end.
func probe(loc *time.Location, first, last time.Time) []time.Duration {
	const step = 30 * time.Minute
	var all []time.Duration
	for t := first; !t.After(last); t = t.Add(step) {
		if off := offsetAt(loc, t); !slices.Contains(all, off) {
			all = append(all, off)
		}
	}
	return all
}

func offsetAt(loc *time.Location, t time.Time) time.Duration {
	_, seconds := t.In(loc).Zone()
	return time.Duration(seconds) * time.Second
}
