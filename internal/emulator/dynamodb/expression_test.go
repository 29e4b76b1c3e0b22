package dynamodb

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/expunge-aws/expunge/internal/emulator/wire"
)

// sample is an item, and the placeholders of expressions about it.
const (
	sample = `{"n":{"N":"10"},"s":{"S":"hello"},"b":{"B":"AQI="},"f":{"BOOL":true},"z":{"NULL":true},
		"l":{"L":[{"S":"l0"},{"M":{"x":{"N":"1"}}},{"S":"l2"}]},"m":{"M":{"k":{"S":"v"},"deep":{"M":{"x":{"N":"5"}}}}},
		"ss":{"SS":["p","q"]},"ns":{"NS":["1","2"]},"bs":{"BS":["AQ==","Ag=="]}}`
	sampleNames  = `{"#n":"n","#st":"status","#d":"a.b"}`
	sampleValues = `{":s":{"S":"hello"},":n":{"N":"10"},":one":{"N":"1"},":b":{"B":"AQI="},":f":{"BOOL":true},":l":{"L":[{"S":"new"}]},
		":ss":{"SS":["q","r"]},":ns":{"NS":["2.0","3"]},":m":{"M":{}},":t":{"S":"N"},":empty":{"L":[]}}`
)

func decoded[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func sampleScope(t testing.TB) *scope {
	s, problem := newScope(decoded[map[string]string](t, sampleNames), decoded[item](t, sampleValues), true)
	if problem != nil {
		t.Fatal(problem)
	}
	return s
}

func encoded(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestConditions(t *testing.T) {
	it := decoded[item](t, sample)
	for condition, want := range map[string]bool{
		"n = :n": true, "(n) = (:n)": true, "n <> :n": false, ":n = n": true, "n = s": false, "n <> s": true, "n < s": false,
		"attribute_exists(m.deep.x)": true, "attribute_exists(m.k.x)": false, "attribute_exists(l[1].x)": true, "attribute_exists(l[9])": false,
		"attribute_not_exists(l[1].y)": true, "attribute_exists(#st)": false, "attribute_exists(#d)": false,
		"size(s) = :one": false, "size(ss) > size(#d)": false, "size(m) > :one AND size(b) > :one AND size(bs) > size(z)": false,
		"contains(l, :s)": false, "contains(ns, :one)": true, "contains(b, :b)": true, "contains(n, :one)": false, "contains(s, :n)": false,
		"begins_with(b, :b)": true, "begins_with(n, :s)": false, "begins_with(s, n)": false,
		"NOT n = :n": false, "NOT NOT n = :n": true, "NOT n = :n OR n = :n": true, "n = :one AND n = :n OR s = :s": true, "n = :one AND (n = :n OR s = :s)": false,
		"n BETWEEN :one AND :n": true, "s BETWEEN :one AND :n": false, "n IN (:one, s, :n)": true, "n in (:one)": false,
		"ss = :ss": false, "z = z2": false, "f = :f": true, "attribute_type(n, :t)": true, "attribute_type(s, :t)": false,
	} {
		c, problem := sampleScope(t).condition("ConditionExpression", &condition)
		if problem != nil {
			t.Errorf("%q: %v", condition, problem)
			continue
		}
		if got := c.holds(it); got != want {
			t.Errorf("%q holds: %v, want %v", condition, got, want)
		}
		c.holds(nil) // of no item at all
	}
}

// TestRefusedExpressions gives DynamoDB's own words for what is wrong.
func TestRefusedExpressions(t *testing.T) {
	parse := map[string]func(s *scope, text *string) *wire.Error{
		"ConditionExpression": func(s *scope, text *string) *wire.Error {
			_, problem := s.condition("ConditionExpression", text)
			return problem
		},
		"UpdateExpression":       func(s *scope, text *string) *wire.Error { _, problem := s.update(text); return problem },
		"ProjectionExpression":   func(s *scope, text *string) *wire.Error { _, problem := s.projection(text); return problem },
		"KeyConditionExpression": func(s *scope, text *string) *wire.Error { _, problem := s.keyTests(text); return problem },
	}
	for _, k := range []struct{ title, text, want string }{
		{"ConditionExpression", "", "The expression can not be empty;"},
		{"ConditionExpression", " ", "The expression can not be empty;"},
		{"ConditionExpression", strings.Repeat("a", 4097), "Expression size has exceeded the maximum allowed size; expression size: 4097"},
		{"ConditionExpression", "n = ", `Syntax error; token: "<EOF>", near: "="`},
		{"ConditionExpression", "n == :n", `Syntax error; token: "=", near: "== :n"`},
		{"ConditionExpression", "n = :n x", `Syntax error; token: "x", near: ":n x"`},
		{"ConditionExpression", "n = :n)", `Syntax error; token: ")", near: ":n)"`},
		{"ConditionExpression", "(n = :n", `Syntax error; token: "<EOF>"`},
		{"ConditionExpression", "n = :n $ s", `Syntax error; token: "$", near: ":n $ s"`},
		{"ConditionExpression", "n ! :n", `Syntax error; token: "!"`},
		{"ConditionExpression", "l[x] = :n", `Syntax error; token: "x", near: "[x]"`},
		{"ConditionExpression", "l[-1] = :n", `Syntax error; token: "-"`},
		{"ConditionExpression", "1n = :n", `Syntax error; token: "1n"`},
		{"ConditionExpression", "n", `Syntax error; token: "<EOF>"`},
		{"ConditionExpression", "((n = :n))", "The expression has redundant parentheses;"},
		{"ConditionExpression", "Status = :n", "Attribute name is a reserved keyword; reserved keyword: Status"},
		{"ConditionExpression", "m.key = :n", "Attribute name is a reserved keyword; reserved keyword: key"},
		{"ConditionExpression", "#nope = :n", "An expression attribute name used in the document path is not defined; attribute name: #nope"},
		{"ConditionExpression", "n = :nope", "An expression attribute value used in expression is not defined; attribute value: :nope"},
		{"ConditionExpression", "bogus(n)", "Invalid function name; function: bogus"},
		{"ConditionExpression", "n = bogus(n)", "Invalid function name; function: bogus"},
		{"ConditionExpression", "ATTRIBUTE_EXISTS(n)", "Invalid function name; function: ATTRIBUTE_EXISTS"},
		{"ConditionExpression", "n = contains(s, :s)", "The function is not allowed to be used this way in an expression; function: contains"},
		{"ConditionExpression", "attribute_exists(:n)", "Operator or function requires a document path; operator or function: attribute_exists"},
		{"ConditionExpression", "attribute_exists(n, s)", "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2"},
		{"ConditionExpression", "attribute_type(n, s)", "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}"},
		{"ConditionExpression", "attribute_type(n, :s)", "Invalid attribute type name found; type: hello, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
		{"ConditionExpression", "begins_with(s, :n)", "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
		{"ConditionExpression", "size(:n) = :n", "Incorrect operand type for operator or function; operator or function: size, operand type: N"},
		{"ConditionExpression", "f < :f", "Incorrect operand type for operator or function; operator or function: <, operand type: BOOL"},
		{"ConditionExpression", "n = n", "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [n]"},
		{"ConditionExpression", "n BETWEEN :n AND :one", "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:10}, upper bound operand: AttributeValue: {N:1}"},
		{"ConditionExpression", "n BETWEEN :n AND :s", "The BETWEEN operator requires same data type for lower and upper bounds;"},
		{"ConditionExpression", "n IN (" + strings.Repeat(":n,", 100) + ":n)", "The IN operator is provided with too many operands; number of operands: 101"},
		{"UpdateExpression", "n = :n", `Syntax error; token: "n", near: "n ="`},
		{"UpdateExpression", "SET n = :n SET s = :s", `The "SET" section can only be used once in an update expression;`},
		{"UpdateExpression", "SET n :n", `Syntax error; token: ":n", near: "n :n"`},
		{"UpdateExpression", "SET n = :n + :one - :one", `Syntax error; token: "-"`},
		{"UpdateExpression", "SET n = :n,", `Syntax error; token: "<EOF>"`},
		{"UpdateExpression", "ADD n s", `Syntax error; token: "s", near: "n s"`},
		{"UpdateExpression", "ADD n :s", "Incorrect operand type for operator or function; operator: ADD, operand type: STRING"},
		{"UpdateExpression", "DELETE n :n", "Incorrect operand type for operator or function; operator: DELETE, operand type: NUMBER"},
		{"UpdateExpression", "SET n = :s + :n", "Incorrect operand type for operator or function; operator or function: +, operand type: S"},
		{"UpdateExpression", "SET l = list_append(l, :n)", "Incorrect operand type for operator or function; operator or function: list_append, operand type: N"},
		{"UpdateExpression", "SET l = list_append(l)", "Incorrect number of operands for operator or function; operator or function: list_append, number of operands: 1"},
		{"UpdateExpression", "SET l = if_not_exists(:l, :l)", "Operator or function requires a document path; operator or function: if_not_exists"},
		{"UpdateExpression", "SET l = size(l)", "Invalid function name; function: size"},
		{"UpdateExpression", "SET m = :m, m.k = :s", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [m], path two: [m, k]"},
		{"UpdateExpression", "SET m.k = :s REMOVE m[0]", "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [m, k], path two: [m, [0]]"},
		{"ProjectionExpression", "n, n", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [n], path two: [n]"},
		{"ProjectionExpression", "n,", `Syntax error; token: "<EOF>"`},
		{"ProjectionExpression", ":n", `Syntax error; token: ":n"`},
		{"KeyConditionExpression", "n = :n AND", `Syntax error; token: "<EOF>"`},
		{"KeyConditionExpression", "n ~ :n", `Syntax error; token: "~"`},
	} {
		problem := parse[k.title](sampleScope(t), &k.text)
		if problem == nil || !strings.HasPrefix(problem.Message, "Invalid "+k.title+": "+k.want) || plainCode(problem) != "ValidationException" {
			t.Errorf("%.80q:\n got %v\nwant Invalid %s: %s", k.text, problem, k.title, k.want)
		}
	}
}

func TestUpdates(t *testing.T) {
	for expression, want := range map[string]string{
		"SET n = n + :one, s = n":                        `n=11 s=10`, // both see the item as it was
		"SET n = (n - :one), x = (n) + (:one)":           `n=9 x=11`,
		"SET x = if_not_exists(y, if_not_exists(n, :s))": `x=10`,
		"SET x = list_append(:l, l)":                     `x=[new l0 {x=1} l2]`,
		"SET l = list_append(:empty, l)":                 `l=[l0 {x=1} l2]`,
		"SET l[1].x = :s, l[0] = :n":                     `l=[10 {x=hello} l2]`,
		"SET l[9] = :s, l[7] = :n":                       `l=[l0 {x=1} l2 10 hello]`,
		"REMOVE l[0], l[2]":                              `l=[{x=1}]`,
		"REMOVE l[1].x, l[0], l[8]":                      `l=[{} l2]`,
		"SET m.deep.x = m.deep.x + :n REMOVE m.k":        `m={deep={x=15}}`,
		"ADD n :n, x :one, ss :ss, ns :ns":               `n=20 x=1 ss=<p q r> ns=<1 2 3>`,
		"DELETE ss :ss, ns :ns, y :ss":                   `ss=<p> ns=<1>`,
		"ADD m.deep.x :n, m.tags :ss":                    `m={deep={x=15} k=v tags=<q r>}`,
		"REMOVE nothere, s":                              `s=`,
		"SET #st = :f, #d = :b":                          `status=true a.b=AQI=`,
	} {
		t.Run(expression, func(t *testing.T) {
			old := decoded[item](t, sample)
			u, problem := sampleScope(t).update(&expression)
			if problem != nil {
				t.Fatal(problem)
			}
			got, problem := u.apply(old)
			if problem != nil {
				t.Fatal(problem)
			}
			for part := range strings.SplitSeq(splitTop(want), "\n") {
				name, shown, _ := strings.Cut(part, "=")
				if brief := show(t, got[name]); brief != shown {
					t.Errorf("%s is %s, want %s", name, brief, shown)
				}
			}
			if encoded(t, old) != encoded(t, decoded[item](t, sample)) {
				t.Error("the old item changed")
			}
		})
	}
}

// splitTop puts the parts of a want on lines: blanks inside brackets are theirs.
func splitTop(want string) string {
	depth := 0
	return strings.Map(func(r rune) rune {
		switch r {
		case '[', '{', '<':
			depth++
		case ']', '}', '>':
			depth--
		case ' ':
			if depth == 0 {
				return '\n'
			}
		}
		return r
	}, want)
}

// show writes a value briefly: [list], {map}, <set>.
func show(t *testing.T, v value) string {
	t.Helper()
	switch {
	case v.kind == kindList:
		parts := make([]string, len(v.list))
		for i, element := range v.list {
			parts[i] = show(t, element)
		}
		return "[" + strings.Join(parts, " ") + "]"
	case v.kind == kindMap:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v.fields)) {
			parts = append(parts, name+"="+show(t, v.fields[name]))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case v.kind.isSet():
		return "<" + strings.Join(v.set, " ") + ">"
	case v.kind == kindBool:
		return map[bool]string{true: "true", false: "false"}[v.truth]
	case v.kind == kindBinary:
		return string(appendBytes(nil, v.text)[1 : len(appendBytes(nil, v.text))-1])
	}
	return v.text
}

func TestUpdatesThatFail(t *testing.T) {
	for expression, want := range map[string]string{
		"SET x = nothere":              "The provided expression refers to an attribute that does not exist in the item",
		"SET x = n + s":                "An operand in the update expression has an incorrect data type",
		"SET x = list_append(l, s)":    "An operand in the update expression has an incorrect data type",
		"ADD s :n":                     "An operand in the update expression has an incorrect data type",
		"DELETE ns :ss":                "An operand in the update expression has an incorrect data type",
		"SET nothere.x = :n":           "The document path provided in the update expression is invalid for update",
		"SET s.x = :n":                 "The document path provided in the update expression is invalid for update",
		"SET m[0] = :n":                "The document path provided in the update expression is invalid for update",
		"SET l.x = :n":                 "The document path provided in the update expression is invalid for update",
		"SET m.k.x = :n":               "The document path provided in the update expression is invalid for update",
		"REMOVE nothere.x":             "The document path provided in the update expression is invalid for update",
		"SET x = if_not_exists(y, y2)": "The provided expression refers to an attribute that does not exist in the item",
	} {
		u, problem := sampleScope(t).update(&expression)
		if problem == nil {
			_, problem = u.apply(decoded[item](t, sample))
		}
		if problem == nil || problem.Message != want {
			t.Errorf("%q: %v, want %s", expression, problem, want)
		}
	}
}

func TestPlaceholdersOfARequest(t *testing.T) {
	for _, k := range []struct {
		names, values string
		given         bool
		want          string
	}{
		{`{"#a":"b"}`, `null`, false, "ExpressionAttributeNames can only be specified when using expressions"},
		{`null`, `{":a":{"S":"b"}}`, false, "ExpressionAttributeValues can only be specified when using expressions"},
		{`{}`, `null`, true, "ExpressionAttributeNames must not be empty"},
		{`null`, `{}`, true, "ExpressionAttributeValues must not be empty"},
		{`{"a":"b"}`, `null`, true, `ExpressionAttributeNames contains invalid key: Syntax error; key: "a"`},
		{`{"#":"b"}`, `null`, true, `ExpressionAttributeNames contains invalid key: Syntax error; key: "#"`},
		{`null`, `{":a-b":{"S":"b"}}`, true, `ExpressionAttributeValues contains invalid key: Syntax error; key: ":a-b"`},
		{`{"#b":"x","#a":"x"}`, `null`, true, "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a, #b}"},
		{`null`, `{":a":{"S":"b"}}`, true, "Value provided in ExpressionAttributeValues unused in expressions: keys: {:a}"},
	} {
		s, problem := newScope(decoded[map[string]string](t, k.names), decoded[item](t, k.values), k.given)
		if problem == nil {
			problem = s.finish()
		}
		if problem == nil || problem.Message != k.want {
			t.Errorf("%s %s: %v, want %s", k.names, k.values, problem, k.want)
		}
	}
}

func TestReservedWords(t *testing.T) {
	for _, word := range []string{"ABORT", "zone", "Status", "ttl"} {
		if !isReserved(word) {
			t.Errorf("%s is not reserved", word)
		}
	}
	for _, word := range []string{"pk", "gen", "", "ABORTS", "#status"} {
		if isReserved(word) {
			t.Errorf("%s is reserved", word)
		}
	}
}

// FuzzExpressions parses anything as each kind of expression and evaluates what
// parses: nothing may panic, and no evaluation may change the item.
func FuzzExpressions(f *testing.F) {
	for _, expression := range []string{
		"n = :n AND (s <> :s OR NOT contains(ss, :s))", "size(l[1].x) BETWEEN :one AND :n", "((n = :n))", "n IN (:n", "(((((",
		"SET l[0] = list_append(l, :l), n = n - :one REMOVE m.k, l[1] ADD ss :ss DELETE ns :ns", "SET m = if_not_exists(m.deep, :m)",
		"n, m.deep.x, l[2], #d", "n = :n AND begins_with(s, :s)", "n[99999999999999999999]", "#", ":", "\x00\xff é",
	} {
		f.Add(expression)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		it := decoded[item](t, sample)
		before := encoded(t, it)
		for _, of := range []item{it, {}} {
			if c, problem := sampleScope(t).condition("ConditionExpression", &expression); problem == nil {
				c.holds(of)
			}
			if u, problem := sampleScope(t).update(&expression); problem == nil {
				if after, problem := u.apply(of); problem == nil {
					encoded(t, after)
					after.size()
				}
			}
			if p, problem := sampleScope(t).projection(&expression); problem == nil {
				encoded(t, p.of(of))
			}
		}
		if tests, problem := sampleScope(t).keyTests(&expression); problem == nil {
			types := map[string]kind{"n": kindNumber, "s": kindString}
			if c, problem := (schema{hash: "n", sort: "s"}).over(tests, types); problem == nil {
				if s := c.span(); s.from > s.to && c.operator != "BETWEEN" {
					t.Errorf("%q: from %q to %q", expression, s.from, s.to)
				}
			}
		}
		if encoded(t, it) != before {
			t.Errorf("%q changed the item it was evaluated on", expression)
		}
	})
}
