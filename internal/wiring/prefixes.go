package wiring

import (
	"context"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
)

// Prefixes tells where the artifacts of a tenant are, by the policies in the ledger.
// A step that must not know policies asks it.
type Prefixes struct {
	table *ledger.Table
	// pinned remembers the versions of runs; the latest version is read each time.
	pinned *ledger.Pinned
}

// NewPrefixes returns the prefixes by the policies of a ledger.
func NewPrefixes(l *ledger.Table) *Prefixes { return &Prefixes{l, ledger.Pin(l)} }

// TenantPrefix returns the bucket and the tenant's prefix that the run works on, by
// the policy version that it pinned. The prefix is "" when that version does not work
// for the tenant.
func (p *Prefixes) TenantPrefix(ctx context.Context, run job.Run, tenant string) (bucket, prefix string, err error) {
	v, err := p.pinned.Policy(ctx, run.Policy, run.Version)
	if err != nil {
		return "", "", err
	}
	if v.SHA256() != run.PolicySHA256 {
		return "", "", failure.New(failure.UnknownPolicy, "find prefix in run "+string(run.ID), "the published version is not the pinned one")
	}
	return v.Bucket, v.TenantPrefix(tenant), nil
}

// Prefixes returns the tenant's prefix in each policy's latest version that works for
// the tenant.
func (p *Prefixes) Prefixes(ctx context.Context, tenant string) ([]string, error) {
	names, err := p.table.PolicyNames(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		latest, err := p.table.LatestPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		if prefix := latest.TenantPrefix(tenant); prefix != "" {
			all = append(all, prefix)
		}
	}
	return all, nil
}
