package receipt_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var old = time.Date(2026, 3, 1, 4, 43, 24, 0, time.UTC)

// planned returns an item that a plan may delete.
func planned(key string) receipt.Line {
	return receipt.Line{
		Item:     job.Item{Key: key, ETag: `"9e107d9d372bb6826bd81d3542a419d6"`, Size: 4096, Modified: old},
		Decision: receipt.Delete, Reason: "expired",
	}
}

func with(l receipt.Line, change func(*receipt.Line)) receipt.Line {
	change(&l)
	return l
}

// settled returns an item of a receipt.
func settled(key string, o job.Outcome, p job.Proof) receipt.Line {
	return with(planned(key), func(l *receipt.Line) { l.Outcome, l.Proof = o, p })
}

// oddKeys are keys that some layer somewhere would like to change.
var oddKeys = []string{
	"\x00nul", "\ttab", "\nline\r\nends", "\x1bescape", "\"quote\\", "../..//dots", "<&>", "\x7fdel", "caf\u00e9", "cafe\u0301",
	"\u0085next", "\u2028line\u2029paragraph", "\ufeffbom", "\ufffdreplacement", "\U0001f5d1bin",
	"\xc0\x80overlong", "\xed\xa0\x80surrogate", "\xf5beyond", "\xff\xfe",
}

func documents() map[string]receipt.Document {
	first := receipt.Document{Header: header(receipt.Plan), Lines: []receipt.Line{
		planned("uploads/a.pdf"),
		with(planned("uploads/b.pdf"), func(l *receipt.Line) { l.Decision, l.Reason, l.HoldID = receipt.Held, "hold", "h-1" }),
		with(planned("uploads/c.pdf"), func(l *receipt.Line) { l.Decision, l.Reason = receipt.Retained, "over_limit" }),
		with(planned("uploads/d.pdf"), func(l *receipt.Line) { l.Modified = old.Add(123456789) }),
	}}
	narrowed := receipt.Document{Header: header(receipt.Plan), Lines: []receipt.Line{
		with(planned("uploads/a.pdf"), func(l *receipt.Line) {
			l.Decision, l.Reason, l.HoldID, l.SettleAt = receipt.Veto, "hold", "h-2", old.Add(100*24*time.Hour)
		}),
		with(planned("uploads/d.pdf"), func(l *receipt.Line) { l.Modified = old.Add(123456789) }),
	}}
	narrowed.Header.Narrows, narrowed.Header.Fence, narrowed.Header.HoldEpoch = hashB, 2, 5
	answer := receipt.Document{Header: header(receipt.Receipt), Lines: []receipt.Line{
		settled("01", job.Deleted, job.Answered),
		settled("02", job.Deleted, job.Inferred),
		settled("03", job.DeletedMarkerOnly, job.Answered),
		settled("04", job.AlreadyAbsent, ""),
		settled("05", job.Changed, ""),
		settled("06", job.Superseded, ""),
		with(settled("07", job.Held, ""), func(l *receipt.Line) { l.Decision, l.Reason, l.HoldID = receipt.Held, "hold", "h-1" }),
		with(settled("08", job.Retained, ""), func(l *receipt.Line) { l.Decision, l.Reason = receipt.Retained, "over_limit" }),
		settled("09", job.Refused, ""),
		settled("10", job.Failed, ""),
		settled("11", job.NoOutcome, ""),
		with(settled("12", job.NoOutcome, ""), func(l *receipt.Line) { l.Decision, l.Reason = receipt.Moved, "split" }),
		with(settled("13", job.Deleted, job.Inferred), func(l *receipt.Line) {
			l.Decision, l.Reason, l.HoldID, l.SettleAt = receipt.Veto, "hold", "h-2", old
		}),
		with(settled("14", job.Deleted, job.Inferred), func(l *receipt.Line) { l.Version = "3/L4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY" }),
		with(settled("14", job.Deleted, job.Inferred), func(l *receipt.Line) {
			l.Version, l.ETag, l.Size, l.Marker = "null", "", 0, true
		}),
	}}
	report := receipt.Document{Header: header(receipt.Receipt), Lines: []receipt.Line{
		settled("a", job.WouldDelete, ""), settled("b", job.Changed, ""),
	}}
	report.Header.Mode = job.ReportOnly
	odd := receipt.Document{Header: header(receipt.Plan)}
	for _, key := range slices.Sorted(slices.Values(oddKeys)) {
		odd.Lines = append(odd.Lines, with(planned(key), func(l *receipt.Line) { l.Version = "v\xff" }))
	}
	return map[string]receipt.Document{
		"plan": first, "plan-narrowed": narrowed, "plan-empty": {Header: header(receipt.Plan)}, "plan-odd-keys": odd,
		"receipt": answer, "receipt-report-only": report,
	}
}

func encode(t testing.TB, d receipt.Document) (name string, data []byte) {
	t.Helper()
	hash, data, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return receipt.Name(d.Header.Kind, d.Header.RunID, d.Header.PageID, hash), data
}

func unpack(t testing.TB, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// pack wraps a text the way documents are, whatever it says, in stored blocks: a
// compressor's tables would take most of the tests' time.
func pack(text []byte) []byte {
	out := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
	for rest, last := text, false; !last; {
		n := min(len(rest), 0xffff)
		final := byte(0)
		if last = n == len(rest); last {
			final = 1
		}
		out = append(out, final)
		out = binary.LittleEndian.AppendUint16(out, uint16(n))
		out = binary.LittleEndian.AppendUint16(out, ^uint16(n))
		out, rest = append(out, rest[:n]...), rest[n:]
	}
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(text))
	return binary.LittleEndian.AppendUint32(out, uint32(len(text)))
}

// sealed computes the trailer again from the package comment's words, as
// someone would who covers up a change.
func sealed(lines [][]byte) []byte {
	var text, marks []byte
	for _, line := range lines {
		text = append(text, line...)
		sum := sha256.Sum256(text)
		marks = append(marks, sum[0])
	}
	sum := sha256.Sum256(text)
	return fmt.Appendf(text, `{"items":%d,"sha256":"%x","marks":"%x"}`+"\n", len(lines)-1, sum, marks)
}

func sum(data []byte) []byte {
	s := sha256.Sum256(data)
	return s[:]
}

func split(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	return lines[:len(lines)-1]
}

// wantLine requires a refusal that names the line; line -1 is any.
func wantLine(t *testing.T, err error, line int) {
	t.Helper()
	if !failure.Is(err, failure.Invalid) {
		t.Fatalf("error is %v, want class invalid", err)
	}
	e, ok := errors.AsType[*receipt.LineError](err)
	if !ok {
		t.Fatalf("%v holds no LineError", err)
	}
	if line >= 0 && e.Line != line {
		t.Errorf("error names line %d, want %d: %v", e.Line, line, err)
	}
}

// The text is golden. The stored bytes beside it were written once and must be
// read forever, though a later compressor writes others.
func TestGolden(t *testing.T) {
	for name, d := range documents() {
		t.Run(name, func(t *testing.T) {
			_, data := encode(t, d)
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
			hash := fmt.Sprintf("%x", sha256.Sum256(stored))
			got, err := receipt.Verify(receipt.Name(d.Header.Kind, d.Header.RunID, d.Header.PageID, hash), stored)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d, got, equateEmpty); diff != "" {
				t.Errorf("document differs (-want +got):\n%s", diff)
			}
		})
	}
}

var equateEmpty = cmp.Transformer("lines", func(l []receipt.Line) []receipt.Line {
	if len(l) == 0 {
		return nil
	}
	return slices.Clone(l)
})

func drawLine(t *rapid.T, kind receipt.Kind, mode job.Mode) receipt.Line {
	zone := time.FixedZone("", rapid.IntRange(-12*3600, 14*3600).Draw(t, "zone"))
	odd := rapid.OneOf(rapid.StringN(1, 40, 200), rapid.SampledFrom(oddKeys),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 40), func(b []byte) string { return string(b) }))
	l := receipt.Line{Decision: receipt.Delete, Reason: "expired", Item: job.Item{
		Key: odd.Draw(t, "key"), ETag: rapid.String().Draw(t, "etag"),
		Size:     rapid.Int64Range(0, 1<<62).Draw(t, "size"),
		Modified: old.Add(-time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "age"))).In(zone),
	}}
	if rapid.Bool().Draw(t, "versioned") {
		l.Version = odd.Draw(t, "version")
	}
	switch rapid.IntRange(0, 4).Draw(t, "decision") {
	case 0:
		l.Decision, l.Reason, l.HoldID = receipt.Held, "hold", rapid.String().Draw(t, "hold")
	case 1:
		l.Decision, l.Reason, l.HoldID, l.SettleAt = receipt.Veto, "hold", "h", l.Modified.Add(1)
	case 2:
		l.Marker, l.Size = true, 0
	}
	if kind == receipt.Receipt && l.Decision != receipt.Held {
		l.Outcome = rapid.SampledFrom(append(job.Outcomes(), job.NoOutcome)).Draw(t, "outcome")
		switch {
		case mode == job.ReportOnly && l.Outcome.Deletes():
			l.Outcome = job.WouldDelete
		case mode == job.Enforce && l.Outcome == job.WouldDelete:
			l.Outcome = job.Deleted
		}
		if l.Outcome.Deletes() {
			l.Proof = rapid.SampledFrom([]job.Proof{job.Answered, job.Inferred}).Draw(t, "proof")
		}
	}
	return l
}

func drawDocument(t *rapid.T) receipt.Document {
	kind := rapid.SampledFrom([]receipt.Kind{receipt.Plan, receipt.Receipt}).Draw(t, "kind")
	d := receipt.Document{Header: header(kind)}
	d.Header.Mode = rapid.SampledFrom([]job.Mode{job.Enforce, job.ReportOnly}).Draw(t, "mode")
	for range rapid.IntRange(0, 30).Draw(t, "items") {
		d.Lines = append(d.Lines, drawLine(t, kind, d.Header.Mode))
	}
	slices.SortStableFunc(d.Lines, func(a, b receipt.Line) int { return strings.Compare(a.Key, b.Key) })
	seen := map[job.Ref]bool{}
	d.Lines = slices.DeleteFunc(d.Lines, func(l receipt.Line) bool {
		again := seen[l.Ref()]
		seen[l.Ref()] = true
		return again
	})
	return d
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drawDocument(rt)
		name, data := encode(t, d)
		got, err := receipt.Verify(name, data)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(d, got, equateEmpty); diff != "" {
			rt.Fatalf("differs (-put +got):\n%s", diff)
		}
		for _, l := range got.Lines {
			if l.Modified.Location() != time.UTC {
				rt.Fatalf("time in %v", l.Modified.Location())
			}
		}
		again, _ := encode(t, got)
		if again != name {
			rt.Fatalf("encoded again: %s, first %s", again, name)
		}
	})
}

func TestEncodeIsDeterministic(t *testing.T) {
	d := corpus(receipt.Receipt)
	elsewhere := corpus(receipt.Receipt)
	zone := time.FixedZone("", 3600)
	elsewhere.Header.Cutoff = elsewhere.Header.Cutoff.In(zone)
	for i := range elsewhere.Lines {
		elsewhere.Lines[i].Modified = elsewhere.Lines[i].Modified.In(zone)
	}
	name, data := encode(t, d)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			hash, again, err := []receipt.Document{d, elsewhere}[i%2].Encode()
			if err != nil || !bytes.Equal(data, again) || !strings.Contains(name, hash) {
				t.Errorf("other bytes, or %v", err)
			}
		})
	}
	wg.Wait()
}

func TestTheWorstPageFits(t *testing.T) {
	d := receipt.Document{Header: header(receipt.Receipt)}
	for i := range receipt.MaxLines {
		key := fmt.Sprintf("%04d", i) + strings.Repeat("\x01", 1020)
		d.Lines = append(d.Lines, with(settled(key, job.DeletedMarkerOnly, job.Answered), func(l *receipt.Line) {
			l.Version = strings.Repeat("\x02", 1024)
		}))
	}
	name, data := encode(t, d)
	if _, err := receipt.Verify(name, data); err != nil {
		t.Error(err)
	}
	d.Lines = append(d.Lines, planned("9999"))
	if _, _, err := d.Encode(); !failure.Is(err, failure.Bug) {
		t.Errorf("one item more: %v", err)
	}
	d.Lines = d.Lines[:1]
	d.Lines[0].Version = strings.Repeat("\x02", receipt.MaxText/6)
	if _, _, err := d.Encode(); !failure.Is(err, failure.Bug) {
		t.Errorf("a text over the cap: %v", err)
	}
}

// The hash is what sha256sum prints, and the seal what the package comment's
// shell lines print.
func TestAnybodyCanCheck(t *testing.T) {
	d := documents()["receipt"]
	hash, data, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
		t.Error("the hash is not the bytes' SHA-256")
	}
	text := unpack(t, data)
	lines := split(text)
	if !bytes.Equal(sealed(lines[:len(lines)-1]), text) {
		t.Errorf("trailer is\n%s", lines[len(lines)-1])
	}
}
