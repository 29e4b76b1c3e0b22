package wiring_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/wiring"
)

func redriveSamples() map[string]sampleCase {
	return map[string]sampleCase{
		"redrive/inspect.json":   {before: beforeRedrive, after: afterLook},
		"redrive/plan.json":      {before: beforeRedrive, after: afterPlan},
		"redrive/apply.json":     {before: beforeRedrive, after: afterLook, refused: true},
		"redrive/resume.json":    {before: beforeResume, after: afterResume},
		"redrive/status.json":    {before: beforeResume, after: afterLook},
		"redrive/discard.json":   {before: beforeRedrive, after: afterDiscard},
		"redrive/brake.json":     {before: (*region).tick, after: afterBrake},
		"redrive/approve.json":   {before: beforeApprove, after: afterApprove},
		"redrive/scheduled.json": {before: beforeRedrive, after: afterLook},

		"redrive/approve-version.json": {before: beforeVersion, after: afterVersion},
	}
}

// deadAt is when the samples' dead page died.
var deadAt = ticked.Add(time.Minute)

// deadPage returns the page of school-42 as its row is.
func (r *region) deadPage() job.Page {
	r.t.Helper()
	pages := r.pages(tickRun())
	return pages[slices.IndexFunc(pages, func(p job.Page) bool { return p.Tenant == "school-42" })]
}

// beforeRedrive: the page of school-42 was refused a listing at its first attempt
// and is a dead letter, and somebody has left another one beside it.
func beforeRedrive(r *region) {
	r.t.Helper()
	r.tick()
	page, run := r.deadPage(), r.run(tickRun())
	page.Attempts, page.Fence = 1, 1
	dead, err := page.Die("", job.ReasonForbidden, failure.Forbidden, page.Settlement(), deadAt)
	must(r.t, err)
	must(r.t, r.ledger.SwapPage(r.t.Context(), dead))
	parts := r.load(r.env, func(*contract.Environment) []*string { return nil })
	must(r.t, parts.Queue.DeadLetter(r.t.Context(), job.Letter{
		Body: job.NewCommand(run, dead).Encode(), Reason: job.ReasonForbidden, RunID: run.ID, PageID: dead.ID, Policy: run.Policy,
		Version: run.Version, Region: run.Region, Attempts: 1, FirstAt: ticked, FailedAt: deadAt,
	}))
	lettered, err := dead.Lettered(deadAt)
	must(r.t, err)
	must(r.t, r.ledger.SwapPage(r.t.Context(), lettered))
	r.stray()
	r.purge()
}

// stray leaves a message among the dead letters that no queue of ours moved.
func (r *region) stray() {
	r.t.Helper()
	_, err := r.sqsc.SendMessage(r.t.Context(), &awssqs.SendMessageInput{QueueUrl: &r.env.LettersQueue, MessageBody: aws.String("left here by hand")})
	must(r.t, err)
}

// purge takes every message out of the pages queue.
func (r *region) purge() {
	r.t.Helper()
	for batch := r.receive(); len(batch) > 0; batch = r.receive() {
		r.settle(batch, []byte(`{"batchItemFailures":[]}`))
	}
}

// afterLook: nothing has changed, and every letter is still to be seen.
func afterLook(t *testing.T, r *region) {
	calls := r.count()
	for call := range calls {
		if strings.HasPrefix(call, "dynamodb Put") || strings.HasPrefix(call, "dynamodb Transact") || call == "sqs DeleteMessage" || strings.HasPrefix(call, "sqs Send") {
			t.Errorf("calls %v", calls)
		}
	}
	wantEqual(t, "pages", r.states(tickRun()), map[string]job.PageState{"acme-eu": job.Sent, "school-4": job.Completed, "school-42": job.Dead})
	if n := len(r.visible()); n != 2 {
		t.Errorf("%d letters are visible", n)
	}
}

// visible receives every dead letter that is visible, and returns the bodies.
func (r *region) visible() (bodies []string) {
	r.t.Helper()
	q, err := r.sqs.Queue(regionName, lettersName)
	must(r.t, err)
	for {
		got, err := q.Receive(r.t.Context(), 10, 0)
		must(r.t, err)
		if len(got) == 0 {
			return bodies
		}
		for _, m := range got {
			bodies = append(bodies, m.Body)
		}
	}
}

// afterPlan: one thing was written, the plan, and its token can be applied.
func afterPlan(t *testing.T, r *region) {
	calls := r.count()
	if calls["dynamodb TransactWriteItems"] != 1 || calls["dynamodb PutItem"] != 0 || calls["sqs DeleteMessage"] != 0 || calls["sqs SendMessageBatch"] != 0 {
		t.Errorf("calls %v", calls)
	}
	wantEqual(t, "pages", r.states(tickRun()), map[string]job.PageState{"acme-eu": job.Sent, "school-4": job.Completed, "school-42": job.Dead})
	var plan redrive.Plan
	must(t, json.Unmarshal(r.invoke(r.redrive, r.sample("redrive/plan.json")), &plan))
	did := r.apply(plan.Token)
	if did.Moved != 1 || did.Swept != 1 || !did.Done {
		t.Errorf("%+v", did)
	}
	afterResume(t, r)
}

func (r *region) apply(token string) (did redrive.Applied) {
	r.t.Helper()
	q := redrive.ApplyRequest{Op: redrive.OpApply, Token: token}
	q.By, q.Reason = "ana", "the role may list again"
	must(r.t, json.Unmarshal(r.invoke(r.redrive, marshal(r.t, q)), &did))
	return did
}

// beforeResume: a plan of the page was applied, and the process died before it had
// moved anything.
func beforeResume(r *region) {
	beforeRedrive(r)
	page := r.deadPage()
	pages := []job.RedrivePage{{Run: page.Run, Tenant: page.Tenant, ID: page.ID, Hash: hash(job.NewCommand(r.run(page.Run), page).Encode())}}
	planned := deadAt.Add(time.Hour)
	plan := job.NewRedrive(regionName, planned, planned.Add(10*time.Minute), "", pages)
	must(r.t, r.ledger.PutRedrive(r.t.Context(), plan, pages))
	applied, err := plan.Apply(planned.Add(time.Minute), "ana", "the role may list again")
	must(r.t, err)
	must(r.t, r.ledger.SwapRedrive(r.t.Context(), applied))
}

// afterResume: the page has moved, its letter is gone, the other is not, and a worker
// deletes what the page holds.
func afterResume(t *testing.T, r *region) {
	wantEqual(t, "pages", r.states(tickRun()), map[string]job.PageState{"acme-eu": job.Sent, "school-4": job.Completed, "school-42": job.Redriven})
	if got := r.visible(); !slices.Equal(got, []string{"left here by hand"}) {
		t.Errorf("letters %q", got)
	}
	r.drain()
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": 3})
}

// afterDiscard: the page is given up and its letter is gone; nothing was deleted.
func afterDiscard(t *testing.T, r *region) {
	wantEqual(t, "pages", r.states(tickRun()), map[string]job.PageState{"acme-eu": job.Sent, "school-4": job.Completed, "school-42": job.Discarded})
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"refused": 3})
	if got := r.visible(); !slices.Equal(got, []string{"left here by hand"}) {
		t.Errorf("letters %q", got)
	}
	r.wantObjects(t, everything()...)
}

// afterBrake: no page is taken any more.
func afterBrake(t *testing.T, r *region) {
	r.drain()
	wantEqual(t, "pages", r.states(tickRun()), map[string]job.PageState{"acme-eu": job.Planned, "school-4": job.Completed, "school-42": job.Planned})
	r.wantObjects(t, everything()...)
}

// beforeApprove: the run was stopped by the guard.
func beforeApprove(r *region) {
	r.tick()
	run := r.run(tickRun())
	run.State, run.ReleasedAt, run.Rev = job.AwaitingApproval, time.Time{}, run.Rev+1
	run.Trips = []string{"5 candidates are more than max_growth allows: 3 times 1, the median of the last 7 completed runs."}
	must(r.t, r.ledger.SwapRun(r.t.Context(), run))
}

// afterApprove: the run is released and its pages run.
func afterApprove(t *testing.T, r *region) {
	if run := r.run(tickRun()); run.State != job.Released || run.ApprovedBy == "" || run.Approval == "" {
		t.Errorf("%+v", run)
	}
	r.drain()
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": 4, "held": 1})
}

// beforeVersion: a version that keeps exports for half the time is deployed, and its
// first run, which only reports, is closed.
func beforeVersion(r *region) {
	r.publish("testdata/samples")
	file, err := os.ReadFile("testdata/samples/exports.yaml")
	must(r.t, err)
	text := strings.NewReplacer("version: 1", "version: 2", "retention_days: 30", "retention_days: 15").Replace(string(file))
	r.functions(fstest.MapFS{"exports.yaml": {Data: []byte(text)}})
	r.tick()
	run := r.run(tickRun())
	if run.Mode != job.ReportOnly || len(run.Ratchet) != 1 {
		r.t.Fatalf("%s: %q", run.Mode, run.Ratchet)
	}
	totals := job.Totals{Candidates: 5, Bytes: 2048}
	totals.Counts[job.WouldDelete], totals.Counts[job.Held] = 4, 1
	closed, err := run.Close(ticked.Add(time.Hour), totals, job.Seal{})
	must(r.t, err)
	must(r.t, r.ledger.SwapRun(r.t.Context(), closed))
}

// publish puts the versions of a folder on record, as their first tick does.
func (r *region) publish(folder string) {
	policies, err := policy.ReadFolder(os.DirFS(folder))
	must(r.t, err)
	for _, p := range policies {
		must(r.t, r.ledger.PublishPolicy(r.t.Context(), p))
	}
}

// afterVersion: the run of the next date deletes.
func afterVersion(t *testing.T, r *region) {
	r.invoke(r.enqueue, []byte(`{"policy":"exports","scheduled":"2026-03-10T01:30:00Z"}`))
	id := job.ScheduledRunID(regionName, "exports", ticked.AddDate(0, 0, 1))
	if run := r.run(id); run.Mode != job.Enforce || run.Version != 2 || len(run.Ratchet) != 0 {
		t.Errorf("%+v", run)
	}
	r.drain()
	wantEqual(t, "outcomes", r.outcomes(id), map[string]int{"deleted": 4, "held": 1})
}

// R95: the function alone is enough, asked by a tool or from the console. The whole way
// on the real adapters: what the store refused is dead; the process
// that moves it back dies between the row and the message, between the message and
// the letter; reconcile's call goes on, and a worker settles every item once.
func TestRedriveOnTheAdapters(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	r.tick()
	r.meet(func(call wire.Call) wire.Fate {
		if call.Operation == "DeleteObjects" {
			return wire.Fate{Error: &wire.Error{Status: http.StatusForbidden, Code: "AccessDenied"}}
		}
		return wire.Fate{}
	})
	r.drain()
	r.meet(nil)
	wantEqual(t, "pages", r.states(tickRun()), map[string]job.PageState{"acme-eu": job.Dead, "school-4": job.Completed, "school-42": job.Dead})
	r.stray()
	for _, p := range r.pages(tickRun()) {
		if p.State == job.Dead { // as if it had lain there for a day
			p.FirstFailure, p.Death.At, p.Death.LetterAt, p.Rev = deadAt, deadAt, deadAt, p.Rev+1
			must(t, r.ledger.SwapPage(t.Context(), p))
		}
	}

	var inspection redrive.Inspection
	must(t, json.Unmarshal(r.invoke(r.redrive, []byte(`{"op":"inspect"}`)), &inspection))
	if len(inspection.Pages) != 2 || len(inspection.Letters) != 1 || inspection.Letters[0].Standing != redrive.UnknownSource ||
		len(inspection.Pages[0].Copies) != 1 || inspection.Pages[0].OpenIntent == nil {
		t.Fatalf("%+v", inspection)
	}
	var plan redrive.Plan
	must(t, json.Unmarshal(r.invoke(r.redrive, []byte(`{}`)), &plan))
	if plan.Moves != 2 {
		t.Fatalf("%+v", plan)
	}

	refuse := func(operation string) { // from its first such call on, nothing of it arrives
		r.meet(func(call wire.Call) wire.Fate {
			if call.Operation == operation {
				return wire.Fate{Error: &wire.Error{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"}}
			}
			return wire.Fate{}
		})
	}
	refuse("SendMessageBatch")
	if did := r.apply(plan.Token); did.Moved != 0 || did.Remaining != 2 || did.Done || len(did.Stuck) != 2 {
		t.Errorf("%+v", did)
	}
	refuse("DeleteMessage")
	if did := r.apply(plan.Token); did.Moved != 2 || did.Remaining != 0 || did.Done || did.Swept != 0 {
		t.Errorf("%+v", did)
	}
	r.meet(nil)
	parts := r.load(r.env, func(*contract.Environment) []*string { return nil })
	goOn := func() job.Redrive {
		must(t, wiring.NewRedrives(parts.SDK, redriveName).Resume(t.Context(), time.Time{}, plan.RedriveID))
		must(t, <-r.wentOn)
		stored, err := r.ledger.Redrive(t.Context(), plan.RedriveID)
		must(t, err)
		return stored
	}
	if stored := goOn(); !stored.MovedAt.IsZero() { // the call before might have died with letters in hand
		t.Errorf("%+v", stored)
	}
	if got := r.visible(); !slices.Equal(got, []string{"left here by hand"}) {
		t.Errorf("letters %q", got)
	}
	r.drain()
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": 4, "held": 1})
	r.wantObjects(t, acme+"case-2291/2025-12.csv", young, school+"today.csv")
	for _, p := range r.pages(tickRun()) {
		if p.State != job.Completed || p.Candidates > 0 && p.Attempts != 2 {
			t.Errorf("%+v", p)
		}
		p.RestartedAt, p.Rev = deadAt, p.Rev+1 // as if it had been moved a day ago
		must(t, r.ledger.SwapPage(t.Context(), p))
	}
	if stored := goOn(); stored.MovedAt.IsZero() || stored.By != "ana" {
		t.Errorf("%+v", stored)
	}
	var st redrive.Status
	must(t, json.Unmarshal(r.invoke(r.redrive, marshal(t, redrive.StatusRequest{Op: redrive.OpStatus, Token: plan.Token})), &st))
	if st.Succeeded != 2 || st.State != "moved" || st.SuccessRatio != 1 {
		t.Errorf("%+v", st)
	}
	wantEqual(t, "letters in the log", map[string]bool{"a key": strings.Contains(r.log.take(), ".csv")}, map[string]bool{"a key": false})
}

// A redrive function that is not there is an error that names the plan.
func TestResumeOfARedriveThatIsNotThere(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	parts := r.load(r.env, func(*contract.Environment) []*string { return nil })
	err := wiring.NewRedrives(parts.SDK, "expunge-nothing").Resume(t.Context(), time.Time{}, "0123456789abcdef0123456789abcdef")
	if !failure.Is(err, failure.Network) || !strings.Contains(err.Error(), "0123456789abcdef0123456789abcdef") {
		t.Error(err)
	}
	calls := r.count()
	if !slices.Contains(slices.Collect(maps.Keys(calls)), "lambda Invoke") {
		t.Errorf("calls %v", calls)
	}
}

func hash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
