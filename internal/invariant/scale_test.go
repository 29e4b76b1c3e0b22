package invariant

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// many is a world of n deleted items in pages of a thousand.
func many(t testing.TB, n int) Facts {
	t.Helper()
	w := &world{}
	s := &runSpec{policy: testPolicy("exports", job.Enforce), state: job.Closed}
	for page := range n / 1000 {
		lines := make([]receipt.Line, 1000)
		for i := range lines {
			lines[i] = deleted(fmt.Sprintf("exports/tenant-%d/reports/2026/%03d/%06d.csv", page%7, page, i))
			lines[i].ETag = fmt.Sprintf("%032x", page*1000+i)
		}
		p := settledPage("exports-bucket", fmt.Sprintf("tenant-%d", page%7), lines...)
		p.after = fmt.Sprintf("reports/2026/%03d/", page)
		s.pages = append(s.pages, p)
	}
	w.runs = []*runSpec{s}
	f := w.build(t)
	for i := range f.Pages { // as many events as a run emits
		for range 5 {
			f.Events = append(f.Events, audit.Event{Event: audit.Attempted, Region: region, MessageID: "message", CodeVersion: code}.About(f.Runs[0], f.Pages[i]))
		}
	}
	return f
}

// The race detector makes decoding thirty times slower; BenchmarkCheck has the
// full size.
func TestManyItems(t *testing.T) {
	const items = 5_000
	f := many(t, items)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	results := Check(f)
	runtime.ReadMemStats(&after)
	t.Logf("allocated %d MB, heap grew by %d MB", (after.TotalAlloc-before.TotalAlloc)>>20, (int64(after.HeapSys)-int64(before.HeapSys))>>20)
	if ids := violated(results); len(ids) > 0 {
		t.Fatalf("violated %v\n%s", ids, details(results))
	}
	if results[0].Checked != items {
		t.Errorf("S1 looked at %d", results[0].Checked)
	}
}

// BenchmarkCheck judges 200,000 deletes: the bound is 3 s, and receipt.Verify takes
// four fifths of what is used.
func BenchmarkCheck(b *testing.B) {
	f := many(b, 200_000)
	for b.Loop() {
		Check(f)
	}
}
