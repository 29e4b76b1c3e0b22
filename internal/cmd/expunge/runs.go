package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// runsCommand shows runs.
type runsCommand struct {
	Policy string `placeholder:"NAME" help:"Only runs of this policy."`
	Late   bool   `help:"Only what is past its policy's objective, ready, waiting, leased and dead pages apart, and dates that never ran."`
	Limit  int    `default:"5" help:"How many ended runs of each policy to show; 0 shows none."`
}

func (c *runsCommand) exits() exits {
	return exits{Done: "shown; with --late: nothing is late", Wrong: "with --late: something is late"}
}

// runList is the answer.
type runList struct {
	Head
	AsOf   time.Time   `json:"as_of"`
	Late   bool        `json:"late"` // only late runs are shown
	Brakes []brakeView `json:"brakes"`
	Runs   []runView   `json:"runs"`
	// Missed are the dates of the last week that never ran.
	Missed []missedDate `json:"missed"`
}

// runView is one run.
type runView struct {
	RunHead
	// RunWork is what its pages and items have come to. Who asks about one page does
	// not have all of them read.
	*RunWork
}

// RunHead is what a run is.
type RunHead struct {
	RunID     job.RunID    `json:"run_id"`
	Policy    string       `json:"policy"`
	Version   int          `json:"policy_version"`
	Tenant    string       `json:"tenant_id"` // of a request; "" in a scheduled run
	RequestID string       `json:"request_id"`
	Scheduled time.Time    `json:"scheduled"`
	Cutoff    time.Time    `json:"cutoff"`
	State     job.RunState `json:"state"`
	Mode      job.Mode     `json:"mode"`
	// Ratchet says why the run only reports although its policy enforces.
	Ratchet []string `json:"ratchet"`
	// Guard is what the guard found.
	Guard     []string  `json:"guard"`
	OpenedAt  time.Time `json:"opened_at"`
	Examined  int       `json:"examined"`
	Unmatched int       `json:"unmatched"`
}

// RunWork is what a run has come to.
type RunWork struct {
	// ObjectiveSeconds is the policy's objective. OldestSeconds is for how long the
	// oldest page that has not ended may run, or the run itself where it waits or is
	// being scanned; 0 when it has ended.
	ObjectiveSeconds int64 `json:"objective_seconds"`
	OldestSeconds    int64 `json:"oldest_open_seconds"`
	Late             bool  `json:"late"`

	Pages     pageKinds `json:"pages"`
	LatePages pageKinds `json:"late_pages"`

	Candidates int            `json:"candidates"`
	Counts     map[string]int `json:"counts"` // by outcome; those that are 0 are left out
	Bytes      int64          `json:"bytes"`  // of what was deleted, in a report-only run of what would be

	sums job.Counts
}

// pageKinds counts pages by what they wait for.
type pageKinds struct {
	Ready   int `json:"ready"`   // a worker can take it
	Waiting int `json:"waiting"` // for its time, a brake, or its run's release
	Leased  int `json:"leased"`  // a worker has it
	Dead    int `json:"dead"`    // for an operator
	Done    int `json:"done"`
}

// kindOf returns where a page of the run is counted.
func (k *pageKinds) kindOf(p job.Page, run job.Run, braked bool, now time.Time) *int {
	switch {
	case p.State.Terminal():
		return &k.Done
	case p.State == job.Dead:
		return &k.Dead
	case p.LeaseLive(now):
		return &k.Leased
	case braked, run.State != job.Released, p.RetryAt.After(now):
		return &k.Waiting
	default:
		return &k.Ready
	}
}

func (c *runsCommand) run(ctx context.Context, d *desk) error {
	if c.Limit < 0 || c.Limit > 1000 {
		return usage("--limit is "+strconv.Itoa(c.Limit)+": it must be 0 to 1000", d.command("runs", "--limit=20"))
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	names, err := c.policies(ctx, d, r)
	if err != nil {
		return err
	}
	list := &runList{AsOf: d.Clock.Now().UTC(), Late: c.Late}
	brakes, err := r.records.Brakes(ctx)
	if err != nil {
		return err
	}
	list.Brakes = viewBrakes(brakes)
	runs, err := c.runs(ctx, r, names)
	if err != nil {
		return err
	}
	look := r.looking(brakes, list.AsOf)
	for _, run := range runs {
		v, err := look.view(ctx, run)
		if err != nil {
			return err
		}
		if !c.Late || v.Late {
			list.Runs = append(list.Runs, v)
		}
	}
	if list.Missed, err = missed(ctx, r, names, list.AsOf); err != nil {
		return err
	}
	list.Next = c.next(d, list)
	if err := d.show(list); err != nil {
		return err
	}
	if c.Late && len(list.Runs)+len(list.Missed) > 0 {
		return wrong("something is late")
	}
	return nil
}

// policies returns the names to look at.
func (c *runsCommand) policies(ctx context.Context, d *desk, r *deployment) ([]string, error) {
	names, err := r.records.PolicyNames(ctx)
	if err != nil || c.Policy == "" {
		return names, err
	}
	if !slices.Contains(names, c.Policy) {
		return nil, noPolicy(d, c.Policy, names)
	}
	return []string{c.Policy}, nil
}

// noPolicy says that a policy was never published, and which were.
func noPolicy(d *desk, name string, names []string) error {
	if len(names) == 0 {
		return wrong("no policy "+name+" was ever published here, nor any other: none has ticked yet", d.command("runs"))
	}
	return wrong("no policy "+name+" was ever published here; there are "+strings.Join(names, ", "), d.command("runs", "--policy="+names[0]))
}

// runs returns what has not ended, and then what has, the newest first.
func (c *runsCommand) runs(ctx context.Context, r *deployment, names []string) ([]job.Run, error) {
	open, err := r.records.OpenRuns(ctx)
	if err != nil {
		return nil, err
	}
	awaiting, err := r.records.AwaitingRuns(ctx)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(append(awaiting, open...), func(run job.Run) bool { return c.Policy != "" && run.Policy != c.Policy })
	newest := func(a, b job.Run) int { return cmp.Or(b.Scheduled.Compare(a.Scheduled), cmp.Compare(a.ID, b.ID)) }
	slices.SortFunc(all, newest)
	if c.Late || c.Limit == 0 {
		return all, nil
	}
	var ended []job.Run
	for _, name := range names {
		some, err := r.records.RecentRuns(ctx, name, c.Limit)
		if err != nil {
			return nil, err
		}
		ended = append(ended, some...)
	}
	slices.SortFunc(ended, newest)
	return append(all, ended...), nil
}

// runLook looks at runs as they are at one instant.
type runLook struct {
	records records
	brakes  []job.Brake
	now     time.Time
	// scale divides what a policy says of time: 1 in a deployed region.
	scale time.Duration
}

func (r *deployment) looking(brakes []job.Brake, now time.Time) runLook {
	return runLook{records: r.records, brakes: brakes, now: now, scale: contract.Production().Objective / r.settings.Objective}
}

func (l runLook) view(ctx context.Context, run job.Run) (runView, error) {
	v := runView{headOf(run), &RunWork{}}
	if run.State == job.Closed || run.State == job.Rejected {
		v.Pages.Done = run.Pages
		v.count(run.Totals)
		if run.State == job.Rejected {
			v.Candidates = run.Candidates
		}
		return v, nil
	}
	p, err := l.records.Policy(ctx, run.Policy, run.Version)
	if failure.Is(err, failure.UnknownPolicy) {
		p.Objective, err = policy.DefaultObjective, nil // the run is shown all the same: it is what somebody has to mend
	}
	if err != nil {
		return v, err
	}
	objective := p.Objective / l.scale
	braked := covered(l.brakes, run)
	var totals job.Totals
	var oldest time.Duration
	if run.State != job.Released {
		oldest = l.now.Sub(run.OpenedAt)
	}
	err = pagesOf(ctx, l.records, run.ID, func(page job.Page) error {
		totals = totals.Plus(page.Totals())
		*v.Pages.kindOf(page, run, braked, l.now)++
		if page.State.Terminal() {
			return nil
		}
		age := l.now.Sub(page.RunnableAt(run))
		oldest = max(oldest, age)
		if age >= objective {
			*v.LatePages.kindOf(page, run, braked, l.now)++
		}
		return nil
	})
	v.count(totals)
	v.ObjectiveSeconds, v.OldestSeconds = int64(objective/time.Second), int64(oldest/time.Second)
	v.Late = oldest >= objective
	return v, err
}

func headOf(run job.Run) RunHead {
	return RunHead{
		RunID: run.ID, Policy: run.Policy, Version: run.Version, Tenant: run.Tenant, RequestID: run.RequestID,
		Scheduled: run.Scheduled.UTC(), Cutoff: run.Cutoff.UTC(), State: run.State, Mode: run.Mode, Ratchet: run.Ratchet, Guard: run.Trips,
		OpenedAt: run.OpenedAt.UTC(), Examined: run.Examined, Unmatched: run.Unmatched,
	}
}

// count notes what became of the run's candidates.
func (v *RunWork) count(t job.Totals) {
	v.Candidates, v.Bytes, v.Counts, v.sums = t.Candidates, t.Bytes, outcomes(t.Counts), t.Counts
}

// outcomes names the counts that are not 0.
func outcomes(c job.Counts) map[string]int {
	named := map[string]int{}
	for _, o := range job.Outcomes() {
		if c[o] > 0 {
			named[o.String()] = c[o]
		}
	}
	return named
}

func covered(brakes []job.Brake, run job.Run) bool {
	return slices.ContainsFunc(brakes, func(b job.Brake) bool { return b.Covers(run.Policy, run.Version) })
}

// next offers what an operator would look at.
func (c *runsCommand) next(d *desk, list *runList) []string {
	var next []string
	for _, v := range list.Runs {
		switch {
		case v.State == job.AwaitingApproval:
			next = append(next, d.command("explain", string(v.RunID)))
		case v.Pages.Dead > 0:
			next = append(next, d.command("explain", string(v.RunID)), d.command("redrive", "plan"))
		case v.Late:
			next = append(next, d.command("explain", string(v.RunID)))
		}
	}
	for _, m := range list.Missed {
		next = append(next, d.command("start", m.Policy, instant(m.Scheduled)))
	}
	if len(list.Brakes) > 0 {
		next = append(next, d.command("brake", "list"))
	}
	if len(next) == 0 && len(list.Runs) > 0 {
		next = append(next, d.command("explain", string(list.Runs[0].RunID)))
	}
	return unique(next)
}

// unique drops what stands before already.
func unique(all []string) []string {
	var kept []string
	for _, s := range all {
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}
