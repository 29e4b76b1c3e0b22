package rehearse_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/contract"
	kept "github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/rehearse"
)

func start(t *testing.T, k kind) *world {
	t.Helper()
	return newWorld(t, map[string]policy.Policy{}, k)
}

func (w *world) rehearse(when rehearse.When) rehearse.Prediction {
	w.t.Helper()
	var p rehearse.Prediction
	w.frozen(func() {
		var err error
		p, err = rehearse.Rehearse(w.t.Context(), w.rehearsal(), w.run.ID, acme, w.page, when)
		w.must(err)
	})
	return p
}

// TestR94_OneSentence answers what happens if it runs again.
func TestR94_OneSentence(t *testing.T) {
	const now, redriven, released = rehearse.AsThingsAre, rehearse.OnceRedriven, rehearse.OnceReleased
	ab := kind{keys: []string{"a", "b"}}
	for _, c := range []struct {
		name string
		kind kind
		play func(*world)
		when rehearse.When
		want string
	}{
		{"untouched", ab, func(*world) {}, now, "it completes, with 2 deleted."},
		{"held", ab, func(w *world) { w.hold("h", hold.Item, root+"a") }, now, "it completes, with 1 deleted, 1 held."},
		{"nothing is left", ab, func(w *world) {
			w.store.Remove(bucket, job.Ref{Key: root + "a"})
			w.store.Remove(bucket, job.Ref{Key: root + "b"})
		}, now, "it completes, with no outcome."},
		{"braked", ab, (*world).brake, now, "nothing happens, because a brake covers it."},
		{"braked, once released", ab, (*world).brake, released, "no brake is in force: it completes, with 2 deleted."},
		{"not released", kind{keys: ab.keys, unreleased: true}, func(*world) {}, now, "nothing happens, because its run is scanning."},
		{"settled", ab, func(w *world) { w.drain(w.now) }, now, "nothing happens, because it is completed already."},
		{"claimed", ab, func(w *world) { w.cut("a"); w.now = noon.Add(time.Second) }, now,
			"another claim has it, so it waits until 2026-03-09T12:01:00Z, and then it completes, with 2 deleted."},
		{"retrying", ab, func(w *world) { w.faulty(job.Slow, "b"); w.deliver(w.now); w.sound() }, now,
			"it waits for its next attempt, so it waits until 2026-03-09T12:00:08Z, and then it completes, with 2 deleted."},
		{"vetoed", ab, func(w *world) { w.cut("a"); w.hold("h", hold.Tenant, "") }, now,
			"a request of an earlier claim may still land, so it waits until 2026-03-09T12:17:00Z, and then it completes, with 1 deleted, 1 held."},
		{"dead", ab, func(w *world) { w.kill("a"); w.reach(w.now.Add(time.Hour)) }, now, "nothing happens, because it is a dead letter, and nobody redrove it."},
		{"dead, once redriven", ab, func(w *world) { w.kill("a") }, redriven, "If this page is redriven and delivered now: it completes, with 2 deleted."},
		{"alive, once redriven", ab, func(*world) {}, redriven, "If this page is delivered now: it completes, with 2 deleted."},
		{"abandoned", ab, func(w *world) { w.kill("a"); w.move(w.row().Abandon(w.now, w.now)) }, now,
			"a request of an earlier claim may still land, so it waits until 2026-03-09T12:17:00Z, and then it is discarded and nothing is deleted, with 1 deleted, 1 failed."},
		{"its last attempt is spent", ab, func(w *world) { w.settings.MaxAttempts = 1; w.cut("a") }, now,
			"it becomes a dead letter: attempts_exhausted, with no outcome."},
		{"its plan is lost", ab, func(w *world) { w.cut("a"); w.evidence = &kept.Memory{} }, now,
			"the attempt fails: absent in get evidence, so it waits; at delivery 4, at 2026-03-09T12:01:14Z, it becomes a dead letter: attempts_exhausted, with no outcome."},
		{"refused, once redriven", ab, func(w *world) { w.deny("a"); w.deny("b"); w.drain(w.now) }, redriven,
			"it becomes a dead letter: forbidden, with 2 refused."},
		{"refused in part, once redriven", ab, func(w *world) {
			w.deny("a")
			w.deny("b")
			w.drain(w.now)
			w.store.Remove(bucket, job.Ref{Key: root + "a"})
		}, redriven, "it completes, with 1 deleted, 1 in pages of their own."},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, c.kind)
			c.play(w)
			p := w.rehearse(c.when)
			if !strings.HasPrefix(p.Text, "If this page is ") || !strings.HasSuffix(p.Text, c.want) {
				t.Errorf("%q, want the end %q", p.Text, c.want)
			}
			if dead := strings.Contains(c.want, "dead letter"); dead != (p.Dead != "") {
				t.Errorf("dead for the reason %q: %q", p.Dead, p.Text)
			}
			for _, r := range p.Rounds {
				if r.Why == "" || strings.Contains(p.Text+r.Why, root) {
					t.Errorf("a round says %q", r.Why)
				}
			}
		})
	}
}

// TestR94_AnotherRegion quarantines the message and leaves the page.
func TestR94_AnotherRegion(t *testing.T) {
	w := start(t, kind{keys: []string{"a"}})
	config := w.rehearsal()
	config.Region = "us-east-1"
	p, err := rehearse.Rehearse(t.Context(), config, w.run.ID, acme, w.page, rehearse.AsThingsAre)
	w.must(err)
	if p.Dead != job.ReasonWrongRegion || p.Final != w.row() || !strings.HasSuffix(p.Text, "it becomes a dead letter: wrong_region, with no outcome.") {
		t.Errorf("%q: %q", p.Dead, p.Text)
	}
}

// TestR94_ARefusalIsTakenToLast, unless it is said to be repaired; what the page can
// not know of is a surprise.
func TestR94_ARefusalIsTakenToLast(t *testing.T) {
	w := start(t, kind{keys: []string{"a", "b"}})
	w.deny("a")
	w.deny("b")
	if p := w.rehearse(rehearse.AsThingsAre); p.Final.State != job.Completed || len(p.Deletes) != 2 {
		t.Errorf("before anybody was refused: %s", p.Text)
	}
	w.drain(w.now)
	if p := w.rehearse(rehearse.OnceRedriven); p.Dead != job.ReasonForbidden || len(p.Deletes) != 0 || p.Counts[job.Refused] != 2 {
		t.Errorf("refused: %s", p.Text)
	}
	config := w.rehearsal()
	config.Repaired = true
	p, err := rehearse.Rehearse(t.Context(), config, w.run.ID, acme, w.page, rehearse.OnceRedriven)
	w.must(err)
	if p.Dead != "" || len(p.Deletes) != 2 || p.Counts[job.Deleted] != 2 {
		t.Errorf("repaired: %s", p.Text)
	}
}

// TestR94_NothingRealCanBeWritten: what a rehearsal is given has no method that is
// not known to read.
func TestR94_NothingRealCanBeWritten(t *testing.T) {
	reads := map[string][]string{
		"Records": {"Brakes", "Look", "Policy", "Run"}, "Holds": {"Epoch", "Holds"}, "Artifacts": {"List", "Look"}, "Evidence": {"Get"},
	}
	config := reflect.TypeFor[rehearse.Config]()
	for i := range config.NumField() {
		f := config.Field(i)
		var methods []string
		if f.Type.Kind() == reflect.Interface {
			for m := range f.Type.NumMethod() {
				methods = append(methods, f.Type.Method(m).Name)
			}
		}
		if slices.Contains([]reflect.Kind{reflect.Func, reflect.Pointer, reflect.Chan, reflect.Map}, f.Type.Kind()) {
			t.Errorf("%s is a %s, and may lead anywhere", f.Name, f.Type.Kind())
		}
		if !slices.Equal(methods, reads[f.Name]) {
			t.Errorf("%s has the methods %v", f.Name, methods)
		}
	}
}

// blinded is a world of which one read fails.
type blinded struct {
	*world
	at  string
	err error
}

func (b *blinded) meet(op string) error {
	b.calls = append(b.calls, op)
	if op == b.at {
		return b.err
	}
	return nil
}

func (b *blinded) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	if err := b.meet("run"); err != nil {
		return job.Run{}, err
	}
	return b.ledger.Run(ctx, id)
}

func (b *blinded) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error) {
	if err := b.meet("page"); err != nil {
		return job.Page{}, nil, err
	}
	return b.ledger.Look(ctx, run, tenant, id)
}

func (b *blinded) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	if err := b.meet("policy"); err != nil {
		return policy.Policy{}, err
	}
	return published{b.ledger, b.policy}.Policy(ctx, name, version)
}

func (b *blinded) Brakes(ctx context.Context) ([]job.Brake, error) {
	if err := b.meet("brakes"); err != nil {
		return nil, err
	}
	return b.ledger.Brakes(ctx)
}

func (b *blinded) Epoch(ctx context.Context, tenant string) (int64, error) {
	if err := b.meet("epoch"); err != nil {
		return 0, err
	}
	return b.ledger.Epoch(ctx, tenant)
}

func (b *blinded) Holds(ctx context.Context, tenant string) (hold.Set, error) {
	if err := b.meet("holds"); err != nil {
		return nil, err
	}
	return b.ledger.Holds(ctx, tenant)
}

func (b *blinded) Get(ctx context.Context, name string) ([]byte, error) {
	if err := b.meet("get"); err != nil {
		return nil, err
	}
	return b.evidence.Get(ctx, name)
}

// blindStore is the same of the store, whose Look is about something else.
type blindStore struct{ *blinded }

func (b blindStore) List(ctx context.Context, q job.Query) (job.Listing, error) {
	if err := b.meet("list"); err != nil {
		return job.Listing{}, err
	}
	return b.store.List(ctx, q)
}

func (b blindStore) Look(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	if err := b.meet("standing"); err != nil {
		return nil, err
	}
	return b.store.Look(ctx, bucket, items)
}

func (w *world) blind(at string, err error) rehearse.Config {
	b := &blinded{world: w, at: at, err: err}
	config := w.rehearsal()
	config.Records, config.Holds, config.Artifacts, config.Evidence = b, b, blindStore{b}, b
	return config
}

// TestR94_WhoCanNotLookPredictsNothing: a read that fails says nothing about the page,
// and is not what the worker will meet. Only what is known to be absent is.
func TestR94_WhoCanNotLookPredictsNothing(t *testing.T) {
	facts := map[string]failure.Class{"policy": failure.UnknownPolicy, "get": failure.Absent, "list": failure.Absent, "standing": failure.Absent}
	for _, at := range []string{"run", "page", "policy", "brakes", "epoch", "holds", "get", "list", "standing"} {
		for _, class := range failure.Classes() {
			w := start(t, kind{keys: []string{"a", "b"}, versioned: true})
			w.faulty(job.Slow, "b")
			w.deliver(w.now) // there is a plan and a receipt
			w.sound()
			w.calls = nil
			p, err := rehearse.Rehearse(t.Context(), w.blind(at, failure.New(class, "injected", "injected")), w.run.ID, acme, w.page, rehearse.AsThingsAre)
			if !slices.Contains(w.calls, at) {
				t.Fatalf("nobody asked for %s among %v", at, w.calls)
			}
			known := facts[at] == class
			if !known && (failure.Of(err) != class || p.Text != "") {
				t.Errorf("%s %s: %v, %q", at, class, err, p.Text)
			}
			if known && (err != nil || p.Dead == "") {
				t.Errorf("%s %s: %v, %q", at, class, err, p.Text)
			}
		}
	}
}

// TestR94_AnUnknownPage is no rehearsal.
func TestR94_AnUnknownPage(t *testing.T) {
	w := start(t, kind{keys: []string{"a"}})
	for run, page := range map[job.RunID]job.PageID{w.run.ID: "other", "other": w.page} {
		if _, err := rehearse.Rehearse(t.Context(), w.rehearsal(), run, acme, page, rehearse.AsThingsAre); !failure.Is(err, failure.Absent) {
			t.Errorf("%v", err)
		}
	}
	config := w.rehearsal()
	config.Settings = contract.Settings{}
	if _, err := rehearse.Rehearse(t.Context(), config, w.run.ID, acme, w.page, rehearse.AsThingsAre); err == nil {
		t.Error("settings that no worker can use make a rehearsal")
	}
}

// TestR94_ThePageMovesMeanwhile: a worker was faster, and the prediction is about a
// page that is no more.
func TestR94_ThePageMovesMeanwhile(t *testing.T) {
	w := start(t, kind{keys: []string{"a"}})
	config := w.rehearsal()
	config.Artifacts = disturbed{blindStore{&blinded{world: w}}, func() { w.drain(w.now) }}
	if p, err := rehearse.Rehearse(t.Context(), config, w.run.ID, acme, w.page, rehearse.AsThingsAre); !failure.Is(err, failure.Conflict) {
		t.Errorf("%q, %v", p.Text, err)
	}
}

// TestF2_AHoldThatIsPlacedMeanwhile fails the intent in the copies as it would fail
// the real one, and the second plan keeps to it.
func TestF2_AHoldThatIsPlacedMeanwhile(t *testing.T) {
	w := start(t, kind{keys: []string{"a", "b"}})
	config := w.rehearsal()
	placed := false
	config.Artifacts = disturbed{blindStore{&blinded{world: w}}, func() {
		if !placed {
			placed = true
			w.hold("h", hold.Item, root+"a")
		}
	}}
	p, err := rehearse.Rehearse(t.Context(), config, w.run.ID, acme, w.page, rehearse.AsThingsAre)
	w.must(err)
	if p.Counts[job.Held] != 1 || p.Counts[job.Deleted] != 1 || p.Final.Intent.Epoch != 2 {
		t.Errorf("%s under epoch %d", p.Text, p.Final.Intent.Epoch)
	}
}

// disturbed is a store beside which something happens at a listing.
type disturbed struct {
	blindStore
	act func()
}

func (d disturbed) List(ctx context.Context, q job.Query) (job.Listing, error) {
	defer d.act()
	return d.blindStore.List(ctx, q)
}

// TestR94_ARehearsalEnds, also of a page that never does.
func TestR94_ARehearsalEnds(t *testing.T) {
	w := start(t, kind{keys: []string{"a"}})
	w.settings.MaxAttempts, w.settings.MaxReceives, w.settings.RedriveAttempts = 1000, 2000, 3000
	w.cut("a")
	w.evidence = &kept.Memory{}
	p := w.rehearse(rehearse.AsThingsAre)
	if last := p.Rounds[len(p.Rounds)-1]; len(p.Rounds) != rehearse.MaxRounds || last.Ack || !strings.Contains(p.Text, "it is still retrying, because the attempt fails") {
		t.Errorf("%d rounds: %s", len(p.Rounds), p.Text)
	}
}
