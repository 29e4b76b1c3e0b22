package job_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/job"
)

func TestTotals(t *testing.T) {
	for _, c := range []struct {
		name string
		page job.Page
		want job.Totals
	}{
		{"born completed", job.Page{State: job.Completed, Examined: 40}, job.Totals{}},
		{"completed", job.Page{State: job.Completed, Candidates: 30, Planned: 30, Counts: counts(28, 2), Bytes: 9},
			job.Totals{Candidates: 30, Counts: counts(28, 2), Bytes: 9}},
		{"completed, fewer were left than the scan saw", job.Page{State: job.Completed, Candidates: 30, Planned: 27, Counts: counts(27)},
			job.Totals{Candidates: 27, Counts: counts(27)}},
		{"completed, some moved", job.Page{State: job.Completed, Candidates: 30, Planned: 30, Moved: 4, Counts: counts(26)},
			job.Totals{Candidates: 26, Counts: counts(26)}},
		{"discarded", job.Page{State: job.Discarded, Candidates: 30, Planned: 30, Counts: counts(20, 0, 0, 0, 0, 0, 10)},
			job.Totals{Candidates: 30, Counts: counts(20, 0, 0, 0, 0, 0, 10)}},
		{"dead before any plan", job.Page{State: job.Dead, Candidates: 30},
			job.Totals{Candidates: 30, Counts: counts(0, 0, 0, 0, 0, 0, 0, 0, 30)}},
		{"dead half-way", job.Page{State: job.Dead, Candidates: 30, Planned: 28, Counts: counts(20, 0, 0, 0, 0, 0, 0, 3), Bytes: 7},
			job.Totals{Candidates: 28, Counts: counts(20, 0, 0, 0, 0, 0, 0, 3, 5), Bytes: 7}},
		{"dead with every outcome", job.Page{State: job.Dead, Candidates: 30, Planned: 30, Counts: counts(25, 0, 0, 0, 0, 0, 0, 4, 1)},
			job.Totals{Candidates: 30, Counts: counts(25, 0, 0, 0, 0, 0, 0, 4, 1)}},
		{"open", job.Page{State: job.Intended, Candidates: 30, Planned: 28, Counts: counts(5), Bytes: 3},
			job.Totals{Candidates: 28, Counts: counts(5), Bytes: 3}},
		{"open, not planned", job.Page{State: job.Sent, Candidates: 30}, job.Totals{Candidates: 30}},
		{"redriven", job.Page{State: job.Redriven, Candidates: 30, Planned: 28, Counts: counts(20)}, job.Totals{Candidates: 28, Counts: counts(20)}},
	} {
		if got := c.page.Totals(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestTotalsPlus(t *testing.T) {
	a := job.Totals{Candidates: 3, Counts: counts(1, 2), Bytes: 10}
	b := job.Totals{Candidates: 4, Counts: counts(0, 1, 3), Bytes: 5}
	want := job.Totals{Candidates: 7, Counts: counts(1, 3, 3), Bytes: 15}
	if got := a.Plus(b); got != want || a.Plus(b) != b.Plus(a) {
		t.Errorf("%+v", got)
	}
	if a != (job.Totals{Candidates: 3, Counts: counts(1, 2), Bytes: 10}) {
		t.Error("Plus changed what it was called on")
	}
}

// Whatever became of a page whose items are settled, and of those that it moved,
// the candidates are the sum of the outcomes.
func TestCandidatesAreTheSumOfTheOutcomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		candidates := rapid.IntRange(1, 1000).Draw(t, "candidates")
		planned := rapid.IntRange(1, candidates).Draw(t, "planned")
		moved := rapid.IntRange(0, min(planned, 25)).Draw(t, "moved")
		page := job.Page{State: job.Claimed, Candidates: candidates}
		s := job.Settled{Planned: planned, Moved: moved}
		left := planned - moved
		for _, o := range job.Outcomes() {
			s.Counts[o] = rapid.IntRange(0, left).Draw(t, o.String())
			left -= s.Counts[o]
		}
		var dead, done job.Page
		var err error
		if dead, err = page.Die("", job.ReasonAge, "", s, now); err != nil {
			t.Fatal(err)
		}
		s.Counts[job.Deleted] += left
		if done, err = page.Complete(s); err != nil {
			t.Fatal(err)
		}
		var sum job.Totals
		for range moved {
			item := job.Page{State: job.Completed, Candidates: 1, Planned: 1, Counts: counts(1)}
			sum = sum.Plus(item.Totals())
		}
		for _, p := range []job.Page{dead, done} {
			all := sum.Plus(p.Totals())
			if all.Candidates != all.Counts.Sum() || all.Candidates != planned {
				t.Fatalf("%s: %d candidates, %d outcomes, %d planned", p.State, all.Candidates, all.Counts.Sum(), planned)
			}
		}
	})
}
