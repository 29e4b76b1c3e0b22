// Package enqueue turns one tick, or one request for a tenant, into a run of pages.
//
// It opens the run with a conditional put, scans the bucket with constant memory,
// and records the scan as a chain of pages. A page is keyed by where its range
// starts and is put in the same transaction that moves the run's cursor, so that
// two enqueues of one run, resumed or doubled, walk one chain: whoever loses a
// put reads the cursor and goes on from there. Pages are disjoint and cover the
// scan by construction.
//
// The run is the gate. Nothing can be claimed before the guard has summed the
// records and released it; a guard that trips leaves no effect but an alarm.
// Messages are sent after that. What the queue does not accept stays planned,
// and reconcile sends it.
//
// The mode is decided before the run opens. A policy version that would delete
// more than the approved one only reports, until somebody approves it by name: a
// release can shorten a retention by mistake, and so can somebody who means harm.
package enqueue

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// runs opens and moves runs. Each write fails with failure.Conflict when the row
// is not the one it was computed from.
type runs interface {
	OpenRun(ctx context.Context, r job.Run) (stored job.Run, created bool, err error)
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	SwapRun(ctx context.Context, next job.Run) error
	ClosedRuns(ctx context.Context, policy string, limit int) ([]job.Run, error)
}

// pages records the scan and reads it back, strongly consistent.
type pages interface {
	Record(ctx context.Context, next job.Run, page *job.Page) error
	Tenants(ctx context.Context, run job.RunID) ([]string, error)
	Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error)
	// SwapPages writes up to 100 pages, all or nothing.
	SwapPages(ctx context.Context, next []job.Page) error
}

// policies publishes a version once and returns what was published.
type policies interface {
	PublishPolicy(ctx context.Context, p policy.Policy) error
	Policy(ctx context.Context, name string, version int) (policy.Policy, error)
}

// approvals says which version of a policy may delete, and keeps the orders by
// which it came to be that one.
type approvals interface {
	// Approval returns the zero value while there is none.
	Approval(ctx context.Context, name string) (policy.Approval, error)
	Approve(ctx context.Context, next policy.Approval) error
	PutEntry(ctx context.Context, e audit.Entry) error
}

// lister lists items in key order, and says beforehand whether it can: the error of
// Ready has a class that is not retryable when somebody has to act first.
type lister interface {
	List(ctx context.Context, q job.Query) (job.Listing, error)
	Ready(ctx context.Context, q job.Query, region string) error
}

// sender sends messages and returns the ids of those that were accepted; the
// others were not, and nothing is known to be wrong with them.
type sender interface {
	Send(ctx context.Context, mode job.Mode, messages []job.Message) (accepted []string, err error)
}

// clock is the only source of time.
type clock interface{ Now() time.Time }

// Config is what an enqueuer is made of. Every field is required.
type Config struct {
	Runs      runs
	Pages     pages
	Policies  policies
	Approvals approvals
	Lister    lister
	Sender    sender
	Audit     audit.Sink
	Clock     clock
	Settings  contract.Settings
	// Region is the function's own.
	Region string
	// Deployed are the policy versions that ship with the function, by name.
	Deployed map[string]policy.Policy
	// ReportOnly opens every run report-only, whatever its policy says.
	ReportOnly bool
	// Code is the code version, for events.
	Code string
}

// Enqueuer starts and resumes runs. It keeps nothing between invocations.
type Enqueuer struct{ Config }

// New returns an enqueuer, or the reason its settings can not be used.
func New(c Config) (*Enqueuer, error) {
	if err := c.Settings.Validate(); err != nil {
		return nil, err
	}
	return &Enqueuer{c}, nil
}

// Start opens the run of a tick or request and takes it as far as the deadline
// allows. Started again with the same input it goes on with an unfinished scan
// and otherwise does nothing.
func (e *Enqueuer) Start(ctx context.Context, deadline time.Time, in Input) (Receipt, error) {
	p, ok := e.Deployed[in.Policy]
	if !ok {
		return Receipt{}, failure.New(failure.Invalid, "start run", "policy is not the name of a deployed policy")
	}
	if p.Region != e.Region {
		return Receipt{}, failure.New(failure.Invalid, "start run", "the policy belongs to another region")
	}
	planned, err := e.planRun(p, in)
	if err != nil {
		return Receipt{}, err
	}
	if err := e.Policies.PublishPolicy(ctx, p); err != nil {
		if failure.Is(err, failure.Invalid) {
			e.emit(audit.Event{Event: audit.PolicyRefused, FailureClass: failure.Invalid}.About(planned, job.Page{}))
		}
		return Receipt{}, err
	}
	if err := e.ready(ctx, deadline, p, planned); err != nil {
		return Receipt{}, err
	}
	if planned, err = e.ratchet(ctx, p, planned); err != nil {
		return Receipt{}, err
	}
	run, created, err := e.Runs.OpenRun(ctx, planned)
	if err != nil {
		return Receipt{}, err
	}
	switch {
	case created:
		e.emit(audit.Event{Event: audit.RunOpened}.About(run, job.Page{}))
	case run.Tenant != in.Tenant:
		// The answer would say that this tenant's request is on record, and it is not.
		return Receipt{}, failure.New(failure.Invalid, "start run", "request_id was used for another tenant; a new request needs its own")
	}
	if run.State != job.Scanning {
		return Receipt{run.ID, run.State}, nil
	}
	return e.advance(ctx, deadline, run)
}

// Resume goes on with an unfinished scan.
func (e *Enqueuer) Resume(ctx context.Context, deadline time.Time, id job.RunID) (Receipt, error) {
	run, err := e.Runs.Run(ctx, id)
	if err != nil {
		return Receipt{}, err
	}
	if run.State != job.Scanning {
		return Receipt{run.ID, run.State}, nil
	}
	return e.advance(ctx, deadline, run)
}

// planRun derives the run: its identity from what was scheduled or requested,
// never from the clock, with policy version and cutoff pinned, and the mode that the
// policy asks for.
func (e *Enqueuer) planRun(p policy.Policy, in Input) (job.Run, error) {
	now := e.Clock.Now().UTC()
	r := job.Run{
		Rev: 1, Region: e.Region, Policy: p.Name, Version: p.Version, PolicySHA256: p.SHA256(),
		Mode: p.Mode, State: job.Scanning, OpenedAt: now,
	}
	if e.ReportOnly {
		r.Mode = job.ReportOnly
	}
	if in.isRequest() {
		if tenant, ok := p.TenantOf(p.TenantPrefix(in.Tenant) + "x"); !ok || tenant != in.Tenant {
			return r, failure.New(failure.Invalid, "start run", "tenant is not one of the policy's tenants")
		}
		r.ID = job.RequestRunID(e.Region, p.Name, in.RequestID)
		r.Tenant, r.RequestID, r.Reason = in.Tenant, in.RequestID, in.Reason
		r.Scheduled = now
		r.Cutoff = p.Cutoff(now)
		if c := p.Cutoff(p.Schedule.Next(now)); c.Before(r.Cutoff) {
			r.Cutoff = c // a request deletes nothing that the next scheduled run would keep
		}
	} else {
		at, ok := instant(in.Scheduled)
		if !ok {
			return r, failure.New(failure.Invalid, "start run", "scheduled is not an instant in RFC 3339")
		}
		if at.After(now.Add(e.Settings.ClockSkew)) {
			return r, failure.New(failure.Invalid, "start run", "scheduled lies in the future")
		}
		r.ID = job.ScheduledRunID(e.Region, p.Name, at)
		r.Scheduled, r.Cutoff = at.UTC(), p.Cutoff(at)
	}
	if !p.Honours(r.Scheduled, r.Cutoff) {
		return r, failure.New(failure.Bug, "start run", "the cutoff does not keep the policy's retention")
	}
	r.Cutoff = r.Cutoff.UTC()
	return r, nil
}

// advance scans, decides at the gate, and sends.
func (e *Enqueuer) advance(ctx context.Context, deadline time.Time, run job.Run) (Receipt, error) {
	p, err := e.Policies.Policy(ctx, run.Policy, run.Version)
	if err != nil {
		return Receipt{}, err
	}
	if p.SHA256() != run.PolicySHA256 {
		return Receipt{}, failure.New(failure.UnknownPolicy, "scan run "+string(run.ID), "the published version is not the pinned one")
	}
	s := scan{Enqueuer: e, policy: p, deadline: deadline, run: run}
	done, err := s.all(ctx)
	if err != nil || !done {
		return Receipt{s.run.ID, s.run.State}, err
	}
	if s.run.State == job.Scanning {
		if s.run, err = e.gate(ctx, p, s.run); err != nil {
			return Receipt{s.run.ID, s.run.State}, err
		}
	}
	if s.run.State == job.Released {
		err = e.send(ctx, deadline, s.run)
	}
	return Receipt{s.run.ID, s.run.State}, err
}

// gate sums the scan and moves the run: released, or awaiting approval when the
// guard trips. A report-only run can delete nothing and is released either way,
// with the findings on record.
func (e *Enqueuer) gate(ctx context.Context, p policy.Policy, run job.Run) (job.Run, error) {
	closed, err := e.Runs.ClosedRuns(ctx, run.Policy, e.Settings.GuardHistory)
	if err != nil {
		return run, err
	}
	facts := policy.GuardFacts{Candidates: run.Candidates, Examined: run.Examined}
	for _, c := range closed {
		facts.History = append(facts.History, c.Candidates)
	}
	trips := p.Guard(facts)
	if len(run.Ratchet) > 0 {
		// Told here and not when the run opens: the number of candidates is known, and
		// a lost answer can not make it silent.
		e.tell(audit.VersionNotApproved, run)
	}
	var next job.Run
	if len(trips) > 0 && run.Mode == job.Enforce {
		// Told before it is written: whoever dies in between leaves a run that trips
		// again, and not one that waits in silence.
		e.tell(audit.GuardTripped, run)
		next, err = run.Await(trips)
	} else {
		next, err = run.Release(e.Clock.Now().UTC(), trips, "", "")
	}
	if err == nil {
		err = e.Runs.SwapRun(ctx, next)
	}
	if err != nil {
		// Another enqueue was first, or the answer was lost: what stands there counts.
		stored, rerr := e.Runs.Run(ctx, run.ID)
		if rerr != nil || stored.State == job.Scanning {
			return run, err
		}
		return stored, nil
	}
	if next.State == job.Released {
		e.tell(audit.RunReleased, next)
	}
	return next, nil
}

// tell emits an event about a whole run, with the number of its candidates.
func (e *Enqueuer) tell(name audit.Name, run job.Run) {
	e.emit(audit.Event{Event: name, Count: run.Candidates}.About(run, job.Page{}))
}

func (e *Enqueuer) emit(ev audit.Event) {
	ev.Time, ev.CodeVersion = e.Clock.Now().UTC(), e.Code
	e.Audit.Emit(ev)
}

// late reports whether there is no time to start another step.
func (e *Enqueuer) late(deadline time.Time) bool {
	return deadline.Sub(e.Clock.Now()) < e.Settings.TakeMargin
}
