package enqueue

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// busy is a region with several tenants and pages, and the chain of one
// undisturbed run over it.
func busy(t *testing.T) (r *region, want []shape) {
	t.Helper()
	build := func() *region {
		r := newRegion(t, parse(t), sized(3, 7))
		r.store.PageSize = 4
		r.put(31*day, keys("exports/a/", 10)...)
		r.put(day, keys("exports/a-b/", 9)...)
		r.put(31*day, keys("exports/school-4/", 4)...)
		r.put(31*day, keys("exports/loose", 9)...)
		return r
	}
	single := build()
	return build(), shapes(single.chain(single.start(tick)))
}

func (r *region) wantChain(want []shape) {
	r.t.Helper()
	run := r.onlyRun()
	if got := shapes(r.chain(run)); !slices.Equal(got, want) || run.State != job.Released {
		r.t.Errorf("%s with pages\n got %+v\nwant %+v", run.State, got, want)
	}
}

func TestHP09SameTickTwice(t *testing.T) {
	t.Run("in parallel", func(t *testing.T) {
		for range 20 {
			r, want := busy(t)
			var wg sync.WaitGroup
			for range 4 {
				e := r.another()
				wg.Go(func() {
					if _, err := e.Start(context.Background(), r.deadline(), tick); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if run := r.onlyRun(); run.State == job.Scanning {
				r.start(tick) // all of them left it to another one
			}
			r.wantChain(want)
			if n := r.count(audit.RunOpened); n != 1 {
				t.Errorf("the run was opened %d times", n)
			}
			if n := r.count(audit.RunReleased); n != 1 {
				t.Errorf("the run was released %d times", n)
			}
		}
	})
	t.Run("ten seconds apart", func(t *testing.T) {
		r, want := busy(t)
		run := r.start(tick)
		sent := len(r.queue.Waiting(job.Enforce))
		r.clock.advance(10 * time.Second)
		listed := 0
		r.store.Hook = func(op string, apply func() error) error {
			if op == "list" {
				listed++
			}
			return apply()
		}
		if again := r.start(tick); again.Rev != run.Rev || listed != 0 {
			t.Errorf("the second tick moved the run, or listed %d times", listed)
		}
		r.messages(sent)
		r.wantChain(want)
	})
	t.Run("in another spelling", func(t *testing.T) {
		r, want := busy(t)
		r.start(tick)
		r.start(Input{Policy: "exports", Scheduled: "2026-03-09T14:00:00+02:00"})
		r.wantChain(want)
	})
	t.Run("after a crash half-way", func(t *testing.T) {
		for at := range 6 {
			r, want := busy(t)
			n := 0
			r.ledger.Hook = func(op string, apply func() error) error {
				if op == "record" {
					if n++; n > at {
						runtime.Goexit()
					}
				}
				return apply()
			}
			if !process(func() { _, _ = r.Start(context.Background(), r.deadline(), tick) }) {
				t.Fatal("it did not die")
			}
			r.ledger.Hook = nil
			r.clock.advance(10 * time.Second)
			r.start(tick)
			r.wantChain(want)
		}
	})
}

func TestNextDayIsAnotherRun(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, "exports/a/1")
	first := r.start(tick)
	r.clock.advance(day)
	second := r.start(Input{Policy: "exports", Scheduled: "2026-03-10T12:00:00Z"})
	if first.ID == second.ID || !second.Cutoff.Equal(first.Cutoff.Add(day)) {
		t.Errorf("%+v\n%+v", first, second)
	}
}

// HP-12: what the schedule did not fill in is never replaced by the clock.
func TestHP12ScheduledInstantIsNeverMadeUp(t *testing.T) {
	for _, scheduled := range []string{
		"", "<aws.scheduler.scheduled-time>", "now", "2026-03-09", "2026-03-09T12:00:00", "2026-03-09 12:00:00Z", "1773057600",
		"2026-03-09T12:00:00.Z", "2026-03-09T12:00:00,5Z", "2026-03-09T1:00:00Z", "2026-03-09T24:00:00Z", "2026-02-30T12:00:00Z",
		"2026-03-09T12:00:00+24:00", "2026-03-09t12:00:00z", " 2026-03-09T12:00:00Z", "Mon, 09 Mar 2026 12:00:00 GMT",
	} {
		r := newRegion(t, parse(t))
		r.put(31*day, "exports/a/1")
		_, err := r.Start(t.Context(), r.deadline(), Input{Policy: "exports", Scheduled: scheduled})
		refused(t, err, failure.Invalid, "scheduled", "RFC 3339")
		r.noRun()
	}
}

func TestInstantInTheFutureIsRefused(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		ok    bool
	}{{-400 * day, true}, {0, true}, {15 * time.Minute, true}, {15*time.Minute + time.Second, false}, {400 * day, false}} {
		r := newRegion(t, parse(t))
		r.put(31*day, "exports/a/1")
		in := Input{Policy: "exports", Scheduled: noon.Add(c.ahead).Format(time.RFC3339)}
		if _, err := r.Start(t.Context(), r.deadline(), in); c.ok {
			if err != nil {
				t.Errorf("%v ahead: %v", c.ahead, err)
			}
		} else {
			refused(t, err, failure.Invalid, "future")
			r.noRun()
		}
	}
}

// HP-04: a policy that reached the function without its checks is refused where
// it is evaluated, before anything is recorded.
func TestHP04PolicyWithoutRetentionOpensNoRun(t *testing.T) {
	for _, days := range []int{0, -1, -36_500, policy.MaxRetentionDays + 1, 1 << 40} {
		p := parse(t)
		p.RetentionDays = days
		r := newRegion(t, p)
		r.put(31*day, "exports/a/1")
		for _, in := range []Input{tick, {Policy: "exports", Tenant: "a", RequestID: "r1", Reason: "as asked"}} {
			_, err := r.Start(t.Context(), r.deadline(), in)
			refused(t, err, failure.Bug, "cutoff")
		}
		r.noRun()
		if _, err := r.ledger.Policy(t.Context(), "exports", 1); err == nil {
			t.Error("and it is published")
		}
	}
	p := parse(t)
	p.Schedule.Zone = "Nowhere/Land"
	r := newRegion(t, p)
	_, err := r.Start(t.Context(), r.deadline(), tick)
	refused(t, err, failure.Bug, "cutoff")
	r.noRun()
}

func TestOnlyADeployedPolicyOfThisRegionStarts(t *testing.T) {
	r := newRegion(t, parse(t))
	_, err := r.Start(t.Context(), r.deadline(), Input{Policy: "secret-name", Scheduled: tick.Scheduled})
	refused(t, err, failure.Invalid, "policy")
	elsewhere := r.another(func(c *Config) { c.Region = "us-east-1" })
	_, err = elsewhere.Start(t.Context(), r.deadline(), tick)
	refused(t, err, failure.Invalid, "region")
	r.noRun()
}

// A release that changed a published version without raising its number is
// refused and alarmed, and opens nothing.
func TestPublishedVersionWithOtherContentIsRefused(t *testing.T) {
	r := newRegion(t, parse(t))
	if err := r.ledger.PublishPolicy(t.Context(), parse(t, "retention_days: 30", "retention_days: 90")); err != nil {
		t.Fatal(err)
	}
	r.put(31*day, "exports/a/1")
	_, err := r.Start(t.Context(), r.deadline(), tick)
	refused(t, err, failure.Invalid, "content")
	if r.count(audit.PolicyRefused) != 1 {
		t.Error("no event")
	}
	r.wantCounted(contract.PoliciesRefused, 1)
	r.noRun()
}

// A ledger that cannot publish is no verdict about the policy.
func TestPublishThatFailsIsNoRefusal(t *testing.T) {
	r := newRegion(t, parse(t))
	r.ledger.Hook = func(op string, apply func() error) error { return failure.New(failure.Throttled, op, "injected") }
	if _, err := r.Start(t.Context(), r.deadline(), tick); !failure.Is(err, failure.Throttled) {
		t.Errorf("%v", err)
	}
	if r.count(audit.PolicyRefused) != 0 {
		t.Error("policy_refused")
	}
	r.wantCounted(contract.PoliciesRefused, 0)
	r.noRun()
}

func TestReportOnlyDeploymentOverridesTheMode(t *testing.T) {
	r := newRegion(t, parse(t), func(c *Config) { c.ReportOnly = true })
	r.put(31*day, "exports/a/1")
	if run := r.start(tick); run.Mode != job.ReportOnly || len(r.queue.Waiting(job.ReportOnly)) != 1 || len(r.queue.Waiting(job.Enforce)) != 0 {
		t.Errorf("%+v", run)
	}
}

func TestRunOverNothingIsReleased(t *testing.T) {
	r := newRegion(t, parse(t))
	if run := r.start(tick); run.State != job.Released || run.Examined != 0 || run.Pages != 0 {
		t.Errorf("%+v", run)
	}
	r.messages(0)
}

func TestSettingsThatDoNotHoldAreRefused(t *testing.T) {
	r := newRegion(t, parse(t))
	c := r.config
	c.Settings.PageItems = 0
	if _, err := New(c); err == nil {
		t.Error("accepted")
	}
}
