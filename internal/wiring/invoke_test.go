package wiring_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/contract"
)

var event = flag.String("event", "", "the event that TestInvoke hands over: events/<step>/<case>.json, or another file in a folder named by its step")

// TestInvoke is `make invoke`: it hands one event to its step's handler, in the
// region of the samples, and prints the answer and the log lines. It is a test
// because that region is made of test code, which no program links.
func TestInvoke(t *testing.T) {
	if *event == "" {
		t.Skip("make invoke EVENT=events/worker/page.json")
	}
	payload, err := os.ReadFile(*event)
	must(t, err)
	absolute, err := filepath.Abs(*event)
	must(t, err)
	root, err := filepath.Abs(eventsFolder)
	must(t, err)
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	step := filepath.Base(filepath.Dir(absolute))
	if below, err := filepath.Rel(root, absolute); err == nil && filepath.IsLocal(below) {
		step, _, _ = strings.Cut(filepath.ToSlash(below), "/")
		if c, ok := sampleCases()[filepath.ToSlash(below)]; ok {
			c.before(r)
		}
	}
	r.log.take()
	ctx, end := context.WithTimeout(t.Context(), contract.Production().FunctionTimeout)
	defer end()
	answer, err := r.handler(step).Invoke(ctx, payload)
	if err != nil {
		fmt.Printf("%s failed\n%v\n", step, err)
		t.Fail()
	} else {
		fmt.Printf("%s answered\n%s\n", step, answer)
	}
	fmt.Printf("and logged\n%s", r.log.take())
}
