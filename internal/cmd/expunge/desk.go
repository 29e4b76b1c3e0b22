package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/report"
)

// desk is where a command works: what it was started with, and the deployment.
type desk struct {
	Process
	where where
	json  bool
	// region is the deployment once it is connected.
	region *deployment
	shown  bool
}

// Head begins every answer.
type Head struct {
	Region string `json:"region"`
	Stage  string `json:"stage"`
	// Next names the exact commands between which an operator can choose.
	Next []string `json:"next"`
}

func (h *Head) head() *Head { return h }

// answer is what a command found out: one JSON object, or lines of text.
type answer interface {
	head() *Head
	write(s *sheet)
}

// show prints an answer. It is called once in a command.
func (d *desk) show(a answer) error {
	d.shown = true
	if d.region != nil {
		a.head().Region, a.head().Stage = d.region.outputs.Region, d.region.outputs.Stage
	}
	if d.json {
		return d.print(a)
	}
	s := &sheet{color: d.Terminal && d.Env("NO_COLOR") == "" && d.Env("TERM") != "dumb", width: d.columns()}
	if d.region != nil {
		s.line(s.paint(faint, d.region.title()))
	}
	a.write(s)
	if next := a.head().Next; len(next) > 0 {
		s.line()
		s.next(next)
	}
	_, err := fmt.Fprint(d.Out, s.b.String())
	return err
}

// print writes a value as JSON. The same value gives the same bytes.
func (d *desk) print(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return failure.Wrap(failure.Bug, "write the answer", err)
	}
	_, err = fmt.Fprintf(d.Out, "%s\n", b)
	return err
}

// ending is how a command ends other than well.
type ending struct {
	status int
	text   string
	next   []string
}

func (e *ending) Error() string { return e.text }

// usage ends a command whose arguments can not be used.
func usage(text string, next ...string) error { return &ending{exitUsage, text, next} }

// wrong ends a command that found something wrong, or was refused.
func wrong(text string, next ...string) error { return &ending{exitWrong, text, next} }

// waits ends a command that did not wait long enough.
func waits(text string, next ...string) error { return &ending{exitWaits, text, next} }

// failed is what a machine reads of a command that has no answer.
type failed struct {
	Head
	Error string `json:"error"`
}

// finish says how a command ended and returns its status.
func (d *desk) finish(err error) int {
	if err == nil {
		return exitDone
	}
	end, ok := errors.AsType[*ending](err)
	if !ok {
		end = d.explainError(err)
	}
	fmt.Fprintf(d.Err, "expunge: %s\n", report.Clean(end.text))
	if d.json && !d.shown {
		f := failed{Error: end.text, Head: Head{Next: end.next}}
		if d.region != nil {
			f.Region, f.Stage = d.region.outputs.Region, d.region.outputs.Stage
		}
		_ = d.print(f) // a reader that has gone can not be told
	}
	if !d.shown {
		for _, command := range end.next {
			fmt.Fprintf(d.Err, "next: %s\n", report.Clean(command))
		}
	}
	return end.status
}

// explainError says of an error what to do about it.
func (d *desk) explainError(err error) *ending {
	end := &ending{status: exitWrong, text: err.Error()}
	if errors.Is(err, context.Canceled) {
		end.text += "; an order that was sent may have been carried out: look before you give it again"
		return end
	}
	switch failure.Of(err) {
	case failure.Forbidden:
		end.text += "; your credentials do not allow this here, or the deployment is not there"
		end.next = []string{"aws sts get-caller-identity" + d.profile()}
	case failure.Throttled, failure.Network:
		end.text += "; say it again, which is safe: a read changes nothing and an order given twice is carried out once"
		if failure.Is(err, failure.Network) && d.region != nil && d.region.local {
			end.text += "; if nothing listens at " + d.region.endpoint + " any more, make up starts a region anew"
		}
	case failure.Conflict:
		// The plan has expired, the run is decided, the hold was released: giving the
		// same order again meets the same refusal.
		end.text += "; look at what stands there now before you give another order"
	case failure.Absent, failure.Invalid, failure.UnknownPolicy, failure.Bug:
	}
	return end
}

// profile repeats the profile for a command of the AWS CLI.
func (d *desk) profile() string {
	if d.where.Profile == "" {
		return ""
	}
	return " --profile " + quote(d.where.Profile)
}

// command writes a command of this tool as one would type it, for the deployment
// that this command was given.
func (d *desk) command(words ...string) string {
	var b strings.Builder
	b.WriteString("expunge")
	for _, w := range append(words, d.where.words()...) {
		b.WriteString(" " + quote(w))
	}
	return b.String()
}

// blank stands in a command for a text that only its writer knows. It is too short
// to be taken for a reason.
const blank = "..."

// bare is a word that no shell changes.
var bare = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote writes a word for a POSIX shell.
func quote(w string) string {
	if bare.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
