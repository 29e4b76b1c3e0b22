package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/report"
)

// keyView is one object.
type keyView struct {
	Key     string `json:"key"`
	Bucket  string `json:"bucket"`
	Policy  string `json:"policy"`
	Version int    `json:"policy_version"` // the newest that is published
	Tenant  string `json:"tenant_id"`
	// HoldID names a hold that covers it now.
	HoldID string `json:"hold_id,omitzero"`
	// Runs is how many runs of the policy have pages of the tenant, Looked how many of
	// them were looked at, the newest first.
	Runs   int `json:"runs"`
	Looked int `json:"looked_at"`
	// Lines is what the newest run that had it as a candidate decided, and what
	// happened: one line for each version.
	Lines []itemView `json:"lines"`
	// ListedAt is the newest scheduled instant at which it was no candidate, where
	// that is newer than Lines.
	ListedAt time.Time `json:"no_candidate_at,omitzero"`
}

// mostRuns is how many runs are looked at for one key.
const mostRuns = 60

// key explains an object.
func (x *explaining) key(ctx context.Context) error {
	x.e.Subject = "key"
	p, tenant, err := x.owner(ctx)
	if err != nil {
		return err
	}
	set, err := x.r.records.Holds(ctx, tenant)
	if err != nil {
		return err
	}
	v := &keyView{Key: x.What, Bucket: p.Bucket, Policy: p.Name, Version: p.Version, Tenant: tenant, Lines: []itemView{}}
	if h, covers := set.Covering(x.What); covers {
		v.HoldID = h.ID
	}
	x.e.Key = v
	runs, err := x.runsOf(ctx, p.Name, tenant)
	if err != nil {
		return err
	}
	v.Runs = len(runs)
	page, lines, err := x.sighting(ctx, p, runs)
	if err != nil {
		return err
	}
	if page == nil {
		x.unseen(p)
		return nil
	}
	keys := x.Keys
	x.Keys = false // the whole page was not asked about
	if err := x.aPage(ctx, *page); err != nil {
		return err
	}
	x.Keys = keys
	v.Lines = viewItems(lines)
	x.keyAnswers(*page, lines)
	return nil
}

// owner finds the one policy to whose keys this one belongs.
func (x *explaining) owner(ctx context.Context) (policy.Policy, string, error) {
	names, err := x.r.records.PolicyNames(ctx)
	if err != nil {
		return policy.Policy{}, "", err
	}
	if x.Policy != "" && !slices.Contains(names, x.Policy) {
		return policy.Policy{}, "", noPolicy(x.d, x.Policy, names)
	}
	var owners []policy.Policy
	var whose string
	for _, name := range names {
		p, err := x.r.records.LatestPolicy(ctx, name)
		if err != nil {
			return policy.Policy{}, "", err
		}
		tenant, ok := p.TenantOf(x.What)
		if ok && (x.Policy == "" || x.Policy == name) && (x.Bucket == "" || x.Bucket == p.Bucket) && (x.Tenant == "" || x.Tenant == tenant) {
			owners, whose = append(owners, p), tenant
		}
	}
	switch len(owners) {
	case 0:
		return policy.Policy{}, "", wrong("it is nobody's: no published policy's newest version has this key under its template, for one of its tenants, with what you gave. Expunge deletes nothing that is nobody's",
			x.d.command("runs"))
	case 1:
		return owners[0], whose, nil
	}
	var text, next []string
	for _, p := range owners {
		text = append(text, p.Name+" (bucket "+p.Bucket+")")
		next = append(next, x.d.command("explain", x.What, "--policy="+p.Name))
	}
	return policy.Policy{}, "", usage("several policies work on such a key: "+strings.Join(text, ", ")+". Say which", next...)
}

// runsOf returns the policy's runs that have pages of the tenant, newest first.
func (x *explaining) runsOf(ctx context.Context, name, tenant string) ([]job.Run, error) {
	ids, err := x.r.records.RunsOf(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var runs []job.Run
	for _, id := range ids {
		run, err := x.r.records.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		if run.Policy == name {
			runs = append(runs, run)
		}
	}
	slices.SortFunc(runs, func(a, b job.Run) int { return cmp.Or(b.Scheduled.Compare(a.Scheduled), cmp.Compare(a.ID, b.ID)) })
	return runs, nil
}

// sighting finds the newest page that has the key as a candidate, or may have: one
// that has ended without it does not. The lines are those of its evidence.
func (x *explaining) sighting(ctx context.Context, p policy.Policy, runs []job.Run) (*job.Page, []receipt.Line, error) {
	v := x.e.Key
	for _, run := range runs[:min(len(runs), mostRuns)] {
		v.Looked++
		pinned, err := x.r.records.Policy(ctx, run.Policy, run.Version)
		if err != nil {
			return nil, nil, err
		}
		prefix := pinned.TenantPrefix(v.Tenant)
		rest, under := strings.CutPrefix(x.What, prefix)
		if prefix == "" || !under || pinned.Bucket != p.Bucket {
			continue // an older version of the policy, that worked elsewhere
		}
		page, err := x.r.records.PageAt(ctx, run.ID, v.Tenant, rest)
		if failure.Is(err, failure.Absent) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		page, lines, err := x.linesOf(ctx, page)
		if err != nil {
			return nil, nil, err
		}
		if len(lines) > 0 || !page.State.Terminal() && page.Candidates > 0 {
			return &page, lines, nil
		}
		if v.ListedAt.IsZero() {
			v.ListedAt = run.Scheduled.UTC()
		}
	}
	return nil, nil, nil
}

// linesOf returns the lines of the key in the evidence of the page, or in that of
// the page to which the item moved.
func (x *explaining) linesOf(ctx context.Context, page job.Page) (job.Page, []receipt.Line, error) {
	doc, found, err := x.document(ctx, page)
	if err != nil || !found {
		return page, nil, err
	}
	var lines []receipt.Line
	for _, l := range doc.Lines {
		if l.Key != x.What {
			continue
		}
		if l.Decision == receipt.Moved {
			child, err := x.r.records.PageByID(ctx, job.ItemPageID(page.Run, page.Tenant, l.Ref()))
			if err != nil {
				return page, nil, err
			}
			of, found, err := x.document(ctx, child)
			if err != nil {
				return page, nil, err
			}
			page = child // a key with several versions that moved is explained by the last
			if found {
				lines = append(lines, of.Lines...)
			}
			continue
		}
		lines = append(lines, l)
	}
	return page, lines, nil
}

// unseen answers for a key that no page has.
func (x *explaining) unseen(p policy.Policy) {
	v := x.e.Key
	x.e.Brakes = []brakeView{}
	switch {
	case !v.ListedAt.IsZero():
		x.failed("Nothing: it was no candidate in the run of " + instant(v.ListedAt) + ", or not there then. An object is one when it was last modified more than " +
			report.Count(p.RetentionDays, "day") + " before the run.")
	case v.Runs == 0:
		x.failed("Nothing: no run of " + p.Name + " has had a page of tenant " + v.Tenant + " yet.")
	default:
		x.failed("Nothing: none of the newest " + report.Count(v.Looked, "run") + " of " + p.Name + " has a page that reaches it.")
	}
	x.changed("Nothing.")
	text := "The next run of " + p.Name + " takes it when it is old enough by then"
	if v.HoldID != "" {
		text = "The next run of " + p.Name + " keeps it, for hold " + v.HoldID + " covers it"
	}
	x.again(text + ".")
	x.then("runs", "--policy="+p.Name)
}

// keyAnswers puts what is known of the key itself before what is known of its page.
func (x *explaining) keyAnswers(page job.Page, lines []receipt.Line) {
	var failed, changed []string
	for _, l := range lines {
		name := "It"
		if l.Version != "" {
			name = "Version " + l.Version
		}
		switch {
		case l.Outcome.Deletes():
			changed = append(changed, name+" is "+words(l.Outcome.String())+", proof "+string(l.Proof)+", by run "+string(page.Run)+".")
		case l.Outcome == job.Refused || l.Outcome == job.Failed:
			failed = append(failed, name+" could not be deleted: "+words(l.Outcome.String())+", "+words(l.Reason)+".")
			changed = append(changed, name+" is still there as far as is known.")
		case l.Outcome != job.NoOutcome:
			changed = append(changed, name+" was left alone: "+words(l.Outcome.String())+", "+words(l.Reason)+".")
		case l.Decision == receipt.Delete:
			changed = append(changed, name+" is to be deleted and has no outcome yet: it may be gone or still there.")
		default:
			changed = append(changed, name+" is decided ("+words(string(l.Decision))+") and has no outcome yet.")
		}
	}
	x.e.Failed, x.e.Changed = append(failed, x.e.Failed...), append(changed, x.e.Changed...)
	if x.e.Rehearsal != nil && !page.State.Terminal() {
		x.again(x.e.Rehearsal.of(x.What))
	}
	if h := x.e.Key.HoldID; h != "" {
		x.again("Hold " + h + " covers it now: from its placing on it is kept.")
	}
}
