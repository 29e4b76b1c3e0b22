package worker

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// resume goes on with an open intent. It narrows it by what holds and a fresh
// look say now (F4), commits the smaller intent, and deletes that. Nothing is
// decided anew and nothing is added.
func (w *Worker) resume(ctx context.Context, x *delivery) next {
	old, err := w.document(ctx, x, receipt.Plan, x.page.Intent.Plan)
	if err != nil {
		return w.giveBack(ctx, x, err)
	}
	earlier, err := w.earlier(ctx, x)
	if err != nil {
		return w.giveBack(ctx, x, err)
	}
	known := answered(earlier)
	for range planTries {
		epoch, set, err := w.vetoes(ctx, x)
		if err != nil {
			return w.giveBack(ctx, x, err)
		}
		found, err := w.look(ctx, x, old)
		if err != nil {
			return w.fail(ctx, x, err)
		}
		plan := w.narrow(x, old, epoch, set, found, known)
		s := newSheet(plan, true)
		w.settleByLook(s, found, known)
		if n, bad := w.unsafe(ctx, x, s, set); bad {
			return n
		}
		if len(s.targets()) == 0 && plan.Deletes() == old.Deletes() {
			s.plan = x.page.Intent.Plan
			return w.act(ctx, x, s) // nothing to send and nothing new to record
		}
		if s.plan, err = w.file(ctx, x, plan); err != nil {
			return w.giveBack(ctx, x, err)
		}
		switch n, done := w.intend(ctx, x, s.plan, plan); done {
		case committed:
			return w.act(ctx, x, s)
		case pageLost:
			return n
		case epochMoved: // narrow again
		}
	}
	return w.contend(ctx, x)
}

// narrow returns the old plan without what may no longer be deleted. An item
// that a hold placed since the intent covers, released or not, becomes a veto
// that keeps the quiet time of the moment; one that is another object now is
// left. An item that an earlier claim has an answer for stays as it was decided.
func (w *Worker) narrow(x *delivery, old receipt.Document, epoch int64, set hold.Set, found map[job.Ref]job.Item, known map[job.Ref]receipt.Line) receipt.Document {
	plan := receipt.Document{Header: w.header(x, epoch), Lines: make([]receipt.Line, len(old.Lines))}
	plan.Header.Narrows = x.page.Intent.Plan
	copy(plan.Lines, old.Lines)
	for i := range plan.Lines {
		l := &plan.Lines[i]
		if _, done := known[l.Ref()]; done || l.Decision != receipt.Delete {
			continue
		}
		current, there := found[l.Ref()]
		if h, vetoed := set.Vetoing(l.Key, x.page.Intent.Epoch); vetoed {
			l.Decision, l.Reason, l.HoldID, l.SettleAt = receipt.Veto, "hold", h.ID, w.quiet(x)
		} else if there && !l.Same(current) {
			l.Decision, l.Reason = receipt.Retained, reasonSuperseded
		}
	}
	return plan
}

// quiet is when nothing of the page's earlier intents can land any more; for an
// intent whose claim is unknown, as late as any could be.
func (w *Worker) quiet(x *delivery) time.Time {
	switch {
	case !x.page.QuietAt.IsZero():
		return x.page.QuietAt
	case x.page.Abandoned: // no claim has intended anything since
		return x.page.RestartedAt.Add(w.Settings.FunctionTimeout + w.Settings.RequestLifetime)
	default:
		return w.Clock.Now().Add(w.Settings.RequestLifetime)
	}
}

// settleByLook settles what a look is enough for, and marks the rest as targets.
func (w *Worker) settleByLook(s *sheet, found map[job.Ref]job.Item, known map[job.Ref]receipt.Line) {
	now := w.Clock.Now()
	for i := range s.lines {
		l := &s.lines[i]
		if said, ok := known[l.Ref()]; ok && l.Outcome == job.NoOutcome {
			l.Reason = said.Reason
			l.settle(said.Outcome, said.Proof)
		}
		current, there := found[l.Ref()]
		switch {
		case l.Outcome != job.NoOutcome:
		case l.Decision == receipt.Veto && now.Before(l.SettleAt): // an earlier request may still land: no look is final yet
		case !there:
			l.absent = true
		case !l.Same(current):
			l.settle(job.Superseded, "")
		case l.Decision == receipt.Veto:
			l.settle(job.Held, "")
		default:
			l.target = true
		}
	}
}

// look finds what stands now under the names of the plan.
func (w *Worker) look(ctx context.Context, x *delivery, plan receipt.Document) (map[job.Ref]job.Item, error) {
	wanted := make(map[job.Ref]bool, len(plan.Lines))
	for _, l := range plan.Lines {
		wanted[l.Ref()] = true
	}
	q := w.rangeOf(x)
	if x.page.Kind == job.ItemPage {
		key := plan.Lines[0].Key
		q.Prefix, q.After, q.Through = key, "", key
	}
	found := make(map[job.Ref]job.Item, len(wanted))
	err := w.each(ctx, x, q, func(item job.Item) bool {
		if wanted[item.Ref()] {
			found[item.Ref()] = item
		}
		return len(found) < len(wanted)
	})
	return found, err
}

// earlier returns what the receipt that the page's row names says about each item.
func (w *Worker) earlier(ctx context.Context, x *delivery) ([]receipt.Line, error) {
	if x.page.Receipt == "" {
		return nil, nil
	}
	doc, err := w.document(ctx, x, receipt.Receipt, x.page.Receipt)
	return doc.Lines, err
}

// answered returns the lines that an earlier claim had answers for (F10). What it
// could not settle is tried again.
func answered(earlier []receipt.Line) map[job.Ref]receipt.Line {
	known := make(map[job.Ref]receipt.Line, len(earlier))
	for _, l := range earlier {
		if l.Outcome != job.NoOutcome && l.Outcome != job.Refused && l.Outcome != job.Failed {
			known[l.Ref()] = l
		}
	}
	return known
}

// document reads evidence back and verifies it against its name.
func (w *Worker) document(ctx context.Context, x *delivery, kind receipt.Kind, hash string) (receipt.Document, error) {
	name := receipt.Name(kind, x.run.ID, x.page.ID, hash)
	data, err := w.Evidence.Get(ctx, name)
	if err != nil {
		return receipt.Document{}, err
	}
	doc, err := receipt.Verify(name, data)
	if err == nil && len(doc.Lines) == 0 {
		err = failure.New(failure.Bug, "read evidence", "a committed plan names no item")
	}
	return doc, err
}
