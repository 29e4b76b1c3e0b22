// Package queue sends pages and reads dead letters, keeping the identifiers the protocol needs.
//
// # Delivery
//
// At least once. A message can come twice, to two workers at once, late, and
// after it was acknowledged with a handle that had grown old. Nothing here hides
// that: the ledger decides what a delivery may do. The body never changes, not
// by a retry, not as a dead letter, not on the way back.
//
// # Sending
//
// The queue refuses single entries of a batch inside a good answer. Send returns
// the ids that were accepted, and only those: what is not in the list was not
// sent, or may have been. The ledger resends it.
//
// # Dead letters
//
// A dead letter is the original body with attributes beside it that say why.
// Attributes name no tenant and no key. SQS takes ten at most, so the policy and
// its version share one. A letter without a reason was moved by SQS itself, or
// put there by somebody else; which of the two is told by its origin.
//
// Retention of a dead letter counts from when the message was first sent, so
// days of retries are taken from it (RD-01).
//
// Memory is the fake for tests, simulation and the local run. It and every
// adapter pass queuetest.Exercise.
package queue
