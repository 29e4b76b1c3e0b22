// Package local runs the whole pipeline on this machine: on the embedded AWS, or in memory on a clock it controls.
//
// A Cloud is a region on the embedded AWS. The functions are processes of their
// own, started by schedules and fed by the event source mapping, and reach
// everything over loopback through the AWS SDK. It runs on the machine's clock with
// every duration divided by twenty, and a process that dies is ended by SIGKILL.
//
// A World wires the same steps to the memory implementations of the ledger, the
// queue and the store, each held by the suite that its real counterpart passes, and
// plays the event source between them: it receives, invokes, honours the partial
// batch response, and lets what was not acknowledged come back. Time is simulated:
// it moves when a step waits, and jumps when there is nothing to do, so that an
// expired lease or an hour of back-off takes no time to watch. A process that dies
// is a goroutine that ends without returning: nothing it would have done afterwards
// happens, and nothing is told of it but silence.
package local
