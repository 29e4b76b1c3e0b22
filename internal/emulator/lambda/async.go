package lambda

import (
	"encoding/json"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const (
	// maxEventPayload is what an event may weigh.
	maxEventPayload = 1 << 20
	// eventRetries is how often an event is tried again after a function error,
	// after one minute and then after two.
	eventRetries   = 2
	eventPause     = time.Minute
	maxEventAge    = 6 * time.Hour
	maxThrottleGap = 5 * time.Minute
)

// InvokeEvent hands an event to a function and returns before it has run. What the
// function does not manage in three attempts goes to its destination.
func (s *Service) InvokeEvent(region, name string, payload []byte) error {
	f, err := s.function(region, name)
	if err != nil {
		return err
	}
	if refused := s.queue(f, newInvocation(payload, trace{}.hop(f))); refused != nil {
		return refused
	}
	return nil
}

// queue lets an event go its way.
func (s *Service) queue(f *function, i *invocation) *wire.Error {
	if !s.begin(func() { s.deliver(f, i) }) {
		return serviceFault(errClosed.Error())
	}
	return nil
}

// deliver tries an event until it is done or given up. Throttles cost no attempt;
// only the age ends them.
func (s *Service) deliver(f *function, first *invocation) {
	from := s.clock.Now()
	gap := time.Second
	var last Result
	for attempts := 0; ; {
		i := *first // every attempt carries the same request id
		i.taken, i.result = make(chan struct{}), make(chan Result, 1)
		r, refused := s.run(s.base, f, &i)
		pause := gap
		switch {
		case refused != nil:
			gap = min(2*gap, maxThrottleGap)
		case r.FunctionError == "":
			return
		default:
			attempts++
			last = r
			if attempts > eventRetries {
				f.giveUp(first, last, "RetriesExhausted", attempts)
				return
			}
			pause = time.Duration(attempts) * eventPause
		}
		if s.clock.Now().Add(pause).Sub(from) > maxEventAge {
			f.giveUp(first, last, "EventAgeExceeded", attempts)
			return
		}
		if !s.sleep(s.base, pause) {
			return // closed: what was queued in memory is gone with it
		}
	}
}

// giveUp hands the destination the record of an event.
func (f *function) giveUp(i *invocation, last Result, condition string, attempts int) {
	if f.OnFailure == nil {
		return
	}
	record := map[string]any{
		"version":   "1.0",
		"timestamp": f.service.clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		"requestContext": map[string]any{
			"requestId": i.id, "functionArn": f.arn() + ":" + latest,
			"condition": condition, "approximateInvokeCount": attempts,
		},
		"requestPayload": json.RawMessage(i.payload),
	}
	if attempts > 0 {
		record["responseContext"] = map[string]any{
			"statusCode": 200, "executedVersion": latest, "functionError": last.FunctionError,
		}
		record["responsePayload"] = any(string(last.Payload))
		if json.Valid(last.Payload) {
			record["responsePayload"] = json.RawMessage(last.Payload)
		}
	}
	body, err := json.Marshal(record)
	if err != nil {
		return // not reached: both payloads are known to be JSON
	}
	f.OnFailure(body)
}
