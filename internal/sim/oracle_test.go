package sim

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// alone are the oracles that are shown what they look for here: in a world another one
// always sees it first, or it takes more luck than a test has.
var alone = map[string]string{"S11": "TestTwoOutcomesAreSeen", "S18": "TestADeleteOfWhatWasHeldIsSeen", "S7b": "TestAHastyLetterIsSeen", "E7b": "TestAForgottenOrderIsSeen",
	"S19": "TestAGrownPlanIsSeen", "S9e": "TestABlindReleaseIsSeen"}

func lookFor(id string) func(*truth, *moment) string {
	for _, o := range Oracles() {
		if o.ID == id {
			return o.look
		}
	}
	return nil
}

// S11: an item that another page of the run has settled.
func TestTwoOutcomesAreSeen(t *testing.T) {
	p := NewPlayer()
	defer p.Close()
	w := newWorld(1, p.lib, Options{})
	defer w.close()
	run := job.ScheduledRunID(region, policyName, w.scheduled)
	page := job.Page{ID: job.RangePageID(run, tenants[0], ""), Run: run, Tenant: tenants[0], State: job.Completed}
	line := receipt.Line{Item: w.objects[0], Decision: receipt.Held, Reason: "held", HoldID: "h", Outcome: job.Held}
	hash, data, err := receipt.Document{Header: receipt.Header{
		Kind: receipt.Receipt, Schema: receipt.Schema, RunID: run, PageID: page.ID, Tenant: page.Tenant, Policy: policyName, PolicyVersion: 1,
		PolicySHA256: w.policy.SHA256(), Mode: job.Enforce, Bucket: bucketName, Cutoff: w.scheduled, Fence: 1, CodeVersion: code,
		Plan: "0000000000000000000000000000000000000000000000000000000000000000",
	}, Lines: []receipt.Line{line}}.Encode()
	sure(err)
	page.Receipt = hash
	sure(w.evidence.Put(context.Background(), receipt.Name(receipt.Receipt, run, page.ID, hash), data))
	m := &moment{kind: pageWritten, page: page}
	if text := lookFor("S11")(w.truth, m); text != "" {
		t.Errorf("one outcome: %s", text)
	}
	w.truth.settled[runItem{run, line.Ref()}] = "another"
	if lookFor("S11")(w.truth, m) == "" {
		t.Error("a second outcome is not seen")
	}
}

// S4, S18: a hold that was answered HELD, while it is in force and after its release.
func TestADeleteOfWhatWasHeldIsSeen(t *testing.T) {
	p := NewPlayer()
	defer p.Close()
	w := newWorld(1, p.lib, Options{})
	defer w.close()
	key := w.keys[0]
	h := &holdTruth{hold: hold.Hold{ID: "hold-1", Tenant: tenants[0], Scope: hold.Tenant, Epoch: 2}, promised: map[string]bool{key: true}}
	w.held, w.truth.holds["hold-1"] = 1, h
	at := func(epoch int64) *moment {
		return &moment{kind: effectHappened, effect: artifact.Effect{Item: job.Item{Key: key}}, flight: &flight{page: job.Page{Intent: job.Intent{Epoch: epoch}}}}
	}
	s4, s18 := lookFor("S4"), lookFor("S18")
	if s4(w.truth, at(1)) == "" || s18(w.truth, at(1)) != "" {
		t.Error("a hold in force is S4's")
	}
	h.hold.ReleasedAt = w.clock().Add(-time.Minute)
	if s4(w.truth, at(1)) != "" || s18(w.truth, at(1)) == "" {
		t.Error("a decision from before a released hold is S18's")
	}
	if s18(w.truth, at(2)) != "" {
		t.Error("what was decided after the hold was released may be deleted")
	}
}

// E7: an order that was taken and does not stand in the ledger as it was given.
func TestAForgottenOrderIsSeen(t *testing.T) {
	p := NewPlayer()
	defer p.Close()
	w := newWorld(1, p.lib, Options{})
	defer w.close()
	e := audit.Entry{At: w.clock(), Act: audit.BrakeSet, Region: region, By: "sim", Reason: "ordered in a simulation"}
	w.truth.entries = []audit.Entry{e}
	if lookFor("E7b")(w.truth, &moment{kind: worldEnded}) == "" {
		t.Error("an order that is nowhere is not seen")
	}
	sure(w.ledger.PutEntry(context.Background(), e))
	if text := lookFor("E7b")(w.truth, &moment{kind: worldEnded}); text != "" {
		t.Error(text)
	}
}

// S7b: a message of a newer schema, given up at once, and only when nobody has read it.
func TestAHastyLetterIsSeen(t *testing.T) {
	p := NewPlayer()
	defer p.Close()
	w := newWorld(1, p.lib, Options{})
	defer w.close()
	w.settings.MaxReceives = 10
	given := func(after time.Duration) string {
		l := job.Letter{Reason: job.ReasonNewerSchema, FirstAt: w.clock(), FailedAt: w.clock().Add(after)}
		return lookFor("S7b")(w.truth, &moment{kind: letterWritten, letter: l})
	}
	if given(time.Second) == "" {
		t.Error("a worker that does not wait for a newer one is not seen")
	}
	if text := given(9 * w.settings.Visibility()); text != "" {
		t.Errorf("nine visibilities are enough: %s", text)
	}
}

func TestOraclesAreNamed(t *testing.T) {
	seen, sentence := map[string]bool{}, regexp.MustCompile(`^[a-z][^.]{20,140}$`)
	for _, o := range Oracles() {
		if seen[o.ID] || !sentence.MatchString(o.Means) || len(o.at) == 0 || !regexp.MustCompile(`^[SELFC][0-9]+[a-z]?$`).MatchString(o.ID) {
			t.Errorf("%s: %s", o.ID, o.Means)
		}
		seen[o.ID] = true
	}
	if len(seen) < 24 {
		t.Errorf("%d oracles", len(seen))
	}
	if names := map[string]bool{}; len(Faults()) < 24 {
		t.Errorf("%d kinds of fault", len(Faults()))
	} else {
		for _, f := range Faults() {
			if names[f.String()] || f.String() == "" {
				t.Errorf("kind %d is called %q", f, f)
			}
			names[f.String()] = true
		}
	}
}

// S19: a later plan of a page may delete less, and nothing else.
func TestAGrownPlanIsSeen(t *testing.T) {
	p := NewPlayer()
	defer p.Close()
	w := newWorld(1, p.lib, Options{})
	defer w.close()
	page := job.Page{ID: "page", Run: "run", State: job.Intended}
	intending := func(plan string, items ...job.Item) job.Page {
		var d receipt.Document
		for _, item := range items {
			d.Lines = append(d.Lines, receipt.Line{Item: item, Decision: receipt.Delete})
		}
		w.truth.docs[receipt.Name(receipt.Plan, page.Run, page.ID, plan)] = &d
		with := page
		with.Intent.Plan = plan
		return with
	}
	a, b := job.Item{Key: "a", ETag: "a"}, job.Item{Key: "b", ETag: "b"}
	both, one := intending("both", a, b), intending("one", a)
	if text := lookFor("S19")(w.truth, &moment{kind: pageWritten, was: both, page: one}); text != "" {
		t.Error(text)
	}
	if lookFor("S19")(w.truth, &moment{kind: pageWritten, was: one, page: both}) == "" {
		t.Error("a plan that deletes more is not seen")
	}
	if lookFor("S19")(w.truth, &moment{kind: pageWritten, page: one, children: []job.Page{both}}) == "" {
		t.Error("a split-off item that was not planned is not seen")
	}
}

// S9e: a run is released by an order that was about another scan.
func TestABlindReleaseIsSeen(t *testing.T) {
	p := NewPlayer()
	defer p.Close()
	w := newWorld(1, p.lib, Options{})
	defer w.close()
	waiting := job.Run{ID: "run", Policy: policyName, Version: 1, State: job.AwaitingApproval}
	released := func(by string) string {
		r := waiting
		r.State, r.ApprovedBy = job.Released, by
		return lookFor("S9e")(w.truth, &moment{kind: runWritten, ranBefore: waiting, run: r, by: &instance{began: w.clock().Add(time.Hour)}})
	}
	if text := released("operator"); text != "" {
		t.Error(text)
	}
	if released(blind) == "" {
		t.Error("an order about another scan is not seen")
	}
	w.truth.runs["next"] = job.Run{ID: "next", Policy: policyName, Version: 2, OpenedAt: w.clock()}
	if released("operator") == "" {
		t.Error("a superseded version without an override is not seen")
	}
}
