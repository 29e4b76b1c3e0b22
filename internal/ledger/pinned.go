package ledger

import (
	"context"
	"sync"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// source is the ledger that Pinned reads.
type source interface {
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	Policy(ctx context.Context, name string, version int) (policy.Policy, error)
	Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error)
	Brakes(ctx context.Context) ([]job.Brake, error)
}

// Pinned is a ledger for a worker that serves many pages of few runs: it reads a
// policy version and a released run once in a process. Neither can turn into a
// reason not to act. A version never changes; a released run can only close, and
// then none of its pages can be claimed. A run that is not released is read anew
// each time, for that is the gate (F8).
type Pinned struct {
	source

	mu       sync.Mutex
	runs     map[job.RunID]job.Run
	policies map[policyKey]policy.Policy
}

// pinnedRuns is how many runs or versions are remembered before all are forgotten.
const pinnedRuns = 1000

// Pin returns a reader of the ledger that remembers.
func Pin(l source) *Pinned {
	return &Pinned{source: l, runs: map[job.RunID]job.Run{}, policies: map[policyKey]policy.Policy{}}
}

// Run returns a run, or failure.Absent.
func (p *Pinned) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	p.mu.Lock()
	r, ok := p.runs[id]
	p.mu.Unlock()
	if ok {
		return unshared(r), nil
	}
	r, err := p.source.Run(ctx, id)
	if err == nil && r.State == job.Released {
		remember(&p.mu, p.runs, id, unshared(r))
	}
	return r, err
}

// Policy returns a published version, or failure.UnknownPolicy.
func (p *Pinned) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	k := policyKey{name, version}
	p.mu.Lock()
	v, ok := p.policies[k]
	p.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := p.source.Policy(ctx, name, version)
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
