package scheduler

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// execution is one occurrence of a schedule on its way to the target. It keeps the
// target that the schedule had when it fired.
type execution struct {
	schedule  *schedule
	target    target
	scheduled time.Time // the instant that the expression names
	due       time.Time // of the next attempt
	attempts  int
}

// Tick carries out everything that is due at now, in order, and returns how many
// attempts that were. It stops early when ctx ends; what is left stays due.
func (s *Service) Tick(ctx context.Context, now time.Time) int {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	attempts := 0
	for ctx.Err() == nil {
		e := s.take(now)
		if e == nil {
			break
		}
		attempts++
		s.attempt(ctx, e)
	}
	return attempts
}

// Run ticks whenever something is due on the clock, until ctx ends.
func (s *Service) Run(ctx context.Context) {
	for ctx.Err() == nil {
		s.Tick(ctx, s.clock.Now())
		next := s.NextDue()
		if next.IsZero() {
			select {
			case <-s.changed:
			case <-ctx.Done():
			}
			continue
		}
		ring := s.clock.After(next.Sub(s.clock.Now()))
		if !s.clock.Now().Before(next) {
			continue // the clock was moved before it was asked to ring
		}
		select {
		case <-ring:
		case <-s.changed:
		case <-ctx.Done():
		}
	}
}

// NextDue is the instant at which Tick has something to do next, and zero when
// there is nothing.
func (s *Service) NextDue() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next time.Time
	for _, x := range s.schedules {
		if !x.next.IsZero() && (next.IsZero() || x.next.Before(next)) {
			next = x.next
		}
	}
	for _, e := range s.executions {
		if next.IsZero() || e.due.Before(next) {
			next = e.due
		}
	}
	return next
}

// take returns the next execution that is due, or nil. Occurrences are turned into
// executions up to the instant that is looked at.
func (s *Service) take(now time.Time) *execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var e *execution
		if len(s.executions) > 0 {
			e = slices.MinFunc(s.executions, earlier)
		}
		horizon := now
		if e != nil && e.due.Before(now) {
			horizon = e.due
		}
		if s.occur(horizon) {
			continue // it may be due before e
		}
		if e == nil || e.due.After(now) {
			return nil
		}
		s.executions = slices.DeleteFunc(s.executions, func(other *execution) bool { return other == e })
		return e
	}
}

// earlier orders executions; the names only make the order certain.
func earlier(a, b *execution) int {
	return cmp.Or(a.due.Compare(b.due), a.scheduled.Compare(b.scheduled), strings.Compare(a.schedule.key.arn(), b.schedule.key.arn()))
}

// occur turns the first occurrence that is due by an instant into an execution.
// The caller holds the lock.
func (s *Service) occur(by time.Time) bool {
	var first *schedule
	for _, x := range s.schedules {
		if x.next.IsZero() || x.next.After(by) {
			continue
		}
		if first == nil || x.next.Before(first.next) {
			first = x
		}
	}
	if first == nil {
		return false
	}
	at := first.next
	due := at
	if w := first.FlexibleTimeWindow; w.Mode == "FLEXIBLE" && s.Flex != nil {
		due = at.Add(s.Flex(time.Duration(w.MaximumWindowInMinutes) * time.Minute))
	}
	first.advance(at)
	first.outstanding++
	s.executions = append(s.executions, &execution{schedule: first, target: *first.Target, scheduled: at, due: due})
	return true
}

// attempt hands an execution to the target once.
func (s *Service) attempt(ctx context.Context, e *execution) {
	e.attempts++
	id := executionID()
	input := e.input(id)
	err := s.target(ctx, e.target.Arn, []byte(input))
	s.mu.Lock()
	s.metrics.InvocationAttempts++
	if err == nil {
		s.settle(e)
		s.mu.Unlock()
		return
	}
	s.metrics.TargetErrors++
	condition := e.retry()
	if condition == "" {
		s.executions = append(s.executions, e)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	lost := s.bury(ctx, e, id, input, condition, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.queue() == "":
		s.metrics.InvocationsDropped++
	case lost:
		s.metrics.InvocationsFailedToBeSentToDeadLetter++
	default:
		s.metrics.InvocationsSentToDeadLetter++
	}
	s.settle(e)
}

// settle ends an execution, and its schedule with the last one where that is
// asked for. The caller holds the lock.
func (s *Service) settle(e *execution) {
	x := e.schedule
	x.outstanding--
	if x.ActionAfterCompletion == "DELETE" && x.completed() && s.schedules[x.key] == x {
		delete(s.schedules, x.key)
	}
}

// The waits between attempts double from the first to the last, which spreads 185
// attempts over a day. AWS says that they grow exponentially, and no more.
const (
	firstWait = time.Second
	lastWait  = 8 * time.Minute
)

// retry sets the next attempt. It returns what the retry policy ended by when
// there will be none.
func (e *execution) retry() (exhausted string) {
	retries, age := defaultRetries, defaultEventAge
	if p := e.target.RetryPolicy; p != nil {
		if p.MaximumRetryAttempts != nil {
			retries = *p.MaximumRetryAttempts
		}
		if p.MaximumEventAgeInSeconds != nil {
			age = *p.MaximumEventAgeInSeconds
		}
	}
	if e.attempts > retries {
		return "MaximumRetryAttempts"
	}
	wait := lastWait
	if doublings := e.attempts - 1; doublings < 9 { // 2^9 s are more than lastWait
		wait = min(lastWait, firstWait<<doublings)
	}
	if e.due.Add(wait).Sub(e.scheduled) > time.Duration(age)*time.Second {
		return "MaximumEventAgeInSeconds"
	}
	e.due = e.due.Add(wait)
	return ""
}

// input fills the context attributes in. Text is replaced by text: what stands
// there in any other spelling, such as with an escaped bracket, is left alone.
func (e *execution) input(id string) string {
	text := e.target.Input
	if text == "" {
		text = e.notification()
	}
	return strings.NewReplacer(
		"<aws.scheduler.scheduled-time>", e.scheduledTime(),
		"<aws.scheduler.schedule-arn>", e.schedule.key.arn(),
		"<aws.scheduler.execution-id>", id,
		"<aws.scheduler.attempt-number>", strconv.Itoa(e.attempts),
	).Replace(text)
}

func (e *execution) scheduledTime() string { return e.scheduled.UTC().Format("2006-01-02T15:04:05Z") }

// notification is the input of a target that has none.
func (e *execution) notification() string {
	body, _ := json.Marshal(map[string]any{ // strings always marshal
		"version": "0", "id": "<aws.scheduler.execution-id>", "detail-type": "Scheduled Event", "source": "aws.scheduler",
		"account": wire.Account, "time": e.scheduledTime(), "region": e.schedule.key.region,
		"resources": []string{e.schedule.key.arn()}, "detail": "{}",
	})
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(body))
}

// queue is the ARN of the dead-letter queue, if there is one.
func (e *execution) queue() string {
	if l := e.target.DeadLetterConfig; l != nil {
		return l.Arn
	}
	return ""
}

// bury sends the dead letter of an execution: the request that the target did not
// take, with what is known of it in attributes. It reports whether it was lost.
func (s *Service) bury(ctx context.Context, e *execution, id, input, condition string, failure error) (lost bool) {
	queue := e.queue()
	if queue == "" {
		return true
	}
	code, message := "InternalException", failure.Error()
	var known *wire.Error
	if errors.As(failure, &known) {
		code, message = known.Code, known.Message
	}
	return s.DeadLetter(ctx, queue, []byte(e.request(input)), map[string]string{
		"ERROR_CODE": code, "ERROR_MESSAGE": message,
		"EXECUTION_ID": id, "EXHAUSTED_RETRY_CONDITION": condition,
		"IS_PAYLOAD_TRUNCATED": "false", "RETRY_ATTEMPTS": strconv.Itoa(e.attempts - 1),
		"SCHEDULED_TIME": e.scheduledTime(), "SCHEDULE_ARN": e.schedule.key.arn(), "TARGET_ARN": e.target.Arn,
	}) != nil
}

// request is the API request that carried the input. AWS documents the form of a
// queue; that of a function follows it, and any other target has its bare input.
func (e *execution) request(input string) string {
	var request map[string]string
	switch {
	case strings.Contains(e.target.Arn, ":sqs:"):
		name := e.target.Arn[strings.LastIndexByte(e.target.Arn, ':')+1:]
		request = map[string]string{
			"MessageBody": input,
			"QueueUrl":    "https://sqs." + e.schedule.key.region + ".amazonaws.com/" + wire.Account + "/" + name,
		}
	case strings.Contains(e.target.Arn, ":lambda:"):
		request = map[string]string{"FunctionName": e.target.Arn, "InvocationType": "Event", "Payload": input}
	default:
		return input
	}
	body, _ := json.Marshal(request) // strings always marshal
	return string(body)
}

// executionID names an attempt as AWS does, which gives every one its own.
func executionID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail
	return hex.EncodeToString(b[:])
}
