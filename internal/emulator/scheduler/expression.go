package scheduler

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// expression says when a schedule fires. It is one of its three kinds.
type expression struct {
	loc *time.Location

	cron   *cron
	period time.Duration // of a rate
	once   time.Time     // of at(...); zero with none of the others for a wall time that does not exist
}

// oneTime reports whether the expression is an at(...).
func (e expression) oneTime() bool { return e.cron == nil && e.period == 0 }

// parseExpression reads rate(...), cron(...) or at(...).
func parseExpression(text string, loc *time.Location) (expression, error) {
	e := expression{loc: loc}
	kind, rest, _ := strings.Cut(text, "(")
	inner, closed := strings.CutSuffix(rest, ")")
	if !closed {
		return e, errors.New("no expression")
	}
	var err error
	switch kind {
	case "rate":
		e.period, err = parseRate(inner)
	case "cron":
		e.cron, err = parseCron(inner)
	case "at":
		e.once, err = parseAt(inner, loc)
	default:
		err = errors.New("no kind of expression")
	}
	return e, err
}

// parseRate reads a positive number and a unit.
func parseRate(text string) (time.Duration, error) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return 0, errors.New("a rate is a value and a unit")
	}
	var unit time.Duration
	switch fields[1] {
	case "minute", "minutes":
		unit = time.Minute
	case "hour", "hours":
		unit = time.Hour
	case "day", "days":
		unit = 24 * time.Hour // of the clock, whatever a calendar says
	default:
		return 0, errors.New("no unit of a rate")
	}
	const most = 1_000_000 // far beyond any use, and no overflow
	n, err := strconv.Atoi(fields[0])
	if err != nil || n < 1 || n > most || fields[0][0] == '+' {
		return 0, errors.New("the value of a rate is a positive number")
	}
	return time.Duration(n) * unit, nil
}

// parseAt reads a wall time in the zone. One that a clock change skips never comes.
func parseAt(text string, loc *time.Location) (time.Time, error) {
	const form = "2006-01-02T15:04:05"
	wall, err := time.Parse(form, text)
	if err != nil || len(text) != len(form) { // Parse would take fractions of a second
		return time.Time{}, errors.New("a time is written as yyyy-mm-ddThh:mm:ss")
	}
	t, _ := newZone(loc, wall).first(wall)
	return t, nil
}

// next returns the first occurrence after an instant, of a rate that begins at
// origin; zero when there is none.
func (e expression) next(after, origin time.Time) time.Time {
	switch {
	case e.cron != nil:
		return e.cron.next(e.loc, after)
	case e.period > 0 && origin.After(after):
		return origin
	case e.period > 0:
		periods := int64(after.Sub(origin)/e.period) + 1
		return origin.Add(time.Duration(periods * int64(e.period)))
	case e.once.After(after):
		return e.once
	}
	return time.Time{}
}
