package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// SQS checks what Expunge needs of SQS. Its checks run at the same time where a
// parallel test may, for many of them wait for a second or two.
func SQS(t *testing.T, target Target) {
	run(t, target, newSQSSuite(target), sqsChecks())
}

// sqsChecks are the checks in their order, without those over time.
func sqsChecks() []check[*sqsSuite] {
	return slices.Concat(sqsSending(), sqsReceiving(), sqsPolling(), sqsDeleting(), sqsQueues(), sqsLetters(), sqsRedrive())
}

// SQSOverTime checks what only time shows, a few minutes of it in all. wait lets time
// pass at the target: time.Sleep, or a step of a clock that can be moved.
func SQSOverTime(t *testing.T, target Target, wait func(time.Duration)) {
	run(t, target, newSQSSuite(target), sqsRetention(wait))
}

// sqsSuite is a client in the home region with what the checks share.
type sqsSuite struct {
	*sqs.Client
	abroad *sqs.Client
	target Target
}

func newSQSSuite(target Target) *sqsSuite {
	return &sqsSuite{Client: target.SQSClient(home), abroad: target.SQSClient(other), target: target}
}

// sqsCheck makes a check that runs beside the others: each has queues of its own.
func sqsCheck(name string, run func(c *sqsSuite, t *testing.T)) check[*sqsSuite] {
	return check[*sqsSuite]{name, func(t *testing.T, c *sqsSuite) {
		t.Parallel()
		run(c, t)
	}}
}

// soon is how long a check waits for what should be there at once. AWS is not one
// machine, so it may take a moment there.
const soon = 5

// queue makes a queue that is removed when the check ends.
func (c *sqsSuite) queue(t *testing.T, attributes map[string]string) string {
	t.Helper()
	return c.newQueue(t, c.Client, name("q"), attributes)
}

func (c *sqsSuite) newQueue(t *testing.T, client *sqs.Client, queueName string, attributes map[string]string) string {
	t.Helper()
	url := *must(client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &queueName, Attributes: attributes}))(t).QueueUrl
	t.Cleanup(func() {
		if _, err := client.DeleteQueue(background(), &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
			t.Logf("queue %s stays: %v", url, err)
		}
	})
	return url
}

// withLetters makes a queue and the one that its dead letters go to.
func (c *sqsSuite) withLetters(t *testing.T, maxReceives int, attributes map[string]string) (url, letters string) {
	t.Helper()
	letters = c.queue(t, nil)
	all := map[string]string{"RedrivePolicy": redrivePolicy(c.arn(t, letters), maxReceives)}
	for k, v := range attributes {
		all[k] = v
	}
	return c.queue(t, all), letters
}

func redrivePolicy(arn string, maxReceives any) string {
	return fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%v}`, arn, maxReceives)
}

func (c *sqsSuite) attributes(t *testing.T, client *sqs.Client, url string) map[string]string {
	t.Helper()
	return must(client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	}))(t).Attributes
}

func (c *sqsSuite) arn(t *testing.T, url string) string {
	t.Helper()
	return c.attributes(t, c.Client, url)["QueueArn"]
}

// counts returns how many messages are visible, in flight and delayed.
func (c *sqsSuite) counts(t *testing.T, url string) (counts [3]int) {
	t.Helper()
	all := c.attributes(t, c.Client, url)
	for i, suffix := range []string{"", "NotVisible", "Delayed"} {
		counts[i] = must(strconv.Atoi(all["ApproximateNumberOfMessages"+suffix]))(t)
	}
	return counts
}

// wantCounts waits until the queue counts so many visible, in flight and delayed.
func (c *sqsSuite) wantCounts(t *testing.T, url, when string, visible, inFlight, delayed int) {
	t.Helper()
	want := [3]int{visible, inFlight, delayed}
	if !within(soon*time.Second, func() bool { return c.counts(t, url) == want }) {
		t.Errorf("%s: visible, in flight, delayed are %v, want %v", when, c.counts(t, url), want)
	}
}

// within asks until the answer is yes, for at most d.
func within(d time.Duration, ask func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(20 * time.Millisecond) {
		if ask() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

func (c *sqsSuite) send(t *testing.T, url, body string) string {
	t.Helper()
	return *must(c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}))(t).MessageId
}

// receive asks for up to n messages with everything about them, and waits for them.
func (c *sqsSuite) receive(t *testing.T, url string, wait, n int32) []types.Message {
	t.Helper()
	return must(c.ReceiveMessage(t.Context(), everything(url, wait, n)))(t).Messages
}

func everything(url string, wait, n int32) *sqs.ReceiveMessageInput {
	return &sqs.ReceiveMessageInput{
		QueueUrl: &url, WaitTimeSeconds: wait, MaxNumberOfMessages: n, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}
}

// one returns the message that should be there.
func (c *sqsSuite) one(t *testing.T, url, when string) types.Message {
	t.Helper()
	got := c.receive(t, url, soon, 1)
	if len(got) != 1 {
		t.Fatalf("%s: there is no message", when)
	}
	return got[0]
}

func (c *sqsSuite) none(t *testing.T, url, when string) {
	t.Helper()
	if got := c.receive(t, url, 0, 1); len(got) > 0 {
		t.Fatalf("%s: got message %q", when, *got[0].Body)
	}
}

func (c *sqsSuite) hide(t *testing.T, url string, m types.Message, seconds int32) {
	t.Helper()
	must(c.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds,
	}))(t)
}

func (c *sqsSuite) remove(t *testing.T, url string, m types.Message) {
	t.Helper()
	must(c.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}))(t)
}

// exhaust receives a message until SQS moves it to the dead letters, and returns it
// as it was received last and as it lies there.
func (c *sqsSuite) exhaust(t *testing.T, url, letters string, maxReceives int) (last, dead types.Message) {
	t.Helper()
	for range maxReceives {
		last = c.one(t, url, "before the last receive")
		c.hide(t, url, last, 0)
	}
	c.none(t, url, "after the last receive")
	return last, c.one(t, letters, "among the dead letters")
}

func entries(bodies ...string) (all []types.SendMessageBatchRequestEntry) {
	for i := range bodies {
		all = append(all, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &bodies[i]})
	}
	return all
}

func (c *sqsSuite) sendBatch(ctx context.Context, url string, all []types.SendMessageBatchRequestEntry) (*sqs.SendMessageBatchOutput, error) {
	return c.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: all})
}

// sendAll sends any number of bodies.
func (c *sqsSuite) sendAll(t *testing.T, url string, bodies ...string) {
	t.Helper()
	for some := range slices.Chunk(bodies, 10) {
		if out := must(c.sendBatch(t.Context(), url, entries(some...)))(t); len(out.Failed) > 0 {
			t.Fatalf("not sent: %s", aws.ToString(out.Failed[0].Message))
		}
	}
}

// raw calls an operation with a body that the SDK would not write, and returns the
// messages that are in the answer.
func (c *sqsSuite) raw(t *testing.T, operation string, body any) []rawMessage {
	t.Helper()
	text := must(json.Marshal(body))(t)
	endpoint := c.target.Endpoint
	if endpoint == "" {
		endpoint = "https://sqs." + home + ".amazonaws.com"
	}
	r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint+"/", bytes.NewReader(text)))(t)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "AmazonSQS."+operation)
	credentials := must(c.target.Config.Credentials.Retrieve(t.Context()))(t)
	sum := sha256.Sum256(text)
	if err := v4.NewSigner().SignHTTP(t.Context(), credentials, r, hex.EncodeToString(sum[:]), "sqs", home, time.Now()); err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var out struct{ Messages []rawMessage }
	if err := json.NewDecoder(answer.Body).Decode(&out); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", operation, answer.Status, err)
	}
	return out.Messages
}

// rawMessage is a message as JSON has it.
type rawMessage struct {
	MessageID  string `json:"MessageId"`
	Attributes map[string]string
}
