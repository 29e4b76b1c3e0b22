package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/report"
)

// write makes a file of the age at noon.
func write(t testing.TB, root, rel, body string, age time.Duration) {
	t.Helper()
	path := filepath.Join(root, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, noon, noon.Add(-age)); err != nil {
		t.Fatal(err)
	}
}

func policyFile(t testing.TB, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// runIt runs the program's core and returns its status, report and text.
func runIt(t testing.TB, c Config) (int, report.Report, string, error) {
	t.Helper()
	var out bytes.Buffer
	c.Out, c.Folder = &out, filepath.Join(t.TempDir(), "out")
	status, err := Run(t.Context(), c)
	var r report.Report
	if data, rerr := os.ReadFile(filepath.Join(c.Folder, "run.json")); rerr == nil {
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
	}
	return status, r, out.String(), err
}

func TestDirectoryIsReadAndNeverTouched(t *testing.T) {
	root := t.TempDir()
	write(t, root, "exports/acme/old.csv", "12345", 31*day)
	write(t, root, "exports/acme/cutoff.csv", "1", 30*day)
	write(t, root, "exports/acme/young.csv", "1", 29*day)
	write(t, root, "exports/acme-2/deep/er/old.csv", "1234567", 40*day)
	write(t, root, "exports/README", "1", 99*day)
	write(t, root, "elsewhere/old", "1", 99*day)
	write(t, root, "exports/acme/bad\xff.csv", "1", 99*day)
	if err := os.Symlink(filepath.Join(root, "elsewhere"), filepath.Join(root, "exports/acme/link")); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, root)
	for name, enforce := range map[string]bool{"report-only": false, "enforce": true} {
		t.Run(name, func(t *testing.T) {
			status, r, text, err := runIt(t, Config{Dir: root, Policy: policyFile(t, exportsYAML), AsOf: noon, Enforce: enforce})
			if status != 0 || err != nil {
				t.Fatalf("status %d, %v\n%s", status, err, text)
			}
			done, reclaimed := r.Totals.WouldDelete, r.Totals.BytesWouldReclaim
			if enforce {
				done, reclaimed = r.Totals.Deleted, r.Totals.BytesReclaimed
			}
			if r.Totals.Candidates != 2 || done != 2 || reclaimed != 12 || r.Runs[0].Examined != 5 || r.Runs[0].Unmatched != 1 {
				t.Errorf("totals %+v, run %+v", r.Totals, r.Runs[0])
			}
			if r.RefusedNames != 1 || !strings.Contains(text, `bad\xff.csv": the name is not valid UTF-8`) {
				t.Errorf("refused %d:\n%s", r.RefusedNames, text)
			}
			if got := snapshot(t, root); !slices.Equal(got, before) {
				t.Errorf("the files changed:\n%v\n%v", before, got)
			}
		})
	}
}

// snapshot lists every path with its size and time.
func snapshot(t testing.TB, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			all = append(all, path+" "+info.ModTime().UTC().String()+" "+info.Mode().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDirectoryNamesAtTheLimits(t *testing.T) {
	root := t.TempDir()
	part := strings.Repeat("x", 200)
	long := strings.Repeat(part+"/", 5) // 1,005 bytes
	write(t, root, long+strings.Repeat("y", 1024-len(long)), "1", day)
	write(t, root, long+strings.Repeat("z", 1025-len(long)), "1", day)
	write(t, root, "control\x01 and\nnewline", "1", day)
	if err := os.MkdirAll(filepath.Join(root, "empty/folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := ReadDirectory(root, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Items) != 2 || len(d.Refused) != 1 || !strings.Contains(d.Refused[0].Why, "1,024") {
		t.Errorf("items %d, refused %+v", len(d.Items), d.Refused)
	}
}

func TestETagChangesWithPathSizeAndTime(t *testing.T) {
	w := newWorld(t, parse(t, exportsYAML))
	a := w.put(t, "acme-exports", "exports/acme/a", day)
	path, size, modified := a, a, a
	path.Key, size.Size, modified.Modified = "exports/acme/b", 11, a.Modified.Add(time.Nanosecond)
	seen := map[string]bool{etag(a): true, etag(path): true, etag(size): true, etag(modified): true}
	if len(seen) != 4 {
		t.Errorf("%d different etags, want 4", len(seen))
	}
}

func TestArgumentsAreRefusedWithStatusTwo(t *testing.T) {
	root := t.TempDir()
	write(t, root, "exports/acme/old.csv", "1", 31*day)
	reportOnly := policyFile(t, strings.Replace(exportsYAML, "mode: enforce", "mode: report-only", 1))
	bad := policyFile(t, strings.Replace(exportsYAML, "retention_days: 30", "retention_days: 0", 1))
	good := policyFile(t, exportsYAML)
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"a directory without a policy":    {Config{Dir: root}, "POLICY"},
		"a policy without a directory":    {Config{Policy: good}, "DIR"},
		"enforce without a directory":     {Config{Enforce: true}, "DIR"},
		"enforce with a report-only file": {Config{Dir: root, Policy: reportOnly, Enforce: true}, "ENFORCE=1 needs a policy whose mode is enforce"},
		"a policy that is refused":        {Config{Dir: root, Policy: bad}, "retention_days"},
		"no such policy":                  {Config{Dir: root, Policy: good + ".not"}, "POLICY"},
		"no such directory":               {Config{Dir: root + "-not", Policy: good}, "DIR"},
		"a file for a directory":          {Config{Dir: good, Policy: good}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.AsOf = noon
			status, _, text, err := runIt(t, c.config)
			if status != ExitUsage || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("status %d, %v\n%s", status, err, text)
			}
		})
	}
}

func TestGuardMakesARunWait(t *testing.T) {
	root := t.TempDir()
	for i := range 3 {
		write(t, root, filepath.Join("exports/acme", string(rune('a'+i))), "1", 31*day)
	}
	guarded := policyFile(t, strings.Replace(exportsYAML, "max_share: 1", "max_share: 1, max_objects: 2", 1))
	status, r, text, err := runIt(t, Config{Dir: root, Policy: guarded, AsOf: noon, Enforce: true})
	if status != 3 || err != nil || r.Verdict != report.Holds || r.Totals.Deleted != 0 || r.Mode != "report-only" {
		t.Errorf("status %d, %v, %+v\n%s", status, err, r, text)
	}
	status, r, _, err = runIt(t, Config{Dir: root, Policy: guarded, AsOf: noon})
	if status != 0 || err != nil || r.Totals.WouldDelete != 3 || len(r.Runs[0].Guard) != 1 {
		t.Errorf("report-only: status %d, %v, %+v", status, err, r)
	}
}

// TestDemoInMemory plays the built-in tenants on a World, in simulated time.
func TestDemoInMemory(t *testing.T) {
	policies, err := demoPolicies()
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Options{Region: policies[0].Region, AsOf: noon, Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	if err := Demo(t.Context(), stage{w, w}, policies, func(s string) { told.WriteString(s + "\n") }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(told.String(), "a worker dies right after its delete") || w.Crashes != 1 {
		t.Errorf("%d crashes; told\n%s", w.Crashes, told.String())
	}
	facts, err := w.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	demoHolds(t, facts)
}

// demoHolds checks the outcome of the built-in tenants, wherever they were played.
func demoHolds(t *testing.T, facts invariant.Facts) {
	t.Helper()
	r := report.Build(report.Input{Runs: facts.Runs, Pages: facts.Pages, Letters: facts.Letters, Invariants: invariant.Check(facts)})
	if r.Exit() != 0 || r.Mode != "enforce" || r.Totals.Candidates != 23_540 || r.Totals.Deleted != 23_527 || r.Totals.Held != 12 || r.Totals.Refused != 1 {
		t.Errorf("exit %d, totals %+v", r.Exit(), r.Totals)
	}
	for _, i := range r.Invariants {
		if !i.Holds {
			t.Errorf("%s: %s", i.ID, i.Detail)
		}
	}
	var reasons []string
	for _, l := range r.DeadLetters {
		reasons = append(reasons, string(l.Reason))
	}
	slices.Sort(reasons)
	if !slices.Equal(reasons, []string{"forbidden", "unknown_policy"}) {
		t.Errorf("dead letters %v", reasons)
	}
}

func TestPolicyErrorNamesFileAndLine(t *testing.T) {
	bad := policyFile(t, strings.Replace(exportsYAML, "keys: exports/{tenant}/", "keys: exports/{tenant}", 1))
	_, _, _, err := runIt(t, Config{Dir: t.TempDir(), Policy: bad, AsOf: noon})
	var refused *policy.Error
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), bad+":5:") {
		t.Errorf("%v", err)
	}
}
