package sqs

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// The quotas of a message and of a batch together:
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
const (
	maxBytes      = 1 << 20
	maxAttributes = 10
	maxDelay      = 900 // seconds
)

// sending is what SendMessage and an entry of SendMessageBatch have in common.
type sending struct {
	MessageBody             string
	DelaySeconds            *int
	MessageAttributes       map[string]sentAttribute
	MessageSystemAttributes map[string]sentAttribute
	GroupID                 *string `json:"MessageGroupId"`
	DeduplicationID         *string `json:"MessageDeduplicationId"`
}

// sentAttribute is an attribute before it is known to be one.
type sentAttribute struct {
	DataType         string
	StringValue      *string
	BinaryValue      []byte
	StringListValues []string
	BinaryListValues [][]byte
}

type sendMessageInput struct {
	QueueURL string `json:"QueueUrl"`
	sending
}

type sendMessageBatchInput struct {
	QueueURL string `json:"QueueUrl"`
	Entries  []sendEntry
}

type sendEntry struct {
	ID string `json:"Id"`
	sending
}

// sent is the answer about one message.
type sent struct {
	ID                 string `json:"MessageId"`
	MD5OfBody          string `json:"MD5OfMessageBody"`
	MD5OfAttributes    string `json:"MD5OfMessageAttributes,omitempty"`
	MD5OfSystemMembers string `json:"MD5OfMessageSystemAttributes,omitempty"`
}

func (c *call) sendMessage(in *sendMessageInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, now time.Time) (any, *wire.Error) {
		return c.send(q, &in.sending, now)
	})
}

func (c *call) sendMessageBatch(in *sendMessageBatchInput) (any, *wire.Error) {
	return c.on(in.QueueURL, func(q *queue, now time.Time) (any, *wire.Error) {
		sum := 0
		for i := range in.Entries {
			sum += in.Entries[i].size()
		}
		if sum > maxBytes && len(in.Entries) <= maxEntries {
			return nil, wire.Bad("BatchRequestTooLong", fmt.Sprintf("Batch requests cannot be longer than %d bytes. You have sent %d bytes.", maxBytes, sum))
		}
		return batch(c, in.Entries, func(e *sendEntry) (string, func() (any, *wire.Error)) {
			return e.ID, func() (any, *wire.Error) {
				result, err := c.send(q, &e.sending, now)
				return struct {
					ID string `json:"Id"`
					sent
				}{e.ID, result}, err
			}
		})
	})
}

func (c *call) send(q *queue, s *sending, now time.Time) (sent, *wire.Error) {
	m, delay, err := s.read(q)
	if err != nil {
		return sent{}, err
	}
	c.region.add(q, m, delay, now)
	answer := sent{ID: m.id, MD5OfBody: md5Of(m.body), MD5OfAttributes: md5OfAttributes(m.attributes)}
	if m.trace != "" {
		answer.MD5OfSystemMembers = md5OfAttributes(map[string]Attribute{traceHeader: {DataType: "String", StringValue: m.trace}})
	}
	return answer, nil
}

// size is what counts for the quotas: body, and name, type and value of each
// attribute. System attributes count for nothing.
func (s *sending) size() int {
	size := len(s.MessageBody)
	for name, a := range s.MessageAttributes {
		size += len(name) + len(a.DataType) + len(a.BinaryValue)
		if a.StringValue != nil {
			size += len(*a.StringValue)
		}
	}
	return size
}

// read checks what is sent and makes a message of it.
func (s *sending) read(q *queue) (*message, time.Duration, *wire.Error) {
	if s.DeduplicationID != nil {
		return nil, 0, wire.Unsupported("MessageDeduplicationId, which belongs to FIFO queues")
	}
	delay, err := seconds(attrDelay, s.DelaySeconds, q.delay, maxDelay)
	if err != nil {
		return nil, 0, err
	}
	m := &message{body: s.MessageBody}
	if s.GroupID != nil {
		m.group = *s.GroupID
		if !isGroup(m.group) {
			return nil, 0, badValue(m.group, "MessageGroupId", "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
		}
	}
	switch {
	case m.body == "":
		return nil, 0, missing("MessageBody")
	case s.size() > q.maxBytes:
		return nil, 0, invalid("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", q.maxBytes)
	}
	if err := checkText(m.body, "message body"); err != nil {
		return nil, 0, err
	}
	if m.attributes, err = readAttributes(s.MessageAttributes); err != nil {
		return nil, 0, err
	}
	m.trace, err = readTrace(s.MessageSystemAttributes)
	return m, delay, err
}

// isGroup reports whether the text can be a message group id.
func isGroup(text string) bool {
	for _, r := range text {
		if r <= ' ' || r > '~' {
			return false
		}
	}
	return text != "" && len(text) <= 128
}

// checkText refuses characters that XML 1.0 can not carry, as SQS does in either
// protocol.
func checkText(text, where string) *wire.Error {
	for _, r := range text {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return wire.Bad("InvalidMessageContents", fmt.Sprintf("Invalid binary character '#x%X' was found in the %s, the set of allowed characters is "+
				"#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF", r, where))
		}
	}
	if !utf8.ValidString(text) {
		return wire.Bad("InvalidMessageContents", "The "+where+" is not UTF-8")
	}
	return nil
}

func readAttributes(given map[string]sentAttribute) (map[string]Attribute, *wire.Error) {
	if len(given) > maxAttributes {
		return nil, invalid("Number of message attributes [%d] exceeds the allowed maximum [%d].", len(given), maxAttributes)
	}
	if len(given) == 0 {
		return nil, nil
	}
	attributes := make(map[string]Attribute, len(given))
	for name, a := range given {
		if fault := badName(name); fault != "" {
			return nil, invalid("Message (user) attribute name '%s' is invalid: %s.", name, fault)
		}
		read, err := a.read(name)
		if err != nil {
			return nil, err
		}
		attributes[name] = read
	}
	return attributes, nil
}

// badName returns what is wrong with an attribute's name.
func badName(name string) string {
	lower := strings.ToLower(name)
	switch {
	case name == "" || len(name) > 256:
		return "it must have 1 to 256 characters"
	case !isName(strings.ReplaceAll(name, ".", "_"), 256):
		return "it can only include alphanumeric characters, hyphens, underscores and periods"
	case strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, ".."):
		return "it can not begin or end with a period, nor have two of them together"
	case strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon."):
		return "it begins with a prefix that AWS keeps for itself"
	}
	return ""
}

func (a sentAttribute) read(name string) (Attribute, *wire.Error) {
	read := Attribute{DataType: a.DataType, BinaryValue: a.BinaryValue}
	if a.StringValue != nil {
		read.StringValue = *a.StringValue
	}
	empty := invalid("Message (user) attribute '%s' must contain a non-empty value of type '%s'.", name, read.logicalType())
	switch logical := read.logicalType(); {
	case len(a.StringListValues) > 0 || len(a.BinaryListValues) > 0:
		return read, wire.Bad("UnsupportedOperation", "Message attribute list values in SendMessage operation are not supported.")
	case len(a.DataType) > 256:
		return read, invalid("Message (user) attribute '%s' has a type longer than 256 characters.", name)
	case logical == "Binary":
		if len(read.BinaryValue) == 0 || read.StringValue != "" {
			return read, empty
		}
		return read, nil
	case logical != "String" && logical != "Number":
		return read, invalid("The type of message (user) attribute '%s' is invalid. You must use only the following supported type prefixes: Binary, Number, String.", name)
	case read.StringValue == "" || len(read.BinaryValue) > 0:
		return read, empty
	case logical == "Number":
		if _, err := strconv.ParseFloat(read.StringValue, 64); err != nil {
			return read, invalid("Can't cast the value of message (user) attribute '%s' to a number.", name)
		}
	}
	return read, checkText(read.StringValue, "message attribute '"+name+"'")
}

const traceHeader = "AWSTraceHeader"

// readTrace reads the one system attribute that a sender may give.
func readTrace(given map[string]sentAttribute) (string, *wire.Error) {
	for name, a := range given {
		if name != traceHeader {
			return "", invalid("Message system attribute name '%s' is invalid.", name)
		}
		if a.DataType != "String" || a.StringValue == nil || *a.StringValue == "" {
			return "", invalid("Message (system) attribute '%s' must contain a non-empty value of type 'String'.", name)
		}
		return *a.StringValue, nil
	}
	return "", nil
}
