package region

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cfnLint is the version of cfn-lint that the templates are held to. make infra-test
// reads it here and installs it.
const cfnLint = "1.58.0"

// unlinted are the rules that cfn-lint does not ask for, each with the reason.
var unlinted = []string{
	"W3005", // the CDK says of every function that it waits for its role, which the reference to it says already
}

// TestTemplatesAreClean holds every template to CloudFormation's own schemas, in which
// the CDK can be wrong too.
func TestTemplatesAreClean(t *testing.T) {
	program := filepath.Join("..", "..", ".cfn-lint", "bin", "cfn-lint")
	version, err := exec.Command(program, "--version").Output()
	if err != nil {
		t.Skip("cfn-lint is not there: make infra-test installs it where python3 and a package index are")
	}
	if got := strings.TrimSpace(string(version)); got != "cfn-lint "+cfnLint {
		t.Skipf("%s is there, and the templates are held to %s", got, cfnLint)
	}
	dir := t.TempDir()
	// A linter that finds nothing in anything would be content with everything: of the
	// plain template it has to find the one fault, and nothing else.
	spoiled := new(draft).from(one())
	spoiled.set("Pages", "long", "VisibilityTimeout")
	templates := map[string]template{"full": full(), "spoiled": spoiled.template()}
	args := append([]string{"--format", "parseable", "--regions", "eu-west-1", "--ignore-checks"}, unlinted...)
	args = append(args, "--template")
	for name, stack := range templates {
		file := filepath.Join(dir, name+".json")
		if err := os.WriteFile(file, stack.text, 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	if err == nil {
		t.Error("cfn-lint accepts a visibility in words")
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, filepath.Join(dir, "spoiled.json")) || !strings.Contains(line, ":E3012:'long' is not of type 'integer'") {
			t.Error(line)
		}
	}
}
