package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// rowOracles look at every accepted write of a run or a page.
func rowOracles() []Oracle {
	return []Oracle{
		{"S2", "a run's cutoff lies at least the policy's days of 24 hours before its instant", on(runWritten), shortRetention},
		{"S11", "no item has outcomes in two pages of a run", on(pageWritten), twoOutcomes},
		{"S12", "cutoff, version and mode of a run never change, and every plan decides by them", on(runWritten, pageWritten), decidedOtherwise},
		{"S13", "no write by the holder of an old claim succeeds", on(pageWritten), fenced},
		{"S14", "what is quarantined or given up moves only once it is mended, or by an override on record", on(pageWritten), movedQuarantined},
		{"S14a", "a dead page moves only by a redrive, and one that has ended never", on(pageWritten), wakened},
		{"L1a", "no candidate of a completed page is passed over", on(pageWritten), passedOver},
		{"C3", "a page is executed no sooner, no later and no more often than allowed since its last redrive", on(pageWritten), tooOften},
		{"S15a", "a redrive waits, and the attempts of all lives together are limited", on(pageWritten), tooSoon},
		{"S16", "a page has at most one live claim", on(pageWritten), twoClaims},
		{"S19", "a later intent of a page, or of what was split off, only shrinks", on(pageWritten), widened},
		{"E3", "what is called deleted can not be read any more, and what is called marked, absent or changed is not there", on(pageWritten), stillThere},
		{"E3a", "what stays is kept by a hold in force, by a lock, or because the store refused it", on(pageWritten), keptForNothing},
		{"F5", "equal bytes that a marker of ours hides come back before the page ends", on(pageWritten), buried},
		{"E2a", "a deletion that the store is said to have confirmed did happen", on(pageWritten), neverHappened},
		{"E5", "the totals of a closed run are the sum of its pages, which are all there", on(runWritten), badTotals},
		{"E6", "a plan is kept before its intent, a receipt before its page's end, and both say what the row says", on(pageWritten), unproven},
		{"E7", "what an operator orders is on record before it happens", on(runWritten, pageWritten, holdWritten, brakeWritten, approvalWritten), unordered},
		{"F1", "the ranges of a run never overlap", on(pageWritten), overlap},
		{"F2", "no intent is committed that deletes what a hold in force covers", on(pageWritten), intendedHeld},
		{"F8", "no page is claimed before its run is released", on(pageWritten), claimedEarly},
		{"F9", "what is split off is born with its parent's end, and never twice", on(pageWritten), lostChildren},
		{"F11", "a deletion is answered to one page only", on(pageWritten), answeredTwice},
		{"F13", "no page under a brake is claimed by an invocation that began after it was set", on(pageWritten), claimedBraked},
		{"F14", "an intent names no more items than the scan recorded", on(pageWritten), grown},
		{"F16", "a run closes only when all its pages are completed or discarded", on(runWritten), closedEarly},
		{"S9b", "a run deletes only by a policy version that was approved", on(runWritten, effectHappened), unapproved},
		{"E6a", "a run is closed only once its manifest is kept, which lists its pages as they are", on(runWritten), unsealed},
		{"S9a", "the guard releases no run beyond its limits without a person", on(runWritten), unguarded},
	}
}

func shortRetention(t *truth, m *moment) string {
	p, err := t.w.ledger.Policy(context.Background(), m.run.Policy, m.run.Version)
	if err != nil || m.run.Cutoff.IsZero() {
		return "the run has no policy or no cutoff"
	}
	if kept := m.run.Scheduled.Sub(m.run.Cutoff); kept < time.Duration(p.RetentionDays)*day {
		return fmt.Sprintf("the cutoff keeps %s", kept)
	}
	return ""
}

func twoOutcomes(t *truth, m *moment) string {
	if !ended(m.page) || m.page.Receipt == "" {
		return ""
	}
	for _, l := range t.receipt(m.page).Lines {
		if l.Outcome == job.NoOutcome {
			continue
		}
		if other, settled := t.settled[runItem{m.page.Run, l.Ref()}]; settled && other != m.page.ID {
			return l.Key + " has an outcome in page " + string(other)
		}
	}
	return ""
}

func decidedOtherwise(t *truth, m *moment) string {
	if m.kind == runWritten {
		b, a := m.ranBefore, m.run
		if b.ID != "" && (!b.Cutoff.Equal(a.Cutoff) || b.Version != a.Version || b.PolicySHA256 != a.PolicySHA256 || b.Mode != a.Mode) {
			return "the run was pinned otherwise before"
		}
		return ""
	}
	if m.page.State != job.Intended {
		return ""
	}
	run, h := t.runs[m.page.Run], t.plan(m.page).Header
	if !h.Cutoff.Equal(run.Cutoff) || h.PolicySHA256 != run.PolicySHA256 || h.PolicyVersion != run.Version {
		return fmt.Sprintf("the plan decides by %s of version %d", h.Cutoff, h.PolicyVersion)
	}
	return ""
}

// fenced compares a write with the row that it replaced, and not with the one that its
// writer has read.
func fenced(_ *truth, m *moment) string {
	switch {
	case m.was.ID == "":
		return ""
	case m.page.Rev != m.was.Rev+1:
		return fmt.Sprintf("revision %d follows %d", m.page.Rev, m.was.Rev)
	case ended(m.was):
		return "the page had ended as " + string(m.was.State)
	case m.page.Owner == m.was.Owner && m.page.Fence != m.was.Fence:
		return "the fence moved without a claim"
	case m.page.Owner != m.was.Owner && (m.page.State != job.Claimed || m.page.Fence != m.was.Fence+1):
		return fmt.Sprintf("the owner changed with fence %d after %d", m.page.Fence, m.was.Fence)
	}
	return ""
}

func movedQuarantined(t *truth, m *moment) string {
	if m.page.State != job.Redriven || m.was.State != job.Dead || m.page.Abandoned {
		return ""
	}
	plan := t.redrives[m.page.RedriveID]
	reason := m.was.Death.Reason
	switch {
	case plan.Override != "":
	case m.was.Abandoned:
		return "the page was given up"
	case reason == job.ReasonUnknownPolicy:
		if m.by != nil && t.w.lostSince(m.by.began) {
			return "its policy version is not on record"
		}
	case reason.Class() == job.Quarantined:
		return "it died of " + string(reason)
	}
	return ""
}

func wakened(_ *truth, m *moment) string {
	s := m.page.State
	if m.was.State == job.Dead && s != job.Dead && s != job.Redriven && s != job.Discarded {
		return "a dead page is " + string(s)
	}
	return ""
}

// passedOver looks at what stands in the range of a completed page. What a page of as
// many candidates as were recorded does not hold is left to the next run (F14).
func passedOver(t *truth, m *moment) string {
	run := t.runs[m.page.Run]
	if !ended(m.page) || m.was.State == job.Dead {
		return ""
	}
	lines := t.receipt(m.page).Lines
	named := map[job.Ref]bool{}
	for _, l := range lines {
		if named[l.Ref()] = true; l.Outcome == job.NoOutcome && l.Decision != receipt.Moved {
			return l.Key + " has no outcome"
		}
	}
	if m.page.State != job.Completed || m.page.Kind != job.RangePage || len(lines) >= m.page.Candidates {
		return ""
	}
	stands := t.w.store.Objects
	if t.w.policy.Versions == policy.AllVersions {
		stands = t.w.store.Versions
	}
	prefix := rootOf(run.Policy) + m.page.Tenant + "/"
	for item := range stands(bucketName) {
		rel, inside := strings.CutPrefix(item.Key, prefix)
		if inside && rel > m.page.After && rel <= m.page.Through && item.Modified.Before(run.Cutoff) && !named[item.Ref()] {
			return item.Key + " stands there and has no outcome"
		}
	}
	return ""
}

func tooOften(t *truth, m *moment) string {
	if !claims(m) {
		return ""
	}
	since := m.was.FirstFailure
	if m.was.RestartedAt.After(since) {
		since = m.was.RestartedAt
	}
	switch most := t.w.settings.MaxAttempts; {
	case tries(m.page) > most:
		return fmt.Sprintf("attempt %d of %d", tries(m.page), most)
	case m.by == nil:
	case !since.IsZero() && !m.was.Braked && m.by.began.After(since.Add(t.w.settings.AgeCeiling+skew)):
		return "it has failed since " + since.String()
	case m.at.Add(skew).Before(m.was.RetryAt):
		return "it was to wait until " + m.was.RetryAt.String()
	}
	return ""
}

func tooSoon(t *truth, m *moment) string {
	set := &t.w.settings
	switch {
	case m.page.Attempts < m.was.Attempts-1:
		return fmt.Sprintf("%d attempts after %d: some are forgotten", m.page.Attempts, m.was.Attempts)
	case m.page.State == job.Claimed && !m.page.Abandoned && m.page.Attempts > set.RedriveAttempts+set.MaxAttempts:
		return fmt.Sprintf("attempt %d", m.page.Attempts)
	case m.page.State != job.Redriven || m.was.State != job.Dead || m.page.Abandoned:
		return ""
	case m.at.Add(skew).Before(m.was.FirstFailure.Add(set.RedriveAfterFailure)) || m.at.Add(skew).Before(m.was.Death.At.Add(set.RedriveAfterDeath)):
		return fmt.Sprintf("it died at %s", m.was.Death.At)
	case m.was.Attempts >= set.RedriveAttempts:
		return fmt.Sprintf("%d attempts are used up", m.was.Attempts)
	}
	return ""
}

// claims reports whether the write is a claim.
func claims(m *moment) bool { return m.page.State == job.Claimed && m.page.Owner != m.was.Owner }

func twoClaims(_ *truth, m *moment) string {
	if claims(m) && leased(m.was, m.at.Add(skew)) {
		return fmt.Sprintf("the lease of %s ends at %s", m.was.Owner, m.was.LeaseEnd)
	}
	return ""
}

func widened(t *truth, m *moment) string {
	if m.page.State == job.Intended && m.was.Intent != (job.Intent{}) && !shrinks(t.plan(m.was), t.plan(m.page)) {
		return "the plan deletes what the one before it did not"
	}
	for _, c := range m.children {
		if !shrinks(t.plan(m.page), t.plan(c)) {
			return "a split-off item was not in its parent's plan"
		}
	}
	return ""
}

func stillThere(t *truth, m *moment) string {
	if !ended(m.page) || m.page.Receipt == "" {
		return ""
	}
	lines := t.receipt(m.page).Lines
	for i := range lines {
		switch l := &lines[i]; {
		case l.Outcome == job.Deleted && t.bytesRemain(l):
			return l.Key + " is called deleted and is there"
		case l.Outcome == job.DeletedMarkerOnly && t.standing(l):
			return l.Key + " is called marked and is visible"
		case (l.Outcome == job.AlreadyAbsent || l.Outcome == job.Changed || l.Outcome == job.Superseded) && t.standing(l):
			return l.Key + " is called " + l.Outcome.String() + " and stands there as it was planned"
		}
	}
	return ""
}

// keptForNothing looks for what should have been deleted and was not. A hold that was
// released before the claim began keeps nothing in a first plan.
func keptForNothing(t *truth, m *moment) string {
	if !ended(m.page) || m.page.Receipt == "" {
		return ""
	}
	d := t.receipt(m.page)
	plan := some(t.document(receipt.Plan, m.page, d.Header.Plan)).Header
	fresh := m.by != nil && m.was.State != job.Dead && plan.Narrows == "" && plan.Fence == m.page.Fence
	for _, l := range d.Lines {
		h := t.holds[l.HoldID]
		switch {
		case l.Outcome == job.Retained && l.ETag != "":
			return l.Key + " is kept for " + l.Reason
		case l.Outcome == job.Refused && t.w.hits[KeyDenied]+t.w.hits[Barred] == 0:
			return l.Key + " was refused by nobody"
		case l.Outcome != job.Held:
		case l.HoldID == "" && !t.touched[l.Key]:
			return l.Key + " is locked by nobody"
		case l.HoldID != "" && (h == nil || !h.covers(l.Key)):
			return l.Key + " is not covered by " + l.HoldID
		case fresh && l.HoldID != "" && !h.released.IsZero() && h.released.Before(m.by.began):
			return l.HoldID + " was released before the page was planned"
		}
	}
	return ""
}

// buried looks for later uploads of equal bytes that a request of the page has hidden
// and nobody has shown again (F5).
func buried(t *truth, m *moment) string {
	p := t.pages[m.page.ID]
	if p == nil || !ended(m.page) {
		return ""
	}
	moved := map[string]bool{} // to pages of their own, which owe it now
	for _, l := range t.receipt(m.page).Lines {
		moved[l.Key] = l.Decision == receipt.Moved
	}
	for key, modified := range p.hid {
		if moved[key] {
			continue
		}
		for v := range t.w.store.Versions(bucketName) {
			if v.Key != key || v.Marker {
				continue
			}
			if _, visible := t.w.store.Get(bucketName, job.Ref{Key: key}); !visible && v.Modified.Equal(modified) {
				return key + " was uploaded again and lies under a marker"
			}
			break
		}
	}
	return ""
}

func neverHappened(t *truth, m *moment) string {
	p := t.pages[m.page.ID]
	if p == nil || !ended(m.page) || m.page.Receipt == "" {
		return ""
	}
	for _, l := range t.receipt(m.page).Lines {
		happened := func(e artifact.Effect) bool {
			return e.Item.Key == l.Key && (l.Version == "" || l.Version == e.Item.Version)
		}
		if l.Proof == job.Answered && deleted(l.Outcome) && !slices.ContainsFunc(t.effectsOf(p), happened) {
			return l.Key + " was not deleted"
		}
	}
	return ""
}

// effectsOf returns what the page's claims deleted, and those of the page that it was
// split off from.
func (t *truth) effectsOf(p *pageTruth) []artifact.Effect {
	if parent := t.pages[p.row.Parent]; parent != nil {
		return append(slices.Clone(p.effects), parent.effects...)
	}
	return p.effects
}

func badTotals(t *truth, m *moment) string {
	if m.run.State != job.Closed {
		return ""
	}
	var sum job.Totals
	recorded, ranges := 0, 0
	for _, p := range t.order {
		if p.row.Run != m.run.ID {
			continue
		}
		counts, bytes := tally(t.receipt(p.row))
		if p.givenUp { // what it still owed was never written down
			counts, bytes = p.row.Counts, p.row.Bytes
		}
		for o, n := range counts {
			sum.Counts[o] += n
			sum.Candidates += n
		}
		sum.Bytes += bytes
		if p.row.Kind == job.RangePage {
			recorded, ranges = recorded+p.row.Candidates, ranges+1
		}
	}
	switch {
	case m.run.Totals != sum:
		return fmt.Sprintf("%+v, and its pages sum to %+v", m.run.Totals, sum)
	case m.run.Candidates != recorded || m.run.Pages != ranges:
		return "pages are missing"
	}
	return ""
}

func unproven(t *truth, m *moment) string {
	p := m.page
	if p.State == job.Intended && p.Intent != m.was.Intent {
		d := t.document(receipt.Plan, p, p.Intent.Plan)
		switch {
		case d == nil:
			return "the plan of the intent is not kept"
		case d.Header.Fence != p.Fence || d.Header.HoldEpoch != p.Intent.Epoch || d.Deletes() != p.Intent.Deletes || d.Header.Tenant != p.Tenant:
			return "the plan is another claim's"
		}
	}
	if !ended(p) || p.Receipt == "" {
		if p.State == job.Completed && p.Candidates > 0 {
			return "the page ends without a receipt"
		}
		return ""
	}
	d := t.document(receipt.Receipt, p, p.Receipt)
	counts, bytes := tally(some(d))
	switch run := t.runs[p.Run]; {
	case d == nil:
		return "the receipt is not kept"
	case d.Header.RunID != run.ID || d.Header.PolicySHA256 != run.PolicySHA256 || !d.Header.Cutoff.Equal(run.Cutoff) || d.Header.Tenant != p.Tenant:
		return "the receipt is another run's"
	case m.was.State == job.Dead: // what it still owed stands in the row alone
	case counts != p.Counts || bytes != p.Bytes:
		return fmt.Sprintf("the receipt sums to %v and the row says %v", counts, p.Counts)
	case len(d.Lines) != p.Planned || d.Count(receipt.Moved) != p.Moved:
		return fmt.Sprintf("the receipt has %d items and the row says %d", len(d.Lines), p.Planned)
	}
	switch plan := t.document(receipt.Plan, p, d.Header.Plan); {
	case plan == nil:
		return "the receipt's plan is not kept"
	case !p.Abandoned && m.was.State != job.Dead && !answers(d, plan): // who gives a page up commits no plan
		return "the receipt is not about what its plan names"
	}
	return ""
}

func unordered(t *truth, m *moment) string {
	missing := func(act audit.Name, wanted func(audit.Entry) bool) string {
		if t.ordered(act, wanted) {
			return ""
		}
		return "no " + string(act) + " is on record"
	}
	switch m.kind {
	case holdWritten:
		act := audit.HoldPlaced
		if !m.hold.ReleasedAt.IsZero() {
			act = audit.HoldReleased
		}
		return missing(act, func(e audit.Entry) bool { return e.HoldID == m.hold.ID })
	case brakeWritten:
		act := audit.BrakeSet
		if m.released {
			act = audit.BrakeReleased
		}
		return missing(act, func(e audit.Entry) bool { return e.Policy == m.brake.Policy && e.Version == m.brake.Version })
	case approvalWritten:
		return missing(audit.VersionApproved, func(e audit.Entry) bool { return e.Version == m.approval.Version })
	case runWritten:
		if m.run.State == job.Released && m.ranBefore.State == job.AwaitingApproval {
			return missing(audit.RunApproved, func(e audit.Entry) bool { return e.RunID == m.run.ID })
		}
		if m.run.State == job.Rejected {
			return missing(audit.RunRejected, func(e audit.Entry) bool { return e.RunID == m.run.ID })
		}
	case pageWritten:
		discards := m.was.State == job.Dead && (m.page.State == job.Discarded || m.page.Abandoned)
		if discards {
			return missing(audit.PageDiscarded, func(e audit.Entry) bool { return e.PageID == m.page.ID })
		}
		if m.page.State == job.Redriven && m.was.State == job.Dead {
			return missing(audit.RedriveApplied, func(e audit.Entry) bool { return e.RedriveID == m.page.RedriveID })
		}
	default:
	}
	return ""
}

func overlap(t *truth, m *moment) string {
	if m.was.ID != "" || m.page.Kind != job.RangePage {
		return ""
	}
	for _, o := range t.order {
		if o.row.ID != m.page.ID && o.row.Run == m.page.Run && o.row.Tenant == m.page.Tenant && o.row.Kind == job.RangePage &&
			m.page.After < o.row.Through && o.row.After < m.page.Through {
			return "it overlaps page " + string(o.row.ID)
		}
	}
	return ""
}

func intendedHeld(t *truth, m *moment) string {
	if m.page.State != job.Intended || m.page.Intent == m.was.Intent { // a message that is sent again decides nothing
		return ""
	}
	for _, id := range t.w.holdIDs() {
		h := t.holds[id]
		// What was placed since the intent before this one stops it, released or not (F4).
		since := m.was.Intent != (job.Intent{}) && h.hold.Epoch > m.was.Intent.Epoch
		for _, l := range t.plan(m.page).Lines {
			if (h.inForce() || since) && h.covers(l.Key) && l.Decision == receipt.Delete && !t.answeredBefore(m.page, l) {
				return l.Key + " is held by " + id
			}
		}
	}
	return ""
}

// answeredBefore reports whether an earlier claim of the page has an answer for the item:
// then it stays in the plan as it was decided, and is not sent again.
func (t *truth) answeredBefore(p job.Page, l receipt.Line) bool {
	for _, said := range t.receipt(p).Lines {
		if said.Ref() == l.Ref() && final(said.Outcome) {
			return true
		}
	}
	return false
}

func claimedEarly(t *truth, m *moment) string {
	if s := t.runs[m.page.Run].State; claims(m) && s != job.Released {
		return "the run is " + string(s)
	}
	return ""
}

func lostChildren(t *truth, m *moment) string {
	if m.page.State != job.Completed {
		return ""
	}
	if m.page.Moved != len(m.children) {
		return fmt.Sprintf("%d moved and %d are born", m.page.Moved, len(m.children))
	}
	for _, c := range m.children {
		if _, there := t.pages[c.ID]; there || c.Intent == (job.Intent{}) || c.QuietAt.Before(m.page.QuietAt) {
			return "a child is there already, or is born without its parent's intent and quiet time"
		}
		if d := t.plan(c); len(d.Lines) != 1 || d.Header.HoldEpoch != c.Intent.Epoch || c.Intent.Epoch != m.page.Intent.Epoch || c.Intent.Deletes != 1 {
			return "a child's intent is not its parent's for one item"
		}
	}
	return ""
}

// answeredTwice leaves out what others have touched: equal bytes that were uploaded again
// are another object, and no condition tells them apart (F5).
func answeredTwice(t *truth, m *moment) string {
	if !ended(m.page) || m.page.Receipt == "" {
		return ""
	}
	for _, l := range t.receipt(m.page).Lines {
		if other, said := t.answered[l.Item]; said && !t.touched[l.Key] && other != m.page.ID && l.Proof == job.Answered && deleted(l.Outcome) {
			return l.Key + " was answered to page " + string(other)
		}
	}
	return ""
}

// claimedBraked allows a worker the time between reading the brakes and the claim.
func claimedBraked(t *truth, m *moment) string {
	run := t.runs[m.page.Run]
	for i := range t.braked {
		b := &t.braked[i]
		if claims(m) && m.by != nil && b.until.IsZero() && stops(&b.brake, &run) && b.since.Before(m.by.began) {
			return "the brake is set since " + b.since.String()
		}
	}
	return ""
}

func grown(t *truth, m *moment) string {
	if m.page.State == job.Intended && (m.page.Intent.Deletes > m.page.Candidates || len(t.plan(m.page).Lines) > m.page.Candidates) {
		return fmt.Sprintf("%d items of %d candidates", m.page.Intent.Deletes, m.page.Candidates)
	}
	return ""
}

func closedEarly(t *truth, m *moment) string {
	if m.run.State != job.Closed {
		return ""
	}
	for _, p := range t.order {
		if p.row.Run == m.run.ID && !ended(p.row) {
			return "page " + string(p.row.ID) + " is " + string(p.row.State)
		}
	}
	return ""
}

func unguarded(t *truth, m *moment) string {
	if m.run.State != job.Released || m.run.Mode != job.Enforce || m.run.ApprovedBy != "" || m.ranBefore.State == job.Released {
		return ""
	}
	p, err := t.w.ledger.Policy(context.Background(), m.run.Policy, m.run.Version)
	sure(err)
	if trips := p.Guard(policy.GuardFacts{Candidates: m.run.Candidates, Examined: m.run.Examined}); m.run.Candidates > p.Limits.MaxObjects {
		return fmt.Sprintf("%d candidates, and nobody approved: %v", m.run.Candidates, trips)
	}
	return ""
}

func unsealed(t *truth, m *moment) string {
	if m.run.State != job.Closed {
		return ""
	}
	name := receipt.ManifestName(m.run.ID, m.run.Seal.Manifest)
	data, err := t.w.evidence.Get(context.Background(), name)
	if err != nil {
		return "the manifest is not kept"
	}
	sealed, _, err := receipt.VerifyManifest(name, data)
	if err != nil {
		return "the manifest does not read"
	}
	entries := map[job.PageID]receipt.ManifestPage{}
	for _, e := range sealed.Pages {
		entries[e.ID] = e
	}
	for _, p := range t.order {
		if p.row.Run == m.run.ID && entries[p.row.ID] != receipt.NewManifestPage(p.row) {
			return "the manifest says otherwise of page " + string(p.row.ID)
		}
	}
	return ""
}
