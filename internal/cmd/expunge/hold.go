package main

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/report"
)

// holdCommands are those of legal holds.
type holdCommands struct {
	Place   placeCommand    `cmd:"" help:"Place a legal hold on a tenant, a prefix of its keys, or one object, and say how far it reaches."`
	Ask     askCommand      `cmd:"" help:"Ask how far a hold reaches by now."`
	Release releaseCommand  `cmd:"" help:"Release a hold."`
	List    holdListCommand `cmd:"" help:"Show the holds of a tenant, released ones included."`
}

// placeCommand places a hold.
type placeCommand struct {
	Tenant string `arg:"" help:"The tenant."`
	Prefix string `xor:"scope" placeholder:"KEYS" help:"Only keys that begin so: the whole beginning of a key, compared as bytes."`
	Item   string `xor:"scope" placeholder:"KEY" help:"Only this object: its whole key."`
	ID     string `placeholder:"ID" help:"The hold's own id; when not given, it is made of what is held and the reason."`
	reason
}

func (c *placeCommand) exits() exits {
	return exits{
		Done:  "HELD: no delete by Expunge takes effect on it from now on",
		Wrong: "TOO_LATE: something of it was deleted before, the rest is held; or the order was refused: the reason is on stderr",
		Waits: "IN_FLIGHT: the hold is in force, and something decided before it may still take effect",
	}
}

// heldStatus is the answer to place and ask.
type heldStatus struct {
	Head
	Status hold.Status `json:"status"`
}

func (c *placeCommand) run(ctx context.Context, d *desk) error {
	place := &hold.Place{ID: c.ID, Tenant: c.Tenant, Scope: hold.Tenant}
	switch {
	case c.Prefix != "":
		place.Scope, place.Value = hold.Prefix, c.Prefix
	case c.Item != "":
		place.Scope, place.Value = hold.Item, c.Item
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	if place.Signature, err = c.sign(ctx, r); err != nil {
		return err
	}
	return askHold(ctx, d, r, hold.Request{Place: place}, true) // he named the keys himself
}

// askCommand asks how far a hold reaches.
type askCommand struct {
	Tenant string `arg:"" help:"The tenant."`
	ID     string `arg:"" help:"The hold's id."`
	Keys   bool   `help:"Also show the keys that it is on."`
}

func (c *askCommand) exits() exits {
	return exits{
		Done:  "HELD: no delete by Expunge takes effect on it from now on",
		Wrong: "TOO_LATE: something of it was deleted before; or it was released, or could not be asked: the reason is on stderr",
		Waits: "IN_FLIGHT: something decided before it may still take effect",
	}
}

func (c *askCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	return askHold(ctx, d, r, hold.Request{Ask: &hold.Ask{Tenant: c.Tenant, ID: c.ID}}, c.Keys)
}

// askHold shows a hold's status and ends as its answer says.
func askHold(ctx context.Context, d *desk, r *deployment, request hold.Request, keys bool) error {
	a := &heldStatus{}
	if err := r.ask(ctx, r.outputs.Hold, request, &a.Status); err != nil {
		return err
	}
	v := &a.Status
	if !keys {
		v.Hold.Value = ""
	}
	if v.Answer == hold.InFlight {
		a.Next = append(a.Next, d.command("hold", "ask", v.Hold.Tenant, v.Hold.ID))
	}
	for i, p := range v.Listed {
		if i < shownDead {
			a.Next = append(a.Next, d.command("explain", string(p.PageID)))
		}
	}
	if v.Answer != hold.Ended {
		a.Next = append(a.Next, d.command("hold", "release", v.Hold.Tenant, v.Hold.ID, "--reason="+blank))
	}
	if err := d.show(a); err != nil {
		return err
	}
	switch v.Answer {
	case hold.Held:
		return nil
	case hold.InFlight:
		return waits("not everything is held yet: ask again at " + instant(v.Until.Add(time.Second)))
	case hold.TooLate:
		return wrong("something was deleted before the hold was placed")
	case hold.Ended:
		return wrong("the hold was released and holds nothing any more")
	default:
		return wrong("the function answered " + string(v.Answer) + ", which this tool does not know")
	}
}

// releaseCommand releases a hold.
type releaseCommand struct {
	Tenant string `arg:"" help:"The tenant."`
	ID     string `arg:"" help:"The hold's id."`
	reason
}

func (c *releaseCommand) exits() exits {
	return exits{Done: "the hold is released", Wrong: "it was refused, or no such hold is in force: the reason is on stderr"}
}

// holdReleased is the answer.
type holdReleased struct {
	Head
	Released hold.Released `json:"released"`
}

func (c *releaseCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	order := &hold.Release{Tenant: c.Tenant, ID: c.ID}
	if order.Signature, err = c.sign(ctx, r); err != nil {
		return err
	}
	a := &holdReleased{Head: Head{Next: []string{d.command("hold", "list", c.Tenant)}}}
	if err := r.ask(ctx, r.outputs.Hold, hold.Request{Release: order}, &a.Released); err != nil {
		return err
	}
	a.Released.Hold.Value = "" // nobody asked for its keys
	return d.show(a)
}

// holdListCommand lists a tenant's holds.
type holdListCommand struct {
	Tenant string `arg:"" help:"The tenant."`
	Keys   bool   `help:"Also show the keys that they are on."`
}

func (c *holdListCommand) exits() exits { return exits{Done: "shown"} }

// holdList is the answer.
type holdList struct {
	Head
	Holds hold.Holds `json:"holds"`
}

func (c *holdListCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	a := &holdList{}
	if err := r.ask(ctx, r.outputs.Hold, hold.Request{List: &hold.List{Tenant: c.Tenant}}, &a.Holds); err != nil {
		return err
	}
	for i := range a.Holds.Holds {
		h := &a.Holds.Holds[i]
		if h.ReleasedAt.IsZero() && len(a.Next) < shownDead {
			a.Next = append(a.Next, d.command("hold", "ask", h.Tenant, h.ID))
		}
		if !c.Keys {
			h.Value = ""
		}
	}
	return d.show(a)
}

func (a *heldStatus) write(s *sheet) {
	v := a.Status
	color := plain
	if v.Answer == hold.InFlight || v.Answer == hold.TooLate {
		color = amber
	}
	s.line(s.paint(color, report.Clean(string(v.Answer))))
	s.sentence("", v.Text)
	for _, note := range v.Notes {
		s.alert(amber, note)
	}
	s.line()
	pages := strconv.Itoa(v.Pages.Held) + " held, " + strconv.Itoa(v.Pages.InFlight) + " in flight, " + strconv.Itoa(v.Pages.TooLate) + " too late"
	s.facts(append(facts(v.Hold), [2]string{"pages", pages})...)
	if len(v.Listed) == 0 {
		return
	}
	s.heading("Pages that are not held")
	t := newTable(left("page"), wide("policy", 28), left("answer"), left("until"), right("items"), wide("outcomes", 40), left("proof"))
	for _, p := range v.Listed {
		t.Row(report.Clean(string(p.PageID)), report.Clean(p.Policy), report.Clean(string(p.Answer)), minute(p.Until), number(p.Items), settled(p.Outcomes), dash(string(p.Proof)))
	}
	s.table(t)
	if v.More > 0 {
		s.line("and ", report.Group(int64(v.More)), " more")
	}
}

// facts are what a hold is.
func facts(h hold.Record) [][2]string {
	return [][2]string{
		{"hold", h.ID}, {"tenant", h.Tenant}, {"scope", string(h.Scope)}, {"keys", h.Value}, {"placed", instant(h.PlacedAt)},
		{"released", instant(h.ReleasedAt)}, {"by", h.By}, {"reason", h.Reason},
	}
}

func (a *holdReleased) write(s *sheet) {
	s.sentence("", a.Released.Text)
	s.line()
	s.facts(facts(a.Released.Hold)...)
}

func (a *holdList) write(s *sheet) {
	if len(a.Holds.Holds) == 0 {
		s.sentence("", "Tenant "+a.Holds.Tenant+" has never had a hold.")
		return
	}
	columns := []column{wide("hold", 64), left("scope"), left("placed"), left("released"), wide("by", 64), wide("reason", 48)}
	keys := false
	for _, h := range a.Holds.Holds {
		keys = keys || h.Value != ""
	}
	if keys {
		columns = append(columns, left("keys"))
	}
	t := newTable(columns...)
	for _, h := range a.Holds.Holds {
		cells := []string{report.Clean(h.ID), report.Clean(string(h.Scope)), minute(h.PlacedAt), minute(h.ReleasedAt), report.Clean(h.By), report.Clean(h.Reason)}
		if keys {
			cells = append(cells, report.Clean(h.Value))
		}
		t.Row(cells...)
	}
	s.table(t)
}
