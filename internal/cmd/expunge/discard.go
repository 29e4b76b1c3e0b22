package main

import (
	"context"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/report"
)

// discardCommand gives up dead pages, and letters that are no dead page's.
type discardCommand struct {
	IDs []string `arg:"" name:"id" help:"Ids of dead pages (32 hex digits) and message ids of dead letters, as dlq shows them."`
	reason
}

func (c *discardCommand) exits() exits {
	return exits{
		Done:  "everything is discarded, or a worker is settling it without deleting",
		Wrong: "something was refused or not found: its line and stderr say why",
	}
}

// discarded is the answer.
type discarded struct {
	Head
	Discards redrive.Discards `json:"discards"`
}

func (c *discardCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	request := redrive.DiscardRequest{Op: redrive.OpDiscard}
	for _, id := range c.IDs {
		switch {
		case messageID.MatchString(id):
			request.Messages = append(request.Messages, id)
		case hexID.MatchString(id):
			p, err := r.records.PageByID(ctx, job.PageID(id))
			if failure.Is(err, failure.Absent) {
				return wrong("no page "+id+" is on record in "+r.outputs.Region, d.command("dlq"))
			}
			if err != nil {
				return err
			}
			request.Pages = append(request.Pages, redrive.PageRef{Run: p.Run, Tenant: p.Tenant, Page: p.ID})
		default:
			return usage(id+" is neither a page id (32 hex digits) nor a message id", d.command("dlq"))
		}
	}
	if request.Signature, err = c.sign(ctx, r); err != nil {
		return err
	}
	a := &discarded{}
	if err := r.ask(ctx, r.outputs.Redrive, request, &a.Discards); err != nil {
		return err
	}
	bad := 0
	for _, p := range a.Discards.Pages {
		if p.Result != redrive.Discarded && p.Result != redrive.Settling {
			bad++
		}
		a.Next = append(a.Next, d.command("explain", string(p.Page)))
	}
	for _, l := range a.Discards.Letters {
		if l.Result != redrive.Discarded {
			bad++
		}
	}
	a.Next = append(a.Next[:min(len(a.Next), shownDead)], d.command("dlq"))
	if err := d.show(a); err != nil {
		return err
	}
	if bad > 0 {
		return wrong(report.Count(bad, "id") + " could not be discarded")
	}
	return nil
}

func (a *discarded) write(s *sheet) {
	t := newTable(left("id"), left("result"), wide("what that means", 80))
	for _, p := range a.Discards.Pages {
		t.Row(report.Clean(string(p.Page)), words(string(p.Result)), report.Clean(p.Text))
	}
	for _, l := range a.Discards.Letters {
		t.Row(report.Clean(l.MessageID), words(string(l.Result)), report.Clean(l.Text))
	}
	s.table(t)
}
