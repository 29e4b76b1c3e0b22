package sim

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/worker"
)

// The event source mapping: it polls a queue of pages, hands what it receives to a
// worker, and deletes from the queue what the worker does not give back.

// wake lets the mapping look at a queue at the next instant at which it can find
// something.
func (w *world) wake(mode job.Mode) {
	at, ok := w.queue.NextVisible(mode)
	if !ok {
		return
	}
	due := max(w.now, at.Sub(w.epoch))
	if known, polls := w.polling[mode]; polls && known <= due && known > w.now {
		return
	}
	w.polling[mode] = due
	wait := due - w.now + w.chance.within(0, 200*time.Millisecond)
	if w.strikes(SentLate) {
		wait += w.chance.within(time.Minute, 10*time.Minute)
	}
	w.at(wait, func() { w.poll(mode) })
}

// poll receives one batch, and another as long as there are workers.
func (w *world) poll(mode job.Mode) {
	delete(w.polling, mode)
	for w.working[mode] < w.settings.Concurrency {
		if w.strikes(SentTwice) {
			w.queue.Duplicate(1)
		}
		moved := w.queue.Stats().Moved
		got, err := w.queue.Receive(context.Background(), mode, 1+w.chance.n(w.batch))
		sure(err)
		for range w.queue.Stats().Moved - moved {
			w.hit(MovedBySQS)
		}
		if len(got) == 0 {
			break
		}
		w.work(mode, got)
	}
	if w.working[mode] < w.settings.Concurrency {
		w.wake(mode)
	}
}

// work hands messages to a worker.
func (w *world) work(mode job.Mode, got []job.Delivery) {
	w.working[mode]++
	began := w.clock()
	var response worker.Response
	w.serve(string(mode), w.settings.FunctionTimeout, func(i *instance, s *steps, deadline time.Time) {
		response = s.worker.Batch(context.Background(), deadline, i.event(got).Deliveries())
	}, func(died bool) {
		w.working[mode]--
		if !died {
			w.settle(mode, got, response, began)
		}
		w.wake(mode)
	})
}

// event is what Lambda makes of the messages. A worker of the next release reads the
// next schema, so its messages are written down to the one that this code knows.
func (i *instance) event(got []job.Delivery) worker.Event {
	var e worker.Event
	for _, d := range got {
		r := worker.Record{MessageID: d.MessageID, ReceiptHandle: d.Handle, Body: string(d.Body)}
		if i.released && !i.old {
			r.Body = string(readNext(d.Body))
		}
		r.Attributes.SentTimestamp = strconv.FormatInt(d.SentAt.UnixMilli(), 10)
		r.Attributes.ApproximateReceiveCount = strconv.Itoa(d.Receives)
		e.Records = append(e.Records, r)
	}
	return e
}

// settle deletes from the queue what the worker did not give back.
func (w *world) settle(mode job.Mode, got []job.Delivery, response worker.Response, began time.Time) {
	if w.mutant != nil && w.mutant.Answer != nil {
		response = w.mutant.Answer(response)
	}
	failed := map[string]bool{}
	for _, f := range response.BatchItemFailures {
		failed[f.ItemIdentifier] = true
	}
	for _, d := range got {
		if failed[d.MessageID] {
			w.tell(moment{kind: messageReturned, mode: mode, delivery: d, asked: began})
			continue
		}
		w.tell(moment{kind: messageAcked, mode: mode, delivery: d, asked: began})
		if w.strikes(AckLost) {
			continue
		}
		sure(w.queue.Ack(context.Background(), mode, d))
	}
}
