package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
)

// counting counts the reads that reach the ledger.
type counting struct {
	*ledger.Memory
	runs, policies int
}

func (c *counting) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	c.runs++
	return c.Memory.Run(ctx, id)
}

func (c *counting) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	c.policies++
	return c.Memory.Policy(ctx, name, version)
}

func TestPinnedReadsOnceWhatCanNotChange(t *testing.T) {
	c := &counting{Memory: ledger.NewMemory()}
	pinned := ledger.Pin(c)
	r := job.Run{ID: "r", Rev: 1, Policy: "exports", Version: 1, State: job.Scanning}
	if _, _, err := c.OpenRun(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	read := func(want job.RunState, reads int) {
		t.Helper()
		got, err := pinned.Run(t.Context(), "r")
		if err != nil || got.State != want || c.runs != reads {
			t.Errorf("%s after %d reads, %v; want %s after %d", got.State, c.runs, err, want, reads)
		}
	}
	read(job.Scanning, 1)
	read(job.Scanning, 2)
	r, _ = r.Release(time.Unix(0, 0), nil, "", "")
	if err := c.SwapRun(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	read(job.Released, 3)
	read(job.Released, 3)

	if _, err := pinned.Policy(t.Context(), "exports", 1); !failure.Is(err, failure.UnknownPolicy) {
		t.Errorf("unpublished: %v", err)
	}
	p, err := policy.Parse("p.yaml", []byte(exportsYAML))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PublishPolicy(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := pinned.Policy(t.Context(), "exports", 1); err != nil || !got.Equal(p) {
			t.Errorf("published: %v", err)
		}
	}
	if c.policies != 2 {
		t.Errorf("%d reads of the policy, want 2", c.policies)
	}
}

const exportsYAML = `name: exports
version: 1
region: eu-west-1
bucket: acme-exports
keys: exports/{tenant}/
retention_days: 30
mode: enforce
schedule: {every: daily, at: "02:30", zone: Europe/Berlin}
`
