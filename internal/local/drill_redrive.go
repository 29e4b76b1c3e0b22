package local

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
)

// moved is what a redrive answers, as far as the drill needs it.
type moved struct {
	Token     string `json:"token"`
	Moves     int    `json:"moves"`
	Moved     int    `json:"moved"`
	Remaining int    `json:"remaining"`
}

// ask invokes the redrive function as the operator's tool does.
func (r *rehearsal) ask(ctx context.Context, request map[string]any) (answer moved, err error) {
	payload, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	got, err := r.lambda.Invoke(ctx, r.Region, "redrive", payload)
	if err == nil && got.FunctionError != "" {
		err = fmt.Errorf("redrive: %s", got.Payload)
	}
	if err != nil {
		return answer, err
	}
	err = json.Unmarshal(got.Payload, &answer)
	return answer, err
}

// until looks again and again until it is done.
func until(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	ctx, stop := context.WithTimeout(ctx, cloudPatience)
	defer stop()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		if ok, err := done(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("local: %s did not happen in %v", what, cloudPatience)
		case <-look.C:
		}
	}
}

// redriveDrill plays R127: a page fails until its attempts are used up, somebody mends
// the cause, plans a redrive when the gates are open and applies it. A broken message
// stays where it is.
func redriveDrill(ctx context.Context, r *rehearsal) error {
	var mended atomic.Bool
	slow := wire.Fate{Error: &wire.Error{Status: http.StatusServiceUnavailable, Code: "SlowDown", Message: "Please reduce your request rate."}}
	r.faults.add(func(c wire.Call) (wire.Fate, bool) {
		if c.Operation != "DeleteObjects" || mended.Load() {
			return wire.Fate{}, false
		}
		r.went()
		return slow, true
	})
	id, err := r.Fire(ctx, "redrive")
	if err != nil {
		return err
	}
	if err := r.Stray(ctx, id, func(b []byte) []byte { return b[:len(b)/2] }); err != nil {
		return err
	}
	dead := func(ctx context.Context) (bool, error) {
		pages, err := r.Ledger.DeadPages(ctx, nil, 10)
		return len(pages) > 0, err
	}
	if err := until(ctx, "the death of the page", dead); err != nil {
		return err
	}
	mended.Store(true)
	var plan moved
	planned := func(ctx context.Context) (bool, error) {
		plan, err = r.ask(ctx, map[string]any{"op": "plan"})
		return plan.Moves > 0, err
	}
	if err := until(ctx, "the opening of the gates", planned); err != nil {
		return err
	}
	applied, err := r.ask(ctx, map[string]any{"op": "apply", "token": plan.Token, "by": "drill", "reason": "the store answers again"})
	if err != nil {
		return err
	}
	r.want(applied.Moved == 1 && applied.Remaining == 0, "the redrive moved %d pages and left %d", applied.Moved, applied.Remaining)
	return r.Drain(ctx)
}

func checkRedrive(r *rehearsal, f invariant.Facts) {
	c := outcomes(f)
	r.want(c[job.Deleted] == 50 && c.Sum() == 50, "outcomes %v, want 50 deleted", c)
	r.want(slices.Equal(reasons(f), []job.Reason{job.ReasonMalformed}), "dead letters: %v, want the broken message alone", reasons(f))
	trail := map[audit.Name]int{}
	for _, e := range r.Log.Events() {
		trail[e.Event]++
	}
	for _, name := range []audit.Name{audit.Enqueued, audit.Attempted, audit.DeadLettered, audit.Redriven, audit.Succeeded} {
		r.want(trail[name] >= 1, "the trail has no %s", name)
	}
	r.want(trail[audit.Succeeded] == 1, "%d successes of one page", trail[audit.Succeeded])
}
