package redrive_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// closers shut one gate each, by what happens in a region; the region's own also shuts
// the key's, because a command names its region. An override passes the last two.
var closers = []struct {
	gate   redrive.GateName
	also   redrive.GateName
	passes bool
	do     func(r *region, run job.Run, p job.Page)
}{
	{gate: redrive.GateRegion, also: redrive.GateKey, do: func(r *region, run job.Run, _ job.Page) {
		run = r.runAgain(run)
		run.Region, run.Rev = "us-east-1", run.Rev+1
		must(r.t, r.Ledger.SwapRun(r.t.Context(), run))
	}},
	{gate: redrive.GateAge, do: func(r *region, _ job.Run, p job.Page) {
		r.set(p, func(p *job.Page) { p.FirstFailure = r.Clock.Now() })
	}},
	{gate: redrive.GateAttempts, do: func(r *region, _ job.Run, p job.Page) {
		r.set(p, func(p *job.Page) { p.Attempts = r.Settings.RedriveAttempts })
	}},
	{gate: redrive.GateKey, do: func(r *region, run job.Run, _ job.Page) {
		run = r.runAgain(run)
		run.State, run.Rev = job.Closed, run.Rev+1
		must(r.t, r.Ledger.SwapRun(r.t.Context(), run))
	}},
	{gate: redrive.GateHold, do: func(r *region, _ job.Run, p job.Page) {
		_, err := r.Ledger.PlaceHold(r.t.Context(), hold.Hold{ID: "h", Tenant: p.Tenant, Scope: hold.Tenant, PlacedAt: r.Clock.Now()})
		must(r.t, err)
	}},
	{gate: redrive.GateBrake, do: func(r *region, run job.Run, _ job.Page) {
		must(r.t, r.Ledger.SetBrake(r.t.Context(), job.Brake{Policy: run.Policy, At: r.Clock.Now()}))
	}},
	{gate: redrive.GateClass, passes: true, do: func(r *region, _ job.Run, p job.Page) {
		r.set(p, func(p *job.Page) { p.Death.Reason = job.ReasonOutsidePolicy })
	}},
	{gate: redrive.GatePolicy, passes: true, do: func(r *region, _ job.Run, _ job.Page) {
		p, err := policy.Parse("test.yaml", []byte(strings.Replace(exportsYAML, "version: 1", "version: 2", 1)))
		must(r.t, err)
		must(r.t, r.Ledger.PublishPolicy(r.t.Context(), p))
	}},
}

func (r *region) runAgain(run job.Run) job.Run {
	run, err := r.Ledger.Run(r.t.Context(), run.ID)
	must(r.t, err)
	return run
}

// TestS15_EveryClosedGateRefuses: whichever gates close, in whatever order, before the
// plan or between the plan and its apply: the page moves exactly when none is closed that
// the plan's override does not pass, and each closed one is told, in the gates' own order
// (R85-R88, R97, S14).
func TestS15_EveryClosedGateRefuses(t *testing.T) {
	moved, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		r := newRegion(t)
		run, pages := r.dead("exports", 1)
		page := pages[0]
		r.wait()
		order := rapid.Permutation(closers).Draw(rt, "order")
		order = order[:rapid.IntRange(0, len(order)).Draw(rt, "close")]
		early := rapid.IntRange(0, len(order)).Draw(rt, "before the plan")
		override := rapid.SampledFrom([]string{"", "counsel has agreed"}).Draw(rt, "override")
		closes := func(from, to int) {
			for _, c := range order[from:to] {
				c.do(r, run, page)
			}
		}
		want := func(n int) (names []redrive.GateName) {
			for _, name := range redrive.GateNames() {
				for _, c := range order[:n] {
					if (c.gate == name || c.also == name) && !(c.passes && override != "") && !slices.Contains(names, name) {
						names = append(names, name)
					}
				}
			}
			return names
		}
		closes(0, early)
		plan := r.planned(redrive.PlanRequest{Override: override})
		if got := shutIn(plan.Verdicts[0].Gates); !slices.Equal(got, want(early)) || (plan.Moves == 1) != (len(got) == 0) {
			rt.Fatalf("the plan moves %d and has %v closed, want %v", plan.Moves, got, want(early))
		}
		closes(early, len(order))
		before := r.page(page)
		if plan.Moves == 0 {
			if plan.Token != "" {
				rt.Fatal("a plan that moves nothing has a token")
			}
		} else {
			did := r.applied(plan.Token)
			gates := want(len(order))
			if did.Moved != map[bool]int{true: 1}[len(gates) == 0] || len(did.Left) != map[bool]int{false: 1}[len(gates) == 0] {
				rt.Fatalf("%+v with %v closed", did, gates)
			}
			if len(did.Left) == 1 && !slices.Equal(shutIn(did.Left[0].Gates), gates) {
				rt.Fatalf("left for %v, want %v", shutIn(did.Left[0].Gates), gates)
			}
			if did.Moved == 1 {
				moved++
				return
			}
		}
		refused++
		if r.page(page) != before || len(r.Queue.Waiting(job.Enforce)) > 0 {
			rt.Fatalf("refused, and the page is %+v", r.page(page))
		}
	})
	if moved == 0 || refused == 0 {
		t.Errorf("%d moved, %d refused", moved, refused)
	}
}

// shutIn names the gates that are closed, in the order in which they are told.
func shutIn(gates []redrive.Gate) (names []redrive.GateName) {
	for _, g := range gates {
		if !g.Open {
			names = append(names, g.Gate)
		}
	}
	return names
}
