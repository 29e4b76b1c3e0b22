package main

import (
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// A date without a run is late, and its run is started by the very instant that
// stands beside it: once, whoever asks and however often (R112, L3).
func TestMissedDates(t *testing.T) {
	r := newRegion(t, at)
	p, err := policy.Parse("exports.yaml", []byte(exportsPolicy))
	must(t, err)
	must(t, r.ledger.PublishPolicy(t.Context(), p))
	if s := r.ok("runs", "--late"); !strings.Contains(s.out, "Nothing is late") {
		t.Errorf("nobody watches the policy, and its dates are missed:\n%s", s.out)
	}
	must(t, r.ledger.SwapWatch(t.Context(), job.Watch{Policy: "exports", Rev: 1, Since: at.Add(-60 * time.Hour), Through: at}))
	s := r.ends(exitWrong, "something is late", "runs", "--late")
	for _, want := range []string{"2026-03-07", "2026-03-08", "next: expunge start exports 2026-03-08T01:30:00Z"} {
		if !strings.Contains(s.out, want) {
			t.Errorf("%q is missing:\n%s", want, s.out)
		}
	}
	if strings.Contains(s.out, "2026-03-09") {
		t.Errorf("a date that may still begin is missed:\n%s", s.out)
	}
	r.ends(exitUsage, "has no date at 2026-03-08T01:31:00Z", "start", "exports", "2026-03-08T01:31:00Z")
	r.ends(exitUsage, "yesterday is no instant in RFC 3339", "start", "exports", "yesterday")
	first := r.ok("start", "exports", "2026-03-08T01:30:00Z")
	if again := r.ok("start", "exports", "2026-03-08T01:30:00Z"); again.out != first.out {
		t.Errorf("started twice it is\n%s\nand then\n%s", first.out, again.out)
	}
	if s := r.expunge("runs", "--late"); strings.Contains(s.out, "start exports 2026-03-08") || !strings.Contains(s.out, "start exports 2026-03-07") {
		t.Errorf("the started date:\n%s", s.out)
	}
}
