package enqueue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// brief is a page in a test's table.
type brief struct {
	tenant               string
	after, through       string
	examined, candidates int
}

func briefs(pages []job.Page) []brief {
	all := make([]brief, len(pages))
	for i, p := range pages {
		all[i] = brief{p.Tenant, p.After, p.Through, p.Examined, p.Candidates}
	}
	return all
}

func wantPages(t *testing.T, pages []job.Page, want ...brief) {
	t.Helper()
	if got := briefs(pages); !slices.Equal(got, want) {
		t.Errorf("pages\n got %+v\nwant %+v", got, want)
	}
}

func TestPageClosesAtACandidateLimitAtTheListingLimitAndAtItsTenantsEnd(t *testing.T) {
	t.Run("1,000 candidates", func(t *testing.T) {
		r := newRegion(t, parse(t))
		r.put(31*day, keys("exports/a/", 2500)...)
		run := r.start(tick)
		wantPages(t, r.chain(run),
			brief{"a", "", "000999", 1000, 1000}, brief{"a", "000999", "001999", 1000, 1000}, brief{"a", "001999", "002499", 500, 500})
	})
	t.Run("exactly 1,000 and one more", func(t *testing.T) {
		for _, n := range []int{999, 1000, 1001} {
			r := newRegion(t, parse(t))
			r.put(31*day, keys("exports/a/", n)...)
			pages := r.chain(r.start(tick))
			if want := (n + 999) / 1000; len(pages) != want || pages[0].Candidates != min(n, 1000) {
				t.Errorf("%d candidates: %+v", n, briefs(pages))
			}
		}
	})
	t.Run("and not over the young keys that follow", func(t *testing.T) {
		r := newRegion(t, parse(t))
		r.put(31*day, keys("exports/a/o", 1000)...)
		r.put(day, keys("exports/a/y", 10)...)
		wantPages(t, r.chain(r.start(tick)), brief{"a", "", "o000999", 1000, 1000}, brief{"a", "o000999", "y000009", 10, 0})
	})
	t.Run("10,000 listed", func(t *testing.T) {
		// F15: a few expired keys among many young ones must not make a page that
		// no worker can list within its time.
		r := newRegion(t, parse(t))
		r.put(day, keys("exports/a/y", 20_500)...)
		r.put(31*day, "exports/a/y010000-old", "exports/a/z")
		run := r.start(tick)
		wantPages(t, r.chain(run),
			brief{"a", "", "y009999", 10_000, 0}, brief{"a", "y009999", "y019998", 10_000, 1}, brief{"a", "y019998", "z", 502, 1})
	})
	t.Run("unmatched keys are walked in stretches too", func(t *testing.T) {
		r := newRegion(t, parse(t), sized(3, 4))
		r.put(31*day, keys("exports/loose", 9)...)
		run := r.start(tick)
		if run.Examined != 9 || run.Unmatched != 9 || run.Cursor != "exports/loose000008" || len(r.chain(run)) != 0 {
			t.Errorf("%+v", run)
		}
	})
	t.Run("the tenant's end", func(t *testing.T) {
		r := newRegion(t, parse(t))
		r.put(31*day, "exports/a/1", "exports/b/1", "exports/b/2")
		run := r.start(tick)
		wantPages(t, r.chain(run), brief{"a", "", "1", 1, 1}, brief{"b", "", "2", 2, 2})
	})
}

func TestPageWithoutCandidatesIsBornCompletedAndNeverSent(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(day, "exports/a/young")
	r.put(30*day, "exports/b/at the cutoff")
	r.put(30*day+time.Second, "exports/c/just before it")
	run := r.start(tick)
	pages := r.chain(run)
	wantPages(t, pages, brief{"a", "", "young", 1, 0}, brief{"b", "", "at the cutoff", 1, 0}, brief{"c", "", "just before it", 1, 1})
	for i, want := range []job.PageState{job.Completed, job.Completed, job.Sent} {
		if pages[i].State != want {
			t.Errorf("page of %s is %s, want %s", pages[i].Tenant, pages[i].State, want)
		}
	}
	r.messages(1)
}

// S3-10: nobody's keys and neighbours' keys are counted and belong to no page.
func TestKeysGoToTheirTenantOrToNobody(t *testing.T) {
	cases := []struct {
		name      string
		policy    []string
		keys      []string
		want      []brief
		unmatched int
	}{
		{
			"S3-10 neighbours", nil,
			[]string{"exports/school-4/x", "exports/school-42/x", "exports/school-4.x/x", "exports/school-4-b/x", "exports/school-4", "exports-2/school-4/x"},
			[]brief{
				{"school-4", "", "x", 1, 1}, {"school-4-b", "", "x", 1, 1}, {"school-4.x", "", "x", 1, 1}, {"school-42", "", "x", 1, 1},
			}, 1,
		},
		{
			"tenant_pattern", []string{"keys: exports/{tenant}/", "keys: exports/{tenant}/\ntenant_pattern: school-[0-9]"},
			[]string{"exports/school-4/x", "exports/school-42/x", "exports/my-school-4/x", "exports/school-5/x"},
			[]brief{{"school-4", "", "x", 1, 1}, {"school-5", "", "x", 1, 1}}, 2,
		},
		{
			"fixed tenant", []string{"keys: exports/{tenant}/", "keys: exports/school-4/\ntenant: acme"},
			[]string{"exports/school-4/a/1", "exports/school-4/b", "exports/school-42/x", "exports/school-4/"},
			[]brief{{"acme", "", "b", 2, 2}}, 1,
		},
		{
			"a folder below the tenant", []string{"keys: exports/{tenant}/", "keys: exports/{tenant}/csv/"},
			[]string{
				"exports/a/aaa", "exports/a/csv", "exports/a/csv/", "exports/a/csv/1", "exports/a/csv/2/3", "exports/a/csv2/1", "exports/a/zip/1",
				"exports/b/pdf/1", "exports/c/csv/1",
			},
			[]brief{{"a", "", "2/3", 2, 2}, {"c", "", "1", 1, 1}}, 6,
		},
		{
			"not a tenant", nil,
			[]string{"exports//x", "exports/./x", "exports/../x", "exports/.git/x", "exports/a b/x", "exports/é/x", "exports/a/", "exports/a", "exports/"},
			nil, 9,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRegion(t, parse(t, c.policy...))
			r.put(31*day, c.keys...)
			run := r.start(tick)
			wantPages(t, r.chain(run), c.want...)
			if run.Unmatched != c.unmatched {
				t.Errorf("%d unmatched, want %d", run.Unmatched, c.unmatched)
			}
		})
	}
}

// Keys are bytes: they are kept relative to the tenant and exactly as listed.
func TestOddKeys(t *testing.T) {
	odd := []string{
		"\x01", " ", "  ", "%2e%2e/", "+", "../..", "..", "/", "//", "\u00e9", "e\u0301", "\U0001f4a9", "<&>\"'", "\\", "a\nb", "\x7f",
		"exports/a/", strings.Repeat("k", 1024-len("exports/a/")), "\xef\xbf\xbf",
	}
	r := newRegion(t, parse(t), sized(1, 1))
	for _, k := range odd {
		r.put(31*day, "exports/a/"+k)
	}
	run := r.start(tick)
	pages := r.chain(run)
	slices.Sort(odd)
	if len(pages) != len(odd) || run.Unmatched != 0 {
		t.Fatalf("%d pages for %d keys, %d unmatched", len(pages), len(odd), run.Unmatched)
	}
	for i, p := range pages {
		if p.Through != odd[i] {
			t.Errorf("page %d ends at %q, want %q", i, p.Through, odd[i])
		}
	}
	r.messages(len(odd))
}

// TestOneKeysVersionsStayTogether: a page ends between two keys, never inside one.
func TestOneKeysVersionsStayTogether(t *testing.T) {
	versioned := parse(t, "mode: enforce", "mode: enforce\nversions: all")
	put := func(r *region, key string, old, young int) {
		for range old {
			r.put(31*day, key)
		}
		for range young {
			r.put(day, key)
		}
	}
	t.Run("a key that does not fit begins the next page", func(t *testing.T) {
		r := newRegion(t, versioned, sized(5, 100))
		put(r, "exports/a/1", 3, 0)
		put(r, "exports/a/2", 3, 0)
		put(r, "exports/a/3", 2, 0)
		wantPages(t, r.chain(r.start(tick)), brief{"a", "", "1", 3, 3}, brief{"a", "1", "3", 5, 5})
	})
	t.Run("nor one that would list too much", func(t *testing.T) {
		r := newRegion(t, versioned, sized(5, 6))
		put(r, "exports/a/1", 1, 2)
		put(r, "exports/a/2", 1, 4)
		wantPages(t, r.chain(r.start(tick)), brief{"a", "", "1", 3, 1}, brief{"a", "1", "2", 5, 1})
	})
	t.Run("F15: more versions than a page takes", func(t *testing.T) {
		r := newRegion(t, versioned)
		put(r, "exports/a/1", 1, 0)
		put(r, "exports/a/2", 1500, 0)
		put(r, "exports/a/3", 1, 0)
		run := r.start(tick)
		wantPages(t, r.chain(run), brief{"a", "", "1", 1, 1}, brief{"a", "1", "2", 1500, 1000}, brief{"a", "2", "3", 1, 1})
	})
	t.Run("and more than a page lists", func(t *testing.T) {
		r := newRegion(t, versioned, sized(5, 6))
		put(r, "exports/a/1", 3, 9)
		put(r, "exports/a/2", 1, 0)
		wantPages(t, r.chain(r.start(tick)), brief{"a", "", "1", 12, 3}, brief{"a", "1", "2", 1, 1})
	})
	t.Run("across two listings", func(t *testing.T) {
		r := newRegion(t, versioned, sized(5, 100))
		r.store.PageSize = 2
		put(r, "exports/a/1", 2, 1)
		put(r, "exports/a/2", 4, 0)
		put(r, "exports/b/1", 1, 0)
		wantPages(t, r.chain(r.start(tick)), brief{"a", "", "1", 3, 2}, brief{"a", "1", "2", 4, 4}, brief{"b", "", "1", 1, 1})
	})
	t.Run("versions: current sees one each", func(t *testing.T) {
		r := newRegion(t, parse(t))
		put(r, "exports/a/1", 3, 0)
		wantPages(t, r.chain(r.start(tick)), brief{"a", "", "1", 1, 1})
	})
}

func TestStretchNeverExceedsALimitUnlessOneKeyDoes(t *testing.T) {
	// Every shape of three keys with up to four versions each, over small limits.
	p := parse(t, "mode: enforce", "mode: enforce\nversions: all")
	for shape := range 5 * 5 * 5 {
		counts := []int{shape % 5, shape / 5 % 5, shape / 25}
		r := newRegion(t, p, sized(2, 3))
		total := 0
		for i, n := range counts {
			for range n {
				r.put(31*day, fmt.Sprintf("exports/a/%d", i))
			}
			total += n
		}
		run := r.start(tick)
		for _, page := range r.chain(run) {
			within := 0
			for i, n := range counts {
				if key := fmt.Sprint(i); page.After < key && key <= page.Through && n > 0 {
					within++
				}
			}
			if page.Candidates > 2 || page.Examined > 3 && within > 1 {
				t.Errorf("%v: page %+v", counts, briefs([]job.Page{page}))
			}
		}
		if run.Examined != total {
			t.Errorf("%v: %d examined, want %d", counts, run.Examined, total)
		}
	}
}

func TestTheRunPinsWhatItsPagesAreDecidedBy(t *testing.T) {
	p := parse(t)
	r := newRegion(t, p)
	r.put(31*day, "exports/a/1")
	run := r.start(tick)
	if !run.Cutoff.Equal(p.Cutoff(noon)) || run.Version != 1 || run.PolicySHA256 != p.SHA256() || run.Mode != job.Enforce {
		t.Errorf("%+v", run)
	}
	if _, err := r.ledger.Policy(t.Context(), "exports", 1); err != nil {
		t.Error(err)
	}
}
