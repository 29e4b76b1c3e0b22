package redrive_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

func setBrake(position, policy string, version int) redrive.BrakeRequest {
	return redrive.BrakeRequest{Op: redrive.OpBrake, Set: position, Policy: policy, Version: version, Signature: ana}
}

// E7, F13: a brake is an order before it is in force, says when it takes effect, and
// stops workers; released, everything goes on.
func TestBrake(t *testing.T) {
	r := newRegion(t)
	r.put("exports", "acme", "a")
	_, err := r.Tick(t.Context(), "exports", noon)
	must(t, err)
	r.still(func() {
		a, err := ask[redrive.Brakes](r, r.Redriver, setBrake(redrive.On, "exports", 1))
		must(t, err)
		want := redrive.BrakeInForce{Policy: "exports", Version: 1, Reason: ana.Reason, By: ana.By, At: r.Clock.Now()}
		if len(a.Brakes) != 1 || a.Brakes[0] != want || !a.StoppedBy.Equal(r.Clock.Now().Add(r.Settings.FunctionTimeout)) ||
			!strings.Contains(a.Effect, "one function timeout") {
			t.Errorf("%+v", a)
		}
	}, "entry", "brake")
	must(t, r.Drain(t.Context()))
	r.deletedOnce(0)
	_, err = ask[redrive.Brakes](r, r.Redriver, setBrake(redrive.Off, "exports", 0))
	refused(t, err, failure.Absent, "in force: exports@1")
	a, err := ask[redrive.Brakes](r, r.Redriver, setBrake(redrive.Off, "exports", 1))
	must(t, err)
	if len(a.Brakes) != 0 || !a.StoppedBy.IsZero() || !strings.Contains(a.Effect, "within 5m0s") {
		t.Errorf("%+v", a)
	}
	must(t, r.Drain(t.Context()))
	r.deletedOnce(1)
	r.holds()
	if on, off := r.entries(audit.BrakeSet), r.entries(audit.BrakeReleased); len(on) != 1 || len(off) != 1 || on[0].Policy != "exports" || on[0].Version != 1 {
		t.Errorf("%+v, %+v", on, off)
	}
	_, err = ask[redrive.Brakes](r, r.Redriver, setBrake(redrive.Off, "", 0))
	refused(t, err, failure.Absent, "the region", "in force: none")
}

// A brake on a misspelled name would stop nothing, and whoever set it would not know.
func TestBrakeOnNothing(t *testing.T) {
	r := newRegion(t)
	for _, q := range []redrive.BrakeRequest{setBrake(redrive.On, "export", 0), setBrake(redrive.On, "exports", 2)} {
		r.still(func() {
			_, err := ask[redrive.Brakes](r, r.Redriver, q)
			refused(t, err, failure.Absent, "would stop nothing")
		})
	}
	if a, err := ask[redrive.Brakes](r, r.Redriver, setBrake(redrive.On, "", 0)); err != nil || len(a.Brakes) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := ask[redrive.Brakes](r, r.Redriver, setBrake(redrive.On, "exports", 0)); err != nil || len(a.Brakes) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}

// Each write of a brake in each way: there is no brake without an order, and an
// answer without an error means that it is as ordered.
func TestEveryWriteOfABrake(t *testing.T) {
	for _, position := range []string{redrive.On, redrive.Off} {
		for at := range 2 {
			for _, s := range strikes {
				r := newRegion(t)
				if position == redrive.Off {
					must(t, r.Ledger.SetBrake(t.Context(), job.Brake{}))
				}
				var err error
				died := false
				r.under(&script{at: at, strike: s}, func() {
					died = process(func() { _, err = ask[redrive.Brakes](r, r.Redriver, setBrake(position, "", 0)) })
				})
				brakes, berr := r.Ledger.Brakes(t.Context())
				must(t, berr)
				done := (len(brakes) == 1) == (position == redrive.On)
				ordered := len(r.entries(audit.BrakeSet))+len(r.entries(audit.BrakeReleased)) == 1
				if done && !ordered || !died && err == nil && !done || done != (at == 1 && s.applied) {
					t.Errorf("%s, write %d, %s: done %v, ordered %v, %v", position, at, s, done, ordered, err)
				}
			}
		}
	}
}

// stopped is a region with a run that the guard stopped: two tenants, three objects.
type stopped struct {
	*region
	stopped job.Run
}

func newStopped(t *testing.T) stopped {
	t.Helper()
	r := newRegionOf(t, strings.Replace(exportsYAML, "max_share: 1", "max_share: 1, max_objects: 2", 1), uploadsYAML)
	r.put("exports", "acme", "a", "b")
	r.put("exports", "beta", "a")
	_, err := r.Tick(t.Context(), "exports", noon)
	must(t, err)
	run, err := r.Ledger.Run(t.Context(), job.ScheduledRunID(regionName, "exports", noon))
	must(t, err)
	if run.State != job.AwaitingApproval {
		t.Fatalf("%+v", run)
	}
	return stopped{r, run}
}

func approve(op string, id job.RunID, fingerprint, override string) redrive.ApproveRequest {
	return redrive.ApproveRequest{Op: op, Run: id, Fingerprint: fingerprint, Override: override, Signature: ana}
}

// A stopped run is looked at first, and approved by the fingerprint of what was seen.
// One write releases it, and reconcile sends its pages.
func TestApprove(t *testing.T) {
	r := newStopped(t)
	run := r.stopped
	r.still(func() {
		a, err := ask[redrive.Stopped](r.region, r.Redriver, redrive.ApproveRequest{Op: redrive.OpApprove, Run: run.ID})
		must(t, err)
		if a.State != job.AwaitingApproval || a.Policy != "exports" || a.Version != 1 || a.NewestVersion != 1 || a.Superseded || len(a.Trips) != 1 ||
			a.Candidates != 3 || a.Examined != 3 || a.Pages != 2 || a.Tenants != 2 || !a.Cutoff.Equal(run.Cutoff) || a.Fingerprint != run.Fingerprint() {
			t.Errorf("%+v", a)
		}
	})
	r.still(func() {
		_, err := ask[redrive.Stopped](r.region, r.Redriver, approve(redrive.OpApprove, run.ID, strings.Repeat("0", 32), ""))
		refused(t, err, failure.Conflict, "another scan")
	})
	r.still(func() {
		a, err := ask[redrive.Stopped](r.region, r.Redriver, approve(redrive.OpApprove, run.ID, run.Fingerprint(), ""))
		must(t, err)
		if a.State != job.Released || !strings.Contains(a.Next, "Reconcile sends") {
			t.Errorf("%+v", a)
		}
	}, "entry", "run:released")
	stored, err := r.Ledger.Run(t.Context(), run.ID)
	must(t, err)
	if stored.Approval != ana.Reason || stored.ApprovedBy != ana.By || len(stored.Trips) != 1 {
		t.Errorf("%+v", stored)
	}
	if e := r.entries(audit.RunApproved); len(e) != 1 || e[0].RunID != run.ID || e[0].Count != 3 || e[0].Policy != "exports" || len(r.events(audit.RunReleased)) != 1 {
		t.Errorf("%+v", e)
	}
	must(t, r.Drain(t.Context()))
	r.deletedOnce(3)
	r.holds()
	_, err = ask[redrive.Stopped](r.region, r.Redriver, approve(redrive.OpApprove, run.ID, run.Fingerprint(), ""))
	refused(t, err, failure.Conflict, "closed")
	_, err = ask[redrive.Stopped](r.region, r.Redriver, approve(redrive.OpApprove, job.RunID(strings.Repeat("0", 32)), "", ""))
	refused(t, err, failure.Absent, "no such run")
}

func TestReject(t *testing.T) {
	r := newStopped(t)
	run := r.stopped
	a, err := ask[redrive.Stopped](r.region, r.Redriver, approve(redrive.OpReject, run.ID, run.Fingerprint(), ""))
	must(t, err)
	if a.State != job.Rejected || len(r.entries(audit.RunRejected)) != 1 || len(r.events(audit.RunReleased)) != 0 {
		t.Errorf("%+v", a)
	}
	must(t, r.Drain(t.Context()))
	r.deletedOnce(0)
	r.holds()
}

// F18: a run whose rule was replaced meanwhile is shown as such, and refused without
// an override that is recorded. It can be rejected without one.
func TestF18ApproveOfASupersededVersion(t *testing.T) {
	for _, op := range []string{redrive.OpApprove, redrive.OpReject} {
		r := newStopped(t)
		run := r.stopped
		must(t, r.Ledger.PublishPolicy(t.Context(), r.parse(strings.Replace(exportsYAML, "version: 1", "version: 2", 1))))
		a, err := ask[redrive.Stopped](r.region, r.Redriver, redrive.ApproveRequest{Op: op, Run: run.ID})
		must(t, err)
		if !a.Superseded || a.NewestVersion != 2 || !strings.Contains(a.Next, "override") {
			t.Errorf("%+v", a)
		}
		if op == redrive.OpApprove {
			r.still(func() {
				_, err := ask[redrive.Stopped](r.region, r.Redriver, approve(op, run.ID, run.Fingerprint(), ""))
				refused(t, err, failure.Conflict, "superseded by 2", "override")
			})
			a, err = ask[redrive.Stopped](r.region, r.Redriver, approve(op, run.ID, run.Fingerprint(), "the old rule is the law's"))
			if err != nil || a.State != job.Released || r.entries(audit.RunApproved)[0].Override != "the old rule is the law's" {
				t.Errorf("%+v, %v", a, err)
			}
			continue
		}
		if a, err = ask[redrive.Stopped](r.region, r.Redriver, approve(op, run.ID, run.Fingerprint(), "")); err != nil || a.State != job.Rejected {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// A run whose rule is gone, or is another region's, is not released.
func TestApproveIsRefused(t *testing.T) {
	r := newStopped(t)
	run := r.stopped
	abroad := r.another(func(c *redrive.Config) { c.Region = "us-east-1" })
	_, err := ask[redrive.Stopped](r.region, abroad, approve(redrive.OpApprove, run.ID, run.Fingerprint(), ""))
	refused(t, err, failure.Invalid, "another region")
	run.PolicySHA256, run.Rev = strings.Repeat("0", 64), run.Rev+1
	must(t, r.Ledger.SwapRun(t.Context(), run))
	r.still(func() {
		_, err := ask[redrive.Stopped](r.region, r.Redriver, approve(redrive.OpApprove, run.ID, run.Fingerprint(), "whatever it takes"))
		refused(t, err, failure.Conflict, "not on record")
	})
}

// Each write of a decision in each way, and a rival between look and write.
func TestEveryWriteOfADecision(t *testing.T) {
	for op, state := range map[string]job.RunState{redrive.OpApprove: job.Released, redrive.OpReject: job.Rejected} {
		for at := range 2 {
			for _, s := range strikes {
				r := newStopped(t)
				var err error
				died := false
				r.under(&script{at: at, strike: s}, func() {
					died = process(func() {
						_, err = ask[redrive.Stopped](r.region, r.Redriver, approve(op, r.stopped.ID, r.stopped.Fingerprint(), ""))
					})
				})
				run, rerr := r.Ledger.Run(t.Context(), r.stopped.ID)
				must(t, rerr)
				ordered := len(r.entries(audit.RunApproved))+len(r.entries(audit.RunRejected)) == 1
				done := run.State == state
				if done && !ordered || !died && err == nil != done || done != (at == 1 && s.applied) {
					t.Errorf("%s, write %d, %s: %s, ordered %v, %v", op, at, s, run.State, ordered, err)
				}
			}
		}
	}
	r := newStopped(t)
	r.Ledger.Hook = func(op string, apply func() error) error {
		if op == "entry" {
			rejected, err := r.stopped.Reject(r.Clock.Now(), "somebody else was first", "bob")
			must(t, err)
			must(t, r.Ledger.SwapRun(t.Context(), rejected))
		}
		return apply()
	}
	_, err := ask[redrive.Stopped](r.region, r.Redriver, approve(redrive.OpApprove, r.stopped.ID, r.stopped.Fingerprint(), ""))
	refused(t, err, failure.Conflict)
	if run, err := r.Ledger.Run(t.Context(), r.stopped.ID); err != nil || run.State != job.Rejected || len(r.events(audit.RunReleased)) != 0 {
		t.Errorf("%+v, %v", run, err)
	}
}

// drill puts the result of a drill on record.
func (r *region) drill(act audit.Name, at time.Time) {
	r.t.Helper()
	must(r.t, r.Ledger.PutEntry(r.t.Context(), audit.Entry{At: at, Act: act, Region: regionName, By: "drill", Reason: "the monthly drill"}))
}

func auto(position string, death job.Reason, most int) redrive.AutoRequest {
	return redrive.AutoRequest{Op: redrive.OpAuto, Set: position, Death: death, Cap: most, Signature: ana}
}

// R16: the schedule is off until a drill is on record that passed, not long ago, and
// none failed after it. It can always be switched off.
func TestR16AutoNeedsADrill(t *testing.T) {
	now := noon
	for name, c := range map[string]struct {
		drills map[time.Duration]audit.Name // by age
		word   string                       // "" is allowed
	}{
		"none":                    {nil, "no drill that passed"},
		"passed":                  {map[time.Duration]audit.Name{day: audit.DrillPassed}, ""},
		"only started":            {map[time.Duration]audit.Name{day: audit.DrillStarted}, "no drill that passed"},
		"passed thirty days ago":  {map[time.Duration]audit.Name{30 * day: audit.DrillPassed}, ""},
		"passed too long ago":     {map[time.Duration]audit.Name{30*day + 1: audit.DrillPassed}, "no drill that passed"},
		"failed":                  {map[time.Duration]audit.Name{day: audit.DrillFailed}, "failed"},
		"passed, then failed":     {map[time.Duration]audit.Name{2 * day: audit.DrillPassed, day: audit.DrillFailed}, "failed"},
		"failed, then passed":     {map[time.Duration]audit.Name{2 * day: audit.DrillFailed, day: audit.DrillPassed}, ""},
		"passed by another clock": {map[time.Duration]audit.Name{-time.Minute: audit.DrillPassed}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t)
			for age, act := range c.drills {
				r.drill(act, now.Add(-age))
			}
			a, err := ask[redrive.Auto](r, r.Redriver, auto(redrive.On, job.ReasonForbidden, 20))
			stored, rerr := r.Ledger.AutoRedrive(t.Context())
			must(t, rerr)
			if c.word != "" {
				refused(t, err, failure.Conflict, c.word)
				if stored.On || len(r.entries(audit.AutoRedriveSet)) != 0 {
					t.Errorf("%+v", stored)
				}
				return
			}
			must(t, err)
			want := job.AutoRedrive{Rev: 1, On: true, Reason: job.ReasonForbidden, Cap: 20, By: ana.By, At: r.Clock.Now()}
			if stored != want || !a.On || a.Death != job.ReasonForbidden || a.Cap != 20 {
				t.Errorf("%+v, %+v", stored, a)
			}
			if e := r.entries(audit.AutoRedriveSet); len(e) != 1 || e[0].Death != job.ReasonForbidden || e[0].Count != 20 {
				t.Errorf("%+v", e)
			}
			if a, err = ask[redrive.Auto](r, r.Redriver, auto(redrive.Off, "", 0)); err != nil || a.On {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

func (r *region) scheduled() (redrive.Scheduled, error) {
	r.t.Helper()
	return ask[redrive.Scheduled](r, r.Redriver, redrive.ScheduledRequest{Op: redrive.OpScheduled})
}

// R16, R90, S14: a schedule moves at most its cap of its one reason, through the same
// gates, in its own name; and nothing when it is off, or the drill has grown old.
func TestScheduledRedrive(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 8)
	for i, reason := range []job.Reason{job.ReasonForbidden, job.ReasonOutsidePolicy, job.ReasonUnknownPolicy} {
		r.set(dead[i], func(p *job.Page) { p.Death.Reason = reason })
	}
	r.wait()
	r.still(func() {
		if a, err := r.scheduled(); err != nil || a.On || a.Applied != nil {
			t.Errorf("%+v, %v", a, err)
		}
	})
	r.drill(audit.DrillPassed, noon.Add(-day))
	_, err := ask[redrive.Auto](r, r.Redriver, auto(redrive.On, job.ReasonAttempts, 3))
	must(t, err)
	a, err := r.scheduled()
	if err != nil || !a.On || a.Applied == nil || a.Applied.Moved != 3 || !a.Applied.Done {
		t.Fatalf("%+v, %v", a, err)
	}
	if e := r.entries(audit.RedriveApplied); len(e) != 1 || e[0].By != "schedule" || e[0].Count != 3 || e[0].Override != "" {
		t.Errorf("%+v", e)
	}
	if a, err = r.scheduled(); err != nil || a.Applied.Moved != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	r.still(func() {
		if a, err = r.scheduled(); err != nil || a.Applied != nil || a.Looked != 0 {
			t.Errorf("%+v, %v", a, err)
		}
	})
	for i, p := range dead {
		if moved := r.page(p).State == job.Redriven; moved != (i >= 3) {
			t.Errorf("page %d is %s", i, r.page(p).State)
		}
	}
	r.Clock.Reach(noon.Add(29*day + 1))
	r.still(func() {
		_, err = r.scheduled()
		refused(t, err, failure.Conflict, "no drill")
	})
	stored, err := r.Ledger.AutoRedrive(t.Context())
	must(t, err)
	stored.Rev, stored.Reason = stored.Rev+1, job.ReasonOutsidePolicy
	must(t, r.Ledger.SwapAutoRedrive(t.Context(), stored))
	_, err = r.scheduled()
	refused(t, err, failure.Conflict, "no schedule may redrive")
}

// A schedule waits for a redrive that is still moving.
func TestScheduledRedriveWaits(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 3)
	r.wait()
	r.drill(audit.DrillPassed, noon)
	_, err := ask[redrive.Auto](r, r.Redriver, auto(redrive.On, job.ReasonAttempts, 3))
	must(t, err)
	plan := r.planned(redrive.PlanRequest{Limit: 2})
	q := apply(plan.Token)
	q.Max = 1
	_, err = ask[redrive.Applied](r, r.Redriver, q)
	must(t, err)
	r.still(func() {
		if a, err := r.scheduled(); err != nil || a.Applied != nil || !strings.Contains(a.Next, string(plan.RedriveID)) {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// Each write of the switch in each way.
func TestEveryWriteOfTheSwitch(t *testing.T) {
	for at := range 2 {
		for _, s := range strikes {
			r := newRegion(t)
			r.drill(audit.DrillPassed, noon)
			var err error
			died := false
			r.under(&script{at: at, strike: s}, func() {
				died = process(func() { _, err = ask[redrive.Auto](r, r.Redriver, auto(redrive.On, job.ReasonAge, 1)) })
			})
			stored, rerr := r.Ledger.AutoRedrive(t.Context())
			must(t, rerr)
			ordered := len(r.entries(audit.AutoRedriveSet)) == 1
			if stored.On && !ordered || !died && err == nil != stored.On || stored.On != (at == 1 && s.applied) {
				t.Errorf("write %d, %s: on %v, ordered %v, %v", at, s, stored.On, ordered, err)
			}
		}
	}
}

// What became of a plan, at every stage of it.
func TestStatus(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 5)
	r.wait()
	plan := r.planned(redrive.PlanRequest{Limit: 4})
	if st := r.status(plan.RedriveID); st.State != "planned" || st.Pages != 4 || st.Moved != 0 || st.Remaining != 4 || st.Left != 0 || st.Recovery != nil {
		t.Errorf("%+v", st)
	}
	byToken, err := ask[redrive.Status](r, r.Redriver, redrive.StatusRequest{Op: redrive.OpStatus, Token: plan.Token})
	if err != nil || byToken.RedriveID != plan.RedriveID {
		t.Errorf("%+v, %v", byToken, err)
	}
	forgotten := r.planned(redrive.PlanRequest{})
	q := apply(plan.Token)
	q.Max = 3
	_, err = ask[redrive.Applied](r, r.Redriver, q)
	must(t, err)
	if st := r.status(plan.RedriveID); st.State != "applied" || st.Moved != 3 || st.Open != 3 || st.Remaining != 1 || st.Left != 0 || st.By != ana.By || st.Reason != ana.Reason {
		t.Errorf("%+v", st)
	}
	r.applied(plan.Token)
	planned := slices.DeleteFunc(slices.Clone(dead), func(p job.Page) bool { return r.page(p).RedriveID == "" })
	for i, took := range []time.Duration{10 * time.Minute, 30 * time.Minute, 20 * time.Minute} {
		r.set(planned[i], func(p *job.Page) { p.State, p.SettledAt = job.Completed, p.FirstFailure.Add(took) })
	}
	r.set(planned[3], func(p *job.Page) { p.State = job.Dead })
	st := r.status(plan.RedriveID)
	if st.State != "moved" || st.Succeeded != 3 || st.DeadAgain != 1 || st.Moved != 4 || st.Left != 0 || st.SuccessRatio != 0.75 ||
		*st.Recovery != (redrive.Spread{Min: 600, Median: 1200, Max: 1800}) {
		t.Errorf("%+v", st)
	}
	stored, err := r.Ledger.Redrive(t.Context(), plan.RedriveID)
	must(t, err)
	must(t, r.Ledger.SwapRedrive(t.Context(), stored.Close(r.Clock.Now(), 4, 3, 1)))
	r.set(planned[3], func(p *job.Page) { p.State, p.RedriveID = job.Redriven, forgotten.RedriveID })
	if st := r.status(plan.RedriveID); st.State != "closed" || st.Moved != 4 || st.DeadAgain != 1 || st.Open != 0 || st.Left != 0 {
		t.Errorf("%+v", st)
	}
	r.Clock.Advance(r.Settings.RedriveLife)
	if st := r.status(forgotten.RedriveID); st.State != "expired" {
		t.Errorf("%+v", st)
	}
	_, err = ask[redrive.Status](r, r.Redriver, redrive.StatusRequest{Op: redrive.OpStatus, ID: job.RedriveID(strings.Repeat("0", 32))})
	refused(t, err, failure.Absent, "no such plan")
}
