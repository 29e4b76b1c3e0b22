package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// rare is what only some worlds have, because it takes time and most worlds do without.
// It is drawn from a chance of its own: what all worlds have stays as their seeds say.
type rare struct {
	// auto: a schedule redrives. drilled is the drill on record that allows it.
	auto      bool
	drilled   drilled
	approving approving
	reports   int     // on how many dates the version has to report first
	second    *second // nil for none
	// drills: an operator leads a drill.
	drills bool
	// loses: the policy versions are lost from the ledger for a while.
	loses bool
	// abroad: somebody shows orders that were meant for another region.
	abroad bool
	// early: a tick names a date that has not come.
	early bool
}

// drilled is what is on record of drills before the world begins.
type drilled uint8

const (
	drillPassed  drilled = iota // lately
	drillFailed                 // after one that passed
	drillOld                    // one passed, too long ago
	drillMissing                // none
)

// approving is which version of the policy a person looks at, to let it delete or not.
type approving uint8

const (
	nobodyApproves approving = iota
	approvesFirst            // the first: none was approved before
	approvesWider            // the next release's, which deletes more than the one that is approved
)

// lines are what the policy says besides.
func (r *rare) lines() string {
	if r.approving == nobodyApproves {
		return ""
	}
	return fmt.Sprintf("report_only_dates: %d\n", r.reports)
}

func drawRare(c *chance) (r rare) {
	r.auto, r.drilled = c.one(16), pick(c, []drilled{drillPassed, drillPassed, drillPassed, drillFailed, drillOld, drillMissing})
	r.abroad, r.drills, r.loses, r.early = c.one(20), c.one(32), c.one(20), c.one(20)
	if c.one(20) {
		r.approving, r.reports = pick(c, []approving{approvesFirst, approvesWider}), 1+c.n(4)/3
	}
	return r
}

// furnishRare puts what is there before anything happens.
func (w *world) furnishRare(ctx context.Context, l *ledgers) {
	if s := w.second; s != nil {
		w.furnishPolicy(ctx, l, s.policy, s.watched, s.approved)
	}
	if !w.rare.auto {
		return
	}
	w.truth.entries = nil
	put := func(act audit.Name, ago time.Duration) {
		e := audit.Entry{At: w.epoch.Add(-ago), Act: act, Region: region, By: "sim", Reason: "rehearsed before"}
		sure(l.PutEntry(ctx, e))
		w.truth.entries = append(w.truth.entries, e)
	}
	switch w.drilled {
	case drillPassed:
		put(audit.DrillPassed, day)
	case drillFailed:
		put(audit.DrillPassed, 2*day)
		put(audit.DrillFailed, day)
	case drillOld:
		put(audit.DrillPassed, w.settings.DrillLife+day)
	case drillMissing:
	}
}

// beginRare enters what is planned of it.
func (w *world) beginRare() {
	if w.second != nil {
		w.beginSecond()
	}
	if w.drills {
		w.beginDrill()
	}
	if w.rare.auto {
		w.at(w.chance.within(0, 30*time.Minute), w.switchOn)
		w.at(w.chance.within(0, 15*time.Minute), w.round)
		if w.chance.one(3) {
			w.at(w.chance.within(30*time.Minute, w.safety), w.switchOff)
		}
	}
	switch w.approving {
	case approvesWider:
		w.at(w.chance.within(0, 5*time.Minute), w.newRelease) // before the date
	case approvesFirst:
		if w.chance.one(2) {
			w.at(w.chance.within(20*time.Minute, w.safety), w.newRelease)
		}
	case nobodyApproves:
	}
	if w.approving != nobodyApproves {
		for at := 25 * time.Minute; at < w.safety; at += 15 * time.Minute {
			w.at(at, w.approveVersion)
		}
	}
	if w.early {
		w.at(w.chance.within(0, w.safety), func() {
			w.hit(TickEarly)
			w.invoke("enqueue", tick(policyName, w.scheduled.Add(day)))
		})
	}
	if w.loses {
		w.at(w.chance.within(6*time.Minute, 10*time.Minute), w.losePolicies)
	}
	if w.abroad {
		for at := 30 * time.Minute; at < w.safety; at += 30 * time.Minute {
			w.at(at, w.redriveAbroad)
		}
	}
}

// switchOn lets a schedule redrive, if a drill allows it.
func (w *world) switchOn() {
	death := pick(&w.chance, []job.Reason{job.ReasonAttempts, job.ReasonAttempts, job.ReasonForbidden, job.ReasonAge})
	w.hit(AutoSwitched)
	w.call("redrive", redrive.AutoRequest{Op: redrive.OpAuto, Set: redrive.On, Death: death, Cap: pick(&w.chance, []int{1, 1, 2}), Signature: signed}, nothing)
}

func (w *world) switchOff() {
	w.hit(AutoSwitched)
	w.call("redrive", redrive.AutoRequest{Op: redrive.OpAuto, Set: redrive.Off, Signature: signed}, nothing)
}

// roundEvery is how often the schedule of the region asks for a redrive.
const roundEvery = 15 * time.Minute

// round is what the schedule of redrives does, again and again.
func (w *world) round() {
	w.call("redrive", redrive.ScheduledRequest{Op: redrive.OpScheduled}, func(answer any) {
		if a, ok := answer.(redrive.Scheduled); ok && a.Applied != nil {
			w.hit(ScheduledRedrive)
		}
	})
	w.at(roundEvery, w.round)
}

// approveVersion lets somebody look at what a version of the policy would delete, and let
// it. Whoever does it may name a run or a version that shows nothing of it.
func (w *world) approveVersion() {
	q := redrive.VersionRequest{Op: redrive.OpVersion, Policy: policyName, Version: w.current.Version}
	var reports, all []job.RunID
	for _, run := range w.ledger.Runs() {
		all = append(all, run.ID)
		if run.Mode == job.ReportOnly && run.RequestID == "" && run.Version == q.Version {
			reports = append(reports, run.ID)
		}
	}
	switch mistaken := w.chance.one(3); {
	case len(all) == 0:
		return
	case mistaken || len(reports) == 0:
		q.Run = pick(&w.chance, all)
	default:
		q.Run = pick(&w.chance, reports)
	}
	if w.chance.one(6) {
		q.Version = 3 - q.Version
	}
	sign := !w.chance.one(4)
	w.call("redrive", q, func(answer any) {
		if _, ok := answer.(redrive.ApprovedVersion); ok && sign {
			q.Signature = signed
			w.call("redrive", q, w.approvedVersion)
		}
	})
}

// approvedVersion asks for runs by what was approved.
func (w *world) approvedVersion(answer any) {
	if a, ok := answer.(redrive.ApprovedVersion); ok && a.Approved {
		w.hit(VersionApproved)
	}
	for n := range tenants {
		w.at(w.chance.within(0, 3*time.Minute), func() {
			w.hit(Requested)
			w.invoke("enqueue", payload(map[string]string{
				"policy": policyName, "tenant": tenants[n], "request_id": "approved-" + strconv.Itoa(n), "reason": "asked for in a simulation",
			}))
		})
	}
}

// losePolicies lets what is on record of policies be lost, as after a restore, until
// somebody puts it back.
func (w *world) losePolicies() {
	w.hit(PolicyLost)
	w.lostFrom, w.lostUntil = w.now, w.now+w.chance.within(5*time.Minute, time.Hour)
	clear(w.idle) // what an instance remembers of them is lost too
}

// lostSince reports whether the policies have been lost since the instant at the latest.
func (w *world) lostSince(at time.Time) bool {
	return w.faulty && w.lostUntil > w.now && !w.epoch.Add(w.lostFrom).After(at)
}

// otherRegion is where this world is not.
const otherRegion = "us-east-1"

// redriveAbroad plans a redrive, and shows its token as one of another region.
func (w *world) redriveAbroad() {
	w.call("redrive", redrive.PlanRequest{Op: redrive.OpPlan}, func(answer any) {
		plan, ok := answer.(redrive.Plan)
		if !ok || plan.Moves == 0 {
			return
		}
		w.hit(OrderAbroad)
		token := otherRegion + strings.TrimPrefix(plan.Token, region)
		w.call("redrive", redrive.ApplyRequest{Op: redrive.OpApply, Token: token, Signature: signed}, nothing)
	})
}
