//go:build race

package sim

// few is how many seeds are played where nobody says. The race detector makes a world ten
// times as long, and has nothing to find in coroutines of one goroutine.
const few = 40
