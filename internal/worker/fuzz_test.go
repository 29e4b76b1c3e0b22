package worker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// FuzzMessage: whatever body a message has, the worker deletes nothing for it unless it
// is the page's own command, byte for byte in meaning; it does not panic; and it lets the
// message go only with its dead letter. No line and no attribute quotes it (S7, S17).
func FuzzMessage(f *testing.F) {
	seeds, _ := filepath.Glob("../job/testdata/fuzz/FuzzDecode/*")
	for _, file := range seeds {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		text, err := strconv.Unquote(strings.TrimSuffix(strings.TrimPrefix(string(data), "go test fuzz v1\n[]byte("), ")\n"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(text), uint8(1))
	}
	own := func(w *world) job.Command { return job.NewCommand(w.run, w.row()) }
	w := newWorld(f, setup{keys: []string{"a"}})
	c := own(w)
	f.Add(c.Encode(), uint8(1))
	for _, change := range []func(*job.Command){
		func(c *job.Command) { c.TenantID = "acme2" },
		func(c *job.Command) { c.Region = "us-east-1" },
		func(c *job.Command) { c.PolicyVersion = 2 },
		func(c *job.Command) { c.Hash = strings.Repeat("0", 32) },
		func(c *job.Command) { c.Schema = 2 },
	} {
		other := c
		change(&other)
		f.Add(other.Encode(), uint8(10))
	}
	f.Fuzz(func(t *testing.T, body []byte, receives uint8) {
		w := newWorld(t, setup{keys: []string{"a", "b"}})
		var lines bytes.Buffer
		sink := audit.NewLines(&lines, "prod")
		w.config.Audit = audit.Both(w.log, audit.Counted(sink, sink, contract.ServiceWorker))
		before := w.row()
		command, err := job.Decode(body)
		mine := err == nil && command == own(w)
		response := w.worker().Batch(t.Context(), w.clock.Now().Add(w.config.Settings.FunctionTimeout),
			[]job.Delivery{{MessageID: "m", Handle: "h", Body: body, SentAt: w.clock.Now(), Receives: int(receives)}})
		letters := w.queue.PeekLetters()
		if mine {
			if w.row().State != job.Completed || len(letters) != 0 {
				t.Fatalf("its own command left the page %s", w.row().State)
			}
			return
		}
		w.wantSent()
		if w.row() != before {
			t.Errorf("the page became %+v", w.row())
		}
		if gone := len(response.BatchItemFailures) == 0; gone != (len(letters) == 1) || gone && (!bytes.Equal(letters[0].Body, body) || letters[0].Letter.Reason == "") {
			t.Errorf("answered %+v with %d dead letters", response, len(letters))
		}
		for _, e := range w.log.Events() {
			if e.FailureClass == failure.Bug {
				t.Errorf("%+v", e)
			}
		}
		said := []string{lines.String()}
		for _, l := range letters {
			l.Letter.Body = nil
			said = append(said, fmt.Sprintf("%+v", l.Letter))
		}
		if err != nil && len(body) >= 12 && slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, string(body)) }) {
			t.Errorf("quoted in %q", said)
		}
	})
}
