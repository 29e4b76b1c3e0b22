// Command enqueue is the Lambda function that turns one tick, or one request, into a run of pages.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/wiring"
)

func main() {
	p, err := wiring.Load(context.Background(), func(e *contract.Environment) []*string {
		return []*string{&e.Table, &e.PagesQueue, &e.ReportQueue, &e.Policies, &e.CodeVersion}
	})
	if err != nil {
		log.Fatal(err)
	}
	deployed, err := policy.ReadFolder(os.DirFS(p.Policies))
	if err != nil {
		log.Fatal(err)
	}
	e, err := enqueue.New(enqueue.Config{
		Runs: p.Ledger, Pages: p.Ledger, Policies: p.Ledger, Lister: p.Store, Sender: p.Queue, Audit: p.Audit,
		Clock: p.Clock, Settings: p.Settings, Region: p.Region, Deployed: deployed, Code: p.CodeVersion,
	})
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(func(ctx context.Context, payload json.RawMessage) (enqueue.Receipt, error) {
		return e.Handle(ctx, wiring.Deadline(ctx), payload)
	})
}
