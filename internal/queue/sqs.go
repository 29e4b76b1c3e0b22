package queue

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// The operations, as errors name them.
const (
	opReceive = "receive messages"
	opAck     = "acknowledge message"
	opDelay   = "delay message"
	opLetter  = "write dead letter"
	opLetters = "read dead letters"
	opRemove  = "remove dead letter"
	opPutBack = "put dead letter back"
	opPeek    = "look at dead letters"
)

// URLs say where a region's queues are. A process is given those that it may use; a
// call that needs another is failure.Forbidden.
type URLs struct {
	Enforce, ReportOnly string
	Letters             string
}

func (u URLs) pages(mode job.Mode) string {
	switch mode {
	case job.Enforce:
		return u.Enforce
	case job.ReportOnly:
		return u.ReportOnly
	default:
		return ""
	}
}

// origin returns the mode of the pages queue with the ARN, "" when it is none of
// ours.
func (u URLs) origin(arn string) job.Mode {
	parts := strings.Split(arn, ":") // arn:aws:sqs:region:account:name
	if len(parts) != 6 {
		return ""
	}
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		if at, err := url.Parse(u.pages(mode)); err == nil && strings.HasSuffix(at.Path, "/"+parts[4]+"/"+parts[5]) {
			return mode
		}
	}
	return ""
}

// SQS is the queues of one region in SQS. It is safe for concurrent use.
//
// Calls are retried by the SDK, a few times: sending twice does no harm, and the
// rest does nothing the second time. Only a receive is sent once. What the first
// answer handed out is hidden when that answer is lost, and asking again would hide
// more.
type SQS struct {
	// Worker is the mode of the queue whose deliveries this process is handed. Delay
	// changes their visibility there, since a delivery does not say where it is from.
	Worker job.Mode
	// Wait is how long Receive and Letters wait for a first message, in whole seconds
	// up to 20 and below the configuration's Header. With 0 SQS asks only some of its
	// servers, and may answer with nothing although something is there.
	Wait time.Duration

	client *sqs.Client
	limits sdk.Settings
	urls   URLs
}

var (
	_ Sender    = (*SQS)(nil)
	_ Receiver  = (*SQS)(nil)
	_ Letterbox = (*SQS)(nil)
	_ Inspector = (*SQS)(nil)
)

// NewSQS returns the queues at the URLs. It needs sqs:SendMessage on the queues that
// are sent to, sqs:ReceiveMessage and sqs:DeleteMessage on those that are read, and
// sqs:ChangeMessageVisibility for Delay and PutBack.
func NewSQS(config sdk.Config, urls URLs) *SQS {
	return &SQS{client: sqs.NewFromConfig(config.Config), limits: config.Settings, urls: urls}
}

// at returns the queue's URL, when there is one.
func at(op, queueURL string) (*string, error) {
	if queueURL == "" {
		return nil, failure.New(failure.Forbidden, op, "this process was given no such queue")
	}
	return &queueURL, nil
}

// pages returns the URL of a mode's pages queue.
func (s *SQS) pages(op string, mode job.Mode) (*string, error) {
	if err := knownMode(op, mode); err != nil {
		return nil, err
	}
	return at(op, s.urls.pages(mode))
}

// Send implements Sender.
func (s *SQS) Send(ctx context.Context, mode job.Mode, msgs []job.Message) ([]string, error) {
	return send(ctx, func(ctx context.Context, batch []job.Message) ([]int, error) {
		queue, err := s.pages(opSend, mode)
		if err != nil {
			return nil, err
		}
		return s.sendBatch(ctx, queue, batch)
	}, mode, msgs)
}

// sendBatch sends one batch. An entry is named by its place: two messages of one page
// may be in a batch, and two entries of one name may not.
func (s *SQS) sendBatch(ctx context.Context, queue *string, batch []job.Message) (accepted []int, err error) {
	in := &sqs.SendMessageBatchInput{QueueUrl: queue}
	for i, m := range batch {
		entry := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(m.Body))}
		if m.Group != "" {
			entry.MessageGroupId = aws.String(m.Group)
		}
		in.Entries = append(in.Entries, entry)
	}
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	out, err := s.client.SendMessageBatch(ctx, in)
	if err != nil {
		return nil, classify(opSend, err)
	}
	taken := make([]bool, len(batch))
	for _, entry := range out.Successful {
		place, err := strconv.Atoi(aws.ToString(entry.Id))
		if err != nil || place < 0 || place >= len(batch) {
			return nil, failure.New(failure.Network, opSend, "an answer about an entry that was not sent")
		}
		taken[place] = true
	}
	for place, was := range taken { // in order, whatever the answer's is
		if was {
			accepted = append(accepted, place)
		}
	}
	return accepted, nil
}

// Receive implements Receiver.
func (s *SQS) Receive(ctx context.Context, mode job.Mode, limit int) (got []job.Delivery, err error) {
	queue, err := s.pages(opReceive, mode)
	if err != nil {
		return nil, err
	}
	err = s.receive(ctx, opReceive, queue, limit, func(m types.Message, d job.Delivery) { got = append(got, d) })
	return got, err
}

// Letters implements Letterbox.
func (s *SQS) Letters(ctx context.Context, limit int) ([]job.DeadLetter, error) {
	return s.deadLetters(ctx, opLetters, limit)
}

// Peek implements Inspector.
func (s *SQS) Peek(ctx context.Context, limit int) ([]job.DeadLetter, error) {
	return s.deadLetters(ctx, opPeek, limit, sqs.WithAPIOptions(hideNothing))
}

func (s *SQS) deadLetters(ctx context.Context, op string, limit int, options ...func(*sqs.Options)) (got []job.DeadLetter, err error) {
	queue, err := at(op, s.urls.Letters)
	if err != nil {
		return nil, err
	}
	err = s.receive(ctx, op, queue, limit, func(m types.Message, d job.Delivery) {
		dead := job.DeadLetter{Delivery: d, Origin: s.urls.origin(m.Attributes[string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)])}
		attrs := map[string]string{}
		for name, value := range m.MessageAttributes {
			attrs[name] = aws.ToString(value.StringValue) // a binary one is not ours, and reads as damage
		}
		letter, ok := readLetter(d.Body, attrs)
		dead.Letter, dead.Damaged = letter, !ok
		got = append(got, dead)
	}, options...)
	return got, err
}

// receive hands out at most limit messages of a queue.
func (s *SQS) receive(ctx context.Context, op string, queue *string, limit int, hand func(types.Message, job.Delivery), options ...func(*sqs.Options)) error {
	if limit < 1 {
		return nil
	}
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	out, err := s.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: queue, MaxNumberOfMessages: int32(min(limit, MaxBatch)), WaitTimeSeconds: int32(s.Wait.Seconds()),
		MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameApproximateReceiveCount,
			types.MessageSystemAttributeNameDeadLetterQueueSourceArn,
		},
	}, append(options, func(o *sqs.Options) { o.Retryer = sdk.Once() })...)
	if err != nil {
		return classify(op, err)
	}
	deliveries := make([]job.Delivery, len(out.Messages))
	for i, m := range out.Messages {
		d, ok := delivery(m)
		if !ok { // what was handed out shows again by itself
			return failure.New(failure.Network, op, "a message without its id, handle, times or count")
		}
		deliveries[i] = d
	}
	for i, m := range out.Messages {
		hand(m, deliveries[i])
	}
	return nil
}

func delivery(m types.Message) (d job.Delivery, ok bool) {
	sent, noTime := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	receives, noCount := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	d = job.Delivery{
		MessageID: aws.ToString(m.MessageId), Handle: aws.ToString(m.ReceiptHandle), Body: []byte(aws.ToString(m.Body)),
		SentAt: time.UnixMilli(sent).UTC(), Receives: receives,
	}
	return d, noTime == nil && noCount == nil && d.MessageID != "" && d.Handle != ""
}

// Ack implements Receiver.
func (s *SQS) Ack(ctx context.Context, mode job.Mode, d job.Delivery) error {
	queue, err := s.pages(opAck, mode)
	if err != nil {
		return err
	}
	return s.remove(ctx, opAck, queue, d.Handle)
}

// Remove implements Letterbox.
func (s *SQS) Remove(ctx context.Context, d job.DeadLetter) error {
	queue, err := at(opRemove, s.urls.Letters)
	if err != nil {
		return err
	}
	return s.remove(ctx, opRemove, queue, d.Handle)
}

func (s *SQS) remove(ctx context.Context, op string, queue *string, handle string) error {
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	_, err := s.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: &handle})
	return classify(op, err)
}

// Delay implements Receiver.
func (s *SQS) Delay(ctx context.Context, d job.Delivery, wait time.Duration) error {
	queue, err := s.pages(opDelay, s.Worker)
	if err != nil {
		return err
	}
	return s.hide(ctx, opDelay, queue, d.Handle, wholeSeconds(wait))
}

// PutBack implements Letterbox.
func (s *SQS) PutBack(ctx context.Context, d job.DeadLetter) error {
	queue, err := at(opPutBack, s.urls.Letters)
	if err != nil {
		return err
	}
	return s.hide(ctx, opPutBack, queue, d.Handle, 0)
}

func (s *SQS) hide(ctx context.Context, op string, queue *string, handle string, wait time.Duration) error {
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	_, err := s.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: queue, ReceiptHandle: &handle, VisibilityTimeout: int32(wait.Seconds()),
	})
	if codeOf(err) == invalidParameter && handle != "" {
		// The wait is one that SQS takes, so it is the message that is not in flight any
		// more: SQS says so with this code when it is gone or somebody else has it.
		return failure.New(failure.Absent, op, "not in flight under this handle")
	}
	return classify(op, err)
}

// DeadLetter implements Letterbox.
func (s *SQS) DeadLetter(ctx context.Context, l job.Letter) error {
	queue, err := at(opLetter, s.urls.Letters)
	if err != nil {
		return err
	}
	attrs, err := letterAttributes(l)
	if err != nil {
		return err
	}
	in := &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String(string(l.Body)), MessageAttributes: map[string]types.MessageAttributeValue{}}
	for name, value := range attrs {
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	ctx, cancel := s.limits.Limit(ctx)
	defer cancel()
	out, err := s.client.SendMessage(ctx, in)
	if err == nil && aws.ToString(out.MessageId) == "" {
		// The page is not delivered again once its letter is written: an answer that may
		// be none must not stand for one.
		return failure.New(failure.Network, opLetter, "the answer names no message")
	}
	return classify(opLetter, err)
}
