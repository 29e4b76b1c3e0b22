package redrive_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/queue"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// strange writes one dead letter of each kind that is no dead page's, and returns
// what each is to the ledger, by message id.
func (r *region) strange() map[string]redrive.Standing {
	r.t.Helper()
	want := map[string]redrive.Standing{}
	note := func(s redrive.Standing) {
		all := r.Queue.PeekLetters()
		want[all[len(all)-1].MessageID] = s
	}
	run, pages := r.dead("exports", 2)
	alive, err := pages[1].Redrive("", r.Clock.Now(), r.Clock.Now().Add(time.Hour))
	must(r.t, err)
	must(r.t, r.Ledger.SwapPage(r.t.Context(), alive))
	for _, d := range r.Queue.PeekLetters() {
		if d.Letter.PageID == alive.ID {
			want[d.MessageID] = redrive.Stale
		}
	}
	command := job.NewCommand(run, alive)
	write := func(s redrive.Standing, l job.Letter) {
		must(r.t, r.Queue.DeadLetter(r.t.Context(), l))
		note(s)
	}
	for _, reason := range job.Reasons() { // a live page's own command, refused as a message
		switch reason {
		case job.ReasonUnknownPolicy, job.ReasonOutsidePolicy, job.ReasonForbidden, job.ReasonAttempts, job.ReasonAge: // a page's death
		case job.ReasonNewerSchema: // by a worker of the release before
			write(redrive.Stale, job.Letter{Body: command.Encode(), Reason: reason, Region: regionName})
		default:
			write(redrive.Quarantined, job.Letter{Body: command.Encode(), Reason: reason, RunID: run.ID, PageID: alive.ID, Region: regionName})
		}
	}
	forged := command
	forged.Hash = strings.Repeat("0", 32)
	write(redrive.OtherBody, job.Letter{Body: forged.Encode(), Reason: job.ReasonAttempts, RunID: run.ID, PageID: alive.ID, Region: regionName})
	write(redrive.OtherBody, job.Letter{Body: append(command.Encode(), ' '), Reason: job.ReasonAttempts, RunID: run.ID, PageID: alive.ID, Region: regionName})
	forged = command
	forged.PageID = job.PageID(strings.Repeat("0", 32))
	write(redrive.NoPage, job.Letter{Body: forged.Encode(), Reason: job.ReasonAttempts, RunID: run.ID, PageID: forged.PageID, Region: regionName})
	forged.RunID = job.RunID(strings.Repeat("0", 32))
	write(redrive.NoPage, job.Letter{Body: forged.Encode(), Reason: job.ReasonAttempts, RunID: forged.RunID, PageID: forged.PageID, Region: regionName})
	write(redrive.NoCommand, job.Letter{Body: []byte(`{"schema":1}`), Reason: job.ReasonAttempts, Region: regionName})
	write(redrive.Newer, job.Letter{Body: []byte(`{"schema":2}`), Reason: job.ReasonNewerSchema, Region: regionName})
	r.Queue.Stray(command.Encode()) // RD-05: the command of a live page, from nowhere
	note(redrive.UnknownSource)
	r.Queue.Stray([]byte("exports/acme/canary"))
	note(redrive.UnknownSource)
	return want
}

// RD-05: inspect shows what lies there without a page of ours, without quoting it or
// hiding it, and says of each what to do.
func TestInspectShowsLettersWithoutAPage(t *testing.T) {
	r := newRegion(t)
	want := r.strange()
	all := len(r.Queue.PeekLetters())
	var inspection redrive.Inspection
	r.still(func() { inspection = r.inspected(redrive.InspectRequest{}) })
	if len(inspection.Pages) != 1 || len(inspection.Pages[0].Copies) != 1 || inspection.MorePages || inspection.MoreLetters {
		t.Errorf("%+v", inspection)
	}
	for _, l := range inspection.Letters {
		if want[l.MessageID] != l.Standing || len(l.SHA256) != 64 || l.Size == 0 || l.Text == "" {
			t.Errorf("%+v, want it %s", l, want[l.MessageID])
		}
		if l.Standing != redrive.Stale && !strings.Contains(l.Text, "by its message id") {
			t.Errorf("%s: %q does not say what to do", l.Standing, l.Text)
		}
		delete(want, l.MessageID)
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
	if got, err := r.Queue.Letters(t.Context(), 100); err != nil || len(got) != all {
		t.Errorf("%d letters are visible after they were looked at, want %d: %v", len(got), all, err)
	}
}

// RD-01: a letter's end counts from when it was first sent, days in the pages queue
// included; a message that the queue itself moved has a page all the same.
func TestRD01ExpiryCountsFromTheFirstSending(t *testing.T) {
	r := newRegion(t)
	r.put("exports", "acme", "a")
	_, err := r.Tick(t.Context(), "exports", noon)
	must(t, err)
	r.Clock.Advance(3*day + 12*time.Hour)
	for range r.Settings.MaxReceives + 1 { // nobody works, and the queue gives up
		_, err := r.Queue.Receive(t.Context(), job.Enforce, 10)
		must(t, err)
		r.Clock.Advance(r.Settings.Visibility())
	}
	letters := r.Queue.PeekLetters()
	if len(letters) != 1 || letters[0].Origin != job.Enforce {
		t.Fatalf("%+v", letters)
	}
	l := r.inspected(redrive.InspectRequest{}).Letters
	if len(l) != 1 || l[0].Standing != redrive.Stale || l[0].Origin != job.Enforce || !l[0].ExpiresAt.Equal(noon.Add(14*day)) ||
		l[0].ExpiresInSeconds != int64(noon.Add(14*day).Sub(r.Clock.Now()).Seconds()) {
		t.Errorf("%+v", l)
	}
}

func TestInspectIsBounded(t *testing.T) {
	r := newRegion(t)
	r.dead("exports", 30)
	for range 25 {
		r.Queue.Stray([]byte("x"))
	}
	in := r.inspected(redrive.InspectRequest{Limit: 20})
	if len(in.Pages) != 20 || len(in.Letters) != 20 || !in.MorePages || !in.MoreLetters {
		t.Errorf("%d pages, more %v; %d letters, more %v", len(in.Pages), in.MorePages, len(in.Letters), in.MoreLetters)
	}
	if in = r.inspected(redrive.InspectRequest{Limit: 30}); len(in.Pages) != 30 || len(in.Letters) != 25 || in.MorePages || in.MoreLetters {
		t.Errorf("%d pages, more %v; %d letters, more %v", len(in.Pages), in.MorePages, len(in.Letters), in.MoreLetters)
	}
	if in = r.inspected(redrive.InspectRequest{Filter: redrive.Filter{Policy: "exports"}}); len(in.Letters) != 0 {
		t.Errorf("%d letters of a policy", len(in.Letters))
	}
	endless := &endless{Memory: r.Queue, clock: r.Clock}
	by := r.another(func(c *redrive.Config) { c.Letters = endless })
	in, err := ask[redrive.Inspection](r, by, redrive.InspectRequest{Op: redrive.OpInspect})
	if err != nil || !in.MoreLetters || endless.n > 250 {
		t.Errorf("%d answers, more %v: %v", endless.n, in.MoreLetters, err)
	}
}

// The sweep drops exactly the copies of pages that are not dead any more. Whatever
// else lies there stays, and is visible afterwards (RD-05, S15).
func TestSweepLeavesWhatIsNoCopy(t *testing.T) {
	r := newRegion(t)
	want := r.strange()
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	did := r.applied(plan.Token)
	if did.Moved != 1 || did.Swept != 3 || !did.Done {
		t.Errorf("%+v", did)
	}
	got, err := r.Queue.Letters(t.Context(), 100)
	must(t, err)
	for _, d := range got {
		if want[d.MessageID] == "" || want[d.MessageID] == redrive.Stale {
			t.Errorf("left %+v", d)
		}
		delete(want, d.MessageID)
	}
	for id, s := range want {
		if s != redrive.Stale {
			t.Errorf("%s, which is %s, was dropped or is hidden", id, s)
		}
	}
}

// A page that died under the next release leaves a letter which this one can not
// read, and can not be asked to trust. Without the letter the page moves all the same,
// because its command is rebuilt from the ledger.
func TestLetterOfALaterReleaseKeepsItsPage(t *testing.T) {
	r := newRegion(t)
	run, dead := r.dead("exports", 1)
	letters, err := r.Queue.Letters(t.Context(), 1)
	must(t, err)
	must(t, r.Queue.Remove(t.Context(), letters[0]))
	later := letters[0].Letter
	later.Body = append([]byte(`{"schema":2,`), strings.TrimPrefix(string(later.Body), `{"schema":1,`)...)
	must(t, r.Queue.DeadLetter(t.Context(), later))
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	if plan.Moves != 0 || len(plan.Verdicts[0].Copies) != 1 {
		t.Fatalf("%+v", plan)
	}
	for _, g := range plan.Verdicts[0].Gates {
		if g.Open != (g.Gate != redrive.GateKey) || !g.Open && !strings.Contains(g.Text, "by a later release. Deploy that release and plan again") {
			t.Errorf("%+v", g)
		}
	}
	l := r.inspected(redrive.InspectRequest{}).Letters
	if len(l) != 1 || l[0].Standing != redrive.Newer || l[0].Page != nil {
		t.Fatalf("%+v", l)
	}
	if a := r.discarded(discard(nil, l[0].MessageID)); a.Letters[0].Result != redrive.Discarded || r.page(dead[0]).State != job.Dead {
		t.Errorf("%+v", a)
	}
	if did := r.applied(r.planned(redrive.PlanRequest{}).Token); did.Moved != 1 || r.bodies(run.Mode)[0] != dead[0].ID {
		t.Errorf("%+v", did)
	}
}

// When no page is dead no redrive comes by to drop the stale copies, and there may be
// as many as a run has pages. Whoever discards one letter drops them.
func TestDiscardOfALetterDropsStaleCopies(t *testing.T) {
	r := newRegion(t)
	want := r.strange()
	var unknown string
	for id, s := range want {
		if s == redrive.UnknownSource {
			unknown = id
		}
	}
	if a := r.discarded(discard(nil, unknown)); a.Letters[0].Result != redrive.Discarded || a.Swept != 2 {
		t.Errorf("%+v", a)
	}
	for _, d := range r.Queue.PeekLetters() {
		if s := want[d.MessageID]; s == redrive.Stale || d.MessageID == unknown {
			t.Errorf("left: %s", s)
		}
	}
}

// S15: a letter stays for as long as its page's message is owed.
func TestLetterOutlivesAnOwedMessage(t *testing.T) {
	r := newRegion(t)
	r.tick()
	_, dead := r.dead("exports", 1)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	r.Queue.Reject = func(string) bool { return true }
	if did := r.applied(plan.Token); did.Moved != 0 || did.Remaining != 1 {
		t.Fatalf("%+v", did)
	}
	// Another plan sweeps meanwhile.
	if _, err := ask[redrive.Discards](r, r.Redriver, redrive.DiscardRequest{Op: redrive.OpDiscard, Signature: ana, Pages: []redrive.PageRef{
		{Run: dead[0].Run, Tenant: dead[0].Tenant, Page: dead[0].ID},
	}}); err != nil {
		t.Error(err)
	}
	if n := len(r.Queue.PeekLetters()); n != 1 {
		t.Errorf("%d letters while the message is owed", n)
	}
	r.Queue.Reject = nil
	if did := r.applied(plan.Token); did.Moved != 1 || did.Swept != 1 || !did.Done {
		t.Errorf("%+v", did)
	}
}

// RD-08: of ten, one is not sent and two are not removed. The answer says so, and the
// next call ends it without a second delivery.
func TestRD08HalfFailedMove(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 10)
	r.wait()
	plan := r.planned(redrive.PlanRequest{})
	r.Queue.Reject = func(id string) bool { return id == string(dead[4].ID) }
	did := r.applied(plan.Token)
	if did.Moved != 9 || did.Remaining != 1 || did.Done {
		t.Fatalf("%+v", did)
	}
	r.Queue.Reject = nil
	removals := 0
	r.Queue.Hook = func(op string, apply func() error) error {
		if op == "remove" {
			if removals++; removals <= 2 {
				return failure.New(failure.Network, op, "injected")
			}
		}
		return apply()
	}
	if did = r.applied(plan.Token); did.Moved != 1 || did.Before != 9 || did.Swept != 8 || did.Remaining != 0 || did.Done || did.Next == "" {
		t.Fatalf("%+v", did)
	}
	if did = r.applied(plan.Token); did.Moved != 0 || did.Before != 10 || did.Swept != 2 || did.Done || !strings.Contains(did.Next, "may hold letters until") {
		t.Errorf("%+v", did)
	}
	r.Clock.Advance(r.Settings.FunctionTimeout + r.Settings.Visibility()) // nobody holds a letter any more
	if did = r.applied(plan.Token); did.Swept != 0 || !did.Done {
		t.Errorf("%+v", did)
	}
	if n := len(r.bodies(job.Enforce)); n != 10 {
		t.Errorf("%d messages", n)
	}
	must(t, r.Drain(t.Context()))
	r.deletedOnce(10)
}

// A letter that can not be judged stays, and the plan is not done before it was.
func TestSweepKeepsWhatItCanNotRead(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 2)
	r.wait()
	plan := r.planned(redrive.PlanRequest{Filter: redrive.Filter{Page: dead[0].ID}})
	broken := r.another(func(c *redrive.Config) { c.Pages = unreadable{r.Ledger, dead[1].ID, failure.Network} })
	did, err := ask[redrive.Applied](r, broken, apply(plan.Token))
	must(t, err)
	if did.Moved != 1 || did.Swept != 1 || did.Done {
		t.Errorf("%+v", did)
	}
	r.Clock.Advance(r.Settings.FunctionTimeout + r.Settings.Visibility())
	if did = r.applied(plan.Token); !did.Done || did.Swept != 0 {
		t.Errorf("%+v", did)
	}
	if got, err := r.Queue.Letters(t.Context(), 10); err != nil || len(got) != 1 {
		t.Errorf("%d letters: %v", len(got), err)
	}
	// A row that never reads is nobody's reason to wait.
	r.Clock.Advance(r.Settings.Visibility()) // what was just received shows again
	third := r.planned(redrive.PlanRequest{})
	lasting := r.another(func(c *redrive.Config) { c.Pages = unreadable{r.Ledger, dead[0].ID, failure.Bug} })
	r.letter(r.runOf(dead[0]), dead[0])
	if did, err = ask[redrive.Applied](r, lasting, apply(third.Token)); err != nil || did.Moved != 1 || did.Swept != 1 || !did.Done {
		t.Errorf("%+v, %v", did, err)
	}
	r.dead("uploads", 1)
	r.wait()
	// A queue that does not answer is no clean one.
	plan = r.planned(redrive.PlanRequest{})
	mute := r.another(func(c *redrive.Config) { c.Letters = mute{r.Queue} })
	if did, err = ask[redrive.Applied](r, mute, apply(plan.Token)); err != nil || did.Moved != 1 || did.Done {
		t.Errorf("%+v, %v", did, err)
	}
	if _, err := ask[redrive.Plan](r, mute, redrive.PlanRequest{}); err != nil {
		t.Error(err)
	}
}

// endless shows another letter in every answer.
type endless struct {
	*queue.Memory
	clock interface{ Advance(time.Duration) }
	n     int
}

func (e *endless) Peek(context.Context, int) (all []job.DeadLetter, err error) {
	for range 10 {
		e.n++
		all = append(all, job.DeadLetter{Delivery: job.Delivery{MessageID: strings.Repeat("m", e.n), Body: []byte("x")}})
	}
	e.clock.Advance(2 * time.Second)
	return all, nil
}

// mute can be looked at, and hands nothing out.
type mute struct{ *queue.Memory }

func (mute) Letters(context.Context, int) ([]job.DeadLetter, error) {
	return nil, failure.New(failure.Network, "read dead letters", "injected")
}

// A letter whose attributes do not read, or are another body's, proves nothing: it
// stays, although its body is the command of a page that is not dead any more.
func TestDamagedLetterStays(t *testing.T) {
	r := newRegion(t)
	_, dead := r.dead("exports", 1)
	r.wait()
	hurt := r.another(func(c *redrive.Config) { c.Letters = damaged{r.Queue} })
	plan, err := ask[redrive.Plan](r, hurt, redrive.PlanRequest{})
	must(t, err)
	did, err := ask[redrive.Applied](r, hurt, apply(plan.Token))
	must(t, err)
	if did.Moved != 1 || did.Swept != 0 || !did.Done || r.page(dead[0]).State != job.Redriven {
		t.Errorf("%+v", did)
	}
	in, err := ask[redrive.Inspection](r, hurt, redrive.InspectRequest{Op: redrive.OpInspect})
	must(t, err)
	if len(in.Letters) != 1 || in.Letters[0].Standing != redrive.Damaged || !strings.Contains(in.Letters[0].Text, "by its message id") {
		t.Errorf("%+v", in)
	}
}

// damaged is a queue whose every letter has lost an attribute on its way.
type damaged struct{ *queue.Memory }

func (d damaged) Peek(ctx context.Context, limit int) ([]job.DeadLetter, error) {
	return spoil(d.Memory.Peek(ctx, limit))
}

func (d damaged) Letters(ctx context.Context, limit int) ([]job.DeadLetter, error) {
	return spoil(d.Memory.Letters(ctx, limit))
}

func spoil(all []job.DeadLetter, err error) ([]job.DeadLetter, error) {
	for i := range all {
		all[i].Damaged = true
	}
	return all, err
}
