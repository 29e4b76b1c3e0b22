//go:build race

package sim

// Where nobody says: few seeds are played, same twice, and faults are placed among so many
// calls. The race detector makes a world ten times as long, and has nothing to find in
// coroutines of one goroutine.
const few, same, calls = 40, 10, 8
