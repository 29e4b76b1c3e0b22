package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFolderThatNoRunMadeIsLeftAlone: what a person keeps under names that a run
// uses too is not a run's to remove.
func TestAFolderThatNoRunMadeIsLeftAlone(t *testing.T) {
	root := t.TempDir()
	write(t, root, "files/exports/acme/old.csv", "1", 31*day)
	for _, kept := range []string{"evidence/precious", "policies/precious.yaml", "run.json"} {
		folder := filepath.Join(root, "kept", filepath.Base(kept))
		write(t, folder, kept, "precious", day)
		status, err := Run(t.Context(), Config{
			Dir: filepath.Join(root, "files"), Policy: policyFile(t, exportsYAML), AsOf: noon, Folder: folder, Out: &strings.Builder{},
		})
		if status != ExitUsage || err == nil || !strings.Contains(err.Error(), "new or empty folder") {
			t.Errorf("%s: status %d, %v", kept, status, err)
		}
		if data, err := os.ReadFile(filepath.Join(folder, kept)); err != nil || string(data) != "precious" {
			t.Errorf("%s: %q, %v", kept, data, err)
		}
	}
	dir := filepath.Join(root, "files")
	if status, err := Run(t.Context(), Config{Dir: dir, Policy: policyFile(t, exportsYAML), AsOf: noon, Folder: dir, Out: &strings.Builder{}}); status != ExitUsage {
		t.Errorf("the directory itself: status %d, %v", status, err)
	}
}

// TestAReportOutlivesNoFailedRun: whoever reads run.json after a run reads that run's.
func TestAReportOutlivesNoFailedRun(t *testing.T) {
	root := t.TempDir()
	write(t, root, "files/exports/acme/old.csv", "1", 31*day)
	c := Config{Dir: filepath.Join(root, "files"), Policy: policyFile(t, exportsYAML), AsOf: noon, Folder: filepath.Join(root, "out"), Out: &strings.Builder{}}
	for range 2 { // the second run finds a folder that the first has made
		if status, err := Run(t.Context(), c); status != 0 || err != nil {
			t.Fatalf("status %d, %v", status, err)
		}
	}
	mistaken := c
	mistaken.Enforce, mistaken.Bucket = true, "exports"
	if status, err := Run(t.Context(), mistaken); status != ExitUsage || err == nil {
		t.Errorf("status %d, %v", status, err)
	}
	if _, err := os.Stat(filepath.Join(c.Folder, reportFile)); err != nil {
		t.Errorf("arguments that begin no run took the report: %v", err)
	}
	c.Policy = policyFile(t, "name: [")
	if status, err := Run(t.Context(), c); status != ExitUsage || err == nil {
		t.Errorf("status %d, %v", status, err)
	}
	if _, err := os.Stat(filepath.Join(c.Folder, reportFile)); !os.IsNotExist(err) {
		t.Errorf("the report of the run before is still there: %v", err)
	}
}
