package hold_test

import (
	"context"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// mutant is a keeper with one of its rules taken away, by something that stands between
// it and the ledger or the store: the code under test is always the real one.
type mutant struct {
	name string
	// rule is what it breaks, and seed a play that shows it. Another order of the
	// worker's calls makes other plays of the same seeds; then the test finds a seed
	// that does, and says which.
	rule   string
	seed   uint64
	change func(by *process, c *hold.Config)
}

func mutants() []mutant {
	return []mutant{
		{"F12: the pages are read before the hold is written", "S4", 769, func(by *process, c *hold.Config) {
			early := &earlyPages{taps: taps{by}}
			c.Holds, c.Pages = early, early
		}},
		{"HELD over an open intent", "S4", 28, func(by *process, c *hold.Config) {
			c.Pages = alteredPages{taps{by}, func(p job.Page) job.Page {
				if !p.State.Terminal() {
					p.Intent = job.Intent{}
				}
				return p
			}}
		}},
		{"HELD for a terminal page before its quiet time", "S4", 108, func(by *process, c *hold.Config) {
			c.Pages = alteredPages{taps{by}, func(p job.Page) job.Page {
				if p.State.Terminal() {
					p.QuietAt = noon
				}
				return p
			}}
		}},
		{"an intent is over with its lease", "S4", 52, func(by *process, c *hold.Config) {
			c.Pages = alteredPages{taps{by}, func(p job.Page) job.Page {
				if !p.QuietAt.IsZero() {
					p.QuietAt = p.QuietAt.Add(-by.w.set.RequestLifetime)
				}
				return p
			}}
		}},
		{"an intent that knew the hold is taken for the first", "HELD", 15, func(by *process, c *hold.Config) {
			c.Pages = alteredPages{taps{by}, func(p job.Page) job.Page {
				if p.Intent.Epoch > 0 {
					p.Intent = job.Intent{}
				}
				return p
			}}
		}},
		{"HELD without knowing that the hold is placed", "answer", 4, func(by *process, c *hold.Config) { c.Holds = trusting{taps{by}} }},
		{"resolved without a look", "HELD", 5, func(by *process, c *hold.Config) { c.Lister = blind{by.w} }},
		{"what can not be read is not there", "S4", 213, func(by *process, c *hold.Config) { c.Pages = deaf{taps{by}} }},
		{"an ended run is history at once", "S4", 3298, func(by *process, c *hold.Config) { c.Runs = forgetful{taps{by}} }},
	}
}

// earlyPages answers with the pages as they were before the hold was placed.
type earlyPages struct {
	taps
	pages map[job.RunID][]job.Page
}

func (e *earlyPages) PlaceHold(ctx context.Context, h hold.Hold) (hold.Hold, error) {
	e.pages = map[job.RunID][]job.Page{}
	runs, err := e.w.ledger.RunsOf(ctx, acme)
	sure(err)
	for _, run := range runs {
		e.pages[run] = e.w.ledger.AllPages(run)
	}
	return e.taps.PlaceHold(ctx, h)
}

func (e *earlyPages) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	if e.pages == nil {
		return e.taps.Pages(ctx, run, tenant, after, limit)
	}
	return e.pages[run], nil
}

func (e *earlyPages) PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error) {
	if e.pages == nil {
		return e.taps.PageAt(ctx, run, tenant, key)
	}
	for _, p := range e.pages[run] {
		if p.Kind == job.RangePage && p.After < key && key <= p.Through {
			return p, nil
		}
	}
	return job.Page{}, class(failure.Absent)
}

// trusting takes every placement for done.
type trusting struct{ taps }

func (t trusting) PlaceHold(ctx context.Context, h hold.Hold) (hold.Hold, error) {
	if stored, err := t.taps.PlaceHold(ctx, h); err == nil {
		return stored, nil
	}
	return h, nil
}

// alteredPages answers with pages that are not as they are.
type alteredPages struct {
	taps
	alter func(job.Page) job.Page
}

func (a alteredPages) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	pages, err := a.taps.Pages(ctx, run, tenant, after, limit)
	for i, p := range pages {
		pages[i] = a.alter(p)
	}
	return pages, err
}

func (a alteredPages) PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error) {
	p, err := a.taps.PageAt(ctx, run, tenant, key)
	return a.alter(p), err
}

func (a alteredPages) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	p, err := a.taps.Page(ctx, run, tenant, id)
	return a.alter(p), err
}

// blind sees what the scan saw.
type blind struct{ w *world }

func (b blind) List(_ context.Context, q job.Query) (l job.Listing, err error) {
	for _, item := range b.w.scanned {
		if strings.HasPrefix(item.Key, q.Prefix) && item.Key > q.After && item.Key <= q.Through {
			l.Items = append(l.Items, item)
		}
	}
	return l, nil
}

// deaf takes no answer for an empty one.
type deaf struct{ taps }

func (d deaf) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	pages, err := d.taps.Pages(ctx, run, tenant, after, limit)
	if err != nil {
		return nil, nil //nolint:nilerr // that is the mistake
	}
	return pages, nil
}

func (d deaf) PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error) {
	p, err := d.taps.PageAt(ctx, run, tenant, key)
	if err != nil {
		return p, class(failure.Absent)
	}
	return p, nil
}

// forgetful takes a run that is over for one that was long over.
type forgetful struct{ taps }

func (f forgetful) ReadRuns(ctx context.Context, ids []job.RunID) ([]job.Run, error) {
	runs, err := f.taps.ReadRuns(ctx, ids)
	for i := range runs {
		if runs[i].State == job.Closed {
			runs[i].ClosedAt = time.Time{}
		}
	}
	return runs, err
}
