// Package reconcile finds work that nobody is doing and asks for it again.
//
// A queue forgets: a send fails in part, a message expires, a process dies
// between two writes. The ledger does not, so every open page carries the instant
// at which it is overdue, and every pass sends whatever is past it, in whatever
// state (F7). A page sent twice is harmless; a page that is never sent is the
// failure this package exists to prevent. It also resumes scans, makes owed dead
// letters durable, and closes a run when consistent reads say that nothing of it
// is open. It decides nothing about items and can not delete.
//
// # What is closed is sealed
//
// A run is closed with the hash of its manifest, which lists every page with the
// hashes of its plan and its receipt. The manifest is written first: a run is never
// closed without its evidence, and one that dies in between leaves a document that
// the next pass writes again, byte for byte. Totals and entries come from one read
// of the pages. Those are settled and do not change, and the run's row is written
// only if it has not moved since.
//
// # What did not happen is said
//
// Nothing else notices a schedule that was deleted, or a date that a clock change
// took away. So a pass walks the dates of every deployed policy, says which of them
// have no run, and starts the newest of these where the policy asks for it: started
// twice it is the same run. How far it has looked stands in the ledger.
//
// Every pass also measures what is open and how old it is. Where there is nothing, or
// nothing is known, it says nothing; what is known only in part is at least what is
// said. One value is said by every pass, at its end, and its absence is itself an
// alarm: how many dates are behind, 0 included. A pass that died, or could not find it
// out, must not say 0.
package reconcile

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// index finds open work. It may lag behind the rows: what it misses in one pass
// it shows in the next, and what it shows is read again before anything is written.
type index interface {
	OpenRuns(ctx context.Context) ([]job.Run, error)
	OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error)
	DeadPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error)
	OpenRedrives(ctx context.Context) ([]job.Redrive, error)
}

// rows reads strongly consistent.
type rows interface {
	Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error)
	Tenants(ctx context.Context, run job.RunID) ([]string, error)
	Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error)
	Brakes(ctx context.Context) ([]job.Brake, error)
}

// runs reads and moves runs and pages; a write fails with failure.Conflict when
// the row is not the one it was computed from.
type runs interface {
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	ClosedRuns(ctx context.Context, policy string, limit int) ([]job.Run, error)
	SwapRun(ctx context.Context, next job.Run) error
	SwapPage(ctx context.Context, next job.Page) error
}

// watches keeps how far each policy's schedule was looked at. A write fails with
// failure.Conflict when the row has moved.
type watches interface {
	Watch(ctx context.Context, policy string) (job.Watch, error)
	SwapWatch(ctx context.Context, next job.Watch) error
	// PublishPolicy records a version; other content under its number is failure.Invalid.
	PublishPolicy(ctx context.Context, p policy.Policy) error
}

// plans reads redrives strongly consistent and closes them. The same entry again
// changes nothing.
type plans interface {
	Redrive(ctx context.Context, id job.RedriveID) (job.Redrive, error)
	RedrivePages(ctx context.Context, id job.RedriveID) ([]job.RedrivePage, error)
	SwapRedrive(ctx context.Context, next job.Redrive) error
	PutEntry(ctx context.Context, e audit.Entry) error
}

// scans goes on with an unfinished scan, or begins the run of a scheduled date.
// Asked twice for one date it begins one run.
type scans interface {
	Resume(ctx context.Context, deadline time.Time, id job.RunID) error
	Start(ctx context.Context, deadline time.Time, policy string, scheduled time.Time) error
}

// redrives goes on with a plan that was applied. Asked twice it moves no page twice.
type redrives interface {
	Resume(ctx context.Context, deadline time.Time, id job.RedriveID) error
}

// evidence keeps a document under its name, once: the same bytes again are no error.
type evidence interface {
	Put(ctx context.Context, name string, data []byte) error
}

// queue sends messages and makes dead letters durable.
type queue interface {
	Send(ctx context.Context, mode job.Mode, messages []job.Message) (accepted []string, err error)
	DeadLetter(ctx context.Context, l job.Letter) error
}

// clock is the only source of time.
type clock interface{ Now() time.Time }

// Config is what a reconciler is made of. Every field is required.
type Config struct {
	Index    index
	Rows     rows
	Runs     runs
	Watches  watches
	Plans    plans
	Scans    scans
	Redrives redrives
	Evidence evidence
	Queue    queue
	Audit    audit.Sink
	Gauges   audit.Gauges
	Clock    clock
	Settings contract.Settings
	// Region is the function's own.
	Region string
	// Deployed are the policy versions that ship with the function, by name. Those of
	// other regions are left alone, and so is what is no longer deployed: nobody
	// expects its dates.
	Deployed map[string]policy.Policy
	Code     string
}

// Reconciler runs one pass at a time. It keeps nothing between passes.
type Reconciler struct{ Config }

// New returns a reconciler, or the reason its settings can not be used.
func New(c Config) (*Reconciler, error) {
	if err := c.Settings.Validate(); err != nil {
		return nil, err
	}
	c.Deployed = maps.Clone(c.Deployed)
	maps.DeleteFunc(c.Deployed, func(_ string, of policy.Policy) bool { return of.Region != c.Region })
	return &Reconciler{c}, nil
}

// Summary is what a pass did.
type Summary struct {
	Resumed   int `json:"resumed"`         // scans that went on
	Resent    int `json:"resent"`          // pages whose message was accepted again
	Buried    int `json:"buried"`          // pages marked dead past their ceiling
	Letters   int `json:"letters"`         // owed dead letters made durable
	Closed    int `json:"closed"`          // runs, with their manifests
	Missed    int `json:"missed"`          // scheduled dates found without a run
	Started   int `json:"started"`         // runs of such dates that were asked for
	Continued int `json:"continued"`       // redrives that were asked to go on
	Finished  int `json:"finished"`        // redrives whose pages have all ended
	Voided    int `json:"voided,omitzero"` // pages of rejected runs, which wait for nobody
}

// Pass does everything once, as far as the deadline allows. The dates come first,
// because they are few and say what nobody else would; scans come last, because a
// large one takes all the time there is, pass after pass. One run's trouble does
// not stop the others; the error joins all of them.
func (r *Reconciler) Pass(ctx context.Context, deadline time.Time) (Summary, error) {
	p := &pass{
		Reconciler: r, deadline: deadline, runs: map[job.RunID]known{}, unended: map[job.RunID]bool{},
		redriven: map[job.RedriveID]bool{}, open: map[string]openWork{}, dates: maxDates,
	}
	open, err := r.Index.OpenRuns(ctx)
	p.note(err)
	for _, run := range open {
		p.runs[run.ID] = known{run: run}
	}
	lag, whole := p.watchAll(ctx)
	p.overdue(ctx)
	p.countDead(ctx)
	p.follow(ctx)
	p.closeAll(ctx, open)
	p.resume(ctx, open)
	p.measureLag(lag, whole)
	return p.did, errors.Join(p.errs...)
}

// pass is one pass's state.
type pass struct {
	*Reconciler
	deadline time.Time
	runs     map[job.RunID]known
	brakes   []job.Brake
	// unended are the runs that the index shows a page of that has not ended, redriven
	// the plans that it shows such a page of. There is no need to read them in full.
	unended  map[job.RunID]bool
	redriven map[job.RedriveID]bool
	// open is what the index shows of each policy's open pages.
	open map[string]openWork
	// dates is how many scheduled dates may still be looked at.
	dates int
	did   Summary
	errs  []error
}

// known is what reading a run gave. A run that can not be read is not tried again
// for each of its pages.
type known struct {
	run job.Run
	err error
}

func (p *pass) late() bool { return p.deadline.Sub(p.Clock.Now()) < p.Settings.TakeMargin }

func (p *pass) now() time.Time { return p.Clock.Now().UTC() }

// note keeps what went wrong and lets the pass go on.
func (p *pass) note(err error) {
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

// run reads a run once in a pass. Its error is noted once.
func (p *pass) run(ctx context.Context, id job.RunID) (run job.Run, ok bool) {
	k, again := p.runs[id]
	if !again {
		k.run, k.err = p.Runs.Run(ctx, id)
		p.runs[id] = k
		p.note(k.err)
	}
	return k.run, k.err == nil
}

// resume lets unfinished scans go on.
func (p *pass) resume(ctx context.Context, open []job.Run) {
	for _, run := range open {
		if run.State != job.Scanning || p.late() {
			continue
		}
		err := p.Scans.Resume(ctx, p.deadline, run.ID)
		if err == nil {
			p.did.Resumed++
		}
		p.note(err)
	}
}

// ignoreConflict drops the answer that somebody else moved the row: the next
// pass sees what it has become.
func ignoreConflict(err error) error {
	if failure.Is(err, failure.Conflict) {
		return nil
	}
	return err
}

func (p *pass) emit(e audit.Event) {
	e.Time, e.CodeVersion = p.now(), p.Code
	p.Audit.Emit(e)
}
