// Command hold is the Lambda function that places and releases legal holds, and says how far each reaches.
package main

import (
	"context"
	"log"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/expunge-aws/expunge/functions/hold/handler"
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
