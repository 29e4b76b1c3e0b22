package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// orderOracles look at what people and schedules order, and at what comes of it.
func orderOracles() []Oracle {
	return []Oracle{
		{"S6a", "an order that was meant for another region is refused", on(orderAnswered, entryWritten), abroad},
		{"S14b", "a schedule redrives only what it is switched on for, within its cap, and after a drill that passed", on(entryWritten, pageWritten), unscheduled},
		{"S5a", "a run that one tenant's request has opened has pages of no other", on(runWritten, pageWritten), ofAnother},
		{"S14c", "a drill ends only a page of its own request that no worker has had, and by an order", on(pageWritten), felledWrongly},
		{"S14d", "a drill passes only when its page came back by a plan without an override, and the poison stayed", on(entryWritten), passedWrongly},
		{"S7c", "what a step sends is the command of a page on record, byte for byte, or a drill's poison", on(messageSent), altered},
		{"C11", "a date has one run of a policy, and a request has one", on(runWritten), secondRun},
		{"S15b", "a redrive that is asked for one policy plans pages of no other", on(orderAnswered), unasked},
		{"F13a", "a page is parked only under a brake that covers its run", on(pageWritten), parkedFree},
		{"S9d", "a run waits for a person only when it is beyond its policy's limits", on(runWritten), stoppedWithin},
		{"S9c", "a version is let delete by a person who names a closed report of it, or by one that deletes no less", on(approvalWritten), approvedBlindly},
	}
}

func approvedBlindly(t *truth, m *moment) string {
	a := &m.approval
	p, err := t.w.ledger.Policy(context.Background(), a.Policy, a.Version)
	if err != nil || p.SHA256() != a.SHA256 {
		return "the version was not published like this"
	}
	if a.RunID == "" {
		return t.wider(p)
	}
	switch run := t.runs[a.RunID]; {
	case run.Policy != a.Policy || run.Version != a.Version || run.PolicySHA256 != a.SHA256:
		return "it names a run of another version"
	case run.Mode != job.ReportOnly || run.RequestID != "":
		return "the run that it names reports on no date"
	case run.State != job.Closed:
		return "the run that it names is " + string(run.State)
	}
	if dates := t.reported(p); len(t.approvals[p.Name]) == 0 && dates < p.ReportOnlyDatesNeeded() {
		return fmt.Sprintf("it has reported on %d dates", dates)
	}
	return ""
}

// reported counts the dates on which a policy has reported.
func (t *truth) reported(p policy.Policy) int {
	dates := map[time.Time]bool{}
	for _, run := range t.runs {
		if run.Policy == p.Name && run.Mode == job.ReportOnly && run.RequestID == "" && run.State == job.Closed {
			dates[run.Scheduled] = true
		}
	}
	return len(dates)
}

// wider says by what the version deletes more than the one that may delete. It compares
// what versions of a world differ in.
func (t *truth) wider(p policy.Policy) string {
	all := t.approvals[p.Name]
	if len(all) == 0 {
		return "nobody has approved a version before"
	}
	last := all[len(all)-1]
	before, err := t.w.ledger.Policy(context.Background(), last.Policy, last.Version)
	if err != nil || before.SHA256() != last.SHA256 {
		return "what may delete is not on record"
	}
	if p.RetentionDays < before.RetentionDays || p.Limits.MaxObjects > before.Limits.MaxObjects {
		return fmt.Sprintf("it keeps %d days, and the one before %d", p.RetentionDays, before.RetentionDays)
	}
	return ""
}

func abroad(_ *truth, m *moment) string {
	if m.kind == entryWritten {
		if m.entry.Region != region {
			return "an order of " + m.entry.Region + " is on record"
		}
		return ""
	}
	if q, ok := m.request.(redrive.ApplyRequest); ok && !strings.HasPrefix(q.Token, region+"/") {
		return "a plan of another region was applied"
	}
	return ""
}

// byTheSchedule is who signs what a schedule orders.
const byTheSchedule = "schedule"

func unscheduled(t *truth, m *moment) string {
	if m.kind == pageWritten {
		plan := t.redrives[m.page.RedriveID]
		if m.page.State != job.Redriven || m.was.State != job.Dead || plan.By != byTheSchedule {
			return ""
		}
		if !t.auto(plan.PlannedAt.Add(-skew), func(a job.AutoRedrive) bool { return a.Reason == m.was.Death.Reason }) {
			return "a schedule moved a page that died of " + string(m.was.Death.Reason)
		}
		return ""
	}
	e := &m.entry
	switch {
	case e.Act != audit.RedriveApplied || e.By != byTheSchedule || m.by == nil:
	case e.Override != "":
		return "a schedule passes over gates"
	case !t.auto(m.by.began, func(a job.AutoRedrive) bool { return e.Count <= a.Cap }):
		return fmt.Sprintf("a schedule moves %d pages and may not", e.Count)
	case !t.drilledAt(m.by.began):
		return "a schedule moves pages, and no drill that passed stands"
	}
	return ""
}

// auto reports whether the scheduled redrive was on at the instant, or switched on since,
// with what ok says of it.
func (t *truth) auto(at time.Time, ok func(job.AutoRedrive) bool) bool {
	for i := len(t.autos) - 1; i >= 0; i-- {
		if a := &t.autos[i]; a.auto.On && ok(a.auto) {
			return true
		} else if a.since.Before(at) {
			return false
		}
	}
	return false
}

// drilledAt reports whether the newest drill of before the instant passed lately, or one
// since.
func (t *truth) drilledAt(at time.Time) bool {
	for i := len(t.entries) - 1; i >= 0; i-- {
		switch e := &t.entries[i]; {
		case e.Act == audit.DrillPassed:
			return e.At.Add(t.w.settings.DrillLife + skew).After(at)
		case e.Act == audit.DrillFailed && e.At.Before(at.Add(-skew)):
			return false
		}
	}
	return false
}

func unasked(_ *truth, m *moment) string {
	q, asked := m.request.(redrive.PlanRequest)
	plan, answered := m.answer.(redrive.Plan)
	if !asked || !answered || q.Policy == "" {
		return ""
	}
	for _, v := range plan.Verdicts {
		if v.Policy != q.Policy {
			return "it plans a page of " + v.Policy
		}
	}
	return ""
}

// parkedFree allows a worker the time since it read the brakes.
func parkedFree(t *truth, m *moment) string {
	if !m.page.Braked || m.was.Braked || m.by == nil {
		return ""
	}
	run := t.runs[m.page.Run]
	for i := range t.braked {
		if b := &t.braked[i]; stops(&b.brake, &run) && (b.until.IsZero() || b.until.After(m.by.began)) {
			return ""
		}
	}
	return "no brake covers the run"
}

func stoppedWithin(t *truth, m *moment) string {
	if m.run.State != job.AwaitingApproval || m.ranBefore.State == job.AwaitingApproval {
		return ""
	}
	p, err := t.w.ledger.Policy(context.Background(), m.run.Policy, m.run.Version)
	sure(err)
	if m.run.Candidates <= p.Limits.MaxObjects {
		return fmt.Sprintf("%d candidates of at most %d", m.run.Candidates, p.Limits.MaxObjects)
	}
	return ""
}

func ofAnother(t *truth, m *moment) string {
	if m.kind == runWritten {
		if m.run.RequestID != "" && m.run.Tenant == "" {
			return "the request is of no tenant"
		}
		return ""
	}
	if run := t.runs[m.page.Run]; run.Tenant != "" && run.Tenant != m.page.Tenant {
		return "a page of " + m.page.Tenant + " in a run of " + run.Tenant
	}
	return ""
}

// felledWrongly looks at pages that redrive ends: only a drill does that.
func felledWrongly(t *truth, m *moment) string {
	if m.page.State != job.Dead || m.was.State == job.Dead || m.by == nil || m.by.function != "redrive" {
		return ""
	}
	switch run := t.runs[m.page.Run]; {
	case !strings.HasPrefix(run.RequestID, redrive.DrillPrefix) || run.Tenant != m.page.Tenant:
		return "the page is no drill's"
	case m.was.Fence != 0 || m.was.Attempts != 0 || m.was.Intent != (job.Intent{}):
		return "a worker has had the page"
	case !t.ordered(audit.DrillStarted, func(e audit.Entry) bool { return e.PageID == m.page.ID }):
		return "no " + string(audit.DrillStarted) + " is on record"
	}
	return ""
}

func passedWrongly(t *truth, m *moment) string {
	if m.entry.Act != audit.DrillPassed {
		return ""
	}
	p := t.pages[m.entry.PageID]
	if p == nil || !strings.HasPrefix(t.runs[p.row.Run].RequestID, redrive.DrillPrefix) {
		return "it names no page of a drill"
	}
	plan := t.redrives[p.row.RedriveID]
	switch {
	case p.row.State != job.Completed || p.row.Attempts == 0:
		return "its page is " + string(p.row.State)
	case plan.AppliedAt.IsZero() || plan.Override != "":
		return "its page was moved by no plan, or by one with an override"
	case !t.letters[string(job.NewCommand(t.runs[p.row.Run], p.row).Encode())]:
		return "its page has left no dead letter"
	}
	for body := range t.letters {
		if sum := sha256.Sum256([]byte(body)); hex.EncodeToString(sum[:]) == redrive.PoisonSHA256(p.row.Run) {
			return ""
		}
	}
	return "the malformed message was never quarantined"
}

func altered(t *truth, m *moment) string {
	p := t.pageOf(m.message.Body)
	if p != nil && t.runs[p.row.Run].Mode == m.mode {
		return ""
	}
	sum := sha256.Sum256(m.message.Body)
	if hex.EncodeToString(sum[:]) == redrive.PoisonSHA256(job.RequestRunID(region, policyName, drillRequest)) {
		return ""
	}
	return "it is no page's command, or in the wrong queue"
}

func secondRun(t *truth, m *moment) string {
	if r := &m.run; r.RequestID == "" && r.ID != job.ScheduledRunID(r.Region, r.Policy, r.Scheduled) {
		return "its name is another date's"
	}
	for id, run := range t.runs {
		if a, b := &run, &m.run; id != b.ID && a.Policy == b.Policy && a.RequestID == b.RequestID && (a.RequestID != "" || a.Scheduled.Equal(b.Scheduled)) {
			return "there is another run of it"
		}
	}
	return ""
}

func unapproved(t *truth, m *moment) string {
	run := m.run
	if m.kind == effectHappened {
		run = t.runs[m.flight.pageRun()]
	}
	names := func(a policy.Approval) bool { return a.Version == run.Version && a.SHA256 == run.PolicySHA256 }
	all := t.approvals[run.Policy]
	switch {
	case m.kind == effectHappened:
		if ours(m) && !slices.ContainsFunc(all, names) {
			return fmt.Sprintf("version %d deletes, and was never approved", run.Version)
		}
	case m.ranBefore.ID != "" || run.Mode != job.Enforce:
	case len(all) == 0:
		return fmt.Sprintf("version %d opens, and none is approved", run.Version)
	default:
		// Another may be approved between the look and the opening, which may land late.
		for n := len(all) - 1; n >= 0; n-- {
			if names(all[n]) {
				return ""
			}
			if m.by != nil && all[n].At.Before(m.by.began.Add(-skew)) {
				break
			}
		}
		return fmt.Sprintf("version %d opens, and %d is approved", run.Version, all[len(all)-1].Version)
	}
	return ""
}
