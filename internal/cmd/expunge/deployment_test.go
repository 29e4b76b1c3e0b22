package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	lambdago "github.com/aws/aws-lambda-go/lambda"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// A function's own words are told, and an end without any is no refusal: nobody
// knows how far it came.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		payload string
		class   failure.Class
		text    string
	}{
		"a refusal":          {`{"errorType":"Error","errorMessage":"apply redrive abc: conflict: the plan has expired: make a new one"}`, failure.Conflict, "apply redrive abc: conflict: the plan has expired: make a new one"},
		"a wrapped one":      {`{"errorType":"Error","errorMessage":"apply redrive: invalid: read token: conflict: no"}`, failure.Invalid, "apply redrive: invalid: read token: conflict: no"},
		"of no class":        {`{"errorType":"errorString","errorMessage":"something"}`, failure.Invalid, "ask function f: invalid: something"},
		"an overrun":         {`{"errorType":"","errorMessage":"2026-03-09T00:00:00Z 1-2 Task timed out after 60.00 seconds"}`, failure.Network, "it ended before it had answered"},
		"the process's end":  {`{"errorType":"Runtime.ExitError","errorMessage":"signal: killed"}`, failure.Network, "it ended before it had answered"},
		"nothing to be read": {`<html>`, failure.Network, "it failed without saying why"},
	} {
		err := refused("ask function f", []byte(c.payload))
		if !failure.Is(err, c.class) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An order whose answer is lost may have been carried out. The tool does not give it
// a second time by itself, and says that to give it again is safe.
func TestLostAnswerOfAnOrder(t *testing.T) {
	r := worked(t)
	r.meet(func(c wire.Call) wire.Fate {
		if c.Service != "lambda" {
			return wire.Fate{}
		}
		return wire.Fate{Lost: true}
	})
	r.ends(exitWrong, "say it again, which is safe", "brake", "on", "--all", "--reason=something is wrong")
	if n := r.lambda.Metrics(regionName, r.outputs.Redrive).Invocations; n != 1 {
		t.Errorf("the order was given %d times", n)
	}
	r.meet(nil)
	if s := r.ok("brake", "list"); !strings.Contains(s.out, "Brake on the whole region") {
		t.Error(s.out)
	}
	r.ok("brake", "on", "--all", "--reason=something is wrong")
}

func TestAnswersOfFunctions(t *testing.T) {
	r := newRegion(t, at)
	r.meet(refusing("lambda", "", http.StatusForbidden, "AccessDeniedException"))
	r.ends(exitWrong, "your credentials do not allow this here", "dlq")
	r.meet(refusing("sts", "", http.StatusForbidden, "AccessDenied"))
	r.ends(exitWrong, "ask AWS who you are: forbidden", "brake", "on", "--all", "--reason=something is wrong")
	r.meet(nil)
	r.outputs.Redrive = "expunge-gone"
	r.up()
	r.ends(exitWrong, "or the deployment is not there", "dlq")
	r.register("expunge-odd", lambdago.NewHandler(func(context.Context) (any, error) { return []int{1}, nil }))
	r.outputs.Redrive = "expunge-odd"
	r.up()
	r.ends(exitWrong, "the answer does not read: the function may be of another version than this tool", "dlq")
	r.register("expunge-broken", lambdago.NewHandler(func(context.Context) (json.RawMessage, error) { return nil, errors.New("broken") }))
	r.outputs.Redrive = "expunge-broken"
	r.up()
	r.ends(exitWrong, "broken", "dlq")
}

func TestOrders(t *testing.T) {
	r := newRegion(t, at)
	if s := r.ok("orders"); !strings.Contains(s.out, "No order since 2026-03-02T02:10:00Z.") {
		t.Error(s.out)
	}
	for i, e := range []audit.Entry{
		{Act: audit.BrakeSet, Policy: "exports", Version: 3, Reason: "a wrong retention was published"},
		{Act: audit.RedriveApplied, RedriveID: "0123456789abcdef0123456789abcdef", Count: 12, Override: "the policy is mended", Reason: "the role was mended"},
		{Act: audit.LetterDiscarded, MessageID: "a469b3ee-0f9f-1fc6-b472-a5bfc35ca274", Count: 1, Reason: "its sender was mended"},
		{Act: audit.RunApproved, Policy: "tickets", Version: 3, RunID: "c342169d5b3b2d608dc7044455f42a90", Count: 450, Reason: "the customer has left"},
		{Act: audit.AutoRedriveSet, Death: job.ReasonForbidden, Count: 5, Reason: "a drill has passed"},
		{Act: audit.HoldPlaced, TenantID: "acme-eu", HoldID: "case-17", Reason: "litigation 17"},
	} {
		e.At, e.Region, e.By = at.Add(time.Duration(i-48)*time.Hour), regionName, "arn:aws:sts::000000000000:assumed-role/on-call/ana"
		must(t, r.ledger.PutEntry(t.Context(), e))
	}
	golden(t, "orders", r.ok("orders").out)
	golden(t, "orders-json", r.ok("orders", "--json", "--limit=1").out)
	if s := r.ok("orders", "--since=2026-03-07T02:30:00Z", "--limit=1"); !strings.Contains(s.out, "next: expunge orders --since=2026-03-07T02:30:00Z --limit=10\n") {
		t.Error(s.out)
	}
	if s := r.ok("orders", "--since=1h"); !strings.Contains(s.out, "No order since") {
		t.Error(s.out)
	}
}

func TestAgo(t *testing.T) {
	for text, want := range map[string]string{
		"2026-03-08T02:30:00+01:00": "2026-03-08T01:30:00Z", "2026-03-08": "2026-03-08T00:00:00Z", "90m": "2026-03-09T00:40:00Z",
		"30d": "2026-02-07T02:10:00Z", "yesterday": "", "-3h": "", "d": "", "1.5d": "", "0s": "",
	} {
		got, ok := ago(text, at)
		if ok != (want != "") || ok && instant(got) != want {
			t.Errorf("%q is %s, %v", text, instant(got), ok)
		}
	}
}
