package rehearse_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	kept "github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/rehearse"
)

// drill is a delivery that may be cut off at any of its calls: what comes before it,
// what stays so while it lasts, and what is repaired after it.
type drill struct {
	name   string
	kind   kind
	before func(*world)
	repair func(*world)
	// calm: only time passes after it. What else may happen, other drills show.
	calm bool
}

// drills are the deliveries whose every state is rehearsed.
func drills() []drill {
	abh := []string{"a", "b", "h"}
	heldH := func(w *world) { w.hold("h", hold.Item, root+"h") }
	return []drill{
		{name: "a first delivery", kind: kind{keys: abh}, before: heldH},
		{name: "in a versioned bucket", kind: kind{keys: abh, versioned: true}, before: heldH},
		{name: "by version id", kind: kind{keys: []string{"a", "a", "b"}, versioned: true, versions: "all"}},
		{name: "report-only", calm: true, kind: kind{keys: abh, mode: job.ReportOnly}, before: heldH},
		{name: "before the release", calm: true, kind: kind{keys: abh, unreleased: true}},
		{name: "under a brake", calm: true, kind: kind{keys: abh}, before: func(w *world) { w.brake() }},
		{name: "with a fault of one item", kind: kind{keys: abh}, before: func(w *world) { w.faulty(job.Unsure, "b") }, repair: (*world).sound},
		{name: "slowed down", calm: true, kind: kind{keys: abh, versioned: true}, before: func(w *world) { w.faulty(job.Slow, "b") }, repair: (*world).sound},
		{name: "of a split-off item", kind: kind{keys: abh}, before: func(w *world) { w.faulty(job.Unsure, "a"); w.drain(w.now); w.sound(); w.child() }},
		{name: "of a refused item", calm: true, kind: kind{keys: abh}, before: func(w *world) { w.deny("b"); w.drain(w.now); w.child() }},
		{name: "of a refused page", calm: true, kind: kind{keys: []string{"b", "h"}}, before: func(w *world) { heldH(w); w.deny("b") }},
		{name: "of a refused page, redriven", calm: true, kind: kind{keys: abh}, before: func(w *world) {
			w.deny("a")
			w.deny("b")
			w.deny("h")
			w.drain(w.now)
			w.move(w.row().Redrive("", w.now, w.now.Add(time.Hour)))
		}},
		{name: "a resume", kind: kind{keys: abh, versioned: true}, before: func(w *world) { w.cut("a") }},
		{name: "a resume under a wrong marker", kind: kind{keys: abh, versioned: true}, before: func(w *world) {
			w.cutAt(func(apply func() error) error { w.put("a", "e-a", w.now); return fates()["dies after"](apply) })
		}},
		{name: "a resume under a new hold", kind: kind{keys: abh}, before: func(w *world) { w.cut("a"); w.hold("b", hold.Item, root+"b") }},
		{name: "after the quiet time", calm: true, kind: kind{keys: abh}, before: func(w *world) {
			w.cut("a")
			w.hold("b", hold.Item, root+"b")
			w.deliver(w.now)
			w.reach(w.row().RetryAt)
		}},
		{name: "of a dead page, redriven", kind: kind{keys: abh}, before: func(w *world) {
			w.kill("a")
			w.move(w.row().Redrive("", w.now, w.now.Add(time.Hour)))
		}},
		{name: "of an abandoned page", kind: kind{keys: abh, versioned: true}, before: func(w *world) {
			w.kill("a")
			w.move(w.row().Abandon(w.now, w.now.Add(time.Hour)))
			w.hold("b", hold.Item, root+"b")
		}},
		{name: "of an abandoned page, after its quiet time", kind: kind{keys: abh}, before: func(w *world) {
			w.kill("a")
			w.move(w.row().Abandon(w.now, w.now.Add(time.Hour)))
			w.reach(w.row().QuietAt)
		}},
		{name: "of a page that has one attempt left", calm: true, kind: kind{keys: abh}, before: func(w *world) { w.settings.MaxAttempts = 1 }},
		{name: "of a page whose plan is lost", calm: true, kind: kind{keys: abh}, before: func(w *world) { w.cut("a"); w.evidence = &kept.Memory{} }},
		{name: "of a settled page", calm: true, kind: kind{keys: abh}, before: func(w *world) { w.drain(w.now) }},
	}
}

// brake stops the policy.
func (w *world) brake() { w.must(w.ledger.SetBrake(w.t.Context(), job.Brake{Policy: w.policy.Name})) }

// faulty lets the store answer so about an item, without effect.
func (w *world) faulty(a job.Answer, name string) {
	w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
		if item.Key == root+name {
			return a, false
		}
		return job.NoAnswer, false
	}
}

func (w *world) sound() { w.store.KeyFault = nil }

// child turns to the page of the item that was split off.
func (w *world) child() {
	for _, p := range w.ledger.AllPages(w.run.ID) {
		if p.Kind == job.ItemPage {
			w.page = p.ID
		}
	}
}

// cut ends a first claim in the middle of its delete: the named item went, and the
// next claim comes when the lease is over.
func (w *world) cut(gone string) {
	w.t.Helper()
	w.cutAt(func(apply func() error) error {
		w.store.KeyFault = func(item job.Item) (job.Answer, bool) {
			return map[bool]job.Answer{false: job.Slow}[item.Key == root+gone], false
		}
		return fates()["dies after"](apply)
	})
}

func (w *world) cutAt(f fate) {
	w.t.Helper()
	w.at, w.fate = w.first("delete"), f
	if _, lived := w.deliver(w.now); lived {
		w.t.Fatal("the process lived")
	}
	w.sound()
	w.at = -1
	w.reach(w.row().LeaseEnd)
}

// kill ends it so, and as the only one that the page is allowed.
func (w *world) kill(gone string) {
	w.t.Helper()
	limit := w.settings.MaxAttempts
	w.settings.MaxAttempts = 1
	w.cut(gone)
	w.drain(w.now)
	w.settings.MaxAttempts = limit
	if p := w.row(); p.State != job.Dead {
		w.t.Fatalf("the page is %s", p.State)
	}
}

// first is which call of a first delivery is op.
func (w *world) first(op string) int {
	steps := []string{"run", "page", "policy", "page:claimed", "epoch", "holds", "list", "put", "brakes", "intend", "delete"}
	return len(w.calls) + slices.Index(steps, op)
}

// meantime is what happens between the delivery that was cut off and the next one.
type meantime struct {
	name string
	do   func(*world)
	// every: also after calls that fail, and not only after deaths.
	every bool
}

func meantimes(calm bool) []meantime {
	leased := func(w *world) {
		if p := w.row(); p.LeaseLive(w.now) {
			w.reach(p.LeaseEnd)
		}
	}
	after := func(do func(*world)) func(*world) { return func(w *world) { do(w); leased(w) } }
	times := []meantime{
		{name: "at once", do: func(*world) {}, every: true},
		{name: "after the lease", do: leased, every: true},
		{name: "after a day", do: func(w *world) { w.reach(w.now.Add(day)) }},
	}
	if calm {
		return times
	}
	return append(times, []meantime{
		{name: "a hold on the tenant", do: after(func(w *world) { w.hold("t", hold.Tenant, "") })},
		{name: "a hold on one, released again", do: after(func(w *world) {
			w.hold("i", hold.Item, root+"a")
			w.must(w.ledger.ReleaseHold(w.t.Context(), acme, "i", w.now))
		})},
		{name: "another object", do: after(func(w *world) { w.put("b", "new", w.now) })},
		{name: "the same bytes again", do: after(func(w *world) { w.put("a", "e-a", w.now.Add(-day)); w.put("b", "e-b", w.now) })},
		{name: "somebody removed one", do: after(func(w *world) { w.store.Remove(bucket, job.Ref{Key: root + "b"}) })},
		{name: "a brake", do: after((*world).brake)},
	}...)
}

// build plays the drill: its delivery is given the fate at one of its calls, then the
// meantime passes. It reports whether there was such a call.
func (d drill) build(t *testing.T, policies map[string]policy.Policy, at int, f fate, m meantime) (w *world, reached bool) {
	w = newWorld(t, policies, d.kind)
	if d.before != nil {
		d.before(w)
	}
	w.calls, w.at, w.fate = nil, at, f
	if at != undelivered {
		w.deliver(w.now)
	}
	reached = len(w.calls) > at
	w.at = -1
	if d.repair != nil {
		d.repair(w)
	}
	m.do(w)
	return w, reached
}

// undelivered is a drill without its delivery, complete one that nothing cut off.
const undelivered, complete = -2, -1

// TestR94_ARehearsalIsWhatHappens: in every state that a drill can leave a page in,
// the rehearsal is compared with the redelivery that follows. It has the same rounds
// at the same instants, the same row down to the hashes of plan and receipt, the
// same outcomes, deletes and events, and it writes nothing.
func TestR94_ARehearsalIsWhatHappens(t *testing.T) {
	policies := map[string]policy.Policy{}
	states, rehearsals, ends := 0, 0, map[string]int{}
	for _, d := range drills() {
		t.Run(d.name, func(t *testing.T) {
			for _, m := range meantimes(d.calm) {
				for _, s := range d.states(t, policies, m) {
					states++
					for _, u := range s.usages {
						rehearsals++
						ends[s.build().compare(m.name+", "+s.name+", "+u.name, u)]++
					}
				}
			}
		})
	}
	t.Logf("%d states, %d rehearsals: %v", states, rehearsals, ends)
	if states < 200 {
		t.Errorf("%d states", states)
	}
}

// state is one that a drill can leave, and what an operator may ask about it. It can
// be built as often as needed.
type state struct {
	name   string
	build  func() *world
	usages []usage
}

// states returns every different state that the drill can leave: one without the
// delivery, one after it, and one for each fate of each call. A death before a call is
// the one after the call before.
func (d drill) states(t *testing.T, policies map[string]policy.Policy, m meantime) (all []state) {
	seen := map[string]bool{}
	add := func(name string, at int, f fate) bool {
		w, reached := d.build(t, policies, at, f, m)
		if print := w.fingerprint(); reached && !seen[print] {
			seen[print] = true
			again := func() *world { w, _ := d.build(t, policies, at, f, m); return w }
			all = append(all, state{name: name, build: again, usages: w.usages()})
		}
		return reached
	}
	add("undelivered", undelivered, nil)
	add("delivered", complete, nil)
	for at, reached := 0, true; reached; at++ {
		for name, f := range fates() {
			if m.every || name == "dies after" {
				reached = add(fmt.Sprintf("call %d %s", at, name), at, f)
			}
		}
	}
	return all
}

// usage is one question about a page, and what the answer takes for granted.
type usage struct {
	name     string
	when     rehearse.When
	sent     time.Time // of the message, zero for now
	repaired bool
	prepare  func(*world)
}

// usages are the questions that make sense about the page as it is.
func (w *world) usages() []usage {
	brakes, err := w.ledger.Brakes(w.t.Context())
	w.must(err)
	all := []usage{{name: "now"}}
	if len(brakes) > 0 {
		release := func(w *world) { w.must(w.ledger.ReleaseBrake(w.t.Context(), brakes[0])) }
		all = append(all, usage{name: "once released", when: rehearse.OnceReleased, prepare: release})
	}
	if w.row().State == job.Dead {
		redrive := func(w *world) { w.move(w.row().Redrive("", w.now, w.now.Add(w.settings.Overdue()))) }
		repair := func(w *world) { w.must(w.store.Allow(bucket)); w.denied = nil; redrive(w) }
		all = append(all, usage{name: "a copy", sent: noon}, usage{name: "once redriven", when: rehearse.OnceRedriven, prepare: redrive},
			usage{name: "once redriven and repaired", when: rehearse.OnceRedriven, repaired: true, prepare: repair})
	}
	return all
}

// compare rehearses, then delivers, and returns how it ended.
func (w *world) compare(about string, u usage) string {
	w.t.Helper()
	config := w.rehearsal()
	config.SentAt, config.Repaired = u.sent, u.repaired
	var p rehearse.Prediction
	var err error
	w.frozen(func() { p, err = rehearse.Rehearse(w.t.Context(), config, w.run.ID, acme, w.page, u.when) })
	if err != nil {
		w.t.Errorf("%s: %v", about, err)
		return ""
	}
	if p.Text == "" || strings.Contains(p.Text, root) || p.Counts != p.Final.Counts {
		w.t.Errorf("%s: %q, %v", about, p.Text, p.Counts)
	}
	if u.prepare != nil {
		u.prepare(w)
	}
	surprised := w.surprised()
	pages, effects := len(w.ledger.AllPages(w.run.ID)), len(w.store.Effects())
	w.events = nil
	if u.sent.IsZero() {
		u.sent = w.now
	}
	rounds := w.drain(u.sent)
	if surprised {
		return w.compareRest(about, p, effects)
	}
	last := p.Rounds[len(p.Rounds)-1]
	w.same(about+": rounds", rounds, public(p.Rounds))
	w.same(about+": row", anonymous(w.row()), anonymous(p.Final))
	w.same(about+": lines", w.lines(w.row()), p.Lines)
	w.same(about+": deletes", w.deleted(effects), deletes(p.Deletes, w.policy.Versions))
	w.same(about+": events", unsigned(w.events), unsigned(p.Events))
	if n := len(w.ledger.AllPages(w.run.ID)) - pages; n != len(p.Born) {
		w.t.Errorf("%s: %d pages were born, not %d", about, n, len(p.Born))
	}
	for _, child := range p.Born {
		real, err := w.ledger.Page(w.t.Context(), child.Run, child.Tenant, child.ID)
		w.must(err)
		w.same(about+": child", anonymous(real), anonymous(child))
	}
	return fmt.Sprintf("%s, %s", last.State, strings.SplitN(last.Why, " in ", 2)[0])
}

// surprised reports whether the store refuses something of which no receipt says so.
func (w *world) surprised() bool {
	known := map[string]bool{}
	for _, l := range w.lines(w.row()) {
		known[l.Key] = l.Outcome == job.Refused
	}
	for _, key := range w.denied {
		if !known[key] {
			return true
		}
	}
	return false
}

// compareRest compares what the rehearsal could know: everything about the items
// that are not refused.
func (w *world) compareRest(about string, p rehearse.Prediction, effects int) string {
	w.t.Helper()
	words := func(lines []receipt.Line) map[string]string {
		all := map[string]string{}
		for _, l := range lines {
			if !slices.Contains(w.denied, l.Key) {
				all[l.Key+l.Version] = l.Outcome.String() + " " + string(l.Proof)
			}
		}
		return all
	}
	w.same(about+": outcomes", words(w.lines(w.row())), words(p.Lines))
	w.same(about+": deletes", w.deleted(effects), slices.DeleteFunc(deletes(p.Deletes, w.policy.Versions), func(key string) bool {
		return slices.Contains(w.denied, key)
	}))
	return "surprised by a refusal"
}

func (w *world) same(what string, got, want any) {
	w.t.Helper()
	if !reflect.DeepEqual(got, want) && (reflect.ValueOf(got).Kind() != reflect.Slice || reflect.ValueOf(got).Len()+reflect.ValueOf(want).Len() > 0) {
		w.t.Errorf("%s\nreal      %+v\nrehearsed %+v", what, got, want)
	}
}

// deleted names what was really deleted or hidden since.
func (w *world) deleted(since int) []string {
	var all []string
	for _, e := range w.store.Effects()[since:] {
		if !e.Restored {
			all = append(all, name(e.Item, w.policy.Versions))
		}
	}
	return all
}

func deletes(items []job.Item, versions policy.Versions) []string {
	var all []string
	for _, item := range items {
		all = append(all, name(item, versions))
	}
	return all
}

func name(item job.Item, versions policy.Versions) string {
	if versions == policy.AllVersions {
		return item.Key + item.Version
	}
	return item.Key
}

// public are the rounds without their explanation.
func public(rounds []rehearse.Round) []rehearse.Round {
	all := make([]rehearse.Round, len(rounds))
	for i, r := range rounds {
		all[i] = rehearse.Round{At: r.At, Ack: r.Ack, Until: r.Until, State: r.State}
	}
	return all
}

// anonymous is the row without the name of its claim.
func anonymous(p job.Page) job.Page { p.Owner = ""; return p }

// unsigned are the events without the message that they were about.
func unsigned(events []audit.Event) []audit.Event {
	all := slices.Clone(events)
	for i := range all {
		all[i].MessageID = ""
	}
	return all
}
