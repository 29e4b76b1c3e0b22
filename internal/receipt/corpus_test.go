package receipt_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

var (
	hashA = strings.Repeat("a", 64)
	hashB = strings.Repeat("b", 64)
)

func header(kind receipt.Kind) receipt.Header {
	h := receipt.Header{
		Kind: kind, Schema: receipt.Schema,
		RunID: job.RunID(strings.Repeat("1", 32)), PageID: job.PageID(strings.Repeat("2", 32)),
		Tenant: "school-42", Policy: "uploads", PolicyVersion: 3, PolicySHA256: hashA, Mode: job.Enforce,
		Bucket: "artifacts-eu", Cutoff: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC),
		Fence: 1, HoldEpoch: 4, CodeVersion: "v1.0.0",
	}
	if kind == receipt.Receipt {
		h.Plan = hashB
	}
	return h
}

// corpus is a page of a thousand uploads as S3 lists them: names with a date and
// a random UUID, quoted MD5 ETags, whole seconds, sizes from 1 KB to 4 MB. What
// is random in it takes 36 bytes an item, whatever the form.
func corpus(kind receipt.Kind) receipt.Document {
	random := rand.New(rand.NewPCG(1, 2))
	hexes := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "0123456789abcdef"[random.IntN(16)]
		}
		return string(b)
	}
	d := receipt.Document{Header: header(kind)}
	for i := range 1000 {
		day := time.Date(2026, 3, 1+i/200, 0, 0, 0, 0, time.UTC)
		u := hexes(32)
		d.Lines = append(d.Lines, receipt.Line{
			Item: job.Item{
				Key: fmt.Sprintf("uploads/school-42/%s/%s-%s-4%s-a%s-%s.pdf", day.Format("2006/01/02"),
					u[:8], u[8:12], u[13:16], u[17:20], u[20:]),
				ETag:     `"` + hexes(32) + `"`,
				Size:     1<<10 + random.Int64N(1<<22),
				Modified: day.Add(time.Duration(random.IntN(86400)) * time.Second),
			},
			Decision: receipt.Delete, Reason: "expired",
		})
	}
	slices.SortFunc(d.Lines, func(a, b receipt.Line) int { return strings.Compare(a.Key, b.Key) })
	if kind == receipt.Receipt {
		for i := range d.Lines {
			l := &d.Lines[i]
			l.Outcome, l.Proof = job.Deleted, job.Answered
			switch i % 100 {
			case 17:
				l.Outcome, l.Proof = job.Changed, ""
			case 42:
				l.Proof = job.Inferred
			case 77:
				l.Decision, l.Reason, l.HoldID, l.Outcome, l.Proof = receipt.Held, "hold", "h-2026-17", job.Held, ""
			}
		}
	}
	return d
}
