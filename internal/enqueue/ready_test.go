package enqueue

import (
	"context"
	"testing"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// unready is a bucket that can not be listed.
type unready struct {
	lister
	err   error
	asked []job.Query
}

func (u *unready) Ready(_ context.Context, q job.Query, _ string) error {
	u.asked = append(u.asked, q)
	return u.err
}

// S3-23, S3-20: a bucket that can not be listed fails the tick and the request, with
// an event and without a run, a page or a message.
func TestUnreadyBucketOpensNothing(t *testing.T) {
	for _, class := range []failure.Class{failure.Absent, failure.Forbidden, failure.Invalid, failure.Throttled, failure.Network} {
		for name, in := range map[string]Input{
			"tick": tick, "request": {Policy: "exports", Tenant: "a", RequestID: "r-1", Reason: "asked for"},
		} {
			t.Run(string(class)+" "+name, func(t *testing.T) {
				u := &unready{err: failure.New(class, "look at the bucket", "injected")}
				r := newRegion(t, parse(t), func(c *Config) { u.lister, c.Lister = c.Lister, u })
				if _, err := r.Start(t.Context(), r.deadline(), in); failure.Of(err) != class {
					t.Errorf("got %v", err)
				}
				r.noRun()
				if r.count(audit.BucketRefused) != 1 || r.count(audit.RunOpened) != 0 {
					t.Error("the events are wrong")
				}
				r.wantCounted(contract.BucketsRefused, 1)
				for _, e := range r.log.Events() {
					if e.Event == audit.BucketRefused && (e.FailureClass != class || e.Operation != "look at the bucket" || e.Policy != "exports" || e.RunID == "") {
						t.Errorf("%+v", e)
					}
				}
				u.err = nil
				r.put(31*day, "exports/a/1")
				if _, err := r.Start(t.Context(), r.deadline(), in); err != nil {
					t.Errorf("and then ready: %v", err)
				}
			})
		}
	}
}

// What is asked about is what the scan lists.
func TestReadyAsksAboutTheScan(t *testing.T) {
	u := &unready{}
	r := newRegion(t, parse(t, "mode: enforce", "versions: all\nmode: enforce"), func(c *Config) { u.lister, c.Lister = c.Lister, u })
	r.start(tick)
	if want := (job.Query{Bucket: "acme-exports", Prefix: "exports/", Versions: true}); len(u.asked) != 1 || u.asked[0] != want {
		t.Errorf("asked %+v", u.asked)
	}
}
