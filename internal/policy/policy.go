package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/expunge-aws/expunge/internal/job"
)

// The bounds of a policy. They stand in code so that no file can move them.
const (
	// MinRetentionDays is the floor: 24 hours.
	MinRetentionDays = 1
	// MaxRetentionDays is a hundred years, beyond which a number is a mistake.
	MaxRetentionDays = 36_500
	// CeilingObjects is the most max_objects may allow in one run.
	CeilingObjects = 50_000_000
	// CeilingGrowth is the most max_growth may allow.
	CeilingGrowth = 100
	// CeilingRate is the most max_rate may ask for, in keys a second: over ten
	// partitions of a bucket at S3's 3,500 writes a second each.
	CeilingRate = 50_000
	// MaxReportOnlyDates is the most report_only_dates may ask for: a month of
	// daily runs.
	MaxReportOnlyDates = 30
	// MinObjective and MaxObjective bound the objective.
	MinObjective = time.Minute
	MaxObjective = 7 * 24 * time.Hour
)

// What a file that is silent about them gets. Changing one changes the hash of
// every version that relied on it, and the ledger refuses the same version with
// other content: a release can not change a policy in silence (HP-08).
const (
	DefaultMaxObjects = 100_000
	DefaultMaxShare   = 0.5
	DefaultMaxGrowth  = 3
	DefaultMaxRate    = 3_000
	DefaultObjective  = 15 * time.Minute
)

// DefaultReportOnlyDates is what report_only_dates means where a file is silent.
// Unlike the defaults above it is not in the canonical form, for the key came
// after versions were on record: changing it would change those in silence, which
// no hash would show, so it stays as it is (HP-08).
const DefaultReportOnlyDates = 3

// Versions says which versions of an object a policy works on.
type Versions string

// The two choices.
const (
	// CurrentVersions works on the current version. In a versioned bucket its
	// deletion lays a marker and the bytes remain.
	CurrentVersions Versions = "current"
	// AllVersions works on every version, each by its exact id and age.
	AllVersions Versions = "all"
)

// Period is how often a schedule fires.
type Period string

// The two periods.
const (
	Daily  Period = "daily"
	Weekly Period = "weekly"
)

// Policy is the retention rule of one artifact class: which artifacts are deleted,
// after how long, when, and within which limits. A version never changes: edit a
// line and raise the version.
//
// Compare two with Equal: a policy that was read keeps its compiled pattern and its hash.
// A field that is added later must be omitzero, or the hashes of all earlier
// versions change.
type Policy struct {
	// The artifact class, which is also the policy's name: 1 to 48 lower-case letters, digits and hyphens, starting with a letter and ending with a letter or digit.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z]([a-z0-9-]*[a-z0-9])?$,minLength=1,maxLength=48"`
	// The number of this version, from 1. Any other content needs a higher number.
	Version int `json:"version" jsonschema:"required,minimum=1,maximum=1000000"`
	// The AWS region of the bucket. Everything the policy does stays in it.
	Region string `json:"region" jsonschema:"required,pattern=^[a-z]+(-[a-z]+)+-[0-9]+$,maxLength=32"`
	// The name of the S3 bucket.
	Bucket string `json:"bucket" jsonschema:"required,pattern=^[a-z0-9][a-z0-9.-]+[a-z0-9]$,minLength=3,maxLength=63"`
	// Where the artifacts are: path segments with one whole segment {tenant}, or none and a fixed tenant, ending in a slash.
	Keys string `json:"keys" jsonschema:"required,pattern=^[^/*?$].*/$,minLength=2,maxLength=512"`
	// The one tenant that owns everything under keys, for a template without {tenant}.
	Tenant string `json:"tenant,omitzero" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._-]*$,minLength=1,maxLength=128"`
	// An RE2 expression of printed ASCII that the whole tenant must match; without it every tenant counts.
	TenantPattern string `json:"tenant_pattern,omitzero" jsonschema:"pattern=^[ -~]+$,minLength=1,maxLength=256"`
	// How many whole days an artifact is kept after it was last modified.
	RetentionDays int `json:"retention_days" jsonschema:"required,minimum=1,maximum=36500"`
	// report-only says what would be deleted and touches nothing; enforce deletes.
	Mode job.Mode `json:"mode" jsonschema:"required,enum=report-only,enum=enforce"`
	// On how many different dates the policy must have run report-only before it may enforce: 1 to 30.
	ReportOnlyDates int `json:"report_only_dates,omitzero" jsonschema:"default=3,minimum=1,maximum=30"`
	// When a run starts.
	Schedule Schedule `json:"schedule" jsonschema:"required"`
	// What a run may do at most before a person has to approve it, and how fast.
	Limits Limits `json:"limits"`
	// How soon after it may run a page of work should be settled, such as 15m: 1m to 168h in whole seconds.
	Objective time.Duration `json:"objective" jsonschema:"default=15m"`
	// Whether a single dead letter of this class pages someone at once.
	Urgent bool `json:"urgent" jsonschema:"default=false"`
	// current works on current versions; all deletes every version by its exact id.
	Versions Versions `json:"versions" jsonschema:"default=current,enum=current,enum=all"`

	// compiled is the pattern of a policy that came from Parse or Load.
	compiled *tenantPattern
	// hashed is the same policy as it was read, with its hash.
	hashed *hashed
}

// hashed is a policy and its hash, which is asked for at every page of work.
type hashed struct {
	policy Policy
	sha256 string
}

// Schedule says when a run starts, as a wall clock in the zone shows it. A time
// that a clock change skips does not fire that day; one that comes twice fires at
// the first, as EventBridge Scheduler does it.
type Schedule struct {
	// daily or weekly.
	Every Period `json:"every" jsonschema:"required,enum=daily,enum=weekly"`
	// The day of a weekly schedule, in lower case.
	Weekday string `json:"weekday,omitzero" jsonschema:"enum=monday,enum=tuesday,enum=wednesday,enum=thursday,enum=friday,enum=saturday,enum=sunday"`
	// The time of day, HH:MM from 00:00 to 23:59.
	At string `json:"at" jsonschema:"required,pattern=^([01][0-9]|2[0-3]):[0-5][0-9]$"`
	// The IANA name of the zone, such as Europe/Berlin or UTC. It also counts the days of the retention.
	Zone string `json:"zone" jsonschema:"required,minLength=1,maxLength=64"`
	// Whether a date that never ran is started late, because its schedule was deleted or disabled, or a clock change skipped its time. Of several such dates only the newest is started: its run takes what the others left.
	CatchUp bool `json:"catch_up,omitzero" jsonschema:"default=false"`
}

// Limits say what a run may do at most before a person has to approve it, and
// how fast it may go. What a file does not name has its default.
type Limits struct {
	// The most candidates of one run: 1 to 50,000,000.
	MaxObjects int `json:"max_objects" jsonschema:"default=100000,minimum=1,maximum=50000000"`
	// The largest share of the examined objects that may be candidates, once a run examined 1,000: above 0, up to 1, at most four decimals.
	MaxShare float64 `json:"max_share" jsonschema:"default=0.5,exclusiveMinimum=0,maximum=1"`
	// How many times the median of the last runs a run may hold, from the fourth run on: 1 to 100, at most two decimals.
	MaxGrowth float64 `json:"max_growth" jsonschema:"default=3,minimum=1,maximum=100"`
	// The most keys deleted in a second by all workers together: 1 to 50,000.
	MaxRate int `json:"max_rate" jsonschema:"default=3000,minimum=1,maximum=50000"`
}

// ReportOnlyDatesNeeded returns on how many different dates the policy must have
// run report-only before it may enforce (R137): what the file says, or the default.
func (p Policy) ReportOnlyDatesNeeded() int {
	if p.ReportOnlyDates == 0 {
		return DefaultReportOnlyDates
	}
	return p.ReportOnlyDates
}

// defaults returns a policy that holds what a silent file gets, and nothing else.
func defaults() Policy {
	return Policy{
		Limits: Limits{
			MaxObjects: DefaultMaxObjects, MaxShare: DefaultMaxShare,
			MaxGrowth: DefaultMaxGrowth, MaxRate: DefaultMaxRate,
		},
		Objective: DefaultObjective,
		Versions:  CurrentVersions,
	}
}

// Canonical returns the effective policy as JSON with sorted names and no spaces
// (RFC 8785): the same policy gives the same bytes on every machine and in every
// release. The objective is written as Go writes a duration ("15m0s").
func (p Policy) Canonical() []byte {
	durations := json.WithMarshalers(json.MarshalFunc(func(d time.Duration) ([]byte, error) {
		return jsontext.AppendQuote(nil, d.String())
	}))
	b, err := json.Marshal(p, durations)
	if err == nil {
		v := jsontext.Value(b)
		err = v.Canonicalize()
		b = v
	}
	if err != nil {
		// Only text that is no UTF-8 can do this, and no validated policy holds any.
		panic("policy: a validated policy always encodes: " + err.Error())
	}
	return b
}

// SHA256 returns the hash of the canonical form, 64 hex digits.
func (p Policy) SHA256() string {
	if p.hashed != nil && p.Equal(p.hashed.policy) {
		return p.hashed.sha256
	}
	sum := sha256.Sum256(p.Canonical())
	return hex.EncodeToString(sum[:])
}

// Equal reports whether both say the same. Neither needs to be valid.
func (p Policy) Equal(q Policy) bool {
	p.compiled, q.compiled = nil, nil
	p.hashed, q.hashed = nil, nil
	return p == q
}

// Load reads a canonical form back, under the same rules as Parse. Bytes that
// are not exactly what Canonical writes are refused: what the ledger holds is
// what was hashed, or it is nothing. The error is an Error of class
// failure.Invalid.
func Load(canonical []byte) (Policy, error) {
	if len(canonical) > MaxFileBytes {
		return Policy{}, refused("", Problem{Text: "the stored form is larger than " + group(MaxFileBytes) + " bytes"})
	}
	durations := json.WithUnmarshalers(json.UnmarshalFunc(func(b []byte, d *time.Duration) error {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		parsed, err := time.ParseDuration(text)
		*d = parsed
		return err
	}))
	var p Policy
	if err := json.Unmarshal(canonical, &p, durations, json.RejectUnknownMembers(true)); err != nil {
		return Policy{}, refused("", Problem{Text: "the stored form is no strict JSON of this schema" + near(err)})
	}
	var problems []Problem
	p.validate(func(field, text string) {
		problems = append(problems, Problem{Field: field, Text: text})
	})
	if len(problems) > 0 {
		return Policy{}, refused("", problems...)
	}
	if !bytes.Equal(p.Canonical(), canonical) {
		return Policy{}, refused("", Problem{Text: "the stored form is not the canonical one"})
	}
	return p.prepared(), nil
}

// prepared returns a policy that was read with what is asked of it again and again.
func (p Policy) prepared() Policy {
	p.hashed = &hashed{p, p.SHA256()}
	p.compiled = compilePattern(p.TenantPattern)
	return p
}

// near says where in the stored form an error lies. The library's own words are
// left out: they quote values, and differ between processes by design.
func near(err error) string {
	var at jsontext.Pointer
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		at = e.JSONPointer
	} else if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = e.JSONPointer
	}
	if at == "" {
		return ""
	}
	return ", at " + quote(string(at))
}
