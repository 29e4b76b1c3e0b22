package redrive_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// struck is a region with dead pages of every kind that a redrive meets: with an
// open intent and without, to enforce and to report, and a letter that is nobody's.
// Its clock moves by itself.
func struck(t *testing.T) (*region, []job.Page) {
	r := newRegion(t)
	r.tick()
	pages := r.die("exports", false, "acme", "beta")
	pages = append(pages, r.die("uploads", true, "gamma")...)
	r.Queue.Stray([]byte("left here by hand"))
	r.wait()
	return r, pages
}

// wantMovedOnce checks the end: each page was moved back once and is settled, every
// object was deleted once, the copies are gone and the stray is not.
func (r *region) wantMovedOnce(plan redrive.Plan, pages []job.Page) {
	r.t.Helper()
	r.Clock.Advance(r.Settings.RequestLifetime)
	must(r.t, r.Drain(r.t.Context()))
	for _, p := range pages {
		row := r.page(p)
		if row.State != job.Completed || row.RedriveID != plan.RedriveID || row.Spent != 1 || row.Attempts != 2 {
			r.t.Errorf("%+v", row)
		}
	}
	r.deletedOnce(4)
	letters := r.Queue.PeekLetters()
	if len(letters) != 1 || string(letters[0].Body) != "left here by hand" {
		r.t.Errorf("%d letters are left, the first is %q", len(letters), letters[0].Body)
	}
	r.holds()
	stored, err := r.Ledger.Redrive(r.t.Context(), plan.RedriveID)
	must(r.t, err)
	if stored.AppliedAt.IsZero() || stored.MovedAt.IsZero() {
		r.t.Errorf("%+v", stored)
	}
}

// TestEveryWriteFailsInEveryWay strikes each write of an applied plan, one at a time:
// it did not happen, it happened but the answer is lost, the process dies before or
// after it. Another process goes on with the token, and then only what reconcile
// does. Nothing is lost, and nothing is moved twice (RD-08, S15, E7).
func TestEveryWriteFailsInEveryWay(t *testing.T) {
	clean := &script{at: -1}
	r, pages := struck(t)
	plan := r.planned(redrive.PlanRequest{})
	r.under(clean, func() {
		if did := r.applied(plan.Token); !did.Done || did.Moved != 3 || did.Swept != 3 {
			t.Fatalf("%+v", did)
		}
	})
	r.wantMovedOnce(plan, pages)
	for _, op := range []string{"entry", "redrive", "page:redriven", "send", "remove", "visibility"} {
		if !slices.Contains(clean.writes, op) {
			t.Errorf("a redrive never writes %q: %q", op, clean.writes)
		}
	}
	for at, op := range clean.writes {
		for _, s := range strikes {
			t.Run(fmt.Sprintf("%02d %s: %s", at, op, s), func(t *testing.T) {
				r, pages := struck(t)
				plan := r.planned(redrive.PlanRequest{})
				r.under(&script{at: at, strike: s}, func() {
					r.goOn(plan, func(by *redrive.Redriver) (redrive.Applied, error) {
						return ask[redrive.Applied](r, by, apply(plan.Token))
					})
				})
				r.wantMovedOnce(plan, pages)
				stored, err := r.Ledger.Redrive(t.Context(), plan.RedriveID)
				must(t, err)
				if !slices.ContainsFunc(r.entries(audit.RedriveApplied), func(e audit.Entry) bool { return !e.At.After(stored.AppliedAt) }) {
					t.Error("E7: applied without an order before it")
				}
			})
		}
	}
}

// goOn has new processes go on until the plan is done. Between two of them the
// letters that a dead one held show again, and the plan has long expired.
func (r *region) goOn(plan redrive.Plan, call func(*redrive.Redriver) (redrive.Applied, error)) {
	r.t.Helper()
	for range 4 {
		var did redrive.Applied
		var err error
		if !process(func() { did, err = call(r.another()) }) && err == nil && did.Done {
			return
		}
		stored, rerr := r.Ledger.Redrive(r.t.Context(), plan.RedriveID)
		must(r.t, rerr)
		if stored.AppliedAt.IsZero() {
			continue // the operator asks again, while the plan is fresh
		}
		r.Clock.Advance(r.Settings.Visibility() + r.Settings.RedriveLife)
	}
	r.t.Error("the plan is not done")
}

// The same when nobody shows the token again: reconcile sends what was moved and not
// sent, has the rest go on without a signature, and follows it to its end.
func TestReconcileGoesOn(t *testing.T) {
	clean := &script{at: -1}
	r, _ := struck(t)
	plan := r.planned(redrive.PlanRequest{})
	r.under(clean, func() { r.applied(plan.Token) })
	for at, op := range clean.writes {
		for _, s := range strikes {
			t.Run(fmt.Sprintf("%02d %s: %s", at, op, s), func(t *testing.T) {
				r, pages := struck(t)
				plan := r.planned(redrive.PlanRequest{})
				r.under(&script{at: at, strike: s}, func() {
					process(func() { _, _ = ask[redrive.Applied](r, r.Redriver, apply(plan.Token)) })
				})
				stored, err := r.Ledger.Redrive(t.Context(), plan.RedriveID)
				must(t, err)
				if stored.AppliedAt.IsZero() {
					for _, p := range pages {
						if r.page(p) != p {
							t.Error("a page moved without an applied plan")
						}
					}
					return
				}
				if len(r.entries(audit.RedriveApplied)) == 0 {
					t.Error("E7: applied without an order")
				}
				must(t, r.Drain(t.Context())) // its passes come while letters are still hidden
				r.wantMovedOnce(plan, pages)
				if st := r.status(plan.RedriveID); st.State != "closed" || st.Succeeded != 3 || st.Left != 0 {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

// Two processes that move the same plan at once move each page once between them.
func TestTwoAtOnce(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 20)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	nested := 0
	r.Ledger.Hook = func(op string, apply func() error) error {
		if op == "page:redriven" && nested == 5 {
			nested++
			if _, err := r.another().Resume(t.Context(), r.deadline(), plan.RedriveID); err != nil {
				t.Error(err)
			}
		}
		nested++
		return apply()
	}
	did := r.applied(plan.Token)
	r.Ledger.Hook = nil
	if !did.Done || did.Moved+did.Before != 20 {
		t.Errorf("%+v", did)
	}
	must(t, r.Drain(t.Context()))
	for _, p := range dead {
		if row := r.page(p); row.State != job.Completed || row.Attempts != 6 || row.Spent != 5 {
			t.Errorf("%+v", row)
		}
	}
	r.deletedOnce(20)
	r.holds()
}
