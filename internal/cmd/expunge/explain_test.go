package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	lambdago "github.com/aws/aws-lambda-go/lambda"

	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
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
	r := newRegion(t, time.Now().UTC())
	must(t, r.s3.Seed(bucketName, func(yield func(s3.Object) bool) {
		for _, key := range []string{acme + "1.csv", acme + "case/2.csv", school + "locked.csv", school + "1.csv"} {
			if !yield(s3.Object{Key: key, Body: []byte(key), Modified: old}) {
				return
			}
		}
		yield(s3.Object{Key: acme + "today.csv", Body: []byte("today")})
	}))
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

// deny lets nobody delete what begins with the prefix.
func (r *region) deny(prefix string) {
	r.t.Helper()
	s3c := awss3.NewFromConfig(r.sdk.Config, func(o *awss3.Options) { o.UsePathStyle = true })
	_, err := s3c.PutBucketPolicy(r.t.Context(), &awss3.PutBucketPolicyInput{Bucket: aws.String(bucketName), Policy: aws.String(fmt.Sprintf(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:DeleteObject","Resource":"arn:aws:s3:::%s/%s*"}]}`, bucketName, prefix))})
	must(r.t, err)
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
	for name, c := range map[string]struct{ key, failed, changed string }{
		"deleted":          {acme + "1.csv", "Nothing: the page is completed.", "It is deleted, proof answered"},
		"held":             {acme + "case/2.csv", "Nothing: the page is completed.", "It was left alone: held"},
		"refused":          {school + "locked.csv", "It could not be deleted: refused, denied.", "It is still there as far as is known."},
		"with a neighbour": {school + "1.csv", "was split off into a page of its own", "It is deleted"},
		"young":            {acme + "today.csv", "it was no candidate in the run of 2026-03-09T01:30:00Z", "Nothing."},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.explain(c.key)
			wantText(t, a.Failed, c.failed)
			wantText(t, a.Changed, c.changed)
			if len(a.Again) == 0 || a.Subject != "key" {
				t.Errorf("%+v", a)
			}
		})
	}
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
			wantText(t, a.Next, "expunge discard --message="+l.MessageID+" --reason=...")
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
	if s := r.ok("explain", acme+"1.csv"); !strings.Contains(s.out, "Brake on the whole region") {
		t.Error(s.out)
	}
}

func TestExplainGoldens(t *testing.T) {
	m := newMorning(t)
	golden(t, "explain-run", m.ok("explain", string(m.open.ID)).out)
	golden(t, "explain-waiting-run", m.ok("explain", string(m.waiting.ID)).out)
	golden(t, "explain-rejected-run", m.ok("explain", string(m.rejected.ID)).out)
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
