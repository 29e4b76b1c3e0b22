package conformance

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

func dynamoExpressions() []check[*dynamoSuite] {
	return []check[*dynamoSuite]{
		dynamoCheck("conditions: AND/OR/NOT/parens/IN/BETWEEN/size/contains/<>/nested path/no spaces", (*dynamoSuite).conditions),
		dynamoCheck("conditions on B / BOOL / NULL / list values (= and IN)", (*dynamoSuite).conditionsOnTypes),
		dynamoCheck("values containing AND / = / # / : survive in expressions", (*dynamoSuite).confusingValues),
		dynamoCheck("validation: reserved words refused (status, ttl, name, owner)", (*dynamoSuite).reservedWords),
		dynamoCheck("validation: unused/undefined names and values refused", (*dynamoSuite).placeholders),
		dynamoCheck("validation: type errors (ADD on string, arithmetic on absent, empty set, empty key)", (*dynamoSuite).typeErrors),
	}
}

func (c *dynamoSuite) conditions(t *testing.T) {
	p := name("p")
	row := rowOf(p, "b", "n", valueN(10), "s", valueS("hello"), "l", valueL(valueS("x"), valueS("y")),
		"m", valueM(attributes{"k": valueS("v")}), "ss", valueSS("p", "q"))
	must(c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &c.table, Item: row}))(t)
	for _, k := range []struct {
		condition string
		values    attributes
		want      bool
	}{
		{"n BETWEEN :a AND :b AND s = :h", attributes{":a": valueN(5), ":b": valueN(15), ":h": valueS("hello")}, true},
		{"n BETWEEN :a AND :b", attributes{":a": valueN(11), ":b": valueN(15)}, false},
		{"s IN (:a, :b)", attributes{":a": valueS("x"), ":b": valueS("hello")}, true},
		{"NOT (s = :a OR n > :b)", attributes{":a": valueS("x"), ":b": valueN(100)}, true},
		{"attribute_not_exists(lease) OR lease < :now", attributes{":now": valueN(1)}, true},
		{"attribute_exists(lease) AND lease < :now", attributes{":now": valueN(1)}, false},
		{"size(l) = :two", attributes{":two": valueN(2)}, true},
		{"size(s) > :two", attributes{":two": valueN(2)}, true},
		{"contains(s, :e)", attributes{":e": valueS("ell")}, true},
		{"contains(ss, :e)", attributes{":e": valueS("p")}, true},
		{"s <> :a", attributes{":a": valueS("x")}, true},
		{"nothere <> :a", attributes{":a": valueS("x")}, true},
		{"m.k = :v", attributes{":v": valueS("v")}, true},
		{"l[1] = :v", attributes{":v": valueS("y")}, true},
		{"n=:ten AND s=:h", attributes{":ten": valueN(10), ":h": valueS("hello")}, true},
		{"n>=:ten and s=:h", attributes{":ten": valueN("10.0"), ":h": valueS("hello")}, true},
		{"attribute_type(n, :t)", attributes{":t": valueS("N")}, true},
		{"n > :nine", attributes{":nine": valueN(9)}, true},
		{"begins_with(s, :p) AND NOT attribute_exists(zz)", attributes{":p": valueS("he")}, true},
		{"(n = :ten) AND ((s = :h) OR (s = :p))", attributes{":ten": valueN(10), ":h": valueS("q"), ":p": valueS("hello")}, true},
		{"s = :a OR n = :ten AND s = :z", attributes{":a": valueS("hello"), ":ten": valueN(10), ":z": valueS("z")}, true},
		{"n = :s", attributes{":s": valueS("10")}, false},
		{"n < :s", attributes{":s": valueS("99")}, false},
	} {
		_, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: &c.table, Item: row, ConditionExpression: &k.condition, ExpressionAttributeValues: k.values,
		})
		if err != nil {
			wantCode(t, err, "ConditionalCheckFailedException")
		}
		if (err == nil) != k.want {
			t.Errorf("%q holds: %v, want %v", k.condition, err == nil, k.want)
		}
	}
}

func (c *dynamoSuite) conditionsOnTypes(t *testing.T) {
	p := name("p")
	c.put(t, p, "b", "h", valueB([]byte{1, 2}), "f", valueBool(true), "l", valueL(valueN("1.0")), "ss", valueSS("a", "b"))
	values := attributes{":x": valueS("1"), ":h": valueB([]byte{1, 2}), ":f": valueBool(true), ":l": valueL(valueN(1)), ":ss": valueSS("b", "a")}
	if _, err := c.update(t, p, "b", "SET x = :x", values, onlyIf("h = :h AND f = :f AND l = :l AND ss = :ss")); err != nil {
		t.Error(err)
	}
	values = attributes{":x": valueS("1"), ":a": valueB([]byte{1}), ":h": valueB([]byte{1, 2})}
	if _, err := c.update(t, p, "b", "SET x = :x", values, onlyIf("h IN (:a, :h) AND h > :a")); err != nil {
		t.Error(err)
	}
}

func (c *dynamoSuite) confusingValues(t *testing.T) {
	p := name("p") + " AND b = :c"
	c.put(t, p, "s #x", "attr-with-dash", valueS("1"))
	out := must(c.Query(t.Context(), &dynamodb.QueryInput{
		TableName: &c.table, KeyConditionExpression: aws.String("#p = :p AND #s = :s"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeNames:  namesOf("#p", "pk", "#s", "sk"),
		ExpressionAttributeValues: attributes{":p": valueS(p), ":s": valueS("s #x")},
	}))(t)
	if len(out.Items) != 1 {
		t.Errorf("%d rows", len(out.Items))
	}
	row, err := c.update(t, p, "s #x", "SET #d = :v, #dot = :v", attributes{":v": valueS("2"), ":o": valueS("1")},
		onlyIf("#d = :o"), named("#d", "attr-with-dash", "#dot", "a.b"))
	if err != nil || plain(row["attr-with-dash"]) != "2" || plain(row["a.b"]) != "2" {
		t.Errorf("%v, %v", row, err)
	}
}

func (c *dynamoSuite) reservedWords(t *testing.T) {
	for _, word := range []string{"status", "ttl", "name", "owner", "count", "region", "state", "key", "Status"} {
		_, err := c.update(t, name("p"), "1", "SET "+word+" = :v", placeholder(valueS("1")))
		wantCode(t, err, "ValidationException")
	}
}

func (c *dynamoSuite) placeholders(t *testing.T) {
	for what, in := range map[string]dynamodb.UpdateItemInput{
		"unused value":     {UpdateExpression: aws.String("SET x = :v"), ExpressionAttributeValues: attributes{":v": valueS("1"), ":unused": valueS("2")}},
		"unused name":      {UpdateExpression: aws.String("SET x = :v"), ExpressionAttributeNames: namesOf("#u", "u")},
		"undefined value":  {UpdateExpression: aws.String("SET x = :nope")},
		"undefined name":   {UpdateExpression: aws.String("SET #nope = :v")},
		"syntax error":     {UpdateExpression: aws.String("SET x = :v x2 = :v")},
		"overlap":          {UpdateExpression: aws.String("SET x = :v ADD x :v"), ExpressionAttributeValues: placeholder(valueN(1))},
		"overlap inside":   {UpdateExpression: aws.String("SET x = :v, x.y = :v")},
		"unknown function": {UpdateExpression: aws.String("SET x = :v"), ConditionExpression: aws.String("bogus_fn(x)")},
		"trailing words":   {UpdateExpression: aws.String("SET x = :v"), ConditionExpression: aws.String("x = :v trailing")},
		"empty expression": {UpdateExpression: aws.String("")},
		"two SETs":         {UpdateExpression: aws.String("SET x = :v SET y = :v")},
	} {
		t.Run(what, func(t *testing.T) {
			in.TableName, in.Key = &c.table, keyOf(name("p"), "1")
			if in.ExpressionAttributeValues == nil {
				in.ExpressionAttributeValues = placeholder(valueS("1"))
			}
			_, err := c.UpdateItem(t.Context(), &in)
			wantCode(t, err, "ValidationException")
		})
	}
}

func (c *dynamoSuite) typeErrors(t *testing.T) {
	p := name("p")
	c.put(t, p, "1", "s", valueS("x"))
	for expression, v := range map[string]attribute{
		"ADD s :v":             valueN(1),
		"ADD s :v ":            valueS("x"),
		"SET z = nothere + :v": valueN(1),
		"SET z = s + :v":       valueN(1),
		"SET z = nothere":      nil,
		"SET sk = :v":          valueS("1"),
		"DELETE s :v":          valueSS("x"),
	} {
		var values attributes
		if v != nil {
			values = placeholder(v)
		}
		if _, err := c.update(t, p, "1", expression, values); err == nil {
			t.Errorf("%q was accepted", expression)
		} else {
			wantCode(t, err, "ValidationException")
		}
	}
	for what, row := range map[string]attributes{
		"empty key":      keyOf("", "1"),
		"wrong key type": {"pk": valueN(1), "sk": valueS("x")},
		"no sort key":    {"pk": valueS("1")},
		"empty set":      rowOf(p, "1", "e", valueSS()),
		"set with twins": rowOf(p, "1", "e", valueSS("a", "a")),
		"index key type": rowOf(p, "1", "gpk", valueN(1)),
	} {
		if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &c.table, Item: row}); err == nil {
			t.Errorf("%s was accepted", what)
		} else {
			wantCode(t, err, "ValidationException")
		}
	}
}
