package wire

import (
	"sync"
	"time"
)

// Clock is the only source of time of the embedded AWS.
type Clock interface {
	Now() time.Time
	// After delivers the time once d has passed.
	After(d time.Duration) <-chan time.Time
}

// Wall is the machine's clock.
type Wall struct{}

// Now returns the current time.
func (Wall) Now() time.Time { return time.Now() }

// After waits on the machine's clock.
func (Wall) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Manual is a clock that moves when it is told to.
type Manual struct {
	mu      sync.Mutex
	now     time.Time
	waiting []alarm
}

type alarm struct {
	at   time.Time
	ring chan time.Time
}

// NewManual returns a clock that shows at.
func NewManual(at time.Time) *Manual { return &Manual{now: at} }

// Now returns the instant that the clock shows.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// After rings once the clock has been moved on by d.
func (m *Manual) After(d time.Duration) <-chan time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	ring := make(chan time.Time, 1)
	if d <= 0 {
		ring <- m.now
		return ring
	}
	m.waiting = append(m.waiting, alarm{m.now.Add(d), ring})
	return ring
}

// Advance moves the clock on by d and rings what is due.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	later := m.waiting[:0]
	for _, a := range m.waiting {
		if a.at.After(m.now) {
			later = append(later, a)
		} else {
			a.ring <- m.now
		}
	}
	m.waiting = later
}
