package invariant

import (
	"strings"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// isManifest reports whether a document is the manifest of a run and not of a page.
func isManifest(name string) bool { return strings.HasPrefix(name, "manifest/") }

// judgeSeals verifies every manifest (E4), and compares the one that a closed run's
// row names with the row and those of its pages (E6). One that no row names is left
// of a close that did not come to its end.
func (j *judge) judgeSeals() {
	for name, data := range j.Evidence {
		if !isManifest(name) {
			continue
		}
		v := j.on("E4")
		v.look(1)
		_, _, err := receipt.VerifyManifest(name, data)
		if err != nil {
			v.fail("manifest %s: %v", masked(name), err)
		}
		j.read[name] = err == nil
	}
	pages := map[job.RunID][]*job.Page{}
	for i := range j.Pages {
		pages[j.Pages[i].Run] = append(pages[j.Pages[i].Run], &j.Pages[i])
	}
	for i := range j.Runs {
		if r := &j.Runs[i]; r.Seal != (job.Seal{}) {
			j.judgeSeal(r, pages[r.ID])
		}
	}
}

func (j *judge) judgeSeal(r *job.Run, pages []*job.Page) {
	v := j.on("E6")
	v.look(1)
	name := receipt.ManifestName(r.ID, r.Seal.Manifest)
	data, there := j.Evidence[name]
	if !there {
		v.fail("run %s: its manifest is not there", r.ID)
		return
	}
	m, seal, err := receipt.VerifyManifest(name, data)
	if err != nil {
		return // E4's to say
	}
	if seal != r.Seal || m.Header.Totals != r.Totals {
		v.fail("run %s: the manifest is not the one that was sealed", r.ID)
	}
	listed := make(map[job.PageID]receipt.ManifestPage, len(m.Pages))
	for _, p := range m.Pages {
		listed[p.ID] = p
	}
	for _, p := range pages {
		if listed[p.ID] != receipt.NewManifestPage(*p) {
			v.fail("%s: the manifest says something else than its row", about(p))
		}
		delete(listed, p.ID)
	}
	if len(listed) > 0 {
		v.fail("run %s: the manifest lists %d pages that are not on record", r.ID, len(listed))
	}
}
