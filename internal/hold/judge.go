package hold

import (
	"context"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// verdict is what is said of a page, and what of it is gone.
type verdict struct {
	word  Word
	until time.Time // of what is in flight
	gone  map[string]int
	proof job.Proof
}

func held() verdict                    { return verdict{word: Held} }
func inFlight(until time.Time) verdict { return verdict{word: InFlight, until: until} }

// page lists the verdict.
func (v verdict) page(run job.Run, p job.Page) Page {
	l := Page{RunID: run.ID, Policy: run.Policy, PageID: p.ID, Answer: v.word, Until: v.until, Outcomes: v.gone, Proof: v.proof}
	for _, n := range v.gone {
		l.Items += n
	}
	if v.word == TooLate {
		l.Receipt = p.Receipt
	}
	return l
}

// lost reports whether the outcome says that what was planned is gone and may have
// gone through us.
func lost(o job.Outcome) bool { return o.Deletes() || o == job.Superseded }

// settled reports whether the outcome is final. What the store refused or never
// answered may still be there, or not.
func settled(o job.Outcome) bool {
	return o != job.NoOutcome && o != job.Refused && o != job.Failed
}

// judge says what a page's row alone tells. settled is false where it takes the
// page's evidence to tell.
func (s *survey) judge(p job.Page, whole bool) (v verdict, settled bool) {
	unsettled := p.Counts[job.Refused] + p.Counts[job.Failed]
	switch {
	case p.Intent == job.Intent{}:
		// Nothing was decided before the hold, and what is decided now knows it.
		return held(), true
	case s.now.Before(s.landed(p)):
		// Where the hold covers only some of the keys the plan may name none of them,
		// and an intent that knew the hold keeps its hands off all of them.
		return inFlight(s.landed(p)), whole && p.Intent.Epoch < s.hold.Epoch
	case !p.State.Terminal() || unsettled > 0:
		return verdict{}, false
	}
	gone := map[string]int{}
	for _, o := range job.Outcomes() {
		if n := p.Counts[o]; n > 0 && lost(o) {
			gone[o.String()] = n
		}
	}
	if len(gone) == 0 {
		return held(), true
	}
	return verdict{word: TooLate, gone: gone}, whole
}

// landed is when nothing of the page's intents can land any more; for a row that
// does not say so, as late as any could be.
func (s *survey) landed(p job.Page) time.Time {
	if p.QuietAt.IsZero() {
		return s.now.Add(s.reach())
	}
	return p.QuietAt
}

// settle says what a page's evidence tells. What can not be read stays in flight:
// until its row's quiet time, which is true without any evidence, or if that is over
// for as long as anything decided before the hold could be.
func (s *survey) settle(ctx context.Context, p pending) verdict {
	v, settled, _ := s.weigh(ctx, p)
	switch {
	case settled:
		return v
	case s.now.Before(s.landed(p.page)):
		s.status.Complete = false
		return inFlight(s.landed(p.page))
	default:
		s.unread()
		return inFlight(s.now.Add(s.reach()))
	}
}

// weigh reads what a page's evidence says of the items within the scope. While a
// request that names one of them may land, it is in flight. After that, what has a
// final outcome is told by it, and the rest by a look: under an intent from before
// the hold an item that is still there can not be deleted any more, because a resume
// narrows by the epoch.
func (s *survey) weigh(ctx context.Context, p pending) (v verdict, ok bool, err error) {
	if s.late(s.deadline) {
		return verdict{}, false, errLate()
	}
	doc, err := s.evidence(ctx, p.page)
	if err != nil {
		return verdict{}, false, err
	}
	doc.Lines = slices.DeleteFunc(doc.Lines, func(l receipt.Line) bool { return untouched(l) || !s.hold.Covers(l.Key) })
	var until time.Time
	for _, l := range doc.Lines {
		if t := s.landedLine(p.page, l); t.After(until) {
			until = t
		}
	}
	if s.now.Before(until) {
		return inFlight(until), true, nil
	}
	v = verdict{word: Held, gone: map[string]int{}, proof: job.Answered}
	var unknown []receipt.Line
	for _, l := range doc.Lines {
		switch {
		case l.Decision == receipt.Retained: // a resume found another object
			v.lose(job.Superseded.String(), job.Inferred)
		case !settled(l.Outcome):
			unknown = append(unknown, l)
		case lost(l.Outcome):
			v.lose(l.Outcome.String(), l.Proof)
		}
	}
	if err := s.look(ctx, p, doc.Header.Bucket, unknown, &v); err != nil {
		return verdict{}, false, err
	}
	return v, true, nil
}

// untouched reports whether no intent of this page names the item: a hold covered it
// from the start, it was kept for a reason of its own, or it has a page of its own.
func untouched(l receipt.Line) bool {
	return l.Decision == receipt.Held || l.Decision == receipt.Moved ||
		l.Decision == receipt.Retained && l.Reason != job.Superseded.String()
}

// landedLine is when nothing can land any more that names the item. A veto keeps the
// quiet time of the moment in which it was dropped from the intents. An intent that
// knew the hold names the item only because an earlier claim had an answer for it, or
// found another object there. That is no reason to stop waiting: a request of that
// claim may still be on its way, and meet the same bytes uploaded again (F5). The row's
// quiet time is later with each resume, so what was decided before the hold ends it.
func (s *survey) landedLine(p job.Page, l receipt.Line) time.Time {
	end := s.landed(p)
	switch last := s.last(); {
	case l.Decision == receipt.Veto:
		return l.SettleAt
	case p.Intent.Epoch >= s.hold.Epoch && last.Before(end):
		return last
	default:
		return end
	}
}

// last is when nothing that was decided before the hold can land any more, whatever
// the rows say. The placement itself may have landed as late as any request does.
func (s *survey) last() time.Time { return s.hold.PlacedAt.Add(2 * s.reach()) }

// lose notes an item that is gone.
func (v *verdict) lose(word string, proof job.Proof) {
	v.word = TooLate
	v.gone[word]++
	if proof != job.Answered {
		v.proof = job.Inferred
	}
}

// evidence returns the receipt of a page that has ended, and else its plan with the
// outcomes that are final by now.
func (s *survey) evidence(ctx context.Context, p job.Page) (receipt.Document, error) {
	if p.State.Terminal() {
		return s.document(ctx, receipt.Receipt, p, p.Receipt)
	}
	doc, err := s.document(ctx, receipt.Plan, p, p.Intent.Plan)
	if err != nil || p.Receipt == "" {
		return doc, err
	}
	progress, err := s.document(ctx, receipt.Receipt, p, p.Receipt)
	if err != nil {
		return doc, err
	}
	known := make(map[job.Ref]receipt.Line, len(progress.Lines))
	for _, l := range progress.Lines {
		known[l.Ref()] = l
	}
	for i := range doc.Lines {
		l := &doc.Lines[i]
		l.Outcome, l.Proof = known[l.Ref()].Outcome, known[l.Ref()].Proof
	}
	return doc, nil
}

// document reads evidence and verifies it against its name, which the row holds.
func (s *survey) document(ctx context.Context, kind receipt.Kind, p job.Page, hash string) (receipt.Document, error) {
	name := receipt.Name(kind, p.Run, p.ID, hash)
	data, err := s.Evidence.Get(ctx, name)
	if err != nil {
		return receipt.Document{}, err
	}
	return receipt.Verify(name, data)
}

// moved returns the items under the hold's key that the page split off.
func (s *survey) moved(ctx context.Context, p job.Page) ([]job.Ref, error) {
	doc, err := s.document(ctx, receipt.Receipt, p, p.Receipt)
	var refs []job.Ref
	for _, l := range doc.Lines {
		if l.Key == s.hold.Value && l.Decision == receipt.Moved {
			refs = append(refs, l.Ref())
		}
	}
	return refs, err
}

// look settles items by what stands under their names now.
func (s *survey) look(ctx context.Context, p pending, bucket string, lines []receipt.Line, v *verdict) error {
	if len(lines) == 0 {
		return nil
	}
	q := job.Query{Bucket: bucket, Prefix: lines[0].Key, Through: lines[len(lines)-1].Key, Versions: lines[0].Version != ""}
	if q.Prefix != q.Through {
		g, err := s.ground(ctx, p.run)
		if err != nil {
			return err
		}
		q.Prefix = g.prefix
		if p.page.After != "" {
			q.After = g.prefix + p.page.After
		}
	}
	found, err := s.standing(ctx, q, lines)
	if err != nil {
		return err
	}
	for _, l := range lines {
		switch current, there := found[l.Ref()]; {
		case !there:
			v.lose(Gone, job.Inferred)
		case !l.Same(current):
			v.lose(job.Superseded.String(), job.Inferred)
		}
	}
	return nil
}

// standing lists what stands under the names of the lines.
func (s *survey) standing(ctx context.Context, q job.Query, lines []receipt.Line) (map[job.Ref]job.Item, error) {
	wanted := make(map[job.Ref]bool, len(lines))
	for _, l := range lines {
		wanted[l.Ref()] = true
	}
	found := make(map[job.Ref]job.Item, len(lines))
	for {
		if s.late(s.deadline) {
			return nil, errLate()
		}
		listing, err := s.Lister.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, item := range listing.Items {
			if wanted[item.Ref()] {
				found[item.Ref()] = item
			}
		}
		if q.Token = listing.Token; q.Token == "" {
			return found, nil
		}
	}
}
