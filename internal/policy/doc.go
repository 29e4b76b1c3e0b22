// Package policy decides from facts and a policy version alone whether an item may be deleted, and says why.
//
// A policy is one file that people edit and review. Parse reads it strictly and
// reports every mistake with its place. The place of the artifacts, the
// retention, the mode and the schedule have no default, so leaving one out is an
// error and never a rule (HP-08). Once read, a policy is a value: its canonical
// form is what the ledger stores and what its version is hashed over, and Load
// takes back exactly that form.
//
// The answers take every fact as an argument. They never read a clock, the
// environment or the host's zone database, so that a retry days later, on another
// machine, gives the same answer (R9). Three things hold whatever a policy says:
//
//   - the cutoff is never younger than N times 24 hours before the run (S2),
//   - a tenant is one whole path segment, compared as bytes (S5), and Contains
//     checks that without the code of TenantOf, whose mistake it is there to catch,
//   - an empty policy, an empty prefix, a zero cutoff or an unknown age matches
//     nothing (S10).
//
// Of two versions, Widens says by what the later might delete more, and Unreported
// whether reports of the earlier stand for it: what can not be proved to be
// narrower counts as wider.
//
// Doubt is resolved towards keeping. Each decision carries its reason, each
// refusal its place, and each finding of the guard its numbers.
package policy
