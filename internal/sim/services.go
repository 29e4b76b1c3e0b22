package sim

import (
	"context"
	"iter"
	"time"

	"github.com/expunge-aws/expunge/internal/artifact"
	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/ledger"
	"github.com/expunge-aws/expunge/internal/policy"
	"github.com/expunge-aws/expunge/internal/queue"
)

// What stands behind the steps. In most worlds it is the fakes; a world with adapters
// has the product's own clients there, and the services behind them.

// ledgers is a ledger: the fake, or the client of the table.
type ledgers struct {
	policyRows
	runRows
	runIndex
	pageRows
	openIndex
	pageWrites
	holdRows
	brakeRows
	gateRows
	orderRows
	planRows
	planWrites
}

// The parts of a ledger.
type (
	policyRows interface {
		PublishPolicy(ctx context.Context, p policy.Policy) error
		Policy(ctx context.Context, name string, version int) (policy.Policy, error)
		LatestPolicy(ctx context.Context, name string) (policy.Policy, error)
	}
	runRows interface {
		OpenRun(ctx context.Context, r job.Run) (stored job.Run, created bool, err error)
		Run(ctx context.Context, id job.RunID) (job.Run, error)
		ReadRuns(ctx context.Context, ids []job.RunID) ([]job.Run, error)
		SwapRun(ctx context.Context, next job.Run) error
	}
	runIndex interface {
		ClosedRuns(ctx context.Context, name string, limit int) ([]job.Run, error)
		Record(ctx context.Context, next job.Run, page *job.Page) error
		Tenants(ctx context.Context, run job.RunID) ([]string, error)
		RunsOf(ctx context.Context, tenant string) ([]job.RunID, error)
	}
	pageRows interface {
		Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error)
		PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error)
		Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error)
		Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, []job.Brake, error)
	}
	openIndex interface {
		OpenRuns(ctx context.Context) ([]job.Run, error)
		OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error)
		DeadPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error)
		OpenRedrives(ctx context.Context) ([]job.Redrive, error)
	}
	pageWrites interface {
		SwapPage(ctx context.Context, next job.Page) error
		SwapPages(ctx context.Context, next []job.Page) error
		Intend(ctx context.Context, next job.Page, epoch int64) error
		Complete(ctx context.Context, next job.Page, children []job.Page) error
	}
	holdRows interface {
		Epoch(ctx context.Context, tenant string) (int64, error)
		Holds(ctx context.Context, tenant string) (hold.Set, error)
		PlaceHold(ctx context.Context, h hold.Hold) (hold.Hold, error)
		ReleaseHold(ctx context.Context, tenant, id string, at time.Time) error
	}
	brakeRows interface {
		Brakes(ctx context.Context) ([]job.Brake, error)
		SetBrake(ctx context.Context, b job.Brake) error
		ReleaseBrake(ctx context.Context, b job.Brake) error
	}
	gateRows interface {
		Approval(ctx context.Context, name string) (policy.Approval, error)
		Approve(ctx context.Context, next policy.Approval) error
		Watch(ctx context.Context, name string) (job.Watch, error)
		SwapWatch(ctx context.Context, next job.Watch) error
	}
	orderRows interface {
		PutEntry(ctx context.Context, e audit.Entry) error
		Entries(ctx context.Context, since, until time.Time, limit int) ([]audit.Entry, error)
		AutoRedrive(ctx context.Context) (job.AutoRedrive, error)
		SwapAutoRedrive(ctx context.Context, next job.AutoRedrive) error
	}
	planRows interface {
		Redrive(ctx context.Context, id job.RedriveID) (job.Redrive, error)
		RedrivePages(ctx context.Context, id job.RedriveID) ([]job.RedrivePage, error)
	}
	planWrites interface {
		PutRedrive(ctx context.Context, r job.Redrive, pages []job.RedrivePage) error
		SwapRedrive(ctx context.Context, next job.Redrive) error
	}
)

// ledgersOf is the fake.
func ledgersOf(m *ledger.Memory) *ledgers { return &ledgers{m, m, m, m, m, m, m, m, m, m, m, m} }

// mail is the queues as a step sends to them and reads letters.
type mail struct {
	sending
	letterbox
}

type (
	sending interface {
		Send(ctx context.Context, mode job.Mode, messages []job.Message) (accepted []string, err error)
		Delay(ctx context.Context, d job.Delivery, wait time.Duration) error
		DeadLetter(ctx context.Context, l job.Letter) error
		PutBack(ctx context.Context, d job.DeadLetter) error
	}
	letterbox interface {
		Letters(ctx context.Context, limit int) ([]job.DeadLetter, error)
		Peek(ctx context.Context, limit int) ([]job.DeadLetter, error)
		Remove(ctx context.Context, d job.DeadLetter) error
	}
)

// documents is the evidence as a step keeps it.
type documents interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
}

// wares is the store as a step sees it.
type wares struct {
	artifacts
	forgetful
}

// forgetful is a store that can be made to forget where its listings stand.
type forgetful interface{ ExpireTokens() }

type artifacts interface {
	Ready(ctx context.Context, q job.Query, region string) error
	List(ctx context.Context, q job.Query) (job.Listing, error)
	Standing(ctx context.Context, bucket string, items []job.Item) ([]job.Standing, error)
	Delete(ctx context.Context, d job.Deletion) ([]job.Answer, error)
}

// queues is the queues past every fault: as the event source mapping polls them, as
// somebody at the console sees them, and as the oracles do.
type queues struct {
	polled
	console
	counted
}

type (
	polled interface {
		Receive(ctx context.Context, mode job.Mode, limit int) ([]job.Delivery, error)
		Ack(ctx context.Context, mode job.Mode, d job.Delivery) error
		NextVisible(mode job.Mode) (at time.Time, ok bool)
		Duplicate(n int)
	}
	console interface {
		Send(ctx context.Context, mode job.Mode, messages []job.Message) (accepted []string, err error)
		Stray(body []byte)
		NativeRedrive(mode job.Mode) (moved int)
	}
	counted interface {
		PeekLetters() []job.DeadLetter
		Stats() queue.Stats
	}
)

// buckets is the store past every fault: as others change it, and as the oracles see it.
type buckets struct {
	shelves
	stewards
}

type (
	shelves interface {
		Get(bucket string, ref job.Ref) (item job.Item, ok bool)
		Objects(bucket string) iter.Seq[job.Item]
		Versions(bucket string) iter.Seq[job.Item]
		Put(bucket string, item job.Item) (stored job.Item, err error)
	}
	stewards interface {
		CreateBucket(name string, versioned bool) error
		Remove(bucket string, ref job.Ref) (removed bool)
		SetLock(bucket string, ref job.Ref, lock artifact.Lock) error
		Allow(bucket string) error
	}
)
