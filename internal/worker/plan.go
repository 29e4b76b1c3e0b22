package worker

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// planTries is how often one claim plans anew when the tenant's hold epoch moves
// under it. Each try reads epoch and holds again; none of them is an attempt.
const planTries = 4

// work takes a claimed page to its end, or gives it back.
func (w *Worker) work(ctx context.Context, x *delivery) next {
	switch {
	case x.page.Abandoned:
		return w.abandon(ctx, x)
	case x.page.Intent != (job.Intent{}):
		return w.resume(ctx, x)
	}
	for range planTries {
		epoch, set, err := w.vetoes(ctx, x)
		if err != nil {
			return w.giveBack(ctx, x, err)
		}
		plan, err := w.plan(ctx, x, epoch, set)
		if err != nil {
			return w.fail(ctx, x, err)
		}
		s := newSheet(plan, false)
		if n, bad := w.unsafe(ctx, x, s, set); bad {
			return n
		}
		if s.plan, err = w.file(ctx, x, plan); err != nil {
			return w.giveBack(ctx, x, err) // what can not be proven is not done
		}
		if plan.Deletes() == 0 || w.Mode == job.ReportOnly {
			s.wouldDelete()
			return w.finish(ctx, x, s)
		}
		switch n, done := w.intend(ctx, x, s.plan, plan); done {
		case committed:
			return w.act(ctx, x, s)
		case pageLost:
			return n
		case epochMoved: // plan again
		}
	}
	return w.contend(ctx, x)
}

// contend gives the page back because the tenant's hold epoch kept moving. It is
// no attempt, or somebody who places many holds would use up those of every page.
func (w *Worker) contend(ctx context.Context, x *delivery) next {
	return w.postpone(ctx, x, x.page.Settlement(), w.Clock.Now().Add(w.backoff(planTries, nil)))
}

// vetoes reads the epoch first and the holds after it: a hold placed in between
// then fails the intent instead of being missed by it (F2).
func (w *Worker) vetoes(ctx context.Context, x *delivery) (int64, hold.Set, error) {
	epoch, err := w.Holds.Epoch(ctx, x.page.Tenant)
	if err != nil || epoch == 0 {
		return 0, nil, err // a tenant at epoch 0 never had a hold, and the intent checks that it still has none
	}
	set, err := w.Holds.Holds(ctx, x.page.Tenant)
	if err == nil && !set.Reaches(epoch) {
		err = failure.New(failure.Network, "read holds", "the answer lacks the hold that raised the epoch")
	}
	return epoch, set, err
}

// plan lists the range afresh and decides each item by the pinned cutoff. It
// takes no more candidates than the scan recorded: what has become one since is
// left to the next run (F14).
func (w *Worker) plan(ctx context.Context, x *delivery, epoch int64, set hold.Set) (receipt.Document, error) {
	doc := receipt.Document{Header: w.header(x, epoch)}
	err := w.each(ctx, x, w.rangeOf(x), func(item job.Item) bool {
		d := w.Decide(policy.Facts{Item: item, Tenant: x.page.Tenant, Cutoff: x.run.Cutoff, Holds: set, Policy: &x.policy})
		if d.Candidate {
			doc.Lines = append(doc.Lines, planLine(item, d))
		}
		return len(doc.Lines) < x.page.Candidates
	})
	return doc, err
}

func planLine(item job.Item, d policy.Decision) receipt.Line {
	l := receipt.Line{Item: item, Reason: string(d.Reason), HoldID: d.HoldID}
	switch {
	case d.Delete:
		l.Decision = receipt.Delete
	case d.Outcome == job.Held:
		l.Decision = receipt.Held
	default:
		l.Decision = receipt.Retained
	}
	return l
}

func (w *Worker) header(x *delivery, epoch int64) receipt.Header {
	return receipt.Header{
		Kind: receipt.Plan, Schema: receipt.Schema, RunID: x.run.ID, PageID: x.page.ID, Tenant: x.page.Tenant,
		Policy: x.run.Policy, PolicyVersion: x.run.Version, PolicySHA256: x.run.PolicySHA256, Mode: x.run.Mode,
		Bucket: x.policy.Bucket, Cutoff: x.run.Cutoff, Fence: x.page.Fence, HoldEpoch: epoch, CodeVersion: w.Code,
	}
}

// rangeOf is the query that lists a page's range.
func (w *Worker) rangeOf(x *delivery) job.Query {
	prefix := x.policy.TenantPrefix(x.page.Tenant)
	q := job.Query{Bucket: x.policy.Bucket, Prefix: prefix, Through: prefix + x.page.Through, Versions: x.policy.Versions == policy.AllVersions}
	if x.page.After != "" {
		q.After = prefix + x.page.After
	}
	return q
}

// each calls yield for every listed item until it returns false.
func (w *Worker) each(ctx context.Context, x *delivery, q job.Query, yield func(job.Item) bool) error {
	for {
		if !w.Clock.Now().Before(w.stopAt(x)) {
			return failure.New(failure.Throttled, "list page", noTime)
		}
		listing, err := w.Artifacts.List(ctx, q)
		if err != nil {
			return err
		}
		for _, item := range listing.Items {
			if !yield(item) {
				return nil
			}
		}
		if q.Token = listing.Token; q.Token == "" {
			return nil
		}
	}
}

// unsafe checks every item that would be sent to the store, whatever decided so,
// in this claim or an earlier one. Each level is a mechanism of its own, and a
// fault in one is caught by the next:
//
//	Level 1: the item is older than the run's cutoff.
//	Level 2: no hold covers it.
//	Level 3: its key lies inside the policy's template and the tenant's own segment.
//	Level 4: the store's own condition, ETag or version id, in act.
func (w *Worker) unsafe(ctx context.Context, x *delivery, s *sheet, set hold.Set) (next, bool) {
	for _, l := range s.targets() {
		// Level 1.
		if x.run.Cutoff.IsZero() || l.Item.Modified.IsZero() || !l.Item.Modified.Before(x.run.Cutoff) {
			return w.giveBack(ctx, x, failure.New(failure.Bug, "safety level 1", "the plan deletes an item that is not expired")), true
		}
		// Level 2.
		if _, covered := set.Covering(l.Item.Key); covered {
			return w.giveBack(ctx, x, failure.New(failure.Bug, "safety level 2", "the plan deletes an item under a hold")), true
		}
		// Level 3.
		if !x.policy.Contains(x.page.Tenant, l.Item.Key) {
			return w.die(ctx, x, job.ReasonOutsidePolicy, failure.Invalid, x.page.Settlement()), true
		}
	}
	return next{}, false
}

// file makes a document durable under the hash of its content. That it could not is
// said here, because its callers go on in different ways and none goes on without it.
func (w *Worker) file(ctx context.Context, x *delivery, doc receipt.Document) (hash string, err error) {
	if hash, err = w.put(ctx, doc); err != nil {
		e := w.event(audit.EvidenceFailed, x)
		e.FailureClass, e.Operation = failure.Of(err), failure.Op(err)
		w.emit(e)
	}
	return hash, err
}

func (w *Worker) put(ctx context.Context, doc receipt.Document) (hash string, err error) {
	hash, data, err := doc.Encode()
	if err != nil {
		return "", failure.Wrap(failure.Bug, "encode evidence", err)
	}
	return hash, w.Evidence.Put(ctx, receipt.Name(doc.Header.Kind, doc.Header.RunID, doc.Header.PageID, hash), data)
}

// decided says how an attempt to commit an intent ended.
type decided uint8

const (
	committed  decided = iota
	epochMoved         // a hold was placed: plan again
	pageLost           // the page is no longer this claim's to act on
)

// intend commits the plan as the page's intent, under the epoch the plan was
// made with and never a fresher one (F2, F3).
func (w *Worker) intend(ctx context.Context, x *delivery, hash string, plan receipt.Document) (next, decided) {
	brakes, err := w.Records.Brakes(ctx)
	if err != nil {
		return w.giveBack(ctx, x, err), pageLost
	}
	if x.braked(brakes) {
		return w.park(ctx, x), pageLost
	}
	before := x.page
	intended, err := x.page.Intend(hash, plan.Header.HoldEpoch, plan.Deletes(), len(plan.Lines), w.Settings.RequestLifetime)
	if err != nil {
		return w.giveBack(ctx, x, err), pageLost
	}
	err = w.commit(ctx, x, intended, func() error { return w.Writes.Intend(ctx, intended, plan.Header.HoldEpoch) })
	switch {
	case err == nil:
		return next{}, committed
	case x.page.Rev == before.Rev && failure.Is(err, failure.Conflict):
		if w.Clock.Sleep(ctx, w.Jitter(100*time.Millisecond)) != nil { // contention on the tenant's epoch row clears in milliseconds
			return w.giveBack(ctx, x, err), pageLost
		}
		return next{}, epochMoved
	case x.page.Rev == before.Rev:
		return w.giveBack(ctx, x, err), pageLost
	default:
		return w.until(x.page.LeaseEnd), pageLost // another claim has the page
	}
}
