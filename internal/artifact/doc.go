// Package artifact lists items page by page and removes exactly those it is told to, absent meaning done.
//
// # Why
//
// Deleting is the one act that cannot be taken back, so a store has no other
// verb for it than Delete of named items under a condition: the ETag of the
// object that stands there, or the exact version. The condition is the fourth
// safety level of the design, and the only one that the store checks itself. An
// item without either is refused before anything is sent.
//
// A call has two kinds of failure and they never mix. An answer speaks about one
// item. An error speaks about the call and says nothing about any item: whether
// something happened is for the caller to find out by looking.
//
// A request is refused once its claim is over (Deletion.NotAfter), because a
// process that was frozen and thawed would otherwise sign it anew with the
// current time (F6, S20).
//
// # Listing
//
// Keys are opaque bytes in byte order. A token names a position in the key space
// and not a count, so deleting what was listed moves nothing (S3-25).
//
// # Versions
//
// In a versioned bucket a delete by ETag lays a marker and destroys nothing. The
// store accepts the same ETag for identical bytes uploaded again, so Standing
// looks afterwards at what the marker hides, and takes the marker away where it
// hides the later upload.
//
// Memory is the fake for tests, simulation and the local run. It and every
// adapter pass artifacttest.Exercise.
package artifact
