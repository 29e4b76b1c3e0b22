//go:build !race

package sim

// few is how many seeds are played where nobody says.
const few = 400
