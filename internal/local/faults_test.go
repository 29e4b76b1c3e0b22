package local

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// fate is what happens to one write.
type fate struct {
	applied bool // it happened
	crash   bool // and the process that asked dies, instead of reading an error
}

func (f fate) String() string {
	return map[bool]string{false: "not applied", true: "applied"}[f.applied] + ", " +
		map[bool]string{false: "error", true: "crash"}[f.crash]
}

var fates = []fate{{false, false}, {true, false}, {false, true}, {true, true}}

// script counts every write of a world and strikes the chosen ones.
type script struct {
	mu      sync.Mutex
	writes  []string
	strikes map[int]fate
}

func (s *script) hook(service string) failure.Hook {
	return func(op string, apply func() error) error {
		if op == "list" || op == "standing" || op == "ready" {
			return apply()
		}
		s.mu.Lock()
		n := len(s.writes)
		s.writes = append(s.writes, service+" "+op)
		f, struck := s.strikes[n]
		s.mu.Unlock()
		if !struck {
			return apply()
		}
		if f.applied {
			_ = apply() // it happened; the answer is lost
		}
		if f.crash {
			runtime.Goexit()
		}
		return failure.New(failure.Network, service+" "+op, "injected")
	}
}

// troubled is a small region in which every kind of write occurs: an item that is
// split off and becomes a dead letter, one that the store is slow with, one under
// a hold, a message that is no command, and the rest.
func troubled(t testing.TB, s *script) *World {
	t.Helper()
	p := parse(t, exportsYAML)
	store := &evidence.Memory{Hook: s.hook("evidence")}
	w, err := New(Options{Region: "eu-west-1", AsOf: noon, Policies: []policy.Policy{p}, Evidence: store})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c", "held", "denied", "slow"} {
		w.put(t, p.Bucket, "exports/acme/"+name, 40*day)
	}
	w.put(t, p.Bucket, "exports/acme/young", day)
	w.put(t, p.Bucket, "exports/acme-2/old", 40*day)
	w.put(t, p.Bucket, "exports/stray", 40*day)
	if err := w.Store.DenyKey(p.Bucket, "exports/acme/denied"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Ledger.PlaceHold(t.Context(), hold.Hold{ID: "h1", Tenant: "acme", Scope: hold.Item, Value: "exports/acme/held"}); err != nil {
		t.Fatal(err)
	}
	slow := 0
	w.Store.KeyFault = func(item job.Item) (job.Answer, bool) {
		if strings.HasSuffix(item.Key, "/slow") && slow <= w.Settings.DeleteRounds {
			slow++
			return job.Slow, false
		}
		return job.NoAnswer, false
	}
	w.Ledger.Hook, w.Queue.Hook, w.Store.Hook = s.hook("ledger"), s.hook("queue"), s.hook("store")
	return w
}

// play runs the region to its end. A tick that fails or dies is delivered again,
// as the scheduler does.
func play(t testing.TB, w *World) {
	t.Helper()
	for range 3 {
		crashes := w.Crashes
		if _, err := w.Tick(t.Context(), "exports", noon); err == nil && w.Crashes == crashes {
			break
		}
	}
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// settledAsExpected checks the final data, the counts, and every invariant.
func settledAsExpected(t testing.TB, w *World) {
	t.Helper()
	var left []string
	for item := range w.Store.Objects("acme-exports") {
		left = append(left, item.Key)
	}
	want := []string{"exports/acme/denied", "exports/acme/held", "exports/acme/young", "exports/stray"}
	if !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	var totals job.Totals
	for _, p := range w.Ledger.AllPages(w.Ledger.Runs()[0].ID) {
		totals = totals.Plus(p.Totals())
	}
	var counts job.Counts
	counts[job.Deleted], counts[job.Held], counts[job.Refused] = 5, 1, 1
	if totals.Counts != counts || totals.Candidates != 7 || totals.Bytes != 50 {
		t.Errorf("totals %+v", totals)
	}
	if n := len(w.Queue.PeekLetters()); n < 1 {
		t.Errorf("%d dead letters", n)
	}
	facts, err := w.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range invariant.Check(facts) {
		if !r.Holds {
			t.Errorf("%s: %s", r.ID, r.Detail)
		}
	}
}

// TestEveryWriteFailsInEveryWay strikes each write of the troubled run, one at a
// time, in each of the four ways.
func TestEveryWriteFailsInEveryWay(t *testing.T) {
	clean := &script{}
	w := troubled(t, clean)
	play(t, w)
	settledAsExpected(t, w)
	for _, needed := range []string{
		"ledger page:claimed", "evidence put", "ledger intend", "store delete", "ledger complete", "queue ack",
		"queue dead-letter", "queue visibility", "queue send", "ledger page:retrying", "ledger page:dead", "ledger record",
		"ledger open-run", "ledger run:released", "ledger run:closed", "ledger publish-policy", "ledger pages:sent",
	} {
		if needed != "ledger run:closed" && !slices.Contains(clean.writes, needed) {
			t.Errorf("the run never writes %q", needed)
		}
	}
	t.Logf("%d writes, %d runs", len(clean.writes), len(clean.writes)*len(fates))
	for n, write := range clean.writes {
		for _, f := range fates {
			t.Run(fmt.Sprintf("%03d %s: %s", n, write, f), func(t *testing.T) {
				w := troubled(t, &script{strikes: map[int]fate{n: f}})
				play(t, w)
				settledAsExpected(t, w)
			})
		}
	}
}
