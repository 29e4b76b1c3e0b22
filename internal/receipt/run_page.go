package receipt

import (
	"fmt"
	"maps"
	"slices"

	"github.com/expunge-aws/expunge/internal/job"
)

// tenantCheck is what the pages of one tenant tell about each other.
type tenantCheck struct {
	id string
	// last is the greatest key so far. Ranges are disjoint and ascend.
	last string
	// moved are the items that became pages of their own, by the id of that page.
	moved map[job.PageID]movedItem
	// unread are ranges whose receipt could not be read.
	unread map[job.PageID]bool
}

// movedItem says which line of which receipt gave an item away.
type movedItem struct {
	item    job.Item
	parent  job.PageID
	plan    string // hash of the plan that the parent's receipt answers
	receipt string
	line    int
}

// entry reports what is wrong with an entry of the manifest.
func (v *runCheck) entry(line int, p *ManifestPage, text string) {
	v.fault(v.name, line, "page "+string(p.ID)+": "+text)
}

// listed looks at every page that the manifest lists, in its order.
func (v *runCheck) listed() {
	for i := range v.manifest.Pages {
		p, line := &v.manifest.Pages[i], itemLine(i)
		if p.Tenant != v.tenant.id {
			v.endTenant()
			v.tenant = tenantCheck{id: p.Tenant, moved: map[job.PageID]movedItem{}, unread: map[job.PageID]bool{}}
			if p.ID != job.RangePageID(v.run, p.Tenant, "") {
				v.entry(line, p, "is the tenant's first, and does not begin where the tenant does")
			}
		}
		v.page(line, p)
	}
	v.endTenant()
}

// endTenant reports the moved items that no page took over.
func (v *runCheck) endTenant() {
	for _, id := range slices.Sorted(maps.Keys(v.tenant.moved)) {
		m := v.tenant.moved[id]
		v.fault(m.receipt, m.line, "the item was moved to page "+string(id)+", which the manifest does not list")
	}
}

// page looks at one page: its entry, its receipt, the plans behind that.
func (v *runCheck) page(line int, p *ManifestPage) {
	f := v.of(p.ID)
	f.listed = true
	v.promise(line, p)
	from, moved := v.tenant.moved[p.ID]
	if p.Kind == job.ItemPage {
		delete(v.tenant.moved, p.ID)
		v.origin(line, p, from, moved)
	}
	name := Name(Receipt, v.run, p.ID, p.Receipt)
	answer := v.answer(p, f, name)
	wanted, plan := "", p.Plan
	if answer != nil {
		wanted = answer.Header.Plan
	}
	if plan == "" {
		plan = wanted
	}
	found, among := v.chain(p, f, plan, wanted, from.plan)
	if answer == nil {
		v.tenant.unread[p.ID] = p.Receipt != ""
		return
	}
	if !among || p.State == job.Completed && plan != wanted {
		v.fault(name, 1, "answers another plan than the one that was committed")
	} else if found != nil {
		v.answers(name, answer, found)
	}
	v.numbers(line, p, answer)
	v.lines(p, name, answer)
	if p.Kind == job.RangePage {
		v.order(line, p, answer)
	} else if moved && (len(answer.Lines) != 1 || !identical(answer.Lines[0].Item, from.item)) {
		v.fault(name, itemLine(0), "is not about the item that was moved to the page")
	}
}

// promise reports an entry that contradicts itself.
func (v *runCheck) promise(line int, p *ManifestPage) {
	if p.Plan != "" && v.manifest.Header.Mode == job.ReportOnly {
		v.entry(line, p, "committed an intent in a report-only run")
	}
	c := &p.Totals.Counts
	switch {
	case p.Receipt != "":
	case p.Plan != "":
		v.entry(line, p, "committed an intent, and has no receipt of what came of it")
	case p.State == job.Completed && (p.Recorded > 0 || p.Totals != job.Totals{}):
		v.entry(line, p, "was completed with candidates and has no receipt")
	case c[job.Deleted]+c[job.DeletedMarkerOnly]+c[job.WouldDelete]+p.Moved > 0 || p.Totals.Bytes > 0:
		v.entry(line, p, "counts deletions or moved items and has no receipt")
	}
}

// origin checks that a split-off item was given away by its parent.
func (v *runCheck) origin(line int, p *ManifestPage, from movedItem, moved bool) {
	switch {
	case !moved && !v.tenant.unread[p.Parent]:
		v.entry(line, p, "is a split-off item that no receipt moved")
	case moved && from.parent != p.Parent:
		v.entry(line, p, "was split off from page "+string(from.parent)+", not from the one named here")
	}
}

// answer loads the receipt that the entry names, nil when there is none to be had.
func (v *runCheck) answer(p *ManifestPage, f *filed, name string) *Document {
	if p.Receipt == "" {
		return nil
	}
	if _, there := f.receipts[p.Receipt]; !there {
		v.missing(name, "the manifest names it")
		return nil
	}
	f.receipts[p.Receipt] = true
	d := v.load(name)
	if d != nil && d.Header.Tenant != p.Tenant {
		v.fault(name, 1, "its tenant is not the manifest's")
	}
	return d
}

// chain follows the page's plans from the given one back to the first, which for a
// split-off item narrows origin, the plan of its parent. It returns the wanted one
// and whether its hash is among them.
func (v *runCheck) chain(p *ManifestPage, f *filed, hash, wanted, origin string) (found *Document, among bool) {
	var later *Document
	var laterName string
	for hash != "" {
		name := Name(Plan, v.run, p.ID, hash)
		if _, own := f.plans[hash]; !own && later != nil && p.Kind == job.ItemPage {
			v.fromParent(p, laterName, later, origin)
			return found, among
		} else if !own {
			v.missing(name, "a receipt, a later plan or the manifest names it")
			return found, among || hash == wanted
		}
		f.plans[hash] = true
		doc := v.load(name)
		among = among || hash == wanted
		if doc == nil {
			return found, among
		}
		if hash == wanted {
			found = doc
		}
		if later != nil {
			v.narrows(laterName, later, doc)
		}
		later, laterName, hash = doc, name, doc.Header.Narrows
	}
	if later != nil && p.Kind == job.ItemPage {
		v.fault(laterName, 1, "the plan of a split-off item narrows none of its parent's")
	}
	return found, among
}

// fromParent checks the first plan of a split-off item against its parent's.
func (v *runCheck) fromParent(p *ManifestPage, name string, first *Document, origin string) {
	if origin != "" && first.Header.Narrows != origin {
		v.fault(name, 1, "narrows another plan than the one that its parent's receipt answers")
		return
	}
	parent := Name(Plan, v.run, p.Parent, first.Header.Narrows)
	if v.parentName != parent {
		v.parent, v.parentName = v.load(parent), parent
	}
	if v.parent != nil {
		v.narrows(name, first, v.parent)
	}
}

// narrows checks that a plan only shrinks an earlier one.
func (v *runCheck) narrows(name string, later, earlier *Document) {
	switch field := authority(&later.Header, &earlier.Header); {
	case field != "":
		v.fault(name, 1, "its "+field+" is not that of the plan that it narrows")
	case later.Header.HoldEpoch < earlier.Header.HoldEpoch:
		v.fault(name, 1, "was made under older holds than the plan that it narrows")
	case !Subset(*later, *earlier):
		v.fault(name, 0, "deletes what the plan that it narrows does not")
	}
}

// answers checks that a receipt is about the items of its plan, and made no decision
// wider.
func (v *runCheck) answers(name string, d, plan *Document) {
	if field := authority(&d.Header, &plan.Header); field != "" {
		v.fault(name, 1, "its "+field+" is not that of its plan")
		return
	}
	for i := range d.Lines {
		l := &d.Lines[i]
		if i >= len(plan.Lines) || !identical(l.Item, plan.Lines[i].Item) {
			v.fault(name, itemLine(i), "not the item that its plan has here")
			return
		}
		if decided := plan.Lines[i].Decision; l.Decision != decided && decided != Delete && l.Decision != Held && l.Decision != Retained {
			v.fault(name, itemLine(i), "decided more widely than in its plan")
		}
	}
	if len(d.Lines) < len(plan.Lines) {
		v.fault(name, itemLine(len(d.Lines)), "an item of its plan is missing here")
	}
}

// numbers compares the entry with its receipt.
func (v *runCheck) numbers(line int, p *ManifestPage, answer *Document) {
	t := answer.Totals()
	for _, n := range []struct {
		what          string
		entry, answer int64
	}{
		{"moved items", int64(p.Moved), int64(answer.Count(Moved))},
		{"bytes", p.Totals.Bytes, t.Bytes},
	} {
		if n.entry != n.answer {
			v.entry(line, p, fmt.Sprintf("says %d %s, its receipt %d", n.entry, n.what, n.answer))
		}
	}
	for _, o := range job.Outcomes() {
		if a, b := p.Totals.Counts[o], t.Counts[o]; a != b {
			v.entry(line, p, fmt.Sprintf("says %d %s, its receipt %d", a, o, b))
		}
	}
	if len(answer.Lines) > p.Recorded {
		v.entry(line, p, fmt.Sprintf("its receipt has %d items, and the scan recorded %d", len(answer.Lines), p.Recorded))
	}
}

// lines looks at what only a page that ended must say, and notes what it moved.
func (v *runCheck) lines(p *ManifestPage, name string, answer *Document) {
	uncommitted := p.Plan == "" && v.manifest.Header.Mode == job.Enforce
	for i := range answer.Lines {
		l := &answer.Lines[i]
		if uncommitted && (l.Decision == Delete || l.Decision == Veto || l.Decision == Moved) {
			v.fault(name, itemLine(i), "the item was to be deleted, and no intent was committed")
		}
		switch {
		case l.Decision == Moved:
			v.tenant.moved[job.ItemPageID(v.run, p.Tenant, l.Ref())] = movedItem{
				item: l.Item, parent: p.ID, plan: answer.Header.Plan, receipt: name, line: itemLine(i),
			}
		case l.Outcome == job.NoOutcome:
			v.fault(name, itemLine(i), "the page ended, and the item has no outcome")
		}
	}
}

// order checks that a range comes after the one before it, and so shares no item
// with it.
func (v *runCheck) order(line int, p *ManifestPage, answer *Document) {
	if len(answer.Lines) == 0 {
		return
	}
	if answer.Lines[0].Key <= v.tenant.last {
		v.entry(line, p, "its items do not come after those of the pages before it: entries are out of order, or pages overlap")
	}
	v.tenant.last = max(v.tenant.last, answer.Lines[len(answer.Lines)-1].Key)
}
