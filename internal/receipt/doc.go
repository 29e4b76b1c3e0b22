// Package receipt is the evidence a page and its run leave behind: canonical form, names, verification.
//
// A page leaves two kinds of document. A plan says what was about to be done and
// why, and is durable before the first delete; a receipt says what happened to
// each item, and names the plan it answers. Both are named by the SHA-256 of the
// bytes that are stored, so two attempts never fight over a name (F3, F10), a
// second writer of the same name holds the same bytes, and anybody checks an
// object with sha256sum alone.
//
// # Form
//
// A document is one gzip member with a fixed header (no name, no time) around
// JSON lines in UTF-8: the [Header], one line for each item in ascending order of
// the key's bytes, and a trailer. Every line is in the one form that
// [Document.Encode] writes: field order, escapes and numbers included. The same
// document always gives the same text; the compressed bytes, and so the name, are
// stable within one Go release.
//
// # Chain
//
// The lines are chained by a running hash. The trailer holds the number of items,
// the SHA-256 of all text before the trailer, and one mark for each line: the
// first byte, in hex, of the SHA-256 of the text up to the end of that line. The
// hash finds any change; the marks say where it begins: a dropped, altered,
// inserted or reordered line is named exactly in 255 of 256 cases and otherwise
// soon after. A whole hash on every line would be incompressible and cost 35 of
// the 60 bytes that an item may take; the marks cost one. Both are checked
// without this code:
//
//	zcat DOCUMENT | sed '$d' | sha256sum              # the trailer's sha256
//	zcat DOCUMENT | head -n 7 | sha256sum | cut -c1-2 # the mark of line 7
//
// Someone who rewrites the trailer too cannot keep the name, and the name stands
// in the page's row.
//
// # Manifest
//
// A closed run leaves one document more, its [Manifest]: a header with the totals
// and a line for each page in the ledger's order, with the hashes of its plan and
// its receipt. It holds no keys, not even the ends of a range. Form and chain are
// those of a document, and the trailer holds one thing more: the root of the hash
// tree of RFC 6962 over the lines of the pages, each with its newline. With the
// root alone, and some 16 hashes beside the line, it can be shown that a page
// belongs to a run of 50,000, without the other pages.
//
// The run's row keeps the manifest's hash and the root ([job.Seal]). From there
// everything hangs together: the manifest names the receipts, a receipt its plan, a
// plan the one it narrows. [VerifyRun] follows that without the ledger and without
// the network, however long ago the queue has forgotten the run (E6, R42).
//
// What nothing names can be lost without anybody noticing: the plan of a decision
// that was never committed, and a receipt of what was known before the last one.
// Neither counts for anything.
package receipt
