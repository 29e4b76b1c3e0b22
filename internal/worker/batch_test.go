package worker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// tenants is a world with one page for each name, each of one expired object, and
// their messages in that order after acme's own.
func tenants(t *testing.T, names ...string) *world {
	t.Helper()
	w := newWorld(t, setup{keys: []string{"a"}, unreleased: true})
	w.receive(10)
	for _, name := range names {
		w.store1(job.Item{Key: "exports/" + name + "/a", ETag: "e", Modified: expired})
		w.record(name, "", "~", 1)
	}
	w.release()
	pages := map[string]job.Page{}
	for _, p := range w.ledger.AllPages(w.run.ID) {
		pages[p.Tenant] = p
	}
	for _, name := range append([]string{acme}, names...) {
		w.post(job.NewMessage(w.run, pages[name]))
	}
	return w
}

// state returns the state of the tenant's page.
func (w *world) state(tenant string) job.PageState {
	for _, p := range w.ledger.AllPages(w.run.ID) {
		if p.Tenant == tenant {
			return p.State
		}
	}
	return ""
}

// TestSQ01_TheResponsesExactBytes: Lambda reads the names case by case, and a list
// that is absent or null is no empty list to everybody.
func TestSQ01_TheResponsesExactBytes(t *testing.T) {
	w := tenants(t, "bbb", "ccc")
	w.on("list", before(func() {}), failing(class(failure.Throttled)))
	deliveries := w.receive(10)
	w.batch(w.worker(), deliveries...)
	want := `{"batchItemFailures":[{"itemIdentifier":"` + deliveries[1].MessageID + `"}]}`
	if got := w.bytes(w.response); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if w.acked != 2 || w.state(acme) != job.Completed || w.state("bbb") != job.Retrying || w.state("ccc") != job.Completed {
		t.Errorf("%d acknowledged", w.acked)
	}
	for name, deliveries := range map[string][]job.Delivery{"all settled": deliveries[:1], "no message": nil} {
		if got := w.bytes(w.worker().Batch(t.Context(), w.clock.Now().Add(time.Minute), deliveries)); got != `{"batchItemFailures":[]}` {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestSQ03_BadBodiesDoNotPoisonTheBatch: they become dead letters at once, and
// nothing of the others is repeated.
func TestSQ03_BadBodiesDoNotPoisonTheBatch(t *testing.T) {
	w := tenants(t, "bbb", "ccc")
	w.post(job.Message{ID: "x", Body: []byte(`{"run_id":`)})
	w.post(job.Message{ID: "y", Body: []byte(" ")})
	w.invoke()
	w.wantLetters(job.ReasonMalformed, job.ReasonMalformed)
	if len(w.response.BatchItemFailures) != 0 || w.acked != 5 || w.count("delete") != 3 {
		t.Errorf("%v, %d acknowledged, %d deletes", w.response, w.acked, w.count("delete"))
	}
}

// TestSQ05_NoMessageIsTakenWhenTimeIsShort (R72): what is unfinished goes back, and
// was never begun.
func TestSQ05_NoMessageIsTakenWhenTimeIsShort(t *testing.T) {
	w := tenants(t, "bbb", "ccc", "ddd")
	w.each("list", after(func() { w.clock.advance(25 * time.Second) }))
	w.invoke()
	if w.acked != 2 || len(w.response.BatchItemFailures) != 2 || w.state("ccc") != job.Planned || w.count("run") != 2 {
		t.Errorf("%d acknowledged, %v, ccc %s", w.acked, w.response, w.state("ccc"))
	}
	w.drain()
	if w.state("ccc") != job.Completed || w.state("ddd") != job.Completed {
		t.Errorf("ccc %s, ddd %s", w.state("ccc"), w.state("ddd"))
	}
}

// TestGO04_ADeadlineThatIsNone: zero, past, or too near to begin.
func TestGO04_ADeadlineThatIsNone(t *testing.T) {
	for name, deadline := range map[string]time.Time{
		"zero": {}, "past": noon.Add(-time.Hour), "now": noon, "near": noon.Add(15*time.Second - 1),
	} {
		t.Run(name, func(t *testing.T) {
			w := tenants(t, "bbb")
			r := w.worker().Batch(t.Context(), deadline, w.receive(10))
			if len(r.BatchItemFailures) != 2 || len(w.calls) != 0 {
				t.Errorf("%v after calls %v", r, w.calls)
			}
			if told := w.events(audit.Deferred); len(told) != 2 || told[0].MessageID == told[1].MessageID {
				t.Errorf("the log says %+v", told)
			}
		})
	}
}

// TestSQ14_APanicStaysWithItsRecord: wherever it happens, it acknowledges nothing,
// stops no other message, and the worker serves on.
func TestSQ14_APanicStaysWithItsRecord(t *testing.T) {
	boom := func(func() error) error { panic("CANARY") }
	for _, at := range []string{"run", "page:claimed", "epoch", "list", "intend", "delete", "put:receipt", "complete"} {
		t.Run(at, func(t *testing.T) {
			w := tenants(t, "bbb", "ccc")
			fine := before(func() {})
			w.on(at, fine, boom)
			by := w.worker()
			w.batch(by, w.receive(10)...)
			if w.acked != 2 || len(w.response.BatchItemFailures) != 1 || w.state(acme) != job.Completed || w.state("ccc") != job.Completed {
				t.Errorf("%d acknowledged, %v", w.acked, w.response)
			}
			if events := w.events(audit.Retried); len(events) != 1 || events[0].FailureClass != failure.Bug || strings.Contains(events[0].Operation, "CANARY") {
				t.Errorf("events %+v", events)
			}
			w.clock.advance(w.config.Settings.Visibility())
			w.batch(by, w.receive(10)...)
			if w.state("bbb") != job.Completed {
				t.Errorf("bbb %s", w.state("bbb"))
			}
		})
	}
	t.Run("in the decision", func(t *testing.T) {
		n := 0
		w := newWorld(t, setup{keys: []string{"a"}, config: func(c *Config) {
			c.Decide = func(f policy.Facts) policy.Decision {
				if n++; n == 1 {
					panic("CANARY")
				}
				return policy.Decide(f)
			}
		}})
		by := w.worker()
		w.batch(by, w.receive(10)...)
		w.clock.advance(w.config.Settings.Visibility())
		w.batch(by, w.receive(10)...)
		w.want(job.Completed, map[string]string{"a": "deleted answered"})
	})
}

// TestSQ14_APageThatAlwaysPanics ends as a dead letter and not in a loop.
func TestSQ14_APageThatAlwaysPanics(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	w.each("list", func(func() error) error { panic("CANARY") })
	w.drainLetters(1)
	w.wantLetters(job.ReasonAttempts)
	if n := w.count("page:claimed"); n != 5 {
		t.Errorf("%d claims", n)
	}
}

// TestR72_ACancelledContextAcknowledgesNothing that is not at its end.
func TestR72_ACancelledContextAcknowledgesNothing(t *testing.T) {
	for _, at := range []string{"run", "page:claimed", "list", "put:plan", "intend", "delete"} {
		w := newWorld(t, setup{keys: []string{"a"}})
		ctx, cancel := context.WithCancel(t.Context())
		w.on(at, before(cancel))
		r := w.worker().Batch(ctx, noon.Add(time.Minute), w.receive(10))
		if p := w.row(); p.State == job.Completed && at != "delete" || len(r.BatchItemFailures) == 0 && !p.State.Terminal() {
			t.Errorf("%s: %s, %v", at, p.State, r)
		}
		w.drain()
		if p := w.row(); p.State != job.Completed || p.Counts[job.Deleted] != 1 {
			t.Errorf("%s: %+v", at, p)
		}
	}
}

// TestRedelivery_AfterTheEndIsADuplicate: an acknowledgement that was lost changes
// nothing but a count.
func TestRedelivery_AfterTheEndIsADuplicate(t *testing.T) {
	w := newWorld(t, setup{keys: []string{"a"}})
	message := job.NewMessage(w.run, w.row())
	w.invoke()
	settled := w.row()
	for range 3 {
		w.post(message)
		w.invoke()
	}
	if w.row() != settled || w.acked != 4 || len(w.events(audit.DuplicateObserved)) != 3 || w.count("delete") != 1 {
		t.Errorf("%+v, %d acknowledged", w.row(), w.acked)
	}
}

func TestNew_RefusesSettingsThatContradictThemselves(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a worker of nothing")
	}
}
