package reconcile

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

func TestOwedDeadLetterHasTheOriginalBytes(t *testing.T) {
	for _, braked := range []bool{false, true} {
		r := newRegion(t)
		run := r.open("exports", job.Released)
		p := r.add(run, in(job.Dead))
		original := job.NewMessage(r.run(run), p).Body
		if braked {
			// A brake stops work. That something is dead is said all the same.
			if err := r.ledger.SetBrake(t.Context(), job.Brake{}); err != nil {
				t.Fatal(err)
			}
		}
		if did := r.pass(); did != (Summary{Letters: 1}) {
			t.Errorf("%+v", did)
		}
		letters := r.lettersOf(p)
		if len(letters) != 1 || !bytes.Equal(letters[0].Body, original) {
			t.Fatalf("%d letters: %s", len(letters), letters[0].Body)
		}
		want := job.Letter{
			Body: letters[0].Body, Reason: job.ReasonAttempts, RunID: run.ID, PageID: p.ID, Policy: "exports", Version: 1, Region: "eu-west-1",
			Attempts: 5, FirstAt: p.BornAt, FailedAt: p.Death.At,
		}
		if got := letters[0]; got.Reason != want.Reason || got.RunID != want.RunID || got.Policy != want.Policy || got.Version != want.Version ||
			got.Region != want.Region || got.Attempts != want.Attempts || !got.FirstAt.Equal(want.FirstAt) || !got.FailedAt.Equal(want.FailedAt) {
			t.Errorf("letter\n got %+v\nwant %+v", got, want)
		}
		if stored := r.page(p); !stored.Death.LetterAt.Equal(noon) || stored.State != job.Dead {
			t.Errorf("%+v", stored)
		}
		var told []audit.Event
		for _, e := range r.log.Events() {
			if e.Event == audit.DeadLettered {
				told = append(told, e)
			}
		}
		if len(told) != 1 || told[0].Reason != job.ReasonAttempts || told[0].FailureClass != failure.Network || told[0].Attempt != 5 {
			t.Errorf("%+v", told)
		}
		r.wantCounted(contract.DeadLetters, job.ReasonAttempts, 1)
		if did := r.pass(); did != (Summary{}) || len(r.lettersOf(p)) != 1 || r.messagesOf(p) != 0 {
			t.Errorf("the next pass: %+v", did)
		}
	}
}

// Past its ceiling a page dies with a letter; it is never sent around the gates
// of redrive, in this pass or any later one.
func TestExhaustedPagesDieWithALetter(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		name   string
		change func(*job.Page)
		reason job.Reason // "" is sent again
	}{
		{"four attempts", func(p *job.Page) { p.Attempts = 4 }, ""},
		{"five attempts", func(p *job.Page) { p.Attempts = 5 }, job.ReasonAttempts},
		{"six attempts", func(p *job.Page) { p.Attempts = 6 }, job.ReasonAttempts},
		{"five in all, two since the redrive", func(p *job.Page) { p.Attempts, p.Spent = 5, 3 }, ""},
		{"ten in all, five since the redrive", func(p *job.Page) { p.Attempts, p.Spent = 10, 5 }, job.ReasonAttempts},
		{"just under a day", func(p *job.Page) { p.FirstFailure = noon.Add(-day + 1) }, ""},
		{"a day", func(p *job.Page) { p.FirstFailure = noon.Add(-day) }, job.ReasonAge},
		{"redriven within a day", func(p *job.Page) { p.FirstFailure, p.RestartedAt = noon.Add(-9*day), noon.Add(-time.Hour) }, ""},
		{"redriven a day ago", func(p *job.Page) { p.FirstFailure, p.RestartedAt = noon.Add(-9*day), noon.Add(-day) }, job.ReasonAge},
		{"never failed, only never taken", func(p *job.Page) { p.FirstFailure, p.Attempts = time.Time{}, 0 }, ""},
	} {
		for _, state := range openStates() {
			r := newRegion(t)
			run := r.open("exports", job.Released)
			p := in(state)
			p.Attempts, p.Spent, p.FirstFailure, p.RestartedAt = 1, 0, noon.Add(-time.Hour), time.Time{}
			p.LastClass = failure.Throttled
			p.Receipt, p.Bytes = "ef", 30
			p.Counts[job.Deleted] = 3
			c.change(&p)
			p = r.add(run, p)
			did := r.pass()
			stored := r.page(p)
			if c.reason == "" {
				if did != (Summary{Resent: 1}) || r.messagesOf(p) != 1 {
					t.Errorf("%s, %s: %+v", c.name, state, did)
				}
				continue
			}
			if did != (Summary{Buried: 1, Letters: 1}) || stored.State != job.Dead || stored.Death.Reason != c.reason || stored.Death.LetterAt.IsZero() {
				t.Errorf("%s, %s: %+v, %+v", c.name, state, did, stored)
			}
			// What was answered and what is still open stays on record.
			if stored.Counts != p.Counts || stored.Receipt != "ef" || stored.Bytes != 30 || stored.Intent != p.Intent || stored.LastClass != failure.Throttled {
				t.Errorf("%s, %s: %+v", c.name, state, stored)
			}
			letters := r.lettersOf(p)
			if len(letters) != 1 || letters[0].Reason != c.reason || !bytes.Equal(letters[0].Body, job.NewCommand(r.run(run), p).Encode()) {
				t.Errorf("%s, %s: letters %+v", c.name, state, letters)
			}
			for range 3 {
				r.clock.advance(time.Hour)
				if did := r.pass(); did != (Summary{}) {
					t.Errorf("%s, %s: a later pass does %+v", c.name, state, did)
				}
			}
			if r.messagesOf(p) != 0 {
				t.Errorf("%s, %s: it was sent", c.name, state)
			}
		}
	}
}

// A page that a worker takes while it is being buried lives on.
func TestBuryLosesToAWorker(t *testing.T) {
	r := newRegion(t)
	run := r.open("exports", job.Released)
	worn := in(job.Retrying)
	worn.Attempts = 5
	p := r.add(run, worn)
	nested := false
	r.ledger.Hook = func(op string, apply func() error) error {
		if op == "page:dead" && !nested {
			nested = true
			claimed, err := p.Claim("w", noon, noon.Add(time.Minute), noon.Add(time.Hour))
			if err == nil {
				err = r.ledger.SwapPage(context.Background(), claimed)
			}
			if err != nil {
				t.Error(err)
			}
		}
		return apply()
	}
	if did := r.pass(); did != (Summary{}) || r.page(p).State != job.Claimed || len(r.lettersOf(p)) != 0 {
		t.Errorf("%+v, %+v", did, r.page(p))
	}
}
