package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// effectOracles look at every delete in the instant in which it takes effect, and at
// every request in the instant in which it is sent.
func effectOracles() []Oracle {
	return []Oracle{
		{"S1", "what is deleted was last modified before the pinned cutoff of its run", on(effectHappened), young},
		{"S3", "a delete takes only what the committed intent behind it names, by version or ETag", on(effectHappened), unplanned},
		{"S3a", "a request names what the committed plan deletes, and nothing that an earlier claim has settled", on(deleteSent), strayRequest},
		{"S4", "nothing is deleted of which HELD was answered while the hold is in force", on(effectHappened), underHold},
		{"S5", "every deleted key lies inside the whole path segment of its page's tenant", on(effectHappened), otherTenant},
		{"S6", "nothing outside of the run's own region and bucket is deleted", on(effectHappened), elsewhere},
		{"S8", "a report-only run sends no delete and commits no intent", on(deleteSent, pageWritten), reportOnly},
		{"S9", "a page deletes no more than its scan recorded, and only of a released run", on(effectHappened), tooMany},
		{"S18", "a decision from before a hold that was answered HELD stays dead after its release", on(effectHappened), revived},
		{"S20", "no request of a claim lands later than its lease and a request's lifetime", on(effectHappened), lateLanding},
		{"S20a", "no request of a claim is signed after its lease", on(deleteSent), lateSigning},
		{"E2", "what was deleted of a page that has ended has the outcome of a deletion", on(effectHappened, pageWritten), unrecorded},
	}
}

// ours reports whether the moment is a delete of ours that is to be judged.
func ours(m *moment) bool { return m.flight != nil && !m.effect.Restored }

// twin reports whether the effect took equal bytes that were uploaded again, which no
// condition on an ETag can tell from what was planned (F5).
func twin(t *truth, m *moment) bool {
	for _, l := range t.plan(m.flight.page).Lines {
		if l.Key == m.effect.Item.Key && l.Version == "" && l.ETag == m.effect.Item.ETag && l.Size == m.effect.Item.Size &&
			!l.Modified.Equal(m.effect.Item.Modified) {
			return true
		}
	}
	return false
}

func young(t *truth, m *moment) string {
	if !ours(m) {
		return ""
	}
	run := t.runs[m.flight.page.Run]
	if m.effect.Item.Modified.Before(run.Cutoff) {
		return ""
	}
	if twin(t, m) {
		t.twins++
		return ""
	}
	return fmt.Sprintf("%s was modified at %s, and the cutoff is %s", m.effect.Item.Key, m.effect.Item.Modified, run.Cutoff)
}

func unplanned(t *truth, m *moment) string {
	if !ours(m) {
		return ""
	}
	p := m.flight.page
	if p.State != job.Intended {
		return "the claim " + p.Owner + " has committed no intent"
	}
	for _, l := range t.plan(p).Lines {
		same := l.Version == "" && l.ETag == m.effect.Item.ETag || l.Version != "" && l.Version == m.effect.Item.Version
		if l.Decision == receipt.Delete && l.Key == m.effect.Item.Key && same {
			return ""
		}
	}
	return m.effect.Item.Key + " is not in the plan of the intent"
}

func strayRequest(t *truth, m *moment) string {
	p := m.flight.page
	planned := map[job.Ref]receipt.Line{}
	for _, l := range t.plan(p).Lines {
		planned[l.Ref()] = l
	}
	for _, item := range m.flight.d.Items {
		switch l := planned[item.Ref()]; {
		case p.State != job.Intended || l.Decision != receipt.Delete || !sameUpload(l.Item, item):
			return item.Key + " is not to be deleted"
		case t.answeredBefore(p, l):
			return item.Key + " was settled by an earlier claim"
		}
	}
	return ""
}

func underHold(t *truth, m *moment) string {
	for _, id := range t.w.holdIDs() {
		if h := t.holds[id]; ours(m) && h.promised[m.effect.Item.Key] && h.inForce() {
			return m.effect.Item.Key + " was answered HELD by " + id
		}
	}
	return ""
}

func revived(t *truth, m *moment) string {
	for _, id := range t.w.holdIDs() {
		if h := t.holds[id]; ours(m) && h.promised[m.effect.Item.Key] && !h.inForce() && m.flight.page.Intent.Epoch < h.hold.Epoch {
			return m.effect.Item.Key + " was answered HELD by " + id + ", and the intent is older"
		}
	}
	return ""
}

func otherTenant(t *truth, m *moment) string {
	if !ours(m) {
		return ""
	}
	rest, under := strings.CutPrefix(m.effect.Item.Key, rootOf(t.runs[m.flight.page.Run].Policy)+m.flight.page.Tenant+"/")
	if !under || rest == "" {
		return m.effect.Item.Key + " is not of tenant " + m.flight.page.Tenant
	}
	return ""
}

func elsewhere(t *truth, m *moment) string {
	if run := t.runs[m.flight.pageRun()]; ours(m) && (m.effect.Bucket != bucketName || run.Region != region) {
		return "bucket " + m.effect.Bucket + ", region " + run.Region
	}
	return ""
}

// leaseEnd is when the claim behind a request ends.
func (f *flight) leaseEnd() time.Time {
	if f == nil {
		return time.Time{}
	}
	return f.page.LeaseEnd
}

// pageRun is the run of the page behind a request; "" where there is none.
func (f *flight) pageRun() job.RunID {
	if f == nil {
		return ""
	}
	return f.page.Run
}

func reportOnly(t *truth, m *moment) string {
	id := m.page.Run
	if m.kind == deleteSent {
		id = m.flight.page.Run
	} else if m.page.State != job.Intended {
		return ""
	}
	if t.runs[id].Mode == job.ReportOnly {
		return "run " + string(id) + " only reports"
	}
	return ""
}

func tooMany(t *truth, m *moment) string {
	if !ours(m) {
		return ""
	}
	if s := t.runs[m.flight.page.Run].State; s != job.Released && s != job.Closed {
		return "the run is " + string(s)
	}
	p := t.pages[m.flight.page.ID]
	if p == nil {
		return ""
	}
	versions := t.w.policy.Versions == policy.AllVersions
	items := map[job.Ref]bool{}
	for _, e := range append(slices.Clone(p.effects), m.effect) {
		ref := e.Item.Ref()
		if !versions {
			ref.Version = "" // equal bytes uploaded again are no other item (F5)
		}
		items[ref] = true
	}
	if len(items) > p.row.Candidates {
		return fmt.Sprintf("%d items of a page with %d candidates", len(items), p.row.Candidates)
	}
	return ""
}

func lateLanding(t *truth, m *moment) string {
	if end := m.flight.leaseEnd().Add(t.w.settings.RequestLifetime); ours(m) && m.at.After(end) {
		return fmt.Sprintf("it lands %s after the request's lifetime", m.at.Sub(end))
	}
	return ""
}

func lateSigning(_ *truth, m *moment) string {
	switch end := m.flight.leaseEnd(); {
	case m.flight.d.NotAfter.After(end):
		return "the right to delete outlasts the lease"
	case m.at.After(end.Add(skew)):
		return fmt.Sprintf("it is signed %s after the lease", m.at.Sub(end))
	}
	return ""
}

// unrecorded compares what happened with what an ended page says of it. The dead owe it
// still, and equal bytes uploaded again are nobody's to tell (F5).
func unrecorded(t *truth, m *moment) string {
	if m.kind == effectHappened {
		if !ours(m) || twin(t, m) {
			return ""
		}
		p := t.pages[m.flight.page.ID]
		if p == nil || !ended(p.row) {
			return ""
		}
		return t.untold(p.row, m.effect.Item)
	}
	p := t.pages[m.page.ID]
	if p == nil || !ended(m.page) {
		return ""
	}
	for _, e := range p.effects {
		if p.restored[e.Item.Key] {
			continue
		}
		if text := t.untold(m.page, e.Item); text != "" {
			return text
		}
	}
	return ""
}

// untold says what is wrong with what an ended page says of an item that it deleted.
func (t *truth) untold(p job.Page, item job.Item) string {
	for _, l := range t.receipt(p).Lines {
		if l.Key != item.Key || l.Version != "" && l.Version != item.Version {
			continue
		}
		if deleted(l.Outcome) || l.Outcome == job.Superseded || l.Decision == receipt.Moved {
			return ""
		}
		return item.Key + " was deleted, and its outcome is " + l.Outcome.String()
	}
	return item.Key + " was deleted, and the receipt does not name it"
}

// standing returns what stands under a line's name, and whether it is what was planned.
func (t *truth) standing(l *receipt.Line) (there bool) {
	item, ok := t.w.store.Get(bucketName, l.Ref())
	return ok && sameUpload(l.Item, item)
}

// bytesRemain reports whether the planned bytes are still somewhere under the key.
func (t *truth) bytesRemain(l *receipt.Line) bool {
	for v := range t.w.store.Versions(bucketName) {
		if v.Key != l.Key {
			continue
		}
		if l.Version == v.Version || l.Version == "" && l.ETag == v.ETag && l.Size == v.Size && l.Modified.Equal(v.Modified) {
			return true
		}
	}
	return false
}
