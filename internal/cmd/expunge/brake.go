package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/redrive"
)

// brakeCommands are those of the brake.
type brakeCommands struct {
	On   brakeOnCommand   `cmd:"" help:"Let nothing of a policy, or of the region, start."`
	Off  brakeOffCommand  `cmd:"" help:"Release a brake."`
	List brakeListCommand `cmd:"" help:"Show the brakes in force."`
}

// scope is what a brake covers.
type scope struct {
	Scope string `arg:"" optional:"" name:"policy" help:"A policy, or one of its versions: exports, exports@3."`
	All   bool   `help:"The whole region."`
}

// request reads the scope strictly: a brake that was meant for one policy must not
// stop all, nor the other way round.
func (c scope) request(set string) (redrive.BrakeRequest, error) {
	q := redrive.BrakeRequest{Op: redrive.OpBrake, Set: set}
	name, version, versioned := strings.Cut(c.Scope, "@")
	if (name == "") == !c.All || name == "" && versioned {
		return q, usage("say what the brake covers: a policy, a policy@version, or --all for the whole region", "expunge brake "+set+" --help")
	}
	q.Policy = name
	if versioned {
		n, err := strconv.Atoi(version)
		if err != nil || n < 1 {
			return q, usage("the version behind @ is "+version+": it must be 1 or higher", "expunge brake "+set+" --help")
		}
		q.Version = n
	}
	return q, nil
}

// words repeats the scope for another command.
func (c scope) words() []string {
	if c.All {
		return []string{"--all"}
	}
	return []string{c.Scope}
}

// brakesNow is the answer of all three.
type brakesNow struct {
	Head
	Brakes []brakeView `json:"brakes"`
	// StoppedBy is when no delete under a brake that was just set can begin any more.
	StoppedBy time.Time `json:"stopped_by,omitzero"`
	Effect    string    `json:"effect"`
}

type brakeOnCommand struct {
	scope
	reason
}

func (c *brakeOnCommand) exits() exits {
	return exits{Done: "the brake is on", Wrong: "it was refused: the reason is on stderr"}
}

func (c *brakeOnCommand) run(ctx context.Context, d *desk) error {
	off := d.command(append(append([]string{"brake", "off"}, c.words()...), "--reason="+blank)...)
	return order(ctx, d, c.scope, c.reason, redrive.On, []string{d.command("runs", "--late"), off})
}

type brakeOffCommand struct {
	scope
	reason
}

func (c *brakeOffCommand) exits() exits {
	return exits{Done: "the brake is released", Wrong: "it was refused, or no such brake is in force: the reason is on stderr"}
}

func (c *brakeOffCommand) run(ctx context.Context, d *desk) error {
	return order(ctx, d, c.scope, c.reason, redrive.Off, []string{d.command("runs", "--late")})
}

func order(ctx context.Context, d *desk, of scope, why reason, set string, next []string) error {
	request, err := of.request(set)
	if err != nil {
		return err
	}
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	if request.Signature, err = why.sign(ctx, r); err != nil {
		return err
	}
	var a redrive.Brakes
	if err := r.ask(ctx, r.outputs.Redrive, request, &a); err != nil {
		return err
	}
	now := &brakesNow{Head: Head{Next: next}, StoppedBy: a.StoppedBy, Effect: a.Effect}
	for _, b := range a.Brakes {
		now.Brakes = append(now.Brakes, brakeView(b))
	}
	return d.show(now)
}

type brakeListCommand struct{}

func (c *brakeListCommand) exits() exits { return exits{Done: "shown"} }

func (c *brakeListCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	brakes, err := r.records.Brakes(ctx)
	if err != nil {
		return err
	}
	now := &brakesNow{Brakes: viewBrakes(brakes)}
	for _, b := range now.Brakes {
		now.Next = append(now.Next, d.command(append(append([]string{"brake", "off"}, b.words()...), "--reason="+blank)...))
	}
	return d.show(now)
}

// words names the brake for a command.
func (b brakeView) words() []string {
	of := scope{Scope: b.Policy, All: b.Policy == ""}
	if b.Version > 0 {
		of.Scope += "@" + strconv.Itoa(b.Version)
	}
	return of.words()
}

func (a *brakesNow) write(s *sheet) {
	if a.Effect != "" {
		s.sentence("", a.Effect)
	}
	if len(a.Brakes) == 0 {
		s.line("No brake is in force.")
	}
	for _, b := range a.Brakes {
		s.alert(red, b.sentence())
	}
}
