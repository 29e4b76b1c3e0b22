package rehearse

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/worker"
)

// copies is the worker's world in one rehearsal: what it reads is real, until it has
// written something else. It is everything that a worker asks for, so that one call
// sees what another has done.
type copies struct {
	real  Config
	when  When
	run   job.Run
	start job.Page // the real row

	now    time.Time
	wait   time.Duration // how long the message is put off in this round
	owners int

	rows      map[job.PageID]job.Page
	born      []job.Page
	documents map[string][]byte
	letters   []job.Letter
	events    []audit.Event

	store
	// blind is the first read that failed. Nothing that follows it can be believed.
	blind error
}

// open reads the page and makes the copies.
func open(ctx context.Context, real Config, run job.RunID, tenant string, page job.PageID, when When) (*copies, error) {
	c := &copies{real: real, when: when, now: real.Now, rows: map[job.PageID]job.Page{}, documents: map[string][]byte{}}
	c.store.copies, c.gone = c, map[job.Ref]removal{}
	var err error
	if c.run, err = real.Records.Run(ctx, run); err != nil {
		return nil, err
	}
	if c.start, _, err = real.Records.Look(ctx, run, tenant, page); err != nil {
		return nil, err
	}
	row := c.start
	if when == OnceRedriven && row.State == job.Dead {
		if row, err = row.Redrive("", c.now, c.now.Add(real.Settings.Overdue())); err != nil {
			return nil, err
		}
	}
	c.rows[row.ID] = row
	if !real.Repaired {
		c.refused, err = c.refusals(ctx)
	}
	return c, err
}

// worker is a worker of the page's mode, with nothing but copies around it.
func (c *copies) worker() worker.Config {
	return worker.Config{
		Records: c, Writes: c, Holds: c, Artifacts: c, Evidence: c, Letters: c, Audit: c, Clock: c,
		Settings: c.real.Settings, Region: c.real.Region, Mode: c.run.Mode, Code: c.real.Code,
		NewOwner: func() string { c.owners++; return "rehearsal-" + strconv.Itoa(c.owners) },
		Jitter:   func(limit time.Duration) time.Duration { return limit },
	}
}

// row is the page as the rehearsal has it.
func (c *copies) row() job.Page { return c.rows[c.start.ID] }

// seen notes a read that failed. An error of the class known is a fact that the worker
// meets too, and no rehearsal ends for it.
func (c *copies) seen(err error, known failure.Class) error {
	if err != nil && c.blind == nil && !failure.Is(err, known) {
		c.blind = err
	}
	return err
}

// Run reads through.
func (c *copies) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	run, err := c.real.Records.Run(ctx, id)
	return run, c.seen(err, "")
}

// Policy reads through.
func (c *copies) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	p, err := c.real.Records.Policy(ctx, name, version)
	return p, c.seen(err, failure.UnknownPolicy)
}

// Look returns the copy of a page, and the real brakes.
func (c *copies) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error) {
	page, brakes, err := c.real.Records.Look(ctx, run, tenant, id)
	if row, ok := c.rows[id]; ok {
		page = row
	}
	if c.when == OnceReleased {
		brakes = nil
	}
	return page, brakes, c.seen(err, failure.Absent)
}

// Brakes reads through.
func (c *copies) Brakes(ctx context.Context) ([]job.Brake, error) {
	if c.when == OnceReleased {
		return nil, nil
	}
	brakes, err := c.real.Records.Brakes(ctx)
	return brakes, c.seen(err, "")
}

// SwapPage writes the copy if it is still the one that next was computed from.
func (c *copies) SwapPage(_ context.Context, next job.Page) error {
	if row, ok := c.rows[next.ID]; !ok || row.Rev != next.Rev-1 {
		return failure.New(failure.Conflict, "rehearse page "+string(next.ID), "the row has moved on")
	}
	c.rows[next.ID] = next
	return nil
}

// Intend writes the copy if the tenant's real hold epoch is that of the plan too.
func (c *copies) Intend(ctx context.Context, next job.Page, epoch int64) error {
	now, err := c.Epoch(ctx, next.Tenant)
	if err == nil && now != epoch {
		err = failure.New(failure.Conflict, "rehearse intent "+string(next.ID), "the hold epoch has moved on")
	}
	if err != nil {
		return err
	}
	return c.SwapPage(ctx, next)
}

// Complete writes the copy and puts the split-off pages, all or nothing.
func (c *copies) Complete(ctx context.Context, next job.Page, children []job.Page) error {
	for _, child := range children {
		_, _, err := c.Look(ctx, child.Run, child.Tenant, child.ID)
		if err == nil {
			err = failure.New(failure.Conflict, "rehearse page "+string(next.ID), "a split-off item is there already")
		}
		if !failure.Is(err, failure.Absent) {
			return err
		}
	}
	if err := c.SwapPage(ctx, next); err != nil {
		return err
	}
	c.born = append(c.born, children...)
	return nil
}

// Epoch reads through.
func (c *copies) Epoch(ctx context.Context, tenant string) (int64, error) {
	epoch, err := c.real.Holds.Epoch(ctx, tenant)
	return epoch, c.seen(err, "")
}

// Holds reads through.
func (c *copies) Holds(ctx context.Context, tenant string) (hold.Set, error) {
	set, err := c.real.Holds.Holds(ctx, tenant)
	return set, c.seen(err, "")
}

// Put keeps a document in memory.
func (c *copies) Put(_ context.Context, name string, data []byte) error {
	c.documents[name] = bytes.Clone(data)
	return nil
}

// Get returns what was kept, or else the real document.
func (c *copies) Get(ctx context.Context, name string) ([]byte, error) {
	if data, ok := c.documents[name]; ok {
		return bytes.Clone(data), nil
	}
	data, err := c.real.Evidence.Get(ctx, name)
	return data, c.seen(err, failure.Absent)
}

// lines reads the receipt that counts for the page. Without one, or when it is not
// there, there are none.
func (c *copies) lines(ctx context.Context, page job.Page) ([]receipt.Line, error) {
	if page.Receipt == "" {
		return nil, nil
	}
	name := receipt.Name(receipt.Receipt, page.Run, page.ID, page.Receipt)
	data, err := c.Get(ctx, name)
	if failure.Is(err, failure.Absent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	doc, err := receipt.Verify(name, data)
	return doc.Lines, err
}

// refusals are the items that the store refused for good, by the page's receipt.
func (c *copies) refusals(ctx context.Context) (map[job.Ref]bool, error) {
	lines, err := c.lines(ctx, c.start)
	refused := map[job.Ref]bool{}
	for i := range lines {
		if lines[i].Outcome == job.Refused {
			refused[lines[i].Ref()] = true
		}
	}
	return refused, err
}

// Delay notes when the message comes back.
func (c *copies) Delay(_ context.Context, _ job.Delivery, wait time.Duration) error {
	c.wait = wait
	return nil
}

// DeadLetter notes the dead letter.
func (c *copies) DeadLetter(_ context.Context, l job.Letter) error {
	c.letters = append(c.letters, l)
	return nil
}

// Emit notes the event.
func (c *copies) Emit(e audit.Event) { c.events = append(c.events, e) }

// Now is the rehearsal's own time.
func (c *copies) Now() time.Time { return c.now }

// Sleep moves it.
func (c *copies) Sleep(ctx context.Context, d time.Duration) error {
	c.now = c.now.Add(max(d, 0))
	return ctx.Err()
}
