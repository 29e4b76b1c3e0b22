// Command function is a Lambda function that does what its event tells it, good or bad.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

type event struct {
	Do   string `json:"do"`
	Size int    `json:"size"`
}

type answer struct {
	PID       int    `json:"pid"`
	RequestID string `json:"request_id"`
	ARN       string `json:"arn"`
	Trace     string `json:"trace"`
	Remaining int64  `json:"remaining_ms"`
	Extra     string `json:"extra"`
	Secret    bool   `json:"secret"`
	Filler    string `json:"filler,omitempty"`
}

func handle(ctx context.Context, raw json.RawMessage) (any, error) {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	switch e.Do {
	case "error":
		return nil, errors.New("refused by the function")
	case "panic":
		panic("the function panicked")
	case "exit":
		os.Exit(e.Size)
	case "overrun":
		time.Sleep(time.Hour)
	case "wait":
		fmt.Println("waiting")
		time.Sleep(time.Hour)
	case "print":
		fmt.Println(strings.Repeat("x", e.Size))
	}
	lc, _ := lambdacontext.FromContext(ctx)
	deadline, _ := ctx.Deadline()
	_, secret := os.LookupEnv("EXPUNGE_TEST_SECRET")
	a := answer{
		PID: os.Getpid(), RequestID: lc.AwsRequestID, ARN: lc.InvokedFunctionArn, Trace: os.Getenv("_X_AMZN_TRACE_ID"),
		Remaining: time.Until(deadline).Milliseconds(), Extra: os.Getenv("EXTRA"), Secret: secret,
	}
	if e.Do == "fill" {
		a.Filler = strings.Repeat("y", e.Size)
	}
	return a, nil
}

func main() {
	if os.Getenv("BROKEN") != "" {
		os.Exit(7)
	}
	lambda.Start(handle)
}
