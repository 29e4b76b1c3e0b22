// Package rehearse finds out what a delivery of a page would do now, by doing it on copies.
//
// # Why
//
// Before an operator moves a page back he asks what happens if it runs again (R94).
// A second program that answers this would be right until the first one changes. So
// the worker itself runs, in memory: it reads the real ledger, holds, store and
// evidence, and whatever it writes is kept in a copy that lies over them, where it
// reads it back. A page that must wait is delivered again at the instant it waits
// for, until a delivery would be acknowledged.
//
// Nothing real can be changed from here: a Config is made of methods that read.
//
// # What it can not know
//
// A rehearsal shows the page as things are. It does not see what somebody does in
// the meantime, a refusal for rate, a lock of the store, or a permission that the
// worker lacks. A refusal that the page's receipt has on record is taken to last,
// unless Config.Repaired says otherwise; any other is found out by the delivery, and
// then changes the outcome of what was refused and nothing else. A random wait is
// taken to be as long as it can be.
package rehearse

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/worker"
)

// records reads the ledger, strongly consistent.
type records interface {
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	Policy(ctx context.Context, name string, version int) (policy.Policy, error)
	Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error)
	Brakes(ctx context.Context) ([]job.Brake, error)
}

// holds reads a tenant's holds, strongly consistent.
type holds interface {
	Epoch(ctx context.Context, tenant string) (int64, error)
	Holds(ctx context.Context, tenant string) (hold.Set, error)
}

// artifacts lists items, and says what remains of others without removing a marker.
type artifacts interface {
	List(ctx context.Context, q job.Query) (job.Listing, error)
	Look(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error)
}

// evidence reads documents back.
type evidence interface {
	Get(ctx context.Context, name string) ([]byte, error)
}

// Config is what a rehearsal reads, and the worker that it plays. Every field but
// the last two is required.
type Config struct {
	Records   records
	Holds     holds
	Artifacts artifacts
	Evidence  evidence
	// Settings are the worker's own.
	Settings contract.Settings
	// Region is the worker's own; a page of another is quarantined.
	Region string
	// Code is the code version that stands in the documents of the rehearsal.
	Code string
	// Now is when the page would be delivered.
	Now time.Time

	// SentAt is when the message was first sent; the zero value is Now, as of a
	// message that is sent for this. It matters to a dead page: an older message than
	// its letter is a copy and goes, a newer one goes back to the dead letters.
	SentAt time.Time
	// Repaired takes the refusals on record as repaired.
	Repaired bool
}

// When says under which conditions the page is delivered.
type When uint8

const (
	// AsThingsAre changes nothing.
	AsThingsAre When = iota
	// OnceRedriven: if the page is dead, it is redriven first.
	OnceRedriven
	// OnceReleased: no brake is in force.
	OnceReleased
)

// Round is one delivery of the page's message.
type Round struct {
	At time.Time
	// Ack: the message is acknowledged. Until is when it comes back otherwise.
	Ack   bool
	Until time.Time
	// State is where the page stands afterwards.
	State job.PageState
	// Why explains the round in our own words. No key stands in it.
	Why string

	end audit.Name // the event that tells how it ended, "" for none
}

// Prediction is what a delivery would do.
type Prediction struct {
	// Rounds are the deliveries, the last of which is acknowledged unless there are
	// MaxRounds of them.
	Rounds []Round
	// Final is the page afterwards, and Born are those of items that it split off.
	Final job.Page
	Born  []job.Page
	// Counts and Lines are the outcomes in the page's receipt. The lines hold keys:
	// they are for an operator's own terminal.
	Counts job.Counts
	Lines  []receipt.Line
	// Deletes is what the store would lose, or hide under a marker, in order.
	Deletes []job.Item
	Events  []audit.Event
	// Dead is the reason of the dead letter that the page is then, "" for none.
	Dead job.Reason
	// Text says all this in one sentence, without a key.
	Text string
}

// MaxRounds bounds a rehearsal. A page has few attempts, and waits for each at most
// for a lease, a back-off and a quiet time; one that is not at its end after so many
// deliveries is not about to be.
const MaxRounds = 50

// Rehearse plays the delivery of a page's message, and those that would follow.
//
// An error says nothing about the page: it is failure.Absent when there is no such
// run or page, failure.Conflict when somebody moved the page meanwhile, so that it is
// worth asking again, and otherwise that of a read that failed.
func Rehearse(ctx context.Context, real Config, run job.RunID, tenant string, page job.PageID, when When) (Prediction, error) {
	const op = "rehearse page"
	c, err := open(ctx, real, run, tenant, page, when)
	if err != nil {
		return Prediction{}, failure.Wrap(failure.Of(err), op, err)
	}
	w, err := worker.New(c.worker())
	if err != nil {
		return Prediction{}, failure.Wrap(failure.Of(err), op, err)
	}
	var rounds []Round
	for range MaxRounds {
		round := c.deliver(ctx, w, len(rounds)+1)
		if c.blind != nil {
			return Prediction{}, failure.Wrap(failure.Of(c.blind), op, c.blind)
		}
		if rounds = append(rounds, round); round.Ack {
			break
		}
		c.now = round.Until
	}
	now, _, err := real.Records.Look(ctx, run, tenant, page)
	switch {
	case err != nil:
		return Prediction{}, failure.Wrap(failure.Of(err), op, err)
	case now.Rev != c.start.Rev:
		return Prediction{}, failure.New(failure.Conflict, op, "the page moved while it was looked at: ask again")
	}
	return c.predict(ctx, rounds)
}

// deliver plays one delivery.
func (c *copies) deliver(ctx context.Context, w *worker.Worker, receives int) Round {
	before, at, said := c.row(), c.now, len(c.events)
	c.wait = 0
	d := job.Delivery{MessageID: "rehearsal", Body: job.NewMessage(c.run, c.start).Body, SentAt: c.sentAt(), Receives: receives}
	response := w.Batch(ctx, at.Add(c.real.Settings.FunctionTimeout), []job.Delivery{d})
	round := Round{At: at, Ack: len(response.BatchItemFailures) == 0, State: c.row().State}
	switch {
	case round.Ack:
	case c.wait > 0:
		round.Until = c.now.Add(c.wait)
	default:
		round.Until = at.Add(c.real.Settings.Visibility())
	}
	e := decisive(c.events[said:])
	round.Why, round.end = c.why(before, at, e), e.Event
	return round
}

// sentAt is when the message was first sent.
func (c *copies) sentAt() time.Time {
	if c.real.SentAt.IsZero() {
		return c.real.Now
	}
	return c.real.SentAt
}

// predict sums up what the rounds have left in the copies.
func (c *copies) predict(ctx context.Context, rounds []Round) (Prediction, error) {
	p := Prediction{Rounds: rounds, Final: c.row(), Deletes: c.deletes, Events: c.events}
	p.Counts, p.Born = p.Final.Counts, c.born
	if len(c.letters) > 0 {
		p.Dead = c.letters[len(c.letters)-1].Reason
	}
	if p.Final.State == job.Dead {
		p.Dead = p.Final.Death.Reason
	}
	var err error
	if p.Lines, err = c.lines(ctx, p.Final); err != nil {
		return Prediction{}, failure.Wrap(failure.Of(err), "read receipt", err)
	}
	p.Text = c.sentence(p)
	return p, nil
}
