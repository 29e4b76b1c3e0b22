package worker

import (
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/job"
)

// Event is what Lambda's event source mapping hands over, as far as a worker reads
// it: https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
type Event struct {
	Records []Record `json:"Records"`
}

// Record is one message of an Event.
type Record struct {
	MessageID     string `json:"messageId"`
	ReceiptHandle string `json:"receiptHandle"`
	Body          string `json:"body"`
	Attributes    struct {
		// SentTimestamp is in milliseconds since 1970.
		SentTimestamp           string `json:"SentTimestamp"`
		ApproximateReceiveCount string `json:"ApproximateReceiveCount"`
	} `json:"attributes"`
}

// Deliveries returns the messages. An attribute that does not read is zero: the
// message is as old as can be and was never received before.
func (e Event) Deliveries() []job.Delivery {
	all := make([]job.Delivery, len(e.Records))
	for i, r := range e.Records {
		all[i] = job.Delivery{MessageID: r.MessageID, Handle: r.ReceiptHandle, Body: []byte(r.Body)}
		if ms, err := strconv.ParseInt(r.Attributes.SentTimestamp, 10, 64); err == nil {
			all[i].SentAt = time.UnixMilli(ms).UTC()
		}
		if n, err := strconv.Atoi(r.Attributes.ApproximateReceiveCount); err == nil {
			all[i].Receives = n
		}
	}
	return all
}
