//go:build race

package hold_test

// raced: the race detector makes a play ten times as long, and has nothing to find in
// coroutines of one goroutine.
const raced = true
