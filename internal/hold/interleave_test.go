package hold_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// play is one interleaving: workers and keepers that take turns at every call they
// make, on the word of a seed alone, while processes die, answers get lost, requests
// land late, objects are replaced, and holds come and go.
type play struct {
	*world
	rng    *rand.Rand
	runs   []*run
	live   []*process
	ghosts []ghost
	bad    map[string]int // for how many more tries the store answers for a key with an error
	faults bool
	// stubborn: the store keeps its errors, and pages split and die.
	stubborn bool
	// haunted: most deletes get lost at first and land late, one object is never answered
	// for, so that its page is resumed again and again, and what was deleted is put back,
	// mostly as the same bytes (F5).
	haunted bool
	slow    string
	orders  []*order
	log     func(format string, values ...any) // nil tells nobody
	oracle
}

// run is a run and the keys of each of its ranges.
type run struct {
	job.Run
	pages []job.Page
	names map[job.PageID][]string
}

// ghost is a delete whose sender does not know what became of it. It may land before
// the instant.
type ghost struct {
	d     job.Deletion
	epoch int64
	last  time.Time
}

// order is a hold as the person knows it who ordered it.
type order struct {
	hold.Place
	answered
}

var errKilled = errors.New("the process was killed")

// names are the objects of every play.
var names = []string{"a", "b", "c", "d"}

func (p *play) tell(format string, values ...any) {
	if p.log != nil {
		p.log(p.now.Format(time.TimeOnly)+" "+format, values...)
	}
}

func newPlay(seed uint64) *play {
	rng := rand.New(rand.NewPCG(seed, 2291))
	versions, versioned := policy.CurrentVersions, false
	switch rng.IntN(6) {
	case 0:
		versions, versioned = policy.AllVersions, true
	case 1:
		versioned = true
	}
	p := &play{world: newWorld(versions, versioned), rng: rng, bad: map[string]int{}, faults: true, oracle: newOracle()}
	p.meet, p.store.OnEffect, p.store.KeyFault = p.call, p.effect, p.keyFault
	if p.stubborn = rng.IntN(3) == 0; p.stubborn {
		p.set.MaxAttempts = 2
	}
	if p.haunted = rng.IntN(3) == 0; p.haunted {
		p.slow = names[rng.IntN(len(names))]
	}
	for _, name := range names {
		item := p.put(name)
		if versions != policy.AllVersions {
			item.Version = ""
		}
		p.scanned, p.refs[name] = append(p.scanned, item), item.Ref()
	}
	for n := range 1 + rng.IntN(5)/4 { // most plays have one run, in which each deletion is one page's
		p.scan(n)
	}
	return p
}

// scan records a run of one or two ranges.
func (p *play) scan(n int) {
	r := &run{Run: p.open(n), names: map[job.PageID][]string{}}
	cut := p.rng.IntN(len(names))
	after := ""
	for _, some := range [][]string{names[:cut], names[cut:]} {
		if len(some) > 0 {
			last := some[len(some)-1]
			page := p.record(&r.Run, acme, after, last, len(some))
			r.pages, r.names[page.ID], after = append(r.pages, page), some, last
		}
	}
	p.world.release(&r.Run)
	p.runs = append(p.runs, r)
}

// playSeed plays the seed to its end, or to the first violation.
func playSeed(seed uint64, m mutant) *play {
	p := newPlay(seed)
	p.change = m.change
	p.play()
	return p
}

func (p *play) play() {
	for range 30 + p.rng.IntN(60) {
		if p.turn(); p.broken != "" {
			break
		}
	}
	p.end()
}

// turn lets one thing happen.
func (p *play) turn() {
	switch n := p.rng.IntN(100); {
	case n < 50:
		p.step()
	case n < 62:
		p.startWorker()
	case n < 72:
		p.startKeeper()
	case n < 75:
		p.kill()
	case n < 85:
		steps := []time.Duration{0, time.Second, 20 * time.Second, time.Minute, 17 * time.Minute}
		if p.haunted {
			steps[4] = 4 * time.Minute
		}
		p.advance(steps[p.rng.IntN(len(steps))])
	case n < 90:
		if len(p.ghosts) > 0 && (!p.haunted || p.answered()) { // in a haunted play they wait until it hurts
			p.land(p.rng.IntN(len(p.ghosts)))
		}
	case n < 95:
		p.replace()
	default:
		p.operate()
	}
}

// end lets everything come to rest, and asks about every hold a last time.
func (p *play) end() {
	p.faults = false
	for len(p.live) > 0 {
		p.kill()
	}
	p.advance(p.set.FunctionTimeout + p.set.RequestLifetime)
	for _, o := range p.orders {
		if p.broken == "" && o.epoch > 0 && p.active(o) {
			p.start(func(by *process) { p.ask(by, o) })
			for len(p.live) > 0 {
				p.step()
			}
			if p.broken == "" && !o.rested {
				p.violate("resolution: hold %s is in flight when nothing else is", o.ID)
			}
		}
	}
	for len(p.live) > 0 {
		p.kill()
	}
}

// start begins an invocation, which stops before its first call.
func (p *play) start(body func(by *process)) {
	by := p.process()
	by.next, by.stop = iter.Pull(func(yield func(string) bool) {
		defer func() {
			if r := recover(); r != nil && r != any(errKilled) {
				panic(r)
			}
		}()
		by.yield = yield
		body(by)
	})
	p.live = append(p.live, by)
	p.resume(by)
}

// resume lets a process make the call before which it stopped, and go on to the next.
func (p *play) resume(by *process) {
	if _, more := by.next(); !more {
		p.remove(by)
	}
}

func (p *play) remove(by *process) {
	p.live = slices.DeleteFunc(p.live, func(o *process) bool { return o == by })
}

// step lets one of the processes make a call, or several in a row.
func (p *play) step() {
	if len(p.live) == 0 {
		return
	}
	by := p.live[p.rng.IntN(len(p.live))]
	for range 1 + p.rng.IntN(8) {
		if p.resume(by); !slices.Contains(p.live, by) {
			return
		}
	}
}

// kill ends a process where it stands: before its next call, which is after its last.
func (p *play) kill() {
	if len(p.live) > 0 {
		by := p.live[p.rng.IntN(len(p.live))]
		by.killed = true
		by.stop()
		p.remove(by)
		p.seen["process killed"]++
	}
}

// call is every call of every process, and the only place where one stops. A process
// may go on after its time: it is the store and the ledger that must refuse it.
func (p *play) call(by *process, op string, apply func() error) error {
	if by.killed || !by.yield(op) {
		by.killed = true
		panic(errKilled) // whatever it still wants to do has no effect
	}
	p.tell("%p %s", by, op)
	p.ticks++
	fate := 99
	if p.faults {
		fate = p.rng.IntN(100)
	}
	switch {
	case op == "sleep":
		return nil
	case op == "place" && !p.now.Before(by.deadline.Add(p.set.RequestLifetime)):
		return class(failure.Network) // its signature is too old
	case op == "delete":
		return p.deletes(by, fate, apply)
	case fate < 1:
		p.seen["call refused"]++
		return class(failure.Throttled)
	case fate < 2:
		p.seen["call lost"]++
		return class(failure.Network)
	case fate < 4:
		p.seen["answer lost"]++
		_ = apply()
		return class(failure.Network)
	default:
		return apply()
	}
}

// deletes is a delete call: it may also get lost on its way and land later.
func (p *play) deletes(by *process, fate int, apply func() error) error {
	p.deciding = by.epoch
	switch {
	case fate < 4:
		return class(failure.Throttled)
	case fate < 14:
		_ = apply()
		p.seen["delete landed, answer lost"]++
		return class(failure.Network)
	case (fate < 40 || p.haunted && fate < 75) && by.deletion.NotAfter.After(p.now):
		p.ghosts = append(p.ghosts, ghost{by.deletion, by.epoch, by.deadline.Add(p.set.RequestLifetime)})
		return class(failure.Network)
	default:
		return apply()
	}
}

// keyFault lets the store answer for a key with an error for a while.
func (p *play) keyFault(item job.Item) (answer job.Answer, applied bool) {
	if !p.faults {
		return job.NoAnswer, false
	}
	if p.haunted && item.Key == root+p.slow && p.rng.IntN(8) > 0 {
		return job.Slow, false
	}
	if p.stubborn && p.rng.IntN(4) == 0 || p.rng.IntN(25) == 0 {
		p.bad[item.Key] = 1 + p.rng.IntN(6)
	}
	if p.bad[item.Key] == 0 {
		return job.NoAnswer, false
	}
	p.bad[item.Key]--
	switch p.rng.IntN(4) {
	case 0:
		return job.Denied, false
	case 1:
		return job.Slow, false
	default:
		return job.Unsure, p.rng.IntN(2) == 0
	}
}

// land lets a ghost take effect.
func (p *play) land(i int) {
	g := p.ghosts[i]
	p.tell("a delete under epoch %d lands late", g.epoch)
	p.ghosts = slices.Delete(p.ghosts, i, i+1)
	p.deciding = g.epoch
	g.d.NotAfter = p.now.Add(time.Hour) // it was signed in time
	_, err := p.store.Delete(context.Background(), g.d)
	sure(err)
	p.seen["delete landed late"]++
}

// advance moves the clock. A ghost that could not land afterwards lands in one of its
// last seconds, or never.
func (p *play) advance(d time.Duration) {
	end := p.now.Add(d)
	for {
		i := slices.IndexFunc(p.ghosts, func(g ghost) bool { return !g.last.After(end) })
		switch {
		case i < 0:
			p.now = end
			return
		case p.rng.IntN(3) == 0:
			p.ghosts = slices.Delete(p.ghosts, i, i+1)
		default:
			if at := p.ghosts[i].last.Add(-1 - time.Duration(p.rng.IntN(2))*time.Second); at.After(p.now) {
				p.now = at
			}
			p.land(i)
		}
	}
}

// replace is somebody else's act: he removes an object, or puts another in its place,
// perhaps of the same bytes. In a haunted play he puts back what went.
func (p *play) replace() {
	name := names[p.rng.IntN(len(names))]
	etag := []string{"other", "e-" + name}[p.rng.IntN(2)]
	if p.haunted {
		gone := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return p.store.Has(bucket, root+name) })
		if len(gone) == 0 {
			return
		}
		name = gone[p.rng.IntN(len(gone))]
		if p.rng.IntN(6) > 0 {
			etag = "e-" + name
		}
	} else if p.rng.IntN(3) == 0 {
		p.foreign[name] = true
		p.store.Remove(bucket, job.Ref{Key: root + name})
		return
	}
	p.foreign[name] = true
	_, err := p.store.Put(bucket, job.Item{Key: root + name, ETag: etag, Size: 10})
	sure(err)
}

// startWorker delivers a message of any page, in whatever state it is.
func (p *play) startWorker() {
	r := p.runs[p.rng.IntN(len(p.runs))]
	pages := p.ledger.AllPages(r.ID)
	page := pages[p.rng.IntN(len(pages))]
	if page.State.Terminal() && p.rng.IntN(8) > 0 {
		return // a duplicate, which is acknowledged
	}
	if len(p.live) < 4 {
		p.start(func(by *process) { p.work(by, r.Run, page) })
	}
}

// operate is what operators and reconcile do: they redrive dead pages, close runs, set
// brakes and release them.
func (p *play) operate() {
	r := p.runs[p.rng.IntN(len(p.runs))]
	over := true
	for _, page := range p.ledger.AllPages(r.ID) {
		if page.State == job.Dead && p.rng.IntN(2) == 0 {
			p.redrive(page)
			p.seen["page redriven"]++
		}
		over = over && page.State.Terminal()
	}
	switch {
	case over && r.State == job.Released:
		p.close(&r.Run)
		p.seen["run closed"]++
	case p.rng.IntN(6) == 0:
		sure(p.ledger.SetBrake(context.Background(), job.Brake{}))
	case p.rng.IntN(3) > 0:
		sure(p.ledger.ReleaseBrake(context.Background(), job.Brake{}))
	}
}

// startKeeper orders a hold, orders one again, asks, or releases one.
func (p *play) startKeeper() {
	if len(p.live) > 5 {
		return
	}
	if p.haunted && len(p.ghosts) == 0 && len(p.orders) == 0 {
		return
	}
	if n := p.rng.IntN(4); len(p.orders) == 0 || n == 0 && len(p.orders) < 3 {
		p.orders = append(p.orders, p.newOrder())
	}
	o := p.orders[p.rng.IntN(len(p.orders))]
	switch n := p.rng.IntN(8); {
	case o.epoch == 0:
		p.start(func(by *process) { p.placeHold(by, o) })
	case n == 0:
		p.start(func(by *process) {
			_, _ = p.handle(by, hold.Request{Release: &hold.Release{Tenant: acme, ID: o.ID, Signature: signed}})
		})
	case n == 1:
		p.start(func(by *process) { p.placeHold(by, o) })
	default:
		p.start(func(by *process) { p.ask(by, o) })
	}
}

func (p *play) newOrder() *order {
	o := &order{Place: hold.Place{ID: fmt.Sprint("hold-", len(p.orders)), Tenant: acme, Signature: signed}, answered: newAnswered()}
	switch p.rng.IntN(4) {
	case 0:
		o.Scope = hold.Tenant
	case 1:
		o.Scope, o.Value = hold.Prefix, []string{root, root + names[p.rng.IntN(len(names))]}[p.rng.IntN(2)]
	default:
		o.Scope, o.Value = hold.Item, root+names[p.rng.IntN(len(names))]
	}
	return o
}

func (p *play) placeHold(by *process, o *order) { p.query(by, o, hold.Request{Place: &o.Place}) }

func (p *play) ask(by *process, o *order) {
	p.query(by, o, hold.Request{Ask: &hold.Ask{Tenant: acme, ID: o.ID}})
}

// query asks, and takes the answer at its word.
func (p *play) query(by *process, o *order, r hold.Request) {
	began := moment{p.now, p.ticks}
	answer, err := p.handle(by, r)
	if err != nil {
		p.seen["order refused"]++
		return
	}
	status, ok := answer.(hold.Status)
	if !ok {
		p.violate("answer: %T", answer)
		return
	}
	if !p.known(o) {
		p.violate("answer: %s for a hold that is not there", status.Answer)
	}
	o.epoch, o.placedAt = status.Hold.Epoch, status.Hold.PlacedAt
	p.tell("%p answers %+v", by, status)
	if p.active(o) {
		p.take(o, status, began)
	}
}

// answered reports whether anybody was told anything of a hold.
func (p *play) answered() bool {
	return slices.ContainsFunc(p.orders, func(o *order) bool { return o.epoch > 0 })
}

// known reports whether the ledger has the hold, and active whether it is in force.
func (p *play) known(o *order) bool {
	return slices.ContainsFunc(p.allHolds(), func(h hold.Hold) bool { return h.ID == o.ID })
}

func (p *play) active(o *order) bool {
	return slices.ContainsFunc(p.allHolds(), func(h hold.Hold) bool { return h.ID == o.ID && h.Active() })
}

func (p *play) allHolds() hold.Set {
	set, err := p.ledger.Holds(context.Background(), acme)
	sure(err)
	return set
}
