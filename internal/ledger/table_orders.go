package ledger

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/expunge-aws/expunge/internal/audit"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// PolicyNames returns the names of all policies that were ever published.
func (t *Table) PolicyNames(ctx context.Context) (names []string, err error) {
	err = t.query(ctx, "read names of policies", namesPK, rowName, query{}, func(row item) error {
		names = append(names, rest(row, attrSK, 1))
		return nil
	})
	return names, err
}

// LatestPolicy returns the highest published version, or failure.UnknownPolicy.
func (t *Table) LatestPolicy(ctx context.Context, name string) (policy.Policy, error) {
	var newest item
	highest := 0
	err := t.query(ctx, "read policy "+name, policyPK(name), rowPolicy, query{}, func(row item) error {
		version, err := strconv.Atoi(rest(row, attrSK, 1))
		if err != nil {
			return failure.New(failure.Bug, "read policy "+name, "a version is no number")
		}
		if version > highest {
			highest, newest = version, row
		}
		return nil
	})
	if err != nil {
		return policy.Policy{}, err
	}
	return readPolicy(name, newest)
}

// RunsOf returns the runs that have pages of the tenant, by a consistent read.
func (t *Table) RunsOf(ctx context.Context, tenant string) (runs []job.RunID, err error) {
	err = t.query(ctx, "read runs of tenant", tenantPK(tenant), rowRun, query{}, func(row item) error {
		runs = append(runs, job.RunID(rest(row, attrSK, 1)))
		return nil
	})
	return runs, err
}

// ReadRuns returns up to 100 runs in the order of their ids, by one consistent read.
// It is failure.Absent when one of them is not there.
func (t *Table) ReadRuns(ctx context.Context, ids []job.RunID) ([]job.Run, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	keys := make([]item, len(ids))
	for i, id := range ids {
		keys[i] = keyed(runPK(id), rowRun, "")
	}
	rows, err := t.rows(ctx, "read runs", keys)
	if err == nil && len(rows) != len(keys) {
		err = noRunAmong()
	}
	if err != nil {
		return nil, err
	}
	runs := make([]job.Run, len(rows))
	for i, row := range rows {
		if runs[i], err = readRun(row); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// swap writes a row with its revision and document, if the stored one is still what
// it was computed from; revision 1 is computed from none.
func (t *Table) swap(ctx context.Context, op string, row item, rev int64, doc any) error {
	row[attrRev], row[attrDoc] = number(rev), document(doc)
	return t.write(ctx, op, row, ifUnmovedOrNew, item{":read": number(rev - 1), ":none": number(0)})
}

// find reads the document of a row, and leaves v as it is when there is no row.
func (t *Table) find(ctx context.Context, op string, key item, v any) error {
	row, err := t.get(ctx, op, key)
	if err != nil || row == nil {
		return err
	}
	return undocument(op, row, v)
}

// Approval returns which version of the policy may delete; the zero value is none.
func (t *Table) Approval(ctx context.Context, name string) (a policy.Approval, err error) {
	err = t.find(ctx, "read approval of "+name, keyed(policyPK(name), rowApprove, ""), &a)
	return a, err
}

// Approve writes an approval if the stored one is still what it was computed from.
func (t *Table) Approve(ctx context.Context, next policy.Approval) error {
	return t.swap(ctx, "approve policy "+next.Policy, keyed(policyPK(next.Policy), rowApprove, ""), next.Rev, next)
}

// Watch returns how far the policy's schedule was looked at; the zero value is never.
func (t *Table) Watch(ctx context.Context, name string) (w job.Watch, err error) {
	err = t.find(ctx, "read watch of "+name, keyed(policyPK(name), rowWatch, ""), &w)
	return w, err
}

// SwapWatch writes the watch if its row is still the one it was computed from.
func (t *Table) SwapWatch(ctx context.Context, next job.Watch) error {
	return t.swap(ctx, "write watch of "+next.Policy, keyed(policyPK(next.Policy), rowWatch, ""), next.Rev, next)
}

// PutEntry records an order. The same entry again changes nothing.
func (t *Table) PutEntry(ctx context.Context, e audit.Entry) error {
	row := keyed(entryPK(e.At), rowEntry, sortable(e.At)+e.ID())
	row[attrDoc] = document(e)
	op := "record " + string(e.Act)
	err := t.write(ctx, op, row, ifAbsent, nil)
	if failure.Is(err, failure.Conflict) {
		if there, rerr := t.get(ctx, op, item{attrPK: row[attrPK], attrSK: row[attrSK]}); rerr == nil && there != nil {
			return nil // its id is its content
		}
	}
	return err
}

// Entries returns up to limit orders of the time from since until before until,
// newest first.
func (t *Table) Entries(ctx context.Context, since, until time.Time, limit int) ([]audit.Entry, error) {
	var all []audit.Entry
	first := entryPK(since)
	for month := until.UTC(); len(all) < limit && entryPK(month) >= first; {
		err := t.query(ctx, "read orders", entryPK(month), rowEntry, query{backwards: true}, func(row item) error {
			var e audit.Entry
			err := undocument("read orders", row, &e)
			if err == nil && len(all) < limit && !e.At.Before(since) && e.At.Before(until) {
				all = append(all, e)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		year, m, _ := month.Date()
		month = time.Date(year, m, 1, 0, 0, 0, 0, time.UTC).Add(-1)
	}
	return all, nil
}

// movesRow is how many pages of a plan stand in one row, which holds 400 KB:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
const movesRow = 500

func redriveRow(r job.Redrive) item {
	row := keyed(redrivePK(r.ID), rowRedrive, "")
	row[attrRev], row[attrDoc] = number(r.Rev), document(r)
	if r.Open() {
		row[attrOpen] = text(openRedrive)
		row[attrSince] = text(sortable(r.AppliedAt) + string(r.ID))
	}
	return row
}

// moves is a row of a plan's pages.
type moves struct {
	Pages []job.RedrivePage `json:"pages"`
}

// PutRedrive records a plan and its pages. The same plan again changes nothing.
func (t *Table) PutRedrive(ctx context.Context, r job.Redrive, pages []job.RedrivePage) error {
	op := "record redrive " + string(r.ID)
	if err := checkRedrive(op, r, pages); err != nil {
		return err
	}
	actions := []types.TransactWriteItem{t.put(redriveRow(r), ifAbsent, nil)}
	for i := 0; i < len(pages); i += movesRow {
		row := keyed(redrivePK(r.ID), rowMoves, sortableInt(i))
		row[attrDoc] = document(moves{pages[i:min(i+movesRow, len(pages))]})
		actions = append(actions, t.put(row, ifAbsent, nil))
	}
	err := t.transact(ctx, op, actions...)
	if failure.Is(err, failure.Conflict) {
		if _, rerr := t.Redrive(ctx, r.ID); rerr == nil {
			return nil // its id is its content
		}
	}
	return err
}

// sortableInt writes a small number so that text order is its order.
func sortableInt(n int) string {
	digits := strconv.Itoa(n)
	return "000000"[min(len(digits), 6):] + digits
}

// Redrive returns a recorded plan, or failure.Absent.
func (t *Table) Redrive(ctx context.Context, id job.RedriveID) (r job.Redrive, err error) {
	op := "read redrive " + string(id)
	row, err := t.get(ctx, op, keyed(redrivePK(id), rowRedrive, ""))
	if err != nil {
		return r, err
	}
	if row == nil {
		return r, noRedrive(id)
	}
	err = undocument(op, row, &r)
	return r, err
}

// RedrivePages returns the pages of a recorded plan, in its order.
func (t *Table) RedrivePages(ctx context.Context, id job.RedriveID) (pages []job.RedrivePage, err error) {
	op := "read redrive " + string(id)
	err = t.query(ctx, op, redrivePK(id), rowMoves, query{}, func(row item) error {
		var some moves
		err := undocument(op, row, &some)
		pages = append(pages, some.Pages...)
		return err
	})
	if err == nil && len(pages) == 0 {
		_, err = t.Redrive(ctx, id) // a plan without pages is none that is missing
	}
	return pages, err
}

// SwapRedrive writes the plan if its row is still the one it was computed from.
func (t *Table) SwapRedrive(ctx context.Context, next job.Redrive) error {
	return t.write(ctx, "write redrive "+string(next.ID), redriveRow(next), ifUnmoved, unmoved(next.Rev))
}

// OpenRedrives returns the plans that were applied and are still followed, from an
// index that may lag.
func (t *Table) OpenRedrives(ctx context.Context) (open []job.Redrive, err error) {
	err = t.each(ctx, "read open redrives", openRedrive, func(row item) error {
		var r job.Redrive
		err := undocument("read open redrives", row, &r)
		if err == nil && r.Open() {
			open = append(open, r)
		}
		return err
	})
	return open, err
}

// AutoRedrive returns whether a schedule may redrive; the zero value is off.
func (t *Table) AutoRedrive(ctx context.Context) (a job.AutoRedrive, err error) {
	err = t.find(ctx, "read scheduled redrive", keyed(autoPK, rowAuto, ""), &a)
	return a, err
}

// SwapAutoRedrive writes it if the row is still the one it was computed from.
func (t *Table) SwapAutoRedrive(ctx context.Context, next job.AutoRedrive) error {
	return t.swap(ctx, "write scheduled redrive", keyed(autoPK, rowAuto, ""), next.Rev, next)
}
