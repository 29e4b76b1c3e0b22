package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// The statuses that the program ends with.
const (
	exitDone  = 0 // done, or nothing is wrong
	exitWrong = 1 // something is wrong, or was refused: the reason is on stderr
	exitUsage = 2 // the arguments can not be used
	exitWaits = 3 // not finished yet
)

// Process is what a program gets from whoever starts it.
type Process struct {
	Args []string
	// Env returns a variable of the environment, "" when it is not set.
	Env func(name string) string
	// Dir is the folder in which .expunge/up.json is looked for; "" is the working
	// directory.
	Dir      string
	Out, Err io.Writer
	// Terminal: Out is one.
	Terminal bool
	Clock    clock
}

// clock is the only source of time. Sleep returns early when ctx ends.
type clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
}

// commands is the command line. A command is a struct in a file of its own.
type commands struct {
	Where where `embed:"" group:"where"`
	JSON  bool  `name:"json" help:"Print one JSON object." group:"how"`

	Runs    runsCommand    `cmd:"" help:"Show the runs that are open, wait for approval, or ended lately." group:"look"`
	Explain explainCommand `cmd:"" help:"Say what failed, what has already changed, and what happens if it runs again." group:"look"`
	DLQ     inspectCommand `cmd:"" name:"dlq" help:"Show what lies dead: pages, and letters that are no dead page's." group:"look"`
	Orders  ordersCommand  `cmd:"" help:"Show what operators ordered, and why." group:"look"`

	checks

	Start   startCommand    `cmd:"" help:"Open the run of a scheduled date that never ran." group:"order"`
	Request requestCommand  `cmd:"" help:"Evaluate a policy for one tenant now, as its next scheduled run would." group:"order"`
	Redrive redriveCommands `cmd:"" help:"Move dead pages back, through gates." group:"order"`
	Discard discardCommand  `cmd:"" help:"Give up dead pages, or letters that are no dead page's." group:"order"`
	Brake   brakeCommands   `cmd:"" help:"Stop what has not begun, and let it go again." group:"order"`
	Approve approveCommand  `cmd:"" help:"Release a run that the guard stopped, or let a policy version delete." group:"order"`
	Hold    holdCommands    `cmd:"" help:"Place and release legal holds." group:"order"`
	Reject  rejectCommand   `cmd:"" help:"End a run that the guard stopped." group:"order"`
}

// command is what a command of the tool does.
type command interface {
	run(ctx context.Context, d *desk) error
	exits() exits
}

// exits says what a command's statuses mean. An empty sentence is a status that the
// command never ends with.
type exits struct{ Done, Wrong, Waits string }

const description = "The operator's tool of Expunge. It reads with your own credentials and changes nothing itself: " +
	"an order goes to the function that may carry it out, with your name and your reason."

// Main runs one command and returns its exit status.
func Main(ctx context.Context, p Process) int {
	var c commands
	helped := false
	parser, err := kong.New(&c,
		kong.Name("expunge"), kong.Description(description), kong.Writers(p.Out, p.Err),
		kong.Exit(func(int) { helped = true }), kong.Help(help),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "look", Title: "Look:"}, {Key: "check", Title: "Check:"}, {Key: "order", Title: "Order:"},
			{Key: "where", Title: "Which deployment:"}, {Key: "how", Title: "Which form:"},
		}),
	)
	if err != nil {
		panic("expunge: the command line does not build: " + err.Error()) // it is built of constants
	}
	parsed, err := parser.Parse(p.Args)
	if helped {
		return exitDone // kong goes on after it has printed the help
	}
	d := &desk{Process: p, where: c.Where, json: c.JSON}
	if err != nil {
		return d.finish(misused(err))
	}
	do, ok := parsed.Selected().Target.Addr().Interface().(command)
	if !ok {
		panic("expunge: " + parsed.Command() + " is no command") // TestEveryCommand sees it first
	}
	return d.finish(do.run(ctx, d))
}

// misused is the end of a command line that does not parse.
func misused(err error) error {
	name := "expunge"
	if at, ok := errors.AsType[*kong.ParseError](err); ok && at.Context != nil {
		if node := at.Context.Selected(); node != nil {
			name = node.FullPath()
		}
	}
	return usage(err.Error(), name+" --help")
}

// help prints what kong knows of a command, and the statuses it ends with.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := io.WriteString(ctx.Stdout, statuses(ctx.Selected()))
	return err
}

// statuses lists the exit statuses of a command, or of all when none is selected.
func statuses(node *kong.Node) string {
	x := exits{"done; nothing is wrong", "something is wrong, or the order was refused: the reason is on stderr", "not finished yet"}
	if node != nil {
		if c, ok := node.Target.Addr().Interface().(command); ok {
			x = c.exits()
		}
	}
	var b strings.Builder
	b.WriteString("\nExit status:\n")
	for status, text := range []string{exitDone: x.Done, exitWrong: x.Wrong, exitUsage: "the arguments can not be used", exitWaits: x.Waits} {
		if text != "" {
			fmt.Fprintf(&b, "  %d  %s\n", status, text)
		}
	}
	return b.String()
}
