package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Entry is one act that an operator ordered. It is written into the ledger before
// the act, so that whatever happened has its order on record; an order that
// failed, or was given twice, may have an entry without an effect. What happened is
// the rows' to say.
type Entry struct {
	At     time.Time `json:"at"`
	Act    Name      `json:"act"`
	Region string    `json:"region"`
	// By is who ordered it, as the tool that was used says: an ARN, or a schedule.
	// AWS CloudTrail has the proof of who called the function.
	By string `json:"by"`
	// Reason is the operator's own words.
	Reason string `json:"reason"`

	Policy    string        `json:"policy,omitzero"`
	Version   int           `json:"policy_version,omitzero"`
	RunID     job.RunID     `json:"run_id,omitzero"`
	PageID    job.PageID    `json:"page_id,omitzero"`
	TenantID  string        `json:"tenant_id,omitzero"`
	HoldID    string        `json:"hold_id,omitzero"`
	RedriveID job.RedriveID `json:"redrive_id,omitzero"`
	MessageID string        `json:"message_id,omitzero"`
	// Death is the reason of the dead pages that the act is about.
	Death job.Reason `json:"death,omitzero"`
	// Override: gates were passed over, for the reason given here.
	Override string `json:"override,omitzero"`
	// Count is what the act is about: pages, messages.
	Count int `json:"count,omitzero"`
}

// ID names the entry by its content, so that an order whose answer was lost is
// recorded once. 32 hex digits.
func (e Entry) ID() string {
	b, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		panic("audit: an entry always encodes: " + err.Error()) // By and Reason are checked by Signed
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Event is the entry's line in the log. Who and why stay in the ledger.
func (e Entry) Event() Event {
	return Event{
		Time: e.At, Event: e.Act, Region: e.Region, RunID: e.RunID, JobID: e.PageID, TenantID: e.TenantID, Policy: e.Policy,
		Version: e.Version, Reason: e.Death, MessageID: e.MessageID, HoldID: e.HoldID, RedriveID: e.RedriveID, Count: e.Count,
	}
}

// Bounds of a signature's texts, in characters.
const (
	MinReason = 5
	MaxReason = 200
	MaxBy     = 256
)

// Signature is who orders an act and why. Every order carries one (R89).
type Signature struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Check reports what is missing. op is the operation that the order is for.
func (s Signature) Check(op string) error {
	switch {
	case !plain(s.By, 1, MaxBy):
		return failure.New(failure.Invalid, op, "by is missing or not of its form: who orders this, 1 to 256 characters without control characters")
	case !plain(s.Reason, MinReason, MaxReason):
		return failure.New(failure.Invalid, op, "reason is missing or not of its form: 5 to 200 characters that say why, no control characters, no blank at either end")
	}
	return nil
}

// plain accepts text of min to max characters without control characters or
// blanks at its ends.
func plain(s string, least, most int) bool {
	n := utf8.RuneCountInString(s)
	return utf8.ValidString(s) && n >= least && n <= most && s == strings.TrimSpace(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 })
}
