package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/report"
)

// decision is what approve and reject take. Without a fingerprint they show what
// stands there and change nothing: nobody approves what he has not seen.
type decision struct {
	Fingerprint string `placeholder:"DIGITS" help:"What this command gave out when it was asked without one: it stands for exactly that scan. Without it, the run is shown and nothing changes."`
	Reason      string `placeholder:"WHY" help:"Why, in 5 to 200 characters. It is kept with your name, and goes with the fingerprint."`
}

// stopped is the answer.
type stopped struct {
	Head
	Stopped redrive.Stopped `json:"stopped"`
	Decided bool            `json:"decided"`
}

// approveCommand releases a run that the guard stopped, or lets a policy version
// delete.
type approveCommand struct {
	What string `arg:"" help:"The run that waits, or the policy version that shall be allowed to delete: exports@3."`
	Run  string `placeholder:"ID" help:"Of a policy version: the closed report-only run of it that was looked at."`
	decision
	Override string `placeholder:"WHY" help:"Approve a run of a superseded policy version all the same, for this reason."`
}

func (c *approveCommand) exits() exits {
	return exits{Done: "it is approved", Wrong: "it was refused: the reason is on stderr", Waits: "it was shown, and nothing changed"}
}

func (c *approveCommand) run(ctx context.Context, d *desk) error {
	if name, version, ok := strings.Cut(c.What, "@"); ok {
		return c.version(ctx, d, name, version)
	}
	if c.Run != "" {
		return usage("--run goes with a policy version, such as exports@3", "expunge approve --help")
	}
	return c.decide(ctx, d, "approve", redrive.ApproveRequest{Op: redrive.OpApprove, Run: job.RunID(c.What), Override: c.Override})
}

// rejectCommand ends a run that the guard stopped.
type rejectCommand struct {
	Run string `arg:"" help:"The run that waits."`
	decision
}

func (c *rejectCommand) exits() exits {
	return exits{Done: "the run is rejected", Wrong: "it was refused: the reason is on stderr", Waits: "it was shown and still waits"}
}

func (c *rejectCommand) run(ctx context.Context, d *desk) error {
	return c.decide(ctx, d, "reject", redrive.ApproveRequest{Op: redrive.OpReject, Run: job.RunID(c.Run)})
}

func (c decision) decide(ctx context.Context, d *desk, word string, request redrive.ApproveRequest) error {
	if !hexID.MatchString(string(request.Run)) {
		return usage("a run's id has 32 hex digits", d.command("runs"))
	}
	if (c.Fingerprint == "") != (c.Reason == "") {
		return usage("--fingerprint and --reason go together: without both the run is shown and nothing changes", d.command(word, string(request.Run)))
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	if c.Fingerprint != "" {
		request.Fingerprint = c.Fingerprint
		if request.Signature, err = (reason{c.Reason}).sign(ctx, r); err != nil {
			return err
		}
	}
	a := &stopped{Decided: c.Fingerprint != ""}
	if err := r.ask(ctx, r.outputs.Redrive, request, &a.Stopped); err != nil {
		return err
	}
	if a.Decided {
		a.Next = []string{d.command("explain", string(request.Run))}
		return d.show(a)
	}
	for _, w := range []string{"approve", "reject"} {
		flags := []string{w, string(request.Run), "--fingerprint=" + a.Stopped.Fingerprint, "--reason=" + blank}
		if w == "approve" && a.Stopped.Superseded {
			flags = append(flags, "--override="+blank)
		}
		a.Next = append(a.Next, d.command(flags...))
	}
	if err := d.show(a); err != nil {
		return err
	}
	return waits("the run waits for a decision")
}

func (a *stopped) write(s *sheet) {
	v := a.Stopped
	facts := [][2]string{
		{"run", string(v.RunID)}, {"state", words(string(v.State))}, {"policy", v.Policy + "@" + strconv.Itoa(v.Version)},
		{"scheduled", instant(v.Scheduled)}, {"cutoff", instant(v.Cutoff)}, {"tenant", v.Tenant}, {"request", v.RequestID},
		{"examined", report.Group(int64(v.Examined))}, {"candidates", report.Group(int64(v.Candidates)) + " in " + report.Count(v.Pages, "page") + " of " + report.Count(v.Tenants, "tenant")},
		{"fingerprint", v.Fingerprint},
	}
	s.facts(facts...)
	if v.Superseded {
		s.alert(amber, "Version "+strconv.Itoa(v.NewestVersion)+" of the policy is newer than the run's.")
	}
	if len(v.Trips) > 0 {
		s.heading("What the guard found")
		for _, t := range v.Trips {
			s.sentence("  ", t)
		}
	}
	s.line()
	s.sentence("", v.Next)
}
