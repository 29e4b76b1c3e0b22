package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	lambdago "github.com/aws/aws-lambda-go/lambda"

	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

var (
	ticked = time.Date(2026, 3, 9, 1, 30, 0, 0, time.UTC)
	old    = time.Date(2026, 1, 10, 4, 0, 0, 0, time.UTC)
)

const (
	acme   = "exports/acme-eu/csv/"
	school = "exports/school-42/csv/"
)

// worked is a region in which a run has met everything once: a delete, a hold, a
// refusal, and an object that is too young.
func worked(t *testing.T) *region {
	t.Helper()
	r := newRegion(t, wallNow())
	r.put(acme+"1.csv", acme+"case/2.csv", school+"1.csv", school+"locked.csv")
	must(t, r.s3.Seed(bucketName, slices.Values([]s3.Object{{Key: acme + "today.csv", Body: []byte("today")}})))
	_, err := r.ledger.PlaceHold(t.Context(), hold.Hold{
		ID: "case-1", Tenant: "acme-eu", Scope: hold.Prefix, Value: acme + "case/", Reason: "litigation", By: "counsel", PlacedAt: old,
	})
	must(t, err)
	r.deny(school + "locked")
	r.tick()
	r.deliver()
	r.reconcile() // sends what was split off
	r.deliver()
	return r
}

// put puts expired objects.
func (r *region) put(keys ...string) {
	r.t.Helper()
	must(r.t, r.s3.Seed(bucketName, func(yield func(s3.Object) bool) {
		for _, key := range keys {
			if !yield(s3.Object{Key: key, Body: []byte(key), Modified: old}) {
				return
			}
		}
	}))
}

// deny lets nobody delete what begins with the prefix.
func (r *region) deny(prefix string) {
	r.t.Helper()
	s3c := awss3.NewFromConfig(r.sdk.Config, func(o *awss3.Options) { o.UsePathStyle = true })
	_, err := s3c.PutBucketPolicy(r.t.Context(), &awss3.PutBucketPolicyInput{Bucket: aws.String(bucketName), Policy: aws.String(fmt.Sprintf(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:DeleteObject","Resource":"arn:aws:s3:::%s/%s*"}]}`, bucketName, prefix))})
	must(r.t, err)
}

// lose lets every call of an operation happen without an answer.
func (r *region) lose(operation string) {
	r.meet(func(c wire.Call) wire.Fate {
		if c.Operation != operation {
			return wire.Fate{}
		}
		return wire.Fate{Error: &wire.Error{Status: http.StatusInternalServerError, Code: "InternalError"}}
	})
}

// tick fires the schedule of exports.
func (r *region) tick() {
	r.t.Helper()
	r.invoke(lambdago.NewHandler(r.enqueue), []byte(`{"policy":"exports","scheduled":"2026-03-09T01:30:00Z"}`))
}

func tickRun() job.RunID { return job.ScheduledRunID(regionName, "exports", ticked) }

// answers are what a machine reads of an explanation.
type answers struct {
	Subject string   `json:"subject"`
	Next    []string `json:"next"`
	Failed  []string `json:"what_failed"`
	Changed []string `json:"what_changed"`
	Again   []string `json:"what_happens_if_it_runs_again"`
	Page    struct {
		PageID string `json:"page_id"`
		State  string `json:"state"`
	} `json:"page"`
	Key struct {
		Tenant string `json:"tenant_id"`
		HoldID string `json:"hold_id"`
		Lines  []struct{ Outcome, Proof, Decision string }
	} `json:"key"`
	Items []struct{ Key, Outcome string }
	Dead  []struct {
		PageID string `json:"page_id"`
	} `json:"dead_pages"`
}

func (r *region) explain(args ...string) answers {
	r.t.Helper()
	var a answers
	r.json(&a, append([]string{"explain"}, args...)...)
	return a
}

func wantText(t *testing.T, sentences []string, want string) {
	t.Helper()
	if !strings.Contains(strings.Join(sentences, "\n"), want) {
		t.Errorf("%q lacks %q", sentences, want)
	}
}

// R94: what failed, what has already changed, what happens if it runs again; of an
// object, through whatever page it came.
func TestR94ExplainKey(t *testing.T) {
	r := worked(t)
	for name, c := range map[string]struct{ key, failed, changed, again string }{
		"deleted":          {acme + "1.csv", "Nothing: the page is completed.", "It is deleted, proof answered", "nothing happens, because it is completed already"},
		"held":             {acme + "case/2.csv", "Nothing: the page is completed.", "It was left alone: held", "Hold case-1 covers it now"},
		"refused":          {school + "locked.csv", "It could not be deleted: refused, denied.", "It is still there as far as is known.", "The object would be: refused."},
		"with a neighbour": {school + "1.csv", "was split off into a page of its own", "It is deleted", "nothing happens"},
		"young":            {acme + "today.csv", "it was no candidate in the run of 2026-03-09T01:30:00Z", "Nothing.", "The next run of exports takes it when it is old enough by then."},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.explain(c.key)
			wantText(t, a.Failed, c.failed)
			wantText(t, a.Changed, c.changed)
			wantText(t, a.Again, c.again)
			if a.Subject != "key" {
				t.Errorf("%+v", a)
			}
		})
	}
	// What would happen once the role has its permission is another question.
	wantText(t, r.explain(school+"locked.csv", "--repaired").Again, "The object would be: deleted.")
	if a := r.explain(acme + "case/2.csv"); a.Key.HoldID != "case-1" || a.Key.Tenant != "acme-eu" || a.Key.Lines[0].Outcome != "held" {
		t.Errorf("%+v", a)
	}
	r.ends(exitWrong, "it is nobody's", "explain", "exports/acme-eu/audit/1.csv")
	r.ends(exitWrong, "it is nobody's", "explain", acme+"1.csv", "--bucket=other")
	r.ends(exitWrong, "no policy digests", "explain", acme+"1.csv", "--policy=digests")
	r.ends(exitUsage, "no id and no key", "explain", "1.csv")
}

func TestR94ExplainRunAndPage(t *testing.T) {
	r := worked(t)
	run := r.explain(string(tickRun()))
	if run.Subject != "run" || len(run.Dead) != 1 {
		t.Fatalf("%+v", run)
	}
	wantText(t, run.Failed, "1 page died of forbidden (redrivable): give the worker's role the permission")
	wantText(t, run.Changed, "Of 4 candidates: 2 deleted, 1 held, 1 refused")
	wantText(t, run.Next, "expunge explain "+run.Dead[0].PageID)
	page := r.explain(run.Dead[0].PageID)
	if page.Subject != "page" || page.Page.State != "dead" || page.Items != nil {
		t.Errorf("%+v", page)
	}
	wantText(t, page.Failed, "It is dead since")
	wantText(t, page.Again, "If this page is redriven and delivered now: ")
	wantText(t, page.Again, "it becomes a dead letter: forbidden, with 1 refused")
	wantText(t, r.explain(run.Dead[0].PageID, "--repaired").Again, "it completes, with 1 deleted")
	wantText(t, page.Next, "expunge redrive plan --page="+run.Dead[0].PageID)
	withKeys := r.explain(run.Dead[0].PageID, "--keys")
	if len(withKeys.Items) != 1 || withKeys.Items[0].Key != school+"locked.csv" || withKeys.Items[0].Outcome != "refused" {
		t.Errorf("%+v", withKeys.Items)
	}
	r.ends(exitWrong, "neither a run nor a page has this id in eu-west-1", "explain", strings.Repeat("0", 32))
}

// No key is shown to who did not ask by key or for keys.
func TestKeysAreShownOnRequest(t *testing.T) {
	r := worked(t)
	run := r.explain(string(tickRun()))
	for _, args := range [][]string{{"runs"}, {"explain", string(tickRun())}, {"explain", run.Dead[0].PageID}, {"orders"}} {
		for _, form := range [][]string{nil, {"--json"}} {
			if s := r.ok(append(args, form...)...); strings.Contains(s.out, ".csv") {
				t.Errorf("%q shows a key:\n%s", args, s.out)
			}
		}
	}
}

func TestExplainMessage(t *testing.T) {
	r := worked(t)
	must(t, r.queue.DeadLetter(t.Context(), job.Letter{Body: []byte(`{"delete":"everything"}`), Reason: job.ReasonMalformed, Region: regionName}))
	letters, err := r.queue.Peek(t.Context(), 10)
	must(t, err)
	if len(letters) != 2 {
		t.Fatalf("%d letters", len(letters))
	}
	for _, l := range letters {
		a := r.explain(l.MessageID)
		if a.Subject != "message" {
			t.Errorf("%+v", a)
		}
		if l.Letter.Reason == job.ReasonMalformed {
			wantText(t, a.Failed, "malformed (quarantined)")
			wantText(t, a.Failed, "Its body is no command that this tool can read: schema is missing")
			wantText(t, a.Changed, "Nothing")
			wantText(t, a.Next, "expunge discard "+l.MessageID+" --reason=...")
			continue
		}
		wantText(t, a.Failed, "forbidden (redrivable)")
		wantText(t, a.Next, "expunge redrive plan --page="+a.Page.PageID)
	}
	r.ends(exitWrong, "no dead letter has this message id, of the 2 letters that can be seen", "explain", "1c9b7e02-64d8-4f7a-8a55-0f3de1b8c6a3")
}

// An explanation only reads: under a brake it says so, and goes on.
func TestExplainUnderABrake(t *testing.T) {
	r := worked(t)
	must(t, r.ledger.SetBrake(t.Context(), job.Brake{Reason: "something is wrong", By: "ana", At: old}))
	a := r.explain(string(tickRun()))
	wantText(t, a.Again, "A brake is on")
	dead := r.explain(school+"locked.csv", "--repaired")
	wantText(t, dead.Again, "A brake is on, and nothing of the run starts before it is released.")
	wantText(t, dead.Again, "it completes, with 1 deleted")
	if s := r.ok("explain", acme+"1.csv"); !strings.Contains(s.out, "Brake on the whole region") {
		t.Error(s.out)
	}
}

func TestExplainGoldens(t *testing.T) {
	m := newMorning(t)
	golden(t, "explain-run", m.ok("explain", string(m.open.ID)).out)
	golden(t, "explain-waiting-run", m.ok("explain", string(m.waiting.ID)).out)
	must(t, m.s3.Seed(bucketName, slices.Values([]s3.Object{{Key: acme + "deadfish.csv", Body: []byte("old"), Modified: old}})))
	golden(t, "explain-page", m.ok("explain", string(m.pages["dead"].ID)).out)
	golden(t, "explain-page-json", m.ok("explain", string(m.pages["dead"].ID), "--json", "--keys").out)
	golden(t, "explain-leased-page", m.ok("explain", string(m.pages["leased"].ID)).out)
	golden(t, "explain-retrying-page", m.ok("explain", string(m.pages["retrying"].ID)).out)
	golden(t, "explain-rejected-run", m.ok("explain", string(m.rejected.ID)).out)
}

// An explanation that could not look at the bucket answers what it can, and says so.
func TestExplainWithoutTheBucket(t *testing.T) {
	r := worked(t)
	r.meet(refusing("s3", bucketName, http.StatusForbidden, "AccessDenied"))
	s := r.ends(exitWrong, "what happens if it runs again is not known", "explain", school+"locked.csv")
	for _, want := range []string{"It could not be deleted", "It is still there", "That is not known: "} {
		if !strings.Contains(s.out, want) {
			t.Errorf("%q is missing:\n%s", want, s.out)
		}
	}
}

// What is not there is said, and where it was looked for; what can not be read is
// no answer.
func TestExplainWithoutEvidence(t *testing.T) {
	r := worked(t)
	r.meet(refusing("s3", "receipt/", http.StatusForbidden, "AccessDenied"))
	s := r.ends(exitWrong, "get evidence: forbidden", "explain", acme+"1.csv")
	if !strings.Contains(s.err, "next: aws sts get-caller-identity") {
		t.Error(s.err)
	}
}

// A key under the templates of two policies is asked about by policy.
func TestExplainKeyOfTwoPolicies(t *testing.T) {
	r := worked(t)
	other, err := policy.Parse("archive.yaml", []byte(strings.Replace(exportsPolicy, "name: exports", "name: archive", 1)))
	must(t, err)
	must(t, r.ledger.PublishPolicy(t.Context(), other))
	s := r.ends(exitUsage, "several policies work on such a key: archive (bucket acme-exports), exports (bucket acme-exports)", "explain", acme+"1.csv")
	if !strings.Contains(s.err, "next: expunge explain "+acme+"1.csv --policy=exports\n") {
		t.Error(s.err)
	}
	wantText(t, r.explain(acme+"1.csv", "--policy=exports").Changed, "It is deleted")
	wantText(t, r.explain(acme+"1.csv", "--policy=archive").Failed, "no run of archive has had a page of tenant acme-eu yet")
}

// R93: what an attempt without an answer may have changed is told as not known.
func TestR93OpenDecision(t *testing.T) {
	r := newRegion(t, wallNow())
	r.put(acme + "1.csv")
	r.tick()
	r.lose("DeleteObjects")
	r.deliver()
	a := r.explain(acme + "1.csv")
	wantText(t, a.Changed, "It is to be deleted and has no outcome yet: it may be gone or still there.")
	wantText(t, a.Changed, "A decision to delete is open (claim 1): 1 item may be gone or still there. A request that was sent can land until ")
	wantText(t, a.Again, "The object would be: deleted.")
}

// Who interrupts an order is told that it may have been carried out.
func TestInterrupted(t *testing.T) {
	r := newRegion(t, at)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, errs bytes.Buffer
	status := Main(ctx, Process{Args: []string{"brake", "on", "--all", "--reason=something is wrong"}, Dir: r.dir, Clock: r.now, Out: &out, Err: &errs, Env: func(string) string { return "" }})
	if status != exitWrong || !strings.Contains(errs.String(), "may have been carried out: look before you give it again") {
		t.Errorf("status %d: %s", status, errs.String())
	}
}

// A worker that dies at every delete leaves no class of failure behind. The run says so
// all the same, which page it is, and that what was decided may have happened (R94).
func TestR94ExplainACrashLoop(t *testing.T) {
	m := newMorning(t)
	p := m.pages["young"]
	for _, before := range []time.Duration{20 * time.Minute, 15 * time.Minute} {
		next, err := p.Claim("owner", at.Add(-before), at.Add(-before+time.Minute), at)
		p = m.move(next, err)
		next, err = p.Intend("plan", 0, 40, 40, time.Minute)
		p = m.move(next, err)
	}
	a := m.explain(string(m.open.ID))
	wantText(t, a.Failed, "A worker ended without a word at 1 page, after up to 2 attempts.")
	wantText(t, a.Changed, "40 items may be gone or still there")
	wantText(t, a.Next, "expunge explain "+string(p.ID))
	wantText(t, a.Next, "expunge brake on exports")
	page := m.explain(string(p.ID))
	wantText(t, page.Failed, "The worker that had it ended without a word")
	wantText(t, page.Failed, "Before, 1 attempt ended without a word.")

	next, err := p.Die("owner", job.ReasonAttempts, "", job.Settled{}, at)
	p = m.move(next, err)
	page = m.explain(string(p.ID))
	wantText(t, page.Failed, "after 2 attempts of which none said why it failed: attempts_exhausted (redrivable). What to do: see in the worker's log")
	if dead := strings.Join(page.Failed, ""); strings.Contains(dead, "last failure") {
		t.Error(dead)
	}
}
