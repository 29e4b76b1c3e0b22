// Command reconcile is the Lambda function that finds work nobody is doing and asks for it again.
package main

import (
	"context"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/expunge-aws/expunge/functions/reconcile/handler"
	"github.com/expunge-aws/expunge/internal/wiring"
)

func main() {
	p, err := wiring.Load(context.Background(), handler.Needs)
	if err != nil {
		log.Fatal(err)
	}
	h, err := handler.New(p, os.DirFS(p.Policies))
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(h)
}
