package redrive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// look is one look at the ledger: each run, policy, tenant and brake is read once
// for it. A call that writes looks anew every second.
type look struct {
	*Redriver
	now    time.Time
	runs   map[job.RunID]job.Run
	pinned map[pin]record
	newest map[string]int
	holds  map[string]hold.Set
	brakes *[]job.Brake // nil before they were read
}

// pin is a policy version as a run has pinned it.
type pin struct {
	policy  string
	version int
	sha256  string
}

func (r *Redriver) look() *look {
	return &look{
		Redriver: r, now: r.now(), runs: map[job.RunID]job.Run{}, pinned: map[pin]record{}, newest: map[string]int{}, holds: map[string]hold.Set{},
	}
}

// once reads a value the first time that it is asked for.
func once[K comparable, V any](known map[K]V, key K, read func() (V, error)) (V, error) {
	if v, ok := known[key]; ok {
		return v, nil
	}
	v, err := read()
	if err == nil {
		known[key] = v
	}
	return v, err
}

func (l *look) run(ctx context.Context, id job.RunID) (job.Run, error) {
	return once(l.runs, id, func() (job.Run, error) { return l.Runs.Run(ctx, id) })
}

// record says what is published under a pinned policy version.
type record struct {
	same   bool   // with the content that the run has pinned
	region string // of that content; "" when it is not the same
}

func (l *look) onRecord(ctx context.Context, run job.Run) (record, error) {
	return once(l.pinned, pin{run.Policy, run.Version, run.PolicySHA256}, func() (record, error) {
		p, err := l.Policies.Policy(ctx, run.Policy, run.Version)
		switch {
		case failure.Is(err, failure.UnknownPolicy):
			return record{}, nil
		case err != nil || p.SHA256() != run.PolicySHA256:
			return record{}, err
		}
		return record{true, p.Region}, nil
	})
}

// newestOf returns the newest published version of a policy, 0 when there is none.
func (l *look) newestOf(ctx context.Context, policy string) (int, error) {
	return once(l.newest, policy, func() (int, error) {
		p, err := l.Policies.LatestPolicy(ctx, policy)
		if failure.Is(err, failure.UnknownPolicy) {
			return 0, nil
		}
		return p.Version, err
	})
}

func (l *look) holdsOf(ctx context.Context, tenant string) (hold.Set, error) {
	return once(l.holds, tenant, func() (hold.Set, error) { return l.Holds.Holds(ctx, tenant) })
}

func (l *look) brakesInForce(ctx context.Context) ([]job.Brake, error) {
	if l.brakes == nil {
		all, err := l.Brakes.Brakes(ctx)
		if err != nil {
			return nil, err
		}
		l.brakes = &all
	}
	return *l.brakes, nil
}

// facts are what the gates judge a page by.
type facts struct {
	*look
	run  job.Run
	page job.Page
	// copies are the dead letters that were seen of the page.
	copies []job.DeadLetter
	// planned is what a plan says of the page, and when it was made; zero in a plan.
	planned   job.RedrivePage
	plannedAt time.Time
	override  string

	pinned record
	newest int
	holds  hold.Set
	brakes []job.Brake
	body   []byte // the page's command
}

// read fills in what is read from the ledger beside the page itself. A run that is
// not on record leaves the rest empty; the gates say so.
func (f *facts) read(ctx context.Context) (err error) {
	if f.run, err = f.look.run(ctx, f.page.Run); err != nil {
		if failure.Is(err, failure.Absent) {
			f.run = job.Run{}
			return nil
		}
		return err
	}
	f.body = job.NewCommand(f.run, f.page).Encode()
	if f.pinned, err = f.onRecord(ctx, f.run); err != nil {
		return err
	}
	if f.newest, err = f.newestOf(ctx, f.run.Policy); err != nil {
		return err
	}
	if f.holds, err = f.holdsOf(ctx, f.page.Tenant); err != nil {
		return err
	}
	f.brakes, err = f.brakesInForce(ctx)
	return err
}

// moves is what a plan records of the page.
func (f *facts) moves() job.RedrivePage {
	return job.RedrivePage{Run: f.page.Run, Tenant: f.page.Tenant, ID: f.page.ID, Hash: hashOf(f.body)}
}

// hashOf is the SHA-256 of bytes, as 64 hex digits.
func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
