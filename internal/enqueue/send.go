package enqueue

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
)

// sendBatch is how many pages are read and sent at a time.
const sendBatch = 100

// send sends every planned page of a released run and notes each that was
// accepted. What is not accepted, and what time does not suffice for, stays
// planned: reconcile sends it when it is overdue.
func (e *Enqueuer) send(ctx context.Context, deadline time.Time, run job.Run) error {
	tenants, err := e.Pages.Tenants(ctx, run.ID)
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		var last *job.Page
		for {
			if e.late(deadline) {
				return nil
			}
			pages, err := e.Pages.Pages(ctx, run.ID, tenant, last, sendBatch)
			if err != nil {
				return err
			}
			if len(pages) == 0 {
				break
			}
			if err := e.sendPages(ctx, run, pages); err != nil {
				return err
			}
			last = &pages[len(pages)-1]
		}
	}
	return nil
}

func (e *Enqueuer) sendPages(ctx context.Context, run job.Run, pages []job.Page) error {
	var messages []job.Message
	planned := map[string]job.Page{}
	for _, p := range pages {
		if p.State == job.Planned {
			m := job.NewMessage(run, p)
			messages, planned[m.ID] = append(messages, m), p
		}
	}
	if len(messages) == 0 {
		return nil
	}
	accepted, err := e.Sender.Send(ctx, run.Mode, messages)
	e.sent(ctx, run, accepted, planned)
	if missing := len(messages) - len(accepted); missing > 0 {
		e.emit(audit.Event{Event: audit.BatchEntriesRefused, Count: missing}.About(run, job.Page{Tenant: pages[0].Tenant}))
	}
	return err
}

// sent notes the accepted messages, all at once. The note is a hint for reconcile:
// when it is lost, or a worker was faster with one of the pages, they are sent
// once more or are further already.
func (e *Enqueuer) sent(ctx context.Context, run job.Run, accepted []string, planned map[string]job.Page) {
	due := e.Clock.Now().UTC().Add(e.Settings.Overdue())
	var noted []job.Page
	for _, id := range accepted {
		e.emit(audit.Event{Event: audit.Enqueued, Count: planned[id].Candidates}.About(run, planned[id]))
		if next, err := planned[id].Send(due); err == nil {
			noted = append(noted, next)
		}
	}
	if len(noted) > 0 {
		_ = e.Pages.SwapPages(ctx, noted)
	}
}
