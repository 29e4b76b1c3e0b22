package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// allow takes the bucket's policy away again.
func (r *region) allow() {
	r.t.Helper()
	s3c := awss3.NewFromConfig(r.sdk.Config, func(o *awss3.Options) { o.UsePathStyle = true })
	_, err := s3c.DeleteBucketPolicy(r.t.Context(), &awss3.DeleteBucketPolicyInput{Bucket: aws.String(bucketName)})
	must(r.t, err)
}

// plan makes a redrive plan and returns its token.
func (r *region) plan(args ...string) string {
	r.t.Helper()
	var a struct {
		Plan struct {
			Token string
			Moves int
		}
	}
	r.json(&a, append([]string{"redrive", "plan"}, args...)...)
	if a.Plan.Token == "" || a.Plan.Moves == 0 {
		r.t.Fatalf("the plan moves nothing: %+v", a)
	}
	return a.Plan.Token
}

// The whole way of an operator: what lies dead, why, what may move, move it, and
// wait until it has ended.
func TestRedrive(t *testing.T) {
	r := worked(t)
	dead := r.ends(exitWrong, "something lies dead", "dlq")
	if !strings.Contains(dead.out, "forbidden") || !strings.Contains(dead.out, "next: expunge redrive plan\n") || strings.Contains(dead.out, ".csv") {
		t.Error(dead.out)
	}
	r.ends(exitWrong, "something lies dead", "redrive", "inspect", "--tenant=school-42", "--json")
	r.ok("dlq", "--tenant=acme-eu")

	shown := r.ok("redrive", "plan")
	token := r.plan()
	if !strings.Contains(shown.out, "1 page of 1 would move.") || !strings.Contains(shown.out, "next: expunge redrive apply eu-west-1/") {
		t.Error(shown.out)
	}
	r.ends(exitWrong, "nobody has applied this plan", "redrive", "status", token)
	r.ends(exitUsage, "--reason: reason is missing or not of its form", "redrive", "apply", token, "--reason=why")
	r.ends(exitWrong, "belongs to another region", "redrive", "apply", "us-east-1/"+strings.Repeat("0", 32), "--reason=the role was mended")

	r.allow()
	applied := r.ok("redrive", "apply", token, "--reason=the role was mended")
	if !strings.Contains(applied.err, "moved 1, 0 remain") || !strings.Contains(applied.out, "next: expunge redrive status ") {
		t.Errorf("%s%s", applied.out, applied.err)
	}
	r.ends(exitWaits, "not every moved page has ended", "redrive", "status", token)
	r.deliver()
	if a := r.explain(school + "locked.csv"); len(a.Key.Lines) != 1 || a.Key.Lines[0].Outcome != "deleted" {
		t.Errorf("%+v", a)
	}
	r.reconcile() // closes the plan
	if s := r.ok("redrive", "status", token, "--wait"); !strings.Contains(s.out, "100 % of what was moved") {
		t.Error(s.out)
	}
	r.ok("dlq")
}

// apply goes on until nothing remains, and says so after each call.
func TestApplyCallsUntilNothingRemains(t *testing.T) {
	r := newRegion(t, wallNow())
	for _, tenant := range []string{"a-1", "b-2", "c-3"} {
		r.put("exports/"+tenant+"/csv/1.csv", "exports/"+tenant+"/csv/2.csv")
	}
	r.deny("exports/")
	r.tick()
	r.deliver()
	token := r.plan()
	s := r.ok("redrive", "apply", token, "--reason=the role was mended", "--max=1")
	if want := "moved 1, 2 remain\nmoved 2, 1 remain\nmoved 3, 0 remain\n"; s.err != want {
		t.Errorf("%q, want %q", s.err, want)
	}
	// The same again is no second order.
	s = r.ok("redrive", "apply", token, "--reason=the role was mended")
	if !strings.Contains(s.out, "moved before") {
		t.Error(s.out)
	}
	if n := strings.Count(r.ok("orders").out, "redrive applied"); n != 1 {
		t.Errorf("%d orders", n)
	}
}

// What the queue does not take remains, is told, and is left to reconcile.
func TestApplyGivesUpOnWhatDoesNotMove(t *testing.T) {
	r := worked(t)
	token := r.plan()
	r.meet(func(c wire.Call) wire.Fate {
		if c.Operation != "SendMessageBatch" {
			return wire.Fate{}
		}
		return wire.Fate{Error: &wire.Error{Status: http.StatusForbidden, Code: "AccessDenied"}}
	})
	s := r.ends(exitWaits, "1 pages remain", "redrive", "apply", token, "--reason=the role was mended")
	if strings.Count(s.err, "moved 0, 1 remain") != idleCalls || r.now.slept != (idleCalls-1)*idleWait || !strings.Contains(s.out, "Not moved yet") {
		t.Errorf("slept %s\n%s%s", r.now.slept, s.out, s.err)
	}
}

// status --wait looks until the plan is closed, or until its time is over.
func TestStatusWaits(t *testing.T) {
	r := worked(t)
	token := r.plan()
	r.ok("redrive", "apply", token, "--reason=the role was mended")
	s := r.ends(exitWaits, "not every moved page has ended", "redrive", "status", token, "--wait", "--timeout=1m", "--every=20s")
	if n := strings.Count(s.err, "0 of 1 ended"); n != 3 || r.now.slept.String() != "1m0s" {
		t.Errorf("looked %d times in %s:\n%s", n, r.now.slept, s.err)
	}
	r.now.onSleep = func() { r.close(token) }
	s = r.ends(exitWrong, "1 page died again, 0 left", "redrive", "status", token, "--wait")
	if !strings.Contains(s.out, "next: expunge redrive plan") {
		t.Error(s.out)
	}
}

// close ends a plan as reconcile does, once its pages have ended.
func (r *region) close(token string) {
	r.t.Helper()
	_, id, err := job.ParseToken(token)
	must(r.t, err)
	plan, err := r.ledger.Redrive(r.t.Context(), id)
	must(r.t, err)
	must(r.t, r.ledger.SwapRedrive(r.t.Context(), plan.Close(wallNow(), 1, 0, 1)))
}

func TestNothingMayMove(t *testing.T) {
	r := worked(t)
	r.ok("brake", "on", "exports", "--reason=something is wrong")
	s := r.ends(exitWrong, "no dead page may move", "redrive", "plan")
	if !strings.Contains(s.out, "brake: ") || strings.Contains(s.out, "redrive apply") {
		t.Error(s.out)
	}
	r.ok("brake", "off", "exports", "--reason=it was mended")
	r.plan()
}

func TestAutoRedrive(t *testing.T) {
	r := newRegion(t, wallNow())
	if s := r.ok("redrive", "auto"); !strings.Contains(s.out, "is off") {
		t.Error(s.out)
	}
	// What stands there refuses it, and will again.
	r.ends(exitWrong, "look at what stands there now before you give another order", "redrive", "auto", "on", "--death=forbidden", "--cap=10", "--reason=we trust it")
	r.ends(exitWrong, "no drill that passed is on record", "redrive", "auto", "on", "--death=forbidden", "--cap=10", "--reason=we trust it")
	r.ok("redrive", "auto", "off", "--reason=we do not trust it")
}

func TestDiscard(t *testing.T) {
	r := worked(t)
	must(t, r.queue.DeadLetter(t.Context(), job.Letter{Body: []byte(`{}`), Reason: job.ReasonMalformed, Region: regionName}))
	var a struct {
		Inspection struct {
			Pages []struct {
				PageID string `json:"page_id"`
			}
			Letters []struct {
				MessageID string `json:"message_id"`
			}
		}
	}
	decode(t, r.ends(exitWrong, "something lies dead", "dlq", "--json").out, &a)
	if len(a.Inspection.Pages) != 1 || len(a.Inspection.Letters) != 1 {
		t.Fatalf("%+v", a)
	}
	page, letter := a.Inspection.Pages[0].PageID, a.Inspection.Letters[0].MessageID
	r.ends(exitUsage, "neither a page id", "discard", "everything", "--reason=it is over")
	r.ends(exitWrong, "no page "+strings.Repeat("0", 32), "discard", strings.Repeat("0", 32), "--reason=it is over")
	s := r.ok("discard", page, letter, "--reason=it is over")
	if !strings.Contains(s.out, "settling") || !strings.Contains(s.out, "discarded") {
		t.Error(s.out)
	}
	a2 := r.explain(page)
	wantText(t, a2.Failed, "An operator gave the page up")
	wantText(t, a2.Again, "it is discarded and nothing is deleted, with 1 refused")
	r.ends(exitWrong, "1 id could not be discarded", "discard", letter, "--reason=it is over")
}

func TestBrake(t *testing.T) {
	r := worked(t)
	for _, args := range [][]string{{"brake", "on"}, {"brake", "on", "exports", "--all"}, {"brake", "off", "exports@0"}, {"brake", "on", "@3"}, {"brake", "on", "exports@"}} {
		if s := r.expunge(append(args, "--reason=something is wrong")...); s.status != exitUsage {
			t.Errorf("%q: status %d\n%s", args, s.status, s.err)
		}
	}
	r.ends(exitWrong, "no such policy or version was ever published", "brake", "on", "exprots", "--reason=something is wrong")
	s := r.ok("brake", "on", "exports@1", "--reason=something is wrong")
	if !strings.Contains(s.out, "next: expunge brake off exports@1 --reason=...") || !strings.Contains(s.out, "arn:aws:iam::000000000000:user/operator") {
		t.Error(s.out)
	}
	if s := r.ok("brake", "list"); !strings.Contains(s.out, "Brake on exports@1 since") || !strings.Contains(s.out, "next: expunge brake off exports@1") {
		t.Error(s.out)
	}
	r.ends(exitWrong, "no brake on", "brake", "off", "--all", "--reason=it was mended")
	r.ok("brake", "off", "exports@1", "--reason=it was mended")
	if s := r.ok("brake", "list"); !strings.Contains(s.out, "No brake is in force.") {
		t.Error(s.out)
	}
	orders := r.ok("orders", "--since=1h").out
	for _, want := range []string{"brake set", "brake released", "something is wrong", "it was mended", "user/operator"} {
		if !strings.Contains(orders, want) {
			t.Errorf("the orders lack %q:\n%s", want, orders)
		}
	}
}

func TestApprove(t *testing.T) {
	m := newMorning(t)
	id := string(m.waiting.ID)
	m.ends(exitUsage, "go together", "approve", id, "--reason=it was looked at")
	m.ends(exitUsage, "32 hex digits", "approve", "digests")
	shown := m.ends(exitWaits, "waits for a decision", "approve", id)
	golden(t, "approve", shown.out)
	m.ends(exitWrong, "stands for another scan", "approve", id, "--fingerprint="+strings.Repeat("0", 32), "--reason=it was looked at")
	if s := m.ok("approve", id, "--fingerprint="+m.waiting.Fingerprint(), "--reason=it was looked at"); !strings.Contains(s.out, "Reconcile sends the pages") {
		t.Error(s.out)
	}
	m.ends(exitWrong, "does not wait for an approval", "reject", id)

	other := newMorning(t)
	if s := other.ok("reject", id, "--fingerprint="+other.waiting.Fingerprint(), "--reason=it was a mistake"); !strings.Contains(s.out, "has deleted nothing") {
		t.Error(s.out)
	}
}

func TestRequest(t *testing.T) {
	r := newRegion(t, wallNow())
	r.put(acme + "1.csv")
	args := []string{"request", "exports", "acme-eu", "--reason=ticket 4711"}
	var first, again struct {
		RunID     string `json:"run_id"`
		RequestID string `json:"request_id"`
		State     string
	}
	r.json(&first, args...)
	r.json(&again, args...) // its answer was lost
	if first.RunID == "" || first.RunID != again.RunID || first.State != "released" {
		t.Errorf("%+v, %+v", first, again)
	}
	r.json(&again, append(args, "--id=ticket-4711")...)
	if again.RequestID != "ticket-4711" || again.RunID == first.RunID {
		t.Errorf("%+v", again)
	}
	r.ends(exitUsage, "reason is missing or not of its form", "request", "exports", "acme-eu", "--reason=why")
	r.ends(exitUsage, "tenant is missing or not a tenant id", "request", "exports", "../x", "--reason=ticket 4711")
	r.ends(exitWrong, "", "request", "digests", "acme-eu", "--reason=ticket 4711")
	r.deliver()
	wantText(t, r.explain(acme+"1.csv").Changed, "It is deleted")
}

// What the store refused has its outcome: only what has none may be gone or still there.
func TestUnsureItems(t *testing.T) {
	d := redrive.DeadPage{Planned: 40, OpenIntent: &redrive.OpenIntent{Deletes: 40}, Outcomes: map[string]int{"refused": 30, "failed": 4}}
	if row := deadRow(d); row[len(row)-1] != "10" {
		t.Errorf("%q", row)
	}
	d.OpenIntent = nil
	if row := deadRow(d); row[len(row)-1] != "-" {
		t.Errorf("%q", row)
	}
}
