package policy

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestHP10Dates(t *testing.T) {
	newYork := func(at string) Schedule { return Schedule{Every: Daily, At: at, Zone: "America/New_York"} }
	for _, c := range []struct {
		name         string
		s            Schedule
		after, until string
		limit        int
		want         string
	}{
		{"HP-10 the gap is a date, at the earlier instant", newYork("02:30"), "2026-03-07T00:00:00Z", "2026-03-09T12:00:00Z", 9,
			"2026-03-07 07:30Z, 2026-03-08 06:30Z skipped, 2026-03-09 06:30Z"},
		{"HP-10 first minute of the gap", newYork("02:00"), "2026-03-07T12:00:00Z", "2026-03-08T12:00:00Z", 9, "2026-03-08 06:00Z skipped"},
		{"HP-10 minute before the gap", newYork("01:59"), "2026-03-07T12:00:00Z", "2026-03-08T12:00:00Z", 9, "2026-03-08 06:59Z"},
		{"HP-10 first minute after the gap", newYork("03:00"), "2026-03-07T12:00:00Z", "2026-03-08T12:00:00Z", 9, "2026-03-08 07:00Z"},
		{"HP-10 one date of the two in the overlap", newYork("01:30"), "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z", 9,
			"2026-11-01 05:30Z, 2026-11-02 06:30Z"},
		{"HP-10 and none of the second", newYork("01:30"), "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", 9, ""},
		{"HP-10 a weekly date in the gap", Schedule{Every: Weekly, Weekday: "sunday", At: "02:30", Zone: "America/New_York"},
			"2026-03-02T00:00:00Z", "2026-03-16T00:00:00Z", 9, "2026-03-08 06:30Z skipped, 2026-03-15 06:30Z"},
		// 00:00 does not exist on the 8th: the earlier instant is still the 7th in Havana.
		{"HP-10 a gap at midnight", Schedule{Every: Daily, At: "00:00", Zone: "America/Havana"},
			"2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z", 9, "2026-03-08 04:00Z skipped, 2026-03-09 04:00Z"},
		{"HP-10 half an hour", Schedule{Every: Daily, At: "02:15", Zone: "Australia/Lord_Howe"},
			"2026-10-02T16:00:00Z", "2026-10-04T15:15:00Z", 9, "2026-10-04 15:15Z skipped, 2026-10-05 15:15Z"},
		{"HP-10 a day left out has the instant of the one before", Schedule{Every: Daily, At: "12:00", Zone: "Pacific/Apia"},
			"2011-12-29T00:00:00Z", "2011-12-30T22:00:00Z", 9, "2011-12-29 22:00Z, 2011-12-30 22:00Z skipped, 2011-12-31 22:00Z"},
		{"the zone's day, not UTC's", Schedule{Every: Weekly, Weekday: "monday", At: "08:00", Zone: "Pacific/Auckland"},
			"2026-11-28T00:00:00Z", "2026-11-30T00:00:00Z", 9, "2026-11-30 19:00Z"},

		{"after is out", newYork("03:00"), "2026-06-01T07:00:00Z", "2026-06-02T07:00:00Z", 9, "2026-06-02 07:00Z"},
		{"until is in", newYork("03:00"), "2026-06-01T06:59:59.999999999Z", "2026-06-01T07:00:00Z", 9, "2026-06-01 07:00Z"},
		{"just before", newYork("03:00"), "2026-06-01T00:00:00Z", "2026-06-01T06:59:59.999999999Z", 9, ""},
		{"nothing between", newYork("03:00"), "2026-06-01T07:00:00Z", "2026-06-01T07:00:00Z", 9, ""},
		{"the wrong way round", newYork("03:00"), "2026-06-09T07:00:00Z", "2026-06-01T07:00:00Z", 9, ""},
		{"the first of many", newYork("03:00"), "2026-06-01T08:00:00Z", "2036-06-01T08:00:00Z", 2, "2026-06-02 07:00Z, 2026-06-03 07:00Z"},
		{"none asked for", newYork("03:00"), "2026-06-01T08:00:00Z", "2036-06-01T08:00:00Z", 0, ""},
		{"fewer than none", newYork("03:00"), "2026-06-01T08:00:00Z", "2036-06-01T08:00:00Z", -1, ""},
		{"no schedule", Schedule{}, "2026-06-01T08:00:00Z", "2036-06-01T08:00:00Z", 9, ""},
		{"a weekly schedule without a day", Schedule{Every: Weekly, At: "03:00", Zone: "UTC"}, "2026-06-01T08:00:00Z", "2036-06-01T08:00:00Z", 9, ""},
		{"no time", Schedule{Every: Daily, Zone: "UTC"}, "2026-06-01T08:00:00Z", "2036-06-01T08:00:00Z", 9, ""},
		{"the zone of the host", Schedule{Every: Daily, At: "03:00", Zone: "Local"}, "2026-06-01T08:00:00Z", "2036-06-01T08:00:00Z", 9, ""},
	} {
		var words []string
		for _, d := range c.s.Dates(instant(t, c.after), instant(t, c.until), c.limit) {
			word := d.Day + d.At.Format(" 15:04Z")
			if d.Skipped {
				word += " skipped"
			}
			words = append(words, word)
			if d.At.Location() != time.UTC {
				t.Errorf("%s: %s is not in UTC", c.name, d.Day)
			}
		}
		if got := strings.Join(words, ", "); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// HP-10: what is not skipped is what Next walks, what is skipped has no instant of
// its own, and no date of the calendar is missing.
func TestHP10DatesAreThoseOfNextAndTheSkipped(t *testing.T) {
	start := time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	end := time.Date(2037, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{Every: Daily, Zone: rapid.SampledFrom(sevenZones).Draw(t, "zone"),
			At: rapid.StringMatching(`(0[0-9]|1[0-9]|2[0-3]):[0-5][0-9]`).Draw(t, "at")}
		if rapid.Bool().Draw(t, "weekly") {
			s.Every, s.Weekday = Weekly, rapid.SampledFrom(weekdays()).Draw(t, "weekday")
		}
		after := time.Unix(rapid.Int64Range(start, end).Draw(t, "after"), 0)
		until := after.Add(time.Duration(rapid.IntRange(0, 60*24*60).Draw(t, "minutes")) * time.Minute)
		loc, _ := loadZone(s.Zone)
		checkDates(t, loc, s, after, until)
		all := s.Dates(after, until, 100)
		limit := rapid.IntRange(0, 70).Draw(t, "limit")
		if some := s.Dates(after, until, limit); len(some) != min(limit, len(all)) {
			t.Fatalf("%d dates of %d at a limit of %d", len(some), len(all), limit)
		}
	})
}

// The same around every clock change of thirty years, where dates are skipped and
// come twice.
func TestHP10DatesAroundEveryClockChange(t *testing.T) {
	for _, zone := range sevenZones {
		loc, _ := loadZone(zone)
		skipped := 0
		start := time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC)
		for at := start; at.Year() < 2037; at = at.Add(time.Hour) {
			if offsetAt(loc, at) == offsetAt(loc, at.Add(-time.Hour)) {
				continue
			}
			for _, clock := range []string{"00:00", "01:30", "02:15", "02:30", "12:00", "23:59"} {
				s := Schedule{Every: Daily, At: clock, Zone: zone}
				skipped += checkDates(t, loc, s, at.Add(-50*time.Hour), at.Add(50*time.Hour))
			}
		}
		if zone != "UTC" && skipped == 0 {
			t.Errorf("%s: no skipped date was looked at", zone)
		}
	}
}

// checkDates holds the dates of a stretch against Next, Previous and the calendar,
// and returns how many were skipped.
func checkDates(t interface{ Fatalf(string, ...any) }, loc *time.Location, s Schedule, after, until time.Time) int {
	next, skipped := s.nextIn(loc, after), 0
	dates := s.datesIn(loc, after, until, 1000)
	for i, d := range dates {
		local := d.At.In(loc)
		shown := local.Format("2006-01-02 15:04:05")
		if d.Skipped == (shown == d.Day+" "+s.At+":00") {
			t.Fatalf("HP-10: %+v: %s, skipped %v, is at %s", s, d.Day, d.Skipped, local)
		}
		day, err := time.Parse(time.DateOnly, d.Day)
		if err != nil || !s.on(day.Weekday()) || i > 0 && !day.Equal(dayAfter(t, dates[i-1].Day, s.days())) {
			t.Fatalf("HP-10: %+v: %s is no date of the schedule, or does not follow on the last: %v", s, d.Day, err)
		}
		if i > 0 && d.At.Before(dates[i-1].At) || !d.At.After(after) || d.At.After(until) {
			t.Fatalf("HP-10: %+v: %s at %s is out of order or out of bounds", s, d.Day, d.At)
		}
		if d.Skipped {
			skipped++
			continue
		}
		if !d.At.Equal(next) || !s.previousIn(loc, d.At).Equal(d.At) {
			t.Fatalf("HP-10: %+v: %s is at %s, and Next says %s", s, d.Day, d.At, next)
		}
		next = s.nextIn(loc, next)
	}
	if !next.After(until) {
		t.Fatalf("HP-10: %+v: %s is missing", s, next)
	}
	return skipped
}

func dayAfter(t interface{ Fatalf(string, ...any) }, day string, n int) time.Time {
	d, err := time.Parse(time.DateOnly, day)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return d.AddDate(0, 0, n)
}
