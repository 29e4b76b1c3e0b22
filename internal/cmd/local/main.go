// Command local runs the whole pipeline on this machine and proves what it did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/expunge-aws/expunge/internal/local"
)

const usage = `Run the whole pipeline on this machine, without AWS.

Without arguments it plays three built-in tenants and everything that goes wrong
for them. With -dir and -policy it reads your own files as a bucket: relative
paths are the keys, modification times are LastModified. Your files are never
opened and never touched.

With -bucket and -policy it lists a bucket of AWS with your own credentials and
reports what the policy would delete. It has no way to delete there.

  -dir PATH       a directory to evaluate
  -bucket NAME    a bucket to evaluate, report-only: in the region of your AWS
                  configuration, or the policy's when that names none
  -policy FILE    the policy to evaluate it by
  -as-of TIME     the instant to evaluate at, RFC 3339; now by default
  -enforce        delete, in the run's own copy of the references; only with a
                  policy whose mode is enforce
  -out PATH       where run.json and the evidence go; .expunge by default
  -functions PATH where the functions are built; .bin/functions by default

  -up             keep a region running in the state of a bad night, with the
                  functions behind its Lambda API, until Ctrl-C
  -listen ADDRESS where it listens; 127.0.0.1:4566 by default
  -drill          play every drill, each in a region of its own, and print a table
  -only ID        only that drill, such as R116

Exit status:
  0  every invariant holds, and no run waits
  1  an invariant is violated, or the run could not be finished
  2  the arguments or the policy can not be used
  3  every invariant holds, and a run waits for approval
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	config, up, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	}
	status := local.ExitUsage
	config.Out = stdout
	switch {
	case err != nil:
	case up.drill:
		status = 0
		var holds bool
		if holds, err = local.Drill(ctx, config.Functions, up.only, stdout); err != nil || !holds {
			status = 1
		}
	case up.on:
		status = 0
		if err = local.Up(ctx, local.UpConfig{Listen: up.listen, Folder: config.Folder, Functions: config.Functions, Out: stdout}); err != nil {
			status = 1
		}
	default:
		status, err = local.Run(ctx, config)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	return status
}

// upFlags are those of a region that is kept running, and of the drills.
type upFlags struct {
	on, drill    bool
	listen, only string
}

func parse(args []string) (local.Config, upFlags, error) {
	c := local.Config{Now: time.Now().UTC().Truncate(time.Second)}
	var up upFlags
	var asOf string
	flags := flag.NewFlagSet("local", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&c.Dir, "dir", "", "")
	flags.StringVar(&c.Bucket, "bucket", "", "")
	flags.StringVar(&c.Policy, "policy", "", "")
	flags.StringVar(&asOf, "as-of", "", "")
	flags.BoolVar(&c.Enforce, "enforce", false, "")
	flags.StringVar(&c.Folder, "out", ".expunge", "")
	flags.StringVar(&c.Functions, "functions", ".bin/functions", "")
	flags.BoolVar(&up.on, "up", false, "")
	flags.BoolVar(&up.drill, "drill", false, "")
	flags.StringVar(&up.only, "only", "", "")
	flags.StringVar(&up.listen, "listen", "127.0.0.1:4566", "")
	if err := flags.Parse(args); err != nil {
		return c, up, err
	}
	if flags.NArg() > 0 {
		return c, up, fmt.Errorf("unexpected argument %q: everything is given by flags, see -help", flags.Arg(0))
	}
	if asOf != "" {
		at, err := time.Parse(time.RFC3339, asOf)
		if err != nil {
			return c, up, fmt.Errorf("AS_OF is %q: it must be an instant in RFC 3339, such as 2026-03-08T02:30:00Z", asOf)
		}
		c.AsOf = at.UTC()
	}
	return c, up, nil
}
