package hold_test

import (
	"flag"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	seeds = flag.Uint64("seeds", 20_000, "how many interleavings to play")
	seed  = flag.Uint64("seed", 0, "the one interleaving that TestSeed plays and logs")
)

// TestS4_NoDeleteTakesEffectAfterHELD plays random interleavings of hold, claim, intent
// and delete, with the real worker and the real keeper: no delete takes effect on what
// was answered HELD (S4), nor does one that was decided before, once the hold is
// released (S18); TOO_LATE is told of exactly what was deleted; and what is in flight
// is settled at the instant that was named.
func TestS4_NoDeleteTakesEffectAfterHELD(t *testing.T) {
	n := *seeds
	if raced || testing.Short() {
		n = min(n, 1000)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(2000)) // each document of a play leaves a compressor behind
	seen := map[string]int{}
	var mu sync.Mutex
	t.Run("plays", func(t *testing.T) {
		shares := uint64(runtime.GOMAXPROCS(0))
		for share := range shares {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				own := map[string]int{}
				for s := share; s < n; s += shares {
					p := playSeed(s, mutant{})
					if p.broken != "" {
						t.Errorf("-seed %d: %s", s, p.broken)
					}
					for what, times := range p.seen {
						own[what] += times
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for what, times := range own {
					seen[what] += times
				}
			})
		}
	})
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%8d %s", seen[what], what)
	}
	for _, what := range []string{
		"HELD", "IN_FLIGHT", "TOO_LATE", "answer lost", "call lost", "call refused", "delete landed late", "delete landed, answer lost",
		"object deleted", "page redriven", "process killed", "run closed", "told as deleted", "told as deleted_marker_only", "told as gone",
		"told as superseded",
	} {
		if n >= 1000 && seen[what] == 0 {
			t.Errorf("in %d plays there was never: %s", n, what)
		}
	}
}

// TestMutantsAreKilled: each rule of the keeper that is taken away is missed by a play.
func TestMutantsAreKilled(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			kills := func(seed uint64) (string, bool) {
				p := playSeed(seed, m)
				return p.broken, strings.HasPrefix(p.broken, m.rule+":")
			}
			if why, killed := kills(m.seed); killed {
				t.Logf("seed %d: %s", m.seed, why)
				return
			}
			for s := range uint64(20_000) {
				if why, killed := kills(s); killed {
					t.Logf("seed %d does not kill it any more; pin seed %d: %s", m.seed, s, why)
					return
				}
			}
			t.Error("nothing kills it")
		})
	}
}

// L5: the same seed is the same play.
func TestTheSameSeedIsTheSamePlay(t *testing.T) {
	for s := range uint64(100) {
		a, b := playSeed(s, mutant{}), playSeed(s, mutant{})
		if !maps.Equal(a.seen, b.seen) || !slices.Equal(a.left(), b.left()) || !a.now.Equal(b.now) {
			t.Errorf("seed %d: %v and %v", s, a.seen, b.seen)
		}
	}
}

// TestSeed logs one play, call by call.
func TestSeed(t *testing.T) {
	if *seed == 0 {
		t.Skip("go test -run TestSeed -v -args -seed N")
	}
	p := newPlay(*seed)
	p.log = t.Logf
	if p.play(); p.broken != "" {
		t.Error(p.broken)
	}
}
