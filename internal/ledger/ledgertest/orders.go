package ledgertest

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

var orderlyTests = map[string]func(*testing.T, Ledger){
	"Approve/one winner, read back whole":          approvals,
	"Watch/one winner, read back whole":            watches,
	"AutoRedrive/off until somebody says so":       autoRedrives,
	"Entries/newest first, once each":              entries,
	"Redrive/recorded whole, swapped once":         redrives,
	"Redrive/a plan about other pages":             foreignPages,
	"AwaitingRuns/until somebody has decided":      awaitingRuns,
	"RecentRuns/every kind, newest first":          recentRuns,
	"PageAt/the range that handles a key":          pageAt,
	"RunsOf/every run with a page of the tenant":   runsOf,
	"ReadRuns/as Run returns each, in their order": readRuns,
	"LatestPolicy/the highest number":              latestPolicy,
}

func approvals(t *testing.T, l Ledger) {
	none, err := l.Approval(t.Context(), "exports")
	ok(t, err)
	if none != (policy.Approval{}) {
		t.Errorf("before any: %+v", none)
	}
	first := policy.Approval{Policy: "exports", Rev: 1, Version: 3, SHA256: strings.Repeat("a", 64), RunID: "run", By: "ana", Reason: "was looked at", At: instant}
	ok(t, l.Approve(t.Context(), first))
	wantClass(t, l.Approve(t.Context(), first), failure.Conflict)
	second := first
	second.Rev, second.Version = 2, 4
	ok(t, l.Approve(t.Context(), second))
	wantClass(t, l.Approve(t.Context(), second), failure.Conflict)
	got, err := l.Approval(t.Context(), "exports")
	ok(t, err)
	if got != second {
		t.Errorf("got %+v, want %+v", got, second)
	}
}

func watches(t *testing.T, l Ledger) {
	none, err := l.Watch(t.Context(), "exports")
	ok(t, err)
	if none != (job.Watch{}) {
		t.Errorf("before any: %+v", none)
	}
	w := job.Watch{Policy: "exports", Rev: 1, Since: instant, Through: after(time.Hour), Missed: 2}
	ok(t, l.SwapWatch(t.Context(), w))
	wantClass(t, l.SwapWatch(t.Context(), w), failure.Conflict)
	w.Rev, w.Through = 2, after(2*time.Hour)
	ok(t, l.SwapWatch(t.Context(), w))
	got, err := l.Watch(t.Context(), "exports")
	ok(t, err)
	if got != w {
		t.Errorf("got %+v, want %+v", got, w)
	}
}

func autoRedrives(t *testing.T, l Ledger) {
	off, err := l.AutoRedrive(t.Context())
	ok(t, err)
	if off != (job.AutoRedrive{}) {
		t.Errorf("before any: %+v", off)
	}
	on := job.AutoRedrive{Rev: 1, On: true, Reason: job.ReasonAttempts, Cap: 20, By: "ana", At: instant}
	ok(t, l.SwapAutoRedrive(t.Context(), on))
	wantClass(t, l.SwapAutoRedrive(t.Context(), on), failure.Conflict)
	got, err := l.AutoRedrive(t.Context())
	ok(t, err)
	if got != on {
		t.Errorf("got %+v, want %+v", got, on)
	}
}

func entries(t *testing.T, l Ledger) {
	var all []audit.Entry
	for i, d := range []time.Duration{0, time.Second, 40 * 24 * time.Hour, 400 * 24 * time.Hour} {
		e := audit.Entry{At: after(d), Act: audit.BrakeSet, Region: region, By: "ana", Reason: "something is wrong", Count: i}
		ok(t, l.PutEntry(t.Context(), e))
		ok(t, l.PutEntry(t.Context(), e)) // an answer was lost
		all = append(all, e)
	}
	slices.Reverse(all)
	for name, c := range map[string]struct {
		since, until time.Time
		limit        int
		want         []audit.Entry
	}{
		"all":             {instant, after(500 * 24 * time.Hour), 10, all},
		"the newest two":  {instant, after(500 * 24 * time.Hour), 2, all[:2]},
		"until is not in": {instant, after(400 * 24 * time.Hour), 10, all[1:]},
		"since is":        {after(time.Second), after(2 * time.Second), 10, all[2:3]},
		"none":            {after(-time.Hour), instant, 10, nil},
	} {
		got, err := l.Entries(t.Context(), c.since, c.until, c.limit)
		ok(t, err)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// movesOf is more than one row holds.
func movesOf(n int) []job.RedrivePage {
	pages := make([]job.RedrivePage, n)
	for i := range pages {
		pages[i] = job.RedrivePage{
			Run: "0123456789abcdef0123456789abcdef", Tenant: tenant, ID: job.RangePageID("run", tenant, strings.Repeat("k", i)), Hash: strings.Repeat("b", 64),
		}
	}
	return pages
}

func redrives(t *testing.T, l Ledger) {
	pages := movesOf(1000)
	r := job.NewRedrive(region, instant, after(time.Hour), "", pages)
	_, err := l.Redrive(t.Context(), r.ID)
	wantClass(t, err, failure.Absent)
	_, err = l.RedrivePages(t.Context(), r.ID)
	wantClass(t, err, failure.Absent)
	ok(t, l.PutRedrive(t.Context(), r, pages))
	ok(t, l.PutRedrive(t.Context(), r, pages)) // an answer was lost
	got, err := l.RedrivePages(t.Context(), r.ID)
	ok(t, err)
	if !slices.Equal(got, pages) || !r.Binds(got) {
		t.Errorf("%d pages came back", len(got))
	}
	open := func() string {
		all, err := l.OpenRedrives(t.Context())
		ok(t, err)
		var ids []string
		for _, r := range all {
			ids = append(ids, string(r.ID))
		}
		return strings.Join(ids, ",")
	}
	if found := open(); found != "" {
		t.Errorf("a plan that nobody applied is followed: %s", found)
	}
	applied, err := r.Apply(after(time.Minute), "ana", "the role was mended")
	ok(t, err)
	ok(t, l.SwapRedrive(t.Context(), applied))
	wantClass(t, l.SwapRedrive(t.Context(), applied), failure.Conflict)
	ok(t, l.PutRedrive(t.Context(), r, pages)) // and does not take the word back
	stored, err := l.Redrive(t.Context(), r.ID)
	ok(t, err)
	if stored != applied {
		t.Errorf("got %+v, want %+v", stored, applied)
	}
	eventually(t, string(r.ID), func() (string, error) { return open(), nil })
	ok(t, l.SwapRedrive(t.Context(), applied.Close(after(time.Hour), 9, 8, 1)))
	eventually(t, "", func() (string, error) { return open(), nil })
}

func foreignPages(t *testing.T, l Ledger) {
	pages := movesOf(3)
	r := job.NewRedrive(region, instant, after(time.Hour), "", pages)
	wantClass(t, l.PutRedrive(t.Context(), r, pages[:2]), failure.Invalid)
	wantClass(t, l.SwapRedrive(t.Context(), r), failure.Conflict)
	none := job.NewRedrive(region, instant, after(time.Hour), "", nil)
	ok(t, l.PutRedrive(t.Context(), none, nil))
	got, err := l.RedrivePages(t.Context(), none.ID)
	ok(t, err)
	if len(got) != 0 {
		t.Errorf("%d pages of a plan without any", len(got))
	}
}

func awaitingRuns(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	waiting := func() string {
		all, err := l.AwaitingRuns(t.Context())
		ok(t, err)
		var ids []string
		for _, r := range all {
			ids = append(ids, string(r.ID))
		}
		return strings.Join(ids, ",")
	}
	eventually(t, "", func() (string, error) { return waiting(), nil })
	next, err := r.Await([]string{"too many"})
	ok(t, err)
	ok(t, l.SwapRun(t.Context(), next))
	eventually(t, string(r.ID), func() (string, error) { return waiting(), nil })
	released, err := next.Release(after(time.Hour), next.Trips, "was looked at", "ana")
	ok(t, err)
	ok(t, l.SwapRun(t.Context(), released))
	eventually(t, "", func() (string, error) { return waiting(), nil })
}

func recentRuns(t *testing.T, l Ledger) {
	end := func(r job.Run, state job.RunState) string {
		opened(t, l, r)
		r.State, r.Rev = state, 2
		ok(t, l.SwapRun(t.Context(), r))
		return string(r.ID)
	}
	request := runOf("exports", after(2*time.Hour))
	request.RequestID, request.Tenant = "r-1", tenant
	want := []string{
		end(runOf("exports", after(3*time.Hour)), job.Closed), end(request, job.Closed),
		end(runOf("exports", after(time.Hour)), job.Rejected), end(runOf("exports", instant), job.Closed),
	}
	end(runOf("exports-2", after(4*time.Hour)), job.Closed)
	opened(t, l, runOf("exports", after(5*time.Hour)))
	for limit := 1; limit <= 5; limit++ {
		got, err := l.RecentRuns(t.Context(), "exports", limit)
		ok(t, err)
		var ids []string
		for _, r := range got {
			ids = append(ids, string(r.ID))
		}
		if !slices.Equal(ids, want[:min(limit, len(want))]) {
			t.Errorf("limit %d: %v, want %v", limit, ids, want)
		}
	}
	closed, err := l.ClosedRuns(t.Context(), "exports", 10)
	ok(t, err)
	if len(closed) != 2 {
		t.Errorf("%d runs are the guard's history, want the two scheduled ones that closed", len(closed))
	}
}

func pageAt(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	for _, p := range []struct{ after, through string }{{"", "c"}, {"c", "f"}, {"f", "m\xff"}} {
		page := pageOf(r, tenant, p.after)
		page.Through = p.through
		r = recorded(t, l, r, page)
	}
	for key, want := range map[string]string{"a": "-", "b": "-", "c": "-", "c\x00": "c", "d": "c", "f": "c", "g": "f", "m\xff": "f", "m\xff0": "none", "z": "none"} {
		page, err := l.PageAt(t.Context(), r.ID, tenant, key)
		if want == "none" {
			wantClass(t, err, failure.Absent)
			continue
		}
		ok(t, err)
		if "-"+page.After != "-"+strings.TrimPrefix(want, "-") {
			t.Errorf("%q is handled by the page after %q, want %q", key, page.After, want)
		}
	}
	for _, other := range []string{neighbour, tenant + "1"} {
		_, err := l.PageAt(t.Context(), r.ID, other, "b")
		wantClass(t, err, failure.Absent)
	}
}

func runsOf(t *testing.T, l Ledger) {
	first := opened(t, l, runOf("exports", instant))
	second := opened(t, l, runOf("exports-2", instant))
	third := opened(t, l, runOf("exports-3", instant))
	recorded(t, l, first, pageOf(first, tenant, ""))
	recorded(t, l, second, pageOf(second, tenant, ""))
	recorded(t, l, third, pageOf(third, neighbour, ""))
	got, err := l.RunsOf(t.Context(), tenant)
	ok(t, err)
	want := []job.RunID{first.ID, second.ID}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func readRuns(t *testing.T, l Ledger) {
	first := opened(t, l, runOf("exports", instant))
	second := recorded(t, l, opened(t, l, runOf("exports-2", instant)), pageOf(runOf("exports-2", instant), tenant, ""))
	for _, ids := range [][]job.RunID{nil, {first.ID}, {first.ID, second.ID}, {second.ID, first.ID}} {
		got, err := l.ReadRuns(t.Context(), ids)
		ok(t, err)
		var want []job.Run
		for _, id := range ids {
			r, err := l.Run(t.Context(), id)
			ok(t, err)
			want = append(want, r)
		}
		if !slices.EqualFunc(got, want, func(a, b job.Run) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	_, err := l.ReadRuns(t.Context(), []job.RunID{first.ID, runOf("exports-3", instant).ID})
	wantClass(t, err, failure.Absent)
}

func latestPolicy(t *testing.T, l Ledger) {
	_, err := l.LatestPolicy(t.Context(), "exports")
	wantClass(t, err, failure.UnknownPolicy)
	for _, version := range []int{2, 10, 9} {
		p := policyOf("exports", version, 30)
		ok(t, l.PublishPolicy(t.Context(), p))
	}
	ok(t, l.PublishPolicy(t.Context(), policyOf("digests", 11, 30)))
	got, err := l.LatestPolicy(t.Context(), "exports")
	ok(t, err)
	if got.Version != 10 {
		t.Errorf("version %d is called the latest", got.Version)
	}
	names, err := l.PolicyNames(t.Context())
	ok(t, err)
	if strings.Join(names, ",") != "digests,exports" {
		t.Errorf("the names are %v", names)
	}
}
