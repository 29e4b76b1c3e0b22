// Command emulator serves the embedded AWS on loopback, for the AWS CLI and other programs.
//
// What the tests and a local run take for AWS can be asked by anybody in their own
// way: that is how an error in it is found. It holds everything in memory. Lambda is
// not among its services, for a function is registered in Go: a schedule fires into
// its retries and its dead letter. CloudFormation's stacks and SNS's topics are
// declared in Go too, so here there are none, and both say so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/expunge-aws/expunge/internal/emulator"
	"github.com/expunge-aws/expunge/internal/emulator/cloudformation"
	"github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/s3"
	"github.com/expunge-aws/expunge/internal/emulator/scheduler"
	"github.com/expunge-aws/expunge/internal/emulator/sns"
	"github.com/expunge-aws/expunge/internal/emulator/sqs"
	"github.com/expunge-aws/expunge/internal/emulator/sts"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	address := flag.String("listen", "127.0.0.1:4566", "the loopback `address` to listen on")
	flag.Parse()
	err := serve(ctx, *address, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers until the context ends.
func serve(ctx context.Context, address string, out io.Writer) error {
	listener, err := emulator.Listen(address)
	if err != nil {
		return err
	}
	clock := wire.Wall{}
	schedules := scheduler.New(clock, func(context.Context, string, []byte) error {
		return &wire.Error{Code: "ResourceNotFoundException", Message: "no function is registered here", Status: http.StatusNotFound}
	})
	go schedules.Run(ctx)
	aws := emulator.New(clock, nil, s3.New(clock), sqs.New(clock), dynamodb.New(clock), schedules,
		sts.New(), cloudformation.New(clock), sns.New())
	server := &http.Server{
		Handler:           aws,
		ReadHeaderTimeout: 10 * time.Second, // loopback; a client that is slower has died
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Fprintf(out, "S3, SQS, DynamoDB, EventBridge Scheduler and STS, in memory, until Ctrl-C:\n\n"+
		"export AWS_ENDPOINT_URL=http://%[1]s AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test\n\n"+
		"The first AWS CLI takes no notice of it for SQS: aws --endpoint-url http://%[1]s sqs ...\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
