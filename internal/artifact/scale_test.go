package artifact_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/job"
)

// TestAgainstAMap drives the store and a plain map with the same random steps.
func TestAgainstAMap(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m, clk := filled(t, false)
		model := map[string]string{}
		key := func() string { return fmt.Sprint(rng.IntN(4000)) }
		for range 6000 {
			switch k := key(); rng.IntN(3) {
			case 0, 1:
				etag := fmt.Sprint(rng.IntN(2))
				model[k] = etag
				_, err := m.Put(bucket, job.Item{Key: k, ETag: etag})
				must(t, err)
			default:
				answers, err := m.Delete(context.Background(), deletion(clk, job.Item{Key: k, ETag: "0"}))
				must(t, err)
				want := job.NotThere
				if etag, ok := model[k]; ok && etag == "0" {
					want = job.Gone
					delete(model, k)
				} else if ok {
					want = job.Differs
				}
				if answers[0] != want {
					t.Fatalf("seed %d: answer %d, want %d", seed, answers[0], want)
				}
			}
		}
		want := make([]string, 0, len(model))
		for k := range model {
			want = append(want, k)
		}
		slices.Sort(want)
		var got []string
		for item := range m.Objects(bucket) {
			got = append(got, item.Key)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d objects, want %d", seed, len(got), len(want))
		}
		from, to := key(), key()
		if from > to {
			from, to = to, from
		}
		got = nil
		for _, item := range listed(t, m, job.Query{After: from, Through: to}) {
			got = append(got, item.Key)
		}
		low, found := slices.BinarySearch(want, from)
		if found {
			low++
		}
		high, found := slices.BinarySearch(want, to)
		if found {
			high++
		}
		if want = want[low:max(low, high)]; !slices.Equal(got, want[:min(len(want), artifact.MaxItems)]) {
			t.Fatalf("seed %d: %d in (%s, %s], want %d", seed, len(got), from, to, len(want))
		}
	}
}

// numbered yields n objects of 100 tenants in key order.
func numbered(n int) iter.Seq[job.Item] {
	at := newClock().now()
	return func(yield func(job.Item) bool) {
		for i := range n {
			key := fmt.Sprintf("exports/school-%03d/2026/%09d.csv", i*100/n, i)
			if !yield(job.Item{Key: key, ETag: fmt.Sprintf("%032x", i), Size: 1, Modified: at}) {
				return
			}
		}
	}
}

func TestTwoHundredThousandObjects(t *testing.T) {
	const n, limit = 200_000, 120 << 20
	m, clk := filled(t, false)
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	must(t, m.Load(bucket, numbered(n)))
	if used := heap() - before; used > limit {
		t.Errorf("%d objects use %d MiB", n, used>>20)
	}
	q := job.Query{Bucket: bucket}
	const pages = 20
	for range pages {
		l, err := m.List(context.Background(), q)
		must(t, err)
		_, err = m.Delete(context.Background(), deletion(clk, l.Items...))
		must(t, err)
		q.Token = l.Token
	}
	left := 0
	for range m.Objects(bucket) {
		left++
	}
	if want := n - pages*artifact.MaxItems; left != want || len(m.Effects()) != n-want {
		t.Errorf("%d left and %d effects, want %d left", left, len(m.Effects()), want)
	}
}

func BenchmarkListPage(b *testing.B) {
	m, _ := filled(b, false)
	must(b, m.Load(bucket, numbered(200_000)))
	for b.Loop() {
		listed(b, m, job.Query{Prefix: "exports/school-050/"})
	}
}

func BenchmarkDeletePage(b *testing.B) {
	m, clk := filled(b, false)
	must(b, m.Load(bucket, numbered(200_000)))
	items := listed(b, m, job.Query{Prefix: "exports/school-050/"})
	for b.Loop() {
		answers, err := m.Delete(context.Background(), deletion(clk, items...))
		if err != nil || answers[0] != job.Gone {
			b.Fatal(answers[0], err)
		}
		must(b, m.Load(bucket, slices.Values(items)))
	}
}
