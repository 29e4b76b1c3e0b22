package redrive

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Stopped is a run that the guard stopped, or what became of it.
type Stopped struct {
	RunID     job.RunID    `json:"run_id"`
	State     job.RunState `json:"state"`
	Policy    string       `json:"policy"`
	Version   int          `json:"policy_version"`
	Scheduled time.Time    `json:"scheduled"`
	// Cutoff: what was last modified before it is a candidate.
	Cutoff time.Time `json:"cutoff"`
	// Tenant and RequestID are those of a request for one tenant.
	Tenant    string `json:"tenant_id,omitzero"`
	RequestID string `json:"request_id,omitzero"`
	// Trips are the guard's findings in words.
	Trips      []string `json:"trips"`
	Examined   int      `json:"examined"`
	Candidates int      `json:"candidates"`
	Pages      int      `json:"pages"`
	Tenants    int      `json:"tenants"`
	// NewestVersion is the newest published version of the policy, 0 for none.
	// Superseded: it is newer than the run's (F18).
	NewestVersion int  `json:"newest_version"`
	Superseded    bool `json:"superseded"`
	// Fingerprint stands for exactly this scan.
	Fingerprint string `json:"fingerprint"`
	Next        string `json:"next"`
}

func (r *Redriver) approve(ctx context.Context, _ time.Time, q ApproveRequest) (Stopped, error) {
	return r.decide(ctx, "approve run", q, true)
}

func (r *Redriver) reject(ctx context.Context, _ time.Time, q ApproveRequest) (Stopped, error) {
	return r.decide(ctx, "reject run", q, false)
}

// decide shows a stopped run, and ends its wait when the request names what was
// shown. The decision binds to the row that was shown, by compare-and-set.
func (r *Redriver) decide(ctx context.Context, op string, q ApproveRequest, release bool) (a Stopped, err error) {
	if !isID(string(q.Run)) {
		return a, failure.New(failure.Invalid, op, "run_id is missing or not of its form: 32 hex digits")
	}
	if err := checkOverride(op, q.Override); err != nil {
		return a, err
	}
	if q.Fingerprint != "" {
		if err := q.Signature.Check(op); err != nil {
			return a, err
		}
	}
	op += " " + string(q.Run)
	run, err := r.stopped(ctx, op, q.Run)
	if err != nil {
		return a, err
	}
	l := r.look()
	if a, err = l.show(ctx, run); err != nil || q.Fingerprint == "" {
		return a, err
	}
	if q.Fingerprint != a.Fingerprint {
		return a, failure.New(failure.Conflict, op, "the fingerprint stands for another scan: ask again without one, and look at what stands there")
	}
	if release {
		if err := l.mayRelease(ctx, op, run, a, q.Override); err != nil {
			return a, err
		}
	}
	return r.end(ctx, run, a, q, release)
}

// stopped reads a run that waits for a person.
func (r *Redriver) stopped(ctx context.Context, op string, id job.RunID) (job.Run, error) {
	run, err := r.Runs.Run(ctx, id)
	switch {
	case failure.Is(err, failure.Absent):
		return run, failure.New(failure.Absent, op, "no such run in this region")
	case err != nil:
		return run, err
	case run.Region != r.Region:
		return run, failure.New(failure.Invalid, op, "the run belongs to another region: decide there")
	case run.State != job.AwaitingApproval:
		return run, failure.New(failure.Conflict, op, "the run is "+string(run.State)+" and does not wait for an approval: there is nothing to decide")
	}
	return run, nil
}

func (l *look) show(ctx context.Context, run job.Run) (Stopped, error) {
	newest, err := l.newestOf(ctx, run.Policy)
	if err != nil {
		return Stopped{}, err
	}
	tenants, err := l.Runs.Tenants(ctx, run.ID)
	if err != nil {
		return Stopped{}, err
	}
	a := Stopped{
		RunID: run.ID, State: run.State, Policy: run.Policy, Version: run.Version, Scheduled: run.Scheduled.UTC(), Cutoff: run.Cutoff.UTC(),
		Tenant: run.Tenant, RequestID: run.RequestID, Trips: append([]string{}, run.Trips...), Examined: run.Examined, Candidates: run.Candidates,
		Pages: run.Pages, Tenants: len(tenants), NewestVersion: newest, Superseded: newest > run.Version, Fingerprint: run.Fingerprint(),
		Next: "Approve or reject it with this fingerprint and a reason. Nothing of it happens before.",
	}
	if a.Superseded {
		a.Next = "The run goes by version " + strconv.Itoa(run.Version) + " and the newest is " + strconv.Itoa(newest) +
			". Reject it with this fingerprint and a reason, and let the next run decide; to approve it all the same, give an override with a reason."
	}
	return a, nil
}

// mayRelease refuses a run whose rule is no longer the one in force, or gone.
func (l *look) mayRelease(ctx context.Context, op string, run job.Run, a Stopped, override string) error {
	pinned, err := l.onRecord(ctx, run)
	switch {
	case err != nil:
		return err
	case !pinned.same:
		return failure.New(failure.Conflict, op, "the run's policy version is not on record with its content, so every worker would refuse its pages: publish it again, or reject the run")
	case a.Superseded && override == "":
		return failure.New(failure.Conflict, op, "version "+strconv.Itoa(run.Version)+" of the policy is superseded by "+strconv.Itoa(a.NewestVersion)+
			": reject the run, or give an override with a reason, which is recorded")
	}
	return nil
}

// end writes the order down and moves the run. After a release reconcile sends the
// pages, which are due.
func (r *Redriver) end(ctx context.Context, run job.Run, a Stopped, q ApproveRequest, release bool) (Stopped, error) {
	act := audit.RunRejected
	if release {
		act = audit.RunApproved
	}
	e := audit.Entry{Act: act, Policy: run.Policy, Version: run.Version, RunID: run.ID, TenantID: run.Tenant, Override: q.Override, Count: run.Candidates}
	if err := r.order(ctx, q.Signature, e); err != nil {
		return a, err
	}
	next, err := run.Reject(r.now(), q.Reason, q.By)
	a.Next = "The run is over and has deleted nothing. The next run of the policy evaluates the same objects again."
	if release {
		next, err = run.Release(r.now(), run.Trips, q.Reason, q.By)
		a.Next = "Reconcile sends the pages in its next pass, within " + r.Settings.ReconcileEvery.String() + "."
	}
	if err != nil {
		return a, err
	}
	if err := r.Runs.SwapRun(ctx, next); err != nil {
		stored, rerr := r.Runs.Run(ctx, run.ID)
		same := rerr == nil && stored.State == next.State && stored.Approval == next.Approval && stored.ApprovedBy == next.ApprovedBy &&
			stored.ReleasedAt.Equal(next.ReleasedAt) && stored.ClosedAt.Equal(next.ClosedAt)
		if !same { // somebody else was first, or it did not happen
			return a, err
		}
	}
	if release {
		r.emit(audit.Event{Event: audit.RunReleased, Count: run.Candidates}.About(next, job.Page{}))
	}
	a.State = next.State
	return a, nil
}
