package sim

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// What people order: compliance its holds, the on-call the rest. Every order goes
// through the function that takes it, and may fail or die like any other invocation.

var signed = audit.Signature{By: "operator", Reason: "ordered in a simulation"}

// call invokes a function and waits for its answer. then is told it, nil where there
// was none.
func (w *world) call(function string, request any, then func(answer any)) {
	var answer any
	data := payload(request)
	w.serve(function, w.settings.FunctionTimeout, func(i *instance, s *steps, deadline time.Time) {
		ctx := context.Background()
		var err error
		if function == "hold" {
			asked := i.clock()
			answer, err = s.hold.Handle(ctx, deadline, data)
			if status, ok := answer.(hold.Status); ok && err == nil {
				i.log(i.p, "answers", string(status.Answer))
				i.tell(moment{kind: holdAnswered, status: status, asked: asked, by: i})
			}
		} else {
			answer, err = s.redrive.Handle(ctx, deadline, i.reads(function, data))
			if err == nil {
				i.tell(moment{kind: orderAnswered, request: request, answer: answer, by: i})
			}
		}
		i.log(i.p, "returns", outcome(err))
	}, func(died bool) {
		if died {
			answer = nil
		}
		then(answer)
	})
}

func nothing(any) {}

// order lets somebody order something.
func (w *world) order() {
	switch w.chance.n(10) {
	case 0, 1, 2:
		w.placeHold()
	case 3:
		w.askHolds()
	case 4:
		w.releaseHold()
	case 5:
		w.setBrake()
	case 6, 7:
		w.redriveAll(w.chance.one(3))
	case 8:
		w.discard()
	default:
		w.hit(Requested)
		w.invoke("enqueue", payload(map[string]string{
			"policy": w.someName(), "tenant": tenants[0], "request_id": "r" + strconv.Itoa(w.chance.n(3)), "reason": "asked for in a simulation",
		}))
	}
}

// placeHold orders a hold, and asks about it until it is settled.
func (w *world) placeHold() { w.placeHoldOn(w.someKey()) }

func (w *world) placeHoldOn(key string) {
	w.held++
	tenant := tenantIn(key)
	p := &hold.Place{ID: "hold-" + strconv.Itoa(w.held), Tenant: tenant, Signature: signed}
	switch w.chance.n(4) {
	case 0:
		p.Scope = hold.Tenant
	case 1:
		p.Scope, p.Value = hold.Prefix, key[:len(rootIn(key)+tenant)+2]
	default:
		p.Scope, p.Value = hold.Item, key
	}
	w.hit(HoldPlaced)
	w.call("hold", hold.Request{Place: p}, func(answer any) {
		if s, ok := answer.(hold.Status); ok && s.Answer == hold.InFlight {
			w.at(s.Until.Sub(w.clock())+skew, func() { w.ask(p.Tenant, p.ID) })
		}
		if answer == nil && w.faulty {
			w.at(time.Minute, func() { w.call("hold", hold.Request{Place: p}, nothing) })
		}
		if w.faulty && w.script == nil && w.chance.one(4) { // what was decided before it must stay dead
			w.at(w.chance.within(0, 20*time.Minute), func() { w.releaseOf(p.Tenant, p.ID) })
		}
	})
}

func (w *world) ask(tenant, id string) {
	w.hit(HoldAsked)
	w.call("hold", hold.Request{Ask: &hold.Ask{Tenant: tenant, ID: id}}, nothing)
}

func (w *world) askHolds() {
	for _, id := range w.holdIDs() {
		w.ask(w.truth.holds[id].hold.Tenant, id)
	}
}

// holdIDs returns the holds that were placed, in their order.
func (w *world) holdIDs() (ids []string) {
	for n := 1; n <= w.held; n++ {
		if id := "hold-" + strconv.Itoa(n); w.truth.holds[id] != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

func (w *world) releaseHold() {
	if ids := w.holdIDs(); len(ids) > 0 {
		h := w.truth.holds[pick(&w.chance, ids)].hold
		w.releaseOf(h.Tenant, h.ID)
	}
}

func (w *world) releaseOf(tenant, id string) {
	w.hit(HoldReleased)
	w.call("hold", hold.Request{Release: &hold.Release{Tenant: tenant, ID: id, Signature: signed}}, nothing)
}

// setBrake sets a brake and releases it some minutes later.
func (w *world) setBrake() {
	q := redrive.BrakeRequest{Op: redrive.OpBrake, Set: redrive.On, Signature: signed}
	if w.chance.one(2) {
		q.Policy = w.someName()
	}
	w.hit(BrakeSet)
	w.call("redrive", q, nothing)
	w.at(w.chance.within(2*time.Minute, 40*time.Minute), func() { w.release(q.Policy) })
}

func (w *world) release(policy string) {
	w.call("redrive", redrive.BrakeRequest{Op: redrive.OpBrake, Set: redrive.Off, Policy: policy, Signature: signed}, nothing)
}

// redriveAll plans a redrive of all dead pages and applies it.
func (w *world) redriveAll(override bool) {
	q := redrive.PlanRequest{Op: redrive.OpPlan}
	if override {
		q.Override = "looked at in a simulation"
	}
	if w.second != nil && w.faulty && w.chance.one(2) {
		q.Policy = w.someName()
	}
	w.call("redrive", q, func(answer any) {
		plan, ok := answer.(redrive.Plan)
		if !ok || plan.Moves == 0 {
			return
		}
		w.hit(RedriveApplied)
		if override {
			w.hit(RedriveOverridden)
		}
		w.at(w.chance.within(time.Second, 9*time.Minute), func() {
			w.call("redrive", redrive.ApplyRequest{Op: redrive.OpApply, Token: plan.Token, Signature: signed}, nothing)
		})
	})
}

// discard gives up a dead page, and letters that are nobody's.
func (w *world) discard() {
	q := redrive.DiscardRequest{Op: redrive.OpDiscard, Signature: signed}
	for _, p := range w.truth.order {
		if p.row.State == job.Dead {
			q.Pages = []redrive.PageRef{{Run: p.row.Run, Tenant: p.row.Tenant, Page: p.row.ID}}
		}
	}
	if len(q.Pages) > 0 {
		w.hit(PageDiscarded)
		w.call("redrive", q, nothing)
		return
	}
	w.call("redrive", redrive.InspectRequest{Op: redrive.OpInspect}, func(answer any) {
		if a, ok := answer.(redrive.Inspection); ok && len(a.Letters) > 0 {
			w.hit(LetterDiscarded)
			q.Messages = []string{a.Letters[0].MessageID}
			w.call("redrive", q, nothing)
		}
	})
}

// decide approves or rejects the runs that wait for a person.
func (w *world) decide() {
	waiting, err := w.ledger.AwaitingRuns(context.Background())
	sure(err)
	for _, run := range waiting {
		w.hit(GuardTrips)
		q := redrive.ApproveRequest{Op: redrive.OpApprove, Run: run.ID, Fingerprint: run.Fingerprint(), Override: "looked at in a simulation", Signature: signed}
		f := RunApproved
		if w.chance.one(3) {
			q.Op, f = redrive.OpReject, RunRejected
		}
		w.hit(f)
		switch w.chance.n(6) {
		case 0, 1:
			q.Override = ""
		case 2:
			q.Fingerprint, q.By = "00000000000000000000000000000000", blind
		}
		w.call("redrive", q, nothing)
	}
}
