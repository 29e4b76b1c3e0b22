package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// policies returns the newest version of each policy that is looked at. It says for
// itself what is wrong when there is none.
func (a *area) policies(ctx context.Context) (all []policy.Policy, ok bool) {
	names, err := a.r.records.PolicyNames(ctx)
	if err != nil {
		a.failed("the policies", err)
		return nil, false
	}
	for _, name := range names {
		if a.only != "" && name != a.only {
			continue
		}
		p, err := a.r.records.LatestPolicy(ctx, name)
		if err != nil {
			a.failed(name, err)
			continue
		}
		all = append(all, p)
	}
	return all, true
}

// lookAtPolicies compares what is deployed with what is approved.
func lookAtPolicies(ctx context.Context, a *area) {
	all, ok := a.policies(ctx)
	if ok && len(all) == 0 && len(a.lines) == 0 {
		what, why := "the policies", "none was ever published: no schedule has fired since the deployment"
		if a.only != "" {
			what, why = a.only, "no such policy was ever published here"
		}
		a.problem(what, why, "look at the schedules below; a policy is published by its first tick")
	}
	for _, p := range all {
		approval, err := a.r.records.Approval(ctx, p.Name)
		if err != nil {
			a.failed(nameOf(p), err)
			continue
		}
		a.approval(p, approval)
	}
}

func (a *area) approval(p policy.Policy, approval policy.Approval) {
	remedy := "look at its reports and at expunge policy diff " + p.Name + ", and approve it"
	switch {
	case p.Region != a.r.outputs.Region:
		a.problem(nameOf(p), "it belongs to "+p.Region+", and this deployment is in "+a.r.outputs.Region, "deploy it there")
	case p.Mode != job.Enforce:
		a.ok(nameOf(p), "only reports, by its mode")
	case approval == (policy.Approval{}):
		a.warning(nameOf(p), "only reports: no version was ever approved to delete", remedy)
	case approval.Version == p.Version && approval.SHA256 == p.SHA256():
		a.ok(nameOf(p), "deletes: approved by "+approval.By+" at "+instant(approval.At))
	default:
		a.warning(nameOf(p), "version "+strconv.Itoa(approval.Version)+" is the approved one: as long as this one would delete more, it only reports", remedy)
	}
}

// lookAtSchedules looks at whether each policy is started when its file says.
func lookAtSchedules(ctx context.Context, a *area) {
	all, ok := a.policies(ctx)
	if !ok || len(all) == 0 {
		return
	}
	schedules, err := a.r.schedules(ctx)
	if err != nil {
		a.failed("group "+a.r.outputs.Schedules, err)
		return
	}
	for _, p := range all {
		a.schedule(p, schedules[p.Name])
	}
}

// schedules returns the schedules of the deployment's group by the policy that each
// starts, whatever they are called.
func (r *deployment) schedules(ctx context.Context) (map[string][]*scheduler.GetScheduleOutput, error) {
	ctx, done := r.config.Limit(ctx)
	defer done()
	client, by := scheduler.NewFromConfig(r.config.Config), map[string][]*scheduler.GetScheduleOutput{}
	pages := scheduler.NewListSchedulesPaginator(client, &scheduler.ListSchedulesInput{GroupName: &r.outputs.Schedules})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Schedules {
			one, err := client.GetSchedule(ctx, &scheduler.GetScheduleInput{GroupName: s.GroupName, Name: s.Name})
			if err != nil {
				return nil, err
			}
			var tick struct {
				Policy string `json:"policy"`
			}
			if one.Target != nil && json.Unmarshal([]byte(aws.ToString(one.Target.Input)), &tick) == nil && tick.Policy != "" {
				by[tick.Policy] = append(by[tick.Policy], one)
			}
		}
	}
	return by, nil
}

func (a *area) schedule(p policy.Policy, found []*scheduler.GetScheduleOutput) {
	if len(found) != 1 {
		text := "no schedule of group " + a.r.outputs.Schedules + " starts it"
		if len(found) > 1 {
			text = strconv.Itoa(len(found)) + " schedules start it, and one should"
		}
		a.problem(p.Name, text, redeploy+"; a policy that was retired on purpose needs none")
		return
	}
	s, before := found[0], len(a.lines)
	name := aws.ToString(s.Name)
	if s.State != schedulertypes.ScheduleStateEnabled {
		a.problem(p.Name, "schedule "+name+" is "+string(s.State)+": no run starts", "enable it; to stop deleting, set a brake, which says so")
	}
	if cron := aws.ToString(s.ScheduleExpression); cron != p.Schedule.Cron() {
		a.problem(p.Name, "schedule "+name+" is "+cron+" and "+nameOf(p)+" says "+p.Schedule.Cron(), redeploy+"; or the new version has not ticked yet")
	}
	if zone := aws.ToString(s.ScheduleExpressionTimezone); zone != p.Schedule.Zone {
		a.problem(p.Name, "schedule "+name+" counts in "+zone+" and "+nameOf(p)+" in "+p.Schedule.Zone, redeploy)
	}
	if s.FlexibleTimeWindow == nil || s.FlexibleTimeWindow.Mode != schedulertypes.FlexibleTimeWindowModeOff {
		a.warning(p.Name, "schedule "+name+" may start late by its flexible time window", redeploy)
	}
	if !strings.HasSuffix(aws.ToString(s.Target.Arn), ":function:"+a.r.outputs.Enqueue) {
		a.problem(p.Name, "schedule "+name+" starts "+aws.ToString(s.Target.Arn)+" and not "+a.r.outputs.Enqueue, redeploy)
	}
	if len(a.lines) == before {
		a.ok(p.Name, p.Schedule.Words()+"; next "+nextInstants(p, a.now))
	}
}

// nextInstants names the next three runs.
func nextInstants(p policy.Policy, now time.Time) string {
	var all []string
	for at := now; len(all) < 3; {
		if at = p.Schedule.Next(at); at.IsZero() {
			break
		}
		all = append(all, instant(at))
	}
	return strings.Join(all, ", ")
}

// lookAtBrakes names what is stopped, and whether anything moves by itself.
func lookAtBrakes(ctx context.Context, a *area) {
	brakes, err := a.r.records.Brakes(ctx)
	if err != nil {
		a.failed("the brakes", err)
	} else if len(brakes) == 0 {
		a.ok("the brakes", "none is set")
	}
	for _, b := range viewBrakes(brakes) {
		a.warning("brake on "+b.scope(), "set "+span(a.now.Sub(b.At))+" ago by "+b.By+": "+b.Reason, "release it once its reason is gone")
	}
	a.automatic(ctx)
}

// automatic looks at the scheduled redrive, which only a passed drill allows (R16).
func (a *area) automatic(ctx context.Context) {
	const what = "the scheduled redrive"
	auto, err := a.r.records.AutoRedrive(ctx)
	if err != nil {
		a.failed(what, err)
		return
	}
	if !auto.On {
		a.ok(what, "it is off: only operators redrive")
		return
	}
	passed, err := lastDrill(ctx, a.r, a.now)
	switch {
	case err != nil:
		a.failed(what, err)
	case passed.IsZero():
		a.problem(what, "it is on for "+string(auto.Reason)+", and no drill has passed in the last "+span(a.r.settings.DrillLife)+": it moves nothing", "run a drill")
	default:
		a.ok(what, "it is on for "+string(auto.Reason)+", "+strconv.Itoa(auto.Cap)+" pages a round; a drill passed "+span(a.now.Sub(passed))+" ago")
	}
}

// lastDrill returns when the newest drill passed that still counts; zero when none did.
func lastDrill(ctx context.Context, r *deployment, now time.Time) (time.Time, error) {
	entries, err := r.records.Entries(ctx, now.Add(-r.settings.DrillLife), now.Add(r.settings.ClockSkew), 10_000)
	i := slices.IndexFunc(entries, func(e audit.Entry) bool { return e.Act == audit.DrillPassed })
	if err != nil || i < 0 {
		return time.Time{}, err
	}
	return entries[i].At, nil
}
