package sim

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// The methods of a bench that are a ledger's: each is the view's, as one call.

func (x *bench) PublishPolicy(ctx context.Context, p policy.Policy) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.PublishPolicy(ctx, p) })
	return err
}

func (x *bench) Policy(ctx context.Context, name string, version int) (got policy.Policy, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Policy(ctx, name, version) })
	return got, err
}

func (x *bench) LatestPolicy(ctx context.Context, name string) (got policy.Policy, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.LatestPolicy(ctx, name) })
	return got, err
}

func (x *bench) OpenRun(ctx context.Context, r job.Run) (got job.Run, also bool, err error) {
	x.do(func(i *instance) { got, also, err = ledgerView{i}.OpenRun(ctx, r) })
	return got, also, err
}

func (x *bench) Run(ctx context.Context, id job.RunID) (got job.Run, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Run(ctx, id) })
	return got, err
}

func (x *bench) ReadRuns(ctx context.Context, ids []job.RunID) (got []job.Run, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.ReadRuns(ctx, ids) })
	return got, err
}

func (x *bench) SwapRun(ctx context.Context, next job.Run) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.SwapRun(ctx, next) })
	return err
}

func (x *bench) ClosedRuns(ctx context.Context, name string, limit int) (got []job.Run, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.ClosedRuns(ctx, name, limit) })
	return got, err
}

func (x *bench) Record(ctx context.Context, next job.Run, page *job.Page) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.Record(ctx, next, page) })
	return err
}

func (x *bench) Tenants(ctx context.Context, run job.RunID) (got []string, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Tenants(ctx, run) })
	return got, err
}

func (x *bench) RunsOf(ctx context.Context, tenant string) (got []job.RunID, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.RunsOf(ctx, tenant) })
	return got, err
}

func (x *bench) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) (got []job.Page, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Pages(ctx, run, tenant, after, limit) })
	return got, err
}

func (x *bench) PageAt(ctx context.Context, run job.RunID, tenant, key string) (got job.Page, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.PageAt(ctx, run, tenant, key) })
	return got, err
}

func (x *bench) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (got job.Page, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Page(ctx, run, tenant, id) })
	return got, err
}

func (x *bench) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (got job.Page, also []job.Brake, err error) {
	x.do(func(i *instance) { got, also, err = ledgerView{i}.Look(ctx, run, tenant, id) })
	return got, also, err
}

func (x *bench) SwapPage(ctx context.Context, next job.Page) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.SwapPage(ctx, next) })
	return err
}

func (x *bench) SwapPages(ctx context.Context, next []job.Page) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.SwapPages(ctx, next) })
	return err
}

func (x *bench) Intend(ctx context.Context, next job.Page, epoch int64) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.Intend(ctx, next, epoch) })
	return err
}

func (x *bench) Complete(ctx context.Context, next job.Page, children []job.Page) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.Complete(ctx, next, children) })
	return err
}

func (x *bench) OpenRuns(ctx context.Context) (got []job.Run, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.OpenRuns(ctx) })
	return got, err
}

func (x *bench) OpenPages(ctx context.Context, after *job.Page, limit int) (got []job.Page, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.OpenPages(ctx, after, limit) })
	return got, err
}

func (x *bench) DeadPages(ctx context.Context, after *job.Page, limit int) (got []job.Page, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.DeadPages(ctx, after, limit) })
	return got, err
}

func (x *bench) OpenRedrives(ctx context.Context) (got []job.Redrive, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.OpenRedrives(ctx) })
	return got, err
}

func (x *bench) Epoch(ctx context.Context, tenant string) (got int64, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Epoch(ctx, tenant) })
	return got, err
}

func (x *bench) Holds(ctx context.Context, tenant string) (got hold.Set, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Holds(ctx, tenant) })
	return got, err
}

func (x *bench) PlaceHold(ctx context.Context, h hold.Hold) (got hold.Hold, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.PlaceHold(ctx, h) })
	return got, err
}

func (x *bench) ReleaseHold(ctx context.Context, tenant, id string, at time.Time) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.ReleaseHold(ctx, tenant, id, at) })
	return err
}

func (x *bench) Brakes(ctx context.Context) (got []job.Brake, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Brakes(ctx) })
	return got, err
}

func (x *bench) SetBrake(ctx context.Context, b job.Brake) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.SetBrake(ctx, b) })
	return err
}

func (x *bench) ReleaseBrake(ctx context.Context, b job.Brake) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.ReleaseBrake(ctx, b) })
	return err
}

func (x *bench) Approval(ctx context.Context, name string) (got policy.Approval, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Approval(ctx, name) })
	return got, err
}

func (x *bench) Approve(ctx context.Context, next policy.Approval) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.Approve(ctx, next) })
	return err
}

func (x *bench) Watch(ctx context.Context, name string) (got job.Watch, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Watch(ctx, name) })
	return got, err
}

func (x *bench) SwapWatch(ctx context.Context, next job.Watch) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.SwapWatch(ctx, next) })
	return err
}

func (x *bench) PutEntry(ctx context.Context, e audit.Entry) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.PutEntry(ctx, e) })
	return err
}

func (x *bench) Entries(ctx context.Context, since, until time.Time, limit int) (got []audit.Entry, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Entries(ctx, since, until, limit) })
	return got, err
}

func (x *bench) PutRedrive(ctx context.Context, r job.Redrive, pages []job.RedrivePage) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.PutRedrive(ctx, r, pages) })
	return err
}

func (x *bench) Redrive(ctx context.Context, id job.RedriveID) (got job.Redrive, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.Redrive(ctx, id) })
	return got, err
}

func (x *bench) RedrivePages(ctx context.Context, id job.RedriveID) (got []job.RedrivePage, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.RedrivePages(ctx, id) })
	return got, err
}

func (x *bench) SwapRedrive(ctx context.Context, next job.Redrive) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.SwapRedrive(ctx, next) })
	return err
}

func (x *bench) AutoRedrive(ctx context.Context) (got job.AutoRedrive, err error) {
	x.do(func(i *instance) { got, err = ledgerView{i}.AutoRedrive(ctx) })
	return got, err
}

func (x *bench) SwapAutoRedrive(ctx context.Context, next job.AutoRedrive) (err error) {
	x.do(func(i *instance) { err = ledgerView{i}.SwapAutoRedrive(ctx, next) })
	return err
}
