package sim

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// runOracles look at how runs come to be, at dates without one, and at what is said of
// both. What nobody is told of, nobody mends.
func runOracles() []Oracle {
	return []Oracle{
		{"S2a", "no date has a run before it has come", on(runWritten), beforeItsDate},
		{"S9f", "a run that only reports waits for nobody", on(runWritten), reportWaits},
		{"L1b", "when a scan ends, every candidate that stands is counted by one page", on(runWritten), unscanned},
		{"F14a", "a page is recorded with no more candidates than a page holds", on(pageWritten), tooLarge},
		{"L6", "before a run waits for a person, or only reports for want of one, it is said", on(runWritten), untold},
		{"L3a", "a date is called missed only when it is due and has no run", on(emitted), calledMissed},
		{"L3b", "the newest of the missed dates is asked for, where the policy says so and nowhere else", on(startAsked, worldEnded), wrongStart},
		{"L3c", "the lag that is measured is that of the dates without a closed run", on(measured), wrongLag},
		{"L3d", "a pass says the lag, and how many pages are dead and how old the open ones are", on(passEnded), unmeasured},
		{"L7", "that a page is dead is said", on(passEnded), unsaid},
		{"F7", "what reconcile sends is due", on(messageSent), sentUndue},
		{"S8a", "a message goes to the queue of its run's mode", on(messageSent), otherQueue},
		{"S16b", "reconcile lets a page die only past its limits, and of nothing that was answered", on(pageWritten), buriedAlive},
		{"F10", "a page that was never claimed is voided only when its run was rejected", on(pageWritten), voided},
	}
}

func beforeItsDate(t *truth, m *moment) string {
	if m.ranBefore.ID == "" && m.run.Scheduled.After(m.at.Add(t.w.settings.ClockSkew+skew)) {
		return "its date comes at " + m.run.Scheduled.String()
	}
	return ""
}

func reportWaits(_ *truth, m *moment) string {
	if m.run.State == job.AwaitingApproval && m.run.Mode == job.ReportOnly {
		return "the run waits"
	}
	return ""
}

// scanEnds reports whether the write is the one that ends a scan.
func scanEnds(m *moment) bool {
	return m.ranBefore.State == job.Scanning && m.run.State != job.Scanning
}

// unscanned looks at what stands in the bucket when a scan ends. What somebody has
// changed meanwhile, the scan may have seen otherwise.
func unscanned(t *truth, m *moment) string {
	if !scanEnds(m) {
		return ""
	}
	p, err := t.w.ledger.Policy(context.Background(), m.run.Policy, m.run.Version)
	sure(err)
	objects := t.w.store.Objects
	if p.Versions == policy.AllVersions {
		objects = t.w.store.Versions
	}
	counted, keys := map[*pageTruth]int{}, map[*pageTruth]map[string]bool{}
	for item := range objects(p.Bucket) {
		tenant, ours := p.TenantOf(item.Key)
		if !ours || m.run.Tenant != "" && tenant != m.run.Tenant || !item.Modified.Before(m.run.Cutoff) || t.touched[item.Key] || t.planner(item.Key) != nil ||
			item.Marker && p.Versions != policy.AllVersions {
			continue
		}
		page := t.rangeOf(m.run.ID, tenant, strings.TrimPrefix(item.Key, p.TenantPrefix(tenant)))
		if page == nil {
			return item.Key + " is in no page"
		}
		if keys[page] == nil {
			keys[page] = map[string]bool{}
		}
		counted[page]++
		keys[page][item.Key] = true
	}
	for page, n := range counted { // only the versions of one key may be more than a page holds (F15)
		if least := min(n, t.w.settings.PageItems); page.row.Candidates < least || len(keys[page]) > 1 && page.row.Candidates < n {
			return fmt.Sprintf("page %s counts %d candidates of %d", page.row.ID, page.row.Candidates, n)
		}
	}
	return ""
}

// rangeOf returns the page of a run whose range has the key in it.
func (t *truth) rangeOf(run job.RunID, tenant, rel string) *pageTruth {
	for _, p := range t.order {
		if p.row.Run == run && p.row.Tenant == tenant && p.row.Kind == job.RangePage && p.row.After < rel && rel <= p.row.Through {
			return p
		}
	}
	return nil
}

func tooLarge(t *truth, m *moment) string {
	if most := t.w.settings.PageItems; m.was.ID == "" && m.page.Candidates > most {
		return fmt.Sprintf("%d candidates, and a page holds %d", m.page.Candidates, most)
	}
	return ""
}

func untold(t *truth, m *moment) string {
	for event, said := range map[audit.Name]bool{
		audit.GuardTripped:       scanEnds(m) && m.run.State == job.AwaitingApproval,
		audit.VersionNotApproved: scanEnds(m) && len(m.run.Ratchet) > 0,
	} {
		if said && t.said[about{event, string(m.run.ID)}].IsZero() {
			return "no " + string(event)
		}
	}
	return ""
}

func calledMissed(t *truth, m *moment) string {
	e := &m.event
	if e.Event != audit.DateMissed || m.by == nil {
		return ""
	}
	if run, ran := t.runs[e.RunID]; ran && run.OpenedAt.Add(skew).Before(m.by.began) {
		return "its run was opened at " + run.OpenedAt.String()
	}
	if m.at.Add(skew).Before(e.Scheduled.Add(t.w.settings.MissedAfter)) {
		return "the date is " + e.Scheduled.String()
	}
	return ""
}

// wrongStart looks at each date that is asked for, and at the end for one that was not.
// Whoever has said that a date is missed, and dies, has its successor say it again.
func wrongStart(t *truth, m *moment) string {
	if m.kind == worldEnded {
		for _, d := range t.w.dues() {
			id, p := job.ScheduledRunID(region, d.policy, t.newestMissed[d.policy]), t.w.current
			if d.policy == secondName {
				p = t.w.second.policy
			}
			if missed := !t.newestMissed[d.policy].IsZero(); missed && !t.ran(d.policy, t.newestMissed[d.policy]) && !t.asked[id] && p.Schedule.CatchUp {
				return "nobody has asked for " + t.newestMissed[d.policy].String() + " of " + d.policy
			}
		}
		return ""
	}
	p := m.by.deployed()[m.name]
	switch id := job.ScheduledRunID(region, m.name, m.scheduled); {
	case !p.Schedule.CatchUp:
		return "the policy does not ask for it"
	case t.missed[id].IsZero():
		return "nobody has called it missed"
	case m.scheduled.Before(t.newestMissed[m.name]) && !t.ran(m.name, t.newestMissed[m.name]):
		return "a later date is missed too"
	}
	return ""
}

// ran reports whether a date has its run.
func (t *truth) ran(name string, at time.Time) bool {
	_, ran := t.runs[job.ScheduledRunID(region, name, at)]
	return ran
}

// wrongLag holds what a pass measures between what was so when it began and what is now.
// The region's lag is the largest.
// wrongLag leaves out a pass that stood still beyond its time: it tells of what it saw.
func wrongLag(t *truth, m *moment) string {
	if m.gauge.Metric != contract.BusinessDateLag || m.by == nil || m.by.p.ends == forever {
		return ""
	}
	least, most := 0, 0
	for name := range m.by.deployed() {
		if m.gauge.Policy == "" || m.gauge.Policy == name {
			low, high := t.lag(m.by.deployed()[name], m.by.began.Add(-skew), m.at.Add(skew))
			least, most = max(least, low), max(most, high)
		}
	}
	v := int(m.gauge.Value)
	if m.gauge.Policy == "" && v > 0 { // of some policies it may not know: then it is at least what is said
		least = 0
		for name := range m.by.deployed() {
			known, _ := t.measuredBy(m.by, contract.BusinessDateLag, name) // which was right then, whatever was closed since
			least, most = max(least, int(known)), max(most, int(known))
		}
	}
	if v < least || v > most {
		return fmt.Sprintf("%d is said, and it is %d to %d", v, least, most)
	}
	return ""
}

// lag returns the least and the most that a pass may find between two instants.
func (t *truth) lag(p policy.Policy, from, to time.Time) (least, most int) {
	w, err := t.w.ledger.Watch(context.Background(), p.Name)
	sure(err)
	if w.Rev == 0 {
		return 0, math.MaxInt
	}
	now, then := w.Since, w.Since
	for _, r := range t.runs {
		if r.Policy != p.Name || r.State != job.Closed || r.RequestID != "" {
			continue
		}
		if r.Scheduled.After(now) {
			now = r.Scheduled
		}
		if r.ClosedAt.Before(from) && r.Scheduled.After(then) {
			then = r.Scheduled
		}
	}
	return len(p.Schedule.Dates(now, from.Add(-p.Objective), 100)), len(p.Schedule.Dates(then, to.Add(-p.Objective), 100))
}

// unmeasured looks at passes at which nothing went wrong.
func unmeasured(t *truth, m *moment) string {
	if t.w.calm.IsZero() || !t.w.calm.Before(m.by.began) {
		return ""
	}
	if _, said := t.measuredBy(m.by, contract.BusinessDateLag, ""); !said {
		return "no lag of the region"
	}
	dead, oldest := map[string]int{}, map[string]time.Duration{}
	for _, p := range t.order {
		run := t.runs[p.row.Run]
		switch {
		case run.State != job.Released || !p.since.Before(m.by.began):
		case p.row.State == job.Dead && !p.row.Death.LetterAt.IsZero():
			dead[run.Policy]++
		case p.row.State.Open():
			oldest[run.Policy] = max(oldest[run.Policy], m.by.began.Sub(p.row.RunnableAt(run)))
		}
	}
	for name, p := range m.by.deployed() {
		low, _ := t.lag(p, m.by.began.Add(-skew), m.at.Add(skew))
		if v, _ := t.measuredBy(m.by, contract.BusinessDateLag, name); int(v) < low {
			return fmt.Sprintf("the lag of %s is %d, and %.0f is said", name, low, v)
		}
	}
	for name, n := range dead {
		if v, _ := t.measuredBy(m.by, contract.DeadPages, name); int(v) < n {
			return fmt.Sprintf("%d dead pages of %s, and %.0f are said", n, name, v)
		}
	}
	for name, age := range oldest {
		if v, _ := t.measuredBy(m.by, contract.OldestOpenPageAge, name); v < (age - skew).Seconds() {
			return fmt.Sprintf("a page of %s is open for %s, and %.0f s are said", name, age, v)
		}
	}
	return ""
}

// measuredBy returns what an invocation has measured.
func (t *truth) measuredBy(i *instance, metric contract.Metric, of string) (value float64, said bool) {
	m, known := t.gauges[gauge{i, metric, of}]
	if !known || m.at.Before(i.began) {
		return 0, false
	}
	return m.value, true
}

// unsaid asks of what happened when nothing went wrong any more: a process that dies
// between the row and the line says nothing.
func unsaid(t *truth, m *moment) string {
	for _, p := range t.order {
		at := p.row.Death.LetterAt
		if p.row.State == job.Dead && !t.w.calm.IsZero() && at.After(t.w.calm.Add(2*skew)) && at.Add(skew).Before(m.at) && t.said[about{audit.DeadLettered, string(p.row.ID)}].Before(at.Add(-skew)) {
			return "page " + string(p.row.ID) + " is dead"
		}
	}
	return ""
}

// sentUndue looks at rows that have not moved since the pass began.
func sentUndue(t *truth, m *moment) string {
	if m.by == nil || m.by.function != "reconcile" {
		return ""
	}
	p := t.pageOf(m.message.Body)
	if p == nil || !p.since.Before(m.by.began) {
		return ""
	}
	if p.row.NextDue.After(m.at.Add(skew)) {
		return "the page is due at " + p.row.NextDue.String()
	}
	return ""
}

func otherQueue(t *truth, m *moment) string {
	if p := t.pageOf(m.message.Body); p != nil && t.runs[p.row.Run].Mode != m.mode {
		return "the run is " + string(t.runs[p.row.Run].Mode)
	}
	return ""
}

func buriedAlive(t *truth, m *moment) string {
	if m.by == nil || m.by.function != "reconcile" || m.page.State != job.Dead || m.was.State == job.Dead {
		return ""
	}
	was, is := &m.was, &m.page
	set := &t.w.settings
	reason, over := was.Expired(m.at.Add(skew), set.MaxAttempts, set.AgeCeiling)
	switch {
	case !over || reason != is.Death.Reason:
		return fmt.Sprintf("it died of %s after %d attempts", is.Death.Reason, was.Tries())
	case was.Receipt != is.Receipt || was.Counts != is.Counts || was.Planned != is.Planned || was.Moved != is.Moved || was.Bytes != is.Bytes:
		return "its row forgets what was answered"
	}
	return ""
}

func voided(t *truth, m *moment) string {
	if s := t.runs[m.page.Run].State; m.page.State == job.Discarded && m.was.State == job.Planned && s != job.Rejected {
		return "the run is " + string(s)
	}
	return ""
}
