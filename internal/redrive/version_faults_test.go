package redrive

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
)

// Every write in two failures, and a process that dies on either side: the order
// comes first, and asked once more the version is approved by one of the answers.
func TestApprovalOfAVersionFailsInEveryWay(t *testing.T) {
	for _, at := range []string{"entry", "approve"} {
		for _, s := range []struct{ happened, dies bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
			t.Run(fmt.Sprintf("%s %+v", at, s), func(t *testing.T) {
				v := newVersions(t)
				v.publish(exportsFor(t, 1, 30))
				v.approved(exportsFor(t, 1, 30))
				p := exportsFor(t, 2, 10)
				run := v.reports(p, 0, 1)
				struck := false
				v.ledger.Hook = func(op string, apply func() error) error {
					if op == "approve" && !slices.ContainsFunc(v.orders(), func(e audit.Entry) bool { return e.RunID == run.ID }) {
						t.Error("it is approved before the order is on record (E7)")
					}
					if op != at || struck {
						return apply()
					}
					struck = true
					if s.happened {
						_ = apply()
					}
					if s.dies {
						runtime.Goexit()
					}
					return failure.New(failure.Network, op, "injected")
				}
				a, err := v.process(order(p, run.ID))
				stands := v.approval().Names(p)
				if wantStands := at == "approve" && s.happened; stands != wantStands {
					t.Errorf("approved %t, want %t", stands, wantStands)
				}
				if told := err == nil && a.Approved; !s.dies && told != stands {
					t.Errorf("told %t, stands %t: %v", told, stands, err)
				}
				if !stands {
					if a, err = v.ask(order(p, run.ID)); err != nil || !a.Approved {
						t.Errorf("asked again: %+v, %v", a, err)
					}
				}
				if got := v.approval(); !got.Names(p) || got.Rev != 2 || got.By != "ana" {
					t.Errorf("in the end %+v", got)
				}
			})
		}
	}
}

// process has a request answered by a process that may die.
func (v *versions) process(q VersionRequest) (a ApprovedVersion, err error) {
	done := make(chan struct{})
	err = failure.New(failure.Bug, "process", "it died")
	go func() {
		defer close(done)
		a, err = v.ask(q)
	}()
	<-done
	return a, err
}

// Somebody else moves the approval in between: what was shown is no longer what is
// changed, and nothing is overwritten.
func TestApprovalThatMovedMeanwhileIsNotOverwritten(t *testing.T) {
	for _, lost := range []bool{false, true} {
		v := newVersions(t)
		v.publish(exportsFor(t, 1, 30))
		v.approved(exportsFor(t, 1, 30))
		p := exportsFor(t, 2, 10)
		run := v.reports(p, 0, 1)
		rival, nested := exportsFor(t, 1, 30), false
		v.ledger.Hook = func(op string, apply func() error) error {
			if op == "approve" && !nested {
				nested = true
				v.approved(rival)
				if lost {
					_ = apply()
					return failure.New(failure.Network, op, "injected")
				}
			}
			return apply()
		}
		_, err := v.ask(order(p, run.ID))
		if want := map[bool]failure.Class{false: failure.Conflict, true: failure.Network}[lost]; !failure.Is(err, want) {
			t.Errorf("%v", err)
		}
		if got := v.approval(); !got.Names(rival) || got.Rev != 2 {
			t.Errorf("%+v", got)
		}
	}
}

// unread fails one of the reads.
type unread struct {
	*ledger.Memory
	what string
}

func (u unread) fails(what string) error {
	if u.what != what {
		return nil
	}
	return failure.New(failure.Throttled, "read "+what, "injected")
}

func (u unread) LatestPolicy(ctx context.Context, name string) (policy.Policy, error) {
	if err := u.fails("latest"); err != nil {
		return policy.Policy{}, err
	}
	return u.Memory.LatestPolicy(ctx, name)
}

func (u unread) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	if err := u.fails("version " + strconv.Itoa(version)); err != nil {
		return policy.Policy{}, err
	}
	return u.Memory.Policy(ctx, name, version)
}

func (u unread) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	if err := u.fails("run"); err != nil {
		return job.Run{}, err
	}
	return u.Memory.Run(ctx, id)
}

func (u unread) ClosedRuns(ctx context.Context, name string, limit int) ([]job.Run, error) {
	if err := u.fails("closed runs"); err != nil {
		return nil, err
	}
	return u.Memory.ClosedRuns(ctx, name, limit)
}

func (u unread) Approval(ctx context.Context, name string) (policy.Approval, error) {
	if err := u.fails("approval"); err != nil {
		return policy.Approval{}, err
	}
	return u.Memory.Approval(ctx, name)
}

// What can not be read is not taken for absent: nothing is decided on a guess.
func TestVersionIsNotApprovedOnAGuess(t *testing.T) {
	for _, what := range []string{"latest", "run", "approval", "version 1", "closed runs"} {
		v := newVersions(t)
		p := exportsFor(t, 2, 10)
		v.reports(exportsFor(t, 1, 10), 0, 2)
		run := v.reports(p, 2, 1)
		if what == "version 1" {
			v.approved(exportsFor(t, 1, 10))
		}
		before := v.approval()
		_, err := v.ask(order(p, run.ID), func(c *Config) {
			u := unread{v.ledger, what}
			c.Policies, c.Runs, c.Approvals = u, u, u
		})
		if !failure.Is(err, failure.Throttled) {
			t.Errorf("%s: %v", what, err)
		}
		v.untouched(before)
	}
	// The same of the versions that the history names.
	v := newVersions(t)
	p := exportsFor(t, 2, 10)
	v.reports(exportsFor(t, 1, 10), 0, 2)
	run := v.reports(p, 2, 1)
	_, err := v.ask(order(p, run.ID), func(c *Config) { c.Policies = unread{v.ledger, "version 1"} })
	if !failure.Is(err, failure.Throttled) {
		t.Errorf("%v", err)
	}
	v.untouched(policy.Approval{})
}
