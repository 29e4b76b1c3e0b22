package redrive_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

func refTo(p job.Page) redrive.PageRef {
	return redrive.PageRef{Run: p.Run, Tenant: p.Tenant, Page: p.ID}
}

func discard(pages []job.Page, messages ...string) redrive.DiscardRequest {
	q := redrive.DiscardRequest{Op: redrive.OpDiscard, Messages: messages, Signature: ana}
	for _, p := range pages {
		q.Pages = append(q.Pages, refTo(p))
	}
	return q
}

func (r *region) discarded(q redrive.DiscardRequest) redrive.Discards {
	r.t.Helper()
	a, err := ask[redrive.Discards](r, r.Redriver, q)
	must(r.t, err)
	return a
}

// F17: a page without an open intent was never touched. Each of its items gets the
// outcome that says so, the sums hold, and the run closes.
func TestDiscardOfAnUntouchedPage(t *testing.T) {
	for death, outcome := range map[job.Reason]job.Outcome{
		job.ReasonForbidden: job.Refused, job.ReasonAttempts: job.Failed, job.ReasonAge: job.Failed, job.ReasonOutsidePolicy: job.Failed,
	} {
		r := newRegion(t)
		pages := r.die("exports", true, "acme", "beta")
		r.set(pages[0], func(p *job.Page) { p.Death.Reason = death })
		r.still(func() {
			a := r.discarded(discard(pages[:1]))
			if len(a.Pages) != 1 || a.Pages[0].Result != redrive.Discarded || a.Pages[0].PageRef != refTo(pages[0]) || a.Swept != 1 || len(a.Letters) != 0 {
				t.Errorf("%+v", a)
			}
		}, "entry", "page:discarded", "remove", "visibility")
		row := r.page(pages[0])
		if row.State != job.Discarded || row.Counts[outcome] != 2 || row.Counts.Sum() != 2 || row.Planned != 2 || !row.SettledAt.Equal(r.Clock.Now()) {
			t.Errorf("%s: %+v", death, row)
		}
		if tot := row.Totals(); tot.Candidates != 2 || tot.Counts.Sum() != 2 {
			t.Errorf("%s: E5: %+v", death, tot)
		}
		if e := r.entries(audit.PageDiscarded); len(e) != 1 || e[0].PageID != row.ID || e[0].RunID != row.Run || e[0].TenantID != "acme" || e[0].By != ana.By {
			t.Errorf("%+v", e)
		}
		letters := r.Queue.PeekLetters()
		if len(letters) != 1 || letters[0].Letter.PageID != pages[1].ID {
			t.Errorf("letters %+v", letters)
		}
		r.discarded(discard(pages[1:]))
		must(t, r.Drain(t.Context()))
		if run, err := r.Ledger.Run(t.Context(), row.Run); err != nil || run.State != job.Closed || !run.WithFailures() {
			t.Errorf("%+v, %v", run, err)
		}
		r.deletedOnce(0)
		r.holds()
	}
}

// A page that has split items off owes nothing for them; what its rows say of its
// own items stays.
func TestDiscardKeepsWhatIsSettled(t *testing.T) {
	r := newRegion(t)
	_, pages := r.dead("exports", 1, func(p *job.Page) {
		p.Candidates, p.Planned, p.Moved, p.Receipt, p.Bytes = 10, 9, 2, "ab", 30
		p.Counts[job.Held], p.Counts[job.AlreadyAbsent] = 2, 1
	})
	r.discarded(discard(pages))
	row := r.page(pages[0])
	if row.Counts[job.Held] != 2 || row.Counts[job.AlreadyAbsent] != 1 || row.Counts[job.Failed] != 4 || row.Moved != 2 || row.Planned != 9 ||
		row.Receipt != "ab" || row.Bytes != 30 {
		t.Errorf("%+v", row)
	}
}

// F17: what an open intent has done is not known before somebody has looked. The
// page goes to a worker once more, which deletes nothing, and says so.
func TestDiscardOfAnOpenIntentSettlesFirst(t *testing.T) {
	r := newRegion(t)
	pages := r.die("exports", false, "acme")
	r.still(func() {
		a := r.discarded(discard(pages))
		if a.Pages[0].Result != redrive.Settling || a.Swept != 1 || !strings.Contains(a.Pages[0].Text, "deletes nothing") {
			t.Errorf("%+v", a)
		}
	}, "entry", "page:redriven", "send", "page:redriven", "remove")
	row := r.page(pages[0])
	if row.State != job.Redriven || !row.Abandoned || row.RedriveID != "" || row.Intent != pages[0].Intent || !row.NextDue.After(r.Clock.Now()) {
		t.Errorf("%+v", row)
	}
	if n := len(r.bodies(job.Enforce)); n != 1 {
		t.Errorf("%d messages", n)
	}
	r.still(func() { // asked again, it is on its way
		if a := r.discarded(discard(pages)); a.Pages[0].Result != redrive.Settling {
			t.Errorf("%+v", a)
		}
	})
	r.Clock.Advance(r.Settings.RequestLifetime)
	must(t, r.Drain(t.Context()))
	if row = r.page(pages[0]); row.State != job.Discarded || row.Totals().Candidates != 2 || row.Counts.Sum() != 2 {
		t.Errorf("%+v", row)
	}
	if a := r.discarded(discard(pages)); a.Pages[0].Result != redrive.Discarded {
		t.Errorf("%+v", a)
	}
	r.deletedOnce(0)
	r.holds()
}

func TestDiscardIsRefused(t *testing.T) {
	r := newRegion(t)
	_, pages := r.dead("exports", 3)
	done := r.set(pages[0], func(p *job.Page) { p.State = job.Completed })
	gone := r.set(pages[1], func(p *job.Page) { p.State = job.Discarded })
	nobody := pages[2]
	nobody.ID = job.PageID(strings.Repeat("0", 32))
	nowhere := pages[2]
	nowhere.Run = job.RunID(strings.Repeat("0", 32))
	a := r.discarded(discard([]job.Page{done, gone, nobody, nowhere}))
	for i, want := range []redrive.Result{redrive.Refused, redrive.Discarded, redrive.Refused, redrive.Refused} {
		if a.Pages[i].Result != want || a.Pages[i].Text == "" {
			t.Errorf("%+v, want it %s", a.Pages[i], want)
		}
	}
	if n := len(r.entries(audit.PageDiscarded)); n != 0 || r.page(done) != done || r.page(gone) != gone {
		t.Errorf("%d orders", n)
	}
	abroad := r.another(func(c *redrive.Config) { c.Region = "us-east-1" })
	if a, err := ask[redrive.Discards](r, abroad, discard(pages[2:])); err != nil || a.Pages[0].Result != redrive.Refused || r.page(pages[2]).State != job.Dead {
		t.Errorf("%+v, %v", a, err)
	}
	over := r.another(func(c *redrive.Config) { c.Pages = slow{r.Ledger, r.Clock, time.Minute} })
	a, err := ask[redrive.Discards](r, over, discard([]job.Page{pages[2], pages[2]}))
	if err != nil || a.Pages[1].Result != redrive.Failed || !strings.Contains(a.Pages[1].Text, "Ask again") {
		t.Errorf("%+v, %v", a, err)
	}
}

// A letter without a page of ours goes by its message id; every other is put back
// and visible at once. A dead page's goes with its page alone.
func TestDiscardOfLetters(t *testing.T) {
	r := newRegion(t)
	want := r.strange()
	var ofPage, stray, stale string
	for _, d := range r.Queue.PeekLetters() {
		switch want[d.MessageID] {
		case "":
			ofPage = d.MessageID
		case redrive.UnknownSource:
			stray = d.MessageID
		case redrive.Stale:
			stale = d.MessageID
		default: // the others stay
		}
	}
	all := len(r.Queue.PeekLetters())
	a := r.discarded(discard(nil, ofPage, stray, stale, "message-404"))
	for i, want := range []redrive.Result{redrive.Refused, redrive.Discarded, redrive.Discarded, redrive.NotFound} {
		if a.Letters[i].Result != want || a.Letters[i].Text == "" {
			t.Errorf("%+v, want it %s", a.Letters[i], want)
		}
	}
	if e := r.entries(audit.LetterDiscarded); len(e) != 2 || e[0].MessageID == "" || e[0].Reason != ana.Reason {
		t.Errorf("%+v", e)
	}
	visible, err := r.Queue.Letters(t.Context(), 100)
	must(t, err)
	if len(visible) != all-3 || a.Swept != 1 { // of two stale copies one is named
		t.Errorf("%d letters are visible and %d were dropped, want %d and 1", len(visible), a.Swept, all-3)
	}
	for _, d := range visible {
		if d.MessageID == stray || d.MessageID == stale {
			t.Errorf("%s is still there", d.MessageID)
		}
	}
}

// Every write of a discard in every way: the order comes first, and asked again it
// ends the same.
func TestEveryWriteOfADiscard(t *testing.T) {
	for _, listing := range []bool{true, false} {
		clean := &script{at: -1}
		prepare := func(t *testing.T) (*region, redrive.DiscardRequest, job.Page, string) {
			r := newRegion(t)
			r.tick()
			pages := r.die("exports", listing, "acme")
			r.Queue.Stray([]byte("x"))
			all := r.Queue.PeekLetters()
			stray := all[len(all)-1].MessageID
			return r, discard(pages, stray), pages[0], stray
		}
		r, q, _, _ := prepare(t)
		r.under(clean, func() { r.discarded(q) })
		for at, op := range clean.writes {
			for _, s := range strikes {
				t.Run(fmt.Sprintf("%v %02d %s: %s", listing, at, op, s), func(t *testing.T) {
					r, q, page, stray := prepare(t)
					r.under(&script{at: at, strike: s}, func() {
						process(func() { _, _ = ask[redrive.Discards](r, r.Redriver, q) })
						if r.page(page).State != job.Dead && len(r.entries(audit.PageDiscarded)) == 0 {
							t.Error("E7: given up without an order")
						}
						r.Clock.Advance(r.Settings.Visibility())
						a := r.discarded(q)
						if result := a.Pages[0].Result; result != redrive.Discarded && result != redrive.Settling {
							t.Errorf("%+v", a)
						}
						if result := a.Letters[0].Result; result != redrive.Discarded && result != redrive.NotFound {
							t.Errorf("%+v", a)
						}
						r.Clock.Advance(r.Settings.Visibility())
						r.discarded(q)
					})
					row := r.page(page)
					if listing && row.State != job.Discarded || !listing && (row.State != job.Redriven || !row.Abandoned || len(r.bodies(job.Enforce)) == 0) {
						t.Errorf("%+v", row)
					}
					for _, d := range r.Queue.PeekLetters() {
						t.Errorf("left %+v of page %s and stray %s", d, page.ID, stray)
					}
					if len(r.entries(audit.LetterDiscarded)) == 0 {
						t.Error("E7: a letter went without an order")
					}
				})
			}
		}
	}
}

// Somebody redrives the page while it is being given up: the row says who was first.
func TestDiscardLosesToARedrive(t *testing.T) {
	r := newRegion(t)
	_, pages := r.dead("exports", 1)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	once := false
	r.Ledger.Hook = func(op string, apply func() error) error {
		if op == "page:discarded" && !once {
			once = true
			r.applied(plan.Token)
		}
		return apply()
	}
	a := r.discarded(discard(pages))
	if a.Pages[0].Result != redrive.Refused || r.page(pages[0]).State != job.Redriven {
		t.Errorf("%+v", a)
	}
	broken := r.another(func(c *redrive.Config) { c.Pages = unreadable{r.Ledger, pages[0].ID, failure.Network} })
	if a, err := ask[redrive.Discards](r, broken, discard(pages)); err != nil || a.Pages[0].Result != redrive.Failed {
		t.Errorf("%+v, %v", a, err)
	}
}
