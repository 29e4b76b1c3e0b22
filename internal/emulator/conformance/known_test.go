package conformance

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rehearsalKey makes TestRehearsal run, in a process of TestKnownDifferences.
const rehearsalKey = "EXPUNGE_CONFORMANCE_REHEARSAL"

// TestRehearsal is a suite whose target has lists: what becomes of it is judged by
// TestKnownDifferences.
func TestRehearsal(t *testing.T) {
	if os.Getenv(rehearsalKey) == "" {
		t.Skip("part of TestKnownDifferences")
	}
	target := Target{
		KnownDifferences: map[string]string{
			`"listed" and fails / (always) [1]`: "it is known", "listed and passes": "it was known", "listed and skips": "it is unknown",
		},
		Unsteady: map[string]string{"by chance": "a coin"},
	}
	run(t, target, 0, []check[int]{
		{"passes", func(*testing.T, int) {}},
		{`"listed" and fails / (always) [1]`, func(t *testing.T, _ int) { t.Fatal("a known mistake") }},
		{"listed and passes", func(*testing.T, int) {}},
		{"listed and skips", func(t *testing.T, _ int) { t.Skip() }},
		{"by chance", func(t *testing.T, _ int) { t.Fatal("it ran") }},
	})
}

func TestKnownDifferences(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRehearsal$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), rehearsalKey+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("a suite with a listed check that passes passed")
	}
	for _, want := range []string{
		"--- PASS: TestRehearsal/passes ",
		`--- PASS: TestRehearsal/"listed"_and_fails_/_(always)_[1] `,
		"--- FAIL: TestRehearsal/listed_and_passes ",
		"take it off the list (it was known)",
		"--- FAIL: TestRehearsal/listed_and_skips ",
		"--- SKIP: TestRehearsal/by_chance ",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output does not say %q:\n%s", want, out)
		}
	}
}

func TestListsNameChecks(t *testing.T) {
	names := Names()
	slices.Sort(names)
	if n := len(slices.Compact(slices.Clone(names))); n != len(names) {
		t.Errorf("%d names for %d checks", n, len(names))
	}
	moto := Moto("")
	for _, list := range []map[string]string{moto.KnownDifferences, moto.Unsteady} {
		for name, why := range list {
			if _, found := slices.BinarySearch(names, name); !found || why == "" {
				t.Errorf("%q is no check, or has no reason", name)
			}
		}
	}
	for name := range moto.Unsteady {
		if _, both := moto.KnownDifferences[name]; both {
			t.Errorf("%q is known and unsteady", name)
		}
	}
}
