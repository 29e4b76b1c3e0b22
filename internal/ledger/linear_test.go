package ledger_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
)

// The histories of a run of the tests. The race detector looks at each access and not
// at the order of answers, so it gets few. A history takes about 2 ms of a core; a
// machine that others work on too plays as many as fit into the time, and the log says
// how many.
const (
	historiesWhole = 10_000
	historiesShort = 200
	historiesTime  = 20 * time.Second
)

// A recorded run plays as many as it is told, however long it takes.
var histories = flag.Int("histories", 0, "play so many histories of a page, without a limit on time")

// TestS11_S13_ClaimsAndIntentsAreLinearizable: whatever several workers, a scan and a
// counsel do to one page at once, and whatever answers are lost, there is an order in
// which each call happened at one instant between its question and its answer, and in
// that order each write found the revision and the epoch that it named. So of two
// claims one fails, and so does what is written under a lost one.
func TestS11_S13_ClaimsAndIntentsAreLinearizable(t *testing.T) {
	n, limit := historiesWhole, historiesTime
	if raced || testing.Short() {
		n = historiesShort
	}
	if *histories > 0 {
		n, limit = *histories, 24*time.Hour
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // little is kept, and a fifth of the time goes into looking for it
	start := time.Now()
	seen, wrong := newShelf(t, nil).play(n, 1, limit)
	t.Logf("%v: %s", time.Since(start).Round(10*time.Millisecond), &seen)
	if len(wrong) > 0 {
		t.Errorf("a history has no order:\n%s", wrong[0])
	}
	for name, count := range seen.all() {
		if *count == 0 {
			t.Errorf("no history had: %s", name)
		}
	}
}

// TestTheOrderIsMissed: a ledger that writes without its conditions is found out, or
// the test above says nothing. An intent that is committed under an old epoch is rare,
// because few histories have a hold at just that moment: three of them are enough.
func TestTheOrderIsMissed(t *testing.T) {
	for _, c := range []struct {
		name    string
		spoil   spoiler
		n, want int // histories, and how many of them must show it; about half of what they do
	}{
		{"no condition on a write", unconditioned, 100, 60},
		{"the condition looked at before the write", torn, 100, 40},
		{"no condition on the epoch", epochless, 2000, 3},
	} {
		seen, wrong := newShelf(t, c.spoil).play(c.n, c.want, historiesTime)
		t.Logf("%s: %d of %d histories have no order", c.name, len(wrong), seen.histories)
		if len(wrong) < c.want {
			t.Errorf("%s is noticed in %d histories, want %d", c.name, len(wrong), c.want)
		}
	}
}

// shelf is a ledger in a table, and the run whose pages are played with.
type shelf struct {
	t *testing.T
	*ledger.Table

	mu  sync.Mutex
	run job.Run
	n   int // pages
}

func newShelf(t *testing.T, s spoiler) *shelf {
	t.Helper()
	table := tableInProcess(t, s)
	run := job.Run{ID: job.ScheduledRunID("eu-west-1", "exports", instant), Rev: 1, Policy: "exports", State: job.Scanning, Scheduled: instant}
	_, _, err := table.OpenRun(t.Context(), run)
	check(t, err)
	return &shelf{t: t, Table: table, run: run}
}

// page records a page of a tenant that nobody else has.
func (s *shelf) page() row {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	tenant := fmt.Sprintf("t%d", s.n)
	p := job.Page{
		ID: job.RangePageID(s.run.ID, tenant, "k"), Run: s.run.ID, Tenant: tenant, Kind: job.RangePage, Rev: 1,
		After: "k", Through: "\xff", Candidates: 9, State: job.Planned, NextDue: instant, BornAt: instant,
	}
	next, err := s.run.Advance(job.Stretch{Through: tenant}, &p)
	check(s.t, err)
	check(s.t, s.Record(s.t.Context(), next, &p))
	s.run = next
	return row{page: p}
}

// play plays n histories, several at a time, until so many have no order or time is
// over. It returns what was seen, and those without an order. A history goes on with the page
// that the one before it has left, until that page has ended.
func (s *shelf) play(n, enough int, limit time.Duration) (tally, []string) {
	end := time.Now().Add(limit)
	var (
		next  atomic.Int64
		mu    sync.Mutex
		seen  tally
		wrong []string
		group sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			at := s.page()
			for i := next.Add(1); i <= int64(n) && time.Now().Before(end); i = next.Add(1) {
				h := s.history(i, at)
				ordered := porcupine.CheckOperations(modelFrom(at), h.calls)
				mu.Lock()
				seen.add(&h.seen)
				if !ordered {
					wrong = append(wrong, h.String())
				}
				if len(wrong) == enough {
					next.Store(int64(n))
				}
				mu.Unlock()
				if at = h.end; at.page.State.Terminal() || !ordered {
					at = s.page()
				}
			}
		})
	}
	group.Wait()
	return seen, wrong
}

// history is what several clients asked about one page, and what they were told.
type history struct {
	shelf      *shelf
	start, end row
	child      job.Page // what one of the ends splits off
	vetoed     bool     // somebody has asked for a hold
	late       ghosts
	now        atomic.Int64

	mu    sync.Mutex
	calls []porcupine.Operation
	seen  tally
}

// history plays one. What each client does follows from the number; how they meet is
// the scheduler's.
func (s *shelf) history(number int64, start row) *history {
	page := start.page
	h := &history{shelf: s, start: start, child: job.Page{
		ID: job.ItemPageID(page.Run, page.Tenant, job.Ref{Key: "k"}), Run: page.Run, Tenant: page.Tenant, Kind: job.ItemPage,
		Rev: 1, Parent: page.ID, Candidates: 1, State: job.Planned, NextDue: instant, BornAt: instant,
	}}
	var group sync.WaitGroup
	for id := range 4 {
		c := &client{history: h, id: id, name: fmt.Sprintf("%d-%d", number, id), chance: rand.New(rand.NewPCG(uint64(number), uint64(id)))}
		play := c.work
		if id == 3 {
			play = c.veto
		}
		group.Go(play)
	}
	group.Wait()
	h.late.release() // what is under way lands in the end
	last := &client{history: h, id: 4}
	h.end.page, _ = last.look(false)
	if h.end.epoch = start.epoch; h.vetoed {
		h.end.epoch, _ = last.epoch()
	}
	if h.end.page.State.Terminal() {
		last.children()
	}
	return h
}

// client is one of those who write. It is fenced by nothing but the ledger.
type client struct {
	*history
	id     int
	name   string
	chance *rand.Rand // nil for one whose every call is answered at once
}

// work plays a worker, that of a scan now and then: it reads the page, or has slept
// since it did, moves it as package job allows, and writes that.
func (c *client) work() {
	page := c.start.page
	if c.chance.IntN(2) == 0 {
		found, ok := c.look(c.chance.IntN(2) == 0)
		if !ok {
			return
		}
		page = found
	}
	c.move(page)
}

// move writes what may follow on the page.
func (c *client) move(page job.Page) {
	after := instant.Add(time.Duration(page.Rev) * time.Hour) // later than every lease
	settled := page.Settlement()
	settled.Receipt, settled.At = c.name, after
	var next job.Page
	var err error
	switch free := page.State != job.Claimed && page.State != job.Intended; {
	case page.State == job.Dead:
		next, err = page.Redrive(job.RedriveID(c.name), after, after)
	case free && c.chance.IntN(4) == 0:
		next, err = page.Send(after)
	case free || c.chance.IntN(4) == 0: // or the lease has ended, and it is taken over
		next, err = page.Claim(c.name, after, after.Add(time.Minute), after)
	case page.State == job.Claimed:
		epoch := c.start.epoch
		if c.chance.IntN(2) == 0 {
			found, ok := c.epoch()
			if !ok {
				return
			}
			epoch = found
		}
		if next, err = page.Intend(c.name, epoch, 3, 3, time.Minute); err == nil {
			c.intend(next, epoch)
			return
		}
	case c.chance.IntN(3) == 0:
		next, err = page.Die(page.Owner, job.ReasonForbidden, failure.Forbidden, settled, after)
	default:
		if next, err = page.Complete(settled); err == nil {
			c.complete(next, c.chance.IntN(2) == 0)
			return
		}
	}
	if err == nil { // a page that has ended is left alone
		c.swap(next)
	}
}

// veto plays a counsel: a hold now and then, and the questions that belong to it.
func (c *client) veto() {
	switch c.chance.IntN(9) {
	case 0:
		c.epoch()
	case 1:
		c.children()
	case 2, 3, 4:
		c.vetoed = true
		c.hold(c.name)
	}
}

// The calls, each with what it asks and what it was told.

func (c *client) look(withBrakes bool) (job.Page, bool) {
	a := c.call(question{op: opRead}, func(ctx context.Context) (a answer, err error) {
		if withBrakes {
			a.page, _, err = c.shelf.Look(ctx, c.start.page.Run, c.start.page.Tenant, c.start.page.ID)
		} else {
			a.page, err = c.shelf.Page(ctx, c.start.page.Run, c.start.page.Tenant, c.start.page.ID)
		}
		return a, err
	})
	return a.page, a.told == done
}

func (c *client) epoch() (int64, bool) {
	a := c.call(question{op: opEpoch}, func(ctx context.Context) (a answer, err error) {
		a.epoch, err = c.shelf.Epoch(ctx, c.start.page.Tenant)
		return a, err
	})
	return a.epoch, a.told == done
}

func (c *client) children() {
	c.call(question{op: opChild}, func(ctx context.Context) (a answer, err error) {
		_, err = c.shelf.Page(ctx, c.start.page.Run, c.start.page.Tenant, c.child.ID)
		if failure.Is(err, failure.Absent) {
			return a, nil
		}
		return answer{child: true}, err
	})
}

func (c *client) swap(next job.Page) {
	c.call(question{op: opSwap, next: next}, func(ctx context.Context) (answer, error) { return answer{}, c.shelf.SwapPage(ctx, next) })
}

func (c *client) intend(next job.Page, epoch int64) {
	c.call(question{op: opIntend, next: next, epoch: epoch}, func(ctx context.Context) (answer, error) {
		return answer{}, c.shelf.Intend(ctx, next, epoch)
	})
}

func (c *client) complete(next job.Page, split bool) {
	var children []job.Page
	if split {
		children = append(children, c.child)
	}
	c.call(question{op: opComplete, next: next, child: split}, func(ctx context.Context) (answer, error) {
		return answer{}, c.shelf.Complete(ctx, next, children)
	})
}

func (c *client) hold(id string) {
	h := hold.Hold{ID: id, Tenant: c.start.page.Tenant, Scope: hold.Tenant, Reason: "litigation", By: "counsel", PlacedAt: instant}
	c.call(question{op: opHold}, func(ctx context.Context) (answer, error) {
		placed, err := c.shelf.PlaceHold(ctx, h)
		return answer{epoch: placed.Epoch}, err
	})
}

// call asks under the fate that chance has for the call, and writes down what was said
// and when. A call of which nobody knows whether it happened is never over.
func (c *client) call(q question, ask func(context.Context) (answer, error)) answer {
	f := &fates{late: &c.late}
	if c.chance != nil {
		f.draw(c.chance)
	}
	begun := c.history.now.Add(1)
	a, err := ask(withFates(c.shelf.t.Context(), f))
	ended := c.history.now.Add(1)
	switch {
	case err == nil:
		a.told = done
	case failure.Is(err, failure.Conflict):
		a.told = refused
	case failure.Is(err, failure.Network):
		a, ended = answer{}, math.MaxInt64
	default:
		c.shelf.t.Errorf("%s: %v", q, err)
	}
	a.again = f.lost > 0
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	c.calls = append(c.calls, porcupine.Operation{ClientId: c.id, Input: q, Output: a, Call: begun, Return: ended})
	c.seen.count(q, a, f)
	return a
}

// The model: one page, its tenant's epoch, and the one item that may be split off.

type op string

const (
	opRead     op = "read"
	opSwap     op = "swap"
	opIntend   op = "intend"
	opComplete op = "complete"
	opEpoch    op = "epoch"
	opHold     op = "hold"
	opChild    op = "child"
)

// question is what a call asks for.
type question struct {
	op    op
	next  job.Page
	epoch int64
	child bool // complete: an item is split off
}

func (q question) String() string {
	if q.next.ID == "" {
		return string(q.op)
	}
	return fmt.Sprintf("%s to %s", q.op, brief(q.next))
}

func brief(p job.Page) string { return fmt.Sprintf("revision %d %s of %s", p.Rev, p.State, p.Owner) }

// told is how a call ended.
type told string

const (
	unknown told = ""
	done    told = "done"
	refused told = "refused"
)

// answer is what a call was told.
type answer struct {
	told  told
	again bool // the SDK has asked more than once
	page  job.Page
	epoch int64
	child bool
}

// row is what the model knows.
type row struct {
	page  job.Page
	epoch int64
	child bool
}

// modelFrom is a ledger that does one call after the other. Operations that read and
// were not answered say nothing; one that writes and was not answered happens if it
// can, for one that did not happen can be put at the end.
func modelFrom(start row) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return start },
		Step: func(state, input, output any) (bool, any) {
			return state.(row).after(input.(question), output.(answer)) //nolint:errcheck // porcupine hands over what it was given
		},
	}
}

func (r row) after(q question, a answer) (bool, row) {
	switch q.op {
	case opRead:
		return a.told == unknown || a.page == r.page, r
	case opEpoch:
		return a.told == unknown || a.epoch == r.epoch, r
	case opChild:
		return a.told == unknown || a.child == r.child, r
	case opHold: // it looks again until it is done
		r.epoch++
		return a.told == unknown || a.told == done && a.epoch == r.epoch, r
	default: // what writes the page
	}
	holds := q.next.Rev == r.page.Rev+1 && (q.op != opIntend || q.epoch == r.epoch) && !(q.child && r.child)
	may := a.told != done // nothing happens
	if holds {
		// A single write that the SDK sent again is refused by its own success (the
		// writer reads the row again); a transaction is known by its token.
		may = a.told != refused || a.again && q.op != opIntend && !q.child
		r.page, r.child = q.next, r.child || q.child
	}
	return may, r
}

// String lists the calls of a history for whoever has to understand it.
func (h *history) String() string {
	var b strings.Builder
	for _, c := range h.calls {
		a, _ := c.Output.(answer)
		fmt.Fprintf(&b, "  client %d [%d, %d] %s: %s %s, epoch %d, child %v, again %v\n",
			c.ClientId, c.Call, c.Return, c.Input, a.told, brief(a.page), a.epoch, a.child, a.again)
	}
	return b.String()
}

// tally counts what happened, so that a test can tell that it did.
type tally struct{ histories, calls, refusals, unanswered, again, ghosts, intents, holds, splits int }

func (n *tally) all() map[string]*int {
	return map[string]*int{
		"a refusal": &n.refusals, "a call without an answer": &n.unanswered, "a call that was sent again": &n.again,
		"a call that landed late": &n.ghosts, "an intent": &n.intents, "a hold": &n.holds, "a split-off item": &n.splits,
	}
}

func (n *tally) String() string {
	return fmt.Sprintf("%d histories, %d calls: %d refused, %d never answered, %d sent again, %d landed late; %d intents, %d holds, %d split-off items",
		n.histories, n.calls, n.refusals, n.unanswered, n.again, n.ghosts, n.intents, n.holds, n.splits)
}

func (n *tally) count(q question, a answer, f *fates) {
	one := func(into *int, when bool) {
		if when {
			*into++
		}
	}
	n.calls++
	n.ghosts += f.ghosts
	one(&n.refusals, a.told == refused)
	one(&n.unanswered, a.told == unknown)
	one(&n.again, f.lost > 0 && a.told != unknown)
	one(&n.intents, q.op == opIntend && a.told == done)
	one(&n.holds, q.op == opHold && a.told == done)
	one(&n.splits, q.child && a.told == done)
}

// add counts a history.
func (n *tally) add(h *tally) {
	n.histories++
	n.calls += h.calls
	theirs := h.all()
	for name, count := range n.all() {
		*count += *theirs[name]
	}
}
