package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/emulator"
)

// A second region at the same address is refused before it has touched the folder of
// the first, which still reads its policies and writes its log there.
func TestUpTwice(t *testing.T) {
	l, err := emulator.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a test's
	folder := t.TempDir()
	file := filepath.Join(folder, nightFolder, "reports.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("of the first"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = Up(t.Context(), UpConfig{Listen: l.Addr().String(), Folder: folder})
	if err == nil || !strings.Contains(err.Error(), "somebody listens at "+l.Addr().String()) {
		t.Error(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "of the first" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "up.log")); !os.IsNotExist(err) {
		t.Error(err)
	}
}
