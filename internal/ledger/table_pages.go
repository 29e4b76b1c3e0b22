package ledger

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
)

// Record moves the scan's cursor and puts the page it found, in one transaction.
// The first page of a tenant brings the rows that name the tenant to its run and
// the run to its tenant.
func (t *Table) Record(ctx context.Context, next job.Run, page *job.Page) error {
	op := "record run " + string(next.ID)
	if page == nil {
		return t.write(ctx, op, runRow(next), ifUnmoved, unmoved(next.Rev))
	}
	actions := []types.TransactWriteItem{
		t.put(runRow(next), ifUnmoved, unmoved(next.Rev)), t.put(pageRow(*page), ifAbsent, nil), t.put(orderRow(*page), ifAbsent, nil),
	}
	if page.After == "" {
		of := keyed(runPK(page.Run), rowTenant, page.Tenant)
		in := keyed(tenantPK(page.Tenant), rowRun, string(page.Run))
		actions = append(actions, t.put(of, "", nil), t.put(in, "", nil))
	}
	return t.transact(ctx, op, actions...)
}

// Page returns a page, or failure.Absent.
func (t *Table) Page(ctx context.Context, run job.RunID, tenant string, id job.PageID) (job.Page, error) {
	op := "read page " + string(id)
	row, err := t.get(ctx, op, keyed(pagePK(id), rowPage, ""))
	if err != nil {
		return job.Page{}, err
	}
	return namedPage(op, row, run, tenant)
}

// PageByID returns a page of whatever run and tenant, or failure.Absent. It is for
// people, who have an id and nothing else; a step names the run and the tenant.
func (t *Table) PageByID(ctx context.Context, id job.PageID) (job.Page, error) {
	op := "read page " + string(id)
	row, err := t.get(ctx, op, keyed(pagePK(id), rowPage, ""))
	if err != nil {
		return job.Page{}, err
	}
	if row == nil {
		return job.Page{}, failure.New(failure.Absent, op, "no such page")
	}
	return readPage(row)
}

// namedPage reads a row that must be a page of the tenant in the run.
func namedPage(op string, row item, run job.RunID, tenant string) (job.Page, error) {
	if row != nil {
		if p, err := readPage(row); err != nil || p.Run == run && p.Tenant == tenant {
			return p, err
		}
	}
	return job.Page{}, failure.New(failure.Absent, op, "no such page")
}

// Look returns a page, or failure.Absent, and the brakes in force, by one
// consistent read.
func (t *Table) Look(ctx context.Context, run job.RunID, tenant string, id job.PageID) (p job.Page, brakes []job.Brake, err error) {
	op := "read page " + string(id)
	rows, err := t.rows(ctx, op, []item{keyed(pagePK(id), rowPage, ""), keyed(brakesPK, rowBrakes, "")})
	if err != nil {
		return p, nil, err
	}
	var page item
	for _, row := range rows {
		if rest(row, attrSK, 0) != string(rowBrakes) {
			page = row
		} else if brakes, err = readBrakes(row); err != nil {
			return p, nil, err
		}
	}
	p, err = namedPage(op, page, run, tenant)
	return p, brakes, err
}

// SwapPage writes the page if its row is still the one it was computed from.
func (t *Table) SwapPage(ctx context.Context, next job.Page) error {
	return t.write(ctx, "write page "+string(next.ID), pageRow(next), ifUnmoved, unmoved(next.Rev))
}

// SwapPages writes up to 100 pages, all if each row is still the one it was
// computed from, and otherwise none.
func (t *Table) SwapPages(ctx context.Context, next []job.Page) error {
	if len(next) == 0 {
		return nil
	}
	actions := make([]types.TransactWriteItem, len(next))
	for i, p := range next {
		actions[i] = t.put(pageRow(p), ifUnmoved, unmoved(p.Rev))
	}
	return t.transact(ctx, "write pages", actions...)
}

// Intend writes the page's intent if its row has not moved and the tenant's hold
// epoch is still the one the plan was made under.
func (t *Table) Intend(ctx context.Context, next job.Page, epoch int64) error {
	condition := ifEpoch
	if epoch == 0 {
		condition = ifNoEpoch
	}
	return t.transact(ctx, "intend page "+string(next.ID),
		t.put(pageRow(next), ifUnmoved, unmoved(next.Rev)),
		t.check(keyed(tenantPK(next.Tenant), rowEpoch, ""), condition, item{":epoch": number(epoch)}))
}

// Complete writes the page's end and puts its split-off items, all or nothing.
func (t *Table) Complete(ctx context.Context, next job.Page, children []job.Page) error {
	op := "complete page " + string(next.ID)
	if err := checkChildren(op, next, children); err != nil {
		return err
	}
	if len(children) == 0 {
		return t.write(ctx, op, pageRow(next), ifUnmoved, unmoved(next.Rev))
	}
	actions := []types.TransactWriteItem{t.put(pageRow(next), ifUnmoved, unmoved(next.Rev))}
	for _, c := range children {
		actions = append(actions, t.put(pageRow(c), ifAbsent, nil), t.put(orderRow(c), ifAbsent, nil))
	}
	return t.transact(ctx, op, actions...)
}

// Tenants returns the tenants the run has pages of, by a consistent read.
func (t *Table) Tenants(ctx context.Context, run job.RunID) (tenants []string, err error) {
	err = t.query(ctx, "read tenants of run "+string(run), runPK(run), rowTenant, query{}, func(row item) error {
		tenants = append(tenants, rest(row, attrSK, 1))
		return nil
	})
	return tenants, err
}

// Pages returns up to limit pages of a tenant in the run in order, strongly
// consistent. The order of split-off items is read only after the ranges of the
// same answer, so whoever sees a completed parent also sees its items.
func (t *Table) Pages(ctx context.Context, run job.RunID, tenant string, after *job.Page, limit int) ([]job.Page, error) {
	var pages []job.Page
	for _, kind := range []byte{rowRange, rowItem} {
		q := query{limit: min(limit, batchRows) - len(pages)}
		if after != nil {
			if after.Kind == job.ItemPage && kind == rowRange {
				continue
			}
			if q.begun = (after.Kind == job.ItemPage) == (kind == rowItem); q.begun {
				q.start = orderKey(*after)
			}
		}
		some, err := t.pagesOf(ctx, run, tenant, kind, q)
		if err != nil {
			return nil, err
		}
		if pages = append(pages, some...); len(pages) >= min(limit, batchRows) {
			break
		}
	}
	return pages, nil
}

// pagesOf reads pages of one kind.
func (t *Table) pagesOf(ctx context.Context, run job.RunID, tenant string, kind byte, q query) ([]job.Page, error) {
	op := "read pages of run " + string(run)
	var keys []item
	err := t.query(ctx, op, orderPK(run, tenant), kind, q, func(row item) error {
		id, _ := row[attrDoc].(*types.AttributeValueMemberS)
		if id == nil {
			return failure.New(failure.Bug, op, "a place names no page")
		}
		keys = append(keys, keyed(pagePK(job.PageID(id.Value)), rowPage, ""))
		return nil
	})
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	rows, err := t.rows(ctx, op, keys)
	if err == nil && len(rows) != len(keys) {
		err = failure.New(failure.Bug, op, "a place has no page")
	}
	if err != nil {
		return nil, err
	}
	pages := make([]job.Page, len(rows))
	for i, row := range rows {
		if pages[i], err = readPage(row); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// PageAt returns the range that handles a key of the tenant, given relative to the
// tenant's prefix, or failure.Absent. It is the last range that starts before the key.
func (t *Table) PageAt(ctx context.Context, run job.RunID, tenant, key string) (job.Page, error) {
	q := query{limit: 1, backwards: true, start: keyed(orderPK(run, tenant), rowRange, key), begun: true}
	pages, err := t.pagesOf(ctx, run, tenant, rowRange, q)
	if err != nil {
		return job.Page{}, err
	}
	if len(pages) == 0 || key <= pages[0].After || key > pages[0].Through {
		return job.Page{}, noPageAt(run)
	}
	return pages[0], nil
}

// OpenPages returns up to limit pages that need work, the longest open first: those
// that wait for a worker, and dead ones that are owed their dead letter. The index
// holds keys only and may lag, so each row is read again.
func (t *Table) OpenPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error) {
	return t.indexed(ctx, openPage, needsWork, after, limit)
}

// DeadPages is the same of the dead pages whose dead letter is durable: they wait
// for an operator.
func (t *Table) DeadPages(ctx context.Context, after *job.Page, limit int) ([]job.Page, error) {
	return t.indexed(ctx, openDead, waits, after, limit)
}

func (t *Table) indexed(ctx context.Context, kind string, wanted func(job.Page) bool, after *job.Page, limit int) ([]job.Page, error) {
	var start item
	if after != nil {
		start = keyed(pagePK(after.ID), rowPage, "")
		start[attrOpen], start[attrSince] = text(kind), text(sortable(after.BornAt)+string(after.ID))
	}
	var all []job.Page
	for {
		keys, next, err := t.openKeys(ctx, kind, start)
		if err != nil {
			return nil, err
		}
		rows, err := t.rows(ctx, "read open pages", keys)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			p, err := readPage(row)
			if err != nil {
				return nil, err
			}
			if wanted(p) {
				if all = append(all, p); len(all) == limit {
					return all, nil
				}
			}
		}
		if start = next; start == nil {
			return all, nil
		}
	}
}
