package conformance_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/cloudformation"
	"github.com/expunge-aws/expunge/internal/emulator/conformance"
	"github.com/expunge-aws/expunge/internal/emulator/lambda"
	"github.com/expunge-aws/expunge/internal/emulator/scheduler"
	"github.com/expunge-aws/expunge/internal/emulator/sns"
	"github.com/expunge-aws/expunge/internal/emulator/sts"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

func TestOperator(t *testing.T) {
	clock := wire.Wall{}
	functions := lambda.New(clock)
	t.Cleanup(functions.Close)
	schedules := scheduler.New(clock, func(context.Context, string, []byte) error { return nil })
	server := httptest.NewServer(emulator.New(clock, nil, sts.New(), cloudformation.New(clock), sns.New(), functions, schedules))
	t.Cleanup(server.Close)
	conformance.Operator(t, conformance.Loopback(server.URL))
}
