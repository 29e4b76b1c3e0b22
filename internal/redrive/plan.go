package redrive

import (
	"context"
	"fmt"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const (
	opInspect = "inspect dead letters"
	opPlan    = "plan redrive"
)

// inspectLimit is how many pages and letters an inspection shows without a limit.
const inspectLimit = 100

// walkBatch is how many dead pages are read at a time.
const walkBatch = 100

// walk hands over each dead page that the filter chooses, as its row says, until
// take says that it has enough or time is over. more says that there are others. The
// index is a hint; the row is read again. What the filter does not choose takes time
// too.
func (l *look) walk(ctx context.Context, deadline time.Time, f Filter, take func(job.Run, job.Page) (enough bool, err error)) (more bool, err error) {
	var last *job.Page
	for {
		hints, err := l.Pages.DeadPages(ctx, last, walkBatch)
		if err != nil || len(hints) == 0 {
			return false, err
		}
		for _, hint := range hints {
			if l.late(deadline) {
				return true, nil
			}
			run, page, ok, err := l.choose(ctx, f, hint)
			if err != nil {
				return false, err
			}
			if !ok {
				continue
			}
			if enough, err := take(run, page); enough || err != nil {
				return true, err
			}
		}
		last = &hints[len(hints)-1]
	}
}

// choose reads a hinted page and reports whether it is dead and the filter's. A hint
// that rules it out is believed: a page that has died anew meanwhile is found next
// time, and there may be more of the others than can be read.
func (l *look) choose(ctx context.Context, f Filter, hint job.Page) (run job.Run, page job.Page, ok bool, err error) {
	if f.Tenant != "" && f.Tenant != hint.Tenant || f.Run != "" && f.Run != hint.Run || f.Page != "" && f.Page != hint.ID ||
		f.Death != "" && f.Death != hint.Death.Reason {
		return run, page, false, nil
	}
	if run, err = l.run(ctx, hint.Run); err != nil && !failure.Is(err, failure.Absent) {
		return run, page, false, err
	}
	if f.Policy != "" && f.Policy != run.Policy {
		return run, page, false, nil
	}
	page, err = l.Pages.Page(ctx, hint.Run, hint.Tenant, hint.ID)
	if failure.Is(err, failure.Absent) {
		return run, page, false, nil
	}
	return run, page, err == nil && page.State == job.Dead && (f.Death == "" || f.Death == page.Death.Reason), err
}

// inspect shows what lies dead.
func (r *Redriver) inspect(ctx context.Context, deadline time.Time, q InspectRequest) (a Inspection, err error) {
	limit, err := within(opInspect, "limit", q.Limit, min(inspectLimit, r.Settings.RedrivePlan), r.Settings.RedrivePlan)
	if err == nil {
		err = q.check(opInspect)
	}
	if err != nil {
		return a, err
	}
	letters, more, err := r.peek(ctx, deadline)
	if err != nil {
		return a, err
	}
	l, by := r.look(), copies(letters)
	a = Inspection{Region: r.Region, At: l.now, Pages: []DeadPage{}, Letters: []Letter{}, MoreLetters: more}
	a.MorePages, err = l.walk(ctx, deadline, q.Filter, func(run job.Run, page job.Page) (bool, error) {
		if len(a.Pages) == limit {
			return true, nil
		}
		a.Pages = append(a.Pages, l.pageOf(run, page, by[page.ID]))
		return false, nil
	})
	if err != nil {
		return a, err
	}
	for _, d := range letters {
		if len(a.Letters) == limit || r.late(deadline) {
			a.MoreLetters = true
			break
		}
		s, err := l.standing(ctx, d)
		if err != nil {
			return a, err
		}
		if letter := l.letterOf(d, s); s != OfDeadPage && q.matches(letter) {
			a.Letters = append(a.Letters, letter)
		}
	}
	return a, nil
}

// plan looks at every gate of the chosen pages. It moves nothing, hides nothing, and
// writes one thing: the plan, when it would move something.
func (r *Redriver) plan(ctx context.Context, deadline time.Time, q PlanRequest) (a Plan, err error) {
	limit, err := within(opPlan, "limit", q.Limit, r.Settings.RedrivePlan, r.Settings.RedrivePlan)
	if err == nil {
		err = q.check(opPlan)
	}
	if err == nil {
		err = checkOverride(opPlan, q.Override)
	}
	if err != nil {
		return a, err
	}
	letters, _, err := r.peek(ctx, deadline)
	if err != nil {
		return a, err
	}
	l, by := r.look(), copies(letters)
	a = Plan{Region: r.Region, PlannedAt: l.now, Override: q.Override, Verdicts: []Verdict{}}
	var moves []job.RedrivePage
	untold := false
	a.More, err = l.walk(ctx, deadline, q.Filter, func(run job.Run, page job.Page) (bool, error) {
		if len(moves) == limit {
			return true, nil
		}
		f := facts{look: l, page: page, copies: by[page.ID], override: q.Override}
		if err := f.read(ctx); err != nil {
			return false, err
		}
		gates := f.judge()
		shut := closed(gates)
		switch {
		case len(shut) == 0:
			moves = append(moves, f.moves())
		case len(a.Verdicts)-len(moves) == r.Settings.RedrivePlan/2:
			untold = true // those behind it may move all the same
			return false, nil
		default:
			r.leave(run, page, shut)
		}
		a.Verdicts = append(a.Verdicts, Verdict{DeadPage: l.pageOf(run, page, by[page.ID]), Moves: len(shut) == 0, Gates: gates})
		return false, nil
	})
	if err != nil {
		return a, err
	}
	a.More = a.More || untold
	if a.Moves = len(moves); a.Moves == 0 {
		a.Next = "Nothing would move. Each closed gate says what to do next."
		return a, nil
	}
	return r.record(ctx, a, moves)
}

// record makes the plan durable, so that its token can be applied.
func (r *Redriver) record(ctx context.Context, a Plan, moves []job.RedrivePage) (Plan, error) {
	plan := job.NewRedrive(r.Region, a.PlannedAt, a.PlannedAt.Add(r.Settings.RedriveLife), a.Override, moves)
	if err := r.Plans.PutRedrive(ctx, plan, moves); err != nil {
		return Plan{}, err
	}
	a.RedriveID, a.Token, a.ExpiresAt = plan.ID, plan.Token(), plan.ExpiresAt
	a.Next = fmt.Sprintf("Apply the token with a reason before %s. It moves the %s whose gates are all open, and nothing else.", at(a.ExpiresAt), pagesOf(a.Moves))
	return a, nil
}

// leave tells that gates keep a page where it is (RD-09).
func (r *Redriver) leave(run job.Run, page job.Page, shut []Gate) {
	r.emit(audit.Event{Event: audit.RedriveLeft, Reason: page.Death.Reason, FailureClass: page.LastClass, Operation: namesOf(shut)}.About(run, page))
}
