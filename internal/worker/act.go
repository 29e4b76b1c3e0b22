package worker

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// pace keeps one invocation under its share of the policy's rate, across pages.
type pace struct{ next time.Time }

// act deletes what the committed intent names and settles the page.
func (w *Worker) act(ctx context.Context, x *delivery, s *sheet) next {
	w.remove(ctx, x, s)
	if err := w.inspect(ctx, x, s); err != nil {
		s.stop = err
	}
	return w.finish(ctx, x, s)
}

// remove sends the targets in sub-batches until every one is answered, the
// rounds are used up, or time is over. Only what has no answer is sent again
// (S3-03), in smaller sub-batches when the store asks to slow down (S3-04).
func (w *Worker) remove(ctx context.Context, x *delivery, s *sheet) {
	size := w.Settings.PageItems
	for round := range w.Settings.DeleteRounds {
		pending := s.targets()
		if len(pending) == 0 {
			return
		}
		if round > 0 && !w.pause(ctx, x, w.backoff(round, s.stop)) {
			if s.stop == nil { // otherwise it says for how long, and that outlasts the claim
				s.stop = stopped(noTime)
			}
			return
		}
		s.stop = nil
		slow := false
		for len(pending) > 0 {
			batch := pending[:min(size, len(pending))]
			pending = pending[len(batch):]
			err := w.send(ctx, x, s, batch)
			if s.stop == nil || err != nil {
				s.stop = err
			}
			slow = slow || refusedForRate(err, batch)
			if err != nil && !failure.Is(err, failure.Network) {
				break // throttled or out of time: sending more would only add to it
			}
		}
		if slow {
			size = max(size/4, 1)
			if s.stop == nil {
				s.stop = stopped(slowDown)
			}
		}
	}
}

// stopped says why a claim stopped although no call failed.
func stopped(why string) error { return failure.New(failure.Throttled, "delete page", why) }

const (
	noTime   = "the invocation's time is over"
	slowDown = "the store asks to slow down"
)

func refusedForRate(err error, batch []*line) bool {
	if failure.Is(err, failure.Throttled) {
		return true
	}
	for _, l := range batch {
		if l.slow {
			return true
		}
	}
	return false
}

// send deletes one sub-batch and reads every answer. Safety level 4 is in the
// request: the store deletes an item only while it is the one that was planned.
func (w *Worker) send(ctx context.Context, x *delivery, s *sheet, batch []*line) error {
	if !w.pause(ctx, x, x.pace.next.Sub(w.Clock.Now())) {
		return stopped(noTime)
	}
	x.pace.next = w.Clock.Now().Add(w.share(x, len(batch)))
	d := job.Deletion{Bucket: x.policy.Bucket, Items: make([]job.Item, len(batch)), NotAfter: w.stopAt(x)}
	for i, l := range batch {
		d.Items[i] = l.Item
	}
	answers, err := w.Artifacts.Delete(ctx, d)
	if err == nil && len(answers) != len(batch) {
		err = failure.New(failure.Network, "delete page", "the store did not answer for every item")
	}
	if err != nil {
		for _, l := range batch {
			switch {
			case failure.Of(err).Ambiguous():
				l.unsure = true
			case lasting(failure.Of(err)):
				l.take(job.Denied, s.resumed)
			}
		}
		return err
	}
	for i, l := range batch {
		l.take(answers[i], s.resumed)
	}
	return nil
}

// share is how long n items take at this invocation's share of the policy's rate.
func (w *Worker) share(x *delivery, n int) time.Duration {
	rate := max(x.policy.Limits.MaxRate/w.Settings.Concurrency, 1)
	return time.Duration(n) * time.Second / time.Duration(rate)
}

// pause waits unless the wait would outlast the claim.
func (w *Worker) pause(ctx context.Context, x *delivery, d time.Duration) bool {
	if !w.Clock.Now().Add(max(d, 0)).Before(w.stopAt(x)) {
		return false
	}
	return d <= 0 || w.Clock.Sleep(ctx, d) == nil
}

// inspect asks what remains of items that are no longer current: those under a
// marker that was just laid, and those that an earlier request of ours seems to
// have removed. Only the versions tell a marker from an erasure (E3).
func (w *Worker) inspect(ctx context.Context, x *delivery, s *sheet) error {
	if x.policy.Versions == policy.AllVersions {
		for i := range s.lines {
			if l := &s.lines[i]; l.absent {
				l.settle(job.Deleted, job.Inferred)
			}
		}
		return nil
	}
	var asked []*line
	var items []job.Item
	for i := range s.lines {
		if l := &s.lines[i]; l.absent && l.Outcome == job.NoOutcome || l.Outcome == job.DeletedMarkerOnly {
			asked, items = append(asked, l), append(items, l.Item)
		}
	}
	if len(items) == 0 {
		return nil
	}
	standings, err := w.Artifacts.Standing(ctx, x.policy.Bucket, items)
	if err == nil && len(standings) != len(items) {
		err = failure.New(failure.Network, "inspect page", "the store did not answer for every item")
	}
	for i, l := range asked {
		if err != nil {
			l.Outcome, l.Proof, l.absent = job.NoOutcome, "", true // unproven until somebody has looked
			continue
		}
		w.judge(x, l, standings[i])
	}
	return err
}

// judge settles an item by what remains of it.
func (w *Worker) judge(x *delivery, l *line, st job.Standing) {
	switch st {
	case job.Erased:
		l.settle(job.Deleted, job.Inferred)
	case job.UnderMarker:
		l.settle(job.DeletedMarkerOnly, job.Inferred)
	case job.Restored:
		l.Outcome, l.Proof = job.Superseded, ""
		w.emit(w.event(audit.MarkerUndone, x))
	case job.Replaced:
		l.settle(job.Superseded, "")
	case job.NoStanding: // no answer, no outcome
	}
}
