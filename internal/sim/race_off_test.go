//go:build !race

package sim

// Where nobody says: few seeds are played, same twice, and faults are placed among so many
// calls.
const few, same, calls = 400, 100, 60
