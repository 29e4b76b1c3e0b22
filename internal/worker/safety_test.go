package worker

import (
	"context"
	"testing"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// The four safety levels. Each test takes away what stands before its level, so
// that only the level is left to save the object.

// yes decides that everything may go.
func yes(policy.Facts) policy.Decision {
	return policy.Decision{Delete: true, Candidate: true, Reason: policy.Expired}
}

func lying(c *Config) { c.Decide = yes }

// wantStopped checks that the level stopped the page before any evidence of a
// plan, and that this is no end but a fault to be looked at.
func (w *world) wantStopped(level string) {
	w.t.Helper()
	w.wantSent()
	events := w.events(audit.Retried)
	if len(events) != 1 || events[0].Operation != level || events[0].FailureClass != failure.Bug {
		w.t.Errorf("events %+v, want one of %q", events, level)
	}
	if p := w.row(); p.State != job.Retrying || p.Intent != (job.Intent{}) || w.count("put:plan") != 0 {
		w.t.Errorf("%+v", p)
	}
}

func TestSafetyLevel1_AnItemThatIsNotExpiredStays(t *testing.T) {
	for name, item := range map[string]job.Item{
		"young":         {Modified: young},
		"at the cutoff": {Modified: noon.Add(-30 * day)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setup{candidates: 1, config: lying})
			item.Key, item.ETag = root+"a", "e"
			w.store1(item)
			w.invoke()
			w.wantStopped("safety level 1")
			w.wantLeft("a")
		})
	}
	t.Run("of no date", func(t *testing.T) {
		w := newWorld(t, setup{candidates: 1, config: lying})
		w.config.Artifacts = offering{taps{w}, []job.Item{{Key: root + "a", ETag: "e"}}}
		w.invoke()
		w.wantStopped("safety level 1")
	})
}

func TestSafetyLevel2_AnItemUnderAHoldStays(t *testing.T) {
	for _, h := range []hold.Hold{{Scope: hold.Tenant}, {Scope: hold.Prefix, Value: root}, {Scope: hold.Item, Value: root + "a"}, {Scope: "unknown"}} {
		t.Run(string(h.Scope), func(t *testing.T) {
			w := newWorld(t, setup{keys: []string{"a"}, config: lying})
			w.hold("h", h.Scope, h.Value)
			w.invoke()
			w.wantStopped("safety level 2")
			w.wantLeft("a")
		})
	}
}

// offering is a store whose listing offers what nobody asked for.
type offering struct {
	taps
	items []job.Item
}

func (o offering) List(context.Context, job.Query) (job.Listing, error) {
	return job.Listing{Items: o.items}, nil
}

// TestSafetyLevel3_ANeighboursItemStays: school-4 is not school-42.
func TestSafetyLevel3_ANeighboursItemStays(t *testing.T) {
	for _, key := range []string{
		"exports/acme2/a", "exports/acm/a", "exports/acme/", "exports/acme", "exports/ACME/a", "exports/other/acme/a", "uploads/acme/a", "/exports/acme/a", "a",
	} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t, setup{candidates: 1, config: lying})
			item := w.store1(job.Item{Key: key, ETag: "e", Modified: expired})
			w.config.Artifacts = offering{taps{w}, []job.Item{item}}
			w.invoke()
			w.wantSent()
			w.wantLetters(job.ReasonOutsidePolicy)
			if p := w.row(); p.State != job.Dead || p.Death.Reason.Class() != job.Quarantined || p.Intent != (job.Intent{}) || w.count("put:plan") != 0 {
				t.Errorf("%+v", p)
			}
			if !w.store.Has(bucket, key) {
				t.Error("it is gone")
			}
		})
	}
}

// TestSafetyLevel3_AlsoInAResume: the plan may be that of another version of this
// code, which had a fault.
func TestSafetyLevel3_AlsoInAResume(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"b"}, neverHeld: true})
	item := w.store1(job.Item{Key: "exports/acme2/a", ETag: "e", Modified: expired})
	w.faultyPlan(item)
	w.config.Artifacts = offering{taps{w}, []job.Item{item}}
	w.invoke()
	w.wantSent()
	w.wantLetters(job.ReasonOutsidePolicy)
	if !w.store.Has(bucket, item.Key) {
		t.Error("it is gone")
	}
}

// faultyPlan gives the page an open intent that names the item.
func (w *world) faultyPlan(item job.Item) {
	w.t.Helper()
	x := &delivery{run: w.run, page: w.row(), policy: w.policy}
	x.page.Fence = 1
	doc := receipt.Document{Header: w.worker().header(x, 0), Lines: []receipt.Line{{Item: item, Decision: receipt.Delete, Reason: "expired"}}}
	hash, data, err := doc.Encode()
	w.must(err)
	w.must(w.evidence.Put(w.t.Context(), receipt.Name(receipt.Plan, w.run.ID, x.page.ID, hash), data))
	p, err := w.row().Claim("faulty", noon, noon, noon)
	w.must(err)
	w.must(w.ledger.SwapPage(w.t.Context(), p))
	p, err = p.Intend(hash, 0, 1, 1, 0)
	w.must(err)
	w.must(w.ledger.Intend(w.t.Context(), p, 0))
}

// TestSafetyLevel4_TheStoreChecksThatItIsTheSame: everything before it was right
// when it looked, and then the object was replaced (S3-18).
func TestSafetyLevel4_TheStoreChecksThatItIsTheSame(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.on("intend", after(func() { w.store1(job.Item{Key: root + "a", ETag: "new", Modified: w.clock.Now()}) }))
	w.config.Artifacts = watched{taps{w}, func(d job.Deletion) {
		if d.Items[0].ETag != "e-a" {
			t.Errorf("the condition is %q", d.Items[0].ETag)
		}
	}}
	w.invoke()
	w.want(job.Completed, map[string]string{"a": "changed"})
	w.wantLeft("a")
}

// TestSafetyLevel4_ByVersion: exactly the planned version goes, not the newer one.
func TestSafetyLevel4_ByVersion(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}, versions: "all", versioned: true})
	w.on("intend", after(func() { w.store1(job.Item{Key: root + "a", ETag: "e-a", Size: 10, Modified: w.clock.Now()}) }))
	w.invoke()
	if p := w.row(); p.State != job.Completed || p.Counts[job.Deleted] != 1 {
		t.Errorf("%+v", p)
	}
	w.wantLeft("a")
	if effects := w.store.Effects(); len(effects) != 1 || !effects[0].Item.Modified.Equal(expired) {
		t.Errorf("effects %+v", effects)
	}
}

// TestSafetyLevel4_NothingGoesWithoutACondition: an item that the store could not
// check is kept by the decision, and refused before it is sent if that lies.
func TestSafetyLevel4_NothingGoesWithoutACondition(t *testing.T) {
	for _, config := range []func(*Config){nil, lying} {
		w := newWorld(t, setup{candidates: 1, config: config})
		w.store1(job.Item{Key: root + "a", Modified: expired})
		w.invoke()
		w.wantLeft("a")
		if len(w.store.Effects()) != 0 {
			t.Error("it is gone")
		}
	}
}

// TestS3_17_ALockedVersionIsHeld in one attempt, with the store's lock as reason.
func TestS3_17_ALockedVersionIsHeld(t *testing.T) {
	w := newWorld(t, setup{versions: "all", versioned: true, candidates: 4})
	var refs []job.Item
	for _, name := range []string{"a", "b", "c", "d"} {
		refs = append(refs, w.put(name))
	}
	for i, lock := range []artifact.Lock{{LegalHold: true}, {Mode: artifact.Compliance, Until: noon.Add(day)}, {Mode: artifact.Governance, Until: noon.Add(day)}} {
		w.must(w.store.SetLock(bucket, refs[i].Ref(), lock))
	}
	w.invoke()
	p := w.row()
	if p.State != job.Completed || p.Counts[job.Held] != 3 || p.Counts[job.Deleted] != 1 || p.Attempts != 1 || len(w.sent) != 1 {
		t.Errorf("%+v in %d calls", p, len(w.sent))
	}
	for _, l := range w.document(receipt.Receipt, p, p.Receipt).Lines {
		if l.Outcome == job.Held && (l.Reason != reasonLocked || l.HoldID != "") {
			t.Errorf("held for %q", l.Reason)
		}
	}
	w.wantLeft("a", "b", "c")
	w.wantLetters()
}
