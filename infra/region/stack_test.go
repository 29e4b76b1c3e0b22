package region

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// synthesised is synthesise for a test.
func synthesised(t *testing.T, context map[string]any, out string) map[string]template {
	t.Helper()
	templates, err := synthesise(context, out)
	if err != nil {
		t.Fatal(err)
	}
	return templates
}

// policyFiles writes a folder of policy files.
func policyFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// aPolicyFile is a policy of a region, edited by pairs of a text and what replaces it.
func aPolicyFile(region string, edits ...string) string {
	text := `name: uploads
version: 1
region: ` + region + `
bucket: acme-uploads
keys: uploads/{tenant}/
retention_days: 190
mode: enforce
schedule: {every: daily, at: "05:15", zone: UTC}
`
	return strings.NewReplacer(edits...).Replace(text)
}

// TestCD01_RegionsDifferByTheirNameAlone gives three regions the same policy, and finds
// the same template three times.
func TestCD01_RegionsDifferByTheirNameAlone(t *testing.T) {
	hash := regexp.MustCompile(`[0-9a-f]{64}`) // of a package: the policy file in it names its region
	var first string
	for _, name := range []string{"eu-west-1", "us-east-1", "ap-southeast-2"} {
		dir := policyFiles(t, map[string]string{"uploads.yaml": aPolicyFile(name)})
		templates := synthesised(t, given("regions", name, "policies", dir), "same-"+name)
		if len(templates) != 1 {
			t.Fatalf("%s: %d stacks", name, len(templates))
		}
		text := hash.ReplaceAllString(strings.ReplaceAll(string(templates[name].text), name, "REGION"), "HASH")
		if first == "" {
			first = text
		}
		if text != first {
			t.Errorf("%s: the template differs: %s", name, firstDifference(first, text))
		}
	}
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d is %q, want %q", i+1, y[i], x[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(y), len(x))
}

// TestCD03_StagesStandSideBySide declares stages whose names are easily confused, and
// finds no physical name twice in an account.
func TestCD03_StagesStandSideBySide(t *testing.T) {
	taken := map[string]string{}
	stages := map[string]map[string]template{"prod": deployed()}
	for _, stage := range []string{"a-b", "ab", "a"} {
		stages[stage] = synthesised(t, given("stage", stage, "regions", "eu-west-1"), "stage-"+stage)
	}
	for stage, stacks := range stages {
		for name, stack := range stacks {
			for id, physical := range stack.physical() {
				where := name + " "
				if strings.HasSuffix(id, "Dashboard") {
					where = "" // it belongs to the account
				}
				if other, is := taken[where+physical]; is {
					t.Errorf("%s of %s in %s has the name %s of %s", id, stage, name, physical, other)
				}
				taken[where+physical] = id + " of " + stage
			}
		}
	}
	if len(taken) < 6*6 { // of each stack four queues, the group and the dashboard at least
		t.Errorf("%d names", len(taken))
	}
}

// TestTwoSynthsAreEqual: whoever reviews a template can make the same one.
func TestTwoSynthsAreEqual(t *testing.T) {
	deployed()
	synthesised(t, given(), "again")
	a, b := contents(t, folder("deployed")), contents(t, folder("again"))
	if len(a) < 10 || !slices.Equal(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))) {
		t.Fatalf("files %v, then %v", slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	}
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s: %s", name, firstDifference(string(a[name]), string(b[name])))
		}
	}
}

// contents are the files below a folder.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all[name], err = fs.ReadFile(os.DirFS(dir), name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTerminationProtection: the stack is not deleted by one command, unless somebody
// asked for that. CloudFormation takes it beside the template.
func TestTerminationProtection(t *testing.T) {
	deployed()
	synthesised(t, given("termination_protection", "false", "regions", "eu-west-1"), "unprotected")
	for out, want := range map[string]bool{"deployed": true, "unprotected": false} {
		data, err := os.ReadFile(filepath.Join(folder(out), "manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		var manifest any
		if err := json.Unmarshal(data, &manifest); err != nil {
			t.Fatal(err)
		}
		for _, region := range []string{"eu-west-1", "us-east-1", "ap-southeast-2"} {
			if out == "unprotected" && region != "eu-west-1" {
				continue
			}
			stack := at(manifest, "artifacts", "Expunge-"+region)
			if got := at(stack, "properties", "terminationProtection") == true; got != want {
				t.Errorf("%s: %s is protected: %v, want %v", out, region, got, want)
			}
			if name, environment := at(stack, "properties", "stackName"), at(stack, "environment"); name != "expunge-prod" || environment != "aws://unknown-account/"+region {
				t.Errorf("%s: %s is stack %v in %v", out, region, name, environment)
			}
		}
	}
}

// TestPackagesHoldTheRegionsPolicies opens what is uploaded: every package has a program
// that can be started, and only the functions that plan have policies, their region's.
func TestPackagesHoldTheRegionsPolicies(t *testing.T) {
	for region, stack := range deployed() {
		for _, f := range stack.things(kindFunction) {
			dir := filepath.Join(folder("deployed"), "asset."+strings.TrimSuffix(f.word("Code", "S3Key"), ".zip"))
			info, err := os.Stat(filepath.Join(dir, bootstrap))
			if err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("%s of %s can not be started: %v", f.name, region, err)
			}
			var want []string
			if f.name == "Enqueue" || f.name == "Reconcile" {
				for _, of := range stack.config.Policies {
					want = append(want, "policies/"+of.Name+".yaml")
				}
			}
			files := contents(t, dir)
			delete(files, bootstrap)
			if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
				t.Errorf("%s of %s is told the policies %v, want %v", f.name, region, got, want)
			}
			for name, data := range files {
				if source, err := os.ReadFile(filepath.Join("testdata", name)); err != nil || !bytes.Equal(data, source) {
					t.Errorf("%s of %s has another %s than the repository: %v", f.name, region, name, err)
				}
			}
		}
	}
}

// TestAPolicyThatIsRemovedLeavesThePackage: the folder that is packed is used again.
func TestAPolicyThatIsRemovedLeavesThePackage(t *testing.T) {
	second := strings.Replace(aPolicyFile("eu-west-1", "acme-uploads", "acme-more"), "name: uploads", "name: more", 1)
	both := policyFiles(t, map[string]string{"uploads.yaml": aPolicyFile("eu-west-1"), "more.yaml": second})
	synthesised(t, given("regions", "eu-west-1", "policies", both, "stage", "leaving"), "both")
	left := policyFiles(t, map[string]string{"uploads.yaml": aPolicyFile("eu-west-1")})
	stack := synthesised(t, given("regions", "eu-west-1", "policies", left, "stage", "leaving"), "left")["eu-west-1"]
	dir := filepath.Join(folder("left"), "asset."+strings.TrimSuffix(stack.thing(kindFunction, "Enqueue").word("Code", "S3Key"), ".zip"))
	if got := slices.Sorted(maps.Keys(contents(t, dir))); !slices.Equal(got, []string{"bootstrap", "policies/uploads.yaml"}) {
		t.Errorf("the package holds %v", got)
	}
}

// TestEvidenceFoldersAreWhereEvidenceIsWritten compares the folders that the roles are
// granted with the names that the functions write.
func TestEvidenceFoldersAreWhereEvidenceIsWritten(t *testing.T) {
	run, page, hash := job.RunID(strings.Repeat("a", 32)), job.PageID(strings.Repeat("b", 32)), strings.Repeat("c", 64)
	for name, granted := range map[string]string{
		receipt.Name(receipt.Plan, run, page, hash):    contract.EvidencePlans,
		receipt.Name(receipt.Receipt, run, page, hash): contract.EvidenceReceipts,
		receipt.ManifestName(run, hash):                contract.EvidenceManifests,
	} {
		if folder, _, _ := strings.Cut(name, "/"); folder+"/" != granted {
			t.Errorf("%s is written, and %s granted", name, granted)
		}
	}
}

// TestFunctionsLinkNoCDK: it would weigh on every start of a function.
func TestFunctionsLinkNoCDK(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../../functions/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		if strings.Contains(name, "jsii") || strings.Contains(name, "aws-cdk") || strings.Contains(name, "constructs-go") || strings.Contains(name, path.Join("expunge", "infra")) {
			t.Errorf("a function links %s", name)
		}
	}
	if !bytes.Contains(out, []byte("expunge/internal/worker")) {
		t.Error("the functions link no worker: this test looks at the wrong place")
	}
}
