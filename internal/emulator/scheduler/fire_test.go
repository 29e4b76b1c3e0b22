package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/scheduler"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const (
	region    = "eu-central-1"
	targetARN = "arn:aws:lambda:eu-central-1:000000000000:function:enqueue"
	roleARN   = "arn:aws:iam::000000000000:role/scheduler"
	queueARN  = "arn:aws:sqs:eu-central-1:000000000000:schedule-letters"
)

var start = time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC)

// world is a scheduler, its clock, a client, and what its target was given.
type world struct {
	t         *testing.T
	clock     *wire.Manual
	scheduler *scheduler.Service
	client    *sdk.Client

	mu      sync.Mutex
	inputs  []string
	answer  func(input string) error
	letters []letter
}

type letter struct {
	queue, body string
	attributes  map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: wire.NewManual(start)}
	w.scheduler = scheduler.New(w.clock, w.target)
	w.scheduler.DeadLetter = func(_ context.Context, queue string, body []byte, attributes map[string]string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.letters = append(w.letters, letter{queue, string(body), attributes})
		return nil
	}
	server := httptest.NewServer(emulator.New(wire.Wall{}, nil, w.scheduler))
	t.Cleanup(server.Close)
	w.client = sdk.New(sdk.Options{
		Region: region, BaseEndpoint: &server.URL, RetryMaxAttempts: 1, HTTPClient: server.Client(),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	return w
}

func (w *world) target(_ context.Context, arn string, input []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if arn != targetARN {
		w.t.Errorf("target %s", arn)
	}
	w.inputs = append(w.inputs, string(input))
	if w.answer != nil {
		return w.answer(string(input))
	}
	return nil
}

// taken returns what the target was given since the last call.
func (w *world) taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	inputs := w.inputs
	w.inputs = nil
	return inputs
}

const timeInput = `"<aws.scheduler.scheduled-time>"`

// define is a schedule that tells its scheduled time.
func define(name, expr string, change func(*sdk.CreateScheduleInput)) *sdk.CreateScheduleInput {
	in := &sdk.CreateScheduleInput{
		Name: &name, ScheduleExpression: &expr,
		FlexibleTimeWindow: &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeOff},
		Target:             &types.Target{Arn: aws.String(targetARN), RoleArn: aws.String(roleARN), Input: aws.String(timeInput)},
	}
	if change != nil {
		change(in)
	}
	return in
}

func (w *world) create(name, expr string, change func(*sdk.CreateScheduleInput)) {
	w.t.Helper()
	if _, err := w.client.CreateSchedule(w.t.Context(), define(name, expr, change)); err != nil {
		w.t.Fatal(err)
	}
}

// to moves the clock to an instant, ticks, and compares what was fired.
func (w *world) to(at string, want ...string) {
	w.t.Helper()
	instant, err := time.Parse(time.RFC3339, at)
	if err != nil {
		w.t.Fatal(err)
	}
	w.clock.Advance(instant.Sub(w.clock.Now()))
	w.scheduler.Tick(w.t.Context(), w.clock.Now())
	var got []string
	for _, input := range w.taken() {
		got = append(got, strings.Trim(input, `"`))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Fatalf("fired by %s (-want +got):\n%s", at, diff)
	}
}

// HP-10 as the pipeline sees it: no tick for 8 March, one for 1 November.
func TestSpringAndAutumn(t *testing.T) {
	w := newWorld(t)
	w.create("daily", "cron(30 2 * * ? *)", func(in *sdk.CreateScheduleInput) {
		in.ScheduleExpressionTimezone = aws.String("America/New_York")
	})
	w.to("2026-03-07T07:29:59Z")
	w.to("2026-03-07T07:30:00Z", "2026-03-07T07:30:00Z")
	w.to("2026-03-09T06:29:59Z") // nothing on the 8th
	w.to("2026-03-09T06:30:00Z", "2026-03-09T06:30:00Z")
	w.to("2026-10-31T12:00:00Z", days("2026-03-10T06:30:00Z", 236)...)
	w.to("2026-11-02T07:00:00Z", "2026-11-01T07:30:00Z")
	w.to("2026-11-02T07:30:00Z", "2026-11-02T07:30:00Z")
}

// days lists instants that are a day apart.
func days(from string, n int) []string {
	at, _ := time.Parse(time.RFC3339, from)
	list := make([]string, n)
	for i := range list {
		list[i] = at.AddDate(0, 0, i).Format(time.RFC3339)
	}
	return list
}

// HP-12: attributes are filled in as text wherever they stand literally. One that
// was escaped on its way stays what it is, and so does one that is none.
func TestContextAttributes(t *testing.T) {
	w := newWorld(t)
	w.answer = func(input string) error {
		if strings.Contains(input, `"attempt":"1"`) {
			return errors.New("once more")
		}
		return nil
	}
	w.create("daily", "at(2026-03-07T01:00:00)", func(in *sdk.CreateScheduleInput) {
		in.Target.Input = aws.String(`{"scheduled":"<aws.scheduler.scheduled-time>","arn":"<aws.scheduler.schedule-arn>",` +
			`"attempt":"<aws.scheduler.attempt-number>","id":"<aws.scheduler.execution-id>","both":"<aws.scheduler.attempt-number>/<aws.scheduler.attempt-number>",` +
			`"escaped":"\u003caws.scheduler.scheduled-time\u003e","none":"<aws.scheduler.region>"}`)
	})
	w.clock.Advance(2 * time.Hour)
	if n := w.scheduler.Tick(t.Context(), w.clock.Now()); n != 2 {
		t.Fatalf("%d attempts", n)
	}
	ids := map[string]bool{}
	for n, input := range w.taken() {
		var got map[string]string // every value is a string
		if err := json.Unmarshal([]byte(input), &got); err != nil {
			t.Fatal(err)
		}
		ids[got["id"]] = true
		delete(got, "id")
		attempt := fmt.Sprint(n + 1)
		want := map[string]string{
			"scheduled": "2026-03-07T01:00:00Z", "attempt": attempt, "both": attempt + "/" + attempt,
			"arn":     "arn:aws:scheduler:eu-central-1:000000000000:schedule/default/daily",
			"escaped": "<aws.scheduler.scheduled-time>", "none": "<aws.scheduler.region>",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("attempt %s (-want +got):\n%s", attempt, diff)
		}
		if !strings.Contains(input, `\u003caws.scheduler.scheduled-time\u003e`) {
			t.Fatalf("the escaped attribute was touched: %s", input)
		}
	}
	if len(ids) != 2 {
		t.Fatalf("execution ids %v", ids)
	}
}

// A target without an input gets a notification.
func TestDefaultInput(t *testing.T) {
	w := newWorld(t)
	w.create("daily", "at(2026-03-07T01:00:00)", func(in *sdk.CreateScheduleInput) { in.Target.Input = nil })
	w.clock.Advance(time.Hour)
	w.scheduler.Tick(t.Context(), w.clock.Now())
	inputs := w.taken()
	if len(inputs) != 1 {
		t.Fatalf("got %v", inputs)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(inputs[0]), &got); err != nil {
		t.Fatal(err)
	}
	if got["time"] != "2026-03-07T01:00:00Z" || got["source"] != "aws.scheduler" || strings.Contains(inputs[0], "<aws.") {
		t.Fatalf("got %s", inputs[0])
	}
}

// A rate begins at once, or with its start date, and counts elapsed time through
// clock changes.
func TestRates(t *testing.T) {
	w := newWorld(t)
	w.create("now", "rate(1 day)", func(in *sdk.CreateScheduleInput) { in.ScheduleExpressionTimezone = aws.String("America/New_York") })
	w.to("2026-03-07T00:00:00Z", "2026-03-07T00:00:00Z")
	w.to("2026-03-09T00:00:00Z", "2026-03-08T00:00:00Z", "2026-03-09T00:00:00Z")
	if _, err := w.client.DeleteSchedule(t.Context(), &sdk.DeleteScheduleInput{Name: aws.String("now")}); err != nil {
		t.Fatal(err)
	}
	w.create("later", "rate(90 minutes)", func(in *sdk.CreateScheduleInput) {
		in.StartDate = aws.Time(time.Date(2026, 3, 10, 0, 15, 0, 0, time.UTC))
		in.EndDate = aws.Time(time.Date(2026, 3, 10, 3, 15, 0, 0, time.UTC))
	})
	w.to("2026-03-11T00:00:00Z", "2026-03-10T00:15:00Z", "2026-03-10T01:45:00Z", "2026-03-10T03:15:00Z")
}

// Start and end bound a cron expression, and mean nothing to a one-time schedule.
func TestStartAndEnd(t *testing.T) {
	w := newWorld(t)
	dates := func(in *sdk.CreateScheduleInput) {
		in.StartDate = aws.Time(time.Date(2026, 3, 8, 2, 0, 0, 0, time.UTC))
		in.EndDate = aws.Time(time.Date(2026, 3, 9, 2, 0, 0, 0, time.UTC))
	}
	w.create("daily", "cron(0 2 * * ? *)", dates)
	w.create("once", "at(2026-03-07T01:00:00)", dates)
	w.to("2026-03-12T00:00:00Z", "2026-03-07T01:00:00Z", "2026-03-08T02:00:00Z", "2026-03-09T02:00:00Z")
}

// A schedule that is disabled misses what lies in between, and does not make up
// for it. What an update leaves out has its default again.
func TestDisabled(t *testing.T) {
	w := newWorld(t)
	w.create("daily", "cron(0 2 * * ? *)", func(in *sdk.CreateScheduleInput) { in.State = types.ScheduleStateDisabled })
	w.to("2026-03-08T00:00:00Z")
	update := func(state types.ScheduleState) {
		t.Helper()
		in := define("daily", "cron(0 2 * * ? *)", nil)
		_, err := w.client.UpdateSchedule(t.Context(), &sdk.UpdateScheduleInput{
			Name: in.Name, ScheduleExpression: in.ScheduleExpression, FlexibleTimeWindow: in.FlexibleTimeWindow, Target: in.Target, State: state,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	update("")
	w.to("2026-03-09T00:00:00Z", "2026-03-08T02:00:00Z")
	update(types.ScheduleStateDisabled)
	w.to("2026-03-12T00:00:00Z")
	update(types.ScheduleStateEnabled)
	w.to("2026-03-12T02:00:00Z", "2026-03-12T02:00:00Z")
}

// An operator moves a schedule to another time in another zone: the old time passes,
// the new one fires.
func TestUpdateMovesTheNextOccurrence(t *testing.T) {
	w := newWorld(t)
	w.create("daily", "cron(0 2 * * ? *)", nil)
	in := define("daily", "cron(0 4 * * ? *)", nil)
	update := &sdk.UpdateScheduleInput{
		Name: in.Name, ScheduleExpression: in.ScheduleExpression, ScheduleExpressionTimezone: aws.String("Europe/Berlin"),
		FlexibleTimeWindow: in.FlexibleTimeWindow, Target: in.Target, State: types.ScheduleStateEnabled,
	}
	if _, err := w.client.UpdateSchedule(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	w.to("2026-03-08T00:00:00Z", "2026-03-07T03:00:00Z")
	if _, err := w.client.DeleteSchedule(t.Context(), &sdk.DeleteScheduleInput{Name: in.Name}); err != nil {
		t.Fatal(err)
	}
	w.to("2026-03-10T00:00:00Z")
}

// A schedule that is done is removed where that was asked for, but not before its
// last invocation has arrived.
func TestActionAfterCompletion(t *testing.T) {
	w := newWorld(t)
	remove := func(in *sdk.CreateScheduleInput) { in.ActionAfterCompletion = types.ActionAfterCompletionDelete }
	w.create("once", "at(2026-03-07T01:00:00)", remove)
	w.create("kept", "at(2026-03-07T01:00:00)", nil)
	w.create("ending", "rate(1 hour)", func(in *sdk.CreateScheduleInput) {
		remove(in)
		in.StartDate = aws.Time(start.Add(time.Hour))
		in.EndDate = aws.Time(start.Add(150 * time.Minute))
	})
	w.answer = func(string) error { return errors.New("busy") }
	w.clock.Advance(time.Hour)
	w.scheduler.Tick(t.Context(), w.clock.Now())
	w.wantSchedules("ending", "kept", "once")
	w.answer = nil
	w.clock.Advance(time.Minute)
	w.scheduler.Tick(t.Context(), w.clock.Now())
	w.wantSchedules("ending", "kept")
	w.clock.Advance(time.Hour)
	w.scheduler.Tick(t.Context(), w.clock.Now())
	w.wantSchedules("kept")
}

// The last occurrence may arrive before an earlier one that is tried again.
func TestActionAwaitsRetries(t *testing.T) {
	w := newWorld(t)
	w.answer = func(input string) error {
		if input == `"2026-03-07T00:00:00Z"` {
			return errors.New("busy")
		}
		return nil
	}
	w.create("minutes", "rate(1 minute)", func(in *sdk.CreateScheduleInput) {
		in.ActionAfterCompletion = types.ActionAfterCompletionDelete
		in.EndDate = aws.Time(start.Add(90 * time.Second))
	})
	w.clock.Advance(90 * time.Second)
	w.scheduler.Tick(t.Context(), w.clock.Now())
	w.wantSchedules("minutes")
	w.answer = nil
	w.clock.Advance(time.Hour)
	w.scheduler.Tick(t.Context(), w.clock.Now())
	w.wantSchedules()
}

func (w *world) wantSchedules(want ...string) {
	w.t.Helper()
	out, err := w.client.ListSchedules(w.t.Context(), &sdk.ListSchedulesInput{})
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, s := range out.Schedules {
		got = append(got, aws.ToString(s.Name))
	}
	if !slices.Equal(got, want) {
		w.t.Fatalf("schedules %v, want %v", got, want)
	}
}

// The retry policy ends by attempts or by age, and then the dead letter tells all.
func TestRetriesAndDeadLetters(t *testing.T) {
	for _, c := range []struct {
		name      string
		policy    *types.RetryPolicy
		attempts  int
		condition string
	}{
		{"no retry", &types.RetryPolicy{MaximumRetryAttempts: aws.Int32(0)}, 1, "MaximumRetryAttempts"},
		{"three retries", &types.RetryPolicy{MaximumRetryAttempts: aws.Int32(3)}, 4, "MaximumRetryAttempts"},
		{"a minute", &types.RetryPolicy{MaximumEventAgeInSeconds: aws.Int32(60)}, 6, "MaximumEventAgeInSeconds"}, // 0 1 3 7 15 31
		{"the default", nil, 186, "MaximumRetryAttempts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.answer = func(string) error { return wire.Bad("TooManyRequestsException", "Rate Exceeded.") }
			w.create("daily", "at(2026-03-07T01:00:00)", func(in *sdk.CreateScheduleInput) {
				in.Target.RetryPolicy = c.policy
				in.Target.DeadLetterConfig = &types.DeadLetterConfig{Arn: aws.String(queueARN)}
			})
			w.clock.Advance(48 * time.Hour)
			if n := w.scheduler.Tick(t.Context(), w.clock.Now()); n != c.attempts {
				t.Fatalf("%d attempts, want %d", n, c.attempts)
			}
			if len(w.letters) != 1 || w.letters[0].queue != queueARN {
				t.Fatalf("letters %+v", w.letters)
			}
			got := w.letters[0]
			if got.attributes["EXECUTION_ID"] == "" {
				t.Error("no execution id")
			}
			delete(got.attributes, "EXECUTION_ID")
			want := map[string]string{
				"ERROR_CODE": "TooManyRequestsException", "ERROR_MESSAGE": "Rate Exceeded.",
				"EXHAUSTED_RETRY_CONDITION": c.condition, "IS_PAYLOAD_TRUNCATED": "false",
				"RETRY_ATTEMPTS": fmt.Sprint(c.attempts - 1), "SCHEDULED_TIME": "2026-03-07T01:00:00Z",
				"SCHEDULE_ARN": "arn:aws:scheduler:eu-central-1:000000000000:schedule/default/daily", "TARGET_ARN": targetARN,
			}
			if diff := cmp.Diff(want, got.attributes); diff != "" {
				t.Fatalf("attributes (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.body, `"Payload":"\"2026-03-07T01:00:00Z\""`) {
				t.Fatalf("body %s", got.body)
			}
			if m := w.scheduler.Metrics(); m.InvocationAttempts != c.attempts || m.TargetErrors != c.attempts || m.InvocationsSentToDeadLetter != 1 {
				t.Fatalf("metrics %+v", m)
			}
			w.clock.Advance(48 * time.Hour)
			if n := w.scheduler.Tick(t.Context(), w.clock.Now()); n != 0 {
				t.Fatalf("%d attempts after the end", n)
			}
		})
	}
}

// Retries wait on the clock, ever longer, while other schedules go on.
func TestRetriesWait(t *testing.T) {
	w := newWorld(t)
	w.answer = func(string) error { return errors.New("busy") }
	w.create("once", "at(2026-03-07T01:00:00)", nil)
	at := start.Add(time.Hour)
	w.clock.Advance(time.Hour)
	for _, wait := range []time.Duration{0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 480, 480} {
		at = at.Add(wait * time.Second)
		if next := w.scheduler.NextDue(); !next.Equal(at) {
			t.Fatalf("next at %v, want %v", next, at)
		}
		w.clock.Advance(at.Sub(w.clock.Now()))
		if n := w.scheduler.Tick(t.Context(), w.clock.Now()); n != 1 {
			t.Fatalf("%d attempts at %v", n, at)
		}
	}
	w.answer = nil
	w.taken()
	w.create("other", "rate(5 minutes)", nil)
	if n := w.scheduler.Tick(t.Context(), w.clock.Now()); n != 1 {
		t.Fatalf("%d attempts", n)
	}
}

// Without a dead-letter queue what is given up is dropped, and counted; a queue
// that can not be reached is counted as well.
func TestDropped(t *testing.T) {
	w := newWorld(t)
	w.answer = func(string) error { return errors.New("busy") }
	none := &types.RetryPolicy{MaximumRetryAttempts: aws.Int32(0)}
	w.create("dropped", "at(2026-03-07T01:00:00)", func(in *sdk.CreateScheduleInput) { in.Target.RetryPolicy = none })
	w.create("lost", "at(2026-03-07T01:00:00)", func(in *sdk.CreateScheduleInput) {
		in.Target.RetryPolicy = none
		in.Target.DeadLetterConfig = &types.DeadLetterConfig{Arn: aws.String(queueARN)}
	})
	w.scheduler.DeadLetter = func(context.Context, string, []byte, map[string]string) error { return errors.New("no queue") }
	w.clock.Advance(time.Hour)
	w.scheduler.Tick(t.Context(), w.clock.Now())
	want := scheduler.Metrics{InvocationAttempts: 2, TargetErrors: 2, InvocationsDropped: 1, InvocationsFailedToBeSentToDeadLetter: 1}
	if got := w.scheduler.Metrics(); got != want {
		t.Fatalf("got %+v", got)
	}
}

// A flexible window moves the invocation and not the scheduled time.
func TestFlexibleWindow(t *testing.T) {
	w := newWorld(t)
	w.scheduler.Flex = func(window time.Duration) time.Duration { return window / 2 }
	w.create("daily", "cron(0 1 * * ? *)", func(in *sdk.CreateScheduleInput) {
		in.FlexibleTimeWindow = &types.FlexibleTimeWindow{Mode: types.FlexibleTimeWindowModeFlexible, MaximumWindowInMinutes: aws.Int32(30)}
	})
	w.to("2026-03-07T01:14:59Z")
	w.to("2026-03-07T01:15:00Z", "2026-03-07T01:00:00Z")
}

// What several schedules have due is fired in the order of the instants.
func TestOrder(t *testing.T) {
	w := newWorld(t)
	for name, expr := range map[string]string{"a": "cron(20 1 7 3 ? 2026)", "b": "cron(10 1 7 3 ? 2026)", "c": "cron(0/15 1 7 3 ? 2026)"} {
		w.create(name, expr, nil)
	}
	w.to("2026-03-07T02:00:00Z", "2026-03-07T01:00:00Z", "2026-03-07T01:10:00Z", "2026-03-07T01:15:00Z",
		"2026-03-07T01:20:00Z", "2026-03-07T01:30:00Z", "2026-03-07T01:45:00Z")
}

// Run fires on the clock, notices new schedules, and ends with its context.
func TestRun(t *testing.T) {
	clock := wire.NewManual(start)
	fired := make(chan string, 1000)
	s := scheduler.New(clock, func(_ context.Context, _ string, input []byte) error {
		fired <- string(input)
		return nil
	})
	server := httptest.NewServer(emulator.New(wire.Wall{}, nil, s))
	defer server.Close()
	w := &world{t: t, client: sdk.New(sdk.Options{
		Region: region, BaseEndpoint: &server.URL, HTTPClient: server.Client(),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	w.create("hourly", "rate(1 hour)", nil)
	want := func(input string) {
		t.Helper()
		select {
		case got := <-fired:
			if got != `"`+input+`"` {
				t.Fatalf("got %s, want %s", got, input)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s does not come", input)
		}
	}
	want("2026-03-07T00:00:00Z")
	clock.Advance(time.Hour)
	want("2026-03-07T01:00:00Z")
	w.create("soon", "at(2026-03-07T01:30:00)", nil)
	clock.Advance(30 * time.Minute)
	want("2026-03-07T01:30:00Z")
	stop()
	<-ended
	clock.Advance(24 * time.Hour)
	if len(fired) != 0 {
		t.Fatal("fired after the end")
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}
