package region

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// checkSchedules asks for what a missed tick must not depend on: every schedule has a
// role for its one target, and leaves with the dead letters what nobody took.
func checkSchedules(t template) []string {
	var p problems
	group := t.thing("AWS::Scheduler::ScheduleGroup", "Schedules").word("Name")
	roles := map[string]bool{}
	for _, s := range t.things("AWS::Scheduler::Schedule") {
		target := s.word("Target", "Arn")
		role := strings.TrimSuffix(strings.TrimPrefix(s.word("Target", "RoleArn"), "<"), ".Arn>")
		p.want(strings.HasSuffix(role, "ScheduleRole") && !roles[role], "schedule %s has no role of its own, but %s", s.name, role)
		roles[role] = true
		p.equal(role+" may", t.granted(role), []string{"lambda:InvokeFunction " + target, "sqs:SendMessage <ScheduleDeadLetters.Arn>"})
		p.want(s.word("GroupName") == group, "schedule %s is in group %q", s.name, s.word("GroupName"))
		p.want(s.word("State") == "ENABLED", "schedule %s is %s", s.name, s.word("State"))
		p.want(s.word("FlexibleTimeWindow", "Mode") == "OFF", "schedule %s fires within a window: its instant is the run's identity", s.name)
		p.want(s.word("Target", "DeadLetterConfig", "Arn") == "<ScheduleDeadLetters.Arn>", "what schedule %s can not deliver is lost", s.name)
		age := s.number("Target", "RetryPolicy", "MaximumEventAgeInSeconds")
		p.want(age >= 60 && age <= t.config.Settings.MissedAfter.Seconds(), "a tick of %s may be %.0f seconds old", s.name, age)
		retries := s.number("Target", "RetryPolicy", "MaximumRetryAttempts")
		p.want(retries == 20, "a tick of %s is offered %.0f times again: within an hour of throttling it would be given up", s.name, retries)
	}
	for _, role := range t.things("AWS::IAM::Role") {
		p.want(!strings.HasSuffix(role.name, "ScheduleRole") || roles[role.name], "no schedule has the role %s", role.name)
	}
	return p
}

// A tick is what a schedule does, in one line.
func (t template) ticks() []string {
	var ticks []string
	for _, s := range t.things("AWS::Scheduler::Schedule") {
		ticks = append(ticks, strings.Join([]string{s.word("ScheduleExpression"), s.word("ScheduleExpressionTimezone"), s.word("Target", "Arn"), s.word("Target", "Input")}, " "))
	}
	return ticks
}

// checkTicks asks for one schedule of each policy, at its time in its zone, and for the
// two that keep the region going.
func checkTicks(t template) []string {
	var p problems
	want := []string{
		"rate(5 minutes) Etc/UTC <Reconcile.Arn> {}",
		`rate(15 minutes) Etc/UTC <Redrive.Arn> {"op":"scheduled"}`,
	}
	for _, of := range t.config.Policies {
		input := word(map[string]any{"policy": of.Name, "scheduled": "<aws.scheduler.scheduled-time>"})
		want = append(want, of.Schedule.Cron()+" "+of.Schedule.Zone+" <Enqueue.Arn> "+input)
	}
	p.equal("the schedules", t.ticks(), want)
	for _, s := range t.things("AWS::Scheduler::Schedule") {
		var input map[string]any
		p.want(json.Unmarshal([]byte(s.word("Target", "Input")), &input) == nil, "the input of %s is no JSON", s.name)
	}
	var policies []string
	for _, of := range t.config.Policies {
		policies = append(policies, of.Region)
	}
	p.want(!slices.ContainsFunc(policies, func(of string) bool { return of != t.config.Region }), "the stack works by a policy of another region")
	return p
}
