package hold_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// oracle knows what was done and what was answered, and holds the one against the
// other at the instant of each.
type oracle struct {
	// deciding is the hold epoch of the intent behind the delete under way.
	deciding int64
	refs     map[string]job.Ref // of the objects that the scan found, by name
	ours     map[string]bool    // names whose object a delete of ours removed
	foreign  map[string]bool    // names that somebody else has touched
	ticks    int                // calls so far
	broken   string             // the first violation
	seen     map[string]int     // what happened, for the plays must not be idle
}

func newOracle() oracle {
	return oracle{refs: map[string]job.Ref{}, ours: map[string]bool{}, foreign: map[string]bool{}, seen: map[string]int{}}
}

// moment is when somebody began to ask.
type moment struct {
	at   time.Time
	tick int
}

// answered is what was answered about one hold.
type answered struct {
	epoch    int64 // 0 while nothing was
	placedAt time.Time
	// promised are the names that were answered HELD.
	promised map[string]bool
	// due is until when a page was said to be in flight, at first; settled is when it was
	// first said not to be.
	due     map[job.PageID]time.Time
	settled map[job.PageID]int
	rested  bool // the last answer was complete, and nothing was in flight
}

func newAnswered() answered {
	return answered{promised: map[string]bool{}, due: map[job.PageID]time.Time{}, settled: map[job.PageID]int{}}
}

func (o *oracle) violate(format string, values ...any) {
	if o.broken == "" {
		o.broken = fmt.Sprintf(format, values...)
	}
}

// effect is told every effect at its instant.
func (p *play) effect(e artifact.Effect) {
	if e.Restored {
		return
	}
	name := strings.TrimPrefix(e.Item.Key, root)
	if e.Item.Modified.Equal(expired) {
		p.ours[name] = true
	}
	p.seen["object deleted"]++
	p.tell("%s is deleted", name)
	for _, o := range p.orders {
		switch {
		case !o.promised[name]:
		case p.active(o):
			p.violate("S4: %s was deleted after it was answered HELD by %s", name, o.ID)
		case p.deciding < o.epoch:
			p.violate("S18: %s was deleted by a decision from before %s, which had been answered HELD", name, o.ID)
		}
	}
}

// take holds an answer against what was done, and notes what it promises.
func (p *play) take(o *order, s hold.Status, began moment) {
	p.seen[string(s.Answer)]++
	p.consistent(s)
	o.rested = s.Complete && s.Pages.InFlight == 0
	if !s.Complete || s.UnreadRuns > 0 { // which says so
		p.seen["incomplete"]++
		return
	}
	listed := map[job.PageID]hold.Page{}
	for _, l := range s.Listed {
		listed[l.PageID] = l
		for word := range l.Outcomes {
			p.seen["told as "+word]++
		}
	}
	covered := hold.Hold{Scope: o.Scope, Value: o.Value}
	flying := map[string]bool{}
	for _, r := range p.runs {
		for _, page := range r.pages {
			var within []string
			for _, name := range r.names[page.ID] {
				if covered.Covers(root + name) {
					within = append(within, name)
				}
			}
			p.judgePage(o, r, page, within, listed, flying, began)
		}
	}
	for _, name := range names {
		if covered.Covers(root+name) && !flying[name] {
			o.promised[name] = true
		}
	}
}

// judgePage holds what was said of a range, and of what was split off from it, against
// what was done.
func (p *play) judgePage(o *order, r *run, page job.Page, within []string, listed map[job.PageID]hold.Page, flying map[string]bool, began moment) {
	strict := len(p.runs) == 1 // otherwise a deletion may be two runs' at once
	gone, could := 0, 0
	for _, name := range within {
		strict = strict && !p.foreign[name]
		if p.ours[name] {
			gone++
		}
		if p.ours[name] || p.foreign[name] {
			could++
		}
	}
	if len(within) == 0 {
		return
	}
	said := listed[page.ID]
	anyFlies := p.flies(o, r, said, page.ID, strict, true, began)
	items := said.Items
	for _, name := range within {
		id := job.ItemPageID(r.ID, acme, p.refs[name])
		child := listed[id]
		flies := p.flies(o, r, child, id, strict, said.Answer != hold.InFlight, began) // one that flies may split it off later
		flying[name] = flying[name] || flies || said.Answer == hold.InFlight
		anyFlies = anyFlies || flies
		items += child.Items
	}
	switch {
	case anyFlies || r.State == job.Closed && o.Scope != hold.Item: // what an ended run did is not told of a prefix
	case items > could:
		p.violate("TOO_LATE: %d of %v are told as gone, and %d are", items, within, could)
	case strict && items != gone:
		p.violate("HELD: %d of %v are told as gone, and %d were deleted", items, within, gone)
	}
}

// flies reports whether a page is said to be in flight, which it may be only once and
// only for so long. A page in which an item was answered before the hold waits with
// each resume anew, but never longer than what was decided before the hold can.
func (p *play) flies(o *order, r *run, l hold.Page, id job.PageID, strict, final bool, began moment) bool {
	row, err := p.ledger.Page(context.Background(), r.ID, acme, id)
	if l.Answer != hold.InFlight {
		if o.settled[id] == 0 && final && err == nil {
			o.settled[id] = p.ticks
		}
		return false
	}
	due, before := o.due[id]
	renewed := row.Intent.Epoch >= o.epoch && row.QuietAt.After(due) && row.Counts.Sum() > 0
	reach := p.set.FunctionTimeout + p.set.RequestLifetime
	switch {
	case l.Until.After(p.now.Add(reach)):
		p.violate("IN_FLIGHT until %v, later than anything can land", l.Until)
	case !began.at.Before(o.placedAt.Add(2 * reach)):
		p.violate("resolution: a page is in flight long after %s was placed", o.ID)
	case strict && !renewed && o.settled[id] > 0 && o.settled[id] <= began.tick:
		p.violate("resolution: a page is in flight again under %s", o.ID)
	case strict && !renewed && before && !began.at.Before(due):
		p.violate("resolution: a page of %s was in flight until %v, and is", o.ID, due)
	case !before:
		o.due[id] = l.Until
	}
	return true
}

// consistent checks that the parts of an answer say the same.
func (p *play) consistent(s hold.Status) {
	flying, late := 0, 0
	for _, l := range s.Listed {
		switch {
		case l.Answer == hold.InFlight && !l.Until.IsZero() && !s.Until.Before(l.Until) && l.Items == 0:
			flying++
		case l.Answer == hold.TooLate && l.Until.IsZero() && l.Items > 0:
			late++
		default:
			p.violate("answer: %+v", l)
		}
	}
	if flying != s.Pages.InFlight || late != s.Pages.TooLate || s.More > 0 {
		p.violate("answer: %+v", s)
	}
	want := hold.Held
	if late > 0 {
		want = hold.TooLate
	}
	if flying > 0 || !s.Complete {
		want = hold.InFlight
	}
	if s.Answer != want || want == hold.InFlight && s.Until.IsZero() {
		p.violate("answer: %s of %+v", s.Answer, s)
	}
}
