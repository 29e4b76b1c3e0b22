package enqueue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
)

// version returns the exports policy under another number, with texts replaced.
func version(t testing.TB, n int, replacements ...string) policy.Policy {
	t.Helper()
	return parse(t, append([]string{"version: 1", "version: " + strconv.Itoa(n)}, replacements...)...)
}

// kept returns a version that keeps artifacts for so many days.
func kept(t testing.TB, n, days int) policy.Policy {
	t.Helper()
	return version(t, n, "retention_days: 30", "retention_days: "+strconv.Itoa(days))
}

// deploy replaces the function by one that ships with this version.
func (r *region) deploy(p policy.Policy) {
	r.config.Deployed = map[string]policy.Policy{p.Name: p}
	r.Enqueuer = r.another()
}

// nextDate lets a day go by and fires the schedule.
func (r *region) nextDate() job.Run {
	r.t.Helper()
	r.clock.advance(day)
	return r.start(Input{Policy: "exports", Scheduled: r.clock.Now().Format(time.RFC3339)})
}

func (r *region) approval() policy.Approval {
	r.t.Helper()
	a, err := r.ledger.Approval(context.Background(), "exports")
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// orders returns the orders on record, oldest first.
func (r *region) orders() []audit.Entry {
	r.t.Helper()
	all, err := r.ledger.Entries(context.Background(), noon.Add(-day), noon.Add(1000*day), 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

// wantMode fails unless the run has the mode, and says why where it is held back.
func (r *region) wantMode(run job.Run, mode job.Mode, ratchet ...string) {
	r.t.Helper()
	if run.Mode != mode || !slices.Equal(run.Ratchet, ratchet) {
		r.t.Errorf("version %d runs %s because of %q, want %s because of %q", run.Version, run.Mode, run.Ratchet, mode, ratchet)
	}
}

// HP-08: an upgrade that shortens the retention deletes nothing until somebody has
// approved it. What it would delete is counted and told.
func TestHP08ShorterRetentionOnlyReportsUntilItIsApproved(t *testing.T) {
	r := newRegion(t, kept(t, 1, 30))
	r.put(20*day, keys("exports/a/", 7)...)
	r.put(40*day, keys("exports/b/", 2)...)
	r.wantMode(r.start(tick), job.Enforce)
	r.messages(1)

	r.deploy(kept(t, 2, 10))
	held := r.nextDate()
	r.wantMode(held, job.ReportOnly, "An artifact is kept for 10 days, and was for 30 days.")
	if held.State != job.Released || held.Candidates != 9 || len(r.queue.Waiting(job.Enforce)) != 1 || len(r.queue.Waiting(job.ReportOnly)) != 2 {
		t.Errorf("%s with %d candidates, queues of %d and %d messages", held.State, held.Candidates,
			len(r.queue.Waiting(job.Enforce)), len(r.queue.Waiting(job.ReportOnly)))
	}
	var told []audit.Event
	for _, e := range r.log.Events() {
		if e.Event == audit.VersionNotApproved {
			told = append(told, e)
		}
	}
	if len(told) != 1 || told[0].RunID != held.ID || told[0].Version != 2 || told[0].Count != 9 {
		t.Errorf("told %+v", told)
	}
	r.wantCounted(contract.VersionsNotApproved, 1)
	if a := r.approval(); a.Version != 1 || len(r.orders()) != 0 {
		t.Errorf("the approval moved: %+v", a)
	}
	r.wantMode(r.nextDate(), job.ReportOnly, held.Ratchet...)

	approve(t, r.ledger, kept(t, 2, 10))
	r.wantMode(r.nextDate(), job.Enforce)
	r.wantMode(r.run(held.ID), job.ReportOnly, held.Ratchet...)
}

// strict is a version that every edit below makes wider.
func strict(t testing.TB, n int, edit ...string) policy.Policy {
	t.Helper()
	text := strings.NewReplacer("version: 1", "version: "+strconv.Itoa(n), "{max_share: 1}",
		"{max_objects: 10, max_share: 0.5, max_growth: 2, max_rate: 10}\ntenant_pattern: school-[0-9]+").Replace(exports)
	if len(edit) == 2 {
		if strings.Count(text, edit[0]) != 1 {
			t.Fatalf("%q is not in the policy once", edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
	}
	p, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// T4: whatever somebody who can deploy makes wider, nothing more is deleted.
func TestT4WhateverWidensOnlyReports(t *testing.T) {
	for name, edit := range map[string][2]string{
		"shorter retention":  {"retention_days: 30", "retention_days: 29"},
		"other keys":         {"exports/{tenant}/", "exports2/{tenant}/"},
		"another bucket":     {"acme-exports", "acme-uploads"},
		"no pattern":         {"\ntenant_pattern: school-[0-9]+", ""},
		"another pattern":    {"school-[0-9]+", "school-.+"},
		"another zone":       {"Europe/Berlin", "UTC"},
		"every version":      {"mode: enforce", "mode: enforce\nversions: all"},
		"more objects":       {"max_objects: 10", "max_objects: 11"},
		"a larger share":     {"max_share: 0.5", "max_share: 0.6"},
		"more growth":        {"max_growth: 2", "max_growth: 3"},
		"faster":             {"max_rate: 10", "max_rate: 11"},
		"fewer report dates": {"mode: enforce", "mode: enforce\nreport_only_dates: 2"},
	} {
		t.Run(name, func(t *testing.T) {
			approved, next := strict(t, 1), strict(t, 2, edit[0], edit[1])
			r := unapproved(t, next)
			if err := r.store.CreateBucket(approved.Bucket, next.Versions == policy.AllVersions); err != nil {
				t.Fatal(err)
			}
			approve(t, r.ledger, approved)
			r.deploy(approved)
			r.wantMode(r.start(tick), job.Enforce)
			r.put(40*day, "exports/school-4/1", "exports/school-4/2")

			r.deploy(next)
			want := policy.Widens(approved, next)
			if len(want) != 1 {
				t.Fatalf("it widens by %q", want)
			}
			r.wantMode(r.nextDate(), job.ReportOnly, want...)
			again := ask("school-4")
			r.wantMode(r.start(again), job.ReportOnly, want...)
			if n := len(r.queue.Waiting(job.Enforce)); n != 0 {
				t.Errorf("%d messages for the worker that may delete", n)
			}
		})
	}
}

// A version that deletes no more goes on deleting, and is what the next one is
// compared with. The order is on record.
func TestNarrowerVersionTakesTheApprovalOver(t *testing.T) {
	r := newRegion(t, kept(t, 1, 30))
	r.start(tick)
	r.deploy(kept(t, 2, 60))
	r.wantMode(r.nextDate(), job.Enforce)
	want := policy.Approval{
		Policy: "exports", Rev: 2, Version: 2, SHA256: kept(t, 2, 60).SHA256(), By: "enqueue", Reason: "deletes no more than version 1", At: noon.Add(day),
	}
	if got := r.approval(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	order := audit.Entry{
		At: noon.Add(day), Act: audit.VersionApproved, Region: "eu-west-1", By: "enqueue", Reason: want.Reason, Policy: "exports", Version: 2,
	}
	if got := r.orders(); !slices.Equal(got, []audit.Entry{order}) {
		t.Errorf("orders %+v", got)
	}
	if r.count(audit.VersionApproved) != 1 || r.count(audit.VersionNotApproved) != 0 {
		t.Errorf("events %+v", r.log.Events())
	}
	// Once it has moved there is nothing more to order.
	r.wantMode(r.nextDate(), job.Enforce)
	if r.approval() != want || len(r.orders()) != 1 {
		t.Errorf("%+v, %d orders", r.approval(), len(r.orders()))
	}
}

// HP-08: back and forth. Each step is a version that is deployed, and what its run does.
func TestHP08RatchetOnlyTurnsOneWay(t *testing.T) {
	shorter := "An artifact is kept for %d days, and was for %d days."
	type step struct {
		version, days int
		person        bool // somebody approves the version before the tick
		ratchet       []any
		approved      int
	}
	for name, steps := range map[string][]step{
		"shorter, approved, rolled back": {
			{1, 30, false, nil, 1}, {2, 10, false, []any{10, 30}, 1}, {2, 10, true, nil, 2}, {1, 30, false, nil, 1},
			// What the roll-back gave up needs a person again.
			{2, 10, false, []any{10, 30}, 1},
		},
		"rolled back before it was approved": {{1, 30, false, nil, 1}, {2, 10, false, []any{10, 30}, 1}, {1, 30, false, nil, 1}},
		"longer, then as before":             {{1, 30, false, nil, 1}, {3, 60, false, nil, 3}, {4, 30, false, []any{30, 60}, 3}, {1, 30, false, []any{30, 60}, 3}},
		"longer in steps":                    {{1, 30, false, nil, 1}, {2, 40, false, nil, 2}, {3, 60, false, nil, 3}, {4, 59, false, []any{59, 60}, 3}},
		"the same under another number":      {{1, 30, false, nil, 1}, {2, 30, false, nil, 2}, {1, 30, false, nil, 1}},
		"approved anew after going back":     {{1, 30, false, nil, 1}, {3, 60, false, nil, 3}, {4, 30, true, nil, 4}, {5, 31, false, nil, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t, kept(t, 1, 30))
			for i, s := range steps {
				p := kept(t, s.version, s.days)
				if s.person {
					approve(t, r.ledger, p)
				}
				r.deploy(p)
				run := r.nextDate()
				if s.ratchet == nil {
					r.wantMode(run, job.Enforce)
				} else {
					r.wantMode(run, job.ReportOnly, fmt.Sprintf(shorter, s.ratchet...))
				}
				if a := r.approval(); a.Version != s.approved {
					t.Errorf("step %d: version %d is approved, want %d", i, a.Version, s.approved)
				}
			}
		})
	}
}

// R137: a policy that nobody has approved reports, and says what to do.
func TestR137PolicyThatWasNeverApprovedOnlyReports(t *testing.T) {
	for dates, remedy := range map[string]string{
		"":                       "Once it has only reported on 3 dates, expunge approve exports@7 --run <id> lets this version delete.",
		"\nreport_only_dates: 1": "Once it has only reported on 1 date, expunge approve exports@7 --run <id> lets this version delete.",
	} {
		r := unapproved(t, version(t, 7, "mode: enforce", "mode: enforce"+dates))
		r.put(31*day, "exports/a/1")
		for _, in := range []Input{tick, ask("a")} {
			r.wantMode(r.start(in), job.ReportOnly, "No version of exports was ever approved to delete.", remedy)
		}
		if r.count(audit.VersionNotApproved) != 2 || r.approval() != (policy.Approval{}) || len(r.queue.Waiting(job.Enforce)) != 0 {
			t.Errorf("%+v, events %+v", r.approval(), r.log.Events())
		}
	}
}

// An approval of what can not be read back is none, and neither is one of other
// content under the same number.
func TestApprovalThatNamesNothingOnRecordIsNone(t *testing.T) {
	for name, build := range map[string]func(r *region){
		"never published": func(r *region) { approve(t, r.ledger, kept(t, 9, 10)) },
		"other content": func(r *region) {
			publish(t, r.ledger, kept(t, 9, 20))
			approve(t, r.ledger, kept(t, 9, 10))
		},
		"other content of the deployed one": func(r *region) { approve(t, r.ledger, kept(t, 2, 10)) },
		"another policy's": func(r *region) {
			other := parse(t, "name: exports", "name: uploads")
			publish(t, r.ledger, other)
			a := policy.Approval{Policy: "exports", Rev: 1, Version: 9, SHA256: other.SHA256(), By: "ana", Reason: "was looked at"}
			if err := r.ledger.Approve(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := unapproved(t, kept(t, 2, 30))
			build(r)
			before := r.approval()
			r.put(31*day, "exports/a/1")
			r.wantMode(r.start(tick), job.ReportOnly,
				fmt.Sprintf("The approval names version %d of exports, which is not on record as it was approved.", before.Version),
				"Once it has only reported on 3 dates, expunge approve exports@2 --run <id> lets this version delete.")
			if r.approval() != before || len(r.queue.Waiting(job.Enforce)) != 0 {
				t.Errorf("%+v", r.approval())
			}
		})
	}
}

func publish(t testing.TB, l *ledger.Memory, p policy.Policy) {
	t.Helper()
	if err := l.PublishPolicy(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// S12: the mode is pinned when the run opens. Neither a later approval nor a later
// version changes it.
func TestS12ModeOfAnOpenRunNeverChanges(t *testing.T) {
	for _, held := range []bool{true, false} {
		r := newRegion(t, kept(t, 1, 30))
		r.put(31*day, "exports/a/1")
		r.start(tick)
		first, then := kept(t, 1, 30), kept(t, 2, 10)
		if held {
			first, then = then, first
		}
		r.deploy(first)
		r.clock.advance(day)
		in := Input{Policy: "exports", Scheduled: r.clock.Now().Format(time.RFC3339)}
		receipt, err := r.Start(t.Context(), r.clock.Now(), in) // no time for a step
		if err != nil || receipt.State != job.Scanning {
			t.Fatal(receipt, err)
		}
		opened := r.run(receipt.RunID)
		if (opened.Mode == job.ReportOnly) != held {
			t.Fatalf("held %t: %+v", held, opened)
		}
		approve(t, r.ledger, first)
		r.deploy(then)
		if _, err := r.Start(t.Context(), r.clock.Now(), in); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Resume(t.Context(), r.deadline(), opened.ID); err != nil {
			t.Fatal(err)
		}
		after := r.run(opened.ID)
		if after.State != job.Released || after.Mode != opened.Mode || !slices.Equal(after.Ratchet, opened.Ratchet) || after.Version != opened.Version {
			t.Errorf("opened %+v\n after %+v", opened, after)
		}
	}
}

// What only reports anyway asks for no approval, and moves none.
func TestReportOnlyAsksNobody(t *testing.T) {
	for name, build := range map[string]func() *region{
		"policy":     func() *region { return newRegion(t, parse(t, "mode: enforce", "mode: report-only")) },
		"deployment": func() *region { return newRegion(t, parse(t), func(c *Config) { c.ReportOnly = true }) },
	} {
		r := build()
		r.put(31*day, "exports/a/1")
		r.config.Approvals = blind{t: t}
		r.Enqueuer = r.another()
		r.wantMode(r.start(tick), job.ReportOnly)
		if r.count(audit.VersionNotApproved) != 0 {
			t.Errorf("%s: events %+v", name, r.log.Events())
		}
	}
}

// blind is a ledger whose approvals can not be read. Where err is nil nobody may ask.
type blind struct {
	*ledger.Memory
	t   testing.TB
	err error
}

func (b blind) Approval(context.Context, string) (policy.Approval, error) {
	if b.err == nil {
		b.t.Error("the approval was read")
	}
	return policy.Approval{}, b.err
}
