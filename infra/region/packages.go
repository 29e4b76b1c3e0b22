package region

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/expunge-aws/expunge/internal/policy"
)

// The packages: a folder each, with a bootstrap that Lambda starts.
const (
	packageEnqueue   = "enqueue"
	packageWorker    = "worker"
	packageReconcile = "reconcile"
	packageRedrive   = "redrive"
	packageHold      = "hold"
)

var packages = []string{packageEnqueue, packageHold, packageReconcile, packageRedrive, packageWorker}

// bootstrap is the file that the runtime provided.al2023 starts.
const bootstrap = "bootstrap"

// policyFolder is where a package has its policy files. A function starts in the
// folder of its package, so a relative path finds them.
const policyFolder = "policies"

// machine is the ELF machine of an architecture.
func (a Architecture) machine() elf.Machine {
	if a == X86_64 {
		return elf.EM_X86_64
	}
	return elf.EM_AARCH64
}

// check refuses a package that Lambda could not start: its messages would all drift
// into the dead letters (GO-01).
func (c Config) check(name string) error {
	path := filepath.Join(c.Packages, name, bootstrap)
	again := fmt.Sprintf("run make package ARCH=%s", c.Architecture)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is missing: %s", path, again)
	}
	if info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not executable: %s", path, again)
	}
	// https://docs.aws.amazon.com/lambda/latest/dg/lambda-deploy-functions.html
	if mode := info.Mode().Perm(); mode&0o555 != 0o555 {
		return fmt.Errorf("%s can be read and started by its owner alone (mode %04o), and Lambda's user is another: %s", path, mode, again)
	}
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is no Linux program: %s", path, again)
	}
	defer func() { _ = file.Close() }() // it was only read
	if want := c.Architecture.machine(); file.Machine != want {
		return fmt.Errorf("%s is for %s, and architecture is %s (%s): %s", path, file.Machine, c.Architecture, want, again)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP { // it would look for a loader and libraries of another system
			return fmt.Errorf("%s is not linked statically: %s", path, again)
		}
	}
	return nil
}

// digest is the code's version: the same code has the same one on every machine.
func (c Config) digest() (string, error) {
	all := sha256.New()
	for _, name := range packages {
		if err := c.check(name); err != nil {
			return "", err
		}
		data, err := os.ReadFile(filepath.Join(c.Packages, name, bootstrap))
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256(data)
		all.Write(sum[:]) // a hash never fails
	}
	return hex.EncodeToString(all.Sum(nil)[:6]), nil
}

// asset returns the folder that is uploaded as a function's package. Those that work
// by the policies get the region's own files beside the bootstrap.
func (c Config) asset(name string) (string, error) {
	if err := c.check(name); err != nil {
		return "", err
	}
	if name != packageEnqueue && name != packageReconcile {
		return filepath.Join(c.Packages, name), nil
	}
	folder := filepath.Join(c.Packages, ".with-policies", c.Stage+"-"+c.Region, name)
	if err := os.RemoveAll(folder); err != nil { // or a policy that was removed would stay
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(folder, policyFolder), 0o755); err != nil { //nolint:gosec // Lambda's user reads it
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(c.Packages, name, bootstrap))
	if err != nil {
		return "", err
	}
	if err := pack(filepath.Join(folder, bootstrap), data, 0o755); err != nil {
		return "", err
	}
	return folder, c.copyPolicies(filepath.Join(folder, policyFolder))
}

// copyPolicies copies the files of the region's policies, byte for byte.
func (c Config) copyPolicies(to string) error {
	from := os.DirFS(c.PolicyFolder)
	files, err := fs.Glob(from, "*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := fs.ReadFile(from, file)
		if err != nil {
			return err
		}
		p, err := policy.Parse(file, data)
		if err != nil {
			return err
		}
		if p.Region != c.Region {
			continue
		}
		if err := pack(filepath.Join(to, file), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pack writes a file of a package. Lambda's user is not the one who builds, so the mode
// does not depend on the umask here.
func pack(path string, data []byte, mode fs.FileMode) error {
	if err := os.WriteFile(path, data, mode); err != nil { //nolint:gosec // a package is a folder of the build, and a policy file is where ReadFolder found it
		return err
	}
	return os.Chmod(path, mode)
}
