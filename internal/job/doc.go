// Package job is the durable command: run, page, item, outcome, and their wire form.
//
// It holds nouns and the pure rules between them: identities that never come
// from a clock, the two state machines, and the strict form of the message. A
// message names a run and a page and carries no authority; everything that
// decides what may be deleted is read from the ledger. The number of attempts is
// a field of the page and never of the message, because a queue redelivers the
// same bytes (ruling C7).
//
// An item is a reference: a key, perhaps a version, an ETag, a size and a time.
// Nothing here knows what kind of artifact that is.
package job
