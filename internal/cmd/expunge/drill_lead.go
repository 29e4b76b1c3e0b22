package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/report"
)

// errNotYet says that something else has to happen first.
var errNotYet = errors.New("not yet")

// lead goes on from where the page stands until the drill is judged, or nothing can be
// done but wait and nobody waits.
func (l *drilling) lead(ctx context.Context) error {
	if l.GiveUp {
		return l.finish(ctx)
	}
	last := ""
	for end := l.d.Clock.Now().Add(l.Timeout); ; {
		page, err := l.r.records.Page(ctx, l.page.Run, l.page.Tenant, l.page.ID)
		if err != nil {
			return err
		}
		l.page = page
		text, err := l.next(ctx)
		if !errors.Is(err, errNotYet) {
			return err
		}
		if text != last {
			l.step(text)
			last = text
		}
		if !l.Wait || !l.d.Clock.Now().Before(end) {
			return waits("the drill is not finished: "+text, l.again("--wait")...)
		}
		if err := l.d.Clock.Sleep(ctx, min(l.Every, end.Sub(l.d.Clock.Now()))); err != nil {
			return err
		}
	}
}

// again are the commands that go on with the drill.
func (l *drilling) again(more ...string) []string {
	if l.a.PageID == "" {
		return nil
	}
	words := []string{"drill", "--tenant=" + l.Tenant, "--policy=" + l.p.Name, "--resume=" + l.a.RequestID, "--reason=" + l.Reason}
	return []string{l.d.command(append(words, more...)...), l.d.command(append(words, "--give-up")...)}
}

// next does what the page's state asks for. errNotYet comes with what is waited for.
func (l *drilling) next(ctx context.Context) (string, error) {
	p := l.page
	switch {
	case p.State == job.Dead && p.RedriveID != "":
		return "", wrong("the page died again after its redrive, of "+string(p.Death.Reason), append(l.again(), l.d.command("explain", string(p.ID)))...)
	case p.State == job.Dead && p.Death.LetterAt.IsZero():
		return "Reconcile has not laid the page's dead letter yet.", errNotYet
	case p.State == job.Dead:
		return l.redrive(ctx)
	case !p.State.Terminal():
		return "The page is " + words(string(p.State)) + ": a worker has to take it up.", errNotYet
	}
	err := l.finish(ctx)
	if failure.Is(err, failure.Conflict) || failure.Is(err, failure.Throttled) {
		return "The malformed message has not come to lie among the dead letters yet.", errNotYet
	}
	return "", err
}

// redrive plans and applies, once every gate is open. The malformed message may not be
// in the plan.
func (l *drilling) redrive(ctx context.Context) (string, error) {
	var plan redrive.Plan
	filter := redrive.Filter{Run: l.page.Run, Tenant: l.page.Tenant, Page: l.page.ID}
	if err := l.r.ask(ctx, l.r.outputs.Redrive, redrive.PlanRequest{Op: redrive.OpPlan, Filter: filter}, &plan); err != nil {
		return "", err
	}
	i := slices.IndexFunc(plan.Verdicts, func(v redrive.Verdict) bool { return v.Page == l.page.ID })
	if i < 0 {
		return "The page is not seen among the dead yet.", errNotYet
	}
	var opens time.Time
	for _, g := range plan.Verdicts[i].Gates {
		switch {
		case g.Open:
		case g.OpenFrom.IsZero():
			return "", wrong("the gate "+string(g.Gate)+" keeps the page: "+g.Text, l.again()...)
		case g.OpenFrom.After(opens):
			opens = g.OpenFrom
		}
	}
	if !opens.IsZero() {
		return "The gate of age opens at " + instant(opens) + ".", errNotYet
	}
	if err := l.quarantined(ctx); err != nil {
		return "The malformed message has not come to lie among the dead letters yet.", err
	}
	l.step("The page lies among the dead, every gate is open, and the malformed message is quarantined: no plan takes it up.")
	var did redrive.Applied
	if err := l.r.ask(ctx, l.r.outputs.Redrive, redrive.ApplyRequest{Op: redrive.OpApply, Token: plan.Token, Signature: l.signature}, &did); err != nil {
		return "", err
	}
	l.step("The redrive " + string(did.RedriveID) + " is applied: " + strconv.Itoa(did.Moved+did.Before) + " moved.")
	return "The page is moved back: a worker has to take it up.", errNotYet
}

// quarantined reports whether the malformed message lies among the dead letters, and
// a plan over everything of its reason would move nothing.
func (l *drilling) quarantined(ctx context.Context) error {
	var seen redrive.Inspection
	if err := l.r.ask(ctx, l.r.outputs.Redrive, redrive.InspectRequest{Op: redrive.OpInspect, Filter: redrive.Filter{Death: job.ReasonMalformed}}, &seen); err != nil {
		return err
	}
	if !slices.ContainsFunc(seen.Letters, func(m redrive.Letter) bool {
		return m.SHA256 == redrive.PoisonSHA256(l.page.Run) && m.Standing == redrive.Quarantined
	}) {
		return errNotYet
	}
	var plan redrive.Plan
	if err := l.r.ask(ctx, l.r.outputs.Redrive, redrive.PlanRequest{Op: redrive.OpPlan, Filter: redrive.Filter{Death: job.ReasonMalformed}}, &plan); err != nil {
		return err
	}
	if plan.Moves > 0 {
		return wrong("a plan would move " + strconv.Itoa(plan.Moves) + " pages that died of a malformed message: the class gate is broken")
	}
	return nil
}

// finish has the drill judged.
func (l *drilling) finish(ctx context.Context) error {
	var done redrive.DrillFinished
	request := redrive.DrillFinishRequest{Op: redrive.OpFinish, PageRef: refOf(l.page), GiveUp: l.GiveUp, Signature: l.signature}
	if err := l.r.ask(ctx, l.r.outputs.Redrive, request, &done); err != nil {
		return err
	}
	l.a.Report, l.a.Evidence = &done.Report, done.Evidence
	if !done.Report.Passed {
		return wrong("the drill has failed")
	}
	return nil
}

// end shows what there is to show, and how it ended.
func (l *drilling) end(ctx context.Context, err error) error {
	if end, ok := errors.AsType[*ending](err); ok {
		l.a.Next = end.next
	} else if err != nil {
		l.a.Next = l.again("--wait") // interrupted, or a call failed: it goes on from the ledger
	}
	if l.a.RunID == "" && l.a.Expired == 0 && len(l.a.Steps) == 0 {
		return err // it has not begun
	}
	if l.a.Report != nil {
		l.a.Next = []string{l.d.command("verify", string(l.a.RunID)), l.d.command("explain", string(l.a.PageID))}
	}
	l.trail(context.WithoutCancel(ctx))
	if shown := l.d.show(l.a); shown != nil {
		return shown
	}
	return err
}

// trail reads the drill's orders. One that can not be read is not shown.
func (l *drilling) trail(ctx context.Context) {
	now := l.d.Clock.Now()
	entries, err := l.r.records.Entries(ctx, now.AddDate(0, 0, -30), now.Add(l.r.settings.ClockSkew), 10_000)
	if err != nil {
		return
	}
	message := ""
	if l.a.Report != nil {
		message = l.a.Report.MessageID
	}
	for _, e := range slices.Backward(entries) {
		ours := e.RunID == l.a.RunID && e.RunID != "" || e.RedriveID == l.page.RedriveID && e.RedriveID != "" ||
			e.MessageID == message && message != "" || e.Reason == brakeReason(l.a.RequestID)
		if ours {
			e.At = e.At.UTC()
			l.a.Trail = append(l.a.Trail, e)
		}
	}
}

func (a *drillAnswer) write(s *sheet) {
	s.facts(
		[2]string{"policy", a.Policy}, [2]string{"tenant", a.TenantID}, [2]string{"request", a.RequestID},
		[2]string{"run", string(a.RunID)}, [2]string{"page", string(a.PageID)},
	)
	if len(a.Steps) > 0 {
		s.heading("Steps")
		for _, step := range a.Steps {
			s.sentence("  ", instant(step.At)+"  "+step.Text)
		}
	}
	if len(a.Trail) > 0 {
		s.heading("Orders on record")
		t := newTable(left("at"), left("order"), wide("by", 80))
		for _, e := range a.Trail {
			t.Row(instant(e.At), words(string(e.Act)), report.Clean(e.By))
		}
		s.table(t)
	}
	if a.Report == nil {
		return
	}
	s.heading("What the drill has shown")
	t := newTable(left(""), left("check"), wide("found", 80))
	for _, c := range a.Report.Checks {
		t.Row(map[bool]string{true: "ok", false: "FAILED"}[c.OK], report.Clean(c.Name), report.Clean(c.Text))
	}
	s.table(t)
	s.line()
	if a.Report.Passed {
		s.line("The drill has passed. From the order to move the page back to its end it took ", plainSeconds(a.Report.RecoverySeconds), " s.")
	} else {
		s.alert(red, "The drill has failed.")
	}
	s.facts([2]string{"evidence", a.Evidence})
}
