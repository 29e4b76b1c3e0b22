// Package e2e deploys the real application to an AWS that others wrote, and plays a bad night on it.
//
// TestRegion starts ministack, a third party's emulator from the Python package
// index, and runs the unmodified CDK command line against it: bootstrap, deploy, and
// an update. Lambda functions are the processes that Lambda would start, ministack's
// scheduler and event source mapping call them, and the operator's tool is the built
// one. make e2e runs it; without EXPUNGE_E2E=1 it is skipped. It is the one test that
// lives in real time: it waits by looking again until a deadline, and that look sleeps.
//
// # What it is evidence for
//
// That the template deploys and updates, that names, variables, packages, mappings
// and schedules fit together, and that the functions and the tool do over a second
// implementation of the services what they do over ours. ministack evaluates IAM:
// each function runs with the policies of its own role, so a missing grant fails here,
// and so does a queue's or a bucket's policy that refuses the wrong one. What a role must
// not do is tried with its own session, and refused.
//
// # What it is not evidence for
//
// Alarms and metrics, which ministack does not derive from queues or logs; the
// scheduler's retries, dead letters, time zones and context attributes; encryption,
// lifecycle rules and retention of logs; conditions on S3 writes; quotas, throttling and
// latency; that a grant is no wider than what is tried.
//
// Where ministack drops or bends what the template says, a repair with a name puts it
// right from outside (see repair_test.go and front_test.go); what is repaired is not
// proved here but by the tests of the template. The effects are looked at, and not how
// often a function was called.
package e2e
