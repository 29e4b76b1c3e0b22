package job

import (
	"bytes"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/failure"
)

// Schema is the number of the wire form this code writes. A higher number is
// left to a newer worker; a lower one that is not listed as supported is refused.
//
// The release that raises it goes on reading the number before, in the worker and in
// redrive, and compares a body with its page's command in the body's own form: messages
// and dead letters of that number are under way when it is deployed.
const Schema = 1

// MaxCommandBytes caps a message body. A command is under 400 bytes; the rest is
// room for a later schema's fields.
const MaxCommandBytes = 4 << 10

// Command is the message: it names a page and carries no authority. Hash binds
// it to what the ledger recorded about the page.
type Command struct {
	Schema        int    `json:"schema"`
	RunID         RunID  `json:"run_id"`
	PageID        PageID `json:"page_id"`
	TenantID      string `json:"tenant_id"`
	Region        string `json:"region"`
	Policy        string `json:"policy"`
	PolicyVersion int    `json:"policy_version"`
	Hash          string `json:"hash"`
}

// NewCommand returns the page's command. It depends on recorded facts only, so
// every sender writes the same bytes.
func NewCommand(r Run, p Page) Command {
	return Command{
		Schema: Schema, RunID: r.ID, PageID: p.ID, TenantID: p.Tenant, Region: r.Region,
		Policy: r.Policy, PolicyVersion: r.Version, Hash: identityHash(r, p),
	}
}

func identityHash(r Run, p Page) string {
	return digest("command", string(r.ID), r.Region, r.Policy, strconv.Itoa(r.Version), r.PolicySHA256, string(r.Mode),
		r.Cutoff.UTC().Format(time.RFC3339Nano), string(p.ID), p.Tenant, string(p.Kind), p.After, p.Through,
		string(p.Parent), strconv.Itoa(p.Candidates))
}

// Encode returns the command's bytes.
func (c Command) Encode() []byte {
	b, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		panic("job: a command always encodes: " + err.Error())
	}
	return b
}

// DecodeError says why a body is not a command this code can act on.
type DecodeError struct {
	Reason Reason
	Text   string
}

func (e *DecodeError) Error() string { return string(e.Reason) + ": " + e.Text }

func malformed(text string) (Command, error) {
	return Command{}, failure.Wrap(failure.Invalid, "decode command", &DecodeError{ReasonMalformed, text})
}

// Decode reads a command strictly: one JSON object of at most MaxCommandBytes, in
// valid UTF-8, without unknown, repeated or differently cased names, every field
// present and in its alphabet, nothing after it. The error never quotes the body.
func Decode(body []byte) (Command, error) {
	if len(body) > MaxCommandBytes {
		return malformed("larger than " + strconv.Itoa(MaxCommandBytes) + " bytes")
	}
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return malformed("not a JSON object")
	}
	var head struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return malformed("not strict JSON, or schema is not a number")
	}
	switch {
	case head.Schema == nil:
		return malformed("schema is missing")
	case *head.Schema > Schema:
		return Command{}, failure.Wrap(failure.Invalid, "decode command",
			&DecodeError{ReasonNewerSchema, "schema is newer than " + strconv.Itoa(Schema)})
	case *head.Schema < Schema:
		return Command{}, failure.Wrap(failure.Invalid, "decode command",
			&DecodeError{ReasonUnsupportedSchema, "schema is older than " + strconv.Itoa(Schema)})
	}
	var c Command
	if err := json.Unmarshal(body, &c, json.RejectUnknownMembers(true)); err != nil {
		return malformed("a field is unknown or of the wrong type")
	}
	if err := c.validate(); err != nil {
		return Command{}, err
	}
	return c, nil
}

func (c Command) validate() error {
	for _, f := range []struct {
		name string
		ok   bool
	}{
		{"run_id", isHex(string(c.RunID), 32)},
		{"page_id", isHex(string(c.PageID), 32)},
		{"tenant_id", ValidTenant(c.TenantID)},
		{"region", isName(c.Region)},
		{"policy", isName(c.Policy)},
		{"policy_version", c.PolicyVersion >= 1},
		{"hash", isHex(c.Hash, 32)},
	} {
		if !f.ok {
			_, err := malformed(f.name + " is missing or not of its form")
			return err
		}
	}
	return nil
}

// ValidTenant reports whether s can name a tenant: one path segment of 1 to 128
// bytes, [A-Za-z0-9][A-Za-z0-9._-]*. The alphabet excludes "." and "..", which
// start with a dot.
func ValidTenant(s string) bool {
	if len(s) < 1 || len(s) > 128 || !isAlnum(s[0]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// isName accepts policy and region names: lower case, digits and hyphens.
func isName(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' && i > 0) {
			return false
		}
	}
	return true
}

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// Message is a command on its way to the queue. ID is the page's, so that a
// refused entry of a batch is known by name; Group is the tenant: a fair queue
// shares itself between message groups.
type Message struct {
	ID    string
	Group string
	Body  []byte
}

// NewMessage returns the message that carries the page's command.
func NewMessage(r Run, p Page) Message {
	return Message{ID: string(p.ID), Group: p.Tenant, Body: NewCommand(r, p).Encode()}
}

// Delivery is a message as the queue handed it over.
type Delivery struct {
	MessageID string
	Handle    string
	Body      []byte
	// SentAt is when the queue first took the message in.
	SentAt time.Time
	// Receives is how often it was handed out, this time included. It counts
	// throttled receives too and is nobody's attempt number.
	Receives int
}

// Letter is a dead letter: the original bytes, and why. Its attributes name no
// tenant and no key.
type Letter struct {
	Body     []byte
	Reason   Reason
	RunID    RunID
	PageID   PageID
	Policy   string
	Version  int
	Region   string
	Attempts int
	FirstAt  time.Time // when the message was first sent
	FailedAt time.Time
}

// DeadLetter is a dead letter as it lies in its queue.
type DeadLetter struct {
	Delivery
	// Letter is what stands in the attributes, and the body. Its Reason is "" when
	// nobody wrote one.
	Letter Letter
	// Origin is the mode of the pages queue from which SQS moved the message itself;
	// "" when it was sent here. Without Reason and Origin nobody knows where it comes
	// from (RD-05).
	Origin Mode
	// Damaged: an attribute does not read, or the body is not the one that was
	// written with them.
	Damaged bool
}
