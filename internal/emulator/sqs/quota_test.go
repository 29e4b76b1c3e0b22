package sqs

import (
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// The quota of a standard queue is 120,000 messages in flight; then a receive is
// refused. The messages are only said to be there: to send them takes long.
func TestOverLimit(t *testing.T) {
	s := New(wire.NewManual(time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)))
	g := s.region("eu-central-1")
	set, failed := g.change(defaults(), g.arn("pages"), nil)
	if failed != nil {
		t.Fatal(failed)
	}
	q := newQueue("pages", g.arn("pages"), set, g.clock.Now())
	g.queues["pages"] = q
	for inFlight, want := range map[int]string{119_999: "", 120_000: "OverLimit"} {
		q.inFlight = inFlight
		_, err := g.receive(t.Context(), "pages", poll{limit: 1})
		if err == nil && want != "" || err != nil && err.Code != want {
			t.Errorf("with %d in flight: %v, want %q", inFlight, err, want)
		}
	}
}
