package local

import (
	"context"

	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/invariant"
	"github.com/expunge-aws/expunge/internal/job"
)

// Facts collects what the pipeline left behind, for the invariants to judge.
func (w *World) Facts(ctx context.Context) (invariant.Facts, error) {
	f := invariant.Facts{
		Region: w.Region, Runs: w.Ledger.Runs(), Policies: w.Policies, Holds: map[string]hold.Set{},
		Evidence: map[string][]byte{}, Events: w.Log.Events(),
		Remains: w.Store.Get, Quiet: w.Settings.FunctionTimeout + w.Settings.RequestLifetime,
	}
	for _, r := range f.Runs {
		f.Pages = append(f.Pages, w.Ledger.AllPages(r.ID)...)
	}
	for _, p := range f.Pages {
		if _, ok := f.Holds[p.Tenant]; ok {
			continue
		}
		holds, err := w.Ledger.Holds(ctx, p.Tenant)
		if err != nil {
			return f, err
		}
		f.Holds[p.Tenant] = holds
	}
	var err error
	if f.Brakes, err = w.Ledger.Brakes(ctx); err != nil {
		return f, err
	}
	for _, e := range w.Store.Effects() {
		f.Effects = append(f.Effects, invariant.Effect(e))
	}
	for _, a := range w.Queue.Acks() {
		f.Acks = append(f.Acks, invariant.Ack{MessageID: a.MessageID, Body: a.Body, At: a.At})
	}
	for _, d := range w.Queue.PeekLetters() {
		f.Letters = append(f.Letters, d.Letter)
	}
	for _, mode := range []job.Mode{job.Enforce, job.ReportOnly} {
		for _, d := range w.Queue.Waiting(mode) {
			f.Waiting = append(f.Waiting, d.Body)
		}
	}
	return f, readEvidence(ctx, w.Evidence, f.Evidence)
}

// evidenceBatch is how many names of evidence are read at a time.
const evidenceBatch = 1000

func readEvidence(ctx context.Context, kept Evidence, into map[string][]byte) error {
	after := ""
	for {
		names, err := kept.List(ctx, "", after, evidenceBatch)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if into[name], err = kept.Get(ctx, name); err != nil {
				return err
			}
		}
		after = names[len(names)-1]
	}
}
