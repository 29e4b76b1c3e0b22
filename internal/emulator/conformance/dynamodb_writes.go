package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func dynamoWrites() []check[*dynamoSuite] {
	return []check[*dynamoSuite]{
		dynamoCheck("PutItem attribute_not_exists: second refused with typed error", (*dynamoSuite).putIfAbsent),
		dynamoCheck("ReturnValuesOnConditionCheckFailure=ALL_OLD gives the item (Put, Update, Delete)", (*dynamoSuite).oldItemOnFailure),
		dynamoCheck("DeleteItem with condition; ALL_OLD returned", (*dynamoSuite).deleteIf),
		dynamoCheck("BatchWriteItem: 25 ok, mixed; 26 refused; duplicate key refused", (*dynamoSuite).batchWrite),
		dynamoCheck("ResourceNotFoundException typed; BatchGetItem", (*dynamoSuite).batchGet),
		dynamoCheck("binary attributes and binary sort data round trip", (*dynamoSuite).roundTripTypes),
		dynamoCheck("numbers: 38 digits exact, ADD exact beyond 2^53, 1 = 1.0", (*dynamoSuite).exactNumbers),
		dynamoCheck("400 KB item limit (put and update)", (*dynamoSuite).itemLimit),
		dynamoCheck("16 goroutines conditional UpdateItem: exactly one; 800 ADDs = 800", (*dynamoSuite).racingUpdates),
		dynamoCheck("keys containing separators (a|S:b) stay distinct", (*dynamoSuite).separators),
		dynamoCheck("TTL: UpdateTimeToLive/Describe", (*dynamoSuite).timeToLive),
		dynamoCheck("regions separate: same table name in eu-west-1", (*dynamoSuite).regionsApart),
		dynamoCheck("consumed capacity: by the kilobyte, larger of before and after, index apart", (*dynamoSuite).capacity),
	}
}

func (c *dynamoSuite) putIfAbsent(t *testing.T) {
	in := &dynamodb.PutItemInput{
		TableName: &c.table, Item: rowOf(name("p"), "b", "x", valueS("1")), ConditionExpression: aws.String("attribute_not_exists(pk)"),
	}
	must(c.PutItem(t.Context(), in))(t)
	_, err := c.PutItem(t.Context(), in)
	if failed := failedCondition(t, err); failed.Item != nil {
		t.Errorf("an item that nobody asked for: %v", failed.Item)
	}
}

func (c *dynamoSuite) oldItemOnFailure(t *testing.T) {
	p, old := name("p"), types.ReturnValuesOnConditionCheckFailureAllOld
	c.put(t, p, "b", "owner", valueS("w1"))
	absent := aws.String("attribute_not_exists(pk)")
	_, put := c.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: &c.table, Item: keyOf(p, "b"), ConditionExpression: absent, ReturnValuesOnConditionCheckFailure: old,
	})
	_, update := c.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &c.table, Key: keyOf(p, "b"), UpdateExpression: aws.String("SET x = :v"), ExpressionAttributeValues: placeholder(valueS("w2")),
		ConditionExpression: absent, ReturnValuesOnConditionCheckFailure: old,
	})
	_, remove := c.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: &c.table, Key: keyOf(p, "b"), ConditionExpression: absent, ReturnValuesOnConditionCheckFailure: old,
	})
	for i, err := range []error{put, update, remove} {
		if item := failedCondition(t, err).Item; plain(item["owner"]) != "w1" || len(item) != 3 {
			t.Errorf("write %d: item %v", i, item)
		}
	}
	_, err := c.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: &c.table, Key: keyOf(p, "none"), ConditionExpression: aws.String("attribute_exists(pk)"), ReturnValuesOnConditionCheckFailure: old,
	})
	if item := failedCondition(t, err).Item; item != nil {
		t.Errorf("no row: item %v", item)
	}
}

func (c *dynamoSuite) deleteIf(t *testing.T) {
	p := name("p")
	c.put(t, p, "1", "v", valueN(1))
	in := &dynamodb.DeleteItemInput{
		TableName: &c.table, Key: keyOf(p, "1"), ConditionExpression: aws.String("v = :v"),
		ExpressionAttributeValues: placeholder(valueN(2)), ReturnValues: types.ReturnValueAllOld,
	}
	_, err := c.DeleteItem(t.Context(), in)
	wantCode(t, err, "ConditionalCheckFailedException")
	in.ExpressionAttributeValues = placeholder(valueN(1))
	if out := must(c.DeleteItem(t.Context(), in))(t); plain(out.Attributes["v"]) != "1" {
		t.Errorf("ALL_OLD gave %v", out.Attributes)
	}
	if c.get(t, p, "1") != nil {
		t.Error("still there")
	}
	in.ConditionExpression, in.ExpressionAttributeValues = nil, nil
	if out := must(c.DeleteItem(t.Context(), in))(t); out.Attributes != nil {
		t.Errorf("deleting what is absent gave %v", out.Attributes)
	}
}

func (c *dynamoSuite) batchWrite(t *testing.T) {
	p := name("p")
	batch := func(n int) (requests []types.WriteRequest) {
		for i := range n {
			requests = append(requests, types.WriteRequest{PutRequest: &types.PutRequest{Item: keyOf(p, fmt.Sprintf("%03d", i))}})
		}
		return requests
	}
	write := func(requests []types.WriteRequest) error {
		_, err := c.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{c.table: requests}})
		return err
	}
	if err := write(batch(25)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, write(batch(26)), "ValidationException")
	twice := batch(2)
	twice[1] = twice[0]
	wantCode(t, write(twice), "ValidationException")
	mixed := batch(2)
	mixed[1] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: keyOf(p, "024")}}
	if err := write(mixed); err != nil {
		t.Fatal(err)
	}
	if out := must(c.Query(t.Context(), c.partitionQuery(p)))(t); out.Count != 24 {
		t.Errorf("%d rows, want 24", out.Count)
	}
}

func (c *dynamoSuite) batchGet(t *testing.T) {
	_, err := c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(name("no-such")), Key: keyOf("a", "b")})
	var absent *types.ResourceNotFoundException
	if !errors.As(err, &absent) {
		t.Errorf("got %v, want a typed ResourceNotFoundException", err)
	}
	p := name("p")
	c.put(t, p, "b", "x", valueS("1"), "y", valueS("2"))
	get := func(keys ...attributes) (*dynamodb.BatchGetItemOutput, error) {
		return c.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			c.table: {Keys: keys, ProjectionExpression: aws.String("x"), ConsistentRead: aws.Bool(true)},
		}})
	}
	rows := must(get(keyOf(p, "b"), keyOf(p, "c")))(t).Responses[c.table]
	if len(rows) != 1 || len(rows[0]) != 1 || plain(rows[0]["x"]) != "1" {
		t.Errorf("got %v", rows)
	}
	_, err = get(keyOf(p, "b"), keyOf(p, "b"))
	wantCode(t, err, "ValidationException")
}

func (c *dynamoSuite) roundTripTypes(t *testing.T) {
	p := name("p")
	raw := []byte{0, 1, 2, 250, 255, '|'}
	c.put(t, p, "b", "bin", valueB(raw), "bs", &types.AttributeValueMemberBS{Value: [][]byte{raw, {9}}},
		"null", &types.AttributeValueMemberNULL{Value: true}, "bool", valueBool(false),
		"emptyS", valueS(""), "emptyL", valueL(), "emptyM", valueM(attributes{}), "text", valueS("é\n\"\\<&>\u2028\x01"))
	row := c.get(t, p, "b")
	if b, ok := row["bin"].(*types.AttributeValueMemberB); !ok || !bytes.Equal(b.Value, raw) {
		t.Errorf("B: %v", row["bin"])
	}
	if bs, ok := row["bs"].(*types.AttributeValueMemberBS); !ok || len(bs.Value) != 2 {
		t.Errorf("BS: %v", row["bs"])
	}
	if b, ok := row["bool"].(*types.AttributeValueMemberBOOL); !ok || b.Value {
		t.Errorf("BOOL: %v", row["bool"])
	}
	if n, ok := row["null"].(*types.AttributeValueMemberNULL); !ok || !n.Value {
		t.Errorf("NULL: %v", row["null"])
	}
	if listLength(row["emptyL"]) != 0 {
		t.Errorf("empty list: %T", row["emptyL"])
	}
	if m, ok := row["emptyM"].(*types.AttributeValueMemberM); !ok || len(m.Value) != 0 {
		t.Errorf("empty map: %T", row["emptyM"])
	}
	if plain(row["emptyS"]) != "" || plain(row["text"]) != "é\n\"\\<&>\u2028\x01" {
		t.Errorf("S: %q and %q", plain(row["emptyS"]), plain(row["text"]))
	}
}

func (c *dynamoSuite) exactNumbers(t *testing.T) {
	p := name("p")
	digits := strings.Repeat("1234567890", 3) + "12345678"
	c.put(t, p, "1", "n", valueN("9007199254740993"), "d", valueN("0.1"), "long", valueN(digits), "form", valueN("-0010.500e1"))
	row, err := c.update(t, p, "1", "ADD n :one, d :d", attributes{":one": valueN(1), ":d": valueN("0.2")})
	if err != nil {
		t.Fatal(err)
	}
	for attribute, want := range map[string]string{"n": "9007199254740994", "d": "0.3", "long": digits, "form": "-105"} {
		if got := plain(row[attribute]); got != want {
			t.Errorf("%s is %s, want %s", attribute, got, want)
		}
	}
	_, err = c.update(t, p, "1", "SET x = :x", attributes{":x": valueS("1"), ":n": valueN("9007199254740995")}, onlyIf("n = :n"))
	wantCode(t, err, "ConditionalCheckFailedException")
	for _, bad := range []string{digits + "1", "1e126", "1e-131", "1x", ""} {
		_, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &c.table, Item: rowOf(p, "2", "n", valueN(bad))})
		wantCode(t, err, "ValidationException")
	}
}

func (c *dynamoSuite) itemLimit(t *testing.T) {
	p := name("p")
	c.put(t, p, "1", "b", valueS(strings.Repeat("x", 399<<10)))
	_, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &c.table, Item: rowOf(p, "2", "b", valueS(strings.Repeat("x", 401<<10)))})
	wantCode(t, err, "ValidationException")
	_, err = c.update(t, p, "1", "SET c = :v", placeholder(valueS(strings.Repeat("x", 2<<10))))
	wantCode(t, err, "ValidationException")
}

func (c *dynamoSuite) racingUpdates(t *testing.T) {
	p := name("p")
	var winners atomic.Int32
	for _, err := range racers(16, func(i int) error {
		_, err := c.update(t, p, "1", "SET o = :v", placeholder(valueN(i)), onlyIf("attribute_not_exists(o)"))
		if err == nil {
			winners.Add(1)
		}
		return err
	}) {
		if err != nil {
			wantCode(t, err, "ConditionalCheckFailedException")
		}
	}
	if n := winners.Load(); n != 1 {
		t.Errorf("%d winners", n)
	}
	for _, err := range racers(16, func(int) error {
		for range 50 {
			if _, err := c.update(t, p, "2", "ADD n :v", placeholder(valueN(1))); err != nil {
				return err
			}
		}
		return nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := plain(c.get(t, p, "2")["n"]); n != "800" {
		t.Errorf("800 times 1 is %s", n)
	}
}

func (c *dynamoSuite) separators(t *testing.T) {
	p := name("p")
	c.put(t, p+"|S:y", "z", "v", valueS("1"))
	c.put(t, p, "y|S:z", "v", valueS("2"))
	c.put(t, p+"\x00", "a", "v", valueS("3"))
	c.put(t, p, "\x00a", "v", valueS("4"))
	for want, key := range map[string][2]string{"1": {p + "|S:y", "z"}, "2": {p, "y|S:z"}, "3": {p + "\x00", "a"}, "4": {p, "\x00a"}} {
		if got := plain(c.get(t, key[0], key[1])["v"]); got != want {
			t.Errorf("%q: v is %s, want %s", key, got, want)
		}
	}
}

func (c *dynamoSuite) timeToLive(t *testing.T) {
	table := c.newTable(t, types.ScalarAttributeTypeS)
	must(c.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("exp"), Enabled: aws.Bool(true)},
	}))(t)
	d := must(c.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &table}))(t).TimeToLiveDescription
	if s := d.TimeToLiveStatus; s != types.TimeToLiveStatusEnabled && s != types.TimeToLiveStatusEnabling || aws.ToString(d.AttributeName) != "exp" {
		t.Errorf("status %s, attribute %s", s, aws.ToString(d.AttributeName))
	}
}

func (c *dynamoSuite) regionsApart(t *testing.T) {
	_, err := c.abroad.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &c.table})
	wantCode(t, err, "ResourceNotFoundException")
}

func (c *dynamoSuite) capacity(t *testing.T) {
	p := name("p")
	big, small := valueS(strings.Repeat("x", 2500)), valueS("x")
	put := func(v attribute, sparse bool) *types.ConsumedCapacity {
		row := rowOf(p, "1", "v", v)
		if sparse {
			row["gpk"], row["gsk"] = valueS(p), valueS("1")
		}
		return must(c.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: &c.table, Item: row, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
		}))(t).ConsumedCapacity
	}
	for i, w := range []struct {
		value        attribute
		sparse       bool
		table, index float64
	}{
		{big, false, 3, 0}, {small, false, 3, 0}, {small, true, 1, 1}, {big, true, 3, 0}, {small, false, 3, 1},
	} {
		got := put(w.value, w.sparse)
		index := aws.ToFloat64(got.GlobalSecondaryIndexes[dueIndex].CapacityUnits)
		if table := aws.ToFloat64(got.Table.CapacityUnits); table != w.table || index != w.index || aws.ToFloat64(got.CapacityUnits) != table+index {
			t.Errorf("put %d: table %v, index %v, want %v and %v", i, table, index, w.table, w.index)
		}
	}
	for consistent, want := range map[bool]float64{true: 1, false: 0.5} {
		out := must(c.GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: &c.table, Key: keyOf(p, "1"), ConsistentRead: &consistent, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		}))(t)
		if got := aws.ToFloat64(out.ConsumedCapacity.CapacityUnits); got != want {
			t.Errorf("get, consistent %v: %v, want %v", consistent, got, want)
		}
	}
	out := must(c.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		TransactItems:          []types.TransactWriteItem{{Put: &types.Put{TableName: &c.table, Item: rowOf(p, "2", "v", big)}}},
	}))(t)
	if len(out.ConsumedCapacity) != 1 || aws.ToFloat64(out.ConsumedCapacity[0].CapacityUnits) != 6 {
		t.Errorf("a transaction of 3 units takes %v, want 6", out.ConsumedCapacity)
	}
}
