package local

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const nightlyPolicy = `name: nightly
version: 1
region: us-west-2
bucket: exports
keys: exports/{tenant}/
retention_days: 1
mode: enforce
schedule: {every: daily, at: "12:00", zone: America/New_York}
limits: {max_share: 1}
`

// clockChange is a day on which the clocks of New York change.
type clockChange struct {
	name string
	// noon is when the schedule fires, and cutoff how long before that the run's is.
	noon   time.Time
	cutoff time.Duration
	// young is an age that a careless calendar would delete.
	young time.Duration
}

// clockDrill is R125. New York puts its clocks forward on the second Sunday of March
// and back on the first of November. The cutoff of a one-day policy is the older of
// 24 hours and the same wall time a calendar day before, so no artifact goes an hour
// early on either day; one that is exactly as old as the cutoff stays.
func clockDrill(ctx context.Context) Drilled {
	started := time.Now()
	done := Drilled{ID: "R125", Name: "daylight-saving", Text: "the retention clock crosses both changes of daylight saving"}
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		done.Wrong = append(done.Wrong, "this machine has no zone database: "+err.Error())
		return done
	}
	year := started.Year() + 1
	for _, c := range []clockChange{
		{"autumn", sunday(zone, year, time.November, 1), 25 * time.Hour, 24*time.Hour + 30*time.Minute},
		{"spring", sunday(zone, year, time.March, 2), 24 * time.Hour, 23*time.Hour + 30*time.Minute},
	} {
		if err := c.play(ctx); err != nil {
			done.Wrong = append(done.Wrong, c.name+": "+err.Error())
		}
	}
	done.Holds, done.Recovery = len(done.Wrong) == 0, time.Since(started).Round(100*time.Millisecond).String()
	return done
}

// sunday returns noon of the nth Sunday of a month.
func sunday(zone *time.Location, year int, month time.Month, nth int) time.Time {
	day := time.Date(year, month, 1, 12, 0, 0, 0, zone)
	for day.Weekday() != time.Sunday {
		day = day.AddDate(0, 0, 1)
	}
	return day.AddDate(0, 0, 7*(nth-1))
}

// play runs the policy at noon of the day and looks at what went.
func (c clockChange) play(ctx context.Context) error {
	h, err := newHourglass(ctx, c.noon, nightlyPolicy)
	if err != nil {
		return err
	}
	defer h.Close()
	err = h.put("exports", map[string]time.Duration{
		"exports/acme/young": c.young, "exports/acme/at-the-cutoff": c.cutoff, "exports/acme/expired": c.cutoff + time.Second,
	})
	if err != nil {
		return err
	}
	run, err := h.tick(ctx, "nightly", c.noon)
	if err != nil {
		return err
	}
	if want := c.noon.Add(-c.cutoff); !run.Cutoff.Equal(want) {
		return fmt.Errorf("the cutoff is %v, want %v", run.Cutoff, want.UTC())
	}
	gone, err := h.effects("exports")
	if err == nil && !slices.Equal(gone, []string{"exports/acme/expired"}) {
		err = fmt.Errorf("%d objects went, want the expired one alone", len(gone))
	}
	return err
}
