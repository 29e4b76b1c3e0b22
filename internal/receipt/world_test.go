package receipt_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// world is a small closed run: acme with two ranges, the first of them narrowed by a
// veto and with an item split off; bees with nothing to do; cats with a page that
// was given up before anything was decided.
type world struct {
	run job.Run

	first, narrowed, answer   receipt.Document // acme's first range
	second, secondAnswer      receipt.Document
	item, itemAnswer          receipt.Document // split off from the first range
	pages                     []receipt.ManifestPage
	atFirst, atSecond, atItem int // where in pages
	atBees, atCats            int
	before, entries           func(*world) // change the documents, and the entries
	manifest                  receipt.Manifest
}

// none in a hash stays empty when the documents are linked.
const none = "none"

// link sets a hash that nobody has set.
func link(field *string, hash string) {
	switch *field {
	case "":
		*field = hash
	case none:
		*field = ""
	}
}

func smallRun(scheduled time.Time) *world {
	w := &world{atFirst: 0, atSecond: 1, atItem: 2, atBees: 3, atCats: 4}
	w.run = job.Run{
		Region: "eu-central-1", Policy: "uploads", Version: 3, PolicySHA256: hashA, Mode: job.Enforce,
		Scheduled: scheduled, Cutoff: scheduled.AddDate(0, -3, 0),
	}
	w.run.ID = job.ScheduledRunID(w.run.Region, w.run.Policy, w.run.Scheduled)
	head := func(kind receipt.Kind, page job.PageID) receipt.Header {
		h := header(kind)
		h.RunID, h.PageID, h.Tenant, h.Cutoff, h.Plan = w.run.ID, page, "acme", w.run.Cutoff, ""
		return h
	}
	moved := planned("a/moved")
	one, two := job.RangePageID(w.run.ID, "acme", ""), job.RangePageID(w.run.ID, "acme", "a/z")
	three := job.ItemPageID(w.run.ID, "acme", moved.Ref())
	veto := func(l *receipt.Line) {
		l.Decision, l.Reason, l.HoldID, l.SettleAt = receipt.Veto, "hold", "h-2", scheduled
	}
	w.first = receipt.Document{Header: head(receipt.Plan, one), Lines: []receipt.Line{
		planned("a/1"), planned("a/2"),
		with(planned("a/3"), func(l *receipt.Line) { l.Decision, l.Reason, l.HoldID = receipt.Held, "hold", "h-1" }), moved,
	}}
	w.narrowed = receipt.Document{Header: head(receipt.Plan, one), Lines: slices.Clone(w.first.Lines)}
	w.narrowed.Header.Fence, w.narrowed.Header.HoldEpoch = 2, 5
	veto(&w.narrowed.Lines[1])
	w.answer = receipt.Document{Header: head(receipt.Receipt, one), Lines: []receipt.Line{
		settled("a/1", job.Deleted, job.Inferred),
		with(settled("a/2", job.Held, ""), veto),
		with(settled("a/3", job.Held, ""), func(l *receipt.Line) { l.Decision, l.Reason, l.HoldID = receipt.Held, "hold", "h-1" }),
		with(moved, func(l *receipt.Line) { l.Decision = receipt.Moved }),
	}}
	w.answer.Header.Fence, w.answer.Header.HoldEpoch = 2, 5
	w.second = receipt.Document{Header: head(receipt.Plan, two), Lines: []receipt.Line{planned("b/1"), planned("b/2")}}
	w.secondAnswer = receipt.Document{Header: head(receipt.Receipt, two), Lines: []receipt.Line{
		settled("b/1", job.Deleted, job.Answered), settled("b/2", job.Changed, ""),
	}}
	w.item = receipt.Document{Header: head(receipt.Plan, three), Lines: []receipt.Line{moved}}
	w.item.Header.HoldEpoch = 5
	w.itemAnswer = receipt.Document{Header: head(receipt.Receipt, three), Lines: []receipt.Line{
		settled("a/moved", job.Deleted, job.Answered),
	}}
	w.pages = []receipt.ManifestPage{
		{ID: one, Tenant: "acme", Kind: job.RangePage, State: job.Completed, Recorded: 5},
		{ID: two, Tenant: "acme", Kind: job.RangePage, State: job.Completed, Recorded: 2},
		{ID: three, Tenant: "acme", Kind: job.ItemPage, State: job.Completed, Parent: one, Recorded: 1},
		{ID: job.RangePageID(w.run.ID, "bees", ""), Tenant: "bees", Kind: job.RangePage, State: job.Completed},
		{ID: job.RangePageID(w.run.ID, "cats", ""), Tenant: "cats", Kind: job.RangePage, State: job.Discarded, Recorded: 2},
	}
	return w
}

// readdress moves the run and all its pages to another id.
func (w *world) readdress(run job.RunID) {
	w.run.ID = run
	ids := map[job.PageID]job.PageID{
		w.pages[w.atFirst].ID: job.RangePageID(run, "acme", ""), w.pages[w.atSecond].ID: job.RangePageID(run, "acme", "a/z"),
		w.pages[w.atItem].ID: job.ItemPageID(run, "acme", job.Ref{Key: "a/moved"}),
		w.pages[w.atBees].ID: job.RangePageID(run, "bees", ""), w.pages[w.atCats].ID: job.RangePageID(run, "cats", ""),
	}
	for i := range w.pages {
		w.pages[i].ID, w.pages[i].Parent = ids[w.pages[i].ID], ids[w.pages[i].Parent]
	}
	for _, d := range []*receipt.Document{&w.first, &w.narrowed, &w.answer, &w.second, &w.secondAnswer, &w.item, &w.itemAnswer} {
		d.Header.RunID, d.Header.PageID = run, ids[d.Header.PageID]
	}
}

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// bundle is what a run has left behind.
type bundle struct {
	run     job.RunID
	seal    job.Seal
	objects map[string][]byte
	// names by what they are: first, narrowed, answer, second, secondAnswer, item,
	// itemAnswer, manifest.
	names map[string]string
}

// build links the documents and seals the run.
func (w *world) build(t testing.TB) bundle {
	t.Helper()
	e := bundle{objects: map[string][]byte{}, names: map[string]string{}}
	apply := func(change func(*world)) {
		if change != nil {
			change(w)
		}
	}
	put := func(what string, d receipt.Document) string {
		name, data := encode(t, d)
		e.objects[name], e.names[what] = data, name
		parts, err := receipt.ParseName(name)
		if err != nil {
			t.Fatal(err)
		}
		return parts.Hash
	}
	apply(w.before)
	e.run = w.run.ID
	link(&w.narrowed.Header.Narrows, put("first", w.first))
	narrowed := put("narrowed", w.narrowed)
	link(&w.answer.Header.Plan, narrowed)
	link(&w.item.Header.Narrows, narrowed)
	second := put("second", w.second)
	link(&w.secondAnswer.Header.Plan, second)
	item := put("item", w.item)
	link(&w.itemAnswer.Header.Plan, item)
	for at, of := range map[int]struct {
		plan, what string
		answer     receipt.Document
	}{
		w.atFirst: {narrowed, "answer", w.answer}, w.atSecond: {second, "secondAnswer", w.secondAnswer},
		w.atItem: {item, "itemAnswer", w.itemAnswer},
	} {
		p := &w.pages[at]
		p.Plan, p.Receipt = of.plan, put(of.what, of.answer)
		p.Moved, p.Totals = of.answer.Count(receipt.Moved), of.answer.Totals()
		p.Totals.Candidates = p.Totals.Counts.Sum()
	}
	apply(w.entries)
	w.manifest = receipt.NewManifest(w.run, w.pages, "v1.0.0")
	e.putManifest(t, w.manifest)
	return e
}

// putManifest seals the run anew. What was sealed before is gone.
func (e *bundle) putManifest(t testing.TB, m receipt.Manifest) {
	t.Helper()
	seal, data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	delete(e.objects, e.names["manifest"])
	name := receipt.ManifestName(m.Header.RunID, seal.Manifest)
	e.objects[name], e.names["manifest"], e.seal = data, name, seal
}

// with returns the evidence with one object changed; nil removes it.
func (e *bundle) with(name string, data []byte) bundle {
	changed := *e
	changed.objects = maps.Clone(e.objects)
	if data == nil {
		delete(changed.objects, name)
	} else {
		changed.objects[name] = data
	}
	return changed
}

func (e *bundle) sorted() []string { return slices.Sorted(maps.Keys(e.objects)) }

// verify runs the verification with the seal that the run's row keeps, or without.
func (e *bundle) verify(t testing.TB, seal job.Seal) []receipt.Finding {
	t.Helper()
	findings, err := receipt.VerifyRun(e.run, seal, e.sorted(), func(name string) ([]byte, error) {
		if data, there := e.objects[name]; there {
			return data, nil
		}
		return nil, failure.New(failure.Absent, "get evidence", "no such evidence")
	})
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

// faultsOn returns the lines that faults name in an object.
func faultsOn(findings []receipt.Finding, object string) (lines []int) {
	for _, f := range findings {
		if f.Fault && f.Object == object {
			lines = append(lines, f.Line)
		}
	}
	return lines
}

func faults(findings []receipt.Finding) (list []receipt.Finding) {
	for _, f := range findings {
		if f.Fault {
			list = append(list, f)
		}
	}
	return list
}

// called names an object for a message.
func (e *bundle) called(name string) string {
	for what, n := range e.names {
		if n == name {
			return what
		}
	}
	return name
}

func (e *bundle) text(findings []receipt.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s line %d: %s (fault: %v)\n", e.called(f.Object), f.Line, f.Text, f.Fault)
	}
	return b.String()
}

// mth is the root as RFC 6962 defines it, in section 2.1.
func mth(lines [][]byte) []byte {
	if len(lines) == 0 {
		return sum(nil)
	}
	if len(lines) == 1 {
		return sum(append([]byte{0}, lines[0]...))
	}
	k := 1
	for 2*k < len(lines) {
		k *= 2
	}
	return sum(slices.Concat([]byte{1}, mth(lines[:k]), mth(lines[k:])))
}

// sealedManifest computes the trailer again, as someone would who covers up a change.
func sealedManifest(lines [][]byte) []byte {
	text := bytes.TrimSuffix(sealed(lines), []byte("}\n"))
	return fmt.Appendf(text, `,"root":"%x"}`+"\n", mth(lines[1:]))
}
