package worker

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

const canary = "CANARY"

// TestS17_NoKeyAndNoTextLeavesTheProcess: keys, bodies, reasons of holds and the
// texts of errors stand in no event, no attribute of a dead letter, no response.
func TestS17_NoKeyAndNoTextLeavesTheProcess(t *testing.T) {
	wound := func(c failure.Class) handler {
		return failing(&failure.Error{Class: c, Op: "injected", Err: errors.New(canary)})
	}
	for name, play := range map[string]func(*world){
		"success":       func(*world) {},
		"held":          func(w *world) { w.hold(canary, hold.Prefix, root+canary) },
		"refused":       func(w *world) { w.must(w.store.Deny(bucket, root)) },
		"split":         func(w *world) { w.must(w.store.DenyKey(bucket, root+canary+"1")) },
		"attempts":      func(w *world) { w.each("list", wound(failure.Bug)) },
		"unknown error": func(w *world) { w.each("list", failing(errors.New(canary))) },
		"delete":        func(w *world) { w.each("delete", wound(failure.Forbidden)) },
		"evidence":      func(w *world) { w.each("put:plan", wound(failure.Network)) },
		"letter":        func(w *world) { w.each("list", wound(failure.Forbidden)); w.on("dead-letter", wound(failure.Network)) },
		"panic":         func(w *world) { w.each("list", func(func() error) error { panic(canary) }) },
		"body":          func(w *world) { w.receive(10); w.post(job.Message{ID: "m", Body: []byte(`{"key":"` + canary + `"}`)}) },
		"newer body": func(w *world) {
			w.receive(10)
			w.post(job.Message{ID: "m", Body: []byte(`{"schema":7,"key":"` + canary + `"}`)})
		},
		"lying decision": func(w *world) { w.config.Decide = yes; w.hold("h", hold.Tenant, "") },
		"a neighbour's": func(w *world) {
			w.config.Decide = yes
			w.config.Artifacts = offering{taps{w}, []job.Item{{Key: canary, ETag: "e", Modified: expired}}}
		},
		"changed, resumed": func(w *world) { w.on("delete", dieBefore) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{canary + "1", canary + "2"}})
			var lines bytes.Buffer
			sink := audit.NewLines(&lines, "prod")
			w.config.Audit = audit.Both(w.log, audit.Counted(sink, sink, contract.ServiceWorker))
			play(w)
			for range 30 {
				at, ok := w.queue.NextVisible(w.run.Mode)
				if !ok {
					break
				}
				w.clock.reach(at)
				w.invoke()
				w.send()
				w.silent("response", w.bytes(w.response))
			}
			if lines.Len() == 0 {
				t.Error("nothing was said at all")
			}
			w.silent("events", lines.String())
			for line := range strings.Lines(lines.String()) {
				if strings.Contains(line, `"_aws"`) && strings.Contains(line, acme) {
					t.Errorf("R101: a metric names the tenant: %s", line)
				}
			}
			for _, l := range w.queue.PeekLetters() {
				l.Letter.Body = nil
				w.silent("letter", fmt.Sprintf("%+v", l.Letter))
				if strings.Contains(fmt.Sprintf("%+v", l.Letter), acme) {
					t.Error("a dead letter's attributes name the tenant")
				}
			}
		})
	}
}

func (w *world) silent(what, text string) {
	w.t.Helper()
	if strings.Contains(text, canary) {
		w.t.Errorf("%s: %s", what, text)
	}
}
