package lambda_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/expunge-aws/expunge/internal/emulator/lambda"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// mapQueue maps the queue to the function "f" and returns the mapping's id.
func mapQueue(t *testing.T, s *lambda.Service, source *memory, change func(*lambda.Mapping)) string {
	t.Helper()
	m := lambda.Mapping{Region: region, Function: "f", Queue: queueARN, Source: source}
	if change != nil {
		change(&m)
	}
	id, err := s.Map(m)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func stepped(m *lambda.Mapping)   { m.Stepped = true }
func reporting(m *lambda.Mapping) { m.Stepped, m.ReportBatchItemFailures = true, true }

func poll(t *testing.T, s *lambda.Service, id string, want int) {
	t.Helper()
	if n, err := s.Poll(t.Context(), id); err != nil || n != want {
		t.Fatalf("polled %d messages, %v, want %d", n, err, want)
	}
}

func none() []string { return []string{} }

// What a function answers decides which of A, B and C are deleted. Everything
// that can not be read keeps all of them (SQ-01, SQ-03, SQ-04, SQ-14).
func TestPartialResponses(t *testing.T) {
	all := []string{"A", "B", "C"}
	for _, c := range []struct {
		name    string
		answer  string
		err     error
		ignored bool // the mapping does not ask for failures
		deleted []string
	}{
		{name: "SQ-01 exactly B", answer: `{"batchItemFailures":[{"itemIdentifier":"B"}]}`, deleted: []string{"A", "C"}},
		{name: "SQ-01 capital letters hide the list", answer: `{"BatchItemFailures":[{"ItemIdentifier":"B"}]}`, deleted: all},
		{name: "SQ-01 small letters hide the list", answer: `{"batchitemfailures":[{"itemIdentifier":"B"}]}`, deleted: all},
		{name: "SQ-01 capital letters inside", answer: `{"batchItemFailures":[{"ItemIdentifier":"B"}]}`, deleted: none()},
		{name: "SQ-01 a wrong key inside", answer: `{"batchItemFailures":[{"id":"B"}]}`, deleted: none()},
		{name: "two", answer: `{"batchItemFailures":[{"itemIdentifier":"B"},{"itemIdentifier":"A"}]}`, deleted: []string{"C"}},
		{name: "one twice", answer: `{"batchItemFailures":[{"itemIdentifier":"B"},{"itemIdentifier":"B"}]}`, deleted: []string{"A", "C"}},
		{name: "all", answer: `{"batchItemFailures":[{"itemIdentifier":"A"},{"itemIdentifier":"B"},{"itemIdentifier":"C"}]}`, deleted: none()},
		{name: "more than asked", answer: `{"seen":3,"batchItemFailures":[{"itemIdentifier":"B","why":"late"}]}`, deleted: []string{"A", "C"}},
		{name: "an empty list", answer: `{"batchItemFailures":[]}`, deleted: all},
		{name: "a null list", answer: `{"batchItemFailures":null}`, deleted: all},
		{name: "no list", answer: `{}`, deleted: all},
		{name: "null", answer: `null`, deleted: all},
		{name: "nothing", answer: ``, deleted: all},
		{name: "SQ-03 no JSON", answer: `{"batchItemFailures":[`, deleted: none()},
		{name: "text", answer: `done`, deleted: none()},
		{name: "a string", answer: `"done"`, deleted: none()},
		{name: "a bare list", answer: `[{"itemIdentifier":"B"}]`, deleted: none()},
		{name: "a list of strings", answer: `{"batchItemFailures":["B"]}`, deleted: none()},
		{name: "a list that is none", answer: `{"batchItemFailures":{"itemIdentifier":"B"}}`, deleted: none()},
		{name: "an unknown id", answer: `{"batchItemFailures":[{"itemIdentifier":"D"}]}`, deleted: none()},
		{name: "an unknown id among others", answer: `{"batchItemFailures":[{"itemIdentifier":"B"},{"itemIdentifier":"D"}]}`, deleted: none()},
		{name: "an id in other letters", answer: `{"batchItemFailures":[{"itemIdentifier":"b"}]}`, deleted: none()},
		{name: "an empty id", answer: `{"batchItemFailures":[{"itemIdentifier":""}]}`, deleted: none()},
		{name: "a null id", answer: `{"batchItemFailures":[{"itemIdentifier":null}]}`, deleted: none()},
		{name: "a number as id", answer: `{"batchItemFailures":[{"itemIdentifier":2}]}`, deleted: none()},
		{name: "a null entry", answer: `{"batchItemFailures":[null]}`, deleted: none()},
		{name: "SQ-14 an error", err: errRefused, deleted: none()},
		{name: "SQ-04 not asked: B is lost", answer: `{"batchItemFailures":[{"itemIdentifier":"B"}]}`, ignored: true, deleted: all},
		{name: "SQ-04 not asked: nonsense", answer: `{"batchItemFailures":[`, ignored: true, deleted: all},
		{name: "SQ-04 not asked: an error", err: errRefused, ignored: true, deleted: none()},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := wire.NewManual(start)
			s := newService(t, clock)
			source := newMemory(clock, 30*time.Second)
			register(t, s, lambda.Function{Name: "f", Handler: answering(c.answer, c.err)})
			id := mapQueue(t, s, source, func(m *lambda.Mapping) { reporting(m); m.ReportBatchItemFailures = !c.ignored })
			for _, name := range all {
				source.send(name, "body")
			}
			poll(t, s, id, 3)
			queued, deleted, _ := source.state()
			if diff := cmp.Diff(c.deleted, append(none(), deleted...)); diff != "" {
				t.Fatalf("deleted (-want +got):\n%s", diff)
			}
			poll(t, s, id, 0) // the others are invisible
			clock.Advance(30 * time.Second)
			kept := len(queued)
			poll(t, s, id, kept)
			queued, _, _ = source.state()
			for name, receives := range queued {
				if receives != 2 {
					t.Errorf("%s was received %d times", name, receives)
				}
			}
			wantErrors := 0
			if c.err != nil {
				wantErrors = 2
			}
			if got := s.Metrics(region, "f").Errors; got != wantErrors {
				t.Errorf("%d function errors, want %d", got, wantErrors)
			}
		})
	}
}

// SQ-14: a panic, and an overrun, bring the whole batch back by visibility.
func TestWholeBatchComesBack(t *testing.T) {
	for name, handler := range map[string]func(context.Context, []byte) ([]byte, error){
		"panic":   func(context.Context, []byte) ([]byte, error) { panic("third item") },
		"overrun": func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			clock := newWatched()
			s := newService(t, clock)
			source := newMemory(clock.Manual, 30*time.Second)
			source.limit = 2
			register(t, s, lambda.Function{Name: "f", Timeout: 5 * time.Second, Handler: handler})
			id := mapQueue(t, s, source, reporting)
			for n := range 5 {
				source.send(fmt.Sprint(n), "body")
			}
			for range 2 {
				done := make(chan struct{})
				go func() { // moves past the deadline of a handler that waits for it
					defer close(done)
					clock.awaits(t, 5*time.Second)
					clock.Advance(5 * time.Second)
				}()
				poll(t, s, id, 5)
				<-done
				clock.Advance(30 * time.Second)
			}
			poll(t, s, id, 0)
			queued, deleted, dead := source.state()
			if len(queued) != 0 || len(deleted) != 0 || len(dead) != 5 {
				t.Fatalf("queued %v, deleted %v, dead %v", queued, deleted, dead)
			}
		})
	}
}

// A message that came twice into one batch fails or succeeds as one (SQ-15).
func TestTwiceInOneBatch(t *testing.T) {
	clock := wire.NewManual(start)
	s := newService(t, clock)
	source := newMemory(clock, time.Minute)
	register(t, s, lambda.Function{Name: "f", Handler: answering(`{"batchItemFailures":[{"itemIdentifier":"A"}]}`, nil)})
	id := mapQueue(t, s, source, reporting)
	source.send("A", "body")
	source.send("A", "body")
	source.send("B", "body")
	poll(t, s, id, 3)
	if _, deleted, _ := source.state(); !slices.Equal(deleted, []string{"B"}) {
		t.Fatalf("deleted %v", deleted)
	}
}

// The event is the one that AWS sends, field by field.
func TestEventForm(t *testing.T) {
	clock := wire.NewManual(start)
	s := newService(t, clock)
	source := newMemory(clock, time.Minute)
	var got []byte
	register(t, s, lambda.Function{Name: "f", Handler: func(_ context.Context, payload []byte) ([]byte, error) {
		got = payload
		return nil, nil
	}})
	id := mapQueue(t, s, source, stepped)
	source.send("A", `{"a":"<&>"}`, "ApproximateFirstReceiveTimestamp", "1", "MessageGroupId", "acme", "AWSTraceHeader", "Root=1-2-3")
	source.queued[0].AttributesMD5 = "md5-attributes"
	source.queued[0].MessageAttributes = map[string]lambda.MessageAttribute{
		"text": {DataType: "String", Text: "t"}, "bytes": {DataType: "Binary", Binary: []byte{1, 2}},
	}
	source.send("B", "plain")
	poll(t, s, id, 2)

	text := "t"
	lists := func(a events.SQSMessageAttribute) events.SQSMessageAttribute {
		a.StringListValues, a.BinaryListValues = []string{}, [][]byte{}
		return a
	}
	want := events.SQSEvent{Records: []events.SQSMessage{{
		MessageId: "A", ReceiptHandle: "A#1", Body: `{"a":"<&>"}`, Md5OfBody: "md5-A", Md5OfMessageAttributes: "md5-attributes",
		Attributes: map[string]string{
			"ApproximateReceiveCount": "1", "SentTimestamp": "1772931600000", "SenderId": "AIDA",
			"ApproximateFirstReceiveTimestamp": "1", "MessageGroupId": "acme", "AWSTraceHeader": "Root=1-2-3",
		},
		MessageAttributes: map[string]events.SQSMessageAttribute{
			"text":  lists(events.SQSMessageAttribute{StringValue: &text, DataType: "String"}),
			"bytes": lists(events.SQSMessageAttribute{BinaryValue: []byte{1, 2}, DataType: "Binary"}),
		},
		EventSource: "aws:sqs", EventSourceARN: queueARN, AWSRegion: region,
	}, {
		MessageId: "B", ReceiptHandle: "B#1", Body: "plain", Md5OfBody: "md5-B",
		Attributes:        map[string]string{"ApproximateReceiveCount": "1", "SentTimestamp": "1772931600000", "SenderId": "AIDA"},
		MessageAttributes: map[string]events.SQSMessageAttribute{},
		EventSource:       "aws:sqs", EventSourceARN: queueARN, AWSRegion: region,
	}}}
	var decoded events.SQSEvent
	d := json.NewDecoder(strings.NewReader(string(got)))
	d.DisallowUnknownFields() // or a misspelt name would pass as an absent one
	if err := d.Decode(&decoded); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, decoded); diff != "" {
		t.Fatalf("event (-want +got):\n%s", diff)
	}
	var raw struct{ Records []map[string]any }
	if err := json.Unmarshal(got, &raw); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(raw.Records[1]))
	if diff := cmp.Diff([]string{"attributes", "awsRegion", "body", "eventSource", "eventSourceARN", "md5OfBody",
		"messageAttributes", "messageId", "receiptHandle"}, names); diff != "" {
		t.Fatalf("names (-want +got):\n%s", diff)
	}
}

// SQ-05: the batch size bounds a batch, and a payload never grows past what an
// invocation takes.
func TestBatchSizes(t *testing.T) {
	for _, c := range []struct {
		name         string
		size, queued int
		body         int
		window       time.Duration
		want         []int
	}{
		{name: "the default is ten", queued: 12, want: []int{10, 2}},
		{name: "one", size: 1, queued: 2, want: []int{1, 1}},
		{name: "over ten in a window", size: 25, queued: 30, window: time.Second, want: []int{25, 5}},
		{name: "SQ-05 over six megabytes", queued: 10, body: 1 << 20, want: []int{5, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := wire.NewManual(start)
			s := newService(t, clock)
			source := newMemory(clock, time.Minute)
			var got []int
			register(t, s, lambda.Function{Name: "f", Handler: func(_ context.Context, payload []byte) ([]byte, error) {
				var e events.SQSEvent
				if err := json.Unmarshal(payload, &e); err != nil {
					return nil, err
				}
				got = append(got, len(e.Records))
				return nil, nil
			}})
			id := mapQueue(t, s, source, func(m *lambda.Mapping) { m.Stepped, m.BatchSize, m.Window = true, c.size, c.window })
			for n := range c.queued {
				source.send(fmt.Sprint(n), strings.Repeat("x", c.body))
			}
			for range len(c.want) {
				if _, err := s.Poll(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Fatalf("batches (-want +got):\n%s", diff)
			}
			if queued, _, _ := source.state(); len(queued) != 0 {
				t.Fatalf("%d are left", len(queued))
			}
		})
	}
}

// The window is counted from the first message of a batch and ends the wait for
// more; a full batch does not wait for it.
func TestWindow(t *testing.T) {
	clock := newWatched()
	s := newService(t, clock)
	source := newMemory(clock, time.Hour)
	batches := make(chan int, 4)
	register(t, s, lambda.Function{Name: "f", Handler: func(_ context.Context, payload []byte) ([]byte, error) {
		var e events.SQSEvent
		err := json.Unmarshal(payload, &e)
		batches <- len(e.Records)
		return nil, err
	}})
	// The one poller that gets a message collects; the other waits for its first.
	mapQueue(t, s, source, func(m *lambda.Mapping) { m.BatchSize, m.Window, m.MaximumConcurrency = 3, 5*time.Second, 2 })
	clock.awaits(t, 20*time.Second)
	clock.awaits(t, 20*time.Second)
	source.send("A", "body")
	clock.awaits(t, 5*time.Second)
	clock.Advance(4 * time.Second)
	select {
	case n := <-batches:
		t.Fatalf("a batch of %d before its window was over", n)
	default:
	}
	until(t, clock.Manual, time.Second, func() bool { return len(batches) == 1 })
	if n := <-batches; n != 1 {
		t.Fatalf("a batch of %d", n)
	}
}

// SQ-12: the seventeenth invocation of a chain that feeds itself does not happen;
// the message goes to the dead letters. With the guard off it goes on.
func TestRecursionGuard(t *testing.T) {
	for _, allow := range []bool{false, true} {
		t.Run(fmt.Sprintf("allowed=%v", allow), func(t *testing.T) {
			clock := wire.NewManual(start)
			s := newService(t, clock)
			source := newMemory(clock, time.Minute)
			deepest := 0
			register(t, s, lambda.Function{Name: "f", AllowRecursion: allow, Handler: func(ctx context.Context, _ []byte) ([]byte, error) {
				deepest++
				// What the SDK does: the trace goes with the message, escaped.
				trace := strings.ReplaceAll(lambda.Trace(ctx), "|", "%7C")
				source.send(fmt.Sprint("page-", deepest), "body", "AWSTraceHeader", trace)
				return nil, nil
			}})
			id := mapQueue(t, s, source, stepped)
			source.send("page-0", "body", "AWSTraceHeader", "Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=68fd508a:5")
			for range 16 {
				poll(t, s, id, 1)
			}
			poll(t, s, id, 1)
			_, _, dead := source.state()
			if allow {
				if deepest != 17 || len(dead) != 0 {
					t.Fatalf("%d invocations, dead %v", deepest, dead)
				}
				return
			}
			if deepest != 16 || !slices.Equal(dead, []string{"page-16"}) {
				t.Fatalf("%d invocations, dead %v", deepest, dead)
			}
			if got := s.Metrics(region, "f").RecursionDropped; got != 1 {
				t.Fatalf("%d counted", got)
			}
		})
	}
}

// SQ-12: pages that are fanned out flat are one hop each, however many there are.
func TestFlatFanOut(t *testing.T) {
	clock := wire.NewManual(start)
	s := newService(t, clock)
	source := newMemory(clock, time.Minute)
	register(t, s, lambda.Function{Name: "f", Handler: answering("", nil)})
	id := mapQueue(t, s, source, stepped)
	for n := range 60 {
		source.send(fmt.Sprint(n), "body", "AWSTraceHeader", "Root=1-2-3;Lineage=68fd508a:1")
	}
	for range 6 {
		poll(t, s, id, 10)
	}
	if _, deleted, dead := source.state(); len(deleted) != 60 || len(dead) != 0 {
		t.Fatalf("deleted %d, dead %d", len(deleted), len(dead))
	}
}

// What Lambda would not create is refused with its error (SQ-07).
func TestMapRefuses(t *testing.T) {
	clock := wire.NewManual(start)
	s := newService(t, clock)
	register(t, s, lambda.Function{Name: "f", Timeout: time.Minute, Handler: answering("", nil)})
	good := lambda.Mapping{Region: region, Function: "f", Queue: queueARN, Source: newMemory(clock, time.Minute), Stepped: true}
	for _, c := range []struct {
		name, code string
		change     func(*lambda.Mapping)
	}{
		{"SQ-07 visibility under the timeout", "InvalidParameterValueException", func(m *lambda.Mapping) { m.Source = newMemory(clock, time.Minute-1) }},
		{"SQ-05 a big batch without a window", "InvalidParameterValueException", func(m *lambda.Mapping) { m.BatchSize = 11 }},
		{"a batch over 10000", "InvalidParameterValueException", func(m *lambda.Mapping) { m.BatchSize, m.Window = 10_001, time.Second }},
		{"a negative batch", "InvalidParameterValueException", func(m *lambda.Mapping) { m.BatchSize = -1 }},
		{"a long window", "InvalidParameterValueException", func(m *lambda.Mapping) { m.Window = 301 * time.Second }},
		{"SQ-08 a concurrency of 1", "InvalidParameterValueException", func(m *lambda.Mapping) { m.MaximumConcurrency = 1 }},
		{"a concurrency of 1001", "InvalidParameterValueException", func(m *lambda.Mapping) { m.MaximumConcurrency = 1001 }},
		{"an unknown function", "ResourceNotFoundException", func(m *lambda.Mapping) { m.Function = "g" }},
		{"a function elsewhere", "ResourceNotFoundException", func(m *lambda.Mapping) { m.Region = "us-east-1" }},
	} {
		m := good
		c.change(&m)
		_, err := s.Map(m)
		var refused *wire.Error
		if !errors.As(err, &refused) || refused.Code != c.code {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	for _, change := range []func(*lambda.Mapping){
		func(m *lambda.Mapping) { m.MaximumConcurrency = 2 },
		func(m *lambda.Mapping) { m.BatchSize, m.Window = 10_000, time.Second },
	} {
		m := good
		change(&m)
		id, err := s.Map(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Map(m); err == nil {
			t.Error("a mapping was created twice")
		}
		if err := s.Unmap(id); err != nil {
			t.Fatal(err)
		}
		if err := s.Unmap(id); err == nil {
			t.Error("a mapping was removed twice")
		}
	}
}

// A mapping that is removed fetches nothing more; the batch under way is settled.
func TestUnmap(t *testing.T) {
	clock := wire.NewManual(start)
	s := newService(t, clock)
	source := newMemory(clock, time.Minute)
	entered, release := make(chan struct{}), make(chan struct{})
	register(t, s, lambda.Function{Name: "f", Handler: func(context.Context, []byte) ([]byte, error) {
		close(entered)
		<-release
		return nil, nil
	}})
	id := mapQueue(t, s, source, func(m *lambda.Mapping) { m.MaximumConcurrency = 2 })
	source.send("A", "body")
	<-entered
	removed := make(chan error, 1)
	go func() { removed <- s.Unmap(id) }()
	close(release)
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	source.send("B", "body")
	queued, deleted, _ := source.state()
	if !slices.Equal(deleted, []string{"A"}) || queued["B"] != 0 {
		t.Fatalf("queued %v, deleted %v", queued, deleted)
	}
}
