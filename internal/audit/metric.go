package audit

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// Namespace is the CloudWatch namespace of every metric.
const Namespace = "Expunge"

// Metric is a name in CloudWatch. The list is closed.
type Metric string

// The metrics. Each has the dimensions service and, where it is about a policy,
// policy; never a tenant, a key or a text (R101).
const (
	// OldestOpenPageAge is for how long the oldest page of a policy that may run has
	// not ended, in seconds; 0 when there is none.
	OldestOpenPageAge Metric = "OldestOpenPageAge"
	// OldestIncompletePageAge is the same of pages that a worker has begun.
	OldestIncompletePageAge Metric = "OldestIncompletePageAge"
	// BusinessDateLag is how many scheduled dates after the newest closed run should
	// have been closed by now (R112).
	BusinessDateLag Metric = "BusinessDateLag"
	// MissedDates is how many scheduled dates were found without a run in this pass.
	MissedDates Metric = "MissedDates"
	// DeadPages is how many pages of a policy wait for an operator.
	DeadPages Metric = "DeadPages"
	// TotalsMismatches is how many runs do not add up in this pass.
	TotalsMismatches Metric = "TotalsMismatches"
)

// unit is the unit of a metric, as CloudWatch names it.
func (m Metric) unit() string {
	switch m {
	case OldestOpenPageAge, OldestIncompletePageAge:
		return "Seconds"
	default:
		return "Count"
	}
}

// Measurement is one value of a metric at an instant.
type Measurement struct {
	Time   time.Time
	Metric Metric
	// Service is the step that measured, Policy the one that it is about, "" for the region.
	Service, Policy string
	Value           float64
}

// Gauges takes measurements. Like a Sink it must not fail the step.
type Gauges interface {
	Measure(m Measurement)
}

// Measure writes the measurement as one line in CloudWatch's embedded metric format:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
func (l *Lines) Measure(m Measurement) {
	type named struct {
		Name string
		Unit string
	}
	type directive struct {
		Namespace  string
		Dimensions [][]string
		Metrics    []named
	}
	dimensions := []string{"service"}
	line := map[string]any{"service": m.Service, string(m.Metric): m.Value}
	if m.Policy != "" {
		dimensions = append(dimensions, "policy")
		line["policy"] = m.Policy
	}
	line["_aws"] = map[string]any{
		"Timestamp":         m.Time.UnixMilli(),
		"CloudWatchMetrics": []directive{{Namespace, [][]string{dimensions}, []named{{string(m.Metric), m.Metric.unit()}}}},
	}
	b, err := json.Marshal(line, json.Deterministic(true))
	if err != nil {
		return // only a value that is no number can do this
	}
	l.write(b)
}

// Measure keeps the measurement.
func (l *Log) Measure(m Measurement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measured = append(l.measured, m)
}

// Measured returns a copy of what was measured, in order.
func (l *Log) Measured() []Measurement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Measurement(nil), l.measured...)
}

func (m Measurement) String() string {
	return string(m.Metric) + "{" + m.Policy + "} " + strconv.FormatFloat(m.Value, 'f', -1, 64)
}
