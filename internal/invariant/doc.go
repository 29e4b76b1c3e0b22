// Package invariant judges a finished pipeline by what it left behind.
//
// It is given plain facts: the ledger's rows, the evidence, the holds, every
// delete that really took effect, what is still readable, and the messages. From
// them Check decides each promise of the design that can be decided afterwards,
// by its number (S safety, E evidence, L liveness). It shares as little code as it
// can with the steps that it judges: what they record is compared with what
// happened, and never taken for it.
//
// # Authority
//
// An effect carries no run. It belongs to a page when a plan in the chain of that
// page's committed intents decided its deletion: the plan that the row's intent
// names, and every plan that one narrows. A plan that no intent ever named is
// evidence of an abandoned decision and authorises nothing, and only a receipt
// whose hash stands in its page's row counts.
//
// The store checks an ETag or a version and nothing else, so that is what ties an
// effect to a plan. Among several plans, one that names the exact upload goes
// before one that names equal bytes of another time.
//
// # What it says
//
// A detail names runs, pages, tenants and counts. A key stands in it only as the
// first eight bytes of its SHA-256.
package invariant
