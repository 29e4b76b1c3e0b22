package scheduler

import (
	"slices"
	"time"
	_ "time/tzdata" // a schedule must mean the same on a machine without a zone database
)

// zone finds the instants of the wall times around a date. Wall times are given as
// times in UTC.
type zone struct {
	loc     *time.Location
	offsets []time.Duration // in force around the date, each once
}

// reach is further than any wall time of a date is from the instant that UTC shows it.
const reach = 40 * time.Hour

// newZone collects the offsets in force around an instant. It probes, for nothing
// tells all of a zone's changes; none ever lasted less than the step.
func newZone(loc *time.Location, around time.Time) zone {
	const step = 30 * time.Minute
	z := zone{loc: loc}
	for t := around.Add(-reach); !t.After(around.Add(reach)); t = t.Add(step) {
		if off := z.offset(t); !slices.Contains(z.offsets, off) {
			z.offsets = append(z.offsets, off)
		}
	}
	return z
}

func (z zone) offset(t time.Time) time.Duration {
	_, seconds := t.In(z.loc).Zone()
	return time.Duration(seconds) * time.Second
}

// first returns the first instant that shows a wall time, if any does.
func (z zone) first(wall time.Time) (t time.Time, exists bool) {
	for _, off := range z.offsets {
		at := wall.Add(-off)
		if z.offset(at) == off && (!exists || at.Before(t)) {
			t, exists = at, true
		}
	}
	return t, exists
}

// latest is an instant that no earlier wall time is shown after.
func (z zone) latest(wall time.Time) time.Time {
	return wall.Add(-slices.Min(z.offsets))
}

// loadZone finds a zone of the IANA database. Go would also take names of its own.
func loadZone(name string) (*time.Location, bool) {
	if name == "" || name == "Local" {
		return nil, false
	}
	loc, err := time.LoadLocation(name)
	return loc, err == nil
}
