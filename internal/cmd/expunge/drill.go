package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/report"
)

// drillCommand rehearses a recovery in a deployed region (R127). It leads the way; what
// was shown, the redrive function judges by what is on record.
type drillCommand struct {
	Tenant string `required:"" placeholder:"ID" help:"The test tenant. Its expired objects are deleted, as the policy's next run would."`
	Policy string `placeholder:"NAME" help:"The policy; not needed when one alone works for the tenant."`
	reason
	Wait    bool          `help:"Wait for reconcile, the gates and the workers, and lead the drill to its end: some 20 minutes."`
	Every   time.Duration `default:"15s" help:"How often to look while waiting."`
	Timeout time.Duration `default:"1h" help:"How long to wait at most."`
	Resume  string        `placeholder:"ID" help:"Go on with the drill of this request id."`
	GiveUp  bool          `help:"With --resume: record the drill as failed, however far it came."`
	Prepare bool          `help:"When the tenant has no expired object, put some with your own credentials, and say when they will have expired."`
	Objects int           `default:"5" help:"How many objects --prepare puts."`
}

func (c *drillCommand) exits() exits {
	return exits{
		Done:  "the drill has passed",
		Wrong: "it has failed, or was refused: the reason is on stderr",
		Waits: "it is not finished, or the objects for it have not expired yet",
	}
}

// drillAnswer is the answer.
type drillAnswer struct {
	Head
	Policy    string     `json:"policy"`
	TenantID  string     `json:"tenant_id"`
	RequestID string     `json:"request_id,omitzero"`
	RunID     job.RunID  `json:"run_id,omitzero"`
	PageID    job.PageID `json:"page_id,omitzero"`
	// Expired is how many objects of the tenant had expired when the drill began.
	Expired int `json:"expired"`
	// Steps are what this command has seen and done.
	Steps []drillStep `json:"steps"`
	// Trail are the orders of the whole drill, as the ledger has them, oldest first.
	Trail    []audit.Entry        `json:"trail"`
	Report   *redrive.DrillReport `json:"report,omitzero"`
	Evidence string               `json:"evidence,omitzero"`
}

type drillStep struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// drilling is a drill while it is led.
type drilling struct {
	*drillCommand
	d         *desk
	r         *deployment
	p         policy.Policy
	signature audit.Signature
	a         *drillAnswer
	page      job.Page
}

func (c *drillCommand) run(ctx context.Context, d *desk) error {
	switch {
	case c.Every < time.Second || c.Timeout < 0:
		return usage("--every is at least 1s and --timeout not negative", "expunge drill --help")
	case c.Objects < 1 || c.Objects > 1000:
		return usage("--objects is 1 to 1000", "expunge drill --help")
	case c.GiveUp && c.Resume == "":
		return usage("--give-up needs --resume: which drill", "expunge drill --help")
	case c.Resume != "" && !strings.HasPrefix(c.Resume, redrive.DrillPrefix):
		return usage("--resume is a request id that begins with "+redrive.DrillPrefix, "expunge drill --help")
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	l := &drilling{drillCommand: c, d: d, r: r, a: &drillAnswer{TenantID: c.Tenant, Steps: []drillStep{}, Trail: []audit.Entry{}}}
	if l.signature, err = c.sign(ctx, r); err != nil {
		return err
	}
	if l.p, err = c.policy(ctx, d, r); err != nil {
		return err
	}
	l.a.Policy = l.p.Name
	if c.Resume != "" {
		err = l.resume(ctx)
	} else {
		err = l.begin(ctx)
	}
	if err == nil {
		err = l.lead(ctx)
	}
	return l.end(ctx, err)
}

// policy returns the newest version of the policy, or of the only one that works for
// the tenant.
func (c *drillCommand) policy(ctx context.Context, d *desk, r *deployment) (policy.Policy, error) {
	names, err := r.records.PolicyNames(ctx)
	if err != nil {
		return policy.Policy{}, err
	}
	if c.Policy != "" && !slices.Contains(names, c.Policy) {
		return policy.Policy{}, noPolicy(d, c.Policy, names)
	}
	var all []policy.Policy
	var of []string
	for _, name := range names {
		if c.Policy != "" && name != c.Policy {
			continue
		}
		p, err := r.records.LatestPolicy(ctx, name)
		if err != nil {
			return p, err
		}
		if tenant, ok := p.TenantOf(p.TenantPrefix(c.Tenant) + "x"); ok && tenant == c.Tenant {
			all, of = append(all, p), append(of, name)
		}
	}
	switch len(all) {
	case 1:
		return all[0], nil
	case 0:
		return policy.Policy{}, wrong(c.Tenant + " is not a tenant of " + orAny(c.Policy))
	default:
		return policy.Policy{}, usage("several policies work for "+c.Tenant+": say which, of "+strings.Join(of, ", "), "expunge drill --help")
	}
}

func orAny(policy string) string {
	if policy == "" {
		return "any policy that was published here"
	}
	return policy
}

// step notes what was seen or done, and tells whoever waits.
func (l *drilling) step(text string) {
	l.a.Steps = append(l.a.Steps, drillStep{l.d.Clock.Now().UTC().Truncate(time.Second), text})
	fmt.Fprintln(l.d.Err, report.Clean(text))
}

// brakeReason is the reason of a drill's brake. By it a later command knows its own.
func brakeReason(request string) string { return request }

// begin asks for the tenant's run under a brake, and ends one of its pages before any
// worker has it.
func (l *drilling) begin(ctx context.Context) error {
	if err := l.unbraked(ctx); err != nil {
		return err
	}
	if err := l.expired(ctx); err != nil {
		return err
	}
	l.a.RequestID = redrive.DrillPrefix + l.d.Clock.Now().UTC().Format("20060102t150405z")
	l.a.RunID = job.RequestRunID(l.r.outputs.Region, l.p.Name, l.a.RequestID)
	if err := l.brake(ctx, redrive.On); err != nil {
		return err
	}
	// The brake must come off whatever happens, or the policy would stand still.
	err := l.fell(ctx)
	if stuck := l.brake(context.WithoutCancel(ctx), redrive.Off); stuck != nil {
		return stuck // before anything else that went wrong
	}
	return err
}

// unbraked refuses to drill under somebody else's brake: it would keep the page from
// the workers, and releasing it is not the drill's to do.
func (l *drilling) unbraked(ctx context.Context) error {
	brakes, err := l.r.records.Brakes(ctx)
	if err != nil {
		return err
	}
	for _, b := range viewBrakes(brakes) {
		if (job.Brake{Policy: b.Policy, Version: b.Version}).Covers(l.p.Name, l.p.Version) {
			return wrong("a brake is on "+b.scope()+": release it first", l.d.command("brake", "list"))
		}
	}
	return nil
}

func (l *drilling) brake(ctx context.Context, set string) error {
	s := audit.Signature{By: l.signature.By, Reason: brakeReason(l.a.RequestID)}
	var a redrive.Brakes
	err := l.r.ask(ctx, l.r.outputs.Redrive, redrive.BrakeRequest{Op: redrive.OpBrake, Set: set, Policy: l.p.Name, Signature: s}, &a)
	if err != nil && set == redrive.Off {
		return wrong("the brake of this drill is still on "+l.p.Name+": "+err.Error(), l.d.command("brake", "off", l.p.Name, "--reason="+blank))
	}
	if err == nil {
		l.step("The brake on " + l.p.Name + " is " + set + ".")
	}
	return err
}

// fell makes the request, waits for its pages, and has one of them ended.
func (l *drilling) fell(ctx context.Context) error {
	var got enqueue.Receipt
	in := enqueue.Input{Policy: l.p.Name, Tenant: l.Tenant, RequestID: l.a.RequestID, Reason: l.Reason}
	if err := l.r.ask(ctx, l.r.outputs.Enqueue, in, &got); err != nil {
		return err
	}
	if got.RunID != l.a.RunID {
		return failure.New(failure.Bug, "drill", "the request has another run than its id says")
	}
	l.step("Request " + l.a.RequestID + " for " + l.Tenant + " is run " + string(got.RunID) + ", " + words(string(got.State)) + ".")
	if got.State != job.Released {
		return wrong("the run is "+words(string(got.State))+", and a drill needs one that the guard releases at once: take a tenant with fewer objects",
			l.d.command("explain", string(got.RunID)))
	}
	page, err := l.untouched(ctx)
	if err != nil {
		return err
	}
	var a redrive.Drilling
	request := redrive.DrillRequest{Op: redrive.OpDrill, PageRef: refOf(page), Signature: l.signature}
	if err := l.r.ask(ctx, l.r.outputs.Redrive, request, &a); err != nil {
		return err
	}
	l.page, l.a.PageID = page, page.ID
	l.step("Page " + string(page.ID) + " of " + report.Count(page.Candidates, "object") + " has ended as if its attempts were used up, and a malformed message is on its way.")
	return nil
}

func refOf(p job.Page) redrive.PageRef {
	return redrive.PageRef{Run: p.Run, Tenant: p.Tenant, Page: p.ID}
}

// untouched returns a page of the run that no worker has had.
func (l *drilling) untouched(ctx context.Context) (job.Page, error) {
	var found []job.Page
	err := pagesOf(ctx, l.r.records, l.a.RunID, func(p job.Page) error {
		if p.Kind == job.RangePage && p.Candidates > 0 && p.Fence == 0 && (p.State == job.Planned || p.State == job.Sent) {
			found = append(found, p)
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = wrong("no page of the run is left that no worker has had", l.d.command("explain", string(l.a.RunID)))
	}
	if err != nil {
		return job.Page{}, err
	}
	return found[0], nil
}

// resume finds the drill again by its order, and takes off a brake that it left.
func (l *drilling) resume(ctx context.Context) error {
	l.a.RequestID, l.a.RunID = l.Resume, job.RequestRunID(l.r.outputs.Region, l.p.Name, l.Resume)
	run, err := l.r.records.Run(ctx, l.a.RunID)
	if failure.Is(err, failure.Absent) {
		return wrong("there is no drill "+l.Resume+" of "+l.p.Name+" in "+l.r.outputs.Region, l.d.command("orders", "--since=30d"))
	}
	if err != nil {
		return err
	}
	brakes, err := l.r.records.Brakes(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(brakes, func(b job.Brake) bool {
		return b.Policy == l.p.Name && b.Version == 0 && b.Reason == brakeReason(l.Resume)
	}) {
		if err := l.brake(ctx, redrive.Off); err != nil {
			return err
		}
	}
	entries, err := l.r.records.Entries(ctx, run.OpenedAt.Add(-l.r.settings.ClockSkew), l.d.Clock.Now().Add(l.r.settings.ClockSkew), 10_000)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(entries, func(e audit.Entry) bool { return e.Act == audit.DrillStarted && e.RunID == run.ID })
	if i < 0 {
		return wrong("the drill "+l.Resume+" has ended no page: start a new one", l.d.command("drill", "--tenant="+l.Tenant, "--policy="+l.p.Name, "--reason="+blank))
	}
	l.a.PageID = entries[i].PageID
	l.page, err = l.r.records.Page(ctx, run.ID, entries[i].TenantID, entries[i].PageID)
	return err
}
