// Package worker turns one page into one terminal outcome per item.
//
// # The order of the steps
//
// Decode the message strictly; read the run, the page, the policy and the
// brakes; claim the page; read the tenant's hold epoch and then the holds; list
// the range afresh; decide; write the plan; commit the intent; delete with a
// condition; read every answer; write the receipt; commit the page's end; only
// then let the message be acknowledged. Each step is durable before the next,
// so a process may die between any two of them.
//
// # What a second attempt may do
//
// An attempt that finds an open intent resumes it, and a resume only narrows: it
// looks at every planned item again, drops what a hold covers or what is no
// longer the same, commits the smaller intent, and deletes that. It never adds
// an item. What an earlier request may still reach is settled by looking, and a
// vetoed item only once nothing of the earlier intent can land any more.
//
// A page that an operator gave up with an open intent is settled by looking alone:
// what is gone was deleted, what still stands stays, and the page is discarded.
//
// # Delivery
//
// A message is acknowledged in three states of its page: terminal with the
// receipt's hash in the row, dead with the dead letter durable, or planned again.
// Anything else goes back to the queue. Every error ends on that side.
package worker

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// records reads the ledger, strongly consistent.
type records interface {
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	Policy(ctx context.Context, name string, version int) (policy.Policy, error)
	// Look reads a page, and the brakes with it.
	Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error)
	Brakes(ctx context.Context) ([]job.Brake, error)
}

// writes moves a page. Each write fails with failure.Conflict when the row is
// not the one it was computed from.
type writes interface {
	SwapPage(ctx context.Context, next job.Page) error
	Intend(ctx context.Context, next job.Page, epoch int64) error
	Complete(ctx context.Context, next job.Page, children []job.Page) error
}

// holds reads a tenant's holds, strongly consistent. The epoch is read first.
type holds interface {
	Epoch(ctx context.Context, tenant string) (int64, error)
	Holds(ctx context.Context, tenant string) (hold.Set, error)
}

// artifacts lists items and deletes exactly those it is given, each under the
// condition that it is still the one that was listed. It does not retry.
type artifacts interface {
	List(ctx context.Context, q job.Query) (job.Listing, error)
	Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error)
	Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error)
}

// evidence keeps objects that are written once; writing the same bytes again is
// no error.
type evidence interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
}

// letters gives a message back for later, and makes dead letters durable.
type letters interface {
	Delay(ctx context.Context, d job.Delivery, wait time.Duration) error
	DeadLetter(ctx context.Context, l job.Letter) error
}

// clock is the only source of time. Sleep returns early when ctx ends.
type clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
}

// Config is what a worker is made of. Every field is required but Decide.
type Config struct {
	Records   records
	Writes    writes
	Holds     holds
	Artifacts artifacts
	Evidence  evidence
	Letters   letters
	Audit     audit.Sink
	Clock     clock
	Settings  contract.Settings

	// Region is the function's own; a message of another region is quarantined.
	Region string
	// Mode is the mode of the queue this worker reads. The report-only worker
	// runs under a role that can not delete.
	Mode job.Mode
	// Code is the code version, for evidence and events.
	Code string
	// NewOwner returns a name no other claim has.
	NewOwner func() string
	// Jitter returns a random duration in [0, limit).
	Jitter func(limit time.Duration) time.Duration
	// Decide is policy.Decide. The safety levels do not trust it, and the tests
	// that prove so put another one here.
	Decide func(policy.Facts) policy.Decision
}

// Worker handles batches of messages. It keeps nothing between invocations.
type Worker struct{ Config }

// New returns a worker, or the reason its settings can not be used.
func New(c Config) (*Worker, error) {
	if err := c.Settings.Validate(); err != nil {
		return nil, err
	}
	if c.Decide == nil {
		c.Decide = policy.Decide
	}
	return &Worker{c}, nil
}

// Response is Lambda's partial batch response. A message that is not named in it
// is deleted from the queue.
type Response struct {
	BatchItemFailures []ItemFailure `json:"batchItemFailures"`
}

// ItemFailure names one message that stays in the queue.
type ItemFailure struct {
	ItemIdentifier string `json:"itemIdentifier"`
}

// Batch handles each message alone. deadline is when the invocation ends; the
// claims it takes are leased until then. The list of failures is never nil:
// an absent list reads as success to some and as an error to others.
func (w *Worker) Batch(ctx context.Context, deadline time.Time, deliveries []job.Delivery) Response {
	response := Response{BatchItemFailures: []ItemFailure{}}
	pace := &pace{}
	for _, d := range deliveries {
		if !w.deliver(ctx, deadline, d, pace) {
			response.BatchItemFailures = append(response.BatchItemFailures, ItemFailure{d.MessageID})
		}
	}
	return response
}

// deliver handles one message and reports whether it may be acknowledged. A panic
// stays inside: it must not acknowledge, fail or repeat the other messages.
func (w *Worker) deliver(ctx context.Context, deadline time.Time, d job.Delivery, pace *pace) (ack bool) {
	defer func() {
		if recover() != nil {
			ack = false // the panic's text may quote a payload, so nobody prints it
			w.emit(audit.Event{Event: audit.Retried, Region: w.Region, MessageID: d.MessageID, FailureClass: failure.Bug})
		}
	}()
	if deadline.Sub(w.Clock.Now()) < w.Settings.TakeMargin {
		w.emit(audit.Event{Event: audit.Deferred, Region: w.Region, MessageID: d.MessageID})
		return false
	}
	x, next := w.open(ctx, deadline, d, pace)
	if x != nil {
		next = w.work(ctx, x)
	}
	if next.ack {
		return true
	}
	if next.wait > 0 {
		// When this fails the message comes back at the queue's own visibility.
		_ = w.Letters.Delay(ctx, d, next.wait)
	}
	return false
}

// next says what becomes of a message.
type next struct {
	ack  bool
	wait time.Duration // when not acknowledged; 0 leaves the queue's visibility
}

func ack() next                  { return next{ack: true} }
func later(d time.Duration) next { return next{wait: max(d, 0)} }

// until returns the message at the instant.
func (w *Worker) until(at time.Time) next { return later(at.Sub(w.Clock.Now())) }

// backoff returns the message after a full-jitter wait that grows with attempts,
// or after exactly what the service asked for.
func (w *Worker) backoff(attempts int, err error) time.Duration {
	if asked := failure.RetryAfter(err); asked > 0 {
		return asked
	}
	limit := w.Settings.BackoffCap
	if shift := max(attempts-1, 0); shift < 20 {
		limit = min(limit, w.Settings.BackoffBase<<shift)
	}
	return w.Jitter(limit)
}

// delivery is one message being handled: what was read, and the claim.
type delivery struct {
	job.Delivery
	run      job.Run
	page     job.Page
	brakes   []job.Brake // as they were when the page was read
	policy   policy.Policy
	owner    string // the claim's own name; "" while the page is not claimed
	deadline time.Time
	pace     *pace
}

// stopAt is when the claim's right to send a delete ends.
func (w *Worker) stopAt(x *delivery) time.Time { return x.deadline.Add(-w.Settings.SigningMargin) }

// event starts an event about the delivery.
func (w *Worker) event(name audit.Name, x *delivery) audit.Event {
	e := audit.Event{Event: name, MessageID: x.MessageID, QueueAgeMS: w.Clock.Now().Sub(x.SentAt).Milliseconds()}
	e.RedriveID = x.page.RedriveID
	return e.About(x.run, x.page)
}

// ended starts an event about a page that has ended, with what became of its items.
func (w *Worker) ended(name audit.Name, x *delivery) audit.Event {
	e := w.event(name, x)
	counts := x.page.Counts
	e.Count, e.Deleted, e.Held = counts.Sum(), counts[job.Deleted]+counts[job.DeletedMarkerOnly], counts[job.Held]
	return e
}

func (w *Worker) emit(e audit.Event) {
	e.Time, e.CodeVersion = w.Clock.Now().UTC(), w.Code
	w.Audit.Emit(e)
}
