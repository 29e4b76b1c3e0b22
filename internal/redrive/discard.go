package redrive

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const opDiscard = "discard"

// Result says what became of one thing that was to be discarded.
type Result string

// The results.
const (
	Discarded Result = "discarded"
	Settling  Result = "settling"  // a worker looks at what the page's open intent has done, deletes nothing, and ends it
	NotFound  Result = "not_found" // a letter that was not seen
	Refused   Result = "refused"   // the text says why
	Failed    Result = "failed"    // ask again
)

// DiscardedPage is what became of a page.
type DiscardedPage struct {
	PageRef
	Result Result `json:"result"`
	Text   string `json:"text"`
}

// DiscardedLetter is what became of a letter.
type DiscardedLetter struct {
	MessageID string `json:"message_id"`
	Result    Result `json:"result"`
	Text      string `json:"text"`
}

// Discards is what became of everything that was to be discarded.
type Discards struct {
	Pages   []DiscardedPage   `json:"pages"`
	Letters []DiscardedLetter `json:"letters"`
	Swept   int               `json:"swept"` // stale copies dropped: those of the pages among them
}

// discard gives up pages, and letters that are no dead page's.
func (r *Redriver) discard(ctx context.Context, deadline time.Time, q DiscardRequest) (a Discards, err error) {
	if err := q.Signature.Check(opDiscard); err != nil {
		return a, err
	}
	if err := q.check(r.Settings.RedriveBatch); err != nil {
		return a, err
	}
	a = Discards{Pages: []DiscardedPage{}, Letters: []DiscardedLetter{}}
	for _, ref := range q.Pages {
		result, text := r.discardPage(ctx, deadline, q.Signature, ref)
		a.Pages = append(a.Pages, DiscardedPage{ref, result, text})
	}
	if len(q.Messages) > 0 {
		a.Letters = r.discardLetters(ctx, deadline, q.Signature, q.Messages)
	}
	if len(q.Pages) > 0 {
		a.Swept, _ = r.sweep(ctx, deadline) // what remains is the next sweep's
	}
	return a, nil
}

func (q DiscardRequest) check(most int) error {
	if n := len(q.Pages) + len(q.Messages); n == 0 || n > most {
		return failure.New(failure.Invalid, opDiscard, "name 1 to "+strconv.Itoa(most)+" pages and message_ids together")
	}
	for _, ref := range q.Pages {
		if !isID(string(ref.Run)) || !isID(string(ref.Page)) || !job.ValidTenant(ref.Tenant) {
			return failure.New(failure.Invalid, opDiscard, "a page is named by run_id and page_id, 32 hex digits each, and tenant_id")
		}
	}
	for _, id := range q.Messages {
		if id == "" || len(id) > maxMessageID {
			return failure.New(failure.Invalid, opDiscard, "a message id is 1 to "+strconv.Itoa(maxMessageID)+" bytes, as inspect shows it")
		}
	}
	return nil
}

// maxMessageID is the most bytes of a message id:
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html
const maxMessageID = 100

// asked reads what a page to be discarded is now. done says that there is nothing to
// order: the page is at its end, on its way there, or not one that can be discarded.
func (r *Redriver) asked(ctx context.Context, ref PageRef) (moved, Result, string, error) {
	run, err := r.Runs.Run(ctx, ref.Run)
	if err != nil {
		return moved{}, "", "", err
	}
	page, err := r.Pages.Page(ctx, ref.Run, ref.Tenant, ref.Page)
	if err != nil {
		return moved{}, "", "", err
	}
	of := moved{run, page}
	switch {
	case run.Region != r.Region:
		return of, Refused, "The run belongs to region " + run.Region + ". Discard the page there.", nil
	case page.State == job.Discarded:
		return of, Discarded, "The page is discarded.", nil
	case page.Abandoned && page.State.Open():
		return of, Settling, "A worker settles what the page's open intent has done, and deletes nothing. Ask for the page again later.", nil
	case page.State != job.Dead:
		return of, Refused, "The page is " + string(page.State) + ". Only a dead page can be discarded.", nil
	default:
		return of, "", "", nil
	}
}

// discardPage gives up one page. Without an open intent nothing was done, and what
// nobody settled ends as refused or failed. With one, a worker has to look first (F17).
func (r *Redriver) discardPage(ctx context.Context, deadline time.Time, s audit.Signature, ref PageRef) (Result, string) {
	ordered := false
	var last error
	for range moveTries {
		if r.late(deadline) {
			return Failed, "There was no time left. Ask again."
		}
		of, result, text, err := r.asked(ctx, ref)
		switch {
		case failure.Is(err, failure.Absent):
			return Refused, "No such page is on record in this region."
		case err != nil:
			last = err
			continue
		case result == Settling && owed(of.page):
			r.sendAgain(ctx, of)
			return result, text
		case result != "":
			return result, text
		}
		if !ordered {
			e := audit.Entry{Act: audit.PageDiscarded, Policy: of.run.Policy, Version: of.run.Version, RunID: ref.Run, PageID: ref.Page, TenantID: ref.Tenant}
			if err := r.order(ctx, s, e); err != nil {
				return failed(err)
			}
			ordered = true
		}
		// Whether it was written says the row, which is read once more.
		last = r.Pages.SwapPage(ctx, r.ended(of.page))
	}
	if of, result, text, err := r.asked(ctx, ref); err == nil && result != "" {
		if result == Settling && owed(of.page) {
			r.sendAgain(ctx, of)
		}
		return result, text
	}
	return failed(last)
}

func failed(err error) (Result, string) {
	return Failed, "It failed with " + string(failure.Of(err)) + " in \"" + failure.Op(err) + "\". Ask again."
}

// ended is the row that gives the dead page up.
func (r *Redriver) ended(page job.Page) job.Page {
	if page.Intent != (job.Intent{}) {
		next, _ := page.Abandon(r.now(), r.now()) // a dead page with an open intent allows it
		return next
	}
	next, _ := page.Discard(settled(page, r.now())) // and one without allows this
	return next
}

// settled gives every item of a dead page without an open intent its outcome: what
// nobody settled, nobody has touched.
func settled(page job.Page, now time.Time) job.Settled {
	s := page.Settlement()
	outcome := job.Failed
	if page.Death.Reason == job.ReasonForbidden {
		outcome = job.Refused
	}
	s.Counts[outcome] += page.Totals().Candidates - s.Counts.Sum()
	s.Planned, s.At = s.Counts.Sum()+s.Moved, now
	return s
}

// sendAgain sends a page whose message is owed. What fails here reconcile does.
func (r *Redriver) sendAgain(ctx context.Context, of moved) {
	accepted, _ := r.Sender.Send(ctx, of.run.Mode, []job.Message{job.NewMessage(of.run, of.page)})
	if len(accepted) > 0 {
		r.sent(ctx, of.page)
	}
}

// discardLetters removes the letters with the message ids, and puts every other back.
func (r *Redriver) discardLetters(ctx context.Context, deadline time.Time, s audit.Signature, ids []string) []DiscardedLetter {
	results := make([]DiscardedLetter, len(ids))
	at := map[string]int{}
	for i, id := range ids {
		results[i] = DiscardedLetter{id, NotFound, "It was not seen: it may have expired, or somebody holds it. Ask again after the queue's visibility timeout, " +
			r.Settings.Visibility().String() + "."}
		at[id] = i
	}
	l := r.look()
	_, err := r.receive(ctx, deadline, func(d job.DeadLetter) (keep, enough bool) {
		i, wanted := at[d.MessageID]
		if !wanted {
			return true, false
		}
		delete(at, d.MessageID)
		results[i].Result, results[i].Text = r.discardLetter(ctx, l, s, d)
		return results[i].Result != Discarded, len(at) == 0
	})
	if err != nil {
		for _, i := range at {
			results[i].Result, results[i].Text = failed(err)
		}
	}
	return results
}

// discardLetter removes one letter, unless it belongs to a dead page: that is given
// up by its page, and the letter follows.
func (r *Redriver) discardLetter(ctx context.Context, l *look, s audit.Signature, d job.DeadLetter) (Result, string) {
	standing, err := l.standing(ctx, d)
	if err != nil {
		return failed(err)
	}
	if standing == OfDeadPage {
		return Refused, advice(standing)
	}
	if err := r.order(ctx, s, audit.Entry{Act: audit.LetterDiscarded, MessageID: d.MessageID, Count: 1}); err != nil {
		return failed(err)
	}
	if err := r.Letters.Remove(ctx, d); err != nil {
		return failed(err)
	}
	return Discarded, "The letter is removed."
}
