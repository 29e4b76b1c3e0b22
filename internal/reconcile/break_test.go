package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// L2: pages without number that are due, such as those of a large run that was just
// approved, leave time for what comes after them in every pass.
func TestL2ManyOverduePagesStarveNothing(t *testing.T) {
	r := newRegion(t)
	large := r.open("uploads", job.Released)
	for range 20 * openBatch {
		r.add(large, in(job.Planned))
	}
	r.add(r.open("exports", job.Released), done(10))
	stuck := r.plan(r.add(r.open("digests", job.Released), ended(job.Dead, noon)))
	r.apply(&stuck, noon.Add(-time.Hour))
	r.open("logs", job.Scanning)
	r.queue.Hook = func(_ string, apply func() error) error { // ten messages, their reads and their rows
		r.clock.advance(time.Second)
		return apply()
	}
	began := r.clock.Now()
	did := r.pass()
	if did.Closed != 1 || did.Continued != 1 || did.Resumed != 1 || did.Resent < 10*10 {
		t.Errorf("%+v", did)
	}
	if took := r.clock.Now().Sub(began); took > r.Settings.FunctionTimeout-r.Settings.TakeMargin {
		t.Errorf("it took %v", took)
	}
}

// absent is a ledger that has lost a page.
type absent struct {
	rows
	page job.PageID
}

func (a absent) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	if id == a.page {
		return job.Page{}, failure.New(failure.Absent, "read page", "no such page")
	}
	return a.rows.Page(ctx, run, tenant, id)
}

// A page that is not on record any more was left by the apply, which says so; the plan
// is closed by what became of the others.
func TestRedriveOfALostPageCloses(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released)
	lost, there := r.add(run, ended(job.Dead, noon)), r.add(run, ended(job.Dead, noon))
	plan := r.moved(noon.Add(-time.Hour), lost, there)
	r.config.Rows = absent{r.config.Rows, lost.ID}
	r.Reconciler = r.another()
	did, err := r.try()
	if err != nil || did.Finished != 1 || r.redrive(plan).Moved != 1 {
		t.Errorf("%+v, %v", did, err)
	}
}

// reads takes a time for every read of a tenant's pages.
type reads struct {
	rows
	clock *testClock
	takes time.Duration
}

func (s reads) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	s.clock.advance(s.takes)
	return s.rows.Pages(ctx, run, tenant, after, limit)
}

// ofTenants is a run with a completed page of each of n tenants.
func (r *region) ofTenants(n int) *job.Run {
	run := r.open("exports", job.Released)
	for i := range n {
		p := done(1)
		p.Tenant = fmt.Sprintf("school-%05d", i)
		r.add(run, p)
	}
	return run
}

// L2: a tenant of a run costs its closing one read, so that a run of thousands of
// tenants is closed within one pass.
func TestL2RunOfManyTenantsCloses(t *testing.T) {
	r := newRegion(t)
	run := r.ofTenants(2500)
	r.config.Rows = reads{r.config.Rows, r.clock, 10 * time.Millisecond}
	r.Reconciler = r.another()
	if did := r.pass(); did.Closed != 1 || r.run(run).State != job.Closed {
		t.Errorf("%+v", did)
	}
}

// L2: a run that is too large to be summed in one pass leaves time for what comes after
// it, and is not taken for one that adds up.
func TestL2RunThatIsTooLargeStarvesNothing(t *testing.T) {
	r := newRegion(t)
	r.ofTenants(5000)
	stuck := r.plan(r.add(r.open("digests", job.Released), ended(job.Dead, noon)))
	r.apply(&stuck, noon.Add(-time.Hour))
	r.open("logs", job.Scanning)
	r.config.Rows = reads{r.config.Rows, r.clock, 10 * time.Millisecond}
	r.Reconciler = r.another()
	if did := r.pass(); did != (Summary{Continued: 1, Resumed: 1}) {
		t.Errorf("%+v", did)
	}
	r.wantMeasured(contract.TotalsMismatches, "", 0)
}

// L1: the pages of a rejected run are the oldest for ever. They end, so that no pass
// walks past them to what is younger, and nothing is sent of them.
func TestL1PagesOfARejectedRunEnd(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Rejected)
	for range maxVoided + openBatch + 1 {
		r.add(run, in(job.Planned))
	}
	for _, n := range []int{maxVoided, openBatch + 1} {
		if did := r.pass(); did != (Summary{Voided: n}) {
			t.Errorf("%+v", did)
		}
	}
	open, err := r.ledger.OpenPages(t.Context(), nil, 1)
	if err != nil || len(open) != 0 || len(r.queue.Waiting(job.Enforce)) != 0 {
		t.Errorf("%d pages are open: %v", len(open), err)
	}
	for _, p := range r.ledger.AllPages(run.ID) {
		if p.State != job.Discarded || p.Counts.Sum() != 0 || !p.SettledAt.Equal(noon) {
			t.Fatalf("%+v", p)
		}
	}
	if did := r.pass(); did != (Summary{}) {
		t.Errorf("once more: %+v", did)
	}
}
