package redrive

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// VersionRequest lets a policy version delete, by a run of it that only reported and
// that somebody has looked at. Without a signature it asks what that would change.
type VersionRequest struct {
	Op      string    `json:"op"`
	Policy  string    `json:"policy"`
	Version int       `json:"policy_version"`
	Run     job.RunID `json:"run_id"`
	audit.Signature
}

// ApprovedVersion is what the approval of a policy version changes, or has changed.
type ApprovedVersion struct {
	Policy  string `json:"policy"`
	Version int    `json:"policy_version"`
	SHA256  string `json:"policy_sha256"`
	// Approved: it was signed and is on record.
	Approved bool `json:"approved"`
	// Former is the version that may delete until then, 0 where none may; Widens says
	// in sentences by what this one may delete more.
	Former int      `json:"former_version"`
	Widens []string `json:"widens"`

	// The run that was looked at, and what it says would have been deleted: items, and
	// bytes of them.
	RunID       job.RunID `json:"run_id"`
	Scheduled   time.Time `json:"scheduled"`
	Candidates  int       `json:"candidates"`
	WouldDelete int       `json:"would_delete"`
	Bytes       int64     `json:"bytes"`

	Next string `json:"next"`
}

// historyMost is how many closed runs are looked through for dates on which the
// policy only reported: some for each date that a policy can ask for.
const historyMost = 10 * policy.MaxReportOnlyDates

// version approves a policy version by name: from then on its runs delete. Runs that
// are there already keep the mode in which they opened.
func (r *Redriver) version(ctx context.Context, _ time.Time, q VersionRequest) (a ApprovedVersion, err error) {
	signed := q.Signature != audit.Signature{}
	if err := q.check(signed); err != nil {
		return a, err
	}
	op := "approve " + q.Policy + "@" + strconv.Itoa(q.Version)
	p, err := r.latest(ctx, op, q)
	if err != nil {
		return a, err
	}
	run, err := r.Runs.Run(ctx, q.Run)
	if failure.Is(err, failure.Absent) {
		return a, failure.New(failure.Absent, op, "no such run in this region")
	}
	if err != nil {
		return a, err
	}
	approval, err := r.Approvals.Approval(ctx, q.Policy)
	if err != nil {
		return a, err
	}
	if approval.Names(p) {
		return a, failure.New(failure.Conflict, op, "the version may delete since "+at(approval.At)+": there is nothing to approve")
	}
	former, err := r.former(ctx, approval)
	if err != nil {
		return a, err
	}
	var history []policy.Reported
	if former == nil {
		if history, err = r.history(ctx, q.Policy); err != nil {
			return a, err
		}
	}
	if err := policy.Approvable(p, former != nil, run, history); err != nil {
		return a, err
	}
	if a = whatChanges(p, former, run); !signed {
		return a, nil
	}
	return r.enact(ctx, q, approval, a)
}

func (q VersionRequest) check(signed bool) error {
	const op = "approve version"
	switch {
	case q.Policy == "" || q.Version < 1:
		return failure.New(failure.Invalid, op, "policy and policy_version are missing or not of their form: the policy's name, and a version from 1")
	case !isName(q.Policy):
		return failure.New(failure.Invalid, op, nameText)
	case !isID(string(q.Run)):
		return failure.New(failure.Invalid, op, "run_id is missing or not of its form: 32 hex digits, of the closed report-only run that was looked at")
	case signed:
		return q.Signature.Check(op)
	}
	return nil
}

// latest reads the version, which must be the newest that was published.
func (r *Redriver) latest(ctx context.Context, op string, q VersionRequest) (policy.Policy, error) {
	p, err := r.Policies.LatestPolicy(ctx, q.Policy)
	switch {
	case failure.Is(err, failure.UnknownPolicy):
		return p, failure.New(failure.Absent, op, "no version of this policy is on record: look at the name")
	case err != nil:
		return p, err
	case p.Version > q.Version:
		return p, failure.New(failure.Conflict, op, "the version is superseded by "+strconv.Itoa(p.Version)+": approve that one by a report of its own, or publish this content under a higher number")
	case p.Version < q.Version:
		return p, failure.New(failure.Absent, op, "the version was never published: the newest is "+strconv.Itoa(p.Version))
	case p.Region != r.Region:
		return p, failure.New(failure.Invalid, op, "the policy belongs to another region: approve it there")
	}
	return p, nil
}

// former returns the version that the approval names, nil where there is none, or
// none that is on record as it was approved.
func (r *Redriver) former(ctx context.Context, approval policy.Approval) (*policy.Policy, error) {
	if approval == (policy.Approval{}) {
		return nil, nil
	}
	p, err := r.Policies.Policy(ctx, approval.Policy, approval.Version)
	if failure.Is(err, failure.UnknownPolicy) || err == nil && !approval.Names(p) {
		return nil, nil
	}
	return &p, err
}

// history reads the policy's closed scheduled runs, each with its version. A run
// whose version is not on record shows nothing.
func (r *Redriver) history(ctx context.Context, name string) ([]policy.Reported, error) {
	closed, err := r.Runs.ClosedRuns(ctx, name, historyMost)
	if err != nil {
		return nil, err
	}
	known := map[int]policy.Policy{}
	var all []policy.Reported
	for _, run := range closed {
		p, err := once(known, run.Version, func() (policy.Policy, error) { return r.Policies.Policy(ctx, name, run.Version) })
		if failure.Is(err, failure.UnknownPolicy) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, policy.Reported{Run: run, Policy: p})
	}
	return all, nil
}

func whatChanges(p policy.Policy, former *policy.Policy, run job.Run) ApprovedVersion {
	a := ApprovedVersion{
		Policy: p.Name, Version: p.Version, SHA256: p.SHA256(), Widens: []string{},
		RunID: run.ID, Scheduled: run.Scheduled.UTC(), Candidates: run.Candidates, WouldDelete: run.Totals.Counts[job.WouldDelete], Bytes: run.Totals.Bytes,
		Next: "Nothing is approved yet. Approve it with a reason, if what the run reports is what shall be deleted.",
	}
	if former != nil {
		a.Former = former.Version
		a.Widens = slices.Concat(a.Widens, policy.Widens(*former, p))
	}
	return a
}

// enact writes the order down and moves the approval, if it is still the one that was
// looked at.
func (r *Redriver) enact(ctx context.Context, q VersionRequest, from policy.Approval, a ApprovedVersion) (ApprovedVersion, error) {
	e := audit.Entry{Act: audit.VersionApproved, Policy: a.Policy, Version: a.Version, RunID: a.RunID, Count: a.Candidates}
	next := policy.Approval{
		Policy: a.Policy, Rev: from.Rev + 1, Version: a.Version, SHA256: a.SHA256, RunID: a.RunID, By: q.By, Reason: q.Reason, At: r.now(),
	}
	if err := r.order(ctx, q.Signature, e); err != nil {
		return ApprovedVersion{}, err
	}
	if err := r.Approvals.Approve(ctx, next); err != nil {
		stored, rerr := r.Approvals.Approval(ctx, a.Policy)
		same := rerr == nil && stored.Rev == next.Rev && stored.SHA256 == next.SHA256 && stored.RunID == next.RunID &&
			stored.By == next.By && stored.Reason == next.Reason && stored.At.Equal(next.At)
		if !same { // somebody else was first, or it did not happen
			return ApprovedVersion{}, err
		}
	}
	a.Approved = true
	a.Next = "The next run of the policy deletes. Runs that are there already keep the mode in which they opened."
	return a, nil
}
