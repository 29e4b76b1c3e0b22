package redrive_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// The whole way: what died for a lasting refusal is moved back by its plan, with the
// bytes that died, and a worker settles every item once (R92, R93, C7, C8).
func TestApplyMovesThePlan(t *testing.T) {
	r := newRegion(t)
	pages := r.die("exports", false, "acme", "beta")
	bodies := map[string]bool{}
	for _, d := range r.Queue.PeekLetters() {
		bodies[string(d.Body)] = true
	}
	r.wait()
	// C8: a hold that came meanwhile vetoes, whatever was decided before.
	_, err := r.Ledger.PlaceHold(t.Context(), hold.Hold{ID: "h-1", Tenant: "acme", Scope: hold.Item, Value: "exports/acme/a", PlacedAt: r.Clock.Now()})
	must(t, err)
	plan := r.planned(redrive.PlanRequest{})
	began := r.Clock.Now()
	did := r.applied(plan.Token)
	if did.Moved != 2 || did.Before != 0 || did.Remaining != 0 || did.Swept != 2 || !did.Done || len(did.Left)+len(did.Stuck) != 0 {
		t.Fatalf("%+v", did)
	}
	for _, p := range pages {
		row := r.page(p)
		if row.State != job.Redriven || row.RedriveID != plan.RedriveID || row.Spent != 1 || row.Attempts != 1 || !row.FirstFailure.Equal(p.FirstFailure) ||
			row.Intent != p.Intent || !row.NextDue.Equal(began.Add(r.Settings.Overdue())) {
			t.Errorf("%+v", row)
		}
	}
	for _, d := range r.Queue.Waiting(job.Enforce) {
		if !bodies[string(d.Body)] {
			t.Errorf("nobody died of %s", d.Body)
		}
	}
	if n := len(r.Queue.PeekLetters()); n != 0 {
		t.Errorf("%d letters are left", n)
	}
	entries := r.entries(audit.RedriveApplied)
	if len(entries) != 1 || entries[0].By != ana.By || entries[0].Reason != ana.Reason || entries[0].RedriveID != plan.RedriveID || entries[0].Count != 2 {
		t.Errorf("entries %+v", entries)
	}
	if moved := r.events(audit.Redriven); len(moved) != 2 || moved[0].RedriveID != plan.RedriveID || moved[0].TenantID == "" {
		t.Errorf("events %+v", moved)
	}
	r.wantCounted(contract.PagesRedriven, 2)
	r.Clock.Advance(r.Settings.RequestLifetime) // the quiet time of the first intent
	must(t, r.Drain(t.Context()))
	for _, p := range pages {
		row := r.page(p)
		if row.State != job.Completed || row.Attempts < 2 || row.Counts[job.Deleted]+row.Counts[job.Held] != 2 {
			t.Errorf("%+v", row)
		}
	}
	r.deletedOnce(3)
	r.holds()
	st := r.status(plan.RedriveID)
	if st.State != "closed" || st.Succeeded != 2 || st.Moved != 2 || st.SuccessRatio != 1 || st.Recovery == nil || st.By != ana.By {
		t.Errorf("%+v", st)
	}
}

// E7: the order is on record before the plan is applied, and that before a row moves;
// a row moves before its message is sent, and a letter goes last (S15).
func TestOrderOfTheWrites(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 2)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	r.still(func() { r.applied(plan.Token) },
		"entry", "redrive", "page:redriven", "page:redriven", "send", "page:redriven", "page:redriven", "remove", "remove", "redrive")
}

// The token stands for one plan, in one region, for a short time.
func TestTokenIsRefused(t *testing.T) {
	prepare := func(t *testing.T) (*region, redrive.Plan) {
		r := newRegion(t)
		r.dead("exports", 1)
		r.wait()
		plan := r.planned(redrive.PlanRequest{})
		return r, plan
	}
	for name, c := range map[string]struct {
		do    func(*region, redrive.Plan) (token string)
		class failure.Class
		word  string
	}{
		"unknown": {func(*region, redrive.Plan) string { return regionName + "/0123456789abcdef0123456789abcdef" }, failure.Absent, "make a new one"},
		"expired": {func(r *region, p redrive.Plan) string {
			r.Clock.Advance(r.Settings.RedriveLife)
			return p.Token
		}, failure.Conflict, "expired"},
		"of another region S6": {func(r *region, p redrive.Plan) string {
			r.Redriver = r.another(func(c *redrive.Config) { c.Region, c.Plans = "us-east-1", nil })
			return p.Token
		}, failure.Invalid, "another region"},
		"altered in its head": {func(r *region, p redrive.Plan) string {
			stored, err := r.Ledger.Redrive(r.t.Context(), p.RedriveID)
			must(r.t, err)
			stored.ExpiresAt, stored.Rev = stored.ExpiresAt.Add(time.Hour), stored.Rev+1
			must(r.t, r.Ledger.SwapRedrive(r.t.Context(), stored))
			return p.Token
		}, failure.Conflict, "not the one that the token stands for"},
		"altered in its pages": {func(r *region, p redrive.Plan) string {
			r.Redriver = r.another(func(c *redrive.Config) { c.Plans = otherPages{r.Ledger} })
			return p.Token
		}, failure.Conflict, "not the one that the token stands for"},
	} {
		t.Run(name, func(t *testing.T) {
			r, plan := prepare(t)
			token := c.do(r, plan)
			r.still(func() {
				_, err := ask[redrive.Applied](r, r.Redriver, apply(token))
				refused(t, err, c.class, c.word)
			})
			if n := len(r.bodies(job.Enforce)); n != 0 {
				t.Errorf("%d messages were sent", n)
			}
		})
	}
	r, plan := prepare(t)
	r.Clock.Advance(r.Settings.RedriveLife - 1)
	if did := r.applied(plan.Token); did.Moved != 1 {
		t.Errorf("in the last instant: %+v", did)
	}
	_, err := ask[redrive.Applied](r, r.Redriver, redrive.ResumeRequest{Op: redrive.OpResume, ID: "0123456789abcdef0123456789abcdef"})
	refused(t, err, failure.Absent, "no such plan")
}

// Every gate is looked at again: what closed since the plan stays, with its reason.
func TestGatesAreLookedAtAgain(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*region, job.Page)
		gate redrive.GateName
	}{
		"a brake": {func(r *region, _ job.Page) { must(r.t, r.Ledger.SetBrake(r.t.Context(), job.Brake{Policy: "exports"})) }, redrive.GateBrake},
		"a hold": {func(r *region, p job.Page) {
			_, err := r.Ledger.PlaceHold(r.t.Context(), hold.Hold{ID: "h", Tenant: p.Tenant, Scope: hold.Tenant})
			must(r.t, err)
		}, redrive.GateHold},
		"a newer version": {func(r *region, _ job.Page) {
			must(r.t, r.Ledger.PublishPolicy(r.t.Context(), r.parse(strings.Replace(exportsYAML, "version: 1", "version: 2", 1))))
		}, redrive.GatePolicy},
		"attempts":  {func(r *region, p job.Page) { r.set(p, func(p *job.Page) { p.Attempts = 15 }) }, redrive.GateAttempts},
		"discarded": {func(r *region, p job.Page) { r.set(p, func(p *job.Page) { p.State = job.Discarded }) }, redrive.GateKey},
		"another death": {func(r *region, p job.Page) {
			r.set(p, func(p *job.Page) { p.Death.At = r.Clock.Now().Add(1) })
			r.Clock.Advance(r.Settings.RedriveAfterDeath + 1)
		}, redrive.GateKey},
		"another command": {func(r *region, p job.Page) { r.set(p, func(p *job.Page) { p.Candidates++ }) }, redrive.GateKey},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t)
			_, pages := r.dead("exports", 1)
			r.wait()
			plan := r.planned(redrive.PlanRequest{})
			c.do(r, pages[0])
			did := r.applied(plan.Token)
			if did.Moved != 0 || did.Remaining != 0 || !did.Done || len(did.Left) != 1 || did.Left[0].Page != pages[0].ID || did.Left[0].Gates[0].Gate != c.gate {
				t.Fatalf("%+v", did)
			}
			if left := r.events(audit.RedriveLeft); len(left) != 1 || left[0].Operation != string(c.gate) {
				t.Errorf("events %+v", left)
			}
			if n := len(r.bodies(job.Enforce)); n != 0 || r.page(pages[0]).State == job.Redriven {
				t.Errorf("%d messages, the page is %s", n, r.page(pages[0]).State)
			}
			if st := r.status(plan.RedriveID); st.Left != 1 || st.Moved != 0 || st.State != "moved" {
				t.Errorf("%+v", st)
			}
		})
	}
}

// RD-06: one queue of dead letters serves two queues of pages. Each page returns to
// the one of its run's mode, and a report-only page deletes nothing there.
func TestRD06EachToItsOwnQueue(t *testing.T) {
	r := newRegion(t)
	exports := r.die("exports", true, "acme")
	uploads := r.die("uploads", true, "acme")
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	if did := r.applied(plan.Token); did.Moved != 2 || !did.Done {
		t.Fatalf("%+v", did)
	}
	if got := r.bodies(job.Enforce); !slices.Equal(got, []job.PageID{exports[0].ID}) {
		t.Errorf("to enforce: %v", got)
	}
	if got := r.bodies(job.ReportOnly); !slices.Equal(got, []job.PageID{uploads[0].ID}) {
		t.Errorf("to report: %v", got)
	}
	must(t, r.Drain(t.Context()))
	if e, u := r.page(exports[0]), r.page(uploads[0]); e.Counts[job.Deleted] != 2 || u.Counts[job.WouldDelete] != 2 {
		t.Errorf("%+v\n%+v", e, u)
	}
	r.deletedOnce(2)
	r.holds()
}

// RD-07: 50 dead letters arrive while the 500 of a plan are moved. Exactly the 500
// move, and the 50 stay.
func TestRD07ArrivalsWhileARedriveRuns(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 500)
	r.wait()
	plan := r.planned(redrive.PlanRequest{Limit: 500})
	var late []job.Page
	moved := 0
	for calls := 0; ; calls++ {
		if calls == 2 {
			_, late = r.dead("uploads", 50)
			for _, p := range late { // old enough, were anybody to ask
				r.set(p, func(p *job.Page) { p.FirstFailure, p.Death.At = noon, noon })
			}
		}
		did := r.applied(plan.Token)
		if moved += did.Moved; did.Done {
			break
		}
		if calls > 10 {
			t.Fatal("it does not end")
		}
	}
	if moved != 500 || len(r.bodies(job.Enforce)) != 500 || len(r.bodies(job.ReportOnly)) != 0 {
		t.Errorf("%d moved, %d and %d messages", moved, len(r.bodies(job.Enforce)), len(r.bodies(job.ReportOnly)))
	}
	for _, p := range dead {
		if r.page(p).State != job.Redriven {
			t.Fatalf("%+v", r.page(p))
		}
	}
	left := r.Queue.PeekLetters()
	for _, d := range left {
		if !slices.ContainsFunc(late, func(p job.Page) bool { return p.ID == d.Letter.PageID }) {
			t.Errorf("left %+v", d.Letter)
		}
	}
	if len(left) != 50 {
		t.Errorf("%d letters are left", len(left))
	}
}

// RD-07: while one plan moves, another is refused.
func TestRD07AlreadyRunning(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 2)
	r.wait()
	first, second := r.planned(redrive.PlanRequest{Limit: 1}), r.planned(redrive.PlanRequest{})
	q := apply(second.Token)
	q.Max = 1
	if did, err := ask[redrive.Applied](r, r.Redriver, q); err != nil || did.Moved != 1 || did.Remaining != 1 || did.Done {
		t.Fatalf("%+v, %v", did, err)
	}
	r.still(func() {
		_, err := ask[redrive.Applied](r, r.Redriver, apply(first.Token))
		refused(t, err, failure.Conflict, "already-running", string(second.RedriveID))
	})
	if did := r.applied(second.Token); !did.Done || did.Moved != 1 || did.Before != 1 {
		t.Errorf("%+v", did)
	}
	if did := r.applied(first.Token); !did.Done || did.Moved != 0 || len(did.Left) != 1 {
		t.Errorf("%+v", did)
	}
	if n := len(r.bodies(job.Enforce)); n != 2 {
		t.Errorf("%d messages", n)
	}
}

// A plan that does not come to its end holds up others only for as long as it may
// take.
func TestStalledPlanHoldsUpNoOther(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 2)
	r.wait()
	stalled := r.planned(redrive.PlanRequest{Filter: redrive.Filter{Page: dead[0].ID}})
	broken := r.another(func(c *redrive.Config) { c.Pages = unreadable{r.Ledger, dead[0].ID, failure.Bug} })
	if did, err := ask[redrive.Applied](r, broken, apply(stalled.Token)); err != nil || did.Remaining != 1 {
		t.Fatalf("%+v, %v", did, err)
	}
	r.Clock.Advance(2*10*r.Settings.ReconcileEvery - time.Minute)
	next := r.planned(redrive.PlanRequest{Filter: redrive.Filter{Page: dead[1].ID}})
	_, err := ask[redrive.Applied](r, r.Redriver, apply(next.Token))
	refused(t, err, failure.Conflict, "already-running")
	r.Clock.Advance(time.Minute)
	if did := r.applied(next.Token); did.Moved != 1 || !did.Done {
		t.Errorf("%+v", did)
	}
}

// R91: a thousand pages at the configured rate, on a clock moved by hand. No second
// has more than the rate, and no call more than the batch.
func TestAThousandPagesAtTheRate(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 1000)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	if plan.Moves != 1000 || plan.More {
		t.Fatalf("%d would move, more %v", plan.Moves, plan.More)
	}
	timed := &timed{sender: r.Queue, clock: r.Clock}
	r.Redriver = r.another(func(c *redrive.Config) { c.Sender = timed })
	for calls := 1; ; calls++ {
		did := r.applied(plan.Token)
		if did.Moved > r.Settings.RedriveBatch || did.Moved+did.Before+did.Remaining != 1000 {
			t.Fatalf("call %d: %+v", calls, did)
		}
		if did.Done {
			break
		}
		if calls > 12 {
			t.Fatal("it does not end")
		}
	}
	for i := range timed.at {
		if j := i + r.Settings.RedriveRate; j < len(timed.at) && timed.at[j].Sub(timed.at[i]) < time.Second {
			t.Fatalf("messages %d to %d were sent within %v", i, j, timed.at[j].Sub(timed.at[i]))
		}
	}
	if len(timed.at) != 1000 || len(r.Queue.PeekLetters()) != 0 {
		t.Errorf("%d messages, %d letters", len(timed.at), len(r.Queue.PeekLetters()))
	}
	for _, p := range dead {
		if row := r.page(p); row.State != job.Redriven || row.RedriveID != plan.RedriveID || row.Spent != 5 {
			t.Fatalf("%+v", row)
		}
	}
	if st := r.status(plan.RedriveID); st.Open != 1000 || st.State != "moved" {
		t.Errorf("%+v", st)
	}
}

// A lower rate and a lower number are kept too.
func TestApplyTakesLess(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 9)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	timed := &timed{sender: r.Queue, clock: r.Clock}
	r.Redriver = r.another(func(c *redrive.Config) { c.Sender = timed })
	q := apply(plan.Token)
	q.Max, q.Rate = 5, 2
	began := r.Clock.Now()
	did, err := ask[redrive.Applied](r, r.Redriver, q)
	must(t, err)
	if did.Moved != 5 || did.Remaining != 4 || did.Done || r.Clock.Now().Sub(began) != 3*time.Second {
		t.Errorf("%+v in %v", did, r.Clock.Now().Sub(began))
	}
	for i := range timed.at {
		if i+2 < len(timed.at) && timed.at[i+2].Sub(timed.at[i]) < time.Second {
			t.Errorf("three within %v", timed.at[i+2].Sub(timed.at[i]))
		}
	}
}

// A call that is near its deadline stops and says what remains; the plan goes on
// with the same token, after its expiry too, and reconcile needs no signature.
func TestApplyStopsInTime(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 40)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	hurried := r.another(func(c *redrive.Config) { c.Pages = slow{r.Ledger, r.Clock, 3 * time.Second} })
	began := r.Clock.Now()
	did, err := ask[redrive.Applied](r, hurried, apply(plan.Token))
	must(t, err)
	if took := r.Clock.Now().Sub(began); took > r.Settings.FunctionTimeout-5*time.Second || did.Moved == 0 || did.Moved+did.Remaining != 40 || did.Done {
		t.Fatalf("%+v after %v", did, took)
	}
	r.Clock.Advance(2 * r.Settings.RedriveLife)
	again, err := r.Resume(t.Context(), r.deadline(), plan.RedriveID)
	must(t, err)
	if again.Before != did.Moved || again.Moved != 40-did.Moved || !again.Done {
		t.Errorf("%+v", again)
	}
	if n := len(r.entries(audit.RedriveApplied)); n != 1 {
		t.Errorf("%d entries", n)
	}
	if did := r.applied(plan.Token); !did.Done || did.Moved != 0 { // and once more changes nothing
		t.Errorf("%+v", did)
	}
	if n := len(r.bodies(job.Enforce)); n != len(dead) {
		t.Errorf("%d messages", n)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Resume(over, r.deadline(), plan.RedriveID); err != nil {
		t.Error(err)
	}
}

// Resume needs the operator's word, given before.
func TestResumeOfAPlanThatNobodyApplied(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 1)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	r.still(func() {
		_, err := ask[redrive.Applied](r, r.Redriver, redrive.ResumeRequest{Op: redrive.OpResume, ID: plan.RedriveID})
		refused(t, err, failure.Conflict, "nobody has applied")
	})
	if r.page(dead[0]) != dead[0] {
		t.Error("it moved")
	}
}

// R94: what the queue has forgotten the ledger still knows.
func TestWorksWhenTheLetterHasExpired(t *testing.T) {
	r := newRegion(t)
	pages := r.die("exports", true, "acme")
	r.Clock.Advance(r.Settings.DeadLetterRetention)
	if n := len(r.Queue.PeekLetters()); n != 0 {
		t.Fatalf("%d letters", n)
	}
	plan := r.planned(redrive.PlanRequest{})
	if did := r.applied(plan.Token); did.Moved != 1 || did.Swept != 0 || !did.Done {
		t.Errorf("%+v", did)
	}
	must(t, r.Drain(t.Context()))
	if row := r.page(pages[0]); row.State != job.Completed {
		t.Errorf("%+v", row)
	}
	r.deletedOnce(2)
}

// RD-03, RD-09: first failure and attempts are the ledger's. They go on counting
// through every redrive, whatever the queue says, until the ceiling.
func TestRD03RD09AttemptsAddUp(t *testing.T) {
	r := newRegion(t)
	pages := r.die("exports", true, "acme")
	first := pages[0].FirstFailure
	for lives := 1; ; lives++ {
		row := r.page(pages[0])
		if row.Attempts != lives || !row.FirstFailure.Equal(first) {
			t.Fatalf("in life %d: %+v", lives, row)
		}
		r.wait()
		plan := r.planned(redrive.PlanRequest{})
		if plan.Moves == 0 {
			g := gate(t, plan, redrive.GateAttempts)
			if g.Open || lives != r.Settings.RedriveAttempts {
				t.Errorf("refused in life %d: %+v", lives, g)
			}
			break
		}
		r.applied(plan.Token)
		r.forbidden = true
		must(t, r.Drain(t.Context()))
		r.forbidden = false
	}
	left := r.events(audit.RedriveLeft)
	if len(left) != 1 || left[0].Operation != "attempts" || left[0].Attempt != 15 {
		t.Errorf("events %+v", left)
	}
	r.deletedOnce(0)
	r.holds()
}

// A page of a plan that dies again is dead again: its plan does not move it twice.
func TestDeadAgainStaysDead(t *testing.T) {
	r := newRegion(t)
	pages := r.die("exports", true, "acme", "beta")
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	q := apply(plan.Token)
	q.Max = 1
	_, err := ask[redrive.Applied](r, r.Redriver, q)
	must(t, err)
	r.forbidden = true
	must(t, r.Drain(t.Context()))
	r.forbidden = false
	r.wait()
	if did := r.applied(plan.Token); did.Before != 1 || did.Moved != 1 || !did.Done {
		t.Fatalf("%+v", did)
	}
	states := map[job.PageState]int{}
	for _, p := range pages {
		states[r.page(p).State]++
	}
	if states[job.Dead] != 1 || states[job.Redriven] != 1 {
		t.Errorf("%v", states)
	}
	if n := len(r.Queue.PeekLetters()); n != 2 { // of both deaths of the one page: its command did not change
		t.Errorf("%d letters", n)
	}
	must(t, r.Drain(t.Context()))
	st := r.status(plan.RedriveID)
	if st.Succeeded != 1 || st.DeadAgain != 1 || st.Open != 0 || st.SuccessRatio != 0.5 || st.Left != 0 {
		t.Errorf("%+v", st)
	}
	r.holds()
}

// A message that the queue refuses is owed: the page remains, and goes with the next
// call.
func TestRefusedMessagesRemain(t *testing.T) {
	r := newRegion(t)
	r.tick()
	_, dead := r.dead("exports", 5)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	r.Queue.Reject = func(id string) bool { return id == string(dead[1].ID) || id == string(dead[3].ID) }
	did := r.applied(plan.Token)
	if did.Moved != 3 || did.Remaining != 2 || len(did.Stuck) != 2 || did.Done || did.Stuck[0].FailureClass != failure.Throttled {
		t.Fatalf("%+v", did)
	}
	if did = r.applied(plan.Token); did.Moved != 0 || did.Remaining != 2 {
		t.Errorf("%+v", did)
	}
	r.Queue.Reject = nil
	if did = r.applied(plan.Token); did.Moved != 2 || did.Before != 3 || !did.Done || did.Swept != 5 {
		t.Errorf("%+v", did)
	}
	if n := len(r.bodies(job.Enforce)); n != 5 {
		t.Errorf("%d messages", n)
	}
}

// A page that can not be read is stuck, and stops no other.
func TestOnePagesTroubleStopsNoOther(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 3)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	broken := r.another(func(c *redrive.Config) { c.Pages = unreadable{r.Ledger, dead[1].ID, failure.Bug} })
	did, err := ask[redrive.Applied](r, broken, apply(plan.Token))
	must(t, err)
	if did.Moved != 2 || did.Remaining != 1 || did.Done || len(did.Stuck) != 1 || did.Stuck[0].Page != dead[1].ID || did.Stuck[0].FailureClass != failure.Bug {
		t.Errorf("%+v", did)
	}
	lost := r.another(func(c *redrive.Config) { c.Pages = unreadable{r.Ledger, dead[1].ID, failure.Absent} })
	r.Clock.Advance(r.Settings.FunctionTimeout + r.Settings.Visibility())
	if did, err = ask[redrive.Applied](r, lost, apply(plan.Token)); err != nil || !did.Done || len(did.Left) != 1 || did.Left[0].Gates[0].Gate != redrive.GateKey {
		t.Errorf("%+v, %v", did, err)
	}
}

// The override of a plan is in its order.
func TestOverrideIsRecorded(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 1)
	r.wait()
	must(t, r.Ledger.PublishPolicy(t.Context(), r.parse(strings.Replace(exportsYAML, "version: 1", "version: 2", 1))))
	plan := r.planned(redrive.PlanRequest{Override: "the old rule was right"})
	if did := r.applied(plan.Token); did.Moved != 1 {
		t.Fatalf("%+v", did)
	}
	if e := r.entries(audit.RedriveApplied); len(e) != 1 || e[0].Override != "the old rule was right" {
		t.Errorf("%+v", e)
	}
}

// Nothing of a body, a key or a reason reaches the log.
func TestLogNamesNobody(t *testing.T) {
	r := newRegion(t)
	r.die("exports", false, "acme")
	r.wait()
	plan := r.planned(redrive.PlanRequest{Override: "canary-override"})
	q := apply(plan.Token)
	q.By, q.Reason = "canary-by", "canary-reason"
	_, err := ask[redrive.Applied](r, r.Redriver, q)
	must(t, err)
	var lines bytes.Buffer
	sink := audit.NewLines(&lines, "prod")
	for _, e := range r.Log.Events() {
		sink.Emit(e)
	}
	for _, word := range []string{"canary", "exports/acme/"} {
		if strings.Contains(lines.String(), word) {
			t.Errorf("the log has %q:\n%s", word, lines.String())
		}
	}
}
