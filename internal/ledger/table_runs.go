package ledger

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/job"
	"github.com/expunge-aws/expunge/internal/policy"
)

// PublishPolicy records a policy version, as Memory does, and the policy's name.
func (t *Table) PublishPolicy(ctx context.Context, p policy.Policy) error {
	row := keyed(policyPK(p.Name), rowPolicy, versionSK(p.Version))
	row[attrDoc], row[attrSHA] = text(string(p.Canonical())), text(p.SHA256())
	err := t.transact(ctx, "publish policy "+p.Name,
		t.put(row, ifSamePolicy, item{":sha256": text(p.SHA256())}), t.put(keyed(namesPK, rowName, p.Name), "", nil))
	if !failure.Is(err, failure.Conflict) {
		return err
	}
	// It may only have met another transaction. Who publishes any policy writes its name.
	there, rerr := t.get(ctx, "publish policy "+p.Name, keyed(policyPK(p.Name), rowPolicy, versionSK(p.Version)))
	if sha, ok := there[attrSHA].(*types.AttributeValueMemberS); rerr == nil && ok && sha.Value != p.SHA256() {
		return failure.New(failure.Invalid, "publish policy "+p.Name, "this version was published with other content")
	}
	return err
}

// Policy returns a published version, or failure.UnknownPolicy.
func (t *Table) Policy(ctx context.Context, name string, version int) (policy.Policy, error) {
	row, err := t.get(ctx, "read policy "+name, keyed(policyPK(name), rowPolicy, versionSK(version)))
	if err != nil {
		return policy.Policy{}, err
	}
	return readPolicy(name, row)
}

func readPolicy(name string, row item) (policy.Policy, error) {
	doc, ok := row[attrDoc].(*types.AttributeValueMemberS)
	if !ok {
		return policy.Policy{}, failure.New(failure.UnknownPolicy, "read policy "+name, "this version was never published")
	}
	p, err := policy.Load([]byte(doc.Value))
	if err != nil {
		return policy.Policy{}, failure.New(failure.UnknownPolicy, "read policy "+name, "this version is not what was published")
	}
	return p, nil
}

// OpenRun puts the run unless it is there, and returns what is there.
func (t *Table) OpenRun(ctx context.Context, r job.Run) (stored job.Run, created bool, err error) {
	err = t.write(ctx, "open run "+string(r.ID), runRow(r), ifAbsent, nil)
	if err == nil {
		return r, true, nil
	}
	if !failure.Is(err, failure.Conflict) {
		return job.Run{}, false, err
	}
	stored, rerr := t.Run(ctx, r.ID)
	if failure.Is(rerr, failure.Absent) {
		return job.Run{}, false, err // it only met another transaction
	}
	return stored, false, rerr
}

// Run returns a run, or failure.Absent.
func (t *Table) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	row, err := t.get(ctx, "read run "+string(id), keyed(runPK(id), rowRun, ""))
	if err != nil {
		return job.Run{}, err
	}
	if row == nil {
		return job.Run{}, failure.New(failure.Absent, "read run "+string(id), "no such run")
	}
	return readRun(row)
}

// SwapRun writes the run if its row is still the one it was computed from. One that
// ends also goes into its policy's history; what a scheduled run had is what the
// guard compares later ones with.
func (t *Table) SwapRun(ctx context.Context, next job.Run) error {
	op := "write run " + string(next.ID)
	if next.State != job.Closed && next.State != job.Rejected {
		return t.write(ctx, op, runRow(next), ifUnmoved, unmoved(next.Rev))
	}
	kind := byte(rowHistory)
	if next.State == job.Rejected || next.RequestID != "" {
		kind = rowEnded
	}
	ended := keyed(policyPK(next.Policy), kind, historySK(next.Scheduled, next.ID))
	ended[attrKey], ended[attrDoc] = runRow(next)[attrKey], runRow(next)[attrDoc]
	return t.transact(ctx, op, t.put(runRow(next), ifUnmoved, unmoved(next.Rev)), t.put(ended, "", nil))
}

// OpenRuns returns the runs that still need work, from an index that may lag.
func (t *Table) OpenRuns(ctx context.Context) ([]job.Run, error) {
	return t.indexedRuns(ctx, openRun)
}

// AwaitingRuns returns the runs that wait for an operator, from an index that may lag.
func (t *Table) AwaitingRuns(ctx context.Context) ([]job.Run, error) {
	return t.indexedRuns(ctx, openWaiting)
}

func (t *Table) indexedRuns(ctx context.Context, kind string) ([]job.Run, error) {
	var all []job.Run
	err := t.each(ctx, "read open runs", kind, func(row item) error {
		r, err := readRun(row)
		if err == nil && kindOf(r) == kind {
			all = append(all, r)
		}
		return err
	})
	return all, err
}

// each reads every row that the index has of a kind.
func (t *Table) each(ctx context.Context, op, kind string, yield func(item) error) error {
	var start item
	for {
		keys, next, err := t.openKeys(ctx, kind, start)
		if err != nil {
			return err
		}
		rows, err := t.rows(ctx, op, keys)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := yield(row); err != nil {
				return err
			}
		}
		if start = next; start == nil {
			return nil
		}
	}
}

// ClosedRuns returns the policy's last closed scheduled runs, newest first.
func (t *Table) ClosedRuns(ctx context.Context, name string, limit int) ([]job.Run, error) {
	return t.endedRuns(ctx, name, rowHistory, limit)
}

// RecentRuns returns the policy's last ended runs of any kind, newest first.
func (t *Table) RecentRuns(ctx context.Context, name string, limit int) ([]job.Run, error) {
	scheduled, err := t.endedRuns(ctx, name, rowHistory, limit)
	if err != nil {
		return nil, err
	}
	others, err := t.endedRuns(ctx, name, rowEnded, limit)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(scheduled, others)
	slices.SortFunc(all, func(a, b job.Run) int { return cmp.Or(b.Scheduled.Compare(a.Scheduled), cmp.Compare(b.ID, a.ID)) })
	return all[:min(limit, len(all))], nil
}

func (t *Table) endedRuns(ctx context.Context, name string, kind byte, limit int) ([]job.Run, error) {
	var ended []job.Run
	err := t.query(ctx, "read history of "+name, policyPK(name), kind, query{limit: limit, backwards: true}, func(row item) error {
		r, err := readRun(row)
		ended = append(ended, r)
		return err
	})
	return ended, err
}

// batchRows is how many rows one BatchGetItem reads:
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html
const batchRows = 100

// query says which rows of a partition to read, and how many.
type query struct {
	start     item // the row to begin after, where begun
	begun     bool
	limit     int // 0 is all
	backwards bool
}

// query reads rows of one type of a partition in the order of their sort keys,
// strongly consistent. An empty answer with more behind it is not the end (DB-10).
func (t *Table) query(ctx context.Context, op, pk string, kind byte, q query, each func(item) error) error {
	in := &dynamodb.QueryInput{
		TableName: &t.name, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(!q.backwards),
		KeyConditionExpression:    aws.String("pk = :pk AND begins_with(sk, :kind)"),
		ExpressionAttributeValues: item{":pk": text(pk), ":kind": binary(kind, "")},
		ExclusiveStartKey:         q.start,
	}
	if q.limit > 0 {
		in.Limit = aws.Int32(int32(min(q.limit, 1000)))
	}
	for n := 0; ; {
		out, err := t.queryOnce(ctx, in)
		if err != nil {
			return classify(op, err)
		}
		for _, row := range out.Items {
			if err := each(row); err != nil {
				return err
			}
			if n++; n == q.limit {
				return nil
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return nil
		}
	}
}

func (t *Table) queryOnce(ctx context.Context, in *dynamodb.QueryInput) (*dynamodb.QueryOutput, error) {
	ctx, done := t.limits.Limit(ctx)
	defer done()
	in.ReturnConsumedCapacity = proof
	out, err := t.client.Query(ctx, in)
	if err == nil && (out.ConsumedCapacity == nil || int(out.Count) != len(out.Items)) {
		return nil, unproven("read rows")
	}
	return out, err
}

// openKeys reads keys of open work from the index, and where to go on.
func (t *Table) openKeys(ctx context.Context, kind string, start item) (keys []item, next item, err error) {
	out, err := t.queryOnce(ctx, &dynamodb.QueryInput{
		TableName: &t.name, IndexName: aws.String(IndexOpen), Limit: aws.Int32(batchRows), ExclusiveStartKey: start,
		KeyConditionExpression:    aws.String("#open = :kind"),
		ExpressionAttributeNames:  map[string]string{"#open": attrOpen},
		ExpressionAttributeValues: item{":kind": text(kind)},
	})
	if err != nil {
		return nil, nil, classify("read index of open work", err)
	}
	for _, row := range out.Items {
		keys = append(keys, item{attrPK: row[attrPK], attrSK: row[attrSK]})
	}
	return keys, out.LastEvaluatedKey, nil
}

// rows reads up to 100 rows by key, strongly consistent, in the order of the
// keys. Keys that the service left unread are asked for again (DB-09).
func (t *Table) rows(ctx context.Context, op string, keys []item) ([]item, error) {
	found := map[string]item{}
	name := func(row item) string {
		pk, _ := row[attrPK].(*types.AttributeValueMemberS)
		if pk == nil {
			return ""
		}
		return strconv.Quote(pk.Value) + rest(row, attrSK, 0)
	}
	ctx, done := t.limits.Limit(ctx)
	defer done()
	for pending := keys; len(pending) > 0; {
		out, err := t.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems:           map[string]types.KeysAndAttributes{t.name: {Keys: pending, ConsistentRead: aws.Bool(true)}},
			ReturnConsumedCapacity: proof,
		})
		if err != nil {
			return nil, classify(op, err)
		}
		left := out.UnprocessedKeys[t.name].Keys
		if len(left) == len(pending) {
			return nil, failure.New(failure.Throttled, op, "the service left every key unread")
		}
		if len(out.ConsumedCapacity) == 0 {
			return nil, unproven(op)
		}
		for _, row := range out.Responses[t.name] {
			found[name(row)] = row
		}
		pending = left
	}
	var ordered []item
	for _, key := range keys {
		if row, ok := found[name(key)]; ok {
			ordered = append(ordered, row)
		}
	}
	return ordered, nil
}
