package receipt

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Finding is one thing that the verification of a run has to say.
type Finding struct {
	// Object is the name of the evidence; where its hash is not known, what the name
	// begins with, up to a "/".
	Object string
	// Line counts from 1, the header; 0 is the object as a whole.
	Line int
	// Text says it in plain words. Of what stands in the object it quotes ids and
	// numbers only.
	Text string
	// Fault: the evidence does not hold together. Without it a finding is information.
	Fault bool
}

// VerifyRun checks what can be checked about a run's evidence without the ledger
// and the store (E6): that the manifest is the one that the run's row names; that
// every receipt it names is there, whole, and the page's; that a receipt answers its
// plan item by item, and a later plan only shrinks the one before (S19); that the
// numbers add up (E5); that a moved item has its page and no item stands in two
// pages (S11); and that nothing else lies there.
//
// names are all names that begin with one of Prefixes(run). read returns the bytes
// of one, failure.Absent when it is not there; besides the manifest, a page's receipt
// and two plans are the most that is held at a time. seal is what the run's row keeps,
// zero when the row is out of reach: then a manifest that was replaced together with
// all that it names can not be told from the true one, and a run whose manifest was
// removed passes for one that is not closed.
//
// The findings come in the order of the pages; none is a fault in whole evidence.
// The error is that of a read, and then they are not all.
func VerifyRun(run job.RunID, seal job.Seal, names []string, read func(name string) ([]byte, error)) ([]Finding, error) {
	v := &runCheck{run: run, read: read, pages: map[job.PageID]*filed{}, reported: map[string]bool{}}
	v.choose(seal, v.file(names))
	if v.manifest != nil {
		v.identity()
		v.listed()
	}
	v.rest()
	return v.findings, v.err
}

// runCheck is one verification.
type runCheck struct {
	run  job.RunID
	read func(string) ([]byte, error)
	// pages is what is filed under each page.
	pages map[job.PageID]*filed
	// manifest is the one that counts, nil when there is none, under name.
	manifest *Manifest
	name     string
	tenant   tenantCheck
	// parent is the plan read last for a split-off item: its siblings ask for it too.
	parent     *Document
	parentName string
	// reported are the objects that were found missing or damaged.
	reported map[string]bool

	findings []Finding
	err      error
}

// filed are the hashes of a page's documents, true once they are known to count.
type filed struct {
	plans, receipts map[string]bool
	// listed: the manifest has the page.
	listed bool
}

func (v *runCheck) fault(object string, line int, text string) {
	v.findings = append(v.findings, Finding{Object: object, Line: line, Text: text, Fault: true})
}

func (v *runCheck) inform(object, text string) {
	v.findings = append(v.findings, Finding{Object: object, Text: text})
}

// file sorts the names under their pages and returns those of manifests, ascending.
func (v *runCheck) file(names []string) (manifests []string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		run, _, isManifest := parseManifestName(name)
		parts, err := ParseName(name)
		switch {
		case !isManifest && err != nil:
			v.fault(name, 0, "no evidence has such a name")
		case isManifest && run != v.run, !isManifest && parts.RunID != v.run:
			v.fault(name, 0, "belongs to another run")
		case isManifest:
			manifests = append(manifests, name)
		case parts.Kind == Plan:
			v.of(parts.PageID).plans[parts.Hash] = false
		default:
			v.of(parts.PageID).receipts[parts.Hash] = false
		}
	}
	return manifests
}

func (v *runCheck) of(page job.PageID) *filed {
	f := v.pages[page]
	if f == nil {
		f = &filed{plans: map[string]bool{}, receipts: map[string]bool{}}
		v.pages[page] = f
	}
	return f
}

// choose verifies every manifest and settles which one counts. Two attempts to
// close a run may leave two that list the same pages under other headers.
func (v *runCheck) choose(seal job.Seal, names []string) {
	root := seal.Root
	for _, name := range names {
		data, ok := v.bytes(name)
		if !ok {
			continue
		}
		m, own, err := VerifyManifest(name, data)
		switch {
		case err != nil:
			v.refuse(name, err)
		case seal.Root != "" && own.Root != seal.Root:
			v.fault(name, 0, "its root is not the one in the run's row")
		case root != "" && own.Root != root:
			v.fault(name, 0, "another manifest of the run has another root, and only the run's row could tell which one counts")
		case v.manifest == nil || own.Manifest == seal.Manifest:
			if v.manifest != nil {
				v.inform(v.name, spare)
			}
			v.manifest, v.name, root = &m, name, own.Root
		default:
			v.inform(name, spare)
		}
	}
	switch {
	case seal.Manifest != "" && !slices.Contains(names, ManifestName(v.run, seal.Manifest)):
		v.missing(ManifestName(v.run, seal.Manifest), "the run's row names it")
	case len(names) > 0:
	case seal.Root != "":
		v.missing(prefix(manifestKind, v.run), "the run's row has the root of a manifest")
	default:
		v.inform(prefix(manifestKind, v.run), "no manifest: the run is not sealed, and each document was verified by itself")
	}
}

const spare = "lists the same pages as the manifest that counts: left by an attempt to close the run that took no effect"

// identity checks that the run's id comes from what the header says.
func (v *runCheck) identity() {
	h := &v.manifest.Header
	id := job.ScheduledRunID(h.Region, h.Policy, h.Scheduled)
	if h.RequestID != "" {
		id = job.RequestRunID(h.Region, h.Policy, h.RequestID)
	}
	if h.RunID != id {
		v.fault(v.name, 1, "the run's id does not come from this region, policy and instant or request")
	}
}

// rest looks at the documents that count for nothing; without a manifest, at all.
func (v *runCheck) rest() {
	for _, page := range slices.Sorted(maps.Keys(v.pages)) {
		f := v.pages[page]
		answered := map[string]bool{}
		for _, hash := range unused(f.receipts) {
			v.spareReceipt(page, f, hash, answered)
		}
		for _, hash := range unused(f.plans) {
			v.sparePlan(page, f, hash, answered[hash])
		}
	}
}

func unused(documents map[string]bool) (hashes []string) {
	for hash, used := range documents {
		if !used {
			hashes = append(hashes, hash)
		}
	}
	slices.Sort(hashes)
	return hashes
}

func (v *runCheck) spareReceipt(page job.PageID, f *filed, hash string, answered map[string]bool) {
	name := Name(Receipt, v.run, page, hash)
	d := v.load(name)
	if d == nil {
		return
	}
	answered[d.Header.Plan] = true
	if _, there := f.plans[d.Header.Plan]; !there {
		v.missing(Name(Plan, v.run, page, d.Header.Plan), "a receipt names it")
	} else if plan := v.load(Name(Plan, v.run, page, d.Header.Plan)); plan != nil {
		v.answers(name, d, plan)
	}
	switch {
	case v.manifest == nil:
	case f.listed:
		v.inform(name, "what was known before the receipt that counts")
	default:
		v.fault(name, 0, "the manifest does not list its page")
	}
}

func (v *runCheck) sparePlan(page job.PageID, f *filed, hash string, answered bool) {
	name := Name(Plan, v.run, page, hash)
	d := v.load(name)
	if d == nil {
		return
	}
	if _, there := f.plans[d.Header.Narrows]; there {
		if wide := v.load(Name(Plan, v.run, page, d.Header.Narrows)); wide != nil {
			v.narrows(name, d, wide)
		}
	}
	switch {
	case v.manifest == nil:
	case !f.listed && d.Header.Narrows == "":
		v.fault(name, 0, "the manifest does not list its page")
	case answered:
	case f.listed:
		v.inform(name, "an abandoned decision, which counts for nothing")
	default:
		v.inform(name, "the plan of a split-off item that got no page, which counts for nothing")
	}
}

// bytes reads an object.
func (v *runCheck) bytes(name string) (data []byte, ok bool) {
	if v.err != nil || v.reported[name] {
		return nil, false
	}
	data, err := v.read(name)
	switch {
	case err == nil:
		return data, true
	case failure.Is(err, failure.Absent):
		v.missing(name, "it was listed, or another document names it")
	default:
		v.err = err
	}
	return nil, false
}

// missing reports once that an object is not there.
func (v *runCheck) missing(name, why string) {
	if !v.reported[name] {
		v.reported[name] = true
		v.fault(name, 0, "is missing: "+why)
	}
}

// refuse reports what is wrong with the bytes of an object.
func (v *runCheck) refuse(name string, err error) {
	v.reported[name] = true
	if e, ok := errors.AsType[*LineError](err); ok {
		v.fault(name, e.Line, e.Text)
		return
	}
	v.fault(name, 0, "can not be read")
}

// load reads a document, verifies it and compares it with the manifest's header.
// It is nil when it is missing or damaged, which is reported.
func (v *runCheck) load(name string) *Document {
	data, ok := v.bytes(name)
	if !ok {
		return nil
	}
	d, err := Verify(name, data)
	if err != nil {
		v.refuse(name, err)
		return nil
	}
	if v.manifest == nil {
		return &d
	}
	h, m := &d.Header, &v.manifest.Header
	if field := authority(h, &Header{
		Tenant: h.Tenant, Policy: m.Policy, PolicyVersion: m.PolicyVersion, PolicySHA256: m.PolicySHA256,
		Mode: m.Mode, Bucket: h.Bucket, Cutoff: m.Cutoff,
	}); field != "" {
		v.fault(name, 1, "its "+field+" is not the manifest's")
	}
	return &d
}

// authority returns the first field in which two headers of a page's evidence
// differ and never should, "" when there is none.
func authority(a, b *Header) string {
	differs := func(field string, same bool) string {
		if same {
			return ""
		}
		return field
	}
	return cmp.Or(
		differs("tenant", a.Tenant == b.Tenant),
		differs("policy", a.Policy == b.Policy),
		differs("policy_version", a.PolicyVersion == b.PolicyVersion),
		differs("policy_sha256", a.PolicySHA256 == b.PolicySHA256),
		differs("mode", a.Mode == b.Mode),
		differs("bucket", a.Bucket == b.Bucket),
		differs("cutoff", a.Cutoff.Equal(b.Cutoff)),
	)
}
