package worker

import (
	"context"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// abandon ends a page that an operator gave up while it had an open intent (F17).
// Only a look tells what the intent has done, so each planned item is looked at
// once nothing of the intent can land any more. Nothing is deleted and no further
// intent is committed: what still stands there stays.
func (w *Worker) abandon(ctx context.Context, x *delivery) next {
	if at := w.quiet(x); w.Clock.Now().Before(at) { // no veto of the page waits longer
		return w.postpone(ctx, x, x.page.Settlement(), at)
	}
	plan, err := w.document(ctx, x, receipt.Plan, x.page.Intent.Plan)
	if err != nil {
		return w.giveBack(ctx, x, err)
	}
	earlier, err := w.earlier(ctx, x)
	if err != nil {
		return w.giveBack(ctx, x, err)
	}
	epoch, set, err := w.vetoes(ctx, x)
	if err != nil {
		return w.giveBack(ctx, x, err)
	}
	found, err := w.look(ctx, x, plan)
	if err != nil {
		return w.fail(ctx, x, err)
	}
	known := answered(earlier)
	s := newSheet(w.narrow(x, plan, epoch, set, found, known), true)
	s.plan = x.page.Intent.Plan // the narrowed one is never committed, and nothing may name it
	w.settleByLook(s, found, known)
	s.leave(x.page.Death.Reason == job.ReasonForbidden, earlier)
	if err := w.inspect(ctx, x, s); err != nil {
		return w.fail(ctx, x, err)
	}
	if failing, waiting, _ := s.open(); len(failing)+waiting > 0 {
		return w.giveBack(ctx, x, failure.New(failure.Network, "inspect page", "an item was given no standing"))
	}
	return w.discard(ctx, x, s)
}

// leave settles what an abandoned page would still have deleted: the store refused
// it for good, or nobody got an answer about it.
func (s *sheet) leave(forbidden bool, earlier []receipt.Line) {
	refused := make(map[job.Ref]bool, len(earlier))
	for i := range earlier {
		refused[earlier[i].Ref()] = earlier[i].Outcome == job.Refused
	}
	for _, l := range s.targets() {
		if forbidden || refused[l.Ref()] {
			l.Reason = reasonDenied
			l.settle(job.Refused, "")
		} else {
			l.Reason = reasonAbandoned
			l.settle(job.Failed, "")
		}
	}
}

// discard writes the receipt of an abandoned page and then the page's end.
func (w *Worker) discard(ctx context.Context, x *delivery, s *sheet) next {
	settled, err := w.settled(ctx, x, s)
	if err != nil {
		return w.giveBack(ctx, x, err)
	}
	discarded, err := x.page.Discard(settled)
	if err == nil {
		err = w.commit(ctx, x, discarded, func() error { return w.Writes.SwapPage(ctx, discarded) })
	}
	if err != nil {
		return w.giveBack(ctx, x, err)
	}
	w.emit(w.ended(audit.Discarded, x))
	return ack()
}
