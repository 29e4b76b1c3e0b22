package local

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/expunge-aws/expunge/internal/artifact"
	fakes3 "github.com/expunge-aws/expunge/internal/emulator/s3"
	fakesqs "github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
)

// Seed uploads the objects of a batch, as old as it says.
func (c *Cloud) Seed(b batch) error {
	now := time.Now()
	return c.s3.Seed(b.bucket, func(yield func(fakes3.Object) bool) {
		for item := range b.items(now) {
			body := make([]byte, item.Size)
			copy(body, item.Key)
			if !yield(fakes3.Object{Key: item.Key, Body: body, Modified: item.Modified}) {
				return
			}
		}
	})
}

// Deny makes the store refuse to delete a key, as a bucket policy does.
func (c *Cloud) Deny(bucket, key string) error {
	denied := func(id string) *wire.Error {
		if id != key {
			return nil
		}
		return &wire.Error{Status: http.StatusForbidden, Code: "AccessDenied", Message: "Access Denied"}
	}
	c.faults.add(func(call wire.Call) (wire.Fate, bool) {
		return wire.Fate{Entries: denied}, call.Operation == "DeleteObjects" && strings.Contains(call.Resource, bucket)
	})
	return nil
}

// Hold places a legal hold now.
func (c *Cloud) Hold(ctx context.Context, h hold.Hold) error {
	h.PlacedAt = time.Now().UTC()
	_, err := c.Ledger.PlaceHold(ctx, h)
	return err
}

// Duplicate makes the queue hand the next n messages out twice.
func (c *Cloud) Duplicate(n int) {
	if q, err := c.sqs.Queue(c.Region, "pages"); err == nil {
		q.Duplicate(n)
	}
}

// KillAfterDelete sends SIGKILL to the worker processes right after S3 has carried
// out the n-th bulk delete and before its answer goes out.
func (c *Cloud) KillAfterDelete(n int64, say func(string)) {
	var calls atomic.Int64
	kill := func() {
		c.killWorkers()
		say("trouble: SIGKILL to the worker right after its delete, before it could read the answer")
	}
	c.faults.add(func(call wire.Call) (wire.Fate, bool) {
		hit := call.Operation == "DeleteObjects" && calls.Add(1) == n
		return wire.Fate{Then: kill}, hit
	})
}

// killWorkers ends the enforcing worker's processes by SIGKILL.
func (c *Cloud) killWorkers() { c.signalWorkers(syscall.SIGKILL) }

// freezeWorkers stops them in the middle of what they do, until Lambda's own timeout
// ends them.
func (c *Cloud) freezeWorkers() { c.signalWorkers(syscall.SIGSTOP) }

func (c *Cloud) signalWorkers(signal syscall.Signal) {
	for _, pid := range c.lambda.Processes(c.Region, "worker") {
		_ = syscall.Kill(pid, signal) // one that is gone already is as dead
	}
}

// firePatience bounds how long a schedule and its scan may take.
const firePatience = time.Minute

// Fire puts a schedule for two seconds from now, as the stack declares one for
// each policy, and waits until the run that it starts has been scanned.
func (c *Cloud) Fire(ctx context.Context, policy string) (job.RunID, error) {
	at := time.Now().UTC().Truncate(time.Second).Add(2 * time.Second)
	_, err := scheduler.NewFromConfig(c.config.Config).CreateSchedule(ctx, &scheduler.CreateScheduleInput{
		Name: &policy, ScheduleExpression: aws.String("at(" + at.Format("2006-01-02T15:04:05") + ")"),
		ActionAfterCompletion: types.ActionAfterCompletionDelete,
		FlexibleTimeWindow:    &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
		Target:                c.enqueueTarget(policy),
	})
	if err != nil {
		return "", err
	}
	id := job.ScheduledRunID(c.Region, policy, at)
	c.runs = append(c.runs, id)
	ctx, stop := context.WithTimeout(ctx, firePatience)
	defer stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("local: the schedule of %s has started no run in %v", policy, firePatience)
		case <-look.C:
			run, err := c.Ledger.Run(ctx, id)
			if err != nil && !failure.Is(err, failure.Absent) {
				return "", err
			}
			if err == nil && run.State != job.Scanning {
				return id, nil
			}
		}
	}
}

// enqueueTarget is what a policy's schedule invokes.
func (c *Cloud) enqueueTarget(policy string) *types.Target {
	return &types.Target{
		Arn:     aws.String("arn:aws:lambda:" + c.Region + ":" + wire.Account + ":function:enqueue"),
		RoleArn: aws.String("arn:aws:iam::" + wire.Account + ":role/schedules"),
		Input:   aws.String(fmt.Sprintf(`{"policy":%q,"scheduled":"<aws.scheduler.scheduled-time>"}`, policy)),
	}
}

// Stray puts a copy of a message of the run into the queue, with its body changed.
func (c *Cloud) Stray(ctx context.Context, id job.RunID, change func([]byte) []byte) error {
	run, pages, err := c.pages(ctx, id)
	if err != nil {
		return err
	}
	m := job.NewMessage(run, pages[0])
	m.ID, m.Body = "stray", change(m.Body)
	_, err = c.Queue.Send(ctx, run.Mode, []job.Message{m})
	return err
}

// pages reads a run and all its pages.
func (c *Cloud) pages(ctx context.Context, id job.RunID) (run job.Run, all []job.Page, err error) {
	if run, err = c.Ledger.Run(ctx, id); err != nil {
		return run, nil, err
	}
	tenants, err := c.Ledger.Tenants(ctx, id)
	if err != nil {
		return run, nil, err
	}
	for _, tenant := range tenants {
		var last *job.Page
		for {
			some, err := c.Ledger.Pages(ctx, id, tenant, last, 100)
			if err != nil {
				return run, nil, err
			}
			if len(some) == 0 {
				break
			}
			all, last = append(all, some...), &some[len(some)-1]
		}
	}
	return run, all, nil
}

// cloudPatience bounds Drain: two visibility timeouts and some passes of reconcile.
const cloudPatience = 3 * time.Minute

// Drain invokes reconcile at its period until the region is quiet.
func (c *Cloud) Drain(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, cloudPatience)
	defer stop()
	every := time.NewTicker(c.Settings.ReconcileEvery)
	defer every.Stop()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("local: not quiet after %v", cloudPatience)
		case <-every.C:
			if _, err := c.lambda.Invoke(ctx, c.Region, "reconcile", []byte("{}")); err != nil {
				return err
			}
		case <-look.C:
			quiet, err := c.quiet(ctx)
			if err != nil || quiet {
				return err
			}
		}
	}
}

// quiet reports whether the queues are empty and every run is closed, waits for a
// person, or has only dead pages left.
func (c *Cloud) quiet(ctx context.Context) (bool, error) {
	for _, name := range []string{"pages", "report"} {
		q, err := c.sqs.Queue(c.Region, name)
		if err != nil {
			return false, err
		}
		if _, waiting := q.NextVisible(); waiting {
			return false, nil
		}
	}
	open, err := c.Ledger.OpenPages(ctx, nil, 1)
	if err != nil || len(open) > 0 {
		return false, err
	}
	for _, id := range c.runs {
		run, pages, err := c.pages(ctx, id)
		if err != nil {
			return false, err
		}
		dead := slices.ContainsFunc(pages, func(p job.Page) bool { return p.State == job.Dead })
		if run.Open() && !dead {
			return false, nil // reconcile still has to close it
		}
	}
	return true, nil
}

// Facts collects what the pipeline left behind, for the invariants to judge.
func (c *Cloud) Facts(ctx context.Context) (invariant.Facts, error) {
	f := invariant.Facts{
		Region: c.Region, Policies: c.Policies, Holds: map[string]hold.Set{}, Evidence: map[string][]byte{},
		Events: c.Log.Events(), Acks: c.acks.all(), Quiet: c.Settings.FunctionTimeout + c.Settings.RequestLifetime,
	}
	for _, id := range c.runs {
		run, pages, err := c.pages(ctx, id)
		if err != nil {
			return f, err
		}
		f.Runs, f.Pages = append(f.Runs, run), append(f.Pages, pages...)
	}
	for _, p := range f.Pages {
		holds, err := c.Ledger.Holds(ctx, p.Tenant)
		if err != nil {
			return f, err
		}
		f.Holds[p.Tenant] = holds
	}
	if err := c.stores(ctx, &f); err != nil {
		return f, err
	}
	if err := c.letters(ctx, &f); err != nil {
		return f, err
	}
	return f, readEvidence(ctx, c.Evidence, f.Evidence)
}

// stores reads the effects of every bucket and what is left in it.
func (c *Cloud) stores(ctx context.Context, f *invariant.Facts) error {
	left := map[string]map[string]job.Item{}
	store := artifact.NewS3(c.config, artifact.S3Options{})
	for _, p := range c.Policies {
		effects, err := c.s3.Effects(p.Bucket)
		if err != nil {
			return err
		}
		for _, e := range effects {
			item := job.Item{Key: e.Key, ETag: e.ETag, Size: e.Size, Modified: e.Modified}
			f.Effects = append(f.Effects, invariant.Effect{Bucket: p.Bucket, Item: item, At: e.At, Marker: e.Marker})
		}
		left[p.Bucket] = map[string]job.Item{}
		for item, err := range listed(ctx, store, p.Bucket) {
			if err != nil {
				return err
			}
			left[p.Bucket][item.Key] = item
		}
	}
	f.Remains = func(bucket string, ref job.Ref) (job.Item, bool) {
		item, ok := left[bucket][ref.Key]
		return item, ok
	}
	return nil
}

// listed yields every object of a bucket.
func listed(ctx context.Context, store artifact.Store, bucket string) iter.Seq2[job.Item, error] {
	return func(yield func(job.Item, error) bool) {
		q := job.Query{Bucket: bucket}
		for {
			listing, err := store.List(ctx, q)
			if err != nil {
				yield(job.Item{}, err)
				return
			}
			for _, item := range listing.Items {
				if !yield(item, nil) {
					return
				}
			}
			if q.Token = listing.Token; q.Token == "" {
				return
			}
		}
	}
}

// letters reads the dead letters, and what still waits.
func (c *Cloud) letters(ctx context.Context, f *invariant.Facts) error {
	for {
		some, err := c.Queue.Letters(ctx, 10)
		if err != nil {
			return err
		}
		if len(some) == 0 {
			break
		}
		for _, d := range some {
			f.Letters = append(f.Letters, d.Letter)
		}
	}
	for _, name := range []string{"pages", "report"} {
		q, err := c.sqs.Queue(c.Region, name)
		if err != nil {
			return err
		}
		f.Waiting = append(f.Waiting, bodies(q.Peek())...)
	}
	return nil
}

func bodies(messages []fakesqs.Message) [][]byte {
	var all [][]byte
	for _, m := range messages {
		all = append(all, []byte(m.Body))
	}
	return all
}
