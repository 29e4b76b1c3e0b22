package audit_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var now = time.Date(2026, 3, 8, 2, 30, 0, 250_000_000, time.UTC)

func emit(events ...audit.Event) string {
	var b bytes.Buffer
	lines := audit.NewLines(&b, "prod")
	for _, e := range events {
		lines.Emit(e)
	}
	return b.String()
}

// samples are an event of each kind that R99 asks for, with the fields of R100,
// and one with nothing in it but its name.
func samples() []audit.Event {
	run := job.Run{ID: "010fb4509226f6589d1638b57f6e4c03", Region: "eu-central-1", Policy: "exports", Version: 7}
	page := job.Page{ID: "7a0bc7ea47c9d69657bb46b64fd5fe22", Tenant: "school-42", Attempts: 2}
	var all []audit.Event
	for _, name := range []audit.Name{audit.Enqueued, audit.Attempted, audit.Succeeded, audit.DeadLettered, audit.Redriven} {
		e := audit.Event{Time: now, Event: name, QueueAgeMS: 1500, MessageID: "m-1", CodeVersion: "1.2.3"}.About(run, page)
		if name == audit.Succeeded {
			e.Count, e.Deleted, e.Held, e.RecoveryMS = 30, 26, 2, 90_500
		}
		if name == audit.DeadLettered {
			e.Reason, e.FailureClass, e.Operation = job.ReasonForbidden, failure.Forbidden, "delete page"
		}
		all = append(all, e)
	}
	return append(all, audit.Event{Event: audit.RunOpened})
}

// R99, R100: names, order and types of the fields on the wire.
func TestGoldenLines(t *testing.T) {
	path := filepath.Join("testdata", "lines.golden")
	got := emit(samples()...)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("lines are\n%s\nwant\n%s", got, want)
	}
}

// R100: these six are in the line of every attempt, and always of the same type.
func TestFieldsOfR100(t *testing.T) {
	e := samples()[3]
	var line map[string]any
	if err := json.Unmarshal([]byte(emit(e)), &line); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"job_id": "7a0bc7ea47c9d69657bb46b64fd5fe22", "tenant_id": "school-42", "region": "eu-central-1",
		"attempt": 2.0, "queue_age_ms": 1500.0, "failure_class": "forbidden",
	} {
		if line[name] != want {
			t.Errorf("%s is %v, want %v", name, line[name], want)
		}
	}
	first := map[string]any{}
	if err := json.Unmarshal([]byte(emit(audit.Event{})), &first); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"timestamp", "event", "region", "attempt", "queue_age_ms"} {
		if _, there := first[name]; !there {
			t.Errorf("%s is left out when it is zero", name)
		}
	}
}

// hostile returns an event with the text in every field that takes one.
func hostile(text string) audit.Event {
	e := audit.Event{Time: now}
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.String {
			v.Field(i).SetString(text)
		}
	}
	return e
}

// OB-02: whatever the values, an event is one line, the line is one JSON object of
// printed ASCII, and the values in it are the values that were emitted.
func TestOB02ValuesForgeNoLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"line feed":         {"x\n{\"event\":\"cleanup_succeeded\"}\n", ""},
		"carriage return":   {"x\r{\"event\":\"cleanup_succeeded\"}\r\n", ""},
		"line separator":    {"x\u2028{}\u2029", ""},
		"next line":         {"x\u0085{}", ""},
		"vertical tab":      {"x\v\f{}", ""},
		"ANSI":              {"x\x1b[2K\x1b[1A\x1b]8;;http://x\a", ""},
		"ANSI in one byte":  {"x\u009b2K", ""},
		"backspace":         {"x\b\b\x7f", ""},
		"right to left":     {"x\u202e\u2066", ""},
		"zero width":        {"x\u200b\ufeff", ""},
		"NUL":               {"x\x00", ""},
		"quote":             {`x","event":"cleanup_succeeded`, ""},
		"backslash":         {`x\`, ""},
		"other letters":     {"schöol-学校-\U0001f600", ""},
		"the largest rune":  {"\U0010ffff", ""},
		"not UTF-8":         {"x\xff\xfe", "x\ufffd\ufffd"},
		"a split character": {"x\xe2\x80", "x\ufffd\ufffd"},
	} {
		want := c.want
		if want == "" {
			want = c.text
		}
		got := emit(hostile(c.text), audit.Event{Event: audit.RunClosed})
		line, rest, _ := strings.Cut(got, "\n")
		if strings.Count(got, "\n") != 2 || !strings.HasSuffix(got, "\n") || !strings.Contains(rest, `"run_closed"`) {
			t.Errorf("%s: two events are\n%q", name, got)
			continue
		}
		for i := range len(line) {
			if line[i] < ' ' || line[i] > '~' {
				t.Errorf("%s: byte %#x in %q", name, line[i], line)
				break
			}
		}
		var e audit.Event
		if err := json.Unmarshal([]byte(line), &e, json.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%s: %v in %q", name, err, line)
			continue
		}
		if e != hostile(want) {
			t.Errorf("%s: came back as %+v", name, e)
		}
	}
}

// whole fails the test when a write is not exactly one line.
type whole struct {
	t     *testing.T
	lines []string
}

func (w *whole) Write(b []byte) (int, error) {
	if bytes.Count(b, []byte("\n")) != 1 || !bytes.HasSuffix(b, []byte("\n")) || !jsontext.Value(b).IsValid() {
		w.t.Errorf("one write is %q", b)
	}
	w.lines = append(w.lines, string(b))
	return len(b), nil
}

// Lines takes no care of its writer: the race detector would see two at once.
func TestConcurrentWritersDoNotInterleave(t *testing.T) {
	w := &whole{t: t}
	lines, kept := audit.NewLines(w, "prod"), &audit.Log{}
	sink := audit.Both(lines, kept)
	const writers, events = 16, 50
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range events {
				sink.Emit(audit.Event{Event: audit.Attempted, MessageID: strings.Repeat("m", i*20), Count: i*events + n + 1})
			}
		})
	}
	wg.Wait()
	if len(w.lines) != writers*events || len(kept.Events()) != writers*events {
		t.Fatalf("%d lines, %d kept", len(w.lines), len(kept.Events()))
	}
	seen := map[int]bool{}
	for _, line := range w.lines {
		var e audit.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		seen[e.Count] = true
	}
	if len(seen) != writers*events {
		t.Errorf("%d different events", len(seen))
	}
}

func TestLogKeepsTheOrderAndSharesNothing(t *testing.T) {
	var log audit.Log
	for i := range 3 {
		log.Emit(audit.Event{Count: i})
	}
	log.Events()[0].Count = 99
	_ = append(log.Events()[:1], audit.Event{})
	for i, e := range log.Events() {
		if e.Count != i {
			t.Errorf("event %d is %+v", i, e)
		}
	}
}

func TestAboutFillsRunAndPage(t *testing.T) {
	before := audit.Event{Time: now, Event: audit.Retried, QueueAgeMS: 5, FailureClass: failure.Network, Operation: "o", Reason: job.ReasonAge, MessageID: "m", CodeVersion: "c", Count: 3}
	want := before
	want.Region, want.RunID, want.Policy, want.Version = "r", "run", "p", 4
	want.JobID, want.TenantID, want.Attempt = "page", "t", 2
	got := before.About(job.Run{ID: "run", Region: "r", Policy: "p", Version: 4, Tenant: "other", Cursor: "key"},
		job.Page{ID: "page", Tenant: "t", Attempts: 2, Fence: 9, After: "key"})
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The closed list of what may leave the process. There is no field for a key, a
// body, the text of an error, or a map that could take one.
func TestEventHasNoFieldForAKeyOrAText(t *testing.T) {
	want := []string{
		"Time time.Time timestamp",
		"Event audit.Name event",
		"Region string region",
		"RunID job.RunID run_id",
		"JobID job.PageID job_id",
		"TenantID string tenant_id",
		"Policy string policy",
		"Version int policy_version",
		"Attempt int attempt",
		"QueueAgeMS int64 queue_age_ms",
		"FailureClass failure.Class failure_class",
		"Operation string operation", // failure.Op: our own words and ids
		"Reason job.Reason reason",
		"MessageID string message_id",
		"CodeVersion string code_version",
		"Count int count",
		"Deleted int deleted",
		"Held int held",
		"RecoveryMS int64 recovery_ms",
		"HoldID string hold_id", // its form is checked: no text of an operator
		"RedriveID job.RedriveID redrive_id",
		"Scheduled time.Time scheduled",
	}
	var got []string
	for f := range reflect.TypeFor[audit.Event]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		got = append(got, fmt.Sprintf("%s %s %s", f.Name, f.Type, name))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the fields of an event are\n%s\nA new one leaves the process: it must not be able to carry a key, a body or the text of an error.", strings.Join(got, "\n"))
	}
}

// names are the events, by the source that declares them.
func names(t *testing.T) (all []string) {
	t.Helper()
	for _, spec := range constants(t, "audit.go", "Name") {
		all = append(all, spec.value)
	}
	return all
}

// constant is a constant as it is declared.
type constant struct{ name, value string }

// constants are those of a type in a file.
func constants(t *testing.T, file, of string) (all []constant) {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		name, named := spec.Type.(*ast.Ident)
		text, literal := spec.Values[0].(*ast.BasicLit)
		if named && literal && name.Name == of {
			all = append(all, constant{spec.Names[0].Name, strings.Trim(text.Value, `"`)})
		}
		return true
	})
	return all
}

// Names are what metrics count and alarms look for: each once, each plain.
func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, word := range names(t) {
		if seen[word] || word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("the event %q is named twice or not in lower case", word)
		}
		seen[word] = true
	}
	for _, r99 := range []string{"cleanup_enqueued", "cleanup_attempted", "cleanup_succeeded", "cleanup_dead_lettered", "cleanup_redriven"} {
		if !seen[r99] {
			t.Errorf("R99: no event %s", r99)
		}
	}
}
