package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// killer is a mutant that must be found.
type killer struct{ Mutant }

var (
	only   = flag.String("only", "", "the one mutant that is played")
	hunt   = flag.Uint64("hunt", 0, "play each mutant in so many worlds and count those that find it")
	update = flag.Bool("update", false, "find new seeds for the mutants whose own do not find them any more, and rewrite the README's table")
)

// pins are the seeds whose worlds find a mutant, by its name: the first one, and others
// where another oracle finds it.
type pins map[string][]uint64

const pinsFile = "testdata/pins.txt"

func readPins(t *testing.T) pins {
	t.Helper()
	data, err := os.ReadFile(pinsFile)
	if err != nil {
		t.Fatal(err)
	}
	all := pins{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		for _, word := range words[1:] {
			seed, err := strconv.ParseUint(word, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			all[words[0]] = append(all[words[0]], seed)
		}
	}
	return all
}

func (p pins) write(t *testing.T) {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		slices.Sort(p[name])
		fmt.Fprintln(&b, name, strings.Trim(fmt.Sprint(slices.Compact(p[name])), "[]"))
	}
	if err := os.WriteFile(pinsFile, []byte(b.String()), 0o644); err != nil { //nolint:gosec // a file of the repository
		t.Fatal(err)
	}
}

func mutants() []killer {
	return slices.Concat(workerMutants(), otherMutants(), orderMutants())
}

// Every mutant must be found: the oracles, the faults and the neighbours have to be good
// enough for it. Each is played in the worlds that are known to find it. When the code
// changes, other worlds do: -update finds out which.
func TestMutants(t *testing.T) {
	p := NewPlayer()
	defer p.Close()
	switch {
	case *hunt > 0:
		for _, k := range mutants() {
			if *only == "" || *only == k.Name {
				countKills(t, p, k)
			}
		}
		return
	case *update:
		repin(t, p)
	}
	known, saw := readPins(t), map[string]bool{}
	for _, k := range mutants() {
		if *only != "" && *only != k.Name {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			if len(known[k.Name]) == 0 {
				t.Error("no world is known to find it")
			}
			for _, seed := range known[k.Name] {
				ids := finders(p, k, seed)
				if len(ids) == 0 {
					t.Errorf("seed %d does not find it any more; make golden looks for another", seed)
				}
				for _, id := range ids {
					saw[id] = true
				}
			}
		})
	}
	for _, o := range Oracles() {
		if !saw[o.ID] && alone[o.ID] == "" && *only == "" {
			t.Errorf("no mutant is found by %s", o.ID)
		}
	}
}

// finders returns the oracles that find a mutant in a world.
func finders(p *Player, k killer, seed uint64) []string {
	v := p.Play(seed, Options{Mutant: &k.Mutant}).Violation
	if v == nil {
		return nil
	}
	return append(v.Also, v.Oracle)
}

// How many worlds are tried for a mutant that none is known to find, and for an oracle
// that finds none in those.
const (
	most = 20_000
	more = 300
)

// repin keeps the seeds that still find their mutant, and looks for others where none
// does, or where an oracle finds nothing in them.
func repin(t *testing.T, p *Player) {
	known, kept, saw := readPins(t), pins{}, map[string]bool{}
	keep := func(k killer, seed uint64, ids []string) {
		kept[k.Name] = append(kept[k.Name], seed)
		for _, id := range ids {
			saw[id] = true
		}
	}
	for _, k := range mutants() {
		for _, seed := range known[k.Name] {
			if ids := finders(p, k, seed); len(ids) > 0 {
				keep(k, seed, ids)
			}
		}
		for seed := uint64(1); kept[k.Name] == nil && seed <= most; seed++ {
			if ids := finders(p, k, seed); len(ids) > 0 {
				keep(k, seed, ids)
			}
		}
	}
	for _, o := range Oracles() {
		for at := 0; !saw[o.ID] && alone[o.ID] == "" && at < more*len(mutants()); at++ {
			k, seed := mutants()[at%len(mutants())], uint64(1+at/len(mutants())) //nolint:gosec // small and positive
			if ids := finders(p, k, seed); slices.Contains(ids, o.ID) {
				keep(k, seed, ids)
			}
		}
	}
	kept.write(t)
}

func countKills(t *testing.T, p *Player, k killer) {
	kills, by, first := 0, map[string]int{}, uint64(0)
	for seed := uint64(1); seed <= *hunt; seed++ {
		if ids := finders(p, k, seed); len(ids) > 0 {
			if kills++; kills == 1 {
				first = seed
			}
			for _, id := range ids {
				by[id]++
			}
		}
	}
	t.Logf("%-28s %6d of %d, first %d, %v", k.Name, kills, *hunt, first, by)
}

// Without a mutant, none of the worlds that find one finds anything.
func TestNoMutant(t *testing.T) {
	p := NewPlayer()
	defer p.Close()
	for name, seeds := range readPins(t) {
		for _, seed := range seeds {
			if r := p.Play(seed, Options{}); r.Violation != nil {
				t.Errorf("seed %d, which finds %s: %s: %s", seed, name, r.Violation.Oracle, r.Violation.Text)
			}
		}
	}
}
