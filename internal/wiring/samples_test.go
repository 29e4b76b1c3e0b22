package wiring_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	lambdago "github.com/aws/aws-lambda-go/lambda"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/job"
)

const eventsFolder = "../../events/"

var update = flag.Bool("update", false, "rewrite the golden files")

// handler returns the handler of a step's samples.
func (r *region) handler(step string) lambdago.Handler {
	switch step {
	case "enqueue":
		return r.enqueue
	case "worker":
		return r.worker
	case "redrive":
		return r.redrive
	case "reconcile":
		return r.reconcile
	case "hold":
		return r.hold
	default:
		r.t.Fatalf("%q is no step", step)
		return nil
	}
}

// sampleCase is what a sample means: what has happened before it, and what has
// happened after it.
type sampleCase struct {
	before func(*region)
	after  func(*testing.T, *region)
	// refused: the answer is an error, whose text is beside the sample.
	refused bool
}

// sampleCases are the samples by their paths below events.
func sampleCases() map[string]sampleCase {
	cases := map[string]sampleCase{
		"enqueue/tick.json":             {before: func(*region) {}, after: afterTick},
		"enqueue/request.json":          {before: func(*region) {}, after: afterRequest},
		"enqueue/resume.json":           {before: func(r *region) { r.die(r.sample("enqueue/tick.json")) }, after: afterTick},
		"worker/page.json":              {before: (*region).tick, after: afterPage},
		"worker/batch-with-poison.json": {before: (*region).tick, after: afterPoison},
		"worker/duplicate.json":         {before: beforeDuplicate, after: afterDuplicate},
		"reconcile/tick.json":           {before: beforeReconcile, after: afterReconcile},
		"hold/place.json":               {before: (*region).tick, after: afterPlace},
		"hold/ask.json":                 {before: beforeAsk, after: afterAsk},
		"hold/release.json":             {before: (*region).tick, after: afterRelease},
		"hold/list.json":                {before: func(*region) {}, after: afterList},
	}
	maps.Copy(cases, redriveSamples())
	return cases
}

// samplePaths returns every sample; what lies at the top of events is a schema.
func samplePaths(t *testing.T) (paths []string) {
	t.Helper()
	root := os.DirFS(eventsFolder)
	must(t, fs.WalkDir(root, ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, "/") && filepath.Ext(path) == ".json" {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

// TestSamples feeds every sample to the handler it is for, bytes in, bytes out, and
// compares the answer with the file beside it.
func TestSamples(t *testing.T) {
	cases := sampleCases()
	if got, want := samplePaths(t), slices.Sorted(maps.Keys(cases)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Fatalf("samples\n%q, want\n%q: each needs a row that says what it means", got, want)
	}
	for path, c := range cases {
		t.Run(path, func(t *testing.T) {
			r := newRegion(t, os.DirFS("testdata/samples"))
			r.fill()
			c.before(r)
			r.count()
			step, _, _ := strings.Cut(path, "/")
			began := time.Now()
			answer := append(r.said(r.handler(step), r.sample(path), c.refused), '\n')
			c.after(t, r)
			if step == "redrive" || step == "hold" { // their answers tell the time
				answer = masked(answer, began)
			}
			golden := eventsFolder + strings.TrimSuffix(path, ".json") + ".golden"
			if *update {
				must(t, os.WriteFile(golden, answer, 0o644))
				return
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if !bytes.Equal(answer, want) {
				t.Errorf("answered\n%swant\n%s", answer, want)
			}
		})
	}
}

// said invokes the handler and returns its answer, or the text of its refusal.
func (r *region) said(h lambdago.Handler, payload []byte, refused bool) []byte {
	r.t.Helper()
	if !refused {
		return bytes.Clone(r.invoke(h, payload)) // the library uses its buffer again
	}
	ctx, end := context.WithTimeout(r.t.Context(), contract.Production().FunctionTimeout)
	defer end()
	answer, err := h.Invoke(ctx, payload)
	if err == nil {
		r.t.Fatalf("it was not refused: %s", answer)
	}
	return []byte(err.Error())
}

var (
	instants = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z`)
	seconds  = regexp.MustCompile(`("expires_in_seconds":)[0-9]+`)
	tokens   = regexp.MustCompile(regionName + `/[0-9a-f]{32}`)
	messages = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// masked puts the samples' own time and ids in place of those that the machine's
// clock and chance have given to an answer since the instant.
func masked(answer []byte, since time.Time) []byte {
	since = since.Add(-time.Minute) // what the sample's past has just made, too
	if token := tokens.Find(answer); token != nil {
		_, id, _ := bytes.Cut(token, []byte("/"))
		answer = bytes.ReplaceAll(answer, id, bytes.Repeat([]byte("0"), len(id)))
	}
	answer = instants.ReplaceAllFunc(answer, func(text []byte) []byte {
		if at, err := time.Parse(time.RFC3339, string(text)); err != nil || at.Before(since) {
			return text
		}
		return []byte("2026-03-09T02:00:00Z")
	})
	answer = seconds.ReplaceAll(answer, []byte("${1}1209600"))
	return messages.ReplaceAll(answer, []byte("00000000-0000-4000-8000-000000000000"))
}

// everything stands in the samples' bucket before the first deletion.
func everything() []string {
	return []string{
		acme + "2025-12.csv", acme + "case-2291/2025-12.csv", young,
		school + "2025-10.csv", school + "2025-11.csv", school + "2025-12.csv", school + "today.csv",
	}
}

func (r *region) wantObjects(t *testing.T, want ...string) {
	t.Helper()
	if got := r.objects(); !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
}

func wantEqual[M ~map[K]V, K, V comparable](t *testing.T, what string, got, want M) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// afterTick: the run is released, its pages are sent, one of them is empty and was
// not, and nothing is deleted. A resumed run ends like one that was never stopped.
func afterTick(t *testing.T, r *region) {
	wantEqual(t, "pages", r.states(tickRun()), map[string]job.PageState{
		"acme-eu": job.Sent, "school-4": job.Completed, "school-42": job.Sent,
	})
	if run := r.run(tickRun()); run.State != job.Released || run.Candidates != 5 || run.Examined != 7 || len(r.bodies()) != 2 {
		t.Errorf("%d messages of %+v", len(r.bodies()), run)
	}
	r.wantObjects(t, everything()...)
	r.drain()
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": 4, "held": 1})
	r.wantObjects(t, acme+"case-2291/2025-12.csv", young, school+"today.csv")
}

// afterRequest: the same for the one tenant that was named.
func afterRequest(t *testing.T, r *region) {
	wantEqual(t, "pages", r.states(requestRun()), map[string]job.PageState{"school-42": job.Sent})
	r.drain()
	wantEqual(t, "outcomes", r.outcomes(requestRun()), map[string]int{"deleted": 3})
	r.wantObjects(t, acme+"2025-12.csv", acme+"case-2291/2025-12.csv", young, school+"today.csv")
}

// afterPage: exactly the page's objects are gone, plan and receipt are kept.
func afterPage(t *testing.T, r *region) {
	calls := r.count()
	if calls["s3 DeleteObjects"] != 1 || calls["s3 PutObject"] != 2 {
		t.Errorf("calls %v", calls)
	}
	wantEqual(t, "pages", r.states(tickRun()), map[string]job.PageState{
		"acme-eu": job.Sent, "school-4": job.Completed, "school-42": job.Completed,
	})
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": 3})
	r.wantObjects(t, acme+"2025-12.csv", acme+"case-2291/2025-12.csv", young, school+"today.csv")
}

// afterPoison: the malformed message is a dead letter and may go, the newer one
// stays for a newer worker until the queue shows it again, and the good one is done in
// spite of both.
func afterPoison(t *testing.T, r *region) {
	if calls := r.count(); calls["sqs ChangeMessageVisibility"] != 0 || calls["sqs SendMessage"] != 1 || calls["s3 DeleteObjects"] != 1 {
		t.Errorf("calls %v", calls)
	}
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": 1, "held": 1})
	r.wantObjects(t, slices.DeleteFunc(everything(), func(key string) bool { return key == acme+"2025-12.csv" })...)
	letters := r.queued(lettersName)
	if len(letters) != 1 {
		t.Fatalf("%d dead letters", len(letters))
	}
	var event events.SQSEvent
	must(t, json.Unmarshal(r.sample("worker/batch-with-poison.json"), &event))
	if l := letters[0]; l.Body != event.Records[0].Body || l.Attributes["reason"].StringValue != string(job.ReasonMalformed) {
		t.Errorf("dead letter %+v", l)
	}
	if text := r.log.take(); strings.Contains(text, event.Records[0].Body) || strings.Contains(text, "csv") {
		t.Errorf("the log quotes a body or a key:\n%s", text)
	}
}

func beforeDuplicate(r *region) {
	r.tick()
	r.invoke(r.worker, r.sample("worker/page.json"))
}

// afterDuplicate: the second copy is noticed by one look at the ledger:
// nothing is written and S3 is not asked.
func afterDuplicate(t *testing.T, r *region) {
	wantEqual(t, "calls", r.count(), map[string]int{"dynamodb BatchGetItem": 1})
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": 3})
	if text := r.log.take(); !strings.Contains(text, "cleanup_duplicate_observed") {
		t.Errorf("nobody said so:\n%s", text)
	}
}

// beforeReconcile leaves a run that is done but for its closing, one whose
// messages are lost, and one whose scan has died.
func beforeReconcile(r *region) {
	r.started(r.invoke(r.enqueue, r.sample("enqueue/request.json")), requestRun())
	r.drain()
	r.tick()
	r.forget(tickRun())
	r.die(bytes.Replace(r.sample("enqueue/tick.json"), []byte("03-09"), []byte("03-08"), 1))
}

// afterReconcile: the first is closed, the second has a message again, and the
// scan of the third goes on.
func afterReconcile(t *testing.T, r *region) {
	must(t, <-r.resumed)
	third := job.ScheduledRunID(regionName, "exports", ticked.AddDate(0, 0, -1))
	for id, want := range map[job.RunID]job.RunState{requestRun(): job.Closed, tickRun(): job.Released, third: job.Released} {
		if run := r.run(id); run.State != want {
			t.Errorf("run %+v, want it %s", run, want)
		}
	}
	r.drain()
	wantEqual(t, "outcomes", r.outcomes(tickRun()), map[string]int{"deleted": 1, "held": 1})
}

// TestWorkerSamplesAreWhatTheMappingSends holds the worker's samples to the form
// in which AWS sends a batch, and to the commands that the samples' region sends.
func TestWorkerSamplesAreWhatTheMappingSends(t *testing.T) {
	r := newRegion(t, os.DirFS("testdata/samples"))
	r.fill()
	r.tick()
	sent := r.bodies()
	received := r.receive()
	for _, path := range samplePaths(t) {
		if !strings.HasPrefix(path, "worker/") {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(r.sample(path)))
		d.DisallowUnknownFields()
		var event events.SQSEvent
		must(t, d.Decode(&event))
		for _, m := range event.Records {
			sum := md5.Sum([]byte(m.Body))
			whole := m.MessageId != "" && m.ReceiptHandle != "" && m.Md5OfBody == hex.EncodeToString(sum[:]) &&
				m.EventSource == "aws:sqs" && m.AWSRegion == regionName && m.MessageAttributes != nil &&
				m.EventSourceARN == "arn:aws:sqs:"+regionName+":"+wire.Account+":"+pagesName
			if !whole {
				t.Errorf("%s: %+v is not as AWS sends it", path, m)
			}
			if _, err := job.Decode([]byte(m.Body)); err == nil && !slices.Contains(sent, m.Body) {
				t.Errorf("%s: nobody sent\n%s, but\n%s", path, m.Body, strings.Join(sent, "\n"))
			}
			want := slices.Sorted(maps.Keys(received[0].Attributes))
			if got := slices.Sorted(maps.Keys(m.Attributes)); !slices.Equal(got, want) {
				t.Errorf("%s: attributes %q, want %q", path, got, want)
			}
		}
	}
}
