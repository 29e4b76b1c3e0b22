package ledgertest

import (
	"slices"
	"testing"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// A record is one transaction: the cursor moves with the page or not at all (F1).
var recordTests = map[string]func(*testing.T, Ledger){
	"F1 record puts the page and moves the cursor":     recordBoth,
	"F1 record of a page that is there moves nothing":  recordTaken,
	"F1 record after the run moved puts nothing":       recordMoved,
	"F1 record by racers of one start":                 recordRaceSame,
	"F1 record by racers of different starts":          recordRaceDifferent,
	"record of a stretch without a page":               recordNone,
	"record of a page that is born completed":          recordCompleted,
	"record tells apart tenants and runs":              recordNeighbours,
	"tenants are those that have a page, in ascending": tenantsAscend,
}

func wantTenants(t *testing.T, l Ledger, run job.RunID, want ...string) {
	t.Helper()
	got, err := l.Tenants(t.Context(), run)
	ok(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("tenants are %q, want %q", got, want)
	}
}

func recordBoth(t *testing.T, l Ledger) {
	r, p := one(t, l)
	wantRun(t, l, r)
	wantPage(t, l, p)
	wantTenants(t, l, r.ID, tenant)
}

func recordTaken(t *testing.T, l Ledger) {
	r, p := one(t, l)
	moved := claimed(t, p, "a", instant)
	ok(t, l.SwapPage(t.Context(), moved))
	wantClass(t, l.Record(t.Context(), advanced(t, r, &p), &p), failure.Conflict)
	wantRun(t, l, r)
	wantPage(t, l, moved)
}

func recordMoved(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	moved := advanced(t, r, nil)
	ok(t, l.SwapRun(t.Context(), moved))
	p := pageOf(r, tenant, "")
	wantClass(t, l.Record(t.Context(), advanced(t, r, &p), &p), failure.Conflict)
	absent := runOf("exports", instant.AddDate(0, 0, 1))
	q := pageOf(absent, tenant, "")
	wantClass(t, l.Record(t.Context(), advanced(t, absent, &q), &q), failure.Conflict)
	wantRun(t, l, moved)
	wantNoPage(t, l, p)
	wantNoPage(t, l, q)
	wantTenants(t, l, r.ID)
	wantTenants(t, l, absent.ID)
}

// Two enqueues of one run meet at the same start, with other ends.
func recordRaceSame(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	page := func(i int) job.Page {
		p := pageOf(r, tenant, "")
		p.Through = string(rune('a' + i))
		return p
	}
	won := winner(t, race(func(i int) error {
		p := page(i)
		return l.Record(t.Context(), advancedQuietly(r, &p), &p)
	}), failure.Conflict)
	p := page(won)
	wantPage(t, l, p)
	wantRun(t, l, advanced(t, r, &p))
	wantTenants(t, l, r.ID, tenant)
}

func recordRaceDifferent(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	page := func(i int) job.Page { return pageOf(r, tenant, string(rune('a'+i))) }
	won := winner(t, race(func(i int) error {
		p := page(i)
		return l.Record(t.Context(), advancedQuietly(r, &p), &p)
	}), failure.Conflict)
	for i := range racers {
		p := page(i)
		if i == won {
			wantPage(t, l, p)
			wantRun(t, l, advanced(t, r, &p))
		} else {
			wantNoPage(t, l, p)
		}
	}
}

// advancedQuietly is advanced for a goroutine, which may not end the test.
func advancedQuietly(r job.Run, p *job.Page) job.Run {
	next, err := r.Advance(job.Stretch{Through: p.Tenant + "/" + p.Through, Examined: p.Examined}, p)
	if err != nil {
		panic(err)
	}
	return next
}

func recordNone(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	next := advanced(t, r, nil)
	ok(t, l.Record(t.Context(), next, nil))
	wantRun(t, l, next)
	wantTenants(t, l, r.ID)
	wantClass(t, l.Record(t.Context(), next, nil), failure.Conflict)
	wantRun(t, l, next)
}

func recordCompleted(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	p := pageOf(r, tenant, "")
	p.State, p.Candidates = job.Completed, 0
	recorded(t, l, r, p)
	wantPage(t, l, p)
	wantTenants(t, l, r.ID, tenant)
}

func recordNeighbours(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	other := opened(t, l, runOf("exports-2", instant))
	p, q, o := pageOf(r, tenant, ""), pageOf(r, neighbour, ""), pageOf(other, tenant, "")
	q.Through, o.Through = "q", "o"
	recorded(t, l, r, p, q)
	wantNoPage(t, l, o)
	recorded(t, l, other, o)
	for _, page := range []job.Page{p, q, o} {
		wantPage(t, l, page)
		got, err := l.Pages(t.Context(), page.Run, page.Tenant, nil, 10)
		ok(t, err)
		if ids(got) != ids([]job.Page{page}) {
			t.Errorf("pages of %s in %s:\n%s", page.Tenant, page.Run, ids(got))
		}
	}
	wrong := p
	wrong.Tenant = neighbour
	wantNoPage(t, l, wrong)
	wrong = p
	wrong.Run = other.ID
	wantNoPage(t, l, wrong)
	wantTenants(t, l, r.ID, neighbour, tenant)
	wantTenants(t, l, other.ID, tenant)
}

func tenantsAscend(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	names := []string{"b", "a.b", "a", "B", "9", "a-b", "a0", "a_b", "aa"}
	for _, name := range names {
		r = recorded(t, l, r, pageOf(r, name, ""), pageOf(r, name, "k"))
	}
	slices.Sort(names)
	wantTenants(t, l, r.ID, names...)
}
