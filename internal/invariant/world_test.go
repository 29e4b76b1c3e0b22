package invariant

import (
	"fmt"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
)

const (
	region = "eu-central-1"
	code   = "test"
)

var (
	opened    = time.Date(2026, 3, 9, 2, 30, 0, 0, time.UTC)
	cutoff    = opened.AddDate(0, 0, -30)
	released  = opened.Add(time.Minute)
	deletedAt = opened.Add(2 * time.Minute)
	old       = cutoff.AddDate(0, 0, -10)
)

// world is what a small honest pipeline does. A test changes it before it is
// built, or the facts after that.
type world struct {
	runs  []*runSpec
	holds map[string]hold.Set
	after []func(*Facts)
}

type runSpec struct {
	policy policy.Policy
	state  job.RunState
	run    func(*job.Run)
	pages  []*pageSpec
}

// pageSpec is one page: its plans from the first to the last, and the lines of its
// receipt.
type pageSpec struct {
	tenant string
	state  job.PageState
	reason job.Reason // of a page that is dead, or was discarded since
	plans  [][]receipt.Line
	epochs []int64 // of the plans
	lines  []receipt.Line
	// header changes the receipt's, row the finished row.
	header  func(*receipt.Header)
	row     func(*job.Page)
	effects []Effect
	after   string
	parent  *pageSpec
	// letterless drops the dead letter; waiting leaves the message in the queue.
	letterless, waiting bool

	id   job.PageID
	last string // hash of the last plan
}

func testPolicy(name string, mode job.Mode) policy.Policy {
	return policy.Policy{
		Name: name, Version: 1, Region: region, Bucket: name + "-bucket", Keys: name + "/{tenant}/", RetentionDays: 30, Mode: mode,
		Schedule: policy.Schedule{Every: policy.Daily, At: "02:30", Zone: "UTC"}, Versions: policy.CurrentVersions,
		Limits:    policy.Limits{MaxObjects: 100, MaxShare: 0.5, MaxGrowth: 3, MaxRate: 100},
		Objective: 15 * time.Minute,
	}
}

func item(key string) job.Item {
	return job.Item{Key: key, ETag: fmt.Sprintf("etag-%x", len(key)*7919+int(key[len(key)-1])), Size: 100 + int64(len(key)), Modified: old}
}

func line(key string, d receipt.Decision, o job.Outcome, proof job.Proof) receipt.Line {
	l := receipt.Line{Item: item(key), Decision: d, Reason: "expired", Outcome: o, Proof: proof}
	if d == receipt.Held {
		l.Reason, l.HoldID = "held", "hold-old"
	}
	if d == receipt.Veto {
		l.Reason, l.HoldID, l.SettleAt = "hold", "hold-new", deletedAt.Add(20*time.Minute)
	}
	return l
}

func deleted(key string) receipt.Line { return line(key, receipt.Delete, job.Deleted, job.Answered) }

// planned is the plan of a receipt's lines.
func planned(lines []receipt.Line) []receipt.Line {
	var plan []receipt.Line
	for _, l := range lines {
		l.Outcome, l.Proof = job.NoOutcome, ""
		if l.Decision == receipt.Moved {
			l.Decision = receipt.Delete
		}
		plan = append(plan, l)
	}
	return plan
}

// settledPage is a completed page whose deletions took effect.
func settledPage(bucket, tenant string, lines ...receipt.Line) *pageSpec {
	p := &pageSpec{tenant: tenant, state: job.Completed, plans: [][]receipt.Line{planned(lines)}, epochs: []int64{1}, lines: lines}
	for _, l := range lines {
		if l.Outcome == job.Deleted {
			p.effects = append(p.effects, Effect{Bucket: bucket, Item: l.Item, At: deletedAt})
		}
	}
	return p
}

// The places of the honest world's runs and pages.
const (
	exports, markers, reports, waiting = 0, 1, 2, 3
	plain, resumed, parent, child      = 0, 1, 2, 3
)

// honest returns a world in which every promise is kept: deletes, a hold placed
// before the run and one during it, a resume that narrows, a split-off item that
// is refused, markers with one taken away again, a report-only run, a run that
// waits for approval, and a message that is no command.
func honest() *world {
	w := &world{holds: map[string]hold.Set{
		"acme": {
			{ID: "hold-old", Tenant: "acme", Scope: hold.Prefix, Value: "exports/acme/keep/", Epoch: 1, PlacedAt: opened.Add(-time.Hour)},
			{ID: "hold-new", Tenant: "acme", Scope: hold.Item, Value: "exports/acme/b/2.csv", Epoch: 2, PlacedAt: deletedAt.Add(10 * time.Second)},
		},
	}}
	b := "exports-bucket"
	one := settledPage(b, "acme", deleted("exports/acme/a/1.csv"), deleted("exports/acme/a/2.csv"),
		line("exports/acme/keep/3.csv", receipt.Held, job.Held, ""))
	two := settledPage(b, "acme",
		line("exports/acme/b/1.csv", receipt.Delete, job.Deleted, job.Inferred),
		line("exports/acme/b/2.csv", receipt.Veto, job.Held, ""),
		deleted("exports/acme/b/3.csv"))
	wide := planned([]receipt.Line{deleted("exports/acme/b/1.csv"), deleted("exports/acme/b/2.csv"), deleted("exports/acme/b/3.csv")})
	two.after, two.plans, two.epochs = "a/3.csv", [][]receipt.Line{wide, two.plans[0]}, []int64{1, 2}
	three := settledPage(b, "globex", deleted("exports/globex/1.csv"), line("exports/globex/2.csv", receipt.Moved, job.NoOutcome, ""))
	refused := line("exports/globex/2.csv", receipt.Delete, job.Refused, "")
	four := &pageSpec{
		tenant: "globex", state: job.Dead, reason: job.ReasonForbidden, parent: three,
		plans: [][]receipt.Line{planned([]receipt.Line{refused})}, epochs: []int64{1}, lines: []receipt.Line{refused},
	}
	w.runs = append(w.runs, &runSpec{policy: testPolicy("exports", job.Enforce), state: job.Released, pages: []*pageSpec{one, two, three, four}})

	hidden := line("markers/acme/1", receipt.Delete, job.DeletedMarkerOnly, job.Answered)
	twin := line("markers/acme/2", receipt.Delete, job.Superseded, "")
	five := settledPage("markers-bucket", "acme", hidden, twin)
	below, young := hidden.Item, twin.Item
	below.Version, young.Version, young.Modified = "v1", "v3", opened
	five.effects = []Effect{
		{Bucket: "markers-bucket", Item: below, At: deletedAt, Marker: true},
		{Bucket: "markers-bucket", Item: young, At: deletedAt, Marker: true},
		{Bucket: "markers-bucket", Item: young, At: deletedAt, Restored: true},
	}
	w.runs = append(w.runs, &runSpec{policy: testPolicy("markers", job.Enforce), state: job.Closed, pages: []*pageSpec{five}})

	six := settledPage("reports-bucket", "acme", line("reports/acme/1.csv", receipt.Delete, job.WouldDelete, ""), line("reports/acme/2.csv", receipt.Retained, job.Retained, ""))
	w.runs = append(w.runs, &runSpec{policy: testPolicy("reports", job.ReportOnly), state: job.Closed, pages: []*pageSpec{six}})

	seven := &pageSpec{tenant: "acme", state: job.Planned, row: func(p *job.Page) { p.Candidates = 7 }}
	w.runs = append(w.runs, &runSpec{policy: testPolicy("waiting", job.Enforce), state: job.AwaitingApproval, pages: []*pageSpec{seven}})

	w.after = append(w.after, func(f *Facts) {
		junk := []byte(`{"schema":1,"note":"exports/acme/a/1.csv"}`)
		f.Acks = append(f.Acks, Ack{MessageID: "message-junk", Body: junk, At: deletedAt})
		f.Letters = append(f.Letters, job.Letter{Body: junk, Reason: job.ReasonMalformed, Region: region})
		f.Events = append(f.Events, audit.Event{Event: audit.DeadLettered, Region: region, Reason: job.ReasonMalformed, MessageID: "message-junk"})
	})
	return w
}

// build plays the world.
func (w *world) build(t testing.TB) Facts {
	t.Helper()
	f := Facts{
		Region: region, Holds: w.holds, Evidence: map[string][]byte{}, Quiet: 17 * time.Minute,
		Remains: func(string, job.Ref) (job.Item, bool) { return job.Item{}, false },
	}
	for _, r := range w.runs {
		w.buildRun(t, &f, r)
	}
	for _, change := range w.after {
		change(&f)
	}
	return f
}

func (w *world) buildRun(t testing.TB, f *Facts, s *runSpec) {
	t.Helper()
	f.Policies = append(f.Policies, s.policy)
	r := job.Run{
		ID: job.ScheduledRunID(region, s.policy.Name, opened), Region: region, Policy: s.policy.Name, Version: s.policy.Version,
		PolicySHA256: s.policy.SHA256(), Mode: s.policy.Mode, Scheduled: opened, Cutoff: cutoff, State: s.state, OpenedAt: opened,
	}
	if s.state == job.Released || s.state == job.Closed {
		r.ReleasedAt = released
	}
	if s.run != nil {
		s.run(&r)
	}
	var rows []job.Page
	for _, p := range s.pages {
		rows = append(rows, buildPage(t, f, s, r, p))
	}
	for _, p := range rows {
		if s.state == job.Closed {
			r.Totals = r.Totals.Plus(p.Totals())
		}
		if p.Kind == job.RangePage {
			r.Pages++
			r.Examined += p.Examined
			r.Candidates += p.Candidates
		}
	}
	f.Runs = append(f.Runs, r)
	for i, p := range rows {
		w.post(f, s.pages[i], r, p)
	}
	f.Pages = append(f.Pages, rows...)
}

// post acknowledges the page's message, or leaves it where it is.
func (w *world) post(f *Facts, s *pageSpec, r job.Run, p job.Page) {
	body := job.NewCommand(r, p).Encode()
	if p.State == job.Dead && !s.letterless {
		f.Letters = append(f.Letters, job.Letter{
			Body: body, Reason: p.Death.Reason, RunID: p.Run, PageID: p.ID, Policy: r.Policy, Version: r.Version, Region: r.Region, Attempts: p.Attempts,
		})
	}
	if s.waiting {
		f.Waiting = append(f.Waiting, body)
		return
	}
	if p.State.Terminal() || p.State == job.Dead {
		f.Acks = append(f.Acks, Ack{MessageID: "message-" + string(p.ID), Body: body, At: deletedAt.Add(time.Minute)})
		f.Events = append(f.Events, audit.Event{Event: audit.Succeeded, MessageID: "message-" + string(p.ID)}.About(r, p))
	}
}

func buildPage(t testing.TB, f *Facts, s *runSpec, r job.Run, p *pageSpec) job.Page {
	t.Helper()
	row := job.Page{Run: r.ID, Tenant: p.tenant, Kind: job.RangePage, After: p.after, State: p.state, Fence: 2, Attempts: 1, Planned: len(p.lines)}
	p.id = job.RangePageID(r.ID, p.tenant, p.after)
	narrows := ""
	if p.parent != nil {
		row.Kind, row.Parent = job.ItemPage, p.parent.id
		p.id = job.ItemPageID(r.ID, p.tenant, p.plans[0][0].Ref())
		narrows = p.parent.last
	}
	row.ID = p.id
	header := receipt.Header{
		Kind: receipt.Plan, Schema: receipt.Schema, RunID: r.ID, PageID: p.id, Tenant: p.tenant, Policy: r.Policy, PolicyVersion: r.Version,
		PolicySHA256: r.PolicySHA256, Mode: r.Mode, Bucket: s.policy.Bucket, Cutoff: r.Cutoff, CodeVersion: code,
	}
	var deletes int
	for i, lines := range p.plans {
		h := header
		h.Fence, h.HoldEpoch, h.Narrows = int64(i+1), p.epochs[i], narrows
		doc := receipt.Document{Header: h, Lines: lines}
		narrows = store(t, f, doc)
		deletes, row.Candidates = doc.Deletes(), max(row.Candidates, len(lines))
		if r.Mode == job.Enforce && deletes > 0 {
			row.Intent = job.Intent{Plan: narrows, Epoch: h.HoldEpoch, Fence: h.Fence, Deletes: deletes}
		}
	}
	p.last = narrows
	if p.lines != nil {
		h := header
		h.Kind, h.Plan, h.Fence, h.HoldEpoch = receipt.Receipt, p.last, 2, 1
		if p.header != nil {
			p.header(&h)
		}
		doc := receipt.Document{Header: h, Lines: p.lines}
		row.Receipt = store(t, f, doc)
		totals := doc.Totals()
		row.Counts, row.Bytes, row.Moved = totals.Counts, totals.Bytes, doc.Count(receipt.Moved)
	}
	if p.reason != "" {
		row.Death = job.Death{Reason: p.reason, At: deletedAt, LetterAt: deletedAt}
	}
	if p.row != nil {
		p.row(&row)
	}
	row.Examined = row.Candidates
	f.Effects = append(f.Effects, p.effects...)
	return row
}

func store(t testing.TB, f *Facts, doc receipt.Document) string {
	t.Helper()
	hash, data, err := doc.Encode()
	if err != nil {
		t.Fatalf("encode %s: %v", doc.Header.Kind, err)
	}
	f.Evidence[receipt.Name(doc.Header.Kind, doc.Header.RunID, doc.Header.PageID, hash)] = data
	return hash
}
