package reconcile

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// follow looks at every redrive that was applied and is not closed.
func (p *pass) follow(ctx context.Context) {
	if p.late() {
		return
	}
	open, err := p.Index.OpenRedrives(ctx)
	p.note(err)
	for _, hint := range open {
		switch {
		case p.late():
			return
		case !hint.MovedAt.IsZero():
			if !p.redriven[hint.ID] { // else a page of it was open a moment ago
				p.note(p.finish(ctx, hint.ID))
			}
		case p.now().Sub(hint.AppliedAt) >= p.Settings.FunctionTimeout: // before, whoever applied it may be at work
			err := p.Redrives.Resume(ctx, p.deadline, hint.ID)
			if err == nil {
				p.did.Continued++
			}
			p.note(err)
		}
	}
}

// finish closes a redrive whose pages have all ended, with an entry of how many it
// moved. The instant is when the last of them ended and not now, so that whoever
// dies between the entry and the redrive's row is followed by the same entry.
func (p *pass) finish(ctx context.Context, id job.RedriveID) error {
	plan, err := p.Plans.Redrive(ctx, id)
	if err != nil || !plan.Open() || plan.MovedAt.IsZero() {
		return err
	}
	pages, err := p.Plans.RedrivePages(ctx, id)
	if err != nil {
		return err
	}
	ended := ending{at: plan.MovedAt}
	for _, named := range pages {
		if p.late() {
			return nil
		}
		page, err := p.Rows.Page(ctx, named.Run, named.Tenant, named.ID)
		if failure.Is(err, failure.Absent) {
			continue // the apply has said so
		}
		if err != nil {
			return err
		}
		if page.RedriveID != id {
			continue // it was left where it was, or another plan has moved it since
		}
		if page.State.Open() {
			return nil
		}
		ended.add(page)
	}
	entry := audit.Entry{
		At: ended.at, Act: audit.RedriveClosed, Region: plan.Region, By: service, Reason: "every page that it moved has ended",
		RedriveID: id, Count: ended.moved,
	}
	if err := p.Plans.PutEntry(ctx, entry); err != nil {
		return err
	}
	if err := p.Plans.SwapRedrive(ctx, plan.Close(ended.at, ended.moved, ended.succeeded, ended.diedAgain)); err != nil {
		return ignoreConflict(err)
	}
	p.did.Finished++
	p.emit(entry.Event())
	return nil
}

// ending is how a redrive's pages ended, and when the last of them did.
type ending struct {
	at                          time.Time
	moved, succeeded, diedAgain int
}

// add counts a page that has ended. One that was given up without being settled
// first had died again.
func (e *ending) add(page job.Page) {
	at := page.SettledAt
	if page.State == job.Dead {
		at = page.Death.At
	}
	if at.After(e.at) {
		e.at = at
	}
	e.moved++
	if page.State == job.Completed {
		e.succeeded++
	} else {
		e.diedAgain++
	}
}
