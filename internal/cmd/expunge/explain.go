package main

import (
	"context"
	"regexp"
	"strings"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// explainCommand answers an operator's three questions about a run, a page, an
// object or a dead letter (R94). It reads only, and works under a brake.
type explainCommand struct {
	What   string `arg:"" help:"The id of a run or a page (32 hex digits), the message id of a dead letter, or an object's whole key."`
	Policy string `placeholder:"NAME" help:"Of a key that several policies work on: this one."`
	Bucket string `placeholder:"NAME" help:"Of such a key: the policies of this bucket."`
	Tenant string `placeholder:"ID" help:"Of such a key: the policies to which it is this tenant's."`
	Keys   bool   `help:"Also list the items of a page, with their keys."`

	Repaired bool `help:"Take it that what the store has refused is mended, as a role with its permission would be."`
}

func (c *explainCommand) exits() exits {
	return exits{Done: "explained, whatever there was to explain", Wrong: "there is nothing by this name, or a question has no answer: the reason is on stderr"}
}

// explanation is the answer. The three lists of sentences answer the three
// questions; the rest is what they were made from.
type explanation struct {
	Head
	Subject string      `json:"subject"` // run, page, key or message
	Brakes  []brakeView `json:"brakes"`  // in force on the run
	Run     *runView    `json:"run,omitzero"`
	Page    *pageView   `json:"page,omitzero"`
	Message *letterView `json:"message,omitzero"`
	Key     *keyView    `json:"key,omitzero"`
	Dead    []deadPage  `json:"dead_pages,omitzero"` // of a run
	Items   []itemView  `json:"items,omitzero"`      // of a page, with --keys
	Failed  []string    `json:"what_failed"`
	Changed []string    `json:"what_changed"`
	Again   []string    `json:"what_happens_if_it_runs_again"`
	// Rehearsal is what a delivery of the page would do.
	Rehearsal *rehearsalView `json:"rehearsal,omitzero"`
}

// explaining is one explanation while it is made.
type explaining struct {
	*explainCommand
	d    *desk
	r    *deployment
	look runLook
	e    *explanation
	// unknown is why the third question has no answer.
	unknown error
}

var (
	hexID     = regexp.MustCompile(`^[0-9a-f]{32}$`)
	messageID = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`) // as SQS writes them
)

func (c *explainCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	brakes, err := r.records.Brakes(ctx)
	if err != nil {
		return err
	}
	x := &explaining{explainCommand: c, d: d, r: r, e: &explanation{}, look: r.looking(brakes, d.Clock.Now().UTC())}
	switch {
	case hexID.MatchString(c.What):
		err = x.id(ctx)
	case messageID.MatchString(c.What):
		err = x.message(ctx)
	case strings.Contains(c.What, "/"):
		err = x.key(ctx)
	default:
		err = usage("this is no id and no key: an id of a run or a page has 32 hex digits, a message id five groups of them, and a policy's keys hold a slash",
			d.command("runs"), d.command("dlq"))
	}
	if err != nil {
		return err
	}
	x.e.Next = unique(x.e.Next)
	if err := d.show(x.e); err != nil {
		return err
	}
	if x.unknown != nil {
		return wrong("what happens if it runs again is not known: " + x.unknown.Error())
	}
	return nil
}

// id explains a run, or else a page.
func (x *explaining) id(ctx context.Context) error {
	run, err := x.r.records.Run(ctx, job.RunID(x.What))
	if err == nil {
		x.e.Subject = "run"
		return x.aRun(ctx, run)
	}
	if !failure.Is(err, failure.Absent) {
		return err
	}
	page, err := x.r.records.PageByID(ctx, job.PageID(x.What))
	if failure.Is(err, failure.Absent) {
		return wrong("neither a run nor a page has this id in "+x.r.outputs.Region+": it may be of another region or stage", x.d.command("runs"))
	}
	if err != nil {
		return err
	}
	x.e.Subject = "page"
	return x.aPage(ctx, page)
}

// under notes the brakes on the run.
func (x *explaining) under(run job.Run) {
	x.e.Brakes = []brakeView{}
	for _, b := range x.look.brakes {
		if b.Covers(run.Policy, run.Version) {
			x.e.Brakes = append(x.e.Brakes, viewBrakes([]job.Brake{b})...)
		}
	}
}

func (x *explaining) failed(text string)  { x.e.Failed = append(x.e.Failed, text) }
func (x *explaining) changed(text string) { x.e.Changed = append(x.e.Changed, text) }
func (x *explaining) again(text string)   { x.e.Again = append(x.e.Again, text) }

// then offers a command.
func (x *explaining) then(words ...string) { x.e.Next = append(x.e.Next, x.d.command(words...)) }
