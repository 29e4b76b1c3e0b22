// Package reconcile finds work that nobody is doing and asks for it again.
//
// A queue forgets: a send fails in part, a message expires, a process dies
// between two writes. The ledger does not, so every open page carries the instant
// at which it is overdue, and every pass sends whatever is past it, in whatever
// state (F7). A page sent twice is harmless; a page that is never sent is the
// failure this package exists to prevent. It also resumes scans, makes owed dead
// letters durable, and closes a run when consistent reads say that nothing of it
// is open. It decides nothing about items and can not delete.
package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// index finds open work. It may lag behind the rows: what it misses in one pass
// it shows in the next, and what it shows is read again before anything is written.
type index interface {
	OpenRuns(ctx context.Context) ([]job.Run, error)
	OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error)
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
	SwapRun(ctx context.Context, next job.Run) error
	SwapPage(ctx context.Context, next job.Page) error
}

// scans goes on with an unfinished scan.
type scans interface {
	Resume(ctx context.Context, deadline time.Time, id job.RunID) error
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
	Scans    scans
	Queue    queue
	Audit    audit.Sink
	Clock    clock
	Settings contract.Settings
	Code     string
}

// Reconciler runs one pass at a time. It keeps nothing between passes.
type Reconciler struct{ Config }

// New returns a reconciler, or the reason its settings can not be used.
func New(c Config) (*Reconciler, error) {
	if err := c.Settings.Validate(); err != nil {
		return nil, err
	}
	return &Reconciler{c}, nil
}

// Summary is what a pass did.
type Summary struct {
	Resumed int `json:"resumed"` // scans that went on
	Resent  int `json:"resent"`  // pages whose message was accepted again
	Buried  int `json:"buried"`  // pages marked dead past their ceiling
	Letters int `json:"letters"` // owed dead letters made durable
	Closed  int `json:"closed"`  // runs
}

// Pass does everything once, as far as the deadline allows. Scans come last,
// because a large one takes all the time there is, pass after pass. One run's
// trouble does not stop the others; the error joins all of them.
func (r *Reconciler) Pass(ctx context.Context, deadline time.Time) (Summary, error) {
	p := &pass{Reconciler: r, deadline: deadline, runs: map[job.RunID]job.Run{}}
	var errs []error
	open, err := r.Index.OpenRuns(ctx)
	errs = append(errs, err, p.overdue(ctx))
	for _, run := range open {
		if run.State == job.Released && !p.late() {
			errs = append(errs, p.close(ctx, run.ID))
		}
	}
	for _, run := range open {
		if run.State == job.Scanning && !p.late() {
			if err := r.Scans.Resume(ctx, deadline, run.ID); err != nil {
				errs = append(errs, err)
			} else {
				p.did.Resumed++
			}
		}
	}
	return p.did, errors.Join(errs...)
}

// pass is one pass's state.
type pass struct {
	*Reconciler
	deadline time.Time
	runs     map[job.RunID]job.Run
	brakes   []job.Brake
	did      Summary
}

func (p *pass) late() bool { return p.deadline.Sub(p.Clock.Now()) < p.Settings.TakeMargin }

func (p *pass) now() time.Time { return p.Clock.Now().UTC() }

// overdueBatch is how many overdue pages are read at a time.
const overdueBatch = 100

// overdue walks every overdue page, past those that it leaves alone.
func (p *pass) overdue(ctx context.Context) error {
	var err error
	if p.brakes, err = p.Rows.Brakes(ctx); err != nil {
		return err
	}
	start := p.now() // a page sent in this pass is due later than this, so the walk ends
	var errs []error
	var last *job.Page
	for !p.late() {
		pages, err := p.Index.OpenPages(ctx, last, overdueBatch)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if len(pages) == 0 {
			break
		}
		end := pages[len(pages)-1]
		last = &end
		pages = slices.DeleteFunc(pages, func(page job.Page) bool { return page.State.Open() && start.Before(page.NextDue) })
		errs = append(errs, p.treat(ctx, pages))
	}
	return errors.Join(errs...)
}

// treat reads each page again and buries it, makes its letter durable, or sends it.
// What a brake or the run's state rules out is passed over unread: these rows are
// the oldest in every pass, and there can be many. A letter is owed all the same.
func (p *pass) treat(ctx context.Context, hints []job.Page) error {
	var errs []error
	due := map[job.Mode][]job.Page{}
	for _, hint := range hints {
		run, err := p.run(ctx, hint.Run)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		idle := run.State != job.Released || p.braked(run)
		if idle && hint.State != job.Dead {
			continue
		}
		page, err := p.Rows.Page(ctx, hint.Run, hint.Tenant, hint.ID)
		switch {
		case err != nil:
			errs = append(errs, err)
		case page.State == job.Dead:
			errs = append(errs, p.letter(ctx, run, page))
		case idle || !page.State.Open() || p.now().Before(page.NextDue) || page.LeaseLive(p.now()):
		default:
			if reason, over := page.Expired(p.now(), p.Settings.MaxAttempts, p.Settings.AgeCeiling); over {
				errs = append(errs, p.bury(ctx, run, page, reason))
			} else {
				due[run.Mode] = append(due[run.Mode], page)
			}
		}
	}
	for mode, pages := range due {
		errs = append(errs, p.resend(ctx, mode, pages))
	}
	return errors.Join(errs...)
}

func (p *pass) run(ctx context.Context, id job.RunID) (job.Run, error) {
	if run, ok := p.runs[id]; ok {
		return run, nil
	}
	run, err := p.Runs.Run(ctx, id)
	if err == nil {
		p.runs[id] = run
	}
	return run, err
}

func (p *pass) braked(run job.Run) bool {
	for _, b := range p.brakes {
		if b.Covers(run.Policy, run.Version) {
			return true
		}
	}
	return false
}

// resend sends the pages' commands again, byte for byte, and notes when each is
// overdue next.
func (p *pass) resend(ctx context.Context, mode job.Mode, pages []job.Page) error {
	messages := make([]job.Message, len(pages))
	byID := make(map[string]job.Page, len(pages))
	for i, page := range pages {
		messages[i] = job.NewMessage(p.runs[page.Run], page)
		byID[messages[i].ID] = page
	}
	accepted, err := p.Queue.Send(ctx, mode, messages)
	if missing := len(messages) - len(accepted); missing > 0 {
		p.emit(audit.Event{Event: audit.BatchEntriesRefused, Region: p.runs[pages[0].Run].Region, Count: missing})
	}
	errs := []error{err}
	for _, id := range accepted {
		page := byID[id]
		p.emit(audit.Event{Event: audit.Enqueued, Count: page.Candidates}.About(p.runs[page.Run], page))
		next, err := page.Send(p.now().Add(p.Settings.Overdue()))
		if err == nil {
			err = p.Runs.SwapPage(ctx, next)
		}
		if err == nil || failure.Is(err, failure.Conflict) { // a worker was faster: good
			p.did.Resent++
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// bury marks a page dead that has no attempt or time left, and makes its letter durable.
func (p *pass) bury(ctx context.Context, run job.Run, page job.Page, reason job.Reason) error {
	dead, err := page.Die("", reason, page.LastClass, page.Settlement(), p.now())
	if err == nil {
		err = p.Runs.SwapPage(ctx, dead)
	}
	if err != nil {
		return ignoreConflict(err)
	}
	p.did.Buried++
	return p.letter(ctx, run, dead)
}

// letter makes the dead letter of a dead page durable. The command is rebuilt
// from the ledger and has the same bytes as the one that was lost.
func (p *pass) letter(ctx context.Context, run job.Run, page job.Page) error {
	if !page.Death.LetterAt.IsZero() {
		return nil
	}
	err := p.Queue.DeadLetter(ctx, job.Letter{
		Body: job.NewCommand(run, page).Encode(), Reason: page.Death.Reason, RunID: run.ID, PageID: page.ID,
		Policy: run.Policy, Version: run.Version, Region: run.Region, Attempts: page.Attempts,
		FirstAt: page.RunnableAt(run), FailedAt: page.Death.At,
	})
	if err != nil {
		return err
	}
	lettered, err := page.Lettered(p.now())
	if err == nil {
		err = p.Runs.SwapPage(ctx, lettered)
	}
	if err != nil {
		return ignoreConflict(err)
	}
	p.did.Letters++
	e := audit.Event{Event: audit.DeadLettered, Reason: page.Death.Reason, FailureClass: page.LastClass}.About(run, page)
	p.emit(e)
	return nil
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
