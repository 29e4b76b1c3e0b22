package conformance

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// listedKey is the environment variable that makes run run a listed check as any
// other: it is set in the process that is expected to fail.
const listedKey = "EXPUNGE_CONFORMANCE_LISTED"

// listedPatience bounds one listed check. Those that wait for what never comes give
// up well before.
const listedPatience = time.Minute

// wantFailure runs the test that it is called from once more, in a process of its
// own, and fails it unless that fails. Only a process can do so: a test that has
// failed can not be made to pass, and a check ends at its first mistake.
func wantFailure(t *testing.T, why string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), listedPatience)
	defer stop()
	cmd := exec.CommandContext(ctx, program, "-test.run="+only(t.Name()), "-test.v", "-test.count=1") //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), listedKey+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Errorf("passes, and is listed as a known difference of this endpoint: take it off the list (%s)", why)
	case errors.As(err, &exit) && strings.Contains(string(out), "--- FAIL: "+t.Name()+" "):
		t.Logf("fails, as it is known to: %s", why)
	default:
		t.Fatalf("a listed check neither passed nor failed: %v\n%s", err, out)
	}
}

// only is the pattern of -test.run that selects the one test of that name.
func only(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// Names lists the names of all checks.
func Names() []string {
	names := append(checkNames(s3Checks()), checkNames(sqsChecks())...)
	names = append(names, checkNames(sqsRetention(nil))...)
	names = append(names, checkNames(dynamoChecks())...)
	return append(names, checkNames(operatorChecks())...)
}

func checkNames[C any](checks []check[C]) []string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.name
	}
	return names
}
