package receipt

import (
	"encoding/hex"

	"golang.org/x/mod/sumdb/tlog"
)

// hashTree computes the root of the tree of RFC 6962 over the lines added. It
// keeps the roots of the full subtrees only, the largest first.
type hashTree struct {
	leaves uint64
	full   []tlog.Hash
}

func (t *hashTree) add(line []byte) {
	h := tlog.RecordHash(line)
	for n := t.leaves; n&1 == 1; n >>= 1 { // two subtrees of one size are one of twice the size
		last := len(t.full) - 1
		h = tlog.NodeHash(t.full[last], h)
		t.full = t.full[:last]
	}
	t.full = append(t.full, h)
	t.leaves++
}

// root is in 64 hex digits; that of no lines is the hash of nothing.
func (t *hashTree) root() string {
	if t.leaves == 0 {
		return hashOf(nil)
	}
	h := t.full[len(t.full)-1]
	for i := len(t.full) - 2; i >= 0; i-- {
		h = tlog.NodeHash(t.full[i], h)
	}
	return hex.EncodeToString(h[:])
}
