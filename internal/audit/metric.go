package audit

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
)

// Measurement is one value of a metric at an instant.
type Measurement struct {
	Time   time.Time
	Metric contract.Metric
	// Service is the step that measured, Policy the one that it is about, "" for the region.
	Service, Policy string
	// Reason is that of the dead letters that are counted, "" for what is not counted by reason.
	Reason job.Reason
	Value  float64
}

// Gauges takes measurements. Like a Sink it must not fail the step.
type Gauges interface {
	Measure(m Measurement)
}

// Measure writes the measurement as one line in CloudWatch's embedded metric format:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
// It says nothing of a level, which Lambda then takes for INFO.
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
	dimensions := []string{contract.DimensionService}
	line := map[string]any{contract.DimensionService: m.Service, string(m.Metric): m.Value}
	if m.Policy != "" {
		dimensions = append(dimensions, contract.DimensionPolicy)
		line[contract.DimensionPolicy] = m.Policy
	}
	if m.Reason != "" {
		dimensions = append(dimensions, contract.DimensionReason)
		line[contract.DimensionReason] = m.Reason
	}
	line["_aws"] = map[string]any{
		"Timestamp":         m.Time.UnixMilli(),
		"CloudWatchMetrics": []directive{{contract.Namespace(l.stage), [][]string{dimensions}, []named{{string(m.Metric), m.Metric.Unit()}}}},
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
	return string(m.Metric) + "{" + m.Policy + string(m.Reason) + "} " + strconv.FormatFloat(m.Value, 'f', -1, 64)
}
