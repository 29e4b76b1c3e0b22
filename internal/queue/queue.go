package queue

import (
	"context"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

const (
	// MaxBatch is the most entries of one SendMessageBatch call.
	MaxBatch = 10
	// MaxBytes is the most bytes of one message, and of all messages of a batch:
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
	MaxBytes = 1 << 20
	// MaxDelay is the longest wait that Delay asks for. SQS allows 12 hours from the
	// receive; a function may have held the message for 15 minutes of them:
	// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html
	MaxDelay = 12*time.Hour - 15*time.Minute
)

// Sender sends messages to the pages queue of a mode. Report-only messages have a
// queue of their own, read by a worker that may not delete.
type Sender interface {
	// Send sends any number of messages, in batches, and returns the ids of those
	// that the queue accepted, in order. A message refused on its own is merely not
	// among them. A message that no queue would take (no id, empty, over MaxBytes,
	// characters outside XML 1.0, a group over 128 characters) is failure.Invalid;
	// the others are sent all the same. A batch call that fails ends the sending;
	// its messages may have been taken in.
	Send(ctx context.Context, mode job.Mode, msgs []job.Message) (accepted []string, err error)
}

// Receiver reads a pages queue. A deployed worker is handed its deliveries by
// Lambda; the local run and the tests receive.
type Receiver interface {
	// Receive returns at most limit deliveries, perhaps none, and hides each for the
	// visibility timeout.
	Receive(ctx context.Context, mode job.Mode, limit int) ([]job.Delivery, error)
	// Ack deletes the message for good. With a handle that is no longer the newest it
	// succeeds and the message may stay, as in SQS.
	Ack(ctx context.Context, mode job.Mode, d job.Delivery) error
	// Delay hides the delivery for wait from now, 0 to MaxDelay, rounded up to whole
	// seconds so that a service that asked for time gets it. A delivery that is no
	// longer in flight under this handle is failure.Absent; there is nothing to do.
	Delay(ctx context.Context, d job.Delivery, wait time.Duration) error
}

// Letterbox keeps the region's dead letters.
type Letterbox interface {
	// DeadLetter writes the letter. It is durable when the error is nil; after any
	// other answer it may be there too, and a second copy does no harm. A letter that
	// is over MaxBytes with its attributes is failure.Invalid: leave the message to
	// SQS's own maxReceiveCount.
	DeadLetter(ctx context.Context, l job.Letter) error
	// Letters returns at most limit dead letters and hides each for the visibility
	// timeout.
	Letters(ctx context.Context, limit int) ([]job.DeadLetter, error)
	// Remove deletes the letter for good, once its copy is durable elsewhere.
	Remove(ctx context.Context, d job.DeadLetter) error
	// PutBack shows the letter again at once. One that is no longer in flight under
	// this handle is failure.Absent.
	PutBack(ctx context.Context, d job.DeadLetter) error
}

// Inspector looks at dead letters without touching them.
type Inspector interface {
	// Peek returns at most limit dead letters and hides none of them. A letter may
	// come again in the next answer, and one that somebody holds comes in none. What
	// it counts as receives is nobody's attempt.
	Peek(ctx context.Context, limit int) ([]job.DeadLetter, error)
}
