// Package handler is what the redrive function does with an event: bytes in, bytes out.
//
// It stands apart from the main, which no test can import, so that the samples in
// events are fed to the very handler that Lambda calls, and apart from package
// wiring, so that no function links another one's step.
package handler

import (
	"context"
	"encoding/json"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/wiring"
)

// Needs names the variables without which the function does not start. It reads no
// bucket of artifacts: what it decides stands in the ledger. Of the evidence it reads
// the receipts of drills, and keeps what they have shown.
func Needs(e *contract.Environment) []*string {
	return []*string{&e.Table, &e.PagesQueue, &e.ReportQueue, &e.LettersQueue, &e.EvidenceBucket, &e.CodeVersion}
}

// Func is the form in which Lambda's library takes the handler. The payload stays
// as it came, because its decoder is stricter than the library's; the answer is the
// type that package redrive names for the request's op.
type Func func(context.Context, json.RawMessage) (any, error)

// Invoke is what the library calls instead, and so the payload comes whole.
func (f Func) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return wiring.Answer(f(ctx, payload))
}

// New wires a redriver.
func New(p wiring.Parts) (Func, error) {
	r, err := redrive.New(redrive.Config{
		Pages: p.Ledger, Runs: p.Ledger, Policies: p.Ledger, Approvals: p.Ledger, Holds: p.Ledger, Brakes: p.Ledger, Orders: p.Ledger,
		Plans: p.Ledger, Schedule: p.Ledger, Letters: p.Queue, Sender: p.Queue, Evidence: p.Evidence,
		Audit: p.Counted(contract.ServiceRedrive), Clock: p.Clock, Settings: p.Settings, Region: p.Region, Code: p.CodeVersion,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		return r.Handle(ctx, wiring.Deadline(ctx), payload)
	}, nil
}
