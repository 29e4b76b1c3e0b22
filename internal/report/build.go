package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
)

// Input is what a report is made of, in any order.
type Input struct {
	AsOf  time.Time
	Runs  []job.Run
	Pages []job.Page
	// Letters are the dead letters that are there.
	Letters []job.Letter
	// Invariants are the results of invariant.Check, in its order.
	Invariants []invariant.Result
	// RefusedNames counts names that can not be keys.
	RefusedNames int
}

type pageKey struct {
	run  job.RunID
	page job.PageID
}

// Build makes the report. It depends on nothing but its input.
func Build(in Input) Report {
	r := Report{
		Schema: Schema, Verdict: Holds, Mode: job.ReportOnly, AsOf: in.AsOf.UTC(), RefusedNames: in.RefusedNames,
		Runs: make([]Run, 0, len(in.Runs)), Tenants: []Tenant{}, Invariants: append([]invariant.Result{}, in.Invariants...),
	}
	for _, result := range in.Invariants {
		if !result.Holds {
			r.Verdict = Violated
		}
	}
	modes := make(map[job.RunID]job.Mode, len(in.Runs))
	for _, run := range in.Runs {
		modes[run.ID] = run.Mode
	}
	candidates := map[job.RunID]int{}
	tenants := map[string]*Totals{}
	pages := make(map[pageKey]*job.Page, len(in.Pages))
	for i := range in.Pages {
		p := &in.Pages[i]
		pages[pageKey{p.Run, p.ID}] = p
		totals := p.Totals()
		candidates[p.Run] += totals.Candidates
		if tenants[p.Tenant] == nil {
			tenants[p.Tenant] = &Totals{}
		}
		tenants[p.Tenant].add(totals, modes[p.Run])
		r.Totals.add(totals, modes[p.Run])
	}
	if r.Totals.Deleted+r.Totals.DeletedMarkerOnly > 0 {
		r.Mode = job.Enforce
	}
	for name, totals := range tenants {
		r.Tenants = append(r.Tenants, Tenant{name, *totals})
	}
	slices.SortFunc(r.Tenants, func(a, b Tenant) int { return cmp.Compare(a.Tenant, b.Tenant) })
	for _, run := range sortedRuns(in.Runs) {
		r.Runs = append(r.Runs, runOf(run, candidates[run.ID]))
	}
	r.DeadLetters = deadLetters(in.Letters, pages)
	return r
}

// sortedRuns orders runs by policy and then by when they were scheduled.
func sortedRuns(runs []job.Run) []job.Run {
	sorted := slices.Clone(runs)
	slices.SortFunc(sorted, func(a, b job.Run) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Policy, b.Policy), a.Scheduled.Compare(b.Scheduled), cmp.Compare(a.ID, b.ID))
	})
	return sorted
}

func runOf(r job.Run, candidates int) Run {
	return Run{
		RunID: r.ID, Policy: r.Policy, Version: r.Version, SHA256: r.PolicySHA256, Region: r.Region, Mode: r.Mode,
		Cutoff: r.Cutoff.UTC(), State: r.State, Candidates: candidates, Examined: r.Examined, Unmatched: r.Unmatched,
		Guard: append([]string{}, r.Trips...),
	}
}

// deadLetters lists the letters. A page's letter may lie there twice, when the
// answer to writing it was lost; it is listed once.
func deadLetters(letters []job.Letter, pages map[pageKey]*job.Page) []DeadLetter {
	all := make([]DeadLetter, 0, len(letters))
	listed := map[DeadLetter]bool{}
	for _, l := range letters {
		if l.Reason == "" { // the queue moved it and wrote nothing beside it
			if c, err := job.Decode(l.Body); err == nil {
				l.RunID, l.PageID = c.RunID, c.PageID
			}
		}
		d := DeadLetter{RunID: l.RunID, PageID: l.PageID, Reason: l.Reason, Class: l.Reason.Class(), Attempts: l.Attempts}
		if p := pages[pageKey{l.RunID, l.PageID}]; p != nil {
			d.Tenant = p.Tenant
			if l.Reason == "" {
				d.Attempts = p.Attempts
			}
			if listed[d] {
				continue
			}
			listed[d] = true
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b DeadLetter) int {
		return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.PageID, b.PageID), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Attempts, b.Attempts))
	})
	return all
}
