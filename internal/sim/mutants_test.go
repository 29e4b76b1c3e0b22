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

// killer is a mutant that must be found, with some oracles deaf to it.
type killer struct {
	Mutant
	deaf []string
}

// behind are oracles that another one always sees something before, with a mutant that they
// find when that one is deaf.
var behind = map[string]struct {
	mutant string
	deaf   []string
}{
	"S9": {"deletes-what-it-lists", []string{"S1", "S3", "S3a", "S4", "S5", "S8"}},
	"L7": {"death-unsaid", []string{"E8"}},
}

var (
	only   = flag.String("only", "", "the one mutant that is played")
	hunt   = flag.Uint64("hunt", 0, "play each mutant in so many worlds and count those that find it")
	update = flag.Bool("update", false, "find new seeds for the mutants whose own do not find them any more, and rewrite the README's table")
)

// pin is a world that is known to find a mutant, and the oracles that do in it.
type pin struct {
	seed uint64
	by   []string
}

// pins are those of each mutant, by its name: the first world that finds it, and others in
// which another oracle does.
type pins map[string][]pin

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
			number, ids, _ := strings.Cut(word, ":")
			seed, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			all[words[0]] = append(all[words[0]], pin{seed, strings.Split(ids, ",")})
		}
	}
	return all
}

func (p pins) write(t *testing.T) {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		b.WriteString(name)
		for _, known := range p[name] {
			fmt.Fprintf(&b, " %d:%s", known.seed, strings.Join(known.by, ","))
		}
		b.WriteString("\n")
	}
	if err := os.WriteFile(pinsFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// by returns the mutants that an oracle is known to find.
func (p pins) by(id string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if slices.ContainsFunc(p[name], func(known pin) bool { return slices.Contains(known.by, id) }) {
			names = append(names, name)
		}
	}
	return names
}

func mutants() []killer {
	all := slices.Concat(workerMutants(), otherMutants(), orderMutants(), foundMutants())
	for _, id := range slices.Sorted(maps.Keys(behind)) {
		k := all[slices.IndexFunc(all, func(k killer) bool { return k.Name == behind[id].mutant })]
		k.Name, k.deaf = k.Name+"-for-"+id, behind[id].deaf
		all = append(all, k)
	}
	return all
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
	known := readPins(t)
	for _, k := range mutants() {
		if *only != "" && *only != k.Name {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			if len(known[k.Name]) == 0 {
				t.Error("no world is known to find it; make golden looks for one")
			}
			for _, was := range known[k.Name] {
				if by := finders(p, k, was.seed); !slices.Equal(by, was.by) {
					t.Errorf("seed %d: found by %v, and by %v before; make golden looks again", was.seed, by, was.by)
				}
			}
		})
	}
	for _, o := range Oracles() {
		if len(known.by(o.ID)) == 0 && alone[o.ID] == "" {
			t.Errorf("no mutant is found by %s", o.ID)
		}
	}
}

// finders returns the oracles that find a mutant in a world.
func finders(p *Player, k killer, seed uint64) []string {
	v := p.Play(seed, Options{Mutant: &k.Mutant, deaf: k.deaf}).Violation
	if v == nil {
		return nil
	}
	ids := append(slices.Clone(v.Also), v.Oracle)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// In how many worlds a mutant is looked for that none is known to find; a mutant again for
// an oracle that found it before, and finds nothing now; and any mutant for it.
const (
	most  = 20_000
	twice = 3_000
	other = 30
)

// repin keeps the worlds that still find their mutant, and looks for others where none
// does, or where an oracle finds nothing in them.
func repin(t *testing.T, p *Player) {
	known, kept := readPins(t), pins{}
	try := func(k killer, seed uint64, id string) bool {
		by := finders(p, k, seed)
		if len(by) == 0 || id != "" && !slices.Contains(by, id) {
			return false
		}
		kept[k.Name] = append(kept[k.Name], pin{seed, by})
		return true
	}
	unseen := func(id string) bool { return len(kept.by(id)) == 0 }
	for _, k := range mutants() {
		for _, was := range known[k.Name] {
			if by := finders(p, k, was.seed); len(by) > 0 && (kept[k.Name] == nil || slices.ContainsFunc(by, unseen)) {
				kept[k.Name] = append(kept[k.Name], pin{was.seed, by})
			}
		}
		for seed := uint64(1); kept[k.Name] == nil && seed <= most && !try(k, seed, ""); seed++ {
		}
	}
	for _, o := range Oracles() {
		before, missing := known.by(o.ID), unseen(o.ID) && alone[o.ID] == ""
		for seed := uint64(1); missing && seed <= twice; seed++ {
			for _, k := range mutants() {
				if missing && (seed <= other || slices.Contains(before, k.Name)) {
					missing = !try(k, seed, o.ID)
				}
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
	for name, known := range readPins(t) {
		for _, was := range known {
			if r := p.Play(was.seed, Options{}); r.Violation != nil {
				t.Errorf("seed %d, which finds %s: %s: %s", was.seed, name, r.Violation.Oracle, r.Violation.Text)
			}
		}
	}
}
