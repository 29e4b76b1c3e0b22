package wiring_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// metrics reads what the functions have printed for CloudWatch since the last time, as
// it reads it, and sums it by service, metric, and policy or reason.
func (r *region) metrics() map[string]float64 {
	r.t.Helper()
	sums := map[string]float64{}
	for line := range strings.Lines(r.log.take()) {
		var fields map[string]any
		must(r.t, json.Unmarshal([]byte(line), &fields))
		if fields["level"] != nil {
			r.t.Errorf("the line has a level: %s", line)
		}
		var directive struct {
			AWS struct {
				Timestamp         int64
				CloudWatchMetrics []struct {
					Namespace  string
					Dimensions [][]string
					Metrics    []struct{ Name, Unit string }
				}
			} `json:"_aws"`
		}
		must(r.t, json.Unmarshal([]byte(line), &directive))
		for _, d := range directive.AWS.CloudWatchMetrics {
			if d.Namespace != contract.Namespace("prod") || len(d.Dimensions) != 1 || len(d.Metrics) != 1 || directive.AWS.Timestamp < ticked.UnixMilli() {
				r.t.Errorf("CloudWatch does not read %s", line)
				continue
			}
			name := fmt.Sprint(fields[d.Dimensions[0][0]], " ", d.Metrics[0].Name)
			for _, dimension := range d.Dimensions[0][1:] {
				name += fmt.Sprint(" ", fields[dimension])
			}
			value, ok := fields[d.Metrics[0].Name].(float64)
			if !ok {
				r.t.Errorf("no value in %s", line)
			}
			sums[name] += value
		}
	}
	return sums
}

// deny refuses every call of the operation from now on.
func (r *region) deny(operation string) {
	r.meet(func(call wire.Call) wire.Fate {
		if call.Operation == operation {
			return wire.Fate{Error: &wire.Error{Status: http.StatusForbidden, Code: "AccessDenied"}}
		}
		return wire.Fate{}
	})
}

// TestMetricsOfARegion: every function measures in its own name, and what an alarm of
// the region looks at is printed as CloudWatch reads it.
func TestMetricsOfARegion(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	r.deny("ListObjectsV2")
	r.said(r.enqueue, r.sample("enqueue/tick.json"), true)
	wantEqual(t, "a bucket that is closed", r.metrics(), map[string]float64{"enqueue BucketsRefused": 1})

	r.meet(nil)
	r.tick()
	r.deny("DeleteObjects")
	r.drain()
	wantEqual(t, "artifacts that are closed", r.metrics(), map[string]float64{"worker DeadLetters forbidden": 2})

	r.meet(nil)
	r.invoke(r.reconcile, r.sample("reconcile/tick.json"))
	wantEqual(t, "a pass", r.metrics(), map[string]float64{"reconcile BusinessDateLag": 0, "reconcile DeadPages exports": 2})

	for _, p := range r.pages(tickRun()) {
		if p.State == job.Dead { // as if it had lain there for a day
			p.FirstFailure, p.Death.At, p.Death.LetterAt, p.Rev = deadAt, deadAt, deadAt, p.Rev+1
			must(t, r.ledger.SwapPage(t.Context(), p))
		}
	}
	var plan redrive.Plan
	must(t, json.Unmarshal(r.invoke(r.redrive, []byte(`{}`)), &plan))
	r.apply(plan.Token)
	wantEqual(t, "a redrive", r.metrics(), map[string]float64{"redrive PagesRedriven": 2})

	r.drain()
	got := r.metrics()
	if got["worker RecoveryTime"] <= 0 {
		t.Errorf("it took %v s", got["worker RecoveryTime"])
	}
	delete(got, "worker RecoveryTime")
	wantEqual(t, "its pages", got, map[string]float64{
		"worker PagesCompleted": 2, "worker RedrivesCompleted": 2, "worker ItemsDeleted": 4, "worker ItemsHeld": 1,
	})
}

// TestMetricsOfClosedEvidence: without its plan no page goes on.
func TestMetricsOfClosedEvidence(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	r.tick()
	r.deny("PutObject")
	r.poll()
	wantEqual(t, "counted", r.metrics(), map[string]float64{"worker EvidenceFailures": 2, "worker PagesRetried": 2})
	r.wantObjects(t, everything()...)
}
