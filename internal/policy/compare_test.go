package policy

import (
	"archive/zip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/job"
)

// edits are changes to the base file: the differences they bring, and the
// sentences by what they widen.
var edits = []struct {
	name, old, replacement string
	differences            []Difference
	widens                 []string
}{
	{"nothing", "version: 3", "version: 3", nil, nil},
	{"a version", "version: 3", "version: 4", []Difference{{"version", "3", "4", false}}, nil},
	{"another name", "name: exports", "name: uploads", []Difference{{"name", "exports", "uploads", true}},
		[]string{"The name is uploads and was exports: it is another policy, and no earlier run is its own."}},

	{"another region", "eu-central-1", "us-east-1", []Difference{{"region", "eu-central-1", "us-east-1", true}},
		[]string{"The region is us-east-1 and was eu-central-1: these are other artifacts."}},
	{"another bucket", "acme-exports", "acme-uploads", []Difference{{"bucket", "acme-exports", "acme-uploads", true}},
		[]string{"The bucket is acme-uploads and was acme-exports: these are other artifacts."}},
	{"deeper keys", "exports/{tenant}/csv/", "exports/{tenant}/csv/2026/",
		[]Difference{{"keys", "exports/{tenant}/csv/", "exports/{tenant}/csv/2026/", false}}, nil},
	{"shallower keys", "exports/{tenant}/csv/", "exports/{tenant}/", []Difference{{"keys", "exports/{tenant}/csv/", "exports/{tenant}/", true}},
		[]string{"The keys are exports/{tenant}/ and were exports/{tenant}/csv/: not all of them lie under the keys of before."}},
	{"keys next to it", "exports/{tenant}/csv/", "exports/{tenant}/csv2/", []Difference{{"keys", "exports/{tenant}/csv/", "exports/{tenant}/csv2/", true}},
		[]string{"The keys are exports/{tenant}/csv2/ and were exports/{tenant}/csv/: not all of them lie under the keys of before."}},
	{"S5 the tenant in another segment", "exports/{tenant}/csv/", "exports/a/{tenant}/csv/",
		[]Difference{{"keys", "exports/{tenant}/csv/", "exports/a/{tenant}/csv/", true}},
		[]string{"The keys are exports/a/{tenant}/csv/ and were exports/{tenant}/csv/: not all of them lie under the keys of before."}},
	{"S5 a fixed tenant under the template", "keys: exports/{tenant}/csv/", "keys: exports/school-4/csv/\ntenant: school-4",
		[]Difference{{"keys", "exports/{tenant}/csv/", "exports/school-4/csv/", true}, {"tenant", "(none)", "school-4", true}},
		[]string{"The keys are exports/school-4/csv/ and were exports/{tenant}/csv/: not all of them lie under the keys of before.",
			"The artifacts count as those of tenant school-4, and counted as those of every tenant that matches school-[0-9]+."}},
	{"another pattern", "school-[0-9]+", "school-[0-9]", []Difference{{"tenant_pattern", "school-[0-9]+", "school-[0-9]", true}},
		[]string{"The tenants are those that match school-[0-9], and were those that match school-[0-9]+: nothing proves that they are no more."}},
	{"no pattern any more", "tenant_pattern: school-[0-9]+\n", "", []Difference{{"tenant_pattern", "school-[0-9]+", "(none)", true}},
		[]string{"Every tenant counts, and only those that match school-[0-9]+ counted."}},

	{"shorter retention", "retention_days: 30", "retention_days: 1", []Difference{{"retention_days", "30 days", "1 day", true}},
		[]string{"An artifact is kept for 1 day, and was for 30 days."}},
	{"longer retention", "retention_days: 30", "retention_days: 3650", []Difference{{"retention_days", "30 days", "3,650 days", false}}, nil},
	{"reporting again", "mode: enforce", "mode: report-only", []Difference{{"mode", "enforce", "report-only", false}}, nil},
	{"R137 fewer dates", "mode: enforce", "mode: enforce\nreport_only_dates: 1",
		[]Difference{{"report_only_dates", "3 dates (default)", "1 date", true}},
		[]string{"Before it may delete, it must have only reported on 1 date, and it was 3 dates."}},
	{"R137 the usual dates", "mode: enforce", "mode: enforce\nreport_only_dates: 3",
		[]Difference{{"report_only_dates", "3 dates (default)", "3 dates", false}}, nil},
	{"R137 more dates", "mode: enforce", "mode: enforce\nreport_only_dates: 4",
		[]Difference{{"report_only_dates", "3 dates (default)", "4 dates", false}}, nil},

	{"weekly", "every: daily", "every: weekly\n  weekday: monday",
		[]Difference{{"schedule.every", "daily", "weekly", false}, {"schedule.weekday", "(none)", "monday", false}}, nil},
	{"another time", `"04:15"`, `"05:00"`, []Difference{{"schedule.at", "04:15", "05:00", false}}, nil},
	{"HP-06 a zone without clock changes", "Europe/Berlin", "UTC", []Difference{{"schedule.zone", "Europe/Berlin", "UTC", true}},
		[]string{"Days are counted in UTC, and were in Europe/Berlin: an artifact may go up to 1 hour earlier where clocks are set back."}},
	{"HP-06 another zone and a day more", "retention_days: 30\nmode: enforce\nschedule:\n  every: daily\n  at: \"04:15\"\n  zone: Europe/Berlin",
		"retention_days: 31\nmode: enforce\nschedule:\n  every: daily\n  at: \"04:15\"\n  zone: UTC",
		[]Difference{{"retention_days", "30 days", "31 days", false}, {"schedule.zone", "Europe/Berlin", "UTC", false}}, nil},
	{"HP-06 another zone and a day less", "retention_days: 30\nmode: enforce\nschedule:\n  every: daily\n  at: \"04:15\"\n  zone: Europe/Berlin",
		"retention_days: 29\nmode: enforce\nschedule:\n  every: daily\n  at: \"04:15\"\n  zone: UTC",
		[]Difference{{"retention_days", "30 days", "29 days", true}, {"schedule.zone", "Europe/Berlin", "UTC", true}},
		[]string{"An artifact is kept for 29 days, and was for 30 days.",
			"Days are counted in UTC, and were in Europe/Berlin: an artifact may go up to 1 hour earlier where clocks are set back."}},
	{"HP-10 catching up", "every: daily", "every: daily\n  catch_up: true", []Difference{{"schedule.catch_up", "false", "true", false}}, nil},

	{"S9 more objects", "18240", "100000", []Difference{{"limits.max_objects", "18,240", "100,000", true}},
		[]string{"A run needs approval above 100,000 objects, and did above 18,240."}},
	{"S9 fewer objects", "18240", "1", []Difference{{"limits.max_objects", "18,240", "1", false}}, nil},
	{"S9 a larger share", "0.25", "0.2501", []Difference{{"limits.max_share", "25 %", "25.01 %", true}},
		[]string{"A run needs approval above 25.01 % of what it examined, and did above 25 %."}},
	{"S9 a smaller share", "0.25", "0.2", []Difference{{"limits.max_share", "25 %", "20 %", false}}, nil},
	{"S9 more growth", "2.5", "3", []Difference{{"limits.max_growth", "2.5", "3", true}},
		[]string{"A run needs approval above 3 times its usual size, and did above 2.5 times."}},
	{"S9 less growth", "2.5", "1", []Difference{{"limits.max_growth", "2.5", "1", false}}, nil},
	{"S9 faster", "max_rate: 1000", "max_rate: 2000", []Difference{{"limits.max_rate", "1,000", "2,000", true}},
		[]string{"Up to 2,000 keys a second are deleted, and 1,000 were."}},
	{"S9 slower", "max_rate: 1000", "max_rate: 1", []Difference{{"limits.max_rate", "1,000", "1", false}}, nil},

	{"another objective", "1h30m", "15m", []Difference{{"objective", "1 hour 30 minutes", "15 minutes", false}}, nil},
	{"not urgent", "urgent: true", "urgent: false", []Difference{{"urgent", "true", "false", false}}, nil},
	{"every version", "versions: current", "versions: all", []Difference{{"versions", "current", "all", true}},
		[]string{"Every version of an object is deleted by its id, and only current versions were deleted."}},
}

func TestDifferencesAndByWhatTheyWiden(t *testing.T) {
	old := valid(t, base)
	for _, c := range edits {
		next := valid(t, with(t, c.old, c.replacement))
		if got := Differences(old, next); !slices.Equal(got, c.differences) {
			t.Errorf("%s: differences\ngot  %+v\nwant %+v", c.name, got, c.differences)
		}
		if got := Widens(old, next); !slices.Equal(got, c.widens) {
			t.Errorf("%s: widens\ngot  %q\nwant %q", c.name, got, c.widens)
		}
		// What the modes are does not change what reports of old left unseen.
		if got := Unreported(old, next); !slices.Equal(got, c.widens) {
			t.Errorf("%s: unreported %q", c.name, got)
		}
		old, next := old, next
		old.Mode, next.Mode = job.ReportOnly, job.ReportOnly
		if got := Widens(old, next); got != nil {
			t.Errorf("%s: what deletes nothing widens %q", c.name, got)
		}
		next.Mode = job.Enforce
		if got := Unreported(old, next); !slices.Equal(got, c.widens) {
			t.Errorf("%s: unreported before enforcing %q", c.name, got)
		}
		if got := Widens(old, next); len(got) != len(c.widens)+1 || !slices.Contains(got, "It deletes, and only reported.") {
			t.Errorf("%s: enforcing widens by %q", c.name, got)
		}
	}
}

// The rows that can not be written as one edit of the base file.
func TestWidensLooksAtTemplatesAndTenants(t *testing.T) {
	policy := func(keys, tenant, pattern string) Policy {
		p := defaults()
		p.Keys, p.Tenant, p.TenantPattern, p.RetentionDays, p.Mode = keys, tenant, pattern, 30, job.Enforce
		return p
	}
	for _, c := range []struct {
		name      string
		old, next Policy
		fields    string
	}{
		{"a first pattern is narrower", policy("e/{tenant}/", "", ""), policy("e/{tenant}/", "", "school-.*"), ""},
		{"a first pattern and deeper keys", policy("e/{tenant}/", "", ""), policy("e/{tenant}/csv/", "", "school-.*"), ""},
		{"the same pattern in other words", policy("e/{tenant}/", "", "a|b"), policy("e/{tenant}/", "", "b|a"), "tenant_pattern"},
		{"a root with the same beginning", policy("e/x/", "a", ""), policy("e/xy/", "a", ""), "keys"},
		{"deeper keys of a fixed tenant", policy("e/x/", "a", ""), policy("e/x/y/", "a", ""), ""},
		{"shallower keys of a fixed tenant", policy("e/x/y/", "a", ""), policy("e/x/", "a", ""), "keys"},
		{"another fixed tenant", policy("e/x/", "a", ""), policy("e/x/", "b", ""), "tenant"},
		// Under e/ everything was acme's; now the first segment says whose it is.
		{"S5 a template under a fixed tenant", policy("e/", "acme", ""), policy("e/{tenant}/", "", ""), "tenant"},
		{"S5 the root of a template, of one tenant", policy("e/{tenant}/", "", ""), policy("e/", "acme", ""), "keys tenant"},
		{"S10 anything after nothing", Policy{}, policy("e/{tenant}/", "", ""),
			"keys mode limits.max_objects limits.max_share limits.max_growth limits.max_rate"},
	} {
		var fields []string
		for _, d := range Differences(c.old, c.next) {
			if d.Widens {
				fields = append(fields, d.Field)
			}
		}
		if got := strings.Join(fields, " "); got != c.fields {
			t.Errorf("%s: widens by %q, want %q", c.name, got, c.fields)
		}
		if c.fields == "" != (len(Widens(c.old, c.next)) == 0) {
			t.Errorf("%s: %q", c.name, Widens(c.old, c.next))
		}
	}
}

// A key that is added to the policy has to be compared too.
func TestDifferencesNamesEveryKey(t *testing.T) {
	old := valid(t, base)
	var keys, named []string
	var alter func(path string, of reflect.Value, whole *Policy)
	alter = func(path string, of reflect.Value, whole *Policy) {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
			field := of.Field(i)
			if !field.CanSet() {
				continue
			}
			before := reflect.ValueOf(field.Interface())
			switch key := join(path, name); field.Kind() {
			case reflect.Struct:
				alter(key, field, whole)
				continue
			case reflect.String:
				field.SetString(field.String() + "x")
			case reflect.Int, reflect.Int64:
				field.SetInt(field.Int() + int64(time.Second))
			case reflect.Float64:
				field.SetFloat(field.Float() + 1)
			case reflect.Bool:
				field.SetBool(!field.Bool())
			default:
				t.Fatalf("%s is of a kind that this test can not alter", key)
			}
			keys = append(keys, join(path, name))
			for _, d := range Differences(old, *whole) {
				named = append(named, d.Field)
			}
			field.Set(before)
		}
	}
	changed := old
	alter("", reflect.ValueOf(&changed).Elem(), &changed)
	if !slices.Equal(keys, named) || len(keys) < 22 {
		t.Errorf("altered one by one: %q\nnamed as different: %q", keys, named)
	}
	// All at once they come in the order of the schema.
	all := Policy{}
	for _, d := range Differences(all, valid(t, base+"report_only_dates: 1\n")) {
		if i := slices.Index(keys, d.Field); i < 0 {
			t.Errorf("%s is out of order", d.Field)
		} else {
			keys = keys[i+1:]
		}
	}
}

// pair draws two versions of a policy that are alike in most keys.
func pair(t *rapid.T) (old, next Policy) {
	old = defaults()
	old.Bucket, old.Keys, old.RetentionDays, old.Mode = "b", "exports/{tenant}/", 2, job.Enforce
	old.Schedule = Schedule{Every: Daily, At: "02:30", Zone: "Europe/Berlin"}
	edit := func(p *Policy, label string) {
		for range rapid.IntRange(0, 3).Draw(t, label) {
			switch rapid.IntRange(0, 9).Draw(t, "key") {
			case 0:
				of := template(t)
				p.Keys, p.Tenant = of.Keys, of.Tenant
			case 1:
				p.TenantPattern = template(t).TenantPattern
			case 2:
				p.RetentionDays = rapid.IntRange(1, 3).Draw(t, "days")
			case 3:
				p.Mode = rapid.SampledFrom([]job.Mode{job.ReportOnly, job.Enforce}).Draw(t, "mode")
			case 4:
				p.Schedule.Zone = rapid.SampledFrom(sevenZones).Draw(t, "zone")
			case 5:
				p.Versions = rapid.SampledFrom([]Versions{CurrentVersions, AllVersions}).Draw(t, "versions")
			case 6:
				p.Limits.MaxObjects = rapid.IntRange(1, 3_000).Draw(t, "objects")
			case 7:
				p.Limits.MaxShare = float64(rapid.IntRange(1, 10_000).Draw(t, "share")) / 10_000
			case 8:
				p.Limits.MaxGrowth = float64(rapid.IntRange(100, 1_000).Draw(t, "growth")) / 100
			case 9:
				p.ReportOnlyDates = rapid.IntRange(0, 5).Draw(t, "dates")
			}
		}
	}
	edit(&old, "edits of both")
	next = old
	edit(&next, "edits of the next")
	return old, next
}

// S1: where Widens says nothing, the next version deletes nothing at any instant
// that the old one keeps, and its guard stops at least what the old one's stops.
func TestS1WhatWidensNothingDeletesNoMore(t *testing.T) {
	silent, deleted, stopped := 0, 0, 0
	start := time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	end := time.Date(2037, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	rapid.Check(t, func(t *rapid.T) {
		old, next := pair(t)
		if same := string(old.Canonical()) == string(next.Canonical()); same != (len(Differences(old, next)) == 0) {
			t.Fatalf("the forms are the same: %v, and the differences %v", same, Differences(old, next))
		}
		reports, enforced := old, next
		reports.Mode, enforced.Mode = job.Enforce, job.Enforce
		if unreported := Unreported(old, next); !slices.Equal(unreported, Widens(reports, enforced)) {
			t.Fatalf("unreported %q", unreported)
		}
		if len(Widens(old, next)) > 0 {
			return
		}
		silent++
		at := time.Unix(rapid.Int64Range(start, end).Draw(t, "at"), 0)
		deleted += checkNoMore(t, old, next, at)
		f := GuardFacts{Examined: 3_000, Candidates: rapid.IntRange(0, 3_000).Draw(t, "candidates"),
			History: rapid.SliceOfN(rapid.IntRange(0, 500), 0, 10).Draw(t, "history")}
		if len(old.Guard(f)) > 0 {
			stopped++
			if next.Mode == job.Enforce && len(next.Guard(f)) == 0 {
				t.Fatalf("S9: the guard of %+v stops %+v, and not that of %+v", old, f, next)
			}
		}
	})
	if silent == 0 || deleted == 0 || stopped == 0 {
		t.Errorf("looked at %d pairs, %d deletes, %d stops", silent, deleted, stopped)
	}
}

// checkNoMore holds what next deletes at an instant against what old does, on keys
// of every template and at the edges of both cutoffs. It returns how many it deletes.
func checkNoMore(t interface{ Fatalf(string, ...any) }, old, next Policy, at time.Time) int {
	deleted := 0
	was, is := old.Cutoff(at), next.Cutoff(at)
	for _, key := range []string{"exports/school-4/csv/x", "exports/school-4/x", "exports/acme/csv/x", "exports/nobody-1/x",
		"a/exports/acme/csv/exports/x", "exports/x", "exports/school-42/csv/", "exports/A/a"} {
		tenant, _ := next.TenantOf(key)
		for _, edge := range []time.Time{was, is} {
			for _, modified := range []time.Time{edge.Add(-1), edge, edge.Add(-26 * time.Hour)} {
				// A listing of all versions always names the version, and markers have no ETag.
				for _, item := range []job.Item{
					{Key: key, ETag: "1", Version: "v", Modified: modified},
					{Key: key, Marker: true, Version: "m", Modified: modified},
				} {
					now := Decide(Facts{Policy: &next, Tenant: tenant, Cutoff: is, Item: item})
					before := Decide(Facts{Policy: &old, Tenant: tenant, Cutoff: was, Item: item})
					if !now.Delete || next.Mode != job.Enforce {
						continue
					}
					deleted++
					if !before.Delete || old.Mode != job.Enforce {
						t.Fatalf("S1: at %s %+v goes by %+v, and stayed by %+v", at, item, next, old)
					}
				}
			}
		}
	}
	return deleted
}

// HP-06: the same at every clock change of thirty years, for every change from one
// zone to another. Zones whose clocks change alike are not told apart: those count
// as wider although nothing goes earlier, so only UTC, which has none, is held to it.
func TestHP06ZoneWidensWhereSomethingGoesEarlier(t *testing.T) {
	locations, changes := map[string]*time.Location{}, map[string][]time.Time{}
	for _, zone := range sevenZones {
		loc, _ := loadZone(zone)
		locations[zone] = loc
		for at := time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2037; at = at.Add(6 * time.Hour) {
			if offsetAt(loc, at) != offsetAt(loc, at.Add(-24*time.Hour)) {
				changes[zone] = append(changes[zone], at)
			}
		}
	}
	for _, from := range sevenZones {
		for _, to := range sevenZones {
			old, next := days(1, from), days(1, to)
			old.Mode, next.Mode = job.Enforce, job.Enforce
			earlier := time.Duration(0)
			for _, at := range slices.Concat(changes[from], changes[to]) {
				earlier = max(earlier, next.cutoffIn(locations[to], at).Sub(old.cutoffIn(locations[from], at)))
			}
			widens := len(Widens(old, next)) > 0
			if earlier > 0 && !widens || widens && earlier == 0 && to == "UTC" {
				t.Errorf("%s to %s: an artifact goes %s earlier, and Widens says %q", from, to, earlier, Widens(old, next))
			}
			if back := setBack(from); earlier > back {
				t.Errorf("%s to %s: %s earlier, and clocks were set back by %s", from, to, earlier, back)
			}
			next.RetentionDays = 2
			if found := Widens(old, next); found != nil {
				t.Errorf("%s to %s and a day more: %q", from, to, found)
			}
		}
	}
}

// A day more of retention outweighs the clocks of every zone there is.
func TestSetBackIsLessThanADayEverywhere(t *testing.T) {
	for zone, want := range map[string]time.Duration{
		"UTC": 0, "Asia/Tokyo": 0, "Europe/Berlin": time.Hour, "Australia/Lord_Howe": 30 * time.Minute,
		"Antarctica/Troll": 2 * time.Hour, "Pacific/Apia": time.Hour, "Europe/Moscow": time.Hour, "Mars/Olympus": reach,
	} {
		if got := setBack(zone); got != want {
			t.Errorf("%s: %s, want %s", zone, got, want)
		}
	}
	archive, err := zip.NewReader(strings.NewReader(zones), int64(len(zones)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if got := setBack(f.Name); got < 0 || got >= 24*time.Hour {
			t.Errorf("%s: %s", f.Name, got)
		}
	}
}
