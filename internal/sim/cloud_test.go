package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/queue"
)

// ticking is the clock of a world, for the embedded AWS.
type ticking struct{ w *world }

func (t ticking) Now() time.Time { return t.w.clock() }

// After is for long polls and delays, of which a world has none.
func (ticking) After(time.Duration) <-chan time.Time { panic("sim: nobody waits in the services") }

// lines are the queues of the embedded AWS past its wire.
type lines struct {
	pages   map[job.Mode]*sqs.Queue
	letters *sqs.Queue
	twice   int
	moved   int
}

// Receive is what the event source mapping does.
func (l *lines) Receive(ctx context.Context, mode job.Mode, limit int) (got []job.Delivery, err error) {
	before := l.count()
	l.pages[mode].Duplicate(l.twice)
	all, err := l.pages[mode].Receive(ctx, limit, 0)
	l.pages[mode].Duplicate(0)
	l.twice = 0
	for _, m := range all {
		got = append(got, job.Delivery{MessageID: m.ID, Handle: m.Handle, Body: []byte(m.Body), SentAt: m.SentAt.UTC(), Receives: m.Receives})
	}
	l.moved += l.count() - before
	return got, err
}

func (l *lines) count() int {
	c := l.letters.Counts()
	return c.Visible + c.InFlight
}

// Ack deletes a message.
func (l *lines) Ack(_ context.Context, mode job.Mode, d job.Delivery) error {
	return l.pages[mode].Delete(d.Handle)
}

// NextVisible is when the next message can be received.
func (l *lines) NextVisible(mode job.Mode) (time.Time, bool) { return l.pages[mode].NextVisible() }

// Duplicate delivers the next n messages twice.
func (l *lines) Duplicate(n int) { l.twice = n }

// Send sends past client and faults.
func (l *lines) Send(_ context.Context, mode job.Mode, messages []job.Message) (accepted []string, err error) {
	for _, m := range messages {
		if _, err := l.pages[mode].Send(sqs.Message{Body: string(m.Body), Group: m.Group}); err != nil {
			return accepted, err
		}
		accepted = append(accepted, m.ID)
	}
	return accepted, nil
}

// Stray puts a letter of nobody there.
func (l *lines) Stray(body []byte) {
	_, err := l.letters.Send(sqs.Message{Body: string(body)})
	sure(err)
}

// NativeRedrive is the button of the console.
func (l *lines) NativeRedrive(mode job.Mode) (moved int) {
	for {
		got, err := l.letters.Receive(context.Background(), queue.MaxBatch, 0)
		sure(err)
		if len(got) == 0 {
			return moved
		}
		for _, m := range got {
			_, err := l.pages[mode].Send(sqs.Message{Body: m.Body, Group: m.Group})
			sure(err)
			sure(l.letters.Delete(m.Handle))
			moved++
		}
	}
}

// PeekLetters returns every letter, as far as oracles look at it.
func (l *lines) PeekLetters() (all []job.DeadLetter) {
	for _, m := range l.letters.Peek() {
		all = append(all, job.DeadLetter{Delivery: job.Delivery{MessageID: m.ID, Body: []byte(m.Body)}})
	}
	return all
}

// Stats tells only what the world asks.
func (l *lines) Stats() queue.Stats { return queue.Stats{Moved: l.moved} }

// shop is the store of the embedded AWS past its wire.
type shop struct{ s *s3.Service }

func itemOf(l s3.Listed) job.Item {
	return job.Item{Key: l.Key, Version: l.Version, ETag: l.ETag, Size: l.Size, Modified: l.Modified.UTC(), Marker: l.Marker}
}

// Get finds a version, or the current object.
func (b shop) Get(bucket string, ref job.Ref) (job.Item, bool) {
	found, ok := b.s.Find(bucket, ref.Key, ref.Version)
	if !ok {
		return job.Item{}, false
	}
	item := itemOf(found)
	if ref.Version == "" {
		item.Version = ""
	}
	return item, true
}

// Objects yields what a listing shows.
func (b shop) Objects(bucket string) iter.Seq[job.Item] {
	return func(yield func(job.Item) bool) {
		for l := range b.s.Everything(bucket) {
			if item := itemOf(l); l.Newest && !l.Marker {
				if item.Version = ""; !yield(item) {
					return
				}
			}
		}
	}
}

// Versions yields everything.
func (b shop) Versions(bucket string) iter.Seq[job.Item] {
	return func(yield func(job.Item) bool) {
		for l := range b.s.Everything(bucket) {
			if !yield(itemOf(l)) {
				return
			}
		}
	}
}

// Put uploads bytes that stand for the item's ETag and size: the same for the same.
func (b shop) Put(bucket string, item job.Item) (job.Item, error) {
	body, known := b.s.Body(bucket, item.Key)
	if now, _ := b.s.Find(bucket, item.Key, ""); !known || now.ETag != item.ETag || now.Size != item.Size {
		sum := sha256.Sum256([]byte(item.ETag))
		body = bytes.Repeat(sum[:1], int(item.Size))
	}
	stored, err := b.s.Upload(bucket, s3.Object{Key: item.Key, Body: body, Modified: item.Modified})
	return itemOf(stored), err
}

// CreateBucket makes a bucket.
func (b shop) CreateBucket(name string, versioned bool) error {
	return b.s.Create(name, region, versioned)
}

// Remove is somebody else's delete.
func (b shop) Remove(bucket string, ref job.Ref) bool {
	return b.s.Remove(bucket, ref.Key, ref.Version)
}

// SetLock lays a legal hold.
func (b shop) SetLock(bucket string, ref job.Ref, lock artifact.Lock) error {
	if !lock.LegalHold || ref.Version != "" {
		panic(fmt.Sprintf("sim: no such lock: %+v", lock))
	}
	if !b.s.Hold(bucket, ref.Key) {
		return failure.New(failure.Absent, "lock", "no such object")
	}
	return nil
}

// Allow lifts refusals, of which there are none.
func (shop) Allow(string) error { return nil }

// effectOf is what an effect of the embedded AWS is to the oracles.
func effectOf(bucket string, e s3.Effect) artifact.Effect {
	return artifact.Effect{
		Bucket: bucket, At: e.At, Marker: e.Marker, Restored: e.Lifted,
		Item: job.Item{Key: e.Key, Version: e.Version, ETag: e.ETag, Size: e.Size, Modified: e.Modified.UTC()},
	}
}
