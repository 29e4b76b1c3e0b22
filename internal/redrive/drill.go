package redrive

import (
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// A drill rehearses a recovery on a real page of a test tenant (R127, R134): one page
// of a request is ended as if its attempts were used up, an operator brings it back,
// and beside it a malformed message has to stay quarantined. Whatever says that it
// passed is this function, by the ledger, the evidence and the dead letters; the tool
// that leads through it is not believed.

// DrillPrefix begins the request ids of drills. Only a page of such a request can be
// ended by a drill.
const DrillPrefix = "drill-"

// DrillRequest ends a page that nobody has claimed yet, and sends a malformed message.
type DrillRequest struct {
	Op string `json:"op"`
	PageRef
	audit.Signature
}

// Drilling is a drill under way.
type Drilling struct {
	PageRef
	DiedAt time.Time `json:"died_at"`
	// Poison is the SHA-256 of the malformed message's body, 64 hex digits.
	Poison string `json:"poison_sha256"`
	Next   string `json:"next"`
}

const opDrill = "drill"

// drill ends the page, and then sends the message. Both are ordered first (E7). Said
// again, the page stays as it is, and the message may come twice, which says the same.
func (r *Redriver) drill(ctx context.Context, deadline time.Time, q DrillRequest) (a Drilling, err error) {
	if err := q.Signature.Check(opDrill); err != nil {
		return a, err
	}
	if err := q.PageRef.check(opDrill); err != nil {
		return a, err
	}
	run, page, err := r.fell(ctx, deadline, q)
	if err != nil {
		return a, err
	}
	body := poisonOf(run.ID)
	accepted, err := r.Sender.Send(ctx, run.Mode, []job.Message{{ID: "poison", Group: page.Tenant, Body: body}})
	if len(accepted) == 0 {
		if err == nil {
			err = failure.New(failure.Throttled, opDrill, "the queue did not take the malformed message: say it again")
		}
		return a, err
	}
	return Drilling{
		PageRef: q.PageRef, DiedAt: page.Death.At.UTC(), Poison: hashOf(body),
		Next: "Reconcile lays the page's dead letter beside the malformed message within " + r.Settings.ReconcileEvery.String() +
			". Then plan and apply a redrive of this page, and finish the drill.",
	}, nil
}

// check refuses what names no page.
func (p PageRef) check(op string) error {
	if !isID(string(p.Run)) || !isID(string(p.Page)) || !job.ValidTenant(p.Tenant) {
		return failure.New(failure.Invalid, op, "a page is named by run_id and page_id, 32 hex digits each, and tenant_id")
	}
	return nil
}

// fell ends the page, and returns its row. A row that moved under the write is looked
// at again: a page that was claimed meanwhile is no drill's any more.
func (r *Redriver) fell(ctx context.Context, deadline time.Time, q DrillRequest) (run job.Run, page job.Page, err error) {
	ordered := false
	for try := 0; try <= moveTries && !r.late(deadline); try++ {
		if run, page, err = r.pair(ctx, q.PageRef); err != nil {
			return run, page, err
		}
		if felled(page) {
			return run, page, nil
		}
		if err := r.drillable(run, page); err != nil {
			return run, page, err
		}
		if !ordered {
			e := audit.Entry{Act: audit.DrillStarted, Policy: run.Policy, Version: run.Version, RunID: run.ID, PageID: page.ID, TenantID: page.Tenant, Count: 1}
			if err := r.order(ctx, q.Signature, e); err != nil {
				return run, page, err
			}
			ordered = true
		}
		next, rerr := page.Die("", job.ReasonAttempts, failure.Throttled, page.Settlement(), r.now())
		if rerr == nil {
			rerr = r.Pages.SwapPage(ctx, next)
		}
		if err = rerr; err == nil {
			return run, next, nil
		}
	}
	if err == nil {
		err = failure.New(failure.Conflict, opDrill, "there was no time left: say it again")
	}
	return run, page, err
}

// untouched reports whether no worker has ever had the page.
func untouched(p job.Page) bool { return p.Fence == 0 && p.Attempts == 0 && p.Intent == job.Intent{} }

// felled reports whether a drill has ended the page: nothing else uses up attempts
// that nobody made.
func felled(p job.Page) bool {
	return p.State == job.Dead && untouched(p) && p.Death.Reason == job.ReasonAttempts
}

// drillable refuses every page but one that a drill has asked for and that nobody has
// touched.
func (r *Redriver) drillable(run job.Run, page job.Page) error {
	refuse := func(text string) error { return failure.New(failure.Conflict, opDrill, text) }
	switch {
	case !strings.HasPrefix(run.RequestID, DrillPrefix):
		return failure.New(failure.Invalid, opDrill, "the run is not a drill's: only a request whose id begins with "+DrillPrefix+" is")
	case run.Region != r.Region || run.Tenant != page.Tenant:
		return failure.New(failure.Invalid, opDrill, "the page is of another region, or of another tenant than the request")
	case run.State != job.Released:
		return refuse("the run is " + string(run.State) + ", and only a released one can be drilled: approve it, or ask again with fewer objects")
	case page.Kind != job.RangePage:
		return refuse("the page is a split-off item, and a drill ends a range")
	case page.State != job.Planned && page.State != job.Sent || !untouched(page):
		return refuse("a worker has had the page, which is " + string(page.State) + ": set the brake first, and ask with a new request")
	}
	return nil
}

// poisonOf is the body of a drill's malformed message: JSON, and no command of any
// schema.
func poisonOf(run job.RunID) []byte {
	b, err := json.Marshal(struct {
		Drill job.RunID `json:"drill"`
	}{run})
	if err != nil {
		panic("redrive: an id always encodes: " + err.Error())
	}
	return b
}

// PoisonSHA256 is the hash by which a drill's malformed message is known among the
// dead letters: 64 hex digits.
func PoisonSHA256(run job.RunID) string { return hashOf(poisonOf(run)) }
