package local

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/audit"
	fakelambda "github.com/expunge-aws/expunge/internal/emulator/lambda"
	fakesqs "github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/invariant"
)

// source lets the embedded Lambda poll a queue of the embedded SQS.
type source struct{ *fakesqs.Queue }

// Receive implements lambda.Source.
func (s source) Receive(ctx context.Context, limit int, wait time.Duration) ([]fakelambda.Message, error) {
	got, err := s.Queue.Receive(ctx, limit, wait)
	messages := make([]fakelambda.Message, len(got))
	for i, m := range got {
		messages[i] = fakelambda.Message{ID: m.ID, Handle: m.Handle, Body: m.Body, BodyMD5: digest(m.Body), Attributes: m.SystemAttributes()}
	}
	return messages, err
}

// digest is the MD5 that SQS gives a body.
func digest(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

// Delete implements lambda.Source.
func (s source) Delete(_ context.Context, handles []string) error {
	for _, h := range handles {
		if err := s.Queue.Delete(h); err != nil {
			return err
		}
	}
	return nil
}

// DeadLetter implements lambda.Source. Nothing of ours feeds its own queue, so the
// recursion guard has nothing to cut.
func (s source) DeadLetter(context.Context, fakelambda.Message) error { return nil }

// Visibility implements lambda.Source.
func (s source) Visibility() time.Duration {
	seconds, err := strconv.Atoi(s.Attribute("VisibilityTimeout"))
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func createBucket(name, region string) *s3.CreateBucketInput {
	return &s3.CreateBucketInput{Bucket: &name, CreateBucketConfiguration: &types.CreateBucketConfiguration{
		LocationConstraint: types.BucketLocationConstraint(region),
	}}
}

// ackLog keeps what the mapping deleted, for the invariants.
type ackLog struct {
	mu   sync.Mutex
	acks []invariant.Ack
}

func (l *ackLog) note(d fakesqs.Deletion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = append(l.acks, invariant.Ack{MessageID: d.ID, Body: []byte(d.Body), At: d.At})
}

func (l *ackLog) all() []invariant.Ack {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]invariant.Ack(nil), l.acks...)
}

// output reads the events out of what the functions print, line by line.
type output struct {
	mu   sync.Mutex
	rest []byte
	sink audit.Sink
}

func newOutput(log *audit.Log, also audit.Sink) io.Writer {
	if also == nil {
		return &output{sink: log}
	}
	return &output{sink: audit.Both(log, also)}
}

// Write takes what a function printed. A line that is no event is dropped: a
// function says nothing else but why it did not start, and then the run fails.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, b...)
	for {
		line, rest, ok := bytes.Cut(o.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		var e audit.Event
		if json.Unmarshal(line, &e) == nil && e.Event != "" {
			o.sink.Emit(e)
		}
		o.rest = rest
	}
}

// faults decides the fate of calls by hooks that can be set while it is asked.
type faults struct {
	mu    sync.Mutex
	hooks []func(wire.Call) (wire.Fate, bool)
}

func (f *faults) add(hook func(wire.Call) (wire.Fate, bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks = append(f.hooks, hook)
}

// of joins the fates of every hook that the call hits: of one kind the last counts.
func (f *faults) of(c wire.Call) wire.Fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all wire.Fate
	for _, hook := range f.hooks {
		if fate, hit := hook(c); hit {
			all = joined(all, fate)
		}
	}
	return all
}

// joined is both fates at once.
func joined(a, b wire.Fate) wire.Fate {
	if b.Error != nil {
		a.Error = b.Error
	}
	if b.Then != nil {
		a.Then = b.Then
	}
	if b.Entries != nil {
		a.Entries = b.Entries
	}
	if b.EntriesAfter != nil {
		a.EntriesAfter = b.EntriesAfter
	}
	a.Delay = max(a.Delay, b.Delay)
	a.Truncate = max(a.Truncate, b.Truncate)
	a.Repeat, a.Lost = a.Repeat || b.Repeat, a.Lost || b.Lost
	return a
}
