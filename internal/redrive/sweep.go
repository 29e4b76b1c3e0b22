package redrive

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// end says how a walk through the dead letters ended.
type end uint8

const (
	ranDry   end = iota // no letter is left that was not seen
	enough              // take said so, or as many were seen as one call looks at
	cutShort            // by time
)

// receive hands each dead letter over once, until take says that it has enough, and
// puts back those that take keeps.
//
// What is kept is held until the end, or the same letters would come again and
// again. Putting back takes time of its own, so half of what is left is kept for it,
// and what it does not suffice for is not put back. Nor is it by a process that dies.
// No letter is lost by that: each shows again by itself when the queue's visibility
// timeout is over.
func (r *Redriver) receive(ctx context.Context, deadline time.Time, take func(job.DeadLetter) (keep, last bool)) (how end, err error) {
	var kept []job.DeadLetter
	defer func() {
		for _, d := range kept {
			if r.late(deadline) {
				return
			}
			_ = r.Letters.PutBack(ctx, d) // else it shows again by itself
		}
	}()
	seen, half := 0, deadline.Add(-(deadline.Sub(r.Clock.Now())-r.Settings.TakeMargin)/2)
	for idle := 0; idle < idleAnswers; {
		if r.late(half) {
			return cutShort, nil
		}
		if seen >= lettersMost {
			return enough, nil
		}
		got, err := r.Letters.Letters(ctx, answerOf)
		if err != nil {
			return cutShort, err
		}
		if idle++; len(got) > 0 {
			idle = 0
		}
		done := false
		for _, d := range got {
			seen++
			keep, last := take(d)
			if keep {
				kept = append(kept, d)
			}
			done = done || last
		}
		if done {
			return enough, nil
		}
	}
	return ranDry, nil
}

// sweep drops the dead letters that are byte for byte the command of a page of ours
// that is not dead any more, whatever plan moved it. A letter that can not be judged
// stays, and so does one whose page's message is owed: it may be the only copy (S15).
// clean says that nothing of what it saw is left to be dropped later, cut that there
// was no time to see all.
func (r *Redriver) sweep(ctx context.Context, deadline time.Time) (dropped int, clean, cut bool) {
	l, later := r.look(), false
	how, err := r.receive(ctx, deadline, func(d job.DeadLetter) (keep, last bool) {
		s, err := l.standing(ctx, d)
		if err == nil && s == Stale {
			if err = r.Letters.Remove(ctx, d); err == nil {
				dropped++
				return false, false
			}
		}
		later = later || s == Owed || s == Stale || transient(err)
		return true, false
	})
	return dropped, err == nil && !later && (how == ranDry || dropped == 0), how == cutShort
}

// transient reports whether the same question may be answered soon. A row that does
// not read at all must not keep a plan from its end for ever.
func transient(err error) bool {
	return failure.Is(err, failure.Network) || failure.Is(err, failure.Throttled)
}
