package sim

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/worker"
)

// rows changes what a step reads of pages, and how it writes them. A field that is nil
// changes nothing.
type rows struct {
	ledgerView
	seen     func(*instance, job.Page) job.Page
	brakes   func([]job.Brake) []job.Brake
	run      func(*instance, job.Run) job.Run
	swap     func(context.Context, ledgerView, job.Page) error
	intend   func(context.Context, ledgerView, job.Page, int64) error
	complete func(context.Context, ledgerView, job.Page, []job.Page) error
}

func (r rows) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	run, err := r.ledgerView.Run(ctx, id)
	if r.run != nil && err == nil {
		run = r.run(r.instance, run)
	}
	return run, err
}

func (r rows) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error) {
	p, b, err := r.ledgerView.Look(ctx, run, tenant, id)
	if r.seen != nil && err == nil {
		p = r.seen(r.instance, p)
	}
	if r.brakes != nil {
		b = r.brakes(b)
	}
	return p, b, err
}

func (r rows) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	p, err := r.ledgerView.Page(ctx, run, tenant, id)
	if r.seen != nil && err == nil {
		p = r.seen(r.instance, p)
	}
	return p, err
}

func (r rows) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	all, err := r.ledgerView.Pages(ctx, run, tenant, after, limit)
	for i := range all {
		if r.seen != nil {
			all[i] = r.seen(r.instance, all[i])
		}
	}
	return all, err
}

func (r rows) PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error) {
	p, err := r.ledgerView.PageAt(ctx, run, tenant, key)
	if r.seen != nil && err == nil {
		p = r.seen(r.instance, p)
	}
	return p, err
}

func (r rows) Brakes(ctx context.Context) ([]job.Brake, error) {
	b, err := r.ledgerView.Brakes(ctx)
	if r.brakes != nil {
		b = r.brakes(b)
	}
	return b, err
}

func (r rows) SwapPage(ctx context.Context, next job.Page) error {
	if r.swap != nil {
		return r.swap(ctx, r.ledgerView, next)
	}
	return r.ledgerView.SwapPage(ctx, next)
}

func (r rows) Intend(ctx context.Context, next job.Page, epoch int64) error {
	if r.intend != nil {
		return r.intend(ctx, r.ledgerView, next, epoch)
	}
	return r.ledgerView.Intend(ctx, next, epoch)
}

func (r rows) Complete(ctx context.Context, next job.Page, children []job.Page) error {
	if r.complete != nil {
		return r.complete(ctx, r.ledgerView, next, children)
	}
	return r.ledgerView.Complete(ctx, next, children)
}

// objects changes what a worker sees and does of the store.
type objects struct {
	storeView
	send     func(context.Context, storeView, job.Deletion) ([]job.Answer, error)
	list     func(context.Context, storeView, job.Query) (job.Listing, error)
	standing func(context.Context, storeView, string, []job.Item) ([]job.Standing, error)
}

func (o objects) Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error) {
	if o.send != nil {
		return o.send(ctx, o.storeView, d)
	}
	return o.storeView.Delete(ctx, d)
}

func (o objects) List(ctx context.Context, q job.Query) (job.Listing, error) {
	if o.list != nil {
		return o.list(ctx, o.storeView, q)
	}
	return o.storeView.List(ctx, q)
}

func (o objects) Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error) {
	if o.standing != nil {
		return o.standing(ctx, o.storeView, bucket, items)
	}
	return o.storeView.Standing(ctx, bucket, items)
}

// vetoes changes what a worker sees of holds. What it leaves out is covered up, so that
// the worker does not notice a set that was cut short.
type vetoes struct {
	ledgerView
	keep func(hold.Hold) bool
	// stale: the holds are read before the epoch.
	stale *hold.Set
}

func (v vetoes) Epoch(ctx context.Context, tenant string) (int64, error) {
	if v.stale != nil {
		set, err := v.ledgerView.Holds(ctx, tenant)
		if err != nil {
			return 0, err
		}
		*v.stale = set
	}
	return v.ledgerView.Epoch(ctx, tenant)
}

func (v vetoes) Holds(ctx context.Context, tenant string) (hold.Set, error) {
	set, err := v.ledgerView.Holds(ctx, tenant)
	if v.stale != nil {
		set = *v.stale
	}
	epoch, _ := v.ledger.Epoch(ctx, tenant)
	kept := hold.Set{{ID: "none", Tenant: tenant, Scope: hold.Item, Value: "none", Epoch: epoch}}
	for _, h := range set {
		if v.keep == nil || v.keep(h) {
			kept = append(kept, h)
		}
	}
	return kept, err
}

// papers changes what becomes of evidence.
type papers struct {
	evidenceView
	put func(ctx context.Context, v evidenceView, name string, data []byte) error
}

func (p papers) Put(ctx context.Context, name string, data []byte) error {
	return p.put(ctx, p.evidenceView, name, data)
}

// post changes what becomes of messages and letters.
type post struct {
	queueView
	letter func(context.Context, queueView, job.Letter) error
	send   func(context.Context, queueView, job.Mode, []job.Message) ([]string, error)
}

func (p post) DeadLetter(ctx context.Context, l job.Letter) error {
	if p.letter != nil {
		return p.letter(ctx, p.queueView, l)
	}
	return p.queueView.DeadLetter(ctx, l)
}

func (p post) Send(ctx context.Context, mode job.Mode, m []job.Message) ([]string, error) {
	if p.send != nil {
		return p.send(ctx, p.queueView, mode, m)
	}
	return p.queueView.Send(ctx, mode, m)
}

// leaky says what it worked on.
type leaky struct{ *instance }

func (l leaky) Emit(e audit.Event) {
	e.Operation = l.keys[0]
	l.instance.Emit(e)
}

// heard changes what is said; nil is nothing.
type heard struct {
	*instance
	say func(audit.Event) *audit.Event
}

func (h heard) Emit(e audit.Event) {
	if said := h.say(e); said != nil {
		h.instance.Emit(*said)
	}
}

func ofAudit(name string, say func(audit.Event) *audit.Event) killer {
	return killer{Mutant: Mutant{Name: name, Worker: func(c *worker.Config, i *instance) { c.Audit = heard{i, say} }}}
}

// ofRows, ofStore, ofHolds and ofPapers make mutants of what a worker is given.
func ofRows(name string, r rows) killer {
	return killer{Mutant: Mutant{Name: name, Worker: func(c *worker.Config, i *instance) {
		r := r
		r.ledgerView = ledgerView{i}
		c.Records, c.Writes = r, r
	}}}
}

func ofStore(name string, o objects) killer {
	return killer{Mutant: Mutant{Name: name, Worker: func(c *worker.Config, i *instance) {
		o := o
		o.storeView = storeView{i}
		c.Artifacts = o
	}}}
}

func ofHolds(name string, keep func(hold.Hold) bool) killer {
	return killer{Mutant: Mutant{Name: name, Worker: func(c *worker.Config, i *instance) { c.Holds = vetoes{ledgerView: ledgerView{i}, keep: keep} }}}
}

func ofPapers(name string, put func(ctx context.Context, v evidenceView, name string, data []byte) error) killer {
	return killer{Mutant: Mutant{Name: name, Worker: func(c *worker.Config, i *instance) { c.Evidence = papers{evidenceView{i}, put} }}}
}

// forced writes a page whatever stands in its row: a ledger without conditions.
func forced(ctx context.Context, l ledgerView, next job.Page) error {
	stored, err := l.ledger.Page(ctx, next.Run, next.Tenant, next.ID)
	if err == nil {
		next.Rev = stored.Rev + 1
	}
	return l.SwapPage(ctx, next)
}

// answering changes the answers of a delete.
func answering(change func(d job.Deletion, said []job.Answer) []job.Answer) objects {
	return objects{send: func(ctx context.Context, v storeView, d job.Deletion) ([]job.Answer, error) {
		said, err := v.Delete(ctx, d)
		if err == nil {
			said = change(d, said)
		}
		return said, err
	}}
}

func workerMutants() []killer {
	return []killer{
		ofRows("ack-before-commit", rows{complete: func(ctx context.Context, l ledgerView, next job.Page, children []job.Page) error {
			_ = l.Complete(ctx, next, children)
			return nil
		}}),
		ofRows("claimed-means-done", rows{seen: func(i *instance, p job.Page) job.Page {
			if p.LeaseLive(i.clock()) && p.Owner != i.owner {
				p.State = job.Completed
			}
			return p
		}}),
		ofRows("no-fence", rows{swap: forced, complete: func(ctx context.Context, l ledgerView, next job.Page, children []job.Page) error {
			stored, _ := l.ledger.Page(ctx, next.Run, next.Tenant, next.ID)
			next.Rev = stored.Rev + 1
			return l.Complete(ctx, next, children)
		}}),
		ofRows("epoch-not-checked", rows{intend: func(ctx context.Context, l ledgerView, next job.Page, _ int64) error {
			return l.SwapPage(ctx, next)
		}}),
		ofRows("fresh-epoch-checked", rows{intend: func(ctx context.Context, l ledgerView, next job.Page, _ int64) error {
			epoch, _ := l.ledger.Epoch(ctx, next.Tenant)
			return l.Intend(ctx, next, epoch)
		}}),
		ofRows("intent-grown", rows{intend: func(ctx context.Context, l ledgerView, next job.Page, epoch int64) error {
			next.Intent.Deletes = next.Candidates + 1
			return l.Intend(ctx, next, epoch)
		}}),
		ofRows("delete-before-intent", rows{intend: func(_ context.Context, l ledgerView, next job.Page, epoch int64) error {
			l.later("intend", 3*time.Second, func() error { return l.ledger.Intend(context.Background(), next, epoch) })
			return nil
		}}),
		ofRows("lease-ignored", rows{seen: func(i *instance, p job.Page) job.Page {
			if p.Owner != i.owner {
				p.LeaseEnd = time.Time{}
			}
			return p
		}}),
		ofRows("run-gate-off", rows{run: func(_ *instance, r job.Run) job.Run {
			r.State = job.Released
			return r
		}}),
		ofRows("brake-ignored", rows{brakes: func([]job.Brake) []job.Brake { return nil }}),
		ofRows("cutoff-recomputed", rows{run: func(i *instance, r job.Run) job.Run {
			r.Cutoff = r.Cutoff.Add(i.clock().Sub(r.OpenedAt))
			return r
		}}),
		ofRows("children-lost", rows{complete: func(ctx context.Context, l ledgerView, next job.Page, _ []job.Page) error {
			return l.Complete(ctx, next, nil)
		}}),
		ofRows("children-without-intent", rows{complete: func(ctx context.Context, l ledgerView, next job.Page, children []job.Page) error {
			for i := range children {
				children[i].Intent, children[i].QuietAt = job.Intent{}, time.Time{}
			}
			return l.Complete(ctx, next, children)
		}}),
		ofRows("veto-settled-at-once", rows{seen: func(i *instance, p job.Page) job.Page {
			if p.Owner != i.owner && !p.QuietAt.IsZero() {
				p.QuietAt = i.clock().Add(-time.Minute)
			}
			return p
		}}),
		ofRows("attempts-not-counted", rows{seen: func(_ *instance, p job.Page) job.Page {
			p.Spent = p.Attempts
			return p
		}}),
		ofRows("intent-forgotten", rows{seen: func(i *instance, p job.Page) job.Page {
			if p.Owner != i.owner {
				p.Intent, p.Receipt, p.Counts = job.Intent{}, "", job.Counts{}
			}
			return p
		}}),
		ofRows("settled-comes-back", rows{seen: func(i *instance, p job.Page) job.Page {
			if p.State.Terminal() && p.Owner != i.owner {
				p.State, p.LeaseEnd = job.Claimed, i.clock().Add(time.Hour)
			}
			return p
		}}),
		ofRows("waits-cut-short", rows{seen: func(_ *instance, p job.Page) job.Page {
			p.RetryAt = time.Time{}
			return p
		}}),
		ofRows("children-of-another-epoch", rows{complete: func(ctx context.Context, l ledgerView, next job.Page, children []job.Page) error {
			for i := range children {
				children[i].Intent.Epoch += 1 << 30
			}
			return l.Complete(ctx, next, children)
		}}),
		ofRows("given-up-goes-on", rows{seen: func(_ *instance, p job.Page) job.Page {
			p.Abandoned = false
			return p
		}}),
		ofRows("quiet-at-lease-end", rows{intend: func(ctx context.Context, l ledgerView, next job.Page, epoch int64) error {
			next.QuietAt = next.LeaseEnd
			return l.Intend(ctx, next, epoch)
		}}),
		ofRows("answers-forgotten", rows{swap: func(ctx context.Context, l ledgerView, next job.Page) error {
			if next.State == job.Retrying || next.State == job.Dead {
				next.Receipt = ""
			}
			return l.SwapPage(ctx, next)
		}}),
		ofRows("brakes-cost-attempts", rows{swap: func(ctx context.Context, l ledgerView, next job.Page) error {
			if next.State == job.Planned {
				next.Attempts++
			}
			return l.SwapPage(ctx, next)
		}}),
		ofRows("settled-means-open", rows{seen: func(_ *instance, p job.Page) job.Page {
			if p.State == job.Completed {
				p.State = job.Sent
			}
			return p
		}}),
		ofRows("counts-doubled", rows{complete: func(ctx context.Context, l ledgerView, next job.Page, children []job.Page) error {
			next.Counts = next.Counts.Plus(next.Counts)
			return l.Complete(ctx, next, children)
		}}),
		ofRows("redelivered-after-dead", rows{seen: func(_ *instance, p job.Page) job.Page {
			if p.State == job.Dead {
				p.State = job.Sent
			}
			return p
		}}),
		{Mutant: Mutant{Name: "no-condition", Land: func(w *world, d *job.Deletion) {
			for n, item := range d.Items {
				if now, there := w.store.Get(d.Bucket, item.Ref()); there {
					d.Items[n].ETag = now.ETag
				}
			}
		}}},
		ofStore("partial-errors-swallowed", answering(func(_ job.Deletion, said []job.Answer) []job.Answer {
			for n, a := range said {
				if a == job.Slow || a == job.Unsure || a == job.Denied {
					said[n] = job.Gone
				}
			}
			return said
		})),
		ofStore("quiet-answers", answering(func(d job.Deletion, said []job.Answer) []job.Answer {
			for len(said) < len(d.Items) {
				said = append(said, job.Gone)
			}
			return said
		})),
		ofStore("differs-means-gone", answering(func(_ job.Deletion, said []job.Answer) []job.Answer {
			for n, a := range said {
				if a == job.Differs || a == job.Locked {
					said[n] = job.Gone
				}
			}
			return said
		})),
		ofStore("absent-means-gone", answering(func(_ job.Deletion, said []job.Answer) []job.Answer {
			for n, a := range said {
				if a == job.NotThere {
					said[n] = job.Gone
				}
			}
			return said
		})),
		ofStore("request-outlives-its-signature", objects{send: func(_ context.Context, v storeView, d job.Deletion) ([]job.Answer, error) {
			f := &flight{d: d, page: v.truth.claims[v.owner], until: v.clock().Add(time.Hour)}
			v.at(30*time.Minute, func() { _, _ = v.land(context.Background(), f) })
			return nil, network("delete")
		}}),
		{Mutant: Mutant{Name: "other-tenant", Land: func(w *world, d *job.Deletion) {
			d.Items[0].Key = w.keys[len(w.keys)-1]
			now, _ := w.store.Get(d.Bucket, d.Items[0].Ref())
			d.Items[0].ETag = now.ETag
		}}},
		{Mutant: Mutant{Name: "other-bucket", Land: func(w *world, d *job.Deletion) {
			d.Bucket = "elsewhere"
			sure(w.store.CreateBucket(d.Bucket, w.versioned))
			for n := range d.Items {
				put, err := w.store.Put(d.Bucket, d.Items[n])
				sure(err)
				d.Items[n].Version = put.Version
			}
		}}},
		ofStore("marker-means-erased", answering(func(_ job.Deletion, said []job.Answer) []job.Answer {
			for n, a := range said {
				if a == job.Marked {
					said[n] = job.Gone
				}
			}
			return said
		})),
		ofStore("client-retries", objects{send: func(ctx context.Context, v storeView, d job.Deletion) ([]job.Answer, error) {
			said, err := v.Delete(ctx, d)
			for failure.Is(err, failure.Network) {
				said, err = v.Delete(ctx, d)
			}
			return said, err
		}}),
		ofStore("signed-after-lease", objects{send: func(ctx context.Context, v storeView, d job.Deletion) ([]job.Answer, error) {
			d.NotAfter = d.NotAfter.Add(time.Hour)
			return v.Delete(ctx, d)
		}}),
		ofStore("erased-whatever-stands", objects{standing: func(ctx context.Context, v storeView, b string, items []job.Item) ([]job.Standing, error) {
			said, err := v.Standing(ctx, b, items)
			for n := range said {
				said[n] = job.Erased
			}
			return said, err
		}}),
		ofStore("markers-not-looked-under", objects{standing: func(_ context.Context, _ storeView, _ string, items []job.Item) ([]job.Standing, error) {
			said := make([]job.Standing, len(items))
			for n := range said {
				said[n] = job.UnderMarker
			}
			return said, nil
		}}),
		ofStore("listing-cut", objects{list: func(ctx context.Context, v storeView, q job.Query) (job.Listing, error) {
			l, err := v.List(ctx, q)
			l.Token = ""
			return l, err
		}}),
		ofStore("deletes-what-it-lists", objects{list: func(ctx context.Context, v storeView, q job.Query) (job.Listing, error) {
			l, err := v.List(ctx, q)
			if err == nil && len(l.Items) > 0 {
				_, _ = v.Delete(ctx, job.Deletion{Bucket: q.Bucket, Items: l.Items[:1], NotAfter: v.clock().Add(time.Second)})
			}
			return l, err
		}}),
		ofHolds("holds-ignored", func(hold.Hold) bool { return false }),
		ofHolds("released-holds-forgotten", hold.Hold.Active),
		{Mutant: Mutant{Name: "epoch-after-holds", Worker: func(c *worker.Config, i *instance) {
			c.Holds = vetoes{ledgerView: ledgerView{i}, stale: &hold.Set{}}
		}}},
		ofPapers("plan-not-kept", func(ctx context.Context, v evidenceView, name string, data []byte) error {
			if parts, err := receipt.ParseName(name); err == nil && parts.Kind == receipt.Plan {
				return nil
			}
			return v.Put(ctx, name, data)
		}),
		ofPapers("evidence-altered", func(ctx context.Context, v evidenceView, name string, data []byte) error {
			return v.Put(ctx, name, append(data, 0))
		}),
		ofPapers("evidence-errors-swallowed", func(ctx context.Context, v evidenceView, name string, data []byte) error {
			_ = v.Put(ctx, name, data)
			return nil
		}),
		{Mutant: Mutant{Name: "letter-not-durable", Worker: func(c *worker.Config, i *instance) {
			c.Letters = post{queueView: queueView{i}, letter: func(ctx context.Context, q queueView, l job.Letter) error {
				_ = q.DeadLetter(ctx, l)
				return nil
			}}
		}}},
		{Mutant: Mutant{Name: "letter-mislabelled", Worker: func(c *worker.Config, i *instance) {
			c.Letters = post{queueView: queueView{i}, letter: func(ctx context.Context, q queueView, l job.Letter) error {
				l.Reason = job.ReasonAge
				return q.DeadLetter(ctx, l)
			}}
		}}},
		{Mutant: Mutant{Name: "kept-for-nothing", Worker: func(c *worker.Config, _ *instance) {
			c.Decide = func(f policy.Facts) policy.Decision {
				d := policy.Decide(f)
				if d.Delete {
					d.Delete, d.Outcome, d.Reason = false, job.Retained, policy.Unconditional
				}
				return d
			}
		}}},
		ofAudit("parked-in-silence", func(e audit.Event) *audit.Event {
			if e.Event == audit.Parked || e.Event == audit.DuplicateObserved {
				return nil
			}
			return &e
		}),
		ofAudit("deletions-not-told", func(e audit.Event) *audit.Event {
			e.Deleted = 0
			return &e
		}),
		{Mutant: Mutant{Name: "sixth-attempt", Worker: func(c *worker.Config, _ *instance) {
			c.Settings.MaxAttempts++
			c.Settings.RedriveAttempts++ // which is always more
			c.Settings.MaxReceives += 2
		}}},
		{Mutant: Mutant{Name: "key-in-an-event", Worker: func(c *worker.Config, i *instance) { c.Audit = leaky{i} }}},
		{Mutant: Mutant{Name: "wrong-region", Worker: func(c *worker.Config, i *instance) { c.Region = "us-east-1" }}},
		{Mutant: Mutant{Name: "all-acknowledged", Answer: func(worker.Response) worker.Response { return worker.Response{} }}},
	}
}
