package artifact_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/artifact/artifacttest"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// clock is a clock that moves when it is told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// seeder makes a Memory a bed of the suite.
type seeder struct {
	m       *artifact.Memory
	clock   *clock
	buckets int
}

func (s *seeder) Bucket(t *testing.T, versioned bool) string {
	s.buckets++
	name := fmt.Sprintf("bucket-%d", s.buckets)
	must(t, s.m.CreateBucket(name, versioned))
	return name
}

func (s *seeder) Put(t *testing.T, bucket, key, body string) job.Item {
	sum := md5.Sum([]byte(body))
	item, err := s.m.Put(bucket, job.Item{Key: key, ETag: `"` + hex.EncodeToString(sum[:]) + `"`, Size: int64(len(body))})
	must(t, err)
	return item
}

func (s *seeder) Remove(t *testing.T, bucket string, ref job.Ref) {
	if !s.m.Remove(bucket, ref) {
		t.Fatalf("nothing to remove: %+v", ref)
	}
}

func (s *seeder) Tick(*testing.T) { s.clock.advance(time.Second) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type keyFault struct {
	answer  job.Answer
	applied bool
}

func open(t *testing.T, pageSize, many int) artifacttest.Bed {
	c := newClock()
	m := artifact.NewMemory(c.now)
	m.PageSize = pageSize
	faults := map[string]keyFault{}
	m.KeyFault = func(item job.Item) (job.Answer, bool) {
		f := faults[item.Key]
		return f.answer, f.applied
	}
	return artifacttest.Bed{
		Region: "us-east-1",
		Store:  m, Seed: &seeder{m: m, clock: c}, Now: c.now, Many: many,
		Lock: func(t *testing.T, bucket string, ref job.Ref, lock artifact.Lock) {
			must(t, m.SetLock(bucket, ref, lock))
		},
		Fault: func(_ *testing.T, _, key string, answer job.Answer, applied bool) {
			faults[key] = keyFault{answer, applied}
		},
	}
}

func TestMemory(t *testing.T) {
	artifacttest.Exercise(t, func(t *testing.T) artifacttest.Bed { return open(t, 0, 0) })
}

func TestMemoryInSmallPages(t *testing.T) {
	for _, size := range []int{1, 3} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			artifacttest.Exercise(t, func(t *testing.T) artifacttest.Bed { return open(t, size, 12) })
		})
	}
}

const bucket = "exports"

// filled returns a store with one bucket and an object of one byte for each key.
func filled(t testing.TB, versioned bool, keys ...string) (*artifact.Memory, *clock) {
	t.Helper()
	c := newClock()
	m := artifact.NewMemory(c.now)
	must(t, m.CreateBucket(bucket, versioned))
	for _, key := range keys {
		_, err := m.Put(bucket, job.Item{Key: key, ETag: "e", Size: 1})
		must(t, err)
	}
	return m, c
}

func listed(t testing.TB, m *artifact.Memory, q job.Query) []job.Item {
	t.Helper()
	q.Bucket = bucket
	l, err := m.List(context.Background(), q)
	must(t, err)
	return l.Items
}

func deletion(c *clock, items ...job.Item) job.Deletion {
	return job.Deletion{Bucket: bucket, Items: items, NotAfter: c.now().Add(time.Minute)}
}

func keysOf(items []job.Item) string {
	var keys []string
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return strings.Join(keys, " ")
}

func TestWholeCallFaults(t *testing.T) {
	lost := failure.New(failure.Network, "test", "connection reset")
	for name, c := range map[string]struct {
		hook failure.Hook
		left string
	}{
		"failed":              {func(string, func() error) error { return lost }, "a b"},
		"failed but happened": {func(_ string, apply func() error) error { return errors.Join(apply(), lost) }, ""},
	} {
		m, clk := filled(t, false, "a", "b")
		items := listed(t, m, job.Query{})
		m.Hook = func(op string, apply func() error) error {
			if op != "delete" {
				return apply()
			}
			return c.hook(op, apply)
		}
		answers, err := m.Delete(context.Background(), deletion(clk, items...))
		if answers != nil || failure.Of(err) != failure.Network {
			t.Errorf("%s: got %v, %v", name, answers, err)
		}
		if got := keysOf(listed(t, m, job.Query{})); got != c.left {
			t.Errorf("%s: left %q, want %q", name, got, c.left)
		}
	}
}

func TestHookThatForgetsToApply(t *testing.T) {
	m, clk := filled(t, true, "a")
	items := listed(t, m, job.Query{})
	m.Hook = func(string, func() error) error { return nil }
	if answers, err := m.Delete(context.Background(), deletion(clk, items...)); answers != nil || failure.Of(err) != failure.Bug {
		t.Errorf("delete: got %v, %v", answers, err)
	}
	if got, err := m.Standing(context.Background(), bucket, items); got != nil || failure.Of(err) != failure.Bug {
		t.Errorf("standing: got %v, %v", got, err)
	}
}

func TestProcessThatDiesInADelete(t *testing.T) {
	m, clk := filled(t, false, "a")
	items := listed(t, m, job.Query{})
	m.Hook = func(_ string, apply func() error) error {
		_ = apply() // its answer dies with the process
		runtime.Goexit()
		return nil
	}
	returned := false
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = m.Delete(context.Background(), deletion(clk, items...)) // does not return
		returned = true
	})
	wg.Wait()
	if m.Hook = nil; returned || m.Has(bucket, "a") {
		t.Errorf("returned %v, the object is there %v", returned, m.Has(bucket, "a"))
	}
}

// A request that was signed in time may land late; one that would be signed late
// is not sent at all (S20).
func TestRightToDeleteIsJudgedBeforeTheCall(t *testing.T) {
	m, clk := filled(t, false, "a", "b")
	items := listed(t, m, job.Query{})
	d := deletion(clk, items[0])
	m.Hook = func(_ string, apply func() error) error {
		clk.advance(time.Hour)
		return apply()
	}
	answers, err := m.Delete(context.Background(), d)
	if err != nil || answers[0] != job.Gone {
		t.Errorf("signed in time: got %v, %v", answers, err)
	}
	m.Hook = func(string, func() error) error { t.Error("a late request was sent"); return nil }
	d.Items = items[1:]
	if _, err := m.Delete(context.Background(), d); !failure.Is(err, failure.Conflict) {
		t.Errorf("signed late: %v", err)
	}
}

func TestEffects(t *testing.T) {
	m, clk := filled(t, false, "a", "b", "c")
	must(t, m.CreateBucket("versions", true))
	items := listed(t, m, job.Query{})
	m.KeyFault = func(item job.Item) (job.Answer, bool) {
		switch item.Key {
		case "b":
			return job.Unsure, true
		case "c":
			return job.Unsure, false
		default:
			return job.NoAnswer, true
		}
	}
	var told []artifact.Effect
	m.OnEffect = func(e artifact.Effect) {
		if e.Bucket == bucket && m.Has(bucket, e.Item.Key) {
			t.Errorf("%q is told before it happened", e.Item.Key)
		}
		told = append(told, e)
	}
	answers, err := m.Delete(context.Background(), deletion(clk, items...))
	must(t, err)
	if want := []job.Answer{job.Gone, job.Unsure, job.Unsure}; !slices.Equal(answers, want) {
		t.Errorf("answers %v, want %v", answers, want)
	}
	m.Remove(bucket, job.Ref{Key: "c"}) // a stranger's act is no effect of ours

	v, err := m.Put("versions", job.Item{Key: "v", ETag: "e"})
	must(t, err)
	d := deletion(clk, job.Item{Key: "v", ETag: "e"})
	d.Bucket = "versions"
	_, err = m.Delete(context.Background(), d)
	must(t, err)
	d.Items = []job.Item{v}
	for range 2 { // the second finds nothing, answers the same and is no effect
		_, err = m.Delete(context.Background(), d)
		must(t, err)
	}
	want := []artifact.Effect{
		{Bucket: bucket, Item: items[0], At: clk.now()},
		{Bucket: bucket, Item: items[1], At: clk.now()},
		{Bucket: "versions", Item: v, At: clk.now(), Marker: true},
		{Bucket: "versions", Item: v, At: clk.now()},
	}
	if got := m.Effects(); !slices.Equal(got, want) || !slices.Equal(told, want) {
		t.Errorf("effects %+v\ntold %+v\nwant %+v", got, told, want)
	}
}

func TestRestoringIsAnEffect(t *testing.T) {
	m, clk := filled(t, true, "a")
	planned := listed(t, m, job.Query{})
	clk.advance(time.Second)
	again, err := m.Put(bucket, job.Item{Key: "a", ETag: "e", Size: 1})
	must(t, err)
	_, err = m.Delete(context.Background(), deletion(clk, planned...))
	must(t, err)

	m.Hook = func(op string, apply func() error) error {
		if op == "unmark" {
			return failure.New(failure.Throttled, op, "slow down")
		}
		return apply()
	}
	if got, err := m.Standing(context.Background(), bucket, planned); got != nil || !failure.Is(err, failure.Throttled) {
		t.Errorf("got %v, %v", got, err)
	}
	m.Hook = nil
	got, err := m.Standing(context.Background(), bucket, planned)
	must(t, err)
	effects := m.Effects()
	want := artifact.Effect{Bucket: bucket, Item: again, At: clk.now(), Restored: true}
	if !slices.Equal(got, []job.Standing{job.Restored}) || len(effects) != 2 || effects[1] != want {
		t.Errorf("standing %v, effects %+v, want last %+v", got, effects, want)
	}
}

func TestDenials(t *testing.T) {
	m, clk := filled(t, false, "a/1", "a/2", "b", "bb")
	items := listed(t, m, job.Query{})
	must(t, m.Deny(bucket, "a/"))
	must(t, m.DenyKey(bucket, "b"))
	answers, err := m.Delete(context.Background(), deletion(clk, append(items, job.Item{Key: "a/absent", ETag: "e"})...))
	must(t, err)
	if want := []job.Answer{job.Denied, job.Denied, job.Denied, job.Gone, job.Denied}; !slices.Equal(answers, want) {
		t.Errorf("answers %v, want %v", answers, want)
	}
	must(t, m.Allow(bucket))
	answers, err = m.Delete(context.Background(), deletion(clk, items...))
	must(t, err)
	if want := []job.Answer{job.Gone, job.Gone, job.Gone, job.NotThere}; !slices.Equal(answers, want) {
		t.Errorf("allowed again: answers %v, want %v", answers, want)
	}
}

func TestRetentionEnds(t *testing.T) {
	m, clk := filled(t, true, "a")
	v := slices.Collect(m.Versions(bucket))[0]
	must(t, m.SetLock(bucket, job.Ref{Key: "a"}, artifact.Lock{Mode: artifact.Compliance, Until: clk.now().Add(time.Hour)}))
	for _, step := range []struct {
		after time.Duration
		want  job.Answer
	}{{time.Hour - 1, job.Locked}, {1, job.GoneByVersion}} {
		clk.advance(step.after)
		answers, err := m.Delete(context.Background(), deletion(clk, v))
		must(t, err)
		if answers[0] != step.want {
			t.Errorf("answer %d, want %d", answers[0], step.want)
		}
	}
}

func TestSlowDownOfKeys(t *testing.T) {
	keys := make([]string, 25)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%02d", i)
	}
	m, clk := filled(t, false, keys...)
	m.Limit = artifact.Limit{KeysPerSecond: 10}
	slow := func() (n int) {
		answers, err := m.Delete(context.Background(), deletion(clk, listed(t, m, job.Query{})...))
		must(t, err)
		for _, a := range answers {
			if a == job.Slow {
				n++
			}
		}
		return n
	}
	for i, step := range []struct {
		after time.Duration
		want  int
	}{{0, 15}, {0, 15}, {300 * time.Millisecond, 12}, {time.Hour, 2}, {99 * time.Millisecond, 2}, {time.Millisecond, 1}, {time.Second, 0}} {
		clk.advance(step.after)
		if got := slow(); got != step.want {
			t.Errorf("step %d: %d slow, want %d", i, got, step.want)
		}
	}
}

func TestSlowDownOfCalls(t *testing.T) {
	m, clk := filled(t, false)
	m.Limit = artifact.Limit{KeysPerSecond: 10, WholeCall: true}
	items := make([]job.Item, 30)
	for i := range items {
		items[i] = job.Item{Key: fmt.Sprint(i), ETag: "e"}
	}
	call := func(n int, want time.Duration) {
		t.Helper()
		answers, err := m.Delete(context.Background(), deletion(clk, items[:n]...))
		switch {
		case want == 0 && (err != nil || slices.Contains(answers, job.Slow)):
			t.Errorf("%d keys: %v, %v", n, answers, err)
		case want > 0 && (!failure.Is(err, failure.Throttled) || failure.RetryAfter(err) != want):
			t.Errorf("%d keys: %v after %v, want %v", n, err, failure.RetryAfter(err), want)
		}
	}
	call(30, 0) // above the limit, but it must pass some time
	call(5, 2500*time.Millisecond)
	clk.advance(2499 * time.Millisecond)
	call(5, time.Millisecond)
	clk.advance(time.Millisecond)
	call(5, 0)
	call(1, 100*time.Millisecond)
}

func TestStaleTokens(t *testing.T) {
	m, _ := filled(t, false, "a", "b", "c")
	m.PageSize = 2
	l, err := m.List(context.Background(), job.Query{Bucket: bucket})
	must(t, err)
	m.ExpireTokens()
	if _, err := m.List(context.Background(), job.Query{Bucket: bucket, Token: l.Token}); !failure.Is(err, failure.Invalid) {
		t.Errorf("stale token: %v", err)
	}
	if got := keysOf(listed(t, m, job.Query{After: l.Items[1].Key})); got != "c" {
		t.Errorf("after the last key: %q", got)
	}
}

func TestSetupIsChecked(t *testing.T) {
	m, _ := filled(t, false, "a")
	_, noKey := m.Put(bucket, job.Item{ETag: "e"})
	_, marker := m.Put(bucket, job.Item{Key: "m", Marker: true})
	_, noBucket := m.Put("absent", job.Item{Key: "a"})
	for name, c := range map[string]struct {
		err  error
		want failure.Class
	}{
		"no key":            {noKey, failure.Invalid},
		"plain marker":      {marker, failure.Invalid},
		"no such bucket":    {noBucket, failure.Absent},
		"other versioning":  {m.CreateBucket(bucket, true), failure.Conflict},
		"same bucket":       {m.CreateBucket(bucket, false), ""},
		"bucket, no name":   {m.CreateBucket("", false), failure.Invalid},
		"unversioned lock":  {m.SetLock(bucket, job.Ref{Key: "a"}, artifact.Lock{LegalHold: true}), failure.Invalid},
		"load without keys": {m.Load(bucket, slices.Values([]job.Item{{}})), failure.Invalid},
	} {
		if failure.Of(c.err) != c.want {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	if m.Remove("absent", job.Ref{Key: "a"}) || m.Has("absent", "a") {
		t.Error("an unknown bucket has an object")
	}
	for range m.Objects("absent") {
		t.Error("an unknown bucket has objects")
	}
	if _, ok := m.Get(bucket, job.Ref{Key: "a", Version: "null"}); !ok {
		t.Error("an unversioned object has no null version")
	}
}

func TestConcurrentUse(t *testing.T) {
	m, clk := filled(t, true)
	m.OnEffect = func(e artifact.Effect) { m.Has(e.Bucket, e.Item.Key) }
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 300 {
				item := job.Item{Key: fmt.Sprint(rng.IntN(50)), ETag: "e"}
				switch rng.IntN(5) {
				case 0:
					_, _ = m.Put(bucket, item)
				case 1:
					_, _ = m.Delete(context.Background(), deletion(clk, item))
				case 2:
					_, _ = m.List(context.Background(), job.Query{Bucket: bucket, Versions: true})
				case 3:
					_, _ = m.Standing(context.Background(), bucket, []job.Item{item})
				default:
					for range m.Objects(bucket) {
						_ = m.Effects()
						break
					}
				}
			}
		})
	}
	wg.Wait()
}
