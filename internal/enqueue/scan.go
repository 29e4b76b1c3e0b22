package enqueue

import (
	"context"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// conflictTries is how often a scan that lost a transaction reads the run again
// before it leaves the run to whoever keeps winning.
const conflictTries = 10

// scan walks one run's chain from its cursor to the end.
type scan struct {
	*Enqueuer
	policy   policy.Policy
	deadline time.Time
	run      job.Run
}

// all scans until the listing ends and reports whether it did. It stops at the
// deadline with the cursor saved; a run that another enqueue has moved out of
// scanning is done.
func (s *scan) all(ctx context.Context) (done bool, err error) {
	for lost := 0; ; {
		err := s.walk(ctx)
		switch {
		case err == nil:
			return true, nil
		case failure.Is(err, errLate):
			return false, nil
		case failure.Of(err).Ambiguous() || failure.Is(err, failure.Conflict):
			// Somebody moved the cursor, perhaps this scan by a write whose answer was
			// lost. Either way the row says where the chain goes on (F1).
			stored, rerr := s.Runs.Run(ctx, s.run.ID)
			if rerr != nil {
				return false, rerr
			}
			others := stored.Rev > s.run.Rev
			if s.run = stored; s.run.State != job.Scanning {
				return true, nil
			}
			if lost++; lost <= conflictTries {
				continue
			}
			if others {
				return false, nil // it is in good hands
			}
			return false, err
		default:
			return false, err
		}
	}
}

// errLate is the class of the deadline: nothing failed, the next invocation goes on.
const errLate failure.Class = "late"

func late() error { return failure.New(errLate, "scan run", "no time for another step") }

// walk lists from the run's cursor and records every stretch.
func (s *scan) walk(ctx context.Context) error {
	q := job.Query{Bucket: s.policy.Bucket, Prefix: s.policy.Prefix(), After: s.run.Cursor, Versions: s.policy.Versions == policy.AllVersions}
	if s.run.Tenant != "" {
		q.Prefix = s.policy.TenantPrefix(s.run.Tenant)
	}
	open := &stretch{}
	for {
		if s.late(s.deadline) {
			return late()
		}
		listing, err := s.Lister.List(ctx, q)
		if q.Token != "" && failure.Is(err, failure.Invalid) {
			// The store has forgotten the token. The last durable key is still good (S3-25).
			return failure.Wrap(failure.Conflict, "scan run", err)
		}
		if err != nil {
			return err
		}
		for _, item := range listing.Items {
			if open, err = s.take(ctx, open, item); err != nil {
				return err
			}
		}
		if q.Token = listing.Token; q.Token == "" {
			break
		}
	}
	for !open.empty() {
		open.close(s.Settings.PageItems, s.Settings.PageListed)
		if err := s.record(ctx, open); err != nil {
			return err
		}
		open = open.rest()
	}
	return nil
}

// take adds an item to the open stretch, and before that records what must be:
// a stretch at its limit, or of another tenant.
func (s *scan) take(ctx context.Context, open *stretch, item job.Item) (*stretch, error) {
	tenant, _ := s.policy.TenantOf(item.Key)
	if item.Key != open.key.through {
		for open.close(s.Settings.PageItems, s.Settings.PageListed) || !open.empty() && tenant != open.tenant {
			if err := s.record(ctx, open); err != nil {
				return nil, err
			}
			open = open.rest()
		}
	}
	open.add(item, tenant, policy.Decide(policy.Facts{Item: item, Tenant: tenant, Cutoff: s.run.Cutoff, Policy: &s.policy}))
	return open, nil
}

// record puts the stretch's page and moves the cursor over it. One listing can
// hold a thousand tenants and so a thousand pages, so time is looked at here too.
func (s *scan) record(ctx context.Context, st *stretch) error {
	if s.late(s.deadline) {
		return late()
	}
	page := s.pageOf(st)
	next, err := s.run.Advance(job.Stretch{Through: st.done.through, Examined: st.done.examined, Unmatched: st.done.unmatched}, page)
	if err != nil {
		return err
	}
	if err := s.Pages.Record(ctx, next, page); err != nil {
		return err
	}
	s.run = next
	return nil
}

// pageOf returns the page of a stretch, nil for one that belongs to no tenant. A
// page without candidates is born completed and never sent.
func (s *scan) pageOf(st *stretch) *job.Page {
	if st.tenant == "" {
		return nil
	}
	prefix := s.policy.TenantPrefix(st.tenant)
	after, inside := strings.CutPrefix(s.run.Cursor, prefix)
	if !inside {
		after = ""
	}
	now := s.Clock.Now().UTC()
	p := &job.Page{
		ID: job.RangePageID(s.run.ID, st.tenant, after), Run: s.run.ID, Tenant: st.tenant, Kind: job.RangePage, Rev: 1,
		After: after, Through: strings.TrimPrefix(st.done.through, prefix),
		Examined: st.done.examined, Candidates: st.done.candidates,
		State: job.Planned, BornAt: now, NextDue: now.Add(s.Settings.Overdue()),
	}
	if p.Candidates == 0 {
		p.State = job.Completed
	}
	return p
}
