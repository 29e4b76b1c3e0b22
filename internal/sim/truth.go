package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// truth is what really happened so far, gathered from the moments alone. The oracles
// judge by it, and never by what a step believes.
type truth struct {
	w     *world
	runs  map[job.RunID]job.Run
	pages map[job.PageID]*pageTruth
	order []*pageTruth // in the order in which they were recorded
	// claims is the row that the holder of each claim wrote last, by its owner's name.
	claims map[string]job.Page
	docs   map[string]*receipt.Document
	holds  map[string]*holdTruth
	brakes []job.Brake
	braked []brakeTruth // every brake that was ever set
	// settled is the page that gave an item its outcome in a run.
	settled map[runItem]job.PageID
	// answered are the deletions that the store is said to have confirmed.
	answered map[job.Item]job.PageID
	entries  []audit.Entry
	redrives map[job.RedriveID]job.Redrive
	// approvals are every policy's, in their order.
	approvals map[string][]policy.Approval
	autos     []autoTruth            // since when a schedule may redrive what
	letters   map[string]bool        // bodies that were ever written as a dead letter
	commands  map[string]job.Command // what bodies say
	drills    map[string][]byte      // what was kept of drills, by name
	// missed is when a date was called missed last, by the run that it should have.
	missed map[job.RunID]time.Time
	// newestMissed is the newest of these dates of each policy, asked are those of which a run was asked
	// for, and measuredMissed is when a number of them was measured last.
	newestMissed   map[string]time.Time
	asked          map[job.RunID]bool
	measuredMissed map[string]time.Time
	said           map[about]time.Time
	gauges         map[gauge]measure
	// moves are when an instance moved a page back.
	moves map[*instance][]time.Time
	// hands are who received a dead letter last, by the id of its message.
	hands map[string]hand
	told  map[string]bool   // messages of which an event says what they came to
	kept  map[string]string // hash of the last receipt that each claim has kept, by its owner's name
	// touched are the keys that somebody else changed.
	touched map[string]bool
	// twins counts objects that were deleted although they are younger than the cutoff,
	// because their bytes are those of the one that was planned (F5): no store can tell.
	twins int
	// deletes, resumes and narrowed count what the steps did, for the summary.
	deletes, resumes, held int
}

// brakeTruth is a brake, and until when it was in force.
type brakeTruth struct {
	brake job.Brake
	since time.Time // when it was written, which may be long after it was ordered
	until time.Time // zero while it is
}

// autoTruth is what a schedule may redrive, and since when.
type autoTruth struct {
	since time.Time
	auto  job.AutoRedrive
}

// about is an event about a page or, where it names none, about a run.
type about struct {
	event audit.Name
	id    string
}

// gauge is what an instance measures of a policy.
type gauge struct {
	by     *instance
	metric contract.Metric
	policy string
}

type hand struct {
	by *instance
	at time.Time
}

type measure struct {
	at    time.Time
	value float64
}

type runItem struct {
	run job.RunID
	ref job.Ref
}

// pageTruth is a page, and what its claims did.
type pageTruth struct {
	row     job.Page
	was     job.Page  // the row that it replaced
	since   time.Time // when the row was written
	effects []artifact.Effect
	// ackable is when the page was last in a state in which its message may go.
	ackable time.Time
	// restored are the keys under which a wrong marker was taken away again.
	restored map[string]bool
	sent     time.Time // when its message was accepted last
	// hid are the keys at which a request that somebody waited for has hidden a later
	// upload of the same bytes, and when that was uploaded.
	hid map[string]time.Time
	// givenUp: it was discarded as a dead page, and what it still owed stands in its row
	// alone.
	givenUp bool
}

func newPageTruth(row job.Page) *pageTruth {
	return &pageTruth{row: row, restored: map[string]bool{}, hid: map[string]time.Time{}}
}

// holdTruth is a hold, and what was answered about it.
type holdTruth struct {
	hold     hold.Hold
	placed   time.Time // when it was written, and when its release was; zero before
	released time.Time
	promised map[string]bool // keys of which HELD was answered
}

func newTruth(w *world) *truth {
	return &truth{
		w: w, runs: map[job.RunID]job.Run{}, pages: map[job.PageID]*pageTruth{}, claims: map[string]job.Page{},
		docs: map[string]*receipt.Document{}, holds: map[string]*holdTruth{}, settled: map[runItem]job.PageID{},
		answered: map[job.Item]job.PageID{}, redrives: map[job.RedriveID]job.Redrive{}, letters: map[string]bool{},
		missed: map[job.RunID]time.Time{}, kept: map[string]string{}, told: map[string]bool{},
		drills: map[string][]byte{}, commands: map[string]job.Command{}, approvals: map[string][]policy.Approval{}, touched: map[string]bool{}, newestMissed: map[string]time.Time{},
		asked: map[job.RunID]bool{}, measuredMissed: map[string]time.Time{}, said: map[about]time.Time{}, gauges: map[gauge]measure{},
		moves: map[*instance][]time.Time{}, hands: map[string]hand{},
	}
}

// take notes a moment.
func (t *truth) take(m *moment) {
	switch m.kind {
	case runWritten:
		t.runs[m.run.ID] = m.run
	case pageWritten:
		t.takePage(m)
	case holdWritten:
		if h, known := t.holds[m.hold.ID]; known {
			h.hold.ReleasedAt, h.released = m.hold.ReleasedAt, m.at
		} else if m.hold.ReleasedAt.IsZero() {
			t.holds[m.hold.ID] = &holdTruth{hold: m.hold, placed: m.at, promised: map[string]bool{}}
		}
	case brakeWritten:
		var err error
		t.brakes, err = t.w.ledger.Brakes(context.Background())
		sure(err)
		t.takeBrake(m)
	case entryWritten:
		t.entries = append(t.entries, m.entry)
	case redriveWritten:
		t.redrives[m.redrive.ID] = m.redrive
	case approvalWritten:
		t.approvals[m.approval.Policy] = append(t.approvals[m.approval.Policy], m.approval)
	case autoWritten:
		t.autos = append(t.autos, autoTruth{m.at, m.auto})
	case letterWritten:
		t.letters[string(m.letter.Body)] = true
	case documentKept:
		if strings.HasPrefix(m.name, contract.EvidenceDrills) {
			t.drills[m.name] = m.data
		}
		if n, err := receipt.ParseName(m.name); err == nil && n.Kind == receipt.Receipt && m.by != nil {
			t.kept[m.by.owner] = n.Hash
		}
	case effectHappened:
		t.takeEffect(m)
	case holdAnswered:
		t.promise(m.status)
	case messageSent:
		t.takeMessage(m)
	case startAsked:
		t.asked[job.ScheduledRunID(region, m.name, m.scheduled)] = true
	case emitted:
		t.takeEvent(m)
	case measured:
		t.gauges[gauge{m.by, m.gauge.Metric, m.gauge.Policy}] = measure{m.at, m.gauge.Value}
		if m.gauge.Metric == contract.MissedDates {
			t.measuredMissed[m.gauge.Policy] = m.at
		}
	default: // nothing to remember
	}
}

// takeBrake notes a brake, and which are not in force any more: a release takes away what
// its sender has seen, and none that was set since.
func (t *truth) takeBrake(m *moment) {
	if !m.released {
		t.braked = append(t.braked, brakeTruth{brake: m.brake, since: m.at})
		return
	}
	for i := range t.braked {
		if b := &t.braked[i]; b.until.IsZero() && !slices.Contains(t.brakes, b.brake) {
			b.until = m.at
		}
	}
}

func (t *truth) takeEvent(m *moment) {
	e := &m.event
	id := string(e.JobID)
	if id == "" {
		id = string(e.RunID)
	}
	t.said[about{e.Event, id}] = m.at
	if e.Event == audit.DateMissed {
		t.missed[e.RunID] = m.at
		if e.Scheduled.After(t.newestMissed[e.Policy]) {
			t.newestMissed[e.Policy] = e.Scheduled
		}
	}
	switch e.Event {
	case audit.Succeeded, audit.Discarded, audit.Parked, audit.DeadLettered, audit.DuplicateObserved, audit.RedriveRefused:
		t.told[e.MessageID] = true
	default: // nothing that an oracle asks for
	}
}

func (t *truth) takeMessage(m *moment) {
	p := t.pageOf(m.message.Body)
	if p != nil && !t.w.refusesEntry(m.message.ID) {
		p.sent = m.at
	}
}

func (t *truth) takePage(m *moment) {
	p := t.pages[m.page.ID]
	if p == nil {
		p = newPageTruth(job.Page{})
		t.pages[m.page.ID] = p
		t.order = append(t.order, p)
	}
	if t.ackable(p.row) {
		p.ackable = m.at
	}
	p.row, p.was, p.since = m.page, m.was, m.at
	p.givenUp = m.was.State == job.Dead && m.page.State == job.Discarded
	if m.by != nil && m.page.State == job.Redriven && m.was.State == job.Dead && !m.page.Abandoned {
		t.moves[m.by] = append(t.moves[m.by], m.at)
	}
	if s := m.page.State; s == job.Claimed || s == job.Intended {
		t.claims[m.page.Owner] = m.page
	}
	if m.page.State == job.Intended && m.was.Intent != (job.Intent{}) {
		t.resumes++
	}
	for _, c := range m.children {
		child := newPageTruth(c)
		for _, l := range t.plan(c).Lines {
			if at, hid := p.hid[l.Key]; hid {
				child.hid[l.Key] = at
			}
		}
		child.since = m.at
		t.pages[c.ID] = child
		t.order = append(t.order, child)
	}
	if !ended(m.page) || m.page.Receipt == "" {
		return
	}
	for _, l := range t.receipt(m.page).Lines {
		if l.Outcome == job.NoOutcome {
			continue
		}
		t.settled[runItem{m.page.Run, l.Ref()}] = m.page.ID
		if l.Proof == job.Answered && deleted(l.Outcome) {
			t.answered[l.Item] = m.page.ID
		}
	}
}

func (t *truth) takeEffect(m *moment) {
	if m.flight == nil || m.effect.Restored {
		if p := t.planner(m.effect.Item.Key); p != nil {
			p.restored[m.effect.Item.Key] = true
			delete(p.hid, m.effect.Item.Key)
		}
		return
	}
	t.deletes++
	p := t.pages[m.flight.page.ID]
	if p == nil {
		return
	}
	p.effects = append(p.effects, m.effect)
	if m.effect.Marker && !m.flight.alone && twin(t, m) {
		p.hid[m.effect.Item.Key] = m.effect.Item.Modified
	}
}

// buries reports whether a later upload lies under a marker of ours.
func (t *truth) buries() bool {
	return slices.ContainsFunc(t.order, func(p *pageTruth) bool { return len(p.hid) > 0 && !ended(p.row) })
}

// planner returns the page whose effect hid the key last.
func (t *truth) planner(key string) *pageTruth {
	for i := len(t.order) - 1; i >= 0; i-- {
		for _, e := range t.order[i].effects {
			if e.Item.Key == key && e.Marker {
				return t.order[i]
			}
		}
	}
	return nil
}

// ackable reports whether the message of a page may be acknowledged (E1).
func (t *truth) ackable(p job.Page) bool {
	switch {
	case ended(p), p.State == job.Planned:
		return true
	case p.State == job.Dead:
		return !p.Death.LetterAt.IsZero() && t.letters[string(job.NewCommand(t.runs[p.Run], p).Encode())]
	default:
		return t.runs[p.Run].State != job.Released
	}
}

// document returns what was kept under a name, nil when there is nothing that reads.
func (t *truth) document(kind receipt.Kind, p job.Page, hash string) *receipt.Document {
	name := receipt.Name(kind, p.Run, p.ID, hash)
	if d, known := t.docs[name]; known {
		return d
	}
	data, err := t.w.evidence.Get(context.Background(), name)
	if err != nil {
		return nil
	}
	d, err := receipt.Verify(name, data)
	if err != nil {
		return nil
	}
	t.docs[name] = &d
	return &d
}

// plan returns the plan of a page's intent, and receipt the receipt that its row
// names: empty ones where there are none.
func (t *truth) plan(p job.Page) *receipt.Document {
	return some(t.document(receipt.Plan, p, p.Intent.Plan))
}
func (t *truth) receipt(p job.Page) *receipt.Document {
	return some(t.document(receipt.Receipt, p, p.Receipt))
}

func some(d *receipt.Document) *receipt.Document {
	if d == nil {
		return &receipt.Document{}
	}
	return d
}

// promise notes what an answer about a hold has promised: from now on nothing of ours
// takes effect on what it covers, but for what it calls in flight.
func (t *truth) promise(s hold.Status) {
	h := t.holds[s.Hold.ID]
	if h == nil || !s.Complete || s.Answer == hold.Ended {
		return
	}
	for _, key := range t.w.keys {
		if h.covers(key) && !t.flying(s, key) {
			h.promised[key] = true
		}
	}
	t.held++
}

// flying reports whether an answer calls a page in flight that may name the key.
func (t *truth) flying(s hold.Status, key string) bool {
	for _, l := range s.Listed {
		if l.Answer != hold.InFlight {
			continue
		}
		p := t.pages[l.PageID]
		if p != nil && p.row.Kind == job.ItemPage {
			p = t.pages[p.row.Parent]
		}
		if p == nil || p.row.Tenant != s.Hold.Tenant {
			return true
		}
		rel, inside := strings.CutPrefix(key, rootOf(t.runs[p.row.Run].Policy)+p.row.Tenant+"/")
		if inside && p.row.After < rel && rel <= p.row.Through {
			return true
		}
	}
	return false
}

// ordered reports whether an order of the act is on record that is about what wanted
// says.
func (t *truth) ordered(act audit.Name, wanted func(audit.Entry) bool) bool {
	for _, e := range t.entries {
		if e.Act == act && wanted(e) {
			return true
		}
	}
	return false
}
