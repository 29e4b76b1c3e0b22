package receipt_test

import (
	"fmt"
	"testing"

	"github.com/expunge-aws/expunge/internal/receipt"
)

// The bounds are what this form measures plus a margin for another Go release's
// compressor; performance.md wants at most 60 for names as random as these.
func TestBytesPerObject(t *testing.T) {
	numbered := corpus(receipt.Receipt)
	for i := range numbered.Lines {
		numbered.Lines[i].Key = fmt.Sprintf("exports/school-42/2026/report-%06d.csv", 40*i)
	}
	for _, c := range []struct {
		name  string
		d     receipt.Document
		bound float64
	}{
		{"plan, random names", corpus(receipt.Plan), 55},
		{"receipt, random names", corpus(receipt.Receipt), 55},
		{"receipt, numbered names", numbered, 38},
	} {
		_, data, err := c.d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got := float64(len(data)) / float64(len(c.d.Lines))
		t.Logf("%s: %.2f bytes per object", c.name, got)
		if got > c.bound {
			t.Errorf("%s: %.2f bytes per object, want at most %v", c.name, got, c.bound)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	d := corpus(receipt.Receipt)
	var size int
	b.ReportAllocs()
	for b.Loop() {
		_, data, err := d.Encode()
		if err != nil {
			b.Fatal(err)
		}
		size = len(data)
	}
	b.ReportMetric(float64(size)/float64(len(d.Lines)), "bytes/object")
}

func BenchmarkVerify(b *testing.B) {
	d := corpus(receipt.Receipt)
	hash, data, err := d.Encode()
	if err != nil {
		b.Fatal(err)
	}
	name := receipt.Name(d.Header.Kind, d.Header.RunID, d.Header.PageID, hash)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := receipt.Verify(name, data); err != nil {
			b.Fatal(err)
		}
	}
}
