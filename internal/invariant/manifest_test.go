package invariant

import (
	"slices"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// sealed is an honest world with one run sealed; it returns the manifest's name.
func sealed(t *testing.T) (f Facts, run *job.Run, page *job.Page, name string) {
	t.Helper()
	f = honest().build(t)
	run = &f.Runs[slices.IndexFunc(f.Runs, func(r job.Run) bool { return r.Policy == "markers" })]
	page = &f.Pages[slices.IndexFunc(f.Pages, func(p job.Page) bool { return p.Run == run.ID })]
	seal, data, err := receipt.NewManifest(*run, []receipt.ManifestPage{receipt.NewManifestPage(*page)}, code).Encode()
	if err != nil {
		t.Fatal(err)
	}
	run.Seal = seal
	name = receipt.ManifestName(run.ID, seal.Manifest)
	f.Evidence[name] = data
	return f, run, page, name
}

func TestManifestIsHeldAgainstTheRows(t *testing.T) {
	for _, c := range []struct {
		name, id string // "" holds
		change   func(f *Facts, run *job.Run, page *job.Page, name string)
	}{
		{"honest", "", func(*Facts, *job.Run, *job.Page, string) {}},
		{"left of a close that did not come to its end", "", func(_ *Facts, run *job.Run, _ *job.Page, _ string) { run.Seal = job.Seal{} }},
		{"not there", "E6", func(f *Facts, _ *job.Run, _ *job.Page, name string) { delete(f.Evidence, name) }},
		{"damaged", "E4", func(f *Facts, _ *job.Run, _ *job.Page, name string) { f.Evidence[name] = f.Evidence[name][1:] }},
		{"of another root", "E6", func(_ *Facts, run *job.Run, _ *job.Page, _ string) { run.Seal.Root = strings.Repeat("0", 64) }},
		{"of another page", "E6", func(_ *Facts, _ *job.Run, page *job.Page, _ string) { page.Intent.Plan = "" }},
		{"of a page too many", "E6", func(f *Facts, _ *job.Run, page *job.Page, _ string) {
			f.Pages = slices.DeleteFunc(f.Pages, func(p job.Page) bool { return p.ID == page.ID })
		}},
	} {
		f, run, page, name := sealed(t)
		c.change(&f, run, page, name)
		results := Check(f)
		for _, r := range results {
			if (r.ID == "E4" || r.ID == "E6") && r.Holds != (r.ID != c.id) {
				t.Errorf("%s: %s %t: %s", c.name, r.ID, r.Holds, r.Detail)
			}
		}
	}
}
