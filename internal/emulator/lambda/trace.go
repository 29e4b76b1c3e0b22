package lambda

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/url"
	"strconv"
	"strings"
)

// trace is a trace header. SDKs send the one of the running invocation with every
// call, queues keep it with the message as AWSTraceHeader, and that is how Lambda
// notices a function that feeds itself: each invocation adds one to the hops of
// its function in the lineage.
//
//	Root=1-5759e988-bd862e3fe1be46a994272793;Parent=...;Sampled=0;Lineage=a87bd80c:1|68fd508a:5
type trace struct {
	root    string
	lineage []link
}

// link is how often a chain of requests went through a function.
type link struct {
	function string
	hops     int
}

// maxHops is how many invocations of one function a chain may hold.
const maxHops = 16

// parseTrace reads a header. What it can not read it forgets, as a service does
// that must not fail for the sake of a trace.
func parseTrace(header string) trace {
	// The SDK escapes the bars between the links.
	if plain, err := url.PathUnescape(header); err == nil {
		header = plain
	}
	var t trace
	for part := range strings.SplitSeq(header, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "Root":
			t.root = value
		case "Lineage":
			t.lineage = parseLineage(value)
		}
	}
	return t
}

func parseLineage(value string) []link {
	var links []link
	for part := range strings.SplitSeq(value, "|") {
		function, count, _ := strings.Cut(part, ":")
		if hops, err := strconv.Atoi(count); err == nil && hops > 0 {
			links = append(links, link{function, hops})
		}
	}
	return links
}

// String writes the header.
func (t trace) String() string {
	header := "Root=" + t.root + ";Sampled=0"
	for n, l := range t.lineage {
		separator := "|"
		if n == 0 {
			separator = ";Lineage="
		}
		header += separator + l.function + ":" + strconv.Itoa(l.hops)
	}
	return header
}

// hops is how often the chain went through the function.
func (t trace) hops(f *function) int {
	name := lineageName(f)
	for _, l := range t.lineage {
		if l.function == name {
			return l.hops
		}
	}
	return 0
}

// hop returns the trace of an invocation of the function in this chain.
func (t trace) hop(f *function) trace {
	next := trace{root: t.root}
	if next.root == "" {
		next.root = newRoot(f)
	}
	name := lineageName(f)
	found := false
	for _, l := range t.lineage {
		if l.function == name {
			l.hops++
			found = true
		}
		next.lineage = append(next.lineage, l)
	}
	if !found {
		next.lineage = append(next.lineage, link{name, 1})
	}
	return next
}

// longest returns the trace of a batch: that of the message whose chain went
// through the function most often, as the guard must not be escaped in company.
func longest(f *function, batch []Message) trace {
	var t trace
	for _, m := range batch {
		if other := parseTrace(m.Attributes[traceAttribute]); t.root == "" || other.hops(f) > t.hops(f) {
			t = other
		}
	}
	return t
}

// traceAttribute is where a queue keeps the trace of the sender.
const traceAttribute = "AWSTraceHeader"

// lineageName names a function in a lineage by eight hexadecimal digits.
func lineageName(f *function) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(f.arn())) // a hash takes everything
	return fmt.Sprintf("%08x", h.Sum32())
}

// newRoot begins a chain.
func newRoot(f *function) string {
	return fmt.Sprintf("1-%08x-%s", f.service.clock.Now().Unix()&0xffffffff, random(12))
}

// newID returns a request id in AWS's form.
func newID() string {
	h := random(16)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // crypto/rand does not fail
	return hex.EncodeToString(b)
}

// traceKey is the context key under which aws-lambda-go gives a handler its trace.
const traceKey = "x-amzn-trace-id"

func withTrace(ctx context.Context, header string) context.Context {
	return context.WithValue(ctx, traceKey, header) //nolint:staticcheck // SA1029: the key is aws-lambda-go's
}

// Trace returns the trace header of the invocation whose context this is. The SDK
// takes it from the environment of a function's process; a handler that runs in
// this one has to send it by other means.
func Trace(ctx context.Context) string {
	header, _ := ctx.Value(traceKey).(string)
	return header
}

func traceOf(ctx context.Context) trace { return parseTrace(Trace(ctx)) }
