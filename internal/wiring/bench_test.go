package wiring_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

// BenchmarkPage measures one page of 1,000 expired objects through a handler and
// the real adapters. The embedded AWS is another process, so allocs/op are those
// of a function; times are those of this machine and its loopback.
func BenchmarkPage(b *testing.B) {
	aws := startElsewhere(b)
	r := connect(b, aws.url, os.DirFS("testdata/bulk"))
	n := 0
	// request seeds a tenant of its own and returns the request that evaluates it.
	request := func() []byte {
		n++
		tenant := fmt.Sprintf("tenant-%06d", n)
		aws.seed(b, tenant, 1000)
		return fmt.Appendf(nil, `{"policy":"exports","tenant":%q,"request_id":"bench-%d","reason":"benchmark"}`, tenant, n)
	}
	// first lets both handlers make their connections and fill their pools.
	first := func() {
		r.invoke(r.enqueue, request())
		r.drain()
	}
	b.Run("enqueue", func(b *testing.B) {
		first()
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			payload := request()
			b.StartTimer()
			r.invoke(r.enqueue, payload)
			b.StopTimer()
			r.drain()
			b.StartTimer()
		}
	})
	b.Run("worker", func(b *testing.B) {
		first()
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			r.invoke(r.enqueue, request())
			batch := r.receive()
			payload := marshal(b, events.SQSEvent{Records: batch})
			b.StartTimer()
			answer := r.invoke(r.worker, payload)
			b.StopTimer()
			r.settle(batch, answer)
			b.StartTimer()
		}
	})
}
