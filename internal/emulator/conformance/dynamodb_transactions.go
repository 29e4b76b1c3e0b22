package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func dynamoTransactions() []check[*dynamoSuite] {
	return []check[*dynamoSuite]{
		dynamoCheck("TransactWriteItems: all or nothing, reasons in order, ALL_OLD item", (*dynamoSuite).allOrNothing),
		dynamoCheck("TransactWriteItems: success applies Put+Update+Delete+Check", (*dynamoSuite).everyAction),
		dynamoCheck("TransactWriteItems: ClientRequestToken idempotent; other payload -> IdempotentParameterMismatch", (*dynamoSuite).requestToken),
		dynamoCheck("TransactWriteItems: same item twice refused; 101 refused", (*dynamoSuite).transactionLimits),
		dynamoCheck("TransactWriteItems: failing Update expression cancels all", (*dynamoSuite).failingUpdate),
		dynamoCheck("16 transactions race on one condition: one wins", (*dynamoSuite).racingTransactions),
		dynamoCheck("transactions that conflict on one item are cancelled or applied, never both DB-08", (*dynamoSuite).conflicts),
		dynamoCheck("mixed cancellation: every action has its own reason DB-08", (*dynamoSuite).mixedReasons),
		dynamoCheck("TransactGetItems: in order, absent ones empty, projection", (*dynamoSuite).transactGet),
	}
}

func (c *dynamoSuite) transactPut(row attributes, condition string) types.TransactWriteItem {
	put := &types.Put{TableName: &c.table, Item: row, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	if condition != "" {
		put.ConditionExpression = &condition
	}
	return types.TransactWriteItem{Put: put}
}

func (c *dynamoSuite) transactUpdate(key attributes, expression string, v attribute) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &c.table, Key: key, UpdateExpression: &expression, ExpressionAttributeValues: placeholder(v),
	}}
}

func (c *dynamoSuite) transact(t *testing.T, items ...types.TransactWriteItem) error {
	_, err := c.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: items})
	return err
}

// cancellation returns the reasons of a cancelled transaction, and their codes.
func cancellation(t *testing.T, err error) (reasons []types.CancellationReason, codes []string) {
	t.Helper()
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		t.Fatalf("got %v, want a cancelled transaction", err)
	}
	for _, r := range cancelled.CancellationReasons {
		codes = append(codes, aws.ToString(r.Code))
	}
	return cancelled.CancellationReasons, codes
}

func (c *dynamoSuite) allOrNothing(t *testing.T) {
	p := name("p")
	c.put(t, p, "3", "v", valueS("x"))
	reasons, codes := cancellation(t, c.transact(t,
		c.transactPut(keyOf(p, "1"), ""),
		c.transactUpdate(keyOf(p, "2"), "SET x = :v", valueS("1")),
		c.transactPut(keyOf(p, "3"), "attribute_not_exists(pk)"),
	))
	if want := []string{"None", "None", "ConditionalCheckFailed"}; !slices.Equal(codes, want) {
		t.Fatalf("reasons %v, want %v", codes, want)
	}
	if plain(reasons[2].Item["v"]) != "x" {
		t.Errorf("no ALL_OLD item in %v", reasons[2])
	}
	if c.get(t, p, "1") != nil || c.get(t, p, "2") != nil {
		t.Error("written in part")
	}
}

func (c *dynamoSuite) everyAction(t *testing.T) {
	p := name("p")
	c.put(t, p, "d")
	c.put(t, p, "c", "ok", valueS("1"))
	if err := c.transact(t,
		c.transactPut(keyOf(p, "1"), ""),
		c.transactUpdate(keyOf(p, "2"), "ADD n :v", valueN(1)),
		types.TransactWriteItem{Delete: &types.Delete{TableName: &c.table, Key: keyOf(p, "d")}},
		types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &c.table, Key: keyOf(p, "c"), ConditionExpression: aws.String("ok = :v"), ExpressionAttributeValues: placeholder(valueS("1")),
		}},
	); err != nil {
		t.Fatal(err)
	}
	if c.get(t, p, "1") == nil || plain(c.get(t, p, "2")["n"]) != "1" || c.get(t, p, "d") != nil || len(c.get(t, p, "c")) != 3 {
		t.Error("not applied")
	}
}

func (c *dynamoSuite) requestToken(t *testing.T) {
	p, token := name("p"), name("token")
	write := func(n int, report types.ReturnConsumedCapacity) error {
		_, err := c.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: &token, ReturnConsumedCapacity: report,
			TransactItems: []types.TransactWriteItem{c.transactUpdate(keyOf(p, "2"), "ADD n :v, m :v", valueN(n))},
		})
		return err
	}
	for range 5 { // the SDK writes maps in random order
		if err := write(1, types.ReturnConsumedCapacityTotal); err != nil {
			t.Fatal(err)
		}
	}
	if n := plain(c.get(t, p, "2")["n"]); n != "1" {
		t.Errorf("one token, applied %s times", n)
	}
	wantCode(t, write(2, types.ReturnConsumedCapacityTotal), "IdempotentParameterMismatchException")
}

func (c *dynamoSuite) transactionLimits(t *testing.T) {
	p := name("p")
	wantCode(t, c.transact(t, c.transactPut(keyOf(p, "1"), ""),
		types.TransactWriteItem{Delete: &types.Delete{TableName: &c.table, Key: keyOf(p, "1")}}), "ValidationException")
	var items []types.TransactWriteItem
	for i := range 101 {
		items = append(items, c.transactPut(keyOf(p, fmt.Sprint(i)), ""))
	}
	wantCode(t, c.transact(t, items...), "ValidationException")
	if err := c.transact(t, items[:100]...); err != nil {
		t.Error(err)
	}
}

func (c *dynamoSuite) failingUpdate(t *testing.T) {
	p := name("p")
	c.put(t, p, "2", "s", valueS("str"))
	err := c.transact(t, c.transactPut(keyOf(p, "1"), ""), c.transactUpdate(keyOf(p, "2"), "ADD s :v", valueN(1)))
	if err == nil {
		t.Fatalf("a number was added to a string: %s", plain(c.get(t, p, "2")["s"]))
	}
	wantCode(t, err, "TransactionCanceledException", "ValidationException")
	if c.get(t, p, "1") != nil {
		t.Error("written in part")
	}
}

func (c *dynamoSuite) racingTransactions(t *testing.T) {
	p := name("p")
	var winners atomic.Int32
	for _, err := range racers(16, func(i int) error {
		err := c.transact(t, c.transactPut(rowOf(p, "lock", "o", valueN(i)), "attribute_not_exists(pk)"),
			c.transactPut(keyOf(p+"-records", fmt.Sprint(i)), ""))
		if err == nil {
			winners.Add(1)
		}
		return err
	}) {
		if err != nil {
			wantCode(t, err, "TransactionCanceledException", "TransactionConflictException")
		}
	}
	records := must(c.Query(t.Context(), c.partitionQuery(p+"-records")))(t).Count
	if n := winners.Load(); n != 1 || records != 1 {
		t.Errorf("%d winners, %d records", n, records)
	}
}

func (c *dynamoSuite) conflicts(t *testing.T) {
	p := name("p")
	var applied atomic.Int32
	errs := racers(16, func(i int) error {
		for j := range 5 {
			err := c.transact(t, c.transactUpdate(keyOf(p, "counter"), "ADD n :v", valueN(1)), c.transactPut(keyOf(p, fmt.Sprint(i, j)), ""))
			if err != nil {
				return err
			}
			applied.Add(1)
		}
		return nil
	})
	for _, err := range errs {
		if err == nil {
			continue
		}
		if _, codes := cancellation(t, err); !slices.Equal(codes, []string{"TransactionConflict", "None"}) {
			t.Fatalf("reasons %v", codes)
		}
	}
	rows := must(c.Query(t.Context(), c.partitionQuery(p)))(t).Count
	if n := plain(c.get(t, p, "counter")["n"]); n != fmt.Sprint(applied.Load()) || rows != applied.Load()+1 {
		t.Errorf("%d applied, counter %s, %d rows", applied.Load(), n, rows)
	}
}

func (c *dynamoSuite) mixedReasons(t *testing.T) {
	p := name("p")
	c.put(t, p, "1")
	reasons, codes := cancellation(t, c.transact(t,
		c.transactPut(keyOf(p, "1"), "attribute_not_exists(pk)"),
		c.transactPut(keyOf(p, "2"), ""),
		types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &c.table, Key: keyOf(p, "3"), ConditionExpression: aws.String("attribute_exists(pk)"),
		}},
	))
	if want := []string{"ConditionalCheckFailed", "None", "ConditionalCheckFailed"}; !slices.Equal(codes, want) {
		t.Fatalf("reasons %v, want %v", codes, want)
	}
	if reasons[1].Message != nil || reasons[1].Item != nil {
		t.Errorf("a reason without a cause: %v", reasons[1])
	}
	if reasons[0].Item == nil || reasons[2].Item != nil {
		t.Errorf("items %v and %v", reasons[0].Item, reasons[2].Item)
	}
}

func (c *dynamoSuite) transactGet(t *testing.T) {
	p := name("p")
	c.put(t, p, "1", "x", valueS("one"), "y", valueS("1"))
	c.put(t, p, "3", "x", valueS("three"))
	var items []types.TransactGetItem
	for _, sk := range []string{"3", "2", "1"} {
		items = append(items, types.TransactGetItem{Get: &types.Get{TableName: &c.table, Key: keyOf(p, sk), ProjectionExpression: aws.String("x")}})
	}
	out := must(c.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: items}))(t)
	if len(out.Responses) != 3 {
		t.Fatalf("%d responses", len(out.Responses))
	}
	for i, want := range []string{"three", "<none>", "one"} {
		if got := plain(out.Responses[i].Item["x"]); got != want || len(out.Responses[i].Item) > 1 {
			t.Errorf("response %d: %v, want x to be %s", i, out.Responses[i].Item, want)
		}
	}
}
