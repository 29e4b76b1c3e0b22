package redrive_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// S14: what somebody has discarded is not taken up again by a schedule, nor by an
// operator who does not say why: only to look at what its intent has done is left.
func TestS14DiscardedPageIsNotRedrivenByItself(t *testing.T) {
	r := newRegion(t)
	pages := r.die("exports", false, "acme")
	r.discarded(discard(pages))
	r.Clock.Advance(r.Settings.RequestLifetime + r.Settings.FunctionTimeout)
	r.forbidden = true // and the look of the worker that should settle it dies
	must(t, r.Drain(t.Context()))
	r.forbidden = false
	if p := r.page(pages[0]); p.State != job.Dead || !p.Abandoned {
		t.Fatalf("the page is %s", p.State)
	}
	r.wait()
	r.drill(audit.DrillPassed, noon)
	_, err := ask[redrive.Auto](r, r.Redriver, auto(redrive.On, job.ReasonForbidden, 3))
	must(t, err)
	if a, err := r.scheduled(); err != nil || a.Applied != nil || a.Looked != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	must(t, r.Drain(t.Context()))
	r.deletedOnce(0)
	plan := r.planned(redrive.PlanRequest{})
	if plan.Moves != 0 || len(plan.Verdicts) != 1 {
		t.Fatalf("%+v", plan)
	}
	for _, g := range plan.Verdicts[0].Gates {
		if g.Open == (g.Gate == redrive.GateClass) || !g.Open && !strings.Contains(g.Text, "Discard it again") {
			t.Errorf("%+v", g)
		}
	}
	if plan = r.planned(redrive.PlanRequest{Override: "discarded by mistake"}); plan.Moves != 1 {
		t.Errorf("%+v", plan)
	}
	if a := r.discarded(discard(pages)); a.Pages[0].Result != redrive.Settling {
		t.Errorf("%+v", a)
	}
	r.Clock.Advance(r.Settings.RequestLifetime)
	must(t, r.Drain(t.Context()))
	if p := r.page(pages[0]); p.State != job.Discarded {
		t.Errorf("the page is %s", p.State)
	}
	r.deletedOnce(0)
	r.holds()
}

// R91: pages that the filter does not choose take no more time than there is.
func TestPlanOfFewAmongManyStopsInTime(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 120)
	r.wait()
	slowly := r.another(func(c *redrive.Config) { c.Pages = slow{r.Ledger, r.Clock, time.Second} })
	for _, f := range []redrive.Filter{{Death: job.ReasonForbidden}, {Policy: "exports", Death: job.ReasonAge}} {
		began := r.Clock.Now()
		plan, err := ask[redrive.Plan](r, slowly, redrive.PlanRequest{Filter: f})
		if took := r.Clock.Now().Sub(began); err != nil || plan.Moves != 0 || took > r.Settings.FunctionTimeout-r.Settings.TakeMargin/2 {
			t.Errorf("more %v after %v: %v", plan.More, took, err)
		}
	}
}

// The pages of another death are told by the index already: each row that is read
// takes milliseconds, and there may be tens of thousands.
func TestPlanReadsOnlyWhatMayBeChosen(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 120)
	dead, err := r.Ledger.DeadPages(t.Context(), nil, 120)
	must(t, err)
	r.set(dead[119], func(p *job.Page) { p.Death.Reason = job.ReasonForbidden })
	r.wait()
	slowly := r.another(func(c *redrive.Config) { c.Pages = slow{r.Ledger, r.Clock, time.Second} })
	plan, err := ask[redrive.Plan](r, slowly, redrive.PlanRequest{Filter: redrive.Filter{Death: job.ReasonForbidden}})
	if err != nil || plan.Moves != 1 || plan.More {
		t.Errorf("%d would move, more %v: %v", plan.Moves, plan.More, err)
	}
}

// A schedule can not filter its way past pages whose gates are closed for good. They
// must not take the place of those that may move.
func TestClosedGatesHideNoPageBehindThem(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 130)
	dead, err := r.Ledger.DeadPages(t.Context(), nil, 130)
	must(t, err)
	for _, p := range dead[:120] {
		r.set(p, func(p *job.Page) { p.Attempts = r.Settings.RedriveAttempts })
	}
	r.wait()
	r.config.Settings.RedrivePlan = 100
	r.Redriver = r.another()
	r.drill(audit.DrillPassed, noon)
	_, err = ask[redrive.Auto](r, r.Redriver, auto(redrive.On, job.ReasonAttempts, 10))
	must(t, err)
	if a, err := r.scheduled(); err != nil || a.Applied == nil || a.Applied.Moved != 10 {
		t.Errorf("%+v, %v", a, err)
	}
}

// RD-08: a sweep for which there was no time proves nothing, so the plan does not end.
func TestRD08PlanDoesNotEndWithoutItsSweep(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 5)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	short := r.Clock.Now().Add(r.Settings.TakeMargin + time.Second/2)
	payload := fmt.Sprintf(`{"op":"apply","token":%q,"by":%q,"reason":%q}`, plan.Token, ana.By, ana.Reason)
	got, err := r.Handle(t.Context(), short, []byte(payload))
	must(t, err)
	if did, ok := got.(redrive.Applied); !ok || did.Moved != 5 || did.Swept != 0 || did.Done {
		t.Errorf("%+v", did)
	}
	if n := len(r.Queue.PeekLetters()); n != 5 {
		t.Fatalf("%d letters", n)
	}
	r.Clock.Advance(r.Settings.FunctionTimeout + r.Settings.Visibility())
	// What reads the pages may take a call's time too.
	slowly := r.another(func(c *redrive.Config) { c.Pages = slow{r.Ledger, r.Clock, time.Second} })
	did, err := slowly.Resume(t.Context(), r.Clock.Now().Add(r.Settings.TakeMargin+4500*time.Millisecond), plan.RedriveID)
	if err != nil || did.Before != 5 || did.Swept != 0 || did.Done {
		t.Fatalf("%+v, %v", did, err)
	}
	did, err = r.Resume(t.Context(), r.deadline(), plan.RedriveID)
	if err != nil || did.Swept != 5 || !did.Done {
		t.Errorf("%+v, %v", did, err)
	}
}

// putBack is a queue of dead letters in which every answer takes a time.
type putBack struct {
	redriveLetters
	advance func()
}

type redriveLetters interface {
	Peek(ctx context.Context, limit int) ([]job.DeadLetter, error)
	Letters(ctx context.Context, limit int) ([]job.DeadLetter, error)
	Remove(ctx context.Context, d job.DeadLetter) error
	PutBack(ctx context.Context, d job.DeadLetter) error
}

func (p putBack) PutBack(ctx context.Context, d job.DeadLetter) error {
	p.advance()
	return p.redriveLetters.PutBack(ctx, d)
}

// Letters that are put back take time too, and an answer that comes too late is none:
// the plan would never be known to have moved.
func TestPuttingBackEndsInTime(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 1)
	for i := range 1500 {
		r.Queue.Stray([]byte(fmt.Sprint("stray ", i)))
	}
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	slowly := r.another(func(c *redrive.Config) {
		c.Letters = putBack{r.Queue, func() { r.Clock.Advance(50 * time.Millisecond) }}
	})
	began := r.Clock.Now()
	did, err := ask[redrive.Applied](r, slowly, apply(plan.Token))
	if took := r.Clock.Now().Sub(began); err != nil || took > r.Settings.FunctionTimeout-r.Settings.TakeMargin/2 || !did.Done {
		t.Errorf("%+v after %v: %v", did, took, err)
	}
}

// The text of a request stands in no error: the runtime writes errors into the log.
func TestS17NamesThatAreNoNamesAreNotQuoted(t *testing.T) {
	r := newRegion(t)
	for _, payload := range []string{
		`{"op":"approve-version","policy":"exports/canary@example.org","policy_version":1,"run_id":"` + strings.Repeat("a", 32) + `"}`,
		`{"op":"brake","set":"off","policy":"exports/canary@example.org","by":"ana","reason":"a reason"}`,
		`{"op":"brake","set":"on","policy":"exports/canary@example.org","by":"ana","reason":"a reason"}`,
		`{"op":"plan","policy":"exports/canary@example.org"}`,
	} {
		r.still(func() {
			_, err := r.Handle(t.Context(), r.deadline(), []byte(payload))
			refused(t, err, failure.Invalid, "policy")
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%v", err)
			}
		})
	}
}

// S14: an override was given for what its plan showed. A plan that lingers does not
// pass a gate by it that closed long after anybody looked.
func TestS14OverrideLapses(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 2, func(p *job.Page) { p.Death.Reason = job.ReasonOutsidePolicy })
	r.wait()
	plan := r.planned(redrive.PlanRequest{Override: "the folder was renamed"})
	q := apply(plan.Token)
	q.Max = 1
	first, err := ask[redrive.Applied](r, r.Redriver, q)
	if err != nil || first.Moved != 1 || first.Remaining != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	must(t, r.Ledger.PublishPolicy(t.Context(), r.parse(strings.NewReplacer("version: 1", "version: 2", "retention_days: 30", "retention_days: 300").Replace(exportsYAML))))
	r.Clock.Advance(day)
	did, err := r.Resume(t.Context(), r.deadline(), plan.RedriveID)
	if err != nil || did.Moved != 0 || len(did.Left) != 1 || !did.Done {
		t.Errorf("%+v, %v", did, err)
	}
	states := map[job.PageState]int{}
	for _, p := range dead {
		states[r.page(p).State]++
	}
	if states[job.Dead] != 1 || states[job.Redriven] != 1 {
		t.Errorf("%v", states)
	}
}

// resets is a ledger in which somebody sets a brake anew right before it is released.
type resets struct {
	*ledger.Memory
	again job.Brake
}

func (s resets) ReleaseBrake(ctx context.Context, b job.Brake) error {
	if err := s.SetBrake(ctx, s.again); err != nil {
		return err
	}
	return s.Memory.ReleaseBrake(ctx, b)
}

// Whoever set a brake was told that it stands. Somebody who releases the one before it
// has not seen it, and does not release it.
func TestBrakeThatWasSetAnewStands(t *testing.T) {
	r := newRegion(t)
	_, err := ask[redrive.Brakes](r, r.Redriver, setBrake(redrive.On, "exports", 0))
	must(t, err)
	again := job.Brake{Policy: "exports", Reason: "it deletes what it should not", By: "ben", At: r.Clock.Now().Add(time.Second)}
	racing := r.another(func(c *redrive.Config) { c.Brakes = resets{r.Ledger, again} })
	_, err = ask[redrive.Brakes](r, racing, setBrake(redrive.Off, "exports", 0))
	refused(t, err, failure.Conflict, "set the brake anew")
	if all, err := r.Ledger.Brakes(t.Context()); err != nil || len(all) != 1 || all[0] != again {
		t.Errorf("%+v, %v", all, err)
	}
}
