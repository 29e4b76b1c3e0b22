package hold

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Request is the payload of an invocation: exactly one order or question.
type Request struct {
	Place   *Place   `json:"place,omitzero"`
	Ask     *Ask     `json:"ask,omitzero"`
	Release *Release `json:"release,omitzero"`
	List    *List    `json:"list,omitzero"`
}

// Place orders a hold. Ordered again it is the same hold.
type Place struct {
	// ID is 1 to 64 of A-Z a-z 0-9 . _ -; without one the hold is named by its
	// tenant, scope, value and reason.
	ID     string `json:"id,omitzero"`
	Tenant string `json:"tenant"`
	Scope  Scope  `json:"scope"`
	// Value is a whole key, or the beginning of keys; absent for a tenant.
	Value string `json:"value,omitzero"`
	audit.Signature
}

// Ask asks how far a hold reaches by now.
type Ask struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"`
}

// Release orders the end of a hold.
type Release struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"`
	audit.Signature
}

// List asks for all holds of a tenant, released ones included.
type List struct {
	Tenant string `json:"tenant"`
}

const (
	// maxRequestBytes caps a payload: a key of 1,024 bytes and two texts, every
	// character escaped, stay below it.
	maxRequestBytes = 16 << 10
	// maxID is the longest id of a hold, in bytes.
	maxID = 64
	// maxValue is S3's limit of a key, in bytes.
	maxValue = 1024
)

const opDecode = "decode hold request"

// Decode reads a request strictly. The error names the field, what is wrong with it
// and what is allowed, and quotes nothing of the payload.
func Decode(payload []byte) (Request, error) {
	if len(payload) > maxRequestBytes {
		return Request{}, invalid("the payload is larger than " + strconv.Itoa(maxRequestBytes) + " bytes")
	}
	var r Request
	if err := json.Unmarshal(payload, &r, json.RejectUnknownMembers(true)); err != nil {
		return Request{}, invalid(formText)
	}
	checks := []func() error{}
	if r.Place != nil {
		checks = append(checks, r.Place.check)
	}
	if r.Ask != nil {
		checks = append(checks, r.Ask.check)
	}
	if r.Release != nil {
		checks = append(checks, r.Release.check)
	}
	if r.List != nil {
		checks = append(checks, r.List.check)
	}
	if len(checks) != 1 {
		return Request{}, invalid(formText)
	}
	return r, checks[0]()
}

const formText = `the payload must be one JSON object with exactly one of ` +
	`"place": {id, tenant, scope, value, by, reason}, "ask": {tenant, id}, "release": {tenant, id, by, reason} and "list": {tenant}; ` +
	`every field is a string and stands once, id and value of place may be absent, other fields are not allowed`

func invalid(text string) error { return failure.New(failure.Invalid, opDecode, text) }

func (p *Place) check() error {
	switch {
	case p.ID != "" && !validID(p.ID):
		return invalid(idText)
	case !job.ValidTenant(p.Tenant):
		return invalid(tenantText)
	case p.Scope != Tenant && p.Scope != Prefix && p.Scope != Item:
		return invalid(`scope is missing or unknown: "tenant", "prefix" or "item"`)
	case p.Scope == Tenant && p.Value != "":
		return invalid("value does not belong to a hold on a tenant: leave it out, or say scope prefix or item")
	case p.Scope != Tenant && (p.Value == "" || len(p.Value) > maxValue || !utf8.ValidString(p.Value)):
		return invalid("value is missing or too long: a whole key, or the beginning of keys, 1 to 1,024 bytes of UTF-8")
	}
	return p.Signature.Check(opDecode)
}

func (a *Ask) check() error { return checkName(a.Tenant, a.ID) }

func (r *Release) check() error {
	if err := checkName(r.Tenant, r.ID); err != nil {
		return err
	}
	return r.Signature.Check(opDecode)
}

func (l *List) check() error {
	if !job.ValidTenant(l.Tenant) {
		return invalid(tenantText)
	}
	return nil
}

// checkName checks what names a hold.
func checkName(tenant, id string) error {
	switch {
	case !job.ValidTenant(tenant):
		return invalid(tenantText)
	case !validID(id):
		return invalid(idText)
	}
	return nil
}

const (
	tenantText = "tenant is missing or not a tenant id: 1 to 128 of A-Z a-z 0-9 . _ - starting with a letter or digit"
	idText     = "id is missing or not of its form: 1 to 64 of A-Z a-z 0-9 . _ -"
)

func validID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= maxID
}

// hold returns what is ordered.
func (p *Place) hold(now time.Time) Hold {
	h := Hold{ID: p.ID, Tenant: p.Tenant, Scope: p.Scope, Value: p.Value, Reason: p.Reason, By: p.By, PlacedAt: now}
	if h.ID == "" {
		h.ID = derivedID(h)
	}
	return h
}

// derivedID names a hold by its content, so that an order whose answer was lost can
// be given again. 32 hex digits.
func derivedID(h Hold) string {
	// Only the value may hold a zero byte, and it stands last.
	sum := sha256.Sum256([]byte(strings.Join([]string{h.Tenant, string(h.Scope), h.Reason, h.Value}, "\x00")))
	return hex.EncodeToString(sum[:16])
}
