package main

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
)

// records is the ledger, for reading. There is no write in it, and nothing in this
// package holds the table itself: TestRecordsHaveNoWrite.
type records struct {
	runRecords
	pageRecords
	openRecords
	tenantRecords
	policyRecords
	redriveRecords
	workerRecords
	watchRecords
}

type runRecords interface {
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	OpenRuns(ctx context.Context) ([]job.Run, error)
	AwaitingRuns(ctx context.Context) ([]job.Run, error)
	RecentRuns(ctx context.Context, policy string, limit int) ([]job.Run, error)
}

type pageRecords interface {
	PageByID(ctx context.Context, id job.PageID) (job.Page, error)
	PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error)
	Tenants(ctx context.Context, run job.RunID) ([]string, error)
	Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error)
}

// openRecords find what is open from an index that may lag.
type openRecords interface {
	OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error)
	DeadPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error)
	Brakes(ctx context.Context) ([]job.Brake, error)
	Entries(ctx context.Context, since, until time.Time, limit int) ([]audit.Entry, error)
}

type tenantRecords interface {
	RunsOf(ctx context.Context, tenant string) ([]job.RunID, error)
	Epoch(ctx context.Context, tenant string) (int64, error)
	Holds(ctx context.Context, tenant string) (hold.Set, error)
}

type policyRecords interface {
	PolicyNames(ctx context.Context) ([]string, error)
	LatestPolicy(ctx context.Context, name string) (policy.Policy, error)
	Policy(ctx context.Context, name string, version int) (policy.Policy, error)
	Approval(ctx context.Context, name string) (policy.Approval, error)
}

type redriveRecords interface {
	Redrive(ctx context.Context, id job.RedriveID) (job.Redrive, error)
	RedrivePages(ctx context.Context, id job.RedriveID) ([]job.RedrivePage, error)
	OpenRedrives(ctx context.Context) ([]job.Redrive, error)
	AutoRedrive(ctx context.Context) (job.AutoRedrive, error)
}

// workerRecords read what a worker reads.
type workerRecords interface {
	Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error)
	Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error)
}

type watchRecords interface {
	Watch(ctx context.Context, name string) (job.Watch, error)
	ClosedRuns(ctx context.Context, name string, limit int) ([]job.Run, error)
}

// read takes the writes from a ledger.
func read(t *ledger.Table) records { return records{t, t, t, t, t, t, t, t} }

// pagesOf reads every page of a run, tenant by tenant, and hands each over. It stops
// at the first error.
func pagesOf(ctx context.Context, r records, run job.RunID, each func(job.Page) error) error {
	tenants, err := r.Tenants(ctx, run)
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		for last := (*job.Page)(nil); ; {
			pages, err := r.Pages(ctx, run, tenant, last, 100)
			if err != nil {
				return err
			}
			if len(pages) == 0 {
				break
			}
			for _, p := range pages {
				if err := each(p); err != nil {
					return err
				}
			}
			last = &pages[len(pages)-1]
		}
	}
	return nil
}
