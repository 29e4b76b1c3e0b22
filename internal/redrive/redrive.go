// Package redrive moves dead pages back through gates, a bounded number at a time, for a stated reason.
//
// # The ledger is the truth, the dead-letter queue its shadow
//
// What is dead is what its row says, and what moves is the row. A message is
// rebuilt from the ledger and has the bytes of the one that died, so a redrive
// works when the copy among the dead letters has long expired. Moving the
// queue's message instead would begin its id, clock and count anew, and with them
// every limit that is counted by it (RD-03, RD-09).
//
// # Plan, then apply
//
// A plan moves nothing: it says for each page which gates are open and, for each
// that is not, what to do next. Its token stands for exactly those pages and
// bytes, in this region, for a short time. Apply takes the token and a signed
// reason, writes the order down, looks at every gate again, and moves the pages.
// A page's row moves before its message is sent, because a worker refuses a dead
// page; its letter is dropped last, once the message is on its way (S15). A process
// may die between any two of these: the row says whose plan moved the page, so
// whoever goes on moves none twice, and what is moved and not sent is due at once
// for reconcile.
//
// # What else is here
//
// The brake, the approval of a stopped run or of a policy version and the discarding
// of what is dead are the on-call's acts too, and this is the on-call's function and
// role. Each is an entry in the ledger before it happens (E7). So are drills: a
// recovery that is rehearsed on a test tenant, and judged here by what is on record.
package redrive

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

// pages finds, reads and moves pages. DeadPages is an index that may lag; Page is
// consistent. A write fails with failure.Conflict when the row is not the one it was
// computed from.
type pages interface {
	DeadPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error)
	Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error)
	SwapPage(ctx context.Context, next job.Page) error
}

// runs reads and moves runs, as pages does pages.
type runs interface {
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	Tenants(ctx context.Context, run job.RunID) ([]string, error)
	SwapRun(ctx context.Context, next job.Run) error
	// ClosedRuns returns a policy's last closed scheduled runs, newest first.
	ClosedRuns(ctx context.Context, policy string, limit int) ([]job.Run, error)
}

// policies reads what was published; failure.UnknownPolicy says that it was not.
type policies interface {
	Policy(ctx context.Context, name string, version int) (policy.Policy, error)
	LatestPolicy(ctx context.Context, name string) (policy.Policy, error)
}

// approvals says which version of a policy may delete; the zero value is none.
type approvals interface {
	Approval(ctx context.Context, name string) (policy.Approval, error)
	Approve(ctx context.Context, next policy.Approval) error
}

// holds reads a tenant's holds, strongly consistent.
type holds interface {
	Holds(ctx context.Context, tenant string) (hold.Set, error)
}

// brakes reads and changes the brakes in force.
type brakes interface {
	Brakes(ctx context.Context) ([]job.Brake, error)
	SetBrake(ctx context.Context, b job.Brake) error
	ReleaseBrake(ctx context.Context, b job.Brake) error
}

// orders records what an operator orders. Recording the same again changes nothing.
type orders interface {
	PutEntry(ctx context.Context, e audit.Entry) error
	Entries(ctx context.Context, since, until time.Time, limit int) ([]audit.Entry, error)
}

// plans records and reads redrive plans; a write fails as that of a page does.
type plans interface {
	PutRedrive(ctx context.Context, r job.Redrive, pages []job.RedrivePage) error
	Redrive(ctx context.Context, id job.RedriveID) (job.Redrive, error)
	RedrivePages(ctx context.Context, id job.RedriveID) ([]job.RedrivePage, error)
	SwapRedrive(ctx context.Context, next job.Redrive) error
}

// schedule is what a scheduled redrive needs besides: which plans are under way, from
// an index that may lag, and whether it may move anything.
type schedule interface {
	OpenRedrives(ctx context.Context) ([]job.Redrive, error)
	AutoRedrive(ctx context.Context) (job.AutoRedrive, error)
	SwapAutoRedrive(ctx context.Context, next job.AutoRedrive) error
}

// letters are the region's dead letters. Peek hides nothing, Letters hides what it
// returns for the visibility timeout.
type letters interface {
	Peek(ctx context.Context, limit int) ([]job.DeadLetter, error)
	Letters(ctx context.Context, limit int) ([]job.DeadLetter, error)
	Remove(ctx context.Context, d job.DeadLetter) error
	PutBack(ctx context.Context, d job.DeadLetter) error
}

// sender sends messages to the pages queue of a mode and says which were accepted.
type sender interface {
	Send(ctx context.Context, mode job.Mode, messages []job.Message) (accepted []string, err error)
}

// clock is the only source of time. Sleep returns early when ctx ends.
type clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
}

// Config is what a redriver is made of. Every field is required.
type Config struct {
	Pages     pages
	Runs      runs
	Policies  policies
	Approvals approvals
	Holds     holds
	Brakes    brakes
	Orders    orders
	Plans     plans
	Schedule  schedule
	Letters   letters
	Sender    sender
	Evidence  evidence
	Audit     audit.Sink
	Clock     clock
	Settings  contract.Settings
	// Region is the function's own. Nothing moves across regions (R88).
	Region string
	// Code is the code version, for events.
	Code string
}

// Redriver answers one request at a time. It keeps nothing between them.
type Redriver struct{ Config }

// New returns a redriver, or the reason its settings can not be used.
func New(c Config) (*Redriver, error) {
	if err := c.Settings.Validate(); err != nil {
		return nil, err
	}
	return &Redriver{c}, nil
}

// Handle answers one request: a JSON object with op and the fields of that op, which
// is plan where there is none. deadline is when the invocation ends. The answer is
// the type that the request's documentation names; a refusal is an error of
// failure.Invalid, Conflict or Absent that says what to do.
func (r *Redriver) Handle(ctx context.Context, deadline time.Time, payload []byte) (any, error) {
	op, err := opOf(payload)
	if err != nil {
		return nil, err
	}
	switch op {
	case OpInspect:
		return answer(ctx, deadline, op, payload, r.inspect)
	case OpPlan:
		return answer(ctx, deadline, op, payload, r.plan)
	case OpApply:
		return answer(ctx, deadline, op, payload, r.apply)
	case OpResume:
		return answer(ctx, deadline, op, payload, r.resume)
	case OpStatus:
		return answer(ctx, deadline, op, payload, r.status)
	case OpDiscard:
		return answer(ctx, deadline, op, payload, r.discard)
	case OpBrake:
		return answer(ctx, deadline, op, payload, r.brake)
	case OpApprove:
		return answer(ctx, deadline, op, payload, r.approve)
	case OpReject:
		return answer(ctx, deadline, op, payload, r.reject)
	case OpVersion:
		return answer(ctx, deadline, op, payload, r.version)
	case OpAuto:
		return answer(ctx, deadline, op, payload, r.auto)
	case OpScheduled:
		return answer(ctx, deadline, op, payload, r.scheduled)
	case OpDrill:
		return answer(ctx, deadline, op, payload, r.drill)
	case OpFinish:
		return answer(ctx, deadline, op, payload, r.finish)
	default:
		return nil, failure.New(failure.Invalid, opDecode, "op is none of "+opNames())
	}
}

// answer decodes the op's request strictly and has it done.
func answer[Q, A any](
	ctx context.Context, deadline time.Time, op string, payload []byte,
	do func(context.Context, time.Time, Q) (A, error),
) (any, error) {
	var q Q
	if err := decode(op, payload, &q); err != nil {
		return nil, err
	}
	a, err := do(ctx, deadline, q)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (r *Redriver) now() time.Time { return r.Clock.Now().UTC() }

// late reports whether there is no time to start another step.
func (r *Redriver) late(deadline time.Time) bool {
	return deadline.Sub(r.Clock.Now()) < r.Settings.TakeMargin
}

// order writes an order down, in the ledger and then in the log. What is ordered
// happens only after it returns without an error (E7).
func (r *Redriver) order(ctx context.Context, s audit.Signature, e audit.Entry) error {
	e.At, e.Region, e.By, e.Reason = r.now(), r.Region, s.By, s.Reason
	if err := r.Orders.PutEntry(ctx, e); err != nil {
		return err
	}
	line := e.Event()
	line.CodeVersion = r.Code
	r.Audit.Emit(line)
	return nil
}

func (r *Redriver) emit(e audit.Event) {
	e.Time, e.CodeVersion = r.now(), r.Code
	r.Audit.Emit(e)
}
