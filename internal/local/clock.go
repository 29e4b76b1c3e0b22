package local

import (
	"context"
	"sync"
	"time"
)

// Clock is simulated time. It moves only when it is told to, or when a step sleeps.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows at.
func NewClock(at time.Time) *Clock { return &Clock{now: at.UTC()} }

// Now returns the simulated instant.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep moves the clock on by d and returns at once.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Advance(d)
	return nil
}

// Advance moves the clock on by d; it never moves back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(max(d, 0))
}

// Reach moves the clock on to at, unless it is there already.
func (c *Clock) Reach(at time.Time) { c.Advance(at.Sub(c.Now())) }
