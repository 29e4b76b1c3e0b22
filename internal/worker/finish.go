package worker

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// finish brings the page to the end that its items allow: completed, perhaps
// with some items split off; waiting for a veto or another attempt; or dead.
func (w *Worker) finish(ctx context.Context, x *delivery, s *sheet) next {
	failing, waiting, until := s.open()
	switch {
	case len(failing) == 0 && waiting == 0:
		return w.complete(ctx, x, s, nil)
	case len(failing) == 0, waiting > 0 && refusedOnly(failing): // a refusal keeps, and is no reason for attempts
		return w.wait(ctx, x, s, until)
	case waiting > 0:
		return w.again(ctx, x, s)
	case w.splits(x, s, failing):
		return w.complete(ctx, x, s, failing)
	case refusedOnly(failing), lasting(failure.Of(s.stop)):
		return w.giveUp(ctx, x, s, failing, job.ReasonForbidden, failure.Forbidden)
	}
	if reason, over := x.page.Expired(w.Clock.Now(), w.Settings.MaxAttempts, w.Settings.AgeCeiling); over {
		return w.giveUp(ctx, x, s, failing, reason, s.class())
	}
	return w.again(ctx, x, s)
}

// splits reports whether the failing items become pages of their own. A single
// item does not split, too many are the page's own failure, and so is a reason
// that is the page's: rate, time, an unanswered call, or every item alike.
func (w *Worker) splits(x *delivery, s *sheet, failing []*line) bool {
	own := s.stop == nil || refusedOnly(failing)
	return x.page.Kind == job.RangePage && own && s.anyDone() && len(failing) <= w.Settings.SplitItems
}

// complete writes the receipt and then the page's end, with the split-off items
// born in the same transaction (F9). Where that fails the row still names what a committed
// intent came to, or the next attempt would infer what the store has answered (F10).
func (w *Worker) complete(ctx context.Context, x *delivery, s *sheet, split []*line) next {
	children, err := w.split(ctx, x, s, split)
	if err != nil {
		return w.again(ctx, x, s)
	}
	settled, err := w.settled(ctx, x, s)
	if err != nil {
		return w.giveBack(ctx, x, err)
	}
	completed, err := x.page.Complete(settled)
	if err == nil {
		err = w.commit(ctx, x, completed, func() error { return w.Writes.Complete(ctx, completed, children) })
	}
	if err != nil {
		// The receipt tells of children that were not born, or of a plan that binds nobody:
		// the next attempt decides anew where there is no intent.
		if len(children) > 0 || x.page.Intent == (job.Intent{}) {
			settled = x.page.Settlement()
		}
		return w.retry(ctx, x, failure.Of(err), err, settled)
	}
	e := w.ended(audit.Succeeded, x)
	if first := x.page.FirstFailure; !first.IsZero() {
		e.RecoveryMS = x.page.SettledAt.Sub(first).Milliseconds()
	}
	w.emit(e)
	return ack()
}

// split prepares a page for each failing item: its plan is durable before it is
// born with it as open intent. Reconcile sends it; a worker never sends to the
// queue it reads.
func (w *Worker) split(ctx context.Context, x *delivery, s *sheet, failing []*line) ([]job.Page, error) {
	now := w.Clock.Now()
	var children []job.Page
	for _, l := range failing {
		child := job.Page{
			ID: job.ItemPageID(x.run.ID, x.page.Tenant, l.Ref()), Run: x.run.ID, Tenant: x.page.Tenant,
			Kind: job.ItemPage, Parent: x.page.ID, Candidates: 1, Planned: 1, State: job.Planned,
			QuietAt: x.page.QuietAt, BornAt: now, FirstFailure: now, LastClass: failure.Network, NextDue: now,
		}
		plan := receipt.Document{Header: s.header, Lines: []receipt.Line{l.Line}}
		plan.Header.Kind, plan.Header.PageID, plan.Header.Narrows = receipt.Plan, child.ID, s.plan
		hash, err := w.file(ctx, x, plan)
		if err != nil {
			return nil, err
		}
		child.Intent = job.Intent{Plan: hash, Epoch: plan.Header.HoldEpoch, Fence: x.page.Fence, Deletes: 1}
		children = append(children, child)
	}
	for _, l := range failing {
		l.Decision = receipt.Moved
	}
	return children, nil
}

// settled writes the receipt of what is known and returns its sums.
func (w *Worker) settled(ctx context.Context, x *delivery, s *sheet) (job.Settled, error) {
	doc := s.document()
	hash, err := w.file(ctx, x, doc)
	if err != nil {
		return job.Settled{}, err
	}
	totals := doc.Totals()
	return job.Settled{
		Receipt: hash, Counts: totals.Counts, Bytes: totals.Bytes,
		Planned: len(doc.Lines), Moved: doc.Count(receipt.Moved), At: w.Clock.Now().UTC(),
	}, nil
}

// wait gives the page back until its vetoes can be settled. It is no attempt.
func (w *Worker) wait(ctx context.Context, x *delivery, s *sheet, until time.Time) next {
	settled, err := w.settled(ctx, x, s)
	if err != nil {
		return w.giveBack(ctx, x, err)
	}
	return w.postpone(ctx, x, settled, until)
}

// postpone gives the page back until the instant, as no attempt.
func (w *Worker) postpone(ctx context.Context, x *delivery, s job.Settled, at time.Time) next {
	retrying, err := x.page.Retry(s, "", w.Clock.Now(), at, at.Add(w.Settings.Overdue()))
	if err == nil {
		err = w.commit(ctx, x, retrying, func() error { return w.Writes.SwapPage(ctx, retrying) })
	}
	if err != nil {
		return w.until(x.page.LeaseEnd)
	}
	return w.until(at)
}

// again gives the page back for another attempt, with what is known so far. When
// not even that can be written, the attempt is given back without it.
func (w *Worker) again(ctx context.Context, x *delivery, s *sheet) next {
	settled, err := w.settled(ctx, x, s)
	if err != nil {
		settled = x.page.Settlement()
	}
	return w.retry(ctx, x, s.class(), s.stop, settled)
}

// giveUp ends the page as a dead letter: what the store refused is refused, the
// rest failed, and both can still be redriven.
func (w *Worker) giveUp(ctx context.Context, x *delivery, s *sheet, failing []*line, reason job.Reason, class failure.Class) next {
	for _, l := range failing {
		if l.refused {
			l.Reason = reasonDenied
			l.settle(job.Refused, "")
		} else {
			l.Reason = reasonUnanswered
			l.settle(job.Failed, "")
		}
	}
	settled, err := w.settled(ctx, x, s)
	if err != nil {
		return w.giveBack(ctx, x, err)
	}
	return w.die(ctx, x, reason, class, settled)
}
