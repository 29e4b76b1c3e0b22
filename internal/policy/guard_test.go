package policy

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestS9Guard(t *testing.T) {
	usual := defaults()
	limits := func(change func(*Limits)) Policy {
		p := defaults()
		change(&p.Limits)
		return p
	}
	for _, c := range []struct {
		name string
		p    Policy
		f    GuardFacts
		want []string
	}{
		{"nothing found", usual, GuardFacts{}, nil},
		{"an ordinary run", usual, GuardFacts{Candidates: 18_240, Examined: 400_000, History: []int{18_000, 17_000, 18_500}}, nil},

		{"at max_objects", usual, GuardFacts{Candidates: 100_000, Examined: 1_000_000}, nil},
		{"one over max_objects", usual, GuardFacts{Candidates: 100_001, Examined: 1_000_000},
			[]string{"100,001 candidates are more than max_objects allows: 100,000."}},
		{"widened to the ceiling", limits(func(l *Limits) { l.MaxObjects = CeilingObjects }), GuardFacts{Candidates: 50_000_000, Examined: 200_000_000}, nil},
		{"over the ceiling", limits(func(l *Limits) { l.MaxObjects = CeilingObjects }), GuardFacts{Candidates: 50_000_001, Examined: 200_000_000},
			[]string{"50,000,001 candidates are more than max_objects allows: 50,000,000."}},
		{"tightened", limits(func(l *Limits) { l.MaxObjects = 10 }), GuardFacts{Candidates: 11, Examined: 900},
			[]string{"11 candidates are more than max_objects allows: 10."}},

		{"a share of too few", usual, GuardFacts{Candidates: 999, Examined: 999}, nil},
		{"at max_share", usual, GuardFacts{Candidates: 500, Examined: 1_000}, nil},
		{"one over max_share", usual, GuardFacts{Candidates: 501, Examined: 1_000},
			[]string{"501 candidates of 1,000 examined objects are a larger share than max_share allows: 50 %."}},
		{"at a share that binary can not hold", limits(func(l *Limits) { l.MaxShare = 0.29 }), GuardFacts{Candidates: 29_000, Examined: 100_000}, nil},
		{"one over it", limits(func(l *Limits) { l.MaxShare = 0.29 }), GuardFacts{Candidates: 29_001, Examined: 100_000},
			[]string{"29,001 candidates of 100,000 examined objects are a larger share than max_share allows: 29 %."}},
		{"the smallest share", limits(func(l *Limits) { l.MaxShare = 0.0001 }), GuardFacts{Candidates: 2, Examined: 10_000},
			[]string{"2 candidates of 10,000 examined objects are a larger share than max_share allows: 0.01 %."}},
		{"share off", limits(func(l *Limits) { l.MaxShare = 1 }), GuardFacts{Candidates: 5_000, Examined: 5_000}, nil},

		{"third run is not compared", usual, GuardFacts{Candidates: 900, Examined: 950, History: []int{1, 1}}, nil},
		{"fourth run is", usual, GuardFacts{Candidates: 900, Examined: 950, History: []int{1, 1, 1}},
			[]string{"900 candidates are more than max_growth allows: 3 times 1, the median of the last 3 completed runs."}},
		{"at max_growth", usual, GuardFacts{Candidates: 300, Examined: 900, History: []int{100, 90, 110}}, nil},
		{"one over max_growth", usual, GuardFacts{Candidates: 301, Examined: 900, History: []int{100, 90, 110}},
			[]string{"301 candidates are more than max_growth allows: 3 times 100, the median of the last 3 completed runs."}},
		{"median of an even number", usual, GuardFacts{Candidates: 317, Examined: 900, History: []int{100, 111, 1, 1000}},
			[]string{"317 candidates are more than max_growth allows: 3 times 105.5, the median of the last 4 completed runs."}},
		{"at it", usual, GuardFacts{Candidates: 316, Examined: 900, History: []int{100, 111, 1, 1000}}, nil},
		{"only the last seven count", usual, GuardFacts{Candidates: 31, Examined: 900, History: []int{10, 10, 10, 10, 10, 10, 10, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000}},
			[]string{"31 candidates are more than max_growth allows: 3 times 10, the median of the last 7 completed runs."}},
		{"growth in decimals", limits(func(l *Limits) { l.MaxGrowth = 1.1 }), GuardFacts{Candidates: 111, Examined: 900, History: []int{100, 100, 100}},
			[]string{"111 candidates are more than max_growth allows: 1.1 times 100, the median of the last 3 completed runs."}},
		{"at it in decimals", limits(func(l *Limits) { l.MaxGrowth = 1.1 }), GuardFacts{Candidates: 110, Examined: 900, History: []int{100, 100, 100}}, nil},

		{"idle class, its usual batch", usual, GuardFacts{Candidates: 480, Examined: 900, History: []int{0, 0, 0, 0, 0, 0, 470}}, nil},
		{"idle class, at the limit", usual, GuardFacts{Candidates: 300, Examined: 900, History: []int{0, 0, 0, 100}}, nil},
		{"idle class, over it", usual, GuardFacts{Candidates: 301, Examined: 900, History: []int{0, 0, 0, 100}},
			[]string{"301 candidates are more than max_growth allows: 3 times 100, the largest of the last 4 completed runs."}},
		{"HP-05 a class that never had any", usual, GuardFacts{Candidates: 4, Examined: 900, History: []int{0, 0, 0}},
			[]string{"4 candidates are more than max_growth allows: 3 times 1, as if one object had been deleted in each of the last 3 completed runs."}},
		{"a class that never had any, a few", usual, GuardFacts{Candidates: 3, Examined: 900, History: []int{0, 0, 0}}, nil},

		{"HP-05 everything at once", usual, GuardFacts{Candidates: 200_000, Examined: 200_000, History: []int{2_000, 2_000, 2_000, 2_000}}, []string{
			"200,000 candidates are more than max_objects allows: 100,000.",
			"200,000 candidates of 200,000 examined objects are a larger share than max_share allows: 50 %.",
			"200,000 candidates are more than max_growth allows: 3 times 2,000, the median of the last 4 completed runs.",
		}},
		{"more candidates than examined", usual, GuardFacts{Candidates: 2, Examined: 1},
			[]string{"The counts contradict each other: 2 candidates among 1 examined objects."}},
		{"negative candidates", usual, GuardFacts{Candidates: -1, Examined: 1},
			[]string{"The counts contradict each other: -1 candidates among 1 examined objects."}},
		{"negative examined", usual, GuardFacts{Candidates: -2, Examined: -1},
			[]string{"The counts contradict each other: -2 candidates among -1 examined objects."}},
		{"S10 the empty policy allows nothing", Policy{}, GuardFacts{Candidates: 1, Examined: 2},
			[]string{"1 candidates are more than max_objects allows: 0."}},
		{"S10 the empty policy, a share", Policy{}, GuardFacts{Candidates: 1, Examined: 1_000}, []string{
			"1 candidates are more than max_objects allows: 0.",
			"1 candidates of 1,000 examined objects are a larger share than max_share allows: 0 %."}},
	} {
		got := c.p.Guard(c.f)
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, c.want)
		}
	}
}

func TestS9GuardLeavesTheHistoryAlone(t *testing.T) {
	history := []int{3, 1, 2}
	defaults().Guard(GuardFacts{Candidates: 1, Examined: 1, History: history})
	if history[0] != 3 || history[1] != 1 || history[2] != 2 {
		t.Error(history)
	}
}

// More candidates never make a run look smaller.
func TestS9GuardIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := defaults()
		p.Limits.MaxObjects = rapid.IntRange(1, 2_000).Draw(t, "objects")
		p.Limits.MaxShare = float64(rapid.IntRange(1, 10_000).Draw(t, "share")) / 10_000
		p.Limits.MaxGrowth = float64(rapid.IntRange(100, 10_000).Draw(t, "growth")) / 100
		f := GuardFacts{Examined: 3_000, Candidates: rapid.IntRange(0, 2_999).Draw(t, "candidates"),
			History: rapid.SliceOfN(rapid.IntRange(0, 500), 0, 10).Draw(t, "history")}
		few := p.Guard(f)
		f.Candidates++
		if many := p.Guard(f); len(many) < len(few) {
			t.Fatalf("%d candidates: %q; one more: %q", f.Candidates-1, few, many)
		}
		if f.Candidates > p.Limits.MaxObjects && len(p.Guard(f)) == 0 {
			t.Fatal("S9: max_objects was crossed without a finding")
		}
	})
}

// The guard against its rule, told once more in fractions: it finds exactly the limits
// that are crossed, and at a limit none is.
func TestS9GuardIsItsRule(t *testing.T) {
	fraction := func(n int, parts int64) *big.Rat { return big.NewRat(int64(n), parts) }
	times := func(r *big.Rat, n int) *big.Rat { return new(big.Rat).Mul(r, fraction(n, 1)) }
	rapid.Check(t, func(t *rapid.T) {
		objects := rapid.IntRange(1, 3_000).Draw(t, "objects")
		share, growth := rapid.IntRange(1, 10_000).Draw(t, "share"), rapid.IntRange(100, 10_000).Draw(t, "growth")
		p := defaults()
		p.Limits.MaxObjects, p.Limits.MaxShare, p.Limits.MaxGrowth = objects, float64(share)/10_000, float64(growth)/100
		f := GuardFacts{Examined: rapid.IntRange(0, 3_000).Draw(t, "examined"), History: rapid.SliceOfN(rapid.IntRange(0, 300), 0, 10).Draw(t, "history")}
		f.Candidates = rapid.OneOf(rapid.IntRange(0, f.Examined), rapid.Just(min(f.Examined, objects)), rapid.Just(f.Examined*share/10_000)).Draw(t, "candidates")

		var want []string
		if f.Candidates > objects {
			want = append(want, "max_objects")
		}
		if f.Examined >= 1000 && fraction(f.Candidates, 1).Cmp(times(fraction(share, 10_000), f.Examined)) > 0 {
			want = append(want, "max_share")
		}
		if len(f.History) >= 3 {
			last := slices.Sorted(slices.Values(f.History[:min(7, len(f.History))]))
			usual := fraction(last[len(last)/2]+last[(len(last)-1)/2], 2)
			if usual.Sign() == 0 {
				usual = fraction(max(last[len(last)-1], 1), 1)
			}
			if fraction(f.Candidates, 1).Cmp(new(big.Rat).Mul(fraction(growth, 100), usual)) > 0 {
				want = append(want, "max_growth")
			}
		}
		got := p.Guard(f)
		for i, finding := range got {
			if i >= len(want) || !strings.Contains(finding, want[i]) {
				t.Fatalf("%+v under %+v: %q, want %q", f, p.Limits, got, want)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%+v under %+v: %q, want %q", f, p.Limits, got, want)
		}
	})
}
