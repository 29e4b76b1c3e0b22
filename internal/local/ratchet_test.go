package local

import (
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// HP-08, T4: a version that keeps artifacts for less goes through the whole pipeline
// and deletes nothing, not even what the version before would have, until somebody
// approves it. Every promise holds on the way.
func TestHP08ShorterRetentionDeletesNothingUntilItIsApproved(t *testing.T) {
	old := parse(t, exportsYAML)
	next := parse(t, strings.NewReplacer("version: 1", "version: 2", "retention_days: 30", "retention_days: 10").Replace(exportsYAML))
	w := newWorld(t, old)
	w.Policies = []policy.Policy{old, next}
	for _, name := range []string{"a", "b", "c"} {
		w.put(t, old.Bucket, "exports/acme/"+name, 20*day)
	}
	date := noon
	run := func(p policy.Policy) job.Run {
		t.Helper()
		date = date.Add(day)
		w.Clock.Reach(date)
		w.put(t, old.Bucket, "exports/acme/"+date.Format(time.DateOnly), 60*day)
		w.Enqueuer.Deployed[p.Name] = p
		receipt, err := w.Tick(t.Context(), p.Name, date)
		if err == nil {
			err = w.Drain(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		run, err := w.Ledger.Run(t.Context(), receipt.RunID)
		if err != nil || run.State != job.Closed {
			t.Fatalf("%s, %v", run.State, err)
		}
		return run
	}
	want := func(r job.Run, deleted, wouldDelete, left int) {
		t.Helper()
		objects := 0
		for range w.Store.Objects(old.Bucket) {
			objects++
		}
		if c := r.Totals.Counts; c[job.Deleted] != deleted || c[job.WouldDelete] != wouldDelete || objects != left {
			t.Errorf("version %d: %d deleted, %d would be, %d objects left; want %d, %d, %d",
				r.Version, c[job.Deleted], c[job.WouldDelete], objects, deleted, wouldDelete, left)
		}
	}
	want(run(old), 1, 0, 3)
	held := run(next)
	want(held, 0, 4, 4)
	want(run(next), 0, 5, 5)
	if err := w.Ledger.Approve(t.Context(), policy.Approval{
		Policy: next.Name, Rev: 2, Version: 2, SHA256: next.SHA256(), RunID: held.ID, By: "ana", Reason: "looked at the report", At: date,
	}); err != nil {
		t.Fatal(err)
	}
	want(run(next), 6, 0, 0)
	facts, err := w.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range invariant.Check(facts) {
		if !r.Holds {
			t.Errorf("%s: %s", r.ID, r.Detail)
		}
	}
}
