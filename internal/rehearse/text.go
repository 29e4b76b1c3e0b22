package rehearse

import (
	"fmt"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
)

// decisive is the last event of a round that tells its end, the zero one for none.
func decisive(said []audit.Event) (last audit.Event) {
	for _, e := range said {
		switch e.Event {
		case audit.Attempted, audit.MarkerUndone: // there is more to come
		default:
			last = e
		}
	}
	return last
}

// why explains a delivery by where the page stood and by how it ended.
func (c *copies) why(before job.Page, at time.Time, end audit.Event) string {
	switch end.Event {
	case audit.Succeeded:
		return "every item has its outcome"
	case audit.Discarded:
		return "it was given up, and what its intent did is settled"
	case audit.DeadLettered:
		return "it becomes a dead letter: " + string(end.Reason)
	case audit.RedriveRefused:
		return "it is a dead letter, and nobody redrove it"
	case audit.Parked:
		return "a brake covers it"
	case audit.Retried:
		return strings.TrimSuffix("the attempt fails: "+string(end.FailureClass)+" in "+end.Operation, " in ")
	default:
		return c.silent(before, at)
	}
}

// silent explains a delivery of which no event tells: the page is at its end, or waits.
func (c *copies) silent(before job.Page, at time.Time) string {
	switch {
	case before.State.Terminal():
		return "it is " + string(before.State) + " already"
	case before.State == job.Dead:
		return "it is a dead letter, and this is a copy of its message"
	case c.run.State != job.Released:
		return "its run is " + string(c.run.State)
	case before.LeaseLive(at):
		return "another claim has it"
	case at.Before(before.RetryAt):
		return "it waits for its next attempt"
	default:
		return "a request of an earlier claim may still land"
	}
}

// sentence is the whole prediction in one sentence.
func (c *copies) sentence(p Prediction) string {
	return c.condition() + ": " + waits(p.Rounds) + end(p) + "."
}

func (c *copies) condition() string {
	switch {
	case c.when == OnceRedriven && c.start.State == job.Dead:
		return "If this page is redriven and delivered now"
	case c.when == OnceReleased:
		return "If this page is delivered now and no brake is in force"
	default:
		return "If this page is delivered now"
	}
}

// waits tells of the deliveries before the last.
func waits(rounds []Round) string {
	first, last := rounds[0], rounds[len(rounds)-1]
	switch n := len(rounds); n {
	case 1:
		return ""
	case 2:
		return first.Why + ", so it waits until " + instant(first.Until) + ", and then "
	default:
		return fmt.Sprintf("%s, so it waits; at delivery %d, at %s, ", first.Why, n, instant(last.At))
	}
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// end tells what the last delivery leaves.
func end(p Prediction) string {
	last := p.Rounds[len(p.Rounds)-1]
	switch {
	case last.end == audit.Succeeded:
		return "it completes" + outcomes(p)
	case last.end == audit.Discarded:
		return "it is discarded and nothing is deleted" + outcomes(p)
	case last.end == audit.DeadLettered:
		return last.Why + outcomes(p)
	case last.Ack:
		return "nothing happens, because " + last.Why
	default:
		return "it is still " + string(last.State) + ", because " + last.Why
	}
}

// outcomes lists what the page counts, and what it owes.
func outcomes(p Prediction) string {
	var parts []string
	for _, o := range job.Outcomes() {
		if n := p.Counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	if n := len(p.Born); n > 0 {
		parts = append(parts, fmt.Sprintf("%d in pages of their own", n))
	}
	if len(parts) == 0 {
		return ", with no outcome"
	}
	return ", with " + strings.Join(parts, ", ")
}
