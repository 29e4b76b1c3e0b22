package region

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/contract"
)

// What a region costs in a month of 30 days in which nothing is to be deleted, at list
// prices in dollars of 2026 and without the amounts that an account has free; the one
// exception says so. The dearer of Frankfurt and Virginia counts.
const (
	priceAlarm    = 0.10           // for each metric in it; a query counts each metric that it finds, which is none: https://aws.amazon.com/cloudwatch/pricing/
	priceMetric   = 0.30           // of our own that has a value: same page
	priceRequest  = 0.40 / 1e6     // of SQS: https://aws.amazon.com/sqs/pricing/
	priceTick     = 1.00 / 1e6     // https://aws.amazon.com/eventbridge/pricing/
	priceCall     = 0.20 / 1e6     // of Lambda: https://aws.amazon.com/lambda/pricing/
	priceSecond   = 0.0000133334   // of one GB on arm64: same page
	priceRead     = 0.1525 / 1e6   // unit of DynamoDB, on demand: https://aws.amazon.com/dynamodb/pricing/on-demand/
	priceLog      = 0.63 / 1e9     // byte of a log: https://aws.amazon.com/cloudwatch/pricing/
	priceKey      = 1.00           // https://aws.amazon.com/kms/pricing/
	freeTraces    = 100_000        // an account's in each month; each more is $5 a million: https://aws.amazon.com/xray/pricing/
	freeDashboard = 3              // an account's; each more is $3
	pollRequests  = 5 * 3 * 43_200 // of a mapping: five pollers, each 20 seconds, for 30 days: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
	budget        = 3.00

	// Assumed of a call that finds nothing to do: how long it takes, what it reads, and
	// what it writes to the log.
	idleSeconds, idleReads, idleLog = 0.3, 20, 1_000
)

// A cost is one line of the table.
type cost struct {
	what  string
	count float64
	price float64
}

// idleCosts counts them from the template.
func idleCosts(t *testing.T, stack template) []cost {
	t.Helper()
	metrics, published := 0, 0
	for _, a := range stack.things(kindAlarm) {
		metrics += max(1, len(values(a.at("Metrics"))))
		// A metric of ours whose absence alarms is the one that is always published.
		if a.word("TreatMissingData") == "breaching" && a.word("Namespace") == contract.Namespace(stack.config.Stage) {
			published++
		}
	}
	if published != 1 {
		t.Errorf("%d metrics are published when nothing happens, want one", published)
	}
	ticks, gbSeconds := 0.0, 0.0
	for _, s := range stack.things("AWS::Scheduler::Schedule") {
		n := perMonth(t, s.word("ScheduleExpression"))
		f := stack.thing(kindFunction, strings.TrimSuffix(strings.TrimPrefix(s.word("Target", "Arn"), "<"), ".Arn>"))
		ticks += n
		gbSeconds += n * idleSeconds * f.number("MemorySize") / 1024
	}
	if ticks > freeTraces || len(stack.things("AWS::CloudWatch::Dashboard")) > freeDashboard {
		t.Errorf("%.0f traces and %d dashboards are more than an account has free", ticks, len(stack.things("AWS::CloudWatch::Dashboard")))
	}
	return []cost{
		{"alarms, by metric", float64(metrics), priceAlarm},
		{"metrics that always have a value", float64(published), priceMetric},
		{"requests of pollers", float64(len(stack.things(kindMapping)) * pollRequests), priceRequest},
		{"ticks of schedules", ticks, priceTick},
		{"calls", ticks, priceCall},
		{"GB-seconds", gbSeconds, priceSecond},
		{"reads of the ledger", ticks * idleReads, priceRead},
		{"bytes of logs", ticks * idleLog, priceLog},
		{"traces, of the 100,000 that are free", ticks, 0},
		{"dashboards, of the 3 that are free", float64(len(stack.things("AWS::CloudWatch::Dashboard"))), 0},
		{"customer keys", float64(len(stack.things(kindKey))), priceKey},
	}
}

var rateOf = regexp.MustCompile(`^rate\(([0-9]+) minutes?\)$`)

// perMonth is how often a schedule fires in 30 days, at most.
func perMonth(t *testing.T, expression string) float64 {
	t.Helper()
	if m := rateOf.FindStringSubmatch(expression); m != nil {
		minutes, _ := strconv.Atoi(m[1])
		return 30 * 24 * 60 / float64(minutes)
	}
	if !strings.HasPrefix(expression, "cron(") {
		t.Errorf("the schedule %s is neither a rate nor a cron", expression)
	}
	return 30 // of a weekly one too
}

// TestIdleCost counts what the region of the example policies costs while it waits.
func TestIdleCost(t *testing.T) {
	stack := synthesised(t, given("policies", "../policies", "regions", "eu-central-1"), "idle")["eu-central-1"]
	if len(stack.config.Policies) != 2 {
		t.Fatalf("eu-central-1 has %d policies, want the two that the budget is for", len(stack.config.Policies))
	}
	var rows [][]string
	sum := 0.0
	for _, c := range idleCosts(t, stack) {
		month := c.count * c.price
		sum += month
		rows = append(rows, []string{c.what, strconv.FormatFloat(c.count, 'f', 0, 64), strconv.FormatFloat(c.price, 'g', 6, 64), fmt.Sprintf("%.4f", month)})
	}
	rows = append(rows, []string{"in all", "", "", fmt.Sprintf("%.4f", sum)})
	got := "# eu-central-1, two policies, a month in which nothing is to be deleted: dollars at list price\n" + table("what count price month", rows)
	golden(t, "idle-cost.golden", got)
	t.Log("\n" + got)
	if sum > budget {
		t.Errorf("the region costs $%.2f a month while it waits, and may cost $%.2f", sum, budget)
	}
	full := idleCosts(t, full())
	if key := full[len(full)-1]; key.count*key.price != priceKey {
		t.Errorf("a customer key costs %.2f", key.count*key.price)
	}
}
