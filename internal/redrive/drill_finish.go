package redrive

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// evidence keeps what a drill has found, and reads what its page left. A name is
// written once; what is not there is failure.Absent.
type evidence interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
}

// DrillFinishRequest asks what became of a drill.
type DrillFinishRequest struct {
	Op string `json:"op"`
	PageRef
	// GiveUp: the drill is recorded as failed, however far it came.
	GiveUp bool `json:"give_up,omitzero"`
	audit.Signature
}

// DrillReport is what a drill has shown. It is kept as evidence.
type DrillReport struct {
	Schema int `json:"schema"` // 1
	PageRef
	Region      string        `json:"region"`
	Policy      string        `json:"policy"`
	Version     int           `json:"policy_version"`
	Mode        job.Mode      `json:"mode"`
	RequestID   string        `json:"request_id"`
	RedriveID   job.RedriveID `json:"redrive_id"`
	MessageID   string        `json:"message_id"` // of the malformed message, "" where it was not seen
	CodeVersion string        `json:"code_version"`
	By          string        `json:"by"`
	Reason      string        `json:"reason"`

	StartedAt time.Time `json:"started_at"`          // the order to end the page
	DiedAt    time.Time `json:"died_at"`             // and its end
	LetterAt  time.Time `json:"letter_at,omitzero"`  // it lay among the dead letters
	AppliedAt time.Time `json:"applied_at,omitzero"` // the order to move it back
	SettledAt time.Time `json:"settled_at,omitzero"` // every item had its outcome
	At        time.Time `json:"at"`                  // of this report
	// RecoverySeconds is from the order to move the page back to its end.
	RecoverySeconds float64 `json:"recovery_seconds"`

	Candidates int            `json:"candidates"`
	Outcomes   map[string]int `json:"outcomes"` // by word
	Receipt    string         `json:"receipt"`  // SHA-256
	Checks     []DrillCheck   `json:"checks"`
	Passed     bool           `json:"passed"`
}

// DrillCheck is one thing that a drill has to show.
type DrillCheck struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Text string `json:"text"`
}

// DrillFinished is a report and where it is kept.
type DrillFinished struct {
	Report   DrillReport `json:"report"`
	Evidence string      `json:"evidence"` // its name in the evidence bucket
}

const opFinish = "finish drill"

// finish judges a drill by what is on record, keeps what it found as evidence, and
// then enters whether it passed. What was judged once stays: said again, the answer is
// the same.
func (r *Redriver) finish(ctx context.Context, deadline time.Time, q DrillFinishRequest) (a DrillFinished, err error) {
	if err := q.Signature.Check(opFinish); err != nil {
		return a, err
	}
	if err := q.PageRef.check(opFinish); err != nil {
		return a, err
	}
	run, page, err := r.pair(ctx, q.PageRef)
	if err != nil {
		return a, err
	}
	a.Evidence = DrillName(run)
	kept, err := r.Evidence.Get(ctx, a.Evidence)
	switch {
	case err == nil:
		if json.Unmarshal(kept, &a.Report) != nil {
			return a, failure.New(failure.Bug, opFinish, "what is kept of the drill does not read")
		}
		return a, r.enter(ctx, a.Report)
	case !failure.Is(err, failure.Absent):
		return a, err
	}
	d := &rehearsal{Redriver: r, deadline: deadline, signature: q.Signature, run: run, page: page}
	if err := d.gather(ctx, q.GiveUp); err != nil {
		return a, err
	}
	a.Report = d.report()
	text, err := json.Marshal(a.Report, json.Deterministic(true))
	if err != nil {
		return a, failure.Wrap(failure.Bug, opFinish, err)
	}
	if err := r.Evidence.Put(ctx, a.Evidence, append(text, '\n')); err != nil {
		return a, err // another finish may have been first: said again, its report is read
	}
	return a, r.enter(ctx, a.Report)
}

// DrillName is where a drill's report is kept: one name for each drill.
//
//	drills/<when the request was opened>-<run_id>.json
func DrillName(run job.Run) string {
	return contract.EvidenceDrills + run.OpenedAt.UTC().Format("20060102t150405z") + "-" + string(run.ID) + ".json"
}

// enter records whether the drill passed. The same report makes the same entry.
func (r *Redriver) enter(ctx context.Context, d DrillReport) error {
	e := audit.Entry{
		At: d.At, Act: audit.DrillFailed, Region: d.Region, By: d.By, Reason: d.Reason, Policy: d.Policy, Version: d.Version,
		RunID: d.Run, PageID: d.Page, TenantID: d.Tenant, RedriveID: d.RedriveID, MessageID: d.MessageID, Count: d.Candidates,
	}
	if d.Passed {
		e.Act = audit.DrillPassed
	}
	if err := r.Orders.PutEntry(ctx, e); err != nil {
		return err
	}
	line := e.Event()
	line.CodeVersion = r.Code
	r.Audit.Emit(line)
	return nil
}

// rehearsal is a drill while it is judged: all that is on record of it.
type rehearsal struct {
	*Redriver
	deadline  time.Time
	signature audit.Signature
	run       job.Run
	page      job.Page

	plan    job.Redrive
	planned []job.RedrivePage
	started audit.Entry // the order that ended the page
	applied audit.Entry // the order that moved it back
	receipt *receipt.Document
	unread  string // why there is no receipt to judge by
	// poison is the letter of the malformed message, and discarded what became of it.
	poison    *job.DeadLetter
	standing  Standing
	discarded Result
}

// gather reads everything. What is not there yet ends it, unless the drill is given
// up: then it counts as missing.
func (d *rehearsal) gather(ctx context.Context, giveUp bool) error {
	if !drillsRequest(d.run) {
		return failure.New(failure.Invalid, opFinish, "the run is not a drill's")
	}
	if err := d.orders(ctx); err != nil {
		return err
	}
	if d.started.At.IsZero() {
		return failure.New(failure.Conflict, opFinish, "no drill has ended this page: start one")
	}
	if !d.page.State.Terminal() && !giveUp {
		return failure.New(failure.Conflict, opFinish, "the page is "+string(d.page.State)+" and has not ended: redrive it and wait, or give the drill up")
	}
	if err := d.moved(ctx); err != nil {
		return err
	}
	if err := d.read(ctx); err != nil {
		return err
	}
	return d.quarantine(ctx, giveUp)
}

// drillsRequest reports whether a drill has asked for the run.
func drillsRequest(run job.Run) bool {
	return len(run.RequestID) > len(DrillPrefix) && run.RequestID[:len(DrillPrefix)] == DrillPrefix
}

// orders finds the two orders of the drill.
func (d *rehearsal) orders(ctx context.Context) error {
	entries, err := d.Orders.Entries(ctx, d.run.OpenedAt.Add(-d.Settings.ClockSkew), d.now().Add(d.Settings.ClockSkew), entriesMost)
	for _, e := range entries { // the newest first, so that the first order stays
		switch {
		case e.Act == audit.DrillStarted && e.RunID == d.run.ID && e.PageID == d.page.ID:
			d.started = e
		case e.Act == audit.RedriveApplied && e.RedriveID == d.page.RedriveID && e.RedriveID != "":
			d.applied = e
		}
	}
	return err
}

// moved reads the plan that the page was moved by.
func (d *rehearsal) moved(ctx context.Context) (err error) {
	if d.page.RedriveID == "" {
		return nil
	}
	d.plan, d.planned, err = d.bound(ctx, opFinish, d.page.RedriveID)
	if failure.Is(err, failure.Absent) || failure.Is(err, failure.Conflict) {
		d.plan = job.Redrive{}
		return nil // its check fails
	}
	return err
}

// read reads the receipt that the row names.
func (d *rehearsal) read(ctx context.Context) error {
	if d.page.Receipt == "" {
		d.unread = "the row names no receipt"
		return nil
	}
	name := receipt.Name(receipt.Receipt, d.run.ID, d.page.ID, d.page.Receipt)
	data, err := d.Evidence.Get(ctx, name)
	if failure.Is(err, failure.Absent) {
		d.unread = "the receipt that the row names is missing"
		return nil
	}
	if err != nil {
		return err
	}
	document, err := receipt.Verify(name, data)
	if err != nil {
		d.unread = "the receipt that the row names is not whole"
		return nil //nolint:nilerr // that it is not whole is what the check says
	}
	d.receipt = &document
	return nil
}

// quarantine looks for the malformed message among the dead letters, and then discards
// it, as an operator does. It is looked for last, so that it has lain there through
// the whole redrive.
func (d *rehearsal) quarantine(ctx context.Context, giveUp bool) error {
	letters, more, err := d.peek(ctx, d.deadline)
	if err != nil {
		return err
	}
	body, look := poisonOf(d.run.ID), d.look()
	var ids []string
	for _, letter := range letters {
		if !bytes.Equal(letter.Body, body) {
			continue
		}
		ids = append(ids, letter.MessageID)
		if d.poison == nil {
			d.poison = &letter
			if d.standing, err = look.standing(ctx, letter); err != nil {
				return err
			}
		}
	}
	switch {
	case d.poison == nil && !giveUp && more:
		return failure.New(failure.Throttled, opFinish, "not all dead letters were seen: say it again")
	case d.poison == nil && !giveUp:
		return failure.New(failure.Conflict, opFinish, "the malformed message is not among the dead letters yet: wait for a worker to refuse it, or give the drill up")
	case d.poison == nil:
		return nil
	}
	d.discarded = Discarded
	for _, result := range d.discardLetters(ctx, d.deadline, d.signature, ids) {
		if result.Result != Discarded {
			d.discarded = result.Result
		}
	}
	if d.discarded != Discarded && !giveUp {
		return failure.New(failure.Throttled, opFinish, "the malformed message could not be discarded yet: say it again after "+d.Settings.Visibility().String())
	}
	return nil
}

// report judges.
func (d *rehearsal) report() DrillReport {
	page, run := d.page, d.run
	a := DrillReport{
		Schema: 1, PageRef: refOf(page), Region: d.Region, Policy: run.Policy, Version: run.Version, Mode: run.Mode, RequestID: run.RequestID,
		RedriveID: page.RedriveID, CodeVersion: d.Code, By: d.signature.By, Reason: d.signature.Reason,
		StartedAt: d.started.At.UTC(), DiedAt: page.Death.At.UTC(), LetterAt: page.Death.LetterAt.UTC(), AppliedAt: d.plan.AppliedAt.UTC(),
		SettledAt: page.SettledAt.UTC(), At: d.now(), Candidates: page.Candidates, Outcomes: map[string]int{}, Receipt: page.Receipt,
	}
	for _, o := range job.Outcomes() {
		if n := page.Counts[o]; n > 0 {
			a.Outcomes[o.String()] = n
		}
	}
	if d.poison != nil {
		a.MessageID = d.poison.MessageID
	}
	if !a.AppliedAt.IsZero() && !a.SettledAt.IsZero() {
		a.RecoverySeconds = a.SettledAt.Sub(a.AppliedAt).Seconds()
	}
	a.Checks, a.Passed = d.checks(), true
	for _, c := range a.Checks {
		a.Passed = a.Passed && c.OK
	}
	return a
}

// checks are what a drill has to show, in the order in which it happens (R127).
func (d *rehearsal) checks() []DrillCheck {
	p := d.page
	inPlan := false
	for _, one := range d.planned {
		inPlan = inPlan || one.ID == p.ID
	}
	check := func(name string, ok bool, text string) DrillCheck { return DrillCheck{name, ok, text} }
	return []DrillCheck{
		check("ordered", !d.started.At.After(p.Death.At), "The order to end the page is of "+at(d.started.At)+", its death of "+at(p.Death.At)+"."),
		check("dead letter", p.Death.Reason == job.ReasonAttempts && !p.Death.LetterAt.IsZero(), "It died of "+string(p.Death.Reason)+", and its dead letter is "+since(p.Death.LetterAt)+"."),
		check("approved", inPlan && !d.applied.At.IsZero() && !d.plan.AppliedAt.IsZero() && d.plan.Override == "", "It was moved by plan "+named(string(p.RedriveID))+", whose order is "+since(d.applied.At)+"."),
		check("attempts", p.Attempts > 0, "Attempts of workers: "+strconv.Itoa(p.Attempts)+"."),
		check("one final state", p.State == job.Completed && p.Counts.Sum()+p.Moved == p.Planned, "It is "+string(p.State)+": "+strconv.Itoa(p.Counts.Sum())+" outcomes and "+strconv.Itoa(p.Moved)+" split off of "+strconv.Itoa(p.Planned)+" items."),
		d.oneReceipt(),
		check("quarantine", d.poison != nil && d.standing == Quarantined && d.poison.Letter.Reason == job.ReasonMalformed && !d.plan.AppliedAt.IsZero(),
			"After the redrive the malformed message was "+d.lay()+"."),
		check("discard", d.discarded == Discarded, "Giving it up then: "+named(string(d.discarded))+"."),
	}
}

// oneReceipt holds the receipt against the row: the same items, each with one outcome.
func (d *rehearsal) oneReceipt() DrillCheck {
	c := DrillCheck{Name: "one receipt", Text: "Of the receipt: " + d.unread + "."}
	if d.receipt == nil {
		return c
	}
	var counts job.Counts
	moved := 0
	for _, l := range d.receipt.Lines {
		if l.Decision == receipt.Moved {
			moved++
		} else {
			counts[l.Outcome]++
		}
	}
	c.OK = counts == d.page.Counts && moved == d.page.Moved && counts[job.NoOutcome] == 0
	c.Text = "The receipt that the row names is whole, and has " + strconv.Itoa(len(d.receipt.Lines)) + " items with the row's outcomes."
	if !c.OK {
		c.Text = "The receipt that the row names has other outcomes than the row."
	}
	return c
}

func (d *rehearsal) lay() string {
	if d.poison == nil {
		return "not seen"
	}
	return "among the dead letters, " + string(d.standing) + ", reason " + named(string(d.poison.Letter.Reason))
}

// since says when something happened.
func since(t time.Time) string {
	if t.IsZero() {
		return "missing"
	}
	return "of " + at(t)
}

func named(text string) string {
	if text == "" {
		return "missing"
	}
	return text
}
