package dynamodb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// nested returns a value that lies so many maps deep.
func nested(levels int) string {
	return strings.Repeat(`{"M":{"x":`, levels) + `{"S":"x"}` + strings.Repeat("}}", levels)
}

// TestValidation sends what DynamoDB refuses, and looks for its words.
func TestValidation(t *testing.T) {
	f := newFixture(t, nil)
	f.put(t, rowOf("1", "n", number(1)))
	const (
		key   = `"Key":{"pk":{"S":"p"},"sk":{"S":"1"}}`
		keyOf = `{"pk":{"S":"p"},"sk":{"S":"1"}}`
		query = `"KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}`
	)
	item := func(more string) string { return `"Item":{"pk":{"S":"p"},"sk":{"S":"1"}` + more + `}` }
	for _, k := range []struct{ operation, members, want string }{
		{"PutItem", ``, "Value null at 'item' failed to satisfy constraint: Member must not be null"},
		{"PutItem", item(``) + `,"ReturnValues":"ALL_NEW"`, "ReturnValues can only be ALL_OLD or NONE"},
		{"PutItem", item(``) + `,"ReturnConsumedCapacity":"SOME"`, "Value 'SOME' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"},
		{"PutItem", item(``) + `,"ReturnValuesOnConditionCheckFailure":"ALL_NEW"`, "at 'returnValuesOnConditionCheckFailure'"},
		{"PutItem", item(`,"x":` + nested(33)), "Nesting Levels have exceeded supported limits"},
		{"PutItem", item(`,"x":{"NULL":false}`), "Null attribute value types must have the value of true"},
		{"PutItem", item(`,"x":{"NS":[]}`), "An number set  may not be empty"},
		{"PutItem", item(`,"x":{"BS":[]}`), "Binary sets should not be empty"},
		{"PutItem", item(`,"x":{"NS":["1","1.0"]}`), "Input collection [1, 1.0] contains duplicates."},
		{"PutItem", item(`,"x":{"NS":["one"]}`), "The parameter cannot be converted to a numeric value: one"},
		{"PutItem", item(`,"x":{"BS":["-"]}`), "SerializationException"},
		{"PutItem", item(`,"gpk":{"S":""}`), "IndexName: due, IndexKey: gpk"},
		{"PutItem", `"Item":{"pk":{"S":"p"}}`, "Missing the key sk in the item"},
		{"PutItem", `"Item":{"pk":{"N":"1"},"sk":{"S":"1"}}`, "Type mismatch for key pk expected: S actual: N"},
		{"PutItem", `"Item":{"pk":{"S":"` + strings.Repeat("x", 2049) + `"},"sk":{"S":"1"}}`, "Size of hashkey has exceeded the maximum size limit of2048 bytes"},
		{"PutItem", `"Item":{"pk":{"S":"p"},"sk":{"S":"` + strings.Repeat("x", 1025) + `"}}`, "Aggregated size of all range keys has exceeded the size limit of 1024 bytes"},
		{"UpdateItem", `"UpdateExpression":"SET n = :n"`, "An expression attribute value used in expression is not defined"},
		{"UpdateItem", `"UpdateExpression":"REMOVE n"`, "Value null at 'key' failed to satisfy constraint"},
		{"UpdateItem", key + `,"ReturnValues":"SOME"`, "at 'returnValues'"},
		{"UpdateItem", key + `,"UpdateExpression":"REMOVE sk"`, "Cannot update attribute sk. This attribute is part of the key"},
		{"UpdateItem", key + `,"UpdateExpression":"SET gpk = n"`, "The update expression attempted to update the secondary index key to unsupported type"},
		{"UpdateItem", key + `,"UpdateExpression":"SET x = :x","ExpressionAttributeValues":{":x":` + nested(33) + `}`, "Nesting Levels have exceeded supported limits"},
		{"DeleteItem", key + `,"ReturnValues":"ALL_NEW"`, "ReturnValues can only be ALL_OLD or NONE"},
		{"DeleteItem", key + `,"ConditionExpression":"n = :n"`, "attribute value: :n"},
		{"GetItem", `"Key":{"pk":{"S":"p"},"sk":{"S":""}}`, "cannot contain an empty string value. Key: sk"},
		{"GetItem", `"Key":{"pk":{"S":"p"},"x":{"S":"1"}}`, "The provided key element does not match the schema"},
		{"GetItem", key + `,"ExpressionAttributeNames":{"#a":"b"}`, "can only be specified when using expressions"},
		{"GetItem", key + `,"ProjectionExpression":"a b"`, "Invalid ProjectionExpression: Syntax error"},
		{"Query", `"ConsistentRead":true`, "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."},
		{"Query", query + `,"Select":"SOME"`, "at 'select'"},
		{"Query", query + `,"Select":"ALL_PROJECTED_ATTRIBUTES"`, "can be used only when Querying using an IndexName"},
		{"Query", query + `,"Select":"SPECIFIC_ATTRIBUTES"`, "when choosing to get SPECIFIC_ATTRIBUTES"},
		{"Query", query + `,"Select":"COUNT","ProjectionExpression":"n"`, "Cannot specify the ProjectionExpression when choosing to get COUNT"},
		{"Query", query + `,"ProjectionExpression":"sk.x"`, "Key attributes must be scalars"},
		{"Query", query + `,"FilterExpression":"n = :p AND sk = :p"`, "Filter Expression can only contain non-primary key attributes: Primary key attribute: sk"},
		{"Query", query + `,"FilterExpression":"n ="`, "Invalid FilterExpression: Syntax error"},
		{"Query", query + `,"IndexName":"none"`, "The table does not have the specified index: none"},
		{"Query", query + `,"IndexName":"due"`, "Query condition missed key schema element: gpk"},
		{"Query", query + `,"ExclusiveStartKey":{"pk":{"S":"p"},"sk":{"N":"1"}}`, "The provided starting key is invalid: The provided key element does not match the schema"},
		{"Query", `"KeyConditionExpression":"pk = :p AND sk = pk","ExpressionAttributeValues":{":p":{"S":"p"}}`, "Multiple attribute names used in one condition"},
		{"Query", `"KeyConditionExpression":"pk = :p AND :p = :p","ExpressionAttributeValues":{":p":{"S":"p"}}`, "No key attribute specified"},
		{"Query", `"KeyConditionExpression":"pk = :p AND size(sk) = :p","ExpressionAttributeValues":{":p":{"S":"p"}}`, "cannot contain nested operations"},
		{"Query", `"KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":""}}`, "cannot contain an empty string value. Key: pk"},
		{"Query", `"IndexName":"due","Select":"ALL_ATTRIBUTES","KeyConditionExpression":"gpk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}`, "Select type ALL_ATTRIBUTES is not supported for global secondary index due"},
		{"Query", `"IndexName":"due","ProjectionExpression":"n","KeyConditionExpression":"gpk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}`, "Global secondary index due does not project [n]"},
		{"Scan", `"Segment":0`, "The TotalSegments parameter is required"},
		{"Scan", `"TotalSegments":2`, "The Segment parameter is required"},
		{"Scan", `"Segment":2,"TotalSegments":2`, "Segment: 2 is not less than TotalSegments: 2"},
		{"Scan", `"Segment":-1,"TotalSegments":2`, "at 'segment'"},
		{"Scan", `"Segment":0,"TotalSegments":1000001`, "at 'totalSegments'"},
		{"Scan", `"Limit":0`, "at 'limit'"},
		{"Scan", `"FilterExpression":"n = :n"`, "Invalid FilterExpression"},
		{"UpdateTimeToLive", `"TimeToLiveSpecification":{"Enabled":true}`, "Member must not be null"},
		{"UpdateTimeToLive", `"TimeToLiveSpecification":{"AttributeName":"x","Enabled":false}`, "TimeToLive is already disabled"},
		{"BatchWriteItem", `-"RequestItems":{}`, "at 'requestItems'"},
		{"BatchWriteItem", `-"RequestItems":{"rows":[{}]}`, "more than one datatypes set"},
		{"BatchWriteItem", `-"RequestItems":{"none":[{"DeleteRequest":{"Key":` + keyOf + `}}]}`, "ResourceNotFoundException"},
		{"BatchWriteItem", `-"RequestItems":{"rows":[{"DeleteRequest":{"Key":{}}}]}`, "The provided key element does not match the schema"},
		{"BatchGetItem", `-"RequestItems":{}`, "at 'requestItems'"},
		{"BatchGetItem", `-"RequestItems":{"rows":{"Keys":[]}}`, "at 'requestItems.rows.member.keys'"},
		{"BatchGetItem", `-"RequestItems":{"rows":{"Keys":[` + keyOf + strings.Repeat(","+keyOf, 100) + `]}}`, "Too many items requested for the BatchGetItem call"},
		{"BatchGetItem", `-"RequestItems":{"rows":{"Keys":[` + keyOf + `],"ProjectionExpression":"a,a"}}`, "Two document paths overlap"},
		{"TransactWriteItems", `-"ClientRequestToken":"x"`, "at 'transactItems'"},
		{"TransactWriteItems", `-"TransactItems":[{}]`, "TransactWriteRequest should contain Delete or Put or Update request"},
		{"TransactWriteItems", `-"TransactItems":[{"Delete":{"TableName":"rows",` + key + `},"ConditionCheck":{}}]`, "TransactItems can only contain one of Check, Put, Update or Delete"},
		{"TransactWriteItems", `-"TransactItems":[{"Update":{"TableName":"rows",` + key + `}}]`, "updateExpression"},
		{"TransactWriteItems", `-"TransactItems":[{"ConditionCheck":{"TableName":"rows",` + key + `}}]`, "conditionExpression"},
		{"TransactWriteItems", `-"TransactItems":[{"Delete":{"TableName":"none",` + key + `}}]`, "ResourceNotFoundException"},
		{"TransactWriteItems", `-"TransactItems":[{"Delete":{"TableName":"rows",` + key + `}}],"ClientRequestToken":"` + strings.Repeat("x", 37) + `"`, "at 'clientRequestToken'"},
		{"TransactWriteItems", `-"TransactItems":[{"Put":{"TableName":"rows","Item":{"pk":{"S":"p"}}}}]`, `"Code":"ValidationError"`},
		{"TransactGetItems", `-"TransactItems":[{}]`, "at 'transactItems.member.get'"},
		{"TransactGetItems", `-"TransactItems":[{"Get":{"TableName":"rows",` + key + `}},{"Get":{"TableName":"rows",` + key + `}}]`, "cannot include multiple operations on one item"},
	} {
		body := `{"TableName":"rows",` + k.members + `}`
		if members, without := strings.CutPrefix(k.members, "-"); without {
			body = "{" + members + "}"
		} else if members == "" {
			body = `{"TableName":"rows"}`
		}
		if status, answer := f.send(t, "DynamoDB_20120810."+k.operation, body); status != 400 || !strings.Contains(answer, k.want) {
			t.Errorf("%s %.150s: %d %.300s\nwant %s", k.operation, body, status, answer, k.want)
		}
	}
}

// TestKeyConditionsEitherWay: the operand's side does not matter.
func TestKeyConditionsEitherWay(t *testing.T) {
	f := newFixture(t, nil)
	for i := range 10 {
		f.put(t, rowOf(fmt.Sprint(i)))
	}
	for condition, want := range map[string]int32{
		":p = pk AND :k < sk": 6, ":p = pk AND :k <= sk": 7, ":p = pk AND :k > sk": 3, ":p = pk AND :k >= sk": 4, "(pk = :p AND :k = sk)": 1,
	} {
		out, err := f.Query(background(), &sdk.QueryInput{
			TableName: aws.String("rows"), KeyConditionExpression: &condition, ExpressionAttributeValues: row{":p": text("p"), ":k": text("3")},
		})
		if err != nil || out.Count != want {
			t.Errorf("%s: %v, %v, want %d", condition, out, err, want)
		}
	}
}

// TestCapacityOfReads counts by the page, and by the item where items are named.
func TestCapacityOfReads(t *testing.T) {
	f := newFixture(t, nil)
	for i := range 4 {
		f.put(t, rowOf(fmt.Sprint(i), "payload", text(strings.Repeat("x", 5000)), "gpk", text("due"), "gsk", text("1")))
	}
	indexes := types.ReturnConsumedCapacityIndexes
	want := func(what string, got *types.ConsumedCapacity, table, index float64) {
		t.Helper()
		if got == nil || aws.ToFloat64(got.Table.CapacityUnits) != table || aws.ToFloat64(got.GlobalSecondaryIndexes["due"].CapacityUnits) != index ||
			aws.ToFloat64(got.CapacityUnits) != table+index {
			t.Errorf("%s: %+v, want %v and %v", what, got, table, index)
		}
	}
	query := &sdk.QueryInput{
		TableName: aws.String("rows"), KeyConditionExpression: aws.String("pk = :p"), FilterExpression: aws.String("attribute_exists(nothere)"),
		ExpressionAttributeValues: row{":p": text("p")}, ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: indexes,
	}
	out, err := f.Query(background(), query)
	if err != nil {
		t.Fatal(err)
	}
	want("20 KB of rows, all filtered out", out.ConsumedCapacity, 5, 0)
	query.IndexName, query.KeyConditionExpression, query.ConsistentRead = aws.String("due"), aws.String("gpk = :p"), nil
	query.ExpressionAttributeValues[":p"] = text("due")
	if out, err = f.Query(background(), query); err != nil {
		t.Fatal(err)
	}
	want("the index without payload", out.ConsumedCapacity, 0, 0.5)
	got, err := f.BatchGetItem(background(), &sdk.BatchGetItemInput{
		RequestItems:           map[string]types.KeysAndAttributes{"rows": {Keys: []row{rowOf("0"), rowOf("1"), rowOf("none")}}},
		ReturnConsumedCapacity: indexes,
	})
	if err != nil {
		t.Fatal(err)
	}
	want("two items and none", &got.ConsumedCapacity[0], 2.5, 0)
	both, err := f.TransactGetItems(background(), &sdk.TransactGetItemsInput{
		TransactItems: []types.TransactGetItem{
			{Get: &types.Get{TableName: aws.String("rows"), Key: rowOf("0")}}, {Get: &types.Get{TableName: aws.String("rows"), Key: rowOf("1")}},
		},
		ReturnConsumedCapacity: indexes,
	})
	if err != nil {
		t.Fatal(err)
	}
	want("two items in a transaction", &both.ConsumedCapacity[0], 8, 0)
	write, err := f.BatchWriteItem(background(), &sdk.BatchWriteItemInput{
		RequestItems: map[string][]types.WriteRequest{"rows": {
			{DeleteRequest: &types.DeleteRequest{Key: rowOf("0")}}, {PutRequest: &types.PutRequest{Item: rowOf("9")}},
		}},
		ReturnConsumedCapacity: indexes,
	})
	if err != nil {
		t.Fatal(err)
	}
	want("a row of 5 KB deleted and a small one put", &write.ConsumedCapacity[0], 6, 1)
	again := &sdk.TransactWriteItemsInput{
		ClientRequestToken: aws.String("t"), ReturnConsumedCapacity: indexes,
		TransactItems: []types.TransactWriteItem{{Update: &types.Update{
			TableName: aws.String("rows"), Key: rowOf("1"), UpdateExpression: aws.String("REMOVE gpk"),
		}}},
	}
	first, err := f.TransactWriteItems(background(), again)
	if err != nil {
		t.Fatal(err)
	}
	want("a transaction doubles the table and not the index", &first.ConsumedCapacity[0], 10, 1)
	if first, err = f.TransactWriteItems(background(), again); err != nil {
		t.Fatal(err)
	}
	want("told again it is read", &first.ConsumedCapacity[0], 4, 0)
}
