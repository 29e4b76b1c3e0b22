package receipt_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// forgery is evidence whose hashes all fit and that still says what can not be: a
// mistake of ours, or somebody who rewrote everything but the world. It is found
// whether the run's row is known or not.
type forgery struct {
	name   string
	object string // of the names of evidence
	line   int
	says   string

	before, entries func(*world)
}

// other page and hash, of their form and nobody's.
const otherPage = job.PageID("99999999999999999999999999999999")

func forgedAuthority() []forgery {
	header := func(of func(*world) *receipt.Document, change func(*receipt.Header)) func(*world) {
		return func(w *world) { change(&of(w).Header) }
	}
	answer := func(w *world) *receipt.Document { return &w.secondAnswer }
	var list []forgery
	for field, change := range map[string]func(*receipt.Header){
		"policy":         func(h *receipt.Header) { h.Policy = "exports" },
		"policy_version": func(h *receipt.Header) { h.PolicyVersion = 2 },
		"policy_sha256":  func(h *receipt.Header) { h.PolicySHA256 = hashB },
		"cutoff":         func(h *receipt.Header) { h.Cutoff = h.Cutoff.AddDate(0, 0, 1) },
		"tenant":         func(h *receipt.Header) { h.Tenant = "bees" },
		"bucket":         func(h *receipt.Header) { h.Bucket = "elsewhere" },
	} {
		list = append(list, forgery{name: "a receipt's " + field, object: "secondAnswer", line: 1, says: field, before: header(answer, change)})
		if field != "tenant" && field != "bucket" {
			list = append(list, forgery{name: "a plan's " + field, object: "second", line: 1, says: field,
				before: header(func(w *world) *receipt.Document { return &w.second }, change)})
		}
		list = append(list, forgery{name: "a narrowed plan's " + field, object: "narrowed", line: 1, says: field,
			before: header(func(w *world) *receipt.Document { return &w.narrowed }, change)})
	}
	return append(list,
		forgery{name: "the tenant of plan and receipt", object: "secondAnswer", line: 1, says: "the manifest's", before: func(w *world) {
			w.second.Header.Tenant, w.secondAnswer.Header.Tenant = "bees", "bees"
		}},
		forgery{name: "a receipt's mode", object: "secondAnswer", line: 1, says: "mode", before: func(w *world) {
			w.secondAnswer.Header.Mode = job.ReportOnly
			l := &w.secondAnswer.Lines[0]
			l.Outcome, l.Proof = job.WouldDelete, ""
		}},
		forgery{name: "the run's id comes from another instant", object: "manifest", line: 1, says: "id", before: func(w *world) {
			w.run.Scheduled = noon.AddDate(0, 0, 1)
		}},
		forgery{name: "the run's id is a request's", object: "manifest", line: 1, says: "id", before: func(w *world) { w.run.RequestID = "r-1" }},
		forgery{name: "an intent in a report-only run", object: "manifest", line: 2, says: "report-only", before: func(w *world) {
			w.run.Mode = job.ReportOnly
		}},
	)
}

func forgedDecisions() []forgery {
	return []forgery{
		{name: "another item than planned", object: "secondAnswer", line: 2, says: "its plan", before: func(w *world) {
			w.secondAnswer.Lines[0].ETag = `"another"`
		}},
		{name: "an item more than planned", object: "secondAnswer", line: 4, says: "its plan", before: func(w *world) {
			w.secondAnswer.Lines = append(w.secondAnswer.Lines, settled("b/3", job.Failed, ""))
			w.pages[w.atSecond].Recorded++
		}},
		{name: "an item less than planned", object: "secondAnswer", line: 3, says: "missing", before: func(w *world) {
			w.secondAnswer.Lines = w.secondAnswer.Lines[:1]
		}},
		{name: "what was held is deleted", object: "answer", line: 4, says: "widely", before: func(w *world) {
			l := &w.answer.Lines[2]
			l.Decision, l.HoldID, l.Outcome, l.Proof = receipt.Delete, "", job.Deleted, job.Answered
		}},
		{name: "what was vetoed is decided again", object: "answer", line: 3, says: "widely", before: func(w *world) {
			w.answer.Lines[1] = settled("a/2", job.Deleted, job.Answered)
		}},
		{name: "what was held is moved", object: "answer", line: 4, says: "widely", before: func(w *world) {
			l := &w.answer.Lines[2]
			l.Decision, l.HoldID, l.Outcome = receipt.Moved, "", job.NoOutcome
		}},
		{name: "S19: a later plan deletes what was held", object: "narrowed", line: 0, says: "deletes what", before: func(w *world) {
			l := &w.narrowed.Lines[2]
			l.Decision, l.HoldID = receipt.Delete, ""
		}},
		{name: "S19: a later plan deletes another item", object: "narrowed", line: 0, says: "deletes what", before: func(w *world) {
			w.narrowed.Lines[0].Size++
		}},
		{name: "S18: a later plan was made under older holds", object: "narrowed", line: 1, says: "older holds", before: func(w *world) {
			w.narrowed.Header.HoldEpoch = 3
		}},
		{name: "S19: a split-off item is none of its parent's", object: "item", line: 0, says: "deletes what", before: func(w *world) {
			w.item.Lines[0].ETag = `"another"`
		}},
		{name: "a split-off item narrows nothing", object: "item", line: 1, says: "none of its parent's", before: func(w *world) {
			w.item.Header.Narrows = none
		}},
		{name: "a split-off item narrows a plan that its parent left behind", object: "item", line: 1, says: "parent's receipt", before: func(w *world) {
			w.item.Header.Narrows, _, _ = w.first.Encode()
		}},
		{name: "the receipt answers a plan that was not committed", object: "answer", line: 1, says: "another plan", entries: func(w *world) {
			w.pages[w.atFirst].Plan = w.narrowed.Header.Narrows
		}},
		{name: "S3: nothing was committed", object: "secondAnswer", line: 2, says: "no intent", entries: func(w *world) {
			w.pages[w.atSecond].Plan = ""
		}},
		{name: "E2: no outcome", object: "secondAnswer", line: 2, says: "no outcome", before: func(w *world) {
			l := &w.secondAnswer.Lines[0]
			l.Outcome, l.Proof = job.NoOutcome, ""
		}},
	}
}

func forgedEntries() []forgery {
	entry := func(at func(*world) int, change func(*receipt.ManifestPage)) func(*world) {
		return func(w *world) { change(&w.pages[at(w)]) }
	}
	first, second := func(w *world) int { return w.atFirst }, func(w *world) int { return w.atSecond }
	item, cats := func(w *world) int { return w.atItem }, func(w *world) int { return w.atCats }
	count := func(p *receipt.ManifestPage, o job.Outcome, n int) {
		p.Totals.Counts[o] += n
		p.Totals.Candidates += n
	}
	return []forgery{
		{name: "E5: one deletion more", object: "manifest", line: 3, says: "2 deleted, its receipt 1",
			entries: entry(second, func(p *receipt.ManifestPage) { count(p, job.Deleted, 1) })},
		{name: "E5: one outcome for another", object: "manifest", line: 3, says: "0 changed, its receipt 1",
			entries: entry(second, func(p *receipt.ManifestPage) { count(p, job.Changed, -1); count(p, job.Failed, 1) })},
		{name: "E5: bytes", object: "manifest", line: 3, says: "bytes",
			entries: entry(second, func(p *receipt.ManifestPage) { p.Totals.Bytes++ })},
		{name: "E5: moved items", object: "manifest", line: 2, says: "moved",
			entries: entry(first, func(p *receipt.ManifestPage) { p.Moved++ })},
		{name: "F14: more items than recorded", object: "manifest", line: 3, says: "recorded 1",
			entries: entry(second, func(p *receipt.ManifestPage) { p.Recorded = 1 })},
		{name: "an intent without a receipt", object: "manifest", line: 3, says: "no receipt",
			entries: entry(second, func(p *receipt.ManifestPage) { p.Receipt = "" })},
		{name: "completed without a receipt", object: "manifest", line: 6, says: "no receipt",
			entries: entry(cats, func(p *receipt.ManifestPage) { p.State = job.Completed })},
		{name: "given up, and deletions claimed", object: "manifest", line: 6, says: "no receipt",
			entries: entry(cats, func(p *receipt.ManifestPage) { count(p, job.Deleted, 2) })},
		{name: "given up, and items moved", object: "manifest", line: 6, says: "no receipt",
			entries: entry(cats, func(p *receipt.ManifestPage) { p.Moved = 1 })},
		{name: "a tenant's first page is missing", object: "manifest", line: 6, says: "begin",
			entries: entry(cats, func(p *receipt.ManifestPage) { p.ID = otherPage })},
		{name: "F9: a moved item has no page", object: "answer", line: 5, says: "moved to page", entries: func(w *world) {
			w.pages = slices.Delete(w.pages, w.atItem, w.atItem+1)
		}},
		{name: "F9: an item that nobody moved", object: "manifest", line: 4, says: "no receipt moved", before: func(w *world) {
			w.answer.Lines[3] = settled("a/moved", job.Failed, "")
		}},
		{name: "F9: another parent", object: "manifest", line: 4, says: "not from the one named",
			entries: entry(item, func(p *receipt.ManifestPage) { p.Parent = job.RangePageID(smallRun(noon).run.ID, "acme", "a/z") })},
		{name: "F9: another item", object: "itemAnswer", line: 2, says: "was moved", before: func(w *world) {
			w.item.Lines[0], w.itemAnswer.Lines[0] = planned("a/1"), settled("a/1", job.Deleted, job.Answered)
		}},
		{name: "S11: ranges overlap", object: "manifest", line: 3, says: "overlap", before: func(w *world) {
			w.second.Lines[0], w.secondAnswer.Lines[0] = planned("a/2"), settled("a/2", job.Deleted, job.Answered)
		}},
		{name: "a receipt's page is not listed", object: "secondAnswer", line: 0, says: "not list", entries: func(w *world) {
			w.pages = slices.Delete(w.pages, w.atSecond, w.atSecond+1)
		}},
		{name: "a plan's page is not listed", object: "second", line: 0, says: "not list", entries: func(w *world) {
			w.pages = slices.Delete(w.pages, w.atSecond, w.atSecond+1)
		}},
	}
}

func TestE6_ForgeriesAreFound(t *testing.T) {
	for _, c := range slices.Concat(forgedAuthority(), forgedDecisions(), forgedEntries()) {
		t.Run(c.name, func(t *testing.T) {
			w := smallRun(noon)
			w.before, w.entries = c.before, c.entries
			e := w.build(t)
			for _, seal := range []job.Seal{e.seal, {}} {
				f := e.verify(t, seal)
				if !slices.ContainsFunc(f, func(f receipt.Finding) bool {
					return f.Fault && f.Object == e.names[c.object] && f.Line == c.line && strings.Contains(f.Text, c.says)
				}) {
					t.Errorf("want %s line %d to say %q, found\n%s", c.object, c.line, c.says, e.text(f))
				}
			}
		})
	}
}

// What honest runs look like besides: no finding may be made of them.
func TestE6_OtherWholeRuns(t *testing.T) {
	onlyRanges := func(w *world) {
		w.answer.Lines[3] = settled("a/moved", job.Failed, "")
	}
	for name, c := range map[string]struct {
		before, entries func(*world)
		left            []string // what is not there
	}{
		"a range whose items were all gone": {before: func(w *world) {
			w.second.Lines, w.secondAnswer.Lines = nil, nil
		}, entries: func(w *world) { w.pages[w.atSecond].Plan = "" }},
		"everything held, nothing committed": {before: func(w *world) {
			for i := range w.second.Lines {
				for _, l := range []*receipt.Line{&w.second.Lines[i], &w.secondAnswer.Lines[i]} {
					l.Decision, l.HoldID = receipt.Held, "h-1"
				}
				l := &w.secondAnswer.Lines[i]
				l.Outcome, l.Proof = job.Held, ""
			}
		}, entries: func(w *world) { w.pages[w.atSecond].Plan = "" }},
		"nothing split off": {before: onlyRanges, entries: func(w *world) {
			w.pages = slices.Delete(w.pages, w.atItem, w.atItem+1)
		}, left: []string{"item", "itemAnswer"}},
		"a request": {before: func(w *world) {
			w.run.RequestID = "r-1"
			id := job.RequestRunID(w.run.Region, w.run.Policy, "r-1")
			w.readdress(id)
		}},
		"report-only": {before: func(w *world) {
			w.run.Mode = job.ReportOnly
			onlyRanges(w)
			for _, d := range []*receipt.Document{&w.first, &w.narrowed, &w.answer, &w.second, &w.secondAnswer, &w.item, &w.itemAnswer} {
				d.Header.Mode = job.ReportOnly
				for i := range d.Lines {
					if l := &d.Lines[i]; l.Outcome.Deletes() {
						l.Outcome, l.Proof = job.WouldDelete, ""
					}
				}
			}
		}, entries: func(w *world) {
			w.pages = slices.Delete(w.pages, w.atItem, w.atItem+1)
			for i := range w.pages {
				w.pages[i].Plan = ""
			}
		}, left: []string{"item", "itemAnswer"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := smallRun(noon)
			w.before, w.entries = c.before, c.entries
			e := w.build(t)
			for _, what := range c.left {
				delete(e.objects, e.names[what])
			}
			if f := e.verify(t, e.seal); len(f) > 0 {
				t.Errorf("found\n%s", e.text(f))
			}
		})
	}
}

// A page that an operator gave up is settled against the plan that was committed or
// one that this narrows, and may leave what it planned to delete.
func TestADiscardedPageMayAnswerAnEarlierPlan(t *testing.T) {
	w := smallRun(noon)
	w.before = func(w *world) {
		w.item.Lines = nil // the item was not split off
		w.answer.Lines[1] = settled("a/2", job.Failed, "")
		w.answer.Lines[3] = with(settled("a/moved", job.Retained, ""), func(l *receipt.Line) { l.Decision = receipt.Retained })
	}
	var first string
	w.entries = func(w *world) {
		first = w.narrowed.Header.Narrows
		w.pages[w.atFirst].State = job.Discarded
		w.pages = slices.Delete(w.pages, w.atItem, w.atItem+1)
	}
	e := w.build(t)
	// Now the receipt answers the first plan, and the item has left nothing behind.
	w.answer.Header.Plan = first
	name, data := encode(t, w.answer)
	for _, what := range []string{"answer", "item", "itemAnswer"} {
		delete(e.objects, e.names[what])
	}
	e.objects[name] = data
	parts, err := receipt.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	w.pages[w.atFirst].Receipt = parts.Hash
	e.putManifest(t, receipt.NewManifest(w.run, w.pages, "v1.0.0"))
	if f := e.verify(t, e.seal); len(f) > 0 {
		t.Errorf("found\n%s", e.text(f))
	}
	w.pages[w.atFirst].State = job.Completed
	e.putManifest(t, receipt.NewManifest(w.run, w.pages, "v1.0.0"))
	if f := e.verify(t, e.seal); len(faultsOn(f, name)) == 0 {
		t.Errorf("completed: found\n%s", e.text(f))
	}
}
