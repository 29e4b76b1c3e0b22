package main

import (
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/job"
)

func TestHold(t *testing.T) {
	r := newRegion(t, wallNow())
	r.put(acme+"1.csv", acme+"case/2.csv", school+"1.csv")
	s := r.ok("hold", "place", "acme-eu", "--prefix="+acme+"case/", "--reason=litigation 17", "--id=case-17")
	for _, want := range []string{"HELD\n", "litigation 17", "user/operator", "next: expunge hold release acme-eu case-17 --reason=..."} {
		if !strings.Contains(s.out, want) {
			t.Errorf("%q is missing:\n%s", want, s.out)
		}
	}
	r.tick()
	r.deliver()
	if a := r.explain(acme + "case/2.csv"); a.Key.HoldID != "case-17" || a.Key.Lines[0].Outcome != "held" {
		t.Errorf("%+v", a)
	}
	// What is gone is too late, once nothing else of its decision can land.
	r.quiet(acme + "1.csv")
	late := r.ends(exitWrong, "something was deleted before the hold", "hold", "place", "acme-eu", "--reason=litigation 18", "--id=case-18")
	if !strings.Contains(late.out, "TOO_LATE\n") {
		t.Error(late.out)
	}
	for _, form := range [][]string{nil, {"--json"}} {
		if s := r.ok(append([]string{"hold", "list", "acme-eu"}, form...)...); strings.Contains(s.out, "csv") || !strings.Contains(s.out, "case-17") {
			t.Errorf("keys that nobody asked for:\n%s", s.out)
		}
	}
	if s := r.ok("hold", "list", "acme-eu", "--keys"); !strings.Contains(s.out, acme+"case/") {
		t.Error(s.out)
	}
	r.ok("hold", "ask", "acme-eu", "case-17")
	s = r.ok("hold", "release", "acme-eu", "case-17", "--reason=it was settled")
	if !strings.Contains(s.out, "protects nothing any more") || strings.Contains(s.out, "csv") {
		t.Error(s.out)
	}
	r.ends(exitWrong, "was released", "hold", "ask", "acme-eu", "case-17")
	if s := r.ok("hold", "list", "school-42"); !strings.Contains(s.out, "has never had a hold") {
		t.Error(s.out)
	}
	if orders := r.ok("orders", "--since=1h").out; !strings.Contains(orders, "hold placed") || !strings.Contains(orders, "hold released") || strings.Contains(orders, "csv") {
		t.Error(orders)
	}
}

// quiet lets the requests of the key's page be over.
func (r *region) quiet(key string) {
	r.t.Helper()
	p, err := r.ledger.PageByID(r.t.Context(), job.PageID(r.explain(key).Page.PageID))
	must(r.t, err)
	p.QuietAt, p.Rev = old, p.Rev+1
	must(r.t, r.ledger.SwapPage(r.t.Context(), p))
}

// A decision that was committed before the hold is in flight, and is never called
// held: the status says to ask again, and when.
func TestHoldInFlight(t *testing.T) {
	r := newRegion(t, wallNow())
	r.put(acme + "1.csv")
	r.tick()
	r.lose("DeleteObjects")
	r.deliver()
	s := r.ends(exitWaits, "not everything is held yet: ask again at ", "hold", "place", "acme-eu", "--reason=litigation 17", "--id=case-17")
	if !strings.Contains(s.out, "IN_FLIGHT\n") || !strings.Contains(s.out, "next: expunge hold ask acme-eu case-17\n") {
		t.Error(s.out)
	}
}

func TestHoldUsage(t *testing.T) {
	r := newRegion(t, wallNow())
	r.ends(exitUsage, "--prefix and --item can't be used together", "hold", "place", "acme-eu", "--prefix=a", "--item=b", "--reason=litigation 17")
	r.ends(exitUsage, "--reason: reason is missing", "hold", "place", "acme-eu", "--reason=x")
	r.ends(exitWrong, "tenant is missing or not a tenant id", "hold", "place", "../acme", "--reason=litigation 17")
	r.ends(exitWrong, "", "hold", "ask", "acme-eu", "none")
}
