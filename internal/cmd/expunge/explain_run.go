package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/report"
)

// deadPage is one dead page of a run.
type deadPage struct {
	PageID   job.PageID `json:"page_id"`
	Tenant   string     `json:"tenant_id"`
	Reason   job.Reason `json:"reason"`
	Attempts int        `json:"attempts"`
	Died     time.Time  `json:"died_at"`
	Items    int        `json:"candidates"`
}

// aRun explains a run.
func (x *explaining) aRun(ctx context.Context, run job.Run) error {
	v, err := x.look.view(ctx, run)
	if err != nil {
		return err
	}
	x.e.Run = &v
	x.under(run)
	waits := map[string]int{}
	var silent []job.Page
	open := 0 // items of open decisions
	if !v.ended() {
		err = pagesOf(ctx, x.r.records, run.ID, func(p job.Page) error {
			open += unsettled(p)
			switch {
			case p.State == job.Dead:
				x.e.Dead = append(x.e.Dead, deadPage{p.ID, p.Tenant, p.Death.Reason, p.Attempts, p.Death.At.UTC(), p.Totals().Candidates})
			case p.State.Open() && p.LastClass != "":
				waits[string(p.LastClass)]++
			case endedSilently(p, x.look.now):
				silent = append(silent, p)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(x.e.Dead, func(a, b deadPage) int { return cmp.Or(a.Died.Compare(b.Died), cmp.Compare(a.PageID, b.PageID)) })
	x.runFailed(run, waits)
	x.silent(run, silent)
	if len(x.e.Failed) == 0 {
		x.failed("Nothing.")
	}
	if open == 0 || v.sums.Sum() > 0 {
		x.changed(changes(run.Mode, v.Candidates, v.sums, v.Bytes))
	}
	if open > 0 {
		x.changed("Decisions to delete are open: " + report.Count(open, "item") + " may be gone or still there. Explain a page for which.")
	}
	x.runAgain(run, v)
	return nil
}

// runFailed says what went wrong in a run.
func (x *explaining) runFailed(run job.Run, waits map[string]int) {
	switch run.State {
	case job.AwaitingApproval:
		x.failed("The guard stopped it before it had any effect: " + strings.TrimSuffix(strings.Join(run.Trips, " "), ".") + ".")
		x.then("approve", string(run.ID))
	case job.Rejected:
		x.failed("The guard stopped it, and " + run.ApprovedBy + " rejected it at " + instant(run.ClosedAt) + ": " + run.Approval)
	case job.Scanning, job.Released, job.Closed:
	}
	byReason := map[job.Reason]int{}
	for _, p := range x.e.Dead {
		byReason[p.Reason]++
	}
	for _, reason := range job.Reasons() {
		if n := byReason[reason]; n > 0 {
			x.failed(report.Count(n, "page") + " died of " + string(reason) + " (" + string(reason.Class()) + "): " + report.Advice(reason) + ".")
		}
	}
	for i, p := range x.e.Dead {
		if i < shownDead {
			x.then("explain", string(p.PageID))
		}
	}
	for _, class := range sorted(waits) {
		x.failed(report.Count(waits[class], "page") + " failed (" + class + ") and will be tried again without an operator.")
	}
	if run.State == job.Closed && run.WithFailures() {
		x.failed("It closed with items that nobody deleted and nobody protects: " + tally(run.Totals.Counts, job.Refused, job.Failed) + ". The next run finds what still stands.")
	}
}

// endedSilently reports whether a worker that had the page ended without a word: its
// lease is over, or a later one has the page and nothing says what became of the first.
func endedSilently(p job.Page, now time.Time) bool {
	if p.LeaseLive(now) {
		return p.Tries() > 1
	}
	return p.State.Open() && p.Tries() > 0 && p.LastClass == ""
}

// silent says of which pages the worker ended without a word. Once that happens by
// chance; again and again it is a crash loop, and every round costs an attempt.
func (x *explaining) silent(run job.Run, pages []job.Page) {
	if len(pages) == 0 {
		return
	}
	slices.SortStableFunc(pages, func(a, b job.Page) int { return cmp.Or(b.Tries()-a.Tries(), cmp.Compare(a.ID, b.ID)) })
	x.failed("A worker ended without a word at " + report.Count(len(pages), "page") + ", after up to " + report.Count(pages[0].Tries(), "attempt") +
		". Each is tried again until its attempts are used up. If it goes on, it is a crash loop: set a brake, and see in the worker's log why it ends.")
	for _, p := range pages[:min(len(pages), shownDead)] {
		x.then("explain", string(p.ID))
	}
	if len(x.e.Brakes) == 0 {
		x.then("brake", "on", run.Policy, "--reason="+blank)
	}
}

// shownDead is how many dead pages of a run are offered one by one.
const shownDead = 3

// changes says what a run or a page has changed, from its counts.
func changes(mode job.Mode, candidates int, counts job.Counts, bytes int64) string {
	text := "Of " + report.Count(candidates, "candidate") + ": " + tally(counts, job.Outcomes()...) + "; " + report.Human(bytes)
	switch {
	case counts.Sum() == 0:
		return "Nothing: no item has an outcome yet."
	case mode == job.ReportOnly:
		return "Nothing: it only reports. " + text + " would be reclaimed."
	default:
		return text + " reclaimed."
	}
}

// tally writes some of the counts.
func tally(c job.Counts, of ...job.Outcome) string {
	var parts []string
	for _, o := range of {
		if c[o] > 0 {
			parts = append(parts, report.Group(int64(c[o]))+" "+words(o.String()))
		}
	}
	return strings.Join(parts, ", ")
}

// runAgain says what a second start of the run would do.
func (x *explaining) runAgain(run job.Run, v runView) {
	tick := "a second tick of its date"
	if run.RequestID != "" {
		tick = "the same request again"
	}
	switch run.State {
	case job.Scanning:
		x.again("Its scan is not finished: " + tick + " goes on with it where its cursor stands, as reconcile does by itself. Nothing is deleted before it is released.")
	case job.AwaitingApproval:
		x.again("Nothing: " + tick + " does nothing while it waits. Approved, its pages run: at most " + report.Count(run.Candidates, "candidate") + ", each looked at again, under the holds of then.")
	case job.Released:
		x.again("Nothing is deleted twice: " + tick + " only sends again what is open, and a page that ended does nothing.")
		if v.Pages.Dead > 0 {
			x.again("Its dead pages run again only when somebody redrives them; explain one of them to see what it would do.")
			x.then("redrive", "plan", "--run="+string(run.ID))
		}
	case job.Closed, job.Rejected:
		x.again("Nothing: it has ended, and " + tick + " does nothing.")
	}
	if len(x.e.Brakes) > 0 && !v.ended() {
		x.again("A brake is on: nothing of it starts until the brake is released.")
	}
}

// sorted returns the keys of a map in order.
func sorted(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
