package enqueue

import (
	"strconv"
	"time"

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

// Bounds of a request's texts, in bytes.
const (
	maxRequestID = 64
	minReason    = 5
	maxReason    = 200
)

// Decode reads an input strictly. The error names the field, what is wrong with
// it and what is allowed, and quotes nothing of the payload.
func Decode(payload []byte) (Input, error) {
	refuse := func(text string) (Input, error) {
		return Input{}, failure.New(failure.Invalid, "decode enqueue input", text)
	}
	if len(payload) > maxInputBytes {
		return refuse("the payload is larger than " + strconv.Itoa(maxInputBytes) + " bytes")
	}
	var in *Input
	if err := json.Unmarshal(payload, &in, json.RejectUnknownMembers(true)); err != nil || in == nil {
		return refuse("the payload must be one JSON object with policy and scheduled, or policy, tenant, request_id and reason, " +
			"each a string that stands once; other fields are not allowed")
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
	if _, err := time.Parse(time.RFC3339, in.Scheduled); err != nil {
		return refuse("scheduled is not an instant in RFC 3339, such as 2026-03-08T02:30:00Z; " +
			"a placeholder means that the schedule did not fill it in")
	}
	return *in, nil
}

func (in Input) isRequest() bool { return in.Tenant != "" || in.RequestID != "" || in.Reason != "" }

func (in Input) checkRequest(refuse func(string) (Input, error)) (Input, error) {
	switch {
	case !job.ValidTenant(in.Tenant):
		return refuse("tenant is missing or not a tenant id: 1 to 128 of A-Z a-z 0-9 . _ - starting with a letter or digit")
	case !validRequestID(in.RequestID):
		return refuse("request_id is missing or not of its form: 1 to 64 of A-Z a-z 0-9 . _ - starting with a letter or digit")
	case len(in.Reason) < minReason || len(in.Reason) > maxReason:
		return refuse("reason is missing or of the wrong length: 5 to 200 bytes that say why")
	}
	return in, nil
}

func validRequestID(s string) bool { return len(s) <= maxRequestID && job.ValidTenant(s) }
