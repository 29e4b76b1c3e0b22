package ledgertest

import (
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

var policyTests = map[string]func(*testing.T, Ledger){
	"policy comes back":                            policyComesBack,
	"policy that is not published":                 policyUnknown,
	"policy version keeps its content":             policyKeepsContent,
	"policy published by racers has one content":   policyRace,
	"policy published by racers of equal contents": policyRaceEqual,
}

func policyOf(name string, version, days int) policy.Policy {
	return policy.Policy{
		Name: name, Version: version, Region: region, Bucket: "example-exports", Keys: "exports/{tenant}/",
		TenantPattern: "school-[0-9]+", RetentionDays: days, Mode: job.Enforce,
		Schedule:  policy.Schedule{Every: policy.Weekly, Weekday: "sunday", At: "04:15", Zone: "Europe/Berlin"},
		Limits:    policy.Limits{MaxObjects: 250_000, MaxShare: 0.25, MaxGrowth: 2.5, MaxRate: 100},
		Objective: 20 * time.Minute, Urgent: true, Versions: policy.AllVersions,
	}
}

func wantPolicy(t *testing.T, l Ledger, want policy.Policy) {
	t.Helper()
	got, err := l.Policy(t.Context(), want.Name, want.Version)
	ok(t, err)
	if !got.Equal(want) || got.SHA256() != want.SHA256() {
		t.Errorf("policy is\n%s, want\n%s", got.Canonical(), want.Canonical())
	}
	if owner, ok := got.TenantOf("exports/school-42/a"); !ok || owner != tenant {
		t.Error("the policy that came back does not find its tenant")
	}
}

func policyComesBack(t *testing.T, l Ledger) {
	all := []policy.Policy{policyOf("exports", 1, 30), policyOf("exports", 2, 31), policyOf("exports", 11, 32), policyOf("exports-1", 1, 33)}
	for _, p := range all {
		ok(t, l.PublishPolicy(t.Context(), p))
		ok(t, l.PublishPolicy(t.Context(), p))
	}
	for _, p := range all {
		wantPolicy(t, l, p)
	}
}

func policyUnknown(t *testing.T, l Ledger) {
	ok(t, l.PublishPolicy(t.Context(), policyOf("exports", 1, 30)))
	for _, k := range []struct {
		name    string
		version int
	}{{"exports", 2}, {"exports", 11}, {"exports", 0}, {"export", 1}, {"exports-1", 1}, {"", 1}} {
		_, err := l.Policy(t.Context(), k.name, k.version)
		wantClass(t, err, failure.UnknownPolicy)
	}
}

func policyKeepsContent(t *testing.T, l Ledger) {
	first := policyOf("exports", 1, 30)
	ok(t, l.PublishPolicy(t.Context(), first))
	wantClass(t, l.PublishPolicy(t.Context(), policyOf("exports", 1, 29)), failure.Invalid)
	wantPolicy(t, l, first)
}

func policyRace(t *testing.T, l Ledger) {
	errs := race(func(i int) error { return l.PublishPolicy(t.Context(), policyOf("exports", 1, 30+i)) })
	wantPolicy(t, l, policyOf("exports", 1, 30+winner(t, errs, failure.Invalid)))
}

func policyRaceEqual(t *testing.T, l Ledger) {
	for _, err := range race(func(int) error { return l.PublishPolicy(t.Context(), policyOf("exports", 1, 30)) }) {
		ok(t, err)
	}
	wantPolicy(t, l, policyOf("exports", 1, 30))
}
