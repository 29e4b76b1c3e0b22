package policy

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// base is a valid file that names every key but tenant, weekday and the two that
// came after versions were on record: report_only_dates and catch_up.
const base = `name: exports
version: 3
region: eu-central-1
bucket: acme-exports
keys: exports/{tenant}/csv/
tenant_pattern: school-[0-9]+
retention_days: 30
mode: enforce
schedule:
  every: daily
  at: "04:15"
  zone: Europe/Berlin
limits:
  max_objects: 18240
  max_share: 0.25
  max_growth: 2.5
  max_rate: 1000
objective: 1h30m
urgent: true
versions: current
`

// with returns base with one piece of text replaced, which must be there once.
func with(t testing.TB, old, replacement string) string {
	t.Helper()
	if strings.Count(base, old) != 1 {
		t.Fatalf("%q is in the base file %d times", old, strings.Count(base, old))
	}
	return strings.Replace(base, old, replacement, 1)
}

// valid parses a file that must be valid.
func valid(t testing.TB, text string) Policy {
	t.Helper()
	p, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return p
}

// golden compares got with testdata/name, or writes it there.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; -update rewrites it\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// instant reads RFC 3339.
func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
