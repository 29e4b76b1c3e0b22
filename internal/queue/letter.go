package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// The attributes of a dead letter: text each, absent where nothing is known. SQS
// takes ten and no empty one:
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
const (
	attrReason   = "reason"      // job.Reason
	attrClass    = "class"       // job.LetterClass, for people; it follows from the reason
	attrRun      = "run_id"      // 32 hex digits
	attrPage     = "page_id"     // 32 hex digits
	attrPolicy   = "policy"      // name@version
	attrRegion   = "region"      // AWS region
	attrAttempts = "attempts"    // executed attempts, decimal
	attrFirst    = "first_at"    // first sent, RFC 3339 in UTC
	attrFailed   = "failed_at"   // given up, RFC 3339 in UTC
	attrBody     = "body_sha256" // of the body, 64 hex digits
)

// letterAttributes returns what is written beside the letter's body.
func letterAttributes(l job.Letter) (map[string]string, error) {
	const op = "write dead letter"
	if !slices.Contains(job.Reasons(), l.Reason) {
		return nil, failure.New(failure.Invalid, op, "no known reason")
	}
	if fault := badBody(l.Body); fault != "" {
		return nil, failure.New(failure.Invalid, op, "the body "+fault)
	}
	attrs := map[string]string{
		attrReason: string(l.Reason), attrClass: string(l.Reason.Class()),
		attrRun: string(l.RunID), attrPage: string(l.PageID), attrRegion: l.Region,
		attrAttempts: strconv.Itoa(l.Attempts), attrBody: bodyHash(l.Body),
		attrFirst: instant(l.FirstAt), attrFailed: instant(l.FailedAt),
	}
	if l.Policy != "" {
		attrs[attrPolicy] = l.Policy + "@" + strconv.Itoa(l.Version)
	}
	size := len(l.Body)
	for name, value := range attrs {
		if value == "" {
			delete(attrs, name)
			continue
		}
		size += len(name) + len("String") + len(value) // name, type and value count
	}
	if size > MaxBytes {
		return nil, failure.New(failure.Invalid, op, "over "+strconv.Itoa(MaxBytes)+" bytes with its attributes")
	}
	return attrs, nil
}

// readLetter is the reverse; ok is false when the attributes or the body are not
// as they were written. Without a reason there is nothing to read.
func readLetter(body []byte, attrs map[string]string) (l job.Letter, ok bool) {
	l = job.Letter{Body: body}
	if attrs[attrReason] == "" {
		return l, len(attrs) == 0
	}
	ok = attrs[attrBody] == bodyHash(body)
	l.Reason = job.Reason(attrs[attrReason])
	ok = ok && slices.Contains(job.Reasons(), l.Reason)
	l.RunID, l.PageID, l.Region = job.RunID(attrs[attrRun]), job.PageID(attrs[attrPage]), attrs[attrRegion]
	var err error
	if policy := attrs[attrPolicy]; policy != "" {
		name, version, _ := strings.Cut(policy, "@")
		l.Policy = name
		l.Version, err = strconv.Atoi(version)
		ok = ok && err == nil
	}
	l.Attempts, err = strconv.Atoi(attrs[attrAttempts])
	ok = ok && err == nil
	for name, at := range map[string]*time.Time{attrFirst: &l.FirstAt, attrFailed: &l.FailedAt} {
		if attrs[name] != "" {
			*at, err = time.Parse(time.RFC3339Nano, attrs[name])
			ok = ok && err == nil
		}
	}
	return l, ok
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func bodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
