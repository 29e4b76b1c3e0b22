package hold_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// entries are the orders on record, the oldest first.
func (w *scripted) entries() (acts []string) {
	all, err := w.ledger.Entries(context.Background(), noon.Add(-day), noon.Add(365*day), 100)
	sure(err)
	for _, e := range slices.Backward(all) {
		acts = append(acts, fmt.Sprint(e.Act, " ", e.TenantID, " ", e.HoldID, " by ", e.By, ": ", e.Reason))
	}
	return acts
}

func (w *scripted) held() hold.Set {
	set, err := w.ledger.Holds(context.Background(), acme)
	sure(err)
	return set
}

// order orders a hold on the tenant that must be refused.
func (w *scripted) refused(r hold.Request, want failure.Class, text string) {
	w.t.Helper()
	answer, err := w.handle(w.process(), r)
	if !failure.Is(err, want) || !strings.Contains(err.Error(), text) {
		w.t.Errorf("%v, %v; want %s: %q", answer, err, want, text)
	}
	if answer != nil {
		w.t.Errorf("an error came with %+v", answer)
	}
}

func placeTenant(id string) hold.Request {
	return hold.Request{Place: &hold.Place{ID: id, Tenant: acme, Scope: hold.Tenant, Signature: signed}}
}

func releaseOf(id string) hold.Request {
	return hold.Request{Release: &hold.Release{Tenant: acme, ID: id, Signature: signed}}
}

// F12, E7: the order goes on record, then the hold is written, and only then is
// anything read.
func TestF12_TheHoldIsWrittenBeforeAnythingIsRead(t *testing.T) {
	for _, scope := range []hold.Scope{hold.Tenant, hold.Prefix, hold.Item} {
		w := newScripted(t, "a")
		value := map[hold.Scope]string{hold.Prefix: root, hold.Item: root + "a"}[scope]
		w.wantStatus(w.place(t, "h", scope, value), hold.Held, hold.Counts{Held: 1})
		if len(w.calls) < 5 || w.calls[0] != "entry" || w.calls[1] != "place" || w.calls[2] != "runs-of" {
			t.Errorf("calls %v", w.calls)
		}
		if got, want := w.entries(), []string{"hold_placed acme h by counsel: case 2291"}; !slices.Equal(got, want) {
			t.Errorf("entries %q", got)
		}
		line := w.log.Events()[0]
		if line.Event != audit.HoldPlaced || line.TenantID != acme || line.HoldID != "h" || line.Region != region || line.CodeVersion != "test" {
			t.Errorf("event %+v", line)
		}
		if epoch, err := w.ledger.Epoch(t.Context(), acme); epoch != 1 || err != nil {
			t.Errorf("epoch %d, %v", epoch, err)
		}
	}
}

// A placement whose answer is lost is made again, and HELD is answered only for a hold
// that is known to be there.
func TestPlacementInTwoFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		fates []fate
		holds int
		class failure.Class // "" is success
		text  string
	}{
		{"lost, done", []fate{lost}, 1, "", ""},
		{"lost, not done", []fate{failing(failure.Network)}, 1, "", ""},
		{"throttled", []fate{failing(failure.Throttled)}, 1, "", ""},
		{"met another", []fate{failing(failure.Conflict)}, 1, "", ""},
		{"lost four times", times(4, lost), 1, "", ""},
		{"always lost, done", times(5, lost), 1, failure.Network, "not known whether the hold is placed: order it again with the id h"},
		{"always lost, not done", times(5, failing(failure.Network)), 0, failure.Network, "not known whether the hold is placed"},
		{"done, then throttled", append([]fate{lost}, times(4, failing(failure.Throttled))...), 1, failure.Network, "not known whether the hold is placed"},
		{"always throttled", times(5, failing(failure.Throttled)), 0, failure.Throttled, "the hold is not placed"},
		{"forbidden", []fate{failing(failure.Forbidden)}, 0, failure.Forbidden, "the hold is not placed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newScripted(t, "a")
			w.on("place", c.fates...)
			if c.class != "" {
				w.refused(placeTenant("h"), c.class, c.text)
			} else {
				w.wantStatus(w.status(t, placeTenant("h")), hold.Held, hold.Counts{Held: 1})
			}
			if got := w.held(); len(got) != c.holds {
				t.Errorf("%d holds", len(got))
			}
			w.wantStatus(w.status(t, placeTenant("h")), hold.Held, hold.Counts{Held: 1}) // ordered again it is the same hold
			if got := w.held(); len(got) != 1 || got[0].Epoch != 1 {
				t.Errorf("holds %+v", got)
			}
		})
	}
}

// E7: without its order on record nothing is placed or released.
func TestE7_TheOrderIsOnRecordFirst(t *testing.T) {
	for _, c := range []struct {
		name   string
		fates  []fate
		placed bool
	}{
		{"lost, done", []fate{lost}, true},
		{"lost, not done", []fate{failing(failure.Network)}, true},
		{"never", times(5, failing(failure.Network)), false},
		{"forbidden", []fate{failing(failure.Forbidden)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newScripted(t, "a")
			w.on("entry", c.fates...)
			if c.placed {
				w.status(t, placeTenant("h"))
			} else {
				w.refused(placeTenant("h"), failure.Of(c.fates[0](nil)), "the hold is not placed")
			}
			if (len(w.held()) == 1) != c.placed || len(w.log.Events()) == 1 != c.placed {
				t.Errorf("holds %+v, events %+v", w.held(), w.log.Events())
			}
			w.next = map[string][]fate{}
			w.status(t, placeTenant("h"))
			w.on("entry", c.fates...)
			if c.placed {
				w.unhold(t, "h")
			} else {
				w.refused(releaseOf("h"), failure.Of(c.fates[0](nil)), "still in force")
			}
			if w.held()[0].Active() == c.placed {
				t.Errorf("holds %+v", w.held())
			}
		})
	}
}

// A process that dies at any call of a placement leaves nothing that ordering it again
// does not settle.
func TestAPlacementThatDiesIsOrderedAgain(t *testing.T) {
	for _, op := range []string{"entry", "place", "runs-of", "runs", "pages"} {
		for name, f := range map[string]fate{"before": die, "after": dieAfter} {
			w := newScripted(t, "a")
			w.on(op, f)
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s %s: it did not die", name, op)
					}
				}()
				_, _ = w.handle(w.process(), placeTenant("h"))
			}()
			w.wantStatus(w.status(t, placeTenant("h")), hold.Held, hold.Counts{Held: 1})
			if got := w.held(); len(got) != 1 {
				t.Errorf("%s %s: holds %+v", name, op, got)
			}
		}
	}
}

// An order without an id is named by its content.
func TestTheSameOrderIsTheSameHold(t *testing.T) {
	w := newScripted(t, "a")
	order := func(change func(*hold.Place)) string {
		p := hold.Place{Tenant: acme, Scope: hold.Item, Value: root + "a", Signature: signed}
		change(&p)
		return w.status(t, hold.Request{Place: &p}).Hold.ID
	}
	first := order(func(*hold.Place) {})
	if len(first) != 32 {
		t.Errorf("id %q", first)
	}
	if again := order(func(p *hold.Place) { p.By = "somebody else" }); again != first || len(w.held()) != 1 {
		t.Errorf("ordered again it is %q", again)
	}
	ids := map[string]bool{first: true}
	for _, change := range []func(*hold.Place){
		func(p *hold.Place) { p.Reason = "case 2292" }, func(p *hold.Place) { p.Value += "b" }, func(p *hold.Place) { p.Scope = hold.Prefix },
		func(p *hold.Place) { p.Tenant = "acme-eu" }, func(p *hold.Place) { p.ID = "mine" },
	} {
		ids[order(change)] = true
	}
	if len(ids) != 6 {
		t.Errorf("ids %v", ids)
	}
	w.refused(hold.Request{Place: &hold.Place{ID: "mine", Tenant: acme, Scope: hold.Tenant, Signature: signed}}, failure.Invalid, "a hold on something else")
}

// A hold that was released is not placed again under its id: nobody may be told HELD.
func TestAReleasedHoldIsNotPlacedAgain(t *testing.T) {
	w := newScripted(t, "a")
	w.status(t, placeTenant("h"))
	w.unhold(t, "h")
	w.refused(placeTenant("h"), failure.Conflict, "was released at 2026-03-09T12:00:00Z and is not placed again")
	s := w.ask(t, "h")
	if s.Answer != hold.Ended || s.Pages != (hold.Counts{}) || !s.Complete || s.Hold.ReleasedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	w.wantStatus(w.status(t, placeTenant("h2")), hold.Held, hold.Counts{Held: 1})
}

func TestReleaseInTwoFailures(t *testing.T) {
	for _, c := range []struct {
		name     string
		fates    []fate
		released bool
		class    failure.Class
		text     string
	}{
		{"lost, done", []fate{lost}, true, "", ""},
		{"lost, not done", []fate{failing(failure.Network)}, true, "", ""},
		{"always lost, done", times(5, lost), true, "", ""}, // a look tells
		{"always lost, not done", times(5, failing(failure.Network)), false, failure.Network, "not known whether the hold is released, and it may be until 2026-03-09T12:16:01Z"},
		{"throttled", times(5, failing(failure.Throttled)), false, failure.Throttled, "still in force"},
		{"forbidden", []fate{failing(failure.Forbidden)}, false, failure.Forbidden, "still in force"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newScripted(t, "a")
			w.status(t, placeTenant("h"))
			w.on("release", c.fates...)
			if c.class == "" {
				answer, err := w.handle(w.process(), releaseOf("h"))
				sure(err)
				if r := as[hold.Released](answer); r.Hold.ReleasedAt.IsZero() || !strings.Contains(r.Text, "does not come back to life") {
					t.Errorf("%+v", r)
				}
			} else {
				w.refused(releaseOf("h"), c.class, c.text)
			}
			if w.held()[0].Active() == c.released {
				t.Errorf("holds %+v", w.held())
			}
			if got := w.entries(); !slices.Equal(got, []string{"hold_placed acme h by counsel: case 2291", "hold_released acme h by counsel: case 2291"}) {
				t.Errorf("entries %q", got)
			}
		})
	}
}

func TestWhatIsNotThereCanNotBeReleasedOrAskedFor(t *testing.T) {
	w := newScripted(t, "a")
	w.status(t, placeTenant("h"))
	w.unhold(t, "h")
	before := len(w.entries())
	w.refused(releaseOf("h"), failure.Conflict, "was released before, at 2026-03-09T12:00:00Z")
	w.refused(releaseOf("other"), failure.Absent, "no hold with this id")
	w.refused(hold.Request{Ask: &hold.Ask{Tenant: acme, ID: "other"}}, failure.Absent, "no hold with this id")
	w.refused(hold.Request{Ask: &hold.Ask{Tenant: "acme-eu", ID: "h"}}, failure.Absent, "no hold with this id")
	if len(w.entries()) != before {
		t.Errorf("an order that can not be carried out is on record: %q", w.entries())
	}
	// Holds that are not all of them prove nothing about one that is missing.
	w.status(t, placeTenant("h2"))
	w.on("epoch", func(apply func() error) error { err := apply(); w.change = nil; return err })
	w.change = func(by *process, c *hold.Config) { c.Holds = cutShort{taps{by}} }
	w.refused(hold.Request{Ask: &hold.Ask{Tenant: acme, ID: "h2"}}, failure.Network, "lacks the hold that raised the epoch")
}

// cutShort answers without any hold.
type cutShort struct{ taps }

func (cutShort) Holds(context.Context, string) (hold.Set, error) { return nil, nil }

func TestList(t *testing.T) {
	w := newScripted(t, "a")
	list := func() hold.Holds {
		t.Helper()
		answer, err := w.handle(w.process(), hold.Request{List: &hold.List{Tenant: acme}})
		sure(err)
		return as[hold.Holds](answer)
	}
	if got := list(); got.Tenant != acme || got.Epoch != 0 || got.Holds == nil || len(got.Holds) != 0 {
		t.Errorf("%+v", got)
	}
	w.place(t, "z", hold.Item, root+"a")
	w.now = w.now.Add(time.Hour)
	w.place(t, "a", hold.Tenant, "")
	w.unhold(t, "z")
	got := list()
	want := []hold.Record{
		{ID: "z", Tenant: acme, Scope: hold.Item, Value: root + "a", By: "counsel", Reason: "case 2291", Epoch: 1, PlacedAt: noon, ReleasedAt: noon.Add(time.Hour)},
		{ID: "a", Tenant: acme, Scope: hold.Tenant, By: "counsel", Reason: "case 2291", Epoch: 2, PlacedAt: noon.Add(time.Hour)},
	}
	if got.Epoch != 2 || !slices.Equal(got.Holds, want) {
		t.Errorf("%+v", got)
	}
	if len(w.entries()) != 3 {
		t.Errorf("a question is on record: %q", w.entries())
	}
}

// Keys stand in the ledger and in the answer to whoever asked by key, and nowhere else.
func TestKeysStayOutOfEventsAndErrors(t *testing.T) {
	const canary = "canary-7f3a"
	w := newScripted(t, canary)
	var texts []string
	tell := func(r hold.Request) {
		_, err := w.handle(w.process(), r)
		texts = append(texts, fmt.Sprint(err))
	}
	order := hold.Request{Place: &hold.Place{ID: "h", Tenant: acme, Scope: hold.Item, Value: root + canary, Signature: signed}}
	w.on("place", times(5, lost)...)
	tell(order)
	tell(order)
	tell(hold.Request{Place: &hold.Place{ID: "h", Tenant: acme, Scope: hold.Prefix, Value: root + canary, Signature: signed}})
	tell(releaseOf("h"))
	tell(order)
	for _, e := range w.log.Events() {
		texts = append(texts, fmt.Sprintf("%+v", e))
	}
	if all := strings.Join(texts, "\n"); strings.Contains(all, canary) || strings.Contains(all, root) || len(texts) < 9 {
		t.Errorf("%s", all)
	}
}

// HP-01: wherever the page is when the hold is placed, the object stays, its outcome is
// held, and the evidence names the hold and the epoch under which it was looked for.
func TestHP01_APlacedHoldStopsTheDelete(t *testing.T) {
	for _, c := range []struct {
		name string
		lead func(w *scripted, place func()) // lets the page get there, and the hold be placed
		late bool                            // an intent was committed before
	}{
		{"a: while queued", func(_ *scripted, place func()) { place() }, false},
		{"b: between claim and delete", func(w *scripted, place func()) {
			w.on("brakes", after(place)) // the last read before the intent
			w.attempt()
		}, false},
		{"c: among the dead letters, before its redrive", func(w *scripted, place func()) {
			w.set.MaxAttempts = 1
			w.on("delete", times(4, failing(failure.Throttled))...)
			w.attempt()
			w.want(job.Dead)
			place()
			w.set.MaxAttempts = 5
			w.redrive(w.page)
		}, true},
		{"d: before reconcile sends the page again", func(w *scripted, place func()) {
			w.interrupted()
			place()
			w.reach(w.row(w.page).NextDue)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newScripted(t, "a")
			var s hold.Status
			c.lead(w, func() { s = w.place(t, "h", hold.Item, root+"a") })
			if c.late {
				w.wantStatus(s, hold.InFlight, hold.Counts{InFlight: 1})
				w.reach(s.Until)
			} else {
				w.wantStatus(s, hold.Held, hold.Counts{Held: 1})
			}
			w.wantStatus(w.ask(t, "h"), hold.Held, hold.Counts{Held: 1})
			for range 5 {
				w.reach(w.row(w.page).RetryAt)
				w.reach(w.row(w.page).LeaseEnd)
				if w.attempt() {
					break
				}
			}
			w.want(job.Completed)
			w.wantLeft("a")
			if got := w.receipt(w.row(w.page)); len(got) != 1 || got[0].Outcome != job.Held || got[0].HoldID != "h" {
				t.Errorf("receipt %+v", got)
			}
			w.wantStatus(w.ask(t, "h"), hold.Held, hold.Counts{Held: 1})
		})
	}
}
