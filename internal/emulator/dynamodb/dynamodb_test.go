package dynamodb_test

import (
	"net/http/httptest"
	"testing"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/conformance"
	"github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// serve answers for a service over real HTTP on loopback.
func serve(t testing.TB, clock wire.Clock, faults wire.Faults, service *dynamodb.Service) conformance.Target {
	t.Helper()
	server := httptest.NewServer(emulator.New(clock, faults, service))
	t.Cleanup(server.Close)
	return conformance.Loopback(server.URL)
}

func TestConformance(t *testing.T) {
	conformance.DynamoDB(t, serve(t, wire.Wall{}, nil, dynamodb.New(wire.Wall{})))
}
