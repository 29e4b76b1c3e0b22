package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// troubles is a region with one of everything that a pass treats.
type troubles struct {
	*region
	open, dead []job.Page
	finished   *job.Run
	// missed is the run that yesterday's date of policy "exports" should have had.
	missed job.RunID
	// idle was applied and nobody moves its pages; ended has moved all of its own.
	idle, ended job.Redrive
}

func troubled(t testing.TB) *troubles {
	daily, fresh := dailyAt("exports", "09:00"), dailyAt("fresh", "09:00")
	daily.Schedule.CatchUp = true
	w := &troubles{region: newRegion(t, deploy(daily, fresh))}
	run := w.region.open("exports", job.Released)
	for _, state := range openStates() {
		w.open = append(w.open, w.add(run, in(state)))
	}
	worn, old := in(job.Claimed), in(job.Retrying)
	worn.Attempts, old.FirstFailure = 5, noon.Add(-25*time.Hour)
	w.dead = append(w.dead, w.add(run, worn), w.add(run, old), w.add(run, in(job.Dead)))
	w.finished = w.region.open("uploads", job.Released)
	w.add(w.finished, done(10))

	w.watchedThrough("exports", noon.Add(-24*time.Hour))
	date := time.Date(2026, 3, 9, 9, 0, 0, 0, time.UTC)
	w.missed = job.ScheduledRunID("eu-west-1", "exports", date)
	w.scans.begin = func(name string, at time.Time) error {
		begun := job.Run{ID: job.ScheduledRunID("eu-west-1", name, at), Rev: 1, Region: "eu-west-1", Policy: name, Scheduled: at, State: job.Closed}
		_, _, err := w.ledger.OpenRun(context.Background(), begun)
		return err
	}

	other := w.region.open("digests", job.Released)
	again := in(job.Dead)
	again.Death.LetterAt = noon
	w.idle = w.plan(w.add(other, again))
	w.apply(&w.idle, noon.Add(-time.Hour))
	w.redrives.move = func(id job.RedriveID) error {
		plan, err := w.ledger.Redrive(context.Background(), id)
		if err == nil && plan.MovedAt.IsZero() {
			err = ignoreConflict(w.ledger.SwapRedrive(context.Background(), plan.Moves(noon)))
		}
		return err
	}
	good, bad := done(10), again
	good.SettledAt = noon.Add(-time.Minute)
	w.ended = w.moved(noon.Add(-time.Hour), w.add(other, good), w.add(other, bad))
	return w
}

// hook decides the fate of every write from now on.
func (w *troubles) hook(h failure.Hook) {
	w.ledger.Hook, w.queue.Hook, w.evidence.Hook, w.scans.hook, w.redrives.hook = h, h, h, h, h
}

// settled checks that everything was treated, however often it took.
func (w *troubles) settled() {
	w.t.Helper()
	for _, p := range w.open {
		if stored := w.page(p); w.messagesOf(p) == 0 || !stored.State.Open() || stored.NextDue.Before(noon) {
			w.t.Errorf("a %s page has %d messages and is %s, due %v", p.State, w.messagesOf(p), stored.State, stored.NextDue)
		}
	}
	for _, p := range w.dead {
		if stored := w.page(p); stored.State != job.Dead || stored.Death.LetterAt.IsZero() || len(w.lettersOf(p)) == 0 || w.messagesOf(p) != 0 {
			w.t.Errorf("a page that was %s is %s with %d letters and %d messages", p.State, stored.State, len(w.lettersOf(p)), w.messagesOf(p))
		}
	}
	if run := w.run(w.finished); run.State != job.Closed || run.Totals.Counts[job.Deleted] != 10 {
		w.t.Errorf("%+v", run)
	}
	w.sealed(w.finished)
	for _, name := range []string{"exports", "fresh"} {
		watch, err := w.ledger.Watch(context.Background(), name)
		if err != nil || watch.Through.Before(noon.Add(-time.Hour)) {
			w.t.Errorf("%+v, %v", watch, err)
		}
		// Whoever died after the start is followed by a pass that finds the run.
		if most := map[string]int{"exports": 1}[name]; watch.Missed > most {
			w.t.Errorf("%s has missed %d dates, want %d at most", name, watch.Missed, most)
		}
	}
	if _, err := w.ledger.Run(context.Background(), w.missed); err != nil || w.count(audit.DateMissed) == 0 {
		w.t.Errorf("the missed date has no run or was not said: %v", err)
	}
	entries, err := w.ledger.Entries(context.Background(), noon.Add(-48*time.Hour), noon.Add(48*time.Hour), 100)
	if err != nil || len(entries) != 2 {
		w.t.Errorf("%d entries, %v: one for each redrive", len(entries), err)
	}
	for _, plan := range []job.Redrive{w.idle, w.ended} {
		stored, err := w.ledger.Redrive(context.Background(), plan.ID)
		if err != nil || stored.ClosedAt.IsZero() {
			w.t.Errorf("%+v, %v", stored, err)
		}
	}
	if plan, _ := w.ledger.Redrive(context.Background(), w.ended.ID); plan.Moved != 2 || plan.Succeeded != 1 || plan.DiedAgain != 1 {
		w.t.Errorf("%+v", plan)
	}
}

// sealed checks that the run's row names its one manifest, and returns it.
func (r *region) sealed(of *job.Run) receipt.Manifest {
	r.t.Helper()
	run := r.run(of)
	name := receipt.ManifestName(run.ID, run.Seal.Manifest)
	data, err := r.evidence.Get(context.Background(), name)
	if err != nil {
		r.t.Fatal(err)
	}
	m, seal, err := receipt.VerifyManifest(name, data)
	if err != nil || seal != run.Seal || m.Header.Totals != run.Totals {
		r.t.Errorf("%v: the seal of\n%+v is not the run's\n%+v", err, m.Header, run)
	}
	return m
}

// manifests returns the names of all manifests of the run.
func (r *region) manifests(of *job.Run) []string {
	r.t.Helper()
	names, err := r.evidence.List(context.Background(), "manifest/"+string(of.ID)+"/", "", 100)
	if err != nil {
		r.t.Fatal(err)
	}
	return names
}

// TestEveryWriteFailsInEveryWay strikes each write of a pass, one at a time: it did
// not happen, it happened but the answer is lost, the process dies before or after.
func TestEveryWriteFailsInEveryWay(t *testing.T) {
	hook := func(writes *[]string, at int, s strike) failure.Hook {
		return func(op string, apply func() error) error {
			n := len(*writes)
			*writes = append(*writes, op)
			if n == at {
				return s.hit(op, apply)
			}
			return apply()
		}
	}
	var clean []string
	w := troubled(t)
	w.hook(hook(&clean, -1, strike{}))
	want := Summary{Resent: len(w.open), Buried: 2, Letters: 3, Closed: 1, Missed: 1, Started: 1, Continued: 1, Finished: 1}
	if did := w.pass(); did != want {
		t.Errorf("%+v, want %+v", did, want)
	}
	if did := w.pass(); did != (Summary{Finished: 1}) || w.watch("exports").Missed != 1 { // the one that went on
		t.Errorf("the second pass does %+v", did)
	}
	w.settled()
	for _, op := range []string{
		"send", "page:sent", "page:retrying", "page:dead", "dead-letter",
		"put", "run:closed", "watch", "start", "continue", "entry", "redrive",
	} {
		if !slices.Contains(clean, op) {
			t.Errorf("a pass never writes %q", op)
		}
	}
	for at, op := range clean {
		for _, s := range strikes {
			t.Run(fmt.Sprintf("%02d %s: %s", at, op, s), func(t *testing.T) {
				w := troubled(t)
				var writes []string
				w.hook(hook(&writes, at, s))
				failures := 0
				for range 4 {
					var err error
					died := process(func() { _, err = w.try() })
					if died || err != nil {
						failures++
					}
					if died && !s.crash {
						t.Error("died")
					}
				}
				if failures != 1 {
					t.Errorf("%d failures were seen, want one", failures)
				}
				w.settled()
				if did := w.pass(); did != (Summary{}) {
					t.Errorf("a fifth pass does %+v", did)
				}
			})
		}
	}
}
