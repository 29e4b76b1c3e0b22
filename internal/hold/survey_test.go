package hold_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// only returns the one page that an answer lists.
func (w *scripted) only(s hold.Status) hold.Page {
	w.t.Helper()
	if len(s.Listed) != 1 || s.More != 0 {
		w.t.Fatalf("listed %+v and %d more", s.Listed, s.More)
	}
	return s.Listed[0]
}

func (w *scripted) wantGone(p hold.Page, receipt string, proof job.Proof, gone map[string]int) {
	w.t.Helper()
	sum := 0
	for _, n := range gone {
		sum += n
	}
	if p.Answer != hold.TooLate || p.Items != sum || !maps.Equal(p.Outcomes, gone) || p.Proof != proof || p.Receipt != receipt || !p.Until.IsZero() {
		w.t.Errorf("%+v, want %v, proof %q, receipt %q", p, gone, proof, receipt)
	}
}

// alter writes the page's row as a test wants it.
func (w *scripted) alter(change func(*job.Page)) {
	p := w.row(w.page)
	change(&p)
	p.Rev++
	sure(w.ledger.SwapPage(w.t.Context(), p))
}

// A page without an intent is HELD, whatever its state: what is decided from now on
// knows the hold.
func TestAPageWithoutAnIntentIsHeld(t *testing.T) {
	for _, state := range job.PageStates() {
		w := newScripted(t, "a")
		w.alter(func(p *job.Page) { p.State, p.Owner, p.LeaseEnd = state, "another", w.now.Add(time.Minute) })
		for _, scope := range []hold.Scope{hold.Tenant, hold.Item} {
			s := w.place(t, "h-"+string(scope), scope, map[hold.Scope]string{hold.Item: root + "a"}[scope])
			w.wantStatus(s, hold.Held, hold.Counts{Held: 1})
			if !s.Until.IsZero() || len(s.Listed) != 0 || s.Listed == nil {
				t.Errorf("%s: %+v", state, s)
			}
		}
	}
}

// A page with an intent from before the hold is in flight until its quiet time,
// whatever its state, and never HELD.
func TestAPageWithAnIntentIsInFlightUntilItsQuietTime(t *testing.T) {
	for _, state := range job.PageStates() {
		t.Run(string(state), func(t *testing.T) {
			w := newScripted(t, "a")
			quiet := w.interrupted().QuietAt
			if want := noon.Add(w.set.FunctionTimeout + w.set.RequestLifetime); !quiet.Equal(want) {
				t.Fatalf("quiet at %v", quiet)
			}
			w.alter(func(p *job.Page) { p.State = state })
			s := w.place(t, "h", hold.Tenant, "")
			w.wantStatus(s, hold.InFlight, hold.Counts{InFlight: 1})
			if p := w.only(s); p.Answer != hold.InFlight || !p.Until.Equal(quiet) || !s.Until.Equal(quiet) || p.PageID != w.page.ID || p.RunID != w.run.ID ||
				p.Policy != "exports" || p.Items != 0 || p.Receipt != "" {
				t.Errorf("%+v", s)
			}
			if !strings.Contains(s.Text, "until 2026-03-09T12:17:00Z") || !strings.Contains(s.Text, "Ask again") {
				t.Errorf("%s", s.Text)
			}
			w.reach(quiet.Add(-1))
			w.wantStatus(w.ask(t, "h"), hold.InFlight, hold.Counts{InFlight: 1})
		})
	}
	t.Run("no quiet time on record", func(t *testing.T) {
		w := newScripted(t, "a")
		w.interrupted()
		w.alter(func(p *job.Page) { p.QuietAt = time.Time{} })
		s := w.place(t, "h", hold.Tenant, "")
		w.wantStatus(s, hold.InFlight, hold.Counts{InFlight: 1})
		if !s.Until.Equal(noon.Add(17 * time.Minute)) {
			t.Errorf("%+v", s)
		}
	})
}

// Past its quiet time a page that has ended is told by its receipt.
func TestAnEndedPageIsToldByItsReceipt(t *testing.T) {
	for _, scope := range []hold.Scope{hold.Tenant, hold.Prefix, hold.Item} {
		t.Run(string(scope), func(t *testing.T) {
			w := newScripted(t, "a", "b", "c")
			w.on("list", after(func() { w.store.Remove(bucket, job.Ref{Key: root + "c"}) })) // already_absent
			if !w.attempt() {
				t.Fatal("not acknowledged")
			}
			value, gone, proof := "", map[string]int{"deleted": 2}, job.Proof("")
			switch scope {
			case hold.Tenant:
			case hold.Prefix:
				value, gone, proof = root+"a", map[string]int{"deleted": 1}, job.Answered
			case hold.Item:
				value, gone, proof = root+"b", map[string]int{"deleted": 1}, job.Answered
			}
			s := w.place(t, "h", scope, value)
			w.wantStatus(s, hold.InFlight, hold.Counts{InFlight: 1})
			w.reach(s.Until)
			s = w.ask(t, "h")
			w.wantStatus(s, hold.TooLate, hold.Counts{TooLate: 1})
			w.wantGone(w.only(s), w.row(w.page).Receipt, proof, gone)
			w.wantStatus(w.place(t, "c", hold.Item, root+"c"), hold.Held, hold.Counts{Held: 1})
		})
	}
}

// A page that has not ended, past its quiet time, is settled by a look (F17): what is
// still there can not be deleted any more, because a resume narrows by the epoch.
func TestAnAbandonedIntentIsSettledByALook(t *testing.T) {
	other := job.Item{Key: root + "a", ETag: "other", Size: 10}
	for _, state := range []job.PageState{job.Intended, job.Retrying, job.Dead, job.Redriven, job.Planned} {
		for _, c := range []struct {
			name string
			act  func(w *scripted)
			gone map[string]int
		}{
			{"there", func(*scripted) {}, nil},
			{"gone", func(w *scripted) { w.store.Remove(bucket, job.Ref{Key: root + "a"}) }, map[string]int{"gone": 1}},
			{"another object", func(w *scripted) { _, err := w.store.Put(bucket, other); sure(err) }, map[string]int{"superseded": 1}},
			{"all gone", func(w *scripted) {
				for _, name := range []string{"a", "b", "c"} {
					w.store.Remove(bucket, job.Ref{Key: root + name})
				}
			}, map[string]int{"gone": 3}},
		} {
			w := newScripted(t, "a", "b", "c")
			quiet := w.interrupted().QuietAt
			w.alter(func(p *job.Page) { p.State = state })
			c.act(w)
			w.reach(quiet)
			w.store.PageSize = 2 // a look takes more than one answer
			s := w.place(t, "h", hold.Tenant, "")
			if c.gone == nil {
				w.wantStatus(s, hold.Held, hold.Counts{Held: 1})
				w.wantStatus(w.place(t, "i", hold.Item, root+"a"), hold.Held, hold.Counts{Held: 1})
				continue
			}
			w.wantStatus(s, hold.TooLate, hold.Counts{TooLate: 1})
			w.wantGone(w.only(s), "", job.Inferred, c.gone)
			w.wantStatus(w.place(t, "i", hold.Item, root+"a"), hold.TooLate, hold.Counts{TooLate: 1})
		}
	}
}

// A look begins where the range does, however much lies before it.
func TestALookBeginsWithTheRange(t *testing.T) {
	w := newScripted(t, "a", "k", "k1", "k2")
	w.run = w.open(1)
	w.record(&w.run, acme, "", "k", 2)
	w.page = w.record(&w.run, acme, "k", "k2", 2)
	w.release(&w.run)
	w.reach(w.interrupted().QuietAt)
	w.store.PageSize = 2
	w.wantStatus(w.place(t, "h", hold.Tenant, ""), hold.Held, hold.Counts{Held: 3})
	lists := 0
	for _, op := range w.calls {
		if op == "list" {
			lists++
		}
	}
	if lists != 2 { // the claim's, and one of the look
		t.Errorf("%d listings", lists)
	}
	w.store.Remove(bucket, job.Ref{Key: root + "k1"})
	w.wantGone(w.only(w.ask(t, "h")), "", job.Inferred, map[string]int{"gone": 1})
}

// What an earlier claim was answered needs no look, and an object that was uploaded
// since does not hide it.
func TestAnAnswerOfAnEarlierClaimCounts(t *testing.T) {
	w := newScripted(t, "a", "b", "c")
	w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
		if item.Key == root+"b" {
			return job.Slow, false
		}
		return job.NoAnswer, false
	}
	w.on("list", after(func() { w.store.Remove(bucket, job.Ref{Key: root + "c"}) }))
	w.attempt()
	w.want(job.Retrying)
	_, err := w.store.Put(bucket, job.Item{Key: root + "a", ETag: "e-a", Size: 10, Modified: expired})
	sure(err)
	w.reach(w.row(w.page).QuietAt)
	s := w.place(t, "h", hold.Tenant, "")
	w.wantStatus(s, hold.TooLate, hold.Counts{TooLate: 1})
	w.wantGone(w.only(s), w.row(w.page).Receipt, job.Answered, map[string]int{"deleted": 1})
	for name, want := range map[string]hold.Word{"a": hold.TooLate, "b": hold.Held, "c": hold.Held} {
		if s := w.place(t, "h-"+name, hold.Item, root+name); s.Answer != want {
			t.Errorf("%s: %s", name, s.Text)
		}
	}
	w.store.KeyFault = nil
	w.reach(w.row(w.page).RetryAt)
	w.attempt()
	w.want(job.Completed)
	w.wantLeft("a", "b")
}

// What can not be read is in flight for as long as anything decided before the hold
// can be, and the answer says that it is not complete.
func TestWhatCanNotBeReadIsInFlight(t *testing.T) {
	for _, c := range []struct {
		op     string
		scope  hold.Scope
		counts hold.Counts
	}{
		{"runs-of", hold.Tenant, hold.Counts{}},
		{"runs", hold.Tenant, hold.Counts{}},
		{"pages", hold.Tenant, hold.Counts{}},
		{"prefix", hold.Prefix, hold.Counts{}},
		{"prefix", hold.Item, hold.Counts{}},
		{"page-at", hold.Item, hold.Counts{}},
		{"get:plan", hold.Item, hold.Counts{InFlight: 1}},
		{"get:plan", hold.Tenant, hold.Counts{InFlight: 1}},
		{"list", hold.Tenant, hold.Counts{InFlight: 1}},
		{"prefix", hold.Tenant, hold.Counts{InFlight: 1}}, // the look needs it
	} {
		t.Run(c.op+" "+string(c.scope), func(t *testing.T) {
			w := newScripted(t, "a", "b")
			w.reach(w.interrupted().QuietAt)
			w.on(c.op, failing(failure.Network))
			value := map[hold.Scope]string{hold.Prefix: root, hold.Item: root + "a"}[c.scope]
			s := w.place(t, "h", c.scope, value)
			if s.Complete || s.Answer != hold.InFlight || s.Pages != c.counts || !s.Until.Equal(w.now.Add(17*time.Minute)) ||
				!strings.Contains(s.Text, "not every page could be read") {
				t.Errorf("%+v", s)
			}
			w.wantStatus(w.ask(t, "h"), hold.Held, hold.Counts{Held: 1})
		})
	}
	t.Run("evidence before the quiet time", func(t *testing.T) {
		w := newScripted(t, "a")
		quiet := w.interrupted().QuietAt
		w.on("get:plan", failing(failure.Network))
		s := w.place(t, "h", hold.Item, root+"a")
		if s.Complete || s.Pages != (hold.Counts{InFlight: 1}) || !s.Until.Equal(quiet) { // the row is enough for that
			t.Errorf("%+v", s)
		}
	})
	t.Run("evidence that is another's", func(t *testing.T) {
		w := newScripted(t, "a")
		w.reach(w.interrupted().QuietAt)
		w.alter(func(p *job.Page) { p.Intent.Plan = strings.Repeat("0", 64) })
		if s := w.place(t, "h", hold.Tenant, ""); s.Complete || s.Answer != hold.InFlight {
			t.Errorf("%+v", s)
		}
	})
}

// GO-04: without time the hold is placed all the same, and nothing is called HELD.
func TestAHoldIsPlacedWithoutTime(t *testing.T) {
	for name, deadline := range map[string]time.Time{"none": {}, "over": noon.Add(-time.Hour), "soon": noon.Add(5 * time.Second)} {
		w := newScripted(t, "a")
		by := w.process()
		by.deadline = deadline
		answer, err := w.handle(by, placeTenant("h"))
		sure(err)
		s := as[hold.Status](answer)
		if s.Complete || s.Answer != hold.InFlight || !s.Until.Equal(noon.Add(17*time.Minute)) || len(w.held()) != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Time that ends on the way leaves the rest in flight; rows come before evidence.
func TestTimeEndsOnTheWay(t *testing.T) {
	w := newScripted(t, "a", "b")
	w.reach(w.interrupted().QuietAt)
	second := w.open(1)
	w.record(&second, acme, "", "~", 1)
	w.release(&second)
	slow := after(func() { w.now = w.now.Add(50 * time.Second) })
	w.on("pages", func(apply func() error) error { return apply() }, slow)
	s := w.place(t, "h", hold.Tenant, "")
	if s.Complete || s.Pages != (hold.Counts{Held: 1, InFlight: 1}) || s.Answer != hold.InFlight {
		t.Errorf("%+v", s)
	}
	w.wantStatus(w.ask(t, "h"), hold.Held, hold.Counts{Held: 2})
}

// A prefix concerns the ranges that it meets, and an item the one that holds its key.
func TestScopes(t *testing.T) {
	w := newScripted(t)
	w.run = w.open(2)
	last := ""
	for _, through := range []string{"b/9", "d/1", "d/5", "d/9", "f/1"} {
		w.record(&w.run, acme, last, through, 1)
		last = through
	}
	w.release(&w.run)
	neighbours := w.open(3)
	w.record(&neighbours, "acme-eu", "", "~", 1)
	n := 0
	for value, held := range map[string]int{
		root: 6, "exports/": 6, "exports/ac": 6, root + "a": 2, root + "b/": 3, root + "b/9": 3, root + "b/90": 2, root + "d/": 5, root + "d/1": 3, root + "d/2": 2,
		root + "f": 2, root + "f/1": 2, root + "g": 1, "reports/": 0, "exports/acme-eu/": 0, "exports/acmes": 0,
	} {
		n++
		s := w.place(t, fmt.Sprint("p", n), hold.Prefix, value)
		if s.Pages != (hold.Counts{Held: held}) {
			t.Errorf("prefix %s: %+v, want %d", value, s.Pages, held)
		}
	}
	for value, held := range map[string]int{
		root + "a": 2, root + "b/9": 2, root + "d/3": 2, root + "g": 1, root: 0, "exports/acme": 0, "reports/acme/a": 0, root + "\x7f": 0,
	} {
		n++
		s := w.place(t, fmt.Sprint("i", n), hold.Item, value)
		if s.Pages != (hold.Counts{Held: held}) {
			t.Errorf("item %s: %+v, want %d", value, s.Pages, held)
		}
	}
	w.wantStatus(w.place(t, "t", hold.Tenant, ""), hold.Held, hold.Counts{Held: 6})
}

// A hold that no policy has anything to do with stands, with a note.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		tenant string
		scope  hold.Scope
		value  string
		noted  bool
	}{
		{acme, hold.Tenant, "", false},
		{acme, hold.Item, root + "a", false},
		{acme, hold.Item, root, true},
		{acme, hold.Item, "exports/acme-eu/a", true},
		{acme, hold.Prefix, "exports/ac", false},
		{acme, hold.Prefix, "report", true},
		{"acme-eu", hold.Tenant, "", false}, // no run has seen it, but the policy would
		{"acme-eu", hold.Item, "exports/acme-eu/a", false},
		{"acme-eu", hold.Item, root + "a", true},
	} {
		w := newScripted(t, "a")
		s := w.status(t, hold.Request{Place: &hold.Place{ID: "h", Tenant: c.tenant, Scope: c.scope, Value: c.value, Signature: signed}})
		if s.Answer != hold.Held || (len(s.Notes) == 1) != c.noted {
			t.Errorf("%+v: %s, notes %q", c, s.Answer, s.Notes)
		}
	}
	w := newScripted(t, "a")
	w.on("prefixes", failing(failure.Network))
	if s := w.place(t, "h", hold.Item, "reports/a"); len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "could not be read") || s.Answer != hold.Held {
		t.Errorf("%+v", s)
	}
}

// While a run is scanned the hold covers the pages to come.
func TestAScanThatGoesOn(t *testing.T) {
	w := newScripted(t, "a")
	run := w.open(1)
	w.record(&run, acme, "", "a", 1)
	s := w.place(t, "h", hold.Tenant, "")
	w.wantStatus(s, hold.Held, hold.Counts{Held: 2})
	if s.ScanningRuns != 1 || !strings.Contains(s.Text, "1 run is still being scanned; the hold covers the pages to come") {
		t.Errorf("%+v", s)
	}
}

// At most a thousand pages are listed, and the rest is counted.
func TestTheListIsBounded(t *testing.T) {
	w := newScripted(t)
	run := w.open(1)
	last := ""
	for i := range 1005 {
		p := w.record(&run, acme, last, fmt.Sprintf("k%04d", i), 1)
		last = p.Through
		p.Intent, p.QuietAt, p.State = job.Intent{Plan: "x", Fence: 1, Deletes: 1}, noon.Add(time.Duration(i)*time.Second+1), job.Retrying
		p.Rev++
		sure(w.ledger.SwapPage(t.Context(), p))
	}
	w.release(&run)
	s := w.place(t, "h", hold.Tenant, "")
	if len(s.Listed) != 1000 || s.More != 5 || s.Pages != (hold.Counts{Held: 1, InFlight: 1005}) || !s.Until.Equal(noon.Add(1004*time.Second+1)) {
		t.Errorf("%d listed, %d more, %+v, until %v", len(s.Listed), s.More, s.Pages, s.Until)
	}
}

// Versions are items of their own: the look is at the version.
func TestVersions(t *testing.T) {
	w := newScriptedOf(t, policy.AllVersions, true)
	first, second := w.put("a"), w.put("a")
	w.run = w.open(1)
	w.page = w.record(&w.run, acme, "", "~", 2)
	w.release(&w.run)
	w.reach(w.interrupted().QuietAt)
	w.wantStatus(w.place(t, "h", hold.Item, root+"a"), hold.Held, hold.Counts{Held: 2})
	w.store.Remove(bucket, job.Ref{Key: root + "a", Version: first.Version})
	s := w.ask(t, "h")
	w.wantStatus(s, hold.TooLate, hold.Counts{Held: 1, TooLate: 1})
	w.wantGone(w.only(s), "", job.Inferred, map[string]int{"gone": 1})
	w.store.Remove(bucket, job.Ref{Key: root + "a", Version: second.Version})
	if s := w.ask(t, "h"); w.only(s).Items != 2 {
		t.Errorf("%+v", s)
	}
}
