package ledger_test

import (
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/expunge-aws/expunge/internal/emulator"
	emulated "github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/ledger/ledgertest"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// openTable returns a ledger in a fresh table of the embedded AWS.
func openTable(t *testing.T) *ledger.Table {
	t.Helper()
	server := httptest.NewServer(emulator.New(wire.Wall{}, nil, emulated.New(wire.Wall{})))
	t.Cleanup(server.Close)
	config := sdk.Defaults().Configure(aws.Config{
		Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	if _, err := dynamodb.NewFromConfig(config.Config).CreateTable(t.Context(), ledger.Schema("ledger")); err != nil {
		t.Fatal(err)
	}
	return ledger.NewTable(config, "ledger")
}

func TestTable(t *testing.T) {
	ledgertest.Exercise(t, func(t *testing.T) ledgertest.Ledger { return openTable(t) })
}
