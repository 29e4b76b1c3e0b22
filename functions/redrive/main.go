// Command redrive is the Lambda function of the on-call: it moves dead pages back, sets the brake, and approves stopped runs.
package main

import (
	"context"
	"log"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/expunge-aws/expunge/functions/redrive/handler"
	"github.com/expunge-aws/expunge/internal/wiring"
)

func main() {
	p, err := wiring.Load(context.Background(), handler.Needs)
	if err != nil {
		log.Fatal(err)
	}
	h, err := handler.New(p)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(h)
}
