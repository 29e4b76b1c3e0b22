package enqueue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// A ledger that can not be read is no verdict in either direction: nothing opens,
// and the tick that comes again does.
func TestTickFailsWhereTheApprovalCanNotBeRead(t *testing.T) {
	unread := failure.New(failure.Throttled, "read", "injected")
	for name, change := range map[string]func(*region, *Config){
		"the approval":         func(r *region, c *Config) { c.Approvals = blind{r.ledger, t, unread} },
		"the approved version": func(r *region, c *Config) { c.Policies = unreadPolicy{r.ledger, unread} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t, kept(t, 1, 30))
			publish(t, r.ledger, kept(t, 1, 30))
			r.put(31*day, "exports/a/1")
			r.deploy(kept(t, 2, 60))
			failing := r.another(func(c *Config) { change(r, c) })
			if _, err := failing.Start(t.Context(), r.deadline(), tick); !failure.Is(err, failure.Throttled) {
				t.Errorf("%v", err)
			}
			r.noRun()
			if len(r.orders()) != 0 || r.approval().Version != 1 {
				t.Errorf("%+v", r.approval())
			}
			r.wantMode(r.start(tick), job.Enforce)
		})
	}
}

// unreadPolicy reads no version back.
type unreadPolicy struct {
	policies
	err error
}

func (u unreadPolicy) Policy(context.Context, string, int) (policy.Policy, error) {
	return policy.Policy{}, u.err
}

// orderly fails when an approval is written that no order on record is about (E7).
func (r *region) orderly(next failure.Hook) failure.Hook {
	return func(op string, apply func() error) error {
		if op != "approve" {
			return next.Do(op, apply)
		}
		return next.Do(op, func() error {
			before := r.approval()
			err := apply()
			after := r.approval()
			named := func(e audit.Entry) bool { return e.Act == audit.VersionApproved && e.Version == after.Version }
			if after != before && !slices.ContainsFunc(r.orders(), named) {
				r.t.Errorf("version %d was approved before the order was on record", after.Version)
			}
			return err
		})
	}
}

// TestTakeOverFailsInEveryWay strikes each write of a tick that moves the approval:
// it did not happen, it happened and the answer is lost, the process dies on either
// side. The tick comes again. No run opens that enforces what is not approved, the
// order is always first, and in the end the version deletes.
func TestTakeOverFailsInEveryWay(t *testing.T) {
	build := func(hook func(op string, apply func() error) error) *region {
		r := newRegion(t, kept(t, 1, 30))
		publish(t, r.ledger, kept(t, 1, 30))
		r.put(61*day, "exports/a/1")
		r.deploy(kept(t, 2, 60))
		r.ledger.Hook = r.orderly(func(op string, apply func() error) error {
			err := hook(op, apply)
			if a := r.approval(); op == "open-run" && a.Version != 2 {
				t.Errorf("a run of version 2 opens while version %d is approved", a.Version)
			}
			return err
		})
		return r
	}
	var writes []string
	build(func(op string, apply func() error) error {
		writes = append(writes, op)
		return apply()
	}).start(tick)
	if i := slices.Index(writes, "entry"); i < 0 || !slices.Equal(writes[i:i+3], []string{"entry", "approve", "open-run"}) {
		t.Fatalf("writes %q", writes)
	}
	for at, op := range writes {
		for _, s := range strikes {
			t.Run(fmt.Sprintf("%02d %s: %s", at, op, s), func(t *testing.T) {
				n := 0
				r := build(func(op string, apply func() error) error {
					if n++; n == at+1 {
						return s.hit(op, apply)
					}
					return apply()
				})
				for range 3 {
					var err error
					if !process(func() { _, err = r.Start(context.Background(), r.deadline(), tick) }) && err == nil {
						break
					}
				}
				run := r.onlyRun()
				r.wantMode(run, job.Enforce)
				if a := r.approval(); run.State != job.Released || a.Version != 2 || a.Rev != 2 {
					t.Errorf("%s, %+v", run.State, a)
				}
				r.wantSentOrPlanned()
			})
		}
	}
}

// A run that is held back says so whatever fails: it may say it twice, and never
// not at all.
func TestHeldRunIsToldWhateverFails(t *testing.T) {
	for at := range 6 {
		for _, s := range strikes {
			r := newRegion(t, kept(t, 1, 30))
			publish(t, r.ledger, kept(t, 1, 30))
			r.put(11*day, "exports/a/1")
			r.deploy(kept(t, 2, 10))
			n := 0
			r.ledger.Hook = func(op string, apply func() error) error {
				if n++; n == at+1 {
					return s.hit(op, apply)
				}
				return apply()
			}
			for range 3 {
				var err error
				if !process(func() { _, err = r.Start(context.Background(), r.deadline(), tick) }) && err == nil {
					break
				}
			}
			run := r.onlyRun()
			r.wantMode(run, job.ReportOnly, "An artifact is kept for 10 days, and was for 30 days.")
			if run.State != job.Released || r.count(audit.VersionNotApproved) == 0 || r.approval().Version != 1 || len(r.orders()) != 0 {
				t.Errorf("write %d, %s: %s, %d events", at, s, run.State, r.count(audit.VersionNotApproved))
			}
		}
	}
}

// Two enqueuers take the approval over at once: the second finds it done.
func TestTakeOverIsWonOnce(t *testing.T) {
	r := newRegion(t, kept(t, 1, 30))
	publish(t, r.ledger, kept(t, 1, 30))
	r.deploy(kept(t, 2, 60))
	rival, nested := r.another(), false
	r.ledger.Hook = r.orderly(func(op string, apply func() error) error {
		if op == "approve" && !nested {
			nested = true
			if _, err := rival.Start(context.Background(), r.deadline(), tick); err != nil {
				t.Error(err)
			}
		}
		return apply()
	})
	r.wantMode(r.start(tick), job.Enforce)
	if a := r.approval(); !nested || a.Version != 2 || a.Rev != 2 {
		t.Errorf("%+v", a)
	}
}

// While one deployment takes the approval over, another one was faster with a
// version that deletes still less: nothing opens on the strength of the older
// approval, and the tick that comes again only reports.
func TestTakeOverThatLosesToAnotherVersionOpensNothing(t *testing.T) {
	r := newRegion(t, kept(t, 1, 30))
	publish(t, r.ledger, kept(t, 1, 30))
	r.deploy(kept(t, 2, 60))
	nested := false
	r.ledger.Hook = func(op string, apply func() error) error {
		if op == "approve" && !nested {
			nested = true
			publish(t, r.ledger, kept(t, 3, 90))
			approve(t, r.ledger, kept(t, 3, 90))
		}
		return apply()
	}
	if _, err := r.Start(t.Context(), r.deadline(), tick); !failure.Is(err, failure.Conflict) {
		t.Errorf("%v", err)
	}
	r.noRun()
	r.wantMode(r.start(tick), job.ReportOnly, "An artifact is kept for 60 days, and was for 90 days.")
}

// A lost answer after which the approval can not be read opens nothing.
func TestTakeOverThatCanNotBeReadOpensNothing(t *testing.T) {
	r := newRegion(t, kept(t, 1, 30))
	publish(t, r.ledger, kept(t, 1, 30))
	r.deploy(kept(t, 2, 60))
	dark := false
	r.ledger.Hook = func(op string, apply func() error) error {
		if op == "approve" {
			dark = true
			return strike{applied: true}.hit(op, apply)
		}
		return apply()
	}
	failing := r.another(func(c *Config) { c.Approvals = goesDark{r.ledger, &dark} })
	if _, err := failing.Start(t.Context(), r.deadline(), tick); !failure.Is(err, failure.Network) {
		t.Errorf("%v", err)
	}
	r.noRun()
	r.ledger.Hook = nil
	r.wantMode(r.start(tick), job.Enforce)
}

type goesDark struct {
	approvals
	yes *bool
}

func (d goesDark) Approval(ctx context.Context, name string) (policy.Approval, error) {
	if *d.yes {
		return policy.Approval{}, failure.New(failure.Throttled, "read approval", "injected")
	}
	return d.approvals.Approval(ctx, name)
}

// reach is how much a version may delete, in the keys that the property varies. It
// is compared here without any code of the ratchet.
type reach struct {
	days, objects int
	school        bool // only tenants that are schools
}

func (a reach) within(b reach) bool {
	return a.days >= b.days && a.objects <= b.objects && (a.school || !b.school)
}

func (a reach) policy(t testing.TB, n int) policy.Policy {
	text := []string{"retention_days: 30", fmt.Sprintf("retention_days: %d", a.days), "max_share: 1", fmt.Sprintf("max_share: 1, max_objects: %d", a.objects)}
	if a.school {
		text = append(text, "mode: enforce", "mode: enforce\ntenant_pattern: school-.+")
	}
	return version(t, n, text...)
}

// TestS9RatchetNeverLetsMoreBeDeleted plays deployments, ticks and approvals in any
// order, with writes that fail, happen in silence, or end the process. What a person
// approved, and every enforcing version since, bounds what the next one may delete.
// Where nothing fails, whatever lies within the last of them does delete.
func TestS9RatchetNeverLetsMoreBeDeleted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		faulty := rapid.Bool().Draw(rt, "faulty")
		var versions []reach
		draw := func() int {
			if len(versions) > 0 && rapid.IntRange(0, 2).Draw(rt, "again") == 0 {
				return rapid.IntRange(1, len(versions)).Draw(rt, "version")
			}
			versions = append(versions, reach{
				rapid.IntRange(1, 4).Draw(rt, "days"), rapid.IntRange(1, 3).Draw(rt, "objects"), rapid.Bool().Draw(rt, "school"),
			})
			return len(versions)
		}
		deployed := draw()
		r := unapproved(t, versions[0].policy(t, 1))
		// Drawn before, for a process may not draw.
		fates := rapid.SliceOfN(rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 2, 3}), 0, 60).Draw(rt, "fates")
		r.ledger.Hook = r.orderly(func(op string, apply func() error) error {
			if !faulty || len(fates) == 0 || fates[0] < 0 {
				fates = fates[min(1, len(fates)):]
				return apply()
			}
			s := strikes[fates[0]]
			fates = fates[1:]
			return s.hit(op, apply)
		})
		// bounds are what a person approved last, and every version that enforced since.
		var bounds []reach
		enforcing := map[job.RunID]bool{}
		for range rapid.IntRange(20, 40).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"deploy", "tick", "tick", "approve"}).Draw(rt, "step") {
			case "deploy":
				deployed = draw()
				r.deploy(versions[deployed-1].policy(t, deployed))
			case "approve":
				hook := r.ledger.Hook
				r.ledger.Hook = nil
				n := rapid.IntRange(1, len(versions)).Draw(rt, "approved")
				p := versions[n-1].policy(t, n)
				publish(t, r.ledger, p)
				approve(t, r.ledger, p)
				r.ledger.Hook, bounds = hook, []reach{versions[n-1]}
			case "tick":
				r.clock.advance(day)
				in := Input{Policy: "exports", Scheduled: r.clock.Now().Format(time.RFC3339)}
				var err error
				died := process(func() { _, err = r.Start(context.Background(), r.deadline(), in) })
				if !faulty && (died || err != nil) {
					rt.Fatalf("died %t, %v", died, err)
				}
				now := versions[deployed-1]
				outside := len(bounds) == 0 || slices.ContainsFunc(bounds, func(b reach) bool { return !now.within(b) })
				for _, run := range r.ledger.Runs() {
					if run.Mode == job.Enforce && !enforcing[run.ID] {
						enforcing[run.ID] = true
						if outside {
							rt.Fatalf("version %d %+v deletes beyond %+v", run.Version, now, bounds)
						}
						bounds = append(bounds, now)
					}
				}
				id := job.ScheduledRunID("eu-west-1", "exports", r.clock.Now())
				if !faulty && !outside && !enforcing[id] {
					rt.Fatalf("version %d %+v lies within %+v and only reports: %q", deployed, now, bounds, r.run(id).Ratchet)
				}
			}
		}
	})
}
