// Package ledger records runs, pages, holds, brakes and policy versions, and lets a write happen only on what its writer has read.
//
// # One rule for every write
//
// The states of a run and of a page are moved by pure functions in package job.
// The ledger adds one thing: a write carries the revision it was computed from
// and fails with failure.Conflict when the stored row has another. A claim is
// such a write, so two workers can not both hold a page, and everything a worker
// writes under a lost claim fails by itself (S13). Three writes carry more than one
// row: a record moves the run's cursor and puts the page, the intent also checks
// the tenant's hold epoch, and the completion also puts the split-off items.
//
// After an answer that may hide a success the writer reads the row again: its own
// revision, owner and fence there mean that it was committed.
//
// # Rows
//
// A page is addressed by its id alone, because that is what a message names. The
// order of a tenant's pages in a run is a partition of small rows: their sort key
// is a type byte and the start of the range relative to the tenant's prefix, or
// for a split-off item a later type byte and its id. Items are listed after the
// ranges of the same answer were read, so whoever sees a completed parent also
// sees its children. Which page handled a key is the last range that starts before
// it. A sparse index of keys holds what is open; it is written twice in a page's
// life. Rows are never deleted and nothing that proves anything expires.
//
// # The states of a run
//
//	scanning          --advance--> scanning
//	scanning          --release--> released
//	scanning          --await--> awaiting_approval
//	awaiting_approval --release--> released
//	awaiting_approval --reject--> rejected
//	released          --close--> closed
//
// No page can be claimed before its run is released, so one write approves.
//
// # The states of a page
//
//	                 .------------- park (brake) -------------.
//	                 v                                        |
//	planned --send--> sent --claim--> claimed --intend--> intended --complete--> completed
//	                                   ^  |                  |
//	                                   |  '---- retry -------+----> retrying
//	                                   '------- claim ------------------'
//	any open state --die--> dead --redrive--> redriven --claim--> claimed
//	                          '--discard--> discarded
//	planned --void--> discarded, when its run is rejected
//
// In full; a claim from claimed or intended takes over a lease that has ended,
// and sending again moves only the page's due time:
//
//	planned  --send--> sent
//	planned  --claim--> claimed
//	planned  --park--> planned
//	planned  --die--> dead
//	planned  --void--> discarded
//	sent     --send--> sent
//	sent     --claim--> claimed
//	sent     --park--> planned
//	sent     --die--> dead
//	claimed  --send--> claimed
//	claimed  --claim--> claimed
//	claimed  --intend--> intended
//	claimed  --complete--> completed
//	claimed  --retry--> retrying
//	claimed  --park--> planned
//	claimed  --die--> dead
//	claimed  --discard--> discarded
//	intended --send--> intended
//	intended --claim--> claimed
//	intended --complete--> completed
//	intended --retry--> retrying
//	intended --park--> planned
//	intended --die--> dead
//	retrying --send--> retrying
//	retrying --claim--> claimed
//	retrying --park--> planned
//	retrying --die--> dead
//	redriven --send--> redriven
//	redriven --claim--> claimed
//	redriven --park--> planned
//	redriven --die--> dead
//	dead     --redrive--> redriven
//	dead     --discard--> discarded
package ledger
