package reconcile

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
)

// counted is a ledger that counts the calls.
type counted struct {
	*ledger.Memory
	calls map[string]int
}

func (c counted) OpenRuns(ctx context.Context) ([]job.Run, error) {
	c.calls["OpenRuns"]++
	return c.Memory.OpenRuns(ctx)
}

func (c counted) OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error) {
	c.calls["OpenPages"]++
	return c.Memory.OpenPages(ctx, after, limit)
}

func (c counted) DeadPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error) {
	c.calls["DeadPages"]++
	return c.Memory.DeadPages(ctx, after, limit)
}

func (c counted) OpenRedrives(ctx context.Context) ([]job.Redrive, error) {
	c.calls["OpenRedrives"]++
	return c.Memory.OpenRedrives(ctx)
}

func (c counted) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	c.calls["Page"]++
	return c.Memory.Page(ctx, run, tenant, id)
}

func (c counted) Tenants(ctx context.Context, run job.RunID) ([]string, error) {
	c.calls["Tenants"]++
	return c.Memory.Tenants(ctx, run)
}

func (c counted) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	c.calls["Pages"]++
	return c.Memory.Pages(ctx, run, tenant, after, limit)
}

func (c counted) Brakes(ctx context.Context) ([]job.Brake, error) {
	c.calls["Brakes"]++
	return c.Memory.Brakes(ctx)
}

func (c counted) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	c.calls["Run"]++
	return c.Memory.Run(ctx, id)
}

func (c counted) ClosedRuns(ctx context.Context, policy string, limit int) ([]job.Run, error) {
	c.calls["ClosedRuns"]++
	return c.Memory.ClosedRuns(ctx, policy, limit)
}

func (c counted) SwapRun(ctx context.Context, next job.Run) error {
	c.calls["SwapRun"]++
	return c.Memory.SwapRun(ctx, next)
}

func (c counted) SwapPage(ctx context.Context, next job.Page) error {
	c.calls["SwapPage"]++
	return c.Memory.SwapPage(ctx, next)
}

func (c counted) Watch(ctx context.Context, policy string) (job.Watch, error) {
	c.calls["Watch"]++
	return c.Memory.Watch(ctx, policy)
}

func (c counted) SwapWatch(ctx context.Context, next job.Watch) error {
	c.calls["SwapWatch"]++
	return c.Memory.SwapWatch(ctx, next)
}

func (c counted) Redrive(ctx context.Context, id job.RedriveID) (job.Redrive, error) {
	c.calls["Redrive"]++
	return c.Memory.Redrive(ctx, id)
}

func (c counted) RedrivePages(ctx context.Context, id job.RedriveID) ([]job.RedrivePage, error) {
	c.calls["RedrivePages"]++
	return c.Memory.RedrivePages(ctx, id)
}

func (c counted) SwapRedrive(ctx context.Context, next job.Redrive) error {
	c.calls["SwapRedrive"]++
	return c.Memory.SwapRedrive(ctx, next)
}

func (c counted) PutEntry(ctx context.Context, e audit.Entry) error {
	c.calls["PutEntry"]++
	return c.Memory.PutEntry(ctx, e)
}

// countedRegion counts the calls of its passes.
func countedRegion(t *testing.T) (*region, map[string]int) {
	t.Helper()
	calls := map[string]int{}
	r := newRegion(t, deploy(dailyAt("exports", "11:30")))
	c := counted{r.ledger, calls}
	r.config.Index, r.config.Rows, r.config.Runs, r.config.Watches, r.config.Plans = c, c, c, c, c
	r.Reconciler = r.another()
	return r, calls
}

func wantCalls(t *testing.T, what string, got, want map[string]int) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// quiet is what a pass over a region without open work asks the ledger, for one policy.
func quiet() map[string]int {
	return map[string]int{
		"OpenRuns": 1, "Watch": 1, "ClosedRuns": 1, "Brakes": 1, "OpenPages": 1, "DeadPages": 1, "OpenRedrives": 1,
	}
}

// A pass costs what is open, and nothing of what is closed.
func TestCostOfAQuietPassIsConstant(t *testing.T) {
	for _, history := range []int{0, 30} {
		r, calls := countedRegion(t)
		for day := range history {
			run := r.open("exports", job.Released, func(run *job.Run) {
				run.Scheduled = on(8, 11, 30).AddDate(0, 0, -day)
				run.ID = job.ScheduledRunID("eu-west-1", "exports", run.Scheduled)
			})
			for range 20 {
				r.add(run, done(10))
			}
			r.moved(noon.Add(-time.Hour), r.ledger.AllPages(run.ID)[:1]...)
		}
		r.pass() // which closes them all, and begins the watch
		clear(calls)
		if did := r.pass(); did != (Summary{}) {
			t.Errorf("%+v", did)
		}
		wantCalls(t, fmt.Sprint(history), calls, quiet())
	}
}

// What is open is read in batches, once.
func TestCostOfOpenPagesIsLinear(t *testing.T) {
	for _, pages := range []int{openBatch, 1000, 2000} {
		r, calls := countedRegion(t)
		run := r.open("exports", job.Released)
		for range pages {
			p := in(job.Sent)
			p.NextDue = noon.Add(time.Minute)
			r.add(run, p)
		}
		r.pass()
		clear(calls)
		r.pass()
		want := quiet()
		want["OpenPages"] = pages/openBatch + 1
		wantCalls(t, fmt.Sprint(pages, " that are not due"), calls, want)

		r.clock.advance(time.Minute)
		clear(calls)
		if did := r.pass(); did != (Summary{Resent: pages}) {
			t.Errorf("%+v", did)
		}
		want["Page"], want["SwapPage"] = pages, pages
		wantCalls(t, fmt.Sprint(pages, " that are due"), calls, want)
	}
}

// A page that waits for an operator costs a place in a batch, not a read of its run.
func TestCostOfDeadPagesIsLinear(t *testing.T) {
	r, calls := countedRegion(t)
	run := r.open("exports", job.Released)
	dead := in(job.Dead)
	dead.Death.LetterAt = noon
	for range 1000 {
		r.add(run, done(1))
	}
	for range openBatch {
		r.add(run, dead)
	}
	r.pass()
	clear(calls)
	r.pass()
	want := quiet()
	want["DeadPages"] = 2
	wantCalls(t, "dead pages", calls, want)
}
