package job

import (
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
)

// PageState is where a page stands; internal/ledger draws the machine.
type PageState string

// The states of a page.
const (
	Planned   PageState = "planned"
	Sent      PageState = "sent"
	Claimed   PageState = "claimed"
	Intended  PageState = "intended"
	Retrying  PageState = "retrying"
	Completed PageState = "completed"
	Dead      PageState = "dead"
	Redriven  PageState = "redriven"
	Discarded PageState = "discarded"
)

// PageStates lists every state of a page once.
func PageStates() []PageState {
	return []PageState{Planned, Sent, Claimed, Intended, Retrying, Completed, Dead, Redriven, Discarded}
}

// PageEvent moves a page from one state to the next.
type PageEvent string

// The events of a page.
const (
	EventSend     PageEvent = "send"     // its message was accepted by the queue
	EventClaim    PageEvent = "claim"    // a worker leased it
	EventIntend   PageEvent = "intend"   // its decision to delete is committed
	EventComplete PageEvent = "complete" // every item has its outcome
	EventRetry    PageEvent = "retry"    // it waits for another attempt
	EventPark     PageEvent = "park"     // a brake covers it
	EventDie      PageEvent = "die"      // no further attempt without an operator
	EventRedrive  PageEvent = "redrive"  // an operator moves it back
	EventDiscard  PageEvent = "discard"  // an operator gives it up
	EventVoid     PageEvent = "void"     // its run was rejected before anything of it began
)

// PageEvents lists every event of a page once.
func PageEvents() []PageEvent {
	return []PageEvent{
		EventSend, EventClaim, EventIntend, EventComplete, EventRetry, EventPark, EventDie, EventRedrive, EventDiscard, EventVoid,
	}
}

// Sending again changes no state but the first: the row only notes when the page
// is due. A claim from claimed or intended takes over an expired lease.
var pageMoves = map[PageState]map[PageEvent]PageState{
	Planned:   {EventSend: Sent, EventClaim: Claimed, EventPark: Planned, EventDie: Dead, EventVoid: Discarded},
	Sent:      {EventSend: Sent, EventClaim: Claimed, EventPark: Planned, EventDie: Dead},
	Claimed:   {EventSend: Claimed, EventClaim: Claimed, EventIntend: Intended, EventComplete: Completed, EventRetry: Retrying, EventPark: Planned, EventDie: Dead, EventDiscard: Discarded},
	Intended:  {EventSend: Intended, EventClaim: Claimed, EventComplete: Completed, EventRetry: Retrying, EventPark: Planned, EventDie: Dead},
	Retrying:  {EventSend: Retrying, EventClaim: Claimed, EventPark: Planned, EventDie: Dead},
	Redriven:  {EventSend: Redriven, EventClaim: Claimed, EventPark: Planned, EventDie: Dead},
	Dead:      {EventRedrive: Redriven, EventDiscard: Discarded},
	Completed: {},
	Discarded: {},
}

// On returns the state that follows, and whether the event is allowed at all.
func (s PageState) On(e PageEvent) (PageState, bool) {
	next, ok := pageMoves[s][e]
	return next, ok
}

// Terminal reports whether nothing can happen to the page any more.
func (s PageState) Terminal() bool { return s == Completed || s == Discarded }

// Open reports whether the page still waits for a worker.
func (s PageState) Open() bool { return !s.Terminal() && s != Dead }

// Kind tells a range of keys from one split-off item.
type Kind string

// The kinds of page.
const (
	RangePage Kind = "range"
	ItemPage  Kind = "item"
)

// Intent is the committed decision to delete exactly what a plan names. The zero
// value is no intent.
type Intent struct {
	Plan    string // SHA-256 of the plan object
	Epoch   int64  // the tenant's hold epoch the plan was made under
	Fence   int64  // the claim that committed it
	Deletes int    // how many items it names; later intents only shrink (S19)
}

// Death says why a page is a dead letter.
type Death struct {
	Reason   Reason
	At       time.Time
	LetterAt time.Time // when its dead letter became durable; zero while it is not
}

// Page is a slice of one tenant's candidates in a run: the unit of delivery and
// the durable record of the operation. It stays under 1 KB: hashes and counts,
// no list of keys.
type Page struct {
	ID     PageID
	Run    RunID
	Tenant string
	Kind   Kind
	Rev    int64 // revision of the row: a write names the one it read

	// After (exclusive) and Through (inclusive) bound a range, relative to the
	// tenant's prefix; an After of "" is the tenant's start.
	After, Through string
	// Parent is the page an item was split off from.
	Parent PageID
	// Examined and Candidates are what the scan saw. The intent never names more
	// than Candidates items (F14).
	Examined, Candidates int

	State PageState
	// Owner and Fence identify the current or last claim.
	Owner    string
	Fence    int64
	Attempts int // executed attempts, all redrives together
	// Spent is how many attempts were executed at the last redrive: their limit
	// begins again there.
	Spent int
	// RestartedAt is when the limit on age began again: at a redrive, or with the
	// first claim after a brake.
	RestartedAt time.Time
	// Braked: a brake parked the page and nobody has claimed it since. It does not
	// age meanwhile, for a brake may outlast any limit and must lose no page.
	Braked bool
	// RedriveID is the plan that moved the page back last.
	RedriveID RedriveID
	// Abandoned: an operator gave the page up while it had an open intent. The next
	// claim settles that by looking and deletes nothing.
	Abandoned bool
	LeaseEnd  time.Time
	// SettledAt is when the page ended.
	SettledAt time.Time
	// QuietAt is when nothing of an earlier intent can land any more.
	QuietAt time.Time
	// BornAt never changes. A page may run since then, or since its run's release
	// where that is later.
	BornAt       time.Time
	FirstFailure time.Time
	LastClass    failure.Class
	// RetryAt is when the next attempt may start; NextDue is when the page is overdue.
	RetryAt, NextDue time.Time

	Intent Intent
	// Receipt is the hash of the receipt object that counts. While the page is
	// open it names what was answered so far.
	Receipt string
	Counts  Counts
	Bytes   int64
	// Planned is how many candidates the deciding plan found, at most Candidates.
	Planned int
	// Moved counts the items that became pages of their own.
	Moved int
	Death Death
}

// RunnableAt is since when a page of the run may run.
func (p Page) RunnableAt(r Run) time.Time {
	if r.ReleasedAt.After(p.BornAt) {
		return r.ReleasedAt
	}
	return p.BornAt
}

// LeaseLive reports whether another worker may still be acting on the page.
func (p Page) LeaseLive(now time.Time) bool {
	return (p.State == Claimed || p.State == Intended) && now.Before(p.LeaseEnd)
}

// Tries is how many attempts were executed since the last redrive.
func (p Page) Tries() int { return p.Attempts - p.Spent }

// Expired reports whether the page may not be tried again: attempts since the last
// redrive, or age since the last restart.
func (p Page) Expired(now time.Time, attempts int, age time.Duration) (Reason, bool) {
	since := p.FirstFailure
	if p.RestartedAt.After(since) {
		since = p.RestartedAt
	}
	switch {
	case p.Tries() >= attempts:
		return ReasonAttempts, true
	case !p.Braked && !since.IsZero() && now.Sub(since) >= age:
		return ReasonAge, true
	default:
		return "", false
	}
}

// Totals returns what the page adds to its run. A dead page counts what nobody
// settled as failed, so that candidates stay the sum of the outcomes.
func (p Page) Totals() Totals {
	t := Totals{Counts: p.Counts, Bytes: p.Bytes}
	switch {
	case p.State.Terminal():
		t.Candidates = p.Counts.Sum()
	case p.State == Dead:
		t.Candidates = p.settleable()
		t.Counts[Failed] += t.Candidates - p.Counts.Sum()
	default:
		t.Candidates = p.settleable()
	}
	return t
}

// settleable is how many items still owe or have an outcome in this page.
func (p Page) settleable() int {
	if p.Planned > 0 {
		return p.Planned - p.Moved
	}
	return p.Candidates
}

func (p Page) on(e PageEvent) (Page, error) {
	next, ok := p.State.On(e)
	if !ok {
		return p, failure.New(failure.Conflict, "page "+string(p.ID), string(p.State)+" does not allow "+string(e))
	}
	p.State = next
	p.Rev++
	return p, nil
}

// Send notes that the page's message was accepted; due is when it becomes overdue.
func (p Page) Send(due time.Time) (Page, error) {
	p, err := p.on(EventSend)
	p.NextDue = due
	return p, err
}

// Claim leases the page until leaseEnd and counts the attempt. It is refused
// while another lease is live.
func (p Page) Claim(owner string, now, leaseEnd, due time.Time) (Page, error) {
	if p.LeaseLive(now) {
		return p, failure.New(failure.Conflict, "page "+string(p.ID), "lease is live")
	}
	p, err := p.on(EventClaim)
	p.Owner = owner
	p.Fence++
	p.Attempts++
	if p.Braked {
		p.Braked, p.RestartedAt = false, now
	}
	p.LeaseEnd, p.NextDue = leaseEnd, due
	return p, err
}

// Intend commits the plan. quiet is how long after the lease a sent request can
// still land. An intent may only shrink the one before it.
func (p Page) Intend(plan string, epoch int64, deletes, planned int, quiet time.Duration) (Page, error) {
	limit := p.Candidates
	if p.Intent != (Intent{}) {
		limit = p.Intent.Deletes
	}
	if deletes > limit {
		return p, failure.New(failure.Bug, "page "+string(p.ID), "an intent may only shrink")
	}
	p, err := p.on(EventIntend)
	p.Intent = Intent{Plan: plan, Epoch: epoch, Fence: p.Fence, Deletes: deletes}
	p.Planned = planned
	if end := p.LeaseEnd.Add(quiet); deletes > 0 && end.After(p.QuietAt) {
		p.QuietAt = end
	}
	return p, err
}

// Settled is what a claim knows about a page's items.
type Settled struct {
	Receipt string
	Counts  Counts
	Bytes   int64
	Planned int
	Moved   int
	At      time.Time // now
}

func (p Page) settle(s Settled) Page {
	p.Receipt, p.Counts, p.Bytes, p.Planned, p.Moved = s.Receipt, s.Counts, s.Bytes, s.Planned, s.Moved
	return p
}

// Complete ends the page: every item has its outcome or a page of its own.
func (p Page) Complete(s Settled) (Page, error) {
	p, err := p.on(EventComplete)
	p.SettledAt = s.At
	return p.settle(s), err
}

// Retry gives the page back for another attempt at the instant at; due is when
// it becomes overdue. class is why, "" for a wait, which is no attempt.
func (p Page) Retry(s Settled, class failure.Class, now, at, due time.Time) (Page, error) {
	p, err := p.on(EventRetry)
	p = p.settle(s)
	p.RetryAt, p.NextDue = at, due
	if class == "" {
		p.Attempts--
		return p, err
	}
	p.LastClass = class
	if p.FirstFailure.IsZero() {
		p.FirstFailure = now
	}
	return p, err
}

// Park writes the page back because a brake covers it. The holder of the claim
// gives its attempt back; anyone else must wait for the lease to end.
func (p Page) Park(owner string, now time.Time) (Page, error) {
	mine := p.State == Claimed && p.Owner == owner
	if !mine && p.LeaseLive(now) {
		return p, failure.New(failure.Conflict, "page "+string(p.ID), "lease is live")
	}
	p, err := p.on(EventPark)
	if mine {
		p.Attempts--
	}
	p.NextDue, p.Braked = now, true
	return p, err
}

// Die makes the page a dead letter. Its dead letter is durable only once
// Letter has been recorded.
func (p Page) Die(owner string, reason Reason, class failure.Class, s Settled, now time.Time) (Page, error) {
	if p.Owner != owner && p.LeaseLive(now) {
		return p, failure.New(failure.Conflict, "page "+string(p.ID), "lease is live")
	}
	p, err := p.on(EventDie)
	p = p.settle(s)
	p.Death = Death{Reason: reason, At: now}
	p.LastClass = class
	if p.FirstFailure.IsZero() {
		p.FirstFailure = now
	}
	return p, err
}

// Lettered records that the page's dead letter is durable.
func (p Page) Lettered(now time.Time) (Page, error) {
	if p.State != Dead {
		return p, failure.New(failure.Conflict, "page "+string(p.ID), "only a dead page has a dead letter")
	}
	p.Death.LetterAt = now
	p.Rev++
	return p, nil
}

// Redrive lets a dead page be claimed again, on the word of the operator who
// applied the plan, with a fresh number of attempts.
func (p Page) Redrive(plan RedriveID, now, due time.Time) (Page, error) {
	p, err := p.on(EventRedrive)
	p.RedriveID, p.Abandoned = plan, false
	p.Spent, p.RestartedAt = p.Attempts, now
	p.RetryAt, p.NextDue = now, due
	return p, err
}

// Abandon gives up a dead page that has an open intent. What the intent may have
// done is not known before somebody has looked, so the page goes to a worker once
// more, which settles it without deleting (F17).
func (p Page) Abandon(now, due time.Time) (Page, error) {
	if p.Intent == (Intent{}) {
		return p, failure.New(failure.Conflict, "page "+string(p.ID), "without an open intent there is nothing to settle")
	}
	p, err := p.Redrive("", now, due)
	p.Abandoned = true
	return p, err
}

// Discard gives up a page: a dead one without an open intent, or an abandoned one
// whose claim has settled what there was to settle.
func (p Page) Discard(s Settled) (Page, error) {
	if settled := p.State == Claimed && p.Abandoned; !settled && (p.State != Dead || p.Intent != (Intent{})) {
		return p, failure.New(failure.Conflict, "page "+string(p.ID), "only a dead page without an open intent, or an abandoned one, can be discarded")
	}
	p, err := p.on(EventDiscard)
	p.SettledAt = s.At
	return p.settle(s), err
}

// Void ends a page of a rejected run. Nothing of it was ever claimed, so no item has an
// outcome, and it waits for nobody.
func (p Page) Void(now time.Time) (Page, error) {
	p, err := p.on(EventVoid)
	p.SettledAt = now
	return p, err
}

// Settlement returns what the page already knows about its items.
func (p Page) Settlement() Settled {
	return Settled{Receipt: p.Receipt, Counts: p.Counts, Bytes: p.Bytes, Planned: p.Planned, Moved: p.Moved}
}
