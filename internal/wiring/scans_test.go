package wiring_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// TestMissedDateIsCaughtUp plays a night in which the schedule started nothing,
// through the real handlers: reconcile says so and asks enqueue for the run of that
// date, as the schedule would have. Asked again, it is one run.
func TestMissedDateIsCaughtUp(t *testing.T) {
	text, err := os.ReadFile("testdata/samples/exports.yaml")
	must(t, err)
	i := bytes.Index(text, []byte("schedule:"))
	date := time.Now().UTC().Add(-2 * time.Hour).Truncate(time.Minute)
	text = append(text[:i:i], "schedule: {every: daily, at: \""+date.Format("15:04")+"\", zone: UTC, catch_up: true}\n"...)
	r := newRegion(t, fstest.MapFS{"exports.yaml": {Data: text}})
	r.fill()
	before := date.Add(-time.Minute)
	must(t, r.ledger.SwapWatch(t.Context(), job.Watch{Policy: "exports", Rev: 1, Since: before, Through: before}))
	if answer := r.invoke(r.reconcile, r.sample("reconcile/tick.json")); !bytes.Contains(answer, []byte(`"missed":1,"started":1`)) {
		t.Errorf("%s", answer)
	}
	must(t, <-r.resumed)
	if run := r.run(job.ScheduledRunID(regionName, "exports", date)); run.State != job.Released || !run.Scheduled.Equal(date) || run.Candidates == 0 {
		t.Errorf("%+v", run)
	}
	log := r.log.take()
	if !strings.Contains(log, `"event":"run_date_missed"`) || !strings.Contains(log, `"scheduled":"`+date.Format(time.RFC3339)+`"`) {
		t.Errorf("the log does not say which date:\n%s", log)
	}
	if !strings.Contains(log, `"MissedDates":1`) || !strings.Contains(log, `"BusinessDateLag":`) {
		t.Errorf("the log has no measurements:\n%s", log)
	}
	if answer := r.invoke(r.reconcile, r.sample("reconcile/tick.json")); !bytes.Contains(answer, []byte(`"missed":0,"started":0`)) {
		t.Errorf("the next pass: %s", answer)
	}
}
