package queue

import (
	"context"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

const opSend = "send messages"

// transport sends one batch of at most MaxBatch messages and MaxBytes bytes, and
// returns the places in it of those that were accepted.
type transport func(ctx context.Context, batch []job.Message) (accepted []int, err error)

// send is what every implementation's Send does with its transport.
func send(ctx context.Context, t transport, mode job.Mode, msgs []job.Message) (accepted []string, err error) {
	if err := knownMode(opSend, mode); err != nil {
		return nil, err
	}
	good, invalid := sendable(msgs)
	for len(good) > 0 {
		n := batchSize(good)
		places, err := t(ctx, good[:n])
		if err != nil {
			return accepted, errors.Join(err, invalid) // the first decides the class
		}
		for _, at := range places {
			accepted = append(accepted, good[at].ID)
		}
		good = good[n:]
	}
	return accepted, invalid
}

func knownMode(op string, mode job.Mode) error {
	if mode != job.Enforce && mode != job.ReportOnly {
		return failure.New(failure.Invalid, op, "unknown mode")
	}
	return nil
}

// batchSize returns how many of the messages fit the next batch; at least one does.
func batchSize(msgs []job.Message) int {
	n, sum := 0, 0
	for n < len(msgs) && n < MaxBatch && sum+len(msgs[n].Body) <= MaxBytes {
		sum += len(msgs[n].Body)
		n++
	}
	return n
}

// sendable sorts out the messages that no queue would take.
func sendable(msgs []job.Message) (good []job.Message, err error) {
	refused, first := 0, ""
	for _, m := range msgs {
		fault := unsendable(m)
		if fault == "" {
			good = append(good, m)
			continue
		}
		if refused++; refused == 1 {
			first = fault
		}
	}
	if refused > 0 {
		err = failure.New(failure.Invalid, opSend, strconv.Itoa(refused)+" not sendable; the first "+first)
	}
	return good, err
}

func unsendable(m job.Message) string {
	switch {
	case m.ID == "":
		return "has no id"
	case len(m.Group) > 128:
		return "has a group over 128 characters"
	default:
		return badBody(m.Body)
	}
}

func badBody(body []byte) string {
	switch {
	case len(body) == 0:
		return "has no body"
	case len(body) > MaxBytes:
		return "is over " + strconv.Itoa(MaxBytes) + " bytes"
	case !utf8.Valid(body):
		return "is not UTF-8"
	}
	for _, r := range string(body) {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return "has a character outside XML 1.0"
		}
	}
	return ""
}

// wholeSeconds returns the wait as SQS takes it: 0 to MaxDelay, rounded up.
func wholeSeconds(wait time.Duration) time.Duration {
	wait = min(max(wait, 0), MaxDelay)
	if rest := wait % time.Second; rest > 0 {
		wait += time.Second - rest
	}
	return wait
}
