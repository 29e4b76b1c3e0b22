package conformance

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func dynamoQueries() []check[*dynamoSuite] {
	return []check[*dynamoSuite]{
		dynamoCheck("Query: begins_with, BETWEEN, >=, <, reverse order", (*dynamoSuite).keyConditions),
		dynamoCheck("Query: Limit + ExclusiveStartKey pages complete, COUNT, filter after limit", (*dynamoSuite).paging),
		dynamoCheck("Query: page on while deleting the page just read (start key gone)", (*dynamoSuite).deleteWhilePaging),
		dynamoCheck("Query: backward pages past deleted start keys", (*dynamoSuite).deleteWhilePagingBack),
		dynamoCheck("Query: an empty page is not the end DB-10", (*dynamoSuite).emptyPages),
		dynamoCheck("Query: 1 MB page limit (30 x 100 KB -> 3+ pages)", (*dynamoSuite).pageSize),
		dynamoCheck("Query: binary sort keys are ordered as unsigned bytes, up to 1,024 of them", (*dynamoSuite).binaryOrder),
		dynamoCheck("Query: begins_with and BETWEEN on a binary sort key, last one by reverse and Limit 1", (*dynamoSuite).binaryRanges),
		dynamoCheck("Query: projection of nested paths", (*dynamoSuite).projections),
		dynamoCheck("Query validation: missing hash key / non-key attribute in key condition refused", (*dynamoSuite).keyConditionErrors),
		dynamoCheck("Scan: Limit paging while deleting; segments cover all once", (*dynamoSuite).scans),
		dynamoCheck("sparse GSI: only items with keys; order; LEK has index+table keys; KEYS_ONLY", (*dynamoSuite).sparseIndex),
		dynamoCheck("sparse GSI: pages on past a start key that left the index", (*dynamoSuite).indexStartKeyGone),
	}
}

// store puts rows by batches, as many at a time as there may be.
func (c *dynamoSuite) store(t *testing.T, table string, rows []attributes) {
	t.Helper()
	for batch := range slices.Chunk(rows, 25) {
		var requests []types.WriteRequest
		for _, row := range batch {
			requests = append(requests, types.WriteRequest{PutRequest: &types.PutRequest{Item: row}})
		}
		left := map[string][]types.WriteRequest{table: requests}
		for len(left) > 0 { // what was not processed is sent again
			left = must(c.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: left}))(t).UnprocessedItems
		}
	}
}

// rows returns n rows of a partition, each with what more gives it.
func rowsOf(pk, format string, n int, more func(i int) []any) []attributes {
	rows := make([]attributes, n)
	for i := range rows {
		var pairs []any
		if more != nil {
			pairs = more(i)
		}
		rows[i] = rowOf(pk, fmt.Sprintf(format, i), pairs...)
	}
	return rows
}

func sortKeys(rows []attributes) (keys []string) {
	for _, row := range rows {
		keys = append(keys, plain(row["sk"]))
	}
	return keys
}

func (c *dynamoSuite) keyConditions(t *testing.T) {
	p := name("p")
	c.store(t, c.table, append(rowsOf(p, "d#%02d", 30, nil), keyOf(p, "e#1"), keyOf(p+"q", "d#00")))
	for _, k := range []struct {
		condition string
		values    attributes
		want      int
	}{
		{"pk = :p AND begins_with(sk, :a)", attributes{":a": valueS("d#")}, 30},
		{"pk = :p AND sk BETWEEN :a AND :b", attributes{":a": valueS("d#05"), ":b": valueS("d#09")}, 5},
		{"pk = :p AND sk >= :a", attributes{":a": valueS("d#28")}, 3},
		{"pk = :p AND sk < :a", attributes{":a": valueS("d#03")}, 3},
		{"pk = :p AND sk <= :a", attributes{":a": valueS("d#03")}, 4},
		{"pk=:p and sk>:a", attributes{":a": valueS("d#28")}, 2},
		{"sk = :a AND pk = :p", attributes{":a": valueS("d#28")}, 1},
		{"(pk = :p) AND (begins_with(sk, :a))", attributes{":a": valueS("d#0")}, 10},
	} {
		k.values[":p"] = valueS(p)
		in := c.partitionQuery(p)
		in.KeyConditionExpression, in.ExpressionAttributeValues = &k.condition, k.values
		out := must(c.Query(t.Context(), in))(t)
		if len(out.Items) != k.want || !slices.IsSorted(sortKeys(out.Items)) {
			t.Errorf("%q: %d rows %v, want %d", k.condition, len(out.Items), sortKeys(out.Items), k.want)
		}
	}
	out := must(c.Query(t.Context(), c.partitionQuery(p, backward, limited(2))))(t)
	if got, want := sortKeys(out.Items), []string{"e#1", "d#29"}; !slices.Equal(got, want) {
		t.Errorf("reverse gave %v, want %v", got, want)
	}
}

func backward(in *dynamodb.QueryInput) { in.ScanIndexForward = aws.Bool(false) }

func limited(n int32) func(*dynamodb.QueryInput) {
	return func(in *dynamodb.QueryInput) { in.Limit = &n }
}

func (c *dynamoSuite) paging(t *testing.T) {
	p := name("p")
	c.store(t, c.table, rowsOf(p, "%03d", 53, func(i int) []any { return []any{"odd", valueN(i % 2)} }))
	in := c.partitionQuery(p, limited(10))
	in.FilterExpression = aws.String("odd = :o")
	in.ExpressionAttributeValues[":o"] = valueN(1)
	scanned, odd := 0, 0
	pages := c.pages(t, in, 20, func(out *dynamodb.QueryOutput) {
		scanned += int(out.ScannedCount)
		odd += len(out.Items)
	})
	if scanned != 53 || odd != 26 || pages != 6 {
		t.Errorf("scanned %d, odd %d, pages %d", scanned, odd, pages)
	}
	count := c.partitionQuery(p)
	count.Select = types.SelectCount
	if out := must(c.Query(t.Context(), count))(t); out.Count != 53 || len(out.Items) != 0 {
		t.Errorf("COUNT: %d, with %d items", out.Count, len(out.Items))
	}
}

func (c *dynamoSuite) deleteWhilePaging(t *testing.T) {
	c.deletingPages(t)
}

func (c *dynamoSuite) deleteWhilePagingBack(t *testing.T) {
	c.deletingPages(t, backward)
}

// deletingPages deletes every other row of each page, its last one included.
func (c *dynamoSuite) deletingPages(t *testing.T, edit ...func(*dynamodb.QueryInput)) {
	t.Helper()
	p := name("p")
	c.store(t, c.table, rowsOf(p, "%03d", 40, nil))
	seen := 0
	c.pages(t, c.partitionQuery(p, append(edit, limited(10))...), 15, func(out *dynamodb.QueryOutput) {
		for i, row := range out.Items {
			seen++
			if i%2 == 1 {
				must(c.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &c.table, Key: keyOf(p, plain(row["sk"]))}))(t)
			}
		}
	})
	if seen != 40 {
		t.Errorf("saw %d rows of 40", seen)
	}
}

func (c *dynamoSuite) emptyPages(t *testing.T) {
	p := name("p")
	c.store(t, c.table, rowsOf(p, "%04d", 300, func(i int) []any { return []any{"expired", valueBool(i >= 290)} }))
	in := c.partitionQuery(p, limited(10))
	in.FilterExpression = aws.String("expired = :e")
	in.ExpressionAttributeValues[":e"] = valueBool(true)
	found, empty := 0, 0
	c.pages(t, in, 40, func(out *dynamodb.QueryOutput) {
		if found += len(out.Items); len(out.Items) == 0 && out.LastEvaluatedKey != nil {
			empty++
		}
	})
	if found != 10 || empty != 29 {
		t.Errorf("found %d after %d empty pages with a key", found, empty)
	}
}

func (c *dynamoSuite) pageSize(t *testing.T) {
	p := name("p")
	big := valueS(strings.Repeat("x", 100<<10))
	c.store(t, c.table, rowsOf(p, "%03d", 30, func(int) []any { return []any{"b", big} }))
	seen := 0
	if pages := c.pages(t, c.partitionQuery(p), 10, func(out *dynamodb.QueryOutput) { seen += len(out.Items) }); pages < 3 || seen != 30 {
		t.Errorf("%d rows of 100 KB on %d pages", seen, pages)
	}
}

// binaryTable makes a table with a binary sort key and rows of one partition.
func (c *dynamoSuite) binaryTable(t *testing.T, keys ...string) string {
	t.Helper()
	table := c.newTable(t, types.ScalarAttributeTypeB)
	var rows []attributes
	for _, k := range keys {
		rows = append(rows, attributes{"pk": valueS("p"), "sk": valueB([]byte(k))})
	}
	c.store(t, table, rows)
	return table
}

// binaryQuery returns the sort keys that a key condition finds in the partition.
func (c *dynamoSuite) binaryQuery(t *testing.T, table, condition string, edit func(*dynamodb.QueryInput), bounds ...string) (keys []string) {
	t.Helper()
	in := &dynamodb.QueryInput{
		TableName: &table, KeyConditionExpression: aws.String("pk = :p" + condition), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: attributes{":p": valueS("p")},
	}
	for i, b := range bounds {
		in.ExpressionAttributeValues[":"+string(rune('a'+i))] = valueB([]byte(b))
	}
	if edit != nil {
		edit(in)
	}
	for _, row := range must(c.Query(t.Context(), in))(t).Items {
		if sk, ok := row["sk"].(*types.AttributeValueMemberB); ok {
			keys = append(keys, string(sk.Value))
		}
	}
	return keys
}

func (c *dynamoSuite) binaryOrder(t *testing.T) {
	longest := strings.Repeat("\xff", 1023)
	keys := []string{
		"\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00b", "a\x01", "ab", "a\xff",
		"\x7f", "\x80", "\xc3\xa9", "\xff", "\xff\x00", longest + "\x00", longest + "\xff",
	}
	shuffled := slices.Clone(keys)
	slices.Reverse(shuffled)
	table := c.binaryTable(t, shuffled...)
	if got := c.binaryQuery(t, table, "", nil); !slices.Equal(got, keys) {
		t.Errorf("order\n%.9q, want\n%.9q", got, keys)
	}
	for i, k := range keys {
		if got := c.binaryQuery(t, table, " AND sk > :a", nil, k); !slices.Equal(got, keys[i+1:]) {
			t.Errorf("after %.9q: %.9q", k, got)
		}
	}
	_, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: &table, Item: attributes{"pk": valueS("p"), "sk": valueB(bytes.Repeat([]byte{1}, 1025))},
	})
	wantCode(t, err, "ValidationException")
}

func (c *dynamoSuite) binaryRanges(t *testing.T) {
	pages := []string{"p", "p\x00", "pa", "pa\xff", "pb", "p\xff\xff"}
	table := c.binaryTable(t, append(slices.Clone(pages), "o\xff", "q", "q\x01")...)
	want := slices.Clone(pages)
	slices.Sort(want)
	if got := c.binaryQuery(t, table, " AND begins_with(sk, :a)", nil, "p"); !slices.Equal(got, want) {
		t.Errorf("begins_with: %q, want %q", got, want)
	}
	for prefix, want := range map[string][]string{"p\xff": {"p\xff\xff"}, "p\x80": nil, "pa\xff": {"pa\xff"}, "p\x00": {"p\x00"}} {
		if got := c.binaryQuery(t, table, " AND begins_with(sk, :a)", nil, prefix); !slices.Equal(got, want) {
			t.Errorf("begins_with %q: %q, want %q", prefix, got, want)
		}
	}
	if got := c.binaryQuery(t, table, " AND sk BETWEEN :a AND :b", nil, "p", "pa"); !slices.Equal(got, []string{"p", "p\x00", "pa"}) {
		t.Errorf("BETWEEN: %q", got)
	}
	last := func(in *dynamodb.QueryInput) { backward(in); limited(1)(in) }
	for _, k := range [][2]string{{"pa", "pa"}, {"paz", "pa"}, {"pa\xff\x01", "pa\xff"}, {"p\xff", "pb"}} {
		if got := c.binaryQuery(t, table, " AND sk BETWEEN :a AND :b", last, "p", k[0]); !slices.Equal(got, []string{k[1]}) {
			t.Errorf("page of %q is %q, want %q", k[0], got, k[1])
		}
	}
}

func (c *dynamoSuite) projections(t *testing.T) {
	p := name("p")
	c.put(t, p, "1", "a", valueS("1"), "b", valueS("2"),
		"m", valueM(attributes{"x": valueS("mx"), "y": valueS("my")}), "l", valueL(valueS("l0"), valueS("l1"), valueS("l2")))
	in := c.partitionQuery(p)
	in.ProjectionExpression = aws.String("a, m.x, l[2], l[0], nothere")
	row := must(c.Query(t.Context(), in))(t).Items[0]
	if got := slices.Sorted(maps.Keys(row)); !slices.Equal(got, []string{"a", "l", "m"}) {
		t.Fatalf("attributes %v", got)
	}
	if m, ok := row["m"].(*types.AttributeValueMemberM); !ok || len(m.Value) != 1 || plain(m.Value["x"]) != "mx" {
		t.Errorf("m is %v", row["m"])
	}
	if l := elements(row["l"]); !slices.Equal(l, []string{"l0", "l2"}) {
		t.Errorf("l is %v", l)
	}
}

func (c *dynamoSuite) keyConditionErrors(t *testing.T) {
	for _, condition := range []string{
		"sk = :p", "pk = :p AND x = :p", "begins_with(pk, :p)", "pk > :p", "pk = :p OR sk = :p", "pk = :p AND sk <> :p",
		"pk = :p AND NOT sk = :p", "pk = :p AND sk IN (:p)", "pk = :p AND contains(sk, :p)", "pk = :p AND sk = :p AND x = :p",
		"pk = :p AND pk = :p", "pk = :p AND size(sk) = :p", "pk = :p AND sk.x = :p", "pk = :p sk", "",
	} {
		in := c.partitionQuery(name("p"))
		in.KeyConditionExpression = &condition
		if _, err := c.Query(t.Context(), in); err == nil {
			t.Errorf("%q was accepted", condition)
		} else {
			wantCode(t, err, "ValidationException")
		}
	}
	for what, edit := range map[string]func(*dynamodb.QueryInput){
		"type":              func(in *dynamodb.QueryInput) { in.ExpressionAttributeValues[":p"] = valueN(1) },
		"filter on a key":   func(in *dynamodb.QueryInput) { in.FilterExpression = aws.String("sk = :p") },
		"limit 0":           limited(0),
		"no such index":     func(in *dynamodb.QueryInput) { in.IndexName = aws.String("no-such"); in.ConsistentRead = nil },
		"start key":         func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = attributes{"pk": valueS("p")} },
		"start key outside": func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = keyOf("another", "1") },
	} {
		if _, err := c.Query(t.Context(), c.partitionQuery(name("p"), edit)); err == nil {
			t.Errorf("%s was accepted", what)
		} else {
			wantCode(t, err, "ValidationException")
		}
	}
}

func (c *dynamoSuite) scans(t *testing.T) {
	table := c.newTable(t, types.ScalarAttributeTypeS)
	var rows []attributes
	for i := range 40 {
		rows = append(rows, keyOf(fmt.Sprintf("p%d", i%7), fmt.Sprintf("%03d", i)))
	}
	c.store(t, table, rows)
	seen := map[string]int{}
	for segment := range int32(4) {
		out := must(c.Scan(t.Context(), &dynamodb.ScanInput{
			TableName: &table, Segment: &segment, TotalSegments: aws.Int32(4), ConsistentRead: aws.Bool(true),
		}))(t)
		for _, row := range out.Items {
			seen[plain(row["pk"])+plain(row["sk"])]++
		}
	}
	if len(seen) != 40 || slices.Max(slices.Collect(maps.Values(seen))) != 1 {
		t.Errorf("segments gave %d rows of 40: %v", len(seen), seen)
	}
	in := &dynamodb.ScanInput{TableName: &table, Limit: aws.Int32(7), ConsistentRead: aws.Bool(true)}
	total, pages := 0, 0
	for {
		out := must(c.Scan(t.Context(), in))(t)
		for _, row := range out.Items {
			total++
			must(c.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: keyOf(plain(row["pk"]), plain(row["sk"]))}))(t)
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			break
		}
		if pages++; pages > 20 {
			t.Fatal("no end")
		}
	}
	if total != 40 {
		t.Errorf("saw %d rows of 40", total)
	}
}

// dueQuery asks the index for a partition.
func (c *dynamoSuite) dueQuery(p string, edit ...func(*dynamodb.QueryInput)) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName: &c.table, IndexName: aws.String(dueIndex), KeyConditionExpression: aws.String("gpk = :p AND gsk < :c"),
		ExpressionAttributeValues: attributes{":p": valueS(p), ":c": valueS("2024-99")},
	}
	for _, e := range edit {
		e(in)
	}
	return in
}

func (c *dynamoSuite) waitForIndex(t *testing.T, p string, n int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d rows in the index", n), func() bool {
		return must(c.Query(t.Context(), c.dueQuery(p)))(t).Count == n
	})
}

func (c *dynamoSuite) sparseIndex(t *testing.T) {
	p := name("p")
	c.store(t, c.table, rowsOf(p, "%03d", 20, func(i int) []any {
		if i%2 == 1 {
			return []any{"payload", valueS("zzz")}
		}
		return []any{"payload", valueS("zzz"), "gpk", valueS(p), "gsk", valueS(fmt.Sprintf("2024-%02d", 20-i))}
	}))
	c.waitForIndex(t, p, 10)
	first := must(c.Query(t.Context(), c.dueQuery(p, limited(4))))(t)
	if len(first.Items) != 4 || plain(first.Items[0]["gsk"]) != "2024-02" {
		t.Fatalf("first page: %v", first.Items)
	}
	if got := slices.Sorted(maps.Keys(first.Items[0])); !slices.Equal(got, []string{"gpk", "gsk", "pk", "sk"}) {
		t.Errorf("KEYS_ONLY gave %v", got)
	}
	if got := slices.Sorted(maps.Keys(first.LastEvaluatedKey)); !slices.Equal(got, []string{"gpk", "gsk", "pk", "sk"}) {
		t.Errorf("LastEvaluatedKey has %v", got)
	}
	seen := 0
	if c.pages(t, c.dueQuery(p, limited(4)), 20, func(out *dynamodb.QueryOutput) { seen += len(out.Items) }); seen != 10 {
		t.Errorf("paged %d rows of 10", seen)
	}
	if _, err := c.update(t, p, "000", "REMOVE gpk, gsk", nil); err != nil {
		t.Fatal(err)
	}
	c.waitForIndex(t, p, 9)
	consistent := func(in *dynamodb.QueryInput) { in.ConsistentRead = aws.Bool(true) }
	_, err := c.Query(t.Context(), c.dueQuery(p, consistent))
	wantCode(t, err, "ValidationException")
}

func (c *dynamoSuite) indexStartKeyGone(t *testing.T) {
	p := name("p")
	c.store(t, c.table, rowsOf(p, "%03d", 12, func(i int) []any {
		return []any{"gpk", valueS(p), "gsk", valueS(fmt.Sprintf("2024-%02d", i/3))} // three rows share a sort key
	}))
	c.waitForIndex(t, p, 12)
	seen := map[string]bool{}
	c.pages(t, c.dueQuery(p, limited(5)), 10, func(out *dynamodb.QueryOutput) {
		for _, row := range out.Items {
			seen[plain(row["sk"])] = true
			if _, err := c.update(t, p, plain(row["sk"]), "REMOVE gpk", nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	if len(seen) != 12 {
		t.Errorf("saw %d rows of 12", len(seen))
	}
}
