// Package lambda is the embedded AWS's Lambda: functions in Go or in processes of their own, Invoke, and the event source mapping of a queue.
//
// # Functions
//
// A function is registered from Go, since deploying one is not what the embedded
// AWS is for. It is a handler in this process, which runs on the emulated clock,
// or a binary that speaks the Runtime API, as on AWS: such processes are started
// on demand, used again, limited by the reserved concurrency, and killed when an
// invocation overruns. A binary reads the machine's own clock, so its deadlines
// mean something only when the emulated clock is wire.Wall.
//
// # Why processes
//
// What a handler leaves behind when it dies can only be seen when something
// really dies. A process that ends in the middle of an invocation is reported at
// once as Runtime.ExitError with its exit status or signal; nothing of the
// caller's environment is handed to it, least of all AWS credentials.
//
// # Mappings
//
// A mapping polls a source, a queue as seen through a small interface, and gives
// its messages to a function by Lambda's rules. They are worth imitating exactly,
// because each of them loses or repeats messages for whoever has them wrong: a
// failure list counts only when the mapping asks for it and only in its exact
// spelling; what can not be read fails the whole batch; what the function is too
// busy for has been received all the same.
package lambda
