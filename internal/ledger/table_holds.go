package ledger

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// Epoch returns the tenant's hold epoch, by a consistent read.
func (t *Table) Epoch(ctx context.Context, tenant string) (int64, error) {
	row, err := t.get(ctx, "read hold epoch", keyed(tenantPK(tenant), rowEpoch, ""))
	if err != nil {
		return 0, err
	}
	return readEpoch(row)
}

// readEpoch reads an epoch row; a tenant without one is at 0 (F20).
func readEpoch(row item) (int64, error) {
	n, ok := row[attrEpoch].(*types.AttributeValueMemberN)
	if !ok {
		return 0, nil
	}
	epoch, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil {
		return 0, failure.New(failure.Bug, "read hold epoch", "the epoch is no number")
	}
	return epoch, nil
}

// Holds returns the tenant's holds, released ones included, by a consistent read.
func (t *Table) Holds(ctx context.Context, tenant string) (set hold.Set, err error) {
	err = t.query(ctx, "read holds", tenantPK(tenant), rowHold, query{}, func(row item) error {
		h, err := readHold(row)
		set = append(set, h)
		return err
	})
	slices.SortFunc(set, func(a, b hold.Hold) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return set, err
}

// holdTries is how often a placement that met another one reads the epoch again.
// A hold is worth more tries than a delete.
const holdTries = 10

// PlaceHold puts the hold and raises its tenant's epoch in one transaction. The
// same hold placed again changes nothing.
func (t *Table) PlaceHold(ctx context.Context, h hold.Hold) (hold.Hold, error) {
	op := "place hold " + h.ID
	for try := 1; ; try++ {
		row, err := t.get(ctx, op, keyed(tenantPK(h.Tenant), rowHold, h.ID))
		if err != nil {
			return h, err
		}
		if row != nil {
			return placedBefore(op, row, h)
		}
		epoch, err := t.Epoch(ctx, h.Tenant)
		if err != nil {
			return h, err
		}
		h.Epoch = epoch + 1
		raised := keyed(tenantPK(h.Tenant), rowEpoch, "")
		raised[attrEpoch] = number(h.Epoch)
		condition := ifEpoch
		if epoch == 0 {
			condition = ifNoEpoch
		}
		err = t.transact(ctx, op, t.put(raised, condition, item{":epoch": number(epoch)}), t.put(holdRow(h), ifAbsent, nil))
		if !failure.Is(err, failure.Conflict) || try == holdTries {
			return h, err
		}
		if err := t.Pause(ctx, time.Duration(try)*20*time.Millisecond); err != nil { // longer than an intent's transaction takes
			return h, failure.New(failure.Network, op, "no time to try again")
		}
	}
}

// placedBefore returns the hold that stands under the id, if it says the same.
func placedBefore(op string, row item, h hold.Hold) (hold.Hold, error) {
	old, err := readHold(row)
	if err == nil && (old.Scope != h.Scope || old.Value != h.Value) {
		return h, failure.New(failure.Invalid, op, "this id is a hold on something else")
	}
	return old, err
}

// ReleaseHold ends a hold. The row stays, with the epoch it was placed at.
func (t *Table) ReleaseHold(ctx context.Context, tenant, id string, at time.Time) error {
	op := "release hold " + id
	row, err := t.get(ctx, op, keyed(tenantPK(tenant), rowHold, id))
	if err != nil {
		return err
	}
	var h hold.Hold
	if row != nil {
		if h, err = readHold(row); err != nil {
			return err
		}
	}
	if row == nil || !h.Active() {
		return failure.New(failure.Absent, op, "no such hold in force")
	}
	h.ReleasedAt = at
	return t.write(ctx, op, holdRow(h), "doc = :read", item{":read": row[attrDoc]})
}

// brakeRow is every brake of the region in one row: it is read before each claim.
type brakeRow struct {
	Brakes []job.Brake `json:"brakes"`
}

// Brakes returns the brakes in force, by a consistent read.
func (t *Table) Brakes(ctx context.Context) ([]job.Brake, error) {
	row, err := t.get(ctx, "read brakes", keyed(brakesPK, rowBrakes, ""))
	if err != nil {
		return nil, err
	}
	return readBrakes(row)
}

func readBrakes(row item) ([]job.Brake, error) {
	if row == nil {
		return nil, nil
	}
	var b brakeRow
	err := undocument("read brakes", row, &b)
	return b.Brakes, err
}

// SetBrake puts a brake; one that covers the same is replaced.
func (t *Table) SetBrake(ctx context.Context, b job.Brake) error {
	return t.changeBrakes(ctx, func(all []job.Brake) []job.Brake { return append(slices.DeleteFunc(all, sameScope(b)), b) })
}

// ReleaseBrake takes the brake of exactly that scope away, if it was not set after At.
func (t *Table) ReleaseBrake(ctx context.Context, b job.Brake) error {
	return t.changeBrakes(ctx, func(all []job.Brake) []job.Brake { return slices.DeleteFunc(all, released(b)) })
}

func (t *Table) changeBrakes(ctx context.Context, change func([]job.Brake) []job.Brake) error {
	for try := 1; ; try++ {
		row, err := t.get(ctx, "read brakes", keyed(brakesPK, rowBrakes, ""))
		if err != nil {
			return err
		}
		all, err := readBrakes(row)
		if err != nil {
			return err
		}
		next := keyed(brakesPK, rowBrakes, "")
		next[attrDoc] = document(brakeRow{change(all)})
		if row == nil {
			err = t.write(ctx, "write brakes", next, ifAbsent, nil)
		} else {
			err = t.write(ctx, "write brakes", next, "doc = :read", item{":read": row[attrDoc]})
		}
		if !failure.Is(err, failure.Conflict) || try == holdTries {
			return err
		}
	}
}
