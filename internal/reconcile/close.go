package reconcile

import (
	"context"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// closeBatch is how many pages are read at a time when a run is summed: as many as the
// ledger gives out in one answer, so that a shorter one is a tenant's last.
const closeBatch = 100

// closeAll closes what can be closed, and says how many runs do not add up. That is
// remembered nowhere: each pass finds it out again. It leaves time for the scans, because a run that is too large to be
// summed in one pass is so in every one.
func (p *pass) closeAll(ctx context.Context, open []job.Run) {
	mismatches, end := 0, p.deadline
	p.deadline = end.Add(-p.Settings.TakeMargin)
	defer func() { p.deadline = end }()
	for _, run := range open {
		if run.State != job.Released || p.unended[run.ID] {
			continue
		}
		if p.late() {
			break
		}
		s, err := p.sum(ctx, run.ID)
		switch {
		case err != nil:
			p.note(err)
		case s.open: // a page of it has not ended, or there was no time to look at all of them
		case !s.agree():
			// The run stays open, and the alarm on this event names it.
			mismatches++
			p.emit(audit.Event{Event: audit.TotalsMismatch, Count: s.recorded - s.run.Candidates}.About(s.run, job.Page{}))
		default:
			p.note(p.close(ctx, s))
		}
	}
	p.measure(contract.TotalsMismatches, "", float64(mismatches))
}

// close seals a run whose pages are all completed or discarded. A dead page keeps
// it open: a redrive would change the totals. The manifest is durable before the
// run is closed.
func (p *pass) close(ctx context.Context, s sums) error {
	m := receipt.NewManifest(s.run, s.entries, p.Code)
	seal, data, err := m.Encode()
	if err == nil {
		err = p.Evidence.Put(ctx, receipt.ManifestName(s.run.ID, seal.Manifest), data)
	}
	if err != nil {
		p.emit(audit.Event{Event: audit.SealFailed, FailureClass: failure.Of(err), Operation: failure.Op(err)}.About(s.run, job.Page{}))
		return err
	}
	closed, err := s.run.Close(p.now(), m.Header.Totals, seal)
	if err == nil {
		err = p.Runs.SwapRun(ctx, closed)
	}
	if err != nil {
		return ignoreConflict(err)
	}
	p.did.Closed++
	p.emit(audit.Event{Event: audit.RunClosed, Count: closed.Totals.Counts.Sum()}.About(closed, job.Page{}))
	return nil
}

// sums is what the rows of a run say.
type sums struct {
	run job.Run // as it was before its pages were read
	// open: the run or one of its pages has not ended, or time did not suffice to say.
	open bool
	// entries are the pages in the ledger's order.
	entries []receipt.ManifestPage

	ranges, examined, recorded int
	// moved is how many items the parents gave away, items how many pages came of it.
	moved, items int
	// unsettled: a completed page whose outcomes are not what its plan held.
	unsettled bool
}

// agree reports whether the rows say what the scan recorded, and every planned
// item has its one outcome (E5).
func (s *sums) agree() bool {
	return s.examined == s.run.Examined-s.run.Unmatched && s.ranges == s.run.Pages && s.recorded == s.run.Candidates &&
		s.moved == s.items && !s.unsettled
}

func (s *sums) add(page job.Page) {
	s.entries = append(s.entries, receipt.NewManifestPage(page))
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

// sum reads the run, and then every page of it, strongly consistent and in order, so
// that a completed parent is never seen without its split-off items (F16). It stops
// at the first page that has not ended.
func (p *pass) sum(ctx context.Context, id job.RunID) (s sums, err error) {
	s.run, err = p.Runs.Run(ctx, id)
	if s.open = s.run.State != job.Released; s.open || err != nil {
		return s, err
	}
	tenants, err := p.Rows.Tenants(ctx, id)
	if err != nil {
		return s, err
	}
	for _, tenant := range tenants {
		for last := (*job.Page)(nil); ; {
			if s.open = p.late(); s.open {
				return s, nil
			}
			pages, err := p.Rows.Pages(ctx, id, tenant, last, closeBatch)
			if err != nil {
				return s, err
			}
			for _, page := range pages {
				if s.open = !page.State.Terminal(); s.open {
					return s, nil
				}
				s.add(page)
			}
			if len(pages) < closeBatch {
				break
			}
			last = &pages[len(pages)-1]
		}
	}
	return s, nil
}
