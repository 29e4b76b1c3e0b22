package redrive

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// GateName names a gate. The list is closed.
type GateName string

// The gates, in the order in which they are told.
const (
	GateRegion   GateName = "region"   // page, policy and message are this region's (R88)
	GateAge      GateName = "age"      // the retry storm is over (R85)
	GateAttempts GateName = "attempts" // the page has attempts left, all its lives together (R86)
	GateKey      GateName = "key"      // the row is there, is dead, and its command is the one that died (R87)
	GateClass    GateName = "class"    // the reason of the death can be mended, and nobody gave the page up (R97)
	GatePolicy   GateName = "policy"   // the run's policy version is the newest (F18)
	GateHold     GateName = "hold"     // no hold covers the whole tenant
	GateBrake    GateName = "brake"    // no brake covers the run
)

// GateNames lists every gate once.
func GateNames() []GateName {
	return []GateName{GateRegion, GateAge, GateAttempts, GateKey, GateClass, GatePolicy, GateHold, GateBrake}
}

// Gate is what one gate says of a page.
type Gate struct {
	Gate GateName `json:"gate"`
	Open bool     `json:"open"`
	// Overridden: it is open because an override passes it over.
	Overridden bool `json:"overridden,omitzero"`
	// OpenFrom is when a gate that is closed for now opens by itself.
	OpenFrom time.Time `json:"open_from,omitzero"`
	// Text says what was found and, for a closed gate, what to do next.
	Text string `json:"text"`
}

func open(name GateName, text string) Gate { return Gate{Gate: name, Open: true, Text: text} }

// shut is a gate that no override passes.
func shut(name GateName, text string) Gate {
	return Gate{Gate: name, Text: text + " No override passes this gate."}
}

// overridable is a gate that an override passes.
func (f *facts) overridable(name GateName, text string) Gate {
	if f.override != "" {
		return Gate{Gate: name, Open: true, Overridden: true, Text: "Passed over by the override. " + text}
	}
	return Gate{Gate: name, Text: text + " An override with a reason passes this gate."}
}

// judge says what every gate says of the page. Without a run there is nothing else
// to judge by.
func (f *facts) judge() []Gate {
	if f.run.ID == "" {
		return []Gate{shut(GateKey, "The page's run is not on record in this region. Look for the region that it belongs to, or for what is missing in this ledger.")}
	}
	return []Gate{f.region(), f.age(), f.attempts(), f.key(), f.class(), f.version(), f.hold(), f.brake()}
}

// closed returns the gates that are not open.
func closed(gates []Gate) (all []Gate) {
	for _, g := range gates {
		if !g.Open {
			all = append(all, g)
		}
	}
	return all
}

// namesOf joins the names of gates, as an event tells them.
func namesOf(gates []Gate) string {
	names := make([]string, len(gates))
	for i, g := range gates {
		names[i] = string(g.Gate)
	}
	return strings.Join(names, ",")
}

// region: a recovery never crosses from one region into another. A policy's region
// is its bucket's.
func (f *facts) region() Gate {
	if f.run.Region != f.Region {
		return shut(GateRegion, "The run belongs to region "+f.run.Region+" and this function to "+f.Region+". Redrive it in its own region.")
	}
	if f.pinned.same && f.pinned.region != f.Region {
		return shut(GateRegion, "The run's policy is about a bucket in "+f.pinned.region+" and this function belongs to "+f.Region+". Discard the page and correct the policy.")
	}
	for _, d := range f.copies {
		of := d.Letter.Region
		if c, err := job.Decode(d.Body); err == nil && c.Region != f.Region {
			of = c.Region
		}
		if of != "" && of != f.Region {
			return shut(GateRegion, "The dead letter "+d.MessageID+" of this page names another region. Discard it by its message id, and plan again.")
		}
	}
	return open(GateRegion, "Everything is in "+f.Region+".")
}

// age: both waits have to be over, since the first failure in any of the page's
// lives and since its last death.
func (f *facts) age() Gate {
	from := f.page.FirstFailure.Add(f.Settings.RedriveAfterFailure)
	since := fmt.Sprintf("It first failed at %s and died at %s", at(f.page.FirstFailure), at(f.page.Death.At))
	if dead := f.page.Death.At.Add(f.Settings.RedriveAfterDeath); dead.After(from) {
		from = dead
	}
	if f.now.Before(from) {
		g := shut(GateAge, fmt.Sprintf("%s. It may move %s after the first and %s after the second: from %s on. Wait until then, and plan again.",
			since, f.Settings.RedriveAfterFailure, f.Settings.RedriveAfterDeath, at(from)))
		g.OpenFrom = from.UTC()
		return g
	}
	return open(GateAge, since+".")
}

func (f *facts) attempts() Gate {
	text := fmt.Sprintf("%d of %d attempts are used", f.page.Attempts, f.Settings.RedriveAttempts)
	if f.page.Attempts >= f.Settings.RedriveAttempts {
		return shut(GateAttempts, text+" up. Discard the page: a later run finds what is still there, in a page of its own.")
	}
	return open(GateAttempts, text+".")
}

// key: what would be sent is what died, and a worker would take it.
func (f *facts) key() Gate {
	switch {
	case f.page.State != job.Dead:
		return shut(GateKey, "The page is "+string(f.page.State)+" and not dead any more. There is nothing to move.")
	case f.run.State != job.Released:
		return shut(GateKey, "The run is "+string(f.run.State)+", and a worker takes pages of a released run only. There is nothing to move.")
	case !f.plannedAt.IsZero() && f.page.Death.At.After(f.plannedAt):
		return shut(GateKey, "The page died again after the plan was made. Make a new plan and look at it.")
	case f.planned.Hash != "" && f.planned.Hash != hashOf(f.body):
		return shut(GateKey, "The page's command is not the one that the plan was made for. Make a new plan and look at it.")
	}
	for _, d := range f.copies {
		if newer(d.Body) {
			return shut(GateKey, "The dead letter "+d.MessageID+" of this page was written by a later release. Deploy that release and plan again, or discard the letter by its message id and plan again.")
		}
		if !bytes.Equal(d.Body, f.body) {
			return shut(GateKey, "The dead letter "+d.MessageID+" names this page and is not its command. Find out who wrote it, discard it by its message id, and plan again.")
		}
	}
	if len(f.copies) == 0 {
		return open(GateKey, "No copy was seen among the dead letters. The command is rebuilt from the ledger.")
	}
	return open(GateKey, "The command is the one that died.")
}

// class: what was quarantined moves only once its cause is mended, or by an override
// that is recorded (S14). So does what somebody has given up: a redrive deletes what
// that person was told nobody would.
func (f *facts) class() Gate {
	reason := f.page.Death.Reason
	switch {
	case f.page.Abandoned:
		return f.overridable(GateClass, "Somebody has discarded it, and it died of "+string(reason)+" before its open intent was settled. Discard it again.")
	case reason.Class() == job.Redrivable:
		return open(GateClass, "It died of "+string(reason)+", which is redrivable.")
	case reason == job.ReasonUnknownPolicy && f.pinned.same:
		return open(GateClass, "It died of "+string(reason)+", and the run's policy version is on record again.")
	case reason == job.ReasonUnknownPolicy:
		return f.overridable(GateClass, "It died of "+string(reason)+": version "+strconv.Itoa(f.run.Version)+
			" of the policy is not on record with the run's content. Publish that version again; until then a worker refuses the page.")
	default:
		return f.overridable(GateClass, "It died of "+string(reason)+" and is quarantined. Correct the policy and let a new run take the objects, or discard the page.")
	}
}

// version: a run that was opened under the wrong rule must not be brought back by
// somebody who has not noticed.
func (f *facts) version() Gate {
	if f.newest > f.run.Version {
		return f.overridable(GatePolicy, fmt.Sprintf("The run goes by version %d of %s and version %d is published. Discard the page and let the next run decide by the newer version.",
			f.run.Version, f.run.Policy, f.newest))
	}
	if f.newest < f.run.Version || !f.pinned.same {
		return f.overridable(GatePolicy, fmt.Sprintf("Version %d of %s is not on record with the run's content. Publish it again; until then a worker refuses the page.",
			f.run.Version, f.run.Policy))
	}
	return open(GatePolicy, fmt.Sprintf("Version %d of %s is the newest.", f.run.Version, f.run.Policy))
}

// hold: under a hold on the whole tenant the page could only retain. Other holds
// are the worker's to respect, item by item.
func (f *facts) hold() Gate {
	parts := 0
	for _, h := range f.holds {
		switch {
		case !h.Active():
		case h.Scope == hold.Prefix || h.Scope == hold.Item:
			parts++
		default:
			return shut(GateHold, "The hold "+h.ID+" covers the whole tenant, so the page would only retain. Redrive it once the hold is released, or discard the page.")
		}
	}
	if parts > 0 {
		return open(GateHold, strconv.Itoa(parts)+" holds cover parts of the tenant. What they cover is retained.")
	}
	return open(GateHold, "No hold is in force.")
}

func (f *facts) brake() Gate {
	for _, b := range f.brakes {
		if b.Covers(f.run.Policy, f.run.Version) {
			return shut(GateBrake, "The brake on "+scopeOf(b)+" covers the run since "+at(b.At)+". Release it first.")
		}
	}
	return open(GateBrake, "No brake covers the run.")
}

// scopeOf says what a brake covers.
func scopeOf(b job.Brake) string {
	switch {
	case b.Policy == "":
		return "the region"
	case b.Version == 0:
		return b.Policy
	default:
		return b.Policy + "@" + strconv.Itoa(b.Version)
	}
}

// at writes an instant for people, to the second.
func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }
