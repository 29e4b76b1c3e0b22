package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// Epoch returns the tenant's hold epoch, by a consistent read. It must be read
// before the holds (F2). A tenant without holds is at 0.
func (m *Memory) Epoch(_ context.Context, tenant string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epochs[tenant], nil
}

// Holds returns the tenant's holds, released ones included, by a consistent read.
func (m *Memory) Holds(_ context.Context, tenant string) (hold.Set, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.holds[tenant]), nil
}

// PlaceHold puts the hold and raises its tenant's epoch in one transaction. The
// same hold placed again changes nothing, and the answer is the stored one: it may
// have been released since. An id that is taken by a hold on something else is
// failure.Invalid, or its owner would be told that a hold is there which is not.
func (m *Memory) PlaceHold(_ context.Context, h hold.Hold) (hold.Hold, error) {
	err := m.write("hold", func() error {
		for _, old := range m.holds[h.Tenant] {
			if old.ID != h.ID {
				continue
			}
			if old.Scope != h.Scope || old.Value != h.Value {
				return failure.New(failure.Invalid, "place hold "+h.ID, "this id is a hold on something else")
			}
			h = old
			return nil
		}
		m.epochs[h.Tenant]++
		h.Epoch = m.epochs[h.Tenant]
		m.holds[h.Tenant] = append(m.holds[h.Tenant], h)
		return nil
	})
	return h, err
}

// ReleaseHold ends a hold. The row stays, with the epoch it was placed at.
func (m *Memory) ReleaseHold(_ context.Context, tenant, id string, at time.Time) error {
	return m.write("hold", func() error {
		for i, h := range m.holds[tenant] {
			if h.ID == id && h.Active() {
				m.holds[tenant][i].ReleasedAt = at
				return nil
			}
		}
		return failure.New(failure.Absent, "release hold "+id, "no such hold in force")
	})
}

// Brakes returns the brakes in force, by a consistent read.
func (m *Memory) Brakes(_ context.Context) ([]job.Brake, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.brakes), nil
}

// SetBrake puts a brake; one that covers the same is replaced.
func (m *Memory) SetBrake(_ context.Context, b job.Brake) error {
	return m.write("brake", func() error {
		m.brakes = append(slices.DeleteFunc(m.brakes, sameScope(b)), b)
		return nil
	})
}

// ReleaseBrake takes the brake of exactly that scope away.
func (m *Memory) ReleaseBrake(_ context.Context, b job.Brake) error {
	return m.write("brake", func() error {
		m.brakes = slices.DeleteFunc(m.brakes, released(b))
		return nil
	})
}

// released chooses what the release of a brake takes away: that of its scope, unless
// somebody has set it anew after the one that is named. Without an instant it is any.
func released(b job.Brake) func(job.Brake) bool {
	return func(o job.Brake) bool { return sameScope(b)(o) && (b.At.IsZero() || !o.At.After(b.At)) }
}

func sameScope(b job.Brake) func(job.Brake) bool {
	return func(o job.Brake) bool { return o.Policy == b.Policy && o.Version == b.Version }
}
