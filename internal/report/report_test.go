package report

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
)

const region = "eu-central-1"

var asOf = time.Date(2026, 3, 9, 2, 30, 0, 0, time.FixedZone("CET", 3600))

func testRun(policy string, mode job.Mode, state job.RunState) job.Run {
	return job.Run{
		ID: job.ScheduledRunID(region, policy, asOf), Region: region, Policy: policy, Version: 3, PolicySHA256: strings.Repeat("ab", 32),
		Mode: mode, Scheduled: asOf, Cutoff: asOf.AddDate(0, 0, -30), State: state, Examined: 25_000, Unmatched: 12,
	}
}

func page(r job.Run, tenant, after string, state job.PageState, bytes int64, counts map[job.Outcome]int) job.Page {
	p := job.Page{ID: job.RangePageID(r.ID, tenant, after), Run: r.ID, Tenant: tenant, Kind: job.RangePage, After: after, State: state, Bytes: bytes}
	for o, n := range counts {
		p.Counts[o] = n
	}
	p.Planned, p.Candidates, p.Receipt = p.Counts.Sum(), p.Counts.Sum(), strings.Repeat("c", 64)
	return p
}

func letterFor(r job.Run, p job.Page, reason job.Reason, attempts int) job.Letter {
	return job.Letter{
		Body: job.NewCommand(r, p).Encode(), Reason: reason, RunID: r.ID, PageID: p.ID,
		Policy: r.Policy, Version: r.Version, Region: region, Attempts: attempts,
	}
}

func allHold() []invariant.Result {
	results := invariant.Check(invariant.Facts{})
	for i := range results {
		if i%5 != 4 {
			results[i].Checked, results[i].Detail = 1000*i+7, "1007 things"
		}
	}
	return results
}

// enforced is what the demo leaves: two policies, dead letters of many kinds.
func enforced() Input {
	uploads, digests := testRun("uploads", job.Enforce, job.Closed), testRun("digests", job.Enforce, job.Released)
	dead := page(digests, "digest-week", "", job.Dead, 0, map[job.Outcome]int{job.Refused: 1})
	unknown := page(digests, "digest-week", "b", job.Dead, 0, nil)
	unknown.Candidates, unknown.Planned = 40, 0
	in := Input{
		AsOf: asOf, Runs: []job.Run{uploads, digests}, Invariants: allHold(), RefusedNames: 2,
		Pages: []job.Page{
			page(uploads, "school-42", "", job.Completed, 900_000_000, map[job.Outcome]int{job.Deleted: 990, job.AlreadyAbsent: 10}),
			page(uploads, "school-42", "m", job.Completed, 1_500_000, map[job.Outcome]int{job.Deleted: 17_240}),
			page(uploads, "acme-eu", "", job.Completed, 6_000, map[job.Outcome]int{job.Deleted: 4_700, job.Held: 100}),
			page(digests, "digest-week", "a", job.Completed, 77, map[job.Outcome]int{job.Deleted: 498, job.Superseded: 1}),
			dead, unknown,
		},
		Letters: []job.Letter{
			letterFor(digests, dead, job.ReasonForbidden, 1), letterFor(digests, dead, job.ReasonForbidden, 1),
			letterFor(digests, unknown, job.ReasonUnknownPolicy, 0),
			{Body: []byte("{"), Reason: job.ReasonMalformed, Region: region}, {Body: []byte("{"), Reason: job.ReasonMalformed, Region: region},
			{Body: job.NewCommand(digests, unknown).Encode()},
		},
	}
	return in
}

func reported() Input {
	r := testRun("uploads", job.ReportOnly, job.Closed)
	r.Trips = []string{"18,240 candidates of 25,000 examined objects are a larger share than max_share allows: 50 %."}
	return Input{AsOf: asOf, Runs: []job.Run{r}, Invariants: allHold(), Pages: []job.Page{
		page(r, "school-42", "", job.Completed, 123_456_789, map[job.Outcome]int{job.WouldDelete: 1_000, job.Retained: 3}),
	}}
}

func awaiting() Input {
	r := testRun("uploads", job.Enforce, job.AwaitingApproval)
	r.Trips = []string{
		"18,240 candidates of 25,000 examined objects are a larger share than max_share allows: 50 %.",
		"18,240 candidates are more than max_growth allows: 3 times 1,000, the median of the last 7 completed runs, and this sentence goes on.",
	}
	p := page(r, "school-42", "", job.Planned, 0, nil)
	p.Candidates, p.Planned, p.Receipt = 18_240, 0, ""
	return Input{AsOf: asOf, Runs: []job.Run{r}, Invariants: allHold(), Pages: []job.Page{p}}
}

// hostile holds values that nobody should be able to write, more tenants than the
// table shows, every outcome at once, and violations.
func hostile() Input {
	in := Input{AsOf: asOf.Add(time.Nanosecond), Invariants: allHold()}
	r := testRun("uploads", job.Enforce, job.Rejected)
	r.Trips = []string{"a finding\x1b[31m with\r\ncontrol \u202e characters"}
	old := testRun(strings.Repeat("archive-", 6)[:47], job.Enforce, job.Released)
	old.Cutoff, old.Trips = old.Cutoff.Add(time.Microsecond), []string{"approved"}
	in.Runs = []job.Run{r, old}
	everything := map[job.Outcome]int{}
	for i, o := range job.Outcomes() {
		everything[o] = 1_000_000 + i
	}
	for i := range 60 {
		in.Pages = append(in.Pages, page(old, "tenant-"+strings.Repeat("x", 2*i), "", job.Completed, 1<<40+int64(i), everything))
	}
	evil := in.Pages[0]
	evil.ID, evil.Tenant = job.PageID(strings.Repeat("e", 32)), "evil\x1b]0;title\x07"
	in.Pages = append(in.Pages, evil)
	for range 13 {
		in.Letters = append(in.Letters, job.Letter{Reason: job.ReasonHashMismatch, RunID: "run\x1b[2J", PageID: "page\n"})
	}
	in.Letters = append(in.Letters, letterFor(old, evil, job.ReasonAttempts, 5))
	in.Invariants[3].Holds, in.Invariants[3].Detail = false, "2 wrong among 7 deletes: run "+strings.Repeat("a", 32)+" page "+strings.Repeat("b", 32)+" tenant acme: key#0123456789abcdef was deleted against hold h\x1b[0m; and 1 more"
	in.Invariants[12].Holds, in.Invariants[12].Detail = false, "1 wrong among 9 acknowledged messages: a message that is no command of a recorded page is gone"
	return in
}

func inputs() map[string]Input {
	return map[string]Input{"enforced": enforced(), "reported": reported(), "awaiting": awaiting(), "hostile": hostile(), "empty": {AsOf: asOf}}
}

func TestNumbersAddUp(t *testing.T) {
	r := Build(enforced())
	if r.Mode != job.Enforce || r.Verdict != Holds || r.Exit() != 0 {
		t.Errorf("mode %s, verdict %s, exit %d", r.Mode, r.Verdict, r.Exit())
	}
	if got, want := r.Totals.Candidates, 1000+17240+4800+499+1+40; got != want {
		t.Errorf("candidates %d, want %d", got, want)
	}
	for name, in := range inputs() {
		r := Build(in)
		var sum Totals
		for _, tenant := range r.Tenants {
			sum = sum.plus(tenant.Totals)
		}
		if sum != r.Totals {
			t.Errorf("%s: tenants add up to %+v, totals are %+v", name, sum, r.Totals)
		}
		outcomes, candidates := 0, 0
		for _, o := range job.Outcomes() {
			outcomes += r.Totals.Of(o)
		}
		for _, run := range r.Runs {
			candidates += run.Candidates
		}
		if candidates != r.Totals.Candidates || name != "awaiting" && outcomes != candidates {
			t.Errorf("%s: runs have %d candidates, totals %d, outcomes %d", name, candidates, r.Totals.Candidates, outcomes)
		}
	}
}

func TestReportOnlyReclaimsNothing(t *testing.T) {
	r := Build(reported())
	if r.Mode != job.ReportOnly || r.Totals.BytesReclaimed != 0 || r.Totals.BytesWouldReclaim != 123_456_789 {
		t.Errorf("mode %s, reclaimed %d, would reclaim %d", r.Mode, r.Totals.BytesReclaimed, r.Totals.BytesWouldReclaim)
	}
}

func TestARunThatWaitsHasCandidatesAndNoOutcome(t *testing.T) {
	r := Build(awaiting())
	if r.Mode != job.ReportOnly || r.Exit() != 3 || r.Totals != (Totals{Candidates: 18_240}) {
		t.Errorf("mode %s, exit %d, totals %+v", r.Mode, r.Exit(), r.Totals)
	}
}

func TestAViolationGoesBeforeWaiting(t *testing.T) {
	in := awaiting()
	in.Invariants[0].Holds = false
	if r := Build(in); r.Exit() != 1 || r.Verdict != Violated {
		t.Errorf("exit %d, verdict %s", r.Exit(), r.Verdict)
	}
}

func TestDeadLetters(t *testing.T) {
	r := Build(enforced())
	var got []string
	for _, d := range r.DeadLetters {
		got = append(got, string(d.Reason)+"/"+string(d.Class)+"/"+d.Tenant)
	}
	slices.Sort(got)
	want := []string{ // the copy of a page's letter is listed once
		"/quarantined/digest-week", "forbidden/redrivable/digest-week", "malformed/quarantined/", "malformed/quarantined/", "unknown_policy/quarantined/digest-week",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	for name, in := range inputs() {
		want, err := Build(in).JSON()
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(in.Runs)
		slices.Reverse(in.Pages)
		slices.Reverse(in.Letters)
		if got, _ := Build(in).JSON(); !bytes.Equal(got, want) {
			t.Errorf("%s: another order gives another document", name)
		}
	}
}

func TestEveryOutcomeHasItsCount(t *testing.T) {
	for _, o := range job.Outcomes() {
		var p job.Totals
		p.Counts[o] = 7
		var sum Totals
		sum.add(p, job.Enforce)
		if sum.Of(o) != 7 {
			t.Errorf("%s is not counted", o)
		}
		b, err := Report{Totals: sum}.JSON()
		if err != nil || !strings.Contains(string(b), `"`+o.String()+`": 7`) {
			t.Errorf("%s is not in the document (%v)", o, err)
		}
	}
	if (Totals{}).Of(job.NoOutcome) != 0 {
		t.Error("no outcome has a count")
	}
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	b, err := os.ReadFile("../../events/run.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("run.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("run.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// document returns the report as any reader of JSON sees it.
func document(t *testing.T, in Input) map[string]any {
	t.Helper()
	b, err := Build(in).JSON()
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return object(t, v)
}

func object(t *testing.T, v any) map[string]any {
	t.Helper()
	o, ok := v.(map[string]any)
	if !ok {
		t.Fatalf("%T is no object", v)
	}
	return o
}

func TestReportsAreOfTheSchema(t *testing.T) {
	s := schema(t)
	for name, in := range inputs() {
		if name == "hostile" {
			continue // its ids are none
		}
		if err := s.Validate(document(t, in)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema refuses what a reader could stumble over.
func TestTheSchemaRefusesSpoiledReports(t *testing.T) {
	s := schema(t)
	totals := func(doc map[string]any) map[string]any { return object(t, doc["totals"]) }
	at := func(doc map[string]any, list string) map[string]any {
		all, ok := doc[list].([]any)
		if !ok || len(all) == 0 {
			t.Fatalf("no %s", list)
		}
		return object(t, all[0])
	}
	for name, spoil := range map[string]func(map[string]any){
		"a count as text":               func(d map[string]any) { totals(d)["deleted"] = "7" },
		"a count with a fraction":       func(d map[string]any) { totals(d)["deleted"] = json.Number("7.5") },
		"a negative count":              func(d map[string]any) { at(d, "tenants")["held"] = json.Number("-1") },
		"a missing outcome":             func(d map[string]any) { delete(totals(d), "would_delete") },
		"a missing outcome of a tenant": func(d map[string]any) { delete(at(d, "tenants"), "refused") },
		"an unknown outcome":            func(d map[string]any) { totals(d)["erased"] = json.Number("1") },
		"an unknown field of a tenant":  func(d map[string]any) { at(d, "tenants")["email"] = "x" },
		"a tenant without a name":       func(d map[string]any) { delete(at(d, "tenants"), "tenant") },
		"no runs":                       func(d map[string]any) { delete(d, "runs") },
		"null runs":                     func(d map[string]any) { d["runs"] = nil },
		"null tenants":                  func(d map[string]any) { d["tenants"] = nil },
		"null dead letters":             func(d map[string]any) { d["dead_letters"] = nil },
		"null invariants":               func(d map[string]any) { d["invariants"] = nil },
		"a null guard":                  func(d map[string]any) { at(d, "runs")["guard"] = nil },
		"a time with an offset":         func(d map[string]any) { d["as_of"] = "2026-03-09T02:30:00+01:00" },
		"a day that there is not":       func(d map[string]any) { d["as_of"] = "2026-02-30T02:30:00Z" },
		"an unknown state":              func(d map[string]any) { at(d, "runs")["state"] = "done" },
		"an unknown verdict":            func(d map[string]any) { d["verdict"] = "ok" },
		"an unknown mode":               func(d map[string]any) { d["mode"] = "dry-run" },
		"an unknown reason":             func(d map[string]any) { at(d, "dead_letters")["reason"] = "bad luck" },
		"an unknown class":              func(d map[string]any) { at(d, "dead_letters")["class"] = "lost" },
		"a letter with a key":           func(d map[string]any) { at(d, "dead_letters")["key"] = "exports/acme/1" },
		"another schema":                func(d map[string]any) { d["schema"] = json.Number("2") },
		"an unknown field":              func(d map[string]any) { d["note"] = "" },
		"an invariant without detail":   func(d map[string]any) { delete(at(d, "invariants"), "detail") },
		"holds as text":                 func(d map[string]any) { at(d, "invariants")["holds"] = "yes" },
	} {
		doc := document(t, enforced())
		spoil(doc)
		if s.Validate(doc) == nil {
			t.Errorf("%s: the schema takes it", name)
		}
	}
}

func TestTheSchemaKnowsEveryWord(t *testing.T) {
	s := schema(t)
	for _, reason := range job.Reasons() {
		in := enforced()
		in.Letters = append(in.Letters, job.Letter{Reason: reason})
		if err := s.Validate(document(t, in)); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
	for _, state := range []job.RunState{job.Scanning, job.AwaitingApproval, job.Released, job.Closed, job.Rejected} {
		in := enforced()
		in.Runs[0].State = state
		if err := s.Validate(document(t, in)); err != nil {
			t.Errorf("%s: %v", state, err)
		}
	}
}
