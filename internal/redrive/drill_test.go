package redrive_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// braked is a region with a request of the name for tenant test, whose page waits under
// a brake.
func braked(t *testing.T, request, policy string) (*region, job.Page) {
	t.Helper()
	r := newRegion(t)
	r.put(policy, "test", "a", "b", "c")
	_, err := ask[redrive.Brakes](r, r.Redriver, setBrake(redrive.On, policy, 0))
	must(t, err)
	in := enqueue.Input{Policy: policy, Tenant: "test", RequestID: request, Reason: "a rehearsal"}
	got, err := r.Enqueuer.Start(t.Context(), r.deadline(), in)
	must(t, err)
	pages := r.Ledger.AllPages(got.RunID)
	if len(pages) != 1 {
		t.Fatalf("%d pages", len(pages))
	}
	return r, pages[0]
}

func ref(p job.Page) redrive.PageRef {
	return redrive.PageRef{Run: p.Run, Tenant: p.Tenant, Page: p.ID}
}

func drill(p job.Page) redrive.DrillRequest {
	return redrive.DrillRequest{Op: redrive.OpDrill, PageRef: ref(p), Signature: ana}
}

func finish(p job.Page, giveUp bool) redrive.DrillFinishRequest {
	return redrive.DrillFinishRequest{Op: redrive.OpFinish, PageRef: ref(p), GiveUp: giveUp, Signature: ana}
}

func (r *region) drilled(p job.Page) redrive.Drilling {
	r.t.Helper()
	a, err := ask[redrive.Drilling](r, r.Redriver, drill(p))
	must(r.t, err)
	return a
}

func (r *region) finished(p job.Page, giveUp bool) redrive.DrillFinished {
	r.t.Helper()
	a, err := ask[redrive.DrillFinished](r, r.Redriver, finish(p, giveUp))
	must(r.t, err)
	return a
}

// release takes the brake off and lets everything happen that happens by itself.
func (r *region) release(policy string) {
	r.t.Helper()
	_, err := ask[redrive.Brakes](r, r.Redriver, setBrake(redrive.Off, policy, 0))
	must(r.t, err)
	must(r.t, r.Drain(r.t.Context()))
}

// recover redrives the page and lets it end.
func (r *region) recover(p job.Page) redrive.Plan {
	r.t.Helper()
	r.wait()
	plan := r.planned(redrive.PlanRequest{Filter: redrive.Filter{Page: p.ID}})
	if plan.Moves != 1 {
		r.t.Fatalf("%+v", plan)
	}
	if did := r.applied(plan.Token); !did.Done {
		r.t.Fatalf("%+v", did)
	}
	must(r.t, r.Drain(r.t.Context()))
	return plan
}

// failing returns the names of the checks that failed.
func failing(a redrive.DrillFinished) (names []string) {
	for _, c := range a.Report.Checks {
		if c.Text == "" {
			names = append(names, c.Name+" says nothing")
		}
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	return names
}

// R127: an injected failure enters the dead letters, its redrive is approved, it ends in
// one final state with one receipt, and a terminal payload stays quarantined until
// somebody discards it. What it showed is kept as evidence, and lets a schedule redrive
// (R16, R134).
func TestR127Drill(t *testing.T) {
	for _, policy := range []string{"exports", "uploads"} { // one deletes, one reports
		t.Run(policy, func(t *testing.T) {
			r, page := braked(t, "drill-1", policy)
			must(t, r.Drain(t.Context())) // a worker meets the brake and parks the page
			a := r.drilled(page)
			dead := r.page(page)
			if dead.State != job.Dead || dead.Death.Reason != job.ReasonAttempts || dead.Attempts != 0 || !a.DiedAt.Equal(dead.Death.At) || len(a.Poison) != 64 {
				t.Fatalf("%+v, %+v", dead, a)
			}
			if e := r.entries(audit.DrillStarted); len(e) != 1 || e[0].PageID != page.ID || e[0].RunID != page.Run || e[0].TenantID != "test" || e[0].By != ana.By {
				t.Errorf("%+v", e)
			}
			_, err := ask[redrive.DrillFinished](r, r.Redriver, finish(page, false))
			refused(t, err, failure.Conflict, "the page is dead and has not ended")
			r.release(policy)
			letters := r.inspected(redrive.InspectRequest{}).Letters
			if len(letters) != 1 || letters[0].SHA256 != a.Poison || letters[0].Standing != redrive.Quarantined || letters[0].Death != job.ReasonMalformed {
				t.Fatalf("%+v", letters)
			}
			if plan := r.planned(redrive.PlanRequest{Filter: redrive.Filter{Death: job.ReasonMalformed}}); plan.Moves != 0 {
				t.Errorf("a redrive moves what is malformed: %+v", plan)
			}
			plan := r.recover(page)
			if n := len(r.Queue.PeekLetters()); n != 1 {
				t.Fatalf("%d letters after the redrive", n)
			}
			r.holds()
			done := r.finished(page, false)
			if !done.Report.Passed || len(failing(done)) > 0 || len(done.Report.Checks) != 8 {
				t.Fatalf("%+v", done.Report.Checks)
			}
			row := r.page(page)
			d := done.Report
			if d.RedriveID != plan.RedriveID || d.Receipt != row.Receipt || d.Candidates != 3 || d.MessageID != letters[0].MessageID || d.By != ana.By ||
				!d.SettledAt.Equal(row.SettledAt) || d.RecoverySeconds != row.SettledAt.Sub(d.AppliedAt).Seconds() || d.CodeVersion != "test" {
				t.Errorf("%+v", d)
			}
			if e := r.entries(audit.LetterDiscarded); len(e) != 1 || e[0].MessageID != d.MessageID || len(r.Queue.PeekLetters()) != 0 {
				t.Errorf("the malformed message: %+v", e)
			}
			passed := r.entries(audit.DrillPassed)
			if len(passed) != 1 || passed[0].RunID != page.Run || passed[0].RedriveID != plan.RedriveID || !passed[0].At.Equal(d.At) {
				t.Errorf("%+v", passed)
			}
			kept, err := r.Evidence.Get(t.Context(), done.Evidence)
			must(t, err)
			var report redrive.DrillReport
			must(t, json.Unmarshal(kept, &report))
			if !report.Passed || !evidence.ValidName(done.Evidence) || !strings.HasPrefix(done.Evidence, "drills/20260309t1") {
				t.Errorf("%s: %s", done.Evidence, kept)
			}
			// Said again, nothing new: not even later, by somebody else.
			r.Clock.Advance(time.Hour)
			r.still(func() {
				if again := r.finished(page, true); again.Report.At != d.At || !again.Report.Passed {
					t.Errorf("%+v", again)
				}
			}, "entry")
			if len(r.entries(audit.DrillPassed)) != 1 || len(r.entries(audit.DrillFailed)) != 0 {
				t.Error("it was entered twice")
			}
			_, err = ask[redrive.Auto](r, r.Redriver, redrive.AutoRequest{Op: redrive.OpAuto, Set: redrive.On, Death: job.ReasonForbidden, Cap: 5, Signature: ana})
			must(t, err)
		})
	}
}

// Only a page of a drill's own request that no worker has had is ended. Everything else
// is refused without a write.
func TestDrillRefuses(t *testing.T) {
	change := func(f func(*job.Page)) func(*region, *job.Page) {
		return func(r *region, p *job.Page) { *p = r.set(*p, f) }
	}
	for name, c := range map[string]struct {
		request string
		change  func(*region, *job.Page)
		class   failure.Class
		text    string
	}{
		"an honest request":   {"erase-1", nil, failure.Invalid, "is not a drill's"},
		"a claimed page":      {"drill-1", change(func(p *job.Page) { p.State, p.Fence, p.Attempts = job.Claimed, 1, 1 }), failure.Conflict, "a worker has had the page"},
		"one that was parked": {"drill-1", change(func(p *job.Page) { p.State, p.Fence = job.Planned, 1 }), failure.Conflict, "a worker has had the page"},
		"an open intent":      {"drill-1", change(func(p *job.Page) { p.Intent = job.Intent{Plan: "x", Fence: 1, Deletes: 1} }), failure.Conflict, "a worker has had the page"},
		"a page that ended":   {"drill-1", change(func(p *job.Page) { p.State = job.Completed }), failure.Conflict, "which is completed"},
		"a split-off item":    {"drill-1", change(func(p *job.Page) { p.Kind = job.ItemPage }), failure.Conflict, "split-off"},
		"another death":       {"drill-1", change(func(p *job.Page) { p.State, p.Death.Reason = job.Dead, job.ReasonForbidden }), failure.Conflict, "which is dead"},
		"a run that waits": {"drill-1", func(r *region, p *job.Page) {
			run := r.runOf(*p)
			run.State = job.AwaitingApproval
			run.Rev++
			must(r.t, r.Ledger.SwapRun(r.t.Context(), run))
		}, failure.Conflict, "the run is awaiting_approval"},
		"another region": {"drill-1", func(r *region, _ *job.Page) {
			r.Redriver = r.another(func(c *redrive.Config) { c.Region = "us-east-1" })
		}, failure.Invalid, "another region"},
		"no such page": {"drill-1", func(_ *region, p *job.Page) { p.ID = job.PageID(strings.Repeat("0", 32)) }, failure.Absent, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, page := braked(t, c.request, "exports")
			if c.change != nil {
				c.change(r, &page)
			}
			r.still(func() {
				_, err := ask[redrive.Drilling](r, r.Redriver, drill(page))
				refused(t, err, c.class, c.text)
			})
		})
	}
	r, page := braked(t, "drill-1", "exports")
	q := drill(page)
	q.Reason = "no"
	_, err := ask[redrive.Drilling](r, r.Redriver, q)
	refused(t, err, failure.Invalid, "reason")
	q = drill(page)
	q.Tenant = "../x"
	_, err = ask[redrive.Drilling](r, r.Redriver, q)
	refused(t, err, failure.Invalid, "tenant_id")
	_, err = ask[redrive.DrillFinished](r, r.Redriver, redrive.DrillFinishRequest{Op: redrive.OpFinish, PageRef: q.PageRef, Signature: ana})
	refused(t, err, failure.Invalid, "tenant_id")
	_, err = ask[redrive.DrillFinished](r, r.Redriver, finish(page, false))
	refused(t, err, failure.Conflict, "no drill has ended this page")
	r, page = braked(t, "erase-1", "exports")
	_, err = ask[redrive.DrillFinished](r, r.Redriver, finish(page, true))
	refused(t, err, failure.Invalid, "not a drill's")
}

// A worker that claims the page between the look and the write wins: the page is left
// to it.
func TestDrillLosesTheRace(t *testing.T) {
	r, page := braked(t, "drill-1", "exports")
	r.Ledger.Hook = func(op string, apply func() error) error {
		if op == "page:dead" {
			r.Ledger.Hook = nil
			r.set(page, func(p *job.Page) { p.State, p.Fence, p.Attempts = job.Claimed, 1, 1 })
		}
		return apply()
	}
	_, err := ask[redrive.Drilling](r, r.Redriver, drill(page))
	refused(t, err, failure.Conflict, "a worker has had the page")
	if p := r.page(page); p.State != job.Claimed {
		t.Errorf("%+v", p)
	}
}

// Every write of a drill in every way: said again it goes on, the page dies once, and
// never without an order before it (E7).
func TestEveryWriteOfADrill(t *testing.T) {
	clean := &script{at: -1}
	r, page := braked(t, "drill-1", "exports")
	r.under(clean, func() { r.drilled(page) })
	if want := []string{"entry", "page:dead", "send"}; !slices.Equal(clean.writes, want) {
		t.Fatalf("%q", clean.writes)
	}
	for at, op := range clean.writes {
		for _, s := range strikes {
			t.Run(fmt.Sprintf("%s: %s", op, s), func(t *testing.T) {
				r, page := braked(t, "drill-1", "exports")
				r.under(&script{at: at, strike: s}, func() {
					process(func() { _, _ = ask[redrive.Drilling](r, r.another(), drill(page)) })
				})
				if p := r.page(page); p.State == job.Dead && len(r.entries(audit.DrillStarted)) == 0 {
					t.Error("E7: it died without an order")
				}
				r.drilled(page)
				r.release("exports")
				r.recover(page)
				r.holds()
				if done := r.finished(page, false); !done.Report.Passed {
					t.Errorf("%+v", done.Report.Checks)
				}
				if n := len(r.Queue.PeekLetters()); n != 0 {
					t.Errorf("%d letters are left", n)
				}
			})
		}
	}
}

// Every write of the end in every way: said again it ends with one report and one
// entry.
func TestEveryWriteOfADrillsEnd(t *testing.T) {
	ready := func(t *testing.T) (*region, job.Page) {
		r, page := braked(t, "drill-1", "exports")
		r.drilled(page)
		r.release("exports")
		r.recover(page)
		return r, page
	}
	under := func(r *region, s *script, f func()) {
		kept, ok := r.Evidence.(*evidence.Memory)
		if !ok {
			r.t.Fatal("the region's evidence is not in memory")
		}
		kept.Hook = s.hook
		r.under(s, f)
		kept.Hook = nil
	}
	clean := &script{at: -1}
	r, page := ready(t)
	under(r, clean, func() { r.finished(page, false) })
	if want := []string{"entry", "remove", "put", "entry"}; !slices.Equal(clean.writes, want) {
		t.Fatalf("%q", clean.writes)
	}
	for at, op := range clean.writes {
		for _, s := range strikes {
			t.Run(fmt.Sprintf("%d %s: %s", at, op, s), func(t *testing.T) {
				r, page := ready(t)
				under(r, &script{at: at, strike: s}, func() {
					process(func() { _, _ = ask[redrive.DrillFinished](r, r.another(), finish(page, false)) })
				})
				r.Clock.Advance(r.Settings.Visibility())
				a, err := ask[redrive.DrillFinished](r, r.Redriver, finish(page, false))
				lost := op == "remove" && s.applied || op == "put" && !s.applied
				if lost {
					// The message is gone, and nobody has kept that it was there: the drill can only
					// be given up and run anew.
					refused(t, err, failure.Conflict, "not among the dead letters")
					a = r.finished(page, true)
				}
				if a.Report.Passed == lost || len(r.entries(audit.DrillPassed))+len(r.entries(audit.DrillFailed)) != 1 {
					t.Errorf("%+v", a.Report)
				}
				if again := r.finished(page, false); again.Report.At != a.Report.At || again.Report.Passed != a.Report.Passed {
					t.Errorf("%+v", again.Report)
				}
			})
		}
	}
}

// A drill that shows anything else than it should has failed, whatever it is, and what
// it showed stays.
func TestDrillFails(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*region, *job.Page)
		want  string
	}{
		"the page is dead again": {func(r *region, p *job.Page) { *p = r.set(*p, func(p *job.Page) { p.State = job.Dead }) }, "one final state"},
		"it was discarded":       {func(r *region, p *job.Page) { *p = r.set(*p, func(p *job.Page) { p.State = job.Discarded }) }, "one final state"},
		"an item is missing":     {func(r *region, p *job.Page) { *p = r.set(*p, func(p *job.Page) { p.Counts[job.Deleted]-- }) }, "one final state one receipt"},
		"another receipt": {func(r *region, p *job.Page) {
			*p = r.set(*p, func(p *job.Page) { p.Receipt = strings.Repeat("0", 64) })
		}, "one receipt"},
		"no receipt": {func(r *region, p *job.Page) { *p = r.set(*p, func(p *job.Page) { p.Receipt = "" }) }, "one receipt"},
		"a receipt that is not whole": {func(r *region, p *job.Page) {
			hash := strings.Repeat("1", 64)
			must(r.t, r.Evidence.Put(r.t.Context(), receipt.Name(receipt.Receipt, p.Run, p.ID, hash), []byte("deleted, all of them")))
			*p = r.set(*p, func(p *job.Page) { p.Receipt = hash })
		}, "one receipt"},
		"another plan": {func(r *region, p *job.Page) {
			*p = r.set(*p, func(p *job.Page) { p.RedriveID = job.RedriveID(strings.Repeat("2", 32)) })
		}, "approved quarantine"},
		"no plan": {func(r *region, p *job.Page) { *p = r.set(*p, func(p *job.Page) { p.RedriveID = "" }) }, "approved quarantine"},
		"another death": {func(r *region, p *job.Page) {
			*p = r.set(*p, func(p *job.Page) { p.Death.Reason = job.ReasonForbidden })
		}, "dead letter"},
		"never a letter":  {func(r *region, p *job.Page) { *p = r.set(*p, func(p *job.Page) { p.Death.LetterAt = time.Time{} }) }, "dead letter"},
		"nobody took it":  {func(r *region, p *job.Page) { *p = r.set(*p, func(p *job.Page) { p.Attempts = 0 }) }, "attempts"},
		"the poison left": {func(r *region, _ *job.Page) { r.takeLetters() }, "quarantine discard"},
	} {
		t.Run(name, func(t *testing.T) {
			r, page := braked(t, "drill-1", "exports")
			r.drilled(page)
			r.release("exports")
			r.recover(page)
			page = r.page(page)
			c.spoil(r, &page)
			a := r.finished(page, true)
			if got := strings.Join(failing(a), " "); got != c.want || a.Report.Passed {
				t.Errorf("failed %q, want %q: %+v", got, c.want, a.Report.Checks)
			}
			if len(r.entries(audit.DrillFailed)) != 1 || len(r.entries(audit.DrillPassed)) != 0 {
				t.Error("the entries are wrong")
			}
			if again := r.finished(page, false); again.Report.Passed {
				t.Error("it passes the second time")
			}
			_, err := ask[redrive.Auto](r, r.Redriver, redrive.AutoRequest{Op: redrive.OpAuto, Set: redrive.On, Death: job.ReasonForbidden, Cap: 5, Signature: ana})
			refused(t, err, failure.Conflict, "the last drill")
		})
	}
}

// takeLetters removes all dead letters behind everybody's back.
func (r *region) takeLetters() {
	r.t.Helper()
	all, err := r.Queue.Letters(r.t.Context(), 10)
	must(r.t, err)
	for _, d := range all {
		must(r.t, r.Queue.Remove(r.t.Context(), d))
	}
}
