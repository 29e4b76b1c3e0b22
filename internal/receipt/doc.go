// Package receipt is the evidence a page leaves behind: canonical form, names, verification.
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
package receipt
