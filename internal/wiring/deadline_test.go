package wiring_test

import (
	"context"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/job"
)

// GO-04: a tool that sends no deadline, or one that is over, gets every message
// back. Nothing was begun: neither the ledger nor S3 was asked.
func TestWorkerWithoutTime(t *testing.T) {
	past, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0)) // what aws-lambda-go makes of a deadline of 0
	defer cancel()
	soon, cancel := context.WithTimeout(context.Background(), 5*time.Second) // less than it takes to begin a message
	defer cancel()
	for name, ctx := range map[string]context.Context{"absent": context.Background(), "past": past, "too soon": soon} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t, os.DirFS("testdata/samples"))
			r.fill()
			r.tick()
			r.count()
			answer, err := r.worker.Invoke(ctx, r.sample("worker/batch-with-poison.json"))
			must(t, err)
			const want = `{"batchItemFailures":[{"itemIdentifier":"1c9b7e02-64d8-4f7a-8a55-0f3de1b8c6a3"},` +
				`{"itemIdentifier":"5e2f8d14-7b3a-4c60-b1e9-9a4c7f05d2b8"},{"itemIdentifier":"b7403a9c-2d51-4e8f-a6c7-3e8b1d94f05a"}]}`
			if string(answer) != want {
				t.Errorf("answered %s", answer)
			}
			wantEqual(t, "calls", r.count(), map[string]int{})
			r.wantObjects(t, everything()...)
		})
	}
}

// GO-04 for the other two: a run may be opened, for its row is what the next
// invocation goes on from, but the bucket is not read and nothing is sent.
func TestOthersWithoutTime(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	answer, err := r.enqueue.Invoke(context.Background(), r.sample("enqueue/tick.json"))
	must(t, err)
	if want := `{"run_id":"` + string(tickRun()) + `","state":"scanning"}`; string(answer) != want {
		t.Errorf("enqueue answered %s", answer)
	}
	wantOnly(t, r.count(), "dynamodb")
	answer, err = r.reconcile.Invoke(context.Background(), r.sample("reconcile/tick.json"))
	must(t, err)
	if want := `{"resumed":0,"resent":0,"buried":0,"letters":0,"closed":0,"missed":0,"started":0,"continued":0,"finished":0}`; string(answer) != want {
		t.Errorf("reconcile answered %s", answer)
	}
	wantOnly(t, r.count(), "dynamodb")
	r.invoke(r.enqueue, r.sample("enqueue/tick.json")) // with time, it goes on
	if run := r.run(tickRun()); run.State != job.Released {
		t.Errorf("run %+v", run)
	}
}

func wantOnly(t *testing.T, calls map[string]int, service string) {
	t.Helper()
	maps.DeleteFunc(calls, func(call string, _ int) bool { return strings.HasPrefix(call, service+" ") })
	if len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
}

// SQ-01: of a batch A, B, C in which S3 is unavailable to B, the answer is exactly
// these bytes; then A and C are gone, and B comes back with its second receive.
func TestBatchResponse(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	must(t, r.s3.Seed(bucket, expired("zeta", 3)))
	r.tick()
	batch := r.receive()
	if len(batch) != 3 {
		t.Fatalf("%d messages", len(batch))
	}
	b, err := job.Decode([]byte(batch[1].Body))
	must(t, err)
	r.meet(func(call wire.Call) wire.Fate {
		if call.Service == "s3" && strings.Contains(call.Resource, string(b.PageID)) { // its evidence
			return wire.Fate{Error: &wire.Error{Status: http.StatusServiceUnavailable, Code: "SlowDown"}}
		}
		return wire.Fate{}
	})
	answer := r.invoke(r.worker, marshal(t, events.SQSEvent{Records: batch}))
	if want := `{"batchItemFailures":[{"itemIdentifier":"` + batch[1].MessageId + `"}]}`; string(answer) != want {
		t.Errorf("answered\n%s, want\n%s", answer, want)
	}
	r.meet(nil)
	r.settle(batch, answer)
	left := r.queued(pagesName)
	if len(left) != 1 || left[0].ID != batch[1].MessageId || left[0].Receives != 1 {
		t.Fatalf("left %+v", left)
	}
	q, err := r.sqs.Queue(regionName, pagesName)
	must(t, err)
	must(t, q.SetVisibility(batch[1].ReceiptHandle, 0)) // as its back-off does in a second at the latest
	again := r.receive()
	if len(again) != 1 || again[0].MessageId != batch[1].MessageId || again[0].Attributes["ApproximateReceiveCount"] != "2" {
		t.Errorf("again %+v", again)
	}
	wantEqual(t, "pages", r.states(tickRun()), map[string]job.PageState{
		"acme-eu": job.Completed, "school-4": job.Completed, "school-42": job.Retrying, "zeta": job.Completed,
	})
}
