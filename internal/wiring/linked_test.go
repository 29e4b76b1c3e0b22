package wiring_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxMain is how many lines a main may have: it is wiring and nothing else.
const maxMain = 40

// drills are packages that no function may link: they carry fault hooks, clocks
// that can be moved, or tests.
var drills = regexp.MustCompile(`/internal/(emulator|local|sim|cmd)(/|$)|/internal/\w+/\w+test$|^testing$|^net/http/httptest$`)

// hooks are symbols of fakes that share a package with an adapter, and of the hook
// that they offer. The linker leaves out what nothing reaches.
var hooks = regexp.MustCompile(`internal/(ledger|queue|artifact|evidence)\.\(\*Memory\)|internal/failure\.Hook|internal/emulator|internal/local`)

// TestMainsLinkNoDrill looks at what the deployed functions are built from: at
// their sources, their packages, and what of these is left in the binaries.
func TestMainsLinkNoDrill(t *testing.T) {
	mains, err := filepath.Glob("../../functions/*/main.go")
	must(t, err)
	if len(mains) < 3 {
		t.Fatalf("mains %q", mains)
	}
	for _, main := range mains {
		text, err := os.ReadFile(main)
		must(t, err)
		if n := bytes.Count(text, []byte("\n")); n > maxMain {
			t.Errorf("%s has %d lines, at most %d: a main is wiring only", main, n, maxMain)
		}
		folder := "./" + filepath.Dir(main)
		packages := strings.Fields(command(t, "go", "list", "-deps", folder))
		if len(packages) < 100 {
			t.Errorf("%s: %d packages", main, len(packages))
		}
		for _, p := range packages {
			if drills.MatchString(p) {
				t.Errorf("%s links %s", main, p)
			}
		}
		binary := filepath.Join(t.TempDir(), "bootstrap")
		command(t, "go", "build", "-o", binary, folder)
		symbols := command(t, "go", "tool", "nm", binary)
		if !strings.Contains(symbols, "internal/wiring.Load") {
			t.Errorf("%s: the symbols do not read", main)
		}
		for line := range strings.Lines(symbols) {
			if hooks.MatchString(line) {
				t.Errorf("%s has %s", main, strings.TrimSpace(line))
			}
		}
	}
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	c := exec.Command(name, args...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
