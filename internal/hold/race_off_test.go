//go:build !race

package hold_test

const raced = false
