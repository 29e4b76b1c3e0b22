// Package handler is what the hold function does with an event: bytes in, bytes out.
//
// It stands apart from the main, which no test can import, so that the samples in
// events are fed to the very handler that Lambda calls, and apart from package
// wiring, so that no function links another one's step.
package handler

import (
	"context"
	"encoding/json"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/wiring"
)

// Needs names the variables without which the function does not start.
func Needs(e *contract.Environment) []*string {
	return []*string{&e.Table, &e.EvidenceBucket, &e.CodeVersion}
}

// Func is the form in which Lambda's library takes the handler. The payload stays
// as it came, because its decoder is stricter than the library's. The answer is a
// hold.Status, a hold.Released or a hold.Holds, as the request asks for.
type Func func(context.Context, json.RawMessage) (any, error)

// Invoke is what the library calls instead, and so the payload comes whole.
func (f Func) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return wiring.Answer(f(ctx, payload))
}

// New wires a keeper.
func New(p wiring.Parts) (Func, error) {
	k, err := hold.New(hold.Config{
		Holds: p.Ledger, Entries: p.Ledger, Runs: p.Ledger, Pages: p.Ledger, Prefixes: wiring.NewPrefixes(p.Ledger),
		Evidence: p.Evidence, Lister: p.Store, Audit: p.Counted(contract.ServiceHold), Clock: p.Clock, Settings: p.Settings,
		Region: p.Region, Code: p.CodeVersion,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		return k.Handle(ctx, wiring.Deadline(ctx), payload)
	}, nil
}
