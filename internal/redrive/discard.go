package redrive

import (
	"context"
	"slices"
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
	// Where no page is dead, no redrive comes by to do it. What remains is the next sweep's.
	a.Swept, _, _ = r.sweep(ctx, deadline)
	return a, nil
}

func (q DiscardRequest) check(most int) error {
	if n := len(q.Pages) + len(q.Messages); n == 0 || n > most {
		return failure.New(failure.Invalid, opDiscard, "name 1 to "+strconv.Itoa(most)+" pages and message_ids together")
	}
	for _, ref := range q.Pages {
		if err := ref.check(opDiscard); err != nil {
			return err
		}
	}
	for i, id := range q.Messages {
		if slices.Contains(q.Messages[:i], id) {
			return failure.New(failure.Invalid, opDiscard, "a message id stands twice")
		}
		if id == "" || len(id) > maxMessageID {
			return failure.New(failure.Invalid, opDiscard, "a message id is 1 to "+strconv.Itoa(maxMessageID)+" bytes, as inspect shows it")
		}
	}
	return nil
}

// maxMessageID is the most bytes of a message id:
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html
const maxMessageID = 100

// asked says what a page that is to be discarded is now: at its end, on its way
// there, not one that can be discarded, or, with no result, dead.
func (r *Redriver) asked(run job.Run, page job.Page) (Result, string) {
	switch {
	case run.Region != r.Region:
		return Refused, "The run belongs to region " + run.Region + ". Discard the page there."
	case page.State == job.Discarded:
		return Discarded, "The page is discarded."
	case page.Abandoned && page.State.Open():
		return Settling, "A worker looks at what the page's open intent has done, deletes nothing, and ends it. Ask again later."
	case page.State != job.Dead:
		return Refused, "The page is " + string(page.State) + ". Only a dead page can be discarded."
	default:
		return "", ""
	}
}

// discardPage gives up one page. Without an open intent nothing was done, and what
// nobody settled ends as refused or failed. With one, a worker has to look first
// (F17). What was written says the row, which is read again after each write.
func (r *Redriver) discardPage(ctx context.Context, deadline time.Time, s audit.Signature, ref PageRef) (Result, string) {
	ordered := false
	var last error
	for try := 0; try <= moveTries && !r.late(deadline); try++ {
		run, page, err := r.pair(ctx, ref)
		if failure.Is(err, failure.Absent) {
			return Refused, "No such page is on record in this region."
		}
		if err != nil {
			last = err
			continue
		}
		if result, text := r.asked(run, page); result != "" {
			if result == Settling && owed(page) {
				r.sendOwed(ctx, run, page)
			}
			return result, text
		}
		if try == moveTries {
			break
		}
		if !ordered {
			e := audit.Entry{Act: audit.PageDiscarded, Policy: run.Policy, Version: run.Version, RunID: ref.Run, PageID: ref.Page, TenantID: ref.Tenant}
			if err := r.order(ctx, s, e); err != nil {
				return failed(err)
			}
			ordered = true
		}
		next, err := r.ended(page)
		if err == nil {
			err = r.Pages.SwapPage(ctx, next)
		}
		last = err
	}
	if last == nil {
		return Failed, "There was no time left. Ask again."
	}
	return failed(last)
}

func (r *Redriver) pair(ctx context.Context, ref PageRef) (job.Run, job.Page, error) {
	run, err := r.Runs.Run(ctx, ref.Run)
	if err != nil {
		return run, job.Page{}, err
	}
	page, err := r.Pages.Page(ctx, ref.Run, ref.Tenant, ref.Page)
	return run, page, err
}

func failed(err error) (Result, string) {
	return Failed, "It failed with " + string(failure.Of(err)) + " in \"" + failure.Op(err) + "\". Ask again."
}

// ended is the row that gives the dead page up.
func (r *Redriver) ended(page job.Page) (job.Page, error) {
	now := r.now()
	if page.Intent != (job.Intent{}) {
		return page.Abandon(now, now)
	}
	return page.Discard(settled(page, now))
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

// sendOwed sends a page whose message is owed. What fails here reconcile does.
func (r *Redriver) sendOwed(ctx context.Context, run job.Run, page job.Page) {
	accepted, _ := r.Sender.Send(ctx, run.Mode, []job.Message{job.NewMessage(run, page)})
	if len(accepted) > 0 {
		r.sent(ctx, page)
	}
}

// discardLetters removes the letters with the message ids, and puts every other back.
func (r *Redriver) discardLetters(ctx context.Context, deadline time.Time, s audit.Signature, ids []string) []DiscardedLetter {
	results := make([]DiscardedLetter, len(ids))
	place := map[string]int{}
	for i, id := range ids {
		results[i] = DiscardedLetter{id, NotFound, "It was not seen: it may have expired, or somebody holds it. Ask again after the queue's visibility timeout, " +
			r.Settings.Visibility().String() + "."}
		place[id] = i
	}
	l := r.look()
	_, err := r.receive(ctx, deadline, func(d job.DeadLetter) (keep, last bool) {
		i, wanted := place[d.MessageID]
		if !wanted {
			return true, false
		}
		delete(place, d.MessageID)
		results[i].Result, results[i].Text = r.discardLetter(ctx, l, s, d)
		return results[i].Result != Discarded, len(place) == 0
	})
	if err != nil {
		for _, i := range place {
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
	if standing == OfDeadPage || standing == Owed {
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
