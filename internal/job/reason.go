package job

// Reason says why something is a dead letter. The list is closed: a reason is a
// queue attribute and a metric dimension.
type Reason string

// The reasons.
const (
	ReasonMalformed         Reason = "malformed"
	ReasonUnsupportedSchema Reason = "unsupported_schema"
	ReasonUnknownRun        Reason = "unknown_run"
	ReasonUnknownPage       Reason = "unknown_page"
	ReasonUnknownPolicy     Reason = "unknown_policy"
	ReasonWrongRegion       Reason = "wrong_region"
	ReasonWrongQueue        Reason = "wrong_queue"
	ReasonHashMismatch      Reason = "hash_mismatch"
	ReasonOutsidePolicy     Reason = "outside_policy"

	ReasonForbidden   Reason = "forbidden"
	ReasonAttempts    Reason = "attempts_exhausted"
	ReasonAge         Reason = "age_exhausted"
	ReasonNewerSchema Reason = "newer_schema"
)

// Reasons lists every reason once.
func Reasons() []Reason {
	return []Reason{
		ReasonMalformed, ReasonUnsupportedSchema, ReasonUnknownRun, ReasonUnknownPage,
		ReasonUnknownPolicy, ReasonWrongRegion, ReasonWrongQueue, ReasonHashMismatch, ReasonOutsidePolicy,
		ReasonForbidden, ReasonAttempts, ReasonAge, ReasonNewerSchema,
	}
}

// LetterClass says what an operator may do with a dead letter.
type LetterClass string

// The classes of dead letter.
const (
	// Quarantined letters move only with a corrected policy version or a recorded override.
	Quarantined LetterClass = "quarantined"
	// Redrivable letters move back through the redrive gates.
	Redrivable LetterClass = "redrivable"
)

// Class returns the reason's class.
func (r Reason) Class() LetterClass {
	switch r {
	case ReasonForbidden, ReasonAttempts, ReasonAge, ReasonNewerSchema:
		return Redrivable
	default:
		return Quarantined
	}
}
