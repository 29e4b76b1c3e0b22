package policy

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sevenZones are those of S2: no clock changes, changes in either hemisphere, by
// half an hour, abolished, and with a day that was left out.
var sevenZones = []string{
	"UTC", "America/New_York", "Europe/Berlin", "Pacific/Auckland", "Australia/Lord_Howe", "Europe/Moscow", "Pacific/Apia",
}

func days(n int, zone string) Policy {
	return Policy{RetentionDays: n, Schedule: Schedule{Every: Daily, At: "00:00", Zone: zone}}
}

func TestHP06Cutoff(t *testing.T) {
	for _, c := range []struct {
		name, zone string
		days       int
		at, want   string
	}{
		{"no clock change", "UTC", 30, "2026-11-30T04:15:00Z", "2026-10-31T04:15:00Z"},
		{"month end, as days and not as a month", "UTC", 30, "2026-03-30T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"leap day", "UTC", 1, "2028-03-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"year end", "UTC", 31, "2027-01-31T23:59:59Z", "2026-12-31T23:59:59Z"},

		// New York skips 02:00 to 03:00 on 2026-03-08: that day has 23 hours, so
		// 24 hours reach further back than a calendar day only by the wall clock.
		{"New York, day after the gap", "America/New_York", 1, "2026-03-09T08:00:00Z", "2026-03-08T08:00:00Z"},
		{"New York, day of the gap", "America/New_York", 1, "2026-03-08T08:00:00Z", "2026-03-07T08:00:00Z"},
		{"New York, across the gap by 30 days", "America/New_York", 30, "2026-03-30T06:30:00Z", "2026-02-28T06:30:00Z"},
		// 02:30 on the 8th does not exist: 06:30Z is the earlier reading, 24 h is 06:30Z too.
		{"New York, into the gap", "America/New_York", 1, "2026-03-09T06:30:00Z", "2026-03-08T06:30:00Z"},
		// And repeats 01:00 to 02:00 on 2026-11-01: that day has 25 hours, so the
		// calendar is the older of the two.
		{"New York, day after the overlap", "America/New_York", 1, "2026-11-02T08:00:00Z", "2026-11-01T08:00:00Z"},
		{"New York, day of the overlap", "America/New_York", 1, "2026-11-01T08:00:00Z", "2026-10-31T07:00:00Z"},
		{"New York, across the overlap by 30 days", "America/New_York", 30, "2026-11-20T07:30:00Z", "2026-10-21T06:30:00Z"},
		// 01:30 on the 1st exists twice; the earlier is an hour before 24 hours ago.
		{"New York, into the overlap", "America/New_York", 1, "2026-11-02T06:30:00Z", "2026-11-01T05:30:00Z"},

		{"Auckland, across its spring", "Pacific/Auckland", 1, "2026-09-27T12:00:00Z", "2026-09-26T12:00:00Z"},
		{"Auckland, across its autumn", "Pacific/Auckland", 1, "2026-04-05T12:00:00Z", "2026-04-04T11:00:00Z"},
		{"Auckland, month end", "Pacific/Auckland", 31, "2026-03-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"Moscow, no clock change any more", "Europe/Moscow", 365, "2026-11-01T00:00:00Z", "2025-11-01T00:00:00Z"},
		{"Moscow, across the last clock change", "Europe/Moscow", 1, "2014-10-26T12:00:00Z", "2014-10-25T11:00:00Z"},
		{"Lord Howe, half an hour", "Australia/Lord_Howe", 1, "2026-04-05T12:00:00Z", "2026-04-04T11:30:00Z"},
		// 2011-12-30 did not exist in Apia. Noon of that day read by the offset
		// after the change is the earlier instant.
		{"Apia, into the day left out", "Pacific/Apia", 1, "2011-12-30T22:00:00Z", "2011-12-29T22:00:00Z"},
		{"Apia, across the day left out", "Pacific/Apia", 2, "2011-12-30T22:00:00Z", "2011-12-28T22:00:00Z"},

		{"floor", "UTC", 1, "2026-11-30T04:15:00Z", "2026-11-29T04:15:00Z"},
		{"ceiling", "UTC", 36_500, "2026-11-30T04:15:00Z", "1926-12-25T04:15:00Z"},
		{"nanoseconds are kept", "UTC", 1, "2026-11-30T04:15:00.000000001Z", "2026-11-29T04:15:00.000000001Z"},
	} {
		at := instant(t, c.at)
		got := days(c.days, c.zone).Cutoff(at)
		if want := instant(t, c.want); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if got.Location() != time.UTC {
			t.Errorf("%s: not in UTC", c.name)
		}
		// The same instant told in another zone is the same instant (HP-06: whatever TZ is).
		for _, zone := range sevenZones {
			loc, _ := loadZone(zone)
			if again := days(c.days, c.zone).Cutoff(at.In(loc)); !again.Equal(got) {
				t.Errorf("%s: told in %s it is %s", c.name, zone, again)
			}
		}
	}
}

func TestS2CutoffIsNeverYoungerThanTheRetention(t *testing.T) {
	start := time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	end := time.Date(2037, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	rapid.Check(t, func(t *rapid.T) {
		p := days(rapid.OneOf(rapid.IntRange(1, 400), rapid.IntRange(1, 36_500)).Draw(t, "days"), rapid.SampledFrom(sevenZones).Draw(t, "zone"))
		at := time.Unix(rapid.Int64Range(start, end).Draw(t, "at"), 0)
		loc, _ := loadZone(p.Schedule.Zone)
		checkCutoff(t, loc, p, at)
		if got := p.Cutoff(at); !got.Equal(p.cutoffIn(loc, at)) {
			t.Fatalf("Cutoff is %s", got)
		}
	})
}

// Every hour around every clock change of thirty years, where the calendar and
// 24 hours part.
func TestS2CutoffAroundEveryClockChange(t *testing.T) {
	for _, zone := range sevenZones {
		loc, _ := loadZone(zone)
		changes := 0
		start := time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC)
		for at := start; at.Year() < 2037; at = at.Add(time.Hour) {
			if offsetAt(loc, at) == offsetAt(loc, at.Add(-time.Hour)) {
				continue
			}
			changes++
			for h := -2; h <= 26; h++ {
				checkCutoff(t, loc, days(1, zone), at.Add(time.Duration(h)*time.Hour+30*time.Minute))
				checkCutoff(t, loc, days(1, zone), at.Add(time.Duration(h)*time.Hour))
			}
		}
		if zone != "UTC" && changes == 0 {
			t.Errorf("%s: no clock change was looked at", zone)
		}
	}
}

func checkCutoff(t interface{ Fatalf(string, ...any) }, loc *time.Location, p Policy, at time.Time) {
	exact := at.Add(-time.Duration(p.RetentionDays) * 24 * time.Hour)
	got := p.cutoffIn(loc, at)
	if got.After(exact) {
		t.Fatalf("S2: %d days before %s in %s is %s, which is younger than %s", p.RetentionDays, at, p.Schedule.Zone, got, exact)
	}
	// Keeping too long is bounded as well: by the largest change of an offset.
	if exact.Sub(got) > 25*time.Hour {
		t.Fatalf("%d days before %s in %s is %s, which is far older than %s", p.RetentionDays, at, p.Schedule.Zone, got, exact)
	}
	if !p.Honours(at, got) || p.Honours(at, exact.Add(1)) {
		t.Fatalf("Honours does not hold the line at %s", exact)
	}
}

func TestS10CutoffOfWhatIsNoPolicyIsZero(t *testing.T) {
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for name, p := range map[string]Policy{
		"zero value":            {},
		"HP-04 zero retention":  days(0, "UTC"),
		"HP-04 negative":        days(-1, "UTC"),
		"HP-04 over the limit":  days(36_501, "UTC"),
		"HP-04 overflow":        days(1<<40, "UTC"),
		"HP-06 zone of a host":  days(1, "Local"),
		"HP-06 no zone":         days(1, ""),
		"HP-06 zone that isn't": days(1, "Mars/Olympus"),
	} {
		if got := p.Cutoff(at); !got.IsZero() {
			t.Errorf("%s: %s", name, got)
		}
		if name[:2] != "HP" || name[:5] == "HP-04" {
			if p.Honours(at, at.AddDate(-200, 0, 0)) {
				t.Errorf("%s: honoured", name)
			}
		}
	}
	if got := days(1, "UTC").Cutoff(time.Time{}); !got.IsZero() {
		t.Errorf("zero instant: %s", got)
	}
}

func TestS2Honours(t *testing.T) {
	p := days(30, "UTC")
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	edge := at.Add(-30 * 24 * time.Hour)
	for _, c := range []struct {
		name              string
		scheduled, cutoff time.Time
		want              bool
	}{
		{"exactly", at, edge, true},
		{"a nanosecond younger", at, edge.Add(1), false},
		{"older", at, edge.Add(-time.Hour), true},
		{"no cutoff", at, time.Time{}, false},
		{"no instant", time.Time{}, edge, false},
		{"HP-04 cutoff at the run", at, at, false},
		{"HP-04 cutoff after the run", at, at.Add(time.Hour), false},
	} {
		if got := p.Honours(c.scheduled, c.cutoff); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	for _, n := range []int{MinRetentionDays, MaxRetentionDays} {
		if p := days(n, "UTC"); !p.Honours(at, p.Cutoff(at)) {
			t.Errorf("%d days are not honoured", n)
		}
	}
}

// Go's zone bounds end before the instant on the last day of a leap year, beyond
// a zone's table: a search along them would never come back.
func TestCutoffOnTheLastDayOfALeapYear(t *testing.T) {
	for _, zone := range sevenZones {
		for _, year := range []int{2028, 2040, 2096} {
			at := time.Date(year, time.December, 31, 23, 30, 0, 0, time.UTC)
			loc, _ := loadZone(zone)
			checkCutoff(t, loc, days(1, zone), at)
			if next := (Schedule{Every: Daily, At: "12:00", Zone: zone}).Next(at); next.IsZero() {
				t.Errorf("%s: no next instant", zone)
			}
		}
	}
}

// What the bounds of a zone answer is what probing would have found, also beyond the
// zones' tables.
func TestOffsetsAreThoseThatProbingFinds(t *testing.T) {
	for _, zone := range append(sevenZones, "Africa/Casablanca", "Pacific/Apia", "Antarctica/Troll") {
		loc, ok := loadZone(zone)
		if !ok {
			t.Fatalf("%s is not known", zone)
		}
		for at := time.Date(2006, 1, 1, 5, 0, 0, 0, time.UTC); at.Year() < 2101; at = at.Add(21 * time.Hour) {
			if got, want := offsets(loc, at), probe(loc, at.Add(-reach), at.Add(reach)); !slices.Equal(got, want) {
				t.Fatalf("%s at %s: %v, not %v", zone, at, got, want)
			}
		}
	}
}

func TestHP10NextSkipsAndFiresOnce(t *testing.T) {
	newYork := func(at string) Schedule { return Schedule{Every: Daily, At: at, Zone: "America/New_York"} }
	for _, c := range []struct {
		name        string
		s           Schedule
		after, want string
	}{
		{"same day", newYork("02:30"), "2026-03-07T06:00:00Z", "2026-03-07T07:30:00Z"},
		{"strictly after", newYork("02:30"), "2026-03-06T07:30:00Z", "2026-03-07T07:30:00Z"},
		{"HP-10 skipped in the gap", newYork("02:30"), "2026-03-07T07:30:00Z", "2026-03-09T06:30:00Z"},
		{"HP-10 first minute of the gap", newYork("02:00"), "2026-03-07T12:00:00Z", "2026-03-09T06:00:00Z"},
		{"HP-10 minute before the gap", newYork("01:59"), "2026-03-07T12:00:00Z", "2026-03-08T06:59:00Z"},
		{"HP-10 first minute after the gap", newYork("03:00"), "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z"},
		{"HP-10 first of two", newYork("01:30"), "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z"},
		{"HP-10 and not the second", newYork("01:30"), "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},
		{"weekly", Schedule{Every: Weekly, Weekday: "monday", At: "04:00", Zone: "Europe/Berlin"}, "2026-11-30T03:00:00Z", "2026-12-07T03:00:00Z"},
		{"weekly, same day", Schedule{Every: Weekly, Weekday: "monday", At: "04:00", Zone: "Europe/Berlin"}, "2026-11-30T02:59:59.999999999Z", "2026-11-30T03:00:00Z"},
		{"weekly, its one instant in the gap", Schedule{Every: Weekly, Weekday: "sunday", At: "02:30", Zone: "America/New_York"}, "2026-03-02T00:00:00Z", "2026-03-15T06:30:00Z"},
		{"the zone's day, not UTC's", Schedule{Every: Weekly, Weekday: "monday", At: "08:00", Zone: "Pacific/Auckland"}, "2026-11-28T00:00:00Z", "2026-11-29T19:00:00Z"},
		{"day left out", Schedule{Every: Daily, At: "12:00", Zone: "Pacific/Apia"}, "2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"},
		{"half an hour", Schedule{Every: Daily, At: "02:15", Zone: "Australia/Lord_Howe"}, "2026-10-02T16:00:00Z", "2026-10-04T15:15:00Z"},
	} {
		got := c.s.Next(instant(t, c.after))
		if !got.Equal(instant(t, c.want)) {
			t.Errorf("%s: %s, want %s", c.name, got.Format(time.RFC3339), c.want)
		}
		// Going back from the answer gives the answer; from just before it, an earlier one.
		if back := c.s.Previous(got); !back.Equal(got) {
			t.Errorf("%s: Previous of the answer is %s", c.name, back)
		}
		if back := c.s.Previous(got.Add(-1)); !back.Before(got) || back.After(instant(t, c.after)) || back.IsZero() {
			t.Errorf("%s: Previous of just before is %s", c.name, back)
		}
	}
}

func TestScheduleThatIsNotValidHasNoInstants(t *testing.T) {
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for name, s := range map[string]Schedule{
		"zero value":            {},
		"no zone":               {Every: Daily, At: "02:30"},
		"zone of the host":      {Every: Daily, At: "02:30", Zone: "Local"},
		"no time":               {Every: Daily, Zone: "UTC"},
		"weekly without a day":  {Every: Weekly, At: "02:30", Zone: "UTC"},
		"weekly on no day":      {Every: Weekly, Weekday: "Monday", At: "02:30", Zone: "UTC"},
		"daily with a day":      {Every: Daily, Weekday: "monday", At: "02:30", Zone: "UTC"},
		"a period it never had": {Every: "hourly", At: "02:30", Zone: "UTC"},
	} {
		if got := s.Next(at); !got.IsZero() {
			t.Errorf("%s: next %s", name, got)
		}
		if got := s.Previous(at); !got.IsZero() {
			t.Errorf("%s: previous %s", name, got)
		}
	}
}

// Walking a year forwards meets every day once, but for those whose time is skipped.
func TestNextAndPreviousWalkTheSameInstants(t *testing.T) {
	for _, zone := range sevenZones {
		loc, _ := loadZone(zone)
		for _, clock := range []string{"00:00", "02:15", "02:30", "23:59"} {
			for _, s := range []Schedule{{Every: Daily, At: clock, Zone: zone}, {Every: Weekly, Weekday: "sunday", At: clock, Zone: zone}} {
				from := time.Date(2026, 1, 4, 12, 0, 0, 0, time.UTC)
				var last time.Time
				seen := map[string]bool{}
				for at := s.nextIn(loc, from); at.Year() == 2026; at = s.nextIn(loc, at) {
					local := at.In(loc)
					if local.Format("15:04:05") != clock+":00" || seen[local.Format(time.DateOnly)] || !at.After(last) {
						t.Fatalf("%+v: %s after %s", s, local, last)
					}
					if !last.IsZero() && !s.previousIn(loc, at.Add(-1)).Equal(last) {
						t.Fatalf("%+v: before %s comes %s, not %s", s, at, s.previousIn(loc, at.Add(-1)), last)
					}
					seen[local.Format(time.DateOnly)] = true
					last = at
				}
				want := 361
				if s.Every == Weekly {
					want = 51
				}
				if len(seen) < want-1 || len(seen) > want+1 {
					t.Errorf("%+v: %d instants in a year", s, len(seen))
				}
			}
		}
	}
}

func TestNextAndPreviousAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{Every: Daily, Zone: rapid.SampledFrom(sevenZones).Draw(t, "zone"),
			At: rapid.StringMatching(`(0[0-9]|1[0-9]|2[0-3]):[0-5][0-9]`).Draw(t, "at")}
		if rapid.Bool().Draw(t, "weekly") {
			s.Every, s.Weekday = Weekly, rapid.SampledFrom(weekdays()).Draw(t, "weekday")
		}
		at := time.Unix(rapid.Int64Range(1167609600, 2114380800).Draw(t, "unix"), 0)
		next, previous := s.Next(at), s.Previous(at)
		if !next.After(at) || previous.After(at) || previous.IsZero() {
			t.Fatalf("%s lies not between %s and %s", at, previous, next)
		}
		if !s.Next(previous).Equal(next) || !s.Previous(next.Add(-1)).Equal(previous) {
			t.Fatalf("there is an instant between %s and %s", previous, next)
		}
		if longest := time.Duration(2*s.days()+2) * 24 * time.Hour; next.Sub(previous) > longest {
			t.Fatalf("%s to %s", previous, next)
		}
	})
}

func TestCronIsWhatEventBridgeReads(t *testing.T) {
	for want, s := range map[string]Schedule{
		"cron(30 2 * * ? *)":    {Every: Daily, At: "02:30", Zone: "UTC"},
		"cron(0 0 * * ? *)":     {Every: Daily, At: "00:00", Zone: "UTC"},
		"cron(59 23 ? * WED *)": {Every: Weekly, Weekday: "wednesday", At: "23:59", Zone: "UTC"},
	} {
		if got := s.Cron(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
