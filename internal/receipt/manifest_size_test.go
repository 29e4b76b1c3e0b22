package receipt

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// many is a run of n pages, two for each tenant; one in ten has no candidates.
func many(n int) Manifest {
	random := rand.New(rand.NewPCG(1, 2))
	hexes := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "0123456789abcdef"[random.IntN(16)]
		}
		return string(b)
	}
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	pages := make([]ManifestPage, n)
	for i := range pages {
		p := ManifestPage{
			ID: job.PageID(hexes(32)), Tenant: fmt.Sprintf("school-%06d", i/2), Kind: job.RangePage, State: job.Completed,
		}
		if i%10 > 0 {
			p.Plan, p.Receipt, p.Recorded = hexes(64), hexes(64), 1000
			p.Totals.Counts[job.Deleted], p.Totals.Counts[job.Held] = 990, 10
			p.Totals.Candidates, p.Totals.Bytes = 1000, random.Int64N(1<<32)
		}
		pages[i] = p
	}
	return NewManifest(job.Run{
		ID: job.RunID(hexes(32)), Region: "eu-central-1", Policy: "uploads", Version: 3, PolicySHA256: hexes(64),
		Mode: job.Enforce, Scheduled: at, Cutoff: at.AddDate(0, -3, 0),
	}, pages, "v1.0.0")
}

// The bound is what this form measures plus a margin for another Go release's
// compressor: 80 of the bytes are the id and the two hashes, which nothing shrinks.
func TestBytesPerPage(t *testing.T) {
	m := many(5000)
	_, data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got := float64(len(data)) / float64(len(m.Pages))
	t.Logf("%.1f bytes per page", got)
	if got > 120 {
		t.Errorf("%.1f bytes per page, want at most 120", got)
	}
}

// No line of ours is longer than a reader takes.
func TestTheLongestLinesFit(t *testing.T) {
	p := ManifestPage{
		ID: job.PageID(strings.Repeat("f", 32)), Tenant: strings.Repeat("t", 128), Kind: job.RangePage, State: job.Completed,
		Plan: strings.Repeat("f", 64), Receipt: strings.Repeat("f", 64), Recorded: math.MaxInt / 4, Moved: math.MaxInt,
	}
	for _, o := range job.Outcomes() {
		p.Totals.Counts[o] = math.MaxInt / 40
	}
	p.Totals.Candidates, p.Totals.Bytes = p.Totals.Counts.Sum(), math.MaxInt64/4
	q := p
	q.ID, q.Kind, q.Parent = job.PageID(strings.Repeat("e", 32)), job.ItemPage, p.ID
	text := strings.Repeat(`"`, 256)
	at := time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	m := NewManifest(job.Run{
		ID: job.RunID(strings.Repeat("f", 32)), Region: text, Policy: text, Version: math.MaxInt, PolicySHA256: strings.Repeat("f", 64),
		Mode: job.ReportOnly, RequestID: text, Scheduled: at, Cutoff: at,
	}, []ManifestPage{p, q}, text)
	seal, data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := VerifyManifest(ManifestName(m.Header.RunID, seal.Manifest), data); err != nil {
		t.Error(err)
	}
	body, e := inflate(data)
	if e != nil {
		t.Fatal(e)
	}
	for i, line := range strings.SplitAfter(string(body), "\n") {
		t.Logf("line %d has %d bytes", i+1, len(line))
		if len(line) > maxManifestLine*3/4 {
			t.Errorf("line %d has %d bytes: too near the bound", i+1, len(line))
		}
	}
}

// A million pages take minutes to write in a test with the race detector: the bounds
// are tried where they stand.
func TestAManifestIsBounded(t *testing.T) {
	p := many(1).Pages[0]
	c := pageCheck{pageSums: pageSums{pages: MaxManifestPages - 1}}
	if text := c.page(&p); text != "" {
		t.Errorf("the last page: %s", text)
	}
	p.ID = job.PageID(strings.Repeat("0", 32))
	if text := c.page(&p); text != "more than 1000000 pages" {
		t.Errorf("a page more: %q", text)
	}
	r := lineReader{text: bufio.NewReader(strings.NewReader("{}\n{}\n")), n: MaxManifestPages + 1}
	if _, _, e := r.next(); e != nil {
		t.Errorf("the last line: %v", e)
	}
	if _, _, e := r.next(); e == nil || e.Text != "too many lines" {
		t.Errorf("a line more: %v", e)
	}
}

// Twice the pages take twice the memory: nothing in them is looked at again and again.
func TestManifestsGrowEvenly(t *testing.T) {
	allocated := func(n int) float64 {
		m := many(n)
		return testing.AllocsPerRun(1, func() {
			seal, data, err := m.Encode()
			if err == nil {
				_, _, err = VerifyManifest(ManifestName(m.Header.RunID, seal.Manifest), data)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, twice := allocated(2000), allocated(4000); twice > 2.2*few {
		t.Errorf("%v allocations for 2,000 pages, %v for 4,000", few, twice)
	}
}

func BenchmarkManifestEncode(b *testing.B) {
	m := many(50_000)
	var size int
	b.ReportAllocs()
	for b.Loop() {
		_, data, err := m.Encode()
		if err != nil {
			b.Fatal(err)
		}
		size = len(data)
	}
	b.ReportMetric(float64(size)/float64(len(m.Pages)), "bytes/page")
}

func BenchmarkManifestVerify(b *testing.B) {
	m := many(50_000)
	seal, data, err := m.Encode()
	if err != nil {
		b.Fatal(err)
	}
	name := ManifestName(m.Header.RunID, seal.Manifest)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := VerifyManifest(name, data); err != nil {
			b.Fatal(err)
		}
	}
}
