package layout

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLayout holds this module to the table and the rules.
func TestLayout(t *testing.T) {
	findings, err := check(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Error(f)
	}
}

// TestTableIsClosed catches a slip of the pen: a name in the table that is no
// row would allow nothing, or leave a pure package unchecked.
func TestTableIsClosed(t *testing.T) {
	known := func(list, where string) {
		for _, name := range strings.Fields(list) {
			if _, ok := table[name]; !ok {
				t.Errorf("%s names %s, which has no row", where, name)
			}
		}
	}
	for row, list := range table {
		known(list, "the row of "+row)
	}
	known(strings.Join(pure, " "), "pure")
	known(strings.Join(clients, " "), "clients")
}

// TestTableKeepsThePromises states those parts of the table that the design
// leans on, so that they are not given away by an edit of one row.
func TestTableKeepsThePromises(t *testing.T) {
	for _, step := range strings.Fields("enqueue worker redrive reconcile") {
		for _, client := range strings.Fields("ledger queue artifact evidence") {
			if may(step, client) {
				t.Errorf("the step %s may import the client %s", step, client)
			}
		}
	}
	for _, deployed := range append([]string{"functions", "cmd/expunge", "infra"}, pure...) {
		for _, drill := range strings.Fields("emulator sim local cmd/local cmd/emulator") {
			if may(deployed, drill) {
				t.Errorf("%s may import %s, which carries fault hooks or a clock that can be moved", deployed, drill)
			}
		}
	}
	for row := range table {
		for to := range table {
			if row != to && isSuite(to) && may(row, to) {
				t.Errorf("%s may import the suite %s outside its tests", row, to)
			}
			if row != to && to == "infra" && may(row, to) {
				t.Errorf("%s may import infra", row)
			}
		}
	}
}
