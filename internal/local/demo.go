package local

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"iter"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

//go:embed demo/*.yaml
var demoFiles embed.FS

// DemoAsOf is the instant of the built-in run: a Monday, before the clocks change.
func DemoAsOf() time.Time { return time.Date(2026, 3, 9, 2, 30, 0, 0, time.UTC) }

// demoPolicies reads the built-in policies, in the order of their names.
func demoPolicies() ([]policy.Policy, error) {
	names, err := fs.Glob(demoFiles, "demo/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []policy.Policy
	for _, name := range names {
		data, err := demoFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p, err := policy.Parse(name, data)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// batch is a number of objects of one age under a prefix.
type batch struct {
	bucket, prefix, suffix string
	count                  int
	size                   int64
	age                    time.Duration
}

const oneDay = 24 * time.Hour

// demoObjects are the built-in tenants: those whose artifacts expire, the rest of
// their objects, and a neighbour whose name begins like theirs.
func demoObjects() []batch {
	return []batch{
		{"edtech-uploads", "uploads/school-42/homework-", ".pdf", 18_240, 184_320, 45 * oneDay},
		{"edtech-uploads", "uploads/school-42/term-", ".pdf", 21_760, 184_320, 12 * oneDay},
		{"edtech-uploads", "uploads/school-4/essay-", ".pdf", 400, 92_160, 3 * oneDay},
		{"b2b-exports", "exports/acme-eu/csv/export-", ".csv", 4_788, 1_048_576, 20 * oneDay},
		{"b2b-exports", "exports/acme-eu/csv/case-2291/export-", ".csv", 12, 1_048_576, 20 * oneDay},
		{"b2b-exports", "exports/acme-eu/csv/recent-", ".csv", 5_600, 1_048_576, 5 * oneDay},
		{"digest-attachments", "digests/digest-week/digest-", ".html", 500, 24_576, 9 * oneDay},
	}
}

func (b batch) items(asOf time.Time) iter.Seq[job.Item] {
	return func(yield func(job.Item) bool) {
		for i := range b.count {
			item := job.Item{Key: fmt.Sprintf("%s%05d%s", b.prefix, i, b.suffix), Size: b.size, Modified: asOf.Add(-b.age - time.Duration(i)*time.Second)}
			item.ETag = etag(item)
			if !yield(item) {
				return
			}
		}
	}
}

// Demo fills a world with the built-in tenants and everything that goes wrong
// for them, and plays it until it is quiet.
func Demo(ctx context.Context, w *World, say func(string)) error {
	for _, b := range demoObjects() {
		say(fmt.Sprintf("seed: %6d objects, %d days old, under s3://%s/%s*", b.count, b.age/oneDay, b.bucket, b.prefix))
		if err := w.Store.Load(b.bucket, b.items(w.Clock.Now())); err != nil {
			return err
		}
	}
	if err := w.Store.DenyKey("digest-attachments", "digests/digest-week/digest-00137.html"); err != nil {
		return err
	}
	say("trouble: the store will refuse one of the digests for good")
	if _, err := w.Ledger.PlaceHold(ctx, hold.Hold{
		ID: "hold-2291", Tenant: "acme-eu", Scope: hold.Prefix, Value: "exports/acme-eu/csv/case-2291/",
		Reason: "litigation", By: "counsel", PlacedAt: w.Clock.Now(),
	}); err != nil {
		return err
	}
	say("trouble: a legal hold covers one case of acme-eu")
	w.Queue.Duplicate(1)
	say("trouble: the queue will hand one message to two workers")
	w.killAfterDelete(2, say)

	scheduled := w.Clock.Now()
	for _, p := range w.Policies {
		receipt, err := w.Tick(ctx, p.Name, scheduled)
		if err != nil {
			return err
		}
		if p.Name == "digests" {
			if err := w.misaddress(ctx, receipt.RunID); err != nil {
				return err
			}
			say("trouble: a message names a policy version that nobody published")
		}
	}
	return w.Drain(ctx)
}

// killAfterDelete lets the process die right after the store has carried out its
// n-th delete call, before it could read the answer.
func (w *World) killAfterDelete(n int64, say func(string)) {
	var calls atomic.Int64
	w.Store.Hook = func(op string, apply func() error) error {
		err := apply()
		if op == "delete" && calls.Add(1) == n {
			say("trouble: a worker dies right after its delete, before it could read the answer")
			runtime.Goexit()
		}
		return err
	}
}

// misaddress puts a copy of a page's message into the queue that names version 9
// of the policy.
func (w *World) misaddress(ctx context.Context, id job.RunID) error {
	run, err := w.Ledger.Run(ctx, id)
	if err != nil {
		return err
	}
	page := w.Ledger.AllPages(id)[0]
	m := job.NewMessage(run, page)
	m.Body = bytes.Replace(m.Body, fmt.Appendf(nil, `"policy_version":%d`, run.Version), []byte(`"policy_version":9`), 1)
	m.ID = "stray"
	_, err = w.Queue.Send(ctx, run.Mode, []job.Message{m})
	return err
}
