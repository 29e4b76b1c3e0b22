// Command worker is the Lambda function that turns one page into one terminal outcome per item.
package main

import (
	"context"
	"log"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/wiring"
	"github.com/expunge-aws/expunge/internal/worker"
)

func main() {
	p, err := wiring.Load(context.Background(), func(e *contract.Environment) []*string {
		return []*string{&e.Table, &e.LettersQueue, &e.EvidenceBucket, &e.Mode, &e.CodeVersion}
	})
	if err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Records: ledger.Pin(p.Ledger), Writes: p.Ledger, Holds: p.Ledger, Artifacts: p.Store,
		Evidence: p.Evidence, Letters: p.Queue, Audit: p.Audit, Clock: p.Clock, Settings: p.Settings, Region: p.Region,
		Mode: job.Mode(p.Mode), Code: p.CodeVersion, NewOwner: wiring.NewOwner, Jitter: wiring.Jitter,
	})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(func(ctx context.Context, event worker.Event) (worker.Response, error) {
		return w.Batch(ctx, wiring.Deadline(ctx), event.Deliveries()), nil
	})
}
