package redrive

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// The ops. A request without one is a plan, which moves nothing.
const (
	OpInspect   = "inspect"         // InspectRequest, answered by Inspection
	OpPlan      = "plan"            // PlanRequest, answered by Plan
	OpApply     = "apply"           // ApplyRequest, answered by Applied
	OpResume    = "resume"          // ResumeRequest, answered by Applied
	OpStatus    = "status"          // StatusRequest, answered by Status
	OpDiscard   = "discard"         // DiscardRequest, answered by Discards
	OpBrake     = "brake"           // BrakeRequest, answered by Brakes
	OpApprove   = "approve"         // ApproveRequest, answered by Stopped
	OpReject    = "reject"          // ApproveRequest, answered by Stopped
	OpVersion   = "approve-version" // VersionRequest, answered by ApprovedVersion
	OpAuto      = "auto"            // AutoRequest, answered by Auto
	OpScheduled = "scheduled"       // ScheduledRequest, answered by Scheduled
	OpDrill     = "drill"           // DrillRequest, answered by Drilling
	OpFinish    = "drill-finish"    // DrillFinishRequest, answered by DrillFinished
)

// Ops lists every op once.
func Ops() []string {
	return []string{OpInspect, OpPlan, OpApply, OpResume, OpStatus, OpDiscard, OpBrake, OpApprove, OpReject, OpVersion, OpAuto, OpScheduled, OpDrill, OpFinish}
}

func opNames() string { return strings.Join(Ops(), ", ") }

// Filter chooses dead pages and letters. A field that is empty chooses all.
type Filter struct {
	Tenant string     `json:"tenant_id,omitzero"`
	Policy string     `json:"policy,omitzero"`
	Run    job.RunID  `json:"run_id,omitzero"`
	Page   job.PageID `json:"page_id,omitzero"`
	// Death is why they are dead.
	Death job.Reason `json:"death,omitzero"`
}

// InspectRequest asks what lies dead.
type InspectRequest struct {
	Op string `json:"op"`
	Filter
	// Limit is the most pages, and the most letters, of the answer: 1 to
	// Settings.RedrivePlan; 100 without one.
	Limit int `json:"limit,omitzero"`
}

// PlanRequest asks which dead pages may move.
type PlanRequest struct {
	Op string `json:"op,omitzero"`
	Filter
	// Limit is the most pages that the plan moves: 1 to Settings.RedrivePlan, which it
	// is without one.
	Limit int `json:"limit,omitzero"`
	// Override is the reason for which the gates that allow it are passed over: 5 to
	// 200 characters. It is recorded with the plan.
	Override string `json:"override,omitzero"`
}

// ApplyRequest moves the pages of a plan, or goes on with it.
type ApplyRequest struct {
	Op    string `json:"op"`
	Token string `json:"token"`
	audit.Signature
	// Max is the most pages of this call: 1 to Settings.RedriveBatch, which it is
	// without one. It does not bound the plan: reconcile goes on with the rest. Whoever
	// wants fewer pages plans fewer.
	Max int `json:"max,omitzero"`
	// Rate is the most pages in a second: 1 to Settings.RedriveRate, which it is
	// without one.
	Rate int `json:"rate,omitzero"`
}

// ResumeRequest goes on with a plan that was applied. It needs no signature: that
// was given.
type ResumeRequest struct {
	Op string        `json:"op"`
	ID job.RedriveID `json:"redrive_id"`
}

// StatusRequest asks what became of a plan, by its token or its id.
type StatusRequest struct {
	Op    string        `json:"op"`
	Token string        `json:"token,omitzero"`
	ID    job.RedriveID `json:"redrive_id,omitzero"`
}

// PageRef names one page.
type PageRef struct {
	Run    job.RunID  `json:"run_id"`
	Tenant string     `json:"tenant_id"`
	Page   job.PageID `json:"page_id"`
}

// DiscardRequest gives up dead pages, and letters without a page of ours: at most
// Settings.RedriveBatch together.
type DiscardRequest struct {
	Op       string    `json:"op"`
	Pages    []PageRef `json:"pages,omitzero"`
	Messages []string  `json:"message_ids,omitzero"`
	audit.Signature
}

// The two positions of a switch.
const (
	On  = "on"
	Off = "off"
)

// BrakeRequest sets or releases a brake of exactly this scope.
type BrakeRequest struct {
	Op  string `json:"op"`
	Set string `json:"set"` // On or Off
	// Policy is empty for the whole region, Version 0 for every version.
	Policy  string `json:"policy,omitzero"`
	Version int    `json:"policy_version,omitzero"`
	audit.Signature
}

// ApproveRequest approves or rejects a run that the guard stopped. Without a
// fingerprint it asks what stands there, and needs no signature.
type ApproveRequest struct {
	Op  string    `json:"op"`
	Run job.RunID `json:"run_id"`
	// Fingerprint is what the answer without one gave out: it stands for that scan.
	Fingerprint string `json:"fingerprint,omitzero"`
	// Override is the reason for which a superseded policy version is approved all
	// the same: 5 to 200 characters.
	Override string `json:"override,omitzero"`
	audit.Signature
}

// AutoRequest switches the scheduled redrive on or off.
type AutoRequest struct {
	Op  string `json:"op"`
	Set string `json:"set"` // On or Off
	// Death is the one reason of dead pages that it moves, a redrivable one; Cap the
	// most pages of one round, 1 to Settings.RedriveBatch. Both belong to On alone.
	Death job.Reason `json:"death,omitzero"`
	Cap   int        `json:"cap,omitzero"`
	audit.Signature
}

// ScheduledRequest is what a schedule sends.
type ScheduledRequest struct {
	Op string `json:"op"`
}

const opDecode = "decode redrive request"

// maxRequest caps a payload, in bytes. The largest request names 100 pages, each
// under 256 bytes.
const maxRequest = 64 << 10

func refuse(text string) error { return failure.New(failure.Invalid, opDecode, text) }

// opOf returns the op of a payload.
func opOf(payload []byte) (string, error) {
	if len(payload) > maxRequest {
		return "", refuse("the payload is larger than " + strconv.Itoa(maxRequest) + " bytes")
	}
	if !bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("{")) {
		return "", refuse("the payload must be one JSON object with op, one of " + opNames())
	}
	var head struct {
		Op *string `json:"op"`
	}
	if err := json.Unmarshal(payload, &head); err != nil {
		return "", refuse("the payload is not strict JSON, or op is no text; op is one of " + opNames())
	}
	if head.Op == nil {
		return OpPlan, nil
	}
	return *head.Op, nil
}

// fieldsOf says which fields an op has.
func fieldsOf(op string) string {
	const filter, signature = "tenant_id, policy, run_id, page_id, death, ", "by, reason"
	switch op {
	case OpInspect:
		return filter + "limit"
	case OpPlan:
		return filter + "limit, override"
	case OpApply:
		return "token, max, rate, " + signature
	case OpResume:
		return "redrive_id"
	case OpStatus:
		return "token, redrive_id"
	case OpDiscard:
		return "pages (each run_id, tenant_id, page_id), message_ids, " + signature
	case OpBrake:
		return "set, policy, policy_version, " + signature
	case OpApprove, OpReject:
		return "run_id, fingerprint, override, " + signature
	case OpVersion:
		return "policy, policy_version, run_id, " + signature
	case OpAuto:
		return "set, death, cap, " + signature
	case OpDrill:
		return "run_id, tenant_id, page_id, " + signature
	case OpFinish:
		return "run_id, tenant_id, page_id, give_up, " + signature
	default:
		return "none"
	}
}

// decode reads the request of an op strictly. The error quotes nothing of it.
func decode(op string, payload []byte, q any) error {
	if err := json.Unmarshal(payload, q, json.RejectUnknownMembers(true)); err != nil {
		return refuse("a field is unknown, stands twice or is of the wrong type; besides op, " + op + " has the fields " + fieldsOf(op))
	}
	return nil
}

// check refuses values that no page or letter can have.
func (f Filter) check(op string) error {
	switch {
	case f.Tenant != "" && !job.ValidTenant(f.Tenant):
		return failure.New(failure.Invalid, op, "tenant_id is not a tenant: 1 to 128 of A-Z a-z 0-9 . _ - starting with a letter or digit")
	case f.Policy != "" && !isName(f.Policy):
		return failure.New(failure.Invalid, op, nameText)
	case f.Run != "" && !isID(string(f.Run)):
		return failure.New(failure.Invalid, op, "run_id is not of its form: 32 hex digits")
	case f.Page != "" && !isID(string(f.Page)):
		return failure.New(failure.Invalid, op, "page_id is not of its form: 32 hex digits")
	case f.Death != "" && !slices.Contains(job.Reasons(), f.Death):
		return failure.New(failure.Invalid, op, "death is no reason of a dead letter; allowed are "+reasonNames(job.Reasons()))
	}
	return nil
}

func reasonNames(all []job.Reason) string {
	names := make([]string, len(all))
	for i, reason := range all {
		names[i] = string(reason)
	}
	return strings.Join(names, ", ")
}

// isID accepts 32 lower-case hex digits: the form of a run's, a page's and a plan's id.
func isID(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }

// isName accepts the form of a policy's name. Any other text is a caller's own, and an
// error that quoted it would carry it into the log (S17).
func isName(s string) bool {
	return len(s) >= 1 && len(s) <= maxName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// maxName is the most bytes of a policy's name.
const maxName = 48

const nameText = "policy is not of the form of a policy's name: 1 to 48 of a-z 0-9 -"

// within returns n, or the bound where there is none. Beyond its bounds it is
// refused.
func within(op, name string, n, otherwise, most int) (int, error) {
	switch {
	case n == 0:
		return otherwise, nil
	case n < 0 || n > most:
		return 0, failure.New(failure.Invalid, op, name+" is a whole number from 1 to "+strconv.Itoa(most))
	}
	return n, nil
}

// checkOverride refuses a text that is no reason.
func checkOverride(op, text string) error {
	if text == "" || (audit.Signature{By: "override", Reason: text}).Check(op) == nil {
		return nil
	}
	return failure.New(failure.Invalid, op, "override is not of its form: 5 to 200 characters that say why, no control characters, no blank at either end")
}
