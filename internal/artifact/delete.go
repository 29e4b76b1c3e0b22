package artifact

import (
	"context"
	"errors"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Delete implements Store. Keys are taken one after the other, and other calls
// may come in between, as in S3: a bulk delete is not a transaction.
//
// The right to delete is checked before the Hook, where a request would be
// signed; a Hook that stalls is a signed request that lands late.
func (m *Memory) Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error) {
	const op = "delete items"
	if err := check(d, m.now()); err != nil {
		return nil, err
	}
	if err := over(ctx, op); err != nil {
		return nil, err
	}
	var answers []job.Answer
	err := m.Hook.Do("delete", func() (err error) {
		answers, err = m.delete(d)
		return err
	})
	if err == nil && answers == nil {
		err = failure.New(failure.Bug, op, "the hook reported success without a delete")
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (m *Memory) delete(d job.Deletion) ([]job.Answer, error) {
	var b *bucketState
	var admitted int
	err := m.with("delete items", d.Bucket, func(found *bucketState) (err error) {
		b = found
		admitted, err = m.admit(len(d.Items))
		return err
	})
	if err != nil {
		return nil, err
	}
	answers := make([]job.Answer, len(d.Items))
	for i, item := range d.Items {
		if i < admitted {
			answers[i] = m.deleteItem(b, d.Bucket, item)
		} else {
			answers[i] = job.Slow
		}
	}
	return answers, nil
}

func (m *Memory) deleteItem(b *bucketState, bucket string, item job.Item) job.Answer {
	fault, applied := job.NoAnswer, true
	if m.KeyFault != nil {
		fault, applied = m.KeyFault(item)
	}
	if fault != job.NoAnswer && !applied {
		return fault
	}
	answer := m.apply(b, bucket, item)
	if fault != job.NoAnswer {
		return fault
	}
	return answer
}

func (m *Memory) apply(b *bucketState, bucket string, item job.Item) job.Answer {
	m.mu.Lock()
	answer, effect, happened := b.delete(item, m.now())
	effect.Bucket = bucket
	if happened {
		m.effects = append(m.effects, effect)
	}
	m.mu.Unlock()
	if happened {
		m.tell(effect)
	}
	return answer
}

// tell calls OnEffect, never under the lock, so that it may look around.
func (m *Memory) tell(e Effect) {
	if m.OnEffect != nil {
		m.OnEffect(e)
	}
}

// admit returns how many of n keys the limit lets through. A bucket of one
// second's keys fills at the limit's rate; a whole call may overdraw it, so that
// a call above the limit passes too, in its turn.
func (m *Memory) admit(n int) (int, error) {
	if m.Limit.KeysPerSecond <= 0 {
		return n, nil
	}
	now, cost := m.now(), max(1, time.Second/time.Duration(m.Limit.KeysPerSecond))
	if m.busyUntil.Before(now) {
		m.busyUntil = now
	}
	free := now.Add(time.Second).Sub(m.busyUntil)
	if m.Limit.WholeCall {
		need := time.Duration(min(n, m.Limit.KeysPerSecond)) * cost
		if free < need {
			return 0, &failure.Error{Class: failure.Throttled, Op: "delete items", RetryAfter: need - free, Err: errors.New("slow down")}
		}
	} else {
		n = max(0, min(n, int(free/cost)))
	}
	m.busyUntil = m.busyUntil.Add(time.Duration(n) * cost)
	return n, nil
}
