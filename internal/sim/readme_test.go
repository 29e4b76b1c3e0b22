package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const readme = "../../README.md"

// The table of the invariants stands between these lines of the README.
const tableBegins, tableEnds = "<!-- invariants, written by make golden -->\n", "<!-- end of the invariants -->\n"

// outside are the invariants that no world can break, with the test that holds them.
var outside = []struct{ id, means, folder, test string }{
	{"S10", "what says nothing matches nothing: no policy, no prefix, no days", "policy", "TestS10DecideWithoutAPolicyKeepsEverything"},
	{"L4", "every queue of a region has alarms on its oldest message and its dead letters", "../infra/region", "TestAL01AL05AlarmsWatchWhatWaits"},
	{"A1", "a client says what its service did, and does what its fake does", "sim", "TestMutantsThroughAdapters"},
	{"L5", "the same seed is the same world, call by call", "sim", "TestSameSeed"},
}

// Every invariant stands in the README with the tests that show that it is looked at.
func TestReadme(t *testing.T) {
	had, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := bytes.Cut(had, []byte(tableBegins))
	_, after, ends := bytes.Cut(rest, []byte(tableEnds))
	if !begins || !ends {
		t.Fatal("the README has no place for the table")
	}
	want := slices.Concat(before, []byte(tableBegins), []byte(table(t)), []byte(tableEnds), after)
	switch {
	case bytes.Equal(had, want):
	case *update:
		if err := os.WriteFile(readme, want, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the README's table of invariants is not what the code says; make golden writes it")
	}
}

func table(t *testing.T) string {
	t.Helper()
	known := readPins(t)
	var rows []string
	for _, o := range Oracles() {
		var tests []string
		for _, name := range known.by(o.ID) {
			tests = append(tests, "TestMutants/"+name)
		}
		if name := alone[o.ID]; name != "" {
			exists(t, "sim", name)
			tests = append(tests, name)
		}
		rows = append(rows, row(o.ID, o.Means, tests))
	}
	for _, e := range outside {
		exists(t, e.folder, e.test)
		rows = append(rows, row(e.id, e.means, []string{strings.TrimPrefix(e.folder, "../") + "." + e.test}))
	}
	slices.SortFunc(rows, func(a, b string) int { return strings.Compare(ordered(a), ordered(b)) })
	counts := fmt.Sprintf("%d oracles, %d kinds of fault, %d steps broken on purpose.\n\n", len(Oracles()), len(Faults()), len(mutants()))
	return counts + "| | what is promised | broken on purpose in |\n|---|---|---|\n" + strings.Join(rows, "")
}

func row(id, means string, tests []string) string {
	return "| " + id + " | " + means + " | `" + strings.Join(tests[:min(3, len(tests))], "` `") + "` |\n"
}

// ordered is a row with its number in full width: S, then E, L, and the rules.
func ordered(row string) string {
	id := strings.Fields(row)[1]
	digits := strings.TrimRight(id[1:], "abcdefgh")
	return fmt.Sprintf("%d %3s%s", strings.IndexByte("SELCFA", id[0]), digits, id[1+len(digits):])
}

// exists fails the test unless a folder below internal has a test of that name.
func exists(t *testing.T, folder, name string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join("..", folder, "*_test.go")) // the pattern is well formed
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("func "+name+"(")) {
			return
		}
	}
	t.Errorf("there is no %s in %s", name, folder)
}
