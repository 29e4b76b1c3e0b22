package conformance_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/conformance"
	"github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/sdk"
)

func sqsTarget(t *testing.T, clock wire.Clock) conformance.Target {
	t.Helper()
	server := httptest.NewServer(emulator.New(clock, nil, sqs.New(clock)))
	t.Cleanup(server.Close)
	target := conformance.Loopback(server.URL)
	target.Config.HTTPClient = &http.Client{Transport: sdk.Repair(&http.Transport{MaxIdleConnsPerHost: 64})}
	return target
}

func TestSQS(t *testing.T) {
	conformance.SQS(t, sqsTarget(t, wire.Wall{}))
}

func TestSQSOverTime(t *testing.T) {
	clock := wire.NewManual(time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC))
	conformance.SQSOverTime(t, sqsTarget(t, clock), clock.Advance)
}
