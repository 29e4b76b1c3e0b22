package main

import (
	"context"

	"github.com/expunge-aws/expunge/internal/job"
)

// againCounts is what becomes of how many items.
type againCounts struct {
	Outcome string `json:"outcome"`
	Items   int    `json:"items"`
}

// rehearse says what would happen if the page ran again.
func (x *explaining) rehearse(_ context.Context, run job.Run, p job.Page) error { return nil }
