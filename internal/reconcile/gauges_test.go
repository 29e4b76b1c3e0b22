package reconcile

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
)

const hour = 3600 // seconds

// A page's clock starts when it may run: at its birth, or at its run's release where
// that is later. Only released runs have a clock, and a brake does not stop it.
func TestAgeOfOpenPages(t *testing.T) {
	for _, runState := range job.RunStates() {
		for _, state := range job.PageStates() {
			for _, braked := range []bool{false, true} {
				r := newRegion(t, deploy(dailyAt("exports", "11:59")))
				run := r.open("exports", runState, func(run *job.Run) { run.ReleasedAt = noon.Add(-3 * time.Hour) })
				p := in(state)
				p.NextDue = noon.Add(time.Hour) // measured whether it is due or not
				p.Death.LetterAt = noon
				r.add(run, p)
				if braked {
					if err := r.ledger.SetBrake(t.Context(), job.Brake{}); err != nil {
						t.Fatal(err)
					}
				}
				r.pass()
				open, begun := 0.0, 0.0
				if runState == job.Released && state.Open() {
					open = 2 * hour // its birth
				}
				if open > 0 && slices.Contains([]job.PageState{job.Claimed, job.Intended, job.Retrying}, state) {
					begun = open
				}
				r.wantMeasured(contract.OldestOpenPageAge, "exports", open)
				r.wantMeasured(contract.OldestIncompletePageAge, "exports", begun)
				r.wantMeasured(contract.OldestIncompletePageAge, "", begun)
			}
		}
	}
	r := newRegion(t, deploy(dailyAt("exports", "11:59")))
	run := r.open("exports", job.Released, func(run *job.Run) { run.ReleasedAt = noon.Add(-time.Hour) })
	owed := r.add(run, in(job.Dead)) // the index shows it with the open ones until its letter is sent
	r.pass()
	r.wantMeasured(contract.OldestOpenPageAge, "exports", 0)
	if len(r.lettersOf(owed)) != 1 {
		t.Error("the index did not show it")
	}
	r.add(run, in(job.Sent))
	r.pass()
	r.wantMeasured(contract.OldestOpenPageAge, "exports", hour)
}

// The oldest page counts, which need not be the one that was born first.
func TestOldestOfEachPolicy(t *testing.T) {
	r := newRegion(t, deploy(dailyAt("exports", "11:59"), dailyAt("idle", "11:59")))
	approved := r.open("exports", job.Released, func(run *job.Run) { run.ReleasedAt = noon.Add(-time.Minute) })
	r.add(approved, in(job.Claimed))
	other := r.open("exports", job.Released, func(run *job.Run) {
		run.ID, run.ReleasedAt = job.RequestRunID("eu-west-1", "exports", "q"), noon.Add(-time.Hour)
	})
	r.add(other, in(job.Planned))
	r.add(r.open("undeployed", job.Released), in(job.Retrying))
	r.pass()
	r.wantMeasured(contract.OldestOpenPageAge, "exports", hour)
	r.wantMeasured(contract.OldestIncompletePageAge, "exports", 60)
	r.wantMeasured(contract.OldestOpenPageAge, "idle", 0)
	r.wantMeasured(contract.OldestIncompletePageAge, "idle", 0)
	// Nobody expects its dates, but its pages are somebody's all the same.
	r.wantMeasured(contract.OldestOpenPageAge, "undeployed", 2*hour)
	r.wantMeasured(contract.BusinessDateLag, "undeployed", 0)
	// The region's is the oldest of all.
	r.wantMeasured(contract.OldestIncompletePageAge, "", 2*hour)
	r.wantMeasured(contract.OldestOpenPageAge, "", 0)
}

// R112: a quiet region costs one metric, which every pass publishes: its absence is an
// alarm.
func TestR112QuietRegionPublishesItsLagAlone(t *testing.T) {
	r := newRegion(t, deploy(dailyAt("exports", "11:59"), dailyAt("uploads", "11:59")))
	for pass := range 3 {
		r.pass()
		r.wantMeasured(contract.BusinessDateLag, "", 0)
		if n := len(r.log.Measured()); n != pass+1 {
			t.Errorf("%v after %d passes", r.log.Measured(), pass+1)
		}
		r.clock.advance(time.Minute)
	}
}

// What was seen of an unfinished walk is the least that it can be. Of what was not
// seen, nothing is said.
func TestPartsOfAWalk(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config, *region)
		ages   map[string]float64 // by policy
	}{
		"time runs out": {
			func(c *Config, r *region) {
				c.Index = &walks{index: c.Index, at: 1, do: func() error { r.clock.advance(50 * time.Second); return nil }}
			},
			map[string]float64{"exports": 2*hour + 50, "young": 0},
		},
		"the index fails": {
			func(c *Config, r *region) {
				c.Index = &walks{index: c.Index, at: 2, do: func() error { return errInjected }}
			},
			map[string]float64{"exports": 2 * hour, "young": 0},
		},
		"the first answer fails": {
			func(c *Config, r *region) {
				c.Index = &walks{index: c.Index, at: 1, do: func() error { return errInjected }}
			},
			map[string]float64{"exports": 0, "young": 0},
		},
		"all is well": {func(*Config, *region) {}, map[string]float64{"exports": 2 * hour, "young": 60}},
	} {
		r := newRegion(t, deploy(dailyAt("exports", "11:59"), dailyAt("young", "11:59")))
		c.change(&r.config, r)
		r.Reconciler = r.another()
		run := r.open("exports", job.Released)
		for range openBatch {
			p := in(job.Sent)
			p.NextDue = noon.Add(time.Hour)
			r.add(run, p)
		}
		young := r.open("young", job.Released)
		p := in(job.Sent)
		p.NextDue, p.BornAt = noon.Add(time.Hour), noon.Add(-time.Minute)
		r.add(young, p)
		_, _ = r.try()
		for policy, want := range c.ages {
			t.Run(name+", "+policy, func(t *testing.T) {
				r.t = t
				r.wantMeasured(contract.OldestOpenPageAge, policy, want)
			})
		}
	}
}

// walks does something in the n-th answer about open pages.
type walks struct {
	index
	at, n int
	do    func() error
}

func (w *walks) OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error) {
	if w.n++; w.n == w.at {
		if err := w.do(); err != nil {
			return nil, err
		}
	}
	return w.index.OpenPages(ctx, after, limit)
}

// A run that can not be read hides whose its pages are. It is asked for once.
func TestRunThatCanNotBeRead(t *testing.T) {
	f := &faultyRuns{}
	r := newRegion(t, deploy(dailyAt("exports", "11:59")), func(c *Config) { f.runs, c.Runs = c.Runs, f })
	hidden := r.open("hidden", job.AwaitingApproval) // which the index of open runs does not show
	for range 3 * openBatch {
		r.add(hidden, in(job.Planned))
	}
	p := r.add(r.open("exports", job.Released), in(job.Sent))
	f.of = hidden.ID
	did, err := r.try()
	if err == nil || did != (Summary{Resent: 1}) || r.messagesOf(p) != 1 {
		t.Errorf("%+v, %v", did, err)
	}
	if f.reads > 2 {
		t.Errorf("%d runs were read", f.reads)
	}
	r.wantMeasured(contract.OldestOpenPageAge, "exports", 2*hour)
	r.wantMeasured(contract.OldestOpenPageAge, "hidden", 0)
}

// Dead pages wait for an operator, those included whose letter this pass has sent.
func TestDeadPagesAreCounted(t *testing.T) {
	r := newRegion(t, deploy(dailyAt("exports", "11:59"), dailyAt("idle", "11:59")))
	run := r.open("exports", job.Released)
	waiting := in(job.Dead)
	waiting.Death.LetterAt = noon
	for range 2*openBatch + 7 {
		r.add(run, waiting)
	}
	r.add(run, in(job.Dead))
	r.add(run, in(job.Sent))
	r.add(r.open("undeployed", job.Released), waiting)
	r.pass()
	r.wantMeasured(contract.DeadPages, "exports", 2*openBatch+8)
	r.wantMeasured(contract.DeadPages, "idle", 0)
	r.wantMeasured(contract.DeadPages, "undeployed", 1)
}

// E5: a run that does not add up is measured in every pass.
func TestMismatchesAreMeasured(t *testing.T) {
	r := newRegion(t)
	for _, name := range []string{"a", "b", "c"} {
		run := r.open(name, job.Released, func(run *job.Run) { run.ID = job.RunID(name) })
		p := done(10)
		if name != "c" {
			p.Counts[job.Deleted]--
		}
		r.add(run, p)
	}
	r.open("still", job.Scanning)
	f := &faultyRows{rows: r.config.Rows}
	for pass := range 3 {
		_, _ = r.try()
		r.wantMeasured(contract.TotalsMismatches, "", 2)
		if pass == 1 { // what is left unread could be one more
			f.of, r.config.Rows = "b", f
			r.Reconciler = r.another()
			_, _ = r.try()
			r.wantMeasured(contract.TotalsMismatches, "", 1)
			f.of = ""
		}
	}
	r = newRegion(t)
	r.add(r.open("a", job.Released), done(10))
	r.pass()
	r.wantMeasured(contract.TotalsMismatches, "", 0)
}
