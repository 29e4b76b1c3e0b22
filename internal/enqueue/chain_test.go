package enqueue

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/queue"
)

// What a choice lets happen around a call of an enqueuer.
const (
	nothing byte = iota
	churnBefore
	churnAfter
	otherBefore // the other enqueuer runs inside the call
	otherAfter
	diesBefore
	diesAfter
	failsBefore
	failsAfter
	timeIsUp
)

// choices are drawn from; what makes a race stands there more than once.
var choices = []byte{
	nothing, nothing, nothing, nothing, nothing, churnBefore, churnAfter, otherBefore, otherBefore, otherAfter, otherAfter,
	diesBefore, diesAfter, failsBefore, failsAfter, timeIsUp,
}

// race is two enqueuers of one run over a bucket that changes under them. Every
// decision is read from script, so that a failure is found again and shrinks.
type race struct {
	script []byte
	policy policy.Policy
	store  *artifact.Memory
	ledger *ledger.Memory
	stable map[string]bool // candidates that are there all the time
	pool   []string        // the keys that come and go
	rand   *rand.Rand
	a, b   *contender
}

func (r *race) next() byte {
	if len(r.script) == 0 {
		return nothing
	}
	c := r.script[0]
	r.script = r.script[1:]
	return c
}

// churn deletes, adds and overwrites some of the keys that may change.
func (r *race) churn() {
	for range 1 + r.rand.IntN(4) {
		key := r.pool[r.rand.IntN(len(r.pool))]
		if r.rand.IntN(2) == 0 {
			r.store.Remove(r.policy.Bucket, job.Ref{Key: key})
			continue
		}
		age := time.Duration(r.rand.IntN(60)) * day
		_, _ = r.store.Put(r.policy.Bucket, job.Item{Key: key, ETag: "e", Size: 1, Modified: noon.Add(-age)}) // the bucket exists
	}
}

// contender is one enqueuer; each of its calls goes through do.
type contender struct {
	isReady
	*ledger.Memory
	race   *race
	other  *contender // nil inside a call of the other one
	record func(next job.Run, page *job.Page) error
	queue  *queue.Memory
	clock  *testClock
	step   *Enqueuer
}

func (c *contender) do(op string, apply func() error) error {
	switch c.race.next() {
	case churnBefore:
		c.race.churn()
	case otherBefore:
		c.runOther()
	case diesBefore:
		runtime.Goexit()
	case failsBefore:
		return failure.New(failure.Network, op, "injected")
	case timeIsUp:
		c.clock.advance(time.Minute)
	case churnAfter:
		defer c.race.churn()
	case otherAfter:
		defer c.runOther()
	case diesAfter:
		_ = apply()
		runtime.Goexit()
	case failsAfter:
		_ = apply()
		return failure.New(failure.Network, op, "injected")
	}
	return apply()
}

func (c *contender) runOther() {
	if c.other != nil {
		_, _ = c.other.invoke() // whatever it answers, the race goes on
	}
}

// invoke starts or resumes the run once; it may die, fail, or run out of time.
func (c *contender) invoke() (receipt Receipt, err error) {
	process(func() { receipt, err = c.step.Start(context.Background(), c.clock.Now().Add(time.Minute), tick) })
	return receipt, err
}

func (c *contender) PublishPolicy(ctx context.Context, p policy.Policy) error {
	return c.do("publish", func() error { return c.Memory.PublishPolicy(ctx, p) })
}

func (c *contender) OpenRun(ctx context.Context, r job.Run) (stored job.Run, created bool, err error) {
	err = c.do("open", func() (err error) {
		stored, created, err = c.Memory.OpenRun(ctx, r)
		return err
	})
	return stored, created, err
}

func (c *contender) SwapRun(ctx context.Context, next job.Run) error {
	return c.do("swap run", func() error { return c.Memory.SwapRun(ctx, next) })
}

func (c *contender) SwapPages(ctx context.Context, next []job.Page) error {
	return c.do("swap pages", func() error { return c.Memory.SwapPages(ctx, next) })
}

func (c *contender) Record(_ context.Context, next job.Run, page *job.Page) error {
	return c.do("record", func() error { return c.record(next, page) })
}

func (c *contender) List(ctx context.Context, q job.Query) (listing job.Listing, err error) {
	err = c.do("list", func() (err error) {
		listing, err = c.race.store.List(ctx, q)
		return err
	})
	return listing, err
}

func (c *contender) Send(ctx context.Context, mode job.Mode, messages []job.Message) (accepted []string, err error) {
	err = c.do("send", func() (err error) {
		accepted, err = c.queue.Send(ctx, mode, messages)
		return err
	})
	return accepted, err
}

// newRace prepares a race. record writes a stretch: the ledger's transaction, or
// what the mutants make of it.
func newRace(t testing.TB, seed uint64, versions bool, script []byte, record func(*ledger.Memory) func(job.Run, *job.Page) error) *race {
	p := parse(t)
	if versions {
		p = parse(t, "mode: enforce", "mode: enforce\nversions: all")
	}
	r := &race{
		script: script, policy: p, ledger: ledger.NewMemory(), stable: map[string]bool{},
		rand: rand.New(rand.NewPCG(seed, 1)),
	}
	clock := &testClock{at: noon}
	r.store = artifact.NewMemory(clock.Now)
	r.store.PageSize = 1 + r.rand.IntN(6)
	if err := r.store.CreateBucket(p.Bucket, versions); err != nil {
		t.Fatal(err)
	}
	q := queue.NewMemory(clock.Now, queue.Settings{Visibility: time.Minute})
	s := contract.Production()
	s.PageItems = 1 + r.rand.IntN(4)
	s.PageListed = s.PageItems + r.rand.IntN(5)
	for _, c := range []**contender{&r.a, &r.b} {
		*c = &contender{Memory: r.ledger, race: r, queue: q, clock: &testClock{at: noon}, record: record(r.ledger)}
		step, err := New(Config{
			Runs: *c, Pages: *c, Policies: *c, Approvals: *c, Lister: *c, Sender: *c, Audit: &audit.Log{}, Clock: (*c).clock, Settings: s,
			Region: p.Region, Deployed: map[string]policy.Policy{p.Name: p}, Code: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		(*c).step = step
	}
	r.a.other = r.b
	approve(t, r.ledger, p)
	r.fill(t)
	return r
}

func (r *race) fill(t testing.TB) {
	tenants := []string{"a", "a-b", "a.b", "school-4", "school-42", "_none", "loose"}
	for range 4 + r.rand.IntN(40) {
		tenant := tenants[r.rand.IntN(len(tenants))]
		key := fmt.Sprintf("exports/%s/%02d", tenant, r.rand.IntN(60))
		if tenant == "loose" {
			key = fmt.Sprintf("exports/loose%02d", r.rand.IntN(60)) // a file beside the tenants
		}
		if r.rand.IntN(3) == 0 && !r.stable[key] {
			r.pool = append(r.pool, key)
			continue
		}
		age := time.Duration(r.rand.IntN(60)) * day
		if slices.Contains(r.pool, key) {
			continue
		}
		for range 1 + r.rand.IntN(2)*r.rand.IntN(4) {
			if _, err := r.store.Put(r.policy.Bucket, job.Item{Key: key, ETag: "e", Size: 1, Modified: noon.Add(-age)}); err != nil {
				t.Fatal(err)
			}
		}
		// Many versions of one key may be more than a page takes; the key is covered all the same.
		if _, ok := r.policy.TenantOf(key); ok && age > 31*day {
			r.stable[key] = true
		}
	}
	r.pool = append(r.pool, "exports/a/zz", "exports/school-4/00", "exports/zz")
	r.pool = slices.DeleteFunc(r.pool, func(key string) bool { return r.stable[key] })
	r.churn()
}

// fault runs the race to its end and says what came out wrong, "" for nothing.
func (r *race) fault() string {
	var receipt Receipt
	var err error
	for range 100 {
		if receipt, err = r.a.invoke(); err == nil && receipt.State == job.Released {
			break
		}
	}
	if receipt.State != job.Released {
		return fmt.Sprintf("the run stays %q: %v", receipt.State, err)
	}
	runs := r.ledger.Runs()
	if len(runs) != 1 {
		return fmt.Sprintf("%d runs", len(runs))
	}
	pages := r.ledger.AllPages(runs[0].ID)
	if fault := chainFault(runs[0], pages); fault != "" {
		return fault
	}
	for _, key := range slices.Sorted(maps.Keys(r.stable)) {
		tenant, _ := r.policy.TenantOf(key)
		rel := strings.TrimPrefix(key, r.policy.TenantPrefix(tenant))
		in := 0
		for _, p := range pages {
			if p.Tenant == tenant && p.After < rel && rel <= p.Through {
				in++
			}
		}
		if in != 1 {
			return fmt.Sprintf("%s is in %d pages", key, in)
		}
	}
	return ""
}

func transaction(l *ledger.Memory) func(job.Run, *job.Page) error {
	return func(next job.Run, page *job.Page) error { return l.Record(context.Background(), next, page) }
}

// TestF1TwoEnqueuersWalkOneChain: whatever happens between and inside the calls of
// two enqueuers, the pages are disjoint and contiguous, every candidate that was
// there all the time is in exactly one, and the run records what its rows say.
func TestF1TwoEnqueuersWalkOneChain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		versions := rapid.Bool().Draw(rt, "versions")
		script := rapid.SliceOfN(rapid.SampledFrom(choices), 0, 120).Draw(rt, "script")
		r := newRace(t, seed, versions, script, transaction)
		fault := r.fault()
		if fault == "" {
			run := r.ledger.Runs()[0]
			fault = nameFault(run, r.ledger.AllPages(run.ID))
		}
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// TestF1MutantsAreNoticed runs the same property over ledgers with the faults of
// the first design. It shows that the property would turn red.
func TestF1MutantsAreNoticed(t *testing.T) {
	// blind moves the cursor whatever stands there, as a write outside the
	// transaction would.
	blind := func(l *ledger.Memory, next job.Run, page *job.Page) error {
		stored, err := l.Run(context.Background(), next.ID)
		if err != nil {
			return err
		}
		next.Rev = stored.Rev + 1
		return l.Record(context.Background(), next, page)
	}
	mutants := map[string]func(*ledger.Memory) func(job.Run, *job.Page) error{
		"the cursor moves outside the transaction": func(l *ledger.Memory) func(job.Run, *job.Page) error {
			return func(next job.Run, page *job.Page) error { return blind(l, next, page) }
		},
		"and a page is keyed by its end": func(l *ledger.Memory) func(job.Run, *job.Page) error {
			return func(next job.Run, page *job.Page) error {
				if page != nil {
					page.ID = job.RangePageID(page.Run, page.Tenant, page.Through)
				}
				return blind(l, next, page)
			}
		},
		"the loser of a put goes on": func(l *ledger.Memory) func(job.Run, *job.Page) error {
			return func(next job.Run, page *job.Page) error {
				if err := l.Record(context.Background(), next, page); !failure.Is(err, failure.Conflict) {
					return err
				}
				return nil
			}
		},
	}
	for name, record := range mutants {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(300) {
				script := make([]byte, 60)
				chance := rand.New(rand.NewPCG(seed, 2))
				for i := range script {
					script[i] = choices[chance.IntN(len(choices))]
				}
				if fault := newRace(t, seed, false, script, record).fault(); fault != "" {
					t.Logf("seed %d: %s", seed, fault)
					return
				}
			}
			t.Error("300 seeds, and nobody noticed")
		})
	}
}
