package worker

import (
	"context"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// lasting reports whether an error of a page ends it at once. A refusal does:
// roles do not heal within a back-off, and redrive exists for it. Every other
// class waits and is tried again, also one that nobody expected here.
func lasting(c failure.Class) bool { return c == failure.Forbidden }

// giveBack ends an attempt that an error stopped, before the message or after
// the claim. What is already known about the page's items stays.
func (w *Worker) giveBack(ctx context.Context, x *delivery, err error) next {
	if x.owner == "" {
		return later(w.backoff(x.page.Tries()+1, err))
	}
	return w.retry(ctx, x, failure.Of(err), err, x.page.Settlement())
}

// fail ends an attempt that the store stopped.
func (w *Worker) fail(ctx context.Context, x *delivery, err error) next {
	if lasting(failure.Of(err)) {
		return w.die(ctx, x, job.ReasonForbidden, failure.Forbidden, x.page.Settlement())
	}
	return w.giveBack(ctx, x, err)
}

// retry gives the page back for a later attempt, or ends it when this was the
// last one (C3).
func (w *Worker) retry(ctx context.Context, x *delivery, class failure.Class, err error, s job.Settled) next {
	if x.page.Owner != x.owner {
		return w.until(x.page.LeaseEnd) // the claim is lost, and the row is another's (S13)
	}
	now := w.Clock.Now()
	if reason, over := x.page.Expired(now, w.Settings.MaxAttempts, w.Settings.AgeCeiling); over {
		return w.die(ctx, x, reason, class, s)
	}
	wait := w.backoff(x.page.Tries(), err)
	at := now.Add(wait)
	retrying, rerr := x.page.Retry(s, class, now, at, at.Add(w.Settings.Overdue()))
	if rerr == nil {
		rerr = w.commit(ctx, x, retrying, func() error { return w.Writes.SwapPage(ctx, retrying) })
	}
	if rerr != nil {
		return w.until(x.page.LeaseEnd) // the lease ends by itself, and the next attempt resumes
	}
	e := w.event(audit.Retried, x)
	e.FailureClass, e.Operation = class, failure.Op(err)
	w.emit(e)
	return later(wait)
}

// die makes the page a dead letter: first in the ledger, then in the queue, then
// the ledger notes that the letter is durable. Until it is, the message stays.
func (w *Worker) die(ctx context.Context, x *delivery, reason job.Reason, class failure.Class, s job.Settled) next {
	dead, err := x.page.Die(x.owner, reason, class, s, w.Clock.Now())
	if err == nil {
		err = w.commit(ctx, x, dead, func() error { return w.Writes.SwapPage(ctx, dead) })
	}
	if err != nil {
		return later(w.backoff(x.page.Tries(), err))
	}
	return w.letter(ctx, x)
}

// letter makes a dead page's letter durable and then lets the message go.
func (w *Worker) letter(ctx context.Context, x *delivery) next {
	if err := w.Letters.DeadLetter(ctx, w.letterOf(x)); err != nil {
		return w.unlettered(w.event(audit.Retried, x), x.page.Tries(), err)
	}
	lettered, err := x.page.Lettered(w.Clock.Now())
	if err == nil {
		err = w.commit(ctx, x, lettered, func() error { return w.Writes.SwapPage(ctx, lettered) })
	}
	if err != nil {
		return later(w.backoff(x.page.Tries(), err))
	}
	e := w.event(audit.DeadLettered, x)
	e.Reason, e.FailureClass = x.page.Death.Reason, x.page.LastClass
	w.emit(e)
	return ack()
}

// unlettered keeps a message whose dead letter could not be written: it is the only
// copy (SQ-11). It says so (R71), for nothing else does until a later try succeeds.
func (w *Worker) unlettered(e audit.Event, tries int, err error) next {
	e.FailureClass, e.Operation = failure.Of(err), failure.Op(err)
	w.emit(e)
	return later(w.backoff(tries, err))
}

func (w *Worker) letterOf(x *delivery) job.Letter {
	return job.Letter{
		Body: x.Body, Reason: x.page.Death.Reason, RunID: x.run.ID, PageID: x.page.ID, Policy: x.run.Policy,
		Version: x.run.Version, Region: x.run.Region, Attempts: x.page.Attempts, FirstAt: x.SentAt, FailedAt: x.page.Death.At,
	}
}

// refuseDead handles a message of a dead page. The letter may still be owed. A
// message that is older than the letter is a copy of the one that died, and goes.
// A younger one was moved back around the redrive gates, and is returned.
func (w *Worker) refuseDead(ctx context.Context, x *delivery) next {
	switch {
	case x.page.Death.LetterAt.IsZero():
		return w.letter(ctx, x)
	case !x.SentAt.After(x.page.Death.LetterAt):
		w.emit(w.event(audit.DuplicateObserved, x))
		return ack()
	}
	if err := w.Letters.DeadLetter(ctx, w.letterOf(x)); err != nil {
		return w.unlettered(w.event(audit.Retried, x), x.Receives, err)
	}
	e := w.event(audit.RedriveRefused, x)
	e.Reason = x.page.Death.Reason
	w.emit(e)
	return ack()
}
