//go:build race

package ledger_test

// raced: the race detector makes a call ten times as long.
const raced = true
