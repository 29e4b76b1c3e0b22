package job

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// RunID identifies one policy at one scheduled instant, or one request. 32 hex digits.
type RunID string

// PageID identifies one slice of one tenant's candidates in a run. 32 hex digits.
type PageID string

// ScheduledRunID derives the run from what was scheduled, never from a clock, so
// that a tick delivered twice names the same run.
func ScheduledRunID(region, policy string, scheduled time.Time) RunID {
	return RunID(digest("run", region, policy, scheduled.UTC().Format(time.RFC3339Nano)))
}

// RequestRunID derives the run of a request for one tenant.
func RequestRunID(region, policy, requestID string) RunID {
	return RunID(digest("request", region, policy, requestID))
}

// RangePageID derives a page from where its range starts: whoever scans, the
// page that starts there is the same page (F1).
func RangePageID(run RunID, tenant, after string) PageID {
	return PageID(digest("range", string(run), tenant, after))
}

// ItemPageID derives the page of one split-off item.
func ItemPageID(run RunID, tenant string, ref Ref) PageID {
	return PageID(digest("item", string(run), tenant, ref.Key, ref.Version))
}

// digest hashes the parts with their lengths, so that no two lists of parts
// share an input.
func digest(kind string, parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{kind}, parts...) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
