package local

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
)

// drillPolicy is the policy of every drill; the night's run of it is fired by hand.
func drillPolicy(name string) string {
	return fmt.Sprintf(`name: %[1]s
version: 1
region: eu-west-1
bucket: drill-%[1]s
keys: %[1]s/{tenant}/
retention_days: 30
mode: enforce
schedule: {every: daily, at: "02:30", zone: Europe/Dublin}
`, name)
}

// expired are a tenant's candidates, fresh its other objects.
func expired(policy, tenant string, n int) batch {
	return batch{"drill-" + policy, policy + "/" + tenant + "/old-", ".bin", n, 100, 45 * oneDay}
}

func fresh(policy, tenant string, n int) batch {
	return batch{"drill-" + policy, policy + "/" + tenant + "/new-", ".bin", n, 100, 2 * oneDay}
}

// strike lets the first n calls that match meet a fate.
func (r *rehearsal) strike(n int64, match func(wire.Call) bool, fate wire.Fate) {
	var calls atomic.Int64
	r.faults.add(func(c wire.Call) (wire.Fate, bool) {
		if !match(c) || calls.Add(1) > n {
			return wire.Fate{}, false
		}
		r.went()
		return fate, true
	})
}

// by matches a function's calls of an operation.
func by(function, operation string) func(wire.Call) bool {
	return func(c wire.Call) bool { return c.Caller == function && c.Operation == operation }
}

// writes matches the worker's writes of a page in a state. The row's document is
// JSON inside the JSON of the request.
func writes(state job.PageState) func(wire.Call) bool {
	row := fmt.Appendf(nil, `\"State\":\"%s\"`, state)
	return func(c wire.Call) bool {
		return c.Caller == "worker" && c.Service == "dynamodb" && bytes.Contains(c.Body, row)
	}
}

// run fires the schedule and waits until the region is quiet.
func run(policies ...string) func(context.Context, *rehearsal) error {
	return func(ctx context.Context, r *rehearsal) error {
		for _, name := range policies {
			if _, err := r.Fire(ctx, name); err != nil {
				return err
			}
		}
		return r.Drain(ctx)
	}
}

// after strikes and then runs.
func after(trouble func(*rehearsal), then func(context.Context, *rehearsal) error) func(context.Context, *rehearsal) error {
	return func(ctx context.Context, r *rehearsal) error {
		trouble(r)
		return then(ctx, r)
	}
}

// all checks that every candidate has one outcome, and which.
func all(outcome job.Outcome, n int) func(*rehearsal, invariant.Facts) {
	return func(r *rehearsal, f invariant.Facts) {
		c := outcomes(f)
		r.want(c[outcome] == n && c.Sum() == n, "%d of %d items are %s", c[outcome], n, outcome)
		r.want(len(f.Letters) == 0, "dead letters: %v", reasons(f))
	}
}

func drills() []drill { return append(processDrills(), storeDrills()...) }

// one is the policy of a drill that needs no other.
func one(name string) []string { return []string{drillPolicy(name)} }

// processDrills are those in which a process dies, overruns or comes twice.
func processDrills() []drill {
	return []drill{
		{id: "R116", name: "kill-after-delete", text: "SIGKILL after the delete, before the ack", policies: one("kill"),
			seed: []batch{expired("kill", "acme", 500), fresh("kill", "acme", 600)},
			play: after(func(r *rehearsal) {
				r.strike(1, by("worker", "DeleteObjects"), wire.Fate{Then: r.killWorkers})
			}, run("kill")),
			check: func(r *rehearsal, f invariant.Facts) {
				all(job.Deleted, 500)(r, f)
				r.want(r.events(audit.Attempted) == 2, "%d attempts are in the log, want the killed one and its redelivery", r.events(audit.Attempted))
			}},
		{id: "R117", name: "three-items-four-deliveries", text: "eligible, again, held, unknown policy; killed at the first success", policies: one("clinic"),
			seed: []batch{expired("clinic", "clinic-1", 1), expired("clinic", "clinic-2", 1), fresh("clinic", "clinic-1", 4)},
			play: threeItems, check: checkThreeItems},
		{id: "R118", name: "kill-before-ack", text: "SIGKILL after the commit, before the ack", policies: one("commit"),
			seed: []batch{expired("commit", "acme", 200), fresh("commit", "acme", 300)},
			play: after(func(r *rehearsal) {
				r.strike(1, writes(job.Completed), wire.Fate{Then: r.killWorkers})
			}, run("commit")),
			check: func(r *rehearsal, f invariant.Facts) {
				all(job.Deleted, 200)(r, f)
				r.want(r.events(audit.DuplicateObserved) >= 1, "the redelivery was not told apart from work")
			}},
		{
			id: "R119", name: "timeout-under-lease", text: "the process freezes under a live lease until Lambda's timeout ends it", policies: one("slow"),
			seed: []batch{expired("slow", "acme", 200), fresh("slow", "acme", 300)},
			play: after(func(r *rehearsal) {
				r.strike(1, by("worker", "ListObjectsV2"), wire.Fate{Then: r.freezeWorkers})
			}, run("slow")),
			check: func(r *rehearsal, f invariant.Facts) {
				all(job.Deleted, 200)(r, f)
				r.want(r.lambda.Metrics(r.Region, "worker").Timeouts == 1, "Lambda ended %d invocations by its timeout", r.lambda.Metrics(r.Region, "worker").Timeouts)
			},
		},
		{id: "R120", name: "two-at-once", text: "every message comes twice, to two workers at once", policies: one("twice"),
			seed: []batch{expired("twice", "acme", 200), expired("twice", "globex", 200), fresh("twice", "acme", 500)},
			play: after(func(r *rehearsal) {
				r.Duplicate(4)
				r.strike(2, by("worker", "ListObjectsV2"), wire.Fate{Delay: r.Settings.FunctionTimeout / 4})
			}, run("twice")),
			check: func(r *rehearsal, f invariant.Facts) {
				all(job.Deleted, 400)(r, f)
				r.want(r.events(audit.DuplicateObserved) >= 1, "no duplicate was seen")
			}},
	}
}

// storeDrills are those in which a message, the store or an operator is the trouble.
func storeDrills() []drill {
	return []drill{
		{id: "R121", name: "poison", text: "five messages that are no command of ours", policies: one("poison"),
			seed: []batch{expired("poison", "acme", 100), fresh("poison", "acme", 200)},
			play: poison, check: checkPoison},
		{id: "R122", name: "dead-letter-fails", text: "the dead-letter step itself fails, and fails after it happened", policies: one("letters"),
			seed: []batch{expired("letters", "acme", 20), fresh("letters", "acme", 30)},
			play: after(func(r *rehearsal) {
				r.denied("letters/acme/")
				letter := func(c wire.Call) bool {
					return c.Operation == "SendMessage" && (strings.Contains(c.Resource, "dead-letters") || bytes.Contains(c.Body, []byte("dead-letters")))
				}
				r.strike(1, letter, wire.Fate{Error: &wire.Error{Status: http.StatusInternalServerError, Code: "InternalFailure", Message: "not now"}})
				r.strike(1, letter, wire.Fate{Lost: true})
			}, run("letters")),
			check: func(r *rehearsal, f invariant.Facts) {
				c := outcomes(f)
				r.want(c[job.Refused] == 20 && c.Sum() == 20, "outcomes %v, want 20 refused", c)
				r.want(len(f.Letters) >= 1 && f.Letters[0].Reason == job.ReasonForbidden, "dead letters: %v", reasons(f))
				r.want(!f.Pages[0].Death.LetterAt.IsZero(), "the page does not know its dead letter")
			}},
		{id: "R123", name: "half-a-batch", text: "SIGKILL with half of the keys deleted", policies: one("half"),
			seed: []batch{expired("half", "acme", 600), fresh("half", "acme", 700)},
			play: after(func(r *rehearsal) {
				var nth atomic.Int64
				half := func(string) *wire.Error {
					if nth.Add(1)%2 == 0 {
						return nil
					}
					return &wire.Error{Status: http.StatusInternalServerError, Code: "InternalError", Message: "the process is gone before this key"}
				}
				r.strike(1, by("worker", "DeleteObjects"), wire.Fate{Entries: half, Then: r.killWorkers})
			}, run("half")),
			check: all(job.Deleted, 600)},
		{id: "R124", name: "slow-down", text: "the store asks to slow down three times", policies: one("busy"),
			seed: []batch{expired("busy", "acme", 500), fresh("busy", "acme", 600)},
			play: after(func(r *rehearsal) {
				r.strike(3, by("worker", "DeleteObjects"), wire.Fate{Error: &wire.Error{Status: http.StatusServiceUnavailable, Code: "SlowDown", Message: "Please reduce your request rate."}})
			}, run("busy")),
			check: all(job.Deleted, 500)},
		{id: "R125", alone: clockDrill},
		{id: "R126", name: "hold-before-replay", text: "SIGKILL with half deleted; a hold comes before the replay", policies: one("replay"),
			seed: []batch{expired("replay", "acme", 100), fresh("replay", "acme", 200)},
			play: holdBeforeReplay, check: checkHoldBeforeReplay},
		{id: "R127", name: "redrive", text: "a failure that lasts until somebody mends it; redriven; poison stays", policies: one("redrive"),
			seed: []batch{expired("redrive", "acme", 50), fresh("redrive", "acme", 100)},
			play: redriveDrill, check: checkRedrive},
		{id: "R128", name: "permission", text: "the store refuses one item of 500 for good", policies: one("denied"),
			seed: []batch{expired("denied", "acme", 500), fresh("denied", "acme", 600)},
			play: after(func(r *rehearsal) { r.denied("denied/acme/old-00137.bin") }, run("denied")),
			check: func(r *rehearsal, f invariant.Facts) {
				c := outcomes(f)
				r.want(c[job.Deleted] == 499 && c.Sum() == 500, "outcomes %v, want 499 of 500 deleted", c)
				r.want(slices.Equal(reasons(f), []job.Reason{job.ReasonForbidden}), "dead letters: %v", reasons(f))
				deletes := 0
				for _, p := range f.Pages {
					if p.Kind == job.RangePage && p.Candidates > 0 {
						deletes += p.Attempts
					}
				}
				r.want(deletes == 1, "499 items went round %d times for one", deletes)
			}},
	}
}

// denied makes the store refuse every delete under a prefix until mended.
func (r *rehearsal) denied(prefix string) (mend func()) {
	var mended atomic.Bool
	refuse := func(key string) *wire.Error {
		if mended.Load() || !strings.HasPrefix(key, prefix) {
			return nil
		}
		r.went()
		return &wire.Error{Status: http.StatusForbidden, Code: "AccessDenied", Message: "Access Denied"}
	}
	r.faults.add(func(c wire.Call) (wire.Fate, bool) {
		return wire.Fate{Entries: refuse}, c.Operation == "DeleteObjects"
	})
	return func() { mended.Store(true) }
}

// threeItems plays R117 as it is written.
func threeItems(ctx context.Context, r *rehearsal) error {
	if err := r.Hold(ctx, hold.Hold{ID: "hold-7", Tenant: "clinic-2", Scope: hold.Tenant, Reason: "litigation", By: "counsel"}); err != nil {
		return err
	}
	r.strike(1, by("worker", "DeleteObjects"), wire.Fate{Then: r.killWorkers})
	id, err := r.Fire(ctx, "clinic")
	if err != nil {
		return err
	}
	if err := r.Stray(ctx, id, func(body []byte) []byte { return body }); err != nil { // the same again
		return err
	}
	unknown := func(body []byte) []byte {
		return bytes.Replace(body, []byte(`"policy_version":1`), []byte(`"policy_version":9`), 1)
	}
	if err := r.Stray(ctx, id, unknown); err != nil {
		return err
	}
	return r.Drain(ctx)
}

func checkThreeItems(r *rehearsal, f invariant.Facts) {
	c := outcomes(f)
	r.want(c[job.Deleted] == 1 && c[job.Held] == 1 && c.Sum() == 2, "outcomes %v, want one deleted and one held", c)
	r.want(slices.Equal(reasons(f), []job.Reason{job.ReasonUnknownPolicy}), "dead letters: %v", reasons(f))
	r.want(r.events(audit.DuplicateObserved) >= 1, "the duplicate was not classified as one")
	for _, l := range f.Letters {
		r.want(!bytes.Contains(l.Body, []byte("old-")), "a dead letter holds a key")
	}
}

// poison sends what is no command of ours beside a run that has work to do.
func poison(ctx context.Context, r *rehearsal) error {
	id, err := r.Fire(ctx, "poison")
	if err != nil {
		return err
	}
	r.went()
	for _, spoil := range []func([]byte) []byte{
		func(b []byte) []byte { return b[:len(b)/2] },
		func([]byte) []byte { return []byte("[]") },
		func(b []byte) []byte { return bytes.Replace(b, []byte(`"schema":1`), []byte(`"schema":0`), 1) },
		func(b []byte) []byte { return bytes.Replace(b, []byte(`eu-west-1`), []byte(`us-east-1`), 1) },
		func(b []byte) []byte {
			return bytes.Replace(b, []byte(`{`), []byte(`{"presigned_url":"https://example.com/?X-Amz-Signature=0",`), 1)
		},
	} {
		if err := r.Stray(ctx, id, spoil); err != nil {
			return err
		}
	}
	return r.Drain(ctx)
}

func checkPoison(r *rehearsal, f invariant.Facts) {
	c := outcomes(f)
	r.want(c[job.Deleted] == 100 && c.Sum() == 100, "outcomes %v, want 100 deleted", c)
	want := []job.Reason{job.ReasonMalformed, job.ReasonMalformed, job.ReasonMalformed, job.ReasonUnsupportedSchema, job.ReasonWrongRegion}
	r.want(slices.Equal(reasons(f), want), "dead letters: %v", reasons(f))
	for _, l := range f.Letters {
		r.want(l.Reason.Class() == job.Quarantined, "%s could be redriven", l.Reason)
	}
}

// holdBeforeReplay kills the worker in the middle of a delete and protects the
// tenant before anybody comes back to it (R126).
func holdBeforeReplay(ctx context.Context, r *rehearsal) error {
	placed := make(chan error, 1)
	var nth atomic.Int64
	half := func(string) *wire.Error {
		if nth.Add(1)%2 == 0 {
			return nil
		}
		return &wire.Error{Status: http.StatusInternalServerError, Code: "InternalError", Message: "the process is gone before this key"}
	}
	r.strike(1, by("worker", "DeleteObjects"), wire.Fate{Entries: half, Then: func() {
		r.killWorkers()
		placed <- r.Hold(ctx, hold.Hold{ID: "hold-9", Tenant: "acme", Scope: hold.Tenant, Reason: "litigation", By: "counsel"})
	}})
	if _, err := r.Fire(ctx, "replay"); err != nil {
		return err
	}
	select {
	case err := <-placed:
		if err != nil {
			return err
		}
	case <-time.After(firePatience):
		return fmt.Errorf("local: no delete in %v", firePatience)
	}
	return r.Drain(ctx)
}

func checkHoldBeforeReplay(r *rehearsal, f invariant.Facts) {
	c := outcomes(f)
	r.want(c[job.Deleted] == 50 && c[job.Held] == 50 && c.Sum() == 100, "outcomes %v, want 50 deleted before the hold and 50 held", c)
}
