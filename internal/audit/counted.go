package audit

import "github.com/expunge-aws/expunge/internal/contract"

// count is what an event adds to a metric. 0 is not published.
type count struct {
	metric   contract.Metric
	of       func(Event) float64
	byReason bool
}

// counts are the events that are counted. Any other is in the log alone.
var counts = map[Name][]count{
	Succeeded: {
		{metric: contract.PagesCompleted, of: once},
		{metric: contract.ItemsDeleted, of: deleted},
		{metric: contract.ItemsHeld, of: held},
		{metric: contract.RedrivesCompleted, of: redriven},
		{metric: contract.RecoveryTime, of: recovery},
	},
	Discarded: {
		{metric: contract.ItemsDeleted, of: deleted},
		{metric: contract.ItemsHeld, of: held},
	},
	Retried:            {{metric: contract.PagesRetried, of: once}},
	DuplicateObserved:  {{metric: contract.Duplicates, of: once}},
	DeadLettered:       {{metric: contract.DeadLetters, of: once, byReason: true}},
	Redriven:           {{metric: contract.PagesRedriven, of: once}},
	EvidenceFailed:     {{metric: contract.EvidenceFailures, of: once}},
	MarkerUndone:       {{metric: contract.MarkersUndone, of: once}},
	GuardTripped:       {{metric: contract.GuardsTripped, of: once}},
	SealFailed:         {{metric: contract.SealFailures, of: once}},
	VersionNotApproved: {{metric: contract.VersionsNotApproved, of: once}},
	BucketRefused:      {{metric: contract.BucketsRefused, of: once}},
	PolicyRefused:      {{metric: contract.PoliciesRefused, of: once}},
}

func once(Event) float64       { return 1 }
func deleted(e Event) float64  { return float64(e.Deleted) }
func held(e Event) float64     { return float64(e.Held) }
func recovery(e Event) float64 { return float64(e.RecoveryMS) / 1000 }

func redriven(e Event) float64 {
	if e.RedriveID == "" {
		return 0
	}
	return 1
}

// Counted returns a sink that hands each event to s and measures what it counts, in
// the name of the service.
func Counted(s Sink, g Gauges, service string) Sink { return counted{s, g, service} }

type counted struct {
	Sink
	gauges  Gauges
	service string
}

func (c counted) Emit(e Event) {
	c.Sink.Emit(e)
	for _, n := range counts[e.Event] {
		m := Measurement{Time: e.Time, Metric: n.metric, Service: c.service, Value: n.of(e)}
		if n.byReason {
			m.Reason = e.Reason
		}
		if m.Value > 0 {
			c.gauges.Measure(m)
		}
	}
}
