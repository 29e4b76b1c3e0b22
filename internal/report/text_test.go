package report

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/expunge-aws/expunge/internal/job"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func written(t *testing.T, in Input, opts Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteText(&b, Build(in), opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			opts := Options{Evidence: ".expunge/evidence", File: ".expunge/run.json"}
			got := written(t, in, opts)
			file := "testdata/" + name + ".golden"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("not as in %s (go test -update writes it):\n%s", file, got)
			}
			for line := range strings.Lines(got) {
				line = strings.TrimSuffix(line, "\n")
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%d columns: %s", n, line)
				}
				if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("not printable: %q", line)
				}
			}
		})
	}
}

func TestColorIsAskedFor(t *testing.T) {
	for name, in := range inputs() {
		plainText, colored := written(t, in, Options{}), written(t, in, Options{Color: true})
		if strings.Contains(plainText, "\x1b") || !strings.Contains(colored, "\x1b[") {
			t.Errorf("%s: color does not follow the option", name)
		}
		for _, code := range []string{bold, red, green, amber, plain} {
			colored = strings.ReplaceAll(colored, code, "")
		}
		if colored != plainText {
			t.Errorf("%s: color changes the text", name)
		}
	}
}

func TestEveryReasonHasAdvice(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range job.Reasons() {
		if advice(r) == advice("") {
			t.Errorf("%s: no advice", r)
		}
		seen[advice(r)] = true
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB", 10_240: "10.0 KiB", 1 << 20: "1.00 MiB",
		1<<20 - 1: "1.00 MiB", 1_023_000: "999 KiB", 18_240_000: "17.4 MiB", 1 << 62: "4.00 EiB", 1<<63 - 1: "8.00 EiB",
	} {
		if got := human(n); got != want {
			t.Errorf("human(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestGroup(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 18_240: "18,240"} {
		if got := group(n); got != want {
			t.Errorf("group(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"school-42": "school-42", "a\x1b[31mb": `a\x1b[31mb`, "a\nb\t": `a\nb\t`, "\xff\x00": `\xff\x00`, "\u202eabc": `\u202eabc`, "größe": "größe", "\u0085": `\u0085`,
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %s, want %s", in, got, want)
		}
	}
}
