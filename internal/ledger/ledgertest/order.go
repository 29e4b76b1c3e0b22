package ledgertest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

var orderTests = map[string]func(*testing.T, Ledger){
	"pages of a tenant ascend by the start of their range": pagesAscend,
	"pages after one that is not there":                    pagesAfterAbsent,
	"F7 overdue pages are those that are owed something":   openContains,
	"overdue pages, the longest open first":                openOrder,
}

// longest is the longest start of a range: an S3 key has at most 1,024 bytes and
// the shortest tenant's prefix two, and DynamoDB's sort key has 1,024 bytes, one
// of them the type.
const longest = 1022

// starts are ranges' starts in ascending order of bytes.
var starts = []string{
	"", "\x00", "\x00\x00", "\x00\xff", "\n", " ", "/", "0", "A", "a", "a\x00", "a/", "a/b", "a\xff", "aa", "p", "q", "z",
	"\x7f", "é", "€", "\U0001f600", "\xf5", "\xff", "\xff\x00", "\xff\xff",
}

func pagesAscend(t *testing.T, l Ledger) {
	all := slices.Concat(starts, []string{strings.Repeat("x", longest), strings.Repeat("x", longest-1) + "y", strings.Repeat("\xff", longest)})
	slices.Sort(all)
	r := opened(t, l, runOf("exports", instant))
	shuffled := slices.Clone(all)
	slices.SortFunc(shuffled, func(a, b string) int {
		return strings.Compare(string(job.RangePageID(r.ID, tenant, a)), string(job.RangePageID(r.ID, tenant, b)))
	})
	for _, start := range shuffled {
		r = recorded(t, l, r, pageOf(r, tenant, start), pageOf(r, neighbour, start))
	}
	parent := claimed(t, pageOf(r, tenant, ""), "a", instant)
	ok(t, l.SwapPage(t.Context(), parent))
	items := children(parent, 25)
	ok(t, l.Complete(t.Context(), completed(t, parent, 25), items))
	var first []job.Page
	for _, limit := range []int{1, 2, 7, 25, 1000} {
		got := walk(t, limit, func(after *job.Page, limit int) ([]job.Page, error) {
			return l.Pages(t.Context(), r.ID, tenant, after, limit)
		})
		if len(got) != len(all)+len(items) {
			t.Fatalf("limit %d: %d pages, want %d ranges and %d items", limit, len(got), len(all), len(items))
		}
		for i, p := range got {
			if isRange := i < len(all); (p.Kind == job.RangePage) != isRange || isRange && p.After != all[i] {
				t.Fatalf("limit %d: page %d is a %s that starts at %.20q", limit, i, p.Kind, p.After)
			}
		}
		if first == nil {
			first = got
		}
		if ids(got) != ids(first) {
			t.Errorf("limit %d answers in another order", limit)
		}
	}
	seen := map[job.PageID]bool{}
	for _, p := range first {
		seen[p.ID] = true
	}
	if len(seen) != len(first) {
		t.Error("a page came twice")
	}
}

// after only says where to go on: the page may have changed, or be of a scan
// that nobody recorded.
func pagesAfterAbsent(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	for _, start := range []string{"", "b", "d"} {
		r = recorded(t, l, r, pageOf(r, tenant, start))
	}
	for start, want := range map[string]string{"": "bd", "a": "bd", "b": "d", "c": "d", "d": "", "e": ""} {
		from := pageOf(r, tenant, start)
		from.Rev, from.State = 99, job.Completed
		got, err := l.Pages(t.Context(), r.ID, tenant, &from, 10)
		ok(t, err)
		found := ""
		for _, p := range got {
			found += p.After
		}
		if found != want {
			t.Errorf("after %q: %q, want %q", start, found, want)
		}
	}
	none, err := l.Pages(t.Context(), r.ID, "school-421", nil, 10)
	ok(t, err)
	if len(none) > 0 {
		t.Errorf("pages of a tenant without any:\n%s", ids(none))
	}
}

// startsIn walks an index of pages and returns where they start.
func startsIn(t *testing.T, l Ledger, index func(context.Context, *job.Page, int) ([]job.Page, error), limit int) string {
	t.Helper()
	var found []string
	for _, p := range walk(t, limit, func(after *job.Page, limit int) ([]job.Page, error) {
		return index(t.Context(), after, limit)
	}) {
		stored, err := l.Page(t.Context(), p.Run, p.Tenant, p.ID)
		ok(t, err)
		found = append(found, stored.After)
	}
	return strings.Join(found, "\n")
}

// Every page is in the index of those that need work, in that of those that wait
// for an operator, or has ended.
func openContains(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	var open, dead []string
	put := func(name string, state job.PageState, lettered time.Time, in *[]string) {
		p := pageOf(r, tenant, name)
		r = recorded(t, l, r, p)
		p.State, p.Rev = state, 2
		if state == job.Dead || state == job.Redriven {
			p.Death = job.Death{Reason: job.ReasonAttempts, At: instant, LetterAt: lettered}
		}
		ok(t, l.SwapPage(t.Context(), p))
		if in != nil {
			*in = append(*in, name)
		}
	}
	for _, state := range job.PageStates() {
		in := &open
		if state == job.Dead {
			in = &dead
		} else if state.Terminal() {
			in = nil
		}
		put(string(state), state, instant, in)
	}
	put("dead without letter", job.Dead, time.Time{}, &open)
	slices.Sort(open)
	for _, limit := range []int{1, 3, 100} {
		eventually(t, strings.Join(open, "\n"), func() (string, error) {
			found := strings.Split(startsIn(t, l, l.OpenPages, limit), "\n")
			slices.Sort(found)
			return strings.Join(found, "\n"), nil
		})
		eventually(t, strings.Join(dead, "\n"), func() (string, error) { return startsIn(t, l, l.DeadPages, limit), nil })
	}
}

// Pages of all runs and tenants are in one order, and one that leaves the index,
// or comes in, moves no other.
func openOrder(t *testing.T, l Ledger) {
	first := opened(t, l, runOf("exports", instant))
	second := opened(t, l, runOf("exports-2", instant))
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	var pages []job.Page
	for i, name := range names {
		p := pageOf(first, []string{tenant, neighbour}[i%2], name)
		if i >= 4 {
			p = pageOf(second, tenant, name)
		}
		p.BornAt = after(-time.Duration(len(names)-i) * time.Minute)
		p.NextDue = after(time.Duration(i-len(names)) * time.Second)
		pages = append(pages, p)
	}
	for _, i := range []int{3, 6, 1, 7, 0, 4, 2, 5} {
		run := &first
		if pages[i].Run == second.ID {
			run = &second
		}
		*run = recorded(t, l, *run, pages[i])
	}
	for _, limit := range []int{1, 3, 8, 100} {
		eventually(t, strings.Join(names, "\n"), func() (string, error) { return startsIn(t, l, l.OpenPages, limit), nil })
	}
	got, err := l.OpenPages(t.Context(), nil, 3)
	ok(t, err)
	ended := pages[0]
	ended.State, ended.Rev = job.Completed, 2
	ok(t, l.SwapPage(t.Context(), ended))
	rest, err := l.OpenPages(t.Context(), &got[len(got)-1], 100)
	ok(t, err)
	if ids(rest) != ids(pages[len(got):]) {
		t.Errorf("after %d pages:\n%s", len(got), ids(rest))
	}
	eventually(t, strings.Join(names[1:], "\n"), func() (string, error) { return startsIn(t, l, l.OpenPages, 100), nil })

	// Pages that are due at the same instant all come, each once.
	for i := range pages[:4] {
		p := pageOf(first, tenant, "tie "+names[i])
		p.BornAt, p.NextDue = after(-time.Minute), after(-time.Minute)
		first = recorded(t, l, first, p)
	}
	for _, limit := range []int{1, 2, 100} {
		eventually(t, "tie a,tie b,tie c,tie d", func() (string, error) {
			var ties []string
			for name := range strings.SplitSeq(startsIn(t, l, l.OpenPages, limit), "\n") {
				if strings.HasPrefix(name, "tie ") {
					ties = append(ties, name)
				}
			}
			slices.Sort(ties)
			return strings.Join(ties, ","), nil
		})
	}
}
