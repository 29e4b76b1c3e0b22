package sim

import (
	"flag"
	"testing"
)

// killer is a mutant and the seed that is known to find it.
type killer struct {
	Mutant
	seed uint64
}

var only = flag.String("only", "", "the one mutant that is played")

var hunt = flag.Uint64("hunt", 300, "how many seeds are played to find a mutant")

func TestMutants(t *testing.T) {
	p := NewPlayer()
	for _, k := range append(workerMutants(), otherMutants()...) {
		if *only != "" && *only != k.Name {
			continue
		}
		killed, of := 0, map[string]int{}
		at := uint64(0)
		for s := uint64(1); s <= *hunt; s++ {
			r := p.Play(s, Options{Mutant: &k.Mutant})
			if r.Violation != nil {
				if killed++; at == 0 {
					at = s
				}
				of[r.Violation.Oracle]++
			}
		}
		t.Logf("%-28s %5d first %5d %v", k.Name, killed, at, of)
	}
}
