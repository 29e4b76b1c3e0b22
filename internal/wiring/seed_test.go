package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// The samples' region: two tenants with expired exports, one of them partly under
// a legal hold, and a third whose exports are younger than any cutoff.
var (
	old    = time.Date(2026, 1, 10, 4, 0, 0, 0, time.UTC)
	ticked = time.Date(2026, 3, 9, 1, 30, 0, 0, time.UTC)
)

// tickRun and requestRun are the runs that the samples start: their ids depend on
// nothing else.
func tickRun() job.RunID    { return job.ScheduledRunID(regionName, "exports", ticked) }
func requestRun() job.RunID { return job.RequestRunID(regionName, "exports", "ticket-4711") }

const (
	school = "exports/school-42/csv/"
	acme   = "exports/acme-eu/csv/"
	young  = "exports/school-4/csv/today.csv"
)

// fill puts the objects and the hold of the samples' region.
func (r *region) fill() {
	r.t.Helper()
	must(r.t, r.s3.Seed(bucket, func(yield func(s3.Object) bool) {
		for _, key := range []string{
			acme + "2025-12.csv", acme + "case-2291/2025-12.csv",
			school + "2025-10.csv", school + "2025-11.csv", school + "2025-12.csv",
		} {
			if !yield(s3.Object{Key: key, Body: []byte(key), Modified: old}) {
				return
			}
		}
		_ = yield(s3.Object{Key: school + "today.csv", Body: []byte("today")}) && yield(s3.Object{Key: young, Body: []byte("today")})
	}))
	_, err := r.ledger.PlaceHold(r.t.Context(), hold.Hold{
		ID: "hold-2291", Tenant: "acme-eu", Scope: hold.Prefix, Value: acme + "case-2291/",
		Reason: "litigation", By: "counsel", PlacedAt: old,
	})
	must(r.t, err)
}

// sample returns the bytes of a sample input.
func (r *region) sample(path string) []byte {
	r.t.Helper()
	data, err := os.ReadFile(eventsFolder + path)
	must(r.t, err)
	return data
}

// tick fires the schedule.
func (r *region) tick() {
	r.t.Helper()
	r.started(r.invoke(r.enqueue, r.sample("enqueue/tick.json")), tickRun())
}

func (r *region) started(answer []byte, id job.RunID) {
	r.t.Helper()
	var got enqueue.Receipt
	must(r.t, json.Unmarshal(answer, &got))
	if got != (enqueue.Receipt{RunID: id, State: job.Released}) {
		r.t.Fatalf("%s", answer)
	}
}

// die starts a run with a process that ends when the scan has recorded its first
// page.
func (r *region) die(payload []byte) {
	r.t.Helper()
	ctx, end := context.WithTimeout(r.t.Context(), time.Minute)
	defer end()
	recorded := 0
	r.meet(func(call wire.Call) wire.Fate {
		if call.Operation != "TransactWriteItems" {
			return wire.Fate{}
		}
		if recorded++; recorded == 1 {
			return wire.Fate{}
		}
		end() // and with it every call that is under way or would follow
		return wire.Fate{Error: &wire.Error{Status: 500, Code: "InternalServerError"}}
	})
	defer r.meet(nil)
	if answer, err := r.enqueue.Invoke(ctx, payload); err == nil {
		r.t.Fatalf("it did not die: %s", answer)
	}
}

// run returns a run as the ledger has it.
func (r *region) run(id job.RunID) job.Run {
	r.t.Helper()
	run, err := r.ledger.Run(r.t.Context(), id)
	must(r.t, err)
	return run
}

// pages returns the pages of a run, by tenant in order.
func (r *region) pages(id job.RunID) (all []job.Page) {
	r.t.Helper()
	tenants, err := r.ledger.Tenants(r.t.Context(), id)
	must(r.t, err)
	for _, tenant := range tenants {
		for last := (*job.Page)(nil); ; last = &all[len(all)-1] {
			some, err := r.ledger.Pages(r.t.Context(), id, tenant, last, 100)
			must(r.t, err)
			if len(some) == 0 {
				break
			}
			all = append(all, some...)
		}
	}
	return all
}

// states returns the states of a run's pages, by tenant.
func (r *region) states(id job.RunID) map[string]job.PageState {
	r.t.Helper()
	states := map[string]job.PageState{}
	for _, p := range r.pages(id) {
		states[p.Tenant] = p.State
	}
	return states
}

// outcomes adds up the outcomes of a run's pages.
func (r *region) outcomes(id job.RunID) map[string]int {
	r.t.Helper()
	sums := map[string]int{}
	for _, p := range r.pages(id) {
		for _, o := range job.Outcomes() {
			if n := p.Counts[o]; n > 0 {
				sums[o.String()] += n
			}
		}
	}
	return sums
}

// forget loses the messages of the run's pages, and lets them be overdue.
func (r *region) forget(id job.RunID) {
	r.t.Helper()
	q, err := r.sqs.Queue(regionName, pagesName)
	must(r.t, err)
	for {
		got, err := q.Receive(r.t.Context(), 10, 0)
		must(r.t, err)
		if len(got) == 0 {
			break
		}
		for _, m := range got {
			must(r.t, q.Delete(m.Handle))
		}
	}
	for _, p := range r.pages(id) {
		if p.State == job.Completed {
			continue
		}
		p, err := p.Send(old)
		must(r.t, err)
		must(r.t, r.ledger.SwapPage(r.t.Context(), p))
	}
}

// objects returns the keys that stand in the bucket.
func (r *region) objects() []string {
	r.t.Helper()
	var keys []string
	for in := (&awss3.ListObjectsV2Input{Bucket: aws.String(bucket), EncodingType: s3types.EncodingTypeUrl}); ; {
		out, err := r.s3c.ListObjectsV2(r.t.Context(), in)
		must(r.t, err)
		for _, o := range out.Contents {
			key, err := url.QueryUnescape(*o.Key)
			must(r.t, err)
			keys = append(keys, key)
		}
		if in.ContinuationToken = out.NextContinuationToken; in.ContinuationToken == nil {
			return keys
		}
	}
}

// bodies returns the bodies of the messages in the pages queue.
func (r *region) bodies() (all []string) {
	r.t.Helper()
	for _, m := range r.queued(pagesName) {
		all = append(all, m.Body)
	}
	slices.Sort(all)
	return all
}

// expired yields n expired objects of one tenant.
func expired(tenant string, n int) iter.Seq[s3.Object] {
	return func(yield func(s3.Object) bool) {
		for i := range n {
			if !yield(s3.Object{Key: fmt.Sprintf("exports/%s/csv/%06d.csv", tenant, i), Body: []byte("x"), Modified: old}) {
				return
			}
		}
	}
}
