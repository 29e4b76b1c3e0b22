package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func mustZone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, ok := loadZone(name)
	if !ok {
		t.Fatalf("no zone %s", name)
	}
	return loc
}

// occurrences lists the first n occurrences after an instant, in UTC.
func occurrences(t *testing.T, expr, zone, after string, n int) []string {
	t.Helper()
	e, err := parseExpression(expr, mustZone(t, zone))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	at, err := time.Parse(time.RFC3339, after)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range n {
		at = e.next(at, time.Time{})
		if at.IsZero() {
			return append(got, "none")
		}
		got = append(got, at.UTC().Format("2006-01-02T15:04"))
	}
	return got
}

func TestCron(t *testing.T) {
	const after = "2026-01-30T12:00:00Z" // a Friday
	for expr, want := range map[string]string{
		"cron(30 2 * * ? *)":             "2026-01-31T02:30 2026-02-01T02:30",
		"cron(0 12 30 1 ? 2026)":         "none",
		"cron(0 13 30 1 ? 2026)":         "2026-01-30T13:00 none",
		"cron(0/20 13 * * ? *)":          "2026-01-30T13:00 2026-01-30T13:20 2026-01-30T13:40 2026-01-31T13:00",
		"cron(5-15/5 0,23 * * ? *)":      "2026-01-30T23:05 2026-01-30T23:10 2026-01-30T23:15 2026-01-31T00:05",
		"cron(*/30 * * * ? *)":           "2026-01-30T12:30 2026-01-30T13:00",
		"cron(50/7 12 * * ? *)":          "2026-01-30T12:50 2026-01-30T12:57 2026-01-31T12:50",
		"cron(0 0 L * ? *)":              "2026-01-31T00:00 2026-02-28T00:00 2026-03-31T00:00",
		"cron(0 0 31 * ? *)":             "2026-01-31T00:00 2026-03-31T00:00 2026-05-31T00:00",
		"cron(0 0 29 2 ? *)":             "2028-02-29T00:00 2032-02-29T00:00",
		"cron(0 0 30 2 ? *)":             "none",
		"cron(0 0 1/10 * ? *)":           "2026-01-31T00:00 2026-02-01T00:00 2026-02-11T00:00",
		"cron(0 0 1W * ? *)":             "2026-02-02T00:00 2026-03-02T00:00 2026-04-01T00:00", // Sundays become the 2nd
		"cron(0 0 1W 8 ? 2026)":          "2026-08-03T00:00 none",                              // a Saturday stays in its month
		"cron(0 0 15W * ? *)":            "2026-02-16T00:00 2026-03-16T00:00 2026-04-15T00:00", // Sunday, Sunday, Wednesday
		"cron(0 0 14W 2,3 ? *)":          "2026-02-13T00:00 2026-03-13T00:00",                  // Saturdays
		"cron(0 0 31W * ? *)":            "2026-03-31T00:00 2026-05-29T00:00 2026-07-31T00:00", // only months that have one
		"cron(0 0 ? * 1 *)":              "2026-02-01T00:00 2026-02-08T00:00",                  // Sunday is 1
		"cron(0 0 ? * 7 *)":              "2026-01-31T00:00 2026-02-07T00:00",                  // Saturday is 7
		"cron(0 0 ? * L *)":              "2026-01-31T00:00 2026-02-07T00:00",                  // the last day of the week
		"cron(0 0 ? * 6L *)":             "2026-02-27T00:00 2026-03-27T00:00",                  // the last Friday
		"cron(0 0 ? * fril *)":           "refused",                                            // no such letter
		"cron(0 0 ? * FRIL *)":           "2026-02-27T00:00 2026-03-27T00:00",                  //
		"cron(0 0 ? 7 6L 2026)":          "2026-07-31T00:00 none",                              // the last day is the last Friday
		"cron(0 0 ? * 3#2 *)":            "2026-02-10T00:00 2026-03-10T00:00",                  // the second Tuesday
		"cron(0 0 ? * MON#5 *)":          "2026-03-30T00:00 2026-06-29T00:00",                  // months without a fifth are left out
		"cron(0 18 ? * MON-FRI *)":       "2026-01-30T18:00 2026-02-02T18:00",                  //
		"cron(0 8 ? FEB,mar Sun,WED *)":  "2026-02-01T08:00 2026-02-04T08:00",                  //
		"cron(0 0 1 JAN-DEC/6 ? *)":      "2026-07-01T00:00 2027-01-01T00:00",                  //
		"cron(0 0 1 1 ? 2030-2199/50)":   "2030-01-01T00:00 2080-01-01T00:00 2130-01-01T00:00", //
		"cron(0 0 1 1 ? 1970-2000)":      "none",                                               //
		"cron(  15   10 ? *   6L 2026 )": "2026-02-27T10:15 2026-03-27T10:15",                  //
		"rate(5 minutes)":                "2026-01-30T12:05 2026-01-30T12:10",
		"at(2026-03-08T02:30:00)":        "2026-03-08T02:30 none",
		"at(2026-01-30T12:00:00)":        "none",
	} {
		t.Run(expr, func(t *testing.T) {
			if want == "refused" {
				if _, err := parseExpression(expr, time.UTC); err == nil {
					t.Fatal("taken")
				}
				return
			}
			list := strings.Fields(want)
			if strings.HasPrefix(expr, "rate") {
				e, err := parseExpression(expr, time.UTC)
				if err != nil {
					t.Fatal(err)
				}
				origin := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
				for n, w := range list {
					if got := e.next(origin.Add(time.Duration(n)*e.period), origin).Format("2006-01-02T15:04"); got != w {
						t.Fatalf("got %s, want %s", got, w)
					}
				}
				return
			}
			if got := occurrences(t, expr, "UTC", after, len(list)); !slices.Equal(got, list) {
				t.Fatalf("got  %v\nwant %v", got, list)
			}
		})
	}
}

func TestExpressionsRefused(t *testing.T) {
	for _, expr := range []string{
		"", "daily", "cron", "cron()", "cron(30 2 * * ? *", "cron 30 2 * * ? *", "CRON(30 2 * * ? *)", "every(5 minutes)",
		"cron(30 2 * * ?)", "cron(0 30 2 * * ? *)", // five and seven fields
		"cron(30 2 * * * *)", "cron(30 2 ? * ? *)", "cron(30 2 1 * MON *)", "cron(30 2 * * MON *)", // one ? exactly
		"cron(60 2 * * ? *)", "cron(-1 2 * * ? *)", "cron(+1 2 * * ? *)", "cron(30 24 * * ? *)", "cron(30 2 0 * ? *)", "cron(30 2 32 * ? *)",
		"cron(30 2 * 0 ? *)", "cron(30 2 * 13 ? *)", "cron(30 2 ? * 0 *)", "cron(30 2 ? * 8 *)", "cron(30 2 * * ? 1969)", "cron(30 2 * * ? 2200)",
		"cron(0/0 2 * * ? *)", "cron(0/x 2 * * ? *)", "cron(/5 2 * * ? *)", "cron(0/60 2 * * ? *)", "cron(5-1 2 * * ? *)", "cron(1- 2 * * ? *)", "cron(1,,2 2 * * ? *)", "cron(, 2 * * ? *)",
		"cron(? 2 * * ? *)", "cron(L 2 * * ? *)", "cron(30 2 * ? ? *)",
		"cron(30 2 LW * ? *)", "cron(30 2 L-3 * ? *)", "cron(30 2 W * ? *)", "cron(30 2 32W * ? *)", "cron(30 2 1W,15W * ? *)",
		"cron(30 2 ? * 3#6 *)", "cron(30 2 ? * 3#0 *)", "cron(30 2 ? * 3#1,6#3 *)", "cron(30 2 ? * #1 *)", "cron(30 2 ? * MON/2 *)", "cron(30 2 ? * MONDAY *)", "cron(30 2 ? * UNM *)", "cron(30 2 ? * 2W *)",
		"rate()", "rate(5)", "rate(0 minutes)", "rate(-5 minutes)", "rate(+5 minutes)", "rate(5 seconds)", "rate(1.5 hours)", "rate(five minutes)", "rate(99999999999 days)", "rate(5 minutes 3)",
		"at()", "at(2026-03-08)", "at(2026-03-08T02:30)", "at(2026-03-08T02:30:00Z)", "at(2026-03-08 02:30:00)", "at(2026-02-30T02:30:00)", "at(2026-03-08T02:30:00.5)", "at(2026-3-08T02:30:00)",
	} {
		if e, err := parseExpression(expr, time.UTC); err == nil {
			t.Errorf("%q was taken: %+v", expr, e)
		}
	}
}

// HP-10: a wall time that a clock change skips does not fire; one that comes twice
// fires once, the first time.
func TestClockChanges(t *testing.T) {
	for _, c := range []struct{ name, expr, zone, after, want string }{
		{"HP-10 the gap of New York", "cron(30 2 * * ? *)", "America/New_York", "2026-03-06T12:00:00Z",
			"2026-03-07T07:30 2026-03-09T06:30 2026-03-10T06:30"},
		{"HP-10 the day of the overlap", "cron(30 2 * * ? *)", "America/New_York", "2026-10-30T12:00:00Z",
			"2026-10-31T06:30 2026-11-01T07:30 2026-11-02T07:30"},
		{"HP-10 the overlap of New York", "cron(30 1 * * ? *)", "America/New_York", "2026-10-31T12:00:00Z",
			"2026-11-01T05:30 2026-11-02T06:30"},
		{"between the two", "cron(30 1 * * ? *)", "America/New_York", "2026-11-01T06:00:00Z", "2026-11-02T06:30"},
		{"every half hour loses the doubled hour", "cron(0/30 0-2 1 11 ? 2026)", "America/New_York", "2026-11-01T03:00:00Z",
			"2026-11-01T04:00 2026-11-01T04:30 2026-11-01T05:00 2026-11-01T05:30 2026-11-01T07:00 2026-11-01T07:30 none"},
		{"every half hour jumps the gap", "cron(0/30 1-3 8 3 ? 2026)", "America/New_York", "2026-03-08T03:00:00Z",
			"2026-03-08T06:00 2026-03-08T06:30 2026-03-08T07:00 2026-03-08T07:30 none"},
		{"half an hour on Lord Howe", "cron(15 2 4,5 10 ? 2026)", "Australia/Lord_Howe", "2026-10-01T00:00:00Z",
			"2026-10-04T15:15 none"}, // 02:15 on the 4th is skipped
		{"midnight in Santiago", "cron(30 0 6 9 ? 2026)", "America/Santiago", "2026-09-01T00:00:00Z", "none"},
		{"the date that Samoa left out", "cron(0 12 29-31 12 ? 2011)", "Pacific/Apia", "2011-12-01T00:00:00Z",
			"2011-12-29T22:00 2011-12-30T22:00 none"},
		{"at in the gap", "at(2026-03-08T02:30:00)", "America/New_York", "2026-03-01T00:00:00Z", "none"},
		{"at in the overlap", "at(2026-11-01T01:30:00)", "America/New_York", "2026-03-01T00:00:00Z", "2026-11-01T05:30 none"},
		{"east of everything", "cron(0 0 1 1 ? 2027)", "Pacific/Kiritimati", "2026-12-30T00:00:00Z", "2026-12-31T10:00 none"},
		{"half an hour off", "cron(30 2 1 1 ? 2027)", "Asia/Kolkata", "2026-12-30T00:00:00Z", "2026-12-31T21:00 none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.Fields(c.want)
			if got := occurrences(t, c.expr, c.zone, c.after, len(want)); !slices.Equal(got, want) {
				t.Fatalf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// Around every kind of clock change each wall time comes once and in order.
func TestEveryHalfHour(t *testing.T) {
	for _, c := range []struct {
		zone string
		from time.Time
	}{
		{"UTC", time.Date(2026, 2, 25, 0, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2026, 10, 29, 0, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 4, 2, 0, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)},
		{"Africa/Casablanca", time.Date(2026, 2, 13, 0, 0, 0, 0, time.UTC)},
	} {
		e, err := parseExpression("cron(0/30 * * * ? *)", mustZone(t, c.zone))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for at := c.from; at.Before(c.from.AddDate(0, 0, 7)); {
			next := e.next(at, time.Time{})
			wall := next.In(e.loc).Format("2006-01-02T15:04")
			if !next.After(at) || seen[wall] {
				t.Fatalf("%s: %v comes after %v", c.zone, next, at)
			}
			if gap := next.Sub(at); gap > 90*time.Minute {
				t.Fatalf("%s: nothing for %v before %v", c.zone, gap, next)
			}
			seen[wall] = true
			at = next
		}
	}
}
