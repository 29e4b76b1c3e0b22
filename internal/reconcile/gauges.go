package reconcile

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// service is the name under which a pass measures, and signs what it writes down.
const service = "reconcile"

// openWork is what a policy's open pages are: the age of the oldest, and of the
// oldest that a worker has begun.
type openWork struct{ oldest, begun time.Duration }

// see counts a page that the index shows. A page may run since its run was released,
// and a brake does not stop the clock: it is a reason for being late, not an excuse.
func (p *pass) see(run job.Run, page job.Page) {
	if run.State != job.Released || !page.State.Open() {
		return
	}
	if page.RedriveID != "" {
		p.redriven[page.RedriveID] = true
	}
	age := p.now().Sub(page.RunnableAt(run))
	of := p.open[run.Policy]
	of.oldest = max(of.oldest, age)
	if page.State == job.Claimed || page.State == job.Intended || page.State == job.Retrying {
		of.begun = max(of.begun, age)
	}
	p.open[run.Policy] = of
}

// measureOpen publishes the ages, of deployed policies and of any other that still
// has open pages.
func (p *pass) measureOpen(whole bool) {
	whole = whole && !p.unread
	for _, name := range policies(p.Deployed, p.open) {
		p.measure(contract.OldestOpenPageAge, name, p.open[name].oldest.Seconds(), whole)
		p.measure(contract.OldestIncompletePageAge, name, p.open[name].begun.Seconds(), whole)
	}
}

// countDead counts each policy's pages that wait for an operator.
func (p *pass) countDead(ctx context.Context) {
	whole := false
	dead := map[string]int{}
	for last := (*job.Page)(nil); !p.late(); {
		pages, err := p.Index.DeadPages(ctx, last, openBatch)
		if err != nil {
			p.note(err)
			break
		}
		if len(pages) == 0 {
			whole = true
			break
		}
		for _, page := range pages {
			p.unended[page.Run] = true
			run, ok := p.run(ctx, page.Run)
			if ok {
				dead[run.Policy]++
			}
		}
		last = &pages[len(pages)-1]
	}
	for _, name := range policies(p.Deployed, dead) {
		p.measure(contract.DeadPages, name, float64(dead[name]), whole && !p.unread)
	}
}

// policies returns the names of deployed policies, and of others of which something
// was seen, in order.
func policies[V any](deployed map[string]policy.Policy, seen map[string]V) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(deployed)), maps.Keys(seen))
	slices.Sort(names)
	return slices.Compact(names)
}

// measure publishes a value. Where not all of it was seen, it is at least what it
// says, and 0 would say nothing.
func (p *pass) measure(m contract.Metric, of string, value float64, whole bool) {
	if whole || value > 0 {
		p.Gauges.Measure(audit.Measurement{Time: p.now(), Metric: m, Service: service, Policy: of, Value: value})
	}
}
