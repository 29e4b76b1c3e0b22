package reconcile

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// large is a run of two tenants that has ended: ranges over several batches,
// split-off items, an empty range and a page that was given up.
func (r *region) large() *job.Run {
	run := r.open("exports", job.Released)
	for i, tenant := range []string{"school-42", "acme"} {
		for n := range closeBatch + i {
			p := done(1 + n%3)
			p.Tenant, p.Receipt, p.Intent.Plan = tenant, strings.Repeat("ef", 32), strings.Repeat("cd", 32)
			if n == 5 {
				p.Counts[job.Deleted], p.Moved = 0, p.Planned
			}
			parent := r.add(run, p)
			for range parent.Moved {
				item := job.Page{Kind: job.ItemPage, Tenant: tenant, Parent: parent.ID, State: job.Completed, Receipt: strings.Repeat("12", 32), NextDue: noon}
				item.Counts[job.Refused] = 1
				r.add(run, item)
			}
		}
		empty, lost := job.Page{Tenant: tenant, State: job.Completed, NextDue: noon}, job.Page{Tenant: tenant, State: job.Discarded, NextDue: noon}
		lost.Planned = 10
		lost.Counts[job.Held] = 4
		r.add(run, empty)
		r.add(run, lost)
	}
	return run
}

// E6: a closed run names its manifest, which says of every page, in the ledger's
// order, what its row says.
func TestE6ClosedRunIsSealed(t *testing.T) {
	r := newRegion(t)
	run := r.large()
	if did := r.pass(); did != (Summary{Closed: 1}) {
		t.Fatalf("%+v", did)
	}
	m := r.sealed(run)
	var want []receipt.ManifestPage
	for _, p := range r.ledger.AllPages(run.ID) {
		want = append(want, receipt.NewManifestPage(p))
	}
	if !slices.Equal(m.Pages, want) || len(want) < 2*closeBatch {
		t.Errorf("the manifest lists %d pages that are not the ledger's %d", len(m.Pages), len(want))
	}
	closed := r.run(run)
	if h := m.Header; h.RunID != run.ID || h.Policy != "exports" || h.CodeVersion != "test" || h.Recorded != closed.Candidates || h.Pages != len(want) {
		t.Errorf("%+v", h)
	}
	if names := r.manifests(run); len(names) != 1 {
		t.Errorf("%q", names)
	}
}

func TestRunWithoutPagesIsSealed(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released)
	r.pass()
	if m := r.sealed(run); len(m.Pages) != 0 {
		t.Errorf("%+v", m)
	}
}

// Totals and entries are of one read: no page is read twice.
func TestPagesAreReadOnceForASeal(t *testing.T) {
	seen := &readPages{pages: map[job.PageID]int{}}
	r := newRegion(t, func(c *Config) { seen.rows, c.Rows = c.Rows, seen })
	run := r.large()
	r.pass()
	r.sealed(run)
	for id, n := range seen.pages {
		if n != 1 {
			t.Fatalf("page %s was read %d times", id, n)
		}
	}
	if want := len(r.ledger.AllPages(run.ID)); len(seen.pages) != want {
		t.Errorf("%d pages were read, want %d", len(seen.pages), want)
	}
}

// readPages counts how often each page is read.
type readPages struct {
	rows
	pages map[job.PageID]int
}

func (r *readPages) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	pages, err := r.rows.Pages(ctx, run, tenant, after, limit)
	for _, p := range pages {
		r.pages[p.ID]++
	}
	return pages, err
}

// A run is not summed while the index shows a page of it that has not ended: with
// one dead page that waits for an operator, all would be read in every pass.
func TestOpenRunIsNotSummed(t *testing.T) {
	for _, state := range job.PageStates() {
		if state.Terminal() {
			continue
		}
		seen := &readPages{pages: map[job.PageID]int{}}
		r := newRegion(t, func(c *Config) { seen.rows, c.Rows = c.Rows, seen })
		run := r.large()
		p := in(state)
		p.Death.LetterAt = noon
		r.add(run, p)
		if did := r.pass(); did.Closed != 0 || len(seen.pages) != 0 {
			t.Errorf("%s: %+v, %d pages were read", state, did, len(seen.pages))
		}
	}
}

// Without its evidence a run is not closed. That is said, it does not stop the
// others, and the next pass seals it with the same document.
func TestEvidenceThatFailsLeavesTheRunOpen(t *testing.T) {
	for _, applied := range []bool{false, true} {
		r := newRegion(t)
		run := r.large()
		other := r.open("uploads", job.Released)
		r.add(other, done(10))
		r.evidence.Hook = func(op string, apply func() error) error {
			if len(r.manifests(run)) > 0 || r.count(audit.SealFailed) > 0 {
				return apply()
			}
			return strike{applied: applied}.hit(op, apply)
		}
		did, err := r.try()
		if !failure.Is(err, failure.Network) || did.Closed != 1 {
			t.Errorf("%+v, %v", did, err)
		}
		failed := slices.IndexFunc(r.log.Events(), func(e audit.Event) bool { return e.Event == audit.SealFailed })
		if failed < 0 {
			t.Fatal("nobody said so")
		}
		r.wantCounted(contract.SealFailures, "", 1)
		first := run
		if r.run(other).State != job.Closed {
			first = other // the index does not promise an order
		}
		if e := r.log.Events()[failed]; e.RunID != first.ID || e.FailureClass != failure.Network || e.Operation != "put" {
			t.Errorf("%+v", e)
		}
		if r.run(first).State != job.Released {
			t.Errorf("%+v", r.run(first))
		}
		if did := r.pass(); did != (Summary{Closed: 1}) || r.count(audit.SealFailed) != 1 {
			t.Errorf("%+v", did)
		}
		for _, of := range []*job.Run{run, other} {
			r.sealed(of)
			if names := r.manifests(of); len(names) != 1 {
				t.Errorf("%q", names)
			}
		}
	}
}

// The manifest is durable before the run is closed, so a process that dies in
// between leaves one too many and never one too few. After a deployment it is
// another document, and the run names the one it was closed with.
func TestManifestIsWrittenFirst(t *testing.T) {
	for code, documents := range map[string]int{"test": 1, "newer": 2} {
		r := newRegion(t)
		run := r.large()
		r.ledger.Hook = func(op string, apply func() error) error {
			if op == "run:closed" && len(r.manifests(run)) != 1 {
				t.Error("the run is closed before its manifest is there")
			}
			return strike{crash: op == "run:closed"}.orApply(op, apply)
		}
		if !process(func() { _, _ = r.try() }) {
			t.Fatal("it did not die")
		}
		r.ledger.Hook, r.config.Code = nil, code
		r.Reconciler = r.another()
		if did := r.pass(); did != (Summary{Closed: 1}) {
			t.Errorf("%+v", did)
		}
		if m := r.sealed(run); m.Header.CodeVersion != code || len(r.manifests(run)) != documents {
			t.Errorf("%+v, %q", m.Header, r.manifests(run))
		}
	}
}

// orApply strikes only where there is something to strike with.
func (s strike) orApply(op string, apply func() error) error {
	if s == (strike{}) {
		return apply()
	}
	return s.hit(op, apply)
}

// The seal is of the run as it was before its pages were read: whatever moves the
// run meanwhile takes the close away.
func TestSealLosesToWhoeverMovedTheRun(t *testing.T) {
	for _, during := range []string{"read", "put"} {
		rows := &meddler{}
		r := newRegion(t, func(c *Config) { rows.rows, c.Rows = c.Rows, rows })
		run := r.large()
		meddle := func() {
			moved := r.run(run)
			moved.Rev++
			moved.Trips = []string{"somebody wrote this"}
			if err := r.ledger.SwapRun(t.Context(), moved); err != nil {
				t.Error(err)
			}
		}
		if during == "read" {
			rows.do = meddle
		} else {
			r.evidence.Hook = func(_ string, apply func() error) error { meddle(); r.evidence.Hook = nil; return apply() }
		}
		if did := r.pass(); did != (Summary{}) || r.run(run).State != job.Released || r.run(run).Seal != (job.Seal{}) {
			t.Errorf("%s: %+v, %+v", during, did, r.run(run))
		}
		if did := r.pass(); did != (Summary{Closed: 1}) || len(r.run(run).Trips) != 1 {
			t.Errorf("%s: the next pass: %+v, %+v", during, did, r.run(run))
		}
		r.sealed(run)
	}
}

// meddler does something once, after the first pages were read.
type meddler struct {
	rows
	do func()
}

func (m *meddler) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	pages, err := m.rows.Pages(ctx, run, tenant, after, limit)
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return pages, err
}

// A run that no manifest can describe stays open and is said.
func TestRunThatCanNotBeSealed(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released, func(run *job.Run) { run.PolicySHA256 = "?" })
	r.add(run, done(10))
	for pass := 1; pass <= 2; pass++ {
		if did, err := r.try(); !failure.Is(err, failure.Bug) || did != (Summary{}) || r.count(audit.SealFailed) != pass {
			t.Errorf("%+v, %v", did, err)
		}
	}
	if r.run(run).State != job.Released || len(r.manifests(run)) != 0 {
		t.Errorf("%+v", r.run(run))
	}
}
