package conformance_test

import (
	"net/http/httptest"
	"testing"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/conformance"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/sts"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

func TestS3(t *testing.T) {
	server := httptest.NewServer(emulator.New(wire.Wall{}, nil, s3.New(wire.Wall{}), sts.New()))
	t.Cleanup(server.Close)
	conformance.S3(t, conformance.Loopback(server.URL))
}
