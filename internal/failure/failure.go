// Package failure sorts every error into a class that says what to do next.
//
// The adapter that knows a service maps its errors once; everything above asks
// only for the class. The list is closed and short enough to be a metric
// dimension. An error nobody classified is a Bug and goes to the careful side:
// it is retried, then dead-lettered, never taken for success.
package failure

import (
	"errors"
	"fmt"
	"time"
)

// Class says what to do next.
type Class string

const (
	// Throttled: the service refused for rate; nothing happened. Wait, then retry.
	Throttled Class = "throttled"
	// Network: no answer, or an answer that cannot be trusted. The effect may
	// have happened; look before acting again.
	Network Class = "network"
	// Conflict: a condition did not hold; nothing happened. Read again, then decide.
	Conflict Class = "conflict"
	// Absent: what was named is not there; nothing happened.
	Absent Class = "absent"
	// Forbidden: a lasting refusal; nothing happened. An operator must act.
	Forbidden Class = "forbidden"
	// Invalid: the input can never work; nothing happened. Quarantine it.
	Invalid Class = "invalid"
	// UnknownPolicy: the named policy version is not on record. Quarantine.
	UnknownPolicy Class = "unknown_policy"
	// Bug: an error without a class.
	Bug Class = "bug"
)

// Classes lists every class once.
func Classes() []Class {
	return []Class{Throttled, Network, Conflict, Absent, Forbidden, Invalid, UnknownPolicy, Bug}
}

// Error is an error with a class. Op names the operation and may carry ids;
// never a key, a body or a credential.
type Error struct {
	Class      Class
	Op         string
	RetryAfter time.Duration // how long the service asked to wait; 0 when it did not say
	Err        error
}

// New returns an error of the class; the text is for operators and holds no payload.
func New(class Class, op, text string) error {
	return &Error{Class: class, Op: op, Err: errors.New(text)}
}

// Wrap gives err a class. A nil err stays nil.
func Wrap(class Class, op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Class: class, Op: op, Err: err}
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %v", e.Op, e.Class, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Of returns err's class: that of the outermost classified error in its chain,
// Bug when there is none, and "" for nil.
func Of(err error) Class {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Bug
}

// Is reports whether err has the class.
func Is(err error, class Class) bool { return err != nil && Of(err) == class }

// RetryAfter returns how long the service asked to wait, or 0.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// Op returns the operation of the outermost classified error, "" when there is
// none. It is a fixed text of ours with ids at most, and may be logged.
func Op(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Op
	}
	return ""
}

// Retryable reports whether the same request may succeed later without an operator.
func (c Class) Retryable() bool {
	switch c {
	case Throttled, Network, Conflict, Bug:
		return true
	default:
		return false
	}
}

// Ambiguous reports whether the effect may have happened despite the error.
func (c Class) Ambiguous() bool { return c == Network || c == Bug }

// Hook decides the fate of one write of a fake. apply performs the write and
// returns its natural answer. Not calling apply is "it failed"; calling apply and
// returning an error anyway is "it failed, but it happened"; not returning at all
// (runtime.Goexit before or after apply) is a process that dies at that point.
type Hook func(op string, apply func() error) error

// Do runs apply through the hook, or directly when there is none.
func (h Hook) Do(op string, apply func() error) error {
	if h == nil {
		return apply()
	}
	return h(op, apply)
}
