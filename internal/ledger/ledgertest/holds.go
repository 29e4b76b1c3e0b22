package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

var holdTests = map[string]func(*testing.T, Ledger){
	"hold keeps every field":                             holdFields,
	"hold epoch rises on placing and on nothing else":    holdEpoch,
	"hold placed again changes nothing":                  holdAgain,
	"hold id that stands for another scope is refused":   holdOther,
	"F4 hold that is released keeps its row and epoch":   holdReleased,
	"hold of a neighbour tenant is nobody else's":        holdNeighbour,
	"hold placed in parallel raises the epoch each time": holdParallel,
	"hold placed twice in parallel is one":               holdParallelSame,
	"hold set that was read is a copy":                   holdAliases,
	"brake by scope":                                     brakeScopes,
}

func holdOf(tenant, id string) hold.Hold {
	return hold.Hold{
		ID: id, Tenant: tenant, Scope: hold.Prefix, Value: "exports/" + tenant + "/" + id,
		Reason: "case 17", By: "counsel", PlacedAt: instant,
	}
}

func place(t *testing.T, l Ledger, tenant, id string) hold.Hold {
	t.Helper()
	h, err := l.PlaceHold(t.Context(), holdOf(tenant, id))
	ok(t, err)
	return h
}

func wantEpoch(t *testing.T, l Ledger, tenant string, want int64) {
	t.Helper()
	got, err := l.Epoch(t.Context(), tenant)
	ok(t, err)
	if got != want {
		t.Errorf("epoch of %s is %d, want %d", tenant, got, want)
	}
}

// wantHolds compares a tenant's holds in the order of their epochs.
func wantHolds(t *testing.T, l Ledger, tenant string, want ...hold.Hold) {
	t.Helper()
	got, err := l.Holds(t.Context(), tenant)
	ok(t, err)
	slices.SortFunc(got, func(a, b hold.Hold) int { return int(a.Epoch - b.Epoch) })
	if len(got) != len(want) {
		t.Fatalf("%d holds of %s, want %d", len(got), tenant, len(want))
	}
	for i := range want {
		wantSame(t, got[i], want[i])
	}
}

func holdFields(t *testing.T, l Ledger) {
	var want []hold.Hold
	for i, scope := range []hold.Scope{hold.Tenant, hold.Prefix, hold.Item} {
		h := full[hold.Hold](t)
		h.Tenant, h.Scope, h.ReleasedAt = tenant, scope, time.Time{}
		h.ID = fmt.Sprint("hold ", i)
		h.Value = "exports/school-42/\x00\xff\n\u2028" // a key is opaque bytes
		placed, err := l.PlaceHold(t.Context(), h)
		ok(t, err)
		h.Epoch = int64(i + 1) // whatever the caller had there
		wantSame(t, placed, h)
		want = append(want, h)
	}
	wantHolds(t, l, tenant, want...)
	for i := range want {
		want[i].ReleasedAt = after(time.Duration(i+1) * time.Hour)
		ok(t, l.ReleaseHold(t.Context(), tenant, want[i].ID, want[i].ReleasedAt))
		wantFull(t, want[i])
	}
	wantHolds(t, l, tenant, want...)
}

func holdEpoch(t *testing.T, l Ledger) {
	wantEpoch(t, l, tenant, 0)
	wantHolds(t, l, tenant)
	one, two := place(t, l, tenant, "one"), place(t, l, tenant, "two")
	wantEpoch(t, l, tenant, 2)
	ok(t, l.ReleaseHold(t.Context(), tenant, "one", after(time.Hour)))
	wantEpoch(t, l, tenant, 2)
	wantClass(t, l.ReleaseHold(t.Context(), tenant, "one", after(2*time.Hour)), failure.Absent)
	wantClass(t, l.ReleaseHold(t.Context(), tenant, "three", after(2*time.Hour)), failure.Absent)
	three := place(t, l, tenant, "three")
	wantEpoch(t, l, tenant, 3)
	one.ReleasedAt = after(time.Hour)
	wantHolds(t, l, tenant, one, two, three)
}

func holdAgain(t *testing.T, l Ledger) {
	first := place(t, l, tenant, "one")
	place(t, l, tenant, "two")
	again := holdOf(tenant, "one")
	again.PlacedAt, again.By, again.Reason = after(time.Hour), "somebody", "else"
	stored, err := l.PlaceHold(t.Context(), again)
	ok(t, err)
	wantSame(t, stored, first)
	wantEpoch(t, l, tenant, 2)

	// A late copy of the placement does not bring a released hold back, and the
	// answer says so.
	first.ReleasedAt = after(time.Minute)
	ok(t, l.ReleaseHold(t.Context(), tenant, "one", first.ReleasedAt))
	stored, err = l.PlaceHold(t.Context(), again)
	ok(t, err)
	wantSame(t, stored, first)
	wantEpoch(t, l, tenant, 2)
}

// Whoever places a hold is told that it holds: an id that is taken by a hold on
// something else must not answer for it.
func holdOther(t *testing.T, l Ledger) {
	first := place(t, l, tenant, "one")
	for _, spoil := range []func(h *hold.Hold){
		func(h *hold.Hold) { h.Value += "0" },
		func(h *hold.Hold) { h.Scope = hold.Item },
		func(h *hold.Hold) { h.Scope, h.Value = hold.Tenant, "" },
	} {
		h := holdOf(tenant, "one")
		spoil(&h)
		_, err := l.PlaceHold(t.Context(), h)
		wantClass(t, err, failure.Invalid)
	}
	wantHolds(t, l, tenant, first)
	wantEpoch(t, l, tenant, 1)
}

func holdReleased(t *testing.T, l Ledger) {
	h := place(t, l, tenant, "one")
	ok(t, l.ReleaseHold(t.Context(), tenant, "one", after(time.Hour)))
	set, err := l.Holds(t.Context(), tenant)
	ok(t, err)
	if _, vetoed := set.Vetoing(h.Value, 0); !vetoed {
		t.Error("an intent of before the hold is not vetoed after its release")
	}
	if _, vetoed := set.Vetoing(h.Value, 1); vetoed {
		t.Error("an intent of after the hold is vetoed after its release")
	}
	if _, covered := set.Covering(h.Value); covered {
		t.Error("a released hold still covers")
	}
}

func holdNeighbour(t *testing.T, l Ledger) {
	theirs := place(t, l, neighbour, "one")
	wantHolds(t, l, tenant)
	wantEpoch(t, l, tenant, 0)
	wantClass(t, l.ReleaseHold(t.Context(), tenant, "one", after(time.Hour)), failure.Absent)
	mine := place(t, l, tenant, "one")
	place(t, l, tenant, "two")
	wantHolds(t, l, neighbour, theirs)
	wantEpoch(t, l, neighbour, 1)
	wantEpoch(t, l, "school", 0)
	wantEpoch(t, l, "school-421", 0)
	ok(t, l.ReleaseHold(t.Context(), neighbour, "one", after(time.Hour)))
	set, err := l.Holds(t.Context(), tenant)
	ok(t, err)
	if h, covered := set.Covering(mine.Value); !covered || h.ID != "one" {
		t.Error("releasing a neighbour's hold of the same name released this one")
	}
}

func holdParallel(t *testing.T, l Ledger) {
	var placed [racers]hold.Hold
	for _, err := range race(func(i int) (err error) {
		placed[i], err = l.PlaceHold(t.Context(), holdOf(tenant, fmt.Sprint(i)))
		return err
	}) {
		ok(t, err)
	}
	slices.SortFunc(placed[:], func(a, b hold.Hold) int { return int(a.Epoch - b.Epoch) })
	for i, h := range placed {
		if h.Epoch != int64(i+1) {
			t.Fatalf("epoch %d at place %d", h.Epoch, i)
		}
	}
	wantHolds(t, l, tenant, placed[:]...)
	wantEpoch(t, l, tenant, racers)
}

func holdParallelSame(t *testing.T, l Ledger) {
	var mu sync.Mutex
	epochs := map[int64]bool{}
	for _, err := range race(func(int) error {
		h, err := l.PlaceHold(t.Context(), holdOf(tenant, "one"))
		mu.Lock()
		defer mu.Unlock()
		epochs[h.Epoch] = true
		return err
	}) {
		ok(t, err)
	}
	if len(epochs) != 1 || !epochs[1] {
		t.Errorf("epochs %v", epochs)
	}
	wantEpoch(t, l, tenant, 1)
}

func holdAliases(t *testing.T, l Ledger) {
	h := place(t, l, tenant, "one")
	set, err := l.Holds(t.Context(), tenant)
	ok(t, err)
	set[0] = hold.Hold{}
	_ = append(set[:0], hold.Hold{}, hold.Hold{})
	wantHolds(t, l, tenant, h)
	b := job.Brake{Policy: "exports", Reason: "why"}
	ok(t, l.SetBrake(t.Context(), b))
	brakes, err := l.Brakes(t.Context())
	ok(t, err)
	brakes[0] = job.Brake{}
	wantBrakes(t, l, b)
}

func wantBrakes(t *testing.T, l Ledger, want ...job.Brake) {
	t.Helper()
	got, err := l.Brakes(t.Context())
	ok(t, err)
	wantSameBrakes(t, got, want)
	_, got, err = l.Look(t.Context(), "no such run", tenant, "no such page")
	wantClass(t, err, failure.Absent)
	wantSameBrakes(t, got, want)
}

func wantSameBrakes(t *testing.T, got, want []job.Brake) {
	t.Helper()
	order := func(a, b job.Brake) int {
		if c := strings.Compare(a.Policy, b.Policy); c != 0 {
			return c
		}
		return a.Version - b.Version
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if len(got) != len(want) {
		t.Fatalf("brakes are %v, want %v", got, want)
	}
	for i := range want {
		wantSame(t, got[i], want[i])
	}
}

func brakeScopes(t *testing.T, l Ledger) {
	wantBrakes(t, l)
	brake := func(name string, version int, reason string) job.Brake {
		b := full[job.Brake](t)
		b.Policy, b.Version, b.Reason = name, version, reason
		return b
	}
	everywhere, class, version, neighbour := brake("", 0, "a"), brake("exports", 0, "b"), brake("exports", 1, "c"), brake("exports-1", 0, "d")
	for _, b := range []job.Brake{class, everywhere, neighbour, version} {
		ok(t, l.SetBrake(t.Context(), b))
	}
	wantBrakes(t, l, everywhere, class, version, neighbour)

	// Set again, a brake says the newer reason; no other is touched.
	class.Reason, class.By, class.At = "e", "other", after(time.Hour)
	ok(t, l.SetBrake(t.Context(), class))
	wantBrakes(t, l, everywhere, class, version, neighbour)

	// One that was set after the one that is released is not released.
	ok(t, l.ReleaseBrake(t.Context(), job.Brake{Policy: "exports", At: after(time.Hour - 1)}))
	wantBrakes(t, l, everywhere, class, version, neighbour)

	// Else released by scope alone, whoever and whenever; absent is fine.
	ok(t, l.ReleaseBrake(t.Context(), job.Brake{Policy: "exports"}))
	wantBrakes(t, l, everywhere, version, neighbour)
	ok(t, l.ReleaseBrake(t.Context(), job.Brake{Policy: "exports"}))
	ok(t, l.ReleaseBrake(t.Context(), job.Brake{Policy: "exports", Version: 2}))
	ok(t, l.ReleaseBrake(t.Context(), job.Brake{Policy: "digests"}))
	wantBrakes(t, l, everywhere, version, neighbour)
	ok(t, l.ReleaseBrake(t.Context(), job.Brake{}))
	wantBrakes(t, l, version, neighbour)
	ok(t, l.ReleaseBrake(t.Context(), job.Brake{Policy: "exports", Version: 1}))
	ok(t, l.ReleaseBrake(t.Context(), job.Brake{Policy: "exports-1"}))
	wantBrakes(t, l)
}
