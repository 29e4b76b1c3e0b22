package invariant

import (
	"time"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// Facts are what a pipeline in one region left behind. Check changes nothing in
// them.
type Facts struct {
	// Region is where all of it happened.
	Region string
	// Runs and Pages are the ledger's rows, in any order.
	Runs  []job.Run
	Pages []job.Page
	// Policies are the published versions.
	Policies []policy.Policy
	// Holds are each tenant's, released ones included.
	Holds map[string]hold.Set
	// Brakes are those in force: what they cover may wait without a message.
	Brakes []job.Brake
	// Evidence is every stored document by its name.
	Evidence map[string][]byte
	// Effects are all that Expunge's delete calls changed in the stores, in order.
	Effects []Effect
	// Remains tells what is readable under a name now: the current item when the
	// reference names no version. Without it E3 looks at nothing.
	Remains func(bucket string, ref job.Ref) (job.Item, bool)
	// Acks are the messages that were acknowledged.
	Acks []Ack
	// Letters are the dead letters that are there now. One that the queue moved by
	// itself has a body and no reason.
	Letters []job.Letter
	// Waiting are the bodies that are still in a queue of pages, hidden ones included.
	Waiting [][]byte
	// Events are what was emitted, in order.
	Events []audit.Event
	// Quiet is how long after a hold was placed a delete of an earlier intent can
	// still land: the function timeout and the lifetime of a signed request.
	Quiet time.Duration
}

// Effect is something that a delete call of Expunge changed in a store.
type Effect struct {
	Bucket string
	// Item is what was destroyed or hidden, as it stood there. Its Version is set in
	// a versioned bucket.
	Item job.Item
	At   time.Time
	// Marker: the item was hidden and its bytes remain.
	Marker bool
	// Restored: a marker that covered a later upload was taken away again; Item is
	// that upload. It undoes the effect that laid the marker.
	Restored bool
}

// Ack is a message that was acknowledged and is gone from its queue. MessageID
// may be empty; with it, an event about the same delivery can explain the ack.
type Ack struct {
	MessageID string
	Body      []byte
	At        time.Time
}

// Result is the judgement on one invariant.
type Result struct {
	ID    string `json:"id"`
	Holds bool   `json:"holds"`
	// Checked is how many things were looked at. With none, the invariant holds and
	// Detail says so.
	Checked int    `json:"checked"`
	Detail  string `json:"detail"`
}

// rule is one invariant: what it means, what Checked counts, and why there may be
// nothing to look at.
type rule struct {
	id, means, counts, nothing string
}

// rules are in the order of their results.
var rules = []rule{
	{"S1", "every deleted item was last modified before the pinned cutoff of its run", "deletes that a plan names", "nothing was deleted by a plan"},
	{"S2", "a run's cutoff is at least the policy's retention, in days of 24 hours, before its scheduled instant", "runs", "there is no run"},
	{"S3", "every deleted item is named, by version or ETag, in a committed plan of its page", "deletes", "nothing was deleted"},
	{"S4", "nothing was deleted under a hold placed before the run opened, nor later than the quiet time after any placement", "deletes in tenants with holds", "no tenant with a hold lost anything"},
	{"S5", "every key lies inside the whole path segment of its tenant", "deletes and outcomes", "there is no outcome"},
	{"S6", "runs, buckets, commands and dead letters belong to this region", "runs, deletes, messages and letters", "there is no run and no message"},
	{"S7", "messages that are malformed, unknown or of another policy version had no effect and are dead letters", "messages and letters", "every message was one of ours"},
	{"S8", "report-only runs deleted nothing and committed no intent", "pages of report-only runs", "no run was report-only"},
	{"S9", "no run deleted more than its scan recorded, and a run that was not released deleted nothing", "runs", "there is no run"},
	{"S11", "no item has outcomes in two pages of a run", "outcomes", "there is no outcome"},
	{"S17", "no key stands in a message, an attribute of a dead letter or an event", "messages, letters and events", "there is no message and no event"},
	{"S19", "a later intent of a page deletes nothing that the one before it did not", "narrowed plans", "no intent was narrowed"},
	{"E1", "a message was acknowledged only once its page was settled with a receipt, dead with a durable letter, or planned again", "acknowledged messages", "no message was acknowledged"},
	{"E2", "every deleted item has the outcome of a deletion or superseded, or is owed by a page that is open or dead; every answered deletion happened", "deletes and answered outcomes", "nothing was deleted"},
	{"E3", "what is called deleted can not be read any more", "outcomes of deletion", "nothing is called deleted"},
	{"E4", "every evidence document is whole and has the SHA-256 in its name", "documents", "there is no evidence"},
	{"E5", "the totals of a run are the sum of its pages, and those the sum of their receipts' lines", "runs and pages", "there is no run"},
	{"E6", "plans, receipts and manifests say what the ledger says, and every receipt names a plan that is there", "documents that count", "no document counts"},
	{"L1", "every page is settled, dead with its letter, waiting with its message, braked, or its run is not released", "pages", "there is no page"},
	{"L2", "with nothing waiting, no scan is unfinished and no page of a released run is open", "runs and pages", "there is no run, or messages still wait"},
}

// IDs lists the invariants in the order of their results.
func IDs() []string {
	ids := make([]string, len(rules))
	for i, r := range rules {
		ids[i] = r.id
	}
	return ids
}

// Meaning says in one sentence what an invariant promises, "" for an unknown id.
func Meaning(id string) string {
	for _, r := range rules {
		if r.id == id {
			return r.means
		}
	}
	return ""
}
