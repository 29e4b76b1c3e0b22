package scheduler

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// definition is what CreateSchedule and UpdateSchedule carry.
type definition struct {
	ActionAfterCompletion      string   `json:",omitempty"`
	ClientToken                string   `json:",omitempty"`
	Description                string   `json:",omitempty"`
	EndDate                    *float64 `json:",omitempty"`
	FlexibleTimeWindow         *window
	GroupName                  string `json:",omitempty"`
	ScheduleExpression         string
	ScheduleExpressionTimezone string   `json:",omitempty"`
	StartDate                  *float64 `json:",omitempty"`
	State                      string   `json:",omitempty"`
	Target                     *target
}

type window struct {
	Mode                   string
	MaximumWindowInMinutes int `json:",omitempty"`
}

type target struct {
	Arn              string
	RoleArn          string
	Input            string       `json:",omitempty"`
	DeadLetterConfig *deadLetter  `json:",omitempty"`
	RetryPolicy      *retryPolicy `json:",omitempty"`
}

type deadLetter struct {
	Arn string `json:",omitempty"`
}

type retryPolicy struct {
	MaximumEventAgeInSeconds *int `json:",omitempty"`
	MaximumRetryAttempts     *int `json:",omitempty"`
}

const (
	enabled  = "ENABLED"
	disabled = "DISABLED"

	// What an absent retry policy means.
	defaultEventAge = 86_400
	defaultRetries  = 185
)

// schedule is a schedule in being.
type schedule struct {
	definition
	key               key
	created, modified time.Time
	expression        expression
	origin            time.Time // the first occurrence of a rate
	next              time.Time // zero when there is none any more
	outstanding       int       // occurrences that are not settled
	body              string    // of the request that created it, for its repetition
}

func (k key) arn() string {
	return "arn:aws:scheduler:" + k.region + ":" + wire.Account + ":schedule/" + k.group + "/" + k.name
}

var (
	namePattern = regexp.MustCompile(`^[0-9a-zA-Z-_.]{1,64}$`)
	arnPattern  = regexp.MustCompile(`^arn:aws(-[a-z]+)?:[a-z0-9-]+:[a-z0-9-]*:[0-9]*:.+$`)
	rolePattern = regexp.MustCompile(`^arn:aws(-[a-z]+)?:iam::\d{12}:role/[\w+=,.@/-]+$`)
	dlqPattern  = regexp.MustCompile(`^arn:aws(-[a-z]+)?:sqs:[a-z0-9-]+:\d{12}:[a-zA-Z0-9\-_]+$`)
)

// check fills in the defaults and refuses what AWS refuses.
func (s *Service) check(d *definition, now time.Time) (expression, *wire.Error) {
	d.GroupName = or(d.GroupName, defaultGroup)
	d.State = or(d.State, enabled)
	d.ActionAfterCompletion = or(d.ActionAfterCompletion, "NONE")
	d.ScheduleExpressionTimezone = or(d.ScheduleExpressionTimezone, "UTC")
	switch {
	case d.State != enabled && d.State != disabled:
		return expression{}, constraint(d.State, "state", "[ENABLED, DISABLED]")
	case d.ActionAfterCompletion != "NONE" && d.ActionAfterCompletion != "DELETE":
		return expression{}, constraint(d.ActionAfterCompletion, "actionAfterCompletion", "[NONE, DELETE]")
	}
	loc, ok := loadZone(d.ScheduleExpressionTimezone)
	if !ok {
		return expression{}, invalid("The time zone is not valid: " + d.ScheduleExpressionTimezone)
	}
	e, err := parseExpression(d.ScheduleExpression, loc)
	if err != nil {
		return expression{}, invalid("Invalid Schedule Expression " + d.ScheduleExpression + ".")
	}
	if err := d.checkDates(e, now); err != nil {
		return expression{}, err
	}
	if err := d.checkWindow(); err != nil {
		return expression{}, err
	}
	return e, s.checkTarget(d.Target)
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func constraint(value, member, values string) *wire.Error {
	return invalid(fmt.Sprintf("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy enum value set: %s", value, member, values))
}

// checkDates refuses a start that is over and an end that leaves no time. A
// one-time schedule has neither. One that lies in the past is refused, since it is
// not documented what would become of it.
func (d *definition) checkDates(e expression, now time.Time) *wire.Error {
	if e.oneTime() {
		if !e.once.IsZero() && e.once.Before(now) {
			return invalid("Invalid Schedule Expression " + d.ScheduleExpression + ": the time is in the past.")
		}
		return nil
	}
	start, end := d.start(), d.end()
	switch {
	case !start.IsZero() && start.Before(now.Add(-5*time.Minute)):
		return invalid("The StartDate you specify cannot be earlier than 5 minutes ago.")
	case !end.IsZero() && !end.After(now):
		return invalid("The EndDate you specify must be in the future.")
	case !end.IsZero() && !start.IsZero() && !end.After(start):
		return invalid("The StartDate you specify must come before the EndDate.")
	}
	return nil
}

func (d *definition) checkWindow() *wire.Error {
	switch w := d.FlexibleTimeWindow; {
	case w == nil:
		return invalid("FlexibleTimeWindow must not be null.")
	case w.Mode != "OFF" && w.Mode != "FLEXIBLE":
		return constraint(w.Mode, "flexibleTimeWindow.mode", "[OFF, FLEXIBLE]")
	case w.Mode == "OFF" && w.MaximumWindowInMinutes != 0:
		return invalid("MaximumWindowInMinutes must not be set when the flexible time window mode is OFF.")
	case w.Mode == "FLEXIBLE" && (w.MaximumWindowInMinutes < 1 || w.MaximumWindowInMinutes > 1440):
		return invalid("MaximumWindowInMinutes must be between 1 and 1440 when the flexible time window mode is FLEXIBLE.")
	}
	return nil
}

func (s *Service) checkTarget(t *target) *wire.Error {
	switch {
	case t == nil:
		return invalid("Target must not be null.")
	case !arnPattern.MatchString(t.Arn) || len(t.Arn) > 1600:
		return invalid("Provided Arn is not in correct format: " + t.Arn)
	case !rolePattern.MatchString(t.RoleArn) || len(t.RoleArn) > 1600:
		return invalid("Provided RoleArn is not in correct format: " + t.RoleArn)
	case strings.Contains(t.Arn, ":lambda:") && t.Input != "" && !json.Valid([]byte(t.Input)):
		return invalid("The Input of a Lambda target must be well-formed JSON.")
	case len(t.Input) > 256<<10:
		return invalid("Input must be at most 262144 bytes.")
	}
	if l := t.DeadLetterConfig; l != nil && l.Arn != "" {
		switch {
		case !dlqPattern.MatchString(l.Arn):
			return invalid("Provided DeadLetterConfig Arn is not that of a standard queue: " + l.Arn)
		case s.DeadLetter == nil:
			return wire.Unsupported("a dead-letter queue of a schedule in this set-up")
		}
	}
	if p := t.RetryPolicy; p != nil {
		if n := p.MaximumRetryAttempts; n != nil && (*n < 0 || *n > defaultRetries) {
			return invalid("MaximumRetryAttempts must be between 0 and 185.")
		}
		if n := p.MaximumEventAgeInSeconds; n != nil && (*n < 60 || *n > defaultEventAge) {
			return invalid("MaximumEventAgeInSeconds must be between 60 and 86400.")
		}
	}
	return nil
}

func (d *definition) start() time.Time { return fromEpoch(d.StartDate) }
func (d *definition) end() time.Time   { return fromEpoch(d.EndDate) }

func fromEpoch(seconds *float64) time.Time {
	if seconds == nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(*seconds * 1000)).UTC()
}

// define gives the schedule its definition and its next occurrence. A rate begins
// with its start date, or at once, and goes on unmoved when something else changes.
func (s *schedule) define(d definition, e expression, now time.Time) {
	same := s.ScheduleExpression == d.ScheduleExpression && s.start().Equal(d.start())
	after := now
	s.definition, s.expression, s.modified = d, e, now
	if !same {
		s.origin = now
		if start := d.start(); !start.IsZero() {
			s.origin = start
		}
		if e.period > 0 {
			after = now.Add(-1) // it may begin now
		}
	}
	s.advance(after)
}

// advance finds the next occurrence after an instant.
func (s *schedule) advance(after time.Time) {
	s.next = time.Time{}
	if s.State == disabled {
		return
	}
	recurring := !s.expression.oneTime()
	if start := s.start(); recurring && !start.IsZero() && start.After(after) {
		after = start.Add(-1)
	}
	next := s.expression.next(after, s.origin)
	if end := s.end(); recurring && !end.IsZero() && next.After(end) {
		return
	}
	s.next = next
}

// completed reports whether there is nothing left for the schedule to do.
func (s *schedule) completed() bool {
	return s.State == enabled && s.next.IsZero() && s.outstanding == 0
}
