package dynamodb_test

import (
	"os"
	"testing"

	"github.com/expunge-aws/expunge/internal/emulator/conformance"
)

func TestOracle(t *testing.T) {
	if e := os.Getenv("DDB_ORACLE"); e != "" {
		conformance.DynamoDB(t, conformance.Loopback(e))
	}
}
