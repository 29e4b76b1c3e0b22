package wiring_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/wiring"
)

// afterPlace: the item stays, the others of its page go, and asking again says HELD.
func afterPlace(t *testing.T, r *region) {
	r.drain()
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": 3, "held": 2})
	r.wantObjects(t, acme+"case-2291/2025-12.csv", young, school+"2025-11.csv", school+"today.csv")
	if s := r.ask("school-42", "ticket-4711"); s.Answer != hold.Held || !s.Complete || s.Pages != (hold.Counts{Held: 1}) {
		t.Errorf("%+v", s)
	}
	if s := r.ask("acme-eu", "hold-2291"); s.Answer != hold.Held || !s.Complete {
		t.Errorf("%+v", s)
	}
}

// ask asks the hold function about a hold.
func (r *region) ask(tenant, id string) (s hold.Status) {
	r.t.Helper()
	must(r.t, json.Unmarshal(r.invoke(r.hold, marshal(r.t, hold.Request{Ask: &hold.Ask{Tenant: tenant, ID: id}})), &s))
	return s
}

// beforeAsk: the page with the held object has been worked on under the hold.
func beforeAsk(r *region) {
	r.tick()
	r.drain()
}

// afterAsk: nothing was written and nothing deleted.
func afterAsk(t *testing.T, r *region) {
	for call := range r.count() {
		if !slices.Contains([]string{"dynamodb GetItem", "dynamodb Query", "dynamodb BatchGetItem", "s3 GetObject", "s3 ListObjectsV2"}, call) {
			t.Errorf("a question asked for %s", call)
		}
	}
	r.wantObjects(t, acme+"case-2291/2025-12.csv", young, school+"today.csv")
}

// afterRelease: the hold's row says so, its order is on record, and a run that decides
// from now on may delete.
func afterRelease(t *testing.T, r *region) {
	set, err := r.ledger.Holds(t.Context(), "acme-eu")
	must(t, err)
	entries, err := r.ledger.Entries(t.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour), 10)
	must(t, err)
	if len(set) != 1 || set[0].Active() || len(entries) != 1 || entries[0].HoldID != "hold-2291" || entries[0].Reason != "case 2291 is closed" {
		t.Errorf("holds %+v, entries %+v", set, entries)
	}
	r.drain()
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": 5})
}

func afterList(t *testing.T, r *region) {
	wantEqual(t, "calls", r.count(), map[string]int{"dynamodb GetItem": 1, "dynamodb Query": 1})
}

// F19: a hold on a tenant with thousands of open pages asks the table three times for
// a hundred pages at most, with all that placing it takes. Package hold does the same
// with 10,000 in memory.
func TestF19_AHoldOnTheTable(t *testing.T) {
	const pages = 2000
	r := newRegion(t, os.DirFS("testdata/samples"))
	run := job.Run{
		ID: tickRun(), Rev: 1, Region: regionName, Policy: "exports", Version: 1, PolicySHA256: "any", Mode: job.Enforce, Scheduled: ticked, Cutoff: old,
		State: job.Scanning, OpenedAt: ticked,
	}
	_, _, err := r.ledger.OpenRun(t.Context(), run)
	must(t, err)
	last := ""
	for i := range pages {
		p := job.Page{
			ID: job.RangePageID(run.ID, "acme-eu", last), Run: run.ID, Tenant: "acme-eu", Kind: job.RangePage, Rev: 1, After: last,
			Through: fmt.Sprintf("%06d", i), Examined: 1000, Candidates: 1000, State: job.Planned, BornAt: ticked, NextDue: ticked,
		}
		last = p.Through
		if i%100 == 7 {
			p.State, p.Intent, p.QuietAt = job.Intended, job.Intent{Plan: "any", Fence: 1, Deletes: 1}, time.Now().Add(10*time.Minute)
		}
		next, err := run.Advance(job.Stretch{Through: last, Examined: 1000}, &p)
		must(t, err)
		must(t, r.ledger.Record(t.Context(), next, &p))
		run = next
	}
	r.count()
	var s hold.Status
	must(t, json.Unmarshal(r.invoke(r.hold, []byte(`{"place":{"tenant":"acme-eu","scope":"tenant","by":"counsel","reason":"case 2292"}}`)), &s))
	calls := 0
	for _, n := range r.count() {
		calls += n
	}
	t.Logf("%d calls", calls)
	if s.Pages != (hold.Counts{Held: pages - pages/100, InFlight: pages / 100}) || !s.Complete || s.ScanningRuns != 1 || calls > 3*pages/100 {
		t.Errorf("%d calls: %+v", calls, s)
	}
}

// Where a tenant's artifacts are is said by the version that the run pinned.
func TestPrefixes(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	r.tick()
	p := wiring.NewPrefixes(r.ledger)
	run := r.run(tickRun())
	for range 2 { // the second answer is remembered
		if where, prefix, err := p.TenantPrefix(t.Context(), run, "acme-eu"); where != bucket || prefix != acme || err != nil {
			t.Errorf("%q %q %v", where, prefix, err)
		}
	}
	if _, prefix, err := p.TenantPrefix(t.Context(), run, ".."); prefix != "" || err != nil {
		t.Errorf("%q %v", prefix, err)
	}
	for _, change := range []func(*job.Run){
		func(r *job.Run) { r.PolicySHA256 = "another" }, func(r *job.Run) { r.Version++ }, func(r *job.Run) { r.Policy = "digests" },
	} {
		other := run
		change(&other)
		if _, prefix, err := p.TenantPrefix(t.Context(), other, "acme-eu"); prefix != "" || !failure.Is(err, failure.UnknownPolicy) {
			t.Errorf("%q %v", prefix, err)
		}
	}
	all, err := p.Prefixes(t.Context(), "acme-eu")
	if err != nil || !slices.Equal(all, []string{acme}) {
		t.Errorf("%q %v", all, err)
	}
	if all, err := p.Prefixes(t.Context(), ".."); err != nil || len(all) != 0 {
		t.Errorf("%q %v", all, err)
	}
}
