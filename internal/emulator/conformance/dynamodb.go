package conformance

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DynamoDB checks what Expunge needs of DynamoDB.
func DynamoDB(t *testing.T, target Target) {
	c := &dynamoSuite{Client: target.DynamoDBClient(home), abroad: target.DynamoDBClient(other)}
	c.table = c.newTable(t, types.ScalarAttributeTypeS)
	run(t, target, c, dynamoChecks())
}

// dynamoChecks are the checks in their order.
func dynamoChecks() []check[*dynamoSuite] {
	return slices.Concat(dynamoWrites(), dynamoUpdates(), dynamoExpressions(), dynamoTransactions(), dynamoQueries(), dynamoLedger())
}

// dynamoSuite is a client in the home region with what the checks share. A table
// takes AWS seconds to make, so most checks use partitions of their own in one.
type dynamoSuite struct {
	*dynamodb.Client
	abroad *dynamodb.Client
	table  string // keys pk and sk, both strings, and the index below
}

// dueIndex is a sparse index on the strings gpk and gsk that keeps keys only.
const dueIndex = "gsi-due"

// dynamoCheck makes a check of a method.
func dynamoCheck(name string, run func(c *dynamoSuite, t *testing.T)) check[*dynamoSuite] {
	return check[*dynamoSuite]{name, func(t *testing.T, c *dynamoSuite) { run(c, t) }}
}

// The values of a row, by the letters that stand for their types.
type (
	attribute  = types.AttributeValue
	attributes = map[string]types.AttributeValue
)

func valueS(s string) attribute          { return &types.AttributeValueMemberS{Value: s} }
func valueN(n any) attribute             { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }
func valueB(b []byte) attribute          { return &types.AttributeValueMemberB{Value: b} }
func valueL(l ...attribute) attribute    { return &types.AttributeValueMemberL{Value: l} }
func valueM(m attributes) attribute      { return &types.AttributeValueMemberM{Value: m} }
func valueSS(set ...string) attribute    { return &types.AttributeValueMemberSS{Value: set} }
func valueBool(b bool) attribute         { return &types.AttributeValueMemberBOOL{Value: b} }
func keyOf(pk, sk string) attributes     { return attributes{"pk": valueS(pk), "sk": valueS(sk)} }
func placeholder(v attribute) attributes { return attributes{":v": v} }

// plain returns the text of a string or number, and for others their type.
func plain(a attribute) string {
	switch v := a.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	case nil:
		return "<none>"
	}
	return fmt.Sprintf("%T", a)
}

// listLength returns the length of a list, -1 of anything else.
func listLength(a attribute) int {
	if l, ok := a.(*types.AttributeValueMemberL); ok {
		return len(l.Value)
	}
	return -1
}

// elements returns the texts of a list's elements, none of anything else.
func elements(a attribute) (texts []string) {
	if l, ok := a.(*types.AttributeValueMemberL); ok {
		for _, element := range l.Value {
			texts = append(texts, plain(element))
		}
	}
	return texts
}

// newTable makes a table that is removed when the test ends. Its sort key has the type.
func (c *dynamoSuite) newTable(t *testing.T, sort types.ScalarAttributeType) string {
	t.Helper()
	table := name("tbl")
	attribute := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: kind}
	}
	schema := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}}
	}
	must(c.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest, KeySchema: schema("pk", "sk"),
		AttributeDefinitions: []types.AttributeDefinition{
			attribute("pk", types.ScalarAttributeTypeS), attribute("sk", sort),
			attribute("gpk", types.ScalarAttributeTypeS), attribute("gsk", types.ScalarAttributeTypeS),
		},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(dueIndex), KeySchema: schema("gpk", "gsk"),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	}))(t)
	t.Cleanup(func() {
		if _, err := c.DeleteTable(background(), &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
			t.Logf("table %s stays: %v", table, err)
		}
	})
	waiter := dynamodb.NewTableExistsWaiter(c.Client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 2*time.Second
	})
	if err := waiter.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: &table}, 3*time.Minute); err != nil {
		t.Fatal(err)
	}
	return table
}

// put stores a row of the shared table: a key, and pairs of a name and a value.
func (c *dynamoSuite) put(t *testing.T, pk, sk string, pairs ...any) {
	t.Helper()
	must(c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &c.table, Item: rowOf(pk, sk, pairs...)}))(t)
}

// rowOf returns a row: a key, and pairs of a name and a value.
func rowOf(pk, sk string, pairs ...any) attributes {
	row := keyOf(pk, sk)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, isName := pairs[i].(string)
		v, isValue := pairs[i+1].(attribute)
		if !isName || !isValue {
			panic(fmt.Sprintf("%v and %v are no name and value", pairs[i], pairs[i+1]))
		}
		row[name] = v
	}
	return row
}

// get reads a row of the shared table, nil if there is none.
func (c *dynamoSuite) get(t *testing.T, pk, sk string) attributes {
	t.Helper()
	in := &dynamodb.GetItemInput{TableName: &c.table, Key: keyOf(pk, sk), ConsistentRead: aws.Bool(true)}
	return must(c.GetItem(t.Context(), in))(t).Item
}

// update changes a row of the shared table, and returns it as it is then.
func (c *dynamoSuite) update(t *testing.T, pk, sk, expression string, values attributes, edit ...func(*dynamodb.UpdateItemInput)) (attributes, error) {
	in := &dynamodb.UpdateItemInput{
		TableName: &c.table, Key: keyOf(pk, sk), UpdateExpression: &expression,
		ExpressionAttributeValues: values, ReturnValues: types.ReturnValueAllNew,
	}
	for _, e := range edit {
		e(in)
	}
	out, err := c.UpdateItem(t.Context(), in)
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// onlyIf gives an update a condition.
func onlyIf(condition string) func(*dynamodb.UpdateItemInput) {
	return func(in *dynamodb.UpdateItemInput) { in.ConditionExpression = &condition }
}

// named gives an update placeholders of names: pairs of a placeholder and a name.
func named(pairs ...string) func(*dynamodb.UpdateItemInput) {
	return func(in *dynamodb.UpdateItemInput) { in.ExpressionAttributeNames = namesOf(pairs...) }
}

func namesOf(pairs ...string) map[string]string {
	names := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		names[pairs[i]] = pairs[i+1]
	}
	return names
}

// partitionQuery asks for a partition of the shared table, consistently.
func (c *dynamoSuite) partitionQuery(pk string, edit ...func(*dynamodb.QueryInput)) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName: &c.table, KeyConditionExpression: aws.String("pk = :p"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: attributes{":p": valueS(pk)},
	}
	for _, e := range edit {
		e(in)
	}
	return in
}

// pages runs a query to its end, at most limit pages, and hands each page over.
func (c *dynamoSuite) pages(t *testing.T, in *dynamodb.QueryInput, limit int, page func(*dynamodb.QueryOutput)) int {
	t.Helper()
	for n := 1; ; n++ {
		out := must(c.Query(t.Context(), in))(t)
		page(out)
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return n
		}
		if n == limit {
			t.Fatalf("no end after %d pages", n)
		}
	}
}

// eventually waits for what an index, which may lag, has to show in the end.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// failedCondition returns the error of a failed condition, with the item if it was asked for.
func failedCondition(t *testing.T, err error) *types.ConditionalCheckFailedException {
	t.Helper()
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a failed condition", err)
	}
	return failed
}
