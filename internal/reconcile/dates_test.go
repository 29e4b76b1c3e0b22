package reconcile

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// dailyAt is a deployed policy that runs each day at a time of UTC.
func dailyAt(name, at string) policy.Policy {
	return policy.Policy{
		Name: name, Version: 1, Region: "eu-west-1", Objective: 15 * time.Minute,
		Schedule: policy.Schedule{Every: policy.Daily, At: at, Zone: "UTC"},
	}
}

func deploy(policies ...policy.Policy) func(*Config) {
	return func(c *Config) {
		c.Deployed = map[string]policy.Policy{}
		for _, p := range policies {
			c.Deployed[p.Name] = p
		}
	}
}

// watchedThrough says that the policy's dates were looked at so far.
func (r *region) watchedThrough(name string, at time.Time) {
	r.t.Helper()
	if err := r.ledger.SwapWatch(context.Background(), job.Watch{Policy: name, Rev: 1, Since: at, Through: at}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *region) watch(name string) job.Watch {
	r.t.Helper()
	w, err := r.ledger.Watch(context.Background(), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// ran puts the run of a date, in a state.
func (r *region) ran(name string, at time.Time, state job.RunState) {
	r.t.Helper()
	run := job.Run{
		ID: job.ScheduledRunID("eu-west-1", name, at), Rev: 1, Region: "eu-west-1", Policy: name, Version: 1, PolicySHA256: strings.Repeat("ab", 32),
		Mode: job.Enforce, Scheduled: at, Cutoff: at.AddDate(0, 0, -31), State: state,
	}
	if _, _, err := r.ledger.OpenRun(context.Background(), run); err != nil {
		r.t.Fatal(err)
	}
}

// said returns the instants of the dates that were said to be missed.
func (r *region) said() (dates []string) {
	for _, e := range r.log.Events() {
		if e.Event == audit.DateMissed {
			dates = append(dates, e.Policy+" "+e.Scheduled.Format(time.RFC3339))
		}
	}
	return dates
}

func (r *region) wantSaid(want ...string) {
	r.t.Helper()
	if got := r.said(); !slices.Equal(got, want) {
		r.t.Errorf("missed were\n%q, want\n%q", got, want)
	}
}

// on is an instant of March 2026.
func on(day, hour, minute int) time.Time {
	return time.Date(2026, 3, day, hour, minute, 0, 0, time.UTC)
}

// A policy that is seen for the first time has no past, however old its schedule is.
func TestFirstLookSaysNothingAboutThePast(t *testing.T) {
	r := newRegion(t, deploy(dailyAt("exports", "02:30")))
	if did := r.pass(); did != (Summary{}) {
		t.Errorf("%+v", did)
	}
	if w := r.watch("exports"); w != (job.Watch{Policy: "exports", Rev: 1, Since: noon, Through: noon}) {
		t.Errorf("%+v", w)
	}
	r.wantSaid()
	r.wantMeasured(contract.MissedDates, "exports", 0)
	r.wantMeasured(contract.BusinessDateLag, "exports", 0)
	r.clock.advance(14*time.Hour + 29*time.Minute) // the next date is not yet due
	if did := r.pass(); did != (Summary{}) {
		t.Errorf("%+v", did)
	}
	r.clock.advance(61 * time.Minute)
	if did := r.pass(); did != (Summary{Missed: 1}) {
		t.Errorf("%+v", did)
	}
	r.wantSaid("exports 2026-03-10T02:30:00Z")
}

// L3, R112: a date is missed when its run is not on record an hour after its
// instant. A run in any state is a run.
func TestL3DateWithoutARunIsSaidOnce(t *testing.T) {
	for _, state := range append(job.RunStates(), "") {
		r := newRegion(t, deploy(dailyAt("exports", "11:00")))
		r.watchedThrough("exports", on(8, 12, 0))
		if state != "" {
			r.ran("exports", on(9, 11, 0), state)
		}
		r.clock.advance(-time.Nanosecond)
		did := r.pass()
		if did.Missed != 0 || r.watch("exports").Through.After(on(9, 11, 0)) {
			t.Errorf("%q: it is too early: %+v", state, did)
		}
		r.clock.advance(time.Nanosecond)
		did = r.pass()
		want := 0
		if state == "" {
			want = 1
			r.wantSaid("exports 2026-03-09T11:00:00Z")
		} else {
			r.wantSaid()
		}
		if did.Missed != want || did.Started != 0 {
			t.Errorf("%q: %+v", state, did)
		}
		r.wantMeasured(contract.MissedDates, "exports", float64(want))
		if w := r.watch("exports"); w.Missed != want || !w.Through.Equal(on(9, 11, 0)) || !w.Since.Equal(on(8, 12, 0)) {
			t.Errorf("%q: %+v", state, w)
		}
		if did := r.pass(); did.Missed != 0 || len(r.said()) != want {
			t.Errorf("%q: the next pass: %+v", state, did)
		}
		r.wantMeasured(contract.MissedDates, "exports", 0)
	}
}

func TestMissedDateNamesItsRun(t *testing.T) {
	r := newRegion(t, deploy(dailyAt("exports", "11:00")))
	r.watchedThrough("exports", on(8, 12, 0))
	r.pass()
	e := r.log.Events()[0]
	want := audit.Event{
		Time: noon, Event: audit.DateMissed, Region: "eu-west-1", Policy: "exports", Version: 1, CodeVersion: "test",
		RunID: job.ScheduledRunID("eu-west-1", "exports", on(9, 11, 0)), Scheduled: on(9, 11, 0),
	}
	if e != want {
		t.Errorf("\n got %+v\nwant %+v", e, want)
	}
}

// Of several dates only the newest is started, and only where the policy asks for it.
func TestCatchUpStartsTheNewestMissedDate(t *testing.T) {
	for _, c := range []struct {
		name    string
		catchUp bool
		ran     []int // days of March
		missed  int
		started []string
	}{
		{"off", false, nil, 4, nil},
		{"on", true, nil, 4, []string{"exports 2026-03-09T09:00:00Z"}},
		{"all ran", true, []int{6, 7, 8, 9}, 0, nil},
		{"the newest ran", true, []int{9}, 3, []string{"exports 2026-03-08T09:00:00Z"}},
		{"the oldest ran", true, []int{6}, 3, []string{"exports 2026-03-09T09:00:00Z"}},
	} {
		of := dailyAt("exports", "09:00")
		of.Schedule.CatchUp = c.catchUp
		r := newRegion(t, deploy(of))
		r.watchedThrough("exports", on(5, 12, 0))
		for _, day := range c.ran {
			r.ran("exports", on(day, 9, 0), job.Closed)
		}
		want := Summary{Missed: c.missed, Started: len(c.started)}
		if did := r.pass(); did != want || !slices.Equal(r.scans.started, c.started) || len(r.said()) != c.missed {
			t.Errorf("%s: %+v, started %q, said %q", c.name, did, r.scans.started, r.said())
		}
		if did := r.pass(); did != (Summary{}) {
			t.Errorf("%s: the next pass: %+v", c.name, did)
		}
	}
}

// A region that was away for long says every date, some in each pass, and starts one.
func TestDatesOfAPassAreBounded(t *testing.T) {
	for _, days := range []int{1, maxDates - 1, maxDates, maxDates + 1, 2 * maxDates, 100} {
		a, b := dailyAt("a", "09:00"), dailyAt("b", "09:00")
		a.Schedule.CatchUp = true
		reads := &faultyRuns{}
		r := newRegion(t, deploy(a, b), func(c *Config) { reads.runs, c.Runs = c.Runs, reads })
		r.watchedThrough("a", noon.AddDate(0, 0, -days))
		r.watchedThrough("b", noon.AddDate(0, 0, -30))
		for total := 0; ; {
			reads.reads = 0
			did := r.pass()
			if did.Missed > maxDates || reads.reads > maxDates {
				t.Fatalf("%d days: %+v, %d runs read", days, did, reads.reads)
			}
			if did == (Summary{}) {
				break
			}
			if total += did.Missed; did.Missed < maxDates && total < days+30 {
				t.Errorf("%d days: %+v although %d are left", days, did, days+30-total)
			}
		}
		said := slices.Compact(slices.Sorted(slices.Values(r.said())))
		if len(said) != days+30 || len(r.said()) != days+30 || r.watch("a").Missed != days || r.watch("b").Missed != 30 {
			t.Errorf("%d days: %d of %d said are distinct", days, len(said), len(r.said()))
		}
		if !slices.Equal(r.scans.started, []string{"a 2026-03-09T09:00:00Z"}) {
			t.Errorf("%d days: started %q", days, r.scans.started)
		}
	}
}

// faultyRuns fails every read of one run, and counts the runs that are read.
type faultyRuns struct {
	runs
	of      job.RunID
	history bool // whether reading the history fails
	reads   int
}

func (f *faultyRuns) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	f.reads++
	if id == f.of {
		return job.Run{}, errInjected
	}
	return f.runs.Run(ctx, id)
}

func (f *faultyRuns) ClosedRuns(ctx context.Context, policy string, limit int) ([]job.Run, error) {
	if f.history {
		return nil, errInjected
	}
	return f.runs.ClosedRuns(ctx, policy, limit)
}

// HP-10: New York skips 02:30 on 8 March 2026. Nobody starts that date; it is said,
// caught up as its own, and no other date's run makes up for it in the lag. On
// 1 November 01:30 comes twice and is one date.
func TestHP10SkippedDateIsSaidAndCaughtUp(t *testing.T) {
	of := dailyAt("exports", "02:30")
	of.Schedule.Zone, of.Schedule.CatchUp = "America/New_York", true
	gap, before, after := on(8, 6, 30), on(7, 7, 30), on(9, 6, 30)
	r := newRegion(t, deploy(of))
	r.watchedThrough("exports", on(7, 6, 0))
	r.ran("exports", before, job.Closed)
	r.clock.at = gap.Add(14 * time.Minute)
	r.pass()
	r.wantMeasured(contract.BusinessDateLag, "exports", 0)
	r.clock.at = gap.Add(15 * time.Minute)
	r.pass()
	r.wantMeasured(contract.BusinessDateLag, "exports", 1)
	r.clock.at = gap.Add(time.Hour)
	if did := r.pass(); did != (Summary{Missed: 1, Started: 1}) || !slices.Equal(r.scans.started, []string{"exports 2026-03-08T06:30:00Z"}) {
		t.Errorf("%+v, %q", did, r.scans.started)
	}
	r.wantSaid("exports 2026-03-08T06:30:00Z")
	// Until a run of that date or a later one is closed, it counts.
	r.clock.at = after.Add(20 * time.Minute)
	r.pass()
	r.wantMeasured(contract.BusinessDateLag, "exports", 2)
	r.ran("exports", gap, job.Closed)
	r.pass()
	r.wantMeasured(contract.BusinessDateLag, "exports", 1)

	twice := dailyAt("exports", "01:30")
	twice.Schedule.Zone = "America/New_York"
	r = newRegion(t, deploy(twice))
	r.clock.at = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	r.watchedThrough("exports", r.clock.at.Add(-12*time.Hour))
	if did := r.pass(); did != (Summary{Missed: 1}) {
		t.Errorf("%+v", did)
	}
	r.wantSaid("exports 2026-11-01T05:30:00Z")
}

// What is not deployed here is nobody's to expect.
func TestOnlyDeployedPoliciesOfTheRegionAreWatched(t *testing.T) {
	abroad := dailyAt("abroad", "09:00")
	abroad.Region = "us-east-1"
	r := newRegion(t, deploy(abroad, dailyAt("exports", "09:00")))
	for _, name := range []string{"gone", "abroad"} {
		r.watchedThrough(name, noon.AddDate(0, 0, -9))
	}
	r.pass()
	r.wantSaid()
	for _, name := range []string{"gone", "abroad"} {
		if w := r.watch(name); w.Rev != 1 {
			t.Errorf("%+v", w)
		}
	}
	r.wantMeasured(contract.BusinessDateLag, "", 0)
	for _, m := range r.log.Measured() {
		if m.Policy != "exports" && m.Policy != "" {
			t.Errorf("%s", m)
		}
	}
}

// A pass that has nothing to say writes no watch, but every hour one does: so a
// schedule that is changed has no dates before it was deployed.
func TestWatchMovesOnWithoutDates(t *testing.T) {
	weekly := dailyAt("exports", "09:00")
	weekly.Schedule.Every, weekly.Schedule.Weekday = policy.Weekly, "sunday"
	r := newRegion(t, deploy(weekly))
	r.pass()
	writes := 0
	r.ledger.Hook = func(_ string, apply func() error) error { writes++; return apply() }
	for range 24 * 12 {
		r.clock.advance(5 * time.Minute)
		r.pass()
	}
	if writes < 20 || writes > 24 {
		t.Errorf("%d writes in a day", writes)
	}
	r.config.Deployed["exports"] = dailyAt("exports", "09:00")
	r.Reconciler = r.another()
	r.pass()
	r.wantSaid()
	r.clock.advance(24 * time.Hour)
	if did := r.pass(); did != (Summary{Missed: 1}) {
		t.Errorf("%+v", did)
	}
}

func TestTroubleWithADateLeavesTheWatchWhereItIs(t *testing.T) {
	for name, c := range map[string]struct {
		trouble func(*region, *faultyRuns)
		said    []string // in the pass with the trouble
	}{
		"a run that can not be read": {func(_ *region, f *faultyRuns) { f.of = job.ScheduledRunID("eu-west-1", "a", on(9, 9, 0)) }, nil},
		"enqueue can not be asked": {
			func(r *region, _ *faultyRuns) { r.scans.hook = strike{}.hit },
			[]string{"a 2026-03-08T09:00:00Z", "a 2026-03-09T09:00:00Z"},
		},
		"the watch can not be written": {
			func(r *region, _ *faultyRuns) {
				r.ledger.Hook = func(op string, apply func() error) error {
					if op == "watch" && r.watch("b").Rev == 1 {
						return failure.New(failure.Network, op, "injected")
					}
					return apply()
				}
			},
			[]string{"a 2026-03-08T09:00:00Z", "a 2026-03-09T09:00:00Z"},
		},
	} {
		a, b := dailyAt("a", "09:00"), dailyAt("b", "09:00")
		a.Schedule.CatchUp = true
		f := &faultyRuns{}
		r := newRegion(t, deploy(a, b), func(c *Config) { f.runs, c.Runs = c.Runs, f })
		r.watchedThrough("a", on(7, 12, 0))
		r.watchedThrough("b", on(8, 12, 0))
		c.trouble(r, f)
		if _, err := r.try(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if w := r.watch("a"); w.Rev != 1 {
			t.Errorf("%s: %+v", name, w)
		}
		if got := r.said(); len(got) < len(c.said) || !slices.Equal(got[:len(c.said)], c.said) {
			t.Errorf("%s: said %q", name, got)
		}
		f.of, r.scans.hook, r.ledger.Hook = "", nil, nil
		r.pass()
		if w := r.watch("a"); w.Missed != 2 || !w.Through.Equal(on(9, 11, 0)) {
			t.Errorf("%s: %+v", name, w)
		}
		if w := r.watch("b"); w.Missed != 1 {
			t.Errorf("%s: the other policy: %+v", name, w)
		}
		started := slices.Compact(r.scans.started)
		if !slices.Equal(started, []string{"a 2026-03-09T09:00:00Z"}) {
			t.Errorf("%s: started %q", name, started)
		}
	}
}

// R112: how many dates should be closed by now and are not.
func TestR112BusinessDateLag(t *testing.T) {
	for _, c := range []struct {
		name  string
		since time.Time
		runs  map[int]job.RunState // by day of March, at 11:45
		want  float64
	}{
		{"never closed, first seen today", noon, nil, 0},
		{"never closed, first seen yesterday", on(8, 12, 0), nil, 1},
		{"never closed, first seen five days ago", on(4, 12, 0), nil, 5},
		{"closed today", on(1, 0, 0), map[int]job.RunState{9: job.Closed}, 0},
		{"closed yesterday, the date of today is open", on(1, 0, 0), map[int]job.RunState{8: job.Closed, 9: job.Released}, 1},
		{"today's was rejected", on(1, 0, 0), map[int]job.RunState{8: job.Closed, 9: job.Rejected}, 1},
		{"closed the day before yesterday, then nothing", on(1, 0, 0), map[int]job.RunState{7: job.Closed}, 2},
		{"closed before it was first seen", noon, map[int]job.RunState{5: job.Closed}, 4},
		{"an older one is not closed", on(1, 0, 0), map[int]job.RunState{7: job.Released, 9: job.Closed}, 0},
		{"long ago", noon.AddDate(-1, 0, 0), nil, maxLag},
	} {
		r := newRegion(t, deploy(dailyAt("exports", "11:45")))
		r.watchedThrough("exports", c.since)
		for day, state := range c.runs {
			r.ran("exports", on(day, 11, 45), state)
		}
		r.pass()
		r.wantMeasured(contract.BusinessDateLag, "exports", c.want)
		r.wantMeasured(contract.BusinessDateLag, "", c.want)
	}
	// A date is expected to be closed at the end of its policy's objective.
	patient := dailyAt("exports", "11:45")
	patient.Objective += time.Nanosecond
	r := newRegion(t, deploy(patient))
	r.watchedThrough("exports", on(8, 12, 0))
	r.pass()
	r.wantMeasured(contract.BusinessDateLag, "exports", 0)
}

// R112: the region's lag is the largest of its policies'. A pass that does not know it of
// all of them says at least what it knows, and never that there is none: that it says
// nothing is the alarm.
func TestR112LagThatIsNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		lag     map[string]time.Time // since when nothing was closed, by policy
		trouble func(*Config, *region)
		want    float64 // below 0 is not published
	}{
		"none":                      {nil, nil, 0},
		"the largest":               {map[string]time.Time{"a": on(8, 12, 0), "b": on(5, 12, 0), "c": noon}, nil, 4},
		"a history can not be read": {nil, func(c *Config, _ *region) { c.Runs = &faultyRuns{runs: c.Runs, history: true} }, -1},
		"a watch can not be read":   {map[string]time.Time{"a": noon, "c": noon}, func(c *Config, _ *region) { c.Watches = unwatched{c.Watches, "b"} }, -1},
		"and another is late":       {map[string]time.Time{"a": on(8, 12, 0)}, func(c *Config, _ *region) { c.Watches = unwatched{c.Watches, "b"} }, 1},
		"a watch can not be begun": {nil, func(_ *Config, r *region) {
			r.ledger.Hook = func(op string, apply func() error) error {
				if op == "watch" {
					return errInjected
				}
				return apply()
			}
		}, -1},
		"time ran out": {nil, func(c *Config, r *region) {
			c.Runs = slow{c.Runs, func() { r.clock.advance(50 * time.Second) }}
		}, -1},
	} {
		r := newRegion(t, deploy(dailyAt("a", "11:30"), dailyAt("b", "11:30"), dailyAt("c", "11:30")))
		for policy, since := range c.lag {
			r.watchedThrough(policy, since)
		}
		if c.trouble != nil {
			c.trouble(&r.config, r)
			r.Reconciler = r.another()
		}
		_, _ = r.try()
		t.Run(name, func(t *testing.T) {
			r.t = t
			r.wantMeasured(contract.BusinessDateLag, "", c.want)
		})
	}
}

// A pass that dies has given no sign of life.
func TestR112PassThatDiesDoesNotSayItsLag(t *testing.T) {
	r := newRegion(t, deploy(dailyAt("exports", "11:30")))
	r.open("uploads", job.Scanning)
	r.scans.during = runtime.Goexit
	if !process(func() { r.pass() }) {
		t.Fatal("it lived")
	}
	r.wantMeasured(contract.BusinessDateLag, "", -1)
}

// unwatched is a ledger that can not read the watch of a policy.
type unwatched struct {
	watches
	policy string
}

func (u unwatched) Watch(ctx context.Context, policy string) (job.Watch, error) {
	if policy == u.policy {
		return job.Watch{}, errInjected
	}
	return u.watches.Watch(ctx, policy)
}

// slow is a ledger that takes its time for a history.
type slow struct {
	runs
	take func()
}

func (s slow) ClosedRuns(ctx context.Context, policy string, limit int) ([]job.Run, error) {
	s.take()
	return s.runs.ClosedRuns(ctx, policy, limit)
}

// A request is no date.
func TestRequestsDoNotCountAsDates(t *testing.T) {
	r := newRegion(t, deploy(dailyAt("exports", "09:00")))
	r.watchedThrough("exports", on(8, 12, 0))
	run := job.Run{ID: job.RequestRunID("eu-west-1", "exports", "q"), Rev: 1, Policy: "exports", RequestID: "q", Scheduled: on(9, 11, 0), State: job.Closed}
	if _, _, err := r.ledger.OpenRun(context.Background(), run); err != nil {
		t.Fatal(err)
	}
	if did := r.pass(); did != (Summary{Missed: 1}) {
		t.Errorf("%+v", did)
	}
	r.wantMeasured(contract.BusinessDateLag, "exports", 1)
}

// Dates come before everything that may take all the time there is.
func TestDatesComeFirst(t *testing.T) {
	r := newRegion(t, deploy(dailyAt("exports", "09:00")))
	r.watchedThrough("exports", on(8, 12, 0))
	run := r.open("uploads", job.Released)
	r.add(run, in(job.Sent))
	r.queue.Hook = func(_ string, apply func() error) error { r.clock.advance(50 * time.Second); return apply() }
	if did := r.pass(); did != (Summary{Missed: 1, Resent: 1}) {
		t.Errorf("%+v", did)
	}
	r.wantMeasured(contract.BusinessDateLag, "exports", 1)
}
