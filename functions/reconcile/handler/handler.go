// Package handler is what the reconcile function does with an event: bytes in, bytes out.
//
// It stands apart from the main, which no test can import, so that the samples in
// events are fed to the very handler that Lambda calls, and apart from package
// wiring, so that no function links another one's step.
package handler

import (
	"context"
	"io/fs"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/reconcile"
	"github.com/expunge-aws/expunge/internal/wiring"
)

// Needs names the variables without which the function does not start.
func Needs(e *contract.Environment) []*string {
	return []*string{
		&e.Table, &e.PagesQueue, &e.ReportQueue, &e.LettersQueue, &e.EvidenceBucket, &e.Policies, &e.EnqueueName, &e.RedriveName,
		&e.CodeVersion,
	}
}

// Func is the form in which Lambda's library takes the handler. Nothing of the
// payload is used: a pass looks at everything that is open.
type Func func(context.Context) (reconcile.Summary, error)

// New wires a reconciler that watches the schedules of the policies in the folder.
func New(p wiring.Parts, folder fs.FS) (Func, error) {
	deployed, err := policy.ReadFolder(folder)
	if err != nil {
		return nil, err
	}
	r, err := reconcile.New(reconcile.Config{
		Index: p.Ledger, Rows: p.Ledger, Runs: p.Ledger, Watches: p.Ledger, Plans: p.Ledger,
		Scans: wiring.NewScans(p.SDK, p.EnqueueName), Redrives: wiring.NewRedrives(p.SDK, p.RedriveName),
		Evidence: p.Evidence, Queue: p.Queue, Audit: p.Counted(contract.ServiceReconcile), Gauges: p.Gauges, Clock: p.Clock,
		Settings: p.Settings, Region: p.Region, Deployed: deployed, Code: p.CodeVersion,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (reconcile.Summary, error) {
		return r.Pass(ctx, wiring.Deadline(ctx))
	}, nil
}
