package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// C2: 90 seconds a page, five workers, ten minutes are 33 pages at full use; 20 is what
// 60 % of that comes to, and no product of the three.
func TestC2TuneExample(t *testing.T) {
	s := run(t, Process{Args: []string{"tune", "--example"}, Dir: t.TempDir(), Clock: &hands{at: at}})
	if s.status != exitDone || s.err != "" {
		t.Errorf("%+v", s)
	}
	golden(t, "tune-example", s.out)
	c := newCapacity(5, 10*time.Minute, 90*time.Second)
	if c.Full != 33 || c.Comfortable != 20 {
		t.Errorf("%+v", c)
	}
}

// loaded is a region with one run of the night, whose pages became runnable at the
// given seconds, took so many seconds each, and waited before that.
func loaded(t *testing.T, pages ...[3]int) *region {
	t.Helper()
	m := &morning{region: newRegion(t, at)}
	m.publish(exportsPolicy)
	r := m.begin("exports", time.Date(2026, 3, 9, 1, 30, 0, 0, time.UTC))
	var recorded []job.Page
	for i, page := range pages {
		p := job.Page{
			ID: job.RangePageID(r.ID, "acme-eu", after(i)), Run: r.ID, Tenant: "acme-eu", Kind: job.RangePage, Rev: 1, After: after(i), Through: after(i + 1),
			Examined: 20, Candidates: 10, State: job.Planned, BornAt: r.OpenedAt.Add(time.Duration(page[0]) * time.Second), NextDue: r.OpenedAt,
		}
		next, err := r.Advance(job.Stretch{Through: after(i + 1), Examined: 20}, &p)
		must(t, err)
		must(t, m.ledger.Record(t.Context(), next, &p))
		r, recorded = next, append(recorded, p)
	}
	m.swap(r.Release(r.OpenedAt.Add(-time.Minute), nil, "", ""))(&r)
	for i, p := range recorded {
		began := p.BornAt.Add(time.Duration(pages[i][2]) * time.Second)
		claimed, err := p.Claim("owner", began, began.Add(time.Minute), began.Add(12*time.Minute))
		p = m.move(claimed, err)
		settled := job.Settled{Receipt: strings.Repeat("a", 64), Planned: 10, At: began.Add(time.Duration(pages[i][1]) * time.Second)}
		settled.Counts[job.Deleted] = 10
		done, err := p.Complete(settled)
		must(t, err)
		must(t, m.ledger.Complete(t.Context(), done, nil))
	}
	return m.region
}

func after(i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprintf("%03d", i)
}

// R114, R115: thresholds and concurrency come from observed arrival and service rates.
func TestR114R115Tune(t *testing.T) {
	// Ten pages at once and two an hour later, 40 s each; the first wait for nobody.
	pages := [][3]int{{3600, 40, 0}, {3700, 40, 0}}
	for i := range 10 {
		pages = append(pages, [3]int{i, 40, 20 * i})
	}
	r := loaded(t, pages...)
	golden(t, "tune", r.ok("tune").out)
	golden(t, "tune-json", r.ok("tune", "--policy=exports", "--workers=2", "--json").out)
	r.ends(exitUsage, "--days is 1 to 365", "tune", "--days=0")
	r.ends(exitUsage, "--workers is 1 to 1000", "tune", "--workers=-1")
	r.ends(exitWrong, "no policy other", "tune", "--policy=other")
	r.now.at = r.now.at.AddDate(1, 0, 0)
	r = newRegion(t, at)
	r.ends(exitWrong, "there is nothing to measure by", "tune")
}

// What did not come from a worker of this region's timeout measures nothing.
func TestMeasure(t *testing.T) {
	lease := at.Add(time.Minute)
	run := job.Run{ReleasedAt: at.Add(-time.Minute)}
	page := func(change func(*job.Page)) observed {
		p := job.Page{State: job.Completed, Attempts: 1, LeaseEnd: lease, SettledAt: at.Add(30 * time.Second), BornAt: at.Add(-time.Hour)}
		change(&p)
		return observed{run, p}
	}
	got := measure([]observed{
		page(func(*job.Page) {}),
		page(func(p *job.Page) { p.State = job.Dead }),
		page(func(p *job.Page) { p.Attempts = 0 }),                       // born completed
		page(func(p *job.Page) { p.LeaseEnd = time.Time{} }),             // never claimed
		page(func(p *job.Page) { p.SettledAt = at.Add(-time.Second) }),   // before its claim
		page(func(p *job.Page) { p.SettledAt = lease.Add(time.Second) }), // after its lease
		page(func(p *job.Page) { p.Attempts, p.BornAt = 3, at }),         // retried
	}, time.Minute)
	if len(got) != 2 || got[0].service != 30*time.Second || got[0].wait != 90*time.Second || got[0].retried || !got[1].retried || got[1].wait != 30*time.Second {
		t.Errorf("%+v", got)
	}
}

func TestQuantileAndBusiest(t *testing.T) {
	seconds := func(all ...int) (d []time.Duration) {
		for _, s := range all {
			d = append(d, time.Duration(s)*time.Second)
		}
		return d
	}
	if q := quantile(seconds(1, 2, 3, 4), 0.5); q != 2*time.Second {
		t.Errorf("median %s", q)
	}
	if q := quantile(seconds(1, 2, 3, 4), 0.95); q != 4*time.Second {
		t.Errorf("p95 %s", q)
	}
	if q := quantile(seconds(7), 0.5); q != 7*time.Second {
		t.Errorf("of one %s", q)
	}
	var m []measured
	for _, p := range [][2]int{{0, 10}, {50, 10}, {100, 30}, {140, 30}, {400, 1}} {
		m = append(m, measured{runnable: at.Add(time.Duration(p[0]) * time.Second), service: time.Duration(p[1]) * time.Second})
	}
	if n, work, when := busiest(m, 100*time.Second); n != 3 || work != 70*time.Second || !when.Equal(at.Add(50*time.Second)) {
		t.Errorf("%d, %s, %s", n, work, when)
	}
}
