package invariant

import (
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// outcomeOf is where an item has its outcome in a run (S11).
type outcomeOf map[job.Ref]int32

// judgePages reads the evidence that counts, page by page, so that only one
// page's documents are in memory at a time.
func (j *judge) judgePages() {
	seen := outcomeOf{}
	var run job.RunID
	for _, i := range j.order {
		p := &j.Pages[i]
		if p.Run != run {
			run = p.Run
			clear(seen)
		}
		r := j.runs[p.Run]
		if r == nil {
			j.on("E6").fail("%s: its run is not on record", about(p))
			continue
		}
		j.judgeRow(r, p)
		j.judgePage(pageOf{judge: j, run: r, row: p, at: int32(i), seen: seen}) //nolint:gosec // fewer pages than two billion
	}
}

// judgeRow looks at a page's row alone.
func (j *judge) judgeRow(r *job.Run, p *job.Page) {
	if r.Mode == job.ReportOnly {
		v := j.on("S8")
		v.look(1)
		if p.Intent != (job.Intent{}) {
			v.fail("%s: a report-only page committed an intent", about(p))
		}
		if n := p.Counts[job.Deleted] + p.Counts[job.DeletedMarkerOnly]; n > 0 {
			v.fail("%s: a report-only page counts %d deletions", about(p), n)
		}
	}
	if p.Intent.Deletes > p.Candidates {
		j.on("S9").fail("%s: the intent deletes %d of %d recorded candidates", about(p), p.Intent.Deletes, p.Candidates)
	}
	v := j.on("E5")
	v.look(1)
	if t := p.Totals(); (p.State.Terminal() || p.State == job.Dead) && t.Candidates != t.Counts.Sum() {
		v.fail("%s: %d candidates have %d outcomes", about(p), t.Candidates, t.Counts.Sum())
	}
	if n := owes(r, p); p.State.Terminal() && p.Counts.Sum()+p.Moved != n {
		v.fail("%s: %s with %d items, %d outcomes and %d moved", about(p), p.State, n, p.Counts.Sum(), p.Moved)
	}
	if settled(p) && p.Candidates > 0 && p.Receipt == "" {
		j.on("E6").fail("%s: %s without a receipt", about(p), p.State)
	}
}

// owes is how many items of an ended page must have an outcome or a page of their
// own: those that were planned, and without a plan those that were given up.
// Nothing of a rejected run was ever begun.
func owes(r *job.Run, p *job.Page) int {
	if p.State == job.Discarded && p.Planned == 0 && r.State != job.Rejected {
		return p.Candidates
	}
	return p.Planned
}

// settled reports whether a worker brought the page to its end. A page without an
// intent did nothing, and may be discarded as it is.
func settled(p *job.Page) bool {
	return p.State == job.Completed || p.State == job.Discarded && p.Intent != (job.Intent{})
}

// pageOf is one page being judged.
type pageOf struct {
	*judge
	run  *job.Run
	row  *job.Page
	at   int32
	seen outcomeOf
}

// judgePage reads the receipt that counts and the chain of committed plans.
func (j *judge) judgePage(p pageOf) {
	var answer *receipt.Document
	if p.row.Receipt != "" {
		answer = p.document(receipt.Receipt, p.row.Receipt)
	}
	wanted := ""
	if answer != nil {
		wanted = answer.Header.Plan
	}
	plan, inChain := p.chain(wanted)
	if answer == nil {
		return
	}
	if plan == nil && (p.row.Intent == (job.Intent{}) || !inChain) {
		if p.row.Intent != (job.Intent{}) {
			j.on("E6").fail("%s: the receipt names a plan that no intent of the page does", about(p.row))
		}
		if plan = p.document(receipt.Plan, wanted); plan != nil && p.run.Mode == job.ReportOnly {
			p.name(plan, false)
		}
	}
	p.answers(answer, plan)
}

// document loads one of the page's own documents and compares its header with the
// ledger (E6). It is nil when the document is missing or damaged.
func (p pageOf) document(kind receipt.Kind, hash string) *receipt.Document {
	v := p.on("E6")
	v.look(1)
	doc, there := p.load(receipt.Name(kind, p.row.Run, p.row.ID, hash))
	if !there {
		v.fail("%s: its %s %s is not there", about(p.row), kind, hash)
	}
	if doc != nil {
		p.header(doc)
	}
	return doc
}

// header compares a document's header with the ledger.
func (p pageOf) header(doc *receipt.Document) {
	h, r := &doc.Header, p.run
	bucket := h.Bucket
	if s := p.scopeOf(r); s != nil {
		bucket = s.policy.Bucket
	} else if p.row.Intent != (job.Intent{}) {
		p.on("E6").fail("%s: acted under a policy version that is not on record", about(p.row))
	}
	for _, f := range []struct {
		name string
		same bool
	}{
		{"tenant", h.Tenant == p.row.Tenant},
		{"policy", h.Policy == r.Policy && h.PolicyVersion == r.Version && h.PolicySHA256 == r.PolicySHA256},
		{"mode", h.Mode == r.Mode},
		{"bucket", h.Bucket == bucket},
		{"cutoff", h.Cutoff.Equal(r.Cutoff)},
		{"fence", h.Fence <= p.row.Fence || p.row.Kind == job.ItemPage},
	} {
		if !f.same {
			p.on("E6").fail("%s: the %s's %s is not the ledger's", about(p.row), h.Kind, f.name)
		}
	}
}

// chain walks the committed plans from the intent back, and returns the one that
// is wanted and whether its hash is among them.
func (p pageOf) chain(wanted string) (found *receipt.Document, among bool) {
	var later *receipt.Document
	for hash := p.row.Intent.Plan; hash != ""; {
		if later != nil && p.row.Kind == job.ItemPage && !p.has(hash) {
			p.narrowsParent(later, hash)
			break
		}
		doc := p.document(receipt.Plan, hash)
		among = among || hash == wanted
		if doc == nil {
			break
		}
		if hash == wanted {
			found = doc
		}
		if later == nil {
			p.intent(doc)
		} else {
			p.narrowing(later, doc)
		}
		p.name(doc, true)
		later, hash = doc, doc.Header.Narrows
	}
	return found, among
}

// has reports whether the page has a plan of the hash.
func (p pageOf) has(hash string) bool {
	_, ok := p.Evidence[receipt.Name(receipt.Plan, p.row.Run, p.row.ID, hash)]
	return ok
}

// intent compares the row's intent with the plan that it names.
func (p pageOf) intent(plan *receipt.Document) {
	in := p.row.Intent
	if n := plan.Deletes(); n != in.Deletes || plan.Header.HoldEpoch != in.Epoch || plan.Header.Fence != in.Fence {
		p.on("E6").fail("%s: the intent says %d deletes, epoch %d, fence %d, and its plan %d, %d, %d", about(p.row),
			in.Deletes, in.Epoch, in.Fence, n, plan.Header.HoldEpoch, plan.Header.Fence)
	}
}

// narrowing checks that the later plan only shrinks the earlier one.
func (p pageOf) narrowing(later, earlier *receipt.Document) {
	v := p.on("S19")
	v.look(1)
	if !receipt.Subset(*later, *earlier) {
		v.fail("%s: a later plan deletes %d items and is no part of the earlier one with %d", about(p.row), later.Deletes(), earlier.Deletes())
	}
}

// narrowsParent checks the first plan of a split-off item against the plan of the
// page that it was split off from.
func (p pageOf) narrowsParent(own *receipt.Document, hash string) {
	doc, there := p.loadParent(receipt.Name(receipt.Plan, p.row.Run, p.row.Parent, hash))
	if !there {
		p.on("E6").fail("%s: the plan of page %s that it was split off from is not there", about(p.row), p.row.Parent)
	}
	if doc == nil {
		return
	}
	// Subset compares plans of one page; the parent is the one page that may differ.
	earlier := *doc
	earlier.Header.PageID = own.Header.PageID
	p.narrowing(own, &earlier)
}

// name ties effects to the page whose plan decided them.
func (p pageOf) name(plan *receipt.Document, committed bool) {
	for i := range plan.Lines {
		l := &plan.Lines[i]
		if l.Decision != receipt.Delete {
			continue
		}
		p.matching(plan.Header.Bucket, &l.Item, func(effect int32, exact bool) {
			p.traces.name(effect, naming{page: p.at, exact: exact, committed: committed, epoch: plan.Header.HoldEpoch})
		})
	}
}

// answers reads the receipt that counts.
func (p pageOf) answers(doc, plan *receipt.Document) {
	if plan != nil && !sameItems(doc, plan) {
		p.on("E6").fail("%s: the receipt's items are not those of its plan", about(p.row))
	}
	v, t := p.on("E5"), doc.Totals()
	if p.row.Counts != t.Counts || p.row.Bytes != t.Bytes {
		v.fail("%s: the row counts %d outcomes and %d bytes, its receipt %d and %d", about(p.row),
			p.row.Counts.Sum(), p.row.Bytes, t.Counts.Sum(), t.Bytes)
	}
	if settled(p.row) && (p.row.Planned != len(doc.Lines) || p.row.Moved != doc.Count(receipt.Moved)) {
		v.fail("%s: the row says %d planned and %d moved, its receipt %d and %d", about(p.row),
			p.row.Planned, p.row.Moved, len(doc.Lines), doc.Count(receipt.Moved))
	}
	s := p.scopeOf(p.run)
	admitted := s != nil && s.admits(p.row.Tenant)
	for i := range doc.Lines {
		l := &doc.Lines[i]
		if s != nil {
			p.on("S5").look(1)
			if !admitted || !s.under(p.row.Tenant, l.Key) {
				p.on("S5").fail("%s: %s in its receipt is not under the tenant", about(p.row), masked(l.Key))
			}
		}
		p.once(l)
		p.outcome(doc.Header.Bucket, l)
	}
}

func sameItems(a, b *receipt.Document) bool {
	if len(a.Lines) != len(b.Lines) {
		return false
	}
	for i := range a.Lines {
		if a.Lines[i].Ref() != b.Lines[i].Ref() {
			return false
		}
	}
	return true
}

// once checks that no other page of the run has an outcome for the item.
func (p pageOf) once(l *receipt.Line) {
	if l.Outcome == job.NoOutcome {
		return
	}
	v := p.on("S11")
	v.look(1)
	if other, ok := p.seen[l.Ref()]; ok && other != p.at {
		v.fail("%s: %s is %s here and has an outcome in page %s too", about(p.row), masked(l.Key), l.Outcome, p.Pages[other].ID)
		return
	}
	p.seen[l.Ref()] = p.at
}

// outcome compares one line with what happened.
func (p pageOf) outcome(bucket string, l *receipt.Line) {
	word := p.tells(l)
	happened := false
	p.matching(bucket, &l.Item, func(effect int32, _ bool) {
		if p.traces.list[effect].undone {
			return
		}
		happened = true
		p.traces.tell(effect, word, p.at)
		p.erased(bucket, l, &p.Effects[effect])
	})
	if l.Outcome.Deletes() && l.Proof == job.Answered {
		v := p.on("E2")
		v.look(1)
		if !happened {
			v.fail("%s: %s is %s, answered, and no such delete took effect", about(p.row), masked(l.Key), l.Outcome)
		}
	}
	if l.Outcome == job.Deleted && p.Remains != nil {
		v := p.on("E3")
		v.look(1)
		if found, ok := p.Remains(bucket, l.Ref()); ok && (l.Version != "" || found.ETag == l.ETag && found.Size == l.Size && found.Modified.Equal(l.Modified)) {
			v.fail("%s: %s is deleted and still readable", about(p.row), masked(l.Key))
		}
	}
}

// erased checks that the bytes under a marker are not called deleted.
func (p pageOf) erased(bucket string, l *receipt.Line, e *Effect) {
	if l.Outcome != job.Deleted || !e.Marker || p.Remains == nil {
		return
	}
	if _, ok := p.Remains(bucket, e.Item.Ref()); ok && e.Item.Version != "" {
		p.on("E3").fail("%s: %s is deleted, but its version lies under a marker", about(p.row), masked(l.Key))
	}
}

// tells says what a line makes of an effect on its item.
func (p pageOf) tells(l *receipt.Line) told {
	pending := p.row.State.Open() || p.row.State == job.Dead
	switch l.Outcome {
	case job.Deleted, job.DeletedMarkerOnly:
		if l.Proof == job.Answered {
			return answered
		}
		return concluded
	case job.Superseded:
		return replaced
	case job.NoOutcome, job.Failed, job.Refused:
		if l.Decision == receipt.Moved {
			return untold // its own page tells
		}
		if pending {
			return owed
		}
		return denied
	default:
		return denied
	}
}
