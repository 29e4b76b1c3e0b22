package lambda

import (
	"context"
	"errors"
	"time"
)

// poller fetches one batch after the other and carries it through. What it does
// not delete comes back by the queue's visibility timeout.
type poller struct {
	mapping *mapping
	pause   time.Duration // grows while the function fails
}

const (
	firstPause = time.Second
	maxPause   = time.Minute
)

// poll works until the mapping ends.
func (p *poller) poll() {
	m := p.mapping
	for m.ctx.Err() == nil {
		if _, err := p.round(m.ctx); err != nil {
			m.service.sleep(m.ctx, firstPause) // the queue is out of reach
		}
		if p.pause > 0 {
			m.service.sleep(m.ctx, p.pause)
		}
	}
}

// round fetches a batch, invokes the function with it, and settles it. It returns
// the number of messages.
func (p *poller) round(ctx context.Context) (int, error) {
	m := p.mapping
	batch, received, err := p.collect(ctx)
	fetched := len(batch)
	batch, cut := p.withinChain(batch)
	// Like everything after the fetch this goes on when the mapping ends meanwhile.
	settling := context.WithoutCancel(ctx)
	for _, message := range cut {
		err = errors.Join(err, m.Source.DeadLetter(settling, message))
	}
	for len(batch) > 0 {
		n := fitting(batch)
		err = errors.Join(err, p.carry(settling, batch[:n], received.Add(m.Source.Visibility())))
		batch = batch[n:]
	}
	return fetched, err
}

// collect receives until the batch is full or its window is over. An error that
// comes when there are messages already does not lose them.
func (p *poller) collect(ctx context.Context) (batch []Message, received time.Time, err error) {
	m := p.mapping
	clock := m.service.clock
	wait := longPoll
	if m.Stepped {
		wait = 0
	}
	for {
		got, err := m.Source.Receive(ctx, min(receiveLimit, m.BatchSize-len(batch)), wait)
		if len(batch) == 0 {
			received = clock.Now()
		}
		batch = append(batch, got...)
		rest := m.Window - clock.Now().Sub(received)
		over := len(got) == 0 && (m.Stepped || len(batch) == 0)
		if err != nil || over || len(batch) >= m.BatchSize || rest <= 0 || ctx.Err() != nil {
			return batch, received, err
		}
		if !m.Stepped {
			wait = min(longPoll, rest)
		}
	}
}

// withinChain parts the messages of a function that has been feeding itself for
// too long from the others. Lambda sends such a message to the dead letters
// without invoking the function.
func (p *poller) withinChain(batch []Message) (within, cut []Message) {
	f := p.mapping.function
	if f.AllowRecursion {
		return batch, nil
	}
	for _, m := range batch {
		if parseTrace(m.Attributes[traceAttribute]).hops(f) >= maxHops {
			cut = append(cut, m)
		} else {
			within = append(within, m)
		}
	}
	if len(cut) > 0 {
		f.count(func(m *Metrics) { m.RecursionDropped += len(cut) })
	}
	return within, cut
}

// carry invokes the function with a batch and deletes what it has done.
func (p *poller) carry(ctx context.Context, batch []Message, visible time.Time) error {
	m := p.mapping
	r, ran := p.invoke(ctx, batch, visible)
	if !ran {
		return nil // all of it comes back
	}
	if r.FunctionError != "" {
		p.slowDown()
		return nil
	}
	p.pause = 0
	done := batch
	if m.ReportBatchItemFailures {
		done = succeeded(r.Payload, batch)
	}
	if len(done) == 0 {
		return nil
	}
	handles := make([]string, len(done))
	for n, message := range done {
		handles[n] = message.Handle
	}
	return m.Source.Delete(ctx, handles)
}

// slowDown lets the poller rest after a function error. Lambda does not when
// failures are reported one by one.
func (p *poller) slowDown() {
	if !p.mapping.ReportBatchItemFailures {
		p.pause = min(max(2*p.pause, firstPause), maxPause)
	}
}

// invoke invokes the function. A throttled batch is tried again, ever more
// slowly, until the queue shows its messages again; they have been received all
// the same.
func (p *poller) invoke(ctx context.Context, batch []Message, visible time.Time) (Result, bool) {
	m := p.mapping
	s := m.service
	event := sqsEvent(m.Region, m.Queue, batch)
	t := longest(m.function, batch).hop(m.function)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		r, refused := s.run(ctx, m.function, newInvocation(event, t))
		if refused == nil {
			return r, true
		}
		again := s.clock.Now().Add(pause)
		if m.Stepped || !again.Before(visible) || !s.sleep(m.ctx, pause) {
			return Result{}, false
		}
	}
}
