package enqueue

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// maxInputBytes caps an invocation's payload.
const maxInputBytes = 4 << 10

// Input is what starts a run: a schedule's tick, or a request for one tenant.
// The two forms share no field but policy.
type Input struct {
	// Policy names the policy, at whatever version is deployed.
	Policy string `json:"policy"`
	// Scheduled is the tick's instant, RFC 3339. EventBridge Scheduler fills it in;
	// there is no fallback to the clock (HP-12).
	Scheduled string `json:"scheduled,omitzero"`

	// Tenant, RequestID and Reason make a request. The same request id is the
	// same request, whoever sends it and however often.
	Tenant    string `json:"tenant,omitzero"`
	RequestID string `json:"request_id,omitzero"`
	Reason    string `json:"reason,omitzero"`
}

// Receipt is the answer: the work is on record, not done (R5).
type Receipt struct {
	RunID job.RunID    `json:"run_id"`
	State job.RunState `json:"state"`
}

// Bounds of a request's texts: bytes of an id, characters of a reason.
const (
	maxRequestID = 64
	minReason    = 5
	maxReason    = 200
)

// Decode reads an input strictly. The error names the field, what is wrong with
// it and what is allowed, and quotes nothing of the payload. events/request.schema.json
// says the same to callers in other languages.
func Decode(payload []byte) (Input, error) {
	refuse := func(text string) (Input, error) {
		return Input{}, failure.New(failure.Invalid, "decode enqueue input", text)
	}
	if len(payload) > maxInputBytes {
		return refuse("the payload is larger than " + strconv.Itoa(maxInputBytes) + " bytes")
	}
	// A map tells a field that is empty from one that is not there.
	var fields map[string]*string
	if err := json.Unmarshal(payload, &fields); err != nil || fields == nil {
		return refuse(formText)
	}
	var in Input
	known := map[string]*string{
		"policy": &in.Policy, "scheduled": &in.Scheduled,
		"tenant": &in.Tenant, "request_id": &in.RequestID, "reason": &in.Reason,
	}
	for name, value := range fields {
		if known[name] == nil || value == nil || *value == "" {
			return refuse(formText)
		}
		*known[name] = *value
	}
	switch {
	case in.Policy == "":
		return refuse("policy is missing: the name of a deployed policy")
	case in.isRequest() && in.Scheduled != "":
		return refuse("scheduled belongs to a tick; a request has tenant, request_id and reason")
	case in.isRequest():
		return in.checkRequest(refuse)
	case in.Scheduled == "":
		return refuse("scheduled is missing: the schedule's instant in RFC 3339, such as 2026-03-08T02:30:00Z")
	}
	if _, ok := instant(in.Scheduled); !ok {
		return refuse("scheduled is not an instant in RFC 3339, such as 2026-03-08T02:30:00Z; " +
			"a placeholder means that the schedule did not fill it in")
	}
	return in, nil
}

const formText = "the payload must be one JSON object with policy and scheduled, or policy, tenant, request_id and reason, " +
	"each a string that is not empty and stands once; other fields are not allowed"

// instantForm is RFC 3339 to the letter. time.Parse also takes an hour of one
// digit, a comma before the fraction, and an offset of a day.
var instantForm = regexp.MustCompile(
	`^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

func instant(s string) (t time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil && instantForm.MatchString(s)
}

func (in Input) isRequest() bool { return in.Tenant != "" || in.RequestID != "" || in.Reason != "" }

func (in Input) checkRequest(refuse func(string) (Input, error)) (Input, error) {
	switch {
	case !job.ValidTenant(in.Tenant):
		return refuse("tenant is missing or not a tenant id: 1 to 128 of A-Z a-z 0-9 . _ - starting with a letter or digit")
	case !validRequestID(in.RequestID):
		return refuse("request_id is missing or not of its form: 1 to 64 of A-Z a-z 0-9 . _ - starting with a letter or digit")
	case !validReason(in.Reason):
		return refuse("reason is missing or not of its form: 5 to 200 characters that say why, " +
			"no control characters, no blank at either end")
	}
	return in, nil
}

func validRequestID(s string) bool { return len(s) <= maxRequestID && job.ValidTenant(s) }

func validReason(s string) bool {
	if n := utf8.RuneCountInString(s); n < minReason || n > maxReason || s != strings.Trim(s, " ") {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
