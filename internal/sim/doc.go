// Package sim runs the real steps in simulated regions in which everything goes wrong, and holds what happens against the invariants in the instant in which it happens.
//
// # How it works
//
// A world is one region, made from a seed: a bucket, a ledger, queues, evidence, a
// schedule, people. The steps are the product's own packages, wired as the functions
// wire them; only what stands behind their interfaces is simulated. Every call of a step
// stops it, and the kernel decides what happens next: another process, a request that
// lands late, an upload, a hold. A process may die at every call, stand still beyond its
// time and go on, or run beside another one on the same page. One number decides all of
// it, so a world that broke an invariant can be played again, call by call.
//
// Each world draws for every kind of fault whether it is absent, rare or common, and its
// own settings: a page holds at most five items. Things go wrong for an hour or some.
// Then they stop, people clear up what waits for a person, and everything must come to
// its end.
//
// What is in memory behind the interfaces are the fakes of the client packages. They
// pass the same suites as the clients on the embedded AWS, and so do the views of them
// that the steps are given, which is what ties a world to the services; the faults are
// added around them here.
//
// Some worlds have adapters: the calls go through the product's own clients and the AWS
// SDK to the embedded AWS, without a socket, and the faults happen to their requests. The
// fakes of the ledger and of the evidence are kept beside the services. They take each
// write in the instant in which the service does, and say what the client should have
// answered; where the two differ, that is a violation (A1). So is anything that is
// destroyed without a delete that names it (A2).
//
// # What it proves
//
// That no oracle found anything in so many worlds, under the faults that Faults lists,
// each of which did happen. That the oracles see: every Mutant, a step that was broken on
// purpose, is found. And, by Exhaust, that no combination of a few faults on a small
// scenario breaks anything, luck or not.
//
// # What it does not prove
//
// Nothing about the services themselves: the conformance suites do that. A world with
// adapters takes ten times as long, so there are fewer of them. Worlds are small: some
// twenty objects, two tenants and one for drills, one policy or two, a few runs. What an
// oracle does not look at is not seen, and a fault that nobody thought of does not happen.
//
// One thing is counted instead of judged: an object in a bucket without versions that was
// replaced by the same bytes between a claim's listing and its delete. No condition that
// the store offers can tell it from the one that was planned (F5).
package sim
