package sim

import "time"

// chance is where every choice of a world comes from: SplitMix64, because one number
// is all its state and the same seed is the same sequence on every machine.
type chance struct {
	state uint64
	// flat takes the first of every choice and the longest of every time: the script
	// alone decides then.
	flat bool
}

func newChance(seed uint64) chance { return chance{state: seed*0x9E3779B97F4A7C15 + 0x1234567} }

// n returns a number from 0 to below limit, which is at least 1.
func (c *chance) n(limit int) int {
	if c.flat {
		return 0
	}
	c.state += 0x9E3779B97F4A7C15
	z := c.state
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	z ^= z >> 31
	return int((z >> 33) % uint64(limit)) //nolint:gosec // limit is at least 1, and 31 bits fit
}

// one returns true in one of so many cases.
func (c *chance) one(of int) bool { return c.n(of) == of-1 }

// within returns a duration from least to most, in milliseconds.
func (c *chance) within(least, most time.Duration) time.Duration {
	if c.flat {
		return most
	}
	return least + time.Duration(c.n(int((most-least)/time.Millisecond)+1))*time.Millisecond
}

// pick returns one of the values.
func pick[T any](c *chance, of []T) T { return of[c.n(len(of))] }
