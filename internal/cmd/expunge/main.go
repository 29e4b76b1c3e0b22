// Command expunge is the operator's tool: it says what runs did, why, and what would happen next, and orders what changes that.
//
// It reads the ledger, the evidence and the dead letters with the operator's own
// credentials, and through interfaces that have no write. Whatever changes something
// is an order to a function: the function checks its gates, records who asked and
// why, and only then acts. So the tool needs no permission that could delete, and
// what it can not do nobody can make it do.
//
// Main takes everything from its arguments: the command line, the environment, the
// terminal, the clock. Each command stands in a file of its own.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/expunge-aws/expunge/internal/wiring"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := Main(ctx, Process{
		Args: os.Args[1:], Env: os.Getenv, Out: os.Stdout, Err: os.Stderr,
		Terminal: isTerminal(os.Stdout), Clock: wiring.Wall{},
	})
	stop()
	os.Exit(status)
}

// isTerminal reports whether somebody reads along.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
