package sim

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/artifact/artifacttest"
	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/evidence/evidencetest"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/ledger/ledgertest"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/queue/queuetest"
)

// bench is a world in which nothing goes wrong and nothing else happens, for the suites.
// Each of their calls is a process of the kernel, and stops in it as a step's does; calls
// that are made at once are under way at once.
type bench struct {
	*world
	mu sync.Mutex
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	lib := &library{policies: newLibrary().policies, oracles: &judges{}} // what a suite writes is no world's truth
	w := newWorld(1, lib, o)
	w.faulty, w.rates, w.objects, w.answers = false, rates{}, nil, 0
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		w.working[mode] = w.settings.Concurrency // no worker receives beside the suite
	}
	t.Cleanup(func() {
		if w.close(); w.broken != nil {
			t.Errorf("%s: %s", w.broken.Oracle, w.broken.Text)
		}
		lib.threads.close()
	})
	return &bench{world: w}
}

// do makes a call. The test's own goroutine drives the kernel, event by event, so that
// nothing of the test runs in a coroutine.
func (x *bench) do(call func(*instance)) {
	done := false
	x.mu.Lock()
	i := &instance{world: x.world, function: string(job.Enforce), steps: &steps{}}
	i.p = x.spawn("suite", 0, func(*process) { call(i); done = true }, func() {})
	for !done {
		x.step()
		x.mu.Unlock() // another call may begin here
		x.mu.Lock()
	}
	x.mu.Unlock()
}

// step lets the next thing happen.
func (x *bench) step() {
	steps := x.steps
	x.run(x.heap[0].at, func() bool { return x.steps > steps })
}

// past looks at what is there without a call.
func past[T any](b *bench, look func() (T, error)) (T, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return look()
}

// PolicyNames, PageByID, AwaitingRuns and RecentRuns are asked by people only.
func (x *bench) PolicyNames(ctx context.Context) ([]string, error) {
	return past(x, func() ([]string, error) { return x.ledger.PolicyNames(ctx) })
}

func (x *bench) PageByID(ctx context.Context, id job.PageID) (job.Page, error) {
	return past(x, func() (job.Page, error) { return x.ledger.PageByID(ctx, id) })
}

func (x *bench) AwaitingRuns(ctx context.Context) ([]job.Run, error) {
	return past(x, func() ([]job.Run, error) { return x.ledger.AwaitingRuns(ctx) })
}

func (x *bench) RecentRuns(ctx context.Context, name string, limit int) ([]job.Run, error) {
	return past(x, func() ([]job.Run, error) { return x.ledger.RecentRuns(ctx, name, limit) })
}

// bare is a world without anything in its ledger and its evidence, behind clients where
// they are given.
func bare(t *testing.T, c *clients) *bench {
	b := newBench(t, Options{})
	b.ledger, b.evidence = ledger.NewMemory(), &evidence.Memory{}
	b.rows = ledgersOf(b.ledger)
	if c != nil {
		b.far = c.open(b.world)
	}
	return b
}

// A simulated ledger passes what the fake and the table pass.
func TestLedgerConforms(t *testing.T) {
	ledgertest.Exercise(t, func(t *testing.T) ledgertest.Ledger { return bare(t, nil) })
}

// And so does one that is the client of the table, with the fake beside it.
func TestLedgerConformsThroughAdapters(t *testing.T) {
	c := newClients()
	ledgertest.Exercise(t, func(t *testing.T) ledgertest.Ledger { return bare(t, c) })
}

// shelf is the evidence as the suite sees it.
type shelf struct{ *bench }

func (s shelf) Put(ctx context.Context, name string, data []byte) (err error) {
	s.do(func(i *instance) { err = evidenceView{i}.Put(ctx, name, data) })
	return err
}

func (s shelf) Get(ctx context.Context, name string) (data []byte, err error) {
	s.do(func(i *instance) { data, err = evidenceView{i}.Get(ctx, name) })
	return data, err
}

// List is no step's.
func (s shelf) List(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	return past(s.bench, func() ([]string, error) { return s.evidence.List(ctx, prefix, after, limit) })
}

func TestEvidenceConforms(t *testing.T) {
	evidencetest.Exercise(t, func(t *testing.T) evidencetest.Store { return shelf{bare(t, nil)} })
}

func TestEvidenceConformsThroughAdapters(t *testing.T) {
	c := newClients()
	evidencetest.Exercise(t, func(t *testing.T) evidencetest.Store { return shelf{bare(t, c)} })
}

// desk is the queues as the suite sees them. Its clock is the suite's: a call of the
// simulation takes time, which the suite does not expect.
type desk struct {
	*bench
	at time.Time
}

func (d *desk) Send(ctx context.Context, mode job.Mode, m []job.Message) (accepted []string, err error) {
	d.do(func(i *instance) { accepted, err = queueView{i}.Send(ctx, mode, m) })
	return accepted, err
}

func (d *desk) Receive(ctx context.Context, mode job.Mode, limit int) ([]job.Delivery, error) {
	return past(d.bench, func() ([]job.Delivery, error) { return d.queue.Receive(ctx, mode, limit) })
}

func (d *desk) Ack(ctx context.Context, mode job.Mode, one job.Delivery) error {
	_, err := past(d.bench, func() (struct{}, error) { return struct{}{}, d.queue.Ack(ctx, mode, one) })
	return err
}

func (d *desk) Delay(ctx context.Context, one job.Delivery, wait time.Duration) (err error) {
	d.do(func(i *instance) { err = queueView{i}.Delay(ctx, one, wait) })
	return err
}

func (d *desk) DeadLetter(ctx context.Context, l job.Letter) (err error) {
	d.do(func(i *instance) { err = queueView{i}.DeadLetter(ctx, l) })
	return err
}

func (d *desk) Letters(ctx context.Context, limit int) (got []job.DeadLetter, err error) {
	d.do(func(i *instance) { got, err = queueView{i}.Letters(ctx, limit) })
	return got, err
}

func (d *desk) Peek(ctx context.Context, limit int) (got []job.DeadLetter, err error) {
	d.do(func(i *instance) { got, err = queueView{i}.Peek(ctx, limit) })
	return got, err
}

func (d *desk) Remove(ctx context.Context, l job.DeadLetter) (err error) {
	d.do(func(i *instance) { err = queueView{i}.Remove(ctx, l) })
	return err
}

func (d *desk) PutBack(ctx context.Context, l job.DeadLetter) (err error) {
	d.do(func(i *instance) { err = queueView{i}.PutBack(ctx, l) })
	return err
}

func TestQueueConforms(t *testing.T) {
	queuetest.Exercise(t, func(t *testing.T) queuetest.Bed {
		d := &desk{bench: newBench(t, Options{}), at: dates[0]}
		set := queue.Settings{Visibility: 6 * time.Minute, Retention: 4 * day, LetterRetention: 14 * day, MaxReceives: 3}
		q := queue.NewMemory(func() time.Time { return d.at }, set)
		refused := map[string]bool{}
		q.Reject = func(id string) bool { return refused[id] }
		d.queue, d.mail = queues{q, q, q}, mail{q, q}
		return queuetest.Bed{
			Sender: d, Receiver: d, Letterbox: d, Inspector: d, Settings: set,
			Advance: func(by time.Duration) { d.at = d.at.Add(by) },
			Refuse: func(ids ...string) {
				for _, id := range ids {
					refused[id] = true
				}
			},
		}
	})
}

// counter is the store as the suite sees it, and puts things there.
type counter struct {
	*bench
	buckets int
}

func (c *counter) List(ctx context.Context, q job.Query) (l job.Listing, err error) {
	c.do(func(i *instance) { l, err = storeView{i}.List(ctx, q) })
	return l, err
}

func (c *counter) Delete(ctx context.Context, d job.Deletion) (said []job.Answer, err error) {
	c.do(func(i *instance) { said, err = storeView{i}.Delete(ctx, d) })
	return said, err
}

func (c *counter) Standing(ctx context.Context, bucket string, items []job.Item) (said []job.Standing, err error) {
	c.do(func(i *instance) { said, err = storeView{i}.Standing(ctx, bucket, items) })
	return said, err
}

func (c *counter) Ready(ctx context.Context, q job.Query, region string) (err error) {
	c.do(func(i *instance) { err = storeView{i}.Ready(ctx, q, region) })
	return err
}

// Look is no step's in a simulation.
func (c *counter) Look(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	return past(c.bench, func() ([]job.Standing, error) { return c.looks().Look(ctx, bucket, items) })
}

// looks is the fake itself.
func (c *counter) looks() artifact.Store {
	s, _ := c.wares.artifacts.(artifact.Store)
	return s
}

func (c *counter) Bucket(_ *testing.T, versioned bool) string {
	c.buckets++
	name := fmt.Sprintf("bucket-%d", c.buckets)
	sure(c.store.CreateBucket(name, versioned))
	return name
}

func (c *counter) Put(_ *testing.T, bucket, key, body string) job.Item {
	sum := md5.Sum([]byte(body))
	item, err := c.store.Put(bucket, job.Item{Key: key, ETag: hex.EncodeToString(sum[:]), Size: int64(len(body)), Modified: c.clock()})
	sure(err)
	return item
}

func (c *counter) Remove(_ *testing.T, bucket string, ref job.Ref) { c.store.Remove(bucket, ref) }

func (c *counter) Tick(*testing.T) { c.run(c.now+time.Second, func() bool { return false }) }

// shown is the clock, beside calls that are under way.
func (c *counter) shown() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock()
}

func TestStoreConforms(t *testing.T) {
	artifacttest.Exercise(t, func(t *testing.T) artifacttest.Bed {
		c := &counter{bench: newBench(t, Options{})}
		type fault struct {
			answer  job.Answer
			applied bool
		}
		faults := map[string]fault{}
		m, _ := c.wares.artifacts.(*artifact.Memory)
		m.PageSize = 0
		m.KeyFault = func(item job.Item) (job.Answer, bool) { return faults[item.Key].answer, faults[item.Key].applied }
		return artifacttest.Bed{
			Store: c, Seed: c, Now: c.shown, Region: region, Many: 1100,
			Lock: func(_ *testing.T, bucket string, ref job.Ref, lock artifact.Lock) {
				sure(c.store.SetLock(bucket, ref, lock))
			},
			Fault: func(_ *testing.T, _, key string, answer job.Answer, applied bool) {
				faults[key] = fault{answer, applied}
			},
		}
	})
}
