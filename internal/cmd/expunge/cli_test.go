package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// leaves returns the commands of the command line, by their words.
func leaves(t *testing.T) map[string]*kong.Node {
	t.Helper()
	parser, err := kong.New(&commands{}, kong.Name("expunge"))
	must(t, err)
	all := map[string]*kong.Node{}
	for _, n := range parser.Model.Leaves(false) {
		all[strings.TrimPrefix(n.FullPath(), "expunge ")] = n
	}
	return all
}

// Every command says what its statuses mean, and its help is looked at by a
// reviewer before it changes.
func TestEveryCommand(t *testing.T) {
	t.Setenv("COLUMNS", "") // kong asks it how wide a help may be
	for words, node := range leaves(t) {
		t.Run(words, func(t *testing.T) {
			c, ok := node.Target.Addr().Interface().(command)
			if !ok {
				t.Fatal("it can not run")
			}
			if c.exits().Done == "" {
				t.Error("it does not say what status 0 means")
			}
			s := run(t, Process{Args: append(strings.Fields(words), "--help")})
			if s.status != exitDone || s.err != "" {
				t.Errorf("status %d: %s", s.status, s.err)
			}
			golden(t, "help/"+strings.ReplaceAll(words, " ", "-"), s.out)
		})
	}
	golden(t, "help/expunge", run(t, Process{Args: []string{"--help"}}).out)
}

func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no command":        {nil, "next: expunge --help"},
		"unknown command":   {[]string{"run"}, "did you mean"},
		"unknown flag":      {[]string{"runs", "--latest"}, "next: expunge runs --help"},
		"missing argument":  {[]string{"request", "exports"}, "next: expunge request --help"},
		"missing reason":    {[]string{"request", "exports", "acme"}, "--reason"},
		"limit":             {[]string{"runs", "--limit=-1"}, "0 to 1000"},
		"since":             {[]string{"orders", "--since=yesterday"}, "RFC 3339"},
		"two deployments":   {[]string{"runs", "--local", "--region=eu-west-1"}, "give the one or the others"},
		"an empty path":     {[]string{"runs", "--local="}, "empty"},
		"a group of orders": {[]string{"redrive"}, "next: expunge redrive --help"},
	} {
		t.Run(name, func(t *testing.T) {
			s := run(t, Process{Args: c.args, Clock: &hands{}, Dir: t.TempDir()})
			if s.status != exitUsage || !strings.Contains(s.err, c.want) || s.out != "" {
				t.Errorf("status %d, want %q on stderr:\n%s%s", s.status, c.want, s.out, s.err)
			}
		})
	}
}
