package sqs

import (
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// Attribute is the value of a message attribute.
type Attribute struct {
	// DataType is String, Number or Binary, or one of them with a label behind a dot.
	DataType    string
	StringValue string `json:",omitempty"`
	BinaryValue []byte `json:",omitempty"`
}

// Message is a message as a consumer gets it. Its maps must not be changed.
type Message struct {
	ID string
	// Handle is the receipt handle, "" where nobody received it.
	Handle     string
	Body       string
	Attributes map[string]Attribute
	// Group is the MessageGroupId, Trace the AWSTraceHeader.
	Group, Trace string
	// Source is the ARN of the queue from which SQS moved the message itself.
	Source string
	// SentAt is when it was first sent: a dead letter keeps it.
	SentAt, FirstReceivedAt time.Time
	// Receives counts over all queues.
	Receives int
}

// SystemAttributes returns the attributes that SQS itself gives a received message.
func (m Message) SystemAttributes() map[string]string {
	all := map[string]string{
		"SenderId":                         wire.Account,
		"SentTimestamp":                    millis(m.SentAt),
		"ApproximateReceiveCount":          strconv.Itoa(m.Receives),
		"ApproximateFirstReceiveTimestamp": millis(m.FirstReceivedAt),
	}
	for name, value := range map[string]string{"MessageGroupId": m.Group, "AWSTraceHeader": m.Trace, "DeadLetterQueueSourceArn": m.Source} {
		if value != "" {
			all[name] = value
		}
	}
	return all
}

// Deletion is a message that a consumer deleted.
type Deletion struct {
	Region, Queue string
	ID, Body      string
	At            time.Time
}

// state is where a message is in the life of its queue.
type state int

const (
	ready    state = iota // visible to the next receive
	delayed               // sent, and not yet visible
	inFlight              // received, and not yet visible again
)

// message is one message in one queue.
type message struct {
	id, body     string
	attributes   map[string]Attribute
	group, trace string
	source       string // ARN
	sent, first  time.Time
	receives     int // over all queues
	tries        int // in this queue, which is what maxReceiveCount counts
	arrived      time.Time
	arrival      uint64 // a stable order

	state      state
	visibleAt  time.Time
	receivedAt time.Time
	serial     int // of the newest handle; every handing-over makes one
	place      int // in the pile of its state
	agePlace   int
}

// view returns what a consumer or a test sees of the message.
func (m *message) view(handle string) Message {
	return Message{
		ID: m.id, Handle: handle, Body: m.body, Attributes: m.attributes, Group: m.group, Trace: m.trace, Source: m.source,
		SentAt: m.sent, FirstReceivedAt: m.first, Receives: m.receives,
	}
}

// receiptHandle names one handing-over of a message in one queue.
func receiptHandle(queueARN string, m *message) string {
	return base64.RawURLEncoding.EncodeToString([]byte(queueARN + " " + m.id + " " + strconv.Itoa(m.serial)))
}

// readHandle is the reverse of receiptHandle.
func readHandle(handle, queueARN string) (id string, serial int, err *wire.Error) {
	if handle == "" {
		return "", 0, missing("ReceiptHandle")
	}
	plain, fault := base64.RawURLEncoding.DecodeString(handle)
	parts := strings.Split(string(plain), " ")
	if fault == nil && len(parts) == 3 && parts[0] == queueARN {
		serial, fault = strconv.Atoi(parts[2])
		if fault == nil {
			return parts[1], serial, nil
		}
	}
	return "", 0, &wire.Error{
		Status: http.StatusNotFound, Code: "ReceiptHandleIsInvalid",
		Message: "The input receipt handle \"" + handle + "\" is not a valid receipt handle.",
	}
}

func md5Of(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// md5OfAttributes is the digest that SDKs check:
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html
func md5OfAttributes(attributes map[string]Attribute) string {
	if len(attributes) == 0 {
		return ""
	}
	var names []string
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	var text []byte
	part := func(s string) {
		text = binary.BigEndian.AppendUint32(text, uint32(len(s))) //nolint:gosec // a message has 1 MiB at most
		text = append(text, s...)
	}
	for _, name := range names {
		a := attributes[name]
		part(name)
		part(a.DataType)
		if a.isBinary() {
			text = append(text, 2)
			part(string(a.BinaryValue))
		} else {
			text = append(text, 1)
			part(a.StringValue)
		}
	}
	return md5Of(string(text))
}

func (a Attribute) isBinary() bool { return a.logicalType() == "Binary" }

// logicalType is the data type without its label.
func (a Attribute) logicalType() string {
	logical, _, _ := strings.Cut(a.DataType, ".")
	return logical
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// newID returns a random id in the form of a message's.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand does not fail
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
