package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/report"
)

// tuneCommand derives concurrency and alarm thresholds from what the ledger has
// measured (R114, R115). It asks nothing but the ledger.
type tuneCommand struct {
	Policy  string `placeholder:"NAME" help:"Only pages of this policy."`
	Days    int    `default:"7" help:"How many days of runs to look at."`
	Workers int    `placeholder:"N" help:"The present maximum concurrency; the region's default when not given."`
	Example bool   `help:"Show the arithmetic on an example, and ask no deployment: 90 seconds a page, 5 workers, 10 minutes."`
}

func (c *tuneCommand) exits() exits {
	return exits{Done: "shown", Wrong: "there is nothing to measure by: no page has ended in that time"}
}

// comfort is the utilisation that is planned for: above it, waiting grows faster than
// load.
const comfort = 0.6

// capacity is what a number of workers gets done in a time.
type capacity struct {
	Workers        int     `json:"workers"`
	WindowSeconds  float64 `json:"window_seconds"`
	ServiceSeconds float64 `json:"service_seconds"`
	// Full is at full use, Comfortable at 60 %, in whole pages.
	Full        int `json:"full"`
	Comfortable int `json:"comfortable"`
}

func newCapacity(workers int, window, service time.Duration) capacity {
	full := float64(workers) * window.Seconds() / service.Seconds()
	return capacity{workers, window.Seconds(), service.Seconds(), int(full), int(comfort * full)}
}

// sentence shows the arithmetic.
func (c capacity) sentence() string {
	return fmt.Sprintf("%d workers x %s s / %s s a page = %.1f: %d pages at full use, and 60 %% of that, %d, with room for a burst.",
		c.Workers, plainSeconds(c.WindowSeconds), plainSeconds(c.ServiceSeconds), math.Floor(float64(c.Workers)*c.WindowSeconds/c.ServiceSeconds*10)/10, c.Full, c.Comfortable)
}

// plainSeconds writes seconds with one decimal at most.
func plainSeconds(s float64) string {
	return strconv.FormatFloat(math.Round(s*10)/10, 'f', -1, 64)
}

// tuned is the answer.
type tuned struct {
	Head
	Since  time.Time `json:"since"`
	Policy string    `json:"policy,omitzero"`
	Pages  int       `json:"pages"` // that ended, and were measured
	More   bool      `json:"more"`  // there are more than were read

	// Service is how long a page's last claim took, Wait from when it could run to its end.
	ServiceMedian float64 `json:"service_median_seconds"`
	Service95     float64 `json:"service_p95_seconds"`
	WaitMedian    float64 `json:"wait_median_seconds"`
	Wait95        float64 `json:"wait_p95_seconds"`
	// Retried is how many pages took more than one attempt.
	Retried int `json:"retried"`

	// Busiest is how many pages began to be runnable within one objective at the most,
	// BusiestWork how long they took together, and BusiestAt when that was.
	ObjectiveSeconds float64   `json:"objective_seconds"`
	Busiest          int       `json:"busiest_pages"`
	BusiestWork      float64   `json:"busiest_work_seconds"`
	BusiestAt        time.Time `json:"busiest_at"`
	PerDay           float64   `json:"pages_per_day"`

	Workers     int     `json:"workers"`
	Utilisation float64 `json:"utilisation"` // of the workers within the busiest objective, 0 to 1 and above
	// Suggested is the concurrency at which that is 60 %; AlarmSeconds when to page.
	Suggested    int     `json:"suggested_workers"`
	AlarmSeconds float64 `json:"page_alarm_seconds"`

	Capacity capacity `json:"capacity"`
	// Arithmetic says how each number came about.
	Arithmetic []string `json:"arithmetic"`
	example    bool
}

func (c *tuneCommand) run(ctx context.Context, d *desk) error {
	switch {
	case c.Days < 1 || c.Days > 365:
		return usage("--days is 1 to 365", "expunge tune --help")
	case c.Workers < 0 || c.Workers > 1000:
		return usage("--workers is 1 to 1000", "expunge tune --help")
	case c.Example:
		return d.show(example())
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	now := d.Clock.Now().UTC().Truncate(time.Second)
	a := &tuned{Since: now.AddDate(0, 0, -c.Days), Policy: c.Policy, Workers: c.Workers, Arithmetic: []string{}}
	if a.Workers == 0 {
		a.Workers = r.settings.Concurrency
	}
	objective := r.settings.Objective
	if c.Policy != "" {
		p, err := deployedPolicy(ctx, d, c.Policy, newestWord)
		if err != nil {
			return err
		}
		objective = p.Objective
	}
	pages, more, err := observedSince(ctx, r.records, c.Policy, a.Since)
	if err != nil {
		return err
	}
	m := measure(pages, r.settings.FunctionTimeout)
	if a.More = more; len(m) == 0 {
		return wrong("no page has ended since "+instant(a.Since)+": there is nothing to measure by", d.command("tune", "--days="+strconv.Itoa(min(365, 4*c.Days))), d.command("tune", "--example"))
	}
	a.from(m, objective, now)
	return d.show(a)
}

// example is the arithmetic on round numbers: five workers at 90 seconds a page get 33
// done in ten minutes, and 20 at the utilisation that one plans for (ruling C2).
func example() *tuned {
	c := newCapacity(5, 10*time.Minute, 90*time.Second)
	return &tuned{Capacity: c, Workers: c.Workers, Arithmetic: []string{c.sentence()}, example: true}
}

// measured is one page's times.
type measured struct {
	runnable      time.Time
	service, wait time.Duration
	retried       bool
}

// measure takes the times of the pages that workers ended. A lease ends with its
// invocation's deadline, so the last claim began a function timeout before that, or
// later where the invocation had other messages before it: the time is the most that
// the page can have taken.
func measure(pages []observed, timeout time.Duration) (all []measured) {
	for _, o := range pages {
		p := o.page
		if p.State != job.Completed || p.Attempts == 0 || p.LeaseEnd.IsZero() {
			continue
		}
		began, runnable := p.LeaseEnd.Add(-timeout), p.RunnableAt(o.run)
		service := p.SettledAt.Sub(began)
		if service < 0 || service > timeout { // another clock's, or an invocation that was shared
			continue
		}
		all = append(all, measured{runnable, service, p.SettledAt.Sub(runnable), p.Attempts > 1})
	}
	slices.SortFunc(all, func(a, b measured) int { return a.runnable.Compare(b.runnable) })
	return all
}

// from works the numbers out.
func (a *tuned) from(m []measured, objective time.Duration, now time.Time) {
	var services, waits []time.Duration
	for _, p := range m {
		services, waits = append(services, p.service), append(waits, p.wait)
		if p.retried {
			a.Retried++
		}
	}
	slices.Sort(services)
	slices.Sort(waits)
	a.Pages = len(m)
	a.ServiceMedian, a.Service95 = quantile(services, 0.5).Seconds(), quantile(services, 0.95).Seconds()
	a.WaitMedian, a.Wait95 = quantile(waits, 0.5).Seconds(), quantile(waits, 0.95).Seconds()
	a.PerDay = float64(a.Pages) / (now.Sub(a.Since).Hours() / 24)
	a.ObjectiveSeconds = objective.Seconds()
	pages, work, when := busiest(m, objective)
	a.Busiest, a.BusiestAt = pages, when
	a.BusiestWork = work.Seconds()
	a.Utilisation = work.Seconds() / (float64(a.Workers) * objective.Seconds())
	a.Suggested = max(2, int(math.Ceil(work.Seconds()/(comfort*objective.Seconds()))))
	a.AlarmSeconds = contract.AlarmShare * objective.Seconds()
	a.Capacity = newCapacity(a.Workers, objective, max(quantile(services, 0.5), time.Millisecond))
	a.explain()
}

// busiest finds the stretch of one window in which the most work became runnable.
func busiest(m []measured, window time.Duration) (pages int, work time.Duration, at time.Time) {
	first, sum := 0, time.Duration(0)
	for i, p := range m {
		sum += p.service
		for p.runnable.Sub(m[first].runnable) >= window {
			sum -= m[first].service
			first++
		}
		if sum > work {
			pages, work, at = i-first+1, sum, m[first].runnable.UTC()
		}
	}
	return pages, work, at
}

// quantile of sorted durations, by the nearest rank.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// explain shows the arithmetic.
func (a *tuned) explain() {
	add := func(format string, values ...any) {
		a.Arithmetic = append(a.Arithmetic, fmt.Sprintf(format, values...))
	}
	objective := plainSeconds(a.ObjectiveSeconds)
	add("Arrival: %s in %s days are %s a day; the most work within one objective of %s s came at %s, %s of %s s together.",
		report.Count(a.Pages, "page"), plainSeconds(float64(a.Pages)/a.PerDay), plainSeconds(a.PerDay), objective, instant(a.BusiestAt), report.Count(a.Busiest, "page"), plainSeconds(a.BusiestWork))
	add("Utilisation: %s s of work / (%d workers x %s s) = %s %%.", plainSeconds(a.BusiestWork), a.Workers, objective, plainSeconds(100*a.Utilisation))
	add("Maximum concurrency: %s s / (60 %% x %s s) = %.1f, rounded up and 2 at least: %d.", plainSeconds(a.BusiestWork), objective, a.BusiestWork/(comfort*a.ObjectiveSeconds), a.Suggested)
	add("Page alarm: 80 %% of %s s = %s s, for two periods in a row.", objective, plainSeconds(a.AlarmSeconds))
	add("Capacity within one objective: %s", a.Capacity.sentence())
}

func (a *tuned) write(s *sheet) {
	if a.example {
		s.line("An example: 90 s a page, 5 workers, 10 minutes.")
		s.sentence("", a.Arithmetic[0])
		return
	}
	name := "All policies"
	if a.Policy != "" {
		name = "Policy " + a.Policy
	}
	s.sentence("", name+" since "+instant(a.Since)+": "+report.Count(a.Pages, "page")+" measured, "+report.Group(int64(a.Retried))+" of them took more than one attempt.")
	if a.More {
		s.line("There are more; the newest runs were read.")
	}
	s.line()
	t := newTable(left(""), right("median"), right("p95"))
	t.Row("a page's last claim, at most", plainSeconds(a.ServiceMedian)+" s", plainSeconds(a.Service95)+" s")
	t.Row("from runnable to its end", plainSeconds(a.WaitMedian)+" s", plainSeconds(a.Wait95)+" s")
	s.table(t)
	s.line()
	for _, text := range a.Arithmetic {
		s.sentence("", text)
	}
	s.heading("Suggested")
	s.facts(
		[2]string{"maximum concurrency", strconv.Itoa(a.Suggested) + ", and " + strconv.Itoa(a.Workers) + " now"},
		[2]string{"page at", plainSeconds(a.AlarmSeconds) + " s, two periods in a row"},
	)
}
