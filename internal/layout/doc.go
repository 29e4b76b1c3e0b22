// Package layout holds no code: its tests keep the shape of this module true.
//
// The shape is a table (table_test.go): which package may import which of
// ours, which may hold an AWS client, and which are pure, so that every run
// can be replayed. The rules that read it (rules_test.go) look at the source
// and not at the binary, need no build and take well under a second. What they
// cannot see, such as a lookup table that a function in another package
// sorts in place, stays with the reviewer.
//
// # Why a test and not a linter's setting
//
// The lint settings say some of the same things, but a linter may be out of
// reach and a setting is easily switched off by a comment. These rules run
// with every `go test ./...` and know no exception comment: who needs an
// exception changes the table, where a reviewer sees it.
//
// A rule that cannot fail is no rule. Each one is shown sources that break it
// and must report them (faults_test.go), and a module that uses everything it
// allows and must stay silent.
package layout
