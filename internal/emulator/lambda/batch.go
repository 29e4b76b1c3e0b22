package lambda

import (
	"bytes"
	"encoding/json"
)

// event is what a function gets from a queue, field by field as AWS sends it.
type event struct {
	Records []record `json:"Records"`
}

type record struct {
	MessageID         string                     `json:"messageId"`
	ReceiptHandle     string                     `json:"receiptHandle"`
	Body              string                     `json:"body"`
	Attributes        map[string]string          `json:"attributes"`
	MessageAttributes map[string]recordAttribute `json:"messageAttributes"`
	AttributesMD5     string                     `json:"md5OfMessageAttributes,omitempty"`
	BodyMD5           string                     `json:"md5OfBody"`
	EventSource       string                     `json:"eventSource"`
	EventSourceARN    string                     `json:"eventSourceARN"`
	Region            string                     `json:"awsRegion"`
}

// recordAttribute is an attribute of the sender. The lists have never been used
// by SQS, and are always there.
type recordAttribute struct {
	StringValue      *string  `json:"stringValue,omitempty"`
	BinaryValue      []byte   `json:"binaryValue,omitempty"`
	StringListValues []string `json:"stringListValues"`
	BinaryListValues [][]byte `json:"binaryListValues"`
	DataType         string   `json:"dataType"`
}

// sqsEvent writes the event of a batch.
func sqsEvent(region, queue string, batch []Message) []byte {
	e := event{Records: make([]record, len(batch))}
	for n, m := range batch {
		r := record{
			MessageID: m.ID, ReceiptHandle: m.Handle, Body: m.Body, BodyMD5: m.BodyMD5, AttributesMD5: m.AttributesMD5,
			Attributes: m.Attributes, MessageAttributes: map[string]recordAttribute{},
			EventSource: "aws:sqs", EventSourceARN: queue, Region: region,
		}
		if r.Attributes == nil {
			r.Attributes = map[string]string{}
		}
		for name, a := range m.MessageAttributes {
			ra := recordAttribute{StringListValues: []string{}, BinaryListValues: [][]byte{}, DataType: a.DataType}
			if len(a.Binary) > 0 {
				ra.BinaryValue = a.Binary
			} else {
				ra.StringValue = &a.Text
			}
			r.MessageAttributes[name] = ra
		}
		e.Records[n] = r
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	_ = w.Encode(e) // strings and bytes always encode
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// fitting is how many messages from the front make one invocation: Lambda splits
// what is over the size of a payload. A message is always less than that.
func fitting(batch []Message) int {
	const envelope = 2 << 10 // what stands around a body, roughly
	size := 0
	for n, m := range batch {
		size += len(m.Body) + envelope
		if size > maxPayload && n > 0 {
			return n
		}
	}
	return len(batch)
}

// succeeded reads a function's answer and returns the messages that are done:
//
//   - no answer, null, {}, or a failure list that is absent, null or empty: all
//   - a list of identifiers of this batch: all but these
//   - anything that can not be read so, be it one entry: none
//
// The names are matched exactly. encoding/json would also take batchitemfailures
// for batchItemFailures, where Lambda sees no list, and with it a success (SQ-01).
func succeeded(answer []byte, batch []Message) []Message {
	failed, readable := failures(answer)
	if !readable {
		return nil
	}
	waiting, known := map[string]bool{}, map[string]bool{}
	for _, m := range batch {
		known[m.ID] = true
	}
	for _, id := range failed {
		if !known[id] { // which an empty one never is
			return nil
		}
		waiting[id] = true
	}
	var done []Message
	for _, m := range batch {
		if !waiting[m.ID] { // a message that came twice in one batch has one id
			done = append(done, m)
		}
	}
	return done
}

// failures returns the identifiers that an answer lists.
func failures(answer []byte) (ids []string, readable bool) {
	if len(bytes.TrimSpace(answer)) == 0 {
		return nil, true
	}
	var response map[string]json.RawMessage
	if json.Unmarshal(answer, &response) != nil {
		return nil, false
	}
	list, ok := response["batchItemFailures"]
	if !ok {
		return nil, true
	}
	var entries []map[string]json.RawMessage
	if json.Unmarshal(list, &entries) != nil {
		return nil, false
	}
	for _, entry := range entries {
		var id *string
		if json.Unmarshal(entry["itemIdentifier"], &id) != nil || id == nil {
			return nil, false // an absent name is no JSON either
		}
		ids = append(ids, *id)
	}
	return ids, true
}
