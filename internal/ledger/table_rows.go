package ledger

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-json-experiment/json"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/hold"
	"github.com/expunge-aws/expunge/internal/job"
)

// The partitions. A page has one of its own, named by its id, because that is what
// a message knows. The order of a tenant's pages in a run is a partition of small
// rows that hold ids.
func runPK(id job.RunID) string                          { return "run#" + string(id) }
func orderPK(run job.RunID, tenant string) string        { return "order#" + string(run) + "#" + tenant }
func pagePK(id job.PageID) string                        { return "page#" + string(id) }
func policyPK(name string) string                        { return "policy#" + name }
func tenantPK(tenant string) string                      { return "tenant#" + tenant }
func versionSK(version int) string                       { return strconv.Itoa(version) }
func historySK(scheduled time.Time, id job.RunID) string { return sortable(scheduled) + string(id) }

const (
	brakesPK = "brakes"
	namesPK  = "policies"
	autoPK   = "redrive"
)

func redrivePK(id job.RedriveID) string { return "redrive#" + string(id) }

// entryPK is a partition of a month's orders: few, and read newest first.
func entryPK(at time.Time) string { return "audit#" + at.UTC().Format("2006-01") }

// The kinds of open work, each a partition of the index.
const (
	openPage    = "page"
	openDead    = "dead"
	openRun     = "run"
	openWaiting = "waiting"
	openRedrive = "redrive"
)

// sortable writes an instant so that text order is time order.
func sortable(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// document writes v as the JSON of a row.
func document(v any) types.AttributeValue {
	b, err := json.Marshal(v, json.Deterministic(true), json.OmitZeroStructFields(true))
	if err != nil {
		panic("ledger: a row always encodes: " + err.Error()) // identifiers are ASCII, and other bytes stand apart
	}
	return text(string(b))
}

// undocument reads the JSON of a row.
func undocument(op string, row item, v any) error {
	doc, ok := row[attrDoc].(*types.AttributeValueMemberS)
	if !ok {
		return failure.New(failure.Bug, op, "the row has no document")
	}
	if err := json.Unmarshal([]byte(doc.Value), v); err != nil {
		return failure.New(failure.Bug, op, "the row's document does not read")
	}
	return nil
}

// rest returns the bytes of a binary attribute after its first n.
func rest(row item, attribute string, n int) string {
	b, ok := row[attribute].(*types.AttributeValueMemberB)
	if !ok || len(b.Value) < n {
		return ""
	}
	return string(b.Value[n:])
}

// pageRow writes a page. The ends of its range need not be text and stand beside
// the document.
func pageRow(p job.Page) item {
	row := keyed(pagePK(p.ID), rowPage, "")
	row[attrRev] = number(p.Rev)
	row[attrAfter], row[attrKey] = binary(0, p.After), binary(0, p.Through)
	if needsWork(p) || waits(p) {
		row[attrOpen], row[attrSince] = openKey(p)
	}
	p.After, p.Through = "", ""
	row[attrDoc] = document(p)
	return row
}

// openKey is a page's place in the index.
func openKey(p job.Page) (kind, since types.AttributeValue) {
	kind = text(openPage)
	if waits(p) {
		kind = text(openDead)
	}
	return kind, text(sortable(p.BornAt) + string(p.ID))
}

func readPage(row item) (p job.Page, err error) {
	if err := undocument("read page", row, &p); err != nil {
		return p, err
	}
	p.After, p.Through = rest(row, attrAfter, 1), rest(row, attrKey, 1)
	return p, nil
}

// orderKey is the key of a page's place among the pages of its tenant: ranges by
// their start, then split-off items.
func orderKey(p job.Page) item {
	if p.Kind == job.ItemPage {
		return keyed(orderPK(p.Run, p.Tenant), rowItem, string(p.ID))
	}
	return keyed(orderPK(p.Run, p.Tenant), rowRange, p.After)
}

func orderRow(p job.Page) item {
	row := orderKey(p)
	row[attrDoc] = text(string(p.ID))
	return row
}

func runRow(r job.Run) item {
	row := keyed(runPK(r.ID), rowRun, "")
	row[attrRev] = number(r.Rev)
	row[attrKey] = binary(0, r.Cursor)
	if kind := kindOf(r); kind != "" {
		row[attrOpen] = text(kind)
		row[attrSince] = text(sortable(r.OpenedAt) + string(r.ID))
	}
	r.Cursor = ""
	row[attrDoc] = document(r)
	return row
}

// kindOf is the kind of open work that a run is, "" for none.
func kindOf(r job.Run) string {
	switch {
	case r.Open():
		return openRun
	case awaiting(r):
		return openWaiting
	default:
		return ""
	}
}

func readRun(row item) (r job.Run, err error) {
	if err := undocument("read run", row, &r); err != nil {
		return r, err
	}
	r.Cursor = rest(row, attrKey, 1)
	return r, nil
}

func holdRow(h hold.Hold) item {
	row := keyed(tenantPK(h.Tenant), rowHold, h.ID)
	row[attrKey] = binary(0, h.Value)
	h.Value = ""
	row[attrDoc] = document(h)
	return row
}

func readHold(row item) (h hold.Hold, err error) {
	if err := undocument("read hold", row, &h); err != nil {
		return h, err
	}
	h.Value = rest(row, attrKey, 1)
	return h, nil
}
