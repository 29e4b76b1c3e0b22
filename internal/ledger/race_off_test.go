//go:build !race

package ledger_test

const raced = false
