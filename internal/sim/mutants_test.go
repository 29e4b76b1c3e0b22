package sim

import (
	"flag"
	"slices"
	"testing"
)

// killer is a mutant that must be found.
type killer struct{ Mutant }

// pins are seeds whose worlds find a mutant: the first one, and others where another
// oracle finds it. What does not stand here is found by seed 0.
var pins = map[string][]uint64{
	"absent-means-gone":          {85, 107},
	"ack-before-commit":          {8},
	"age-gate-off":               {14},
	"approval-unordered":         {19},
	"attempts-gate-off":          {8},
	"attempts-not-counted":       {50},
	"brake-ignored":              {4},
	"children-lost":              {19},
	"children-without-intent":    {19},
	"claimed-means-done":         {1},
	"client-retries":             {22},
	"closed-early":               {26},
	"closed-with-open-pages":     {1},
	"dates-unwatched":            {5},
	"dead-letters-dropped":       {11},
	"deletes-what-it-lists":      {0, 2},
	"differs-means-gone":         {34},
	"epoch-after-holds":          {105},
	"epoch-not-checked":          {124},
	"erased-whatever-stands":     {10},
	"evidence-errors-swallowed":  {19},
	"fresh-epoch-checked":        {124},
	"given-up-moved":             {1158},
	"guard-off":                  {7},
	"held-over-open-intent":      {37},
	"hold-looks-at-nothing":      {192, 223},
	"hold-unordered":             {1},
	"hold-written-last":          {1},
	"holds-ignored":              {1},
	"intent-forgotten":           {1},
	"lease-ignored":              {1},
	"letter-not-durable":         {13},
	"letters-never-owed":         {221},
	"marker-means-erased":        {10},
	"no-condition":               {289},
	"no-fence":                   {19},
	"no-reconciler":              {4},
	"pages-keyed-by-end":         {110, 246, 263},
	"partial-errors-swallowed":   {1},
	"quiet-answers":              {79},
	"quiet-too-early":            {87},
	"ratchet-off":                {2},
	"redelivered-after-dead":     {34},
	"released-holds-forgotten":   {189},
	"run-gate-off":               {7},
	"sends-what-the-index-shows": {1},
	"veto-settled-at-once":       {124},
}

func (k killer) seeds() []uint64 {
	if seeds := pins[k.Name]; seeds != nil {
		return seeds
	}
	return []uint64{0}
}

var (
	only = flag.String("only", "", "the one mutant that is played")
	hunt = flag.Uint64("hunt", 0, "play each mutant in so many worlds and count those that find it")
	most = flag.Uint64("most", 5000, "in how many worlds a mutant is looked for whose own seed does not find it any more")
)

// Every mutant must be found: the oracles, the faults and the neighbours have to be good
// enough for it. Each is played in the one world that is known to find it. When the
// simulation changes, other worlds do, and the test says which.
func TestMutants(t *testing.T) {
	p := NewPlayer()
	defer p.Close()
	saw := map[string]bool{}
	for _, k := range slices.Concat(workerMutants(), otherMutants(), orderMutants()) {
		if *only != "" && *only != k.Name {
			continue
		}
		if *hunt > 0 {
			countKills(t, p, k)
			continue
		}
		for _, seed := range k.seeds() {
			v := p.Play(seed, Options{Mutant: &k.Mutant}).Violation
			if v == nil {
				t.Errorf("%s is not found by seed %d any more; the first that finds it is %d, and 0 is none", k.Name, seed, find(p, k))
				continue
			}
			for _, id := range append(v.Also, v.Oracle) {
				saw[id] = true
			}
		}
	}
	for _, o := range Oracles() {
		if !saw[o.ID] && !alone[o.ID] && *only == "" && *hunt == 0 {
			t.Errorf("no mutant is found by %s", o.ID)
		}
	}
}

func find(p *Player, k killer) uint64 {
	for seed := uint64(1); seed <= *most; seed++ {
		if p.Play(seed, Options{Mutant: &k.Mutant}).Violation != nil {
			return seed
		}
	}
	return 0
}

func countKills(t *testing.T, p *Player, k killer) {
	kills, by, first := 0, map[string]int{}, uint64(0)
	for seed := uint64(1); seed <= *hunt; seed++ {
		if r := p.Play(seed, Options{Mutant: &k.Mutant}); r.Violation != nil {
			if kills++; kills == 1 {
				first = seed
			}
			for _, id := range append(r.Violation.Also, r.Violation.Oracle) {
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
	for name, seeds := range pins {
		seed := seeds[0]
		if r := p.Play(seed, Options{}); r.Violation != nil {
			t.Errorf("seed %d, which finds %s: %s: %s", seed, name, r.Violation.Oracle, r.Violation.Text)
		}
	}
}
