package sim

import (
	"slices"
	"time"
)

// Oracle is one invariant, looked at in the instant in which it could break.
type Oracle struct {
	// ID is the invariant's number: S safety, L liveness, E evidence, and F for a rule of
	// the page protocol.
	ID string
	// Means says in one sentence what is promised.
	Means string
	// at are the kinds of moment that it looks at.
	at []momentKind
	// look returns what is wrong, "" for nothing. The truth is as before the moment.
	look func(t *truth, m *moment) string
}

// Oracles lists every oracle once.
func Oracles() []Oracle {
	return slices.Concat(effectOracles(), rowOracles(), orderOracles(), saidOracles(), restOracles())
}

// judges are the oracles by the kinds of moment that they look at.
type judges struct{ of [momentKinds][]*Oracle }

func newJudges() *judges {
	j := &judges{}
	for _, o := range Oracles() {
		for _, kind := range o.at {
			j.of[kind] = append(j.of[kind], &o)
		}
	}
	return j
}

// skew is how far two clocks of a world may be apart.
const skew = 41 * time.Second

// on lists kinds of moment.
func on(kinds ...momentKind) []momentKind { return kinds }
