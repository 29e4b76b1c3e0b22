// Package local runs every step in one process, on a clock it controls.
//
// A World wires the real steps to the memory implementations of the ledger, the
// queue and the store, each held by the suite that its real counterpart must
// pass, and plays the event source between them: it receives, invokes, honours
// the partial batch response, and lets what was not acknowledged come back. Time
// is simulated: it moves when a step waits, and jumps when there is nothing to
// do, so that an expired lease or an hour of back-off takes no time to watch.
//
// A process that dies is a goroutine that ends without returning. Nothing it
// would have done afterwards happens, and nothing is told of it but silence.
package local
