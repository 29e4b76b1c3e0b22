package main

import (
	"context"
	"strconv"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/report"
)

// approvedVersion is the answer.
type approvedVersion struct {
	Head
	Version redrive.ApprovedVersion `json:"version"`
}

// version lets a policy version delete. Without a reason it shows what that would
// change.
func (c *approveCommand) version(ctx context.Context, d *desk, name, number string) error {
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1 || name == "":
		return usage("a policy version is named as exports@3", "expunge approve --help")
	case !hexID.MatchString(c.Run):
		return usage("--run is missing or no run's id: the closed report-only run of "+c.What+" that you have looked at", d.command("runs", "--policy="+name))
	case c.Fingerprint != "" || c.Override != "":
		return usage("--fingerprint and --override go with a run, not with a policy version", d.command("approve", c.What, "--run="+c.Run))
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	request := redrive.VersionRequest{Op: redrive.OpVersion, Policy: name, Version: n, Run: job.RunID(c.Run)}
	if c.Reason != "" {
		if request.Signature, err = (reason{c.Reason}).sign(ctx, r); err != nil {
			return err
		}
	}
	a := &approvedVersion{}
	if err := r.ask(ctx, r.outputs.Redrive, request, &a.Version); err != nil {
		return err
	}
	if a.Version.Approved {
		a.Next = []string{d.command("runs", "--policy="+name)}
		return d.show(a)
	}
	a.Next = []string{d.command("explain", c.Run), d.command("approve", c.What, "--run="+c.Run, "--reason="+blank)}
	if err := d.show(a); err != nil {
		return err
	}
	return waits("nothing is approved yet")
}

func (a *approvedVersion) write(s *sheet) {
	v := a.Version
	former := "no version of this policy"
	if v.Former > 0 {
		former = v.Policy + "@" + strconv.Itoa(v.Former)
	}
	approved, until := "no", "may delete until then"
	if v.Approved {
		approved, until = "yes", "could delete before"
	}
	s.facts(
		[2]string{"policy", v.Policy + "@" + strconv.Itoa(v.Version)}, [2]string{"SHA-256", v.SHA256}, [2]string{"approved", approved}, [2]string{until, former},
		[2]string{"looked at", "run " + string(v.RunID) + " of " + instant(v.Scheduled)},
		[2]string{"it reports", report.Count(v.WouldDelete, "item") + " of " + report.Count(v.Candidates, "candidate") + ", " + report.Human(v.Bytes)},
	)
	if len(v.Widens) > 0 {
		s.heading("By what it may delete more")
		for _, text := range v.Widens {
			s.sentence("  ", text)
		}
	}
	s.line()
	s.sentence("", v.Next)
}
