package policy

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestEveryZoneOfTheDatabaseLoads(t *testing.T) {
	archive, err := zip.NewReader(strings.NewReader(zones), int64(len(zones)))
	if err != nil || len(archive.File) < 500 {
		t.Fatalf("%d zones, %v", len(archive.File), err)
	}
	for _, f := range archive.File {
		if loc, ok := loadZone(f.Name); ok == strings.HasSuffix(f.Name, "/") {
			t.Errorf("%s: %v, %v", f.Name, loc, ok)
		}
	}
}

// HP-06: neither ZONEINFO nor the host's own files change what a zone is.
func TestHP06ZonesDoNotDependOnTheHost(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "Europe"), 0o755); err != nil {
		t.Fatal(err)
	}
	// A host that takes Berlin for UTC, and knows a zone that nobody else knows.
	for name, source := range map[string]string{"Europe/Berlin": "UTC", "Europe/Atlantis": "UTC"} {
		if err := os.WriteFile(filepath.Join(dir, name), zoneData(t, source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ZONEINFO", dir)
	t.Setenv("TZ", "Pacific/Auckland")
	loc, ok := loadZone("Europe/Berlin")
	if !ok || offsetAt(loc, time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)) != 2*time.Hour {
		t.Error("the host's Berlin was taken")
	}
	if _, ok := loadZone("Europe/Atlantis"); ok {
		t.Error("the host's Atlantis was taken")
	}
	if _, err := Parse("x.yaml", []byte(with(t, "Europe/Berlin", "Europe/Atlantis"))); err == nil {
		t.Error("a policy in the host's Atlantis was accepted")
	}
}

func zoneData(t *testing.T, name string) []byte {
	archive, err := zip.NewReader(strings.NewReader(zones), int64(len(zones)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := fs.ReadFile(archive, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The database comes from the Go distribution. -update takes the one of the Go
// that runs the test; a difference alone is no failure, for several releases of
// Go build this code.
func TestZoneDatabaseIsThatOfGo(t *testing.T) {
	//nolint:staticcheck // The test runs where its toolchain is.
	source, err := os.ReadFile(filepath.Join(runtime.GOROOT(), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Skip("this Go ships no zone database:", err)
	}
	if bytes.Equal(source, []byte(zones)) {
		return
	}
	if *update {
		if err := os.WriteFile("zoneinfo.zip", source, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Log("Go has another zone database: go test ./internal/policy -update takes it over")
}
