package wiring_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	enqueuehandler "github.com/expunge-aws/expunge/functions/enqueue/handler"
	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/receipt"
)

// The corpus: what nobody should send, write into a policy or call an object, one file
// for each kind and one line for each entry. Every entry goes to the handler that would
// get it, and ends in a refusal, in a dead letter with its reason, or, for a key, in
// exactly the fate that its policy has for it.
const corpusFolder = "testdata/corpus/"

// entry is a line of the corpus.
type entry struct {
	Name   string `json:"name"`
	Hazard string `json:"hazard"`
	// Function is who is asked.
	Function string `json:"function"`
	// Text is the entry, Base64 one that is no text.
	Text   string `json:"text"`
	Base64 []byte `json:"base64"`
	// Fill stands for so many letters, or blanks, at the place of {fill}.
	Fill  int  `json:"fill"`
	Space bool `json:"space"`
	// Age of an object: old or young. Held: a hold is on exactly this key.
	Age  string `json:"age"`
	Held bool   `json:"held"`
	// Silent: what the entry says of itself may not be quoted to whoever reads the refusal.
	Silent bool `json:"silent"`
	// Fate is what becomes of it: see the test of its kind.
	Fate string `json:"fate"`
}

func (e entry) bytes() []byte {
	if e.Text == "" && e.Base64 != nil {
		return e.Base64
	}
	letter := "x"
	if e.Space {
		letter = " "
	}
	return []byte(strings.Replace(e.Text, "{fill}", strings.Repeat(letter, e.Fill), 1))
}

// corpus reads the entries of a kind.
func corpus(t *testing.T, kind string) (all []entry) {
	t.Helper()
	data, err := os.ReadFile(corpusFolder + kind + ".jsonl")
	must(t, err)
	for line := range bytes.Lines(data) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		var e entry
		must(t, d.Decode(&e))
		all = append(all, e)
	}
	return all
}

// hazards are the ways in which an input can be bad. Each is in the corpus.
var hazards = strings.Split(`1,024-byte key
another protocol
another tenant's prefix
authority in the message
case variant
control character
credential
deep nesting
dot segments
duplicate key
empty
empty prefix
empty segment
forbidden tenant
forged hash
huge payload
invalid UTF-8
log injection
malformed JSON
malformed YAML
missing field
negative number
newer schema
normalisation pair
null
number out of range
older schema
overlong id
percent-encoded key
personal data
plan token
presigned URL
too young
trailing data
unicode key
unicode look-alike
unknown field
unknown page
unknown policy version
unknown run
wrong region
wrong type
XML-hostile key
YAML trick
zero retention`, "\n")

// TestCorpusHasEveryHazard counts the entries, so that none of the tests below passes
// because it had nothing to do.
func TestCorpusHasEveryHazard(t *testing.T) {
	found, named, total := map[string]int{}, map[string]bool{}, 0
	for kind, least := range map[string]int{"messages": 100, "requests": 100, "policies": 60, "keys": 100} {
		all := corpus(t, kind)
		if total += len(all); len(all) < least {
			t.Errorf("%d %s, want %d", len(all), kind, least)
		}
		for _, e := range all {
			if named[kind+e.Name] || e.Name == "" || e.Fate == "" || !slices.Contains(hazards, e.Hazard) {
				t.Errorf("%s: %q of hazard %q with fate %q", kind, e.Name, e.Hazard, e.Fate)
			}
			named[kind+e.Name] = true
			found[e.Hazard]++
		}
	}
	for _, h := range hazards {
		if found[h] == 0 {
			t.Errorf("nothing has the hazard: %s", h)
		}
	}
	t.Logf("%d entries of %d hazards", total, len(hazards))
}

// silent fails if the text quotes an entry. What may not be quoted has this word in it.
func silent(t *testing.T, what, text string) {
	t.Helper()
	if strings.Contains(strings.ToLower(text), "canary") {
		t.Errorf("%s quotes the input: %s", what, text)
	}
}

// untouched fails if a call since the last count has written or deleted anything, but
// for what is allowed.
func (r *region) untouched(t *testing.T, allowed ...string) {
	t.Helper()
	for call, n := range r.count() {
		_, operation, _ := strings.Cut(call, " ")
		for _, verb := range []string{"Put", "Update", "Transact", "Delete", "Send", "BatchWrite", "Create", "Invoke"} {
			if strings.HasPrefix(operation, verb) && !slices.Contains(allowed, call) {
				t.Errorf("%d calls of %s", n, call)
			}
		}
	}
}

// seeds are the bodies of the fuzz target of package job: each must not be a command.
func seeds(t *testing.T) (all []entry) {
	t.Helper()
	files, err := filepath.Glob("../job/testdata/fuzz/FuzzDecode/*")
	must(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		quoted, found := strings.CutPrefix(string(data), "go test fuzz v1\n[]byte(")
		body, err := strconv.Unquote(strings.TrimSuffix(quoted, ")\n"))
		if !found || err != nil {
			t.Fatalf("%s does not read: %v", file, err)
		}
		all = append(all, entry{Name: "job: " + filepath.Base(file), Base64: []byte(body), Fate: fate(t, body)})
	}
	if len(all) < 100 {
		t.Errorf("%d seeds", len(all))
	}
	return all
}

// fate is what package job has for a body that is handed over as text: the reason why it
// is no command, or kept, where no queue would carry it.
func fate(t *testing.T, body string) string {
	t.Helper()
	body = string([]rune(body)) // a byte that is no UTF-8 arrives as U+FFFD
	stray := strings.IndexFunc(body, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' })
	if body == "" || stray >= 0 {
		return kept
	}
	_, err := job.Decode([]byte(body))
	why, ok := errors.AsType[*job.DecodeError](err)
	if !ok {
		t.Fatalf("%q is a command, or %v", body, err)
	}
	return string(why.Reason)
}

// TestCorpusOfMessages: a message that is not exactly a command of this region is a dead
// letter with the same bytes and the reason that is the entry's fate. What a queue can
// not carry is kept, and the worker says so. Nothing is deleted, no page moves, and
// neither a log line nor an attribute holds anything of the body (S7, S17, R51, R52).
func TestCorpusOfMessages(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	r.tick()
	r.log.take()
	r.count()
	pages := r.pages(tickRun())
	for _, e := range append(corpus(t, "messages"), seeds(t)...) {
		t.Run(e.Name, func(t *testing.T) { r.message(t, e) })
	}
	if !slices.Equal(r.pages(tickRun()), pages) {
		t.Error("a page has moved")
	}
	r.count()
	afterTick(t, r)
}

// kept is the fate of a message that stays in its queue.
const kept = "kept"

// message hands one body to the worker for the last time that the queue would.
func (r *region) message(t *testing.T, e entry) {
	body := e.bytes()
	before := len(r.queued(lettersName))
	record := `{"Records":[{"messageId":"0f1e2d3c-0000-4000-8000-000000000001","receiptHandle":"h","body":` + raw(body) +
		`,"attributes":{"ApproximateReceiveCount":"` + strconv.Itoa(contract.Production().MaxReceives) + `","SentTimestamp":"1773019803112"}}]}`
	answer := r.invoke(r.worker, []byte(record))
	var said events.SQSEventResponse
	must(t, json.Unmarshal(answer, &said))
	log := r.log.take()
	silent(t, "the log", log)
	silent(t, "the answer", string(answer))
	if strings.Contains(log, `"failure_class":"bug"`) || log == "" {
		t.Errorf("the log says %q", log)
	}
	r.untouched(t, "sqs SendMessage")
	letters := r.queued(lettersName)[before:]
	if e.Fate == kept {
		if len(said.BatchItemFailures) != 1 || len(letters) != 0 || !strings.Contains(log, `"operation":"write dead letter"`) {
			t.Errorf("%d dead letters, answer %s, log %s", len(letters), answer, log)
		}
		return
	}
	if len(said.BatchItemFailures) != 0 || len(letters) != 1 {
		t.Fatalf("%d dead letters, answer %s, log %s", len(letters), answer, log)
	}
	if got := letters[0]; got.Body != string([]rune(string(body))) || got.Attributes["reason"].StringValue != e.Fate {
		t.Errorf("a dead letter of %d bytes for %s, want %d bytes for %s", len(got.Body), got.Attributes["reason"].StringValue, len(body), e.Fate)
	}
	for name, value := range letters[0].Attributes {
		silent(t, "the attribute "+name, value.StringValue)
		for _, tenant := range []string{"school-42", "acme-eu"} {
			if strings.Contains(value.StringValue, tenant) {
				t.Errorf("the attribute %s names a tenant", name)
			}
		}
	}
}

// raw writes bytes as a text of JSON and leaves those that are no UTF-8 as they are.
func raw(body []byte) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range body {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			b.WriteString(`\u00`)
			b.WriteByte("01"[c>>4])
			b.WriteByte("0123456789abcdef"[c&15])
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// TestCorpusOfRequests: a payload that is no request is refused before anything is
// written, in words that quote nothing of it, because Lambda logs them. The plan token
// of nobody moves nothing (S6, S10, R52, C6).
func TestCorpusOfRequests(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	beforeRedrive(r)
	r.log.take()
	r.count()
	for _, e := range corpus(t, "requests") {
		t.Run(e.Name, func(t *testing.T) {
			r.t = t
			ctx, end := context.WithTimeout(t.Context(), contract.Production().FunctionTimeout)
			defer end()
			answer, err := r.handler(e.Function).Invoke(ctx, e.bytes())
			text := string(answer)
			if err != nil {
				text = err.Error()
			}
			silent(t, "the answer", text)
			silent(t, "the log", r.log.take())
			if (e.Fate == "refused") != (err != nil) {
				t.Errorf("answered %s, %v", answer, err)
			}
			if e.Fate == "nothing" && text != `{"batchItemFailures":[]}` {
				t.Errorf("answered %s", answer)
			}
			r.untouched(t)
		})
	}
	r.t = t
	r.wantObjects(t, everything()...)
}

// TestCorpusOfPolicies: a policy that is not one keeps the function from starting, with
// the file's name and place in the refusal; a credential in it is not quoted. One that is
// about another region or a bucket that is not there opens no run, and one that covers
// nothing deletes nothing (S10, HP-04).
func TestCorpusOfPolicies(t *testing.T) {
	good, err := os.ReadFile("testdata/samples/exports.yaml")
	must(t, err)
	whole := newRegion(t, os.DirFS("testdata/samples"))
	for _, e := range corpus(t, "policies") {
		t.Run(e.Name, func(t *testing.T) {
			r := whole
			if e.Fate != "refused" {
				r = newRegion(t, os.DirFS("testdata/samples"))
				r.fill()
			}
			r.t = t
			r.count()
			folder := fstest.MapFS{"exports.yaml": {Data: good}, "input.yaml": {Data: e.bytes()}}
			h, err := enqueuehandler.New(r.load(r.only(enqueuehandler.Needs), enqueuehandler.Needs), folder)
			if e.Fate == "refused" {
				if err == nil || !strings.Contains(err.Error(), "input.yaml") {
					t.Fatalf("accepted, or %v", err)
				}
				if len(err.Error()) > 16<<10 || e.Silent && strings.Contains(err.Error(), "hidden") {
					t.Errorf("the refusal has %d bytes: %s", len(err.Error()), err)
				}
				r.untouched(t)
				return
			}
			must(t, err)
			r.approve(fstest.MapFS{"input.yaml": folder["input.yaml"]})
			ctx, end := context.WithTimeout(t.Context(), contract.Production().FunctionTimeout)
			defer end()
			started, err := h(ctx, []byte(`{"policy":"canary","scheduled":"2026-03-09T01:30:00Z"}`))
			if (e.Fate == "no run") != (err != nil) {
				t.Errorf("%+v, %v", started, err)
			}
			r.drain()
			r.wantObjects(t, everything()...)
		})
	}
}

// TestCorpusOfKeys lists every key beside the others: what is deleted is exactly what
// has expired under a tenant of the policy, byte by byte, and the receipts name exactly
// that. A hold on one of two keys that look the same is on that one (S1, S3, S4, S5).
func TestCorpusOfKeys(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	want, deleted := []string{acme + "case-2291/2025-12.csv", young, school + "today.csv"}, []string{
		acme + "2025-12.csv", school + "2025-10.csv", school + "2025-11.csv", school + "2025-12.csv",
	}
	all := corpus(t, "keys")
	must(t, r.s3.Seed(bucket, func(yield func(s3.Object) bool) {
		for _, e := range all {
			o := s3.Object{Key: string(e.bytes()), Body: []byte("x")}
			if e.Age == "old" {
				o.Modified = old
			}
			if !yield(o) {
				return
			}
		}
	}))
	for _, e := range all {
		key := string(e.bytes())
		if e.Fate == "deleted" {
			deleted = append(deleted, key)
		} else {
			want = append(want, key)
		}
		if e.Held {
			_, err := r.ledger.PlaceHold(t.Context(), hold.Hold{
				ID: "hold-one", Tenant: "school-42", Scope: hold.Item, Value: key, Reason: "litigation", By: "counsel", PlacedAt: old,
			})
			must(t, err)
		}
	}
	slices.Sort(want)
	slices.Sort(deleted)
	r.tick()
	r.drain()
	for key := range difference(t, "left", r.objects(), want) {
		t.Errorf("%q", key)
	}
	for key := range difference(t, "in the receipts", r.receipted(t), deleted) {
		t.Errorf("%q", key)
	}
	silent(t, "the log", r.log.take())
	if n := len(r.queued(lettersName)); n > 0 {
		t.Errorf("%d dead letters", n)
	}
}

// difference returns the keys that only one side has, and says how many.
func difference(t *testing.T, what string, got, want []string) map[string]bool {
	t.Helper()
	only := map[string]bool{}
	for _, key := range got {
		if !slices.Contains(want, key) {
			only["too many: "+key] = true
		}
	}
	for _, key := range want {
		if !slices.Contains(got, key) {
			only["missing: "+key] = true
		}
	}
	if len(only) > 0 || len(got) != len(want) {
		t.Errorf("%d keys are %s, want %d", len(got), what, len(want))
	}
	return only
}

// receipted returns the keys that the receipts of the run call deleted.
func (r *region) receipted(t *testing.T) (keys []string) {
	t.Helper()
	for _, p := range r.pages(tickRun()) {
		if p.State != job.Completed {
			t.Errorf("page %s is %s", p.ID, p.State)
		}
		if p.Receipt == "" {
			continue
		}
		name := receipt.Name(receipt.Receipt, p.Run, p.ID, p.Receipt)
		out, err := r.s3c.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: aws.String(evidenceName), Key: &name})
		must(t, err)
		data, err := io.ReadAll(out.Body)
		must(t, err)
		d, err := receipt.Decode(data)
		must(t, err)
		for _, l := range d.Lines {
			if l.Outcome == job.Deleted {
				keys = append(keys, l.Key)
			}
		}
	}
	return keys
}
