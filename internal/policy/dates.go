package policy

import "time"

// Date is one date of a schedule, whether or not a clock shows its time.
type Date struct {
	// Day is the date in the schedule's zone, as YYYY-MM-DD.
	Day string
	// At is the scheduled instant in UTC. Of a time that a clock change skips it is
	// the earlier of the instants that the offsets before and after the change give,
	// as in Cutoff: a run there deletes nothing too early.
	At time.Time
	// Skipped says that no clock shows the time that day: EventBridge Scheduler
	// starts nothing (HP-10).
	Skipped bool
}

// Dates returns the first dates of the schedule, at most limit of them, whose
// instant lies after the one given and not after until, in ascending order. Those
// that Next passes over because a clock change skips their time are among them; a
// time that comes twice is one date, at the first. A schedule that is not valid
// has none.
//
// Where a zone left out a whole day (Apia, 2011-12-30), that date has the same
// instant as the one before it.
func (s Schedule) Dates(after, until time.Time, limit int) []Date {
	loc, ok := loadZone(s.Zone)
	if !ok {
		return nil
	}
	return s.datesIn(loc, after, until, limit)
}

func (s Schedule) datesIn(loc *time.Location, after, until time.Time, limit int) []Date {
	hour, minute, ok := clock(s.At)
	if !ok || !s.known() {
		return nil
	}
	var dates []Date
	year, month, day := after.In(loc).Date()
	wall := time.Date(year, month, day-1, hour, minute, 0, 0, time.UTC)
	for ; len(dates) < limit && !wall.After(until.Add(reach)); wall = wall.AddDate(0, 0, 1) {
		if !s.on(wall.Weekday()) {
			continue
		}
		if at, exists := earliest(loc, wall); at.After(after) && !at.After(until) {
			dates = append(dates, Date{Day: wall.Format(time.DateOnly), At: at, Skipped: !exists})
		}
	}
	return dates
}
