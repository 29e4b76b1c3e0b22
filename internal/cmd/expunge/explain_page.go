package main

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/report"
)

// pageView is one page.
type pageView struct {
	PageID job.PageID    `json:"page_id"`
	RunID  job.RunID     `json:"run_id"`
	Tenant string        `json:"tenant_id"`
	Kind   job.Kind      `json:"kind"`
	Parent job.PageID    `json:"parent,omitzero"` // of a split-off item
	State  job.PageState `json:"state"`

	Attempts     int           `json:"attempts"` // in all its lives
	FirstFailure time.Time     `json:"first_failure,omitzero"`
	FailureClass failure.Class `json:"failure_class,omitzero"`
	RetryAt      time.Time     `json:"retry_at,omitzero"`
	NextDue      time.Time     `json:"next_due,omitzero"`
	LeaseEnd     time.Time     `json:"lease_end,omitzero"`
	QuietAt      time.Time     `json:"quiet_at,omitzero"`
	Death        job.Reason    `json:"death,omitzero"`
	DiedAt       time.Time     `json:"died_at,omitzero"`
	RedriveID    job.RedriveID `json:"redrive_id,omitzero"`

	Candidates int            `json:"candidates"`
	Moved      int            `json:"moved"`
	Counts     map[string]int `json:"counts"`
	Bytes      int64          `json:"bytes"`
	// Unsettled is how many items an open intent names that have no outcome yet:
	// each may be gone or still there.
	Unsettled int `json:"unsettled"`

	Plan    string `json:"plan,omitzero"`    // SHA-256 of the plan that the intent committed
	Receipt string `json:"receipt,omitzero"` // SHA-256 of the receipt that counts
}

func viewPage(p job.Page) *pageView {
	v := &pageView{
		PageID: p.ID, RunID: p.Run, Tenant: p.Tenant, Kind: p.Kind, Parent: p.Parent, State: p.State,
		Attempts: p.Attempts, FirstFailure: p.FirstFailure.UTC(), FailureClass: p.LastClass, RetryAt: p.RetryAt.UTC(), NextDue: p.NextDue.UTC(),
		LeaseEnd: p.LeaseEnd.UTC(), QuietAt: p.QuietAt.UTC(), Death: p.Death.Reason, DiedAt: p.Death.At.UTC(), RedriveID: p.RedriveID,
		Candidates: p.Candidates, Moved: p.Moved, Counts: outcomes(p.Counts), Bytes: p.Bytes, Plan: p.Intent.Plan, Receipt: p.Receipt,
	}
	v.Unsettled = unsettled(p)
	return v
}

// unsettled is how many items of an open intent may be gone or still there: those
// without an outcome, and those that failed without an answer.
func unsettled(p job.Page) int {
	if p.State.Terminal() || p.Intent == (job.Intent{}) {
		return 0
	}
	return max(0, min(p.Intent.Deletes, p.Planned-p.Moved-p.Counts.Sum()+p.Counts[job.Failed]))
}

// itemView is one line of a plan or a receipt.
type itemView struct {
	Key      string           `json:"key"`
	Version  string           `json:"version,omitzero"`
	Size     int64            `json:"size"`
	Modified time.Time        `json:"modified"`
	Decision receipt.Decision `json:"decision"`
	Reason   string           `json:"reason,omitzero"`
	HoldID   string           `json:"hold_id,omitzero"`
	SettleAt time.Time        `json:"settle_at,omitzero"`
	Outcome  string           `json:"outcome,omitzero"`
	Proof    job.Proof        `json:"proof,omitzero"`
}

func viewItem(l receipt.Line) itemView {
	return itemView{
		Key: l.Key, Version: l.Version, Size: l.Size, Modified: l.Modified.UTC(), Decision: l.Decision, Reason: l.Reason,
		HoldID: l.HoldID, SettleAt: l.SettleAt.UTC(), Outcome: l.Outcome.String(), Proof: l.Proof,
	}
}

// aPage explains a page.
func (x *explaining) aPage(ctx context.Context, p job.Page) error {
	run, err := x.r.records.Run(ctx, p.Run)
	if err != nil {
		return err
	}
	x.e.Run, x.e.Page = &runView{RunHead: headOf(run)}, viewPage(p)
	x.under(run)
	x.pageFailed(run, p)
	x.pageChanged(run, p)
	x.rehearse(ctx, run, p)
	if x.Keys {
		doc, found, err := x.document(ctx, p)
		if err != nil {
			return err
		}
		if x.e.Items = []itemView{}; found {
			x.e.Items = viewItems(doc.Lines)
		}
	}
	x.then("explain", string(run.ID))
	if p.Parent != "" {
		x.then("explain", string(p.Parent))
	}
	return nil
}

// document reads the page's receipt, or where it has none the plan that was
// committed. It is verified: what does not verify is no evidence.
func (x *explaining) document(ctx context.Context, p job.Page) (receipt.Document, bool, error) {
	var name string
	switch {
	case p.Receipt != "":
		name = receipt.Name(receipt.Receipt, p.Run, p.ID, p.Receipt)
	case p.Intent.Plan != "":
		name = receipt.Name(receipt.Plan, p.Run, p.ID, p.Intent.Plan)
	default:
		return receipt.Document{}, false, nil
	}
	data, err := x.r.evidence.Get(ctx, name)
	if failure.Is(err, failure.Absent) {
		return receipt.Document{}, false, wrong("the evidence of page "+string(p.ID)+" is not in bucket "+x.r.outputs.Evidence+": something has removed "+name,
			"aws s3api list-object-versions --bucket "+x.r.outputs.Evidence+" --prefix "+name+x.d.profile())
	}
	if err != nil {
		return receipt.Document{}, false, err
	}
	doc, err := receipt.Verify(name, data)
	return doc, err == nil, err
}

// pageFailed says what went wrong with a page.
func (x *explaining) pageFailed(run job.Run, p job.Page) {
	now := x.look.now
	switch {
	case p.State == job.Completed && p.Moved > 0:
		x.failed("Of the page nothing: " + report.Count(p.Moved, "item") + " that failed for a reason of its own was split off into a page of its own.")
	case p.State == job.Completed:
		x.failed("Nothing: the page is completed.")
	case p.State == job.Discarded && p.Death.At.IsZero():
		x.failed("Nothing: its run was rejected before anything of the page began.")
	case p.State == job.Discarded:
		x.failed("An operator gave the page up. It died of " + string(p.Death.Reason) + " before, at " + instant(p.Death.At) + ".")
	case p.State == job.Dead:
		x.failed(died(p))
		x.then("redrive", "plan", "--page="+string(p.ID))
	case p.Abandoned:
		x.failed("An operator gave the page up while a decision to delete was open. A worker looks at what that has done, deletes nothing, and ends the page.")
	case p.LeaseLive(now):
		x.failed("Nothing so far: a worker has it until " + instant(p.LeaseEnd) + " at the latest." + earlier(p))
	case run.State != job.Released:
		x.failed("Nothing: it waits for its run, which is " + words(string(run.State)) + ".")
	case len(x.e.Brakes) > 0:
		x.failed("Nothing: a brake keeps it from starting." + earlier(p))
	case p.State == job.Claimed || p.State == job.Intended:
		x.failed("The worker that had it ended without a word; its lease was over at " + instant(p.LeaseEnd) + ". The message comes back by itself, and reconcile sends it again from " + instant(p.NextDue) + " on." + earlier(p))
	case p.State == job.Redriven:
		x.failed("It died of " + string(p.Death.Reason) + " at " + instant(p.Death.At) + ", and an operator moved it back at " + instant(p.RestartedAt) + ". It waits for a worker.")
	case p.RetryAt.After(now):
		x.failed("It waits until " + instant(p.RetryAt) + "." + earlier(p))
	default:
		x.failed("Nothing that is known: it is ready and waits for a worker." + earlier(p))
	}
}

// died says when and of what a page died. Where no attempt left a class of failure,
// every worker that had it ended before it could say one.
func died(p job.Page) string {
	text := "It is dead since " + instant(p.Death.At) + ", after " + report.Count(p.Attempts, "attempt")
	of := string(p.Death.Reason) + " (" + string(p.Death.Reason.Class()) + ")"
	if p.LastClass == "" && p.Death.Reason == job.ReasonAttempts && p.Attempts > 0 {
		return text + " of which none said why it failed: " + of + ". What to do: see in the worker's log why it ends without a word, mend that, then redrive."
	}
	text += " of which the first failed at " + instant(p.FirstFailure) + ": " + of
	if p.LastClass != "" {
		text += ", last failure " + string(p.LastClass)
	}
	return text + ". What to do: " + report.Advice(p.Death.Reason) + "."
}

// earlier says what an earlier attempt failed of.
func earlier(p job.Page) string {
	if p.LastClass == "" {
		if n := p.Tries() - 1; n > 0 {
			return " Before, " + report.Count(n, "attempt") + " ended without a word."
		}
		return ""
	}
	return " Its last failure was " + string(p.LastClass) + ", after " + report.Count(p.Tries(), "attempt") + " since " + instant(p.FirstFailure) + "."
}

// pageChanged says what the page has changed: from the counts, and of what may have
// happened without an answer.
func (x *explaining) pageChanged(run job.Run, p job.Page) {
	switch unsettled := x.e.Page.Unsettled; {
	case p.Counts.Sum() > 0:
		x.changed(changes(run.Mode, p.Totals().Candidates, p.Counts, p.Bytes))
	case unsettled > 0:
		x.changed("No item has an outcome yet.")
	case p.Candidates == 0:
		x.changed("Nothing: there was no candidate.")
	case p.Intent == (job.Intent{}):
		x.changed("Nothing: no decision to delete was ever committed.")
	}
	if n := x.e.Page.Unsettled; n > 0 {
		text := "A decision to delete is open (claim " + strconv.FormatInt(p.Intent.Fence, 10) + "): " + report.Count(n, "item") + " may be gone or still there."
		if p.QuietAt.After(x.look.now) {
			text += " A request that was sent can land until " + instant(p.QuietAt) + "."
		} else {
			text += " Nothing of it can land any more."
		}
		x.changed(text)
	}
}
