package ledger

import (
	"context"
	"sync"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// source reads what Pinned remembers.
type source interface {
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	Policy(ctx context.Context, name string, version int) (policy.Policy, error)
}

// Pinned is a ledger for a worker that serves many pages of few runs: it reads a
// policy version and a released run once in a process. Neither can turn into a
// reason not to act. A version never changes; a released run can only close, and
// then none of its pages can be claimed. A run that is not released is read anew
// each time, for that is the gate (F8).
type Pinned[L source] struct {
	Ledger L

	mu       sync.Mutex
	runs     map[job.RunID]job.Run
	policies map[policyKey]policy.Policy
}

// pinnedRuns is how many runs or versions are remembered before all are forgotten.
const pinnedRuns = 1000

// Pin returns a reader that remembers.
func Pin[L source](l L) *Pinned[L] {
	return &Pinned[L]{Ledger: l, runs: map[job.RunID]job.Run{}, policies: map[policyKey]policy.Policy{}}
}

// Run returns a run, or failure.Absent.
func (p *Pinned[L]) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	p.mu.Lock()
	r, ok := p.runs[id]
	p.mu.Unlock()
	if ok {
		return unshared(r), nil
	}
	r, err := p.Ledger.Run(ctx, id)
	if err == nil && r.State == job.Released {
		remember(&p.mu, p.runs, id, unshared(r))
	}
	return r, err
}

// Policy returns a published version, or failure.UnknownPolicy.
func (p *Pinned[L]) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	k := policyKey{name, version}
	p.mu.Lock()
	v, ok := p.policies[k]
	p.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := p.Ledger.Policy(ctx, name, version)
	if err == nil {
		remember(&p.mu, p.policies, k, v)
	}
	return v, err
}

func remember[K comparable, V any](mu *sync.Mutex, m map[K]V, k K, v V) {
	mu.Lock()
	defer mu.Unlock()
	if len(m) >= pinnedRuns {
		clear(m)
	}
	m[k] = v
}
