package reconcile

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
)

// service is the name under which a pass measures, and signs what it writes down.
const service = contract.ServiceReconcile

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

// measureOpen publishes the ages, of every policy that has open pages: one that is no
// longer deployed is somebody's all the same.
func (p *pass) measureOpen() {
	begun := time.Duration(0)
	for _, name := range slices.Sorted(maps.Keys(p.open)) {
		of := p.open[name]
		p.measure(contract.OldestOpenPageAge, name, of.oldest.Seconds())
		p.measure(contract.OldestIncompletePageAge, name, of.begun.Seconds())
		begun = max(begun, of.begun)
	}
	p.measure(contract.OldestIncompletePageAge, "", begun.Seconds())
}

// countDead counts each policy's pages that wait for an operator.
func (p *pass) countDead(ctx context.Context) {
	dead := map[string]int{}
	for last := (*job.Page)(nil); !p.late(); {
		pages, err := p.Index.DeadPages(ctx, last, openBatch)
		if err != nil {
			p.note(err)
			break
		}
		if len(pages) == 0 {
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
	for _, name := range slices.Sorted(maps.Keys(dead)) {
		p.measure(contract.DeadPages, name, float64(dead[name]))
	}
}

// measure publishes what a pass has seen of a policy, or of the region for "". Where not
// all of it was seen, it is at least that. 0 is not published: a metric costs money for
// each hour in which it has a value.
func (p *pass) measure(m contract.Metric, of string, value float64) {
	if value > 0 {
		p.publish(m, of, value)
	}
}

func (p *pass) publish(m contract.Metric, of string, value float64) {
	p.Gauges.Measure(audit.Measurement{Time: p.now(), Metric: m, Service: service, Policy: of, Value: value})
}
