package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// openBatch is how many open pages are read at a time.
const openBatch = 100

// maxVoided is how many pages of rejected runs a pass ends: a few seconds of it, for
// they are older than what is overdue and hurt only by being there.
const maxVoided = 500

// overdue walks every open page once, the longest open first: it measures all of
// them, and treats those that are overdue in the first half of the pass. A large run
// that was just approved has more of them than a pass can send, pass after pass, and
// what comes after must not wait for it; those that it did not get to come first in the
// next. When time runs out, what was seen of their age is the least that it can be.
func (p *pass) overdue(ctx context.Context) {
	var err error
	if p.brakes, err = p.Rows.Brakes(ctx); err != nil {
		p.note(err)
		p.brakes = []job.Brake{{}} // one might be set that covers everything
	}
	start := p.now() // what comes due during the walk is the next pass's
	half := start.Add((p.deadline.Sub(start) - p.Settings.TakeMargin) / 2)
	for last := (*job.Page)(nil); !p.late(); {
		pages, err := p.Index.OpenPages(ctx, last, openBatch)
		if err != nil {
			p.note(err)
			break
		}
		if len(pages) == 0 {
			break
		}
		last = &pages[len(pages)-1]
		if due := p.due(ctx, pages, start); p.now().Before(half) {
			p.treat(ctx, due)
			p.void(ctx, pages)
		}
	}
	p.measureOpen()
}

// due looks at the pages as the index shows them, and returns those to be treated.
// What a brake or the run's state rules out is passed over unread: these rows are
// the oldest in every pass, and there can be many. A letter is owed all the same.
func (p *pass) due(ctx context.Context, hints []job.Page, start time.Time) (due []job.Page) {
	for _, hint := range hints {
		p.unended[hint.Run] = true
		run, ok := p.run(ctx, hint.Run)
		if !ok {
			continue
		}
		p.see(run, hint)
		if hint.State == job.Dead || !p.idle(run) && !start.Before(hint.NextDue) {
			due = append(due, hint)
		}
	}
	return due
}

// void ends the pages of rejected runs. As long as the index shows them, every pass
// walks past them to what is younger, and a rejected run is a large one.
func (p *pass) void(ctx context.Context, hints []job.Page) {
	for _, hint := range hints {
		if p.did.Voided == maxVoided {
			return
		}
		if run, ok := p.run(ctx, hint.Run); !ok || run.State != job.Rejected || hint.State != job.Planned {
			continue
		}
		next, err := hint.Void(p.now())
		if err == nil {
			err = p.Runs.SwapPage(ctx, next)
		}
		if err == nil {
			p.did.Voided++
		}
		p.note(ignoreConflict(err))
	}
}

// idle reports whether nothing may be sent of the run.
func (p *pass) idle(run job.Run) bool {
	return run.State != job.Released || slices.ContainsFunc(p.brakes, func(b job.Brake) bool { return b.Covers(run.Policy, run.Version) })
}

// treat reads each page again and buries it, makes its letter durable, or sends it.
func (p *pass) treat(ctx context.Context, hints []job.Page) {
	due := map[job.Mode][]job.Page{}
	for _, hint := range hints {
		run, ok := p.run(ctx, hint.Run)
		if !ok {
			continue
		}
		page, err := p.Rows.Page(ctx, hint.Run, hint.Tenant, hint.ID)
		switch now := p.now(); {
		case err != nil:
			p.note(err)
		case page.State == job.Dead:
			p.note(p.letter(ctx, run, page))
		case p.idle(run) || !page.State.Open() || now.Before(page.NextDue) || page.LeaseLive(now):
		default:
			if reason, over := page.Expired(now, p.Settings.MaxAttempts, p.Settings.AgeCeiling); over {
				p.note(p.bury(ctx, run, page, reason))
			} else {
				due[run.Mode] = append(due[run.Mode], page)
			}
		}
	}
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		if len(due[mode]) > 0 {
			p.note(p.resend(ctx, mode, due[mode]))
		}
	}
}

// resend sends the pages' commands again, byte for byte, and notes when each is
// overdue next.
func (p *pass) resend(ctx context.Context, mode job.Mode, pages []job.Page) error {
	messages := make([]job.Message, len(pages))
	byID := make(map[string]job.Page, len(pages))
	for i, page := range pages {
		messages[i] = job.NewMessage(p.runs[page.Run].run, page)
		byID[messages[i].ID] = page
	}
	accepted, err := p.Queue.Send(ctx, mode, messages)
	if missing := len(messages) - len(accepted); missing > 0 {
		p.emit(audit.Event{Event: audit.BatchEntriesRefused, Region: p.Region, Count: missing})
	}
	errs := []error{err}
	for _, id := range accepted {
		page := byID[id]
		p.emit(audit.Event{Event: audit.Enqueued, Count: page.Candidates}.About(p.runs[page.Run].run, page))
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
