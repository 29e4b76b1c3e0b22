package invariant

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// violated returns the invariants that do not hold.
func violated(results []Result) []string {
	var ids []string
	for _, r := range results {
		if !r.Holds {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func details(results []Result) string {
	var b strings.Builder
	for _, r := range results {
		b.WriteString(r.ID + " " + r.Detail + "\n")
	}
	return b.String()
}

func TestAnHonestWorldHolds(t *testing.T) {
	results := Check(honest().build(t))
	if ids := violated(results); len(ids) > 0 {
		t.Fatalf("violated: %v\n%s", ids, details(results))
	}
	for i, r := range results {
		if r.ID != IDs()[i] {
			t.Errorf("result %d is %s, want %s", i, r.ID, IDs()[i])
		}
		if r.Checked == 0 {
			t.Errorf("%s looked at nothing in a world that has all of it: %s", r.ID, r.Detail)
		}
		if Meaning(r.ID) == "" {
			t.Errorf("%s means nothing", r.ID)
		}
	}
}

func TestAnEmptyWorldHoldsAndSaysSo(t *testing.T) {
	for _, r := range Check(Facts{}) {
		if !r.Holds || r.Checked != 0 || !strings.HasPrefix(r.Detail, "looked at nothing: ") {
			t.Errorf("%+v", r)
		}
	}
}

// planted is one violation. It flips its invariant, and of the others only those
// in also, for the reason that why gives.
type planted struct {
	name, id  string
	also, why string
	before    func(*world)
	after     func(*Facts)
}

func plantedViolations() []planted {
	return slices.Concat(plantedSafety(), plantedHolds(), plantedEvidence(), plantedLiveness())
}

func plantedSafety() []planted {
	return []planted{
		{name: "the deleted item was young", id: "S1", after: func(f *Facts) {
			f.Effects[0].Item.Modified = cutoff
		}},
		{name: "the cutoff is a day too late for the policy", id: "S2", after: func(f *Facts) {
			f.Runs[exports].Scheduled = opened.Add(-time.Second)
		}},
		{name: "no intent names the plan", id: "S3", before: func(w *world) {
			w.runs[exports].pages[plain].row = func(p *job.Page) { p.Intent = job.Intent{} }
		}},
		{name: "another object was deleted", id: "S3", also: "E2", why: "no receipt knows it either", after: func(f *Facts) {
			f.Effects = append(f.Effects, Effect{Bucket: "exports-bucket", Item: item("exports/acme/z/9.csv"), At: deletedAt})
		}},
		{name: "the deleted version is not the planned one", id: "S3", also: "E2", why: "the answered deletion hit nothing that was planned",
			after: func(f *Facts) { f.Effects[0].Item.ETag = "etag-of-another" }},
		{name: "a key of another tenant", id: "S5", before: func(w *world) {
			w.runs[exports].pages[plain] = settledPage("exports-bucket", "acme", deleted("exports/acme-evil/1.csv"))
		}},
		{name: "the tenant's own prefix", id: "S5", before: func(w *world) {
			w.runs[exports].pages[plain] = settledPage("exports-bucket", "acme", deleted("exports/acme/"))
		}},
		{name: "a delete outside every policy", id: "S5", also: "S3 S6 E2", why: "nothing planned it, and no policy has it", after: func(f *Facts) {
			f.Effects = append(f.Effects, Effect{Bucket: "exports-bucket", Item: item("payroll/1.csv"), At: deletedAt})
		}},
		{name: "a letter of another region", id: "S6", after: func(f *Facts) { f.Letters[0].Region = "us-east-1" }},
		{name: "another bucket", id: "S6", also: "S5 S3 E2", why: "no policy has a key there and no plan names it", after: func(f *Facts) {
			f.Effects = append(f.Effects, Effect{Bucket: "elsewhere", Item: item("exports/acme/a/1.csv"), At: deletedAt})
		}},
		{name: "a run of another region", id: "S6", also: "S7 E1", why: "its commands are no longer those of the messages",
			after: func(f *Facts) { f.Runs[exports].Region = "us-east-1" }},
		{name: "a quarantined page deleted", id: "S7", before: func(w *world) {
			p := w.runs[exports].pages[plain]
			p.state, p.reason = job.Dead, job.ReasonUnknownPolicy
		}},
		{name: "a page deleted that was quarantined and then discarded", id: "S7", before: func(w *world) {
			p := abandonedPage()
			p.reason = job.ReasonUnknownPolicy
			w.runs[exports].pages = append(w.runs[exports].pages, p)
		}},
		{name: "a malformed message is gone", id: "S7", also: "E1", why: "what is no dead letter may not be acknowledged", after: func(f *Facts) {
			f.Acks = append(f.Acks, Ack{Body: []byte("{}"), At: deletedAt})
		}},
		{name: "a policy version that nobody published", id: "S7", also: "E6", why: "the plans can not be compared with it", after: func(f *Facts) {
			f.Policies = f.Policies[1:]
		}},
		{name: "a policy version with other content", id: "S7", also: "E6", why: "the plans can not be compared with it", after: func(f *Facts) {
			f.Policies[exports].RetentionDays = 20
		}},
		{name: "a report-only run counts deletions", id: "S8", also: "E5", why: "its receipt does not", after: func(f *Facts) {
			p := &f.Pages[len(f.Pages)-2]
			p.Counts[job.Deleted], p.Counts[job.WouldDelete] = 1, 0
		}},
		{name: "a report-only run deleted", id: "S8", before: func(w *world) {
			lines := []receipt.Line{line("reports/acme/1.csv", receipt.Delete, job.Superseded, "")}
			p := settledPage("reports-bucket", "acme", lines...)
			p.effects = []Effect{{Bucket: "reports-bucket", Item: lines[0].Item, At: deletedAt}}
			p.row = func(row *job.Page) { row.Intent = job.Intent{Plan: p.last, Epoch: 1, Fence: 1, Deletes: 1} }
			w.runs[reports].pages = []*pageSpec{p}
		}},
		{name: "a report-only run deleted without an intent", id: "S8", also: "S3 E2", why: "nothing was committed, and it only would delete", before: func(w *world) {
			p := w.runs[reports].pages[0]
			p.effects = []Effect{{Bucket: "reports-bucket", Item: p.lines[0].Item, At: deletedAt}}
		}},
		{name: "a run that waits for approval deleted", id: "S9", after: func(f *Facts) { f.Runs[markers].State = job.AwaitingApproval }},
		{name: "more deletes than the scan recorded", id: "S9", also: "E5", why: "the row no longer adds up with its pages", after: func(f *Facts) {
			f.Runs[exports].Candidates = 1
		}},
		{name: "an intent above the page's candidates", id: "S9", before: func(w *world) {
			w.runs[exports].pages[plain].row = func(p *job.Page) { p.Candidates = 1 }
		}},
		{name: "an item in two pages", id: "S11", before: func(w *world) {
			again := settledPage("exports-bucket", "acme", line("exports/acme/a/2.csv", receipt.Delete, job.AlreadyAbsent, ""))
			again.after = "a/1.csv"
			w.runs[exports].pages = append(w.runs[exports].pages, again)
		}},
		{name: "a key in an event", id: "S17", after: func(f *Facts) {
			f.Events = append(f.Events, audit.Event{Event: audit.Retried, Region: region, MessageID: "exports/acme/a/1.csv"})
		}},
		{name: "a key in an attribute of a dead letter", id: "S17", after: func(f *Facts) { f.Letters[0].Policy = "exports: exports/globex/2.csv" }},
		{name: "a key in an acknowledged body", id: "S17", also: "S7 E1", why: "such a body is no command", after: func(f *Facts) {
			f.Acks = append(f.Acks, Ack{Body: []byte(`{"key":"exports/acme/a/1.csv"}`), At: deletedAt})
		}},
		{name: "a resume added an item", id: "S19", before: func(w *world) {
			p := w.runs[exports].pages[resumed]
			p.plans[0] = p.plans[0][:2]
		}},
		{name: "a split-off item that its parent did not plan", id: "S19", before: func(w *world) {
			p := w.runs[exports].pages[child]
			for _, l := range []*receipt.Line{&p.plans[0][0], &p.lines[0]} {
				l.ETag = "etag-of-another"
			}
		}},
	}
}

func plantedHolds() []planted {
	place := func(h hold.Hold) func(*world) {
		h.ID, h.Tenant, h.Scope, h.Value, h.Epoch = "planted", "globex", hold.Item, "exports/globex/1.csv", max(h.Epoch, 2)
		return func(w *world) { w.holds["globex"] = hold.Set{h} }
	}
	return []planted{
		{name: "held before the run opened", id: "S4", before: place(hold.Hold{PlacedAt: opened.Add(-time.Second)})},
		{name: "held, and known to the plan", id: "S4", before: func(w *world) {
			place(hold.Hold{PlacedAt: opened.Add(time.Second)})(w)
			w.runs[exports].pages[parent].epochs[0] = 2
		}},
		{name: "deleted after the quiet time", id: "S4", before: func(w *world) {
			place(hold.Hold{PlacedAt: opened.Add(time.Second)})(w)
			w.runs[exports].pages[parent].effects[0].At = opened.Add(time.Second + 17*time.Minute + 1)
		}},
		{name: "an intent that a released hold had ended", id: "S4", before: func(w *world) {
			place(hold.Hold{PlacedAt: opened.Add(time.Second), ReleasedAt: opened.Add(time.Minute)})(w)
			w.runs[exports].pages[parent].effects[0].At = opened.Add(time.Hour)
		}},
		{name: "an item that nothing planned, late", id: "S4", also: "S3 E2", why: "nothing planned it", before: func(w *world) {
			w.runs[exports].pages[plain].effects = append(w.runs[exports].pages[plain].effects,
				Effect{Bucket: "exports-bucket", Item: item("exports/acme/keep/9.csv"), At: deletedAt})
		}},
	}
}

func plantedEvidence() []planted {
	return []planted{
		{name: "acknowledged while the page waits for another attempt", id: "E1", before: func(w *world) {
			p := openPage()
			w.runs[exports].pages = append(w.runs[exports].pages, p)
			w.after = append(w.after, func(f *Facts) { f.Acks = append(f.Acks, Ack{Body: f.Waiting[0], At: deletedAt}) })
		}},
		{name: "completed without a receipt", id: "E1", also: "E6", why: "the receipt that is missing is part of the chain", after: func(f *Facts) {
			p := &f.Pages[0]
			p.State, p.Receipt = job.Completed, ""
			p.Counts, p.Bytes, p.Planned, f.Effects, p.Intent = job.Counts{}, 0, 0, f.Effects[2:], job.Intent{}
		}},
		{name: "a deletion called already absent", id: "E2", before: func(w *world) {
			p := w.runs[exports].pages[plain]
			p.lines[0].Outcome, p.lines[0].Proof = job.AlreadyAbsent, ""
		}},
		{name: "an answered deletion that never happened", id: "E2", before: func(w *world) {
			p := w.runs[exports].pages[plain]
			p.effects = p.effects[1:]
		}},
		{name: "a settled page forgot a deletion", id: "E2", also: "E5", why: "an item without outcome is missing in the sum", before: func(w *world) {
			p := w.runs[exports].pages[plain]
			p.lines[0].Outcome, p.lines[0].Proof = job.NoOutcome, ""
		}},
		{name: "deleted and still there", id: "E3", after: func(f *Facts) {
			there := f.Effects[0].Item
			f.Remains = func(_ string, ref job.Ref) (job.Item, bool) { return there, ref == there.Ref() }
		}},
		{name: "a version called deleted and still there", id: "E3", before: func(w *world) {
			p := versionsPage(w)
			w.after = append(w.after, func(f *Facts) {
				f.Remains = func(_ string, ref job.Ref) (job.Item, bool) { return p.effects[0].Item, ref == p.effects[0].Item.Ref() }
			})
		}},
		{name: "another version than the planned one", id: "S3", also: "E2", why: "no receipt knows it, and the answered one did not happen", before: func(w *world) {
			versionsPage(w).effects[0].Item.Version = "v8"
		}},
		{name: "a marker called a deletion", id: "E3", before: func(w *world) {
			w.runs[markers].pages[0].lines[0].Outcome = job.Deleted
			below := w.runs[markers].pages[0].effects[0].Item
			w.after = append(w.after, func(f *Facts) {
				f.Remains = func(_ string, ref job.Ref) (job.Item, bool) { return below, ref == below.Ref() }
			})
		}},
		{name: "a damaged document", id: "E4", after: func(f *Facts) {
			name := receipt.Name(receipt.Plan, f.Runs[0].ID, f.Pages[0].ID, strings.Repeat("0", 64))
			f.Evidence[name] = []byte("damaged")
		}},
		{name: "a document under a foreign name", id: "E4", after: func(f *Facts) { f.Evidence["exports/acme/a/1.csv"] = nil }},
		{name: "a document under another page's name", id: "E4", after: func(f *Facts) {
			p := f.Pages[0]
			data := f.Evidence[receipt.Name(receipt.Receipt, p.Run, p.ID, p.Receipt)]
			f.Evidence[receipt.Name(receipt.Receipt, p.Run, f.Pages[1].ID, p.Receipt)] = data
		}},
		{name: "a discarded page forgot an item", id: "E5", before: func(w *world) {
			p := abandonedPage()
			p.lines[1].Outcome = job.NoOutcome
			w.runs[exports].pages = append(w.runs[exports].pages, p)
		}},
		{name: "a discarded page moved an item that its receipt does not", id: "E5", before: func(w *world) {
			p := abandonedPage()
			p.row = func(p *job.Page) { p.Planned, p.Moved = p.Planned+1, 1 }
			w.runs[exports].pages = append(w.runs[exports].pages, p)
		}},
		{name: "what a page without a plan gave up is not counted", id: "E5", before: func(w *world) {
			w.runs[exports].pages = append(w.runs[exports].pages, &pageSpec{tenant: "umbrella", state: job.Discarded, row: func(p *job.Page) { p.Candidates = 3 }})
		}},
		{name: "discarded with an open intent and without a receipt", id: "E1", also: "E2 E5 E6", why: "nobody knows what the intent did", before: func(w *world) {
			p := abandonedPage()
			p.lines = nil
			p.row = func(p *job.Page) { p.Planned = 2 }
			w.runs[exports].pages = append(w.runs[exports].pages, p)
		}},
		{name: "a discarded page says failed of what it deleted", id: "E2", before: func(w *world) {
			p := abandonedPage()
			p.lines[0].Outcome, p.lines[0].Proof = job.Failed, ""
			w.runs[exports].pages = append(w.runs[exports].pages, p)
		}},
		{name: "the run's totals are not its pages'", id: "E5", after: func(f *Facts) { f.Runs[markers].Totals.Bytes++ }},
		{name: "the page's bytes are not its receipt's", id: "E5", after: func(f *Facts) { f.Pages[0].Bytes++ }},
		{name: "a page is missing", id: "E5", after: func(f *Facts) { f.Runs[exports].Pages++ }},
		{name: "a split-off page is missing", id: "E5", before: func(w *world) {
			w.runs[exports].pages = w.runs[exports].pages[:child]
		}},
		{name: "a receipt of another cutoff", id: "E6", before: func(w *world) {
			w.runs[exports].pages[plain].header = func(h *receipt.Header) { h.Cutoff = h.Cutoff.Add(-time.Second) }
		}},
		{name: "a receipt of another tenant", id: "E6", before: func(w *world) {
			w.runs[exports].pages[plain].header = func(h *receipt.Header) { h.Tenant = "globex" }
		}},
		{name: "the plan of a report is not there", id: "E6", after: func(f *Facts) {
			for name := range f.Evidence {
				if strings.HasPrefix(name, "plan/"+string(f.Runs[reports].ID)+"/") {
					delete(f.Evidence, name)
				}
			}
		}},
		{name: "a committed plan is not there", id: "E6", also: "S3", why: "nothing else names what it deleted", before: func(w *world) {
			w.after = append(w.after, func(f *Facts) {
				delete(f.Evidence, receipt.Name(receipt.Plan, f.Runs[exports].ID, f.Pages[plain].ID, f.Pages[plain].Intent.Plan))
			})
		}},
		{name: "the plan that a split-off item narrows is not there", id: "E6", before: func(w *world) {
			w.runs[exports].pages[parent].last = strings.Repeat("a", 64)
			w.runs[exports].pages[child].parent = &pageSpec{id: job.RangePageID("x", "y", "z"), last: strings.Repeat("a", 64)}
		}},
		{name: "a receipt that answers a plan no intent names", id: "E6", before: func(w *world) {
			w.after = append(w.after, func(f *Facts) {
				row := f.Pages[plain]
				data := f.Evidence[receipt.Name(receipt.Plan, row.Run, row.ID, row.Intent.Plan)]
				doc, _ := receipt.Decode(data)
				doc.Header.CodeVersion = "another attempt"
				hash, data, _ := doc.Encode()
				f.Evidence[receipt.Name(receipt.Plan, row.Run, row.ID, hash)] = data
				f.Pages[plain].Intent.Plan = hash
			})
		}},
		{name: "the intent is not its plan's", id: "E6", before: func(w *world) {
			w.runs[exports].pages[plain].row = func(p *job.Page) { p.Intent.Epoch++ }
		}},
		{name: "a receipt of other items than its plan's", id: "E6", before: func(w *world) {
			p := w.runs[exports].pages[plain]
			p.plans[0] = append(p.plans[0], planned([]receipt.Line{deleted("exports/acme/z/9.csv")})...)
			p.row = func(row *job.Page) { row.Planned = len(p.lines) }
		}},
		{name: "a page without its run", id: "E6", after: func(f *Facts) {
			page := f.Pages[0]
			page.Run = job.ScheduledRunID(region, "nobody", opened)
			f.Pages = append(f.Pages, page)
		}},
	}
}

func plantedLiveness() []planted {
	return []planted{
		{name: "the letter of a dead page is gone", id: "L1", before: func(w *world) { w.runs[exports].pages[child].letterless = true }},
		{name: "an open page without its message", id: "L1", also: "L2", why: "nothing waits, so nothing will move it", before: func(w *world) {
			p := openPage()
			p.waiting = false
			w.runs[exports].pages = append(w.runs[exports].pages, p)
		}},
		{name: "an unfinished scan that nobody resumes", id: "L2", before: func(w *world) { w.runs[waiting].state = job.Scanning }},
	}
}

// openPage waits for another attempt, after one that died right after its delete.
func openPage() *pageSpec {
	p := settledPage("exports-bucket", "umbrella", deleted("exports/umbrella/1.csv"))
	p.state, p.lines, p.waiting = job.Retrying, nil, true
	return p
}

// abandonedPage was given up after it had deleted one of its two items.
func abandonedPage() *pageSpec {
	p := settledPage("exports-bucket", "umbrella", line("exports/umbrella/1.csv", receipt.Delete, job.Deleted, job.Inferred),
		line("exports/umbrella/2.csv", receipt.Delete, job.Failed, ""))
	p.state, p.reason = job.Discarded, job.ReasonAttempts
	return p
}

// versionsPage adds a run that deletes by exact version, a delete marker among them.
func versionsPage(w *world) *pageSpec {
	p := testPolicy("versions", job.Enforce)
	p.Versions = policy.AllVersions
	lines := []receipt.Line{deleted("versions/acme/1"), deleted("versions/acme/1"), deleted("versions/acme/2")}
	for i := range lines {
		lines[i].Version = fmt.Sprintf("v%d", i)
	}
	lines[1].Marker, lines[1].Size, lines[1].ETag = true, 0, ""
	page := settledPage("versions-bucket", "acme", lines...)
	w.runs = append(w.runs, &runSpec{policy: p, state: job.Closed, pages: []*pageSpec{page}})
	return page
}

func TestEveryPlantedViolationFlipsItsInvariant(t *testing.T) {
	flipped := map[string]bool{}
	for _, p := range plantedViolations() {
		t.Run(p.id+" "+p.name, func(t *testing.T) {
			w := honest()
			if p.before != nil {
				p.before(w)
			}
			f := w.build(t)
			if p.after != nil {
				p.after(&f)
			}
			results := Check(f)
			want := strings.Fields(p.id + " " + p.also)
			slices.SortFunc(want, func(a, b string) int { return slices.Index(IDs(), a) - slices.Index(IDs(), b) })
			if got := violated(results); !slices.Equal(got, want) {
				t.Errorf("violated %v, want %v\n%s", got, want, details(results))
			}
			noKeys(t, f, results)
			if p.also == "" {
				flipped[p.id] = true
			}
		})
	}
	for _, id := range IDs() {
		if !flipped[id] {
			t.Errorf("%s: no planted violation flips it alone", id)
		}
	}
}

// noKeys checks that no detail quotes a key.
func noKeys(t *testing.T, f Facts, results []Result) {
	t.Helper()
	text := details(results)
	for _, e := range f.Effects {
		if strings.Contains(text, e.Item.Key) {
			t.Errorf("a detail quotes a key:\n%s", text)
		}
	}
	for name, data := range f.Evidence {
		doc, err := receipt.Verify(name, data)
		if err != nil {
			continue
		}
		for _, l := range doc.Lines {
			if strings.Contains(text, l.Key) {
				t.Errorf("a detail quotes a key:\n%s", text)
			}
		}
	}
}

// What looks like a violation and is none.
func TestHonestCornersHold(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(*world)
		after  func(*Facts)
	}{
		{name: "a delete that an open page has not settled", before: func(w *world) {
			w.runs[exports].pages = append(w.runs[exports].pages, openPage())
		}},
		{name: "a delete that a dead page could not settle", before: func(w *world) {
			p := settledPage("exports-bucket", "umbrella", deleted("exports/umbrella/1.csv"))
			p.state, p.reason = job.Dead, job.ReasonAttempts
			p.lines = []receipt.Line{line("exports/umbrella/1.csv", receipt.Delete, job.Failed, "")}
			w.runs[exports].pages = append(w.runs[exports].pages, p)
		}},
		{name: "a page that died before it was planned", before: func(w *world) {
			p := &pageSpec{tenant: "umbrella", state: job.Dead, reason: job.ReasonUnknownPolicy, row: func(p *job.Page) { p.Candidates = 3 }}
			w.runs[exports].pages = append(w.runs[exports].pages, p)
		}},
		{name: "a page that was given up with an open intent, F17", before: func(w *world) {
			w.runs[exports].pages = append(w.runs[exports].pages, abandonedPage())
		}},
		{name: "a page that was given up before it was planned", before: func(w *world) {
			p := &pageSpec{tenant: "umbrella", state: job.Discarded, reason: job.ReasonUnknownPolicy}
			p.row = func(p *job.Page) { p.Candidates, p.Counts[job.Failed] = 3, 3 }
			w.runs[exports].pages = append(w.runs[exports].pages, p)
		}},
		{name: "a hold placed and released before the plan", before: func(w *world) {
			w.holds["globex"] = hold.Set{{ID: "h", Tenant: "globex", Scope: hold.Tenant, Epoch: 1, PlacedAt: opened.Add(-time.Hour), ReleasedAt: opened}}
		}},
		{name: "a hold placed after the intent, and the delete in flight", before: func(w *world) {
			w.holds["globex"] = hold.Set{{ID: "h", Tenant: "globex", Scope: hold.Tenant, Epoch: 2, PlacedAt: deletedAt.Add(-time.Second)}}
		}},
		{name: "a hold placed while the delete was in flight, and a resume since that keeps what is answered", before: func(w *world) {
			w.holds["globex"] = hold.Set{{ID: "h", Tenant: "globex", Scope: hold.Tenant, Epoch: 2, PlacedAt: deletedAt.Add(-time.Second)}}
			p := w.runs[exports].pages[parent]
			p.plans, p.epochs = [][]receipt.Line{p.plans[0], p.plans[0]}, []int64{1, 2}
		}},
		{name: "deletes by exact version", before: func(w *world) { versionsPage(w) }},
		{name: "a hold placed after the delete", before: func(w *world) {
			w.holds["globex"] = hold.Set{{ID: "h", Tenant: "globex", Scope: hold.Tenant, Epoch: 2, PlacedAt: deletedAt.Add(time.Second)}}
		}},
		{name: "the same bytes uploaded again after the deletion", after: func(f *Facts) {
			again := f.Effects[0].Item
			again.Modified = deletedAt.Add(time.Minute)
			f.Remains = func(_ string, ref job.Ref) (job.Item, bool) { return again, ref == again.Ref() }
		}},
		{name: "a page parked under a brake, acknowledged, claimed again", before: func(w *world) {
			w.runs[exports].pages = append(w.runs[exports].pages, openPage())
			w.after = append(w.after, func(f *Facts) {
				f.Acks = append(f.Acks, Ack{MessageID: "message-parked", Body: f.Waiting[0], At: deletedAt})
				f.Events = append(f.Events, audit.Event{Event: audit.Parked, MessageID: "message-parked", Region: region})
			})
		}},
		{name: "a braked page has no message", before: func(w *world) {
			p := &pageSpec{tenant: "umbrella", state: job.Planned, row: func(p *job.Page) { p.Candidates = 3 }}
			w.runs[exports].pages = append(w.runs[exports].pages, p)
			w.after = append(w.after, func(f *Facts) { f.Brakes = []job.Brake{{Policy: "exports"}} })
		}},
		{name: "an early message of a run that waits", before: func(w *world) {
			w.after = append(w.after, func(f *Facts) {
				f.Acks = append(f.Acks, Ack{Body: job.NewCommand(f.Runs[waiting], f.Pages[len(f.Pages)-1]).Encode(), At: deletedAt})
			})
		}},
		{name: "a page without candidates is born completed", before: func(w *world) {
			w.runs[exports].pages = append(w.runs[exports].pages, &pageSpec{tenant: "umbrella", state: job.Completed})
		}},
		{name: "a message of another region became a letter", after: func(f *Facts) {
			body := []byte(strings.ReplaceAll(string(f.Acks[0].Body), region, "us-east-1"))
			f.Acks = append(f.Acks, Ack{Body: body, At: deletedAt})
			f.Letters = append(f.Letters, job.Letter{Body: body, Reason: job.ReasonWrongRegion, Region: "us-east-1"})
		}},
		{name: "two policies over the same prefix, one of them report-only", before: func(w *world) {
			w.runs[reports].policy.Bucket, w.runs[reports].policy.Keys = "exports-bucket", "exports/{tenant}/"
			w.runs[reports].pages = []*pageSpec{settledPage("exports-bucket", "globex", line("exports/globex/1.csv", receipt.Delete, job.WouldDelete, ""))}
		}},
		{name: "two runs over one object, and the second comes too late", before: func(w *world) {
			second := *w.runs[exports]
			second.policy = testPolicy("exports-too", job.Enforce)
			second.policy.Bucket, second.policy.Keys = "exports-bucket", "exports/{tenant}/"
			p := settledPage("exports-bucket", "globex", line("exports/globex/1.csv", receipt.Delete, job.AlreadyAbsent, ""))
			second.pages = []*pageSpec{p}
			w.runs = append(w.runs, &second)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := honest()
			if tt.before != nil {
				tt.before(w)
			}
			f := w.build(t)
			if tt.after != nil {
				tt.after(&f)
			}
			if results := Check(f); len(violated(results)) > 0 {
				t.Errorf("violated %v\n%s", violated(results), details(results))
			}
		})
	}
}
