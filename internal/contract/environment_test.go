package contract

import (
	"reflect"
	"strings"
	"testing"
)

// TestEnvironmentRoundTrip sets every field, so a field without a variable fails.
func TestEnvironmentRoundTrip(t *testing.T) {
	var e Environment
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		v.Field(i).SetString(v.Type().Field(i).Name)
	}
	vars := e.Render()
	if len(vars) != v.NumField() {
		t.Errorf("%d variables for %d fields", len(vars), v.NumField())
	}
	got, err := ParseEnvironment(func(name string) string { return vars[name] }, func(*Environment) []*string { return nil })
	if err != nil || got != e {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMissingVariablesAreNamed(t *testing.T) {
	_, err := ParseEnvironment(func(string) string { return "" }, func(e *Environment) []*string { return []*string{&e.Table, &e.Mode} })
	if err == nil || !strings.Contains(err.Error(), "EXPUNGE_LEDGER_TABLE, EXPUNGE_MODE") || strings.Contains(err.Error(), "QUEUE") {
		t.Errorf("%v", err)
	}
}

func TestScaleIsOneOfTwo(t *testing.T) {
	for scale, timeout := range map[string]string{"": "1m0s", "1": "1m0s", "20": "3s"} {
		if s, err := (Environment{Scale: scale}).Settings(); err != nil || s.FunctionTimeout.String() != timeout {
			t.Errorf("scale %q: %v, %v", scale, s.FunctionTimeout, err)
		}
	}
	for _, scale := range []string{"0", "-20", "2", "twenty"} {
		if _, err := (Environment{Scale: scale}).Settings(); err == nil {
			t.Errorf("scale %q: accepted", scale)
		}
	}
}

// The worker divides a policy's rate by it, so it must be the mapping's number.
func TestConcurrencyIsTheDeployments(t *testing.T) {
	for given, want := range map[string]int{"": 5, "2": 2, "40": 40} {
		if s, err := (Environment{Concurrency: given}).Settings(); err != nil || s.Concurrency != want {
			t.Errorf("concurrency %q: %d, %v", given, s.Concurrency, err)
		}
	}
	for _, given := range []string{"1", "0", "-5", "1001", "five", "5.0"} {
		if _, err := (Environment{Concurrency: given}).Settings(); err == nil {
			t.Errorf("concurrency %q: accepted", given)
		}
	}
}
