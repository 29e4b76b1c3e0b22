package redrive

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const (
	// answerOf is how many letters SQS hands out at most in one answer.
	answerOf = 10
	// lettersMost is how many letters one call looks at.
	lettersMost = 2000
	// idleAnswers is how many answers in a row that bring nothing new end a walk. SQS
	// asks some of its servers for each, and one alone proves nothing.
	idleAnswers = 4
)

// died reports whether a letter with the reason is a page's death. Any other was
// written about a message that a worker refused, whatever page it named.
func died(reason job.Reason) bool {
	switch reason {
	case job.ReasonUnknownPolicy, job.ReasonOutsidePolicy, job.ReasonForbidden, job.ReasonAttempts, job.ReasonAge:
		return true
	default:
		return false
	}
}

// unopened reports whether a letter is a message that was given up before anybody had
// read it: by its queue, or by a worker of the release before. Its body says whose it is.
func unopened(d job.DeadLetter) bool {
	return d.Letter.Reason == job.ReasonNewerSchema || d.Letter.Reason == "" && d.Origin != ""
}

// newer reports whether a body is a later release's.
func newer(body []byte) bool {
	_, err := job.Decode(body)
	why, ok := errors.AsType[*job.DecodeError](err)
	return ok && why.Reason == job.ReasonNewerSchema
}

// names returns the page that a letter is a copy for, as it says itself; "" when it
// is about none.
func names(d job.DeadLetter) job.PageID {
	switch {
	case died(d.Letter.Reason):
		return d.Letter.PageID
	case unopened(d):
		c, err := job.Decode(d.Body)
		if err == nil {
			return c.PageID
		}
	}
	return ""
}

// peek looks at the dead letters and hides none. more says that there may be others.
func (r *Redriver) peek(ctx context.Context, deadline time.Time) (all []job.DeadLetter, more bool, err error) {
	seen := map[string]bool{}
	for idle := 0; idle < idleAnswers && !more; more = len(all) >= lettersMost || r.late(deadline) {
		got, err := r.Letters.Peek(ctx, answerOf)
		if err != nil {
			return nil, false, err
		}
		idle++
		for _, d := range got {
			if !seen[d.MessageID] {
				seen[d.MessageID], idle = true, 0
				all = append(all, d)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b job.DeadLetter) int { return a.SentAt.Compare(b.SentAt) })
	return all, more, nil
}

// copies sorts letters by the page that each says it is a copy for.
func copies(all []job.DeadLetter) map[job.PageID][]job.DeadLetter {
	by := map[job.PageID][]job.DeadLetter{}
	for _, d := range all {
		if id := names(d); id != "" {
			by[id] = append(by[id], d)
		}
	}
	return by
}

// standing says what a letter is to the ledger. Only a letter that a page's death
// wrote, or that nobody had read, is ever taken for a page's.
func (l *look) standing(ctx context.Context, d job.DeadLetter) (Standing, error) {
	switch {
	case d.Damaged:
		return Damaged, nil
	case d.Letter.Reason == "" && d.Origin == "":
		return UnknownSource, nil
	case !died(d.Letter.Reason) && !unopened(d):
		return Quarantined, nil
	case newer(d.Body):
		return Newer, nil
	}
	c, err := job.Decode(d.Body)
	if err != nil {
		return NoCommand, nil //nolint:nilerr // that it does not decode is the answer
	}
	run, err := l.run(ctx, c.RunID)
	if err != nil {
		return absent(err)
	}
	page, err := l.Pages.Page(ctx, c.RunID, c.TenantID, c.PageID)
	switch {
	case err != nil:
		return absent(err)
	case !bytes.Equal(d.Body, job.NewCommand(run, page).Encode()):
		return OtherBody, nil
	case page.State == job.Dead:
		return OfDeadPage, nil
	case owed(page):
		return Owed, nil
	default:
		return Stale, nil
	}
}

func absent(err error) (Standing, error) {
	if failure.Is(err, failure.Absent) {
		return NoPage, nil
	}
	return "", err
}

// owed reports whether a page was moved back and nobody has noted yet that its
// message was accepted: it is due since the very instant at which it was moved.
func owed(p job.Page) bool { return p.State == job.Redriven && !p.NextDue.After(p.RestartedAt) }

// letterOf describes a letter without quoting it.
func (l *look) letterOf(d job.DeadLetter, s Standing) Letter {
	letter := Letter{
		Copy: l.copyOf(d), Standing: s, Origin: d.Origin, Size: len(d.Body), SHA256: hashOf(d.Body), Text: advice(s),
	}
	if slices.Contains(job.Reasons(), d.Letter.Reason) { // anything else is whatever its writer put there
		letter.Death = d.Letter.Reason
	}
	if c, err := job.Decode(d.Body); err == nil {
		letter.Page, letter.Policy = &PageRef{c.RunID, c.TenantID, c.PageID}, c.Policy
	}
	return letter
}

// advice says what to do with a letter.
func advice(s Standing) string {
	switch s {
	case OfDeadPage:
		return "It belongs to a dead page. Redrive or discard the page; the letter follows it."
	case Owed:
		return "Its page was moved back, and nobody knows yet that its message was sent. Reconcile sends it; a redrive drops the letter after that."
	case Stale:
		return "It is a stale copy of a page that is not dead any more. The next redrive or discard drops it."
	case UnknownSource:
		return "Nobody wrote why it lies here and no queue of ours moved it. Find out who sent it, then discard it by its message id. A redrive leaves it."
	case Damaged:
		return "Its attributes do not read or are not those of its body. Find out who wrote it, then discard it by its message id. A redrive leaves it."
	case Quarantined:
		return "A worker refused the message for this reason, and it is no page's death. Mend its sender, then discard it by its message id. A redrive leaves it."
	case Newer:
		return "A later release wrote it. Deploy that release and look again, or discard it by its message id: its page goes by the ledger. A redrive leaves it."
	case NoCommand:
		return "Its body is no command of this schema. Find out who sent it, then discard it by its message id. A redrive leaves it."
	case NoPage:
		return "It names a page that is not on record in this region. Find out where it is from, then discard it by its message id. A redrive leaves it."
	default:
		return "It names a page of ours and is not its command. Find out who wrote it, then discard it by its message id. A redrive leaves it."
	}
}

// matches reports whether a letter is one that the filter chooses. A letter whose
// body says nothing of itself is chosen only by its reason.
func (f Filter) matches(l Letter) bool {
	var page PageRef
	if l.Page != nil {
		page = *l.Page
	}
	return (f.Death == "" || f.Death == l.Death) && (f.Policy == "" || f.Policy == l.Policy) && (f.Tenant == "" || f.Tenant == page.Tenant) &&
		(f.Run == "" || f.Run == page.Run) && (f.Page == "" || f.Page == page.Page)
}
