package worker

import (
	"context"
	"errors"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// open reads everything a message names and claims its page. It returns either
// the claimed delivery or what becomes of the message without one.
func (w *Worker) open(ctx context.Context, deadline time.Time, d job.Delivery, pace *pace) (*delivery, next) {
	command, err := job.Decode(d.Body)
	if err != nil {
		return nil, w.undecodable(ctx, d, err)
	}
	x := &delivery{Delivery: d, deadline: deadline, pace: pace}
	for range claimTries {
		if n, ok := w.read(ctx, x, command); !ok {
			return nil, n
		}
		if n, ok := w.admit(ctx, x); !ok {
			return nil, n
		}
		err = w.claim(ctx, x)
		if err == nil {
			w.emit(w.event(audit.Attempted, x))
			return x, next{}
		}
		if !failure.Is(err, failure.Conflict) {
			break
		}
	}
	return nil, later(w.backoff(x.page.Tries()+1, err))
}

// claimTries is how often a claim that lost its row reads it again. The usual
// rival is not a worker but the sender, which notes that the message was accepted.
const claimTries = 3

// undecodable quarantines a body that can never be a command. One of a newer schema is
// left to a newer worker: it comes back whenever the queue's visibility timeout is
// over, until the queue itself would give it up. That is 54 minutes, and a release takes
// minutes to reach every function. No attempt is counted, since no page is known.
func (w *Worker) undecodable(ctx context.Context, d job.Delivery, err error) next {
	var why *job.DecodeError
	if !errors.As(err, &why) {
		return later(0)
	}
	if why.Reason == job.ReasonNewerSchema && d.Receives < w.Settings.MaxReceives {
		return later(0)
	}
	return w.quarantine(ctx, d, job.Letter{Region: w.Region}, why.Reason)
}

// quarantine makes a message without a page of its own a dead letter.
func (w *Worker) quarantine(ctx context.Context, d job.Delivery, l job.Letter, reason job.Reason) next {
	l.Body, l.Reason, l.FirstAt, l.FailedAt = d.Body, reason, d.SentAt, w.Clock.Now()
	if err := w.Letters.DeadLetter(ctx, l); err != nil {
		return w.unlettered(audit.Event{Event: audit.Retried, Region: w.Region, RunID: l.RunID, JobID: l.PageID, MessageID: d.MessageID}, d.Receives, err)
	}
	w.emit(audit.Event{
		Event: audit.DeadLettered, Region: w.Region, RunID: l.RunID, JobID: l.PageID, Policy: l.Policy, Version: l.Version,
		Reason: reason, FailureClass: failure.Invalid, MessageID: d.MessageID,
		QueueAgeMS: w.Clock.Now().Sub(d.SentAt).Milliseconds(),
	})
	return ack()
}

// read loads the run and the page and checks that the message names them as the
// ledger has them. Nothing else of the message is used.
func (w *Worker) read(ctx context.Context, x *delivery, c job.Command) (next, bool) {
	letter := job.Letter{RunID: c.RunID, PageID: c.PageID, Policy: c.Policy, Version: c.PolicyVersion, Region: c.Region}
	if c.Region != w.Region {
		return w.quarantine(ctx, x.Delivery, letter, job.ReasonWrongRegion), false
	}
	var err error
	if x.run, err = w.Records.Run(ctx, c.RunID); err != nil {
		return w.unread(ctx, x, letter, job.ReasonUnknownRun, err), false
	}
	if x.page, x.brakes, err = w.Records.Look(ctx, c.RunID, c.TenantID, c.PageID); err != nil {
		return w.unread(ctx, x, letter, job.ReasonUnknownPage, err), false
	}
	recorded := job.NewCommand(x.run, x.page)
	switch {
	case c.Policy != recorded.Policy || c.PolicyVersion != recorded.PolicyVersion:
		return w.quarantine(ctx, x.Delivery, letter, job.ReasonUnknownPolicy), false
	case c != recorded:
		return w.quarantine(ctx, x.Delivery, letter, job.ReasonHashMismatch), false
	case x.run.Mode != w.Mode:
		return w.quarantine(ctx, x.Delivery, letter, job.ReasonWrongQueue), false
	}
	return next{}, true
}

func (w *Worker) unread(ctx context.Context, x *delivery, l job.Letter, reason job.Reason, err error) next {
	if failure.Is(err, failure.Absent) {
		return w.quarantine(ctx, x.Delivery, l, reason)
	}
	return later(w.backoff(x.Receives, err))
}

// admit decides whether the page may be claimed now.
func (w *Worker) admit(ctx context.Context, x *delivery) (next, bool) {
	now := w.Clock.Now()
	switch {
	case x.page.State.Terminal():
		w.emit(w.event(audit.DuplicateObserved, x))
		return ack(), false
	case x.page.State == job.Dead:
		return w.refuseDead(ctx, x), false
	case x.run.State != job.Released:
		return ack(), false // early or forged: the page is planned, and release sends it (F8)
	case x.page.LeaseLive(now):
		w.emit(w.event(audit.DuplicateObserved, x))
		return w.until(x.page.LeaseEnd), false
	}
	var err error
	x.policy, err = w.Records.Policy(ctx, x.run.Policy, x.run.Version)
	switch {
	case err == nil && x.policy.SHA256() == x.run.PolicySHA256:
	case err == nil || failure.Is(err, failure.UnknownPolicy):
		return w.die(ctx, x, job.ReasonUnknownPolicy, failure.UnknownPolicy, x.page.Settlement()), false
	default:
		return later(w.backoff(x.page.Tries()+1, err)), false
	}
	if x.braked(x.brakes) {
		return w.park(ctx, x), false
	}
	if now.Before(x.page.RetryAt) {
		return w.until(x.page.RetryAt), false
	}
	if reason, over := x.page.Expired(now, w.Settings.MaxAttempts, w.Settings.AgeCeiling); over {
		return w.die(ctx, x, reason, x.page.LastClass, x.page.Settlement()), false
	}
	return next{}, true
}

// braked reports whether one of the brakes covers the page. They are read before
// the claim, so that none costs an attempt (F13), and again right before the intent.
func (x *delivery) braked(brakes []job.Brake) bool {
	for _, b := range brakes {
		if b.Covers(x.run.Policy, x.run.Version) {
			return true
		}
	}
	return false
}

// park writes the page back to planned, after which the message may go: reconcile
// sends the page again once the brake is released.
func (w *Worker) park(ctx context.Context, x *delivery) next {
	parked, err := x.page.Park(x.owner, w.Clock.Now())
	if err == nil {
		err = w.commit(ctx, x, parked, func() error { return w.Writes.SwapPage(ctx, parked) })
	}
	if err != nil {
		return later(w.backoff(1, err))
	}
	w.emit(w.event(audit.Parked, x))
	return ack()
}

// claim leases the page until the invocation ends.
func (w *Worker) claim(ctx context.Context, x *delivery) error {
	owner := w.NewOwner()
	claimed, err := x.page.Claim(owner, w.Clock.Now(), x.deadline, x.deadline.Add(w.Settings.Overdue()))
	if err == nil {
		err = w.commit(ctx, x, claimed, func() error { return w.Writes.SwapPage(ctx, claimed) })
	}
	if err == nil {
		x.owner = owner
	}
	return err
}

// commit writes a new row of the page. When the answer may hide a success, it
// looks: the same revision, owner, fence and state there mean that the write was
// committed. x.page is the stored row afterwards, whatever happened.
func (w *Worker) commit(ctx context.Context, x *delivery, next job.Page, write func() error) error {
	err := write()
	if err == nil {
		x.page = next
		return nil
	}
	stored, _, rerr := w.Records.Look(ctx, x.run.ID, x.page.Tenant, x.page.ID)
	if rerr != nil {
		return err
	}
	x.page = stored
	if stored.Rev == next.Rev && stored.Owner == next.Owner && stored.Fence == next.Fence && stored.State == next.State {
		return nil
	}
	return err
}
