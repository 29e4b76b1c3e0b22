package invariant

import (
	"time"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// judgeRuns looks at the rows of the runs.
func (j *judge) judgeRuns() {
	unknown := 0
	for i := range j.Runs {
		r := &j.Runs[i]
		v := j.on("S2")
		v.look(1)
		days := policy.MinRetentionDays
		if s := j.scopeOf(r); s != nil {
			days = s.policy.RetentionDays
			if s.policy.Region != j.Region {
				j.on("S6").fail("run %s: its policy belongs to region %q", r.ID, s.policy.Region)
			}
		} else {
			unknown++
		}
		if r.Cutoff.IsZero() || r.Cutoff.After(r.Scheduled.Add(-time.Duration(days)*24*time.Hour)) {
			v.fail("run %s: the cutoff is less than %d days of 24 hours before the scheduled instant", r.ID, days)
		}
		v = j.on("S6")
		v.look(1)
		if r.Region != j.Region {
			v.fail("run %s: of region %q", r.ID, r.Region)
		}
	}
	if unknown > 0 {
		j.on("S2").note("%d runs pin a policy version that is not on record and were held to the floor of %d day", unknown, policy.MinRetentionDays)
	}
	j.judgeSums()
}

// judgeSums compares each run's row with its pages.
func (j *judge) judgeSums() {
	type sums struct {
		totals                     job.Totals
		ranges, examined, recorded int
		moved, items               int
	}
	all := make(map[job.RunID]*sums, len(j.Runs))
	for i := range j.Runs {
		all[j.Runs[i].ID] = &sums{}
	}
	for i := range j.Pages {
		p := &j.Pages[i]
		s := all[p.Run]
		if s == nil {
			continue
		}
		s.totals = s.totals.Plus(p.Totals())
		s.moved += p.Moved
		if p.Kind == job.ItemPage {
			s.items++
			continue
		}
		s.ranges++
		s.examined += p.Examined
		s.recorded += p.Candidates
	}
	v := j.on("E5")
	for i := range j.Runs {
		r := &j.Runs[i]
		s := all[r.ID]
		v.look(1)
		if r.Pages != s.ranges || r.Candidates != s.recorded || r.Examined-r.Unmatched != s.examined {
			v.fail("run %s: the scan recorded %d pages, %d candidates and %d matching items, and its pages say %d, %d and %d",
				r.ID, r.Pages, r.Candidates, r.Examined-r.Unmatched, s.ranges, s.recorded, s.examined)
		}
		if s.moved != s.items {
			v.fail("run %s: %d items moved to pages of their own, and there are %d such pages", r.ID, s.moved, s.items)
		}
		if r.State == job.Closed && r.Totals != s.totals {
			v.fail("run %s: closed with %d outcomes and %d bytes, and its pages add up to %d and %d",
				r.ID, r.Totals.Counts.Sum(), r.Totals.Bytes, s.totals.Counts.Sum(), s.totals.Bytes)
		}
	}
}

// judgeEffects judges every delete by the page it belongs to.
func (j *judge) judgeEffects() {
	perRun := map[job.RunID]int{}
	twins := 0
	for i := range j.Effects {
		t := &j.traces.list[i]
		if t.undo {
			continue
		}
		e := effect{judge: j, at: i, Effect: &j.Effects[i], trace: t}
		if at := j.traces.owner(i); at >= 0 {
			e.page = &j.Pages[at]
			e.run = j.runs[e.page.Run]
		}
		e.authority()
		e.place()
		e.underHold()
		e.accounted()
		if e.run != nil && !t.undone {
			perRun[e.run.ID]++
			if e.age() {
				twins++
			}
		}
	}
	if twins > 0 {
		j.on("S1").note("%d deletes hit equal bytes that were uploaded again after the plan, which no ETag can tell apart (F5)", twins)
	}
	if j.owed > 0 {
		j.on("E2").note("%d deletes are still owed by pages that are open or dead", j.owed)
	}
	v := j.on("S9")
	for i := range j.Runs {
		r := &j.Runs[i]
		v.look(1)
		switch n := perRun[r.ID]; {
		case n > 0 && unreleased(r):
			v.fail("run %s: %s, and %d items were deleted", r.ID, r.State, n)
		case n > r.Candidates:
			v.fail("run %s: %d items were deleted of %d recorded candidates", r.ID, n, r.Candidates)
		}
	}
}

// effect is one delete being judged. Its page and run are nil when nothing names it.
type effect struct {
	*judge
	*Effect
	trace *trace
	at    int
	page  *job.Page
	run   *job.Run
}

// who names the effect for a detail.
func (e *effect) who() string {
	if e.page == nil {
		return masked(e.Item.Key)
	}
	return about(e.page) + ": " + masked(e.Item.Key)
}

// each yields what names the effect.
func (e *effect) each(yield func(n *naming)) {
	for k := e.trace.names; k >= 0; k = e.traces.names[k].next {
		yield(&e.traces.names[k])
	}
}

// authority judges S3, S7 and S8.
func (e *effect) authority() {
	committed, enforcing, reporting := false, false, false
	e.each(func(n *naming) {
		committed = committed || n.committed
		r := e.runs[e.Pages[n.page].Run]
		enforcing = enforcing || r.Mode == job.Enforce
		reporting = reporting || r.Mode == job.ReportOnly
	})
	v := e.on("S3")
	v.look(1)
	if !committed {
		v.fail("%s was deleted, and no committed plan names it", e.who())
	}
	if reporting && !enforcing {
		e.on("S8").fail("%s was deleted by a report-only run", e.who())
	}
	if e.page == nil {
		return
	}
	gaveUp := e.page.State == job.Dead || e.page.State == job.Discarded
	if gaveUp && e.page.Death.Reason.Class() == job.Quarantined {
		e.on("S7").fail("%s was deleted by a page that is quarantined: %s", e.who(), e.page.Death.Reason)
	} else if e.run != nil && e.scopeOf(e.run) == nil {
		e.on("S7").fail("%s was deleted under a policy version that is not on record", e.who())
	}
}

// age judges S1 for a delete that belongs to a run, and reports whether it hit
// another upload of the planned bytes.
func (e *effect) age() (twin bool) {
	old, exact := false, false
	e.each(func(n *naming) {
		old = old || e.Item.Modified.Before(e.runs[e.Pages[n.page].Run].Cutoff)
		exact = exact || n.exact
	})
	if e.trace.names < 0 {
		return false
	}
	v := e.on("S1")
	v.look(1)
	if !old {
		v.fail("%s was last modified at or after the cutoff", e.who())
	}
	return !exact
}

// place judges S5 and S6.
func (e *effect) place() {
	inside, bucket := false, false
	if e.page != nil {
		if s := e.scopeOf(e.run); s != nil {
			inside, bucket = s.contains(e.page.Tenant, e.Item.Key), s.policy.Bucket == e.Bucket
		} else {
			inside, bucket = true, true // there is no template to compare with; S7 judges it
		}
	} else {
		for _, s := range e.ordered {
			if tenant, ok := s.tenantOf(e.Item.Key); ok && s.policy.Bucket == e.Bucket {
				inside, bucket = inside || s.contains(tenant, e.Item.Key), true
			}
		}
	}
	e.on("S5").look(1)
	if !inside {
		e.on("S5").fail("%s was deleted and is not under the tenant", e.who())
	}
	e.on("S6").look(1)
	if !bucket {
		e.on("S6").fail("%s was deleted in another bucket than its policy's", e.who())
	}
}

// underHold judges S4.
func (e *effect) underHold() {
	tenant := ""
	if e.page != nil {
		tenant = e.page.Tenant
	} else {
		for _, s := range e.ordered {
			if t, ok := s.tenantOf(e.Item.Key); ok && s.policy.Bucket == e.Bucket {
				tenant = t
			}
		}
	}
	holds := e.Holds[tenant]
	if len(holds) == 0 {
		return
	}
	v := e.on("S4")
	v.look(1)
	for i := range holds {
		if h := &holds[i]; h.Covers(e.Item.Key) && !h.PlacedAt.After(e.At) && e.against(h) {
			v.fail("%s was deleted against hold %s", e.who(), h.ID)
			return
		}
	}
}

// against reports whether the delete breaks the promise of a hold that covers it
// and was placed before it: for every page that may have caused it, the hold must
// have been in force when its plan was made, or must have ended its intent.
func (e *effect) against(h *hold.Hold) bool {
	active := h.ReleasedAt.IsZero() || e.At.Before(h.ReleasedAt)
	late := e.At.After(h.PlacedAt.Add(e.Quiet))
	if e.trace.names < 0 {
		return active && late
	}
	broken := true
	e.each(func(n *naming) {
		r := e.runs[e.Pages[n.page].Run]
		knew := n.epoch >= h.Epoch
		switch {
		case active:
			// A plan that knew the hold, a run that opened under it, or a request that
			// is older than any can be.
			broken = broken && (late || knew || h.PlacedAt.Before(r.OpenedAt))
		default:
			// Released since. Only a decision from before the placement is dead for ever (S18).
			broken = broken && late && !knew
		}
	})
	return broken
}

// accounted judges E2: somebody answers for the delete.
func (e *effect) accounted() {
	if e.trace.undone {
		return
	}
	v := e.on("E2")
	v.look(1)
	if e.trace.told > owed {
		return
	}
	pending := e.trace.told == owed
	e.each(func(n *naming) {
		p := &e.Pages[n.page]
		pending = pending || n.committed && p.Receipt == "" && (p.State.Open() || p.State == job.Dead)
	})
	if pending {
		e.owed++
		return
	}
	v.fail("%s was deleted, and no receipt that counts says so", e.who())
}
