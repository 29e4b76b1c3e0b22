package sqs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// settings are the attributes of a queue that somebody sets, as they are shown and
// as they are used.
type settings struct {
	shown map[string]string

	visibility, retention, delay, wait time.Duration
	maxBytes                           int
	redrive                            redrivePolicy
	allow                              allowPolicy
}

// redrivePolicy says when a message becomes a dead letter; maxReceives 0 is never.
type redrivePolicy struct {
	target      string
	maxReceives int
}

// allowPolicy says which queues may use this one for their dead letters.
type allowPolicy struct {
	Permission string   `json:"redrivePermission"`
	Sources    []string `json:"sourceQueueArns,omitempty"`
}

func (p allowPolicy) allows(source string) bool {
	switch p.Permission {
	case "denyAll":
		return false
	case "byQueue":
		return slices.Contains(p.Sources, source)
	default:
		return true
	}
}

const (
	attrVisibility = "VisibilityTimeout"
	attrDelay      = "DelaySeconds"
	attrRetention  = "MessageRetentionPeriod"
	attrMaxBytes   = "MaximumMessageSize"
	attrWait       = "ReceiveMessageWaitTimeSeconds"
	attrPolicy     = "Policy"
	attrRedrive    = "RedrivePolicy"
	attrAllow      = "RedriveAllowPolicy"
	attrKey        = "KmsMasterKeyId"
	attrKeyReuse   = "KmsDataKeyReusePeriodSeconds"
	attrManagedKey = "SqsManagedSseEnabled"
)

// defaults are those of a new queue:
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
func defaults() map[string]string {
	return map[string]string{
		attrVisibility: "30", attrDelay: "0", attrRetention: "345600", attrMaxBytes: strconv.Itoa(maxBytes), attrWait: "0", attrManagedKey: "true",
	}
}

// bounds returns the range of a numeric attribute.
func bounds(attribute string) (low, high int, ok bool) {
	switch attribute {
	case attrVisibility:
		return 0, 43_200, true
	case attrDelay:
		return 0, 900, true
	case attrRetention:
		return 60, 1_209_600, true
	case attrMaxBytes:
		return 1024, maxBytes, true
	case attrWait:
		return 0, 20, true
	case attrKeyReuse:
		return 60, 86_400, true
	}
	return 0, 0, false
}

// change returns the settings with the attributes set, checked for the queue with
// the ARN. The old settings stay as they are.
func (g *region) change(old map[string]string, arn string, attributes map[string]string) (settings, *wire.Error) {
	s := settings{shown: maps.Clone(old)}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value, err := g.checked(name, attributes[name], arn)
		switch {
		case err != nil:
			return s, err
		case value == "":
			delete(s.shown, name)
		default:
			s.shown[name] = value
		}
	}
	if err := s.encrypt(attributes); err != nil {
		return s, err
	}
	seconds := func(name string) time.Duration { return time.Duration(s.number(name)) * time.Second }
	s.visibility, s.retention, s.delay, s.wait = seconds(attrVisibility), seconds(attrRetention), seconds(attrDelay), seconds(attrWait)
	s.maxBytes = s.number(attrMaxBytes)
	if text := s.shown[attrRedrive]; text != "" {
		s.redrive, _ = readRedrive(text) // checked above, or when it was set
	}
	if text := s.shown[attrAllow]; text != "" {
		s.allow, _ = readAllow(text)
	}
	return s, nil
}

func (s settings) number(name string) int {
	n, _ := strconv.Atoi(s.shown[name]) // checked when it was set
	return n
}

// encrypt keeps one kind of encryption: naming a key turns SQS's own off.
func (s settings) encrypt(attributes map[string]string) *wire.Error {
	if attributes[attrKey] == "" {
		return nil
	}
	if attributes[attrManagedKey] == "true" {
		return wire.Bad("InvalidAttributeValue", "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.")
	}
	s.shown[attrManagedKey] = "false"
	if s.shown[attrKeyReuse] == "" {
		s.shown[attrKeyReuse] = "300"
	}
	return nil
}

// checked returns an attribute's value in the form in which it is kept, "" to
// forget it.
func (g *region) checked(name, value, arn string) (string, *wire.Error) {
	bad := wire.Bad("InvalidAttributeValue", "Invalid value for the parameter "+name+".")
	if low, high, ok := bounds(name); ok {
		n, err := strconv.Atoi(value)
		if err != nil || n < low || n > high {
			return "", bad
		}
		return strconv.Itoa(n), nil
	}
	switch name {
	case attrManagedKey:
		if value != "true" && value != "false" {
			return "", bad
		}
	case attrPolicy:
		if value != "" && !json.Valid([]byte(value)) {
			return "", bad
		}
	case attrRedrive:
		return g.checkedRedrive(value, arn)
	case attrAllow:
		return checkedAllow(value)
	case attrKey:
	default:
		return "", unknownAttribute(name)
	}
	return value, nil
}

func unknownAttribute(name string) *wire.Error {
	return wire.Bad("InvalidAttributeName", "Unknown Attribute "+name+".")
}

func (g *region) checkedRedrive(value, source string) (string, *wire.Error) {
	if value == "" {
		return "", nil
	}
	policy, fault := readRedrive(value)
	if fault != "" {
		return "", badValue(value, attrRedrive, fault)
	}
	letters := g.byARN(policy.target)
	if letters == nil {
		return "", badValue(value, attrRedrive, "Dead letter target does not exist.")
	}
	if !letters.allow.allows(source) {
		return "", badValue(value, attrRedrive, "Queue does not have permission to use the dead-letter queue.")
	}
	return fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, policy.target, policy.maxReceives), nil
}

// readRedrive reads a redrive policy. The count may be a number or a text.
func readRedrive(text string) (policy redrivePolicy, fault string) {
	var raw struct {
		Target string          `json:"deadLetterTargetArn"`
		Max    json.RawMessage `json:"maxReceiveCount"`
	}
	if err := strict(text, &raw); err != nil {
		return policy, "Amazon SQS can't create the redrive policy, as it's in an unsupported format."
	}
	if raw.Target == "" {
		return policy, "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."
	}
	if raw.Max == nil {
		return policy, "Redrive policy does not contain mandatory attribute: maxReceiveCount."
	}
	n, err := strconv.Atoi(string(bytes.Trim(raw.Max, `"`)))
	if err != nil || n < 1 || n > 1000 {
		return policy, "Invalid value for maxReceiveCount: " + string(raw.Max) + ", valid values are from 1 to 1000 both inclusive."
	}
	return redrivePolicy{target: raw.Target, maxReceives: n}, ""
}

func checkedAllow(value string) (string, *wire.Error) {
	if value == "" {
		return "", nil
	}
	policy, fault := readAllow(value)
	if fault != "" {
		return "", badValue(value, attrAllow, fault)
	}
	text, _ := json.Marshal(policy) // strings always marshal
	return string(text), nil
}

func readAllow(text string) (policy allowPolicy, fault string) {
	if err := strict(text, &policy); err != nil {
		return policy, "Amazon SQS can't create the redrive allow policy, as it's in an unsupported format."
	}
	switch policy.Permission {
	case "allowAll", "denyAll":
		if len(policy.Sources) > 0 {
			fault = "Amazon SQS can't create the redrive allow policy. When you specify the sourceQueueArns parameter, the redrivePermission must be byQueue."
		}
	case "byQueue":
		if n := len(policy.Sources); n < 1 || n > 10 {
			fault = "Amazon SQS can't create the redrive allow policy. The sourceQueueArns must hold 1 to 10 ARNs."
		}
	default:
		fault = "Amazon SQS can't create the redrive allow policy. The redrivePermission must be allowAll, denyAll or byQueue."
	}
	return policy, fault
}

func strict(text string, into any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// attributesOf returns all attributes of a queue.
func (q *queue) attributesOf() map[string]string {
	all := maps.Clone(q.shown)
	counts := q.counts()
	all["QueueArn"] = q.arn
	all["CreatedTimestamp"] = strconv.FormatInt(q.created.Unix(), 10)
	all["LastModifiedTimestamp"] = strconv.FormatInt(q.modified.Unix(), 10)
	all["ApproximateNumberOfMessages"] = strconv.Itoa(counts.Visible)
	all["ApproximateNumberOfMessagesNotVisible"] = strconv.Itoa(counts.InFlight)
	all["ApproximateNumberOfMessagesDelayed"] = strconv.Itoa(counts.Delayed)
	return all
}

// isAttribute reports whether a queue can have the attribute, be it of another kind
// or with another setting.
func isAttribute(name string) bool {
	switch name {
	case attrPolicy, attrRedrive, attrAllow, attrKey, attrManagedKey, "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp",
		"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed",
		"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit":
		return true
	}
	_, _, numeric := bounds(name)
	return numeric
}
