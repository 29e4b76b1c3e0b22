package sim

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	seeds     = flag.Uint64("seeds", few, "how many seeds are played")
	first     = flag.Uint64("first", 1, "the first seed")
	seed      = flag.Uint64("seed", 0, "play this one seed and print its trace")
	depth     = flag.Int("depth", 1, "how many faults are combined")
	positions = flag.Int("positions", calls, "among how many calls they are placed, 0 for all")
)

// sum is what some worlds added up to.
type sum struct {
	Result
	worlds int
	bad    []Result
}

func (s *sum) add(r Result) {
	s.worlds++
	s.Hits.Add(&r.Hits)
	s.Calls += r.Calls
	s.Deletes += r.Deletes
	s.Resumes += r.Resumes
	s.Answers += r.Answers
	s.Twins += r.Twins
	if r.Violation != nil {
		s.bad = append(s.bad, r)
	}
}

// enough is how many violations end a search: something is wrong, and the first of them
// say what.
const enough = 10

// playAll plays seeds on every processor. Each player has options of its own.
func playAll(from, n uint64, options func() Options) (s sum) {
	var all sync.Mutex
	var players sync.WaitGroup
	workers := uint64(runtime.GOMAXPROCS(0))
	for part := range workers {
		players.Go(func() {
			p, o := NewPlayer(), options()
			defer p.Close()
			for seed := from + part; seed < from+n; seed += workers {
				r := p.Play(seed, o)
				all.Lock()
				s.add(r)
				bad := len(s.bad)
				all.Unlock()
				if bad >= enough {
					return
				}
			}
		})
	}
	players.Wait()
	return s
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestSeeds(t *testing.T) {
	if *seed != 0 {
		p := NewPlayer()
		defer p.Close()
		if r := p.Play(*seed, Options{Trace: os.Stdout}); r.Violation != nil {
			t.Errorf("%s at %s: %s", r.Violation.Oracle, r.Violation.At, r.Violation.Text)
		}
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // worlds are small and die young
	began, used := time.Now(), cpu()
	s := playAll(*first, *seeds, func() Options { return Options{} })
	took, used := time.Since(began), cpu()-used
	s.report(t, took, used, func(Fault) bool { return s.worlds >= 2000 })
}

// report says what was played. A kind of fault that must happen, and did not, is a failure.
func (s *sum) report(t *testing.T, took, used time.Duration, must func(Fault) bool) {
	t.Helper()
	for _, r := range s.bad {
		t.Errorf("seed %d: %s at %s: %s", r.Seed, r.Violation.Oracle, r.Violation.At.Format(time.TimeOnly), r.Violation.Text)
	}
	t.Logf("%d seeds in %s, %.0f per processor second: %d calls, %d deletes, %d resumes, %d answers about holds, %d twins, %d violations",
		s.worlds, took.Round(time.Millisecond), float64(s.worlds)/used.Seconds(), s.Calls, s.Deletes, s.Resumes, s.Answers, s.Twins, len(s.bad))
	for _, f := range Faults() {
		if t.Logf("%-22s %d", f, s.Hits[f]); s.Hits[f] == 0 && must(f) && len(s.bad) == 0 {
			t.Errorf("%s never happened", f)
		}
	}
}

// L5: the same seed is the same world.
func TestSameSeed(t *testing.T) {
	a, b := NewPlayer(), NewPlayer()
	defer a.Close()
	defer b.Close()
	for seed := *first; seed < *first+same; seed++ {
		one := a.Play(seed, Options{})
		b.Play(seed+1000, Options{}) // what was played before must not matter
		if again := b.Play(seed, Options{}); one.Hash != again.Hash {
			t.Errorf("seed %d: %x and %x", seed, one.Hash, again.Hash)
		}
	}
}

func TestExhaust(t *testing.T) {
	exhaust(t, Search{Depth: *depth, Calls: *positions}, func() Options { return Options{} })
}

// exhaust plays a search on every processor. Each player has options of its own.
func exhaust(t *testing.T, search Search, options func() Options) {
	t.Helper()
	var all sync.Mutex
	var players sync.WaitGroup
	var s sum
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	began, used := time.Now(), cpu()
	search.Parts = runtime.GOMAXPROCS(0)
	for range search.Parts {
		mine := search
		search.Part++
		players.Go(func() {
			p := NewPlayer()
			defer p.Close()
			p.Exhaust(mine, options(), func(script []Strike, r Result) bool {
				all.Lock()
				defer all.Unlock()
				if s.add(r); r.Violation != nil {
					t.Errorf("%v on bucket %d: %s: %s", script, r.Seed, r.Violation.Oracle, r.Violation.Text)
				}
				return len(s.bad) < enough
			})
		})
	}
	players.Wait()
	t.Logf("%d combinations of at most %d faults in %s, %.0f per processor second", s.worlds, search.Depth, time.Since(began).Round(time.Millisecond),
		float64(s.worlds)/(cpu()-used).Seconds())
}
