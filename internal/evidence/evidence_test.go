package evidence_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/evidence/evidencetest"
	"github.com/expunge-aws/expunge/internal/failure"
)

func openDir(t *testing.T, path string) *evidence.Dir {
	t.Helper()
	d, err := evidence.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestMemory(t *testing.T) {
	evidencetest.Exercise(t, func(*testing.T) evidencetest.Store { return new(evidence.Memory) })
	evidencetest.Faults(t, func(_ *testing.T, hook failure.Hook) evidencetest.Store {
		return &evidence.Memory{Hook: hook}
	})
}

func TestDir(t *testing.T) {
	evidencetest.Exercise(t, func(t *testing.T) evidencetest.Store {
		return openDir(t, filepath.Join(t.TempDir(), "not", "there", "yet"))
	})
	evidencetest.Faults(t, func(t *testing.T, hook failure.Hook) evidencetest.Store {
		d := openDir(t, t.TempDir())
		d.Hook = hook
		return d
	})
}

const name = "plan/run/page.json"

// The link stands anywhere on the way to the name and leads to where that name
// could be read or written, outside the directory or inside.
func TestDirRefusesLinks(t *testing.T) {
	for _, at := range []string{"plan", "plan/run", name} {
		for _, target := range []string{"outside", "root/inside"} {
			for _, relative := range []bool{false, true} {
				t.Run(fmt.Sprint(at, " to ", target, ", relative ", relative), func(t *testing.T) {
					refuseLink(t, at, target, relative)
				})
			}
		}
	}
}

func refuseLink(t *testing.T, at, target string, relative bool) {
	top := t.TempDir()
	link, to := filepath.Join(top, "root", at), filepath.Join(top, target)
	theirs := filepath.Join(to, strings.TrimPrefix(name, at)) // to itself when at is the file
	for _, dir := range []string{filepath.Dir(link), filepath.Dir(theirs)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(theirs, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	if relative {
		var err error
		if to, err = filepath.Rel(filepath.Dir(link), to); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(to, link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	if b, err := os.ReadFile(filepath.Join(top, "root", name)); err != nil || string(b) != "theirs" {
		t.Fatalf("the link leads nowhere: %q, %v", b, err)
	}
	d := openDir(t, filepath.Join(top, "root"))
	if err := d.Put(t.Context(), name, []byte("theirs")); !failure.Is(err, failure.Invalid) {
		t.Errorf("put: %v", err)
	}
	if data, err := d.Get(t.Context(), name); !failure.Is(err, failure.Invalid) {
		t.Errorf("get: %q, %v", data, err)
	}
	if names, err := d.List(t.Context(), "plan/", "", 10); err != nil || len(names) != 0 {
		t.Errorf("list: %q, %v", names, err)
	}
	if b, err := os.ReadFile(theirs); err != nil || string(b) != "theirs" {
		t.Errorf("their file is %q, %v", b, err)
	}
}

// A writer that died half way left a hidden file: no list and no name shows it,
// and the next writer is not in its way.
func TestDirHidesTornWrites(t *testing.T) {
	top := t.TempDir()
	d := openDir(t, top)
	if err := os.WriteFile(filepath.Join(top, ".put-TORN"), []byte("ha"), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := d.Put(t.Context(), name, []byte("half")); err != nil {
		t.Fatal(err)
	}
	names, err := d.List(t.Context(), "", "", 10)
	if err != nil || len(names) != 1 || names[0] != name {
		t.Errorf("list: %q, %v", names, err)
	}
	if _, err := d.Get(t.Context(), ".put-TORN"); !failure.Is(err, failure.Invalid) {
		t.Errorf("get: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(top, ".put-*"))
	if err != nil || len(left) != 1 {
		t.Errorf("temporary files: %q, %v", left, err)
	}
}

func TestDirFilesAreReadOnly(t *testing.T) {
	top := t.TempDir()
	d := openDir(t, top)
	if err := d.Put(t.Context(), name, []byte("x")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o222 != 0 {
		t.Errorf("mode is %v", info.Mode())
	}
}

func TestDirSurvivesReopening(t *testing.T) {
	top := t.TempDir()
	if err := openDir(t, top).Put(t.Context(), name, []byte("x")); err != nil {
		t.Fatal(err)
	}
	second := openDir(t, top)
	if data, err := second.Get(t.Context(), name); err != nil || string(data) != "x" {
		t.Errorf("get: %q, %v", data, err)
	}
	if err := second.Put(t.Context(), name, []byte("y")); !failure.Is(err, failure.Invalid) {
		t.Errorf("put: %v", err)
	}
}

func TestOpenDirRefusesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := evidence.OpenDir(path); err == nil {
		t.Error("opened a file as a directory")
	}
}

func TestUseAfterCloseHasAClass(t *testing.T) {
	d, err := evidence.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Put(t.Context(), name, nil); !failure.Is(err, failure.Network) {
		t.Errorf("put: %v", err)
	}
	if _, err := d.Get(t.Context(), name); !failure.Is(err, failure.Network) {
		t.Errorf("get: %v", err)
	}
	if _, err := d.List(t.Context(), "", "", 1); !failure.Is(err, failure.Network) {
		t.Errorf("list: %v", err)
	}
}
