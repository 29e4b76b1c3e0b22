package ledger_test

import (
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/job"
)

// transition is one line of a drawing: a state, an event, the state that follows.
type transition struct{ from, event, to string }

var (
	arrow = regexp.MustCompile(`(\w+) *--(\w+)--> (\w+)`)
	line  = regexp.MustCompile(`(?m)^\t(\w+) +--(\w+)--> (\w+)$`)
)

// chapter returns the part of the package comment under a heading.
func chapter(t *testing.T, heading string) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(file.Doc.Text(), "# "+heading+"\n")
	if !found {
		t.Fatalf("doc.go has no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n# ")
	return text
}

func find(form *regexp.Regexp, text string) []transition {
	var all []transition
	for _, m := range form.FindAllStringSubmatch(text, -1) {
		all = append(all, transition{m[1], m[2], m[3]})
	}
	return all
}

// wantMachine compares the drawn lines with every pair of the machine's states
// and events, so that neither can change without the other.
func wantMachine[S, E ~string](t *testing.T, heading string, states []S, events []E, on func(S, E) (S, bool)) {
	t.Helper()
	drawn := map[transition]int{}
	for _, tr := range find(line, chapter(t, heading)) {
		drawn[tr]++
	}
	moves := 0
	for _, s := range states {
		for _, e := range events {
			next, allowed := on(s, e)
			if !allowed {
				if next != "" {
					t.Errorf("%s --%s--> is not allowed and answers %s", s, e, next)
				}
				continue
			}
			moves++
			if drawn[transition{string(s), string(e), string(next)}] != 1 {
				t.Errorf("%s --%s--> %s happens and stands %d times in doc.go", s, e, next, drawn[transition{string(s), string(e), string(next)}])
			}
		}
	}
	for tr := range drawn {
		if next, allowed := on(S(tr.from), E(tr.event)); !allowed || string(next) != tr.to {
			t.Errorf("doc.go draws %v, which does not happen", tr)
		}
	}
	if moves == 0 || moves != len(drawn) {
		t.Errorf("%d moves, %d lines", moves, len(drawn))
	}
}

func TestRunMachineIsAsDrawn(t *testing.T) {
	wantMachine(t, "The states of a run", job.RunStates(), job.RunEvents(), job.RunState.On)
}

func TestPageMachineIsAsDrawn(t *testing.T) {
	wantMachine(t, "The states of a page", job.PageStates(), job.PageEvents(), job.PageState.On)
}

// The picture above the list leaves out what would clutter it, and draws nothing else.
func TestPagePictureIsTrue(t *testing.T) {
	picture, _, found := strings.Cut(chapter(t, "The states of a page"), "In full")
	if !found {
		t.Fatal("the list does not begin with In full")
	}
	for _, s := range job.PageStates() {
		if !strings.Contains(picture, string(s)) {
			t.Errorf("the picture has no %s", s)
		}
	}
	for _, e := range job.PageEvents() {
		if !regexp.MustCompile(`\b` + string(e) + `\b`).MatchString(picture) {
			t.Errorf("the picture has no %s", e)
		}
	}
	seen := 0
	for rest := picture; ; seen++ {
		at := arrow.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		tr := transition{rest[at[2]:at[3]], rest[at[4]:at[5]], rest[at[6]:at[7]]}
		rest = rest[at[6]:] // the state it leads to may begin the next arrow
		if tr.from == "state" {
			continue // "any open state", in the next test
		}
		if next, allowed := job.PageState(tr.from).On(job.PageEvent(tr.event)); !allowed || string(next) != tr.to {
			t.Errorf("the picture draws %v, which does not happen", tr)
		}
	}
	if seen < 6 {
		t.Errorf("found %d arrows in the picture", seen)
	}
}

func TestEveryOpenPageCanDieAndNoOther(t *testing.T) {
	for _, s := range job.PageStates() {
		if next, allowed := s.On(job.EventDie); allowed != s.Open() || allowed && next != job.Dead {
			t.Errorf("%s: dies %v to %s", s, allowed, next)
		}
	}
}

func TestNothingLeavesATerminalState(t *testing.T) {
	for _, s := range job.PageStates() {
		moves := 0
		for _, e := range job.PageEvents() {
			if _, allowed := s.On(e); allowed {
				moves++
			}
		}
		if s.Terminal() != (moves == 0) {
			t.Errorf("%s: terminal %v with %d moves", s, s.Terminal(), moves)
		}
	}
}
