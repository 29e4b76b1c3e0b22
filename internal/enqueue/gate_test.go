package enqueue

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// closedRun puts a run of the policy that was closed with so many candidates, daysAgo.
func (r *region) closedRun(daysAgo, candidates int) {
	r.t.Helper()
	at := noon.Add(-time.Duration(daysAgo) * day)
	run := job.Run{
		ID: job.ScheduledRunID("eu-west-1", "exports", at), Rev: 1, Region: "eu-west-1", Policy: "exports", Version: 1,
		Scheduled: at, State: job.Closed, Candidates: candidates,
	}
	if _, _, err := r.ledger.OpenRun(context.Background(), run); err != nil {
		r.t.Fatal(err)
	}
}

// current returns the run of the test's tick.
func (r *region) current() job.Run {
	r.t.Helper()
	return r.run(job.ScheduledRunID("eu-west-1", "exports", noon))
}

// tripping are regions whose guard trips, each at another limit.
var tripping = map[string]func(t *testing.T, mode string) *region{
	"max_objects": func(t *testing.T, mode string) *region {
		r := newRegion(t, parse(t, "mode: enforce", mode, "max_share: 1", "max_objects: 9"))
		r.put(31*day, keys("exports/a/", 10)...)
		return r
	},
	"max_share": func(t *testing.T, mode string) *region {
		r := newRegion(t, parse(t, "mode: enforce", mode, "max_share: 1", "max_share: 0.01"))
		r.put(day, keys("exports/a/y", 990)...)
		r.put(31*day, keys("exports/a/o", 11)...)
		return r
	},
	"max_growth": func(t *testing.T, mode string) *region {
		r := newRegion(t, parse(t, "mode: enforce", mode))
		for i := range 3 {
			r.closedRun(i+1, 10)
		}
		r.put(31*day, keys("exports/a/", 31)...)
		return r
	},
	// HP-05: a clock that is 400 days ahead makes everything old. Nothing but the
	// guard stands between that and an empty bucket.
	"HP-05 share of a wrong clock": func(t *testing.T, mode string) *region {
		r := newRegion(t, parse(t, "mode: enforce", mode, "limits: {max_share: 1}\n", ""))
		r.put(day, keys("exports/a/y", 990)...)
		r.put(31*day, keys("exports/a/o", 10)...)
		r.clock.advance(400 * day)
		return r
	},
}

func tripTick(name string) Input {
	if strings.HasPrefix(name, "HP-05") {
		return Input{Policy: "exports", Scheduled: noon.Add(400 * day).Format(time.RFC3339)}
	}
	return tick
}

func last(runs []job.Run) job.Run { return runs[len(runs)-1] }

func TestTrippedGuardSendsNothingAndSaysSo(t *testing.T) {
	for name, build := range tripping {
		t.Run(name, func(t *testing.T) {
			r := build(t, "mode: enforce")
			run := r.start(tripTick(name))
			if run.State != job.AwaitingApproval || len(run.Trips) != 1 || !run.ReleasedAt.IsZero() {
				t.Errorf("%s: %q", run.State, run.Trips)
			}
			if word, _, _ := strings.Cut(strings.TrimPrefix(name, "HP-05 share of a wrong clock"), " "); !strings.Contains(run.Trips[0], word) {
				t.Errorf("the finding %q does not name %q", run.Trips[0], word)
			}
			if r.count(audit.GuardTripped) != 1 || r.count(audit.RunReleased) != 0 || r.count(audit.Enqueued) != 0 {
				t.Errorf("events %+v", r.log.Events())
			}
			r.wantCounted(contract.GuardsTripped, 1)
			r.messages(0)
			for _, p := range r.chain(run) {
				if p.State != job.Planned && p.State != job.Completed {
					t.Errorf("page %s", p.State)
				}
			}
			// The same tick again, and a resume, change nothing.
			if again := r.start(tripTick(name)); again.Rev != run.Rev {
				t.Error("the second tick moved the run")
			}
			if _, err := r.Resume(t.Context(), r.deadline(), run.ID); err != nil {
				t.Error(err)
			}
			r.messages(0)
		})
	}
}

func TestHP05TheRightClockReleasesTheSameBucket(t *testing.T) {
	r := newRegion(t, parse(t, "limits: {max_share: 1}\n", ""))
	r.put(day, keys("exports/a/y", 990)...)
	r.put(31*day, keys("exports/a/o", 10)...)
	if run := r.start(tick); run.State != job.Released || run.Candidates != 10 {
		t.Errorf("%s with %d candidates", run.State, run.Candidates)
	}
}

func TestReportOnlyRunIsReleasedWithTheFindingsOnRecord(t *testing.T) {
	for name, build := range tripping {
		t.Run(name, func(t *testing.T) {
			r := build(t, "mode: report-only")
			run := r.start(tripTick(name))
			if run.State != job.Released || len(run.Trips) != 1 || run.ReleasedAt.IsZero() || run.Mode != job.ReportOnly {
				t.Errorf("%s: %+v", run.State, run.Trips)
			}
			if n := len(r.queue.Waiting(job.Enforce)); n != 0 {
				t.Errorf("%d messages in the queue of the worker that may delete", n)
			}
			if len(r.queue.Waiting(job.ReportOnly)) == 0 {
				t.Error("nothing was sent")
			}
		})
	}
}

func TestGuardLooksAtClosedScheduledRunsOnly(t *testing.T) {
	grown := func(t *testing.T) *region {
		r := newRegion(t, parse(t))
		r.put(31*day, keys("exports/a/", 31)...)
		return r
	}
	t.Run("two runs are no history", func(t *testing.T) {
		r := grown(t)
		r.closedRun(1, 10)
		r.closedRun(2, 10)
		if run := r.start(tick); run.State != job.Released {
			t.Errorf("%s: %q", run.State, run.Trips)
		}
	})
	t.Run("only the last seven count", func(t *testing.T) {
		r := grown(t)
		for i := range 20 {
			r.closedRun(i+1, map[bool]int{true: 10, false: 1000}[i < 7])
		}
		if run := r.start(tick); run.State != job.AwaitingApproval {
			t.Errorf("%s", run.State)
		}
	})
	t.Run("exactly three times is within", func(t *testing.T) {
		r := newRegion(t, parse(t))
		r.put(31*day, keys("exports/a/", 30)...)
		for i := range 3 {
			r.closedRun(i+1, 10)
		}
		if run := r.start(tick); run.State != job.Released {
			t.Errorf("%s: %q", run.State, run.Trips)
		}
	})
}

// Two enqueuers reach the gate of one run, and the second one's history says
// otherwise: the first decision stands, whichever it is.
func TestGateDecidesOnce(t *testing.T) {
	for _, firstTrips := range []bool{true, false} {
		var r *region
		nested := false
		build := func() *region {
			r := newRegion(t, parse(t))
			r.put(31*day, keys("exports/a/", 31)...)
			for i := range 3 {
				r.closedRun(i+1, 10)
			}
			return r
		}
		r = build()
		rival := r.another(func(c *Config) {
			if firstTrips {
				return
			}
			c.Runs = forgetful{r.ledger}
		})
		mine := r.another(func(c *Config) {
			if firstTrips {
				c.Runs = forgetful{r.ledger}
			}
		})
		r.ledger.Hook = func(op string, apply func() error) error {
			if !nested && (op == "run:released" || op == "run:awaiting_approval") {
				nested = true
				if _, err := rival.Start(context.Background(), r.deadline(), tick); err != nil {
					t.Error(err)
				}
			}
			return apply()
		}
		receipt, err := mine.Start(t.Context(), r.deadline(), tick)
		if err != nil {
			t.Fatal(err)
		}
		want, sent := job.Released, 1
		if firstTrips {
			want, sent = job.AwaitingApproval, 0
		}
		if run := r.current(); run.State != want || receipt.State != want {
			t.Errorf("first trips %t: the run is %s, the answer %s", firstTrips, run.State, receipt.State)
		}
		// A page is sent by one of them, or by both when the second was not told yet.
		if n := len(r.queue.Waiting(job.Enforce)); n != sent {
			t.Errorf("first trips %t: %d messages", firstTrips, n)
		}
	}
}

// forgetful knows no history.
type forgetful struct{ runs }

func (forgetful) ClosedRuns(context.Context, string, int) ([]job.Run, error) { return nil, nil }

// Every answer to the gate's write, with either decision: what stands in the
// ledger is what the caller is told and acts on, and a trip is told in any case.
func TestGateRereadsAfterEveryAnswer(t *testing.T) {
	for name, build := range tripping {
		for _, mode := range []string{"mode: enforce", "mode: report-only"} {
			for _, s := range strikes {
				t.Run(name+", "+mode+": "+s.String(), func(t *testing.T) {
					r := build(t, mode)
					hits := 0
					r.ledger.Hook = func(op string, apply func() error) error {
						if strings.HasPrefix(op, "run:") {
							if hits++; hits == 1 {
								return s.hit(op, apply)
							}
						}
						return apply()
					}
					var receipt Receipt
					var err error
					died := process(func() { receipt, err = r.Start(context.Background(), r.deadline(), tripTick(name)) })
					run := last(r.ledger.Runs())
					if !died && err == nil && receipt.State != run.State {
						t.Errorf("told %s, stands %s", receipt.State, run.State)
					}
					if !s.applied && run.State != job.Scanning || died != s.crash {
						t.Errorf("%s, died %t", run.State, died)
					}
					if run.State != job.Released {
						r.messages(0)
					}
					run = r.start(tripTick(name))
					want := map[string]job.RunState{"mode: enforce": job.AwaitingApproval, "mode: report-only": job.Released}[mode]
					if run.State != want {
						t.Errorf("in the end %s, want %s", run.State, want)
					}
					if want == job.AwaitingApproval {
						r.messages(0)
						if r.count(audit.GuardTripped) == 0 {
							t.Error("the run waits in silence")
						}
					}
				})
			}
		}
	}
}

// The ledger cannot be read after a lost answer: nothing is sent on a guess.
func TestGateThatCannotReadSendsNothing(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, "exports/a/1")
	lost := false
	r.ledger.Hook = func(op string, apply func() error) error {
		if op == "run:released" {
			lost = true
			return strike{applied: true}.hit(op, apply)
		}
		return apply()
	}
	blind := r.another(func(c *Config) { c.Runs = unreadable{r.ledger, &lost} })
	_, err := blind.Start(t.Context(), r.deadline(), tick)
	if !failure.Is(err, failure.Network) {
		t.Errorf("%v", err)
	}
	r.messages(0)
}

type unreadable struct {
	runs
	yes *bool
}

func (u unreadable) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	if *u.yes {
		return job.Run{}, failure.New(failure.Network, "read run", "injected")
	}
	return u.runs.Run(ctx, id)
}

// A process that dies anywhere between the scan and the gate's write leaves a run
// that trips again.
func TestDeathBeforeTheGateTripsAgain(t *testing.T) {
	r := tripping["max_objects"](t, "mode: enforce")
	r.ledger.Hook = func(op string, apply func() error) error {
		if op == "run:awaiting_approval" {
			runtime.Goexit()
		}
		return apply()
	}
	process(func() { _, _ = r.Start(context.Background(), r.deadline(), tick) })
	r.ledger.Hook = nil
	if receipt, err := r.Resume(t.Context(), r.deadline(), r.onlyRun().ID); err != nil || receipt.State != job.AwaitingApproval {
		t.Errorf("%+v, %v", receipt, err)
	}
	if r.count(audit.GuardTripped) != 2 {
		t.Error("each evaluation that trips says so")
	}
	r.messages(0)
}
