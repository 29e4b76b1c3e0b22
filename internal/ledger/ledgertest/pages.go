package ledgertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

var pageTests = map[string]func(*testing.T, Ledger){
	"page keeps every field in every state":                    pageFields,
	"page written from another revision":                       pageStale,
	"SQ-15 page claimed by racers has one owner":               pageRace,
	"DB-01 a rival's claim of the same revision is not my own": pageRival,
	"DB-02 a claim whose worker died is taken over":            pageTakeover,
	"DB-04 the old owner of a lost lease writes nothing":       pageLost,
	"F2 intend under another hold epoch":                       intendEpoch,
	"intend from another revision":                             intendStale,
	"intend by racers":                                         intendRace,
	"F9 complete with no, one and 25 split-off items":          completeChildren,
	"swap of many pages is all or nothing":                     swapManyPages,
	"F9 complete from another revision puts nothing":           completeStale,
	"F9 complete with an item that is there changes nothing":   completeTaken,
	"F9 complete with items that can not be put":               completeWrong,
	"F9 complete by racers":                                    completeRace,
}

func pageFields(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	fields := func(state job.PageState) job.Page {
		p := full[job.Page](t)
		p.Run, p.Tenant, p.Kind, p.State, p.Rev = r.ID, tenant, job.RangePage, state, 7
		p.After, p.Through = string(state)+"\x00\xff\n\u2028", "\xfe\x00" // keys are opaque bytes
		p.ID = job.RangePageID(r.ID, tenant, p.After)
		p.Counts[job.NoOutcome] = 0 // nothing ever has this outcome
		return p
	}
	var parent job.Page
	for _, state := range job.PageStates() {
		p := fields(state)
		r = recorded(t, l, r, p)
		wantPage(t, l, p)

		p.Rev, p.Owner = 8, "swapped"
		ok(t, l.SwapPage(t.Context(), p))
		wantPage(t, l, p)

		p.Rev, p.Owner = 9, "intended"
		ok(t, l.Intend(t.Context(), p, 0))
		wantPage(t, l, p)
		parent = p
	}
	var children []job.Page
	for _, state := range job.PageStates() {
		c := fields(state)
		c.Kind, c.ID, c.Rev = job.ItemPage, job.ItemPageID(r.ID, tenant, job.Ref{Key: string(state)}), 0
		c.After, c.Through = "", "" // an item is no range
		children = append(children, c)
	}
	parent.Rev, parent.Owner = 10, "completed"
	ok(t, l.Complete(t.Context(), parent, children))
	for _, p := range append(children, parent) {
		wantPage(t, l, p)
	}
	for _, got := range walk(t, 4, func(after *job.Page, limit int) ([]job.Page, error) {
		return l.Pages(t.Context(), r.ID, tenant, after, limit)
	}) {
		wantPage(t, l, got)
	}
	least := job.Page{ID: job.RangePageID(r.ID, neighbour, ""), Run: r.ID, Tenant: neighbour, Kind: job.RangePage, Rev: 1, State: job.Planned}
	recorded(t, l, r, least)
	wantPage(t, l, least)
}

func pageStale(t *testing.T, l Ledger) {
	r, p := one(t, l)
	next := claimed(t, p, "a", instant)
	absent := pageOf(r, tenant, "k")
	wantClass(t, l.SwapPage(t.Context(), claimed(t, absent, "a", instant)), failure.Conflict)
	stranger := pageOf(r, neighbour, "")
	wantClass(t, l.SwapPage(t.Context(), claimed(t, stranger, "a", instant)), failure.Conflict)
	for _, rev := range []int64{-1, 0, 1, 3} {
		stale := next
		stale.Rev = rev
		wantClass(t, l.SwapPage(t.Context(), stale), failure.Conflict)
	}
	wantPage(t, l, p)
	wantNoPage(t, l, absent)
	wantNoPage(t, l, stranger)
	wantTenants(t, l, r.ID, tenant)
	ok(t, l.SwapPage(t.Context(), next))
	wantClass(t, l.SwapPage(t.Context(), next), failure.Conflict)
	wantPage(t, l, next)
}

// claims returns what each racer would make of a page.
func claims(t *testing.T, p job.Page) (all [racers]job.Page) {
	t.Helper()
	for i := range all {
		all[i] = claimed(t, p, fmt.Sprint("worker ", i), instant)
	}
	return all
}

func pageRace(t *testing.T, l Ledger) {
	_, p := one(t, l)
	all := claims(t, p)
	won := winner(t, race(func(i int) error { return l.SwapPage(t.Context(), all[i]) }), failure.Conflict)
	wantPage(t, l, all[won])
}

// Two claims of one row have the same revision and the same fence: only the
// owner tells a writer that the row it reads again is its own.
func pageRival(t *testing.T, l Ledger) {
	_, p := one(t, l)
	mine, theirs := claimed(t, p, "mine", instant), claimed(t, p, "theirs", instant)
	ok(t, l.SwapPage(t.Context(), theirs))
	wantClass(t, l.SwapPage(t.Context(), mine), failure.Conflict)
	stored, err := l.Page(t.Context(), p.Run, p.Tenant, p.ID)
	ok(t, err)
	if stored.Rev != mine.Rev || stored.Fence != mine.Fence || stored.Owner != "theirs" {
		t.Errorf("revision %d, fence %d, owner %s", stored.Rev, stored.Fence, stored.Owner)
	}
}

func pageTakeover(t *testing.T, l Ledger) {
	_, p := one(t, l)
	died := claimed(t, p, "died", instant)
	ok(t, l.SwapPage(t.Context(), died))
	wantPage(t, l, died)
	if _, err := died.Claim("next", after(59*time.Second), after(time.Hour), after(time.Hour)); !failure.Is(err, failure.Conflict) {
		t.Errorf("claimed under a live lease: %v", err)
	}
	next := claimed(t, died, "next", died.LeaseEnd)
	ok(t, l.SwapPage(t.Context(), next))
	wantPage(t, l, next)
	if next.Fence != died.Fence+1 {
		t.Errorf("fence %d after %d", next.Fence, died.Fence)
	}
}

// The first owner is paused, a second finishes the page, the first goes on.
func pageLost(t *testing.T, l Ledger) {
	_, p := one(t, l)
	paused := claimed(t, p, "paused", instant)
	ok(t, l.SwapPage(t.Context(), paused))
	next := claimed(t, paused, "next", paused.LeaseEnd)
	ok(t, l.SwapPage(t.Context(), next))
	done := completed(t, next, 0)
	ok(t, l.Complete(t.Context(), done, nil))

	intent := intended(t, paused, 0)
	wantClass(t, l.Intend(t.Context(), intent, 0), failure.Conflict)
	wantClass(t, l.Complete(t.Context(), completed(t, paused, 0), nil), failure.Conflict)
	wantClass(t, l.Complete(t.Context(), completed(t, intent, 1), []job.Page{itemOf(paused, "k")}), failure.Conflict)
	retrying, err := paused.Retry(job.Settled{}, failure.Network, instant, instant, instant)
	ok(t, err)
	wantClass(t, l.SwapPage(t.Context(), retrying), failure.Conflict)
	wantPage(t, l, done)
	wantNoPage(t, l, itemOf(paused, "k"))
}

func intendEpoch(t *testing.T, l Ledger) {
	_, p := one(t, l)
	c := claimed(t, p, "a", instant)
	ok(t, l.SwapPage(t.Context(), c))
	place(t, l, tenant, "h1")
	place(t, l, neighbour, "h2") // another tenant's epoch is another tenant's
	for _, epoch := range []int64{0, 2, -1} {
		wantClass(t, l.Intend(t.Context(), intended(t, c, epoch), epoch), failure.Conflict)
	}
	wantPage(t, l, c)
	next := intended(t, c, 1)
	ok(t, l.Intend(t.Context(), next, 1))
	wantPage(t, l, next)

	// A hold that is placed and released between plan and intent stops it too (S18).
	again := claimed(t, next, "b", next.LeaseEnd)
	ok(t, l.SwapPage(t.Context(), again))
	place(t, l, tenant, "h3")
	ok(t, l.ReleaseHold(t.Context(), tenant, "h3", after(time.Hour)))
	wantClass(t, l.Intend(t.Context(), intended(t, again, 1), 1), failure.Conflict)
	ok(t, l.Intend(t.Context(), intended(t, again, 2), 2))
}

func intendStale(t *testing.T, l Ledger) {
	r, p := one(t, l)
	c := claimed(t, p, "a", instant)
	next := intended(t, c, 0)
	wantClass(t, l.Intend(t.Context(), next, 0), failure.Conflict)
	absent := pageOf(r, tenant, "k")
	wantClass(t, l.Intend(t.Context(), intended(t, claimed(t, absent, "a", instant), 0), 0), failure.Conflict)
	wantNoPage(t, l, absent)
	wantPage(t, l, p)
	ok(t, l.SwapPage(t.Context(), c))
	ok(t, l.Intend(t.Context(), next, 0))
	wantClass(t, l.Intend(t.Context(), next, 0), failure.Conflict)
	wantPage(t, l, next)
}

func intendRace(t *testing.T, l Ledger) {
	_, p := one(t, l)
	all := claims(t, p)
	for i := range all {
		all[i] = intended(t, all[i], 0)
		all[i].Rev = 2
	}
	won := winner(t, race(func(i int) error { return l.Intend(t.Context(), all[i], 0) }), failure.Conflict)
	wantPage(t, l, all[won])
}

// children returns n items that split off from a page.
func children(p job.Page, n int) []job.Page {
	all := make([]job.Page, n)
	for i := range all {
		all[i] = itemOf(p, fmt.Sprintf("key %d", i))
	}
	return all
}

// ready returns the page of a run, claimed and stored.
func ready(t *testing.T, l Ledger, r job.Run, start string) (job.Run, job.Page) {
	t.Helper()
	p := pageOf(r, tenant, start)
	r = recorded(t, l, r, p)
	p = claimed(t, p, "a", instant)
	ok(t, l.SwapPage(t.Context(), p))
	return r, p
}

// Many pages move together, or none does.
func swapManyPages(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	var before, after []job.Page
	for i := range 30 {
		p := pageOf(r, tenant, []string{"", fmt.Sprint("from ", i)}[min(i, 1)])
		r = recorded(t, l, r, p)
		next, err := p.Send(instant)
		ok(t, err)
		before, after = append(before, p), append(after, next)
	}
	faster := claimed(t, before[17], "a", instant)
	ok(t, l.SwapPage(t.Context(), faster))
	wantClass(t, l.SwapPages(t.Context(), after), failure.Conflict)
	for i, p := range before {
		if i != 17 {
			wantPage(t, l, p)
		}
	}
	wantPage(t, l, faster)
	rest := slices.Delete(slices.Clone(after), 17, 18)
	ok(t, l.SwapPages(t.Context(), rest))
	for _, p := range rest {
		wantPage(t, l, p)
	}
	ok(t, l.SwapPages(t.Context(), nil))
}

func completeChildren(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	for i, n := range []int{0, 1, 25} {
		var p job.Page
		r, p = ready(t, l, r, []string{"", "b", "c"}[i]) // a tenant's first page starts at its start
		done, items := completed(t, p, n), children(p, n)
		for i := range items {
			items[i].ID += job.PageID(fmt.Sprint(n)) // each round has items of its own
		}
		ok(t, l.Complete(t.Context(), done, items))
		for _, page := range append(items, done) {
			wantPage(t, l, page)
		}
	}
	got := walk(t, 7, func(after *job.Page, limit int) ([]job.Page, error) {
		return l.Pages(t.Context(), r.ID, tenant, after, limit)
	})
	if len(got) != 3+26 {
		t.Errorf("%d pages, want 3 ranges and 26 items", len(got))
	}
	wantTenants(t, l, r.ID, tenant)
}

func completeStale(t *testing.T, l Ledger) {
	_, p := ready(t, l, opened(t, l, runOf("exports", instant)), "")
	items := children(p, 25)
	stale := completed(t, p, 25)
	stale.Rev--
	wantClass(t, l.Complete(t.Context(), stale, items), failure.Conflict)
	stale.Rev += 2
	wantClass(t, l.Complete(t.Context(), stale, items), failure.Conflict)
	for _, c := range items {
		wantNoPage(t, l, c)
	}
	wantPage(t, l, p)
}

func completeTaken(t *testing.T, l Ledger) {
	r, first := ready(t, l, opened(t, l, runOf("exports", instant)), "")
	_, second := ready(t, l, r, "k")
	taken := children(first, 25)[24]
	ok(t, l.Complete(t.Context(), completed(t, first, 1), []job.Page{taken}))
	wantClass(t, l.Complete(t.Context(), completed(t, second, 25), children(second, 25)), failure.Conflict)
	wantPage(t, l, second)
	wantPage(t, l, taken)
	for _, c := range children(second, 24) {
		wantNoPage(t, l, c)
	}
}

// An item twice would leave one candidate without an outcome; one of another
// tenant or run would never be summed with its parent.
func completeWrong(t *testing.T, l Ledger) {
	r, p := ready(t, l, opened(t, l, runOf("exports", instant)), "")
	other := opened(t, l, runOf("exports-2", instant))
	recorded(t, l, r, pageOf(r, neighbour, ""))
	for _, c := range []struct {
		name  string
		class failure.Class
		spoil func(c *job.Page)
	}{
		{"twice", failure.Invalid, func(c *job.Page) { *c = children(p, 1)[0] }},
		{"another tenant", failure.Invalid, func(c *job.Page) { c.Tenant = neighbour }},
		{"no tenant", failure.Invalid, func(c *job.Page) { c.Tenant = "nobody" }},
		{"another run", failure.Invalid, func(c *job.Page) { c.Run = other.ID }},
		{"the page itself", failure.Conflict, func(c *job.Page) { c.ID = p.ID }},
	} {
		items := children(p, 3)
		c.spoil(&items[2])
		if err := l.Complete(t.Context(), completed(t, p, 3), items); !failure.Is(err, c.class) {
			t.Errorf("%s: %v, want class %s", c.name, err, c.class)
		}
		wantPage(t, l, p)
		wantNoPage(t, l, items[1])
		if items[2].ID != p.ID {
			wantNoPage(t, l, items[2])
		}
	}
}

func completeRace(t *testing.T, l Ledger) {
	_, p := ready(t, l, opened(t, l, runOf("exports", instant)), "")
	done := func(i int) (job.Page, []job.Page) {
		next := completed(t, p, 1)
		next.Receipt = fmt.Sprint(i)
		return next, []job.Page{itemOf(p, fmt.Sprint(i))}
	}
	var all [racers]job.Page
	var items [racers][]job.Page
	for i := range all {
		all[i], items[i] = done(i)
	}
	won := winner(t, race(func(i int) error { return l.Complete(t.Context(), all[i], items[i]) }), failure.Conflict)
	wantPage(t, l, all[won])
	for i := range items {
		if i == won {
			wantPage(t, l, items[i][0])
		} else {
			wantNoPage(t, l, items[i][0])
		}
	}
}
