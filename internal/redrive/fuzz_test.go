package redrive_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/redrive"
)

// FuzzRequest: whatever payload is handed over beside a plan that could be applied, no
// page moves and no letter goes unless it is a signed apply with exactly that plan's
// token, or gives up exactly what lies dead; what is refused is refused before anything
// is written (S15, R87-R91).
func FuzzRequest(f *testing.F) {
	const token = "eu-west-1/0123456789abcdef0123456789abcdef"
	for _, payload := range []string{
		`{}`, `{"op":"plan","tenant_id":"tenant-0000","limit":5}`, `{"op":"inspect","death":"forbidden"}`,
		`{"op":"apply","token":"` + token + `","by":"ana","reason":"the role is mended"}`,
		`{"op":"apply","token":"TOKEN","by":"ana","reason":"the role is mended","max":1,"rate":1}`,
		`{"op":"apply","token":"TOKEN"}`, `{"op":"apply","token":"TOKEN ","by":"ana","reason":"the role is mended"}`,
		`{"op":"apply","token":"TOKENTOKEN","by":"ana","reason":"the role is mended"}`, `{"op":"status","token":"TOKEN"}`,
		`{"op":"resume","redrive_id":"0123456789abcdef0123456789abcdef"}`, `{"op":"scheduled"}`,
		`{"op":"discard","message_ids":["1"],"by":"ana","reason":"nobody needs it"}`,
		`{"op":"brake","set":"on","by":"ana","reason":"something is wrong"}`, `{"op":"auto","set":"off","by":"ana","reason":"not needed"}`,
		`{"op":"approve","run_id":"0123456789abcdef0123456789abcdef"}`,
		`{"op":"approve-version","policy":"exports","policy_version":1,"run_id":"0123456789abcdef0123456789abcdef","by":"ana","reason":"looked at it"}`,
		`{"op":"drill","run_id":"0123456789abcdef0123456789abcdef","tenant_id":"a","page_id":"0123456789abcdef0123456789abcdef","by":"ana","reason":"rehearsal"}`,
	} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		r := newRegion(t)
		_, pages := r.dead("exports", 1)
		r.wait()
		plan := r.planned(redrive.PlanRequest{})
		payload = strings.ReplaceAll(payload, "TOKEN", plan.Token) // no chance would find it
		writes := &script{at: -1}
		var answer any
		var err error
		r.under(writes, func() { answer, err = r.Handle(t.Context(), r.deadline(), []byte(payload)) })
		if (answer == nil) == (err == nil) || err != nil && failure.Of(err) == failure.Bug {
			t.Fatalf("answered %v, %v", answer, err)
		}
		if failure.Is(err, failure.Invalid) && len(writes.writes) > 0 {
			t.Errorf("refused with %v after %q", err, writes.writes)
		}
		var q struct {
			Op, Token string
			By        string
		}
		_ = json.Unmarshal([]byte(payload), &q) // what does not read moves nothing
		left := r.page(pages[0]).State
		switch may := q.Op == redrive.OpApply && q.Token == plan.Token && q.By != "" && err == nil; {
		case may && left != job.Dead, left == job.Dead, q.Op == redrive.OpDiscard && err == nil:
		default:
			t.Errorf("%q made the page %s", payload, left)
		}
		if left == job.Dead && len(r.bodies(job.Enforce)) > 0 {
			t.Error("a dead page's message was sent")
		}
	})
}

// FuzzToken: what reads as a token is what a plan gives out, and a refusal quotes nothing.
func FuzzToken(f *testing.F) {
	for _, token := range []string{
		"", "/", "eu-west-1/0123456789abcdef0123456789abcdef", "eu-west-1/0123456789ABCDEF0123456789abcdef", "eu-west-1/0123456789abcdef",
		"eu-west-1//0123456789abcdef0123456789abcdef", "../0123456789abcdef0123456789abcdef", "eu-west-1/0123456789abcdef0123456789abcdef\n",
		strings.Repeat("a", 200) + "/0123456789abcdef0123456789abcdef",
	} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		region, id, err := job.ParseToken(token)
		if err != nil {
			if !failure.Is(err, failure.Invalid) || region != "" || id != "" || len(token) > 40 && strings.Contains(err.Error(), token) {
				t.Errorf("%q, %q, %v", region, id, err)
			}
			return
		}
		if again := (job.Redrive{Region: region, ID: id}).Token(); again != token {
			t.Errorf("%q reads as that of %q", token, again)
		}
	})
}
