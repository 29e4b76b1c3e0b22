// Package hold answers whether a legal hold covers an item, and what a hold that was just placed still reaches.
//
// # The rule
//
// A hold is a live veto: it can only turn a delete into a retain (ruling C8).
// Every placement raises the tenant's hold epoch, and the hold keeps the epoch it
// was placed at. That is how a later attempt sees a hold that was placed and
// released since its intent: it vetoes all the same, because someone was told
// HELD in between.
//
// # The step
//
// A Keeper places and releases holds. It writes the hold and raises the epoch in
// one transaction, first, and only then reads the pages of the tenant, strongly
// consistent (F12). Whoever decides to delete after that write decides under an
// epoch that no longer stands, so every page whose row shows no intent is HELD.
// A page with an intent is IN_FLIGHT until nothing of it can land any more, and
// from then on it is settled by what its receipt says or by a look: HELD, or
// TOO_LATE. Nothing is answered by what a page is expected to do.
//
// What is exactly promised: from the moment that HELD is answered, no delete by
// Expunge takes effect on any version of what the hold covers, until the hold is
// released; and what was decided before the hold was placed stays dead even then
// (S4, S18). Ledger and store share no transaction, so a delete that was decided
// before the hold may still land, and IN_FLIGHT says so. Only the store's own
// Object Lock binds everybody else, too.
//
// The step lives beside its rule because both are about the same few words, and a
// worker that imports the rule links nothing of the step that it does not use.
package hold

import (
	"strings"
	"time"
)

// Scope says how much of a tenant a hold covers.
type Scope string

// The scopes. A prefix lies inside one tenant; it is compared as bytes and may
// end inside a name, which covers more and never less.
const (
	Tenant Scope = "tenant"
	Prefix Scope = "prefix"
	Item   Scope = "item"
)

// Hold is a legal hold inside one tenant.
type Hold struct {
	ID     string
	Tenant string
	Scope  Scope
	// Value is the whole key, or the beginning of keys; empty for a tenant.
	Value  string
	Reason string
	By     string
	// Epoch is the tenant's hold epoch that the placement created.
	Epoch      int64
	PlacedAt   time.Time
	ReleasedAt time.Time // zero while in force
}

// Active reports whether the hold is in force.
func (h Hold) Active() bool { return h.ReleasedAt.IsZero() }

// Covers reports whether the hold's scope includes the key.
func (h Hold) Covers(key string) bool {
	switch h.Scope {
	case Tenant:
		return true
	case Prefix:
		return h.Value != "" && strings.HasPrefix(key, h.Value)
	case Item:
		return key == h.Value
	default:
		return true // an unknown scope protects
	}
}

// Set is the holds of one tenant, released ones included.
type Set []Hold

// Reaches reports whether the set can be all the holds of a tenant at the epoch: the
// placement that raised it is among them, for a hold's row is never removed. A set
// that does not was cut short on its way.
func (s Set) Reaches(epoch int64) bool {
	var newest int64
	for _, h := range s {
		newest = max(newest, h.Epoch)
	}
	return newest >= epoch
}

// Covering returns a hold in force that covers the key.
func (s Set) Covering(key string) (Hold, bool) {
	for _, h := range s {
		if h.Active() && h.Covers(key) {
			return h, true
		}
	}
	return Hold{}, false
}

// Vetoing returns a hold that stops a delete decided under the given epoch: one
// in force, or one placed since, released or not (S18).
func (s Set) Vetoing(key string, epoch int64) (Hold, bool) {
	for _, h := range s {
		if (h.Active() || h.Epoch > epoch) && h.Covers(key) {
			return h, true
		}
	}
	return Hold{}, false
}
