package receipt_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

func TestEveryFlippedByteIsRefused(t *testing.T) {
	for name, d := range documents() {
		t.Run(name, func(t *testing.T) {
			stored, data := encode(t, d)
			for i := range data {
				bad := bytes.Clone(data)
				bad[i] ^= 1 << (i % 8)
				if _, err := receipt.Verify(stored, bad); !failure.Is(err, failure.Invalid) {
					t.Fatalf("byte %d: %v", i, err)
				}
				// Without a name only what means something can be protected.
				if got, err := receipt.Decode(bad); err == nil && !cmp.Equal(d, got, equateEmpty) {
					t.Fatalf("byte %d: read as another document", i)
				}
			}
		})
	}
}

func TestEveryFlippedCharacterIsNamed(t *testing.T) {
	for name, d := range documents() {
		t.Run(name, func(t *testing.T) {
			_, data := encode(t, d)
			text := unpack(t, data)
			flips, exact := 0, 0
			for i := range text {
				line := 1 + bytes.Count(text[:i], []byte("\n"))
				bad := bytes.Clone(text)
				bad[i] ^= 1 << (i % 8)
				_, err := receipt.Decode(pack(bad))
				wantLine(t, err, -1)
				e, _ := errors.AsType[*receipt.LineError](err)
				if e.Line < line {
					t.Fatalf("byte %d of line %d: %v", i, line, err)
				}
				flips++
				if e.Line == line {
					exact++
				}
			}
			if exact*100 < flips*97 {
				t.Errorf("only %d of %d flips are named by their line", exact, flips)
			}
		})
	}
}

// Each change is refused under the seal it breaks, by line; and with a seal that
// was made to fit, by what documents never say or, at last, by the name.
func TestMovedLinesAreNamed(t *testing.T) {
	d := documents()["receipt"]
	stored, data := encode(t, d)
	lines := split(unpack(t, data))
	body := len(lines) - 1
	for i := 1; i < body; i++ {
		dropped := slices.Delete(slices.Clone(lines), i, i+1)
		_, err := receipt.Decode(pack(bytes.Join(dropped, nil)))
		wantLine(t, err, i+1)
		resealed := pack(sealed(dropped[:body-1]))
		if _, err := receipt.Decode(resealed); err != nil {
			t.Errorf("a shorter document that was sealed anew is whole: %v", err)
		}
		_, err = receipt.Verify(stored, resealed)
		wantLine(t, err, 0)

		doubled := slices.Insert(slices.Clone(lines), i, lines[i])
		_, err = receipt.Decode(pack(bytes.Join(doubled, nil)))
		wantLine(t, err, i+2)
		_, err = receipt.Decode(pack(sealed(doubled[:body+1])))
		wantLine(t, err, i+2)

		if i+1 == body {
			continue
		}
		swapped := slices.Clone(lines)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		_, err = receipt.Decode(pack(bytes.Join(swapped, nil)))
		wantLine(t, err, i+1)
		_, err = receipt.Decode(pack(sealed(swapped[:body])))
		if d.Lines[i-1].Key != d.Lines[i].Key { // versions of one key have no order
			wantLine(t, err, i+2)
		}
	}
	for n := range body {
		_, err := receipt.Decode(pack(bytes.Join(lines[:n], nil)))
		wantLine(t, err, -1)
	}
}

// Every text here is sealed to fit, so only the form or the contents refuse it.
func TestDecodeIsStrict(t *testing.T) {
	_, data := encode(t, receipt.Document{Header: header(receipt.Receipt), Lines: []receipt.Line{
		settled("a", job.Deleted, job.Answered), settled("b", job.Changed, ""),
	}})
	lines := split(unpack(t, data))
	lines = lines[:len(lines)-1]
	for _, c := range []struct {
		name     string
		line     int
		old, new string
	}{
		{"unknown field", 2, `"size"`, `"colour":"red","size"`},
		{"repeated field", 2, `"size":4096`, `"size":4096,"size":4096`},
		{"repeated field in the header", 1, `"fence":1`, `"fence":1,"fence":2`},
		{"unknown field in the header", 1, `"fence":1`, `"fence":1,"force":true`},
		{"another case", 2, `"size"`, `"Size"`},
		{"space", 2, `"size":4096`, `"size": 4096`},
		{"space before", 3, `{"key"`, ` {"key"`},
		{"CRLF", 3, "}\n", "}\r\n"},
		{"another escape", 2, `"key":"a"`, `"key":"\u0061"`},
		{"another number", 2, `4096`, `4096.0`},
		{"exponent", 2, `4096`, `4.096e3`},
		{"another order", 2, `"decision":"delete","reason":"expired"`, `"reason":"expired","decision":"delete"`},
		{"null", 2, `"size":4096`, `"size":null`},
		{"empty field", 3, `"reason":"expired"`, `"reason":"expired","hold_id":""`},
		{"string for a number", 2, `4096`, `"4096"`},
		{"another zone", 2, `2026-03-01T04:43:24Z`, `2026-03-01T05:43:24+01:00`},
		{"zeros in a time", 2, `04:43:24Z`, `04:43:24.000Z`},
		{"base64 of plain text", 2, `"key":"a"`, `"key_base64":"YQ=="`},
		{"both keys", 2, `"key":"a"`, `"key":"a","key_base64":"AP8="`},
		{"base64 with loose bits", 2, `"key":"a"`, `"key_base64":"AP9="`},
		{"no key", 2, `"key":"a",`, ``},
		{"invalid UTF-8", 2, `"key":"a"`, "\"key\":\"\xff\""},
		{"lone surrogate", 2, `"key":"a"`, `"key":"\ud800"`},
		{"two values", 2, "}\n", "}{}\n"},
		{"no object", 2, "{", "["},
		{"empty line", 3, "\n", "\n\n"},
		{"unknown outcome", 3, `"changed"`, `"gone"`},
		{"unknown decision", 3, `"delete"`, `"destroy"`},
		{"unknown proof", 2, `"answered"`, `"sworn"`},
		{"unknown kind", 1, `"receipt"`, `"report"`},
		{"schema zero", 1, `"schema":1`, `"schema":0`},
		{"newer schema", 1, `"schema":1`, `"schema":2`},
		{"upper-case id", 1, strings.Repeat("1", 32), strings.Repeat("A", 32)},
		{"cutoff in another zone", 1, `2026-06-01T00:00:00Z`, `2026-06-01T02:00:00+02:00`},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := slices.Clone(lines)
			if !bytes.Contains(bad[c.line-1], []byte(c.old)) {
				t.Fatalf("line %d has no %s: %s", c.line, c.old, bad[c.line-1])
			}
			bad[c.line-1] = bytes.Replace(bad[c.line-1], []byte(c.old), []byte(c.new), 1)
			_, err := receipt.Decode(pack(sealed(bad)))
			line := c.line
			if c.name == "empty line" {
				line = -1
			}
			wantLine(t, err, line)
			if e, _ := errors.AsType[*receipt.LineError](err); e.Newer != (c.name == "newer schema") {
				t.Errorf("newer is %v", e.Newer)
			}
		})
	}
}

func TestTrailerIsStrict(t *testing.T) {
	_, data := encode(t, documents()["plan"])
	text := unpack(t, data)
	lines := split(text)
	last := len(lines)
	body, trailer := bytes.Join(lines[:last-1], nil), string(lines[last-1])
	marks := trailer[strings.Index(trailer, `"marks":"`)+len(`"marks":"`):]
	for name, bad := range map[string]string{
		"missing":       "",
		"no newline":    strings.TrimSuffix(trailer, "\n"),
		"more":          trailer + "\n",
		"twice":         trailer + trailer,
		"another count": strings.Replace(trailer, `"items":4`, `"items":5`, 1),
		"no marks":      strings.Replace(trailer, marks, "\"}\n", 1),
		"short marks":   strings.Replace(trailer, marks, marks[2:], 1),
		"long marks":    strings.Replace(trailer, marks, "00"+marks, 1),
		"space":         strings.Replace(trailer, ",", ", ", 1),
		"unknown field": strings.Replace(trailer, "{", `{"x":1,`, 1),
		"not JSON":      "trailer\n",
		"null":          "null\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := receipt.Decode(pack(append(bytes.Clone(body), bad...)))
			wantLine(t, err, -1)
		})
	}
}

func TestCompressionIsStrict(t *testing.T) {
	name, data := encode(t, documents()["plan"])
	text := unpack(t, data)
	zip := func(level int, text []byte, set func(*gzip.Writer)) []byte {
		var out bytes.Buffer
		z, err := gzip.NewWriterLevel(&out, level)
		if err != nil {
			t.Fatal(err)
		}
		set(z)
		if _, err := z.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	const normal, best = gzip.DefaultCompression, gzip.BestCompression
	bomb := zip(normal, make([]byte, receipt.MaxText+1), func(*gzip.Writer) {})
	if len(bomb) > 32<<10 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	for what, bad := range map[string][]byte{
		"nothing":        nil,
		"plain text":     text,
		"header only":    data[:10],
		"a file name":    zip(normal, text, func(z *gzip.Writer) { z.Name = "x" }),
		"a time":         zip(normal, text, func(z *gzip.Writer) { z.ModTime = old }),
		"a comment":      zip(normal, text, func(z *gzip.Writer) { z.Comment = "x" }),
		"an extra field": zip(normal, text, func(z *gzip.Writer) { z.Extra = []byte("x") }),
		"another level":  zip(best, text, func(*gzip.Writer) {}),
		"two members":    append(pack(text[:20]), pack(text[20:])...),
		"empty member":   append(bytes.Clone(data), pack(nil)...),
		"byte after":     append(bytes.Clone(data), 0),
		"bomb":           bomb,
	} {
		_, err := receipt.Decode(bad)
		wantLine(t, err, 0)
		_, err = receipt.Verify(name, bad)
		wantLine(t, err, 0)
		if t.Failed() {
			t.Fatal(what)
		}
	}
	for n := range data {
		if _, err := receipt.Decode(data[:n]); !failure.Is(err, failure.Invalid) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
}

func TestVerifyBindsTheName(t *testing.T) {
	d := documents()["plan"]
	name, data := encode(t, d)
	parts, err := receipt.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	for what, other := range map[string]string{
		"kind": receipt.Name(receipt.Receipt, parts.RunID, parts.PageID, parts.Hash),
		"run":  receipt.Name(parts.Kind, job.RunID(parts.PageID), parts.PageID, parts.Hash),
		"page": receipt.Name(parts.Kind, parts.RunID, job.PageID(parts.RunID), parts.Hash),
	} {
		_, err := receipt.Verify(other, data)
		wantLine(t, err, 1)
		if t.Failed() {
			t.Fatal(what)
		}
	}
	_, err = receipt.Verify(receipt.Name(parts.Kind, parts.RunID, parts.PageID, hashA), data)
	wantLine(t, err, 0)
	if _, err := receipt.Verify("plan.jsonl.gz", data); !failure.Is(err, failure.Invalid) {
		t.Errorf("no name at all: %v", err)
	}
}

// An error goes to logs, where keys must never stand.
func TestErrorsQuoteNothing(t *testing.T) {
	d := documents()["plan"]
	_, data := encode(t, d)
	lines := split(unpack(t, data))
	for i := range lines {
		bad := slices.Clone(lines)
		bad[i] = bytes.Replace(bad[i], []byte(`"`), []byte(`"secret`), 1)
		for _, text := range [][]byte{bytes.Join(bad, nil), sealed(bad[:len(bad)-1])} {
			_, err := receipt.Decode(pack(text))
			if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "uploads")) {
				t.Errorf("quotes the document: %v", err)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, d := range documents() {
		_, data := encode(f, d)
		f.Add(data)
		f.Add(unpack(f, data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		forms := [][]byte{data}
		if len(data) < 1<<16 {
			forms = append(forms, pack(data))
			if lines := bytes.SplitAfter(data, []byte("\n")); len(lines) > 2 && len(lines) < 100 {
				forms = append(forms, pack(sealed(lines[:len(lines)-2])))
			}
		}
		for _, form := range forms {
			d, err := receipt.Decode(form)
			if err != nil {
				wantLine(t, err, -1)
				continue
			}
			_, again, err := d.Encode()
			if err != nil {
				t.Fatalf("what Decode accepts, Encode writes: %v", err)
			}
			if !bytes.Equal(unpack(t, again), unpack(t, form)) {
				t.Fatal("a document has two texts")
			}
		}
	})
}
