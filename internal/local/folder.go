package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// What a run leaves in its folder.
const (
	reportFile     = "run.json"
	evidenceFolder = "evidence"
	policiesFolder = "policies"
	// markFile says that the folder is a run's own and may be emptied by the next.
	markFile = ".expunge-run"
)

// openFolder makes the folder of a run ready: what the run before left is
// removed, so that nobody takes its report for this one's. A folder that no run has
// made is refused unless it is empty, and so is the directory that is evaluated.
func openFolder(c Config) error {
	folder, err := filepath.Abs(c.Folder)
	if err != nil {
		return err
	}
	if c.Dir != "" {
		dir, err := filepath.EvalSymlinks(c.Dir)
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err == nil && dir == folder {
			return fmt.Errorf("-out is the directory that is evaluated: %s", quoted(c.Folder))
		}
	}
	if err := ours(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	for _, name := range []string{reportFile, evidenceFolder} {
		if err := os.RemoveAll(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, markFile), []byte("made by a local run of Expunge, which empties this folder\n"), 0o600)
}

// ours reports whether the folder is absent, empty, or marked by a run.
func ours(folder string) error {
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) == 0:
		return nil
	}
	if _, err := os.Lstat(filepath.Join(folder, markFile)); err == nil {
		return nil
	}
	var names []string
	for _, e := range entries[:min(len(entries), 3)] {
		names = append(names, quoted(e.Name()))
	}
	return fmt.Errorf("-out %s holds files that no run has left there (%s): give a new or empty folder", quoted(folder), strings.Join(names, ", "))
}
