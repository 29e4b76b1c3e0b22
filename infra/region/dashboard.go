package region

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/expunge-aws/expunge/internal/contract"
)

// newDashboard declares the region's dashboard. Under the alarms stand three rows, each
// with the part of the flow that it looks at: who is on call asks whether work moves,
// who redrives whether the dead come back, who answers for the deletions whether they
// happen.
//
// An account has its dashboards for all regions together, so the name tells them apart.
func (p *parts) newDashboard(alarms []interfacesawscloudwatch.IAlarmRef) {
	d := awscloudwatch.NewDashboard(p.Stack, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{
		DashboardName: jsii.String(p.name(p.Config.Region)),
		Start:         jsii.String("-PT24H"), // a daily run and what became of it
	})
	for some := range slices.Chunk(alarms, widgetAlarms) {
		d.AddWidgets(awscloudwatch.NewAlarmStatusWidget(&awscloudwatch.AlarmStatusWidgetProps{
			Title: jsii.String("Alarms of " + p.Config.Region), Alarms: &some, Width: jsii.Number(gridWidth), Height: jsii.Number(4),
		}))
	}
	addRow(d, "On call: does work move?  enqueue -> **pages -> worker -> dead letters** -> redrive -> reconcile", p.onCall())
	addRow(d, "Recovery: do the dead come back?  enqueue -> pages -> worker -> **dead letters -> redrive** -> reconcile", p.recovery())
	addRow(d, "Deletion: does it happen?  **enqueue** -> pages -> worker -> dead letters -> redrive -> **reconcile**", p.deletion())
}

// graph is one widget.
type graph struct {
	Title   string
	Metrics []awscloudwatch.IMetric
	// Alarm is where the alarm on it speaks, 0 where there is none.
	Alarm float64
}

// onCall is what whoever is on call looks at first (R105). It shows both queues of
// pages: a policy begins in the second.
func (p *parts) onCall() []graph {
	completed, retried := p.counted(contract.PagesCompleted, contract.ServiceWorker, ""), p.counted(contract.PagesRetried, contract.ServiceWorker, "")
	return []graph{
		{"Oldest message (seconds)", p.both(func(q awssqs.Queue, label string) awscloudwatch.IMetric {
			return q.MetricApproximateAgeOfOldestMessage(labelled(gauge(minute), label))
		}), contract.AlarmShare * p.objective().Seconds()},
		{"Visible messages", p.both(func(q awssqs.Queue, label string) awscloudwatch.IMetric {
			return q.MetricApproximateNumberOfMessagesVisible(labelled(gauge(minute), label))
		}), 0},
		{"Messages in flight", p.both(func(q awssqs.Queue, label string) awscloudwatch.IMetric {
			return q.MetricApproximateNumberOfMessagesNotVisible(labelled(gauge(minute), label))
		}), 0},
		{"Received and not acknowledged", p.both(unacknowledged), 0},
		{"Dead letters", []awscloudwatch.IMetric{p.Letters.MetricApproximateNumberOfMessagesVisible(labelled(gauge(fiveMinutes), "dead letters"))}, 1},
		// A share, because without a retry there is nothing to divide by.
		{"Success to retry (% of attempts)", []awscloudwatch.IMetric{share("success", completed, retried)}, 0},
	}
}

// recovery is what became of what died (R106).
func (p *parts) recovery() []graph {
	return []graph{
		{"Dead letters by region", p.lettersByRegion(), 0},
		{"Oldest dead letter (seconds)", []awscloudwatch.IMetric{p.Letters.MetricApproximateAgeOfOldestMessage(labelled(gauge(fiveMinutes), "oldest"))}, p.letterAge()},
		{"Pages redriven", []awscloudwatch.IMetric{p.counted(contract.PagesRedriven, contract.ServiceRedrive, "redriven")}, 0},
		// A page completes later than it is redriven: only the sums of both say something.
		{"Redrive success (% of the pages so far)", []awscloudwatch.IMetric{ratio("success", "100 * RUNNING_SUM(FILL(%[1]s, 0)) / RUNNING_SUM(FILL(%[2]s, 0))",
			p.counted(contract.RedrivesCompleted, contract.ServiceWorker, ""), p.counted(contract.PagesRedriven, contract.ServiceRedrive, ""))}, 0},
		{"First failure to success (seconds)", []awscloudwatch.IMetric{
			p.measured(contract.RecoveryTime, contract.ServiceWorker, labelled(&awscloudwatch.MetricOptions{Statistic: jsii.String("p50"), Period: period(fiveMinutes)}, "median")),
			p.measured(contract.RecoveryTime, contract.ServiceWorker, labelled(gauge(fiveMinutes), "longest")),
		}, 0},
	}
}

// deletion is whether what should be gone is gone (R107).
func (p *parts) deletion() []graph {
	held, deleted := p.counted(contract.ItemsHeld, contract.ServiceWorker, ""), p.counted(contract.ItemsDeleted, contract.ServiceWorker, "")
	return []graph{
		{"Business dates behind the latest completed", []awscloudwatch.IMetric{
			p.measured(contract.BusinessDateLag, contract.ServiceReconcile, labelled(gauge(fiveMinutes), p.Config.Region)), p.byPolicy(contract.BusinessDateLag)}, 1},
		{"Oldest claimed and incomplete page (seconds)", []awscloudwatch.IMetric{p.byPolicy(contract.OldestIncompletePageAge)}, p.Settings.Overdue().Seconds()},
		{"Retry age: oldest open page (seconds)", []awscloudwatch.IMetric{p.byPolicy(contract.OldestOpenPageAge)}, 0},
		{"Dead pages by policy", []awscloudwatch.IMetric{p.byPolicy(contract.DeadPages)}, 1},
		{"Held to deleted (% of both)", []awscloudwatch.IMetric{share("held", held, deleted)}, 0},
	}
}

// both is a metric of the two queues of pages.
func (p *parts) both(of func(q awssqs.Queue, label string) awscloudwatch.IMetric) []awscloudwatch.IMetric {
	return []awscloudwatch.IMetric{of(p.Pages, enforce), of(p.Report, reportOnly)}
}

// unacknowledged is how many messages a worker took and did not finish: it failed, gave
// them back for later, or died.
func unacknowledged(q awssqs.Queue, label string) awscloudwatch.IMetric {
	return ratio(label, "%[1]s - %[2]s", q.MetricNumberOfMessagesReceived(total(fiveMinutes)), q.MetricNumberOfMessagesDeleted(total(fiveMinutes)))
}

// lettersByRegion shows this region beside the others of the deployment. Their queues
// have the same name.
func (p *parts) lettersByRegion() (all []awscloudwatch.IMetric) {
	for _, region := range p.Regions {
		all = append(all, awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
			Namespace: jsii.String("AWS/SQS"), MetricName: jsii.String("ApproximateNumberOfMessagesVisible"),
			DimensionsMap: &map[string]*string{"QueueName": p.Letters.QueueName()},
			Statistic:     jsii.String("Maximum"), Period: period(fiveMinutes), Region: &region, Label: &region,
		}))
	}
	return all
}

// counted is the sum of a counter of ours.
func (p *parts) counted(m contract.Metric, service, label string) awscloudwatch.IMetric {
	o := total(fiveMinutes)
	if label != "" {
		o = labelled(o, label)
	}
	return p.measured(m, service, o)
}

// byPolicy is a gauge of every policy that has one. A search and no list: a policy that
// is no longer deployed may still have pages. The namespace stands in quotes, for a stage
// may have a hyphen:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html
func (p *parts) byPolicy(m contract.Metric) awscloudwatch.IMetric {
	return awscloudwatch.NewSearchExpression(&awscloudwatch.SearchExpressionProps{
		Expression: jsii.String(fmt.Sprintf(`SEARCH('{%q,%s,%s} MetricName=%q', 'Maximum', %.0f)`,
			contract.Namespace(p.Config.Stage), contract.DimensionService, contract.DimensionPolicy, m, fiveMinutes.Seconds())),
		Label: jsii.String("${PROP('Dim." + contract.DimensionPolicy + "')}"), Period: period(fiveMinutes),
	})
}

// share is a in percent of a and b together.
func share(label string, a, b awscloudwatch.IMetric) awscloudwatch.IMetric {
	return ratio(label, "100 * FILL(%[1]s, 0) / (FILL(%[1]s, 0) + FILL(%[2]s, 0))", a, b)
}

// ratio is an expression of two metrics. Their ids are unique in a widget, as its
// labels are.
func ratio(label, expression string, a, b awscloudwatch.IMetric) awscloudwatch.IMetric {
	id := strings.ReplaceAll(label, "-", "_")
	first, second := id+"_a", id+"_b"
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String(fmt.Sprintf(expression, first, second)), Label: &label, Period: period(fiveMinutes),
		UsingMetrics: &map[string]awscloudwatch.IMetric{first: a, second: b},
	})
}

func labelled(o *awscloudwatch.MetricOptions, label string) *awscloudwatch.MetricOptions {
	o.Label = &label
	return o
}

const (
	gridWidth   = 24 // of every dashboard: CloudWatch's own
	graphHeight = 6
	// widgetAlarms is how many alarms a widget takes, and a region of many policies has more:
	// https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
	widgetAlarms = 100
)

// addRow adds a heading, and the graphs side by side over the whole width.
func addRow(d awscloudwatch.Dashboard, heading string, graphs []graph) {
	d.AddWidgets(awscloudwatch.NewTextWidget(&awscloudwatch.TextWidgetProps{
		Markdown: jsii.String("## " + heading), Width: jsii.Number(gridWidth), Height: jsii.Number(1), Background: awscloudwatch.TextWidgetBackground_TRANSPARENT,
	}))
	widgets := make([]awscloudwatch.IWidget, len(graphs))
	for i, g := range graphs {
		width := gridWidth / len(graphs)
		if i < gridWidth%len(graphs) {
			width++
		}
		props := &awscloudwatch.GraphWidgetProps{
			Title: &g.Title, Left: &g.Metrics, Width: jsii.Number(width), Height: jsii.Number(graphHeight),
			LeftYAxis: &awscloudwatch.YAxisProps{Min: jsii.Number(0), ShowUnits: jsii.Bool(false)},
		}
		if g.Alarm > 0 {
			props.LeftAnnotations = &[]*awscloudwatch.HorizontalAnnotation{{Value: &g.Alarm, Label: jsii.String("alarm"), Color: jsii.String("#d13212")}}
		}
		widgets[i] = awscloudwatch.NewGraphWidget(props)
	}
	d.AddWidgets(widgets...)
}
