package local

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

//go:embed demo/*.yaml
var demoFiles embed.FS

// demoPolicies reads the built-in policies, in the order of their names.
func demoPolicies() ([]policy.Policy, error) {
	sub, err := fs.Sub(demoFiles, "demo")
	if err != nil {
		return nil, err
	}
	return readPolicies(sub)
}

// readPolicies reads a folder of policy files, in the order of their names.
func readPolicies(folder fs.FS) ([]policy.Policy, error) {
	byName, err := policy.ReadFolder(folder)
	if err != nil {
		return nil, err
	}
	var all []policy.Policy
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all, nil
}

// writeDemoPolicies puts the built-in policy files where enqueue can read them, in
// place of those of the run before.
func writeDemoPolicies(folder string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	sub, err := fs.Sub(demoFiles, "demo")
	if err != nil {
		return err
	}
	return os.CopyFS(folder, sub)
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
		{"edtech-uploads", "uploads/school-42/homework-", ".pdf", 18_240, 1_843, 45 * oneDay},
		{"edtech-uploads", "uploads/school-42/term-", ".pdf", 21_760, 1_843, 12 * oneDay},
		{"edtech-uploads", "uploads/school-4/essay-", ".pdf", 400, 921, 3 * oneDay},
		{"b2b-exports", "exports/acme-eu/csv/export-", ".csv", 4_788, 2_048, 20 * oneDay},
		{"b2b-exports", "exports/acme-eu/csv/case-2291/export-", ".csv", 12, 2_048, 20 * oneDay},
		{"b2b-exports", "exports/acme-eu/csv/recent-", ".csv", 5_600, 2_048, 5 * oneDay},
		{"digest-attachments", "digests/digest-week/digest-", ".html", 500, 245, 9 * oneDay},
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

// stage is where the built-in run is played: a World, or the embedded AWS.
type stage struct {
	props
	acts
}

// props fills a stage.
type props interface {
	Seed(b batch) error
	Deny(bucket, key string) error
	Hold(ctx context.Context, h hold.Hold) error
	// Duplicate makes the queue hand the next n messages out twice.
	Duplicate(n int)
}

// acts moves a stage.
type acts interface {
	// KillAfterDelete lets a worker die right after the store has carried out its
	// n-th delete call, before it could read the answer.
	KillAfterDelete(n int64, say func(string))
	Fire(ctx context.Context, policy string) (job.RunID, error)
	// Stray puts a copy of a message of the run into the queue, with its body changed.
	Stray(ctx context.Context, run job.RunID, change func([]byte) []byte) error
	Drain(ctx context.Context) error
}

// Demo fills a stage with the built-in tenants and everything that goes wrong for
// them, and plays it until it is quiet.
func Demo(ctx context.Context, on stage, policies []policy.Policy, say func(string)) error {
	for _, b := range demoObjects() {
		say(fmt.Sprintf("seed: %6d objects, %d days old, under s3://%s/%s*", b.count, b.age/oneDay, b.bucket, b.prefix))
		if err := on.Seed(b); err != nil {
			return err
		}
	}
	if err := on.Deny("digest-attachments", "digests/digest-week/digest-00137.html"); err != nil {
		return err
	}
	say("trouble: the store will refuse one of the digests for good")
	if err := on.Hold(ctx, hold.Hold{
		ID: "hold-2291", Tenant: "acme-eu", Scope: hold.Prefix, Value: "exports/acme-eu/csv/case-2291/",
		Reason: "litigation", By: "counsel",
	}); err != nil {
		return err
	}
	say("trouble: a legal hold covers one case of acme-eu")
	on.Duplicate(1)
	say("trouble: the queue will hand one message to two workers")
	on.KillAfterDelete(2, say)
	for _, p := range policies {
		run, err := on.Fire(ctx, p.Name)
		if err != nil {
			return err
		}
		if p.Name != "digests" {
			continue
		}
		say("trouble: a message names a policy version that nobody published")
		err = on.Stray(ctx, run, func(body []byte) []byte {
			return bytes.Replace(body, fmt.Appendf(nil, `"policy_version":%d`, p.Version), []byte(`"policy_version":9`), 1)
		})
		if err != nil {
			return err
		}
	}
	return on.Drain(ctx)
}
