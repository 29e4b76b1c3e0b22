package reconcile

import (
	"context"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
)

// closeBatch is how many pages are read at a time when a run is summed.
const closeBatch = 500

// close seals a run whose pages are all completed or discarded. A dead page keeps
// it open: a redrive would change the totals. The rows are read strongly
// consistent and in order, so a completed parent is never seen without its
// split-off items (F16).
func (p *pass) close(ctx context.Context, id job.RunID) error {
	run, err := p.Runs.Run(ctx, id)
	if err != nil || run.State != job.Released {
		return err
	}
	sum, open, err := p.sum(ctx, run)
	if err != nil || open {
		return err
	}
	if sum.examined != run.Examined-run.Unmatched || sum.ranges != run.Pages || sum.recorded != run.Candidates {
		// E5: what the scan recorded and what the rows say differ. The run stays
		// open, and the alarm on this event names it.
		p.emit(audit.Event{Event: audit.TotalsMismatch, Count: sum.recorded - run.Candidates}.About(run, job.Page{}))
		return nil
	}
	closed, err := run.Close(p.now(), sum.totals)
	if err == nil {
		err = p.Runs.SwapRun(ctx, closed)
	}
	if err != nil {
		return ignoreConflict(err)
	}
	p.did.Closed++
	p.emit(audit.Event{Event: audit.RunClosed, Count: sum.totals.Counts.Sum()}.About(closed, job.Page{}))
	return nil
}

// sums is what the rows of a run add up to.
type sums struct {
	totals                     job.Totals
	ranges, examined, recorded int
}

// sum reads every page of the run and reports whether one is still open or dead.
func (p *pass) sum(ctx context.Context, run job.Run) (s sums, open bool, err error) {
	tenants, err := p.Rows.Tenants(ctx, run.ID)
	if err != nil {
		return s, false, err
	}
	for _, tenant := range tenants {
		var last *job.Page
		for {
			pages, err := p.Rows.Pages(ctx, run.ID, tenant, last, closeBatch)
			if err != nil {
				return s, false, err
			}
			if len(pages) == 0 {
				break
			}
			for _, page := range pages {
				if !page.State.Terminal() {
					return s, true, nil
				}
				s.totals = s.totals.Plus(page.Totals())
				if page.Kind == job.RangePage {
					s.ranges++
					s.examined += page.Examined
					s.recorded += page.Candidates
				}
			}
			last = &pages[len(pages)-1]
		}
	}
	return s, false, nil
}
