package job

import "time"

// Brake stops new claims for the whole region, a policy, or one policy version.
type Brake struct {
	Policy  string // "" is the whole region
	Version int    // 0 is every version
	Reason  string
	By      string
	At      time.Time
}

// Covers reports whether the brake stops runs of the policy version.
func (b Brake) Covers(policy string, version int) bool {
	return (b.Policy == "" || b.Policy == policy) && (b.Version == 0 || b.Version == version)
}
