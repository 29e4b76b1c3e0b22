package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// TestS3_01_ErrorsInsideASuccess: a bulk delete answers item by item, and only
// what it says is gone is gone.
func TestS3_01_ErrorsInsideASuccess(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"k1", "k2", "k3", "k4"}})
	w.must(w.store.DenyKey(bucket, root+"k2"))
	w.faulty(job.Unsure, "k3")
	w.invoke()
	w.want(job.Completed, map[string]string{"k1": "deleted answered", "k2": "", "k3": "", "k4": "deleted answered"})
	p := w.row()
	for _, l := range w.document(receipt.Receipt, p, p.Receipt).Lines {
		if moved := l.Decision == receipt.Moved; moved != (l.Outcome == job.NoOutcome) {
			t.Errorf("%+v", l)
		}
	}
	w.faulty(job.NoAnswer)
	w.send()
	w.drain()
	w.wantLetters(job.ReasonForbidden)
	got := map[string]string{}
	for _, child := range w.children() {
		for name, word := range w.wrote(child) {
			got[name] = word
		}
	}
	if got["k2"] != "refused" || got["k3"] != "deleted answered" {
		t.Errorf("children %v", got)
	}
	w.wantLeft("k2")
}

// TestS3_01_AnAnswerForEveryItem: a store that forgets one is not believed.
func TestS3_01_AnAnswerForEveryItem(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a", "b"}})
	w.config.Artifacts = forgetful{taps{w}}
	w.invoke()
	if p := w.row(); p.State != job.Retrying || p.Counts.Sum() != 0 || w.acked != 0 {
		t.Errorf("%+v", p)
	}
}

// forgetful does not answer for the last item.
type forgetful struct{ taps }

func (f forgetful) Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error) {
	answers, err := f.taps.Delete(ctx, d)
	if len(answers) == 0 || d.Items[len(d.Items)-1].Key != root+"b" {
		return answers, err
	}
	return answers[:len(answers)-1], err
}

// TestS3_03_OnlyWhatHasNoAnswerIsSentAgain: 1,000 keys, InternalError on 7 for two
// rounds: three calls, and 993 are not touched again.
func TestS3_03_OnlyWhatHasNoAnswerIsSentAgain(t *testing.T) {
	w := newWorld(t, setup{keys: names(1000)})
	bad := []string{"0003", "0100", "0101", "0500", "0777", "0998", "0999"}
	w.faulty(job.Unsure, bad...)
	w.on("delete", before(func() {}), after(func() { w.faulty(job.NoAnswer) }))
	w.invoke()
	if len(w.sent) != 3 || len(w.sent[0]) != 1000 {
		t.Fatalf("%d calls", len(w.sent))
	}
	w.sent = w.sent[1:]
	w.wantSent(bad, bad)
	if p := w.row(); p.State != job.Completed || p.Counts[job.Deleted] != 1000 || p.Attempts != 1 || len(w.store.Effects()) != 1000 {
		t.Errorf("%s %v in %d attempts, %d effects", p.State, p.Counts, p.Attempts, len(w.store.Effects()))
	}
	if !w.clock.Now().After(noon.Add(time.Second)) {
		t.Error("the rounds did not wait")
	}
}

// TestS3_04_ASlowDownStormPasses: fewer keys each round, a bounded number of calls,
// and the page goes back without a final word on any item.
func TestS3_04_ASlowDownStormPasses(t *testing.T) {
	for name, storm := range map[string]func(*world){
		"as a call":    func(w *world) { w.each("delete", failing(class(failure.Throttled))) },
		"item by item": func(w *world) { w.faulty(job.Slow, names(1000)...) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{keys: names(1000)})
			storm(w)
			w.invoke()
			budget := 1 + 4 + 17 + 67 // a quarter of the size in each of the four rounds
			n := len(w.sent)
			if len(w.sent[0]) != 1000 || n < 4 || n > budget || len(w.sent[n-1]) > 15 {
				t.Errorf("%d calls, from %d keys to %d", n, len(w.sent[0]), len(w.sent[n-1]))
			}
			for _, call := range w.sent[1:] {
				if len(call) > 250 {
					t.Errorf("a call of %d keys after a refusal", len(call))
				}
			}
			p := w.row()
			if p.State != job.Retrying || p.Counts.Sum() != 0 || p.LastClass != failure.Throttled || len(w.children()) != 0 || w.acked != 0 {
				t.Errorf("%s %v %s with %d children", p.State, p.Counts, p.LastClass, len(w.children()))
			}
			w.each("delete", nil)
			w.faulty(job.NoAnswer)
			w.drain()
			if p := w.row(); p.Counts[job.Deleted] != 1000 || len(w.store.Effects()) != 1000 {
				t.Errorf("%s %v", p.State, p.Counts)
			}
		})
	}
	t.Run("a store of 100 keys a second", func(t *testing.T) {
		w := newWorld(t, setup{keys: names(400)})
		w.store.Limit = artifact.Limit{KeysPerSecond: 100}
		w.drain()
		if p := w.row(); p.State != job.Completed || p.Counts[job.Deleted] != 400 {
			t.Errorf("%s %v", p.State, p.Counts)
		}
		w.wantLetters()
	})
}

// TestR_ThePoliciesRateIsKept across the pages of one invocation: this worker's
// share is the policy's rate divided by the region's concurrency.
func TestR_ThePoliciesRateIsKept(t *testing.T) {
	w := tenants(t, "bbb", "ccc")
	w.config.Settings.Concurrency = 1_000 // a share of 50 keys a second
	w.invoke()
	if got := w.clock.Now().Sub(noon); got != 40*time.Millisecond || w.acked != 3 {
		t.Errorf("three keys in %v, %d acknowledged", got, w.acked)
	}
}

// TestS3_05_KeysAreOpaque: whatever stands in a key, exactly that key goes.
func TestS3_05_KeysAreOpaque(t *testing.T) {
	keys := []string{
		"a\x01.csv", "a\x10.csv", "a\uFFFD.csv", "a\uFFFE.csv", "a\xff.csv", "a b", "a+b", "a%2Bb", "100%.csv",
		"run=2026-06-26T00:00:00+00:00/f", "caf\u00e9.csv", "cafe\u0301.csv", "x//y", "x/../y", "dir/", "dir/a", "\n", "~~",
	}
	for _, only := range keys {
		w := newWorld(t, setup{candidates: 1})
		for _, name := range keys {
			at := young
			if name == only {
				at = expired
			}
			w.store1(job.Item{Key: root + name, ETag: "e", Size: 1, Modified: at})
		}
		w.invoke()
		if only > "~" { // beyond the page's range
			w.wantSent()
			continue
		}
		w.want(job.Completed, map[string]string{only: "deleted answered"})
		if w.store.Has(bucket, root+only) || len(w.store.Effects()) != 1 {
			t.Errorf("%q: effects %+v", only, w.store.Effects())
		}
	}
}

// TestS3_13_NothingToDeleteIsNoCall: a page of young, held, or gone items.
func TestS3_13_NothingToDeleteIsNoCall(t *testing.T) {
	for name, play := range map[string]func(*world){
		"held":  func(w *world) { w.hold("h", hold.Tenant, "") },
		"gone":  func(w *world) { w.remove("a") },
		"young": func(w *world) { w.store1(job.Item{Key: root + "a", ETag: "n", Modified: young}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}})
			play(w)
			w.invoke()
			w.wantSent()
			if p := w.row(); p.State != job.Completed || p.Receipt == "" || p.Intent != (job.Intent{}) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestS3_25_AStaleTokenStartsThePageAgain: a listing that can not be continued
// costs an attempt and no item.
func TestS3_25_AStaleTokenStartsThePageAgain(t *testing.T) {
	w := newWorld(t, setup{keys: names(10)})
	w.store.PageSize = 3
	w.on("list", after(w.store.ExpireTokens))
	w.invoke()
	if p := w.row(); p.State != job.Retrying || p.Intent != (job.Intent{}) {
		t.Errorf("%+v", p)
	}
	w.drain()
	if p := w.row(); p.Counts[job.Deleted] != 10 {
		t.Errorf("%+v", p)
	}
}

// TestTwoFailures walks each effect through "it failed" and "it failed, but it
// happened", under each class: one terminal outcome, correct data, evidence that
// verifies (B2, R129).
func TestTwoFailures(t *testing.T) {
	for _, op := range []string{"page:claimed", "put:plan", "intend", "delete", "put:receipt", "complete"} {
		for _, c := range []failure.Class{failure.Network, failure.Throttled, failure.Conflict, failure.Bug} {
			for _, happened := range []bool{false, true} {
				if happened && c == failure.Throttled {
					continue // it says that nothing happened
				}
				if happened && c == failure.Conflict && op == "delete" {
					continue // likewise: the refusal before signing
				}
				t.Run(fmt.Sprintf("%s %s happened=%v", op, c, happened), func(t *testing.T) {
					w := newWorld(t, setup{keys: []string{"a", "h"}})
					w.hold("h", hold.Item, root+"h")
					w.on(op, func(apply func() error) error {
						if happened {
							_ = apply()
						}
						return class(c)
					})
					w.drain()
					if p := w.row(); p.State != job.Completed || p.Counts[job.Deleted] != 1 || p.Counts[job.Held] != 1 || p.Counts.Sum() != 2 {
						t.Errorf("%+v", p)
					}
					w.wantLeft("h")
					w.wantLetters()
				})
			}
		}
	}
}
