package sim

import (
	"context"
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
	auto    bool
	drilled drilled
	// abroad: somebody shows orders that were meant for another region.
	abroad bool
}

// drilled is what is on record of drills before the world begins.
type drilled uint8

const (
	drillPassed  drilled = iota // lately
	drillFailed                 // after one that passed
	drillOld                    // one passed, too long ago
	drillMissing                // none
)

func drawRare(seed uint64) (r rare) {
	c := newChance(^seed)
	r.auto, r.drilled = c.one(6), pick(&c, []drilled{drillPassed, drillPassed, drillPassed, drillFailed, drillOld, drillMissing})
	r.abroad = c.one(8)
	return r
}

// furnishRare puts what is there before anything happens.
func (w *world) furnishRare() {
	if !w.rare.auto {
		return
	}
	put := func(act audit.Name, ago time.Duration) {
		e := audit.Entry{At: w.epoch.Add(-ago), Act: act, Region: region, By: "sim", Reason: "rehearsed before"}
		sure(w.ledger.PutEntry(context.Background(), e))
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
	if w.rare.auto {
		w.at(w.chance.within(0, 30*time.Minute), w.switchOn)
		w.at(w.chance.within(0, 15*time.Minute), w.round)
		if w.chance.one(3) {
			w.at(w.chance.within(30*time.Minute, w.safety), w.switchOff)
		}
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
