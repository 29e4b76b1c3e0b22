package reconcile

import (
	"context"
	"maps"
	"slices"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

const (
	// maxDates is how many dates a pass looks at: a month and more of a daily policy.
	// What is left over is the next pass's.
	maxDates = 40
	// maxLag is the greatest lag that is counted; more says nothing new.
	maxLag = 100
)

// watchAll looks at the schedules of the deployed policies. It returns the largest of
// their lags. whole says that the lag of each is known.
func (p *pass) watchAll(ctx context.Context) (most int, whole bool) {
	whole = true
	for _, name := range slices.Sorted(maps.Keys(p.Deployed)) {
		if p.late() {
			return most, false
		}
		lag, err := p.watch(ctx, p.Deployed[name])
		p.note(err)
		most, whole = max(most, lag), whole && err == nil
	}
	return most, whole
}

// measureLag publishes the region's lag, 0 included: that it stays away is an alarm. A
// pass that does not know the lag of every policy must not say 0.
func (p *pass) measureLag(lag int, whole bool) {
	if whole || lag > 0 {
		p.publish(contract.BusinessDateLag, "", float64(lag))
	}
}

// watch looks at the dates of a policy that nobody has looked at, and returns its lag.
// A policy that is seen for the first time has no past.
func (p *pass) watch(ctx context.Context, of policy.Policy) (lag int, err error) {
	w, err := p.Watches.Watch(ctx, of.Name)
	if err != nil {
		return 0, err
	}
	if w.Rev == 0 {
		now := p.now()
		w = job.Watch{Policy: of.Name, Rev: 1, Since: now, Through: now}
		// Its first date may never come, and then nobody else would make the policy known.
		if err := p.Watches.PublishPolicy(ctx, of); err != nil && !failure.Is(err, failure.Invalid) { // enqueue says so, at every tick
			return 0, err
		}
		// A lag since an instant that is on record nowhere would be 0 in every pass.
		if err := ignoreConflict(p.Watches.SwapWatch(ctx, w)); err != nil {
			return 0, err
		}
	} else {
		p.note(p.look(ctx, of, w))
	}
	return p.lag(ctx, of, w)
}

// look says which dates since the last look have no run, and starts the newest of
// them where the policy asks for it: its run takes what the others left. A date is
// in the watch only once that is done, so whoever dies in between leaves dates that
// are said again, and a start that finds its run begun.
func (p *pass) look(ctx context.Context, of policy.Policy, w job.Watch) error {
	through := p.now().Add(-p.Settings.MissedAfter)
	dates := of.Schedule.Dates(w.Through, through, p.dates+1)
	all := len(dates) <= p.dates
	if !all {
		dates = dates[:p.dates]
	}
	// With no date to speak of, the watch moves on seldom: often enough that the
	// dates of a new schedule do not begin long before it was deployed.
	if len(dates) == 0 && (!all || through.Sub(w.Through) < p.Settings.MissedAfter) {
		return nil
	}
	if !all {
		through = dates[len(dates)-1].At
	}
	p.dates -= len(dates)
	missed, err := p.missed(ctx, of, dates)
	if err != nil {
		return err
	}
	p.measure(contract.MissedDates, of.Name, float64(len(missed)))
	for _, d := range missed {
		p.did.Missed++
		p.emit(audit.Event{
			Event: audit.DateMissed, Region: p.Region, RunID: p.runAt(of, d), Policy: of.Name, Version: of.Version, Scheduled: d.At,
		})
	}
	if of.Schedule.CatchUp && all && len(missed) > 0 {
		if err := p.Scans.Start(ctx, p.deadline, of.Name, missed[len(missed)-1].At); err != nil {
			return err
		}
		p.did.Started++
	}
	w.Through, w.Missed = through, w.Missed+len(missed)
	w.Rev++
	return ignoreConflict(p.Watches.SwapWatch(ctx, w))
}

// missed returns the dates that have no run in any state, by consistent reads.
func (p *pass) missed(ctx context.Context, of policy.Policy, dates []policy.Date) (missed []policy.Date, err error) {
	for _, d := range dates {
		_, err := p.Runs.Run(ctx, p.runAt(of, d))
		if failure.Is(err, failure.Absent) {
			missed = append(missed, d)
		} else if err != nil {
			return nil, err
		}
	}
	return missed, nil
}

func (p *pass) runAt(of policy.Policy, d policy.Date) job.RunID {
	return job.ScheduledRunID(p.Region, of.Name, d.At)
}

// lag measures how many dates should have been closed by now and are not: those
// after the newest closed run, or after the first look where none was ever closed.
// A date that a clock change skipped is one of them (HP-10).
func (p *pass) lag(ctx context.Context, of policy.Policy, w job.Watch) (int, error) {
	closed, err := p.Runs.ClosedRuns(ctx, of.Name, 1)
	if err != nil {
		return 0, err
	}
	after := w.Since
	if len(closed) > 0 {
		after = closed[0].Scheduled
	}
	due := of.Schedule.Dates(after, p.now().Add(-of.Objective), maxLag)
	p.measure(contract.BusinessDateLag, of.Name, float64(len(due)))
	return len(due), nil
}
