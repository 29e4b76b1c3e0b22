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
	if !sum.agree(run) {
		// The run stays open, and the alarm on this event names it.
		p.emit(audit.Event{Event: audit.TotalsMismatch, Count: sum.recorded - run.Candidates}.About(run, job.Page{}))
		return nil
	}
	closed, err := run.Close(p.now(), sum.totals, job.Seal{})
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
	// moved is how many items the parents gave away, items how many pages came of it.
	moved, items int
	// unsettled: a completed page whose outcomes are not what its plan held.
	unsettled bool
}

// agree reports whether the rows say what the scan recorded, and every planned
// item has its one outcome (E5).
func (s sums) agree(run job.Run) bool {
	return s.examined == run.Examined-run.Unmatched && s.ranges == run.Pages && s.recorded == run.Candidates &&
		s.moved == s.items && !s.unsettled
}

func (s *sums) add(page job.Page) {
	s.totals = s.totals.Plus(page.Totals())
	s.moved += page.Moved
	s.unsettled = s.unsettled || page.State == job.Completed && page.Counts.Sum()+page.Moved != page.Planned
	if page.Kind == job.ItemPage {
		s.items++
		return
	}
	s.ranges++
	s.examined += page.Examined
	s.recorded += page.Candidates
}

// sum reads every page of the run and reports whether one is still open or dead,
// or time did not suffice to say.
func (p *pass) sum(ctx context.Context, run job.Run) (s sums, open bool, err error) {
	tenants, err := p.Rows.Tenants(ctx, run.ID)
	if err != nil {
		return s, false, err
	}
	for _, tenant := range tenants {
		var last *job.Page
		for {
			if p.late() {
				return s, true, nil
			}
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
				s.add(page)
			}
			last = &pages[len(pages)-1]
		}
	}
	return s, false, nil
}
