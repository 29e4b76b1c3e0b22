package sim

import (
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// A drill as an operator leads it, on a tenant that exists for it: under a brake a request
// is asked for and one of its pages is ended, then it is brought back, and judged. Now and
// then the operator names a page that is no drill's.

const (
	testTenant   = "test"
	drillRequest = redrive.DrillPrefix + "1"
)

// drawDrill puts what the drill may delete.
func (s *setup) drawDrill(c *chance) {
	cutoff := s.policy.Cutoff(s.scheduled)
	for _, name := range names[:1+c.n(5)] {
		old := cutoff.Add(-day - c.within(time.Second, 5*day)).Truncate(time.Second) // the request comes before the date
		s.objects = append(s.objects, job.Item{Key: root + testTenant + "/" + name, ETag: "t" + name, Size: 1, Modified: old})
	}
}

// beginDrill enters the steps of a drill. The schedule is not due yet, so that its first
// page is the drill's.
func (w *world) beginDrill() {
	w.call("redrive", redrive.BrakeRequest{Op: redrive.OpBrake, Set: redrive.On, Policy: policyName, Signature: signed}, nothing)
	w.at(20*time.Second, func() {
		w.invoke("enqueue", payload(map[string]string{
			"policy": policyName, "tenant": testTenant, "request_id": drillRequest, "reason": "rehearsed in a simulation",
		}))
	})
	begins, step := time.Minute, time.Minute
	if w.chance.one(3) { // too late: workers have the page
		begins, step = 5*time.Minute, 4*time.Minute
	}
	for at, end := begins, begins+4*step; at < end; at += step {
		w.at(at, w.fell)
	}
	w.at(w.chance.within(4*time.Minute, 6*time.Minute), func() { w.release(policyName) })
	for at := 23 * time.Minute; at < w.safety; at += 15 * time.Minute {
		w.at(at, w.bringBack)
		w.at(at+12*time.Minute, func() { w.finishDrill(false) })
	}
	w.at(w.safety, func() { w.finishDrill(true) })
}

// drillsPage is a page of the drill's request, nil before there is one.
func (w *world) drillsPage() *pageTruth {
	for _, p := range w.truth.order {
		if p.row.Run == job.RequestRunID(region, policyName, drillRequest) && p.row.Candidates > 0 {
			return p
		}
	}
	return nil
}

// fell lets the drill end its page, or one that the operator has mistaken for it.
func (w *world) fell() {
	p := w.drillsPage()
	if w.chance.one(4) && len(w.truth.order) > 0 {
		p = pick(&w.chance, w.truth.order)
	}
	if p == nil || p.row.State == job.Dead && !w.chance.one(4) {
		return
	}
	q := redrive.DrillRequest{Op: redrive.OpDrill, PageRef: refTo(p), Signature: signed}
	w.call("redrive", q, func(answer any) {
		if _, ok := answer.(redrive.Drilling); ok {
			w.hit(DrillBegun)
			w.wake(job.Enforce)
			w.wake(job.ReportOnly)
		}
	})
}

func refTo(p *pageTruth) redrive.PageRef {
	return redrive.PageRef{Run: p.row.Run, Tenant: p.row.Tenant, Page: p.row.ID}
}

// bringBack redrives the page of the drill.
func (w *world) bringBack() {
	p := w.drillsPage()
	if p == nil || p.row.State != job.Dead {
		return
	}
	w.call("redrive", redrive.PlanRequest{Op: redrive.OpPlan, Filter: redrive.Filter{Page: p.row.ID}}, func(answer any) {
		if plan, ok := answer.(redrive.Plan); ok && plan.Moves > 0 {
			w.call("redrive", redrive.ApplyRequest{Op: redrive.OpApply, Token: plan.Token, Signature: signed}, nothing)
		}
	})
}

func (w *world) finishDrill(giveUp bool) {
	p := w.drillsPage()
	if p == nil || len(w.truth.drills) > 0 && !w.chance.one(4) {
		return
	}
	q := redrive.DrillFinishRequest{Op: redrive.OpFinish, PageRef: refTo(p), GiveUp: giveUp, Signature: signed}
	w.call("redrive", q, func(answer any) {
		switch a, ok := answer.(redrive.DrillFinished); {
		case !ok:
		case a.Report.Passed:
			w.hit(DrillPassed)
		default:
			w.hit(DrillFailed)
		}
	})
}
