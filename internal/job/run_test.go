package job_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// baseRun is a run in a state with every field set.
func baseRun(s job.RunState) job.Run {
	return job.Run{
		ID: "run", Rev: 7, Region: "eu-central-1", Policy: "exports", Version: 3, PolicySHA256: "sha", Mode: job.Enforce,
		Scheduled: in(-time.Hour), Cutoff: in(-30 * 24 * time.Hour), Tenant: "school-42", RequestID: "request", Reason: "why",
		State: s, Cursor: "c", Examined: 100, Unmatched: 10, Candidates: 30, Pages: 2, Trips: []string{"old"}, Approval: "old",
		OpenedAt: in(-time.Hour), ReleasedAt: in(-50 * time.Minute), ClosedAt: in(-40 * time.Minute), Totals: job.Totals{Candidates: 1},
	}
}

// runMethods are all that move a run; changes is as for a page. That the policy
// version, the mode and the cutoff never change is S1.
var runMethods = []struct {
	name    string
	event   job.RunEvent
	do      func(job.Run) (job.Run, error)
	changes func(r *job.Run)
}{
	{"Advance with a page", job.EventAdvance, func(r job.Run) (job.Run, error) {
		return r.Advance(job.Stretch{Through: "d", Examined: 40, Unmatched: 0}, &job.Page{Candidates: 20, Examined: 999})
	}, func(r *job.Run) { r.Cursor, r.Examined, r.Pages, r.Candidates = "d", 140, 3, 50 }},
	{"Advance with an empty page", job.EventAdvance, func(r job.Run) (job.Run, error) {
		return r.Advance(job.Stretch{Through: "d", Examined: 40}, &job.Page{})
	}, func(r *job.Run) { r.Cursor, r.Examined, r.Pages = "d", 140, 3 }},
	{"Advance without a page", job.EventAdvance, func(r job.Run) (job.Run, error) {
		return r.Advance(job.Stretch{Through: "d", Examined: 40, Unmatched: 40}, nil)
	}, func(r *job.Run) { r.Cursor, r.Examined, r.Unmatched = "d", 140, 50 }},
	{"Release", job.EventRelease, func(r job.Run) (job.Run, error) { return r.Release(now, []string{"new"}, "because", "ops") },
		func(r *job.Run) {
			r.ReleasedAt, r.Trips, r.Approval, r.ApprovedBy = now, []string{"new"}, "because", "ops"
		}},
	{"Await", job.EventAwait, func(r job.Run) (job.Run, error) { return r.Await([]string{"new"}) },
		func(r *job.Run) { r.Trips = []string{"new"} }},
	{"Reject", job.EventReject, func(r job.Run) (job.Run, error) { return r.Reject(now, "because", "ops") },
		func(r *job.Run) { r.ClosedAt, r.Approval, r.ApprovedBy = now, "because", "ops" }},
	{"Close", job.EventClose, func(r job.Run) (job.Run, error) {
		return r.Close(now, job.Totals{Candidates: 9, Counts: counts(9)}, job.Seal{Manifest: "m", Root: "r"})
	}, func(r *job.Run) {
		r.ClosedAt, r.Totals, r.Seal = now, job.Totals{Candidates: 9, Counts: counts(9)}, job.Seal{Manifest: "m", Root: "r"}
	}},
}

func TestEveryRunMethodInEveryState(t *testing.T) {
	for _, m := range runMethods {
		for _, s := range job.RunStates() {
			before := baseRun(s)
			next, allowed := s.On(m.event)
			got, err := m.do(before)
			if !allowed {
				if !failure.Is(err, failure.Conflict) || got.State != s || got.Rev != before.Rev {
					t.Errorf("%s in %s: %v, state %s, revision %d", m.name, s, err, got.State, got.Rev)
				}
				continue
			}
			want := before
			want.State, want.Rev = next, 8
			m.changes(&want)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s in %s: %v\ngot  %+v\nwant %+v", m.name, s, err, got, want)
			}
			if !reflect.DeepEqual(before, baseRun(s)) {
				t.Errorf("%s in %s changed what it was called on", m.name, s)
			}
		}
	}
	for _, e := range job.RunEvents() {
		found := false
		for _, m := range runMethods {
			found = found || m.event == e
		}
		if !found {
			t.Errorf("no method for %s", e)
		}
	}
}

func TestRunThatNeedsWork(t *testing.T) {
	for _, s := range job.RunStates() {
		if got := (job.Run{State: s}).Open(); got != (s == job.Scanning || s == job.Released) {
			t.Errorf("%s: open %v", s, got)
		}
	}
	for _, o := range job.Outcomes() {
		r := job.Run{}
		r.Totals.Counts[o] = 1
		if got := r.WithFailures(); got != (o == job.Refused || o == job.Failed) {
			t.Errorf("%s: with failures %v", o, got)
		}
	}
}

func TestBrakeCovers(t *testing.T) {
	for _, c := range []struct {
		brake   job.Brake
		policy  string
		version int
		covers  bool
	}{
		{job.Brake{}, "exports", 1, true},
		{job.Brake{Policy: "exports"}, "exports", 1, true},
		{job.Brake{Policy: "exports"}, "exports", 2, true},
		{job.Brake{Policy: "exports"}, "exports-2", 1, false},
		{job.Brake{Policy: "exports-2"}, "exports", 1, false},
		{job.Brake{Policy: "exports", Version: 1}, "exports", 1, true},
		{job.Brake{Policy: "exports", Version: 1}, "exports", 2, false},
		{job.Brake{Policy: "exports", Version: 1}, "exports", 11, false},
		{job.Brake{Policy: "exports", Version: 1}, "digests", 1, false},
	} {
		if got := c.brake.Covers(c.policy, c.version); got != c.covers {
			t.Errorf("%+v covers %s@%d: %v", c.brake, c.policy, c.version, got)
		}
	}
}
