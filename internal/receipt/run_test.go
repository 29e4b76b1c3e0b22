package receipt_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// R42: the evidence alone says, long after the queue forgot the run, that nothing is
// wrong with it.
func TestE6_R42_WholeEvidenceHasNoFindings(t *testing.T) {
	e := smallRun(noon).build(t)
	for _, seal := range []job.Seal{e.seal, {Root: e.seal.Root}, {}} {
		if f := e.verify(t, seal); len(f) > 0 {
			t.Errorf("found\n%s", e.text(f))
		}
	}
}

// spoiled requires that the object is named when it has the given bytes: all along
// with nothing but the manifest beside it, which takes a quarter of the time, and
// now and then in the whole evidence.
func (e *bundle) spoiled(t *testing.T, name string, n int, bad []byte) {
	t.Helper()
	whole := e.with(name, bad)
	alone := whole
	alone.objects = map[string][]byte{e.names["manifest"]: whole.objects[e.names["manifest"]], name: bad}
	sets := []bundle{alone}
	if n%16 == 0 {
		sets = append(sets, whole)
	}
	for _, set := range sets {
		f := set.verify(t, e.seal)
		if !slices.ContainsFunc(f, func(f receipt.Finding) bool {
			return f.Fault && f.Object == name && !strings.HasPrefix(f.Text, "is missing")
		}) {
			t.Fatalf("byte %d: found\n%s", n, e.text(f))
		}
	}
}

func TestE6_EveryFlippedByteIsNamed(t *testing.T) {
	e := smallRun(noon).build(t)
	for _, name := range e.sorted() {
		t.Run(e.called(name), func(t *testing.T) {
			t.Parallel()
			for i := range e.objects[name] {
				bad := bytes.Clone(e.objects[name])
				bad[i] ^= 1 << (i % 8)
				e.spoiled(t, name, i, bad)
			}
		})
	}
}

// R142: evidence that was deleted too early is missed by name, and so is a part of it.
func TestE6_R142_WhatIsMissingOrCutIsNamed(t *testing.T) {
	e := smallRun(noon).build(t)
	for _, name := range e.sorted() {
		changed := e.with(name, nil)
		if f := changed.verify(t, e.seal); len(faultsOn(f, name)) == 0 {
			t.Errorf("%s is gone: found\n%s", e.called(name), e.text(f))
		}
		for n := range e.objects[name] {
			e.spoiled(t, name, n, e.objects[name][:n:n])
		}
	}
	// A name that is listed and not there is missing all the same.
	f, err := receipt.VerifyRun(e.run, e.seal, e.sorted(), func(string) ([]byte, error) {
		return nil, failure.New(failure.Absent, "get evidence", "no such evidence")
	})
	if err != nil || len(faultsOn(f, e.names["manifest"])) == 0 || len(faultsOn(f, e.names["second"])) == 0 {
		t.Errorf("nothing can be read: %v, found\n%s", err, e.text(f))
	}
	empty := bundle{run: e.run}
	if f := empty.verify(t, e.seal); !slices.Equal(faultsOn(f, e.names["manifest"]), []int{0}) {
		t.Errorf("all is gone: found\n%s", e.text(f))
	}
	if f := empty.verify(t, job.Seal{Root: e.seal.Root}); len(faultsOn(f, "manifest/"+string(e.run)+"/")) == 0 {
		t.Errorf("all is gone, and only the root is known: found\n%s", e.text(f))
	}
}

func TestE6_SwappedObjectsAreNamed(t *testing.T) {
	e := smallRun(noon).build(t)
	names := e.sorted()
	for i, a := range names {
		for _, b := range names[i+1:] {
			changed := e.with(a, e.objects[b])
			changed = changed.with(b, e.objects[a])
			f := changed.verify(t, e.seal)
			if len(faultsOn(f, a)) == 0 || len(faultsOn(f, b)) == 0 {
				t.Errorf("%s and %s swapped: found\n%s", e.called(a), e.called(b), e.text(f))
			}
		}
	}
}

// tampering is every way to rearrange lines: two swapped, one dropped, one doubled.
func tampering(lines [][]byte) map[string][][]byte {
	ways := map[string][][]byte{}
	for i := range lines {
		for j := i + 1; j < len(lines); j++ {
			swapped := slices.Clone(lines)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			ways[fmt.Sprintf("lines %d and %d swapped", i+1, j+1)] = swapped
		}
		ways[fmt.Sprintf("line %d dropped", i+1)] = slices.Delete(slices.Clone(lines), i, i+1)
		ways[fmt.Sprintf("line %d doubled", i+1)] = slices.Insert(slices.Clone(lines), i, lines[i])
	}
	return ways
}

// The text is compressed anew and the trailer left as it was: the object is named,
// and in it the line where the change begins.
func TestE6_RearrangedLinesAreNamed(t *testing.T) {
	e := smallRun(noon).build(t)
	for _, name := range e.sorted() {
		lines := split(unpack(t, e.objects[name]))
		for way, bad := range tampering(lines) {
			changed := e.with(name, pack(bytes.Join(bad, nil)))
			f := changed.verify(t, e.seal)
			first := 1
			for first <= min(len(bad), len(lines)) && bytes.Equal(bad[first-1], lines[first-1]) {
				first++
			}
			if named := faultsOn(f, name); len(named) == 0 || named[0] < 1 || named[0] > first+1 {
				t.Errorf("%s, %s: line %v named, %d changed first\n%s", e.called(name), way, named, first, e.text(f))
			}
		}
	}
}

// Someone covers up: trailer, hash and name are made to fit, and in place of the
// document stands the other one. What named the document then names nothing.
func TestE6_ResealedDocumentsAreMissed(t *testing.T) {
	e := smallRun(noon).build(t)
	for _, name := range e.sorted() {
		if name == e.names["manifest"] {
			continue
		}
		parts, err := receipt.ParseName(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := split(unpack(t, e.objects[name]))
		body := lines[:len(lines)-1]
		for way, bad := range tampering(body) {
			data := pack(sealed(bad))
			changed := e.with(name, nil)
			changed.objects[receipt.Name(parts.Kind, parts.RunID, parts.PageID, fmt.Sprintf("%x", sum(data)))] = data
			for _, seal := range []job.Seal{e.seal, {}} {
				if f := changed.verify(t, seal); len(faultsOn(f, name)) == 0 {
					t.Errorf("%s, %s: found\n%s", e.called(name), way, e.text(f))
				}
			}
		}
	}
}

// The same with the manifest. The run's row finds every change. Without it the rest
// of the evidence finds those that concern a page with a receipt.
func TestE6_ResealedManifestsAreFound(t *testing.T) {
	w := smallRun(noon)
	e := w.build(t)
	stored := e.names["manifest"]
	for way, pages := range rearranged(w.pages) {
		m := receipt.NewManifest(w.run, pages, "v1.0.0")
		text := manifestText(t, w.manifest, m)
		data := pack(text)
		name := receipt.ManifestName(e.run, fmt.Sprintf("%x", sum(data)))
		changed := e.with(stored, nil)
		changed.objects[name] = data
		f := changed.verify(t, e.seal)
		if len(faultsOn(f, stored)) == 0 || len(faultsOn(f, name)) == 0 {
			t.Errorf("%s: found\n%s", way, e.text(f))
		}
		f = changed.verify(t, job.Seal{})
		if concerns := !strings.Contains(way, "3") && !strings.Contains(way, "4"); concerns && len(faults(f)) == 0 {
			t.Errorf("%s, without the run's row: nothing found", way)
		}
	}
}

// rearranged is every way to rearrange entries, and to exchange what two of them say.
func rearranged(pages []receipt.ManifestPage) map[string][]receipt.ManifestPage {
	ways := map[string][]receipt.ManifestPage{}
	for i := range pages {
		for j := i + 1; j < len(pages); j++ {
			swapped := slices.Clone(pages)
			swapped[i], swapped[j] = swapped[j], swapped[i]
			ways[fmt.Sprintf("entries %d and %d swapped", i, j)] = swapped
			exchanged := slices.Clone(pages)
			exchanged[i].Receipt, exchanged[j].Receipt = exchanged[j].Receipt, exchanged[i].Receipt
			if pages[i].Receipt != pages[j].Receipt {
				ways[fmt.Sprintf("receipts of %d and %d exchanged", i, j)] = exchanged
			}
		}
		ways[fmt.Sprintf("entry %d dropped", i)] = slices.Delete(slices.Clone(pages), i, i+1)
		ways[fmt.Sprintf("entry %d doubled", i)] = slices.Insert(slices.Clone(pages), i, pages[i])
		for j := range pages {
			added := pages[j]
			added.ID = job.RangePageID(job.RunID(hashA), added.Tenant, "more")
			ways[fmt.Sprintf("a page like %d added at %d", j, i)] = slices.Insert(slices.Clone(pages), i, added)
		}
	}
	return ways
}

// manifestText writes a manifest that Encode may refuse, with the lines of a good
// one and a seal that fits.
func manifestText(t *testing.T, good, bad receipt.Manifest) []byte {
	t.Helper()
	line := func(p receipt.ManifestPage) []byte {
		one := good
		p.Kind, p.Parent = job.RangePage, ""
		one.Pages = []receipt.ManifestPage{p}
		one = receipt.NewManifest(job.Run{
			ID: one.Header.RunID, Region: one.Header.Region, Policy: one.Header.Policy, Version: one.Header.PolicyVersion,
			PolicySHA256: one.Header.PolicySHA256, Mode: one.Header.Mode, Scheduled: one.Header.Scheduled, Cutoff: one.Header.Cutoff,
		}, one.Pages, one.Header.CodeVersion)
		_, data, err := one.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return split(unpack(t, data))[1]
	}
	item := func(l []byte, p receipt.ManifestPage) []byte {
		if p.Kind == job.ItemPage {
			return bytes.Replace(l, []byte(`"kind":"range"`), fmt.Appendf(nil, `"kind":"item","parent":"%s"`, p.Parent), 1)
		}
		return l
	}
	empty := bad
	empty.Pages = nil
	empty.Header.Pages, empty.Header.Recorded, empty.Header.Totals = 0, 0, job.Totals{}
	_, data, err := empty.Encode()
	if err != nil {
		t.Fatal(err)
	}
	lines := split(unpack(t, data))[:1]
	for _, p := range bad.Pages {
		lines = append(lines, item(line(p), p))
	}
	counts := ""
	for _, o := range job.Outcomes() {
		if n := bad.Header.Totals.Counts[o]; n > 0 {
			counts += `,"` + o.String() + `":` + strconv.Itoa(n)
		}
	}
	lines[0] = bytes.Replace(lines[0], []byte(`"pages":0,"recorded":0,"candidates":0,"bytes":0`), fmt.Appendf(nil,
		`"pages":%d,"recorded":%d,"candidates":%d,"counts":{%s},"bytes":%d`, bad.Header.Pages, bad.Header.Recorded,
		bad.Header.Totals.Candidates, strings.TrimPrefix(counts, ","), bad.Header.Totals.Bytes), 1)
	return sealedManifest(lines)
}

// The writer of refused manifests must write the good one as Encode does, or the
// tests that use it find their own mistakes.
func TestManifestTextIsEncodes(t *testing.T) {
	w := smallRun(noon)
	e := w.build(t)
	if got, want := manifestText(t, w.manifest, w.manifest), unpack(t, e.objects[e.names["manifest"]]); !bytes.Equal(got, want) {
		t.Errorf("writes\n%s\nEncode writes\n%s", got, want)
	}
}

func TestE6_TheManifestOfAnotherRun(t *testing.T) {
	e, other := smallRun(noon).build(t), smallRun(noon.AddDate(0, 0, 1)).build(t)
	mine, theirs := e.names["manifest"], other.names["manifest"]
	data := other.objects[theirs]
	hash := strings.TrimSuffix(theirs[strings.LastIndex(theirs, "/")+1:], ".jsonl.gz")
	for what, c := range map[string]struct {
		name string
		seal job.Seal
		line int
	}{
		"under its own name":              {theirs, e.seal, 0},
		"under its own name, unsealed":    {theirs, job.Seal{}, 0},
		"under this run's name":           {mine, e.seal, 0},
		"under a name that fits its hash": {receipt.ManifestName(e.run, hash), e.seal, 1},
	} {
		changed := e.with(mine, nil)
		changed.objects[c.name] = data
		f := changed.verify(t, c.seal)
		if lines := faultsOn(f, c.name); !slices.Contains(lines, c.line) {
			t.Errorf("%s: found\n%s", what, e.text(f))
		}
		if c.name != mine && c.seal != (job.Seal{}) && len(faultsOn(f, mine)) == 0 {
			t.Errorf("%s: nobody misses this run's", what)
		}
	}
}

// What the row does not know is refused, and what it names counts whatever else lies
// there.
func TestE6_SeveralManifests(t *testing.T) {
	w := smallRun(noon)
	e := w.build(t)
	counts := e.names["manifest"]
	add := func(m receipt.Manifest) (name string, data []byte) {
		seal, data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return receipt.ManifestName(e.run, seal.Manifest), data
	}
	// A closing that another release of the code had begun.
	spare, data := add(receipt.NewManifest(w.run, w.pages, "v0.9.0"))
	changed := e.with(spare, data)
	f := changed.verify(t, e.seal)
	if len(faults(f)) > 0 || len(f) != 1 || f[0].Object != spare {
		t.Errorf("sealed: found\n%s", e.text(f))
	}
	if f := changed.verify(t, job.Seal{}); len(faults(f)) > 0 || len(f) != 1 {
		t.Errorf("not sealed: found\n%s", e.text(f))
	}
	// One that lists other pages.
	forged, data := add(receipt.NewManifest(w.run, w.pages[:w.atBees], "v1.0.0"))
	changed = e.with(forged, data)
	if f := changed.verify(t, e.seal); len(faultsOn(f, forged)) == 0 || len(faultsOn(f, counts)) > 0 {
		t.Errorf("sealed: found\n%s", e.text(f))
	}
	if f := changed.verify(t, job.Seal{}); len(faultsOn(f, forged))+len(faultsOn(f, counts)) == 0 {
		t.Errorf("not sealed: found\n%s", e.text(f))
	}
}

// What counts for nothing is named, and is no fault.
func TestE6_WhatCountsForNothing(t *testing.T) {
	w := smallRun(noon)
	e := w.build(t)
	put := func(d receipt.Document) string {
		name, data := encode(t, d)
		e.objects[name] = data
		return name
	}
	abandoned := w.narrowed
	abandoned.Header.Fence = 3
	early := w.answer
	early.Lines = slices.Clone(w.answer.Lines)
	early.Lines[1].Outcome = job.NoOutcome
	unborn := w.item
	unborn.Lines = []receipt.Line{planned("a/2")}
	unborn.Header.PageID = job.ItemPageID(e.run, "acme", unborn.Lines[0].Ref())
	want := map[string]string{
		put(abandoned): "an abandoned decision", put(early): "before the receipt that counts", put(unborn): "got no page",
	}
	f := e.verify(t, e.seal)
	if len(f) != len(want) {
		t.Errorf("found\n%s", e.text(f))
	}
	for _, found := range f {
		if found.Fault || want[found.Object] == "" || !strings.Contains(found.Text, want[found.Object]) {
			t.Errorf("found %+v", found)
		}
	}
	// They are verified all the same.
	for name := range want {
		bad := bytes.Clone(e.objects[name])
		bad[len(bad)/2] ^= 1
		changed := e.with(name, bad)
		if f := changed.verify(t, e.seal); len(faultsOn(f, name)) == 0 {
			t.Errorf("damaged: found\n%s", e.text(f))
		}
	}
}

func TestE6_ARunThatIsNotSealed(t *testing.T) {
	e := smallRun(noon).build(t)
	open := e.with(e.names["manifest"], nil)
	f := open.verify(t, job.Seal{})
	if len(f) != 1 || f[0].Fault || !strings.Contains(f[0].Text, "not sealed") {
		t.Fatalf("found\n%s", e.text(f))
	}
	for _, name := range open.sorted() {
		bad := bytes.Clone(open.objects[name])
		bad[len(bad)/2] ^= 1
		changed := open.with(name, bad)
		if f := changed.verify(t, job.Seal{}); len(faultsOn(f, name)) == 0 {
			t.Errorf("%s damaged: found\n%s", e.called(name), e.text(f))
		}
	}
	for _, what := range []string{"second", "item"} {
		changed := open.with(e.names[what], nil)
		if f := changed.verify(t, job.Seal{}); len(faultsOn(f, e.names[what])) == 0 {
			t.Errorf("the plan that a receipt answers is gone: found\n%s", e.text(f))
		}
	}
}

func TestE6_WhatBelongsToNobodyIsNamed(t *testing.T) {
	e, other := smallRun(noon).build(t), smallRun(noon.AddDate(0, 0, 1)).build(t)
	stray := other.objects[other.names["second"]]
	for what, name := range map[string]string{
		"a plan of another run":    other.names["second"],
		"a receipt of another run": other.names["answer"],
		"an open name":             "plan/" + string(e.run) + "/notes.txt",
		"no name":                  "",
	} {
		changed := e.with(name, stray)
		if f := changed.verify(t, e.seal); !slices.Equal(faultsOn(f, name), []int{0}) {
			t.Errorf("%s: found\n%s", what, e.text(f))
		}
	}
}

func TestAReadThatFailsIsNoFinding(t *testing.T) {
	e := smallRun(noon).build(t)
	down := failure.New(failure.Network, "get evidence", "no answer")
	for _, broken := range e.sorted() {
		_, err := receipt.VerifyRun(e.run, e.seal, e.sorted(), func(name string) ([]byte, error) {
			if name == broken {
				return nil, down
			}
			return e.objects[name], nil
		})
		if !errors.Is(err, down) {
			t.Errorf("%s: %v", e.called(broken), err)
		}
	}
}
