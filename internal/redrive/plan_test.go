package redrive_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// A plan looks at both sides and writes one thing. What happens to it later is in
// its token.
func TestPlanMovesNothing(t *testing.T) {
	r := newRegion(t)
	pages := r.die("exports", false, "acme", "beta")
	r.wait()
	before := r.Queue.PeekLetters()
	var plan redrive.Plan
	r.still(func() { plan = r.planned(redrive.PlanRequest{}) }, "redrive")
	if plan.Moves != 2 || len(plan.Verdicts) != 2 || plan.More || plan.Override != "" || !plan.ExpiresAt.Equal(r.Clock.Now().Add(r.Settings.RedriveLife)) {
		t.Fatalf("%+v", plan)
	}
	for _, p := range pages {
		v := plan.Verdicts[slices.IndexFunc(plan.Verdicts, func(v redrive.Verdict) bool { return v.Page == p.ID })]
		if !v.Moves || v.Tenant != p.Tenant || v.Death != job.ReasonForbidden || v.Class != job.Redrivable || v.Attempts != 1 || len(v.Copies) != 1 {
			t.Errorf("%+v", v)
		}
		// R93: what already changed. Both refusals are on record, and an intent is open.
		if v.Outcomes["refused"] != 2 || v.OpenIntent == nil || v.OpenIntent.Deletes != 2 || v.Receipt == "" || !strings.Contains(v.Again, "2 items") {
			t.Errorf("%+v", v)
		}
		if len(v.Gates) != len(redrive.GateNames()) {
			t.Errorf("gates %+v", v.Gates)
		}
		for j, g := range v.Gates {
			if g.Gate != redrive.GateNames()[j] || !g.Open || g.Text == "" || g.Overridden {
				t.Errorf("gate %+v", g)
			}
		}
		if r.page(p) != p {
			t.Error("a plan moved a page")
		}
	}
	visible, err := r.Queue.Letters(t.Context(), 10)
	must(t, err)
	if len(visible) != len(before) {
		t.Errorf("%d letters are visible after a plan, want %d", len(visible), len(before))
	}
	stored, err := r.Ledger.Redrive(t.Context(), plan.RedriveID)
	must(t, err)
	bound, err := r.Ledger.RedrivePages(t.Context(), plan.RedriveID)
	must(t, err)
	if !stored.Binds(bound) || stored.Token() != plan.Token || stored.Pages != 2 {
		t.Errorf("recorded %+v of %+v", stored, bound)
	}
}

// gate returns what a gate says in the plan's only verdict.
func gate(t *testing.T, plan redrive.Plan, name redrive.GateName) redrive.Gate {
	t.Helper()
	if len(plan.Verdicts) != 1 {
		t.Fatalf("%d verdicts", len(plan.Verdicts))
	}
	for _, g := range plan.Verdicts[0].Gates {
		if g.Gate == name {
			return g
		}
	}
	t.Fatalf("no gate %s", name)
	return redrive.Gate{}
}

// Each gate alone: what closes it, what its line says, and whether an override
// passes it (R85-R88, R97, F18, RD-09).
func TestGates(t *testing.T) {
	newer := strings.Replace(exportsYAML, "version: 1", "version: 2", 1)
	for _, c := range []struct {
		name string
		gate redrive.GateName
		do   func(*region, job.Run, job.Page)
		open bool
		// passes: an override does.
		passes bool
		words  []string
	}{
		{name: "all is well", gate: redrive.GateRegion, open: true},
		{name: "another region's run", gate: redrive.GateRegion, do: func(r *region, _ job.Run, _ job.Page) {
			r.Redriver = r.another(func(c *redrive.Config) { c.Region = "us-east-1" })
		}, words: []string{"eu-west-1", "us-east-1"}},
		{name: "a policy of another region", gate: redrive.GateRegion, do: func(r *region, run job.Run, _ job.Page) {
			elsewhere := r.parse(strings.NewReplacer("name: exports", "name: elsewhere", "eu-west-1", "us-east-1").Replace(exportsYAML))
			must(r.t, r.Ledger.PublishPolicy(r.t.Context(), elsewhere))
			run.Policy, run.PolicySHA256, run.Rev = "elsewhere", elsewhere.SHA256(), run.Rev+1
			must(r.t, r.Ledger.SwapRun(r.t.Context(), run))
		}, words: []string{"a bucket in us-east-1"}},
		{name: "a letter that names another region", gate: redrive.GateRegion, do: func(r *region, run job.Run, p job.Page) {
			run.Region = "us-east-1"
			r.letter(run, p)
		}, words: []string{"names another region", "Discard it by its message id"}},
		{name: "exactly old enough", gate: redrive.GateAge, open: true, do: func(r *region, _ job.Run, p job.Page) {
			r.set(p, func(p *job.Page) {
				p.FirstFailure, p.Death.At = r.Clock.Now().Add(-r.Settings.RedriveAfterFailure), r.Clock.Now().Add(-r.Settings.RedriveAfterDeath)
			})
		}},
		{name: "too soon after the first failure R85", gate: redrive.GateAge, do: func(r *region, _ job.Run, p job.Page) {
			r.set(p, func(p *job.Page) { p.FirstFailure = r.Clock.Now().Add(-r.Settings.RedriveAfterFailure + 1) })
		}, words: []string{"Wait until then", "15m0s after the first"}},
		{name: "too soon after the death R85", gate: redrive.GateAge, do: func(r *region, _ job.Run, p job.Page) {
			r.set(p, func(p *job.Page) { p.Death.At = r.Clock.Now().Add(-r.Settings.RedriveAfterDeath + 1) })
		}, words: []string{"5m0s after the second"}},
		{name: "one attempt left R86", gate: redrive.GateAttempts, open: true, do: func(r *region, _ job.Run, p job.Page) {
			r.set(p, func(p *job.Page) { p.Attempts = r.Settings.RedriveAttempts - 1 })
		}, words: []string{"14 of 15"}},
		{name: "attempt-ceiling RD-09", gate: redrive.GateAttempts, do: func(r *region, _ job.Run, p job.Page) {
			r.set(p, func(p *job.Page) { p.Attempts = r.Settings.RedriveAttempts })
		}, words: []string{"15 of 15", "Discard the page"}},
		{name: "no copy is left R87", gate: redrive.GateKey, open: true, do: func(r *region, _ job.Run, _ job.Page) { r.Clock.Advance(r.Settings.DeadLetterRetention) },
			words: []string{"rebuilt from the ledger"}},
		{name: "another body R87", gate: redrive.GateKey, do: func(r *region, run job.Run, p job.Page) {
			other := run
			other.Cutoff = other.Cutoff.Add(time.Hour)
			r.letter(other, p)
		}, words: []string{"is not its command", "discard it by its message id"}},
		{name: "a refused message that names the page", gate: redrive.GateKey, open: true, do: func(r *region, run job.Run, p job.Page) {
			must(r.t, r.Queue.DeadLetter(r.t.Context(), job.Letter{Body: []byte("{}"), Reason: job.ReasonHashMismatch, RunID: run.ID, PageID: p.ID, Region: regionName}))
		}},
		{name: "outside the policy S14", gate: redrive.GateClass, passes: true, do: func(r *region, _ job.Run, p job.Page) {
			r.set(p, func(p *job.Page) { p.Death.Reason = job.ReasonOutsidePolicy })
		}, words: []string{"quarantined", "override"}},
		{name: "an unknown policy version that is on record again R96 R97", gate: redrive.GateClass, open: true, do: func(r *region, _ job.Run, p job.Page) {
			r.set(p, func(p *job.Page) { p.Death.Reason = job.ReasonUnknownPolicy })
		}, words: []string{"on record again"}},
		{name: "a newer version F18", gate: redrive.GatePolicy, passes: true, do: func(r *region, _ job.Run, _ job.Page) {
			must(r.t, r.Ledger.PublishPolicy(r.t.Context(), r.parse(newer)))
		}, words: []string{"version 1", "version 2"}},
		{name: "a hold on the tenant", gate: redrive.GateHold, do: func(r *region, _ job.Run, p job.Page) {
			_, err := r.Ledger.PlaceHold(r.t.Context(), hold.Hold{ID: "h-1", Tenant: p.Tenant, Scope: hold.Tenant})
			must(r.t, err)
		}, words: []string{"h-1", "only retain"}},
		{name: "a hold of an unknown scope", gate: redrive.GateHold, do: func(r *region, _ job.Run, p job.Page) {
			_, err := r.Ledger.PlaceHold(r.t.Context(), hold.Hold{ID: "h-1", Tenant: p.Tenant, Scope: "galaxy"})
			must(r.t, err)
		}, words: []string{"h-1"}},
		{name: "holds on parts", gate: redrive.GateHold, open: true, do: func(r *region, _ job.Run, p job.Page) {
			for id, scope := range map[string]hold.Scope{"h-1": hold.Prefix, "h-2": hold.Item} {
				_, err := r.Ledger.PlaceHold(r.t.Context(), hold.Hold{ID: id, Tenant: p.Tenant, Scope: scope, Value: "exports/"})
				must(r.t, err)
			}
		}, words: []string{"2 holds cover parts"}},
		{name: "a released hold", gate: redrive.GateHold, open: true, do: func(r *region, _ job.Run, p job.Page) {
			_, err := r.Ledger.PlaceHold(r.t.Context(), hold.Hold{ID: "h-1", Tenant: p.Tenant, Scope: hold.Tenant})
			must(r.t, err)
			must(r.t, r.Ledger.ReleaseHold(r.t.Context(), p.Tenant, "h-1", r.Clock.Now()))
		}},
		{name: "a brake on the region", gate: redrive.GateBrake, do: func(r *region, _ job.Run, _ job.Page) {
			must(r.t, r.Ledger.SetBrake(r.t.Context(), job.Brake{}))
		}, words: []string{"the region", "Release it first"}},
		{name: "a brake on the version", gate: redrive.GateBrake, do: func(r *region, _ job.Run, _ job.Page) {
			must(r.t, r.Ledger.SetBrake(r.t.Context(), job.Brake{Policy: "exports", Version: 1}))
		}, words: []string{"exports@1"}},
		{name: "a brake on another policy", gate: redrive.GateBrake, open: true, do: func(r *region, _ job.Run, _ job.Page) {
			must(r.t, r.Ledger.SetBrake(r.t.Context(), job.Brake{Policy: "uploads"}))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRegion(t)
			run, pages := r.dead("exports", 1)
			r.wait()
			if c.do != nil {
				c.do(r, run, pages[0])
			}
			plan := r.planned(redrive.PlanRequest{})
			g := gate(t, plan, c.gate)
			if g.Open != c.open || plan.Moves != map[bool]int{true: 1}[c.open] || (plan.Token != "") != c.open {
				t.Fatalf("%d would move: %+v", plan.Moves, g)
			}
			if !c.open && !strings.Contains(g.Text, "verride passes this gate") && !strings.Contains(g.Text, "override with a reason passes") {
				t.Errorf("%q does not say whether an override passes it", g.Text)
			}
			for _, w := range c.words {
				if !strings.Contains(g.Text, w) {
					t.Errorf("%q does not name %q", g.Text, w)
				}
			}
			left := r.events(audit.RedriveLeft)
			if c.open != (len(left) == 0) || !c.open && (!strings.HasPrefix(left[0].Operation, string(c.gate)) || left[0].JobID != pages[0].ID) {
				t.Errorf("events %+v", left)
			}
			if c.open {
				return
			}
			plan = r.planned(redrive.PlanRequest{Override: "the lawyers have agreed"})
			if g = gate(t, plan, c.gate); g.Open != c.passes || g.Overridden != c.passes || (plan.Token != "") != c.passes {
				t.Errorf("with an override: %+v", g)
			}
			if plan.Override != "the lawyers have agreed" {
				t.Error("the override is not in the plan")
			}
		})
	}
}

// R85: the instant from which the gate is open is exact.
func TestAgeGateOpensWhenItSays(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 1)
	from := gate(t, r.planned(redrive.PlanRequest{}), redrive.GateAge).OpenFrom
	r.Clock.Reach(from.Add(-1))
	if gate(t, r.planned(redrive.PlanRequest{}), redrive.GateAge).Open {
		t.Error("open before")
	}
	r.Clock.Reach(from)
	if !gate(t, r.planned(redrive.PlanRequest{}), redrive.GateAge).Open {
		t.Error("closed at the instant")
	}
}

// S14, R96: a page of a policy version that is not on record stays, until the version is
// published again with the run's content.
func TestPolicyOffRecord(t *testing.T) {
	r := newRegion(t)
	run, pages := r.dead("exports", 1)
	stored, err := r.Ledger.Run(t.Context(), run.ID)
	must(t, err)
	stored.PolicySHA256, stored.Rev = strings.Repeat("0", 64), stored.Rev+1
	must(t, r.Ledger.SwapRun(t.Context(), stored))
	r.set(pages[0], func(p *job.Page) { p.Death.Reason = job.ReasonUnknownPolicy })
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	for _, name := range []redrive.GateName{redrive.GateClass, redrive.GatePolicy} {
		if g := gate(t, plan, name); g.Open || !strings.Contains(g.Text, "Publish") {
			t.Errorf("%+v", g)
		}
	}
}

// A run that is gone leaves nothing to judge by.
func TestPageWithoutARun(t *testing.T) {
	r := newRegion(t)
	_, pages := r.dead("exports", 1)
	r.wait()
	lost := r.another(func(c *redrive.Config) { c.Runs = noRuns{r.Ledger} })
	plan, err := ask[redrive.Plan](r, lost, redrive.PlanRequest{})
	must(t, err)
	if v := plan.Verdicts[0]; v.Page != pages[0].ID || v.Moves || len(v.Gates) != 1 || v.Gates[0].Gate != redrive.GateKey {
		t.Errorf("%+v", v)
	}
}

func TestPlanChooses(t *testing.T) {
	r := newRegion(t)
	exports, dead := r.dead("exports", 3)
	r.set(dead[1], func(p *job.Page) { p.Death.Reason = job.ReasonForbidden })
	_, reports := r.dead("uploads", 1)
	r.wait()
	for name, c := range map[string]struct {
		filter redrive.Filter
		want   []job.PageID
	}{
		"all":       {redrive.Filter{}, []job.PageID{dead[0].ID, dead[1].ID, dead[2].ID, reports[0].ID}},
		"tenant":    {redrive.Filter{Tenant: "tenant-0000"}, []job.PageID{dead[0].ID, reports[0].ID}},
		"policy":    {redrive.Filter{Policy: "uploads"}, []job.PageID{reports[0].ID}},
		"run":       {redrive.Filter{Run: exports.ID}, []job.PageID{dead[0].ID, dead[1].ID, dead[2].ID}},
		"page":      {redrive.Filter{Page: dead[2].ID}, []job.PageID{dead[2].ID}},
		"death":     {redrive.Filter{Death: job.ReasonForbidden}, []job.PageID{dead[1].ID}},
		"two":       {redrive.Filter{Tenant: "tenant-0000", Policy: "exports"}, []job.PageID{dead[0].ID}},
		"no policy": {redrive.Filter{Policy: "nothing"}, nil},
	} {
		plan := r.planned(redrive.PlanRequest{Filter: c.filter})
		inspection := r.inspected(redrive.InspectRequest{Filter: c.filter})
		var got, seen []job.PageID
		for _, v := range plan.Verdicts {
			got = append(got, v.Page)
		}
		for _, p := range inspection.Pages {
			seen = append(seen, p.Page)
		}
		for _, ids := range [][]job.PageID{got, seen, c.want} {
			slices.Sort(ids)
		}
		if !slices.Equal(got, c.want) || !slices.Equal(seen, c.want) {
			t.Errorf("%s: planned %v, inspected %v, want %v", name, got, seen, c.want)
		}
	}
}

// R91: a plan is bounded, and says that there is more. What is closed takes no place
// of what may move.
func TestPlanIsBounded(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 250)
	for _, p := range dead {
		if p.Tenant < "tenant-0150" {
			r.set(p, func(p *job.Page) { p.Attempts = 15 })
		}
	}
	r.wait()
	plan := r.planned(redrive.PlanRequest{Limit: 60})
	if plan.Moves != 60 || !plan.More {
		t.Errorf("%d of %d would move, more %v", plan.Moves, len(plan.Verdicts), plan.More)
	}
	if plan = r.planned(redrive.PlanRequest{Limit: 100}); plan.Moves != 100 || plan.More || len(plan.Verdicts) != 250 {
		t.Errorf("%d of %d would move, more %v", plan.Moves, len(plan.Verdicts), plan.More)
	}
	small := r.another(func(c *redrive.Config) { c.Settings.RedrivePlan = 100 })
	if plan, err := ask[redrive.Plan](r, small, redrive.PlanRequest{}); err != nil || plan.Moves != 100 || len(plan.Verdicts) != 150 || !plan.More {
		t.Errorf("%d of %d would move, more %v: %v", plan.Moves, len(plan.Verdicts), plan.More, err)
	}
	late := r.another(func(c *redrive.Config) { c.Pages = slow{r.Ledger, r.Clock, time.Second} })
	began := r.Clock.Now()
	if plan, err := ask[redrive.Plan](r, late, redrive.PlanRequest{}); err != nil || !plan.More || r.Clock.Now().Sub(began) > r.Settings.FunctionTimeout {
		t.Errorf("more %v after %v: %v", plan.More, r.Clock.Now().Sub(began), err)
	}
}

// An index that is behind shows what is not dead any more; the row decides.
func TestPlanReadsTheRow(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 2)
	r.wait()
	stale := r.another(func(c *redrive.Config) { c.Pages = hints{r.Ledger, slices.Clone(dead)} })
	gone, err := dead[0].Redrive("", r.Clock.Now(), r.Clock.Now())
	must(t, err)
	must(t, r.Ledger.SwapPage(t.Context(), gone))
	plan, err := ask[redrive.Plan](r, stale, redrive.PlanRequest{})
	must(t, err)
	if plan.Moves != 1 || len(plan.Verdicts) != 1 || plan.Verdicts[0].Page != dead[1].ID {
		t.Errorf("%+v", plan)
	}
}

// Requests that can not be meant are refused before anything is read, and nothing
// of them is quoted.
func TestRequestsAreStrict(t *testing.T) {
	r := newRegion(t)
	r.config.Pages, r.config.Plans = nil, nil // whoever reads fails the test
	blind := r.another()
	for name, c := range map[string]struct{ payload, word string }{
		"nothing":               {"", "one JSON object"},
		"null":                  {"null", "one JSON object"},
		"a list":                {"[]", "one JSON object"},
		"not JSON":              {`{"op":`, "strict JSON"},
		"two values":            {`{}{}`, "strict JSON"},
		"op is a number":        {`{"op":1}`, "op"},
		"an unknown op":         {`{"op":"canary"}`, "op is none of inspect"},
		"an unknown field":      {`{"op":"plan","canary":1}`, "limit, override"},
		"a field of another op": {`{"op":"inspect","override":"canary"}`, "besides op, inspect has"},
		"twice":                 {`{"op":"plan","limit":1,"limit":2}`, "strict JSON"},
		"another case":          {`{"op":"plan","LIMIT":1}`, "unknown"},
		"a text for a number":   {`{"limit":"canary"}`, "wrong type"},
		"too large":             {`{"op":"plan","policy":"` + strings.Repeat("x", 64<<10) + `"}`, "larger than"},
		"a scheduler's default": {`{"version":"0","id":"canary","detail-type":"Scheduled Event"}`, "unknown"},
		"limit":                 {`{"limit":1001}`, "1 to 1000"},
		"negative limit":        {`{"op":"inspect","limit":-1}`, "1 to 1000"},
		"tenant":                {`{"tenant_id":"../canary"}`, "tenant_id"},
		"run":                   {`{"run_id":"CANARY"}`, "run_id"},
		"page":                  {`{"page_id":"canary"}`, "page_id"},
		"death":                 {`{"death":"canary"}`, "attempts_exhausted"},
		"override":              {`{"override":"  canary"}`, "5 to 200"},
		"resume":                {`{"op":"resume"}`, "redrive_id"},
		"status of nothing":     {`{"op":"status"}`, "token"},
		"status of two":         {`{"op":"status","token":"a","redrive_id":"b"}`, "token"},
		"status id":             {`{"op":"status","redrive_id":"canary"}`, "32 hex"},
		"discard unsigned":      {`{"op":"discard","message_ids":["canary"]}`, "by is missing"},
		"discard nothing":       {`{"op":"discard","by":"canary","reason":"canary"}`, "1 to 100"},
		"discard a page":        {`{"op":"discard","pages":[{"run_id":"canary"}],"by":"canary","reason":"canary"}`, "tenant_id"},
		"discard twice":         {`{"op":"discard","message_ids":["canary","canary"],"by":"canary","reason":"canary"}`, "twice"},
		"discard an empty id":   {`{"op":"discard","message_ids":[""],"by":"canary","reason":"canary"}`, "message id"},
		"brake unsigned":        {`{"op":"brake","set":"on","by":"canary"}`, "reason is missing"},
		"brake half":            {`{"op":"brake","set":"half","by":"canary","reason":"canary"}`, "on or off"},
		"brake version alone":   {`{"op":"brake","set":"on","policy_version":3,"by":"canary","reason":"canary"}`, "policy_version"},
		"approve nothing":       {`{"op":"approve"}`, "run_id"},
		"approve unsigned":      {`{"op":"approve","run_id":"0123456789abcdef0123456789abcdef","fingerprint":"canary"}`, "by is missing"},
		"reject unsigned":       {`{"op":"reject","run_id":"0123456789abcdef0123456789abcdef","fingerprint":"canary"}`, "by is missing"},
		"auto without a reason": {`{"op":"auto","set":"off","by":"canary"}`, "reason is missing"},
		"auto half":             {`{"op":"auto","set":"half","by":"canary","reason":"canary"}`, "on or off"},
		"auto of the quarantined": {`{"op":"auto","set":"on","death":"unknown_policy","cap":1,"by":"canary","reason":"canary"}`,
			"allowed are forbidden, attempts_exhausted, age_exhausted"},
		"auto without a cap":   {`{"op":"auto","set":"on","death":"forbidden","by":"canary","reason":"canary"}`, "1 to 100"},
		"auto over the cap":    {`{"op":"auto","set":"on","death":"forbidden","cap":101,"by":"canary","reason":"canary"}`, "1 to 100"},
		"auto off with a cap":  {`{"op":"auto","set":"off","cap":1,"by":"canary","reason":"canary"}`, "belong to set on"},
		"apply unsigned R89":   {`{"op":"apply","token":"canary"}`, "by is missing"},
		"apply without why":    {`{"op":"apply","token":"canary","by":"canary"}`, "reason is missing"},
		"apply form":           {`{"op":"apply","token":"canary","by":"canary","reason":"canary"}`, "region/32 hex"},
		"apply another region": {`{"op":"apply","token":"us-east-1/0123456789abcdef0123456789abcdef","by":"canary","reason":"canary"}`, "another region"},
		"apply max R91":        {`{"op":"apply","token":"canary","max":101,"by":"canary","reason":"canary"}`, "1 to 100"},
		"apply rate R91":       {`{"op":"apply","token":"canary","rate":11,"by":"canary","reason":"canary"}`, "1 to 10"},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := blind.Handle(t.Context(), r.deadline(), []byte(c.payload))
			refused(t, err, failure.Invalid, c.word)
			if answer != nil || err != nil && bytes.Contains([]byte(err.Error()), []byte("canary")) {
				t.Errorf("answered %v, %v", answer, err)
			}
		})
	}
}
