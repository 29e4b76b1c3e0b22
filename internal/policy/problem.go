package policy

import (
	"errors"
	"strconv"
	"strings"

	"github.com/expunge-aws/expunge/internal/failure"
)

// Problem is one thing that is wrong with a policy. Line and Column count from
// 1, a column in characters; both are 0 where there is no file.
type Problem struct {
	Line, Column int
	// Field is the key's path, such as schedule.at, or "" for the whole.
	Field string
	// Text says what is wrong and what is allowed.
	Text string
}

// Error holds every problem that was found in one policy, in the order of the
// file. Its class is failure.Invalid.
type Error struct {
	File     string
	Problems []Problem
}

var errRefused = errors.New("the policy is refused")

func refused(file string, problems ...Problem) error {
	return &Error{File: file, Problems: problems}
}

// Error prints one problem per line, as file:line:column: field: text.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		place := "policy: "
		if p.Line > 0 {
			place = e.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column) + ": "
		}
		if p.Field != "" {
			place += p.Field + ": "
		}
		lines[i] = place + p.Text
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the error its class.
func (e *Error) Unwrap() error {
	return failure.Wrap(failure.Invalid, "read policy", errRefused)
}
