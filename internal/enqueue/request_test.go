package enqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

func ask(tenant string) Input {
	return Input{Policy: "exports", Tenant: tenant, RequestID: "ticket-1", Reason: "customer asked for it"}
}

// R5: a request is accepted and on record, for its tenant only, under the policy
// version that runs anyway.
func TestRequestEvaluatesOneTenant(t *testing.T) {
	p := parse(t)
	r := newRegion(t, p)
	r.put(31*day, "exports/school-4/1", "exports/school-42/1", "exports/school-4-b/1", "exports/school-4")
	r.put(29*day, "exports/school-4/young")
	run := r.start(ask("school-4"))
	wantPages(t, r.chain(run), brief{"school-4", "", "young", 2, 1})
	switch {
	case run.ID != job.RequestRunID("eu-west-1", "exports", "ticket-1"):
		t.Error("the run is not named after the request")
	case run.Version != 1 || run.PolicySHA256 != p.SHA256() || run.Mode != job.Enforce:
		t.Errorf("%+v", run)
	case run.Tenant != "school-4" || run.RequestID != "ticket-1" || run.Reason != "customer asked for it":
		t.Errorf("%+v", run)
	case run.State != job.Released || run.Unmatched != 0:
		t.Errorf("%+v", run)
	}
	r.messages(1)
}

func TestRequestGoesThroughTheGuard(t *testing.T) {
	r := newRegion(t, parse(t, "max_share: 1", "max_objects: 2"))
	r.put(31*day, keys("exports/a/", 3)...)
	if run := r.start(ask("a")); run.State != job.AwaitingApproval {
		t.Errorf("%s", run.State)
	}
	r.messages(0)
}

func TestSameRequestIsOneRun(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, "exports/a/1")
	first := r.start(ask("a"))
	r.clock.advance(3 * day)
	again := ask("a")
	again.Reason = "in other words"
	if second := r.start(again); second.ID != first.ID || second.Rev != first.Rev || !second.Cutoff.Equal(first.Cutoff) || second.Reason != first.Reason {
		t.Errorf("%+v", second)
	}
	r.onlyRun()
	r.messages(1)
}

// An answer that names another tenant's run would be taken for an acceptance.
func TestRequestIDOfAnotherTenantIsRefused(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, "exports/a/1", "exports/b/1")
	r.start(ask("a"))
	_, err := r.Start(t.Context(), r.deadline(), ask("b"))
	refused(t, err, failure.Invalid, "request_id", "another tenant")
	if run := r.onlyRun(); run.Tenant != "a" {
		t.Errorf("%+v", run)
	}
	r.messages(1)
}

func TestRequestAndTickAreApart(t *testing.T) {
	r := newRegion(t, parse(t))
	r.put(31*day, "exports/a/1")
	r.start(ask("a"))
	r.start(tick)
	if n := len(r.ledger.Runs()); n != 2 {
		t.Errorf("%d runs", n)
	}
}

func TestRequestForATenantThatIsNotThePolicys(t *testing.T) {
	pattern := []string{"keys: exports/{tenant}/", "keys: exports/{tenant}/\ntenant_pattern: school-[0-9]+"}
	fixed := []string{"keys: exports/{tenant}/", "keys: exports/acme/\ntenant: acme"}
	for _, c := range []struct {
		policy []string
		tenant string
		ok     bool
	}{
		{nil, "a", true},
		{nil, "..", false},
		{nil, "a/b", false},
		{nil, "", false},
		{nil, strings.Repeat("a", 129), false},
		{pattern, "school-42", true},
		{pattern, "school-42x", false},
		{pattern, "my-school-42", false},
		{fixed, "acme", true},
		{fixed, "acme2", false},
	} {
		r := newRegion(t, parse(t, c.policy...))
		r.put(31*day, "exports/a/1", "exports/acme/1", "exports/school-42/1", "exports/school-42x/1")
		_, err := r.Start(t.Context(), r.deadline(), ask(c.tenant))
		if c.ok {
			if err != nil {
				t.Errorf("%q: %v", c.tenant, err)
			}
			continue
		}
		refused(t, err, failure.Invalid, "tenant")
		r.noRun()
	}
}

// TestRequestNeverDeletesWhatTheNextScheduledRunWouldKeep walks instants around
// the changes of clocks, where days have 23, 25 or 23.5 hours.
func TestRequestNeverDeletesWhatTheNextScheduledRunWouldKeep(t *testing.T) {
	zones := []string{"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/Havana", "Asia/Kathmandu", "Africa/Cairo"}
	anchors := []time.Time{
		time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC),
		time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC), time.Date(2011, 12, 30, 10, 0, 0, 0, time.UTC),
		time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC),
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(rt, "retention")
		now := rapid.SampledFrom(anchors).Draw(rt, "anchor").
			Add(time.Duration(rapid.IntRange(0, 1).Draw(rt, "after")*n) * day).
			Add(time.Duration(rapid.IntRange(-3*86_400, 3*86_400).Draw(rt, "second")) * time.Second)
		every := rapid.SampledFrom([]string{"daily", "weekly, weekday: sunday", "weekly, weekday: monday"}).Draw(rt, "every")
		at := fmt.Sprintf("%02d:%02d", rapid.IntRange(0, 23).Draw(rt, "hour"), rapid.IntRange(0, 59).Draw(rt, "minute"))
		p := parse(t, "retention_days: 30", fmt.Sprintf("retention_days: %d", n), "every: daily", "every: "+every,
			`"02:30"`, `"`+at+`"`, "Europe/Berlin", rapid.SampledFrom(zones).Draw(rt, "zone"))
		r := newRegion(t, p)
		r.clock.at = now
		request := r.start(ask("a"))
		next := p.Schedule.Next(now)
		if !next.After(now) {
			rt.Fatalf("next is %v at %v", next, now)
		}
		r.clock.at = next
		scheduled := r.start(Input{Policy: "exports", Scheduled: next.Format(time.RFC3339)})
		if request.Cutoff.After(scheduled.Cutoff) || !p.Honours(now, request.Cutoff) || request.Cutoff.IsZero() {
			rt.Fatalf("a request at %v deletes before %v, the run at %v before %v", now, request.Cutoff, next, scheduled.Cutoff)
		}
		// And at any item: a candidate of the request is one of the run.
		for _, modified := range []time.Time{request.Cutoff.Add(-1), request.Cutoff, scheduled.Cutoff.Add(-1), scheduled.Cutoff} {
			item := job.Item{Key: "exports/a/x", ETag: "e", Modified: modified}
			asked := policy.Decide(policy.Facts{Policy: &p, Tenant: "a", Cutoff: request.Cutoff, Item: item})
			planned := policy.Decide(policy.Facts{Policy: &p, Tenant: "a", Cutoff: scheduled.Cutoff, Item: item})
			if asked.Delete && !planned.Delete {
				rt.Fatalf("modified %v", modified)
			}
		}
	})
}

const secret = "s3cr3t"

func TestDecodeAccepts(t *testing.T) {
	for _, c := range []struct {
		payload string
		want    Input
	}{
		{`{"policy":"exports","scheduled":"2026-03-09T12:00:00Z"}`, tick},
		{` {"scheduled":"2026-03-09T12:00:00Z", "policy":"exports"} `, tick},
		{`{"policy":"p","scheduled":"2026-03-09T12:00:00.123456789+05:45"}`, Input{Policy: "p", Scheduled: "2026-03-09T12:00:00.123456789+05:45"}},
		{`{"policy":"exports","tenant":"a","request_id":"ticket-1","reason":"customer asked for it"}`, ask("a")},
		{`{"policy":"p","tenant":"a","request_id":"r","reason":"12345"}`, Input{Policy: "p", Tenant: "a", RequestID: "r", Reason: "12345"}},
	} {
		if in, err := Decode([]byte(c.payload)); err != nil || in != c.want {
			t.Errorf("%s: %+v, %v", c.payload, in, err)
		}
	}
}

// Every refusal names the field and what is allowed, and quotes nothing.
func TestDecodeRefuses(t *testing.T) {
	request := func(tenant, id, reason string) string {
		return `{"policy":"` + secret + `","tenant":"` + tenant + `","request_id":"` + id + `","reason":"` + reason + `"}`
	}
	const form = "policy and scheduled, or policy, tenant, request_id and reason"
	cases := []struct{ payload, field, allowed string }{
		{``, form, "one JSON object"},
		{`null`, form, "one JSON object"},
		{`[]`, form, "one JSON object"},
		{`"s3cr3t"`, form, "one JSON object"},
		{`{"policy":"s3cr3t"`, form, "one JSON object"},
		{`{"policy":"s3cr3t","scheduled":"2026-03-09T12:00:00Z"} {}`, form, "one JSON object"},
		{`{"policy":"s3cr3t","scheduled":"2026-03-09T12:00:00Z","s3cr3t":"x"}`, form, "other fields"},
		{`{"Policy":"s3cr3t","scheduled":"2026-03-09T12:00:00Z"}`, form, "other fields"},
		{`{"policy":"s3cr3t","policy":"s3cr3t","scheduled":"2026-03-09T12:00:00Z"}`, form, "stands once"},
		{`{"policy":"s3cr3t","scheduled":"2026-03-09T12:00:00Z","cutoff":"2026-03-09T12:00:00Z"}`, form, "other fields"},
		{`{"policy":7,"scheduled":"2026-03-09T12:00:00Z"}`, form, "a string"},
		{`{"policy":null,"scheduled":"2026-03-09T12:00:00Z"}`, form, "not empty"},
		{`{"policy":"s3cr3t","scheduled":"2026-03-09T12:00:00Z","tenant":null}`, form, "not empty"},
		{`{"policy":"s3cr3t","scheduled":"2026-03-09T12:00:00Z","tenant":""}`, form, "not empty"},
		{`{"policy":"s3cr3t","scheduled":""}`, form, "not empty"},
		{"{\"policy\":\"s3cr3t\xff\",\"scheduled\":\"2026-03-09T12:00:00Z\"}", form, "one JSON object"},
		{`{"policy":"s3cr3t","scheduled":"2026-03-09T12:00:00Z"}` + strings.Repeat(" ", maxInputBytes), "payload", "4096 bytes"},

		{`{}`, "policy", "deployed policy"},
		{`{"scheduled":"2026-03-09T12:00:00Z"}`, "policy", "deployed policy"},
		{`{"policy":"s3cr3t"}`, "scheduled", "RFC 3339"},
		{`{"policy":"s3cr3t","scheduled":"<aws.scheduler.scheduled-time>"}`, "scheduled", "RFC 3339"},
		{`{"policy":"s3cr3t","scheduled":"s3cr3t"}`, "scheduled", "RFC 3339"},
		{`{"policy":"s3cr3t","scheduled":"2026-03-09T12:00:00Z","tenant":"s3cr3t"}`, "scheduled", "a request has tenant"},

		{request("", "r", "because"), form, "not empty"},
		{`{"policy":"s3cr3t","request_id":"r","reason":"because"}`, "tenant", "1 to 128"},
		{request("s3cr3t/../x", "r", "because"), "tenant", "1 to 128"},
		{request(strings.Repeat("x", 129), "r", "because"), "tenant", "1 to 128"},
		{`{"policy":"s3cr3t","tenant":"s3cr3t","reason":"because"}`, "request_id", "1 to 64"},
		{request("a", "s3cr3t id", "because"), "request_id", "1 to 64"},
		{request("a", strings.Repeat("x", 65), "because"), "request_id", "1 to 64"},
		{`{"policy":"s3cr3t","tenant":"s3cr3t","request_id":"r"}`, "reason", "5 to 200"},
		{request("a", "r", "1234"), "reason", "5 to 200"},
		{request("a", "r", strings.Repeat("x", 201)), "reason", "5 to 200"},
		{request("a", "r", "      "), "reason", "no blank"},
		{request("a", "r", " s3cr3t"), "reason", "no blank"},
		{request("a", "r", `s3cr3t\nx`), "reason", "control"},
	}
	for _, c := range cases {
		_, err := Decode([]byte(c.payload))
		if err == nil {
			t.Errorf("accepted %s", c.payload)
			continue
		}
		refused(t, err, failure.Invalid, c.field, c.allowed)
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "aws.scheduler") {
			t.Errorf("%q quotes the payload", err)
		}
	}
}

func TestReasonsBoundsAreCharacters(t *testing.T) {
	for reason, ok := range map[string]bool{
		strings.Repeat("x", 5): true, strings.Repeat("x", 200): true, strings.Repeat("\u00e9", 200): true,
		strings.Repeat("\u00e9", 201): false, "\u00e9\u00e9\u00e9\u00e9": false, "a \"quoted\" \u00e9": true,
	} {
		if validReason(reason) != ok {
			t.Errorf("%q: want %t", reason, ok)
		}
	}
}

// What Start refuses quotes nothing of the input either.
func TestStartQuotesNothing(t *testing.T) {
	r := newRegion(t, parse(t))
	for _, in := range []Input{
		{Policy: secret, Scheduled: tick.Scheduled}, {Policy: "exports", Scheduled: secret},
		{Policy: "exports", Tenant: secret + "/x", RequestID: secret, Reason: secret},
	} {
		if _, err := r.Start(t.Context(), r.deadline(), in); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	}
	r.noRun()
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"policy":"exports","scheduled":"2026-03-09T12:00:00Z"}`))
	f.Add([]byte(`{"policy":"exports","tenant":"a","request_id":"r","reason":"because"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		in, err := Decode(payload)
		if err != nil {
			if !failure.Is(err, failure.Invalid) || in != (Input{}) {
				t.Errorf("%+v, %v", in, err)
			}
			return
		}
		tickForm := in.Scheduled != "" && in.Tenant == "" && in.RequestID == "" && in.Reason == ""
		requestForm := in.Scheduled == "" && job.ValidTenant(in.Tenant) && in.RequestID != "" && len(in.Reason) >= minReason
		if in.Policy == "" || tickForm == requestForm {
			t.Errorf("%+v", in)
		}
	})
}
