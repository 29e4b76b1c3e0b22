package ledgertest

import (
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

var runTests = map[string]func(*testing.T, Ledger){
	"HP-09 run opened twice is one run":         runTwice,
	"HP-09 run opened in parallel is one run":   runParallel,
	"run keeps every field in every state":      runFields,
	"run that is not there":                     runAbsent,
	"run written from another revision":         runStale,
	"run written by racers":                     runRace,
	"run shares no memory with who put or read": runAliases,
	"open runs":   openRuns,
	"closed runs": closedRuns,
}

func runTwice(t *testing.T, l Ledger) {
	first := opened(t, l, runOf("exports", instant))
	second := first
	second.OpenedAt, second.Cutoff, second.Version = after(time.Hour), after(-time.Hour), 2
	stored, created, err := l.OpenRun(t.Context(), second)
	ok(t, err)
	if created {
		t.Error("created again")
	}
	wantSame(t, stored, first)
	moved := advanced(t, first, nil)
	ok(t, l.SwapRun(t.Context(), moved))
	stored, created, err = l.OpenRun(t.Context(), first)
	ok(t, err)
	if created {
		t.Error("created again after it moved")
	}
	wantSame(t, stored, moved)
	wantRun(t, l, moved)
}

func runParallel(t *testing.T, l Ledger) {
	var runs [racers]job.Run
	var created [racers]bool
	for _, err := range race(func(i int) (err error) {
		r := runOf("exports", instant)
		r.OpenedAt = after(time.Duration(i) * time.Second)
		runs[i], created[i], err = l.OpenRun(t.Context(), r)
		return err
	}) {
		ok(t, err)
	}
	n := 0
	for i := range runs {
		wantSame(t, runs[i], runs[0])
		if created[i] {
			n++
			if want := after(time.Duration(i) * time.Second); !runs[i].OpenedAt.Equal(want) {
				t.Errorf("racer %d created the run of another", i)
			}
		}
	}
	if n != 1 {
		t.Errorf("created %d times", n)
	}
	wantRun(t, l, runs[0])
}

func runFields(t *testing.T, l Ledger) {
	for i, state := range job.RunStates() {
		r := full[job.Run](t)
		r.ID, r.State, r.Rev = job.RequestRunID(region, "exports", string(state)), state, 7
		r.Cursor = "exports/school-42/\x00\xff\n\u2028" // a key is opaque bytes
		r.Totals.Counts[job.NoOutcome] = 0              // nothing ever has this outcome
		stored := opened(t, l, r)
		wantSame(t, stored, r)
		wantRun(t, l, r)

		r.Rev, r.Reason, r.Trips = 8, "other", append(r.Trips, "third")
		ok(t, l.SwapRun(t.Context(), r))
		wantRun(t, l, r)

		p := pageOf(r, tenant, "")
		r.Rev, r.Pages, r.Trips = 9, i, nil
		ok(t, l.Record(t.Context(), r, &p))
		wantRun(t, l, r)
	}
	least := job.Run{ID: job.RequestRunID(region, "exports", "least"), Rev: 1, State: job.Scanning}
	opened(t, l, least)
	wantRun(t, l, least)
}

func runAbsent(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	for _, id := range []job.RunID{"", job.ScheduledRunID(region, "exports", after(time.Second)), r.ID + "0", r.ID[:31]} {
		_, err := l.Run(t.Context(), id)
		wantClass(t, err, failure.Absent)
	}
}

func runStale(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	next := advanced(t, r, nil)
	wantClass(t, l.SwapRun(t.Context(), advanced(t, runOf("exports", after(time.Hour)), nil)), failure.Conflict)
	for _, rev := range []int64{-1, 0, 1, 3} {
		stale := next
		stale.Rev = rev
		wantClass(t, l.SwapRun(t.Context(), stale), failure.Conflict)
	}
	wantRun(t, l, r)
	ok(t, l.SwapRun(t.Context(), next))
	wantClass(t, l.SwapRun(t.Context(), next), failure.Conflict)
	wantRun(t, l, next)
}

func runRace(t *testing.T, l Ledger) {
	r := opened(t, l, runOf("exports", instant))
	next := func(i int) job.Run {
		n := advanced(t, r, nil)
		n.Examined = i
		return n
	}
	won := winner(t, race(func(i int) error { return l.SwapRun(t.Context(), next(i)) }), failure.Conflict)
	wantRun(t, l, next(won))
}

// runAliases writes into every list that went in or came out.
func runAliases(t *testing.T, l Ledger) {
	trips := func() []string { return []string{"one", "two"} }
	spoil := func(r job.Run) {
		for i := range r.Trips {
			r.Trips[i] = "spoiled"
		}
	}
	want := runOf("exports", instant)
	want.Trips = trips()
	put := want
	put.Trips = trips()
	stored := opened(t, l, put)
	spoil(put)
	spoil(stored)
	wantRun(t, l, want)

	put.Trips, put.Rev = trips(), 2
	ok(t, l.SwapRun(t.Context(), put))
	spoil(put)
	want.Rev = 2
	wantRun(t, l, want)

	page := pageOf(want, tenant, "")
	put.Trips, put.Rev = trips(), 3
	ok(t, l.Record(t.Context(), put, &page))
	spoil(put)
	want.Rev = 3
	recordedPage := page
	page.Receipt = "spoiled"
	wantPage(t, l, recordedPage)
	open, err := l.OpenRuns(t.Context())
	ok(t, err)
	for _, r := range open {
		spoil(r)
	}
	wantRun(t, l, want)

	put.Trips, put.Rev, put.State = trips(), 4, job.Closed
	ok(t, l.SwapRun(t.Context(), put))
	want.Rev, want.State = 4, job.Closed
	read, err := l.Run(t.Context(), want.ID)
	ok(t, err)
	spoil(read)
	again, _, err := l.OpenRun(t.Context(), put)
	ok(t, err)
	spoil(again)
	closed, err := l.ClosedRuns(t.Context(), "exports", 10)
	ok(t, err)
	for _, r := range closed {
		spoil(r)
	}
	wantRun(t, l, want)
}

func openRuns(t *testing.T, l Ledger) {
	eventually(t, "", func() (string, error) { return states(l.OpenRuns(t.Context())) })
	for i, state := range job.RunStates() {
		r := runOf("exports", after(time.Duration(i)*time.Hour))
		opened(t, l, r)
		r.State, r.Rev = state, 2
		ok(t, l.SwapRun(t.Context(), r))
	}
	want := map[string]bool{string(job.Scanning): true, string(job.Released): true}
	eventually(t, "2", func() (string, error) {
		open, err := l.OpenRuns(t.Context())
		found := 0
		for _, r := range open {
			if !want[string(r.State)] {
				return "a run that is " + string(r.State), err
			}
			stored, err := l.Run(t.Context(), r.ID)
			if err != nil || stored.State != r.State {
				return "a run that is not there", err
			}
			found++
		}
		return string(rune('0' + found)), err
	})
}

func closedRuns(t *testing.T, l Ledger) {
	put := func(name string, hours int, state job.RunState, request string) {
		r := runOf(name, after(time.Duration(hours)*time.Hour))
		if request != "" {
			r.ID, r.RequestID, r.Tenant, r.Reason = job.RequestRunID(region, name, request), request, tenant, "a reason"
		}
		opened(t, l, r)
		r.State, r.Rev, r.Candidates = state, 2, hours
		ok(t, l.SwapRun(t.Context(), r))
	}
	for _, hours := range []int{3, 1, 7, 5} {
		put("exports", hours, job.Closed, "")
	}
	for i, state := range []job.RunState{job.Scanning, job.AwaitingApproval, job.Released, job.Rejected} {
		put("exports", 10+i, state, "")
	}
	put("exports", 20, job.Closed, "request-1")
	put("exports-2", 21, job.Closed, "")
	put("export", 22, job.Closed, "")
	for limit, want := range map[int]string{1: "7", 2: "7 5", 4: "7 5 3 1", 100: "7 5 3 1"} {
		eventually(t, want, func() (string, error) {
			closed, err := l.ClosedRuns(t.Context(), "exports", limit)
			var hours []string
			for _, r := range closed {
				hours = append(hours, string(rune('0'+r.Candidates)))
				wantRun(t, l, r)
			}
			return strings.Join(hours, " "), err
		})
	}
	eventually(t, "", func() (string, error) { return states(l.ClosedRuns(t.Context(), "digests", 10)) })
}

func states(runs []job.Run, err error) (string, error) {
	var all []string
	for _, r := range runs {
		all = append(all, string(r.State))
	}
	return strings.Join(all, " "), err
}
