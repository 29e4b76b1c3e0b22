package region

import (
	"debug/elf"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// packaged is a folder of packages, of which one was spoiled.
func packaged(t *testing.T, a Architecture, spoil func(bootstrap string)) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(builtFor(a))); err != nil {
		t.Fatal(err)
	}
	for _, name := range packages { // a copy forgets that it can be started
		if err := os.Chmod(filepath.Join(dir, name, bootstrap), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	spoil(filepath.Join(dir, packageWorker, bootstrap))
	return dir
}

// interpreted is a program that asks for a loader, as one that uses a C library does.
func interpreted() []byte {
	head := program(elf.EM_AARCH64)
	binary.LittleEndian.PutUint64(head[32:], 64)
	binary.LittleEndian.PutUint16(head[56:], 1)
	segment := make([]byte, 56)
	binary.LittleEndian.PutUint32(segment, uint32(elf.PT_INTERP))
	return append(head, segment...)
}

// TestGO01_PackagesThatCanNotStartAreRefused: a function that never starts lets every
// message drift into the dead letters.
func TestGO01_PackagesThatCanNotStartAreRefused(t *testing.T) {
	write := func(t *testing.T, path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		spoil func(path string)
		want  string // after the path
	}{
		"missing": {func(path string) { _ = os.Remove(path) }, " is missing: run make package ARCH=arm64"},
		"a folder": {func(path string) {
			_ = os.Remove(path)
			_ = os.Mkdir(path, 0o755)
		}, " is missing: run make package ARCH=arm64"},
		"not executable": {func(path string) { _ = os.Chmod(path, 0o644) }, " is not executable: run make package ARCH=arm64"},
		"for its owner alone": {func(path string) { _ = os.Chmod(path, 0o700) },
			" can be read and started by its owner alone (mode 0700), and Lambda's user is another: run make package ARCH=arm64"},
		"a script":             {func(path string) { write(t, path, []byte("#!/bin/sh\nexec true\n")) }, " is no Linux program: run make package ARCH=arm64"},
		"of another machine":   {func(path string) { write(t, path, program(elf.EM_X86_64)) }, " is for EM_X86_64, and architecture is arm64 (EM_AARCH64): run make package ARCH=arm64"},
		"linked with a loader": {func(path string) { write(t, path, interpreted()) }, " is not linked statically: run make package ARCH=arm64"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := packaged(t, ARM64, c.spoil)
			want := filepath.Join(dir, packageWorker, bootstrap) + c.want
			for _, version := range []string{"", "1.4.2"} { // which is the digest of the packages, or is given
				_, err := synthesise(given("packages", dir, "code_version", version), "refused")
				if err == nil || err.Error() != want {
					t.Errorf("refused: %v\nwant %s", err, want)
				}
			}
		})
	}
}

// TestGO01_TheUmaskDoesNotReachLambda: what a package holds is read by another user than
// the one who builds it, whose umask may take from everybody else the right to.
func TestGO01_TheUmaskDoesNotReachLambda(t *testing.T) {
	all, err := configs(given("regions", "eu-west-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	for _, name := range []string{packageEnqueue, packageReconcile} {
		folder, err := all[0].asset(name)
		if err != nil {
			t.Fatal(err)
		}
		files := 0
		err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			want := fs.FileMode(0o644)
			if d.Name() == bootstrap {
				want = 0o755
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm() != want {
				t.Errorf("%s has the mode %04o, want %04o", path, info.Mode().Perm(), want)
			}
			return err
		})
		if err != nil || files < 2 {
			t.Errorf("%d files in %s: %v", files, name, err)
		}
	}
}

// TestPackagesForEitherMachine: the same stack, for what the packages were built for.
func TestPackagesForEitherMachine(t *testing.T) {
	whole := func(string) {}
	if _, err := synthesise(given("packages", packaged(t, X86_64, whole)), "refused"); err == nil || !strings.Contains(err.Error(), "architecture is arm64") {
		t.Errorf("packages for another machine: %v", err)
	}
	stack := synthesised(t, given("packages", packaged(t, X86_64, whole), "architecture", "x86_64", "regions", "eu-west-1"), "x86")["eu-west-1"]
	for _, f := range stack.things(kindFunction) {
		if got := words(f.at("Architectures")); len(got) != 1 || got[0] != "x86_64" {
			t.Errorf("%s is for %q", f.name, got)
		}
	}
}

// TestTheCodesVersionIsItsDigest: the same packages have the same version on every
// machine, and another byte in one has another.
func TestTheCodesVersionIsItsDigest(t *testing.T) {
	versions := map[string]string{}
	for name, spoil := range map[string]func(string){
		"as built": func(string) {},
		"again":    func(string) {},
		"changed": func(path string) {
			if err := os.WriteFile(path, append(program(elf.EM_AARCH64), 'x'), 0o755); err != nil {
				t.Fatal(err)
			}
		},
	} {
		c, err := configs(given("packages", packaged(t, ARM64, spoil)))
		if err != nil {
			t.Fatal(err)
		}
		if versions[name], err = c[0].digest(); err != nil {
			t.Fatal(err)
		}
	}
	if versions["as built"] != versions["again"] || versions["as built"] == versions["changed"] || len(versions["again"]) != 12 {
		t.Errorf("versions are %v", versions)
	}
}
