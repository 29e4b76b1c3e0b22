// Command reconcile is the Lambda function that finds work nobody is doing and asks for it again.
package main

import (
	"context"
	"log"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/reconcile"
	"github.com/expunge-aws/expunge/internal/wiring"
)

func main() {
	p, err := wiring.Load(context.Background(), func(e *contract.Environment) []*string {
		return []*string{&e.Table, &e.PagesQueue, &e.ReportQueue, &e.LettersQueue, &e.EnqueueName, &e.CodeVersion}
	})
	if err != nil {
		log.Fatal(err)
	}
	r, err := reconcile.New(reconcile.Config{
		Index: p.Ledger, Rows: p.Ledger, Runs: p.Ledger, Scans: wiring.NewScans(p.SDK, p.EnqueueName), Queue: p.Queue,
		Audit: p.Audit, Clock: p.Clock, Settings: p.Settings, Code: p.CodeVersion,
	})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(func(ctx context.Context) (reconcile.Summary, error) {
		return r.Pass(ctx, wiring.Deadline(ctx))
	})
}
