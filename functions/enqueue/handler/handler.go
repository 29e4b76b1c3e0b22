// Package handler is what the enqueue function does with an event: bytes in, bytes out.
//
// It stands apart from the main, which no test can import, so that the samples in
// events are fed to the very handler that Lambda calls, and apart from package
// wiring, so that no function links another one's step.
package handler

import (
	"context"
	"encoding/json"
	"io/fs"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/wiring"
)

// Needs names the variables without which the function does not start.
func Needs(e *contract.Environment) []*string {
	return []*string{&e.Table, &e.PagesQueue, &e.ReportQueue, &e.Policies, &e.CodeVersion}
}

// Func is the form in which Lambda's library takes the handler. The payload stays
// as it came, because its decoder is stricter than the library's.
type Func func(context.Context, json.RawMessage) (enqueue.Receipt, error)

// Invoke is what the library calls instead, and so the payload comes whole.
func (f Func) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return wiring.Answer(f(ctx, payload))
}

// New wires an enqueuer of the policies in the folder.
func New(p wiring.Parts, folder fs.FS) (Func, error) {
	deployed, err := policy.ReadFolder(folder)
	if err != nil {
		return nil, err
	}
	e, err := enqueue.New(enqueue.Config{
		Runs: p.Ledger, Pages: p.Ledger, Policies: p.Ledger, Approvals: p.Ledger, Lister: p.Store, Sender: p.Queue,
		Audit: p.Counted(contract.ServiceEnqueue), Clock: p.Clock, Settings: p.Settings, Region: p.Region, Deployed: deployed, Code: p.CodeVersion,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, payload json.RawMessage) (enqueue.Receipt, error) {
		return e.Handle(ctx, wiring.Deadline(ctx), payload)
	}, nil
}
