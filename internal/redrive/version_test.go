package redrive

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/queue"
)

var firstOfMarch = time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)

// calendar is a clock that stands where it was put.
type calendar struct{ at time.Time }

func (c *calendar) Now() time.Time                             { return c.at }
func (c *calendar) Sleep(context.Context, time.Duration) error { return nil }

// versions is a region in which policy versions are deployed, run and approved.
type versions struct {
	t      testing.TB
	clock  *calendar
	ledger *ledger.Memory
	log    *audit.Log
	config Config
}

func newVersions(t testing.TB) *versions {
	t.Helper()
	v := &versions{t: t, clock: &calendar{firstOfMarch}, ledger: ledger.NewMemory(), log: &audit.Log{}}
	v.config = Config{
		Runs: v.ledger, Policies: v.ledger, Approvals: v.ledger, Orders: v.ledger,
		Audit: v.log, Clock: v.clock, Settings: contract.Production(), Region: "eu-west-1", Code: "test",
	}
	return v
}

// exportsFor is a version of the exports policy that keeps artifacts for so many days.
func exportsFor(t testing.TB, version, days int, extra ...string) policy.Policy {
	t.Helper()
	text := "name: exports\nversion: " + strconv.Itoa(version) + "\nregion: eu-west-1\nbucket: acme-exports\nkeys: exports/{tenant}/\nretention_days: " +
		strconv.Itoa(days) + "\nmode: enforce\nschedule: {every: daily, at: \"02:30\", zone: UTC}\n"
	for _, line := range extra {
		name, _, _ := strings.Cut(line, ":")
		if name == "mode" {
			text = strings.Replace(text, "mode: enforce", line, 1)
			continue
		}
		text += line + "\n"
	}
	p, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (v *versions) publish(p policy.Policy) {
	v.t.Helper()
	if err := v.ledger.PublishPolicy(v.t.Context(), p); err != nil {
		v.t.Fatal(err)
	}
}

// approved puts an approval on record, as an earlier order did.
func (v *versions) approved(p policy.Policy) {
	v.t.Helper()
	stands := v.approval()
	if err := v.ledger.Approve(v.t.Context(), policy.Approval{
		Policy: p.Name, Rev: stands.Rev + 1, Version: p.Version, SHA256: p.SHA256(), By: "ben", Reason: "was looked at", At: firstOfMarch,
	}); err != nil {
		v.t.Fatal(err)
	}
}

func (v *versions) approval() policy.Approval {
	v.t.Helper()
	a, err := v.ledger.Approval(context.Background(), "exports")
	if err != nil {
		v.t.Fatal(err)
	}
	return a
}

// reports closes report-only runs of the version on so many days from the first of
// March plus skip, and returns the last one.
func (v *versions) reports(p policy.Policy, skip, days int, change ...func(*job.Run)) (run job.Run) {
	v.t.Helper()
	v.publish(p)
	for i := range days {
		at := firstOfMarch.AddDate(0, 0, skip+i)
		run = job.Run{
			ID: job.ScheduledRunID(p.Region, p.Name, at), Rev: 1, Region: p.Region, Policy: p.Name, Version: p.Version, PolicySHA256: p.SHA256(),
			Mode: job.ReportOnly, Scheduled: at, OpenedAt: at, Cutoff: p.Cutoff(at), State: job.Closed, Examined: 9, Candidates: 7,
		}
		run.Totals.Candidates, run.Totals.Bytes = 7, 4096
		run.Totals.Counts[job.WouldDelete], run.Totals.Counts[job.Held] = 5, 2
		for _, f := range change {
			f(&run)
		}
		if _, _, err := v.ledger.OpenRun(v.t.Context(), run); err != nil {
			v.t.Fatal(err)
		}
	}
	return run
}

// order is a signed request about the version.
func order(p policy.Policy, run job.RunID) VersionRequest {
	return VersionRequest{
		Op: OpVersion, Policy: p.Name, Version: p.Version, Run: run, Signature: audit.Signature{By: "ana", Reason: "looked at the report"},
	}
}

// ask has a request answered, bytes in.
func (v *versions) ask(q VersionRequest, change ...func(*Config)) (ApprovedVersion, error) {
	v.t.Helper()
	c := v.config
	for _, f := range change {
		f(&c)
	}
	r, err := New(c)
	if err != nil {
		v.t.Fatal(err)
	}
	payload, err := json.Marshal(q)
	if err != nil {
		v.t.Fatal(err)
	}
	got, err := r.Handle(context.Background(), v.clock.at.Add(time.Minute), payload)
	if err != nil {
		return ApprovedVersion{}, err
	}
	a, ok := got.(ApprovedVersion)
	if !ok {
		v.t.Fatalf("answered %T", got)
	}
	return a, nil
}

func (v *versions) orders() []audit.Entry {
	v.t.Helper()
	all, err := v.ledger.Entries(context.Background(), firstOfMarch.AddDate(-1, 0, 0), firstOfMarch.AddDate(1, 0, 0), 100)
	if err != nil {
		v.t.Fatal(err)
	}
	return all
}

// untouched fails if anything was ordered or approved since.
func (v *versions) untouched(before policy.Approval) {
	v.t.Helper()
	if after := v.approval(); after != before || len(v.orders()) != 0 || len(v.log.Events()) != 0 {
		v.t.Errorf("the approval is %+v, orders %+v, events %+v", after, v.orders(), v.log.Events())
	}
}

// HP-08, T4: a version that deletes more is approved by name, after it was shown by
// what it goes further, and with an order on record.
func TestHP08WiderVersionIsApprovedByName(t *testing.T) {
	v := newVersions(t)
	old, wide := exportsFor(t, 1, 30), exportsFor(t, 2, 10)
	v.publish(old)
	v.approved(old)
	run := v.reports(wide, 0, 1)
	before := v.approval()
	want := ApprovedVersion{
		Policy: "exports", Version: 2, SHA256: wide.SHA256(), Former: 1, Widens: []string{"An artifact is kept for 10 days, and was for 30 days."},
		RunID: run.ID, Scheduled: firstOfMarch, Candidates: 7, WouldDelete: 5, Bytes: 4096,
		Next: "Nothing is approved yet. Approve it with a reason, if what the run reports is what shall be deleted.",
	}
	unsigned := order(wide, run.ID)
	unsigned.Signature = audit.Signature{}
	got, err := v.ask(unsigned)
	if err != nil || !same(got, want) {
		t.Errorf("shown\n%+v, %v, want\n%+v", got, err, want)
	}
	v.untouched(before)

	want.Approved, want.Next = true, "The next run of the policy deletes. Runs that are there already keep the mode in which they opened."
	if got, err = v.ask(order(wide, run.ID)); err != nil || !same(got, want) {
		t.Errorf("answered\n%+v, %v, want\n%+v", got, err, want)
	}
	approval := policy.Approval{
		Policy: "exports", Rev: 2, Version: 2, SHA256: wide.SHA256(), RunID: run.ID, By: "ana", Reason: "looked at the report", At: firstOfMarch,
	}
	if got := v.approval(); got != approval {
		t.Errorf("approval %+v, want %+v", got, approval)
	}
	entry := audit.Entry{
		At: firstOfMarch, Act: audit.VersionApproved, Region: "eu-west-1", By: "ana", Reason: "looked at the report",
		Policy: "exports", Version: 2, RunID: run.ID, Count: 7,
	}
	if got := v.orders(); !slices.Equal(got, []audit.Entry{entry}) {
		t.Errorf("orders %+v", got)
	}
	if events := v.log.Events(); len(events) != 1 || events[0].Event != audit.VersionApproved || events[0].CodeVersion != "test" {
		t.Errorf("events %+v", events)
	}
	_, err = v.ask(order(wide, run.ID))
	if !failure.Is(err, failure.Conflict) || !strings.Contains(err.Error(), "since 2026-03-01T02:30:00Z") || len(v.orders()) != 1 {
		t.Errorf("asked again: %v, %d orders", err, len(v.orders()))
	}
}

func same(a, b ApprovedVersion) bool {
	widens := slices.Equal(a.Widens, b.Widens)
	a.Widens, b.Widens = nil, nil
	return widens && fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b)
}

// R137: the first version that may delete has only reported on several dates before,
// whichever versions did that, as long as they hid nothing. An approval that names
// nothing on record counts as none.
func TestR137FirstVersionNeedsDates(t *testing.T) {
	for name, c := range map[string]struct {
		build func(v *versions, p policy.Policy) job.Run
		there int // of three
	}{
		"one date":    {func(v *versions, p policy.Policy) job.Run { return v.reports(p, 0, 1) }, 1},
		"two dates":   {func(v *versions, p policy.Policy) job.Run { return v.reports(p, 0, 2) }, 2},
		"three dates": {func(v *versions, p policy.Policy) job.Run { return v.reports(p, 0, 3) }, 3},
		"a version before": {func(v *versions, p policy.Policy) job.Run {
			v.reports(exportsFor(t, 1, 10), 0, 2)
			return v.reports(p, 2, 1)
		}, 3},
		"a report-only one": {func(v *versions, p policy.Policy) job.Run {
			v.reports(exportsFor(t, 1, 30, "mode: report-only"), 0, 2)
			return v.reports(p, 2, 1)
		}, 3},
		"a narrower one": {func(v *versions, p policy.Policy) job.Run {
			v.reports(exportsFor(t, 1, 60), 0, 2)
			return v.reports(p, 2, 1)
		}, 1},
		"requests": {func(v *versions, p policy.Policy) job.Run {
			v.reports(p, 0, 2, func(r *job.Run) { r.RequestID = "ticket-1" })
			return v.reports(p, 2, 1)
		}, 1},
		"a version that is gone": {func(v *versions, p policy.Policy) job.Run {
			v.reports(p, 0, 2, func(r *job.Run) { r.Version = 9 })
			return v.reports(p, 2, 1)
		}, 1},
		"an approval of what is gone": {func(v *versions, p policy.Policy) job.Run {
			v.approved(exportsFor(t, 9, 30))
			return v.reports(p, 0, 1)
		}, 1},
		"an approval of other content": {func(v *versions, p policy.Policy) job.Run {
			v.publish(exportsFor(t, 1, 20))
			v.approved(exportsFor(t, 1, 30))
			return v.reports(p, 0, 2)
		}, 2},
		"an approval of what is gone, and dates": {func(v *versions, p policy.Policy) job.Run {
			v.approved(exportsFor(t, 9, 30))
			return v.reports(p, 0, 3)
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVersions(t)
			p := exportsFor(t, 2, 30)
			run := c.build(v, p)
			before := v.approval()
			a, err := v.ask(order(p, run.ID))
			if c.there < 3 {
				words := fmt.Sprintf("of %d of the 3 dates that are needed: %d more", c.there, 3-c.there)
				if !failure.Is(err, failure.Conflict) || !strings.Contains(err.Error(), words) {
					t.Errorf("%v does not say %q", err, words)
				}
				v.untouched(before)
				return
			}
			if err != nil || !a.Approved || a.Former != 0 || a.Widens == nil || len(a.Widens) != 0 {
				t.Errorf("%+v, %v", a, err)
			}
			if got := v.approval(); !got.Names(p) || got.RunID != run.ID || got.Rev != before.Rev+1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// What is not approved says what is wrong, and leaves everything as it was.
func TestVersionsThatAreNotApproved(t *testing.T) {
	hex := strings.Repeat("0f", 16)
	for name, c := range map[string]struct {
		change func(v *versions, q *VersionRequest)
		class  failure.Class
		words  string
	}{
		"no policy":           {func(_ *versions, q *VersionRequest) { q.Policy = "" }, failure.Invalid, "policy and policy_version"},
		"no version":          {func(_ *versions, q *VersionRequest) { q.Version = 0 }, failure.Invalid, "policy and policy_version"},
		"a version below 0":   {func(_ *versions, q *VersionRequest) { q.Version = -1 }, failure.Invalid, "policy and policy_version"},
		"no run":              {func(_ *versions, q *VersionRequest) { q.Run = "" }, failure.Invalid, "run_id"},
		"no run's id":         {func(_ *versions, q *VersionRequest) { q.Run = "yesterday" }, failure.Invalid, "run_id"},
		"R89 nobody":          {func(_ *versions, q *VersionRequest) { q.By = "" }, failure.Invalid, "by is missing"},
		"R89 no reason":       {func(_ *versions, q *VersionRequest) { q.Reason = "" }, failure.Invalid, "reason is missing"},
		"another name":        {func(_ *versions, q *VersionRequest) { q.Policy = "export" }, failure.Absent, "look at the name"},
		"not published":       {func(_ *versions, q *VersionRequest) { q.Version = 3 }, failure.Absent, "the newest is 2"},
		"F18 superseded":      {func(v *versions, _ *VersionRequest) { v.publish(exportsFor(t, 3, 5)) }, failure.Conflict, "superseded by 3"},
		"an older version":    {func(_ *versions, q *VersionRequest) { q.Version = 1 }, failure.Conflict, "superseded by 2"},
		"R88 another region":  {func(v *versions, _ *VersionRequest) { v.config.Region = "us-east-1" }, failure.Invalid, "another region"},
		"a run that is none":  {func(_ *versions, q *VersionRequest) { q.Run = job.RunID(hex) }, failure.Absent, "no such run"},
		"a run before it":     {func(v *versions, q *VersionRequest) { q.Run = v.reports(exportsFor(t, 1, 30), 5, 1).ID }, failure.Invalid, "of version 1"},
		"a run that deleted":  {func(v *versions, q *VersionRequest) { q.Run = v.odd(func(r *job.Run) { r.Mode = job.Enforce }) }, failure.Invalid, "deletes"},
		"a run that is going": {func(v *versions, q *VersionRequest) { q.Run = v.odd(func(r *job.Run) { r.State = job.Released }) }, failure.Conflict, "wait until"},
		"a request":           {func(v *versions, q *VersionRequest) { q.Run = v.odd(func(r *job.Run) { r.RequestID = "ticket-1" }) }, failure.Invalid, "one tenant"},
		"other content":       {func(v *versions, q *VersionRequest) { q.Run = v.odd(func(r *job.Run) { r.PolicySHA256 = hex }) }, failure.Invalid, "of version 2"},
		"only reports": {func(v *versions, q *VersionRequest) {
			p := exportsFor(t, 3, 5, "mode: report-only")
			q.Version, q.Run = 3, v.reports(p, 5, 1).ID
		}, failure.Invalid, "only reports"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVersions(t)
			v.publish(exportsFor(t, 1, 30))
			v.approved(exportsFor(t, 1, 30))
			p := exportsFor(t, 2, 10)
			q := order(p, v.reports(p, 0, 3).ID)
			c.change(v, &q)
			before := v.approval()
			if _, err := v.ask(q); !failure.Is(err, c.class) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v, want class %s and %q", err, c.class, c.words)
			}
			v.untouched(before)
		})
	}
}

// odd puts a run of the second version that is not what an approval names.
func (v *versions) odd(change func(*job.Run)) job.RunID {
	v.t.Helper()
	return v.reports(exportsFor(v.t, 2, 10), 9, 1, change).ID
}

func TestVersionRequestIsDecodedStrictly(t *testing.T) {
	v := newVersions(t)
	r, err := New(v.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range []string{
		`{"op":"approve-version","policy":"exports","policy_version":"2","run_id":"x"}`, `{"op":"approve-version","policy":"exports","version":2}`,
		`{"op":"approve-version","override":"because I say so"}`,
	} {
		_, err := r.Handle(t.Context(), v.clock.at.Add(time.Minute), []byte(payload))
		if !failure.Is(err, failure.Invalid) || !strings.Contains(err.Error(), "policy, policy_version, run_id, by, reason") || strings.Contains(err.Error(), "exports") {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

// tick runs the date's schedule of what is deployed, and closes what only reported.
func (v *versions) tick(deployed policy.Policy) job.Run {
	v.t.Helper()
	v.clock.at = v.clock.at.AddDate(0, 0, 1)
	now := func() time.Time { return v.clock.at }
	store := artifact.NewMemory(now)
	if err := store.CreateBucket(deployed.Bucket, false); err != nil {
		v.t.Fatal(err)
	}
	e, err := enqueue.New(enqueue.Config{
		Runs: v.ledger, Pages: v.ledger, Policies: v.ledger, Approvals: v.ledger, Lister: store,
		Sender: queue.NewMemory(now, queue.Settings{Visibility: time.Minute}), Audit: v.log, Clock: v.clock, Settings: v.config.Settings,
		Region: v.config.Region, Deployed: map[string]policy.Policy{deployed.Name: deployed}, Code: "test",
	})
	if err != nil {
		v.t.Fatal(err)
	}
	receipt, err := e.Start(v.t.Context(), v.clock.at.Add(time.Minute), enqueue.Input{Policy: deployed.Name, Scheduled: v.clock.at.Format(time.RFC3339)})
	if err != nil {
		v.t.Fatal(err)
	}
	run, err := v.ledger.Run(v.t.Context(), receipt.RunID)
	if err == nil {
		run, err = run.Close(v.clock.at, job.Totals{}, job.Seal{})
	}
	if err == nil {
		err = v.ledger.SwapRun(v.t.Context(), run)
	}
	if err != nil {
		v.t.Fatal(err)
	}
	return run
}

// R136 to R141, HP-08, T4: a class from its first report to deleting, and what every
// later version has to go through, with the steps that a deployed region has.
func TestR137FromTheFirstReportToDeleting(t *testing.T) {
	v := newVersions(t)
	mode := func(run job.Run, want job.Mode) job.Run {
		t.Helper()
		if run.Mode != want || (len(run.Ratchet) > 0) != (want == job.ReportOnly) {
			t.Errorf("version %d of %s runs %s: %q", run.Version, run.Scheduled, run.Mode, run.Ratchet)
		}
		return run
	}
	approve := func(p policy.Policy, run job.Run) error {
		_, err := v.ask(order(p, run.ID))
		return err
	}
	first := exportsFor(t, 1, 30)
	for date := 1; date <= 2; date++ {
		if err := approve(first, mode(v.tick(first), job.ReportOnly)); !failure.Is(err, failure.Conflict) {
			t.Errorf("after %d dates: %v", date, err)
		}
	}
	if err := approve(first, mode(v.tick(first), job.ReportOnly)); err != nil {
		t.Fatal(err)
	}
	mode(v.tick(first), job.Enforce)

	second := exportsFor(t, 2, 10)
	held := mode(v.tick(second), job.ReportOnly)
	mode(v.tick(second), job.ReportOnly)
	mode(v.tick(first), job.Enforce) // rolled back before anybody approved
	mode(v.tick(second), job.ReportOnly)
	if err := approve(second, held); err != nil {
		t.Fatal(err)
	}
	mode(v.tick(second), job.Enforce)

	mode(v.tick(first), job.Enforce) // rolled back: narrower again, and so approved by itself
	if a := v.approval(); !a.Names(first) || a.By != "enqueue" {
		t.Errorf("%+v", a)
	}
	mode(v.tick(second), job.ReportOnly)

	third, fourth := exportsFor(t, 3, 60), exportsFor(t, 4, 30)
	mode(v.tick(third), job.Enforce)
	back := mode(v.tick(fourth), job.ReportOnly) // as the first was, and wider than the third
	if err := approve(third, back); !failure.Is(err, failure.Conflict) {
		t.Errorf("%v", err)
	}
	if err := approve(fourth, back); err != nil {
		t.Fatal(err)
	}
	mode(v.tick(fourth), job.Enforce)
}
