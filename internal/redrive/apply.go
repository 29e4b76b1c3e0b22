package redrive

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const opApply = "apply redrive"

// apply moves the pages of a plan, or goes on with it.
func (r *Redriver) apply(ctx context.Context, deadline time.Time, q ApplyRequest) (Applied, error) {
	if err := q.Signature.Check(opApply); err != nil {
		return Applied{}, err
	}
	m := &move{Redriver: r, deadline: deadline}
	var err error
	if m.most, err = within(opApply, "max", q.Max, r.Settings.RedriveBatch, r.Settings.RedriveBatch); err != nil {
		return Applied{}, err
	}
	if m.rate, err = within(opApply, "rate", q.Rate, r.Settings.RedriveRate, r.Settings.RedriveRate); err != nil {
		return Applied{}, err
	}
	id, err := r.idOf(q.Token)
	if err != nil {
		return Applied{}, err
	}
	if m.plan, m.pages, err = r.bound(ctx, opApply, id); err != nil {
		return Applied{}, err
	}
	if m.plan, err = r.begin(ctx, q.Signature, m.plan); err != nil {
		return Applied{}, err
	}
	return m.all(ctx)
}

// Resume goes on with a plan that was applied. It needs no signature: that was given
// with the plan's token, and stands in the plan.
func (r *Redriver) Resume(ctx context.Context, deadline time.Time, id job.RedriveID) (Applied, error) {
	plan, pages, err := r.bound(ctx, "resume redrive", id)
	if err != nil {
		return Applied{}, err
	}
	if plan.AppliedAt.IsZero() {
		return Applied{}, failure.New(failure.Conflict, "resume redrive "+string(id), "nobody has applied this plan: apply its token with a reason")
	}
	m := &move{Redriver: r, deadline: deadline, plan: plan, pages: pages, most: r.Settings.RedriveBatch, rate: r.Settings.RedriveRate}
	return m.all(ctx)
}

func (r *Redriver) resume(ctx context.Context, deadline time.Time, q ResumeRequest) (Applied, error) {
	if !isID(string(q.ID)) {
		return Applied{}, failure.New(failure.Invalid, "resume redrive", "redrive_id is missing or not of its form: 32 hex digits")
	}
	return r.Resume(ctx, deadline, q.ID)
}

// idOf reads a token. That of another region is refused before anything is read.
func (r *Redriver) idOf(token string) (job.RedriveID, error) {
	region, id, err := job.ParseToken(token)
	if err == nil && region != r.Region {
		err = failure.New(failure.Invalid, "read token", "the plan belongs to another region: apply it there; nothing moves across regions")
	}
	return id, err
}

// bound reads a plan and holds it to its own id, so that nothing that was altered
// since is moved.
func (r *Redriver) bound(ctx context.Context, op string, id job.RedriveID) (job.Redrive, []job.RedrivePage, error) {
	op += " " + string(id)
	plan, err := r.Plans.Redrive(ctx, id)
	if failure.Is(err, failure.Absent) {
		return plan, nil, failure.New(failure.Absent, op, "no such plan in this region: make a new one and look at it")
	}
	if err != nil {
		return plan, nil, err
	}
	pages, err := r.Plans.RedrivePages(ctx, id)
	if err != nil {
		return plan, nil, err
	}
	if plan.ID != id || plan.Region != r.Region || !plan.Binds(pages) {
		return plan, nil, failure.New(failure.Conflict, op, "the recorded plan is not the one that the token stands for: make a new one and look at it")
	}
	return plan, pages, nil
}

// begin records the operator's word: as an entry, and then in the plan. A plan that
// was applied before is merely gone on with, expired or not.
func (r *Redriver) begin(ctx context.Context, s audit.Signature, plan job.Redrive) (job.Redrive, error) {
	if !plan.AppliedAt.IsZero() {
		return plan, nil
	}
	op := opApply + " " + string(plan.ID)
	if _, err := plan.Apply(r.now(), s.By, s.Reason); err != nil {
		return plan, err // expired: refused before anything is written
	}
	if other, err := r.running(ctx, plan.ID); err != nil || other != "" {
		if err == nil {
			err = failure.New(failure.Conflict, op, "already-running: the redrive "+string(other)+" is still moving pages; wait until its status is moved, or apply its token again")
		}
		return plan, err
	}
	if err := r.order(ctx, s, audit.Entry{Act: audit.RedriveApplied, RedriveID: plan.ID, Override: plan.Override, Count: plan.Pages}); err != nil {
		return plan, err
	}
	next, err := plan.Apply(r.now(), s.By, s.Reason)
	if err != nil {
		return plan, err
	}
	if err := r.Plans.SwapRedrive(ctx, next); err != nil {
		stored, rerr := r.Plans.Redrive(ctx, plan.ID)
		if rerr != nil || stored.AppliedAt.IsZero() {
			return plan, err
		}
		return stored, nil // the answer was lost, or somebody else was first: it is applied
	}
	return next, nil
}

// running returns another plan that is still moving, "" when there is none (RD-07).
// Two that are applied within the time by which the index is behind move both: a
// page goes with one of them all the same. A plan that has stalled holds up no other.
func (r *Redriver) running(ctx context.Context, but job.RedriveID) (job.RedriveID, error) {
	open, err := r.Schedule.OpenRedrives(ctx)
	for _, o := range open {
		if o.ID != but && o.MovedAt.IsZero() && r.now().Sub(o.AppliedAt) < r.patience() {
			return o.ID, err
		}
	}
	return "", err
}

// patience is twice what the largest plan takes when reconcile alone goes on with it.
func (r *Redriver) patience() time.Duration {
	calls := (r.Settings.RedrivePlan + r.Settings.RedriveBatch - 1) / r.Settings.RedriveBatch
	return 2 * time.Duration(calls) * r.Settings.ReconcileEvery
}

// move is one call that moves pages of an applied plan.
type move struct {
	*Redriver
	deadline   time.Time
	plan       job.Redrive
	pages      []job.RedrivePage
	most, rate int
	did        Applied
	// last is when a call before this one moved a page.
	last time.Time
}

// all moves as much as the call may, and then looks for stale copies.
func (m *move) all(ctx context.Context) (Applied, error) {
	m.did = Applied{RedriveID: m.plan.ID, Left: []Left{}, Stuck: []Stuck{}}
	if !m.plan.MovedAt.IsZero() {
		m.did.Done, m.did.Next = true, "The plan was moved before. Ask for its status."
		return m.did, nil
	}
	rest := m.pages
	for len(rest) > 0 && m.did.Moved < m.most && !m.late(m.deadline) && ctx.Err() == nil {
		rest = m.round(ctx, rest)
	}
	m.did.Remaining += len(rest)
	if m.did.Remaining == 0 {
		var clean, cut bool
		began := m.now()
		m.did.Swept, clean, cut = m.sweep(ctx, m.deadline)
		// A call that moves nothing has all its time for the sweep, and no other has more:
		// unless something held it up before.
		hurried := cut && (m.did.Moved > 0 || m.deadline.Sub(began) < 2*m.Settings.TakeMargin)
		m.did.Done = clean && !hurried && !m.held() && m.finish(ctx)
	}
	switch {
	case m.did.Done && len(m.did.Left) > 0:
		m.did.Next = "Left for a reason: " + pagesOf(len(m.did.Left)) + ". The rest is moved. Ask for the status until it is closed."
	case m.did.Done:
		m.did.Next = "Everything is moved. Ask for the status until it is closed."
	case m.did.Remaining == 0 && m.held():
		m.did.Next = "Every page is moved or left. A call that ended early may hold letters until " + at(m.heldUntil()) + ". Reconcile ends the plan after that."
	case m.did.Remaining == 0:
		m.did.Next = "Every page is moved or left; stale copies are still to be dropped. Apply the token again, or leave it to reconcile."
	default:
		m.did.Next = "Still to move: " + pagesOf(m.did.Remaining) + ". Apply the token again, or leave it to reconcile."
	}
	return m.did, nil
}

// held reports whether a call that moved the pages before this one may have died
// while it swept: what it held in hand then shows again by itself, and only after
// that is a sweep that finds nothing a proof.
func (m *move) held() bool { return m.did.Moved == 0 && m.now().Before(m.heldUntil()) }

func (m *move) heldUntil() time.Time {
	if m.last.IsZero() {
		return m.last
	}
	return m.last.Add(m.Settings.FunctionTimeout + m.Settings.Visibility())
}

// round moves as many pages as a second allows, and lets the second pass. It returns
// the pages that it did not get to.
func (m *move) round(ctx context.Context, rest []job.RedrivePage) []job.RedrivePage {
	l := m.look()
	room := min(m.rate, m.most-m.did.Moved)
	var batch []moved
	for len(rest) > 0 && len(batch) < room && !m.late(m.deadline) {
		if page, ok := m.page(ctx, l, rest[0]); ok {
			batch = append(batch, page)
		}
		rest = rest[1:]
	}
	if len(batch) > 0 {
		m.send(ctx, batch)
		_ = m.Clock.Sleep(ctx, time.Second) // the rate is one of seconds; when ctx ends, so does the call
	}
	return rest
}

// moved is a page whose row has moved and whose message is to be sent.
type moved struct {
	run  job.Run
	page job.Page
}

// override is the plan's, as long as a plan may be under way. After that a gate may have
// closed for what nobody knew of who gave it (S14); the page is left, and planned anew.
func (m *move) override() string {
	if m.now().Sub(m.plan.AppliedAt) >= m.patience() {
		return ""
	}
	return m.plan.Override
}

// moveTries is how often a page is read again after a write that failed: the answer
// may hide a success, and a rival moves a row once.
const moveTries = 3

// page moves one row, if every gate is still open. Our plan in the row says that it
// has moved, whatever an answer said.
func (m *move) page(ctx context.Context, l *look, p job.RedrivePage) (moved, bool) {
	var last error
	for range moveTries {
		f := facts{look: l, planned: p, plannedAt: m.plan.PlannedAt, override: m.override()}
		var err error
		f.page, err = m.Pages.Page(ctx, p.Run, p.Tenant, p.ID)
		mine := err == nil && f.page.RedriveID == m.plan.ID
		if mine && !owed(f.page) {
			m.did.Before++
			if f.page.RestartedAt.After(m.last) {
				m.last = f.page.RestartedAt
			}
			return moved{}, false
		}
		if err == nil {
			err = f.read(ctx)
		}
		switch {
		case failure.Is(err, failure.Absent):
			m.left(job.Run{Region: m.Region, ID: p.Run}, job.Page{Run: p.Run, Tenant: p.Tenant, ID: p.ID},
				[]Gate{shut(GateKey, "The page is not on record any more. Find out who has changed this ledger.")})
			return moved{}, false
		case err != nil:
			return moved{}, m.stuck(p, err)
		case mine:
			return moved{f.run, f.page}, true
		}
		if shut := closed(f.judge()); len(shut) > 0 {
			m.left(f.run, f.page, shut)
			return moved{}, false
		}
		// It is due at once: should this process end here, reconcile sends it.
		now := m.now()
		next, err := f.page.Redrive(m.plan.ID, now, now)
		if err == nil {
			err = m.Pages.SwapPage(ctx, next)
		}
		if err == nil {
			return moved{f.run, next}, true
		}
		last = err
	}
	return moved{}, m.stuck(p, last)
}

func (m *move) left(run job.Run, page job.Page, shut []Gate) {
	m.did.Left = append(m.did.Left, Left{PageRef: refOf(page), Gates: shut})
	m.leave(run, page, shut)
}

// stuck notes a page that is to be tried again. It returns false, for its callers.
func (m *move) stuck(p job.RedrivePage, err error) bool {
	m.did.Remaining++
	m.did.Stuck = append(m.did.Stuck, Stuck{PageRef{p.Run, p.Tenant, p.ID}, failure.Of(err), failure.Op(err)})
	return false
}

// send sends each page's command to the queue of its run's mode, and no other
// (RD-06). What the queue has not taken is owed, and remains.
func (m *move) send(ctx context.Context, batch []moved) {
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		of := map[string]moved{}
		var messages []job.Message
		for _, b := range batch {
			if b.run.Mode == mode {
				message := job.NewMessage(b.run, b.page)
				of[message.ID] = b
				messages = append(messages, message)
			}
		}
		if len(messages) == 0 {
			continue
		}
		accepted, err := m.Sender.Send(ctx, mode, messages)
		for _, id := range accepted {
			b := of[id]
			delete(of, id)
			m.sent(ctx, b.page)
			m.did.Moved++
			m.emit(audit.Event{Event: audit.Redriven, Reason: b.page.Death.Reason, RedriveID: m.plan.ID, Count: b.page.Candidates}.About(b.run, b.page))
		}
		for _, message := range messages {
			if b, refused := of[message.ID]; refused {
				if err == nil {
					err = failure.New(failure.Throttled, "send messages", "the queue did not take this one")
				}
				m.stuck(job.RedrivePage{Run: b.page.Run, Tenant: b.page.Tenant, ID: b.page.ID}, err)
			}
		}
	}
}

// sent notes that a page's message was accepted. When the note fails, a worker was
// faster, or the message is sent once more: neither does harm.
func (r *Redriver) sent(ctx context.Context, page job.Page) {
	if next, err := page.Send(r.now().Add(r.Settings.Overdue())); err == nil {
		_ = r.Pages.SwapPage(ctx, next)
	}
}

// finish records that nothing of the plan is left to be moved.
func (m *move) finish(ctx context.Context) bool {
	if m.Plans.SwapRedrive(ctx, m.plan.Moves(m.now())) == nil {
		return true
	}
	stored, err := m.Plans.Redrive(ctx, m.plan.ID)
	return err == nil && !stored.MovedAt.IsZero()
}
