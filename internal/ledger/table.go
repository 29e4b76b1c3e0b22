package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/expunge-aws/expunge/internal/contract"
	"github.com/expunge-aws/expunge/internal/failure"
	"github.com/expunge-aws/expunge/internal/sdk"
)

// The attributes of the table. Everything that a condition, a key or an index
// needs is an attribute of its own; the rest of a row is one JSON document.
const (
	attrPK    = contract.LedgerPartitionKey
	attrSK    = contract.LedgerSortKey // binary: a type byte, and bytes that order the rows of a partition
	attrRev   = "rev"                  // the revision that a write names
	attrDoc   = "doc"                  // the row
	attrKey   = "bytes"                // bytes that need not be text: a range's end, a cursor, a hold's scope
	attrAfter = "after"                // and a range's start
	attrOpen  = contract.LedgerIndexKey
	attrSince = contract.LedgerIndexSortKey
	attrSHA   = "sha256"
	attrEpoch = "epoch"
	// IndexOpen is the sparse index of open work. It holds keys only, so a page
	// costs it two writes in its life.
	IndexOpen = contract.LedgerIndex
)

// The type bytes. Split-off items sort after every range of their tenant.
const (
	rowRun     = 'r'
	rowRange   = 'p'
	rowItem    = 'q'
	rowTenant  = 't'
	rowPage    = 'g'
	rowPolicy  = 'v'
	rowEpoch   = 'e'
	rowHold    = 'h'
	rowBrakes  = 'b'
	rowHistory = 'c'
	rowEnded   = 'd' // a run that ended and is no history for the guard
	rowName    = 'n'
	rowApprove = 'a'
	rowWatch   = 'w'
	rowEntry   = 'y'
	rowRedrive = 'm'
	rowMoves   = 'k' // the pages of a redrive plan
	rowAuto    = 'u'
)

// Table is the ledger in DynamoDB. It passes the same suite as Memory.
type Table struct {
	client *dynamodb.Client
	limits sdk.Settings
	name   string
	// Pause waits before a contended transaction is tried again.
	Pause func(ctx context.Context, d time.Duration) error
}

// NewTable returns the ledger that a table holds.
func NewTable(config sdk.Config, name string) *Table {
	return &Table{client: dynamodb.NewFromConfig(config.Config), limits: config.Settings, name: name, Pause: sleep}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Schema is the request that creates the table: what the stack declares, for
// places where no stack does.
func Schema(name string) *dynamodb.CreateTableInput {
	key := func(name string, t types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: aws.String(name), KeyType: t}
	}
	attribute := func(name string, t types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: t}
	}
	return &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{key(attrPK, types.KeyTypeHash), key(attrSK, types.KeyTypeRange)},
		AttributeDefinitions: []types.AttributeDefinition{
			attribute(attrPK, types.ScalarAttributeTypeS), attribute(attrSK, types.ScalarAttributeTypeB),
			attribute(attrOpen, types.ScalarAttributeTypeS), attribute(attrSince, types.ScalarAttributeTypeS),
		},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName:  aws.String(IndexOpen),
			KeySchema:  []types.KeySchemaElement{key(attrOpen, types.KeyTypeHash), key(attrSince, types.KeyTypeRange)},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	}
}

// item is a row as DynamoDB has it.
type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
func binary(kind byte, rest string) types.AttributeValue {
	return &types.AttributeValueMemberB{Value: append([]byte{kind}, rest...)}
}

// keyed returns the key of a row.
func keyed(pk string, kind byte, rest string) item {
	return item{attrPK: text(pk), attrSK: binary(kind, rest)}
}

// The conditions, each with the sentence that it is.
const (
	// The row is not there.
	ifAbsent = "attribute_not_exists(pk)"
	// The row is still the one that was read.
	ifUnmoved = "rev = :read"
	// The tenant's hold epoch is still the one that the plan was made under.
	ifEpoch = "epoch = :epoch"
	// No hold was ever placed on the tenant, so its epoch is 0.
	ifNoEpoch = "attribute_not_exists(epoch) OR epoch = :epoch"
	// The row is still the one that was read, or none was.
	ifUnmovedOrNew = "rev = :read OR (:read = :none AND attribute_not_exists(pk))"
	// This policy version is new, or it says the same.
	ifSamePolicy = "attribute_not_exists(pk) OR sha256 = :sha256"
)

// unmoved is the value of ifUnmoved for a row whose next revision is rev.
func unmoved(rev int64) item { return item{":read": number(rev - 1)} }

// put is one row of a transaction.
func (t *Table) put(row item, condition string, values item) types.TransactWriteItem {
	p := &types.Put{TableName: &t.name, Item: row}
	if condition != "" {
		p.ConditionExpression = &condition
	}
	if len(values) > 0 {
		p.ExpressionAttributeValues = values
	}
	return types.TransactWriteItem{Put: p}
}

// check is a condition on a row that a transaction does not write.
func (t *Table) check(key item, condition string, values item) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &t.name, Key: key, ConditionExpression: &condition, ExpressionAttributeValues: values,
	}}
}

// write puts one row on a condition.
func (t *Table) write(ctx context.Context, op string, row item, condition string, values item) error {
	in := &dynamodb.PutItemInput{TableName: &t.name, Item: row, ConditionExpression: &condition, ReturnConsumedCapacity: proof}
	if len(values) > 0 {
		in.ExpressionAttributeValues = values
	}
	ctx, done := t.limits.Limit(ctx)
	defer done()
	out, err := t.client.PutItem(ctx, in)
	if err == nil && out.ConsumedCapacity == nil {
		return unproven(op)
	}
	return classify(op, err)
}

// contentionTries is how often a transaction that only met another one on the
// same row is tried again at once (DB-08).
const contentionTries = 3

// transact writes all of it or nothing.
func (t *Table) transact(ctx context.Context, op string, actions ...types.TransactWriteItem) error {
	ctx, done := t.limits.Limit(ctx)
	defer done()
	for try := 1; ; try++ {
		out, err := t.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions, ReturnConsumedCapacity: proof})
		if err == nil && len(out.ConsumedCapacity) == 0 {
			return unproven(op)
		}
		if !contended(err) || try == contentionTries {
			return classify(op, err)
		}
		if t.Pause(ctx, rand.N(time.Duration(try)*50*time.Millisecond)) != nil { //nolint:gosec // jitter needs no secrecy
			return classify(op, err)
		}
	}
}

// contended reports whether a transaction failed for nothing but a conflict with
// another one.
func contended(err error) bool {
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return false
	}
	conflict := false
	for _, r := range cancelled.CancellationReasons {
		switch aws.ToString(r.Code) {
		case "TransactionConflict":
			conflict = true
		case "None", "":
		default:
			return false
		}
	}
	return conflict
}

// get reads one row, strongly consistent. A row that is not there is nil.
func (t *Table) get(ctx context.Context, op string, key item) (item, error) {
	ctx, done := t.limits.Limit(ctx)
	defer done()
	out, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.name, Key: key, ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: proof})
	if err != nil {
		return nil, classify(op, err)
	}
	if out.ConsumedCapacity == nil {
		return nil, unproven(op)
	}
	return out.Item, nil
}

// proof is asked for with every call. An answer that says what it cost is one of
// DynamoDB's; to the SDK an empty body is an answer too, and reads as "nothing is
// there" or as "it is done".
const proof = types.ReturnConsumedCapacityTotal

// unproven is the error of an answer that nobody can vouch for.
func unproven(op string) error {
	return failure.New(failure.Network, op, "the answer does not say what it cost, and may be none")
}

// classify gives a DynamoDB error its class.
func classify(op string, err error) error {
	code := sdk.Code(err)
	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		code = reason(cancelled.CancellationReasons)
	}
	return sdk.Classify(op, err, code, classOf)
}

// reason returns the code that decides about a cancelled transaction: a condition
// that did not hold, before anything that would merely ask to try again.
func reason(reasons []types.CancellationReason) string {
	worst, code := 0, "TransactionCanceledException"
	for _, r := range reasons {
		if c := aws.ToString(r.Code); rank(c) > worst {
			worst, code = rank(c), c
		}
	}
	return code
}

// rank orders the reasons by how much they decide; 0 is none.
func rank(code string) int {
	switch class, known := classOf(code); {
	case code == "None" || code == "":
		return 0
	case code == "TransactionConflict":
		return 1
	case class == failure.Throttled:
		return 2
	case class == failure.Conflict:
		return 3
	case !known:
		return 4
	default: // what can never work
		return 5
	}
}

// classOf is the one place that knows DynamoDB's codes.
func classOf(code string) (class failure.Class, known bool) {
	switch code {
	case "ConditionalCheckFailedException", "ConditionalCheckFailed", "TransactionConflict", "TransactionConflictException",
		"TransactionInProgressException":
		return failure.Conflict, true
	case "ProvisionedThroughputExceededException", "ProvisionedThroughputExceeded", "ThrottlingException", "ThrottlingError",
		"RequestLimitExceeded", "TransactionCanceledException":
		return failure.Throttled, true
	case "AccessDeniedException", "ResourceNotFoundException", "UnrecognizedClientException", "ExpiredTokenException",
		"MissingAuthenticationTokenException", "InvalidSignatureException":
		return failure.Forbidden, true
	case "ValidationException", "ValidationError", "ItemCollectionSizeLimitExceeded", "ItemCollectionSizeLimitExceededException",
		"IdempotentParameterMismatchException", "SerializationException":
		return failure.Invalid, true
	default:
		return "", false
	}
}
