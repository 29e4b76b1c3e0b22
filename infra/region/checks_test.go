package region

import (
	"fmt"
	"slices"
	"testing"
)

// A check is one thing that every template must be. find returns what is wrong with a
// template, so that a test of the checks can show each of them a template that is.
type check struct {
	name string
	find func(t template) []string
}

// The names are those of the tests: TestStack/<name>.
var checks = []check{
	{"kinds", checkKinds},
	{"regions", checkRegions},
	{"public", checkPublic},
	{"names", checkNames},
	{"tags", checkTags},
	{"retained", checkRetained},
	{"outputs", checkOutputs},

	{"encryption", checkEncryption},
	{"plain-http", checkPlainHTTP},
	{"retention", checkRetention},
	{"visibility", checkVisibility},
	{"redrive", checkRedrive},
	{"redrive-allow", checkRedriveAllow},
	{"senders", checkSenders},
	{"mapping", checkMapping},
	{"topics", checkTopics},

	{"functions", checkFunctions},
	{"timeouts", checkTimeouts},
	{"environment", checkEnvironment},
	{"logs", checkLogs},
	{"code", checkCode},
	{"failures", checkFailures},

	{"trust", checkTrust},
	{"wildcards", checkWildcards},
	{"artifacts", checkArtifacts},
	{"twin", checkTwin},
	{"messages", checkMessages},
	{"ledger-rights", checkLedgerRights},
	{"evidence-rights", checkEvidenceRights},
	{"boundary", checkBoundary},
	{"calls-granted", checkCallsGranted},
	{"grants-called", checkGrantsCalled},

	{"table", checkTable},
	{"evidence", checkEvidence},
	{"evidence-life", checkEvidenceLife},
	{"evidence-lock", checkEvidenceLock},
	{"key", checkKey},

	{"schedules", checkSchedules},
	{"ticks", checkTicks},

	{"alarm-actions", checkAlarmsAct},
	{"alarm-silence", checkAlarmsSayWhatMissingMeans},
	{"alarm-metrics", checkAlarmMetrics},
	{"alarm-texts", func(t template) []string { return checkAlarmTexts(t, t.config) }},
	{"dashboard", checkDashboard},
}

// stacks are what the checks look at: the regions as they are deployed, and one region
// with every option on.
func stacks() map[string]template {
	all := map[string]template{"full": full()}
	for name, t := range deployed() {
		all[name] = t
	}
	return all
}

// TestStack holds every stack to every check.
func TestStack(t *testing.T) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for name, stack := range stacks() {
				for _, problem := range c.find(stack) {
					t.Errorf("%s: %s", name, problem)
				}
			}
		})
	}
}

// problems collects what a check finds.
type problems []string

func (p *problems) want(holds bool, format string, args ...any) {
	if !holds {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

// equal asks for exactly these, in any order.
func (p *problems) equal(what string, got, want []string) {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		*p = append(*p, fmt.Sprintf("%s: %q, want %q", what, got, want))
	}
}
