package wiring_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
)

// TestRedriveIsFollowedToItsEnd plays a redrive whose function died before it had
// moved anything, through the real handlers: reconcile asks it to go on, a worker
// ends the page, and the next pass closes the redrive with an entry.
func TestRedriveIsFollowedToItsEnd(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	beforeResume(r)
	open, err := r.ledger.OpenRedrives(t.Context())
	must(t, err)
	if len(open) != 1 {
		t.Fatalf("%+v", open)
	}
	if answer := r.invoke(r.reconcile, r.sample("reconcile/tick.json")); !bytes.Contains(answer, []byte(`"continued":1,"finished":0`)) {
		t.Errorf("%s", answer)
	}
	must(t, <-r.wentOn)
	afterResume(t, r)
	for _, want := range []string{`"continued":0,"finished":1`, `"continued":0,"finished":0`} {
		if answer := r.invoke(r.reconcile, r.sample("reconcile/tick.json")); !bytes.Contains(answer, []byte(want)) {
			t.Errorf("%s, want %s", answer, want)
		}
	}
	stored, err := r.ledger.Redrive(t.Context(), open[0].ID)
	must(t, err)
	if stored.ClosedAt.IsZero() || stored.Moved != 1 || stored.Succeeded != 1 || stored.DiedAgain != 0 {
		t.Errorf("%+v", stored)
	}
	entries, err := r.ledger.Entries(t.Context(), stored.ClosedAt.Add(-time.Hour), stored.ClosedAt.Add(time.Hour), 10)
	must(t, err)
	if len(entries) != 1 || entries[0].Act != audit.RedriveClosed || entries[0].RedriveID != stored.ID || !entries[0].At.Equal(stored.ClosedAt) {
		t.Errorf("%+v", entries)
	}
}
