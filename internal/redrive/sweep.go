package redrive

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// receive hands each dead letter over once, until take says that it has enough, and
// puts back those that take keeps. whole says that the queue ran dry.
//
// What is kept is held until the end, or the same letters would come again and
// again. A process that dies with letters in hand loses none: each shows again by
// itself when the queue's visibility timeout is over.
func (r *Redriver) receive(ctx context.Context, deadline time.Time, take func(job.DeadLetter) (keep, enough bool)) (whole bool, err error) {
	var kept []job.DeadLetter
	defer func() {
		for _, d := range kept {
			_ = r.Letters.PutBack(ctx, d) // else it shows again by itself
		}
	}()
	seen := 0
	for idle := 0; idle < idleAnswers; {
		if seen >= lettersMost || r.late(deadline) {
			return false, nil
		}
		got, err := r.Letters.Letters(ctx, answerOf)
		if err != nil {
			return false, err
		}
		if idle++; len(got) > 0 {
			idle = 0
		}
		enough := false
		for _, d := range got {
			seen++
			keep, last := take(d)
			if keep {
				kept = append(kept, d)
			}
			enough = enough || last
		}
		if enough {
			return false, nil
		}
	}
	return true, nil
}

// sweep drops the dead letters that are byte for byte the command of a page of ours
// that is not dead any more, whatever plan moved it. A letter that can not be judged
// stays, and so does one whose page's message is owed: it may be the only copy (S15).
// clean says that nothing of what it saw is left to be dropped later.
func (r *Redriver) sweep(ctx context.Context, deadline time.Time) (dropped int, clean bool) {
	l, later := r.look(), false
	whole, err := r.receive(ctx, deadline, func(d job.DeadLetter) (keep, enough bool) {
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
	return dropped, err == nil && !later && (whole || dropped == 0)
}

// transient reports whether the same question may be answered soon. A row that does
// not read at all must not keep a plan from its end for ever.
func transient(err error) bool {
	return failure.Is(err, failure.Network) || failure.Is(err, failure.Throttled)
}
