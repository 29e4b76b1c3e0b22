package worker

import (
	"sync"
	"testing"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// TestDB01_ARivalsClaimIsNotMistakenForOnesOwn: both workers compute the same row
// but for its owner. The one whose write failed reads the other's back: equal in
// revision, fence and state, and all the same not its own.
func TestDB01_ARivalsClaimIsNotMistakenForOnesOwn(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	d := w.receive(1)
	var once sync.Once
	w.on("page:claimed", func(apply func() error) error {
		once.Do(func() {
			rival := w.row()
			claimed, err := rival.Claim("rival", w.clock.Now(), w.clock.Now().Add(w.config.Settings.FunctionTimeout), w.clock.Now())
			w.must(err)
			w.must(w.ledger.SwapPage(t.Context(), claimed))
		})
		return apply()
	})
	w.batch(w.worker(), d...)
	w.wantSent()
	if p := w.row(); p.Owner != "rival" || p.Attempts != 1 || p.State != job.Claimed {
		t.Errorf("%+v", p)
	}
}

// TestE4_ATamperedPlanIsNoAuthority: a resume deletes nothing on the word of a
// plan that is not what the page's row names.
func TestE4_ATamperedPlanIsNoAuthority(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	w.on("intend", dieAfter)
	w.invoke()
	p := w.row()
	forged := w.document(receipt.Plan, p, p.Intent.Plan)
	forged.Lines = forged.Lines[:1]
	_, data, err := forged.Encode()
	w.must(err)
	w.standIn = data
	w.clock.advance(w.config.Settings.Visibility())
	w.invoke()
	w.wantSent()
	if p := w.row(); p.State != job.Retrying || p.Counts.Sum() != 0 {
		t.Errorf("%+v", p)
	}
}

// TestS12_AChangedPolicyRowIsNotUsed: the run pins the content of its policy
// version, not only its number.
func TestS12_AChangedPolicyRowIsNotUsed(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}, pinned: "0000000000000000000000000000000000000000000000000000000000000000"})
	w.invoke()
	w.wantSent()
	w.wantLetters(job.ReasonUnknownPolicy)
	if p := w.row(); p.State != job.Dead || p.LastClass != failure.UnknownPolicy {
		t.Errorf("%+v", p)
	}
}
