package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// limit is how long the whole may take. go test's own limit has to be longer: it would
// end this process without its cleanup.
const limit = 12 * time.Minute

// TestRegion deploys, and plays a night. Each step builds on those before it.
func TestRegion(t *testing.T) {
	if os.Getenv("EXPUNGE_E2E") != "1" {
		t.Skip("it starts ministack, deploys with npm's CDK and runs some six minutes: make e2e")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the functions are built for Linux, and run as processes of this machine")
	}
	installed(t)
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the whole has taken too long"))
	defer cancel()
	r := openRegion(ctx, t)
	n := &night{region: r}
	for _, s := range []struct {
		name string
		run  func(context.Context, *testing.T)
	}{
		{"deploys", n.deploysFirst},
		{"a tick without an instant is refused and kept", n.refusesLiteral},
		{"who is not approved only reports", n.reportsFirst},
		{"an operator approves", n.approves},
		{"the doctor finds nothing wrong", n.doctor},
		{"updates with new versions", n.updates},
		{"holds, and troubles", n.troubles},
		{"the scheduler opens the runs", n.ticks},
		{"one batch, every outcome", n.settles},
		{"report-only touches nothing", n.reportsOnly},
		{"dead letters", n.letters},
		{"redrives", n.redrives},
		{"each role is refused what is not its own", n.roles},
		{"a drill", n.drilled},
		{"closes and proves", n.closes},
		{"the doctor finds nothing wrong in the end", n.doctor},
	} {
		start := time.Now()
		if !t.Run(s.name, func(t *testing.T) { s.run(ctx, t) }) {
			n.end(t)
			t.FailNow()
		}
		t.Logf("%s: %s", s.name, time.Since(start).Round(time.Second/10))
	}
	r.front.check(t)
}

// emulator is the line of requirements.txt that names the emulator.
var emulator = regexp.MustCompile(`(?m)^ministack==(.+)$`)

// installed skips without the emulator, and refuses another version of it: the repairs
// are about one.
func installed(t *testing.T) {
	t.Helper()
	wanted, err := os.ReadFile("requirements.txt")
	line := emulator.FindSubmatch(wanted)
	if err != nil || line == nil {
		t.Fatalf("requirements.txt names no ministack: %v", err)
	}
	python, err := filepath.Abs(filepath.Join("..", "..", ".e2e", "venv", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Skip("ministack is not installed in .e2e/venv: make e2e does that, where a package index answers")
	}
	out, err := exec.CommandContext(t.Context(), python, "-c", `import importlib.metadata as m; print(m.version("ministack"), end="")`).Output()
	if err != nil || string(out) != string(line[1]) {
		t.Fatalf("ministack is %q, and the test is about %s: remove .e2e/venv, and make e2e installs it (%v)", out, line[1], err)
	}
}

// statusOf is the exit status of a program, and -1 of one that did not end by itself.
func statusOf(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}
