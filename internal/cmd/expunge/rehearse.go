package main

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
	"github.com/expunge-aws/expunge/internal/rehearse"
)

// rehearsalView is what a delivery of the page would do, found out by doing it on
// copies.
type rehearsalView struct {
	// When is as_things_are, once_redriven or once_released.
	When   string      `json:"when"`
	Text   string      `json:"text"`
	Rounds []roundView `json:"rounds"`
	// State, Counts and Dead are the page's afterwards; Deletes is how many items the
	// store would lose, Born how many would become pages of their own.
	State   job.PageState  `json:"state"`
	Counts  map[string]int `json:"counts"`
	Dead    job.Reason     `json:"dead,omitzero"`
	Deletes int            `json:"deletes"`
	Born    int            `json:"born"`
	Items   []itemView     `json:"items,omitzero"` // with --keys, or those of the key that was asked about

	lines []receipt.Line
}

// roundView is one delivery.
type roundView struct {
	At    time.Time     `json:"at"`
	Ack   bool          `json:"acknowledged"`
	Until time.Time     `json:"until,omitzero"`
	State job.PageState `json:"state"`
	Why   string        `json:"why"`
}

// unbraked is the ledger without its brakes.
type unbraked struct{ records }

func (u unbraked) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error) {
	p, _, err := u.records.Look(ctx, run, tenant, id)
	return p, nil, err
}

func (u unbraked) Brakes(context.Context) ([]job.Brake, error) { return nil, nil }

// rehearsals is how often a rehearsal begins anew because the page moved meanwhile.
const rehearsals = 3

// rehearse says what would happen if the page ran again: a dead page once it is
// redriven, one under a brake once that is released.
func (x *explaining) rehearse(ctx context.Context, run job.Run, p job.Page) {
	c := rehearse.Config{
		Records: x.r.records, Holds: x.r.records, Artifacts: x.r.store, Evidence: x.r.evidence, Settings: x.r.settings,
		Region: x.r.outputs.Region, Code: x.r.outputs.CodeVersion, Now: x.look.now, Repaired: x.Repaired,
	}
	when, name := rehearse.AsThingsAre, "as_things_are"
	if p.State == job.Dead {
		when, name = rehearse.OnceRedriven, "once_redriven"
	}
	if len(x.e.Brakes) > 0 && p.State != job.Completed && p.State != job.Discarded {
		c.Records = unbraked{x.r.records}
		if name == "as_things_are" {
			name = "once_released"
		}
		x.again("A brake is on, and nothing of the run starts before it is released. This is what happens then:")
	}
	var would rehearse.Prediction
	var err error
	for range rehearsals {
		would, err = rehearse.Rehearse(ctx, c, run.ID, p.Tenant, p.ID, when)
		if !failure.Is(err, failure.Conflict) {
			break
		}
	}
	if err != nil {
		x.unknown = err
		x.again("That is not known: " + err.Error() + ".")
		return
	}
	x.again(would.Text)
	if p.Counts[job.Refused] > 0 && !p.State.Terminal() && !x.Repaired {
		x.again("This takes it that the store refuses what it has refused before.")
		x.then("explain", x.What, "--repaired")
	}
	x.e.Rehearsal = viewRehearsal(name, would)
	if x.Keys {
		x.e.Rehearsal.Items = viewItems(would.Lines)
	}
}

func viewRehearsal(when string, p rehearse.Prediction) *rehearsalView {
	v := &rehearsalView{
		When: when, Text: p.Text, State: p.Final.State, Counts: outcomes(p.Counts), Dead: p.Dead, Deletes: len(p.Deletes), Born: len(p.Born), lines: p.Lines,
	}
	for _, r := range p.Rounds {
		v.Rounds = append(v.Rounds, roundView{At: r.At.UTC(), Ack: r.Ack, Until: r.Until.UTC(), State: r.State, Why: r.Why})
	}
	return v
}

func viewItems(lines []receipt.Line) []itemView {
	items := make([]itemView, len(lines))
	for i, l := range lines {
		items[i] = viewItem(l)
	}
	return items
}

// of keeps the lines of a key, and says what becomes of it.
func (v *rehearsalView) of(key string) string {
	v.Items = []itemView{}
	text := ""
	for _, l := range v.lines {
		if l.Key != key {
			continue
		}
		v.Items = append(v.Items, viewItem(l))
		outcome := words(l.Outcome.String())
		if l.Outcome == job.NoOutcome {
			outcome = words(string(l.Decision))
		}
		if text != "" {
			text += ", "
		}
		text += outcome
	}
	if text == "" {
		return "The object is not among what the page would then be about."
	}
	return "The object would be: " + text + "."
}
