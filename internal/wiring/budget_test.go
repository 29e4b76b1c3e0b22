package wiring_test

import (
	"fmt"
	"maps"
	"os"
	"testing"

	"github.com/expunge-aws/expunge/internal/job"
)

// callRow is one reason for which a step asks AWS something: how often in a run, how
// often for each page, and how often for each ten pages that are begun.
type callRow struct {
	call                string // service and operation
	run, page, tenPages int
	why                 string
}

// The calls of the clean path. No row is for an object.
func enqueueCalls() []callRow {
	return []callRow{
		{"dynamodb TransactWriteItems", 1, 0, 0, "publish the policy version, and its name"},
		{"dynamodb GetItem", 1, 0, 0, "which version may delete"},
		{"dynamodb PutItem", 1, 0, 0, "open the run"},
		{"dynamodb GetItem", 1, 0, 0, "read the published version back"},
		{"s3 ListObjectsV2", 1, 0, 0, "look whether the bucket can be listed"},
		{"s3 ListObjectsV2", 0, 1, 0, "scan"},
		{"dynamodb TransactWriteItems", 0, 1, 0, "record a page and move the cursor"},
		{"dynamodb Query", 1, 0, 0, "the policy's history, for the guard"},
		{"dynamodb PutItem", 1, 0, 0, "release the run"},
		{"dynamodb Query", 1, 0, 0, "the run's tenants"},
		{"dynamodb Query", 4, 0, 0, "the places of a tenant's ranges and items, for up to 100 pages, and that there are no more"},
		{"dynamodb BatchGetItem", 1, 0, 0, "those pages"},
		{"sqs SendMessageBatch", 0, 0, 1, "send ten messages"},
		{"dynamodb TransactWriteItems", 1, 0, 0, "note up to 100 messages as sent"},
	}
}

func workerCalls() []callRow {
	return []callRow{
		{"dynamodb GetItem", 1, 0, 0, "the run, once in a process"},
		{"dynamodb GetItem", 1, 0, 0, "the policy version, once in a process"},
		{"dynamodb BatchGetItem", 0, 1, 0, "the page and the brakes, before the claim"},
		{"dynamodb PutItem", 0, 1, 0, "claim"},
		{"dynamodb GetItem", 0, 1, 0, "the tenant's hold epoch; at 0 there are no holds to read"},
		{"s3 ListObjectsV2", 0, 1, 0, "list the range afresh"},
		{"s3 PutObject", 0, 1, 0, "the plan"},
		{"dynamodb GetItem", 0, 1, 0, "the brakes, before the intent"},
		{"dynamodb TransactWriteItems", 0, 1, 0, "commit the intent under the epoch"},
		{"s3 DeleteObjects", 0, 1, 0, "delete, a thousand keys at a time"},
		{"s3 PutObject", 0, 1, 0, "the receipt"},
		{"dynamodb PutItem", 0, 1, 0, "complete"},
	}
}

// pollerCalls are Lambda's, not the function's. They cost money all the same.
func pollerCalls() []callRow {
	return []callRow{
		{"sqs ReceiveMessage", 1, 0, 1, "receive ten, and look once more in vain"},
		{"sqs DeleteMessageBatch", 0, 0, 1, "acknowledge ten"},
	}
}

// closeCalls are those of the pass that closes the run. There is a pass every five
// minutes, runs or not; what it costs a run does not grow with its objects.
func closeCalls() []callRow {
	return []callRow{
		{"dynamodb Query", 1, 0, 0, "the index of open runs"},
		{"dynamodb BatchGetItem", 1, 0, 0, "those runs"},
		{"dynamodb GetItem", 1, 0, 0, "how far the policy's dates were looked at"},
		{"dynamodb PutItem", 1, 0, 0, "and that it is from now on: once in a policy's life"},
		{"dynamodb Query", 1, 0, 0, "the policy's newest closed run, for the lag"},
		{"dynamodb GetItem", 1, 0, 0, "the brakes"},
		{"dynamodb Query", 1, 0, 0, "the index of open pages: none"},
		{"dynamodb Query", 1, 0, 0, "the index of dead pages: none"},
		{"dynamodb Query", 1, 0, 0, "the index of open redrives: none"},
		{"dynamodb GetItem", 1, 0, 0, "the run"},
		{"dynamodb Query", 1, 0, 0, "its tenants"},
		{"dynamodb Query", 2, 0, 0, "the places of a tenant's ranges and items: of fewer than 100 pages these are all"},
		{"dynamodb BatchGetItem", 1, 0, 0, "those pages"},
		{"s3 PutObject", 1, 0, 0, "its manifest"},
		{"dynamodb TransactWriteItems", 1, 0, 0, "close the run, and put it into its policy's history"},
		{"dynamodb TransactWriteItems", 1, 0, 0, "publish the policy with its first watch, once in its life"},
	}
}

// of returns what the rows add up to for a run of some pages, by call and in all.
func of(pages int, rows []callRow) (calls map[string]int, sum int) {
	calls = map[string]int{}
	for _, row := range rows {
		n := row.run + row.page*pages + row.tenPages*((pages+9)/10)
		calls[row.call] += n
		sum += n
	}
	return calls, sum
}

// mostPerThousand is how many API operations a thousand objects may cost from the
// tick to the closed run, Lambda's poller apart.
const mostPerThousand = 14

// The budget of DynamoDB's units for a thousand objects, on the same path.
const (
	mostWriteUnits = 17
	mostReadUnits  = 6
)

// TestBudget counts every call at the wire, retries included, of one tenant's
// clean path through the real handlers and adapters. The two sizes have to obey
// one table that knows pages and no objects.
func TestBudget(t *testing.T) {
	for _, size := range []struct{ objects, pages int }{{1_500, 2}, {20_000, 20}} {
		t.Run(fmt.Sprint(size.objects), func(t *testing.T) {
			r := newRegion(t, os.DirFS("testdata/bulk"))
			must(t, r.s3.Seed(bucket, expired("acme-eu", size.objects)))
			r.units.take()

			enqueue, enqueued := of(size.pages, enqueueCalls())
			r.tick()
			wantEqual(t, "enqueue", r.count(), enqueue)

			worker, worked := of(size.pages, workerCalls())
			poller, polled := of(size.pages, pollerCalls())
			maps.Copy(worker, poller) // none is in both
			r.drain()
			wantEqual(t, "worker and poller", r.count(), worker)
			read, write := r.units.take()

			closing, closed := of(size.pages, closeCalls())
			r.invoke(r.reconcile, r.sample("reconcile/tick.json"))
			wantEqual(t, "reconcile", r.count(), closing)

			wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": size.objects})
			if state := r.run(tickRun()).State; state != job.Closed {
				t.Errorf("the run is %s", state)
			}
			per := func(n float64) float64 { return n * 1000 / float64(size.objects) }
			t.Logf("per 1,000 objects: enqueue %.2f, worker %.2f, poller %.2f, closing pass %.2f calls; %.2f write and %.2f read units",
				per(float64(enqueued)), per(float64(worked)), per(float64(polled)), per(float64(closed)), per(write), per(read))
			if size.objects < 20_000 {
				return // what a run costs is not spread over enough
			}
			if got := per(float64(enqueued + worked + closed)); got > mostPerThousand {
				t.Errorf("%.2f API operations per 1,000 objects, at most %d", got, mostPerThousand)
			}
			if per(write) > mostWriteUnits || per(read) > mostReadUnits {
				t.Errorf("%.2f write and %.2f read units per 1,000 objects, at most %d and %d", per(write), per(read), mostWriteUnits, mostReadUnits)
			}
		})
	}
}
