package main

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

const (
	// observedRuns is how many ended runs of a policy are looked through: three months of
	// daily ones, and some requests.
	observedRuns = 100
	// observedPages is how many pages are read at most. Numbers from so many do not change
	// with more.
	observedPages = 20_000
)

// observed is a page with its run.
type observed struct {
	run  job.Run
	page job.Page
}

// observedSince returns the pages of the runs that were opened since an instant, those
// that are still open first and then the newest, and whether there are more than it
// reads. policy "" is every one.
func observedSince(ctx context.Context, r records, policy string, since time.Time) (pages []observed, more bool, err error) {
	runs, err := runsSince(ctx, r, policy, since)
	if err != nil {
		return nil, false, err
	}
	for _, run := range runs {
		if len(pages) >= observedPages {
			return pages, true, nil
		}
		err := pagesOf(ctx, r, run.ID, func(p job.Page) error {
			pages = append(pages, observed{run, p})
			return nil
		})
		if err != nil {
			return nil, false, err
		}
	}
	return pages, false, nil
}

func runsSince(ctx context.Context, r records, policy string, since time.Time) (runs []job.Run, err error) {
	open, err := r.OpenRuns(ctx)
	if err != nil {
		return nil, err
	}
	for _, run := range open {
		if policy == "" || run.Policy == policy {
			runs = append(runs, run)
		}
	}
	names, err := r.PolicyNames(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if policy != "" && name != policy {
			continue
		}
		ended, err := r.RecentRuns(ctx, name, observedRuns)
		if err != nil {
			return nil, err
		}
		for _, run := range ended {
			if run.State == job.Closed && !run.OpenedAt.Before(since) {
				runs = append(runs, run)
			}
		}
	}
	return runs, nil
}
