// Package dynamodb is the embedded AWS's DynamoDB: tables, sparse global indexes, expressions, batches and transactions in memory.
//
// The ledger's promises rest on what DynamoDB does with a condition, a transaction
// or a page whose start key has gone, so this package evaluates them as DynamoDB
// documents it and refuses what DynamoDB refuses: reserved words, unused
// placeholders, items past 400 KB, a consistent read of an index. Code that passes
// here must not fail there.
//
// Why it is built the way it is: a request is read and its expressions are parsed
// before any lock is taken; then the region's lock covers evaluation and storing,
// and no waiting. Values are never changed once made, so an answer can be written
// after the lock is given back. A condition and the write it guards are one step
// under the lock, which is what makes exactly one of many racers win. Numbers are
// decimals and never floating point. A row lies at bytes that sort as DynamoDB
// sorts, so that every key condition is one range of the tree, and rows of
// different partitions come in an order that nobody can rely on, as in AWS.
//
// Two things that AWS does late are late here too, and under the test's control:
// an index shows a write after Service.Lag, and a row past its time to live stays
// until Service.Sweep. Throughput is never limited; the fault hook can throttle.
package dynamodb
