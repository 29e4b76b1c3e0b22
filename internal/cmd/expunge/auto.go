package main

import (
	"context"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// autoCommands are those of the scheduled redrive.
type autoCommands struct {
	Show showAutoCommand `cmd:"" default:"1" help:"Show whether a schedule may redrive, and what."`
	On   autoOnCommand   `cmd:"" help:"Let a schedule redrive what died of one reason. A drill that passed must be on record."`
	Off  autoOffCommand  `cmd:"" help:"Let no schedule redrive."`
}

// autoState is the answer of all three.
type autoState struct {
	Head
	On    bool       `json:"on"`
	Death job.Reason `json:"death"`
	Cap   int        `json:"cap"`
	By    string     `json:"by"`
	At    time.Time  `json:"at,omitzero"`
}

type showAutoCommand struct{}

func (c *showAutoCommand) exits() exits { return exits{Done: "shown"} }

func (c *showAutoCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	a, err := r.records.AutoRedrive(ctx)
	if err != nil {
		return err
	}
	state := &autoState{On: a.On, Death: a.Reason, Cap: a.Cap, By: a.By, At: a.At.UTC()}
	if a.On {
		state.Next = []string{d.command("redrive", "auto", "off", "--reason="+blank)}
	}
	return d.show(state)
}

type autoOnCommand struct {
	Death string `required:"" placeholder:"REASON" help:"The one reason of dead pages that it moves: forbidden, attempts_exhausted or age_exhausted."`
	Cap   int    `required:"" placeholder:"N" help:"The most pages of one round, 1 to 100."`
	reason
}

func (c *autoOnCommand) exits() exits {
	return exits{Done: "it is on", Wrong: "it was refused: the reason is on stderr"}
}

func (c *autoOnCommand) run(ctx context.Context, d *desk) error {
	return setAuto(ctx, d, c.reason, redrive.AutoRequest{Op: redrive.OpAuto, Set: redrive.On, Death: job.Reason(c.Death), Cap: c.Cap})
}

type autoOffCommand struct{ reason }

func (c *autoOffCommand) exits() exits {
	return exits{Done: "it is off", Wrong: "it was refused: the reason is on stderr"}
}

func (c *autoOffCommand) run(ctx context.Context, d *desk) error {
	return setAuto(ctx, d, c.reason, redrive.AutoRequest{Op: redrive.OpAuto, Set: redrive.Off})
}

func setAuto(ctx context.Context, d *desk, why reason, request redrive.AutoRequest) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	if request.Signature, err = why.sign(ctx, r); err != nil {
		return err
	}
	var a redrive.Auto
	if err := r.ask(ctx, r.outputs.Redrive, request, &a); err != nil {
		return err
	}
	return d.show(&autoState{Head: Head{Next: []string{d.command("redrive", "auto")}}, On: a.On, Death: a.Death, Cap: a.Cap, By: a.By, At: a.At})
}

func (a *autoState) write(s *sheet) {
	if !a.On {
		s.line("The scheduled redrive is off: dead pages move by an operator alone.")
	} else {
		s.sentence("", "The scheduled redrive is on: each round moves at most "+strconv.Itoa(a.Cap)+" pages that died of "+string(a.Death)+", through the same gates.")
	}
	s.facts([2]string{"by", a.By}, [2]string{"at", instant(a.At)})
}
