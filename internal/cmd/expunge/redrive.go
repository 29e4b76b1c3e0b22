package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/report"
)

// redriveCommands are those of redrive. Inspect is dlq under another name.
type redriveCommands struct {
	Inspect inspectCommand `cmd:"" help:"Show what lies dead; the same as dlq."`
	Plan    planCommand    `cmd:"" help:"Say which dead pages may move back, gate by gate. Moves nothing."`
	Apply   applyCommand   `cmd:"" help:"Move the pages of a plan, or go on with it."`
	Status  statusCommand  `cmd:"" help:"Say what became of a plan."`
	Auto    autoCommands   `cmd:"" help:"The scheduled redrive: whether it is on, on, off."`
}

// chosen are the flags that choose dead pages and letters.
type chosen struct {
	Tenant string `placeholder:"ID" help:"Only of this tenant."`
	Policy string `placeholder:"NAME" help:"Only of this policy."`
	Run    string `placeholder:"ID" help:"Only of this run."`
	Page   string `placeholder:"ID" help:"Only this page."`
	Death  string `placeholder:"REASON" help:"Only what died of this reason, such as forbidden or attempts_exhausted."`
}

func (c chosen) filter() redrive.Filter {
	return redrive.Filter{Tenant: c.Tenant, Policy: c.Policy, Run: job.RunID(c.Run), Page: job.PageID(c.Page), Death: job.Reason(c.Death)}
}

// inspectCommand shows what lies dead.
type inspectCommand struct {
	chosen
	Limit int `placeholder:"N" help:"The most pages, and the most letters, to show; 100 when not given."`
}

func (c *inspectCommand) exits() exits {
	return exits{Done: "nothing lies dead", Wrong: "something lies dead, or it could not be asked: the reason is on stderr"}
}

// inspected is the answer.
type inspected struct {
	Head
	Inspection redrive.Inspection `json:"inspection"`
}

func (c *inspectCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	a := &inspected{}
	if err := r.ask(ctx, r.outputs.Redrive, redrive.InspectRequest{Op: redrive.OpInspect, Filter: c.filter(), Limit: c.Limit}, &a.Inspection); err != nil {
		return err
	}
	for i, p := range a.Inspection.Pages {
		if i < shownDead {
			a.Next = append(a.Next, d.command("explain", string(p.Page)))
		}
	}
	if len(a.Inspection.Pages) > 0 {
		a.Next = append(a.Next, d.command("redrive", "plan"))
	}
	for i, l := range a.Inspection.Letters {
		if i < shownDead {
			a.Next = append(a.Next, d.command("explain", l.MessageID))
		}
	}
	if err := d.show(a); err != nil {
		return err
	}
	if len(a.Inspection.Pages)+len(a.Inspection.Letters) > 0 {
		return wrong("something lies dead")
	}
	return nil
}

// planCommand asks which dead pages may move.
type planCommand struct {
	chosen
	Limit    int    `placeholder:"N" help:"The most pages that the plan moves; 1000 when not given."`
	Override string `placeholder:"WHY" help:"Pass over the gates that allow it, for this reason, in 5 to 200 characters. It is recorded with the plan."`
}

func (c *planCommand) exits() exits {
	return exits{
		Done:  "there is a plan that moves something, or nothing is dead",
		Wrong: "something is dead and none of it may move, or it was refused: the reason is on stderr",
	}
}

// planned is the answer.
type planned struct {
	Head
	Plan redrive.Plan `json:"plan"`
}

func (c *planCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	a := &planned{}
	request := redrive.PlanRequest{Op: redrive.OpPlan, Filter: c.filter(), Limit: c.Limit, Override: c.Override}
	if err := r.ask(ctx, r.outputs.Redrive, request, &a.Plan); err != nil {
		return err
	}
	if a.Plan.Token != "" {
		a.Next = append(a.Next, d.command("redrive", "apply", a.Plan.Token, "--reason="+blank))
	}
	for i, v := range a.Plan.Verdicts {
		if i < shownDead {
			a.Next = append(a.Next, d.command("explain", string(v.Page)))
		}
	}
	if err := d.show(a); err != nil {
		return err
	}
	if a.Plan.Moves == 0 && len(a.Plan.Verdicts) > 0 {
		return wrong("no dead page may move: each has a gate that is closed")
	}
	return nil
}

// applyCommand moves the pages of a plan.
type applyCommand struct {
	Token string `arg:"" help:"The token that the plan gave out: region/32 hex digits."`
	reason
	Max  int `placeholder:"N" help:"The most pages that one call moves; 100 when not given. Calls are made until nothing remains."`
	Rate int `placeholder:"N" help:"The most pages in a second; 10 when not given."`
}

func (c *applyCommand) exits() exits {
	return exits{
		Done:  "every page of the plan is moved",
		Wrong: "it was refused, or a page was left where it is because a gate has closed: the reason is on stderr",
		Waits: "pages remain that could not be moved yet; reconcile goes on with them",
	}
}

// applied is the answer: of the last call, with what all calls have moved.
type applied struct {
	Head
	Moved   int             `json:"moved"` // by the plan, in all calls
	Calls   int             `json:"calls"`
	Applied redrive.Applied `json:"applied"`
}

const (
	// idleCalls is how many calls in a row may move nothing before the tool leaves the
	// rest to reconcile, idleWait how long it waits between them.
	idleCalls = 3
	idleWait  = 5 * time.Second
)

func (c *applyCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	signature, err := c.sign(ctx, r)
	if err != nil {
		return err
	}
	a := &applied{}
	if err := c.all(ctx, d, r, signature, a); err != nil {
		return err
	}
	id := string(a.Applied.RedriveID)
	a.Next = append(a.Next, d.command("redrive", "status", id, "--wait"))
	if a.Applied.Remaining > 0 {
		a.Next = append(a.Next, d.command("redrive", "apply", c.Token, "--reason="+c.Reason))
	}
	for i, l := range a.Applied.Left {
		if i < shownDead {
			a.Next = append(a.Next, d.command("explain", string(l.Page)))
		}
	}
	if err := d.show(a); err != nil {
		return err
	}
	switch {
	case a.Applied.Remaining > 0:
		return waits(strconv.Itoa(a.Applied.Remaining) + " pages remain")
	case len(a.Applied.Left) > 0:
		return wrong(strconv.Itoa(len(a.Applied.Left)) + " pages were left where they are: a gate has closed since the plan")
	}
	return nil
}

// all calls until nothing remains, or nothing moves any more.
func (c *applyCommand) all(ctx context.Context, d *desk, r *deployment, s audit.Signature, a *applied) error {
	request := redrive.ApplyRequest{Op: redrive.OpApply, Token: c.Token, Signature: s, Max: c.Max, Rate: c.Rate}
	for idle := 0; ; {
		var did redrive.Applied
		if err := r.ask(ctx, r.outputs.Redrive, request, &did); err != nil {
			return err
		}
		a.Calls, a.Applied, a.Moved = a.Calls+1, did, did.Before+did.Moved
		fmt.Fprintf(d.Err, "moved %d, %d remain\n", a.Moved, did.Remaining)
		if did.Remaining == 0 {
			return nil
		}
		if idle++; did.Moved > 0 {
			idle = 0
		}
		if idle == idleCalls {
			return nil
		}
		if idle > 0 {
			if err := d.Clock.Sleep(ctx, idleWait); err != nil {
				return err
			}
		}
	}
}

// statusCommand says what became of a plan.
type statusCommand struct {
	Plan    string        `arg:"" help:"The plan's token, or its id: 32 hex digits."`
	Wait    bool          `help:"Wait until every moved page has ended."`
	Every   time.Duration `default:"15s" help:"How often to look while waiting."`
	Timeout time.Duration `default:"30m" help:"How long to wait at most."`
}

func (c *statusCommand) exits() exits {
	return exits{
		Done:  "closed: every page of the plan has succeeded",
		Wrong: "nobody has applied the plan, or it is closed and a page died again or was left",
		Waits: "not closed yet",
	}
}

// statusOf is the answer.
type statusOf struct {
	Head
	Status redrive.Status `json:"status"`
}

func (c *statusCommand) run(ctx context.Context, d *desk) error {
	if c.Every < time.Second || c.Timeout < 0 {
		return usage("--every is at least 1s and --timeout not negative", "expunge redrive status --help")
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	request := redrive.StatusRequest{Op: redrive.OpStatus, Token: c.Plan}
	if hexID.MatchString(c.Plan) {
		request = redrive.StatusRequest{Op: redrive.OpStatus, ID: job.RedriveID(c.Plan)}
	}
	a := &statusOf{}
	for end := d.Clock.Now().Add(c.Timeout); ; {
		a.Status = redrive.Status{}
		if err := r.ask(ctx, r.outputs.Redrive, request, &a.Status); err != nil {
			return err
		}
		underWay := !a.Status.AppliedAt.IsZero() && a.Status.ClosedAt.IsZero()
		if !c.Wait || !underWay || !d.Clock.Now().Before(end) {
			break
		}
		fmt.Fprintf(d.Err, "%s: %d of %d ended\n", a.Status.State, a.Status.Succeeded+a.Status.DeadAgain, a.Status.Moved)
		if err := d.Clock.Sleep(ctx, min(c.Every, end.Sub(d.Clock.Now()))); err != nil {
			return err
		}
	}
	return c.end(d, a)
}

// end shows the status and says whether it is a good one.
func (c *statusCommand) end(d *desk, a *statusOf) error {
	s := a.Status
	switch {
	case s.AppliedAt.IsZero():
		a.Next = append(a.Next, d.command("redrive", "plan"))
	case s.ClosedAt.IsZero():
		a.Next = append(a.Next, d.command("redrive", "status", string(s.RedriveID), "--wait"))
	case s.DeadAgain+s.Left > 0:
		a.Next = append(a.Next, d.command("dlq"), d.command("redrive", "plan"))
	}
	if err := d.show(a); err != nil {
		return err
	}
	switch {
	case s.AppliedAt.IsZero():
		return wrong("nobody has applied this plan: it is " + s.State)
	case s.ClosedAt.IsZero():
		return waits("not every moved page has ended")
	case s.DeadAgain+s.Left > 0:
		return wrong(report.Count(s.DeadAgain, "page") + " died again, " + strconv.Itoa(s.Left) + " left")
	}
	return nil
}
