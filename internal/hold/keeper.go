package hold

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// holds keeps the holds of the tenants, strongly consistent. Placing the same hold
// again changes nothing and answers with the stored one.
type holds interface {
	Epoch(ctx context.Context, tenant string) (int64, error)
	Holds(ctx context.Context, tenant string) (Set, error)
	PlaceHold(ctx context.Context, h Hold) (Hold, error)
	ReleaseHold(ctx context.Context, tenant, id string, at time.Time) error
}

// entries records orders.
type entries interface {
	PutEntry(ctx context.Context, e audit.Entry) error
}

// runs finds the runs of a tenant, strongly consistent.
type runs interface {
	RunsOf(ctx context.Context, tenant string) ([]job.RunID, error)
	// ReadRuns reads up to 100 runs in the order of their ids.
	ReadRuns(ctx context.Context, ids []job.RunID) ([]job.Run, error)
}

// pages reads pages, strongly consistent.
type pages interface {
	// Pages reads up to 100 pages of a tenant in the run, ranges before split-off items.
	Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error)
	// PageAt finds the range of a key, given relative to the tenant's prefix.
	PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error)
	Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error)
}

// prefixes knows where the artifacts of a tenant are.
type prefixes interface {
	// TenantPrefix returns the bucket and the tenant's prefix that the run works on.
	TenantPrefix(ctx context.Context, run job.Run, tenant string) (bucket, prefix string, err error)
	// Prefixes returns the tenant's prefix in each policy's latest version that works
	// for the tenant.
	Prefixes(ctx context.Context, tenant string) ([]string, error)
}

// evidence reads plans and receipts.
type evidence interface {
	Get(ctx context.Context, name string) ([]byte, error)
}

// lister lists artifacts, and can do nothing else to them.
type lister interface {
	List(ctx context.Context, q job.Query) (job.Listing, error)
}

// clock is the only source of time. Sleep returns early when ctx ends.
type clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
}

// Config is what a keeper is made of. Every field is required.
type Config struct {
	Holds    holds
	Entries  entries
	Runs     runs
	Pages    pages
	Prefixes prefixes
	Evidence evidence
	Lister   lister
	Audit    audit.Sink
	Clock    clock
	// Settings are the region's; the workers' lease and request lifetime bound what is
	// in flight.
	Settings contract.Settings
	Region   string
	// Code is the code version, for events.
	Code string
}

// Keeper places and releases holds, and says how far each reaches. It keeps nothing
// between invocations.
type Keeper struct{ Config }

// New returns a keeper, or the reason its settings can not be used.
func New(c Config) (*Keeper, error) {
	if err := c.Settings.Validate(); err != nil {
		return nil, err
	}
	return &Keeper{c}, nil
}

// Handle takes an invocation's payload, a Request, and answers with a Status, a
// Released or a Holds. deadline is when the invocation ends. A hold is placed even
// when no time is left to read what it reaches: the answer says so.
func (k *Keeper) Handle(ctx context.Context, deadline time.Time, payload []byte) (any, error) {
	r, err := Decode(payload)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Place != nil:
		return answer(k.place(ctx, deadline, r.Place))
	case r.Ask != nil:
		return answer(k.ask(ctx, deadline, r.Ask))
	case r.Release != nil:
		return answer(k.release(ctx, deadline, r.Release))
	default:
		return answer(k.list(ctx, r.List.Tenant))
	}
}

// answer keeps a value that goes with an error out of the answer.
func answer[T any](v T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// place puts the order on record, then the hold, and only then reads what the hold
// reaches (F12). The hold is known to be committed before anything is answered.
func (k *Keeper) place(ctx context.Context, deadline time.Time, p *Place) (Status, error) {
	h := p.hold(k.now())
	op := "place hold " + h.ID
	if err := k.record(ctx, deadline, audit.HoldPlaced, h, p.Signature); err != nil {
		return Status{}, failure.New(failure.Of(err), op, "the order could not be recorded, so the hold is not placed: order it again")
	}
	stored := h
	unsure, err := k.insist(ctx, deadline, func() (err error) {
		stored, err = k.Holds.PlaceHold(ctx, h)
		return err
	})
	switch {
	case failure.Is(err, failure.Invalid): // another hold has this id, whatever an earlier try did
		return Status{}, err
	case err != nil && unsure:
		return Status{}, failure.New(failure.Network, op, "it is not known whether the hold is placed: order it again with the id "+h.ID)
	case err != nil:
		return Status{}, failure.New(failure.Of(err), op, "the hold is not placed: order it again")
	case !stored.Active():
		return Status{}, failure.New(failure.Conflict, op, "a hold of this id was released at "+clockText(stored.ReleasedAt)+
			" and is not placed again: order one with an id of its own")
	}
	return k.survey(ctx, deadline, stored), nil
}

// ask answers for a placed hold again.
func (k *Keeper) ask(ctx context.Context, deadline time.Time, a *Ask) (Status, error) {
	h, err := k.find(ctx, a.Tenant, a.ID)
	if err != nil {
		return Status{}, err
	}
	if !h.Active() {
		return Status{Hold: h.Record(), Answer: Ended, Complete: true, Listed: []Page{}, Text: releasedText}, nil
	}
	return k.survey(ctx, deadline, h), nil
}

// release ends a hold. An answer that may hide a success is settled by a look.
func (k *Keeper) release(ctx context.Context, deadline time.Time, r *Release) (Released, error) {
	h, err := k.find(ctx, r.Tenant, r.ID)
	if err != nil {
		return Released{}, err
	}
	op := "release hold " + h.ID
	if !h.Active() {
		return Released{}, failure.New(failure.Conflict, op, "the hold was released before, at "+clockText(h.ReleasedAt))
	}
	if err := k.record(ctx, deadline, audit.HoldReleased, h, r.Signature); err != nil {
		return Released{}, failure.New(failure.Of(err), op, "the order could not be recorded, so the hold is still in force: order its release again")
	}
	at := k.now()
	unsure, err := k.insist(ctx, deadline, func() error { return k.Holds.ReleaseHold(ctx, h.Tenant, h.ID, at) })
	if err == nil {
		h.ReleasedAt = at
		return Released{h.Record(), releasedText}, nil
	}
	if stored, lookErr := k.find(ctx, r.Tenant, r.ID); lookErr == nil && !stored.Active() {
		return Released{stored.Record(), releasedText}, nil
	}
	if unsure {
		return Released{}, failure.New(failure.Network, op, "it is not known whether the hold is released, and it may be until "+
			clockText(k.now().Add(k.Settings.RequestLifetime))+": list the holds then, or order its release again")
	}
	return Released{}, failure.New(failure.Of(err), op, "the hold is still in force: order its release again")
}

// list returns every hold of a tenant.
func (k *Keeper) list(ctx context.Context, tenant string) (Holds, error) {
	epoch, set, err := k.all(ctx, tenant)
	if err != nil {
		return Holds{}, err
	}
	answer := Holds{Tenant: tenant, Epoch: epoch, Holds: make([]Record, len(set))}
	for i, h := range set {
		answer.Holds[i] = h.Record()
	}
	return answer, nil
}

// all reads the tenant's epoch and then its holds. An answer that lacks the hold
// that raised the epoch was cut short, and says nothing about any hold.
func (k *Keeper) all(ctx context.Context, tenant string) (int64, Set, error) {
	epoch, err := k.Holds.Epoch(ctx, tenant)
	if err != nil {
		return 0, nil, err
	}
	set, err := k.Holds.Holds(ctx, tenant)
	if err == nil && !set.Reaches(epoch) {
		err = failure.New(failure.Network, "read holds", "the answer lacks the hold that raised the epoch")
	}
	return epoch, set, err
}

func (k *Keeper) find(ctx context.Context, tenant, id string) (Hold, error) {
	_, set, err := k.all(ctx, tenant)
	if err != nil {
		return Hold{}, err
	}
	for _, h := range set {
		if h.ID == id {
			return h, nil
		}
	}
	return Hold{}, failure.New(failure.Absent, "find hold "+id, "this tenant has no hold with this id: list shows those that it has")
}

// record puts an order on record before it is carried out (E7), and tells it.
func (k *Keeper) record(ctx context.Context, deadline time.Time, act audit.Name, h Hold, by audit.Signature) error {
	e := audit.Entry{At: k.now(), Act: act, Region: k.Region, By: by.By, Reason: by.Reason, TenantID: h.Tenant, HoldID: h.ID}
	if _, err := k.insist(ctx, deadline, func() error { return k.Entries.PutEntry(ctx, e) }); err != nil {
		return err
	}
	line := e.Event()
	line.CodeVersion = k.Code
	k.Audit.Emit(line)
	return nil
}

// tries is how often a write is sent before its answer is given up. The adapters
// try again on their own; a hold is worth more tries than a delete.
const tries = 5

// insist sends a write that may be repeated until it is answered, and reports
// whether any try may have taken effect without saying so.
func (k *Keeper) insist(ctx context.Context, deadline time.Time, write func() error) (unsure bool, err error) {
	for try := 1; ; try++ {
		err = write()
		class := failure.Of(err)
		unsure = unsure || class.Ambiguous()
		if err == nil || !class.Retryable() || try == tries || k.late(deadline) {
			return unsure, err
		}
		wait := max(failure.RetryAfter(err), time.Duration(try)*100*time.Millisecond) // a conflict clears in milliseconds, a throttle in a second
		if k.Clock.Sleep(ctx, wait) != nil {
			return unsure, err
		}
	}
}

// late reports whether what is left of the invocation is needed to answer.
func (k *Keeper) late(deadline time.Time) bool {
	return deadline.Sub(k.Clock.Now()) < k.Settings.TakeMargin
}

func (k *Keeper) now() time.Time { return k.Clock.Now().UTC() }
