package scheduler

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cron is a parsed cron expression of six fields: minutes, hours, day of month,
// month, day of week, year.
//
// Why it is written here: of the libraries that know L, W, # and years,
// hashicorp/cronexpr 1.1.3 comes nearest. It fires a wall time that comes twice
// twice, counts weekdays from 0 where EventBridge counts from 1, ends with the
// year 2099, and takes what EventBridge refuses: five or seven fields, seconds,
// values in both day fields.
type cron struct {
	minutes, hours, months, years []bool
	// day says whether the expression names a day, which both day fields decide.
	day func(date time.Time) bool
}

// field is the range of a field and the names that its values have.
type field struct {
	name     string
	min, max int
	names    string // three letters each, the first one for min
}

const (
	firstYear = 1970
	lastYear  = 2199
)

// parseCron reads what stands between the brackets of cron(...).
func parseCron(text string) (*cron, error) {
	fields := strings.Fields(text)
	if len(fields) != 6 {
		return nil, fmt.Errorf("a cron expression has six fields, and not %d", len(fields))
	}
	var c cron
	for n, f := range []struct {
		field
		values *[]bool
	}{
		{field{"minutes", 0, 59, ""}, &c.minutes},
		{field{"hours", 0, 23, ""}, &c.hours},
		{},
		{field{"month", 1, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"}, &c.months},
		{},
		{field{"year", firstYear, lastYear, ""}, &c.years},
	} {
		if f.values == nil {
			continue // the day fields come below
		}
		values, err := f.list(fields[n], true)
		if err != nil {
			return nil, err
		}
		*f.values = values
	}
	ofMonth, ofWeek := fields[2], fields[4]
	var err error
	switch {
	case ofMonth == "?" && ofWeek == "?", ofMonth != "?" && ofWeek != "?":
		return nil, errors.New("one of day-of-month and day-of-week has to be ?, and only one")
	case ofWeek == "?":
		c.day, err = parseDayOfMonth(ofMonth)
	default:
		c.day, err = parseDayOfWeek(ofWeek)
	}
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// list reads a comma separated list of values, ranges and increments into a table
// that is indexed by value.
func (f field) list(text string, increments bool) ([]bool, error) {
	values := make([]bool, f.max+1)
	for part := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(part, "/")
		by := 1
		if stepped {
			n, err := strconv.Atoi(step)
			if err != nil || n < 1 || n > f.max || !increments {
				return nil, f.bad(part)
			}
			by = n
		}
		from, to, err := f.span(span, stepped)
		if err != nil {
			return nil, err
		}
		for v := from; v <= to; v += by {
			values[v] = true
		}
	}
	return values, nil
}

// span reads *, a value, or a range. A value with an increment goes to the end.
func (f field) span(text string, open bool) (from, to int, err error) {
	if text == "*" {
		return f.min, f.max, nil
	}
	low, high, ranged := strings.Cut(text, "-")
	if from, err = f.value(low); err != nil {
		return 0, 0, err
	}
	switch {
	case ranged:
		if to, err = f.value(high); err != nil {
			return 0, 0, err
		}
	case open:
		to = f.max
	default:
		to = from
	}
	if to < from {
		return 0, 0, f.bad(text)
	}
	return from, to, nil
}

// value reads a number or a name.
func (f field) value(text string) (int, error) {
	if len(text) == 3 {
		if at := strings.Index(f.names, strings.ToUpper(text)); at >= 0 && at%3 == 0 {
			return f.min + at/3, nil
		}
	}
	for _, digit := range text { // Atoi would take a sign
		if digit < '0' || digit > '9' {
			return 0, f.bad(text)
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < f.min || v > f.max {
		return 0, f.bad(text)
	}
	return v, nil
}

func (f field) bad(text string) error {
	return fmt.Errorf("%q is no value of the field %s", text, f.name)
}

// parseDayOfMonth reads values, L for the last day, and nW for the weekday that
// is nearest to day n without leaving the month.
func parseDayOfMonth(text string) (func(time.Time) bool, error) {
	f := field{"day-of-month", 1, 31, ""}
	if text == "L" {
		return func(date time.Time) bool { return date.Day() == daysIn(date) }, nil
	}
	if number, ok := strings.CutSuffix(text, "W"); ok {
		n, err := f.value(number)
		if err != nil {
			return nil, err
		}
		return func(date time.Time) bool { return date.Day() == nearestWeekday(date, n) }, nil
	}
	days, err := f.list(text, true)
	if err != nil {
		return nil, err
	}
	return func(date time.Time) bool { return days[date.Day()] }, nil
}

// parseDayOfWeek reads values, L for Saturday, dL for the last day d of the month,
// and d#n for the nth. The increment is no wildcard of this field, and a # stands
// alone.
func parseDayOfWeek(text string) (func(time.Time) bool, error) {
	f := field{"day-of-week", 1, 7, "SUNMONTUEWEDTHUFRISAT"}
	weekday := func(date time.Time) int { return int(date.Weekday()) + 1 }
	if text == "L" {
		return func(date time.Time) bool { return weekday(date) == 7 }, nil
	}
	if day, ok := strings.CutSuffix(text, "L"); ok {
		d, err := f.value(day)
		if err != nil {
			return nil, err
		}
		return func(date time.Time) bool { return weekday(date) == d && date.Day()+7 > daysIn(date) }, nil
	}
	if day, nth, ok := strings.Cut(text, "#"); ok {
		d, err := f.value(day)
		if err != nil {
			return nil, err
		}
		n, err := field{"day-of-week", 1, 5, ""}.value(nth)
		if err != nil {
			return nil, err
		}
		return func(date time.Time) bool { return weekday(date) == d && (date.Day()+6)/7 == n }, nil
	}
	days, err := f.list(text, false)
	if err != nil {
		return nil, err
	}
	return func(date time.Time) bool { return days[weekday(date)] }, nil
}

// daysIn is the number of days of the date's month.
func daysIn(date time.Time) int {
	return time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// nearestWeekday is the day of the month that nW means in the date's month, 0 when
// the month has no day n.
func nearestWeekday(date time.Time, n int) int {
	last := daysIn(date)
	if n > last {
		return 0
	}
	switch time.Date(date.Year(), date.Month(), n, 0, 0, 0, 0, time.UTC).Weekday() {
	case time.Saturday:
		if n == 1 {
			return 3
		}
		return n - 1
	case time.Sunday:
		if n == last {
			return n - 2
		}
		return n + 1
	default:
		return n
	}
}

// on reports whether the expression names the date, given at midnight in UTC.
func (c *cron) on(date time.Time) bool {
	return c.years[date.Year()] && c.months[date.Month()] && c.day(date)
}

// next returns the first occurrence after an instant; zero when there is none.
func (c *cron) next(loc *time.Location, after time.Time) time.Time {
	year, month, day := after.In(loc).Date()
	// A day earlier, for a clock that was set back over midnight shows two dates.
	for date := time.Date(year, month, day-1, 0, 0, 0, 0, time.UTC); date.Year() <= lastYear; date = date.AddDate(0, 0, 1) {
		// No wall time of the date is shown later than a day and a half after it began
		// in UTC: most of the time this says that yesterday is over.
		if date.Year() < firstYear || !date.Add(36*time.Hour).After(after) || !c.on(date) {
			continue
		}
		if t := c.nextOn(loc, date, after); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// nextOn returns the first occurrence after an instant on a date.
func (c *cron) nextOn(loc *time.Location, date, after time.Time) time.Time {
	z := newZone(loc, date.Add(12*time.Hour))
	for hour, on := range c.hours {
		if !on || !z.latest(date.Add(time.Duration(hour+1)*time.Hour)).After(after) {
			continue
		}
		for minute, on := range c.minutes {
			if !on {
				continue
			}
			wall := date.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
			if t, exists := z.first(wall); exists && t.After(after) {
				return t
			}
		}
	}
	return time.Time{}
}
