package dynamodb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/expunge-aws/expunge/internal/emulator/conformance"
	"github.com/expunge-aws/expunge/internal/emulator/dynamodb"
	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

const home = "us-east-1"

// fixture is a service with a table "rows" (pk, sk; index "due" on gpk, gsk).
type fixture struct {
	*sdk.Client
	clock   *wire.Manual
	service *dynamodb.Service
	target  conformance.Target
}

type row = map[string]types.AttributeValue

func newFixture(t testing.TB, faults wire.Faults) *fixture {
	t.Helper()
	clock := wire.NewManual(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	f := &fixture{clock: clock, service: dynamodb.New(clock)}
	f.target = serve(t, clock, faults, f.service)
	f.Client = f.target.DynamoDBClient(home)
	createRows(t, f.Client)
	return f
}

func createRows(t testing.TB, client *sdk.Client) {
	t.Helper()
	var attributes []types.AttributeDefinition
	for _, name := range []string{"pk", "sk", "gpk", "gsk"} {
		attributes = append(attributes, types.AttributeDefinition{AttributeName: &name, AttributeType: "S"})
	}
	schema := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: &hash, KeyType: "HASH"}, {AttributeName: &sort, KeyType: "RANGE"}}
	}
	_, err := client.CreateTable(background(), &sdk.CreateTableInput{
		TableName: aws.String("rows"), BillingMode: "PAY_PER_REQUEST", AttributeDefinitions: attributes, KeySchema: schema("pk", "sk"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("due"), KeySchema: schema("gpk", "gsk"),
			Projection: &types.Projection{ProjectionType: "INCLUDE", NonKeyAttributes: []string{"state"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func background() context.Context { return context.Background() }

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n any) types.AttributeValue { return &types.AttributeValueMemberN{Value: fmt.Sprint(n)} }

func rowOf(sk string, pairs ...any) row {
	r := row{"pk": text("p"), "sk": text(sk)}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, isName := pairs[i].(string)
		v, isValue := pairs[i+1].(types.AttributeValue)
		if !isName || !isValue {
			panic("not pairs of a name and a value")
		}
		r[name] = v
	}
	return r
}

func (f *fixture) put(t testing.TB, r row) {
	t.Helper()
	if _, err := f.PutItem(background(), &sdk.PutItemInput{TableName: aws.String("rows"), Item: r}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) get(t testing.TB, sk string) row {
	t.Helper()
	out, err := f.GetItem(background(), &sdk.GetItemInput{TableName: aws.String("rows"), Key: rowOf(sk), ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// due returns the sort keys of the index's partition, each with its state.
func (f *fixture) due(t testing.TB) (shown []string) {
	t.Helper()
	out, err := f.Query(background(), &sdk.QueryInput{
		TableName: aws.String("rows"), IndexName: aws.String("due"), KeyConditionExpression: aws.String("gpk = :p"),
		ExpressionAttributeValues: row{":p": text("due")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range out.Items {
		shown = append(shown, plain(r["sk"])+" "+plain(r["state"]))
	}
	return shown
}

func plain(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return ""
}

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return fmt.Sprint(err)
}

// TestIndexLags is DB-12: the index shows what was, the table what is.
func TestIndexLags(t *testing.T) {
	f := newFixture(t, nil)
	var lag atomic.Int64
	f.service.Lag = func(table, index string) time.Duration {
		if table != "rows" || index != "due" {
			t.Errorf("asked about %s of %s", index, table)
		}
		return time.Duration(lag.Load())
	}
	want := func(when string, want ...string) {
		t.Helper()
		if got := f.due(t); !slices.Equal(got, want) {
			t.Errorf("%s: the index shows %q, want %q", when, got, want)
		}
	}
	open := func(sk, state string) row {
		return rowOf(sk, "gpk", text("due"), "gsk", text(sk), "state", text(state))
	}
	f.put(t, open("1", "sent"))
	want("without a lag", "1 sent")

	lag.Store(int64(5 * time.Second))
	f.put(t, open("1", "claimed"))
	f.put(t, open("2", "sent"))
	if got := plain(f.get(t, "1")["state"]); got != "claimed" {
		t.Errorf("the table shows %s", got)
	}
	want("at once", "1 sent")
	f.clock.Advance(3 * time.Second)
	f.put(t, rowOf("1", "state", text("completed"))) // leaves the index
	want("after 3 s", "1 sent")
	f.clock.Advance(2 * time.Second)
	want("after 5 s", "1 claimed", "2 sent")
	f.clock.Advance(3 * time.Second)
	want("after 8 s", "2 sent")

	f.put(t, open("3", "sent"))
	want("behind", "2 sent")
	lag.Store(0)
	want("caught up", "2 sent", "3 sent")
}

// TestSweep is DB-05: a row past its time stays until somebody sweeps.
func TestSweep(t *testing.T) {
	f := newFixture(t, nil)
	if _, err := f.UpdateTimeToLive(background(), &sdk.UpdateTimeToLiveInput{
		TableName: aws.String("rows"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("exp"), Enabled: aws.Bool(true)},
	}); err != nil {
		t.Fatal(err)
	}
	now := f.clock.Now().Unix()
	f.put(t, rowOf("past", "exp", number(now-1), "gpk", text("due"), "gsk", text("1")))
	f.put(t, rowOf("now", "exp", number(now)))
	f.put(t, rowOf("future", "exp", number(now+60)))
	f.put(t, rowOf("text", "exp", text("1")))
	f.put(t, rowOf("ancient", "exp", number(1)))
	f.put(t, rowOf("none"))
	if f.get(t, "past") == nil || len(f.due(t)) != 1 {
		t.Error("gone before the sweep")
	}
	if n := f.service.Sweep(home); n != 1 || f.get(t, "past") != nil || len(f.due(t)) != 0 {
		t.Errorf("swept %d, left %v", n, f.get(t, "past"))
	}
	f.clock.Advance(2 * time.Minute)
	if n := f.service.Sweep(home); n != 2 || f.get(t, "future") != nil {
		t.Errorf("swept %d later", n)
	}
	for _, sk := range []string{"text", "ancient", "none"} {
		if f.get(t, sk) == nil {
			t.Errorf("%s was swept", sk)
		}
	}
	if n := f.service.Sweep("eu-west-1"); n != 0 {
		t.Errorf("swept %d in another region", n)
	}
}

// TestRegionsApart has the same table in two regions.
func TestRegionsApart(t *testing.T) {
	f := newFixture(t, nil)
	abroad := &fixture{Client: f.target.DynamoDBClient("eu-west-1")}
	createRows(t, abroad.Client)
	f.put(t, rowOf("1"))
	if got := abroad.get(t, "1"); got != nil {
		t.Errorf("another region shows %v", got)
	}
	d, err := abroad.DescribeTable(background(), &sdk.DescribeTableInput{TableName: aws.String("rows")})
	if err != nil || *d.Table.TableArn != "arn:aws:dynamodb:eu-west-1:000000000000:table/rows" {
		t.Errorf("%v, %v", d, err)
	}
}

// fates answers the calls of one operation with a fate.
func fates(operation string, fate wire.Fate) wire.Faults {
	return func(c wire.Call) wire.Fate {
		if c.Operation == operation {
			return fate
		}
		return wire.Fate{}
	}
}

func TestErrorOfTheFaultHook(t *testing.T) {
	f := newFixture(t, fates("PutItem", wire.Fate{Error: wire.Bad("ProvisionedThroughputExceededException", "slow down")}))
	_, err := f.PutItem(background(), &sdk.PutItemInput{TableName: aws.String("rows"), Item: rowOf("1")})
	var throttled *types.ProvisionedThroughputExceededException
	if !errors.As(err, &throttled) || throttled.ErrorMessage() != "slow down" {
		t.Errorf("got %v, want a typed throttle", err)
	}
	if f.get(t, "1") != nil {
		t.Error("written all the same")
	}
}

// TestLostAnswer is DB-01: the write happened, and the retry reads that it did.
func TestLostAnswer(t *testing.T) {
	var calls atomic.Int32
	f := newFixture(t, func(c wire.Call) wire.Fate {
		return wire.Fate{Lost: c.Operation == "UpdateItem" && calls.Add(1) == 1}
	})
	retrying := sdk.New(f.Options(), func(o *sdk.Options) { o.RetryMaxAttempts = 3 })
	_, err := retrying.UpdateItem(background(), &sdk.UpdateItemInput{
		TableName: aws.String("rows"), Key: rowOf("claim"), UpdateExpression: aws.String("SET fence = :f"),
		ConditionExpression: aws.String("attribute_not_exists(fence)"), ExpressionAttributeValues: row{":f": text("mine")},
		ReturnValuesOnConditionCheckFailure: "ALL_OLD",
	})
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) || plain(failed.Item["fence"]) != "mine" || calls.Load() != 2 {
		t.Errorf("after %d calls: %v", calls.Load(), err)
	}
}

// refuse refuses the entries of those numbers.
func refuse(code string, ids ...string) func(string) *wire.Error {
	return func(id string) *wire.Error {
		if slices.Contains(ids, id) {
			return wire.Bad(code, "Transaction is ongoing for the item")
		}
		return nil
	}
}

// TestMixedCancellation is DB-08: a conflict beside a failed condition.
func TestMixedCancellation(t *testing.T) {
	f := newFixture(t, fates("TransactWriteItems", wire.Fate{Entries: refuse("TransactionConflict", "0", "2", "3")}))
	f.put(t, rowOf("2", "s", text("x")))
	put := func(sk string) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{TableName: aws.String("rows"), Item: rowOf(sk), ConditionExpression: aws.String("attribute_not_exists(pk)")}}
	}
	add := types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String("rows"), Key: rowOf("2"), UpdateExpression: aws.String("ADD s :one"), ExpressionAttributeValues: row{":one": number(1)},
	}}
	for _, k := range []struct {
		items []types.TransactWriteItem
		want  []string
	}{
		{[]types.TransactWriteItem{put("0"), put("1")}, []string{"TransactionConflict", "None"}},
		{[]types.TransactWriteItem{put("0"), put("2")}, []string{"TransactionConflict", "ConditionalCheckFailed"}},
		{[]types.TransactWriteItem{put("0"), add}, []string{"TransactionConflict", "ValidationError"}},
		{[]types.TransactWriteItem{put("2"), put("1")}, []string{"ConditionalCheckFailed", "None"}},
	} {
		_, err := f.TransactWriteItems(background(), &sdk.TransactWriteItemsInput{TransactItems: k.items})
		var cancelled *types.TransactionCanceledException
		if !errors.As(err, &cancelled) {
			t.Fatalf("got %v, want a cancelled transaction", err)
		}
		var got []string
		for _, r := range cancelled.CancellationReasons {
			got = append(got, *r.Code)
		}
		if !slices.Equal(got, k.want) || !strings.Contains(cancelled.ErrorMessage(), "["+strings.Join(k.want, ", ")+"]") {
			t.Errorf("reasons %v, want %v; %s", got, k.want, cancelled.ErrorMessage())
		}
	}
	if f.get(t, "0") != nil || f.get(t, "1") != nil {
		t.Error("written in part")
	}
}

// TestUnprocessed is DB-09: an answer without an error that did not do everything.
func TestUnprocessed(t *testing.T) {
	var refusing atomic.Bool
	refusing.Store(true)
	f := newFixture(t, func(c wire.Call) wire.Fate {
		if !refusing.Load() || !strings.HasPrefix(c.Operation, "Batch") {
			return wire.Fate{}
		}
		return wire.Fate{Entries: refuse("", "3", "7", "24"), EntriesAfter: refuse("", "5")}
	})
	var writes []types.WriteRequest
	var keys []row
	for i := range 25 {
		writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: rowOf(fmt.Sprintf("%02d", i), "v", number(i))}})
		keys = append(keys, rowOf(fmt.Sprintf("%02d", i)))
	}
	out, err := f.BatchWriteItem(background(), &sdk.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"rows": writes}})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, w := range out.UnprocessedItems["rows"] {
		left = append(left, plain(w.PutRequest.Item["v"]))
	}
	if want := []string{"3", "5", "7", "24"}; !slices.Equal(left, want) {
		t.Errorf("unprocessed %v, want %v", left, want)
	}
	if f.get(t, "03") != nil || f.get(t, "05") == nil {
		t.Error("3 was to fail, 5 only to say so")
	}
	got, err := f.BatchGetItem(background(), &sdk.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		"rows": {Keys: keys, ProjectionExpression: aws.String("#v"), ExpressionAttributeNames: map[string]string{"#v": "v"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	again := got.UnprocessedKeys["rows"]
	if len(got.Responses["rows"]) != 22 || len(again.Keys) != 3 || *again.ProjectionExpression != "#v" || again.ExpressionAttributeNames["#v"] != "v" {
		t.Errorf("%d rows, unprocessed %v", len(got.Responses["rows"]), again)
	}
	refusing.Store(false)
	if out, err = f.BatchWriteItem(background(), &sdk.BatchWriteItemInput{RequestItems: out.UnprocessedItems}); err != nil || len(out.UnprocessedItems) > 0 {
		t.Errorf("sent again: %v, %v", out.UnprocessedItems, err)
	}
	if f.get(t, "03") == nil || f.get(t, "24") == nil {
		t.Error("lost")
	}
}

// TestTokenIsForgotten: a transaction is remembered for ten minutes.
func TestTokenIsForgotten(t *testing.T) {
	f := newFixture(t, nil)
	add := func() string {
		t.Helper()
		if _, err := f.TransactWriteItems(background(), &sdk.TransactWriteItemsInput{
			ClientRequestToken: aws.String("token"),
			TransactItems: []types.TransactWriteItem{{Update: &types.Update{
				TableName: aws.String("rows"), Key: rowOf("1"), UpdateExpression: aws.String("ADD n :one"), ExpressionAttributeValues: row{":one": number(1)},
			}}},
		}); err != nil {
			t.Fatal(err)
		}
		return plain(f.get(t, "1")["n"])
	}
	if first, second := add(), add(); first != "1" || second != "1" {
		t.Errorf("n is %s, then %s", first, second)
	}
	f.clock.Advance(10*time.Minute + time.Second)
	if late := add(); late != "2" {
		t.Errorf("after ten minutes n is %s", late)
	}
}

// TestEmptyPages is DB-10 at its full size.
func TestEmptyPages(t *testing.T) {
	f := newFixture(t, nil)
	for i := range 120 {
		var writes []types.WriteRequest
		for j := range 25 {
			n := i*25 + j
			writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{
				Item: rowOf(fmt.Sprintf("%04d", n), "expired", &types.AttributeValueMemberBOOL{Value: n >= 2990}),
			}})
		}
		if _, err := f.BatchWriteItem(background(), &sdk.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"rows": writes}}); err != nil {
			t.Fatal(err)
		}
	}
	in := &sdk.QueryInput{
		TableName: aws.String("rows"), KeyConditionExpression: aws.String("pk = :p"), FilterExpression: aws.String("expired = :t"), Limit: aws.Int32(100),
		ExpressionAttributeValues: row{":p": text("p"), ":t": &types.AttributeValueMemberBOOL{Value: true}},
	}
	found, empty := 0, 0
	for {
		out, err := f.Query(background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if found += len(out.Items); len(out.Items) == 0 && out.LastEvaluatedKey != nil {
			empty++
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			break
		}
	}
	if found != 10 || empty != 29 {
		t.Errorf("found %d after %d empty pages with a key", found, empty)
	}
}

// send sends a body as it stands to an operation.
func (f *fixture) send(t *testing.T, target, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.target.Endpoint, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", target)
	credentials := aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}
	if err := v4.NewSigner().SignHTTP(t.Context(), credentials, r, "UNSIGNED-PAYLOAD", "dynamodb", home, time.Now()); err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(b)
}

// TestWhatIsNotOfferedIsRefused: never a silent 200.
func TestWhatIsNotOfferedIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	const version = "DynamoDB_20120810."
	for _, k := range []struct {
		target, body string
		status       int
		want         string
	}{
		{version + "ExecuteStatement", `{"Statement":"SELECT * FROM rows"}`, 400, "com.amazon.coral.service#UnknownOperationException"},
		{version + "CreateGlobalTable", `{}`, 400, "UnknownOperationException"},
		{version, `{}`, 400, "UnknownOperationException"},
		{"DynamoDBStreams_20120810.ListStreams", `{}`, 400, "UnknownOperationException"},
		{version + "Query", `{"TableName":"rows","KeyConditions":{}}`, 501, `the parameter \"KeyConditions\" of Query`},
		{version + "PutItem", `{"TableName":"rows","Item":{},"Expected":{}}`, 501, `the parameter \"Expected\" of PutItem`},
		{version + "UpdateItem", `{"TableName":"rows","Key":{},"AttributeUpdates":{}}`, 501, "NotImplemented"},
		{version + "CreateTable", `{"TableName":"new","StreamSpecification":{"StreamEnabled":true}}`, 501, "NotImplemented"},
		{version + "CreateTable", `{"TableName":"new","LocalSecondaryIndexes":[]}`, 501, "NotImplemented"},
		{version + "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"rows","Item":{},"Expected":{}}}]}`, 501, "NotImplemented"},
		{version + "GetItem", `{"TableName":"rows"`, 400, "com.amazon.coral.service#SerializationException"},
		{version + "GetItem", `{"TableName":"rows"}{}`, 400, "SerializationException"},
		{version + "GetItem", `{"TableName":7}`, 400, "SerializationException"},
		{version + "GetItem", `{"TableName":"rows","Key":{"pk":{"S":"a"},"sk":{"S":"b","N":"1"}}}`, 400, "more than one datatypes set"},
		{version + "GetItem", `{"TableName":"rows","Key":{"pk":{"S":"a"},"sk":{}}}`, 400, "Supplied AttributeValue is empty"},
		{version + "GetItem", `{"TableName":"rows","Key":{"pk":{"S":"a"},"sk":{"Q":"b"}}}`, 400, "Supplied AttributeValue is empty"},
		{version + "GetItem", `{"TableName":"rows","Key":{"pk":{"S":"a"},"sk":null}}`, 400, "Supplied AttributeValue is empty"},
		{version + "GetItem", `{"Key":{}}`, 400, "Value null at 'tableName' failed to satisfy constraint: Member must not be null"},
		{version + "GetItem", `{"TableName":"rows","Key":{"pk":{"S":"a"}}}`, 400, "com.amazon.coral.validate#ValidationException"},
		{version + "GetItem", `{"TableName":"none","Key":{}}`, 400, "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"},
	} {
		status, answer := f.send(t, k.target, k.body)
		if status != k.status || !strings.Contains(answer, k.want) {
			t.Errorf("%s %s: %d %s want %d with %s", k.target, k.body, status, answer, k.status, k.want)
		}
	}
}

func TestTables(t *testing.T) {
	f := newFixture(t, nil)
	element := func(name string, kind types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: kind}
	}
	create := func(edit func(*sdk.CreateTableInput)) string {
		in := &sdk.CreateTableInput{
			TableName: aws.String("another"), BillingMode: "PAY_PER_REQUEST", KeySchema: []types.KeySchemaElement{element("id", "HASH")},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "N"}},
		}
		edit(in)
		_, err := f.CreateTable(background(), in)
		return code(err)
	}
	for what, edit := range map[string]func(*sdk.CreateTableInput){
		"short name":        func(in *sdk.CreateTableInput) { in.TableName = aws.String("ab") },
		"odd name":          func(in *sdk.CreateTableInput) { in.TableName = aws.String("a/b") },
		"no throughput":     func(in *sdk.CreateTableInput) { in.BillingMode = "" },
		"undefined key":     func(in *sdk.CreateTableInput) { in.KeySchema[0] = element("other", "HASH") },
		"first key no hash": func(in *sdk.CreateTableInput) { in.KeySchema[0] = element("id", "RANGE") },
		"same key twice":    func(in *sdk.CreateTableInput) { in.KeySchema = append(in.KeySchema, element("id", "RANGE")) },
		"unused definition": func(in *sdk.CreateTableInput) {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String("x"), AttributeType: "S"})
		},
		"type of a key": func(in *sdk.CreateTableInput) { in.AttributeDefinitions[0].AttributeType = "SS" },
		"index without types": func(in *sdk.CreateTableInput) {
			in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{IndexName: aws.String("idx"), KeySchema: in.KeySchema, Projection: &types.Projection{}}}
		},
	} {
		if got := create(edit); got != "ValidationException" {
			t.Errorf("%s: %s", what, got)
		}
	}
	if got := create(func(in *sdk.CreateTableInput) { in.TableName = aws.String("rows") }); got != "ResourceInUseException" {
		t.Errorf("the same name: %s", got)
	}
	if got := create(func(in *sdk.CreateTableInput) { in.DeletionProtectionEnabled = aws.Bool(true) }); got != "<nil>" {
		t.Fatal(got)
	}
	if _, err := f.DeleteTable(background(), &sdk.DeleteTableInput{TableName: aws.String("another")}); code(err) != "ValidationException" {
		t.Errorf("a protected table: %v", err)
	}
	var names []string
	for p := sdk.NewListTablesPaginator(f.Client, &sdk.ListTablesInput{Limit: aws.Int32(1)}); p.HasMorePages(); {
		out, err := p.NextPage(background())
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, out.TableNames...)
	}
	if !slices.Equal(names, []string{"another", "rows"}) {
		t.Errorf("tables %v", names)
	}
	f.put(t, rowOf("1", "gpk", text("due"), "gsk", text("1")))
	d, err := f.DescribeTable(background(), &sdk.DescribeTableInput{TableName: aws.String("rows")})
	if err != nil || *d.Table.ItemCount != 1 || *d.Table.TableSizeBytes != 16 || *d.Table.GlobalSecondaryIndexes[0].ItemCount != 1 {
		t.Errorf("%+v, %v", d.Table, err)
	}
	if _, err := f.DeleteTable(background(), &sdk.DeleteTableInput{TableName: aws.String("rows")}); err != nil {
		t.Fatal(err)
	}
	elsewhere, err := f.ListTables(background(), &sdk.ListTablesInput{}, func(o *sdk.Options) { o.Region = "ap-south-1" })
	if err != nil || elsewhere.TableNames == nil || len(elsewhere.TableNames) > 0 {
		t.Errorf("a region without tables lists %#v, %v", elsewhere.TableNames, err)
	}
	if _, err := f.DescribeTable(background(), &sdk.DescribeTableInput{TableName: aws.String("rows")}); code(err) != "ResourceNotFoundException" {
		t.Errorf("after deletion: %v", err)
	}
}

// TestManyClients runs every kind of operation at once, for the race detector.
func TestManyClients(t *testing.T) {
	f := newFixture(t, nil)
	f.service.Lag = func(string, string) time.Duration { return time.Second }
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 25 {
				r := rowOf(fmt.Sprint(j%5), "gpk", text("due"), "gsk", text(fmt.Sprint(i)), "l", &types.AttributeValueMemberL{Value: []types.AttributeValue{number(i)}})
				f.put(t, r)
				f.get(t, fmt.Sprint(j%5))
				f.due(t)
				_, err := f.UpdateItem(background(), &sdk.UpdateItemInput{
					TableName: aws.String("rows"), Key: rowOf(fmt.Sprint(j % 5)), UpdateExpression: aws.String("SET l[0] = :n, m = l ADD n :n"),
					ExpressionAttributeValues: row{":n": number(1)}, ReturnValues: "ALL_NEW",
				})
				if err != nil {
					t.Error(err)
				}
				if _, err := f.Scan(background(), &sdk.ScanInput{TableName: aws.String("rows")}); err != nil {
					t.Error(err)
				}
				f.clock.Advance(time.Millisecond)
				f.service.Sweep(home)
			}
		})
	}
	wg.Wait()
}
