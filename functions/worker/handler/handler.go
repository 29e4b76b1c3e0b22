// Package handler is what the worker function does with an event: bytes in, bytes out.
//
// It stands apart from the main, which no test can import, so that the samples in
// events are fed to the very handler that Lambda calls, and apart from package
// wiring, so that no function links another one's step.
package handler

import (
	"context"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/wiring"
	"github.com/expunge-aws/expunge/internal/worker"
)

// Needs names the variables without which the function does not start. The queue
// that it reads is one of them: without it, no message could be given back for later.
func Needs(e *contract.Environment) []*string {
	queue := &e.PagesQueue
	if e.Mode == string(job.ReportOnly) {
		queue = &e.ReportQueue
	}
	return []*string{&e.Table, queue, &e.LettersQueue, &e.EvidenceBucket, &e.Mode, &e.CodeVersion}
}

// Func is the form in which Lambda's library takes the handler.
type Func func(context.Context, worker.Event) (worker.Response, error)

// New wires a worker. It remembers runs and policy versions for as long as the
// process lives, so it is made once.
func New(p wiring.Parts) (Func, error) {
	w, err := worker.New(worker.Config{
		Records: ledger.Pin(p.Ledger), Writes: p.Ledger, Holds: p.Ledger, Artifacts: p.Store,
		Evidence: p.Evidence, Letters: p.Queue, Audit: p.Counted(contract.ServiceWorker), Clock: p.Clock, Settings: p.Settings,
		Region: p.Region, Mode: job.Mode(p.Mode), Code: p.CodeVersion, NewOwner: wiring.NewOwner, Jitter: wiring.Jitter,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, event worker.Event) (worker.Response, error) {
		return w.Batch(ctx, wiring.Deadline(ctx), event.Deliveries()), nil
	}, nil
}
