package main

import (
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// at is when the operator looks.
var at = time.Date(2026, 3, 9, 2, 10, 0, 0, time.UTC)

// morning is a region on a bad morning: a run with pages of every kind, one that
// waits for approval under a brake, one that is still being scanned, and ended ones.
type morning struct {
	*region
	open, waiting, scanning, closed, rejected job.Run
	pages                                     map[string]job.Page // of the open run, by what they are
}

func newMorning(t *testing.T) *morning {
	t.Helper()
	m := &morning{region: newRegion(t, at), pages: map[string]job.Page{}}
	for _, text := range []string{exportsPolicy, digestsPolicy} {
		p, err := policy.Parse("policy.yaml", []byte(text))
		must(t, err)
		must(t, m.ledger.PublishPolicy(t.Context(), p))
	}
	m.open = m.begin("exports", time.Date(2026, 3, 9, 1, 30, 0, 0, time.UTC))
	m.openPages()
	m.waiting = m.begin("digests", time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC))
	m.waiting, _ = m.record(m.waiting, "acme-eu", "", 700)
	m.swap(m.waiting.Await([]string{"700 objects are more than 500, the most that one run of this policy may delete"}))(&m.waiting)
	must(t, m.ledger.SetBrake(t.Context(), job.Brake{Policy: "digests", Reason: "a wrong retention was published", By: "arn:aws:iam::000000000000:user/ana", At: at.Add(-time.Hour)}))
	m.scanning = m.begin("exports", time.Date(2026, 3, 9, 2, 5, 0, 0, time.UTC), func(r *job.Run) {
		r.Mode = job.ReportOnly
		r.Ratchet = []string{"version 2 keeps objects for 14 days and the approved version 1 for 30: nobody has approved that yet"}
	})
	m.closed = m.end("exports", time.Date(2026, 3, 8, 1, 30, 0, 0, time.UTC))
	m.rejected = m.begin("digests", time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC))
	m.swap(m.rejected.Await([]string{"too many"}))(&m.rejected)
	m.swap(m.rejected.Reject(at.Add(-20*time.Hour), "it was a mistake", "arn:aws:iam::000000000000:user/ana"))(&m.rejected)
	return m
}

const digestsPolicy = `name: digests
version: 1
region: eu-west-1
bucket: acme-exports
keys: digests/{tenant}/
retention_days: 7
mode: enforce
schedule: {every: daily, at: "00:00", zone: UTC}
limits: {max_objects: 500}
`

// begin opens a run.
func (m *morning) begin(name string, scheduled time.Time, change ...func(*job.Run)) job.Run {
	m.t.Helper()
	p, err := m.ledger.LatestPolicy(m.t.Context(), name)
	must(m.t, err)
	r := job.Run{
		ID: job.ScheduledRunID(regionName, name, scheduled), Rev: 1, Region: regionName, Policy: name, Version: 1, PolicySHA256: p.SHA256(),
		Mode: job.Enforce, Scheduled: scheduled, Cutoff: scheduled.AddDate(0, 0, -p.RetentionDays), State: job.Scanning, OpenedAt: scheduled,
	}
	for _, c := range change {
		c(&r)
	}
	_, _, err = m.ledger.OpenRun(m.t.Context(), r)
	must(m.t, err)
	return r
}

// record adds a page to a run that is being scanned.
func (m *morning) record(r job.Run, tenant, after string, candidates int) (job.Run, job.Page) {
	m.t.Helper()
	p := job.Page{
		ID: job.RangePageID(r.ID, tenant, after), Run: r.ID, Tenant: tenant, Kind: job.RangePage, Rev: 1, After: after, Through: after + "z",
		Examined: candidates + 10, Candidates: candidates, State: job.Planned, BornAt: r.OpenedAt, NextDue: r.OpenedAt,
	}
	next, err := r.Advance(job.Stretch{Through: tenant + after, Examined: p.Examined}, &p)
	must(m.t, err)
	must(m.t, m.ledger.Record(m.t.Context(), next, &p))
	return next, p
}

// swap writes the run that follows.
func (m *morning) swap(next job.Run, err error) func(*job.Run) {
	m.t.Helper()
	must(m.t, err)
	must(m.t, m.ledger.SwapRun(m.t.Context(), next))
	return func(r *job.Run) { *r = next }
}

// move writes the page that follows.
func (m *morning) move(next job.Page, err error) job.Page {
	m.t.Helper()
	must(m.t, err)
	must(m.t, m.ledger.SwapPage(m.t.Context(), next))
	return next
}

// openPages gives the open run a page of every kind, and releases it.
func (m *morning) openPages() {
	r := m.open
	for _, kind := range []string{"", "done", "leased", "retrying", "dead"} { // a tenant's first page starts at its start
		r, m.pages[kind] = m.record(r, "acme-eu", kind, 100)
	}
	r, m.pages["young"] = m.record(r, "school-42", "", 40)
	released := r.Scheduled.Add(2 * time.Minute)
	m.swap(r.Release(released, nil, "", ""))(&m.open)
	claim := func(kind string, at time.Time) job.Page {
		p := m.pages[kind]
		next, err := p.Claim("owner", at, at.Add(time.Minute), at.Add(12*time.Minute))
		return m.move(next, err)
	}
	settled := job.Settled{Receipt: "receipt", Planned: 100, At: released.Add(time.Minute), Bytes: 5 << 20}
	settled.Counts[job.Deleted], settled.Counts[job.Held] = 99, 1
	m.pages["done"] = m.move(claim("done", released).Complete(settled))
	m.pages["leased"] = claim("leased", at.Add(-10*time.Second))
	m.pages["retrying"] = m.move(claim("retrying", at.Add(-time.Minute)).Retry(job.Settled{}, failure.Throttled, at.Add(-time.Minute), at.Add(5*time.Minute), at.Add(17*time.Minute)))
	dead := m.move(claim("dead", released).Die("owner", job.ReasonForbidden, failure.Forbidden, job.Settled{}, released.Add(time.Minute)))
	m.pages["dead"] = m.move(dead.Lettered(released.Add(time.Minute)))
	m.pages[""] = m.move(m.pages[""].Send(released.Add(12 * time.Minute)))
}

// end puts a run that closed.
func (m *morning) end(name string, scheduled time.Time) job.Run {
	r := m.begin(name, scheduled)
	r, _ = m.record(r, "acme-eu", "", 1200)
	m.swap(r.Release(scheduled, nil, "", ""))(&r)
	totals := job.Totals{Candidates: 1200, Bytes: 3 << 30}
	totals.Counts[job.Deleted], totals.Counts[job.Held], totals.Counts[job.Refused] = 1180, 12, 8
	m.swap(r.Close(scheduled.Add(9*time.Minute), totals, job.Seal{}))(&r)
	return r
}

func TestRuns(t *testing.T) {
	m := newMorning(t)
	golden(t, "runs", m.ok("runs").out)
	golden(t, "runs-json", m.ok("runs", "--json").out)
	golden(t, "runs-policy", m.ok("runs", "--policy=digests", "--limit=0").out)
	late := m.ends(exitWrong, "something is late", "runs", "--late")
	golden(t, "runs-late", late.out)
	late = m.ends(exitWrong, "something is late", "runs", "--late", "--json")
	golden(t, "runs-late-json", late.out)
	m.ends(exitWrong, "there are digests, exports", "runs", "--policy=uploads")
}

// A local region runs at a fraction of every duration, and is late as soon.
func TestLateAtTheLocalScale(t *testing.T) {
	m := newMorning(t)
	m.outputs.Scale = "20"
	m.up()
	var a struct {
		Runs []struct {
			RunID     string `json:"run_id"`
			Late      bool
			Objective int `json:"objective_seconds"`
		}
	}
	m.json(&a, "runs", "--limit=0")
	for _, run := range a.Runs {
		if run.Objective != 45 || !run.Late {
			t.Errorf("%+v", run)
		}
	}
	if len(a.Runs) != 3 {
		t.Errorf("%d runs", len(a.Runs))
	}
}

func TestNothingIsLate(t *testing.T) {
	r := newRegion(t, at)
	if s := r.ok("runs", "--late"); !strings.Contains(s.out, "Nothing is late.") {
		t.Error(s.out)
	}
	if s := r.ok("runs"); !strings.Contains(s.out, "No run.") {
		t.Error(s.out)
	}
	r.ends(exitWrong, "no policy exports was ever published", "runs", "--policy=exports")
}
