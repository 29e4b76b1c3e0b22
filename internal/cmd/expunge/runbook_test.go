package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// commandsIn are the command lines of a document: in code, or after the "First:" of an
// alarm's text.
var commandsIn = regexp.MustCompile("(?m)`expunge ([^`]+)`|First: expunge (.+)$|^expunge (.+)$")

// A runbook is followed at 03:00: every command in it, in the README and in the texts of
// the alarms is one that this program takes.
func TestDocumentedCommandsParse(t *testing.T) {
	files, err := filepath.Glob("../../../infra/runbooks/*.md")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("there is no runbook")
	}
	for _, file := range append(files, "../../../README.md", "../../../infra/region/testdata/alarms.golden") {
		text, err := os.ReadFile(file)
		must(t, err)
		found := commandsIn.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no command", file)
		}
		for _, m := range found {
			line := m[1] + m[2] + m[3]
			if strings.HasSuffix(file, "README.md") && leaves(t)[line] != nil {
				continue // it speaks of the command, and orders nothing
			}
			if err := parses(t, strings.Fields(line)); err != nil {
				t.Errorf("%s: expunge %s: %v", filepath.Base(file), line, err)
			}
		}
	}
}

// parses says what is wrong with a command line, without running it.
func parses(t *testing.T, args []string) error {
	t.Helper()
	parser, err := kong.New(&commands{}, kong.Name("expunge"))
	must(t, err)
	_, err = parser.Parse(args)
	return err
}

// The test would see a command that is not there, a flag, and an argument too few.
func TestDocumentedCommandsAreHeldToTheGrammar(t *testing.T) {
	for _, line := range []string{"repair RUN", "runs --latest", "explain", "brake on exports", "redrive apply --reason TEXT"} {
		if parses(t, strings.Fields(line)) == nil {
			t.Errorf("expunge %s is taken for a command", line)
		}
	}
}
