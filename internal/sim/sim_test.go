package sim

import (
	"flag"
	"os"
	"testing"
	"time"
)

var (
	seeds = flag.Uint64("seeds", 200, "how many seeds are played")
	first = flag.Uint64("first", 1, "the first seed")
	seed  = flag.Uint64("seed", 0, "play this one seed and print its trace")
)

func TestSeeds(t *testing.T) {
	p := NewPlayer()
	if *seed != 0 {
		r := p.Play(*seed, Options{Trace: os.Stdout})
		t.Logf("%+v", r.Violation)
		return
	}
	var hits Hits
	bad := map[string]int{}
	var sum Result
	began := time.Now()
	for s := *first; s < *first+*seeds; s++ {
		r := p.Play(s, Options{})
		hits.Add(&r.Hits)
		sum.Calls += r.Calls
		sum.Deletes += r.Deletes
		sum.Resumes += r.Resumes
		sum.Answers += r.Answers
		sum.Twins += r.Twins
		if v := r.Violation; v != nil {
			if bad[v.Oracle]++; bad[v.Oracle] <= 3 {
				t.Errorf("seed %d: %s at %s: %s", s, v.Oracle, v.At.Format(time.TimeOnly), v.Text)
			}
		}
	}
	t.Logf("%.0f seeds/s, %+v", float64(*seeds)/time.Since(began).Seconds(), sum)
	t.Logf("bad %v", bad)
	for _, f := range Faults() {
		t.Logf("%-22s %d", f, hits[f])
	}
}
