package redrive

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const opAuto = "scheduled redrive"

// Auto is whether a schedule may redrive, and what.
type Auto struct {
	On    bool       `json:"on"`
	Death job.Reason `json:"death,omitzero"`
	Cap   int        `json:"cap,omitzero"`
	By    string     `json:"by,omitzero"`
	At    time.Time  `json:"at,omitzero"`
	Next  string     `json:"next"`
}

// Scheduled is what a schedule's call has done.
type Scheduled struct {
	On bool `json:"on"`
	// Looked is how many dead pages it looked at.
	Looked int `json:"looked"`
	// Applied is what was moved; none where nothing may.
	Applied *Applied `json:"applied,omitzero"`
	Next    string   `json:"next"`
}

// auto switches the scheduled redrive on or off. It is off unless somebody has
// switched it on, and a drill on record proves that a duplicate does no harm (R16).
func (r *Redriver) auto(ctx context.Context, _ time.Time, q AutoRequest) (a Auto, err error) {
	if err := q.Signature.Check(opAuto); err != nil {
		return a, err
	}
	if err := q.check(r.Settings.RedriveBatch); err != nil {
		return a, err
	}
	if q.Set == On {
		if err := r.drilled(ctx); err != nil {
			return a, err
		}
	}
	old, err := r.Schedule.AutoRedrive(ctx)
	if err != nil {
		return a, err
	}
	if err := r.order(ctx, q.Signature, audit.Entry{Act: audit.AutoRedriveSet, Death: q.Death, Count: q.Cap}); err != nil {
		return a, err
	}
	next := job.AutoRedrive{Rev: old.Rev + 1, On: q.Set == On, Reason: q.Death, Cap: q.Cap, By: q.By, At: r.now()}
	if err := r.Schedule.SwapAutoRedrive(ctx, next); err != nil {
		stored, rerr := r.Schedule.AutoRedrive(ctx)
		if rerr != nil || stored.Rev != next.Rev || stored.On != next.On || stored.By != next.By || !stored.At.Equal(next.At) {
			return a, err
		}
	}
	a = Auto{On: next.On, Death: next.Reason, Cap: next.Cap, By: next.By, At: next.At, Next: "A schedule moves nothing until this is switched on again."}
	if a.On {
		a.Next = "Each round moves at most " + strconv.Itoa(a.Cap) + " pages that died of " + string(a.Death) + ", through the same gates and without any override."
	}
	return a, nil
}

func (q AutoRequest) check(most int) error {
	switch {
	case q.Set == Off && (q.Death != "" || q.Cap != 0):
		return failure.New(failure.Invalid, opAuto, "death and cap belong to set on; off moves nothing")
	case q.Set == Off:
		return nil
	case q.Set != On:
		return failure.New(failure.Invalid, opAuto, "set is on or off")
	case !redrivable(q.Death):
		return failure.New(failure.Invalid, opAuto, "death is one reason that a schedule may redrive; allowed are "+reasonNames(redrivables())+". What is quarantined moves by an operator alone")
	case q.Cap < 1 || q.Cap > most:
		return failure.New(failure.Invalid, opAuto, "cap is how many pages a round may move: 1 to "+strconv.Itoa(most))
	}
	return nil
}

// redrivables are the reasons of dead pages that move without anybody's correction (S14).
func redrivables() (all []job.Reason) {
	for _, reason := range job.Reasons() {
		if died(reason) && reason.Class() == job.Redrivable {
			all = append(all, reason)
		}
	}
	return all
}

func redrivable(reason job.Reason) bool { return died(reason) && reason.Class() == job.Redrivable }

// entriesMost is how many orders of a drill's life are looked through, newest first:
// some hundred a day. A drill further back than that counts as none.
const entriesMost = 10_000

// drilled refuses unless the last drill on record passed, and not long ago.
func (r *Redriver) drilled(ctx context.Context) error {
	now := r.now()
	since := now.Add(-r.Settings.DrillLife)
	entries, err := r.Orders.Entries(ctx, since, now.Add(r.Settings.ClockSkew), entriesMost)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Act == audit.DrillPassed {
			return nil
		}
		if e.Act == audit.DrillFailed {
			return failure.New(failure.Conflict, opAuto, "the last drill, of "+at(e.At)+", failed: mend what it found and pass a drill first")
		}
	}
	return failure.New(failure.Conflict, opAuto, "no drill that passed is on record since "+at(since)+": pass a drill first, which proves that a duplicate cleanup does no harm")
}

// scheduled is what a schedule asks for: plan and apply, if that is switched on.
func (r *Redriver) scheduled(ctx context.Context, deadline time.Time, _ ScheduledRequest) (a Scheduled, err error) {
	auto, err := r.Schedule.AutoRedrive(ctx)
	if err != nil {
		return a, err
	}
	if !auto.On {
		a.Next = "The scheduled redrive is off."
		return a, nil
	}
	a.On = true
	if !redrivable(auto.Reason) {
		return a, failure.New(failure.Conflict, opAuto, "it is switched on for a reason that no schedule may redrive: switch it on anew")
	}
	if err := r.drilled(ctx); err != nil {
		return a, err
	}
	if other, err := r.running(ctx, ""); err != nil || other != "" {
		a.Next = "The redrive " + string(other) + " is still moving pages. This round waits for it."
		return a, err
	}
	plan, err := r.plan(ctx, deadline, PlanRequest{Op: OpPlan, Filter: Filter{Death: auto.Reason}, Limit: min(auto.Cap, r.Settings.RedriveBatch)})
	if err != nil {
		return a, err
	}
	if a.Looked = len(plan.Verdicts); plan.Moves == 0 {
		a.Next = "Nothing would move."
		return a, nil
	}
	by := audit.Signature{By: "schedule", Reason: "scheduled redrive of " + string(auto.Reason)}
	did, err := r.apply(ctx, deadline, ApplyRequest{Op: OpApply, Token: plan.Token, Signature: by})
	if err != nil {
		return a, err
	}
	a.Applied, a.Next = &did, did.Next
	return a, nil
}
