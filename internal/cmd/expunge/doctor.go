package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/report"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// doctorCommand looks at a deployment from outside. It asks with the operator's own
// credentials, changes nothing, and deletes nothing to find out whether it could.
type doctorCommand struct {
	Policy string `placeholder:"NAME" help:"Of the policies look at this one only."`
}

func (c *doctorCommand) exits() exits {
	return exits{Done: "nothing is wrong; what could not be looked at is named", Wrong: "something is wrong: stdout says what, and how to mend it"}
}

// health is the state of one thing.
type health string

// The states. What could not be asked although it should answer is a problem: nobody
// knows its state.
const (
	healthOK      health = "ok"
	healthWarning health = "warning" // it works, and is probably not meant so
	healthProblem health = "problem"
	healthSkipped health = "skipped" // the operator may not look, or it is not offered here
)

// examined is the answer.
type examined struct {
	Head
	AsOf time.Time      `json:"as_of"`
	Sums map[health]int `json:"sums"`
	// Lines are by area, in a fixed order.
	Lines []doctorLine `json:"lines"`
}

// doctorLine is what was found of one thing.
type doctorLine struct {
	Area  string `json:"area"`
	What  string `json:"what"`
	State health `json:"state"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitzero"`
}

// area is a part of the deployment while it is looked at.
type area struct {
	*doctor
	name  string
	lines []doctorLine
}

// doctor is what every area is looked at with.
type doctor struct {
	r    *deployment
	now  time.Time
	only string // a policy, or "" for all
}

func (a *area) note(state health, what, text, fix string) {
	a.lines = append(a.lines, doctorLine{a.name, what, state, text, fix})
}

func (a *area) ok(what, text string)           { a.note(healthOK, what, text, "") }
func (a *area) warning(what, text, fix string) { a.note(healthWarning, what, text, fix) }
func (a *area) problem(what, text, fix string) { a.note(healthProblem, what, text, fix) }

// redeploy is how most of what differs from the stack is mended.
const redeploy = "deploy the stack again; if that changes nothing, somebody has changed it by hand"

// failed notes that something could not be looked at.
func (a *area) failed(what string, err error) {
	switch code := sdk.Code(err); {
	case failure.Is(classify(what, err), failure.Forbidden) && code != "ResourceNotFoundException":
		a.note(healthSkipped, what, "your credentials may not look at this ("+code+")", "")
	case code == "NotImplemented" || code == "UnknownOperationException":
		a.note(healthSkipped, what, "the service does not answer this here", "")
	case code == "":
		a.problem(what, "it could not be asked: no answer", "look whether the service can be reached from here, and ask again")
	default:
		a.problem(what, "it could not be asked: "+code, "ask again; if it stays so, look at the service's health in "+a.r.outputs.Region)
	}
}

// examination is one area and how it is looked at.
type examination struct {
	name string
	look func(ctx context.Context, a *area)
}

func examinations() []examination {
	return []examination{
		{"clock", lookAtClock},
		{"stack", lookAtStack},
		{"functions", lookAtFunctions},
		{"queues", lookAtQueues},
		{"mappings", lookAtMappings},
		{"ledger", lookAtLedger},
		{"evidence", lookAtEvidence},
		{"topics", lookAtTopics},
		{"policies", lookAtPolicies},
		{"buckets", lookAtBuckets},
		{"schedules", lookAtSchedules},
		{"brakes", lookAtBrakes},
	}
}

func (c *doctorCommand) run(ctx context.Context, d *desk) error {
	r, err := d.connect(ctx)
	if err != nil {
		return err
	}
	doc := &doctor{r: r, now: d.Clock.Now().UTC().Truncate(time.Second), only: c.Policy}
	a := &examined{AsOf: doc.now, Sums: map[health]int{}, Lines: doc.examine(ctx)}
	for _, l := range a.Lines {
		a.Sums[l.State]++
	}
	if err := d.show(a); err != nil {
		return err
	}
	if n := a.Sums[healthProblem]; n > 0 {
		return wrong(report.Count(n, "problem"))
	}
	return nil
}

// examine looks at all areas at once, so that one that does not answer holds up no
// other, and returns what was found in their order.
func (doc *doctor) examine(ctx context.Context) (lines []doctorLine) {
	all := examinations()
	areas := make([]area, len(all))
	var group sync.WaitGroup
	for i, e := range all {
		areas[i] = area{doctor: doc, name: e.name}
		group.Go(func() { e.look(ctx, &areas[i]) })
	}
	group.Wait()
	for _, a := range areas {
		lines = append(lines, a.lines...)
	}
	return lines
}

func (a *examined) write(s *sheet) {
	last := ""
	for _, l := range a.Lines {
		if l.Area != last {
			s.heading(l.Area)
			last = l.Area
		}
		l.write(s)
	}
	s.line()
	s.line(strconv.Itoa(a.Sums[healthOK]), " ok, ", report.Count(a.Sums[healthWarning], "warning"), ", ", report.Count(a.Sums[healthProblem], "problem"), ", ",
		strconv.Itoa(a.Sums[healthSkipped]), " skipped")
}

// stateWidth is the longest state with the two blanks behind it.
const stateWidth = 9

func (l doctorLine) write(s *sheet) {
	color := map[health]string{healthOK: plain, healthWarning: amber, healthProblem: red, healthSkipped: faint}[l.State]
	const indent = "           " // two and stateWidth
	text := report.Wrap(report.Clean(l.What+": "+l.Text), indent, s.width)
	state := string(l.State) + "         "[:stateWidth-len(l.State)]
	s.b.WriteString("  " + s.paint(color, state) + text[len(indent):])
	if l.Fix != "" {
		s.sentence(indent, "fix: "+l.Fix)
	}
}
