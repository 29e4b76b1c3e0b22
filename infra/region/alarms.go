package region

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/policy"
)

// alarm is one row of the table: a signal, and from when on a person has to know.
type alarm struct {
	// ID names the alarm and its runbook: infra/runbooks/<ID>.md.
	ID string
	// Metric carries its statistic and its period. A gauge is asked for its maximum:
	// the sum of one multiplies what waits by how often it was looked at (AL-05).
	Metric awscloudwatch.IMetric
	// Periods is how many periods in a row have to be at the threshold.
	Periods int
	// AtLeast is the threshold, in the metric's own unit. It is part of what alarms.
	AtLeast float64
	// Missing says what a period without a value is. An idle queue publishes none, and
	// neither does a counter of what never happens (AL-02).
	Missing awscloudwatch.TreatMissingData
	Topic   awssns.Topic
	// First is the operator's first command, without the deployment's flags.
	First string
	// Why is one sentence: what it means that the alarm speaks.
	Why string
	// Policy is the one that the alarm is about; "" is every policy of the region.
	Policy string
}

const (
	// byReason is the alarm on a Metrics Insights query, which no emulator can deploy.
	byReason = "dead-letter-reason"
	// textLimit is the most characters of an alarm's description:
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
	textLimit = 1024
	// namesLimit is the most characters that the names of policies take of it.
	namesLimit = 300
	// The periods in which signals are looked at. SQS publishes each minute.
	minute, fiveMinutes, quarter = time.Minute, 5 * time.Minute, 15 * time.Minute
)

// quiet and silence are the two readings of a missing value: all is well, and nobody
// is there.
const (
	quiet   = awscloudwatch.TreatMissingData_NOT_BREACHING
	silence = awscloudwatch.TreatMissingData_BREACHING
)

// ofRegion is the table of what each region has once: first what threatens the
// objective, then what lies dead, then what runs, then what must never happen.
func (p *parts) ofRegion() []alarm {
	s, pass := p.Settings, p.Settings.ReconcileEvery
	return []alarm{
		{"oldest-message", p.Pages.MetricApproximateAgeOfOldestMessage(gauge(minute)), 2, contract.AlarmShare * p.objective().Seconds(), quiet, p.Page, "runs --late",
			"A message waits so long that the strictest objective of the region is about to be missed.", ""},
		{"business-date-lag", p.measured(contract.BusinessDateLag, contract.ServiceReconcile, gauge(pass)), 3, 1, silence, p.Page, "runs --late",
			"A scheduled date should have been closed and is not, or reconcile itself no longer reports.", ""},
		{"oldest-incomplete-page", p.measured(contract.OldestIncompletePageAge, contract.ServiceReconcile, gauge(pass)), 1, s.Overdue().Seconds(), quiet, p.Ticket, "runs --late",
			"A page that a worker has begun has not ended by the time at which it is sent again.", ""},

		{"dead-letters", p.Letters.MetricApproximateNumberOfMessagesVisible(gauge(fiveMinutes)), 1, 1, quiet, p.Ticket, "dlq",
			"Something lies dead and waits for a person: it is not deleted, and nothing tries it again.", ""},
		{"dead-letter-age", p.Letters.MetricApproximateAgeOfOldestMessage(gauge(fiveMinutes)), 1, p.letterAge(), quiet, p.Ticket, "dlq",
			"A dead letter has lain for half of the time for which the queue keeps it.", ""},
		{byReason, p.lettersByReason(), 1, float64(p.DeadLetterBaseline + 1), quiet, p.Ticket, "dlq",
			"More pages die of one reason than is usual, also where older dead letters keep their own alarm lit.", ""},
		{"schedule-dead-letters", p.ScheduleLetters.MetricApproximateNumberOfMessagesVisible(gauge(fiveMinutes)), 1, 1, quiet, p.Page, "doctor",
			"A tick of a schedule, or a call between functions, was given up: a date may never run.", ""},

		{"scan-time", p.Enqueue.MetricDuration(gauge(fiveMinutes)), 1, float64(s.ScanTimeout.Milliseconds()) / 2, quiet, p.Ticket, "runs",
			"A scan took more than half of the function's limit; past the limit it goes on in pieces, each a pass of reconcile later.", ""},
		{"worker-errors", p.Worker.MetricErrors(total(fiveMinutes)), 2, 1, quiet, p.Page, "runs --late",
			"Invocations of the worker fail as a whole: it crashes, runs out of time or memory, or can not start.", ""},
		{"worker-throttles", p.Worker.MetricThrottles(total(fiveMinutes)), 3, 1, quiet, p.Ticket, "doctor",
			"Lambda refuses to start workers: the account's concurrency is used up, and every refusal costs a receive of a message.", ""},

		{"guard-tripped", p.measured(contract.GuardsTripped, contract.ServiceEnqueue, total(fiveMinutes)), 1, 1, quiet, p.Ticket, "runs",
			"A run would delete more than its limits allow and waits for a person: nothing of it is deleted until then.", ""},
		{"version-not-approved", p.measured(contract.VersionsNotApproved, contract.ServiceEnqueue, total(fiveMinutes)), 1, 1, quiet, p.Ticket, "runs",
			"A run only reports, because nobody has approved that its policy version deletes more than the one before.", ""},
		{"bucket-refused", p.measured(contract.BucketsRefused, contract.ServiceEnqueue, total(fiveMinutes)), 1, 1, quiet, p.Page, "doctor",
			"A policy's bucket can not be listed, so no run was opened and nothing expires.", ""},
		{"evidence-write-failed", p.measured(contract.EvidenceFailures, contract.ServiceWorker, total(fiveMinutes)), 2, 1, quiet, p.Page, "doctor",
			"A plan or a receipt could not be written: without the one nothing is deleted, without the other no page ends.", ""},
		{"marker-undone", p.measured(contract.MarkersUndone, contract.ServiceWorker, total(fiveMinutes)), 1, 1, quiet, p.Page, "runs",
			"A delete marker covered another version than the one that was decided on, and was removed again.", ""},
		{"totals-mismatch", p.measured(contract.TotalsMismatches, contract.ServiceReconcile, gauge(pass)), 1, 1, quiet, p.Page, "runs",
			"The pages of a run do not add up to what its scan recorded, so the run stays open and its evidence unsealed.", ""},
		{"run-not-sealed", p.measured(contract.SealFailures, contract.ServiceReconcile, total(fiveMinutes)), 1, 1, quiet, p.Ticket, "doctor",
			"The manifest of a run could not be kept, so the run stays open although all its pages have ended.", ""},
	}
}

// ofPolicy is the table of what each policy has. Nobody is woken for a policy that
// only reports, and for a dead page only where the policy says that it is urgent (R83).
func (p *parts) ofPolicy(of policy.Policy) []alarm {
	pass := p.Settings.ReconcileEvery
	late, dead := p.Page, p.Ticket
	if of.Mode == reportOnly {
		late = p.Ticket
	}
	if of.Urgent {
		dead = p.Page
	}
	return []alarm{
		// SQS leaves a message that was received three times out of its oldest age, and
		// knows of no page whose message is lost: the ledger knows both (AL-07).
		{"oldest-open-page", p.measuredOf(of, contract.OldestOpenPageAge, gauge(pass)), 1, contract.AlarmShare * of.Objective.Seconds(), quiet, late, "runs --late --policy " + of.Name,
			"A page that may run has not ended, and the policy's objective is about to be missed.", of.Name},
		{"dead-pages", p.measuredOf(of, contract.DeadPages, gauge(pass)), 1, 1, quiet, dead, "dlq --policy " + of.Name,
			"Pages of the policy lie dead: what they hold is not deleted until a person decides.", of.Name},
	}
}

// alarms is the whole table of this region.
func (p *parts) alarms() []alarm {
	all := p.ofRegion()
	for _, of := range p.Policies {
		all = append(all, p.ofPolicy(of)...)
	}
	if p.Emulator {
		all = slices.DeleteFunc(all, func(a alarm) bool { return a.ID == byReason })
	}
	return all
}

// newAlarms declares the alarms, each with its topic for both directions: whoever was
// woken also hears when it is over.
//
// They have names, although names collide. The name is the subject of the mail at
// 03:00, and a generated one says nothing. It holds stage and region, an alarm is not
// kept when the stack goes, and so nothing is left that a new stack could collide with.
func (p *parts) newAlarms() []interfacesawscloudwatch.IAlarmRef {
	scope := constructs.NewConstruct(p.Stack, jsii.String("Alarms"))
	var all []interfacesawscloudwatch.IAlarmRef
	for _, a := range p.alarms() {
		id := a.ID
		if a.Policy != "" {
			id += "-" + a.Policy
		}
		made := awscloudwatch.NewAlarm(scope, &id, &awscloudwatch.AlarmProps{
			AlarmName:          jsii.String(p.name(p.Config.Region + "-" + id)),
			AlarmDescription:   jsii.String(p.describe(a)),
			Metric:             a.Metric,
			ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
			Threshold:          &a.AtLeast,
			EvaluationPeriods:  jsii.Number(a.Periods),
			DatapointsToAlarm:  jsii.Number(a.Periods),
			TreatMissingData:   a.Missing,
		})
		tell := awscloudwatchactions.NewSnsAction(a.Topic)
		made.AddAlarmAction(tell)
		made.AddOkAction(tell)
		all = append(all, made)
	}
	return all
}

// describe is the text of an alarm: where, what of, why, and what to do first (R111).
func (p *parts) describe(a alarm) string {
	of := "policy " + a.Policy
	if a.Policy == "" {
		of = "policies " + p.policyNames()
	}
	return fmt.Sprintf("%s, stage %s, %s. %s\nFirst: expunge %s --region %s --stage %s\nThen: runbook infra/runbooks/%s.md",
		p.Config.Region, p.Stage, of, a.Why, a.First, p.Config.Region, p.Stage, a.ID)
}

// policyNames lists the region's policies, as many as an alarm's text has room for.
func (p *parts) policyNames() string {
	var names []string
	room := namesLimit
	for i, of := range p.Policies {
		if room -= len(of.Name) + len(", "); room < 0 {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(p.Policies)-i)
		}
		names = append(names, of.Name)
	}
	return strings.Join(names, ", ")
}

// objective is the strictest of the policies that delete, or of all where none does:
// a policy that only reports has no deadline that anybody was promised.
func (p *parts) objective() time.Duration {
	all := p.enforcing()
	if len(all) == 0 {
		all = p.Policies
	}
	return slices.MinFunc(all, func(a, b policy.Policy) int { return cmp.Compare(a.Objective, b.Objective) }).Objective
}

// letterAge is at which age of a dead letter somebody is told, in seconds. A dead letter
// expires by when it was first sent, while its age counts from its arrival here: the
// other half is the time that it spent in the source queue, and the time to act.
func (p *parts) letterAge() float64 { return p.Settings.DeadLetterRetention.Seconds() / 2 }

// measured is a metric of our own that a step has for the region.
func (p *parts) measured(m contract.Metric, service string, o *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	o.DimensionsMap = &map[string]*string{contract.DimensionService: &service}
	return p.ours(m, o)
}

// measuredOf is a metric of our own that reconcile has for a policy.
func (p *parts) measuredOf(of policy.Policy, m contract.Metric, o *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	o.DimensionsMap = &map[string]*string{contract.DimensionService: jsii.String(contract.ServiceReconcile), contract.DimensionPolicy: &of.Name}
	return p.ours(m, o)
}

func (p *parts) ours(m contract.Metric, o *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(contract.Namespace(p.Config.Stage)), MetricName: jsii.String(string(m)),
		DimensionsMap: o.DimensionsMap, Statistic: o.Statistic, Period: o.Period, Label: o.Label,
	})
}

// lettersByReason counts dead letters, each reason a contributor of the alarm with a
// state of its own: a second reason is told although the first is still above its
// baseline (AL-04). A query of several series needs its order.
func (p *parts) lettersByReason() awscloudwatch.IMetric {
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String(fmt.Sprintf(`SELECT SUM(%s) FROM SCHEMA(%q, %q, %q) GROUP BY %q ORDER BY SUM() DESC`,
			contract.DeadLetters, contract.Namespace(p.Config.Stage), contract.DimensionService, contract.DimensionReason, contract.DimensionReason)),
		UsingMetrics: &map[string]awscloudwatch.IMetric{},
		Period:       period(quarter),
	})
}

// gauge asks for the greatest value of each period, total for the sum of all.
func gauge(every time.Duration) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: jsii.String("Maximum"), Period: period(every)}
}

func total(every time.Duration) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: jsii.String("Sum"), Period: period(every)}
}

// period is a duration as CloudWatch takes one: whole minutes.
func period(d time.Duration) awscdk.Duration {
	return awscdk.Duration_Minutes(jsii.Number(math.Max(1, math.Ceil(d.Minutes()))))
}
