package sim

import (
	"github.com/expunge-aws/expunge/internal/enqueue"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/reconcile"
	"github.com/expunge-aws/expunge/internal/redrive"
	"github.com/expunge-aws/expunge/internal/worker"
)

// Mutant is a step that is broken on purpose: its configuration is changed before it is
// made, so that it sees or does what it should not. The product has no switch for it.
// Only tests make mutants; each must be found.
type Mutant struct {
	Name      string
	Worker    func(*worker.Config, *instance)
	Enqueue   func(*enqueue.Config, *instance)
	Redrive   func(*redrive.Config, *instance)
	Reconcile func(*reconcile.Config, *instance)
	Hold      func(*hold.Config, *instance)
	// Land changes what the store makes of a delete that lands.
	Land func(*world, *job.Deletion)
	// Request changes what enqueue or redrive reads of a request.
	Request func(function string, request []byte) []byte
	// Answer changes what the mapping reads of a worker's answer.
	Answer func(worker.Response) worker.Response
}
