package receipt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/evidence"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// manifests are the golden ones: the small run, a request that found nothing, and
// every outcome.
func manifests(t testing.TB) map[string]receipt.Manifest {
	w := smallRun(noon)
	w.entries = func(w *world) {
		for i := range w.pages {
			// The true hashes are those of compressed bytes, which another release of Go may change.
			if p := &w.pages[i]; p.Plan != "" {
				p.Plan, p.Receipt = fmt.Sprintf("%x", sum([]byte{'p', byte(i)})), fmt.Sprintf("%x", sum([]byte{'r', byte(i)}))
			}
		}
	}
	w.build(t)
	request := job.Run{
		ID: job.RequestRunID("eu-central-1", "uploads", "r-17"), Region: "eu-central-1", Policy: "uploads", Version: 3,
		PolicySHA256: hashA, Mode: job.ReportOnly, RequestID: "r-17", Scheduled: noon.Add(123456789), Cutoff: noon.AddDate(0, -3, 0),
	}
	words := smallRun(noon)
	all := receipt.ManifestPage{
		ID: job.PageID(strings.Repeat("2", 32)), Tenant: "School_42.x", Kind: job.RangePage, State: job.Completed,
		Receipt: hashB, Recorded: 70,
	}
	for i, o := range job.Outcomes() {
		all.Totals.Counts[o] = i + 1
	}
	all.Totals.Candidates, all.Totals.Bytes = all.Totals.Counts.Sum(), 1<<40
	return map[string]receipt.Manifest{
		"manifest":         w.manifest,
		"manifest-request": receipt.NewManifest(request, nil, "v1.0.0"),
		"manifest-words":   receipt.NewManifest(words.run, []receipt.ManifestPage{all}, "v1.0.0+dirty"),
	}
}

func encodeManifest(t testing.TB, m receipt.Manifest) (name string, seal job.Seal, data []byte) {
	t.Helper()
	seal, data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return receipt.ManifestName(m.Header.RunID, seal.Manifest), seal, data
}

// manifestNamed is the name under which bytes of any kind belong.
func manifestNamed(run job.RunID, data []byte) string {
	return receipt.ManifestName(run, fmt.Sprintf("%x", sum(data)))
}

// The text is golden. The stored bytes beside it were written once and must be read
// forever, with the root that the run's row has.
func TestGoldenManifests(t *testing.T) {
	roots := map[string]string{
		"manifest":         "e0205d0610701b49ec04d43715c1d081fdc9de0dd77a78fab0939922f92b2f98",
		"manifest-request": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"manifest-words":   "fddabe8aea5f73035d5360f77892dc3f3061d8e2363a9044ec6cdcc5b930151f",
	}
	for name, m := range manifests(t) {
		t.Run(name, func(t *testing.T) {
			_, seal, data := encodeManifest(t, m)
			golden := filepath.Join("testdata", "v1-"+name+".jsonl")
			if *update {
				if err := os.WriteFile(golden, unpack(t, data), 0o644); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(golden + ".gz"); err != nil {
					if err := os.WriteFile(golden+".gz", data, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(unpack(t, data))); diff != "" {
				t.Errorf("text differs (-golden +now):\n%s", diff)
			}
			stored, err := os.ReadFile(golden + ".gz")
			if err != nil {
				t.Fatal(err)
			}
			got, read, err := receipt.VerifyManifest(manifestNamed(m.Header.RunID, stored), stored)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, got, equatePages); diff != "" {
				t.Errorf("manifest differs (-want +got):\n%s", diff)
			}
			if read.Root != roots[name] || seal.Root != roots[name] {
				t.Errorf("root is %s stored, %s now", read.Root, seal.Root)
			}
		})
	}
}

var equatePages = cmp.Transformer("pages", func(p []receipt.ManifestPage) []receipt.ManifestPage {
	if len(p) == 0 {
		return nil
	}
	return slices.Clone(p)
})

func TestManifestNames(t *testing.T) {
	run := job.RunID(strings.Repeat("1", 32))
	name := receipt.ManifestName(run, hashA)
	if name != "manifest/"+string(run)+"/"+hashA+".jsonl.gz" || !evidence.ValidName(name) {
		t.Errorf("name is %s", name)
	}
	page := job.PageID(strings.Repeat("2", 32))
	for i, full := range []string{receipt.Name(receipt.Plan, run, page, hashA), receipt.Name(receipt.Receipt, run, page, hashA), name} {
		if prefix := receipt.Prefixes(run)[i]; !strings.HasPrefix(full, prefix) || !strings.HasSuffix(prefix, "/") {
			t.Errorf("%s does not begin with %s", full, prefix)
		}
	}
	for what, bad := range map[string]string{
		"empty": "", "another kind": strings.Replace(name, "manifest", "plan", 1), "no suffix": strings.TrimSuffix(name, ".gz"),
		"upper case": strings.ToUpper(name), "short": strings.Replace(name, hashA, hashA[1:], 1), "deep": strings.Replace(name, hashA, "x/"+hashA, 1),
		"climbs": strings.Replace(name, string(run), "..", 1),
	} {
		if _, _, err := receipt.VerifyManifest(bad, nil); !failure.Is(err, failure.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestNewManifestPage(t *testing.T) {
	var counts job.Counts
	counts[job.Deleted], counts[job.Held] = 7, 2
	p := job.Page{
		ID: "p", Run: "r", Tenant: "acme", Kind: job.ItemPage, Parent: "q", State: job.Completed, After: "secret", Through: "secret",
		Intent: job.Intent{Plan: hashA, Deletes: 9}, Receipt: hashB, Candidates: 12, Planned: 10, Moved: 1, Counts: counts, Bytes: 99,
	}
	want := receipt.ManifestPage{
		ID: "p", Tenant: "acme", Kind: job.ItemPage, Parent: "q", State: job.Completed, Plan: hashA, Receipt: hashB,
		Recorded: 12, Moved: 1, Totals: job.Totals{Candidates: 9, Counts: counts, Bytes: 99},
	}
	if got := receipt.NewManifestPage(p); got != want {
		t.Errorf("%+v", got)
	}
}

// drawManifest draws what a ledger could list.
func drawManifest(t *rapid.T) receipt.Manifest {
	hexes := func(n int) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(rapid.Byte(), n/2, n/2), func(b []byte) string { return fmt.Sprintf("%x", b) })
	}
	r := job.Run{
		Region: rapid.StringMatching(`[a-z]{2}-[a-z]{4}-[1-9]`).Draw(t, "region"), Policy: rapid.StringMatching(`[a-z"\\é]{1,9}`).Draw(t, "policy"),
		Version: rapid.IntRange(1, 1<<40).Draw(t, "version"), PolicySHA256: hashA, Mode: rapid.SampledFrom([]job.Mode{job.Enforce, job.ReportOnly}).Draw(t, "mode"),
		Scheduled: noon.Add(time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "at"))).In(time.FixedZone("", 3600)), Cutoff: noon,
		ID: job.RunID(hexes(32).Draw(t, "run")),
	}
	var pages []receipt.ManifestPage
	tenants := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,7}`), 0, 4, rapid.ID).Draw(t, "tenants")
	slices.Sort(tenants)
	for _, tenant := range tenants {
		ids := rapid.SliceOfNDistinct(hexes(32), 1, 6, rapid.ID).Draw(t, "ids")
		ranges := rapid.IntRange(1, len(ids)).Draw(t, "ranges")
		slices.Sort(ids[ranges:])
		for i, id := range ids {
			p := receipt.ManifestPage{
				ID: job.PageID(id), Tenant: tenant, Kind: job.RangePage, State: rapid.SampledFrom([]job.PageState{job.Completed, job.Discarded}).Draw(t, "state"),
				Plan: rapid.SampledFrom([]string{"", hashA}).Draw(t, "plan"), Receipt: rapid.SampledFrom([]string{"", hashB}).Draw(t, "receipt"),
				Recorded: rapid.IntRange(0, 1000).Draw(t, "recorded"), Moved: rapid.IntRange(0, 25).Draw(t, "moved"),
			}
			if i >= ranges {
				p.Kind, p.Parent = job.ItemPage, job.PageID(ids[rapid.IntRange(0, ranges-1).Draw(t, "parent")])
			}
			for _, o := range job.Outcomes() {
				p.Totals.Counts[o] = max(0, rapid.IntRange(-500, 500).Draw(t, o.String()))
			}
			p.Totals.Candidates, p.Totals.Bytes = p.Totals.Counts.Sum(), rapid.Int64Range(0, 1<<50).Draw(t, "bytes")
			pages = append(pages, p)
		}
	}
	return receipt.NewManifest(r, pages, rapid.StringMatching(`v[0-9]{1,3}`).Draw(t, "code"))
}

func TestManifestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := drawManifest(rt)
		name, seal, data := encodeManifest(t, m)
		got, read, err := receipt.VerifyManifest(name, data)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(m, got, equatePages); diff != "" || read != seal {
			rt.Fatalf("seals %v and %v; differs (-put +got):\n%s", seal, read, diff)
		}
		if again, _, _ := encodeManifest(t, got); again != name {
			rt.Fatalf("encoded again: %s, first %s", again, name)
		}
	})
}

// The root is the one of RFC 6962, by its own recursion and by the library's, and the
// library's proof shows of any single page that it belongs to the run.
func TestRootIsThatOfRFC6962(t *testing.T) {
	w := smallRun(noon)
	for n := range 70 {
		var pages []receipt.ManifestPage
		for i := range n {
			pages = append(pages, receipt.ManifestPage{
				ID: job.PageID(fmt.Sprintf("%032x", i)), Tenant: "acme", Kind: job.RangePage, State: job.Completed, Recorded: i,
			})
		}
		_, seal, data := encodeManifest(t, receipt.NewManifest(w.run, pages, "v1"))
		lines := split(unpack(t, data))
		lines = lines[1 : len(lines)-1]
		if want := fmt.Sprintf("%x", mth(lines)); seal.Root != want {
			t.Fatalf("%d pages: root %s, want %s", n, seal.Root, want)
		}
		var stored []tlog.Hash
		reader := tlog.HashReaderFunc(func(at []int64) (hashes []tlog.Hash, err error) {
			for _, i := range at {
				hashes = append(hashes, stored[i])
			}
			return hashes, nil
		})
		for i, line := range lines {
			hashes, err := tlog.StoredHashes(int64(i), line, reader)
			if err != nil {
				t.Fatal(err)
			}
			stored = append(stored, hashes...)
		}
		root, err := tlog.TreeHash(int64(n), reader)
		if err != nil || fmt.Sprintf("%x", root[:]) != seal.Root {
			t.Fatalf("%d pages: the library's root is %x, %v", n, root[:], err)
		}
		for i, line := range lines {
			proof, err := tlog.ProveRecord(int64(n), int64(i), reader)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckRecord(proof, int64(n), root, int64(i), tlog.RecordHash(line)); err != nil {
				t.Errorf("page %d of %d: %v", i, n, err)
			}
		}
	}
}

// Encode and VerifyManifest share their checks: what one refuses, the other does,
// with a seal that fits and at the same line.
func TestManifestsThatNobodyWrites(t *testing.T) {
	const head, second, item = 1, 3, 4
	for _, c := range []struct {
		name  string
		line  int
		spoil func(m *receipt.Manifest)
	}{
		{"schema", head, func(m *receipt.Manifest) { m.Header.Schema = 0 }},
		{"run", head, func(m *receipt.Manifest) { m.Header.RunID = "r" }},
		{"region", head, func(m *receipt.Manifest) { m.Header.Region = "" }},
		{"policy", head, func(m *receipt.Manifest) { m.Header.Policy = "a\nb" }},
		{"policy version", head, func(m *receipt.Manifest) { m.Header.PolicyVersion = 0 }},
		{"policy hash", head, func(m *receipt.Manifest) { m.Header.PolicySHA256 = hashA[1:] }},
		{"mode", head, func(m *receipt.Manifest) { m.Header.Mode = "" }},
		{"request", head, func(m *receipt.Manifest) { m.Header.RequestID = "\x00" }},
		{"scheduled", head, func(m *receipt.Manifest) { m.Header.Scheduled = time.Time{} }},
		{"scheduled out of range", head, func(m *receipt.Manifest) { m.Header.Scheduled = noon.AddDate(9000, 0, 0) }},
		{"cutoff", head, func(m *receipt.Manifest) { m.Header.Cutoff = time.Time{} }},
		{"code version", head, func(m *receipt.Manifest) { m.Header.CodeVersion = "" }},
		{"pages", head, func(m *receipt.Manifest) { m.Header.Pages++ }},
		{"recorded", head, func(m *receipt.Manifest) { m.Header.Recorded-- }},
		{"counts", head, func(m *receipt.Manifest) { m.Header.Totals.Counts[job.Held]++ }},
		{"bytes", head, func(m *receipt.Manifest) { m.Header.Totals.Bytes++ }},
		{"candidates", head, func(m *receipt.Manifest) { m.Header.Totals.Candidates++ }},

		{"page id", second, func(m *receipt.Manifest) { m.Pages[1].ID = "x" }},
		{"tenant", second, func(m *receipt.Manifest) { m.Pages[1].Tenant = "b b" }},
		{"kind", second, func(m *receipt.Manifest) { m.Pages[1].Kind = "" }},
		{"a range with a parent", second, func(m *receipt.Manifest) { m.Pages[1].Parent = m.Pages[0].ID }},
		{"an item without a parent", item, func(m *receipt.Manifest) { m.Pages[2].Parent = "" }},
		{"open", second, func(m *receipt.Manifest) { m.Pages[1].State = job.Claimed }},
		{"dead", second, func(m *receipt.Manifest) { m.Pages[1].State = job.Dead }},
		{"plan", second, func(m *receipt.Manifest) { m.Pages[1].Plan = "p" }},
		{"receipt", second, func(m *receipt.Manifest) { m.Pages[1].Receipt = "r" }},
		{"negative recorded", second, func(m *receipt.Manifest) { m.Pages[1].Recorded = -1 }},
		{"negative moved", second, func(m *receipt.Manifest) { m.Pages[1].Moved = -1 }},
		{"negative bytes", second, func(m *receipt.Manifest) { m.Pages[1].Totals.Bytes = -1 }},
		{"negative count", second, func(m *receipt.Manifest) { m.Pages[1].Totals.Counts[job.Held]--; m.Pages[1].Totals.Candidates-- }},
		{"candidates without outcomes", second, func(m *receipt.Manifest) { m.Pages[1].Totals.Candidates++ }},

		{"tenants descend", second, func(m *receipt.Manifest) { m.Pages[1].Tenant = "aaaa" }},
		{"listed twice", second, func(m *receipt.Manifest) { m.Pages[1].ID = m.Pages[0].ID }},
		{"an item listed as a range too", item, func(m *receipt.Manifest) { m.Pages[2].ID = m.Pages[0].ID }},
		{"a range after an item", item, func(m *receipt.Manifest) { m.Pages[1], m.Pages[2] = m.Pages[2], m.Pages[1] }},
		{"a parent of another tenant", item, func(m *receipt.Manifest) { m.Pages[2].Parent = m.Pages[3].ID }},
		{"items descend", item + 1, func(m *receipt.Manifest) {
			low := m.Pages[2]
			low.ID = job.PageID(strings.Repeat("0", 32))
			m.Pages = slices.Insert(m.Pages, 3, low)
		}},
		{"an item twice", item + 1, func(m *receipt.Manifest) { m.Pages = slices.Insert(m.Pages, 3, m.Pages[2]) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := manifests(t)["manifest"]
			m.Pages = slices.Clone(m.Pages)
			c.spoil(&m)
			seal, data, err := m.Encode()
			if !failure.Is(err, failure.Bug) || seal != (job.Seal{}) || data != nil {
				t.Fatalf("%v, %d bytes, %v", seal, len(data), err)
			}
			if e, ok := errors.AsType[*receipt.LineError](err); !ok || e.Line != c.line {
				t.Errorf("error is %v, want line %d", err, c.line)
			}
		})
	}
}

// Every text here is sealed to fit and bears a name that fits, so only the form or
// the contents refuse it.
func TestManifestsAreReadStrictly(t *testing.T) {
	m := manifests(t)["manifest"]
	_, _, data := encodeManifest(t, m)
	lines := split(unpack(t, data))
	lines = lines[:len(lines)-1]
	for _, c := range []struct {
		name     string
		line     int
		old, new string
	}{
		{"unknown field", 2, `"recorded"`, `"colour":"red","recorded"`},
		{"unknown field in the header", 1, `"pages"`, `"force":true,"pages"`},
		{"repeated field", 2, `"recorded":5`, `"recorded":5,"recorded":5`},
		{"another case", 2, `"recorded"`, `"Recorded"`},
		{"space", 3, `"recorded":2`, `"recorded": 2`},
		{"CRLF", 3, "}\n", "}\r\n"},
		{"another number", 2, `"recorded":5`, `"recorded":5.0`},
		{"another order", 3, `"kind":"range","state":"completed"`, `"state":"completed","kind":"range"`},
		{"an empty field", 5, `"recorded"`, `"plan":"","recorded"`},
		{"no counts, spelled out", 5, `"bytes"`, `"counts":{},"bytes"`},
		{"a count of zero", 3, `"deleted":1`, `"deleted":1,"held":0`},
		{"counts in another order", 3, `"deleted":1,"changed":1`, `"changed":1,"deleted":1`},
		{"a count twice", 3, `"deleted":1,"changed":1`, `"deleted":1,"deleted":1`},
		{"an unknown outcome", 3, `"changed":1`, `"gone":1`},
		{"no outcome", 3, `"changed":1`, `"":1`},
		{"counts as numbers", 3, `{"deleted":1,"changed":1}`, `[1,0,0,1]`},
		{"a fraction", 3, `"changed":1`, `"changed":1.5`},
		{"an unknown state", 3, `"completed"`, `"done"`},
		{"an unknown kind of page", 3, `"range"`, `"page"`},
		{"another kind of document", 1, `"manifest"`, `"plan"`},
		{"newer schema", 1, `"schema":1`, `"schema":2`},
		{"older schema", 1, `"schema":1`, `"schema":0`},
		{"another zone", 1, `T12:00:00Z`, `T13:00:00+01:00`},
		{"two values", 2, "}\n", "}{}\n"},
		{"no object", 2, "{", "["},
		{"an empty line", 3, "{", "\n{"},
		{"a line that is too long", 2, `"recorded"`, `"` + strings.Repeat("x", 8<<10) + `":1,"recorded"`},
		{"totals that are no sums", 1, `"recorded":9`, `"recorded":8`},
		{"a page less than announced", 1, `"pages":5`, `"pages":6`},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := slices.Clone(lines)
			if !bytes.Contains(bad[c.line-1], []byte(c.old)) {
				t.Fatalf("line %d has no %s: %s", c.line, c.old, bad[c.line-1])
			}
			bad[c.line-1] = bytes.Replace(bad[c.line-1], []byte(c.old), []byte(c.new), 1)
			data := pack(sealedManifest(bad))
			_, _, err := receipt.VerifyManifest(manifestNamed(m.Header.RunID, data), data)
			wantLine(t, err, c.line)
			if e, _ := errors.AsType[*receipt.LineError](err); e.Newer != (c.name == "newer schema") {
				t.Errorf("newer is %v", e.Newer)
			}
		})
	}
}

func TestManifestTrailerIsStrict(t *testing.T) {
	m := manifests(t)["manifest"]
	_, seal, data := encodeManifest(t, m)
	lines := split(unpack(t, data))
	body, trailer := bytes.Join(lines[:len(lines)-1], nil), string(lines[len(lines)-1])
	for name, bad := range map[string]string{
		"missing":       "",
		"no newline":    strings.TrimSuffix(trailer, "\n"),
		"more":          trailer + "\n",
		"twice":         trailer + trailer,
		"another count": strings.Replace(trailer, `"items":5`, `"items":6`, 1),
		"another root":  strings.Replace(trailer, seal.Root, hashA, 1),
		"no root":       strings.Replace(trailer, `,"root":"`+seal.Root+`"`, "", 1),
		"space":         strings.Replace(trailer, `,"marks`, `, "marks`, 1),
		"unknown field": strings.Replace(trailer, "}", `,"x":1}`, 1),
		"endless":       `{"items":` + strings.Repeat("0", 3*receipt.MaxManifestPages),
	} {
		t.Run(name, func(t *testing.T) {
			data := pack(append(bytes.Clone(body), bad...))
			_, _, err := receipt.VerifyManifest(manifestNamed(m.Header.RunID, data), data)
			wantLine(t, err, -1)
		})
	}
	for what, bad := range map[string][]byte{
		"nothing": nil, "plain text": unpack(t, data), "header only": data[:10], "an empty text": pack(nil), "a trailer only": pack([]byte(trailer)),
		"a byte after": append(bytes.Clone(data), 0), "a member after": append(bytes.Clone(data), pack(nil)...),
		"a bomb": pack(make([]byte, 1<<20)), "a document": documentBytes(t),
	} {
		if _, _, err := receipt.VerifyManifest(manifestNamed(m.Header.RunID, bad), bad); !failure.Is(err, failure.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func documentBytes(t testing.TB) []byte {
	_, data := encode(t, documents()["plan"])
	return data
}

// A manifest is not a document, and a document with a root is none either.
func TestDocumentsHaveNoRoot(t *testing.T) {
	_, data := encode(t, documents()["plan"])
	lines := split(unpack(t, data))
	_, err := receipt.Decode(pack(sealedManifest(lines[:len(lines)-1])))
	wantLine(t, err, len(lines))
	_, _, data = encodeManifest(t, manifests(t)["manifest"])
	_, err = receipt.Decode(data)
	wantLine(t, err, -1)
}

func TestEveryFlippedCharacterOfAManifestIsNamed(t *testing.T) {
	m := manifests(t)["manifest"]
	name, _, data := encodeManifest(t, m)
	text := unpack(t, data)
	flips, exact := 0, 0
	for i := range text {
		line := 1 + bytes.Count(text[:i], []byte("\n"))
		bad := bytes.Clone(text)
		bad[i] ^= 1 << (i % 8)
		_, _, err := receipt.VerifyManifest(name, pack(bad))
		wantLine(t, err, -1)
		e, _ := errors.AsType[*receipt.LineError](err)
		if e.Line < line {
			t.Fatalf("byte %d of line %d: %v", i, line, err)
		}
		flips++
		if e.Line == line {
			exact++
		}
		if strings.Contains(err.Error(), "acme") || strings.Contains(err.Error(), "uploads") {
			t.Fatalf("the error quotes the manifest: %v", err)
		}
	}
	if exact*100 < flips*97 {
		t.Errorf("only %d of %d flips are named by their line", exact, flips)
	}
}

func FuzzVerifyManifest(f *testing.F) {
	run := smallRun(noon).run.ID
	for _, m := range manifests(f) {
		_, _, data := encodeManifest(f, m)
		f.Add(data)
		f.Add(unpack(f, data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		forms := [][]byte{data}
		if len(data) < 1<<16 {
			forms = append(forms, pack(data))
			if lines := bytes.SplitAfter(data, []byte("\n")); len(lines) > 2 && len(lines) < 100 {
				forms = append(forms, pack(sealedManifest(lines[:len(lines)-2])))
			}
		}
		for _, form := range forms {
			m, seal, err := receipt.VerifyManifest(manifestNamed(run, form), form)
			if err != nil {
				wantLine(t, err, -1)
				continue
			}
			again, data, err := m.Encode()
			if err != nil {
				t.Fatalf("what is read can be written: %v", err)
			}
			if again.Root != seal.Root || !bytes.Equal(unpack(t, data), unpack(t, form)) {
				t.Fatal("a manifest has two texts")
			}
		}
	})
}
