package region

import (
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsschedulertargets"
	"github.com/aws/jsii-runtime-go"

	"github.com/expunge-aws/expunge/internal/policy"
)

const (
	// scheduleRetries is how often a tick is offered again within its age; Lambda refuses
	// one only while it is throttled or not well, so what ends it is the age.
	scheduleRetries = 20
	// redriveEvery is how often the redrive function looks whether a schedule for
	// redrives is set. Without one, which is the default, the call does nothing (R16).
	redriveEvery = 15 * time.Minute
	// minSchedule is the shortest period of EventBridge Scheduler.
	minSchedule = time.Minute
)

// tick is a schedule of the stack.
type tick struct {
	id, what string
	when     awsscheduler.ScheduleExpression
	to       awslambda.Function
	input    map[string]any
	oldest   time.Duration // after it a tick is a dead letter
}

// newSchedules declares the group of schedules: one for each policy, and those that
// keep the region going.
func (p *parts) newSchedules() awsscheduler.ScheduleGroup {
	group := awsscheduler.NewScheduleGroup(p.Stack, jsii.String("Schedules"), &awsscheduler.ScheduleGroupProps{
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY, // its name is fixed, and it holds nothing but these
	})
	for _, of := range p.Policies {
		p.newSchedule(group, p.policyTick(of))
	}
	every := max(p.Settings.ReconcileEvery, minSchedule)
	p.newSchedule(group, tick{
		id: "Reconcile", what: "finds work that nobody is doing", when: rate(every), to: p.Reconcile, oldest: every,
		input: map[string]any{},
	})
	p.newSchedule(group, tick{
		id: "ScheduledRedrive", what: "redrives what a schedule for redrives names", when: rate(redriveEvery), to: p.Redrive, oldest: redriveEvery,
		input: map[string]any{"op": "scheduled"},
	})
	return group
}

// policyTick opens the policy's runs. The instant that the schedule means is the run's
// identity, so it travels in the tick, and the tick is not spread over a window. After
// MissedAfter reconcile takes a date for missed, so no tick is offered for longer.
func (p *parts) policyTick(of policy.Policy) tick {
	return tick{
		id: "Policy-" + of.Name + "-", what: of.Name + ", " + of.Schedule.Words(), to: p.Enqueue, oldest: p.Settings.MissedAfter,
		when:  awsscheduler.ScheduleExpression_Expression(jsii.String(of.Schedule.Cron()), awscdk.TimeZone_Of(jsii.String(of.Schedule.Zone))),
		input: map[string]any{"policy": of.Name, "scheduled": awsscheduler.ContextAttribute_ScheduledTime()},
	}
}

// newSchedule declares a schedule with a role of its own, which can start its one
// function for this group of schedules and nobody else.
func (p *parts) newSchedule(group awsscheduler.ScheduleGroup, t tick) {
	role := awsiam.NewRole(p.Stack, jsii.String(t.id+"ScheduleRole"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("scheduler.amazonaws.com"), &awsiam.ServicePrincipalOpts{
			// https://docs.aws.amazon.com/scheduler/latest/UserGuide/cross-service-confused-deputy-prevention.html
			Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": p.Account(), "aws:SourceArn": group.ScheduleGroupArn()}},
		}),
		InlinePolicies: &map[string]awsiam.PolicyDocument{"start": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{
			Statements: &[]awsiam.PolicyStatement{
				permit(actions{"lambda:InvokeFunction"}, *t.to.FunctionArn()),
				permit(actions{"sqs:SendMessage"}, *p.ScheduleLetters.QueueArn()),
			},
		})},
	})
	awsscheduler.NewSchedule(p.Stack, jsii.String(t.id+"Schedule"), &awsscheduler.ScheduleProps{
		Schedule: t.when, ScheduleGroup: group, Description: jsii.String("Expunge: " + t.what), TimeWindow: awsscheduler.TimeWindow_Off(),
		Target: awsschedulertargets.NewLambdaInvoke(t.to, &awsschedulertargets.ScheduleTargetBaseProps{
			Role:  role.WithoutPolicyUpdates(nil), // the target would allow itself every version of the function
			Input: awsscheduler.ScheduleTargetInput_FromObject(t.input), DeadLetterQueue: p.ScheduleLetters,
			RetryAttempts: jsii.Number(scheduleRetries), MaxEventAge: duration(max(t.oldest, minSchedule)),
		}),
	})
}

// rate is a schedule of whole minutes.
func rate(every time.Duration) awsscheduler.ScheduleExpression {
	n, unit := int(every.Minutes()), "minutes"
	if n == 1 {
		unit = "minute"
	}
	return awsscheduler.ScheduleExpression_Expression(jsii.String(fmt.Sprintf("rate(%d %s)", n, unit)), awscdk.TimeZone_ETC_UTC())
}
