package job

import "time"

// Watch is how far somebody has looked at a policy's schedule: every date up to
// Through has a run, or was reported as missed.
type Watch struct {
	Policy string
	Rev    int64 // revision of the row: a write names the one it read
	// Since is when the policy was first seen deployed; dates before it are nobody's.
	Since   time.Time
	Through time.Time
	// Missed counts the dates that never ran.
	Missed int
}
